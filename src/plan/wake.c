#include "plan/line.h"
#include "plan/pool.h"
#include "plan/victim.h"

/* Who looks again, and when: see line.c.
 *
 * In a pool of more than ROOM_NODES a change wakes only those who come first;
 * in a smaller one all whom it may help.
 */

static bool is_large(const struct plan *p)
{
    return p->pool->live > ROOM_NODES;
}

/* ---- those that wait for their own node ---- */

/* As item_before has it, as far as can be said without a look at the items. */
static bool bound_before(const struct plan *p, const struct bound *a,
                         const struct bound *b)
{
    int share;

    if (a->priority != b->priority)
        return a->priority > b->priority;
    share = tenant_order(p, a->tenant, b->tenant);
    if (share != 0)
        return share < 0;
    if (a->level != b->level)
        return a->level < b->level;
    return item_before(p, a->queue->bound, b->queue->bound);
}

/* The first in line of those whom the room on the node would do for; `after`:
 * of those who come after it.
 */
static struct queue *first_bound(const struct plan *p,
                                 const struct plan_node *n,
                                 struct queue *after)
{
    const struct bound *best = NULL;
    struct bound that = { .queue = NULL };

    if (after)
        that = line_bound(after, 0);
    for (uint32_t k = 0; k < n->nbound; k++) {
        const struct bound *b = &n->bound[k];

        if (b->rank_milli <= n->free_milli &&
            place_helps(p, n, b->shape) &&
            (!after || bound_before(p, &that, b)) &&
            (!best || bound_before(p, b, best)))
            best = b;
    }
    return best ? best->queue : NULL;
}

/* In a large pool only the first one looks; the next one when that is done. */
static void wake_bound(struct plan *p, const struct plan_node *n)
{
    if (is_large(p)) {
        struct queue *q = first_bound(p, n, NULL);

        if (q)
            line_unpark(p, q);
        return;
    }
    for (uint32_t k = 0; k < n->nbound;)
        if (place_helps(p, n, n->bound[k].shape))
            line_unpark(p, n->bound[k].queue);     /* the last moves here */
        else
            k++;
}

void wake_next_bound(struct plan *p, struct queue *q)
{
    const struct plan_item *i = q->bound;

    for (uint32_t k = 0; is_large(p) && k < i->nplaces; k++) {
        const struct plan_node *n = i->places[k].node;
        struct queue *next;

        if (k > 0 && i->places[k - 1].node == n)
            continue;
        next = first_bound(p, n, q);
        if (next)
            line_unpark(p, next);
    }
}

/* ---- room ---- */

static void wake_all(struct plan *p, const struct shape *s)
{
    for (struct queue *q = s->queues; q; q = q->next)
        if (q->parked != PARKED_TENANT)
            line_unpark(p, q);
}

/* May it be what one waits for who has turned another device down?  In a large
 * pool only the best there is: who would do with less looks at its own time.
 */
static bool is_good(const struct plan *p, const struct plan_node *n)
{
    if (!n || !is_large(p) || p->line->hopers == 0)
        return true;
    for (uint32_t k = 0; k < n->ndevices; k++)
        if (score_best(p, n->devices[k].model) <= 0)
            return true;
    return false;
}

/* Could anybody be made to go for it, for its priority or its tenant's quota? */
static bool may_evict(const struct plan *p, const struct queue *q)
{
    const struct rooms *r = p->rooms;

    return q->parked != PARKED_NOT && q->parked != PARKED_TENANT &&
           r->nsets > 0 &&
           (r->sets[0].priority < q->priority ||
            tenant_within_quota(q->tenant, q->shape->gpu_milli));
}

/* Would a rank have enough on the node if those went? */
static bool may_clear(const struct plan *p, const struct queue *q,
                      const struct plan_node *n)
{
    const struct plan_item *head = keyed_top(&q->items);
    struct ask a;

    if (!may_evict(p, q) || !room_own_node(head, n))
        return false;
    a = victim_ask(p, head);
    a.turn = a.least = UINT32_MAX;
    for (uint32_t k = 0; k < q->shape->nparts; k++) {
        const struct part *t = &q->shape->parts[k];

        if (need_matches_node(n, t) && place_family(n->family, t) &&
            victim_enough(&a, n, t))
            return true;
    }
    return false;
}

/* Room on the node helps those of the shape who fit there, and those for whom
 * others there may be made to go; for a turn they are asked at another time (see
 * line_chance).  Who was kept from room by a promise may be short enough for it
 * by what was learned from an end.
 */
static void wake_shape(struct plan *p, struct shape *s,
                       const struct plan_node *n, bool good)
{
    if (place_helps(p, n, s) || (s->denied > 0 && !is_large(p)))
        line_open(s, good);
    for (struct queue *q = s->queues; q && !is_large(p); q = q->next)
        if (may_clear(p, q, n))
            line_unpark(p, q);
}

/* Where moves can join what is free, room anywhere helps who needs no more
 * than is free in all, or than others may fill (see victim_fills).  In a small
 * pool all look again.
 */
void line_room(struct plan *p, const struct plan_node *n)
{
    uint64_t one = room_moves(p) ? victim_fillable(p, false) : 0;
    uint64_t gang = room_moves(p) ? victim_fillable(p, true) : 0;
    bool good = is_good(p, n);

    p->room++;
    for (uint32_t k = 0; k < p->nshapes; k++) {
        struct shape *s = p->shapes[k];
        bool joined = s->gpu_milli > 0 &&
                      s->gpu_milli <= (s->ranks > 1 ? gang : one);

        if (!s->queues)
            continue;
        if (!n || joined || p->pool->live <= SMALL_POOL) {
            wake_all(p, s);
        } else {
            wake_shape(p, s, n, good);
        }
    }
    if (n)
        wake_bound(p, n);
}

/* In a small pool always: whoever runs there may be suspended when that was not
 * possible before.
 */
bool line_lacks_memory(const struct plan *p, const struct plan_item *i)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t k = 0; k < i->nplaces; k++)
        if (i->places[k].node->memory_free < least)
            least = i->places[k].node->memory_free;
    for (uint32_t s = 0; s < p->nshapes; s++)
        for (uint32_t k = 0; p->shapes[s]->queues &&
                             k < p->shapes[s]->nparts; k++)
            if (p->shapes[s]->parts[k].need.memory > least)
                return true;
    return p->pool->live <= SMALL_POOL;
}

/* Nobody is promised anything when it looks for that reason alone. */
static void wake_set(struct plan *p, struct shape *s)
{
    for (struct queue *q = s->queues; q; q = q->next)
        if (may_evict(p, q))
            line_unpark(p, q);
    if (!s->open || s->denied > 0) {
        line_open(s, false);
        s->again = true;
    }
}

/* Ranks, and those that move, go one by one where each is best, so that several
 * may fit now that a worse choice is gone.
 */
void line_took(struct plan *p, bool leaving)
{
    bool small = p->pool->live <= SMALL_POOL;
    bool moves = small && room_moves(p);

    for (uint32_t k = 0; !is_large(p) && k < p->nshapes; k++) {
        struct shape *s = p->shapes[k];

        if (moves || (small && (!s->simple || leaving)))
            wake_all(p, s);
        else if ((!s->simple || leaving) && s->queues)
            wake_set(p, s);
    }
}

/* Those with a rank that has no device look again. */
void line_cpus(struct plan *p)
{
    p->room++;
    for (uint32_t k = 0; k < p->nshapes; k++) {
        struct shape *s = p->shapes[k];

        if (!s->alone)
            continue;
        vain_forget(s);
        wake_all(p, s);
    }
}

/* What is better, and worth a wait, changes with all there is: in a small pool
 * all who wait for it look again whatever has happened, in a larger one when
 * room is made and when the device was to be free.
 */
void wake_hopers(struct plan *p)
{
    if (p->line->hopers == 0 || p->pool->live > SMALL_POOL)
        return;
    for (uint32_t k = 0; k < p->nshapes; k++)
        for (struct queue *q = p->shapes[k]->queues, *next; q; q = next) {
            next = q->next;
            if (q->hopes)
                line_look_again(p, q);
        }
}

/* It may be what they hoped for, or what others, who have looked already, would
 * have had from one that leaves.
 */
void wake_promised(struct plan *p, const struct plan_place *places, uint32_t n)
{
    line_took(p, pool_left(places, n));
    wake_hopers(p);
}

/* ---- shares ---- */

/* In a small pool all who share by weight look again when shares change: who
 * may ask whom to give way is another question then.  In a larger one they
 * look when room is made or when somebody may newly give way.
 */
static void wake_fair(struct plan *p)
{
    for (uint32_t k = 0; k < p->nshapes; k++)
        wake_all(p, p->shapes[k]);
}

/* Usage decays, and shares with it; who has run for as long as a move costs may
 * be moved; and the longer one has run, the more is lost if it is killed.
 */
void line_tick(struct plan *p)
{
    uint64_t second = p->now_ms / SEARCH_MS;

    if (p->pool->live > SMALL_POOL || second == p->line->second)
        return;
    p->line->second = second;
    wake_fair(p);
}

/* What is guaranteed to them may be had from others now. */
static void wake_guaranteed(struct plan *p)
{
    for (uint32_t k = 0; k < p->nshapes; k++) {
        const struct shape *s = p->shapes[k];

        for (struct queue *q = s->queues; q; q = q->next)
            if (q->parked != PARKED_NOT && q->parked != PARKED_TENANT &&
                tenant_within_quota(q->tenant, s->gpu_milli))
                line_unpark(p, q);
    }
}

void line_tenant(struct plan *p, struct plan_tenant *t)
{
    (void) t;
    if (p->fair && p->pool->live <= SMALL_POOL)
        wake_fair(p);
    else if (p->fair && p->policy.reclaim && !is_large(p))
        wake_guaranteed(p);
    for (uint32_t k = 0; p->line->barred > 0 && k < p->nshapes; k++) {
        struct shape *s = p->shapes[k];

        for (struct queue *q = s ? s->queues : NULL; q; q = q->next)
            if (q->parked == PARKED_TENANT &&
                !tenant_barred(q->tenant, s->gpu_milli))
                line_unpark(p, q);
    }
}

/* ---- somebody may newly give way ---- */

/* Where a search was in vain of late, only what is new is looked at. */
static void give_chance(struct plan *p, struct queue *q,
                        const struct plan_item *i)
{
    uint32_t node = i->places[0].node->index + 1;

    if (q->shape->simple && !q->bound && p->now_ms < q->search_ms &&
        (q->chance == 0 || q->chance == node))
        q->chance = node;
    else
        q->search_ms = 0;
    line_unpark(p, q);
}

/* Somebody who may newly give way, as those see it who may ask. */
struct chance {
    struct plan_item *item;
    enum lend lend;
    bool reclaims;                     /* its tenant has more than its quota */
};

/* May that one ask?  Without a look at its item, of which there are many and
 * most may not; room_may_go has the last word.
 */
static bool may_ask(const struct plan *p, const struct chance *c,
                    const struct bound *b, bool back)
{
    const struct plan_item *v = c->item;

    if (b->priority != v->priority)
        return b->priority > v->priority;
    if ((b->level == 0 || b->level + victim_apart(back) <= v->level) &&
        victim_lends(c->lend, v->level, b->shape, b->own, back) &&
        tenant_order(p, b->tenant, v->tenant) <= 0)
        return true;
    return c->reclaims && b->tenant != v->tenant &&
           tenant_within_quota(b->tenant, b->shape->gpu_milli);
}

/* The first of each row of the bench whom it may give way for. */
static bool wake_bench(struct plan *p, const struct bench *b,
                       const struct chance *c)
{
    bool any = false;

    for (uint32_t k = 0; k < b->nrows; k++) {
        struct queue *q = b->first[k].queue;

        if (q && may_ask(p, c, &b->first[k], false) &&
            room_may_go(p, keyed_top(&q->items), c->item)) {
            give_chance(p, q, c->item);
            any = true;
        }
    }
    return any;
}

/* Might it give way for some of the bench, by priority and tenant? */
static bool bench_may(const struct plan *p, const struct bench *b,
                      const struct plan_item *i)
{
    return b->band->priority > i->priority || !b->tenant ||
           (i->level > 0 && tenant_order(p, b->tenant, i->tenant) <= 0) ||
           (p->policy.reclaim && b->tenant != i->tenant &&
            tenant_within_quota(b->tenant, 0));
}

/* In a large pool only those look who come first: when they cannot use it, it
 * is left alone until it has its next level.
 */
static void wake_first(struct plan *p, const struct chance *c)
{
    for (uint32_t k = 0; k < p->line->nbands; k++) {
        struct band *band = p->line->bands[k];
        const struct bench *b = NULL;

        if (band->priority < c->item->priority)
            break;
        line_sort(p, band);
        for (uint32_t n = 0; n < band->count && !b; n++)
            if (band->benches[n]->count > band->benches[n]->queues.count &&
                bench_may(p, band->benches[n], c->item))
                b = band->benches[n];
        if (b && wake_bench(p, b, c))
            break;
    }
}

/* ... and the first of those who wait for a place on its node, if what it has
 * and what is free there would do.
 */
static void wake_beside(struct plan *p, const struct chance *c)
{
    const struct plan_node *n = c->item->places[0].node;
    uint64_t milli = n->free_milli + c->item->held_milli;
    const struct bound *best = NULL;

    for (uint32_t k = 0; k < n->nbound; k++) {
        const struct bound *b = &n->bound[k];

        if (b->shape->gpu_milli <= milli && may_ask(p, c, b, true) &&
            (!best || bound_before(p, b, best)) &&
            room_may_go(p, b->queue->bound, c->item))
            best = b;
    }
    if (best)
        give_chance(p, best->queue, c->item);
}

void line_chance(struct plan *p, struct plan_item *i)
{
    struct chance c = { .item = i };

    if (i->room_slot == 0)
        return;
    c.lend = victim_lend(i);
    c.reclaims = p->policy.reclaim && i->held_milli > 0 &&
                 victim_over_quota(i->tenant);
    if (is_large(p)) {
        wake_first(p, &c);
        wake_beside(p, &c);
        return;
    }
    for (uint32_t k = 0; k < p->nshapes; k++)
        for (struct queue *q = p->shapes[k]->queues; q; q = q->next)
            if (q->parked != PARKED_NOT && q->parked != PARKED_TENANT &&
                room_may_go(p, keyed_top(&q->items), i))
                give_chance(p, q, i);
}

static uint64_t memory_on(const struct plan_item *i, const struct plan_node *n)
{
    uint64_t sum = 0;

    for (uint32_t k = 0; k < i->nplaces; k++)
        if (i->places[k].node == n)
            sum += i->shape->parts[i->places[k].part].need.memory;
    return sum;
}

/* Suspended, it would leave its state where the other was to be; where there is
 * no memory for that it is killed, and leaves none.
 */
void line_fills(struct plan *p, const struct plan_item *i)
{
    for (uint32_t k = 0; !is_large(p) && k < i->nplaces; k++) {
        const struct plan_node *n = i->places[k].node;
        uint64_t taken = memory_on(i, n);

        for (uint32_t m = 0; m < n->nitems; m++)
            if (n->items[m] != i && victim_stays(n->items[m], n, taken))
                line_chance(p, n->items[m]);
    }
}
