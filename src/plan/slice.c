#include "plan/cost.h"
#include "plan/line.h"
#include "plan/victim.h"

#include <math.h>

/* Time slices: equals that do not fit beside each other take turns.
 *
 * The other rules look for the one to whom a device matters more.  This one is
 * for those among whom there is nothing to choose: who has had its devices for
 * a slice gives way to whoever waits longest of the same priority and could
 * start there then, and waits for its next slice.  Nobody goes while nobody
 * waits, and only who can be suspended does.  Slices take the place of turns:
 * those are for the earlier level, and would cut the slices of the later short.
 * Fair shares and guarantees hold
 * as they do for turns: of two tenants the one goes on that has had less.
 *
 * A slice is the policy's, or SLICE_COSTS times what suspending costs if that
 * is more, of the two the one that costs more: who is large would have longer
 * slices than its neighbour otherwise.  Who was suspended waits for as long
 * before it asks, or it would drive out the next one as soon as it is off.
 *
 * All other decisions come first, so without a slice in the policy nothing here
 * changes any.  It looks at all items, for each decision: slices are for the
 * few who share a node.
 */
enum { SLICE_COSTS = 10, SLICE_CLAIMANTS = 16 };

static uint64_t slice_ms(const struct plan *p, const struct plan_item *v,
                         const struct plan_item *i)
{
    double cost = suspend_cost_ms(p, v);

    if (i->places)
        cost = fmax(cost, suspend_cost_ms(p, i));
    cost *= SLICE_COSTS;
    return cost > (double) p->policy.slice_ms ? (uint64_t) cost
                                              : p->policy.slice_ms;
}

uint64_t slice_over_ms(const struct plan *p, const struct plan_item *v,
                       const struct plan_item *i)
{
    uint64_t from = v->since_ms;

    if (i->places && i->since_ms > from)
        from = i->since_ms;
    return from + slice_ms(p, v, i);
}

/* ---- who asks ---- */

static bool asks(const struct plan *p, const struct plan_item *i)
{
    return item_waits(i) && i->shape->gpu_milli > 0 && i->look_ms == 0 &&
           !room_claim(p, i) && !line_never(p, i->shape) &&
           !tenant_barred(i->tenant, i->shape->gpu_milli);
}

static bool asks_before(const struct plan *p, const struct plan_item *a,
                        const struct plan_item *b)
{
    int c = 0;

    if (a->priority != b->priority)
        return a->priority > b->priority;
    if (p->fair)
        c = tenant_order(p, a->tenant, b->tenant);
    if (c != 0)
        return c < 0;
    return a->since_ms < b->since_ms ||
           (a->since_ms == b->since_ms && a->order < b->order);
}

static uint32_t claimants(const struct plan *p, struct plan_item **ret)
{
    uint32_t n = 0;

    for (struct plan_item *i = p->all; i; i = i->next) {
        uint32_t to = n;

        if (!asks(p, i))
            continue;
        while (to > 0 && asks_before(p, i, ret[to - 1]))
            to--;
        if (to == SLICE_CLAIMANTS)
            continue;
        n += n < SLICE_CLAIMANTS;
        for (uint32_t k = n - 1; k > to; k--)
            ret[k] = ret[k - 1];
        ret[to] = i;
    }
    return n;
}

static bool could_go(const struct plan_item *v, const struct plan_item *i)
{
    return v->state == ITEM_RUNNING && v->held_milli > 0 &&
           v->yield == YIELD_SUSPEND && v->priority == i->priority;
}

uint32_t slice_first(const struct plan *p, const struct plan_item *i,
                     struct plan_item **ret)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < p->nrunning; k++) {
        struct plan_item *v = p->running[k];
        uint32_t to = n;

        if (!could_go(v, i) || slice_over_ms(p, v, i) > p->now_ms)
            continue;
        while (to > 0 && (ret[to - 1]->since_ms > v->since_ms ||
                          (ret[to - 1]->since_ms == v->since_ms &&
                           ret[to - 1]->order > v->order)))
            to--;
        if (to == ROOM_VICTIMS)
            continue;
        n += n < ROOM_VICTIMS;
        for (uint32_t m = n - 1; m > to; m--)
            ret[m] = ret[m - 1];
        ret[to] = v;
    }
    return n;
}

static bool is_over(const struct plan *p, const struct plan_item *i)
{
    for (uint32_t k = 0; k < p->nrunning; k++)
        if (could_go(p->running[k], i) &&
            slice_over_ms(p, p->running[k], i) <= p->now_ms)
            return true;
    return false;
}

/* Can there be one, whoever asks? */
static bool any_over(const struct plan *p)
{
    for (uint32_t k = 0; k < p->nrunning; k++)
        if (p->running[k]->since_ms + p->policy.slice_ms <= p->now_ms)
            return true;
    return false;
}

bool slice_next(struct plan *p, struct plan_decision *ret)
{
    struct plan_item *list[SLICE_CLAIMANTS];
    uint32_t n;

    if (p->policy.slice_ms == 0 || p->waiting == 0 || !any_over(p))
        return false;
    n = claimants(p, list);
    for (uint32_t k = 0; k < n; k++)
        if (is_over(p, list[k]) && room_for_slice(p, list[k], ret))
            return true;
    return false;
}

/* One whose tenant has had more may have had less before long: it looks again
 * after a tenth of a slice.
 */
uint64_t slice_wake_ms(const struct plan *p)
{
    uint64_t least = UINT64_MAX, soon = p->policy.slice_ms / 10;
    struct plan_item *list[SLICE_CLAIMANTS];
    uint32_t n;

    if (p->policy.slice_ms == 0 || p->waiting == 0 || p->nrunning == 0)
        return UINT64_MAX;
    if (soon < SEARCH_MS)
        soon = SEARCH_MS;
    n = claimants(p, list);
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t m = 0; m < p->nrunning; m++) {
            uint64_t at = UINT64_MAX;

            if (could_go(p->running[m], list[k]))
                at = slice_over_ms(p, p->running[m], list[k]);
            if (at <= p->now_ms)
                at = p->fair ? p->now_ms + soon : UINT64_MAX;
            least = at < least ? at : least;
        }
    return least;
}
