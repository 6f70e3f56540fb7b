#include "base/buf.h"

#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The memory starts `skip` bytes before `data`, which makes taking a message
 * off the front cheap; the gap is closed when room is needed.
 */
static void close_gap(struct buf *b)
{
    if (!b->data || b->skip == 0)
        return;
    memmove(b->data - b->skip, b->data, b->len + 1);
    b->data -= b->skip;
    b->cap += b->skip;
    b->skip = 0;
}

/* Room for n more and the NUL; false when that passes the limit. */
static bool make_room(struct buf *b, size_t n)
{
    size_t need, cap;

    if (b->over || n > b->max || b->len > b->max - n) {
        b->over = true;
        return false;
    }
    need = b->len + n;
    if (b->data && need <= b->cap)
        return true;
    /* Worth it only when the gap pays for the copy. */
    if (b->skip >= b->len) {
        close_gap(b);
        if (b->data && need <= b->cap)
            return true;
    }
    close_gap(b);
    cap = b->cap < 32 ? 64 : b->cap * 2;
    if (cap < need)
        cap = need;
    if (cap > b->max)
        cap = b->max;
    b->data = mem_grow(b->data, cap + 1, 1);
    b->cap = cap;
    b->data[b->len] = '\0';
    return true;
}

void buf_free(struct buf *b)
{
    if (b->data)
        free(b->data - b->skip);
    *b = (struct buf) { .max = b->max };
}

void buf_clear(struct buf *b)
{
    buf_drop(b, b->len);
    b->over = false;
}

bool buf_add(struct buf *b, const void *p, size_t n)
{
    if (!make_room(b, n))
        return false;
    if (n)
        memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = '\0';
    return true;
}

bool buf_str(struct buf *b, const char *s)
{
    return buf_add(b, s, strlen(s));
}

bool buf_char(struct buf *b, char c)
{
    return buf_add(b, &c, 1);
}

bool buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) {
        b->over = true;
        return false;
    }
    if (!make_room(b, (size_t) n))
        return false;
    va_start(ap, fmt);
    (void) vsnprintf(b->data + b->len, (size_t) n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t) n;
    return true;
}

void buf_drop(struct buf *b, size_t n)
{
    assert(n <= b->len);
    if (!b->data)
        return;
    b->data += n;
    b->skip += n;
    b->len -= n;
    b->cap -= n;
    if (b->len == 0)
        close_gap(b);
}

char *buf_take(struct buf *b)
{
    char *text;

    if (!b->data)
        return mem_str("");
    close_gap(b);
    text = take(b->data);
    buf_free(b);
    return text;
}

const char *buf_text(const struct buf *b)
{
    return b->data ? b->data : "";
}
