#include "plan/pool.h"
#include "plan/room.h"

#include "base/mem.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

/* Who gives way, with the least loss.
 *
 * Rank by rank, the largest first, the node is taken where one more rank
 * costs least: nothing where it fits, else what those lose who would have to
 * go.  On a node they go in order of their loss until the rank fits, and who
 * turns out not to have been in the way stays after all.
 *
 * One may be made to go
 *
 *     priority   for one of higher priority;
 *     quota      for a tenant within its guaranteed quota, by one beyond it;
 *     turn       for one of an earlier level, if the policy's turns allow it;
 *     move       for anybody, when it fits elsewhere right now.
 *
 * Who is moved and finds no hole pushes smaller ones on to other nodes, and
 * they again, so that free devices here and there become a whole place.
 */
enum { RESIDENTS = 64, MOVES = 16 };

struct step {                          /* one taken off on paper */
    struct victim victim;
    double loss;
};

struct hunt {
    struct plan *p;
    struct plan_item *i;
    struct paper paper;
    struct claim *claim;               /* as far as it is made */
    uint32_t places_cap;
    struct step *steps;
    uint32_t nsteps, steps_cap;
    bool moves;                        /* is there enough free to move to? */
};

/* ---- may it be made to go, and what does that cost? ---- */

/* Is there memory for what all its ranks on that node leave there? */
static bool can_park(const struct plan_item *v, const struct plan_node *n)
{
    uint64_t bytes = 0, given = 0;

    for (uint32_t k = 0; k < v->nplaces; k++) {
        if (v->places[k].node != n)
            continue;
        bytes += item_bytes(v, &v->places[k]);
        given += v->shape->parts[v->places[k].part].need.memory;
    }
    return n->suspends &&
           n->memory_held + n->parked + bytes <= n->memory + given;
}

static enum plan_yield how_of(const struct plan_item *v)
{
    if (v->yield != YIELD_SUSPEND)
        return v->yield;
    for (uint32_t k = 0; k < v->nplaces; k++)
        if (!can_park(v, v->places[k].node))
            return YIELD_KILL;
    return YIELD_SUSPEND;
}

/* One within its own guarantee is not over that of those above. */
static const struct plan_tenant *over_quota(const struct plan_tenant *t)
{
    if (t->quota_milli > 0 && t->held_milli <= t->quota_milli)
        return NULL;
    for (; t; t = t->parent)
        if (t->held_milli > t->quota_milli)
            return t;
    return NULL;
}

/* The claimant's tenant takes back what is guaranteed to it. */
static bool may_reclaim(const struct plan *p, const struct plan_item *i,
                        const struct plan_item *v)
{
    return p->policy.reclaim && i->tenant != v->tenant &&
           i->priority >= v->priority &&
           tenant_within_quota(i->tenant, i->shape->gpu_milli) &&
           v->held_milli > 0 && over_quota(v->tenant);
}

/* Far enough to ask one of that level to give way. */
static bool is_ahead(const struct plan_item *i, uint8_t level)
{
    return level >= (i->promoted ? 0 : i->level) + PREDICT_GIVE_WAY;
}

/* What a guarantee covers goes for a turn only to one whom a guarantee covers
 * as well: or it would be taken back at once.
 */
static bool may_overtake(const struct plan *p, const struct plan_item *i,
                         struct plan_tenant *t)
{
    if (i->tenant != t && p->fair && !over_quota(t) &&
        !tenant_within_quota(i->tenant, i->shape->gpu_milli))
        return false;
    return tenant_order(p, i->tenant, t) <= 0;
}

static bool may_turn(const struct plan *p, const struct plan_item *i,
                     const struct plan_item *v, enum plan_yield how)
{
    if (p->policy.turns == TURNS_OFF || i->priority != v->priority ||
        !is_ahead(i, v->level))
        return false;
    if (how == YIELD_KILL ||
        (how == YIELD_CHECKPOINT && p->policy.turns != TURNS_CHECKPOINT))
        return false;
    return may_overtake(p, i, v->tenant);
}

/* What it costs, in ms by which somebody is later.  Suspended, it pays for
 * that; unless it moves it also waits for its turn, and the later its level
 * the longer it has still to run and the less a wait is to it.  Killed, it does
 * its work again.
 */
static double loss_of(const struct plan *p, const struct plan_item *v,
                      enum plan_yield how, bool moves)
{
    double loss = p->policy.suspend_cost_s * 1000;

    if (!moves)
        loss += (double) p->policy.patience_ms / (1 + v->level);
    if (how != YIELD_SUSPEND)
        loss += (double) p->policy.min_run_ms;
    if (how == YIELD_KILL)
        loss += (double) (p->now_ms - v->since_ms) *
                (1 + (double) v->held_milli / 1000);
    return loss;
}

/* Who stands in no set has not run for long enough. */
static bool may_go(const struct plan *p, const struct plan_item *i,
                   const struct plan_item *v, struct step *ret)
{
    bool turn = i->priority == v->priority && is_ahead(i, v->level);
    enum plan_yield how;

    if (v->room_slot == 0 || i->priority < v->priority)
        return false;
    if (i->priority > v->priority)
        ret->victim.cause = EVICT_PRIORITY;
    else if (may_reclaim(p, i, v))
        ret->victim.cause = EVICT_QUOTA;
    else if (turn)
        ret->victim.cause = EVICT_TURN;
    else
        return false;
    how = how_of(v);
    if (how == YIELD_NEVER ||
        (ret->victim.cause == EVICT_TURN && !may_turn(p, i, v, how)))
        return false;
    ret->victim.how = how;
    ret->loss = loss_of(p, v, how, false);
    return true;
}

bool room_may_go(const struct plan *p, const struct plan_item *i,
                 const struct plan_item *v)
{
    struct step unused;

    return may_go(p, i, v, &unused);
}

/* Not again before it has run for as long as a move costs: so nobody is pushed
 * around for ever.
 */
static bool may_move(const struct hunt *s, const struct plan_item *v)
{
    return s->moves && v->state == ITEM_RUNNING && !v->picked &&
           v->shape->simple && v->places[0].node->roams &&
           (double) (s->p->now_ms - v->since_ms) >=
               s->p->policy.suspend_cost_s * 1000 &&
           how_of(v) == YIELD_SUSPEND;
}

/* ---- steps on paper ---- */

static struct step *push(struct hunt *s)
{
    if (s->nsteps == s->steps_cap) {
        s->steps_cap = s->steps_cap ? s->steps_cap * 2 : 16;
        s->steps = mem_grow(s->steps, s->steps_cap, sizeof(*s->steps));
    }
    return &s->steps[s->nsteps++];
}

static void take_off(struct hunt *s, const struct step *o)
{
    *push(s) = *o;
    o->victim.item->picked = true;
    paper_give_item(&s->paper, o->victim.item);
    if (o->victim.how == YIELD_SUSPEND)
        paper_park(&s->paper, o->victim.item, true);
}

static void put_back(struct hunt *s, uint32_t k)
{
    struct step *o = &s->steps[k];

    if (o->victim.moves)
        paper_give(&s->paper, o->victim.item->shape, &o->victim.to);
    if (o->victim.how == YIELD_SUSPEND)
        paper_park(&s->paper, o->victim.item, false);
    paper_take_item(&s->paper, o->victim.item);
    o->victim.item->picked = false;
    memmove(o, o + 1, (--s->nsteps - k) * sizeof(*o));
}

static void undo(struct hunt *s, uint32_t to)
{
    while (s->nsteps > to)
        put_back(s, s->nsteps - 1);
}

static uint64_t free_on(const struct paper_node *at)
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
        left = free_on(at);
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
    uint64_t sum = free_on(at);
    uint32_t n = 0, k;

    for (uint32_t m = 0; m < at->node->nitems && n < RESIDENTS; m++) {
        struct plan_item *o = at->node->items[m];

        if (o->held_milli == 0 || o->held_milli >= v->held_milli ||
            !may_move(s, o))
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
        take_off(s, &(struct step) {
            .victim = { .item = small[k], .cause = EVICT_MOVE,
                        .how = YIELD_SUSPEND },
            .loss = loss_of(s->p, small[k], YIELD_SUSPEND, true),
        });
    return paper_fits(&s->paper, best, v->shape, 0, ret);
}

static void move_to(struct hunt *s, uint32_t k, const struct plan_place *to)
{
    struct step *o = &s->steps[k];

    o->victim.moves = true;
    o->victim.to = *to;
    o->loss = loss_of(s->p, o->victim.item, YIELD_SUSPEND, true);
    paper_take(&s->paper, o->victim.item->shape, to);
}

/* Where do those go who only move?  The largest first; who finds no hole pushes
 * smaller ones on.
 */
static bool relocate(struct hunt *s, uint32_t from,
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
static void resettle(struct hunt *s, uint32_t from,
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

/* ---- one more rank on a node ---- */

static int by_loss(const void *a, const void *b)
{
    const struct step *x = a, *y = b;

    if (x->loss < y->loss || x->loss > y->loss)
        return x->loss < y->loss ? -1 : 1;
    if (x->victim.item->level != y->victim.item->level)
        return x->victim.item->level > y->victim.item->level ? -1 : 1;
    return x->victim.item->order > y->victim.item->order ? -1 : 1;
}

/* One with several ranks on the node is met several times. */
static bool is_in(const struct step *list, uint32_t n,
                  const struct plan_item *v)
{
    if (v->shape->simple)
        return false;
    for (uint32_t k = 0; k < n; k++)
        if (list[k].victim.item == v)
            return true;
    return false;
}

static uint32_t residents(const struct hunt *s, const struct paper_node *at,
                          struct step *ret)
{
    const struct plan_node *n = at->node;
    uint32_t count = 0;

    for (uint32_t k = 0; k < n->nitems && count < RESIDENTS; k++) {
        struct plan_item *v = n->items[k];
        struct step *o = &ret[count];

        if (v->state != ITEM_RUNNING || v->picked || is_in(ret, count, v))
            continue;
        memset(o, 0, sizeof(*o));
        o->victim.item = v;
        if (may_go(s->p, s->i, v, o)) {
            count++;
        } else if (may_move(s, v)) {
            o->victim.cause = EVICT_MOVE;
            o->victim.how = YIELD_SUSPEND;
            o->loss = loss_of(s->p, v, YIELD_SUSPEND, true);
            count++;
        }
    }
    if (count > 1)
        qsort(ret, count, sizeof(*ret), by_loss);
    return count;
}

/* Takes them off in order until the rank fits, then puts back who was not in
 * the way, the greatest loss first, and finds places for those who move.
 */
static bool clear(struct hunt *s, struct paper_node *at, uint32_t part,
                  struct plan_place *ret)
{
    const struct shape *shape = s->i->shape;
    struct step options[RESIDENTS];
    uint32_t n = residents(s, at, options), from = s->nsteps;
    bool fits = false;

    for (uint32_t k = 0; k < n && !fits; k++) {
        take_off(s, &options[k]);
        fits = paper_fits(&s->paper, at, shape, part, ret);
    }
    for (uint32_t k = s->nsteps; fits && k-- > from;) {
        struct step o = s->steps[k];

        put_back(s, k);
        if (!paper_fits(&s->paper, at, shape, part, ret))
            take_off(s, &o);
    }
    if (!fits)
        return false;
    (void) paper_fits(&s->paper, at, shape, part, ret);
    paper_take(&s->paper, shape, ret);
    resettle(s, from, at);
    fits = relocate(s, from, at);
    paper_give(&s->paper, shape, ret);
    return fits;
}

static double cost_here(struct hunt *s, struct paper_node *at,
                        uint32_t part)
{
    struct plan_place place;
    uint32_t from = s->nsteps;
    double sum = 0;

    if (paper_fits(&s->paper, at, s->i->shape, part, &place))
        return 0;
    if (!need_matches_node(at->node, &s->i->shape->parts[part]))
        return DBL_MAX;
    if (!clear(s, at, part, &place))
        sum = DBL_MAX;
    for (uint32_t k = from; k < s->nsteps && sum < DBL_MAX; k++)
        sum += s->steps[k].loss;
    undo(s, from);
    return sum;
}

/* ---- all ranks ---- */

static void add_place(struct hunt *s, const struct plan_place *place)
{
    struct claim *c = s->claim;

    if (c->nplaces == s->places_cap) {
        s->places_cap = s->places_cap ? s->places_cap * 2 : 4;
        c->places = mem_grow(c->places, s->places_cap, sizeof(*c->places));
    }
    c->places[c->nplaces++] = *place;
    paper_take(&s->paper, s->i->shape, place);
}

static void settle(struct hunt *s, struct paper_node *at, uint32_t part)
{
    struct plan_place place = { .node = NULL };

    if (!paper_fits(&s->paper, at, s->i->shape, part, &place))
        (void) clear(s, at, part, &place);
    add_place(s, &place);
}

bool room_own_node(const struct plan_item *i, const struct plan_node *n)
{
    if (!i->places)
        return true;
    if (i->places[0].node->roams)
        return n->pool_number == i->places[0].node->pool_number;
    for (uint32_t k = 0; k < i->nplaces; k++)
        if (i->places[k].node == n)
            return true;
    return false;
}

/* Where one more costs least; the fuller node among equals, then by name. */
static struct paper_node *cheapest(struct hunt *s, uint32_t part)
{
    struct paper_node *best = NULL;

    for (uint32_t k = 0; k < s->paper.count; k++) {
        struct paper_node *at = &s->paper.nodes[k];

        if (at->barred || !room_own_node(s->i, at->node))
            continue;
        if (at->stale) {
            at->cost = cost_here(s, at, part);
            at->stale = false;
        }
        if (at->cost < DBL_MAX &&
            (!best || at->cost < best->cost ||
             (at->cost <= best->cost &&
              (at->node->free_milli < best->node->free_milli ||
               (at->node->free_milli == best->node->free_milli &&
                strcmp(at->node->name, best->node->name) < 0)))))
            best = at;
    }
    return best;
}

/* Each rank where its state is. */
static bool fill_back(struct hunt *s)
{
    for (uint32_t k = 0; k < s->i->nplaces; k++) {
        const struct plan_place *was = &s->i->places[k];
        uint32_t w = s->paper.where[was->node->index];
        struct paper_node *at = &s->paper.nodes[w - 1];

        if (w == 0 || at->barred || cost_here(s, at, was->part) >= DBL_MAX)
            return false;
        settle(s, at, was->part);
    }
    return true;
}

static bool fill(struct hunt *s)
{
    const struct shape *shape = s->i->shape;

    if (place_bound(s->i))
        return fill_back(s);
    for (uint32_t part = 0; part < shape->nparts; part++) {
        for (uint32_t k = 0; k < s->paper.count; k++)
            s->paper.nodes[k].stale = true;
        for (uint32_t rank = 0; rank < shape->parts[part].count; rank++) {
            struct paper_node *at = cheapest(s, part);

            if (!at)
                return false;
            settle(s, at, part);
        }
    }
    return true;
}

/* ---- where to look ---- */

/* May those of the set be made to go, but for what they are themselves? */
static bool outranks(const struct plan *p, const struct plan_item *i,
                     const struct running_set *set)
{
    if (i->priority > set->priority)
        return true;
    if (p->policy.reclaim && i->tenant != set->tenant &&
        i->priority >= set->priority &&
        tenant_within_quota(i->tenant, i->shape->gpu_milli) &&
        over_quota(set->tenant))
        return true;
    return i->priority == set->priority && p->policy.turns != TURNS_OFF &&
           is_ahead(i, set->level) && may_overtake(p, i, set->tenant);
}

/* Could anybody at all be made to go, and could that be enough? */
static bool hopeful(const struct plan *p, const struct plan_item *i,
                    bool *ret_moves)
{
    uint64_t milli = meter_idle(p), want = i->shape->gpu_milli;
    bool any = false;

    *ret_moves = room_moves(p) && milli >= 1000 && want > 0;
    if (*ret_moves && milli >= want)
        return true;
    for (uint32_t k = 0; k < p->rooms->nsets && !(any && milli >= want); k++)
        if (outranks(p, i, &p->rooms->sets[k])) {
            milli += p->rooms->sets[k].milli;
            any = true;
        }
    return any && milli >= want;
}

/* The first `want` of the heap, in order, without taking them out: each next
 * one is below one that came before.  Returns how many.
 */
static uint32_t first_of(const struct heap *h, struct plan_item **ret,
                         uint32_t want)
{
    uint32_t front[2 * ROOM_VICTIMS + 2], n = 0, nfront = 0;

    if (h->count > 0)
        front[nfront++] = 0;
    while (nfront > 0 && n < want && n < ROOM_VICTIMS) {
        uint32_t best = 0, at;

        for (uint32_t k = 1; k < nfront; k++)
            if (h->before(h->items[front[k]], h->items[front[best]]))
                best = k;
        at = front[best];
        front[best] = front[--nfront];
        ret[n++] = h->items[at];
        if (2 * at + 1 < h->count)
            front[nfront++] = 2 * at + 1;
        if (2 * at + 2 < h->count)
            front[nfront++] = 2 * at + 2;
    }
    return n;
}

static uint32_t add_node(struct plan_node **nodes, uint32_t n,
                         struct plan_node *node)
{
    for (uint32_t k = 0; k < n; k++)
        if (nodes[k] == node)
            return n;
    nodes[n] = node;
    return n + 1;
}

/* In a large pool: where the first of those run who may be made to go. */
static uint32_t some_nodes(const struct plan *p, const struct plan_item *i,
                           struct plan_node **ret)
{
    struct plan_item *victims[ROOM_VICTIMS];
    uint32_t n = 0, got = 0;

    for (uint32_t k = 0; k < p->rooms->nsets && got < ROOM_VICTIMS; k++) {
        const struct running_set *set = &p->rooms->sets[k];
        uint32_t count;

        if (set->priority > i->priority)
            break;
        if (!outranks(p, i, set))
            continue;
        count = first_of(&set->items, victims, ROOM_VICTIMS - got);
        for (uint32_t v = 0; v < count; v++)
            if (victims[v]->places[0].node->open)
                n = add_node(ret, n, victims[v]->places[0].node);
        got += count;
    }
    return n;
}

/* By pool, so that those of one stand together, then by name. */
static int by_pool(const void *va, const void *vb)
{
    const struct plan_node *a = *(const struct plan_node *const *) va;
    const struct plan_node *b = *(const struct plan_node *const *) vb;
    int c = strcmp(a->pool, b->pool);

    return c != 0 ? c : strcmp(a->name, b->name);
}

/* What is found must not depend on the order in which nodes came. */
static void sort_nodes(struct plan_node **nodes, uint32_t n)
{
    for (uint32_t k = 1; k < n; k++)
        if (by_pool(&nodes[k - 1], &nodes[k]) > 0) {
            qsort(nodes, n, sizeof(struct plan_node *), by_pool);
            return;
        }
}

static uint32_t all_nodes(const struct plan *p, struct plan_node **ret)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < p->nnodes; k++)
        if (p->nodes[k] && p->nodes[k]->open)
            ret[n++] = p->nodes[k];
    return n;
}

static void take_victims(struct hunt *s)
{
    s->claim->victims = mem_array(s->nsteps + 1, sizeof(struct victim));
    for (uint32_t k = 0; k < s->nsteps; k++) {
        s->claim->victims[s->claim->nvictims++] = s->steps[k].victim;
        s->claim->loss += s->steps[k].loss;
        s->steps[k].victim.item->picked = false;
    }
}

static struct claim *search_in(struct plan *p, struct plan_item *i,
                               struct plan_node *const *nodes, uint32_t n,
                               bool moves)
{
    struct hunt s = { .p = p, .i = i, .moves = moves };
    bool found;

    s.claim = mem_new(sizeof(*s.claim));
    s.claim->claimant = i;
    paper_init(&s.paper, p, i, nodes, n);
    found = fill(&s) && s.nsteps > 0;
    take_victims(&s);
    paper_free(&s.paper);
    free(s.steps);
    if (found)
        return s.claim;
    free(s.claim->places);
    free(s.claim->victims);
    free(s.claim);
    return NULL;
}

static struct claim *better(struct claim *a, struct claim *b)
{
    struct claim *worse = b;

    if (!a || !b)
        return a ? a : b;
    if (b->loss < a->loss) {
        worse = a;
        a = b;
    }
    free(worse->places);
    free(worse->victims);
    free(worse);
    return a;
}

struct claim *room_search(struct plan *p, struct plan_item *i)
{
    autofree struct plan_node **nodes = NULL;
    struct claim *best = NULL;
    uint32_t n, from = 0;
    bool moves;

    if (!hopeful(p, i, &moves))
        return NULL;
    nodes = mem_array(p->nnodes + 1, sizeof(struct plan_node *));
    if (p->pool->live > ROOM_NODES)
        n = some_nodes(p, i, nodes);
    else
        n = all_nodes(p, nodes);
    sort_nodes(nodes, n);
    if (!i->shape->one_pool || i->shape->ranks <= 1)
        return search_in(p, i, nodes, n, moves);
    for (uint32_t k = 1; k <= n; k++)
        if (k == n || nodes[k]->pool_number != nodes[from]->pool_number) {
            best = better(best, search_in(p, i, nodes + from, k - from,
                                          moves));
            from = k;
        }
    return best;
}
