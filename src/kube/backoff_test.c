#include "kube/backoff.h"

#include "base/random.h"
#include "base/tap.h"

#include <stdbool.h>

int main(void)
{
    struct backoff b = { 0 };
    uint64_t state = 7, whole = BACKOFF_MIN_MS, least, most;
    bool within = true, differ = false;

    for (int i = 0; i < 100; i++) {
        uint64_t ms = backoff_next(&b, 0, random_next(&state));

        within = within && ms >= whole / 2 && ms <= whole;
        whole = whole * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : whole * 2;
    }
    ok(within, "twice as long each time, at most %d ms", BACKOFF_MAX_MS);
    backoff_reset(&b);
    least = most = backoff_next(&b, 0, 0);
    for (int i = 0; i < 100; i++) {
        struct backoff fresh = { 0 };
        uint64_t ms = backoff_next(&fresh, 0, random_next(&state));

        differ = differ || ms != least;
        least = ms < least ? ms : least;
        most = ms > most ? ms : most;
    }
    ok(least >= BACKOFF_MIN_MS / 2 && most <= BACKOFF_MIN_MS,
       "from the start again, never at once");
    ok(differ, "with jitter");
    backoff_reset(&b);
    ok(backoff_next(&b, 60000, 0) >= 60000 &&
       backoff_next(&b, 60000, UINT64_MAX) <= 60000 + BACKOFF_MIN_MS,
       "not before the other side wants it");
    b.tries = UINT32_MAX;
    ok(backoff_next(&b, 0, 0) == BACKOFF_MAX_MS / 2 && b.tries == UINT32_MAX,
       "does not wrap");
    return tap_done();
}
