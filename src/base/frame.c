#include "base/frame.h"

#include "base/err.h"

#include <errno.h>

enum { HEAD = 4 };

void frame_add(struct buf *out, const void *body, size_t len)
{
    unsigned char head[HEAD];
    size_t room = out->max - out->len;

    /* Whole or not at all: half a frame would poison the stream. */
    if (len == 0 || len > FRAME_MAX || room < HEAD || len > room - HEAD) {
        out->over = true;
        return;
    }
    for (unsigned i = 0; i < HEAD; i++)
        head[i] = (unsigned char) (len >> (8 * i));
    (void) buf_add(out, head, HEAD);
    (void) buf_add(out, body, len);
}

int frame_next(const struct buf *in, const char **ret_body, size_t *ret_len,
               struct err *err)
{
    size_t len = 0;

    if (in->len < HEAD)
        return 0;
    for (unsigned i = 0; i < HEAD; i++)
        len |= (size_t) (unsigned char) in->data[i] << (8 * i);
    if (len == 0)
        return err_set(err, EPROTO, "a frame of no bytes");
    if (len > FRAME_MAX || len > in->max - HEAD)
        return err_set(err, EMSGSIZE,
                       "a frame of %zu bytes is longer than allowed", len);
    if (in->len - HEAD < len)
        return 0;
    *ret_body = in->data + HEAD;
    *ret_len = len;
    return 1;
}
