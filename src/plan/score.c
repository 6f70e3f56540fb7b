#include "plan/pool.h"

#include "base/buf.h"
#include "base/mem.h"
#include "plan/frag.h"

#include <math.h>
#include <string.h>

/* What a place costs, in devices: what typical work could use of the node
 * before and after (frag.h), how much slower the device is than the best there
 * is, how much dearer than one as fast, and, for work without a device, the
 * CPUs that devices will want back.
 *
 * What is typical is what is here now, waiting, held or running: a restarted
 * plan knows it at once.  Needs are rounded and counts are taken in steps of
 * about a half, so that the list changes seldom; it depends on the state alone.
 */
enum {
    TYPES = 32,                        /* the most frequent ones count */
    ROUND_MILLI = 50,
};

/* A device of half the speed is as bad as eight devices lost: the speed of
 * what starts now counts more than what may come.  So does its price, among
 * devices of one speed: twice the price is as bad.
 */
static const double SLOW = 8;
/* What a device is worth less on a node that owes one to a suspended item. */
static const double OWED = 0.1;
/* Thousandths of a device: work without one goes, all else being equal, to a
 * node that has none.
 */
static const double BESIDE = 1;

struct typical {
    int64_t cpu;
    char *wish;                        /* models by name; "": any */
    uint64_t models;                   /* ... of those there are */
    uint32_t milli, gpus;
    uint64_t count;                    /* ranks of items that are here */
};

struct rated {                         /* a model */
    double rating, price;
    double dear;                       /* share above one as fast */
    bool here;                         /* a node has it */
};

struct scorer {
    struct typical **all;
    uint32_t nall, cap;
    uint64_t cpu, milli;               /* of all ranks with devices */
    double cpu_per_milli;              /* rounded; < 0: nothing is known */
    uint32_t ratios;                   /* how often that changed */
    bool changed;                      /* ... since the line was told */
    struct frag_types types;           /* the first TYPES of them */
    uint64_t epoch;                    /* how often `types` was made */
    uint64_t version;                  /* ... or models were rated */
    bool stale;
    uint16_t *left;                    /* of a node's devices */
    uint32_t left_cap;
    struct rated *rated;               /* each model */
    uint64_t rated_at;                 /* when pool.changes was this */
    double best, cheap;                /* rating of the nodes there are; the
                                          lowest price for that */
};

/* ---- what is typical ---- */

/* Steps as people ask: 1, 2, 3, 4, 6, 8, 12, 16 ...; never less. */
static int64_t round_cpu(uint64_t milli)
{
    uint64_t step = 1000;

    while (step < milli) {
        if (step + step / 2 >= milli && step >= 2000)
            return (int64_t) (step + step / 2);
        step *= 2;
    }
    return milli == 0 ? 0 : (int64_t) step;
}

/* The count to the next lower of 1, 2, 3, 4, 6, 8, 12 ... */
static uint64_t round_count(uint64_t count)
{
    uint64_t step = 1;

    if (count < 2)
        return count;
    while (step * 2 <= count)
        step *= 2;
    return step + (count - step >= step / 2 ? step / 2 : 0);
}

/* To four binary digits. */
static double round_ratio(double v)
{
    int e = 0;
    double m = frexp(v, &e);

    return ldexp(floor(m * 16) / 16, e);
}

/* What is wished for, and not which of it there is: a node that came and went
 * must leave no trace.
 */
static char *wish_of(const struct part *q)
{
    struct buf b = BUF_INIT(SIZE_MAX);

    for (uint32_t k = 0; k < q->need.nmodels; k++)
        (void) buf_printf(&b, "%s\n", q->need.models[k]);
    return buf_take(&b);
}

static struct typical *find_typical(struct scorer *c,
                                    const struct typical *want)
{
    for (uint32_t k = 0; k < c->nall; k++) {
        struct typical *t = c->all[k];

        if (t->cpu == want->cpu && t->milli == want->milli &&
            t->gpus == want->gpus && strcmp(t->wish, want->wish) == 0)
            return t;
    }
    return NULL;
}

static struct typical *typical_of(struct scorer *c, const struct part *q)
{
    struct typical want = {
        .cpu = round_cpu(q->need.cpu_milli), .wish = wish_of(q),
        .milli = q->milli, .gpus = q->devices,
    };
    struct typical *t;

    if (want.milli < FRAG_WHOLE)
        want.milli = (want.milli + ROUND_MILLI - 1) / ROUND_MILLI *
                     ROUND_MILLI;
    t = find_typical(c, &want);
    if (t) {
        free(want.wish);
        return t;
    }
    if (c->nall == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 32;
        c->all = mem_grow(c->all, c->cap, sizeof(*c->all));
    }
    t = mem_dup(&want, sizeof want);
    c->all[c->nall++] = t;
    return t;
}

void score_count(struct plan *p, struct shape *s, int more)
{
    struct scorer *c = p->scorer;
    double ratio;

    for (uint32_t k = 0; k < s->nparts; k++) {
        struct part *q = &s->parts[k];
        uint64_t ranks = (uint64_t) q->count * (uint64_t) (int64_t) more;
        uint64_t before;

        if (q->devices == 0)
            continue;
        if (!q->typical)
            q->typical = typical_of(c, q);
        c->stale |= q->typical->models != q->models;
        q->typical->models = q->models;
        before = round_count(q->typical->count);
        q->typical->count += ranks;
        c->stale |= before != round_count(q->typical->count);
        c->cpu += ranks * q->need.cpu_milli;
        c->milli += ranks * q->devices * q->milli;
    }
    ratio = c->milli ? round_ratio((double) c->cpu / (double) c->milli) : -1;
    if (ratio >= c->cpu_per_milli && ratio <= c->cpu_per_milli)
        return;
    c->cpu_per_milli = ratio;
    c->stale = c->changed = true;
    c->ratios++;
    for (uint32_t k = 0; k < p->nshapes; k++)
        if (p->shapes[k]->alone)
            vain_forget(p->shapes[k]);
}

bool score_changed(struct plan *p)
{
    bool changed = p->scorer->changed;

    p->scorer->changed = false;
    return changed;
}

/* CPUs that typical work on the node's devices leaves; a half of them where
 * nothing with devices is here to be typical.
 */
static double spare(const struct plan *p, const struct plan_node *n)
{
    if (p->scorer->cpu_per_milli < 0 && n->ndevices > 0)
        return (double) n->cpu_milli / 2;
    return (double) n->cpu_milli -
           (double) n->ndevices * FRAG_WHOLE * p->scorer->cpu_per_milli;
}

/* How many of the largest ranks an empty node takes. */
static uint64_t homes_on(const struct plan *p, const struct plan_node *like,
                         const struct home *h)
{
    double left = spare(p, like);
    uint64_t n = h->ranks;

    if (p->scorer->cpu_per_milli < 0 && like->ndevices > 0)
        return 0;
    if (left < (double) h->cpu_milli || like->memory < h->memory)
        return 0;
    if (h->cpu_milli && left / (double) h->cpu_milli < (double) n)
        n = (uint64_t) (left / (double) h->cpu_milli);
    if (h->memory && like->memory / h->memory < n)
        n = like->memory / h->memory;
    return n;
}

static bool has_home(const struct plan *p, const struct part *q)
{
    uint64_t at = p->pool->changes << 32 | p->scorer->ratios, ranks = 0;

    if (q->home->at == at)
        return q->home->there;
    q->home->at = at;
    for (uint32_t k = 0; k < p->pool->nkinds && ranks < q->home->ranks; k++)
        if (need_matches_node(&p->pool->kinds[k]->like, q))
            ranks += p->pool->kinds[k]->count *
                     homes_on(p, &p->pool->kinds[k]->like, q->home);
    q->home->there = ranks >= q->home->ranks;
    return q->home->there;
}

/* Where there are CPUs that no device needs, work without a device waits for
 * those: as long as nothing is known of work with devices, on nodes that have
 * none.  Where there are no such CPUs it takes what it finds, and so does one
 * that was suspended: they may be where its state cannot go.
 */
bool score_keeps(const struct plan *p, const struct plan_node *n,
                 const struct part *part, uint64_t alone)
{
    if (part->devices > 0 || n->ndevices == 0 || !has_home(p, part))
        return false;
    return (double) alone > spare(p, n);
}

static int by_count(const void *va, const void *vb)
{
    const struct typical *a = *(const struct typical *const *) va;
    const struct typical *b = *(const struct typical *const *) vb;
    uint64_t na = round_count(a->count), nb = round_count(b->count);

    if (na != nb)
        return na < nb ? 1 : -1;
    if (a->gpus != b->gpus)
        return a->gpus < b->gpus ? -1 : 1;
    if (a->milli != b->milli)
        return a->milli < b->milli ? -1 : 1;
    if (a->cpu != b->cpu)
        return a->cpu < b->cpu ? -1 : 1;
    return strcmp(a->wish, b->wish);
}

static void learn_again(struct scorer *c)
{
    struct frag_types *t = &c->types;
    double all = 0;

    qsort(c->all, c->nall, sizeof(*c->all), by_count);
    t->count = t->nsizes = 0;
    t->cpu_per_milli = fmax(c->cpu_per_milli, 0);
    for (uint32_t k = 0; k < c->nall && k < TYPES && c->all[k]->count; k++) {
        const struct typical *y = c->all[k];
        double weight = (double) round_count(y->count);

        t->items[t->count++] = (struct frag_type) {
            .cpu = y->cpu, .models = y->models, .weight = weight,
            .size = frag_size(t, (uint16_t) y->milli),
            .gpus = (uint8_t) (y->gpus > UINT8_MAX ? UINT8_MAX : y->gpus),
        };
        all += weight;
    }
    for (size_t k = 0; k < t->count; k++)
        t->items[k].weight /= all;
    c->epoch++;
    c->version++;
    c->stale = false;
}

static inline void learn(struct scorer *c)
{
    if (c->stale)
        learn_again(c);
}

/* ---- what is usable ---- */

static void copy_left(struct scorer *c, const struct plan_node *n)
{
    if (c->left_cap < n->ndevices) {
        c->left_cap = n->ndevices;
        c->left = mem_grow(c->left, c->left_cap, sizeof(*c->left));
    }
    for (uint32_t k = 0; k < n->ndevices; k++)
        c->left[k] = (uint16_t) (n->devices[k].open ?
                                 n->devices[k].free_milli : 0);
}

static double usable(const struct scorer *c, const struct plan_node *n,
                     uint64_t cpu_taken)
{
    struct frag_node f = {
        .left = c->left, .gpus = n->ndevices, .models = n->family->models,
        .cpu = (int64_t) (n->cpu_free - cpu_taken),
    };

    return frag_usable(&c->types, &f);
}

/* As the node stands; kept until it changes. */
static double usable_now(struct scorer *c, struct plan_node *n)
{
    if (n->usable_at != c->epoch) {
        n->usable = n->free_milli ? usable(c, n, 0) : 0;
        n->usable_at = c->epoch;
    }
    return n->usable;
}

/* ---- devices ---- */

static uint32_t kept_of(const uint16_t *kept, uint32_t k)
{
    return kept ? kept[k] : 0;
}

static bool device_fits(const struct plan *p, const struct plan_node *n,
                        uint32_t k, const struct part *part, uint32_t kept)
{
    return p->scorer->left[k] >= part->milli + kept && n->devices[k].open &&
           need_matches_device(p, &n->devices[k], part);
}

static double take_whole(const struct plan *p, const struct plan_node *n,
                         const struct part *part, const uint16_t *kept,
                         struct plan_place *place)
{
    struct scorer *c = p->scorer;

    for (uint32_t k = 0; k < n->ndevices; k++) {
        if (place->ndevices == part->devices)
            break;
        if (!device_fits(p, n, k, part, kept_of(kept, k)))
            continue;
        c->left[k] = 0;
        place->device[place->ndevices++] = (uint16_t) k;
    }
    return usable(c, n, part->need.cpu_milli);
}

/* The device where least is lost; devices with as much left are alike. */
static double take_share(const struct plan *p, const struct plan_node *n,
                         const struct part *part, const uint16_t *kept,
                         struct plan_place *place)
{
    struct scorer *c = p->scorer;
    double best = -1;

    for (uint32_t k = 0; k < n->ndevices; k++) {
        uint16_t left = c->left[k];
        uint32_t same = 0;
        double v;

        if (!device_fits(p, n, k, part, kept_of(kept, k)))
            continue;
        while (same < k && (c->left[same] != left ||
                            n->devices[same].model != n->devices[k].model))
            same++;
        if (same < k && device_fits(p, n, same, part, kept_of(kept, same)))
            continue;
        c->left[k] = (uint16_t) (left - part->milli);
        v = usable(c, n, part->need.cpu_milli);
        c->left[k] = left;
        if (v > best) {
            best = v;
            place->device[0] = (uint16_t) k;
            place->ndevices = 1;
        }
    }
    return best;
}

/* ---- ratings ---- */

void score_policy(struct plan *p)
{
    p->scorer->rated_at = 0;
}

/* The lowest price of a device here that is as fast. */
static double cheapest(const struct plan *p, double rating)
{
    double least = HUGE_VAL;

    for (uint32_t m = 0; m < p->nmodels; m++) {
        const struct rated *r = &p->scorer->rated[m];

        if (r->here && r->rating >= rating && r->rating <= rating)
            least = fmin(least, r->price);
    }
    return least;
}

static double dearer(double price, double least)
{
    if (price <= least)
        return 0;
    return least > 0 ? price / least - 1 : 1;
}

static void rate_again(const struct plan *p)
{
    struct scorer *c = p->scorer;

    c->rated = mem_grow(c->rated, p->nmodels + 1, sizeof(*c->rated));
    c->best = 0;
    for (uint32_t m = 0; m < p->nmodels; m++)
        c->rated[m] = (struct rated) {
            .rating = policy_rating(&p->policy, p->models[m]),
            .price = policy_price(&p->policy, p->models[m]),
        };
    for (uint32_t k = 0; k < p->pool->nkinds; k++) {
        const struct plan_node *like = &p->pool->kinds[k]->like;

        for (uint32_t d = 0; d < like->ndevices; d++) {
            struct rated *r = &c->rated[like->devices[d].model];

            r->here = true;
            c->best = fmax(c->best, r->rating);
        }
    }
    for (uint32_t m = 0; m < p->nmodels; m++)
        c->rated[m].dear = dearer(c->rated[m].price,
                                  cheapest(p, c->rated[m].rating));
    c->cheap = cheapest(p, c->best);
    c->rated_at = p->pool->changes;
    c->version++;
}

static inline void rate(const struct plan *p)
{
    if (p->scorer->rated_at != p->pool->changes)
        rate_again(p);
}

double score_rating(const struct plan *p, uint16_t model)
{
    rate(p);
    return p->scorer->rated[model].rating;
}

double score_best(const struct plan *p, uint16_t model)
{
    const struct scorer *c = p->scorer;
    const struct rated *r;

    rate(p);
    r = &c->rated[model];
    return r->rating < c->best || r->price > c->cheap ? c->best : 0;
}

bool score_better(const struct plan *p, uint16_t a, uint16_t b)
{
    const struct rated *x, *y;

    rate(p);
    x = &p->scorer->rated[a];
    y = &p->scorer->rated[b];
    return x->rating > y->rating ||
           (x->rating >= y->rating && x->price < y->price);
}

/* Devices that typical work would lack for the CPUs that ranks without a
 * device hold here, this one included.
 */
static double starved(const struct scorer *c, const struct plan_node *n,
                      const struct part *part)
{
    double want = (double) n->ndevices * 1000 * c->cpu_per_milli;
    double left = (double) n->cpu_milli - (double) n->cpu_alone -
                  (double) part->need.cpu_milli;

    if (n->ndevices == 0 || left >= want || c->cpu_per_milli <= 0)
        return 0;
    return (want - (left > 0 ? left : 0)) / c->cpu_per_milli;
}

uint64_t score_version(const struct plan *p)
{
    learn(p->scorer);
    rate(p);
    return p->scorer->version;
}

double score_place(const struct plan *p, struct plan_node *n,
                   const struct part *part, const uint16_t *kept,
                   struct plan_place *place)
{
    struct scorer *c = p->scorer;
    double before, after, cost;

    learn(c);
    rate(p);
    place->node = n;
    place->ndevices = 0;
    copy_left(c, n);
    before = usable_now(c, n);
    if (part->devices == 0) {
        after = n->free_milli ? usable(c, n, part->need.cpu_milli) : 0;
        cost = before - after + starved(c, n, part);
        return (cost + (n->ndevices ? BESIDE : 0)) / 1000;
    }
    if (part->milli == FRAG_WHOLE)
        after = take_whole(p, n, part, kept, place);
    else
        after = take_share(p, n, part, kept, place);
    cost = (before - after) / 1000;
    if (place->ndevices) {
        const struct rated *r =
            &c->rated[n->devices[place->device[0]].model];

        cost += SLOW * part->devices * (c->best / r->rating - 1);
        cost += SLOW * part->devices * r->dear;
        cost += OWED * (double) n->owed / 1000;
    }
    return cost;
}

void score_init(struct plan *p)
{
    p->scorer = mem_new(sizeof *p->scorer);
    p->scorer->types.items = mem_array(TYPES, sizeof(struct frag_type));
    p->scorer->epoch = 1;
    p->scorer->cpu_per_milli = -1;
}

void score_free(struct plan *p)
{
    struct scorer *c = p->scorer;

    for (uint32_t k = 0; k < c->nall; k++) {
        free(c->all[k]->wish);
        free(c->all[k]);
    }
    free(c->all);
    free(c->types.items);
    free(c->left);
    free(c->rated);
    free(c);
}
