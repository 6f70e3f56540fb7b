#pragma once

#include "plan/random_world.h"
#include "plan/reserve.h"
#include "plan/stage.h"

/* random_judge - is a decision allowed?  Worked out from what the test knows of
 * its world, and not with the plan's own indexes.  Included once.
 */

/* What others have of a node. */
struct others {
    uint64_t cpu, memory;
    uint32_t device[DEVICES];
};

static void add_places(struct others *o, const struct titem *t,
                       const struct plan_node *n,
                       const struct plan_place *list, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        const struct plan_need *need = &t->parts[list[k].part].need;

        if (list[k].node != n)
            continue;
        o->cpu += need->cpu_milli;
        o->memory += need->memory;
        for (uint32_t d = 0; d < list[k].ndevices; d++)
            o->device[list[k].device[d]] += need->gpu_milli < 1000 ?
                                            need->gpu_milli : 1000;
    }
}

static void count_others(const struct world *w, const struct titem *but,
                         const struct plan_node *n, struct others *ret)
{
    memset(ret, 0, sizeof *ret);
    for (unsigned k = 0; k < w->size.items; k++) {
        const struct titem *t = &w->items[k];
        const struct plan_place *list;
        uint32_t count;

        if (!t->i || t == but)
            continue;
        count = plan_places(t->i, &list);
        if (plan_state(t->i) == ITEM_RUNNING ||
            plan_state(t->i) == ITEM_LEAVING) {
            add_places(ret, t, n, list, count);
            continue;
        }
        for (uint32_t r = 0; r < count; r++)
            if (list[r].node == n)
                ret->memory += item_bytes(t->i, &list[r]);
        ret->memory += stage_memory(t->i, n);
    }
}

static bool is_below(const struct plan_tenant *t, const struct plan_tenant *of)
{
    while (t && t != of)
        t = t->parent;
    return t != NULL;
}

static void judge_node(struct world *w, const struct titem *t,
                       const struct tnode *n, const struct plan_decision *d)
{
    struct others o;

    count_others(w, t, n->n, &o);
    add_places(&o, t, n->n, d->places, d->nplaces);
    if (o.cpu > n->cpus * 1000 || o.memory > n->memory)
        WRONG(w, "start of %" PRIu64 ": %s has no such CPUs or memory",
              t->spec.order, n->name);
    for (uint32_t k = 0; k < DEVICES; k++)
        if (o.device[k] > (k < n->devices ? 1000 : 0))
            WRONG(w, "start of %" PRIu64 ": device %u of %s is full",
                  t->spec.order, k, n->name);
    for (unsigned k = 0; k < WINDOWS; k++) {
        const struct twindow *v = &w->windows[k];

        if (v->there && n == &w->nodes[v->node] && v->from <= w->now &&
            w->now < v->to && (v->tenant < 0 ||
            !is_below(t->spec.tenant, w->tenant[v->tenant])))
            WRONG(w, "start of %" PRIu64 ": a window keeps %s",
                  t->spec.order, n->name);
    }
}

static void judge_place(struct world *w, const struct titem *t,
                        const struct plan_place *at)
{
    const struct tnode *n = plan_node_owner(at->node);
    const struct plan_need *need = &t->parts[at->part].need;

    if (at->node != n->n && n->n)
        WRONG(w, "start of %" PRIu64 ": no such node", t->spec.order);
    if (!n->open || (need->nlabels && need->labels[0] != LABELS[n->label]) ||
        (need->nmodels && at->ndevices &&
         need->models[0] != MODELS[n->model]))
        WRONG(w, "start of %" PRIu64 ": %s is closed or will not do",
              t->spec.order, n->name);
    if (at->ndevices != (need->gpu_milli + 999) / 1000)
        WRONG(w, "start of %" PRIu64 ": %u devices", t->spec.order,
              at->ndevices);
    for (uint32_t k = 0; k < at->ndevices; k++)
        if (at->device[k] >= n->devices || !n->device_open[at->device[k]])
            WRONG(w, "start of %" PRIu64 ": a closed device", t->spec.order);
    if (at->ndevices > 0 && need->gpu_memory > n->gpu_memory)
        WRONG(w, "start of %" PRIu64 ": devices too small", t->spec.order);
}

static uint32_t ranks_of(const struct plan_place *list, uint32_t n,
                         uint32_t part)
{
    uint32_t ranks = 0;

    for (uint32_t k = 0; k < n; k++)
        ranks += list[k].part == part;
    return ranks;
}

/* One that was suspended goes on with the ranks that it had: those that ended
 * before have nothing to go on with, and no other was there.
 */
static void judge_whole(struct world *w, const struct titem *t,
                        const struct plan_decision *d)
{
    const struct plan_place *had;
    uint32_t n = plan_places(t->i, &had);

    for (uint32_t q = 0; q < t->spec.nparts; q++) {
        uint32_t ranks = ranks_of(d->places, d->nplaces, q);
        uint32_t least = n ? ranks_of(had, n, q) : t->parts[q].count;
        uint32_t most = n ? least : t->parts[q].max;

        if (ranks < least || ranks > most)
            WRONG(w, "start of %" PRIu64 ": %u ranks of part %u",
                  t->spec.order, ranks, q);
    }
    for (uint32_t k = 1; k < d->nplaces; k++)
        if (t->spec.one_pool && strcmp(d->places[k].node->pool,
                                       d->places[0].node->pool) != 0)
            WRONG(w, "start of %" PRIu64 ": in two pools", t->spec.order);
}

/* What the tenant and those above would hold, counted from the items. */
static void judge_limits(struct world *w, const struct titem *t,
                         const struct plan_decision *d)
{
    for (const struct plan_tenant *of = t->spec.tenant; of; of = of->parent) {
        uint64_t held = 0, more;

        for (uint32_t k = 0; k < d->nplaces; k++)
            held += t->parts[d->places[k].part].need.gpu_milli;
        more = held;
        for (unsigned k = 0; k < w->size.items; k++) {
            const struct titem *o = &w->items[k];
            const struct plan_place *list;
            uint32_t count;

            if (!o->i || (plan_state(o->i) != ITEM_RUNNING &&
                          plan_state(o->i) != ITEM_LEAVING) ||
                !is_below(o->spec.tenant, of))
                continue;
            count = plan_places(o->i, &list);
            for (uint32_t r = 0; r < count; r++)
                held += o->parts[list[r].part].need.gpu_milli;
        }
        if ((more > 0 && held > of->max_milli) || of->stopped)
            WRONG(w, "start of %" PRIu64 ": %s may not hold %" PRIu64,
                  t->spec.order, of->name, held);
    }
}

/* ---- reservations are kept ---- */

static double rating_at(const struct world *w, const struct plan_place *at)
{
    const struct tnode *n = plan_node_owner(at->node);

    return at->ndevices ? policy_rating(&w->policy, MODELS[n->model]) : 1;
}

/* Is it off the node at that time, if it ends as predicted?  As the policy
 * says, of those who run; of the one that is to start, as if it had.
 */
static bool gone_by(const struct world *w, const struct plan_item *i,
                    const struct plan_place *at, uint64_t when_ms)
{
    struct predict *pr = w->p->predict;
    struct guess g;
    uint64_t all;

    if (i->state == ITEM_LEAVING)
        return true;
    if (i->state == ITEM_RUNNING)
        return item_end_ms(w->p, i, w->policy.quantile) <= when_ms;
    predict_guess(pr, &i->sig, i->run_ms, (double) i->progress, &g);
    if (g.seen == 0)
        return false;
    all = predict_quantile(pr, &i->sig, i->run_ms, (double) i->progress,
                           w->policy.quantile);
    return all <= i->run_ms || w->now + (uint64_t) (
        (double) (all - i->run_ms) / rating_at(w, at)) <= when_ms;
}

/* Somebody's places for later: reserved, or (claim) those that it has when its
 * victims have left.
 */
struct kept {
    const struct plan_item *item;
    const struct plan_place *places;
    uint32_t nplaces;
    uint64_t start_ms;
    const struct plan_claim *claim;
};

static const struct plan_victim *victim_of(const struct plan_claim *c,
                                      const struct plan_item *i)
{
    for (uint32_t k = 0; k < c->nvictims; k++)
        if (c->victims[k].item == i)
            return &c->victims[k];
    return NULL;
}

/* What it will hold of the node then, having these places. */
static void add_later(struct others *o, const struct world *w,
                      const struct titem *t, const struct plan_node *n,
                      const struct plan_place *list, uint32_t count,
                      const struct kept *kept)
{
    const struct plan_victim *v =
        kept->claim ? victim_of(kept->claim, t->i) : NULL;

    for (uint32_t k = 0; k < count; k++) {
        if (list[k].node != n)
            continue;
        if (v && v->how == YIELD_SUSPEND)
            o->memory += item_bytes(t->i, &list[k]);
        else if (!v && (kept->claim ||
                        !gone_by(w, t->i, &list[k], kept->start_ms)))
            add_places(o, t, n, &list[k], 1);
    }
}

/* Will the node have what is kept there, with d carried out or (NULL) without?
 */
static bool has_kept(const struct world *w, const struct kept *kept,
                     const struct tnode *n, const struct plan_decision *d)
{
    struct others o = { 0 };

    for (unsigned k = 0; k < w->size.items; k++) {
        const struct titem *t = &w->items[k];
        const struct plan_place *list;
        uint32_t count;

        if (!t->i || t->i == kept->item)
            continue;
        count = plan_places(t->i, &list);
        if (d && t->i == d->item)
            add_later(&o, w, t, n->n, d->places, d->nplaces, kept);
        else if (item_runs(t->i))
            add_later(&o, w, t, n->n, list, count, kept);
        else
            for (uint32_t m = 0; m < count; m++)
                if (list[m].node == n->n)
                    o.memory += item_bytes(t->i, &list[m]);
    }
    add_places(&o, plan_owner(kept->item), n->n, kept->places, kept->nplaces);
    for (uint32_t k = 0; k < n->devices; k++)
        if (o.device[k] > 1000)
            return false;
    return o.cpu <= n->cpus * 1000 && o.memory <= n->memory;
}

/* Who can be suspended is let in where it can. */
static bool passes(const struct world *w, const struct titem *t,
                   const struct tnode *n)
{
    return w->policy.turns != TURNS_OFF && n->suspends &&
           t->spec.yield == YIELD_SUSPEND;
}

static void judge_reserved(struct world *w, const struct plan_decision *d)
{
    const struct titem *t = plan_owner(d->item);

    for (uint32_t k = 0; k < w->p->promises->count; k++) {
        const struct reservation *r = w->p->promises->list[k];
        struct kept kept;

        if (r->item == d->item)
            return;                    /* those were promised later */
        if (r->item->priority < t->spec.priority)
            continue;
        kept = (struct kept) { r->item, r->places, r->nplaces, r->start_ms,
                               NULL };
        for (unsigned m = 0; m < w->size.nodes; m++)
            if (w->nodes[m].n && !passes(w, t, &w->nodes[m]) &&
                has_kept(w, &kept, &w->nodes[m], NULL) &&
                !has_kept(w, &kept, &w->nodes[m], d))
                WRONG(w, "start of %" PRIu64 " takes what %" PRIu64
                      " is promised on %s", t->spec.order, r->item->order,
                      w->nodes[m].name);
    }
}

static void judge_claims(struct world *w, const struct plan_decision *d)
{
    for (const struct plan_claim *c = w->p->rooms->claims; c; c = c->next) {
        struct kept kept = { c->claimant, c->places, c->nplaces, 0, c };

        if (c->claimant == d->item || c->loose)
            continue;
        for (unsigned m = 0; m < w->size.nodes; m++)
            if (w->nodes[m].n && has_kept(w, &kept, &w->nodes[m], NULL) &&
                !has_kept(w, &kept, &w->nodes[m], d))
                WRONG(w, "start of %" PRIu64 " takes what is made free on %s "
                      "for %" PRIu64, order_of(d->item), w->nodes[m].name,
                      order_of(c->claimant));
    }
}

static void judge_start(struct world *w, const struct plan_decision *d)
{
    const struct titem *t = plan_owner(d->item);
    const struct plan_place *was;
    uint32_t n = plan_places(d->item, &was);

    if (plan_never(w->p, d->item) != REASON_NONE)
        WRONG(w, "start of %" PRIu64 ", which is never to start: %s",
              t->spec.order, plan_reason_name(plan_never(w->p, d->item)));
    if (!in_line(t))
        WRONG(w, "start of %" PRIu64 " while %u", t->spec.order,
              plan_state(d->item));
    for (uint32_t k = 0; k < d->nplaces; k++)
        judge_place(w, t, &d->places[k]);
    for (unsigned k = 0; k < w->size.nodes; k++)
        if (w->nodes[k].n)
            for (uint32_t r = 0; r < d->nplaces; r++)
                if (d->places[r].node == w->nodes[k].n) {
                    judge_node(w, t, &w->nodes[k], d);
                    break;
                }
    judge_whole(w, t, d);
    judge_limits(w, t, d);
    judge_reserved(w, d);
    judge_claims(w, d);
    for (uint32_t k = 0; k < n; k++)
        if (!was[k].node->roams &&
            (d->nplaces != n || d->places[k].node != was[k].node))
            WRONG(w, "start of %" PRIu64 ": away from its state",
                  t->spec.order);
}

/* Devices held by the tenant and all below. */
static uint64_t held_by(const struct world *w, const struct plan_tenant *of)
{
    uint64_t held = 0;

    for (unsigned k = 0; k < w->size.items; k++)
        if (w->items[k].i && item_runs(w->items[k].i) &&
            is_below(w->items[k].spec.tenant, of))
            held += places_milli(w->items[k].i->shape, w->items[k].i->places,
                                 w->items[k].i->nplaces);
    return held;
}

/* What is taken back was guaranteed to the one, and borrowed by the other. */
static void judge_quota(struct world *w, const struct titem *t,
                        const struct titem *c)
{
    const struct plan_tenant *to = c->spec.tenant, *from = t->spec.tenant;
    bool over = false;

    if (!w->policy.reclaim || to == from ||
        held_by(w, to) + c->i->shape->gpu_milli > to->quota_milli)
        WRONG(w, "eviction of %" PRIu64 ": nothing is guaranteed",
              t->spec.order);
    for (; from; from = from->parent)
        over |= held_by(w, from) > from->quota_milli;
    if (!over)
        WRONG(w, "eviction of %" PRIu64 ": within its guarantee",
              t->spec.order);
}

static void judge_cause(struct world *w, const struct plan_decision *d)
{
    const struct titem *t = plan_owner(d->item), *c = plan_owner(d->claimant);
    double ran = (double) t->i->run_ms + (double) (w->now - t->i->since_ms) *
                                         rating_at(w, t->i->places);

    switch (d->cause) {
    case EVICT_PRIORITY:
        if (c->spec.priority <= t->spec.priority)
            WRONG(w, "eviction of %" PRIu64 ": the priority is the same",
                  t->spec.order);
        break;
    case EVICT_QUOTA:
        judge_quota(w, t, c);
        break;
    case EVICT_TURN:
        if (w->policy.turns == TURNS_OFF || w->policy.slice_ms > 0 ||
            d->how == YIELD_KILL ||
            (d->how == YIELD_CHECKPOINT &&
             w->policy.turns != TURNS_CHECKPOINT))
            WRONG(w, "eviction of %" PRIu64 ": not for a turn",
                  t->spec.order);
        break;
    case EVICT_SLICE:
        if (w->policy.slice_ms == 0 || d->how != YIELD_SUSPEND ||
            c->spec.priority != t->spec.priority ||
            w->now < t->i->since_ms + w->policy.slice_ms ||
            (plan_state(c->i) == ITEM_SUSPENDED &&
             w->now < c->i->since_ms + w->policy.slice_ms))
            WRONG(w, "eviction of %" PRIu64 ", whose slice is not over",
                  t->spec.order);
        return;
    case EVICT_MOVE:
        if (!w->policy.move || d->how != YIELD_SUSPEND ||
            !t->i->places[0].node->roams)
            WRONG(w, "eviction of %" PRIu64 ", which cannot move",
                  t->spec.order);
        return;
    }
    if (ran + 1 < (double) w->policy.min_run_ms || t->i->since_ms == w->now)
        WRONG(w, "eviction of %" PRIu64 ", which has hardly run",
              t->spec.order);
}

/* Is there a faster device that it may wait for?  For how long is bounded. */
static bool may_hope(const struct world *w, const struct titem *t)
{
    double best = 0, here = 0;

    if (t->spec.nparts > 1 || t->parts[0].max != t->parts[0].count ||
        plan_state(t->i) != ITEM_WAITING ||
        w->now >= t->i->since_ms + w->policy.patience_ms)
        return false;
    for (unsigned k = 0; k < w->size.nodes; k++) {
        const struct tnode *n = &w->nodes[k];
        double rating = policy_rating(&w->policy, MODELS[n->model]);

        if (!n->n || n->devices == 0 || !n->open)
            continue;
        best = best > rating ? best : rating;
        here = here > 0 && here < rating ? here : rating;
    }
    return here < best && plan_wake_ms(w->p) <= t->i->since_ms +
                                                w->policy.patience_ms;
}

/* Nothing is to be done: nobody can start.  Others of a queue may do behind a
 * promise what its head cannot, and are not asked.
 */
static void judge_nothing(struct world *w)
{
    for (unsigned k = 0; k < w->size.items; k++) {
        const struct titem *t = &w->items[k];

        if (t->i && in_line(t) && w->p->promises->count == 0 &&
            !w->p->promises->windows &&
            !tenant_barred(t->spec.tenant, t->i->shape->gpu_milli) &&
            has_place(w->p, t->i, false) && !may_hope(w, t))
            WRONG(w, "%" PRIu64 " could start and does not", t->spec.order);
    }
}

static void judge_evict(struct world *w, const struct plan_decision *d)
{
    const struct titem *t = plan_owner(d->item), *c;
    const struct plan_place *list;
    uint32_t n = plan_places(d->item, &list);

    if (plan_state(d->item) != ITEM_RUNNING ||
        t->spec.yield == YIELD_NEVER)
        WRONG(w, "eviction of %" PRIu64 " who never leaves", t->spec.order);
    for (uint32_t k = 0; d->how == YIELD_SUSPEND && k < n; k++) {
        struct others o;

        count_others(w, t, list[k].node, &o);
        for (uint32_t r = 0; r < n; r++)
            if (list[r].node == list[k].node)
                o.memory += item_bytes(d->item, &list[r]);
        if (!list[k].node->suspends || o.memory > list[k].node->memory)
            WRONG(w, "%" PRIu64 " cannot be suspended on %s", t->spec.order,
                  list[k].node->name);
    }
    if (!d->claimant) {
        WRONG(w, "eviction of %" PRIu64 " for nobody", t->spec.order);
        return;
    }
    c = plan_owner(d->claimant);
    if (!in_line(c))
        WRONG(w, "eviction of %" PRIu64 " for one who does not wait",
              t->spec.order);
    if (d->cause != EVICT_MOVE && c->spec.priority < t->spec.priority)
        WRONG(w, "eviction of %" PRIu64 " for a lower priority: %s",
              t->spec.order, plan_cause_name(d->cause));
    judge_cause(w, d);
}

/* ---- staged ---- */

/* Wherever it stands ready there is memory for it, and no more stand there than
 * there are devices.
 */
static void judge_stage(struct world *w, const struct plan_decision *d)
{
    const struct titem *t = plan_owner(d->item);

    if ((plan_state(d->item) != ITEM_WAITING &&
         (plan_state(d->item) != ITEM_HELD || d->item->near_ms == 0)) ||
        d->item->stage || w->policy.lookahead_ms == 0)
        WRONG(w, "stage of %" PRIu64 " while %u", t->spec.order,
              plan_state(d->item));
    judge_whole(w, t, d);
    for (uint32_t k = 0; k < d->nplaces; k++) {
        const struct plan_place *at = &d->places[k];
        const struct tnode *n = plan_node_owner(at->node);
        struct others o;

        judge_place(w, t, at);
        count_others(w, t, at->node, &o);
        for (uint32_t m = 0; m < d->nplaces; m++)
            if (d->places[m].node == at->node)
                o.memory += t->parts[d->places[m].part].need.memory;
        if (!n->stages || o.memory > n->memory)
            WRONG(w, "stage of %" PRIu64 ": not on %s", t->spec.order,
                  n->name);
        if (at->node->nstaged >= n->devices)
            WRONG(w, "stage of %" PRIu64 ": too many on %s", t->spec.order,
                  n->name);
    }
}
