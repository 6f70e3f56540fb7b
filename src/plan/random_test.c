#include "base/tap.h"
#include "plan/random_world.h"

/* Random plans.  Each is a small world in which nodes, devices, tenants, items,
 * policies, windows and time change at random, decisions are carried out, put
 * off or left alone, and after every step
 *
 *  - plan_check agrees;
 *  - a decision is what this file, which keeps a record of its own, finds
 *    allowed: room, models, labels, closed devices, windows, limits, gangs whole;
 *  - who is evicted may be, and the claimant starts when its victims are gone;
 *  - a plan made anew from the same state decides the same;
 *
 * and at the end, when nothing comes any more and all is open, everybody who
 * can ever start has started.  WEIR_PLANS is the number of worlds, WEIR_SEED
 * the first of them.
 */

/* ---- is it allowed? ---- */

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
    for (unsigned k = 0; k < ITEMS; k++) {
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
}

static void judge_whole(struct world *w, const struct titem *t,
                        const struct plan_decision *d)
{
    for (uint32_t q = 0; q < t->spec.nparts; q++) {
        uint32_t ranks = 0;

        for (uint32_t k = 0; k < d->nplaces; k++)
            ranks += d->places[k].part == q;
        if (ranks < t->parts[q].count || ranks > t->parts[q].max)
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
        for (unsigned k = 0; k < ITEMS; k++) {
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
    for (unsigned k = 0; k < NODES; k++)
        if (w->nodes[k].n)
            for (uint32_t r = 0; r < d->nplaces; r++)
                if (d->places[r].node == w->nodes[k].n) {
                    judge_node(w, t, &w->nodes[k], d);
                    break;
                }
    judge_whole(w, t, d);
    judge_limits(w, t, d);
    for (uint32_t k = 0; k < n; k++)
        if (!was[k].node->roams &&
            (d->nplaces != n || d->places[k].node != was[k].node))
            WRONG(w, "start of %" PRIu64 ": away from its state",
                  t->spec.order);
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
    if (d->cause == EVICT_WINDOW)
        return;
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
    if (d->cause == EVICT_PRIORITY && c->spec.priority <= t->spec.priority)
        WRONG(w, "eviction of %" PRIu64 ": the priority is the same",
              t->spec.order);
}

/* ---- the same state again ---- */

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

/* Nodes and tenants; nodes in another order, which must not matter. */
static void make_again(struct world *w, struct again *a)
{
    a->q = plan_new();
    plan_set_policy(a->q, &w->policy);
    copy_learned(w, a->q);
    for (unsigned k = 0; k < TENANTS; k++) {
        struct plan_tenant_spec s = w->tenants[k];

        if (!w->tenant[k])
            continue;
        s.parent = tenant_again(w, a, s.parent);
        a->tenant[k] = plan_tenant_set(a->q, &s);
    }
    for (unsigned k = NODES; k-- > 0;)
        if (w->nodes[k].n)
            a->nodes[k] = make_node(a->q, &w->nodes[k]);
}

static bool start_again(struct world *w, struct again *a, unsigned k)
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
    if (plan_start(a->q, a->items[k], copy, n, &err) == 0)
        return true;
    WRONG(w, "again: %s", err.text);
    return false;
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
        (void) start_again(w, a, k);
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

    for (unsigned k = 0; k < ITEMS; k++) {
        struct plan_item_spec s = w->items[k].spec;

        if (!w->items[k].i)
            continue;
        s.tenant = tenant_again(w, a, s.tenant);
        s.had_work = w->items[k].i->work;
        s.had_ms = w->items[k].i->run_ms;
        a->items[k] = plan_add(a->q, &s);
    }
    for (unsigned k = 0; k < ITEMS; k++)
        if (w->items[k].i && w->items[k].i->nplaces &&
            !item_runs(w->items[k].i) && start_again(w, a, k))
            plan_left(a->q, a->items[k], true, 0);
    for (unsigned k = 0; k < ITEMS; k++)
        if (w->items[k].i)
            plan_hold(a->q, a->items[k], true);
    for (;;) {
        unsigned first = ITEMS;

        for (unsigned k = 0; k < ITEMS; k++)
            if (w->items[k].i && !done[k] &&
                (first == ITEMS || stood_before(&w->items[k],
                                                &w->items[first])))
                first = k;
        if (first == ITEMS)
            break;
        done[first] = true;
        stand_again(w, a, first);
    }
    plan_tick(a->q, w->now);
    for (unsigned k = 0; k < ITEMS; k++)
        if (w->items[k].i)
            level_again(a->q, a->items[k], w->items[k].i);
    for (unsigned k = 0; k < ITEMS; k++) {
        struct plan_item *claimant = NULL;

        if (!w->items[k].i || plan_state(w->items[k].i) != ITEM_LEAVING)
            continue;
        for (unsigned c = 0; c < ITEMS; c++)
            if (w->items[c].i && w->items[c].i == w->items[k].i->claimant)
                claimant = a->items[c];
        plan_leaving(a->q, a->items[k], claimant);
    }
    for (unsigned k = 0; k < TENANTS; k++) {
        uint64_t at = 0;
        double usage;

        if (!w->tenant[k])
            continue;
        usage = plan_tenant_usage(w->p, w->tenant[k], &at);
        plan_tenant_load(a->q, a->tenant[k], usage, at);
    }
}

static uint64_t order_of(const struct plan_item *i)
{
    return i ? i->order : 0;
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

/* Room that is being made or kept for somebody is a promise, and follows from
 * what was said and not from where everybody stands.
 */
static bool has_promised(const struct world *w)
{
    if (w->p->rooms->nclaims > 0)
        return true;
    for (unsigned k = 0; k < ITEMS; k++)
        if (w->items[k].i && w->items[k].i->reserved)
            return true;
    return false;
}

static void judge_again(struct world *w, const struct plan_decision *d,
                        bool any)
{
    struct plan_decision e;
    struct again a = { 0 };
    char one[160], two[160];
    bool again;

    if (has_promised(w))
        return;
    make_again(w, &a);
    items_again(w, &a);
    for (unsigned k = 0; k < WINDOWS; k++) {
        const struct twindow *v = &w->windows[k];

        if (v->there)
            make_window(w, a.q, v, a.nodes[v->node],
                        v->tenant < 0 ? NULL : a.tenant[v->tenant]);
    }
    again = plan_next(a.q, &e);
    if (again != any || (any && (d->what != e.what || d->cause != e.cause ||
        d->how != e.how || order_of(d->item) != order_of(e.item) ||
        order_of(d->claimant) != order_of(e.claimant) ||
        !same_places(d, &e)))) {
        describe(d, any, one, sizeof one);
        describe(&e, again, two, sizeof two);
        WRONG(w, "decides %s; made anew: %s", one, two);
    }
    plan_free(a.q);
}

/* ---- decisions ---- */

static bool ask(struct world *w, struct plan_decision *d)
{
    struct plan_decision twice;
    bool any = plan_next(w->p, d);

    if (any && d->what == PLAN_START)
        judge_start(w, d);
    else if (any && d->what == PLAN_EVICT)
        judge_evict(w, d);
    judge_again(w, d, any);
    if (plan_next(w->p, &twice) != any ||
        (any && (twice.item != d->item || twice.what != d->what)))
        WRONG(w, "asked twice it says something else");
    *d = twice;
    return any && !w->said[0];
}

static void do_start(struct world *w, const struct plan_decision *d)
{
    struct titem *t = plan_owner(d->item);
    struct err err = { 0 };

    t->turn = ++w->turns;
    if (plan_start(w->p, d->item, d->places, d->nplaces, &err) < 0)
        WRONG(w, "start: %s", err.text);
}

static void do_evict(struct world *w, const struct plan_decision *d, bool now)
{
    struct titem *t = plan_owner(d->item);

    plan_leaving(w->p, d->item, d->claimant);
    if (!now)
        return;
    t->turn = ++w->turns;
    plan_left(w->p, d->item, d->how == YIELD_SUSPEND, 0);
}

/* All there is to do, at once: whoever others are evicted for starts. */
static void settle(struct world *w)
{
    struct plan_decision d;
    uint64_t claimant = 0;
    unsigned n = 0;

    while (ask(w, &d)) {
        if (++n > 1000) {
            WRONG(w, "there is no end of decisions");
            return;
        }
        if (d.what == PLAN_START) {
            claimant = claimant == order_of(d.item) ? 0 : claimant;
            do_start(w, &d);
        } else if (d.what == PLAN_EVICT) {
            if (claimant && d.claimant && claimant != order_of(d.claimant))
                WRONG(w, "room is made for %" PRIu64 " before %" PRIu64
                      " has started", order_of(d.claimant), claimant);
            claimant = order_of(d.claimant);
            do_evict(w, &d, true);
        } else
            return;
    }
    if (claimant && !w->said[0])
        WRONG(w, "others were evicted for %" PRIu64 ", which did not start",
              claimant);
}

static void one_decision(struct world *w)
{
    struct plan_decision d;

    if (!ask(w, &d))
        return;
    if (d.what == PLAN_START)
        do_start(w, &d);
    else if (d.what == PLAN_EVICT)
        do_evict(w, &d, draw(w, 2) == 0);
}

/* ---- a world ---- */

static bool somebody_leaves(const struct world *w)
{
    for (unsigned k = 0; k < ITEMS; k++)
        if (w->items[k].i && plan_state(w->items[k].i) == ITEM_LEAVING)
            return true;
    return false;
}

static void step(struct world *w)
{
    switch (draw(w, 16)) {
    case 0:
        add_node(w);
        break;
    case 1:
        change_node(w);
        break;
    case 2:
        set_tenant(w);
        break;
    case 3:
        if (draw(w, 4) == 0)
            draw_policy(w);
        else
            set_window(w);
        break;
    case 4: case 5: case 6: case 7:
        add_item(w);
        break;
    case 8: case 9:
        change_item(w);
        break;
    case 10: case 11:
        w->now += draw(w, 300000);
        plan_tick(w->p, w->now);
        break;
    case 12: case 13:
        if (!somebody_leaves(w))
            settle(w);
        break;
    default:
        one_decision(w);
        break;
    }
}

static void check(struct world *w)
{
    struct err err = { 0 };

    if (!w->said[0] && plan_check(w->p, &err) < 0)
        WRONG(w, "check: %s", err.text);
}

/* Nothing comes any more, all is open, nobody is limited: who can start does. */
static void drain(struct world *w)
{
    for (unsigned k = 0; k < WINDOWS; k++)
        if (w->windows[k].there)
            plan_window_remove(w->p, w->windows[k].name);
    memset(w->windows, 0, sizeof w->windows);
    for (unsigned k = 0; k < NODES; k++) {
        struct tnode *n = &w->nodes[k];

        n->open = true;
        if (n->n)
            plan_node_open(w->p, n->n, true);
        for (uint32_t d = 0; d < n->devices; d++) {
            n->device_open[d] = true;
            if (n->n)
                plan_device_open(w->p, n->n, d, true);
        }
    }
    for (unsigned k = 0; k < TENANTS; k++) {
        if (!w->tenant[k])
            continue;
        w->tenants[k].max_milli = PLAN_UNLIMITED;
        w->tenants[k].stopped = false;
        w->tenants[k].parent = w->tenant[k]->parent;
        (void) plan_tenant_set(w->p, &w->tenants[k]);
    }
    for (unsigned k = 0; k < ITEMS; k++)
        if (w->items[k].i && plan_state(w->items[k].i) == ITEM_HELD)
            plan_hold(w->p, w->items[k].i, false);
    for (unsigned round = 0; round < 4 * ITEMS && !w->said[0]; round++) {
        struct titem *t = NULL;

        for (unsigned k = 0; k < ITEMS; k++)
            if (w->items[k].i && plan_state(w->items[k].i) == ITEM_LEAVING)
                leave(w, &w->items[k]);
        settle(w);
        check(w);
        w->now += 60000;
        plan_tick(w->p, w->now);
        for (unsigned k = 0; k < ITEMS; k++)
            if (w->items[k].i && plan_state(w->items[k].i) == ITEM_RUNNING &&
                (!t || draw(w, 3) == 0))
                t = &w->items[k];
        if (t)
            end_item(w, t, true);
    }
    for (unsigned k = 0; k < ITEMS && !w->said[0]; k++) {
        struct plan_place *list = NULL;
        uint32_t n;
        double score;

        if (!w->items[k].i)
            continue;
        if (place_find(w->p, w->items[k].i, NULL, &list, &n, &score))
            WRONG(w, "%" PRIu64 " could start and never does",
                  w->items[k].spec.order);
        free(list);
    }
}

static bool run(uint64_t seed)
{
    struct world w = { .p = plan_new(), .seed = seed, .random = seed };
    const char *key;
    json_t *body;
    size_t pos = 0;

    w.rows = map_new();
    draw_policy(&w);
    for (unsigned k = 0; k < 4; k++)
        add_node(&w);
    for (unsigned k = 0; k < 3; k++)
        set_tenant(&w);
    for (w.step = 0; w.step < STEPS && !w.said[0]; w.step++) {
        step(&w);
        check(&w);
    }
    if (!w.said[0])
        drain(&w);
    if (w.said[0])
        printf("# seed %" PRIu64 ", step %u: %s\n", seed, w.step, w.said);
    plan_free(w.p);
    while ((body = map_next(w.rows, &pos, &key)))
        json_decref(body);
    map_free(w.rows);
    return !w.said[0];
}

static uint64_t from_env(const char *name, uint64_t fallback)
{
    const char *s = getenv(name);

    return s ? strtoull(s, NULL, 10) : fallback;
}

int main(void)
{
    uint64_t plans = from_env("WEIR_PLANS", DEFAULT_PLANS);
    uint64_t seed = from_env("WEIR_SEED", 1), bad = 0;

    for (uint64_t k = 0; k < plans && bad < 10; k++)
        bad += !run(seed + k);
    ok(bad == 0, "%" PRIu64 " random plans from seed %" PRIu64, plans, seed);
    return tap_done();
}
