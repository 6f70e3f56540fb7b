#pragma once

#include <stdio.h>

/* tap - results of a test program in the Test Anything Protocol.
 *
 *     int main(void)
 *     {
 *         ok(1 + 1 == 2, "sums work");
 *         return tap_done();
 *     }
 *
 * Each line leaves at once: a crash shows how far the program came (it has no
 * plan then, which is a failure), and a forked child repeats nothing.
 */
static unsigned tap_run, tap_failed;

#define ok(cond, ...) do {                                                \
    int ok_ = !!(cond);                                                   \
    tap_run++;                                                            \
    tap_failed += !ok_;                                                   \
    printf("%sok %u - ", ok_ ? "" : "not ", tap_run);                     \
    printf(__VA_ARGS__);                                                  \
    printf("\n");                                                         \
    if (!ok_)                                                             \
        printf("# %s:%d: %s\n", __FILE__, __LINE__, #cond);               \
    (void) fflush(stdout);                                                \
} while (0)

static inline int tap_done(void)
{
    printf("1..%u\n", tap_run);
    (void) fflush(stdout);
    return tap_failed ? 1 : 0;
}
