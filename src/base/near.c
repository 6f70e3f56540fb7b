#include "base/near.h"

#include <string.h>

enum { LONGEST = 64 };                 /* longer words are not compared */

static unsigned lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned) (c - 'A' + 'a')
                                : (unsigned char) c;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Three rows of the usual table: this one and the two before it. */
static unsigned distance(const char *a, size_t na, const char *b, size_t nb)
{
    unsigned rows[3][LONGEST + 1];

    for (size_t j = 0; j <= nb; j++)
        rows[0][j] = (unsigned) j;
    for (size_t i = 1; i <= na; i++) {
        unsigned *now = rows[i % 3];
        const unsigned *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];

        now[0] = (unsigned) i;
        for (size_t j = 1; j <= nb; j++) {
            unsigned differ = lower(a[i - 1]) != lower(b[j - 1]);

            now[j] = least(up[j - 1] + differ,
                           least(up[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]))
                now[j] = least(now[j], up2[j - 2] + 1);
        }
    }
    return rows[na % 3][nb];
}

void near_init(struct near *n, const char *word)
{
    *n = (struct near) {
        .word = word,
        .distance = (unsigned) (strlen(word) + 1) / 3 + 1,
    };
}

void near_try(struct near *n, const char *candidate)
{
    size_t a = strlen(n->word), b = strlen(candidate);
    unsigned d;

    if (a == 0 || a > LONGEST || b > LONGEST ||
        (a > b ? a - b : b - a) >= n->distance)
        return;
    d = distance(n->word, a, candidate, b);
    if (d < n->distance) {
        n->distance = d;
        n->best = candidate;
    }
}
