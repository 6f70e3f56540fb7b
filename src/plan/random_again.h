#pragma once

#include "plan/cost.h"
#include "plan/random_world.h"
#include "plan/stage.h"

/* random_again - a plan made anew from the state of another has to decide as
 * that does.  Included once.
 */

static int keep_row(const char *key, const json_t *body, void *arg)
{
    struct world *w = arg;

    json_decref(body ? map_set(w->rows, key, json_deep_copy(body)) :
                       map_del(w->rows, key));
    return 0;
}

static void copy_learned(struct world *w, struct plan *q)
{
    struct err err = { 0 };
    const char *key;
    json_t *body;
    size_t pos = 0;

    (void) predict_rows(plan_predict(w->p), keep_row, w);
    while ((body = map_next(w->rows, &pos, &key)))
        if (predict_load(plan_predict(q), key, body, &err) < 0)
            WRONG(w, "what was learned: %s", err.text);
}

struct again {
    struct plan *q;
    struct predict *own;               /* q's, while it reads the other's */
    struct plan_node *nodes[NODES];
    struct plan_tenant *tenant[TENANTS];
    struct plan_item *items[ITEMS];
};

static struct plan_tenant *tenant_again(const struct world *w,
                                        const struct again *a,
                                        const struct plan_tenant *t)
{
    for (unsigned k = 0; k < TENANTS; k++)
        if (w->tenant[k] && w->tenant[k] == t)
            return a->tenant[k];
    return NULL;
}

/* What suspending took, by the names of models: their numbers may differ. */
static void costs_again(const struct world *w, struct plan *q)
{
    q->costs = mem_array(q->nmodels + 1, sizeof(*q->costs));
    q->ncosts = q->nmodels;
    for (uint32_t k = 0; k < w->p->ncosts; k++)
        for (uint32_t m = 0; m < q->nmodels; m++)
            if (strcmp(w->p->models[k], q->models[m]) == 0)
                q->costs[m] = w->p->costs[k];
}

/* Nodes and tenants; nodes in another order, which must not matter.  What was
 * learned is copied, or, as that takes long, read where it is.
 */
static void make_again(struct world *w, struct again *a, bool copy)
{
    a->q = plan_new();
    plan_set_policy(a->q, &w->policy);
    if (copy) {
        copy_learned(w, a->q);
    } else {
        a->own = a->q->predict;
        a->q->predict = w->p->predict;
    }
    for (unsigned k = 0; k < TENANTS; k++) {
        struct plan_tenant_spec s = w->tenants[k];

        if (!w->tenant[k])
            continue;
        s.parent = tenant_again(w, a, s.parent);
        a->tenant[k] = plan_tenant_set(a->q, &s);
    }
    for (unsigned k = w->size.nodes; k-- > 0;)
        if (w->nodes[k].n)
            a->nodes[k] = make_node(a->q, &w->nodes[k]);
    costs_again(w, a->q);
}

static void free_again(struct again *a)
{
    if (a->own)
        a->q->predict = a->own;
    plan_free(a->q);
}

static void start_again(struct world *w, struct again *a, unsigned k)
{
    struct plan_place copy[PARTS * 8];
    const struct plan_place *list;
    uint32_t n = plan_places(w->items[k].i, &list);
    struct err err = { 0 };

    for (uint32_t r = 0; r < n; r++) {
        const struct tnode *t = plan_node_owner(list[r].node);

        copy[r] = list[r];
        copy[r].node = a->nodes[t - w->nodes];
    }
    if (plan_start(a->q, a->items[k], copy, n, &err) < 0)
        WRONG(w, "again: %s", err.text);
}

/* Its state is in the memory of its nodes.  There need not be room for it to
 * run there, so it cannot be started and suspended.
 */
static void park_again(struct world *w, struct again *a, unsigned k)
{
    const struct plan_place *list;
    struct plan_item *j = a->items[k];

    j->nplaces = plan_places(w->items[k].i, &list);
    j->places = j->nplaces ? mem_dup(list, j->nplaces * sizeof *list) : NULL;
    for (uint32_t r = 0; r < j->nplaces; r++) {
        const struct tnode *t = plan_node_owner(list[r].node);

        j->places[r].node = a->nodes[t - w->nodes];
        j->tied |= !j->places[r].node->roams;
        pool_park(a->q, j->places[r].node,
                  (int64_t) item_bytes(j, &j->places[r]),
                  j->shape->parts[list[r].part].need.gpu_milli);
    }
    if (j->nplaces > 0)
        item_shrink(a->q, j);
}

/* It stands where it stood since then. */
static void stand_again(struct world *w, struct again *a, unsigned k)
{
    const struct plan_item *i = w->items[k].i;
    struct plan_item *j = a->items[k];

    plan_tick(a->q, i->since_ms);
    switch (i->state) {
    case ITEM_RUNNING:
    case ITEM_LEAVING:
        start_again(w, a, k);
        break;
    case ITEM_HELD:
    case ITEM_WAITING:
    case ITEM_SUSPENDED:
    case ITEM_STAGED:
        plan_hold(a->q, j, true);
        plan_hold(a->q, j, false);
        if (i->state == ITEM_HELD)
            plan_hold(a->q, j, true);
        break;
    default:
        break;
    }
}

static bool stood_before(const struct titem *a, const struct titem *b)
{
    if (a->i->since_ms != b->i->since_ms)
        return a->i->since_ms < b->i->since_ms;
    return a->turn < b->turn;
}

/* Levels, and when a deadline is near, are of the time when one came, and more
 * has been learned since.
 */
static void level_again(struct plan *q, struct plan_item *j,
                        const struct plan_item *i)
{
    if (j->queue)
        line_remove(q, j);
    room_running(q, j, false);
    j->level = i->level;
    j->urgent = i->urgent;
    if (item_waits(j))
        line_add(q, j);
    if (j->state == ITEM_RUNNING)
        room_running(q, j, true);
}

static void items_again(struct world *w, struct again *a)
{
    bool done[ITEMS] = { false };

    for (unsigned k = 0; k < w->size.items; k++) {
        struct plan_item_spec s = w->items[k].spec;

        if (!w->items[k].i)
            continue;
        s.tenant = tenant_again(w, a, s.tenant);
        s.had_work = w->items[k].i->work;
        s.had_ms = w->items[k].i->run_ms;
        a->items[k] = plan_add(a->q, &s);
        plan_progress(a->q, a->items[k], (double) w->items[k].i->progress);
    }
    for (unsigned k = 0; k < w->size.items; k++) {
        if (!w->items[k].i)
            continue;
        plan_hold(a->q, a->items[k], true);
        if (!item_runs(w->items[k].i))
            park_again(w, a, k);
    }
    for (;;) {
        unsigned first = w->size.items;

        for (unsigned k = 0; k < w->size.items; k++)
            if (w->items[k].i && !done[k] &&
                (first == w->size.items || stood_before(&w->items[k],
                                                &w->items[first])))
                first = k;
        if (first == w->size.items)
            break;
        done[first] = true;
        stand_again(w, a, first);
    }
    plan_tick(a->q, w->now);
    for (unsigned k = 0; k < w->size.items; k++)
        if (w->items[k].i)
            level_again(a->q, a->items[k], w->items[k].i);
    for (unsigned k = 0; k < TENANTS; k++) {
        uint64_t at = 0;
        double usage;

        if (!w->tenant[k])
            continue;
        usage = plan_tenant_usage(w->p, w->tenant[k], &at);
        plan_tenant_load(a->q, a->tenant[k], usage, at);
    }
}

/* ---- what was promised, told again ---- */

static struct plan_item *item_again(const struct world *w,
                                    const struct again *a,
                                    const struct plan_item *i)
{
    const struct titem *t = plan_owner(i);

    return a->items[t - w->items];
}

static void place_again(const struct world *w, const struct again *a,
                        struct plan_place *at)
{
    const struct tnode *t = plan_node_owner(at->node);

    at->node = a->nodes[t - w->nodes];
}

static struct plan_place *places_again(const struct world *w,
                                       const struct again *a,
                                       const struct plan_place *list,
                                       uint32_t n)
{
    struct plan_place *ret = mem_dup(list, n * sizeof *list);

    for (uint32_t k = 0; k < n; k++)
        place_again(w, a, &ret[k]);
    return ret;
}

static void claim_again(struct world *w, const struct again *a,
                        const struct plan_claim *c)
{
    struct plan_claim d = *c;
    struct err err = { 0 };

    d.claimant = item_again(w, a, c->claimant);
    d.places = places_again(w, a, c->places, c->nplaces);
    d.victims = mem_dup(c->victims, c->nvictims * sizeof *c->victims);
    for (uint32_t k = 0; k < d.nvictims; k++) {
        d.victims[k].item = item_again(w, a, d.victims[k].item);
        if (d.victims[k].moves)
            place_again(w, a, &d.victims[k].to);
    }
    if (plan_claim_load(a->q, &d, &err) < 0)
        WRONG(w, "again: %s", err.text);
    free(d.places);
    free(d.victims);
}

static void reservation_again(struct world *w, const struct again *a,
                              struct plan_reservation *r)
{
    struct plan_place *places = places_again(w, a, r->places, r->nplaces);
    struct err err = { 0 };

    r->item = item_again(w, a, r->item);
    r->places = places;
    if (plan_reserved_load(a->q, r, &err) < 0)
        WRONG(w, "again: %s", err.text);
    free(places);
}

static void windows_again(struct world *w, struct again *a)
{
    for (unsigned k = 0; k < WINDOWS; k++) {
        const struct twindow *v = &w->windows[k];

        if (v->there)
            make_window(w, a->q, v, a->nodes[v->node],
                        v->tenant < 0 ? NULL : a->tenant[v->tenant]);
    }
}

/* Room that is being made or kept for somebody follows from what was said, and
 * not from where everybody stands: it is part of the state.
 */
static void promises_again(struct world *w, struct again *a)
{
    struct plan_reservation r;

    for (const struct plan_claim *c = plan_claims(w->p); c; c = c->next)
        claim_again(w, a, c);
    for (uint32_t k = 0; plan_reserved(w->p, k, &r); k++)
        reservation_again(w, a, &r);
}

static void leaving_again(struct world *w, struct again *a)
{
    for (unsigned k = 0; k < w->size.items; k++) {
        const struct plan_item *i = w->items[k].i;

        if (i && i->state == ITEM_LEAVING)
            plan_leaving(a->q, a->items[k],
                         i->claimant ? item_again(w, a, i->claimant) : NULL);
    }
}

/* Who stands ready is told.  When ends were guessed, and since when one does,
 * is of the time when that was: more has been learned since.
 */
/* All nodes are looked at; what is due there is told after that. */
static void touch_again(const struct world *w, const struct again *a)
{
    for (unsigned k = 0; k < w->size.nodes; k++)
        if (a->nodes[k])
            stage_node(a->q, a->nodes[k]);
}

static void stages_again(struct world *w, struct again *a, bool told)
{
    struct stager *g = a->q->stager;

    touch_again(w, a);
    for (unsigned k = 0; k < w->size.items; k++) {
        const struct plan_item *i = w->items[k].i;
        const struct stage *s = i ? i->stage : NULL;
        struct plan_item *j = a->items[k];
        struct plan_place copy[PARTS * 8];
        struct err err = { 0 };

        for (uint32_t r = 0; s && r < s->nplaces; r++) {
            copy[r] = s->places[r];
            place_again(w, a, &copy[r]);
        }
        if (i && i->state == ITEM_HELD)
            plan_expect(a->q, j, i->near_ms);
        if (s && plan_staged(a->q, j, copy, s->nplaces, &err) < 0)
            WRONG(w, "again: %s", err.text);
        if (s && !told && j->stage) {
            j->stage->since_ms = s->since_ms;
            keyed_set(&g->due, j->stage,
                      w->p->stager->due.list[s->slot - 1].key[0], j->order);
        }
        if (!i || told)
            continue;
        j->stagings = i->stagings;
        j->near_ms = i->near_ms;
        if (i->look_slot > 0 && item_runs(i))
            keyed_set(&g->looks, j,
                      w->p->stager->looks.list[i->look_slot - 1].key[0],
                      j->order);
    }
}

static bool same_places(const struct plan_decision *d,
                        const struct plan_decision *e)
{
    if (d->nplaces != e->nplaces)
        return false;
    for (uint32_t k = 0; k < d->nplaces; k++) {
        const struct plan_place *a = &d->places[k], *b = &e->places[k];

        if (strcmp(a->node->name, b->node->name) != 0 ||
            a->part != b->part || a->ndevices != b->ndevices ||
            memcmp(a->device, b->device,
                   a->ndevices * sizeof a->device[0]) != 0)
            return false;
    }
    return true;
}

static void describe(const struct plan_decision *d, bool any, char *buf,
                     size_t size)
{
    if (!any)
        (void) snprintf(buf, size, "nothing");
    else
        (void) snprintf(buf, size, "%u of %" PRIu64 " for %" PRIu64
                        " (cause %u) at %s:%u, %u places", d->what,
                        order_of(d->item), order_of(d->claimant), d->cause,
                        d->nplaces ? d->places[0].node->name : "-",
                        d->nplaces ? d->places[0].device[0] : 0u, d->nplaces);
}

/* In a larger pool nobody looks whom else a set could have killed by now. */
static bool by_time(const struct world *w, const struct plan_decision *e)
{
    return w->size.nodes > SMALL.nodes && e->what == PLAN_EVICT &&
           e->how == YIELD_KILL && !e->claimant->shape->simple;
}

static void judge_again(struct world *w, const struct plan_decision *d,
                        bool any)
{
    struct plan_decision e;
    struct again a = { 0 };
    char one[160], two[160];
    bool again;

    if (w->size.nodes > SMALL.nodes && !w->plain)
        return;                        /* see plan.h */
    make_again(w, &a, w->step % 16 == 0);
    items_again(w, &a);
    windows_again(w, &a);
    promises_again(w, &a);
    leaving_again(w, &a);
    stages_again(w, &a, false);
    again = plan_next(a.q, &e);
    if (again && by_time(w, &e)) {
        free_again(&a);
        return;
    }
    if (again != any || (any && (d->what != e.what || d->cause != e.cause ||
        d->how != e.how || order_of(d->item) != order_of(e.item) ||
        order_of(d->claimant) != order_of(e.claimant) ||
        !same_places(d, &e)))) {
        describe(d, any, one, sizeof one);
        describe(&e, again, two, sizeof two);
        WRONG(w, "decides %s; made anew: %s", one, two);
    }
    free_again(&a);
}

/* The plan is lost and made anew from the records.  Reservations are forgotten,
 * and claims are made again as those are told of who are leaving.
 */
static void restart(struct world *w)
{
    struct again a = { 0 };

    make_again(w, &a, true);
    items_again(w, &a);
    windows_again(w, &a);
    leaving_again(w, &a);
    stages_again(w, &a, true);
    for (unsigned k = 0; k < w->size.items; k++) {
        struct titem *t = &w->items[k];

        t->spec.tenant = t->i ? tenant_again(w, &a, t->spec.tenant) : NULL;
        if (t->i)
            item_policy(a.q, a.items[k]);
    }
    for (unsigned k = 0; k < TENANTS; k++)
        w->tenants[k].parent = tenant_again(w, &a, w->tenants[k].parent);
    plan_free(w->p);
    w->p = a.q;
    memcpy(w->tenant, a.tenant, sizeof w->tenant);
    for (unsigned k = 0; k < w->size.nodes; k++)
        w->nodes[k].n = a.nodes[k];
    for (unsigned k = 0; k < w->size.items; k++)
        w->items[k].i = a.items[k];
}
