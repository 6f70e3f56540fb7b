#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;

/* logfile - what a task prints, bounded: segments log.OFFSET in its folder,
 * each of half the bound and named by the offset of its first byte; the two
 * newest are kept.  Offsets count from the first byte ever printed, so a
 * follower never sees a byte twice, whatever was let go meanwhile.
 */
struct logfile {
    const char *dir;           /* borrowed */
    int fd;                    /* of the newest segment; -1 before any */
    uint64_t half;
    uint64_t start;            /* of the newest segment */
    uint64_t end;              /* bytes so far */
    uint64_t old;              /* of the segment before; start: none */
};

void logfile_init(struct logfile *f, const char *dir, uint64_t bytes);
/* On failure (disk full) the bytes are gone; the log goes on when it can. */
int logfile_add(struct logfile *f, const void *p, size_t n, struct err *err);
void logfile_close(struct logfile *f);
