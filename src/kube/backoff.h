#pragma once

#include <stdint.h>

/* backoff - how long to wait before the next try.
 *
 * From BACKOFF_MIN_MS on twice as long each time, up to BACKOFF_MAX_MS; of that
 * a random part between a half and the whole, so that many who lost the same
 * server do not come back at the same instant.
 */
enum { BACKOFF_MIN_MS = 200, BACKOFF_MAX_MS = 30000 };

struct backoff {
    uint32_t tries;                    /* in vain, in a row */
};

/* The wait after one more try in vain, but at least `least_ms`, which is what
 * the other side asked for.  `random` is any number, the jitter.
 */
uint64_t backoff_next(struct backoff *b, uint64_t least_ms, uint64_t random);

static inline void backoff_reset(struct backoff *b)
{
    b->tries = 0;
}
