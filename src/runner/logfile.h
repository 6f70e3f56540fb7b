#pragma once

#include "runner/order.h"

#include <stddef.h>
#include <stdint.h>

struct err;

/* logfile - what a task prints, bounded: segments
 * DIR/logs/w12/3.0.GEN.EPOCH.log.OFFSET, each of half the bound and named by
 * the offset of its first byte; the two newest are kept.  Offsets count from
 * the first byte ever printed, so a follower never sees a byte twice, whatever
 * was let go meanwhile.  Who prints nothing leaves nothing.
 */
struct logfile {
    char *prefix;              /* owned */
    int fd;                    /* of the newest segment; -1 before any */
    uint64_t half;
    uint64_t start;            /* of the newest segment */
    uint64_t end;              /* bytes so far */
    uint64_t old;              /* of the segment before; start: none */
};

void logfile_init(struct logfile *f, const char *dir,
                  const struct lease_id *id, uint64_t bytes);
/* On failure (disk full) the bytes are gone; the log goes on when it can. */
int logfile_add(struct logfile *f, const void *p, size_t n, struct err *err);
void logfile_close(struct logfile *f);
/* Forget the logs of a key, all generations. */
int logfile_drop(const char *dir, const struct lease_key *key,
                 struct err *err);
