#include "plan/cost.h"
#include "plan/pool.h"
#include "plan/victim.h"

#include <math.h>
#include <string.h>

/* Who may be made to go, for whom, and what that costs. */

/* Is there memory for what all its ranks on that node leave there, if `back` of
 * what is held were given back?
 */
static bool can_park(const struct plan_item *v, const struct plan_node *n,
                     uint64_t back)
{
    uint64_t bytes = 0, given = 0;

    for (uint32_t k = 0; k < v->nplaces; k++) {
        if (v->places[k].node != n)
            continue;
        bytes += item_bytes(v, &v->places[k]);
        given += v->shape->parts[v->places[k].part].need.memory;
    }
    return n->suspends &&
           n->memory_held + n->parked + bytes <= n->memory + given + back;
}

enum plan_yield victim_how(const struct plan_item *v)
{
    if (v->yield != YIELD_SUSPEND)
        return v->yield;
    for (uint32_t k = 0; k < v->nplaces; k++)
        if (!can_park(v, v->places[k].node, 0))
            return YIELD_KILL;
    return YIELD_SUSPEND;
}

bool victim_stays(const struct plan_item *v, const struct plan_node *n,
                  uint64_t taken)
{
    return v->yield == YIELD_SUSPEND && !can_park(v, n, 0) &&
           can_park(v, n, taken);
}

/* What it costs, in ms by which somebody is later.  Suspended, it pays for
 * that; unless it moves it also waits for its turn, and the later its level
 * the longer it has still to run and the less a wait is to it.  Killed, it does
 * its work again.
 */
double victim_loss(const struct plan *p, const struct plan_item *v,
                   enum plan_yield how, bool moves)
{
    double loss = how == YIELD_SUSPEND ? suspend_cost_ms(p, v)
                                       : p->policy.suspend_cost_s * 1000;

    if (!moves)
        loss += (double) p->policy.patience_ms / (1 + v->level);
    if (how != YIELD_SUSPEND)
        loss += (double) p->policy.min_run_ms;
    if (how == YIELD_KILL)
        loss += (double) (p->now_ms - v->since_ms) *
                (1 + (double) v->held_milli / 1000);
    return loss;
}

/* ---- what tenants and levels allow ---- */

/* One within its own guarantee is not over that of those above.  Who was asked
 * before, in the same search, is gone by then.
 */
bool victim_over_quota(const struct plan_tenant *t)
{
    if (t->quota_milli > 0 && t->held_milli - t->off_milli <= t->quota_milli)
        return false;
    for (; t; t = t->parent)
        if (t->held_milli - t->off_milli > t->quota_milli)
            return true;
    return false;
}

void victim_off(struct ask *a, const struct plan_item *v, bool off)
{
    struct plan_tenant *t = v->tenant;

    if (!a->p->fair || v->held_milli == 0)
        return;
    for (; t; t = t->parent)
        t->off_milli += off ? v->held_milli : 0 - v->held_milli;
    a->number = ++a->p->rooms->asks;
}

/* Who is suspended and goes on only there has lent its place, and gets it back
 * once those there have later levels: that they were ahead was the reason.
 */
uint32_t victim_apart(bool back)
{
    return back ? 1 : PREDICT_GIVE_WAY;
}

/* Slices are taken whole, and by all in turn: a level is no reason beside
 * them.
 */
static bool takes_turns(const struct plan *p)
{
    return p->policy.turns != TURNS_OFF && p->policy.slice_ms == 0;
}

struct ask victim_ask(const struct plan *p, const struct plan_item *i)
{
    bool turns = takes_turns(p) && i->shape->gpu_milli > 0;
    uint32_t turn = i->level + victim_apart(place_bound(i));

    return (struct ask) {
        .p = p, .i = i, .number = ++p->rooms->asks,
        .within = tenant_within_quota(i->tenant, i->shape->gpu_milli),
        .turn = turns ? turn : UINT32_MAX,
        .least = !turns ? UINT32_MAX : i->promoted ? 0 : turn,
        .due_ms = turns ? item_due_ms(p, i) : 0,
    };
}

/* What a guarantee covers goes for a turn only to one whom a guarantee covers
 * as well: or it would be taken back at once.
 */
static uint8_t judge(const struct ask *a, struct plan_tenant *t)
{
    const struct plan_item *i = a->i;
    bool over = victim_over_quota(t);
    uint8_t may = 0;

    if (a->p->policy.reclaim && a->within && i->tenant != t && over)
        may |= ASK_RECLAIM;
    if ((i->tenant == t || !a->p->fair || over || a->within) &&
        tenant_order(a->p, i->tenant, t) <= 0)
        may |= ASK_TURN;
    return may;
}

/* Of all who belong to the tenant: worked out once for each claimant. */
static uint8_t tenant_may(const struct ask *a, struct plan_tenant *t)
{
    if (t->asked != a->number) {
        t->may = judge(a, t);
        t->asked = a->number;
    }
    return t->may;
}

/* May those of that priority, level and tenant be made to go, but for what
 * they are themselves?
 */
static bool may_ask(const struct ask *a, int16_t priority, uint8_t level,
                    struct plan_tenant *t, enum plan_cause *ret)
{
    *ret = EVICT_PRIORITY;
    if (priority != a->i->priority)
        return priority < a->i->priority;
    *ret = EVICT_QUOTA;
    if (a->within && (tenant_may(a, t) & ASK_RECLAIM))
        return true;
    *ret = EVICT_TURN;
    return level >= a->least && (tenant_may(a, t) & ASK_TURN);
}

/* What stands idle for one of several ranks does so until it has all of them: past
 * its patience, suspending others for what it lacks costs less if the idle have
 * by then.  Where the suspended cannot go elsewhere nobody fills at all.
 */
uint64_t victim_fillable(const struct plan *p, bool gang)
{
    double idle = (double) meter_idle(p), most = 2 * idle;
    double cost_ms = fmax(p->policy.suspend_cost_s * 1000, 1);

    if (gang && p->pool->roaming > 0)
        most = fmax(most, idle + idle * (double) p->policy.patience_ms /
                          cost_ms);
    return most < (double) PLAN_UNLIMITED ? (uint64_t) most : PLAN_UNLIMITED;
}

bool victim_fills(const struct plan *p, const struct plan_item *i)
{
    return room_moves(p) && takes_turns(p) && i->promoted &&
           i->shape->gpu_milli > 0 &&
           i->shape->gpu_milli <= victim_fillable(p, i->shape->ranks > 1);
}

/* A turn is for one whose next end costs a quarter of v's or less, with what v
 * pays for going counted as i's; or for one that has waited past its patience,
 * by those who were there for the first half of that.  Who came later was
 * before it in line or found a hole: where more wait than can run, all would
 * drive each other out otherwise.
 * It is not taken from one that has just begun.
 *
 * Work is counted in device-time, so one without a device has no turn to ask
 * for.
 */
bool victim_turn(const struct ask *a, const struct plan_item *v)
{
    double pays = a->p->policy.suspend_cost_s * (double) v->held_milli;

    if (!v->places[0].node->roams)     /* see may_lend */
        return v->level >= a->turn;
    if (item_turn_ms(a->p, v) > a->p->now_ms)
        return false;
    return v->since_ms <= a->due_ms ||
           (v->level >= a->i->level + (uint32_t) PREDICT_GIVE_WAY &&
            predict_cost(v->level - (uint32_t) PREDICT_GIVE_WAY) >=
            predict_cost(a->i->level) + pays);
}

static bool may_fill(const struct ask *a, const struct plan_item *v)
{
    return a->fills && v->places[0].node->roams &&
           2 * v->held_milli <= a->i->shape->gpu_milli;
}

/* Where the suspended go on only where they were, one waits for whoever has
 * taken its place, for as long as that lasts.  So only those take turns there
 * that want one device: they fit wherever one leaves.  Only those give way that
 * hold one, or at most half of a node: the wider one is, the less likely all of it
 * comes free again at once.  Who has lent its place may ask for it whatever its
 * width.  And patience is no reason: two that are long would
 * take turns for ever.
 */
enum lend victim_lend(const struct plan_item *v)
{
    const struct plan_place *at = v->places;

    for (uint32_t k = 0; v->yield == YIELD_SUSPEND && k < v->nplaces; k++)
        if (!v->places[k].node->roams)
            return v->nplaces == 1 &&
                   (at->ndevices <= 1 ||
                    2 * at->ndevices <= at->node->ndevices) ? LEND_NARROW
                                                            : LEND_NOT;
    return LEND_ANY;
}

bool victim_lends(enum lend lend, uint8_t level, const struct shape *s,
                  uint8_t own, bool back)
{
    if (lend != LEND_NARROW)
        return lend == LEND_ANY;
    return level >= own + victim_apart(back) &&
           (back || (s->ranks == 1 && s->gpu_milli <= 1000));
}

static bool may_lend(const struct ask *a, enum lend lend, uint8_t level)
{
    return victim_lends(lend, level, a->i->shape, a->i->level,
                        place_bound(a->i));
}

/* As for a turn, but its tenant is judged by what it has had: one that has a
 * device would always be after one that has none.
 */
static bool shares_slice(const struct ask *a, const struct plan_item *v)
{
    return !a->p->fair || a->i->tenant == v->tenant ||
           ((a->within || victim_over_quota(v->tenant)) &&
            tenant_order_off(a->p, a->i->tenant, v->tenant,
                             v->held_milli) <= 0);
}

/* Its slice is its least run time.  The fewest go, and of these who was there
 * longest.
 */
static bool may_slice(const struct ask *a, struct plan_item *v,
                      struct option *ret)
{
    if (v->priority != a->i->priority || v->held_milli == 0 ||
        slice_over_ms(a->p, v, a->i) > a->p->now_ms ||
        !shares_slice(a, v) || victim_how(v) != YIELD_SUSPEND)
        return false;
    *ret = (struct option) {
        .item = v, .loss = (double) v->since_ms, .cause = EVICT_SLICE,
        .how = YIELD_SUSPEND,
    };
    return true;
}

/* Who stands in no set has not run for long enough. */
bool victim_may(const struct ask *a, struct plan_item *v, struct option *ret)
{
    enum plan_cause cause;
    enum plan_yield how;

    if (a->slice)
        return may_slice(a, v, ret);
    if (v->room_slot == 0 ||
        !may_ask(a, v->priority, v->level, v->tenant, &cause))
        return false;
    if (cause == EVICT_QUOTA && v->held_milli == 0) {
        if (v->level < a->least || !(tenant_may(a, v->tenant) & ASK_TURN))
            return false;
        cause = EVICT_TURN;
    }
    if (cause == EVICT_TURN && !may_fill(a, v) && !victim_turn(a, v))
        return false;
    how = victim_how(v);
    if (how == YIELD_NEVER || (cause == EVICT_QUOTA && how == YIELD_KILL &&
                               !a->p->policy.kill))
        return false;
    if (cause == EVICT_TURN && how == YIELD_SUSPEND &&
        !may_lend(a, victim_lend(v), v->level))
        return false;
    if (cause == EVICT_TURN &&
        (how == YIELD_KILL || (how == YIELD_CHECKPOINT &&
                               a->p->policy.turns != TURNS_CHECKPOINT)))
        return false;
    *ret = (struct option) {
        .item = v, .loss = victim_loss(a->p, v, how, false),
        .cause = cause, .how = how,
    };
    if (a->fills && cause == EVICT_TURN)
        ret->loss *= fmax((double) v->held_milli / 1000, 1);
    return true;
}

bool victim_still(const struct plan *p, const struct plan_item *i,
                  const struct plan_victim *v)
{
    const struct plan_item *o = v->item;

    if (v->how == YIELD_SUSPEND && victim_how(o) != YIELD_SUSPEND)
        return false;
    if (v->cause == EVICT_MOVE)
        return p->policy.move;
    if (v->cause == EVICT_SLICE)
        return p->policy.slice_ms > 0 && o->priority == i->priority;
    if (o->room_slot == 0 || o->priority > i->priority)
        return false;
    if (v->cause == EVICT_PRIORITY)
        return o->priority < i->priority;
    if (v->cause == EVICT_TURN)
        return takes_turns(p) && (v->how == YIELD_SUSPEND ||
                                  p->policy.turns == TURNS_CHECKPOINT);
    return p->policy.reclaim && (v->how != YIELD_KILL || p->policy.kill) &&
           tenant_within_quota(i->tenant, i->shape->gpu_milli) &&
           victim_over_quota(o->tenant);
}

bool room_may_go(const struct plan *p, const struct plan_item *i,
                 struct plan_item *v)
{
    struct ask a;
    struct option unused;

    if (v->room_slot == 0 || i->priority < v->priority)
        return false;
    a = victim_ask(p, i);
    a.fills = victim_fills(p, i);
    return victim_may(&a, v, &unused);
}

/* ---- where they are ---- */

/* The sets stand in order of priority, then from the latest level to the first:
 * from some on none may be asked.
 */
static bool is_past(const struct ask *a, const struct running_set *set)
{
    return set->priority > a->i->priority ||
           (set->priority == a->i->priority && set->level < a->least &&
            !a->within);
}

bool victim_hope(const struct ask *a, uint64_t idle)
{
    const struct rooms *r = a->p->rooms;
    uint64_t milli = idle + r->leaving_milli, want = a->i->shape->gpu_milli;
    enum plan_cause unused;
    bool any = false;

    for (uint32_t k = 0; k < r->nsets && !(any && milli >= want); k++) {
        const struct running_set *set = &r->sets[k];

        if (is_past(a, set))
            break;
        if (may_ask(a, set->priority, set->level, set->tenant, &unused)) {
            milli += set->milli;
            any = true;
        }
    }
    return any && milli >= want;
}

uint32_t victim_first(const struct ask *a, struct plan_item **ret)
{
    const struct rooms *r = a->p->rooms;
    enum plan_cause unused;
    uint32_t n = 0;

    for (uint32_t k = 0; k < r->nsets && n < ROOM_VICTIMS; k++) {
        const struct running_set *set = &r->sets[k];
        void *list[ROOM_VICTIMS];
        uint32_t count = 0;

        if (is_past(a, set))
            break;
        if (may_ask(a, set->priority, set->level, set->tenant, &unused))
            count = keyed_first(&set->items, list, ROOM_VICTIMS - n);
        for (uint32_t m = 0; m < count; m++)
            ret[n++] = list[m];
    }
    return n;
}

/* What a node has, or would have. */
struct has {
    uint64_t milli, cpu;
    uint64_t alone;                    /* CPUs of ranks without a device */
};

static bool has_enough(const struct ask *a, const struct plan_node *n,
                       const struct part *q, const struct has *h)
{
    return h->milli >= q->need.gpu_milli && h->cpu >= q->need.cpu_milli &&
           (q->devices > 0 ||
            !score_keeps(a->p, n, q, h->alone + q->need.cpu_milli));
}

bool victim_enough(const struct ask *a, const struct plan_node *n,
                   const struct part *q)
{
    struct has h = {
        /* A share has to be of one device. */
        .milli = q->milli < 1000 ? n->free_most : n->free_milli,
        .cpu = n->cpu_free, .alone = n->cpu_alone,
    };
    enum plan_cause cause;

    if (n->leaving > 0)
        return true;
    for (uint32_t k = 0; k < n->nripe; k++) {
        const struct ripe *v = &n->ripe[k];

        if (has_enough(a, n, q, &h))
            return true;
        if (may_ask(a, v->priority, v->level, v->tenant, &cause) &&
            (cause != EVICT_TURN || may_lend(a, v->lend, v->level))) {
            h.milli += v->gpu_milli;
            h.cpu += v->cpu_milli;
            h.alone -= v->gpu_milli > 0 ? 0 : v->cpu_milli;
        }
    }
    return has_enough(a, n, q, &h);
}
