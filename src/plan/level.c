#include "base/err.h"
#include "plan/predict_int.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Whose turn is it, when nobody knows how long anybody runs?
 *
 * What has had the work a is worth its index: the best rate, over all ways to
 * go on until some work b, of ends to the work spent on them,
 *
 *     G(a) = max over b > a of  P(ends before b) / E(work spent before b),
 *
 * both given that a was not enough (Gittins).  Serving the highest index first
 * gives the least mean time to the end on one server, for any distribution.
 * 1/G is the work that one more end costs: that of a sort of task that has
 * always been short is small, that of one that has outlived its kind grows with
 * every hour.  Where the distribution has a heavy tail this is the rule of
 * least attained service with its thresholds learned; where ends are regular
 * it lets those near their end finish.
 *
 * A level is the logarithm of 1/G, two levels to the factor 2.  Giving way
 * costs, and the index is an estimate: who waits may ask one who runs to give
 * way only when it is PREDICT_GIVE_WAY levels ahead, that is when the turn
 * promises four times as many ends for the same work.  A distance and not a
 * grid of coarse levels: nobody gives way because he stands just beyond a line.
 *
 * A few dozen ends leave holes in a sketch, and before each lump behind a hole
 * the index would jump; so each end counts as one nearby as well.
 *
 * The levels of a key are worked out when it has learned something, from its
 * own sketch mixed with those of the coarser keys of the signature it was
 * learned with, and stay until then.  They are part of the row.  Asking is
 * looking up.
 */
enum { LEVEL_LAST = 95, LEVELS_TO_TWO = 2 };

/* Every end counts while there are few; then it is looked again when there are
 * a sixteenth more, and after 256 at the latest, as what is old fades.
 */
static bool due(const struct known *k)
{
    uint64_t more = k->ranked / 16;

    if (more > 256)
        more = 256;
    return k->work.end > 0 && k->seen >= k->ranked + (more > 1 ? more : 1);
}

/* As if every end had happened a bucket or two earlier or later, too. */
static void smooth(struct mix *m)
{
    static const double near[] = { 0.4, 0.24, 0.06 };    /* sums to 1 */
    struct mix from = *m;

    memset(m, 0, sizeof *m);
    for (int i = 0; i < SKETCH_BUCKETS; i++) {
        for (int d = -2; d <= 2; d++) {
            int at = i + d < 0 ? 0 : i + d;

            at = at < SKETCH_BUCKETS ? at : SKETCH_BUCKETS - 1;
            m->share[at] += from.share[i] * near[d < 0 ? -d : d];
        }
    }
}

/* 1/G at the beginning of each bucket, in device-ms.  At most all that are left
 * end, and what is spent only grows: once it is more, over all of them, than the
 * best so far, no later b is better.  (By a millionth more: rounding is far less.)
 */
static void cost_of_ends(const struct mix *m, double *cost)
{
    double above[SKETCH_BUCKETS + 1], spend[SKETCH_BUCKETS];

    above[SKETCH_BUCKETS] = 0;
    for (uint32_t i = SKETCH_BUCKETS; i-- > 0;) {
        double wide = (double) sketch_low(i + 1) - (double) sketch_low(i);

        above[i] = above[i + 1] + m->share[i];
        spend[i] = wide * (above[i] + above[i + 1]) / 2;
    }
    for (uint32_t a = 0; a < SKETCH_BUCKETS; a++) {
        double best = INFINITY, spent = 0;

        /* Past all that is known: what is left is as much as there was. */
        if (above[a] < 1e-12)
            best = (double) sketch_low(a);
        for (uint32_t b = a; b < SKETCH_BUCKETS && above[b] >= 1e-12 &&
                             spent <= best * above[a] * 1.000001; b++) {
            spent += spend[b];
            if (above[a] > above[b + 1]) {
                double each = spent / (above[a] - above[b + 1]);

                best = each < best ? each : best;
            }
        }
        cost[a] = best;
    }
}

static uint8_t level_of(double cost)
{
    double level = floor(log2(fmax(cost, 1) / 1000) * LEVELS_TO_TWO);

    return (uint8_t) fmin(fmax(level, 0), LEVEL_LAST);
}

double predict_cost(uint32_t level)
{
    return 1000 * exp2((double) level / LEVELS_TO_TWO);
}

void level_learn(struct predict *pr, const struct predict_sig *sig, int i)
{
    struct known *k = i < PREDICT_KEYS ? predict_find(pr, sig->key[i])
                                       : &pr->all;
    struct predict_sig coarse = { { 0 } };
    double cost[SKETCH_BUCKETS];
    struct mix m;

    if (!due(k))
        return;
    for (int n = i; n < PREDICT_KEYS; n++)
        coarse.key[n] = sig->key[n];
    predict_mix(pr, &coarse, true, &m);
    smooth(&m);
    cost_of_ends(&m, cost);
    for (uint32_t n = 0; n < SKETCH_BUCKETS; n++)
        k->level[n] = level_of(cost[n]);
    k->ranked = k->seen;
    pr->ranked++;
}

uint64_t predict_ranked(const struct predict *pr)
{
    return pr->ranked;
}

/* Before anything has ended: least attained service, from a second on. */
static uint8_t level_unknown(uint32_t bucket)
{
    return level_of((double) sketch_low(bucket));
}

static const struct known *ranked_key(const struct predict *pr,
                                      const struct predict_sig *sig)
{
    for (int i = 0; i < PREDICT_KEYS; i++) {
        const struct known *k =
            sig->key[i] ? predict_find(pr, sig->key[i]) : NULL;

        if (k && k->ranked > 0)
            return k;
    }
    return &pr->all;
}

uint32_t predict_level(const struct predict *pr, const struct predict_sig *sig,
                       uint64_t work, uint64_t *ret_until)
{
    const struct known *k = ranked_key(pr, sig);
    uint32_t at = sketch_bucket(work);
    uint8_t level = k->ranked ? k->level[at] : level_unknown(at);

    if (!ret_until)
        return level;
    *ret_until = UINT64_MAX;
    while (++at < SKETCH_BUCKETS) {
        if ((k->ranked ? k->level[at] : level_unknown(at)) == level)
            continue;
        *ret_until = sketch_low(at);
        break;
    }
    return level;
}

/* ---- rows ---- */

json_t *level_to_json(const struct known *k)
{
    json_t *j = json_array();

    for (uint32_t i = 0, n; k->ranked && i < SKETCH_BUCKETS; i += n) {
        for (n = 1; i + n < SKETCH_BUCKETS && k->level[i + n] == k->level[i];)
            n++;
        json_array_append_new(j, json_integer(k->level[i]));
        json_array_append_new(j, json_integer(n));
    }
    return j;
}

int level_from_json(const json_t *j, struct known *k, struct err *err)
{
    json_int_t filled = 0;

    for (size_t i = 0; i + 1 < json_array_size(j); i += 2) {
        json_int_t level = json_integer_value(json_array_get(j, i));
        json_int_t n = json_integer_value(json_array_get(j, i + 1));

        if (level < 0 || level > LEVEL_LAST || n < 1 ||
            n > SKETCH_BUCKETS - filled)
            return err_set(err, EINVAL, "run %zu: a level of 0 to %d and a "
                           "number of buckets expected", i / 2, LEVEL_LAST);
        memset(k->level + filled, (int) level, (size_t) n);
        filled += n;
    }
    if (filled != 0 && filled != SKETCH_BUCKETS)
        return err_set(err, EINVAL, "%d buckets expected", SKETCH_BUCKETS);
    k->ranked = filled ? k->seen : 0;
    return 0;
}
