#pragma once

/* near - "did you mean": the word nearest to one that is not known.
 *
 * Swapped neighbours, and a wrong, a missing or a further letter each count
 * one; only words at most a third of their length away are near.
 */
struct near {
    const char *word;
    const char *best;                  /* NULL: none is near */
    unsigned distance;
};

void near_init(struct near *n, const char *word);
void near_try(struct near *n, const char *candidate);   /* borrowed */
