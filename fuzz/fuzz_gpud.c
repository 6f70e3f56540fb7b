#include "base/buf.h"
#include "base/err.h"
#include "gpu/ask.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* What a client may send to weir-gpud: bytes in pieces, cut into requests.
 * What is read has a kind and numbers in their ranges; what is not read has a
 * text.  A piece is as long as the first byte of the input says, so that frames
 * come in parts, too.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* False: the stream is beyond use. */
static bool check(struct buf *in)
{
    struct err err = { 0 };
    struct ask a = { .kind = ASK_KIND_COUNT };
    int rc;

    while ((rc = ask_next(in, &a, &err)) != 0) {
        if (rc < 0 && !err.text[0])
            abort();
        if (rc < 0 && rc != -EBADMSG)
            return false;
        if (rc > 0 && (a.kind >= ASK_KIND_COUNT || a.v < 1 ||
                       a.every_ms < ASK_EVERY_MIN_MS ||
                       a.every_ms > ASK_EVERY_MAX_MS))
            abort();
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf in = ASK_IN_INIT;
    size_t step = size ? data[0] + 1u : 1;

    for (size_t at = 1, n; at < size; at += n) {
        size_t room = in.max - in.len;

        n = size - at < step ? size - at : step;
        n = n < room ? n : room;       /* as the daemon reads */
        if (n == 0 || !buf_add(&in, data + at, n))
            abort();                   /* a whole request always fits */
        if (!check(&in))
            break;
    }
    buf_free(&in);
    return 0;
}
