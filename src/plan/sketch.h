#pragma once

#include <jansson.h>
#include <stdint.h>

struct err;

/* sketch - how large were the last ones?
 *
 * A histogram with four buckets to the factor 2, from 64 ms to 2000 years:
 * of bounded size, good to about a tenth of a value at any scale, and easy to
 * ask "given that it is more than that".  Every value that is added takes a
 * little weight from those before it, so old ones fade.  Integers choose the
 * bucket: the same values give the same sketch on every machine.
 */
enum { SKETCH_BUCKETS = 160 };

struct sketch {
    float weight[SKETCH_BUCKETS];
    float total;                       /* sketch_total(); < 0: not summed up */
    uint32_t first, end;               /* no other has a weight */
};

/* A distribution made from sketches: shares that sum to 1. */
struct mix {
    double share[SKETCH_BUCKETS];
    uint32_t end;                      /* none from there on has a share */
    double above[SKETCH_BUCKETS];      /* mix_sum(): of each and those beyond */
};

/* `memory`: of so many values the oldest counts a third. */
void sketch_add(struct sketch *s, uint64_t value, float memory);
/* Of all weights: summed up when somebody asks, for many are added to more often
 * than asked about.
 */
float sketch_total(struct sketch *s);
/* ... of several, SKETCH_TOGETHER at most, in less time than one by one. */
enum { SKETCH_TOGETHER = 5 };
void sketch_totals(struct sketch *const *list, uint32_t n);
uint32_t sketch_bucket(uint64_t value);
uint64_t sketch_low(uint32_t bucket);              /* its least value */

/* Add `share` of the sketch, which is not empty, to the mix. */
void mix_add(struct mix *m, struct sketch *s, double share);
/* ... and the same to each bucket of a range. */
void mix_even(struct mix *m, uint32_t first, uint32_t end, double share);
/* All is added: from here on it may be asked. */
void mix_sum(struct mix *m);
/* The share of what is more than `than`. */
double mix_above(const struct mix *m, uint64_t than);
/* The quantile q of what is more than `than`; past all that the mix knows, as
 * many again are expected as there were: than / (1 - q).
 */
uint64_t mix_quantile(const struct mix *m, uint64_t than, double q);
void mix_quantiles(const struct mix *m, uint64_t than, const double *q,
                   uint32_t n, uint64_t *ret);     /* ... several */
/* [bucket, weight, bucket, weight, ...] of those that are not empty. */
json_t *sketch_to_json(const struct sketch *s);
int sketch_from_json(const json_t *j, struct sketch *ret, struct err *err);
