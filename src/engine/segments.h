#pragma once

#include "engine/wire.h"

#include <stddef.h>
#include <stdint.h>

struct err;

/* segments - the files that a log is kept in: a prefix, and after it the offset
 * of the file's first byte, counted from the first byte ever printed.  The two
 * newest are kept; between them there may be a gap, where bytes were let go
 * before they came here.
 */
enum { SEGMENTS_MAX = 8 };

struct segments {
    uint64_t start[SEGMENTS_MAX];      /* of the newest, in order */
    size_t n;
};

/* "DIR/logs/w12/3.0.GEN.EPOCH.log."; caller owns. */
char *segments_prefix(const char *dir, const struct lease_key *key,
                      uint32_t gen, uint64_t epoch);
/* -ENOENT: there is none (yet). */
int segments_list(const char *prefix, struct segments *ret);
/* Open for writing at that offset, made if need be, also the folder it is in;
 * *ret_size is how long it is.  The descriptor, or -errno.
 */
int segments_open(const char *prefix, uint64_t start, uint64_t *ret_size);
void segments_remove(const char *prefix, uint64_t start);

/* Bytes from `offset` on, out of one segment: who wants more asks again from
 * there.  *ret_start is later than asked where older bytes are gone, and the
 * end where nothing is beyond.  -ENOENT: no log (yet).
 */
struct segments_part {
    uint64_t start;                    /* of what was read */
    size_t len;
    uint64_t end;                      /* of the log */
};
int segments_read(const char *prefix, uint64_t offset, void *buf, size_t size,
                  struct segments_part *ret);
