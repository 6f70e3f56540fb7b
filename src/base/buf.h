#pragma once

#include <stdbool.h>
#include <stddef.h>

/* buf - bytes that grow up to a limit set when the buffer is made.
 *
 * What would pass the limit is not added, nor is anything after it, and `over`
 * stays set: a writer may add piece by piece and look once at the end.  The
 * bytes are always followed by a NUL that is not counted.
 */
struct buf {
    char *data;
    size_t len, cap, max;
    size_t skip;       /* memory before `data`: what was dropped */
    bool over;
};

#define autobuf cleanup(buf_free)
#define BUF_INIT(limit) { .max = (limit) }

void buf_free(struct buf *b);                      /* empty and usable again */
void buf_clear(struct buf *b);                     /* keeps the memory */
bool buf_add(struct buf *b, const void *p, size_t n);
bool buf_str(struct buf *b, const char *s);
bool buf_char(struct buf *b, char c);
bool buf_printf(struct buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void buf_drop(struct buf *b, size_t n);            /* n bytes off the front */
char *buf_take(struct buf *b);                    /* caller frees; not NULL */
const char *buf_text(const struct buf *b);         /* "" when empty */
