#pragma once

#include "base/frame.h"
#include "engine/wire.h"

#include <stddef.h>

struct err;

/* stream - the wire's messages over a connected, non-blocking socket: what
 * home and runner have in common.  When to write and whom to cut off is theirs
 * to say.
 */
enum { STREAM_READ_SIZE = 64 * 1024 };

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
int stream_write(int fd, struct buf *out, size_t *ret_took);
/* Read once.  1: something came, 0: nothing now, -EPIPE: the peer hung up. */
int stream_read(int fd, struct buf *in, struct err *err);
/* Take the next message out of `in`.  1: *ret is it, wire_clear when done; 0:
 * more is needed; -ENOTSUP: a kind that is not known here was passed over;
 * else the stream is beyond use.
 */
int stream_next(struct buf *in, struct wire_msg *ret, struct err *err);
