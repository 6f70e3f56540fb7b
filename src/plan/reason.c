#include "plan/burst.h"
#include "plan/pool.h"
#include "plan/room.h"

#include "base/mem.h"

#include <string.h>

/* Why one waits, worked out when somebody asks: what would let it start?  One
 * thing after the other is thought to be plentiful; what makes it fit is what
 * it lacks.  Parts are looked at one by one, so that for a set of several the
 * answer is near, not exact.  O(devices) for the reason, O(running) for the
 * predicted start.
 */
const char *plan_reason_name(enum plan_reason_code c)
{
    static const char *const names[] = {
#define X(name, text) [REASON_##name] = text,
        PLAN_REASONS(X)
#undef X
    };

    return names[c];
}

/* ---- what if ---- */

enum {
    IF_EMPTY = 1,                      /* nothing ran */
    IF_OPEN = 2,                       /* everything were open */
    IF_CPUS = 4, IF_MEMORY = 8,        /* there were any amount of them */
    IF_UNPARKED = 16,                  /* the suspended held no memory */
};

static uint64_t at_most(uint64_t ranks, uint64_t has, uint64_t wants)
{
    return wants > 0 && has / wants < ranks ? has / wants : ranks;
}

static uint64_t device_ranks(const struct plan *p, const struct plan_node *n,
                             const struct part *q, unsigned what)
{
    uint64_t slots = 0;

    for (uint32_t k = 0; k < n->ndevices; k++) {
        const struct device *d = &n->devices[k];

        if ((d->open || (what & IF_OPEN)) && need_matches_device(p, d, q))
            slots += (what & IF_EMPTY ? 1000 : d->free_milli) / q->milli;
    }
    return slots / q->devices;
}

static uint64_t node_ranks(const struct plan *p, const struct plan_node *n,
                           const struct part *q, unsigned what)
{
    uint64_t ranks = q->count, memory = n->memory_free;

    if ((!n->open && !(what & IF_OPEN)) || !need_matches_node(n, q))
        return 0;
    if (what & IF_UNPARKED)
        memory = n->memory - n->memory_held;
    if (!(what & IF_CPUS))
        ranks = at_most(ranks, what & IF_EMPTY ? n->cpu_milli : n->cpu_free,
                        q->need.cpu_milli);
    if (!(what & IF_MEMORY))
        ranks = at_most(ranks, what & IF_EMPTY ? n->memory : memory,
                        q->need.memory);
    if (q->devices > 0 && ranks > 0) {
        uint64_t devices = device_ranks(p, n, q, what);

        ranks = devices < ranks ? devices : ranks;
    }
    return ranks;
}

static bool fits_if(const struct plan *p, const struct shape *s, unsigned what)
{
    for (uint32_t k = 0; k < s->nparts; k++) {
        uint64_t ranks = 0;

        for (uint32_t m = 0; m < p->nnodes; m++)
            if (p->nodes[m])
                ranks += node_ranks(p, p->nodes[m], &s->parts[k], what);
        if (ranks < s->parts[k].count)
            return false;
    }
    return true;
}

/* Thousandths of open devices that would do for its first part with any. */
static uint64_t free_matching(const struct plan *p, const struct shape *s)
{
    const struct part *q = s->parts;
    uint64_t sum = 0;

    while (q->devices == 0 && q < s->parts + s->nparts - 1)
        q++;
    for (uint32_t m = 0; m < p->nnodes; m++) {
        const struct plan_node *n = p->nodes[m];

        if (!n || !n->open || !need_matches_node(n, q))
            continue;
        for (uint32_t k = 0; k < n->ndevices; k++)
            if (n->devices[k].open &&
                need_matches_device(p, &n->devices[k], q))
                sum += n->devices[k].free_milli;
    }
    return sum;
}

static bool finds(struct plan *p, const struct plan_item *i, bool promises)
{
    const struct place_opts o = { .ignore_promises = !promises };
    struct plan_place *places = NULL;
    uint32_t n = 0;
    double score;
    bool found = place_find(p, i, &o, &places, &n, &score);

    free(places);
    return found;
}

/* ---- the reason ---- */

static void lacks(const struct plan *p, const struct plan_item *i,
                  struct plan_reason *ret)
{
    const struct shape *s = i->shape;

    if (s->gpu_milli > 0 && !fits_if(p, s, IF_CPUS | IF_MEMORY)) {
        ret->want = s->gpu_milli;
        ret->have = free_matching(p, s);
        ret->code = ret->have >= ret->want ? REASON_FRAGMENTED
                                           : REASON_DEVICES;
    } else if (!fits_if(p, s, IF_MEMORY)) {
        ret->code = REASON_CPUS;
        ret->want = s->cpu_milli;
    } else {
        ret->code = fits_if(p, s, IF_UNPARKED) && !fits_if(p, s, 0)
                  ? REASON_HOST_MEMORY : REASON_MEMORY;
        ret->want = s->memory;
    }
}

/* The first in line that nobody may overtake any more, if it stands before
 * this one; else NULL.
 */
static const struct plan_item *in_the_way(const struct plan *p,
                                          const struct plan_item *i)
{
    const struct plan_item *first = NULL;

    for (const struct plan_item *o = p->all; o; o = o->next)
        if (o != i && o->queue && (o->promoted || o->reserved) &&
            item_before(p, o, i) && (!first || item_before(p, o, first)))
            first = o;
    return first;
}

/* Somebody who has the room for himself, or NULL. */
static const struct plan_item *holder(const struct plan *p,
                                      const struct plan_item *i)
{
    const struct plan_claim *c = p->rooms->claims;

    while (c && c->claimant == i)
        c = c->next;
    return c ? c->claimant : in_the_way(p, i);
}

static void promised(struct plan *p, const struct plan_item *i,
                     struct plan_reason *ret)
{
    ret->other = holder(p, i);
    ret->code = ret->other ? REASON_RESERVED : REASON_WINDOW;
}

/* It has a place, and waits for a better one?  The time that was compared is of
 * the policy's quantile: late rather than early.
 */
static bool hopes(struct plan *p, const struct plan_item *i,
                  struct plan_reason *ret)
{
    static const struct place_opts none;
    autofree struct plan_place *places = NULL;
    uint32_t n = 0;
    double score;
    struct burst b;

    if (!place_find(p, i, &none, &places, &n, &score) ||
        !burst_waits(p, i, places, n, &b))
        return false;
    ret->code = REASON_BETTER;
    ret->better = p->models[b.there];
    ret->model = p->models[b.here];
    ret->later_ms = b.later_ms;
    ret->start_ms = b.free_ms;
    return true;
}

static void reason(struct plan *p, const struct plan_item *i,
                   struct plan_reason *ret)
{
    const struct plan_claim *c = room_claim(p, i);
    const struct plan_tenant *bars = tenant_barred(i->tenant,
                                                   i->shape->gpu_milli);

    ret->code = plan_never(p, i);
    if (ret->code != REASON_NONE) {
        if (ret->code == REASON_NEVER_QUOTA)
            ret->tenant = bars;
        return;
    }
    if (!fits_if(p, i->shape, IF_EMPTY)) {
        ret->code = REASON_CLOSED;
    } else if (bars) {
        ret->code = bars->stopped ? REASON_BUDGET : REASON_QUOTA;
        ret->tenant = bars;
        ret->want = bars->held_milli + i->shape->gpu_milli;
        ret->have = bars->max_milli;
    } else if (c) {
        ret->code = REASON_MAKING_ROOM;
        ret->other = c->nvictims > 0 ? c->victims[0].item : NULL;
    } else if (hopes(p, i, ret)) {
        return;
    } else if (finds(p, i, true)) {
        ret->code = REASON_ORDER;
        ret->other = in_the_way(p, i);
    } else if (finds(p, i, false)) {
        promised(p, i, ret);
    } else {
        lacks(p, i, ret);
    }
}

/* ---- the predicted start ---- */

struct end {
    uint64_t at_ms, frees;
};

static int by_time(const void *a, const void *b)
{
    const struct end *x = a, *y = b;

    return (x->at_ms > y->at_ms) - (x->at_ms < y->at_ms);
}

static uint64_t frees(const struct plan_item *o, bool devices)
{
    return devices ? o->held_milli : o->shape->cpu_milli;
}

/* When so much more is free, if what runs ends as predicted; 0: not at all.
 * What is wanted beyond that gets what comes free a second time and a third,
 * each time after as long as this one is thought to run.
 */
static uint64_t free_at_ms(const struct plan *p, const struct plan_item *i,
                           uint64_t now_ms, bool devices, uint64_t more,
                           double quantile)
{
    autofree struct end *ends = mem_array(p->nrunning + 1u, sizeof(*ends));
    uint64_t all = 0, again;
    uint32_t n = 0;

    if (more == 0)
        return now_ms;
    for (uint32_t k = 0; k < p->nrunning; k++)
        if (frees(p->running[k], devices) > 0)
            ends[n++] = (struct end) {
                item_end_told_ms(p, p->running[k], now_ms, quantile),
                frees(p->running[k], devices)
            };
    qsort(ends, n, sizeof(*ends), by_time);
    for (uint32_t k = 0; k < n; k++) {
        if (ends[k].frees >= more)
            return ends[k].at_ms;
        more -= ends[k].frees;
        all += ends[k].frees;
    }
    if (all == 0)
        return 0;
    again = predict_cautious(p->predict, &i->sig, 0, 0, quantile);
    return ends[n - 1].at_ms + again * ((more + all - 1) / all);
}

static uint64_t free_cpus(const struct plan *p)
{
    uint64_t sum = 0;

    for (uint32_t m = 0; m < p->nnodes; m++)
        if (p->nodes[m] && p->nodes[m]->open)
            sum += p->nodes[m]->cpu_free;
    return sum;
}

/* At best it is the next to get what comes free; else those before it get
 * theirs first, and all that is free counts for nobody in particular.
 */
static void predict_start(const struct plan *p, const struct plan_item *i,
                          uint64_t now_ms, struct plan_reason *ret)
{
    bool devices = i->shape->gpu_milli > 0;
    uint64_t own = devices ? i->shape->gpu_milli : i->shape->cpu_milli;
    uint64_t has = devices ? free_matching(p, i->shape) : free_cpus(p);
    uint64_t ahead = own;

    for (const struct plan_item *o = p->all; o; o = o->next)
        if (o != i && o->queue && item_before(p, o, i))
            ahead += devices ? o->shape->gpu_milli : o->shape->cpu_milli;
    own = own > has ? own - has : 0;
    ahead = ahead > has ? ahead - has : 1;
    ret->start_low_ms = free_at_ms(p, i, now_ms, devices, own, 0.1);
    ret->start_ms = free_at_ms(p, i, now_ms, devices, ahead, 0.5);
    ret->start_high_ms = free_at_ms(p, i, now_ms, devices, ahead, 0.9);
    if (ret->start_low_ms == 0 || ret->start_ms == 0 ||
        ret->start_high_ms == 0)
        ret->start_low_ms = ret->start_ms = ret->start_high_ms = 0;
    if (ret->start_high_ms < ret->start_ms)
        ret->start_high_ms = ret->start_ms;
}

void plan_reason(struct plan *p, const struct plan_item *i, uint64_t now_ms,
                 struct plan_reason *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (i->state == ITEM_HELD)
        ret->code = REASON_HELD;
    if (!item_waits(i))
        return;
    ret->position = line_position(p, i);
    reason(p, i, ret);
    now_ms = now_ms > p->now_ms ? now_ms : p->now_ms;
    switch (ret->code) {
    case REASON_ORDER:
    case REASON_RESERVED:
    case REASON_DEVICES:
    case REASON_CPUS:
    case REASON_MEMORY:
    case REASON_FRAGMENTED:
    case REASON_HOST_MEMORY:
    case REASON_MAKING_ROOM:
        predict_start(p, i, now_ms, ret);
        break;
    case REASON_BETTER:                /* it may have been free by now */
        ret->start_low_ms = now_ms;
        ret->start_ms = ret->start_ms > now_ms ? ret->start_ms : now_ms;
        ret->start_high_ms = ret->start_ms;
        break;
    case REASON_NONE:
    case REASON_HELD:
    case REASON_CLOSED:
    case REASON_WINDOW:
    case REASON_QUOTA:
    case REASON_BUDGET:
    case REASON_NEVER_DEVICES:
    case REASON_NEVER_MODEL:
    case REASON_NEVER_GPU_MEMORY:
    case REASON_NEVER_CPUS:
    case REASON_NEVER_MEMORY:
    case REASON_NEVER_LABEL:
    case REASON_NEVER_GANG:
    case REASON_NEVER_QUOTA:
    case REASON_NO_NODE:
    case REASON_COUNT:
        break;
    }
}

bool plan_can_end_by(struct plan *p, const struct plan_item *i,
                     uint64_t now_ms, uint64_t when_ms)
{
    struct plan_reason r;
    struct guess g;
    uint64_t start = now_ms;

    predict_guess(p->predict, &i->sig, i->run_ms, (double) i->progress, &g);
    plan_reason(p, i, now_ms, &r);
    if (r.start_low_ms > start)
        start = r.start_low_ms;
    return start + (g.low_ms > i->run_ms ? g.low_ms - i->run_ms : 0) <=
           when_ms;
}
