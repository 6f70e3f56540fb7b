#include "kube/backoff.h"

uint64_t backoff_next(struct backoff *b, uint64_t least_ms, uint64_t random)
{
    uint64_t ms = BACKOFF_MIN_MS;

    for (uint32_t i = 0; i < b->tries && ms < BACKOFF_MAX_MS; i++)
        ms *= 2;
    if (ms > BACKOFF_MAX_MS)
        ms = BACKOFF_MAX_MS;
    if (b->tries < UINT32_MAX)
        b->tries++;
    ms = ms / 2 + random % (ms / 2 + 1);
    /* Who is told to wait is not told to come first. */
    return ms > least_ms ? ms : least_ms + random % (BACKOFF_MIN_MS + 1);
}
