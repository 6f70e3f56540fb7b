#pragma once

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

struct err;

/* frame - messages on a stream: 4 bytes length, little-endian, then that many
 * bytes of JSON.  The length is checked against FRAME_MAX before any memory.
 */
enum { FRAME_MAX = 16 * 1024 * 1024 };

void frame_add(struct buf *out, const void *body, size_t len);

/* Look for a whole frame at the start of `in`.  1: *ret_body points into `in`,
 * *ret_len is its length, drop *ret_len + 4 when done; 0: more is needed;
 * -EMSGSIZE or -EPROTO: this stream is beyond use.
 */
int frame_next(const struct buf *in, const char **ret_body, size_t *ret_len,
               struct err *err);
