#pragma once

#include "base/frame.h"
#include "engine/wire.h"

#include <stddef.h>

struct err;
struct tls;

/* stream - the wire's messages over a connected, non-blocking socket, as they
 * are or through TLS: what home and runner have in common.  When to write and
 * whom to cut off is theirs to say.
 */
enum { STREAM_READ_SIZE = 64 * 1024, STREAM_SHORT = 16 * 1024 };

/* Both are owned.  With `tls` there is a handshake before anything else. */
struct stream {
    int fd;                            /* -1: none */
    struct tls *tls;                   /* NULL: plain */
};
#define STREAM_NONE { .fd = -1 }

void stream_close(struct stream *s);               /* NONE is fine, and left */
/* 1: messages may go, 0: not yet, else -errno. */
int stream_shake(struct stream *s, struct err *err);
/* What to watch it for, in the loop's words; `more`: something waits to be
 * written.  To be asked again after each of the others.
 */
unsigned stream_wants(const struct stream *s, bool more);

/* Of a buffer that is read into: one whole frame and one more read. */
#define STREAM_IN_INIT BUF_INIT(FRAME_MAX + 4 + STREAM_READ_SIZE)

/* Queue a message unless `out` would then hold more than `max` bytes:
 * -ENOBUFS.  -EMSGSIZE: longer than a frame may be.  No effect on failure.
 */
int stream_put(struct buf *out, const struct wire_msg *m, size_t max,
               struct err *err);
/* Write what the socket takes.  1: all of it, 0: it takes no more now, else
 * -errno.  *ret_took, which may be NULL, is how many bytes it took anyhow.
 */
int stream_write(struct stream *s, struct buf *out, size_t *ret_took);
/* Read once.  1: something came, 0: nothing now, -EPIPE: the peer hung up. */
int stream_read(struct stream *s, struct buf *in, struct err *err);
/* Take the next message out of `in`.  1: *ret is it, wire_clear when done; 0:
 * more is needed; -ENOTSUP: a kind that is not known here was passed over;
 * else the stream is beyond use.
 */
int stream_next(struct buf *in, struct wire_msg *ret, struct err *err);
/* Of a first message of more than STREAM_SHORT bytes that is there whole: *ret is
 * a hello without its leases, and `in` is as it was.  1: so it is; 0: it is not
 * there, or short; else -errno: it is no such hello.
 */
int stream_head(const struct buf *in, struct wire_msg *ret, struct err *err);
