#include "plan/burst.h"
#include "plan/line.h"
#include "plan/pool.h"
#include "plan/room.h"
#include "plan/slots.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

/* A device is better than another if it is faster, or as fast and cheaper.  One
 * that could start now, but not on the best there is, waits for a better device
 * if it is predicted to end sooner there:
 *
 *     left / rating < (1 - margin) * (wait + left / better rating)
 *
 * starts it here and now; else it waits.  `left` is what it has before it on
 * average, `wait` goes by the policy's quantile of the ends of what runs on
 * better devices, after all that stand before it in line for these.  So who
 * knows nothing of its like starts, and behind a long line nobody waits for
 * what others will have.
 *
 * It waits for nothing that comes after its patience is over: a wait is never
 * longer than that.  Until then the slower device is for whoever is next.  None
 * waits so that was suspended or is elastic or of several parts, and in a large
 * pool no gang.
 *
 * O(shapes and queues in line), and NODES nodes of each family of better ones.
 *
 * In a large pool who is before it is known by bench and level, and of a family
 * what ends on its first LARGE nodes is predicted once in SOON_MS, whatever CPUs
 * and memory go with it: asking is a walk over those ends that come in time.
 */
enum { NODES = 64, LARGE = 32, SOON_MS = 10000 };

struct hope {
    struct plan *p;
    const struct plan_item *i;
    uint16_t here;
    uint64_t better;                   /* bit k: model k is; see shape.c */
    double left_ms, here_ms;           /* at rating 1; on the place at hand */
    uint64_t until_ms;                 /* the latest start that pays at best */
    uint64_t ahead;                    /* devices for others, thousandths */
};

/* ---- does it pay? ---- */

/* A rank is as fast as the worst of its devices. */
static uint16_t model_of(const struct plan *p, const struct plan_place *at)
{
    uint16_t worst = at->node->devices[at->device[0]].model;

    for (uint32_t d = 1; d < at->ndevices; d++) {
        uint16_t model = at->node->devices[at->device[d]].model;

        if (score_better(p, worst, model))
            worst = model;
    }
    return worst;
}

static bool pays(const struct hope *h, double wait_ms, double rating)
{
    double there = wait_ms + h->left_ms / rating;

    return h->here_ms > (1 - h->p->policy.burst_margin) * there;
}

/* How long it runs, on average and not in the middle, as the few that run for
 * long gain most; and until when it would wait for the best device there is;
 * false: not at all.
 */
static bool look_at(struct hope *h, double best)
{
    const struct plan_item *i = h->i;
    uint64_t over = i->since_ms + h->p->policy.patience_ms;
    double keep = 1 - h->p->policy.burst_margin, most = HUGE_VAL;

    h->left_ms = over <= h->p->now_ms ? 0 :
                 predict_ahead(h->p->predict, &i->sig, i->run_ms,
                               (double) i->progress);
    if (h->left_ms <= 0)
        return false;
    h->here_ms = h->left_ms / score_rating(h->p, h->here);
    if (!pays(h, 0, best))
        return false;
    if (keep > 0)
        most = h->here_ms / keep - h->left_ms / best;
    h->until_ms = over;
    if (most < (double) (over - h->p->now_ms))
        h->until_ms = h->p->now_ms + (uint64_t) most;
    return h->until_ms > h->p->now_ms;
}

/* ---- who is before it? ---- */

static bool wants_better(const struct hope *h, const struct shape *s)
{
    for (uint32_t k = 0; k < s->nparts; k++)
        if (s->parts[k].devices > 0 && (s->parts[k].models & h->better))
            return true;
    return false;
}

static uint64_t queue_wants(const struct hope *h, const struct queue *q)
{
    const struct plan_item *head = keyed_top(&q->items);

    if (head == h->i || !item_before(h->p, head, h->i) ||
        tenant_barred(q->tenant, q->shape->gpu_milli))
        return 0;
    return q->items.count * q->shape->gpu_milli;
}

/* All of a queue whose head is before it count; no more than `enough`. */
static uint64_t wanted(const struct hope *h, uint64_t enough)
{
    const struct plan *p = h->p;
    uint64_t sum = 0;

    for (uint32_t k = 0; k < p->nshapes && sum < enough; k++) {
        const struct shape *s = p->shapes[k];

        if (!s->queues || s->gpu_milli == 0 || !wants_better(h, s))
            continue;
        for (const struct queue *q = s->queues; q && sum < enough;
             q = q->next)
            sum += queue_wants(h, q);
    }
    return sum;
}

/* ---- when is a better one free? ---- */

/* From some number on models share a bit: then one more is looked at. */
static uint64_t better_than(const struct plan *p, uint16_t here)
{
    uint64_t bits = 0;

    for (uint32_t m = 0; m < p->nmodels; m++)
        if (score_better(p, (uint16_t) m, here))
            bits |= UINT64_C(1) << (m < MODELS_LAST ? m : MODELS_LAST);
    return bits;
}

static bool is_better(const struct hope *h, uint16_t model)
{
    return model < MODELS_LAST ? h->better >> model & 1
                               : score_better(h->p, model, h->here);
}

/* The first open nodes of each family that has a better device. */
static uint32_t candidates(const struct hope *h, struct plan_node ***ret)
{
    const struct pool *o = h->p->pool;
    struct plan_node **list = mem_array((size_t) o->nfamilies * NODES + 1,
                                        sizeof(*list));
    uint32_t n = 0;

    for (uint32_t k = 0; k < o->nfamilies; k++) {
        struct family *f = o->families[k];
        uint32_t taken = 0;

        if (!place_family(f, h->i->shape->parts) || !(f->models & h->better))
            continue;
        pool_ready(f);
        for (uint32_t m = 0; m < f->nnodes && taken < NODES; m++)
            if (f->nodes[m]->open) {
                list[n++] = f->nodes[m];
                taken++;
            }
    }
    *ret = list;
    return n;
}

static uint64_t devices_of(struct plan_node *const *nodes, uint32_t n)
{
    uint64_t sum = 0;

    for (uint32_t k = 0; k < n; k++)
        sum += nodes[k]->ndevices;
    return sum;
}

/* It waits for none of the others: they, and CPUs for them, are left alone. */
static void keep_better(const struct hope *h, struct paper_node *at)
{
    const struct plan_node *n = at->node;

    for (uint32_t d = 0; d < n->ndevices; d++)
        if (!score_better(h->p, n->devices[d].model, h->here))
            paper_hide(at, d);
}

/* ... and a gang as the worst of its ranks. */
static uint16_t worst_of(const struct plan *p, const struct slot *s,
                         uint32_t n)
{
    uint16_t worst = model_of(p, &s->place);

    for (uint32_t k = 1; k < n; k++) {
        uint16_t model = model_of(p, &s[k].place);

        if (score_better(p, worst, model))
            worst = model;
    }
    return worst;
}

/* Of what comes free others get the first; of the rest, where it ends first.
 * What is free already is not what it waits for: it was not chosen.
 */
static bool choose(const struct hope *h, const struct slots *s,
                   struct burst *ret)
{
    uint32_t own = h->i->shape->parts[0].need.gpu_milli;
    uint32_t ranks = h->i->shape->ranks;
    uint64_t skip = (h->ahead + own - 1) / own;
    double best = HUGE_VAL;

    for (uint64_t k = skip + ranks - 1; k < s->count; k++) {
        uint64_t at_ms = s->list[k].at_ms;
        uint16_t model = worst_of(h->p, &s->list[k + 1 - ranks], ranks);
        double wait = (double) (at_ms - h->p->now_ms);
        double ends = wait + h->left_ms / score_rating(h->p, model);

        if (at_ms > h->until_ms)
            break;
        if (at_ms == h->p->now_ms || ends >= best ||
            !pays(h, wait, score_rating(h->p, model)))
            continue;
        best = ends;
        *ret = (struct burst) {
            .here = h->here, .there = model, .free_ms = at_ms,
            .later_ms = h->here_ms > ends ? (uint64_t) (h->here_ms - ends)
                                          : 0,
        };
    }
    return best < HUGE_VAL;
}

static bool finds_better(const struct hope *h, struct plan_node *const *nodes,
                         uint32_t n, struct burst *ret)
{
    const struct shape *shape = h->i->shape;
    uint32_t most = shape->ranks + 1 +
                    (uint32_t) (h->ahead / shape->parts[0].need.gpu_milli);
    struct slots slots = { 0 };
    struct paper pa;
    bool found;

    paper_init(&pa, h->p, h->i, nodes, n);
    for (uint32_t k = 0; k < n; k++) {
        if (pa.nodes[k].barred)
            continue;
        keep_better(h, &pa.nodes[k]);
        slots_of(&pa, &pa.nodes[k], shape, 0, most, &slots);
    }
    paper_free(&pa);
    slots_sort(&slots);
    found = choose(h, &slots, ret);
    free(slots.list);
    return found;
}

/* ---- in a large pool ---- */

/* What ends on the first nodes of a family. */
struct soon {
    uint64_t made_ms, changes;         /* then, when pool.changes was this */
    uint32_t count;
    struct soon_end {
        uint64_t at_ms;
        uint32_t milli;
        uint16_t model, node;          /* the node's number among them */
    } list[];
};

static int by_at(const void *va, const void *vb)
{
    const struct soon_end *a = va, *b = vb;

    if (a->at_ms != b->at_ms)
        return a->at_ms < b->at_ms ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

static void add_ends(const struct plan *p, const struct plan_node *n,
                     uint16_t number, struct soon *s)
{
    pool_fetch(n);
    for (uint32_t k = 0; k < n->nitems; k++) {
        const struct plan_item *o = n->items[k];
        const struct plan_place *at = o->places;

        while (at->node != n)
            at++;
        if (o->state != ITEM_RUNNING || at->ndevices == 0 || pool_met(n, k))
            continue;
        s->list[s->count++] = (struct soon_end) {
            .at_ms = item_end_ms(p, o, p->policy.quantile),
            .milli = o->shape->parts[at->part].need.gpu_milli,
            .model = n->devices[at->device[0]].model, .node = number,
        };
    }
}

static const struct soon *soon_of(const struct plan *p, struct family *f)
{
    struct plan_node *nodes[LARGE];
    uint32_t n = 0;
    size_t most = 0;

    if (f->soon && f->soon->changes == p->pool->changes &&
        p->now_ms < f->soon->made_ms + SOON_MS)
        return f->soon;
    pool_ready(f);
    for (uint32_t m = 0; m < f->nnodes && n < LARGE; m++)
        if (f->nodes[m]->open) {
            nodes[n++] = f->nodes[m];
            most += f->nodes[m]->nitems;
        }
    free(f->soon);
    f->soon = mem_new(sizeof(*f->soon) + most * sizeof(f->soon->list[0]));
    f->soon->made_ms = p->now_ms;
    f->soon->changes = p->pool->changes;
    for (uint32_t k = 0; k < n; k++)
        add_ends(p, nodes[k], (uint16_t) k, f->soon);
    qsort(f->soon->list, f->soon->count, sizeof(f->soon->list[0]), by_at);
    return f->soon;
}

/* The first end after those for others that leaves it a better place in time;
 * all of a family are as good.
 */
static bool ends_in_time(const struct hope *h, const struct soon *s,
                         struct burst *ret)
{
    uint32_t own = h->i->shape->parts[0].need.gpu_milli, left[LARGE] = { 0 };
    uint64_t skip = (h->ahead + own - 1) / own;

    for (uint32_t k = 0; k < s->count; k++) {
        const struct soon_end *e = &s->list[k];
        double wait = (double) e->at_ms - (double) h->p->now_ms, ends;

        if (e->at_ms > h->until_ms)
            return false;
        if (!is_better(h, e->model))
            continue;
        left[e->node] += e->milli;
        if (left[e->node] < own)
            continue;
        left[e->node] -= own;
        if (skip > 0) {
            skip--;
            continue;
        }
        if (wait <= 0 || !pays(h, wait, score_rating(h->p, e->model)))
            continue;
        ends = wait + h->left_ms / score_rating(h->p, e->model);
        *ret = (struct burst) {
            .here = h->here, .there = e->model, .free_ms = e->at_ms,
            .later_ms = h->here_ms > ends ? (uint64_t) (h->here_ms - ends)
                                          : 0,
        };
        return true;
    }
    return false;
}

static bool waits_large(struct hope *h, struct burst *ret)
{
    const struct pool *o = h->p->pool;

    h->ahead = line_ahead(h->p, h->i, UINT64_C(1000) * LARGE * PLAN_DEVICES);
    for (uint32_t k = 0; k < o->nfamilies; k++) {
        struct family *f = o->families[k];
        uint64_t all = UINT64_C(1000) * LARGE * f->ndevices;

        if (f->nnodes > 0 && place_family(f, h->i->shape->parts) &&
            (f->models & h->better) && h->ahead < all &&
            ends_in_time(h, soon_of(h->p, f), ret))
            return true;
    }
    return false;
}

/* Ranks alike, and as many as they always are. */
static bool may_wait(const struct plan *p, const struct plan_item *i)
{
    const struct shape *s = i->shape;

    return s->nparts == 1 && s->parts[0].devices > 0 &&
           s->parts[0].max == s->parts[0].count && !i->promoted &&
           i->state == ITEM_WAITING &&
           (s->simple || p->pool->live <= ROOM_NODES);
}

/* One that has to be in one pool is looked at only where there is one. */
static bool in_one(const struct shape *s, struct plan_node *const *nodes,
                   uint32_t n)
{
    for (uint32_t k = 1; s->one_pool && s->ranks > 1 && k < n; k++)
        if (nodes[k]->pool_number != nodes[0]->pool_number)
            return false;
    return true;
}

bool burst_waits(struct plan *p, const struct plan_item *i,
                 const struct plan_place *places, uint32_t nplaces,
                 struct burst *ret)
{
    struct hope h = { .p = p, .i = i };
    autofree struct plan_node **nodes = NULL;
    double best;
    uint64_t all;
    uint32_t n;

    if (!may_wait(p, i))
        return false;
    h.here = model_of(p, &places[0]);
    for (uint32_t k = 1; k < nplaces; k++) {
        uint16_t model = model_of(p, &places[k]);

        if (score_better(p, h.here, model))
            h.here = model;
    }
    best = score_best(p, h.here);
    if (best <= 0 || !look_at(&h, best))
        return false;
    h.better = better_than(p, h.here);
    if (p->pool->live > ROOM_NODES)
        return waits_large(&h, ret);
    n = candidates(&h, &nodes);
    all = devices_of(nodes, n) * 1000;
    h.ahead = wanted(&h, all);
    return h.ahead < all && in_one(i->shape, nodes, n) &&
           finds_better(&h, nodes, n, ret);
}
