#include "plan/predict_int.h"

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

/* Each key of a signature, and "anything", has a sketch of the run times and
 * one of the work of what ended.  A question mixes them: a key that has seen n
 * ends answers with the weight n / (n + 1) of what finer ones left over, so one
 * end counts as much as all that is coarser, and ten far more.  What even
 * "anything" leaves over goes to a guess without knowledge: between a second
 * and 12 days, every factor as likely as the next.  Then the age cuts off what
 * did not happen, which also takes weight from keys that expected less.
 */
enum { UNKNOWN_LOW_MS = 1000, UNKNOWN_HIGH_MS = 1 << 30 };

/* What a key remembers.  A key is about one sort of task, which changes as
 * people change it; anything at all changes slowly, and its tail matters.
 */
static const float MEMORY_KEY = 32, MEMORY_ALL = 1024;

static bool older(const void *a, const void *b)
{
    const struct known *x = a, *y = b;

    return x->turn != y->turn ? x->turn < y->turn : x->key < y->key;
}

static uint32_t *slot_of(void *item)
{
    return &((struct known *) item)->slot;
}

struct predict *predict_new(void)
{
    struct predict *pr = mem_new(sizeof *pr);

    pr->by_key = map_new();
    pr->version = 1;
    pr->memo = mem_array(PREDICT_MEMO, sizeof *pr->memo);
    pr->late = mem_array(LATE_MASK + 1, sizeof(struct known *));
    pr->oldest.before = older;
    pr->oldest.slot = slot_of;
    return pr;
}

void predict_free(struct predict *pr)
{
    struct known *k;
    size_t pos = 0;

    if (!pr)
        return;
    while ((k = map_next(pr->by_key, &pos, NULL)))
        free(k);
    map_free(pr->by_key);
    heap_free(&pr->oldest);
    free(pr->forgotten);
    free(pr->memo);
    free(pr->late);
    free(pr);
}

uint64_t predict_key(const char *text, uint64_t seed)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ seed;

    for (; *text; text++)
        h = (h ^ (unsigned char) *text) * UINT64_C(0x100000001b3);
    /* The last letters must reach all bits. */
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    h ^= h >> 32;
    return h ? h : 1;
}

/* ---- keys ---- */

static struct known **late_slot(const struct predict *pr, uint64_t key)
{
    return &pr->late[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & LATE_MASK];
}

/* Few sorts of task ask again and again: who asked last is found without the
 * map.
 */
struct known *predict_find(const struct predict *pr, uint64_t key)
{
    struct known **late = late_slot(pr, key);

    if (!*late || (*late)->key != key)
        *late = map_get_id(pr->by_key, key);
    return *late;
}

static void forget_oldest(struct predict *pr)
{
    struct known *k = heap_top(&pr->oldest);

    heap_remove(&pr->oldest, k);
    map_del_id(pr->by_key, k->key);
    pr->ranked++;
    *late_slot(pr, k->key) = NULL;
    if (k->dirty)
        list_unlink(pr->dirty, k);
    if (k->stored) {
        if (pr->nforgotten == pr->forgotten_cap) {
            pr->forgotten_cap = pr->forgotten_cap * 2 + 16;
            pr->forgotten = mem_grow(pr->forgotten, pr->forgotten_cap,
                                     sizeof *pr->forgotten);
        }
        pr->forgotten[pr->nforgotten++] = k->key;
    }
    free(k);
}

struct known *predict_make(struct predict *pr, uint64_t key)
{
    struct known *k = predict_find(pr, key);

    if (k)
        return k;
    if (map_count(pr->by_key) >= PREDICT_KEYS_KEPT)
        forget_oldest(pr);
    k = mem_new(sizeof *k);
    k->key = key;
    k->turn = pr->turn;
    map_set_id(pr->by_key, key, k);
    heap_add(&pr->oldest, k);
    return k;
}

/* ---- asking ---- */

/* `most`: of what finer ones left over, however much it has seen. */
static void mix_known(struct mix *m, struct known *k, bool work, double most,
                      double *left, uint32_t *seen)
{
    struct sketch *s = work ? &k->work : &k->run;
    double total = (double) sketch_total(s);
    double share = *left * most * total / (total + 1);

    if (total <= 0)
        return;
    mix_add(m, s, share);
    *left -= share;
    if (*seen == 0)
        *seen = k->seen;
}

/* What is known of each key, or NULL, and last of anything; what sums they lack
 * is worked out.
 */
static void find_all(struct predict *pr, const struct predict_sig *sig,
                     bool work, struct known **ret)
{
    struct sketch *due[PREDICT_KEYS + 1];
    uint32_t n = 0;

    for (int i = 0; i <= PREDICT_KEYS; i++) {
        struct sketch *s;

        if (i == PREDICT_KEYS)
            ret[i] = &pr->all;
        else
            ret[i] = sig->key[i] ? predict_find(pr, sig->key[i]) : NULL;
        if (!ret[i])
            continue;
        s = work ? &ret[i]->work : &ret[i]->run;
        if (s->total < 0)
            due[n++] = s;
    }
    if (n > 0)
        sketch_totals(due, n);
}

static uint32_t mix_all(struct predict *pr, const struct predict_sig *sig,
                        bool work, double coarse, struct mix *ret)
{
    double left = 1;
    uint32_t seen = 0;

    struct known *keys[PREDICT_KEYS + 1] = { NULL };

    find_all(pr, sig, work, keys);
    memset(ret->share, 0, sizeof ret->share);
    ret->end = 0;
    for (int i = 0; i <= PREDICT_KEYS; i++)
        if (keys[i])
            mix_known(ret, keys[i], work, i + 1 < PREDICT_KEYS ? 1 : coarse,
                      &left, &seen);
    mix_even(ret, sketch_bucket(UNKNOWN_LOW_MS),
             sketch_bucket(UNKNOWN_HIGH_MS), left);
    return seen;
}

uint32_t predict_mix(struct predict *pr, const struct predict_sig *sig,
                     bool work, struct mix *ret)
{
    return mix_all(pr, sig, work, 1, ret);
}

/* What it says of itself counts little at first and all in the end: a tenth
 * done weighs a third against history, a half nine tenths.
 */
static uint64_t sharpen(uint64_t total_ms, uint64_t age_ms, double progress)
{
    double rest = 1 - progress;
    double trust, said;

    if (!(progress > 0) || age_ms == 0)
        return total_ms;
    if (progress >= 1)
        return age_ms;
    trust = 1 - rest * rest * rest * rest;
    said = (double) age_ms / progress;
    said = exp((1 - trust) * log((double) total_ms) + trust * log(said));
    return (uint64_t) fmin(fmax(said, (double) age_ms), 9e18);
}

/* Who predicts many ends asks for the same few signatures again and again. */
static struct memo *remember(struct predict *pr,
                                   const struct predict_sig *sig)
{
    struct memo *m = &pr->memo[(sig->key[0] ^ sig->key[1] >> 5) %
                               PREDICT_MEMO];

    if (m->version != pr->version ||
        memcmp(&m->sig, sig, sizeof *sig) != 0) {
        m->seen = predict_mix(pr, sig, false, &m->mix);
        mix_sum(&m->mix);
        m->ahead_ms = -1;
        m->sig = *sig;
        m->version = pr->version;
    }
    return m;
}

static void quantiles(const struct memo *m, uint64_t age_ms, double progress,
                      const double *q, uint32_t n, uint64_t *ret)
{
    mix_quantiles(&m->mix, age_ms, q, n, ret);
    for (uint32_t k = 0; k < n; k++)
        ret[k] = sharpen(ret[k], age_ms, progress);
}

uint64_t predict_quantile(struct predict *pr, const struct predict_sig *sig,
                          uint64_t age_ms, double progress, double q)
{
    uint64_t ms;

    quantiles(remember(pr, sig), age_ms, progress, &q, 1, &ms);
    return ms;
}

static double ahead(const struct memo *m, uint64_t age_ms, double progress)
{
    static const double q[] = { 0.1, 0.3, 0.5, 0.7, 0.9 };
    enum { N = array_size(q) };
    uint64_t ms[N];
    double sum = 0;

    if (m->seen == 0)
        return 0;
    quantiles(m, age_ms, progress, q, N, ms);
    for (size_t k = 0; k < N; k++)
        sum += (double) ms[k] - (double) age_ms;
    return fmax(sum / (double) N, 0);
}

/* Most who ask have not begun, and say nothing of themselves. */
double predict_ahead(struct predict *pr, const struct predict_sig *sig,
                     uint64_t age_ms, double progress)
{
    struct memo *m = remember(pr, sig);

    if (age_ms > 0 || progress > 0)
        return ahead(m, age_ms, progress);
    if (m->ahead_ms < 0)
        m->ahead_ms = ahead(m, 0, 0);
    return m->ahead_ms;
}

uint64_t predict_cautious(struct predict *pr, const struct predict_sig *sig,
                          uint64_t age_ms, double progress, double q)
{
    struct mix m;

    (void) mix_all(pr, sig, false, 0.5, &m);
    mix_sum(&m);
    return sharpen(mix_quantile(&m, age_ms, q), age_ms, progress);
}

void predict_guess(struct predict *pr, const struct predict_sig *sig,
                   uint64_t age_ms, double progress, struct guess *ret)
{
    static const double q[] = { 0.1, 0.5, 0.9 };
    const struct memo *m = remember(pr, sig);
    uint64_t ms[array_size(q)];

    quantiles(m, age_ms, progress, q, array_size(q), ms);
    ret->seen = m->seen;
    ret->low_ms = ms[0];
    ret->mid_ms = ms[1];
    ret->high_ms = ms[2];
}

/* ---- learning ---- */

/* How the guess before the first second would have done. */
static void learn_quality(struct predict *pr, const struct predict_sig *sig,
                          uint64_t run_ms)
{
    struct quality *q = &pr->quality;
    struct guess g;
    float fade = 1 - 1 / MEMORY_ALL;
    double error;

    predict_guess(pr, sig, 0, 0, &g);
    if (g.seen == 0)
        return;
    error = fabs((double) g.mid_ms - (double) run_ms) /
            fmax((double) run_ms, 1);
    q->ends++;
    q->weight = q->weight * fade + 1;
    q->low = q->low * fade + (run_ms < g.low_ms ? 1.0F : 0);
    q->mid = q->mid * fade + (run_ms < g.mid_ms ? 1.0F : 0);
    q->high = q->high * fade + (run_ms < g.high_ms ? 1.0F : 0);
    sketch_add(&q->error, (uint64_t) fmin(error * 1e6, 1e18), MEMORY_ALL);
    q->dirty = true;
}

static void learn_known(struct predict *pr, struct known *k, uint64_t run_ms,
                        uint64_t work)
{
    float memory = k->key ? MEMORY_KEY : MEMORY_ALL;

    sketch_add(&k->run, run_ms, memory);
    if (work > 0)
        sketch_add(&k->work, work, memory);
    if (k->seen < UINT32_MAX)
        k->seen++;
    k->turn = pr->turn;
    if (!k->dirty) {
        k->dirty = true;
        list_push(pr->dirty, k);
    }
}

void predict_learn(struct predict *pr, const struct predict_sig *sig,
                   uint64_t run_ms, uint64_t work, uint64_t now_ms)
{
    /* The time, but never the same twice: nobody is as old as another. */
    pr->turn = now_ms > pr->turn ? now_ms : pr->turn + 1;
    if (pr->turn > PREDICT_TURN_MAX)
        pr->turn = PREDICT_TURN_MAX;
    learn_quality(pr, sig, run_ms);
    pr->version++;
    for (int i = 0; i < PREDICT_KEYS; i++) {
        struct known *k;

        if (sig->key[i] == 0 || (i > 0 && sig->key[i] == sig->key[i - 1]))
            continue;
        k = predict_make(pr, sig->key[i]);
        heap_remove(&pr->oldest, k);
        learn_known(pr, k, run_ms, work);
        heap_add(&pr->oldest, k);
    }
    learn_known(pr, &pr->all, run_ms, work);
    for (int i = 0; i <= PREDICT_KEYS; i++)
        if (i == PREDICT_KEYS || sig->key[i])
            level_learn(pr, sig, i);
}

void predict_quality(struct predict *pr, struct predict_quality *ret)
{
    struct quality *q = &pr->quality;
    double weight = fmax((double) q->weight, 1e-9);
    struct mix m = { 0 };

    memset(ret, 0, sizeof *ret);
    ret->ends = q->ends;
    if (q->ends == 0)
        return;
    ret->below_low = (double) q->low / weight;
    ret->below_mid = (double) q->mid / weight;
    ret->below_high = (double) q->high / weight;
    mix_add(&m, &q->error, 1);
    mix_sum(&m);
    ret->error = (double) mix_quantile(&m, 0, 0.5) / 1e6;
}
