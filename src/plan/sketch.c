#include "plan/sketch.h"

#include "base/err.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { FIRST_BITS = 6 };               /* bucket 0: all below 64 */

uint32_t sketch_bucket(uint64_t value)
{
    uint32_t bits, bucket;

    if (value < 1U << FIRST_BITS)
        return 0;
    bits = 63 - (uint32_t) __builtin_clzll(value);
    bucket = 1 + (bits - FIRST_BITS) * 4 +
             (uint32_t) ((value >> (bits - 2)) & 3);
    return bucket < SKETCH_BUCKETS ? bucket : SKETCH_BUCKETS - 1;
}

uint64_t sketch_low(uint32_t bucket)
{
    if (bucket == 0)
        return 0;
    return (uint64_t) (4 + (bucket - 1) % 4)
           << ((bucket - 1) / 4 + FIRST_BITS - 2);
}

static void widen(struct sketch *s, uint32_t bucket)
{
    if (s->end == 0 || bucket < s->first)
        s->first = bucket;
    if (bucket >= s->end)
        s->end = bucket + 1;
}

void sketch_add(struct sketch *s, uint64_t value, float memory)
{
    float fade = 1 - 1 / memory;
    uint32_t bucket = sketch_bucket(value);

    widen(s, bucket);
    for (uint32_t i = s->first; i < s->end; i++)
        s->weight[i] *= fade;
    s->weight[bucket] += 1;
    s->total = -1;
}

float sketch_total(struct sketch *s)
{
    float total = 0;

    if (s->total >= 0)
        return s->total;
    for (uint32_t i = s->first; i < s->end; i++)
        total += s->weight[i];
    s->total = total;
    return total;
}

/* One addition waits for the one before it, so several sums take turns.  What a
 * sketch has outside its own range is 0, which adds nothing.
 */
void sketch_totals(struct sketch *const *list, uint32_t n)
{
    const struct sketch *due[SKETCH_TOGETHER];
    float total[SKETCH_TOGETHER] = { 0 };
    uint32_t first = SKETCH_BUCKETS, end = 0;

    for (uint32_t k = 0; k < SKETCH_TOGETHER; k++) {
        due[k] = list[k < n ? k : 0];
        first = due[k]->first < first ? due[k]->first : first;
        end = due[k]->end > end ? due[k]->end : end;
    }
    for (uint32_t i = first; i < end; i++)
        for (uint32_t k = 0; k < SKETCH_TOGETHER; k++)
            total[k] += due[k]->weight[i];
    for (uint32_t k = 0; k < n; k++)
        list[k]->total = total[k];
}

void mix_add(struct mix *m, struct sketch *s, double share)
{
    double each = share / (double) sketch_total(s);

    for (uint32_t i = s->first; i < s->end; i++)
        m->share[i] += each * (double) s->weight[i];
    if (s->end > m->end)
        m->end = s->end;
}

void mix_even(struct mix *m, uint32_t first, uint32_t end, double share)
{
    for (uint32_t i = first; i < end; i++)
        m->share[i] += share / (end - first);
    if (end > m->end)
        m->end = end;
}

/* How much of a bucket's width lies above the value, 0 to 1. */
static double part_above(uint32_t bucket, uint64_t than)
{
    double low = (double) sketch_low(bucket);
    double high = (double) sketch_low(bucket + 1);

    if ((double) than <= low)
        return 1;
    return (double) than >= high ? 0 : (high - (double) than) / (high - low);
}

/* From the far end: the small ones are not lost beside the large ones. */
void mix_sum(struct mix *m)
{
    double sum = 0;

    for (uint32_t i = m->end; i-- > 0;)
        m->above[i] = sum += m->share[i];
}

double mix_above(const struct mix *m, uint64_t than)
{
    uint32_t first = sketch_bucket(than);
    double rest = first + 1 < m->end ? m->above[first + 1] : 0;

    return rest + m->share[first] * part_above(first, than);
}

static uint64_t quantile(const struct mix *m, uint64_t than, double above,
                         double q)
{
    uint32_t i = sketch_bucket(than);
    uint32_t at = i;
    double left = above * q, from, high;
    double here = m->share[i] * part_above(i, than);

    if (left <= 0)
        return (uint64_t) fmin((double) than / (1 - q), 9e18);
    while (here < left) {
        left -= here;
        if (++i == SKETCH_BUCKETS)
            return sketch_low(SKETCH_BUCKETS);     /* by rounding alone */
        here = m->share[i];
    }
    from = i == at ? (double) than : (double) sketch_low(i);
    high = (double) sketch_low(i + 1);
    return (uint64_t) (from + (high - from) * (left / here));
}

void mix_quantiles(const struct mix *m, uint64_t than, const double *q,
                   uint32_t n, uint64_t *ret)
{
    double above = mix_above(m, than);

    for (uint32_t k = 0; k < n; k++)
        ret[k] = quantile(m, than, above, q[k]);
}

uint64_t mix_quantile(const struct mix *m, uint64_t than, double q)
{
    return quantile(m, than, mix_above(m, than), q);
}

json_t *sketch_to_json(const struct sketch *s)
{
    json_t *j = json_array();

    for (uint32_t i = 0; i < SKETCH_BUCKETS; i++) {
        if (s->weight[i] <= 0)
            continue;
        json_array_append_new(j, json_integer(i));
        json_array_append_new(j, json_real((double) s->weight[i]));
    }
    return j;
}

int sketch_from_json(const json_t *j, struct sketch *ret, struct err *err)
{
    struct sketch s = { .total = -1 };

    if (!json_is_array(j) || json_array_size(j) % 2 != 0)
        return err_set(err, EINVAL, "a list of buckets and weights expected");
    for (size_t i = 0; i < json_array_size(j); i += 2) {
        json_int_t at = json_integer_value(json_array_get(j, i));
        double weight = json_number_value(json_array_get(j, i + 1));

        if (!json_is_integer(json_array_get(j, i)) || at < 0 ||
            at >= SKETCH_BUCKETS)
            return err_set(err, EINVAL, "bucket %zu: 0 to %d expected", i / 2,
                           SKETCH_BUCKETS - 1);
        if (!(weight > 0 && weight <= 1e6))
            return err_set(err, EINVAL, "weight %zu: a number above 0 and at "
                           "most 1e6 expected", i / 2);
        s.weight[at] = (float) weight;
        widen(&s, (uint32_t) at);
    }
    memcpy(ret, &s, sizeof s);
    return 0;
}
