#include "plan/hunt.h"

#include "plan/cost.h"
#include "plan/pool.h"

#include "base/mem.h"

#include <string.h>

/* ---- steps on paper ---- */

/* Not again before it has run for as long as a move costs: so nobody is pushed
 * around for ever.
 */
bool hunt_may_move(const struct hunt *s, const struct plan_item *v)
{
    return s->moves && v->state == ITEM_RUNNING && !v->picked &&
           v->shape->simple && v->places[0].node->roams &&
           (double) (s->p->now_ms - v->since_ms) >=
               suspend_cost_ms(s->p, v) &&
           victim_how(v) == YIELD_SUSPEND;
}

static struct step *push(struct hunt *s)
{
    if (s->nsteps == s->steps_cap) {
        s->steps_cap = s->steps_cap ? s->steps_cap * 2 : 16;
        s->steps = mem_grow(s->steps, s->steps_cap, sizeof(*s->steps));
    }
    return &s->steps[s->nsteps++];
}

void hunt_take_off(struct hunt *s, const struct option *o)
{
    struct step *step = push(s);

    step->victim = (struct plan_victim) {
        .item = o->item, .cause = o->cause, .how = o->how,
    };
    step->loss = o->loss;
    o->item->picked = true;
    victim_off(&s->ask, o->item, true);
    paper_give_item(&s->paper, o->item);
    if (o->how == YIELD_SUSPEND)
        paper_park(&s->paper, o->item, true);
}

void hunt_put_back(struct hunt *s, uint32_t k)
{
    struct step *o = &s->steps[k];

    if (o->victim.moves)
        paper_give(&s->paper, o->victim.item->shape, &o->victim.to);
    if (o->victim.how == YIELD_SUSPEND)
        paper_park(&s->paper, o->victim.item, false);
    paper_take_item(&s->paper, o->victim.item);
    o->victim.item->picked = false;
    victim_off(&s->ask, o->victim.item, false);
    memmove(o, o + 1, (--s->nsteps - k) * sizeof(*o));
}

void hunt_undo(struct hunt *s, uint32_t to)
{
    while (s->nsteps > to)
        hunt_put_back(s, s->nsteps - 1);
}

uint64_t hunt_free_on(const struct paper_node *at)
{
    uint64_t left = 0;

    for (uint32_t d = 0; d < at->node->ndevices; d++)
        left += at->left[d];
    return left;
}

/* Another node where it fits, the one with least left. */
static bool find_hole(const struct hunt *s, const struct plan_item *v,
                      const struct paper_node *not_here,
                      struct plan_place *ret)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t k = 0; k < s->paper.count; k++) {
        const struct paper_node *at = &s->paper.nodes[k];
        struct plan_place place;
        uint64_t left;

        if (at == not_here || at->barred || !at->node->roams ||
            at->node->pool_number != v->places[0].node->pool_number)
            continue;
        left = hunt_free_on(at);
        if (left < least && left >= v->shape->gpu_milli &&
            paper_fits(&s->paper, at, v->shape, 0, &place)) {
            least = left;
            *ret = place;
        }
    }
    return least != UINT64_MAX;
}

/* Smaller ones on the node that would have to move on for v to fit; least
 * devices first.  0: it does not help.
 */
static uint32_t smaller(const struct hunt *s, const struct paper_node *at,
                        const struct plan_item *v, struct plan_item **ret)
{
    uint64_t sum = hunt_free_on(at);
    uint32_t n = 0, k;

    for (uint32_t m = 0; m < at->node->nitems && n < RESIDENTS; m++) {
        struct plan_item *o = at->node->items[m];

        if (o->held_milli == 0 || o->held_milli >= v->held_milli ||
            !hunt_may_move(s, o))
            continue;
        for (k = n++; k > 0 && (ret[k - 1]->held_milli > o->held_milli ||
                                (ret[k - 1]->held_milli == o->held_milli &&
                                 ret[k - 1]->order > o->order)); k--)
            ret[k] = ret[k - 1];
        ret[k] = o;
    }
    for (k = 0; k < n && sum < v->held_milli; k++)
        sum += ret[k]->held_milli;
    return sum < v->held_milli ? 0 : k;
}

/* The node where the fewest smaller ones make room for v: they move on. */
static bool push_on(struct hunt *s, const struct plan_item *v,
                    const struct paper_node *not_here,
                    struct plan_place *ret)
{
    struct plan_item *small[RESIDENTS];
    struct paper_node *best = NULL;
    uint32_t fewest = UINT32_MAX;

    for (uint32_t k = 0; k < s->paper.count; k++) {
        struct paper_node *at = &s->paper.nodes[k];
        uint32_t n;

        if (at == not_here || at->barred || !at->node->roams ||
            at->node->pool_number != v->places[0].node->pool_number ||
            !need_matches_node(at->node, &v->shape->parts[0]))
            continue;
        n = smaller(s, at, v, small);
        if (n > 0 && n < fewest) {
            fewest = n;
            best = at;
        }
    }
    if (!best)
        return false;
    fewest = smaller(s, best, v, small);
    for (uint32_t k = 0; k < fewest; k++)
        hunt_take_off(s, &(struct option) {
            .item = small[k], .cause = EVICT_MOVE, .how = YIELD_SUSPEND,
            .loss = victim_loss(s->p, small[k], YIELD_SUSPEND, true),
        });
    return paper_fits(&s->paper, best, v->shape, 0, ret);
}

static void move_to(struct hunt *s, uint32_t k, const struct plan_place *to)
{
    struct step *o = &s->steps[k];

    o->victim.moves = true;
    o->victim.to = *to;
    o->loss = victim_loss(s->p, o->victim.item, YIELD_SUSPEND, true);
    paper_take(&s->paper, o->victim.item->shape, to);
}

/* Where do those go who only move?  The largest first; who finds no hole pushes
 * smaller ones on.
 */
bool hunt_relocate(struct hunt *s, uint32_t from,
                     const struct paper_node *not_here)
{
    for (;;) {
        uint32_t big = UINT32_MAX;
        struct plan_place to;

        for (uint32_t k = from; k < s->nsteps; k++)
            if (s->steps[k].victim.cause == EVICT_MOVE &&
                !s->steps[k].victim.moves &&
                (big == UINT32_MAX ||
                 s->steps[k].victim.item->held_milli >
                 s->steps[big].victim.item->held_milli))
                big = k;
        if (big == UINT32_MAX)
            return true;
        if (s->nsteps - from > MOVES)
            return false;
        if (!find_hole(s, s->steps[big].victim.item, not_here, &to) &&
            !push_on(s, s->steps[big].victim.item, not_here, &to))
            return false;
        move_to(s, big, &to);
    }
}

/* Who may be sent away goes where there is room all the same. */
void hunt_resettle(struct hunt *s, uint32_t from,
                     const struct paper_node *not_here)
{
    for (uint32_t k = from; k < s->nsteps; k++) {
        struct step *o = &s->steps[k];
        struct plan_place to;

        if (o->victim.cause != EVICT_MOVE && s->moves &&
            o->victim.how == YIELD_SUSPEND && o->victim.item->shape->simple &&
            o->victim.item->places[0].node->roams &&
            find_hole(s, o->victim.item, not_here, &to))
            move_to(s, k, &to);
    }
}

/* Is there memory for the state that it leaves on its other nodes, where
 * earlier ranks may have been given what was free?
 */
bool hunt_leaves_enough(const struct hunt *s, const struct plan_item *v,
                          const struct paper_node *but)
{
    for (uint32_t k = 0; k < v->nplaces; k++) {
        const struct paper_node *at = paper_find(&s->paper, v->places[k].node);

        if (at && at != but && at->memory < 0)
            return false;
    }
    return true;
}

/* Those before it are gone: may it be asked as well? */
bool hunt_may_go_too(const struct hunt *s, struct option *o)
{
    if (!s->p->fair || o->cause == EVICT_PRIORITY || o->cause == EVICT_MOVE)
        return true;
    return victim_may(&s->ask, o->item, o);
}

/* ---- in which order they go ---- */

/* Does its state want more of a node's memory than it has there? */
static bool leaves_more(const struct step *o)
{
    const struct plan_item *v = o->victim.item;

    for (uint32_t k = 0; o->victim.how == YIELD_SUSPEND && k < v->nplaces; k++)
        if (item_bytes(v, &v->places[k]) >
            v->shape->parts[v->places[k].part].need.memory)
            return true;
    return false;
}

/* Those first who leave memory to the state of the others. */
static bool sort_steps(struct hunt *s)
{
    bool changed = false;

    for (uint32_t k = 1; k < s->nsteps; k++) {
        const struct step o = s->steps[k];
        uint32_t to = k;

        if (leaves_more(&o))
            continue;
        while (to > 0 && leaves_more(&s->steps[to - 1]))
            to--;
        memmove(&s->steps[to + 1], &s->steps[to], (k - to) * sizeof(o));
        s->steps[to] = o;
        changed |= to != k;
    }
    return changed;
}

/* May each be asked when those before it are gone? */
static bool may_be_asked(struct hunt *s)
{
    bool may = true;

    for (uint32_t k = 0; k < s->nsteps; k++)
        victim_off(&s->ask, s->steps[k].victim.item, false);
    for (uint32_t k = 0; k < s->nsteps; k++) {
        struct option o = {
            .item = s->steps[k].victim.item,
            .cause = s->steps[k].victim.cause,
        };

        may = may && hunt_may_go_too(s, &o);
        victim_off(&s->ask, o.item, true);
    }
    return may;
}

/* Is there memory for each one's state while those after it are still there?
 * Leaves the paper as it is when nobody has moved and the claimant is not there.
 */
static bool have_memory(struct hunt *s)
{
    struct plan_claim *c = s->claim;

    for (uint32_t k = 0; k < c->nplaces; k++)
        paper_give(&s->paper, s->i->shape, &c->places[k]);
    for (uint32_t k = s->nsteps; k-- > 0;) {
        const struct plan_victim *v = &s->steps[k].victim;

        if (v->moves)
            paper_give(&s->paper, v->item->shape, &v->to);
        if (v->how == YIELD_SUSPEND)
            paper_park(&s->paper, v->item, false);
        paper_take_item(&s->paper, v->item);
    }
    for (uint32_t k = 0; k < s->nsteps; k++) {
        const struct plan_victim *v = &s->steps[k].victim;

        paper_give_item(&s->paper, v->item);
        if (v->how == YIELD_SUSPEND)
            paper_park(&s->paper, v->item, true);
        if (leaves_more(&s->steps[k]) &&
            !hunt_leaves_enough(s, v->item, NULL))
            return false;
    }
    return true;
}

bool hunt_in_order(struct hunt *s)
{
    if (s->nsteps < 2)
        return true;
    if (sort_steps(s) && s->p->fair && !may_be_asked(s))
        return false;
    return have_memory(s);
}
