#pragma once

#include "base/buf.h"

#include <stddef.h>

/* sse - server-sent events out of a stream of bytes, however it is cut.
 *
 * Lines end with LF or CR LF.  Comments are skipped.  `id` stays in force until
 * the next one, as the standard has it.  A message past SSE_MAX ends the
 * stream.
 */
enum { SSE_MAX = 16 * 1024 * 1024 };

struct sse {
    struct buf line, data, id, event;
    void (*on_message)(const char *id, const char *event, const char *data,
                       size_t len, void *arg);
    void *arg;
};

void sse_init(struct sse *s,
              void (*on_message)(const char *id, const char *event,
                                 const char *data, size_t len, void *arg),
              void *arg);
void sse_free(struct sse *s);
int sse_feed(struct sse *s, const char *p, size_t n);    /* -EMSGSIZE */
