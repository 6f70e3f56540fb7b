#include "plan/pool.h"
#include "plan/reserve.h"
#include "plan/room.h"
#include "plan/slots.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What is promised for later: reservations and windows.
 *
 * One that has waited past its patience and can make no room is promised
 * concrete places, at the time when they are free if what runs there ends as
 * predicted (the policy's quantile).  Until then others may use them who are
 * predicted to be gone by then, and beside them whoever leaves them whole.
 * Who has a higher priority is not bound by it, nor is who was promised
 * something earlier: two that were would wait for each other for ever.  When
 * the time has passed the promise is made anew from what is known then.
 *
 * A window keeps whole nodes for a tenant, or from everybody, from one time to
 * another.  What would still run when it begins does not start there.
 */
enum { NODES = 64 };                   /* looked at for one reservation */

void promises_init(struct plan *p)
{
    p->promises = mem_new(sizeof(*p->promises));
}

static void free_window(struct window *w)
{
    free(w->nodes);
    free(w);
}

void promises_free(struct plan *p)
{
    struct window *w, *next;

    for (w = p->promises->windows; w; w = next) {
        next = w->next;
        free_window(w);
    }
    free(p->promises->list);
    free(p->promises);
}

/* ---- the earliest places ---- */

/* All ranks of a part as early as possible. */
static bool fill_part(struct paper *pa, const struct plan_item *i,
                      uint32_t part, struct reservation *r)
{
    const struct shape *s = i->shape;
    struct slots slots = { 0 };
    bool enough;

    for (uint32_t k = 0; k < pa->count; k++)
        if (!pa->nodes[k].barred)
            slots_of(pa, &pa->nodes[k], s, part, s->parts[part].count,
                     &slots);
    slots_sort(&slots);
    enough = slots.count >= s->parts[part].count;
    for (uint32_t k = 0; enough && k < s->parts[part].count; k++) {
        const struct slot *slot = &slots.list[k];

        r->places[r->nplaces++] = slot->place;
        if (slot->at_ms > r->start_ms)
            r->start_ms = slot->at_ms;
    }
    free(slots.list);
    return enough;
}

static bool fill(struct plan *p, const struct plan_item *i,
                 struct plan_node *const *nodes, uint32_t n,
                 struct reservation *r)
{
    const struct shape *s = i->shape;
    bool found = true;

    for (uint32_t k = 0; k < s->nparts && found; k++) {
        struct paper pa;

        paper_init(&pa, p, i, nodes, n);
        for (uint32_t m = 0; m < r->nplaces; m++)
            paper_take(&pa, s, &r->places[m]);
        found = fill_part(&pa, i, s->by_size[k], r);
        paper_free(&pa);
    }
    return found;
}

/* From the node on: those to look at, of one pool or of all.  Returns how many;
 * *at is the first of the next pool then.
 */
static uint32_t candidates(const struct plan *p, const struct plan_item *i,
                           struct plan_node *const *sorted, bool one_pool,
                           uint32_t *at, struct plan_node **ret)
{
    uint16_t pool = sorted[*at]->pool_number;
    uint32_t n = 0;

    for (; *at < p->pool->live; ++*at) {
        struct plan_node *node = sorted[*at];

        if (one_pool && node->pool_number != pool)
            break;
        if (n < NODES + i->shape->ranks && node->open &&
            room_own_node(i, node))
            ret[n++] = node;
    }
    return n;
}

static struct reservation *new_reservation(struct plan *p,
                                           struct plan_item *i)
{
    struct reservation *r = mem_new(sizeof(*r));

    r->item = i;
    r->made_ms = p->now_ms;
    r->places = mem_array(i->shape->ranks, sizeof(*r->places));
    return r;
}

static void free_reservation(struct reservation *r)
{
    if (!r)
        return;
    free(r->places);
    free(r);
}

static struct reservation *sooner(struct reservation *a,
                                  struct reservation *b)
{
    bool first = a && a->start_ms <= b->start_ms;

    free_reservation(first ? b : a);
    return first ? a : b;
}

/* The earliest it could start on what there is, or NULL. */
static struct reservation *earliest(struct plan *p, struct plan_item *i)
{
    autofree struct plan_node **nodes =
        mem_array(NODES + i->shape->ranks, sizeof(struct plan_node *));
    struct plan_node *const *sorted = pool_sorted(p);
    bool one_pool = i->shape->one_pool && i->shape->ranks > 1;
    struct reservation *best = NULL;

    for (uint32_t at = 0; at < p->pool->live;) {
        uint32_t n = candidates(p, i, sorted, one_pool, &at, nodes);
        struct reservation *r = new_reservation(p, i);

        if (fill(p, i, nodes, n, r))
            best = sooner(best, r);
        else
            free_reservation(r);
    }
    return best;
}

/* ---- reservations ---- */

static void count_nodes(const struct reservation *r, bool on)
{
    for (uint32_t k = 0; k < r->nplaces; k++)
        r->places[k].node->promised += on ? 1 : UINT32_MAX;
}

static void forget(struct plan *p, struct reservation *r)
{
    struct promises *o = p->promises;
    uint32_t k = 0;

    while (o->list[k] != r)
        k++;
    memmove(&o->list[k], &o->list[k + 1],
            (--o->count - k) * sizeof(struct reservation *));
    count_nodes(r, false);
    r->item->reserved = NULL;
    p->promised++;
}

void promise_add(struct plan *p, struct reservation *r)
{
    struct promises *o = p->promises;

    o->list = mem_grow(o->list, o->count + 1u, sizeof(struct reservation *));
    o->list[o->count++] = r;
    r->item->reserved = r;
    count_nodes(r, true);
    p->promised++;
}

void promise_drop(struct plan *p, struct plan_item *i)
{
    struct reservation *r = i->reserved;

    if (!r)
        return;
    forget(p, r);
    for (uint32_t k = 0; k < r->nplaces; k++)
        if (k == 0 || r->places[k].node != r->places[k - 1].node)
            line_room(p, r->places[k].node);
    free_reservation(r);
}

/* A time that is not past: what should have ended and has not is looked at
 * again after the tolerated share of the wait, a second at least.
 */
static void set_start(const struct plan *p, struct reservation *r)
{
    uint64_t slip = (uint64_t) ((double) (p->now_ms - r->item->since_ms) *
                                p->policy.tolerance);

    if (r->start_ms <= p->now_ms)
        r->start_ms = p->now_ms + (slip > 1000 ? slip : 1000);
}

bool promise_for(struct plan *p, struct plan_item *i)
{
    struct reservation *r;

    if (i->reserved || p->promises->count >= p->policy.reservations)
        return false;
    r = earliest(p, i);
    if (!r)
        return false;
    set_start(p, r);
    r->firm_ms = r->start_ms;
    promise_add(p, r);
    return true;
}

/* When it would be gone from the places, had it started now. */
static uint64_t gone_ms(const struct plan *p, const struct plan_item *i,
                        const struct plan_place *place)
{
    double rating = 1;
    uint64_t all;

    all = predict_quantile(p->predict, &i->sig, i->run_ms,
                           (double) i->progress, p->policy.quantile);
    if (place->ndevices > 0)
        rating = score_rating(
            p, place->node->devices[place->device[0]].model);
    return p->now_ms + (all > i->run_ms
                      ? (uint64_t) ((double) (all - i->run_ms) / rating) : 0);
}

/* Is it later than was promised, beyond the tolerance?  Then nobody is let in
 * before it, however short: this bounds its wait.
 */
static bool slipped(const struct plan *p, const struct reservation *r)
{
    return (double) (r->start_ms - r->made_ms) >
           (double) (r->firm_ms - r->made_ms) * (1 + p->policy.tolerance);
}

static bool shares(const struct plan_place *a, const struct plan_place *b)
{
    if (a->node != b->node)
        return false;
    for (uint32_t x = 0; x < a->ndevices; x++)
        for (uint32_t y = 0; y < b->ndevices; y++)
            if (a->device[x] == b->device[y])
                return true;
    return false;
}

static bool on_reserved(const struct reservation *r,
                        const struct plan_place *at)
{
    for (uint32_t k = 0; k < r->nplaces; k++)
        if (shares(&r->places[k], at))
            return true;
    return false;
}

/* Is it predicted to be off the reserved devices in time?  It may also have a
 * share beside.
 */
static bool leaves_by(const struct plan *p, const struct reservation *r,
                      const struct plan_item *o)
{
    return o->state == ITEM_LEAVING ||
           item_end_ms(p, o, p->policy.quantile) <= r->start_ms;
}

/* What the reservation will want of the node's CPUs and memory, less what
 * those leave who are on its devices until then.
 */
static void lacks(const struct plan *p, const struct reservation *r,
                  const struct plan_node *n, int64_t *ret_cpu,
                  int64_t *ret_memory)
{
    *ret_cpu = *ret_memory = 0;
    for (uint32_t k = 0; k < r->nplaces; k++) {
        const struct part *q = &r->item->shape->parts[r->places[k].part];

        if (r->places[k].node != n)
            continue;
        *ret_cpu += (int64_t) q->need.cpu_milli;
        *ret_memory += (int64_t) q->need.memory;
    }
    for (uint32_t m = 0; m < n->nitems; m++) {
        const struct plan_item *o = n->items[m];

        for (uint32_t x = 0; !pool_met(n, m) && x < o->nplaces; x++) {
            const struct part *q = &o->shape->parts[o->places[x].part];

            if (o->places[x].node != n || !on_reserved(r, &o->places[x]) ||
                !leaves_by(p, r, o))
                continue;
            *ret_cpu -= (int64_t) q->need.cpu_milli;
            *ret_memory -= (int64_t) q->need.memory;
        }
    }
}

static bool leaves_whole(const struct plan *p, const struct reservation *r,
                         const struct plan_node *n, const struct part *part,
                         const struct plan_place *place)
{
    int64_t cpu, memory;

    if (on_reserved(r, place))
        return false;
    lacks(p, r, n, &cpu, &memory);
    return cpu + (int64_t) part->need.cpu_milli <= (int64_t) n->cpu_free &&
           memory + (int64_t) part->need.memory <= (int64_t) n->memory_free;
}

static bool names(const struct reservation *r, const struct plan_node *n)
{
    for (uint32_t k = 0; k < r->nplaces; k++)
        if (r->places[k].node == n)
            return true;
    return false;
}

/* ---- windows ---- */

static bool covers(const struct window *w, const struct plan_node *n)
{
    for (uint32_t k = 0; k < w->nnodes; k++)
        if (w->nodes[k] == n)
            return true;
    return false;
}

static bool belongs(const struct plan_tenant *t, const struct plan_tenant *to)
{
    while (t && t != to)
        t = t->parent;
    return t;
}

/* until_ms: how long the item is on the node. */
static bool window_allows(const struct plan *p, const struct plan_item *i,
                          const struct plan_node *n, uint64_t until_ms)
{
    for (const struct window *w = p->promises->windows; w; w = w->next)
        if (p->now_ms < w->to_ms && until_ms > w->from_ms && covers(w, n) &&
            (!w->tenant || !belongs(i->tenant, w->tenant)))
            return false;
    return true;
}

static void free_room(struct plan *p, const struct window *w)
{
    for (uint32_t k = 0; k < w->nnodes; k++)
        line_room(p, w->nodes[k]);
}

static struct window *take_window(struct plan *p, const char *name)
{
    struct window **at = &p->promises->windows, *w;

    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    w = *at;
    if (w) {
        *at = w->next;
        for (uint32_t k = 0; k < w->nnodes; k++)
            w->nodes[k]->promised--;
    }
    return w;
}

int plan_window_set(struct plan *p, const struct plan_window *w,
                    struct err *err)
{
    struct window *made, **at = &p->promises->windows;

    if (w->name[0] == '\0' || w->to_ms <= w->from_ms || w->nnodes == 0)
        return err_set(err, EINVAL, "window '%.60s': expected a name, a node "
                       "and an end after its beginning", w->name);
    plan_window_remove(p, w->name);
    if (w->to_ms <= p->now_ms)
        return 0;                      /* it is over */
    made = mem_new(sizeof(*made));
    memcpy(made->name, w->name, sizeof(made->name) - 1);
    made->tenant = w->tenant;
    made->from_ms = w->from_ms;
    made->to_ms = w->to_ms;
    made->nnodes = w->nnodes;
    made->nodes = mem_dup(w->nodes, w->nnodes * sizeof(struct plan_node *));
    while (*at && strcmp((*at)->name, made->name) < 0)
        at = &(*at)->next;
    made->next = *at;
    *at = made;
    for (uint32_t k = 0; k < made->nnodes; k++) {
        made->nodes[k]->promised++;
        room_node_gone(p, made->nodes[k]);     /* to be claimed anew */
    }
    free_room(p, made);
    return 0;
}

void plan_window_remove(struct plan *p, const char *name)
{
    struct window *w = take_window(p, name);

    if (!w)
        return;
    free_room(p, w);
    free_window(w);
}

/* ---- what they mean to others ---- */

/* Who can be suspended is let in: it gives way when its turn is over. */
static bool passing(const struct plan *p, const struct plan_item *i,
                    const struct plan_node *n)
{
    return p->policy.turns != TURNS_OFF && i->yield == YIELD_SUSPEND &&
           n->suspends;
}

bool promise_allows(struct plan *p, const struct plan_item *i,
                    const struct plan_node *n, const struct part *part,
                    const struct plan_place *place)
{
    uint64_t gone = UINT64_MAX;

    if (!room_allows(p, i, n, part, place))
        return false;
    if (p->promises->count > 0 || p->promises->windows)
        gone = gone_ms(p, i, place);
    if (!window_allows(p, i, n, gone))
        return false;
    if (passing(p, i, n))
        return true;
    if (p->promises->count > 0 && !item_seen(p, i))
        gone = UINT64_MAX;             /* too little is known of its end */
    for (uint32_t k = 0; k < p->promises->count; k++) {
        const struct reservation *r = p->promises->list[k];

        if (r->item == i)
            break;                     /* who was promised later waits */
        if (r->item->priority >= i->priority && names(r, n) &&
            (gone > r->start_ms || slipped(p, r)) &&
            !leaves_whole(p, r, n, part, place))
            return false;
    }
    return true;
}

bool promise_keeps(const struct plan *p, const struct plan_item *i,
                   const struct plan_node *n, uint16_t *ret)
{
    bool any = room_keeps(p, i, n, ret);

    for (uint32_t k = 0; k < p->promises->count; k++) {
        const struct reservation *r = p->promises->list[k];

        if (r->item == i)
            break;
        if (r->item->priority < i->priority)
            continue;
        for (uint32_t m = 0; m < r->nplaces; m++) {
            const struct plan_place *at = &r->places[m];

            for (uint32_t d = 0; at->node == n && d < at->ndevices; d++) {
                ret[at->device[d]] = 1000;
                any = true;
            }
        }
    }
    return any;
}

bool promise_bars(struct plan *p, const struct plan_item *i,
                  const struct plan_node *n)
{
    for (uint32_t k = 0; k < p->promises->count; k++) {
        const struct reservation *r = p->promises->list[k];

        if (r->item == i)
            break;
        if (r->item->priority >= i->priority && names(r, n))
            return true;
    }
    return !window_allows(p, i, n, UINT64_MAX);
}

/* ---- time and change ---- */

/* Who was kept from the places may have them now.  In a pool that is not large
 * all look again.
 */
static void say_left(struct plan *p, const struct plan_place *places,
                     uint32_t n)
{
    if (p->pool->live <= ROOM_NODES) {
        line_room(p, NULL);
        return;
    }
    for (uint32_t k = 0; k < n; k++)
        if (k == 0 || places[k].node != places[k - 1].node)
            line_room(p, places[k].node);
}

void promise_moved(struct plan *p, const struct plan_item *i)
{
    if (i->reserved)
        say_left(p, i->reserved->places, i->reserved->nplaces);
}

/* The same promise at a later time. */
static void put_off(struct plan *p, struct reservation *r)
{
    uint32_t n = r->nplaces;
    struct reservation *later;

    count_nodes(r, false);
    r->nplaces = 0;
    later = earliest(p, r->item);
    say_left(p, r->places, n);
    if (!later) {
        promise_drop(p, r->item);
        return;
    }
    free(r->places);
    r->places = take(later->places);
    r->nplaces = later->nplaces;
    r->start_ms = later->start_ms;
    set_start(p, r);
    count_nodes(r, true);
    p->promised++;
    free_reservation(later);
}

/* Promises whose time has passed are made anew. */
void promises_tick(struct plan *p)
{
    struct promises *o = p->promises;

    for (uint32_t k = o->count; k-- > 0;)
        if (o->list[k]->start_ms <= p->now_ms)
            put_off(p, o->list[k]);
    for (struct window *w = o->windows, *next; w; w = next) {
        next = w->next;
        if (w->to_ms <= p->now_ms)
            plan_window_remove(p, w->name);
    }
}

void promises_changed(struct plan *p)
{
    while (p->promises->count > p->policy.reservations)
        promise_drop(p, p->promises->list[p->promises->count - 1]->item);
}

uint64_t promises_wake_ms(const struct plan *p)
{
    uint64_t at = UINT64_MAX;

    for (uint32_t k = 0; k < p->promises->count; k++)
        if (p->promises->list[k]->start_ms < at)
            at = p->promises->list[k]->start_ms;
    for (const struct window *w = p->promises->windows; w; w = w->next)
        if (w->to_ms < at)
            at = w->to_ms;
    return at;
}

/* ---- who is gone ---- */

void promise_tenant_gone(struct plan *p, const struct plan_tenant *t)
{
    for (struct window *w = p->promises->windows; w; w = w->next)
        if (w->tenant == t)
            w->tenant = NULL;
}

static void leave_window(struct window *w, const struct plan_node *n)
{
    uint32_t kept = 0;

    for (uint32_t k = 0; k < w->nnodes; k++)
        if (w->nodes[k] != n)
            w->nodes[kept++] = w->nodes[k];
    w->nnodes = kept;
}

void promise_node_gone(struct plan *p, const struct plan_node *n)
{
    for (uint32_t k = 0; k < p->promises->count;)
        if (names(p->promises->list[k], n)) {
            promise_drop(p, p->promises->list[k]->item);
            k = 0;
        } else {
            k++;
        }
    for (struct window *w = p->promises->windows; w; w = w->next)
        leave_window(w, n);
}
