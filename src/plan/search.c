#include "plan/hunt.h"

#include "plan/pool.h"

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
 *     slice      for an equal, where the policy has slices, after its own;
 *     move       for anybody, when it fits elsewhere right now.
 *
 * Who is moved and finds no hole pushes smaller ones on to other nodes, and
 * they again, so that free devices here and there become a whole place.
 */

/* ---- one more rank on a node ---- */

static bool goes_before(const struct option *x, const struct option *y)
{
    if (x->loss < y->loss || x->loss > y->loss)
        return x->loss < y->loss;
    if (x->item->level != y->item->level)
        return x->item->level > y->item->level;
    return x->item->order > y->item->order;
}

/* One with several ranks on the node is met several times. */
static bool is_in(const struct option *list, uint32_t n,
                  const struct plan_item *v)
{
    if (v->shape->simple)
        return false;
    for (uint32_t k = 0; k < n; k++)
        if (list[k].item == v)
            return true;
    return false;
}

/* Those on the node that may go or move, the least loss first. */
static uint32_t residents(const struct hunt *s, const struct paper_node *at,
                          struct option *ret)
{
    const struct plan_node *n = at->node;
    uint32_t count = 0, to;

    pool_fetch(n);
    for (uint32_t k = 0; k < n->nitems && count < RESIDENTS; k++) {
        struct plan_item *v = n->items[k];
        struct option o;

        if (v->state != ITEM_RUNNING || v->picked || is_in(ret, count, v))
            continue;
        if (!victim_may(&s->ask, v, &o)) {
            if (!hunt_may_move(s, v))
                continue;
            o = (struct option) {
                .item = v, .cause = EVICT_MOVE, .how = YIELD_SUSPEND,
                .loss = victim_loss(s->p, v, YIELD_SUSPEND, true),
            };
        }
        for (to = count++; to > 0 && goes_before(&o, &ret[to - 1]); to--)
            ret[to] = ret[to - 1];
        ret[to] = o;
    }
    return count;
}

/* Would the rank have devices and CPUs enough if all of them went? */
static bool enough(const struct hunt *s, const struct paper_node *at,
                   uint32_t part, const struct option *options, uint32_t n)
{
    const struct part *q = &s->i->shape->parts[part];
    uint64_t milli = hunt_free_on(at);
    int64_t cpu = at->cpu;

    for (uint32_t k = 0; k < n; k++) {
        const struct plan_item *v = options[k].item;

        milli += v->held_milli;
        cpu += (int64_t) (v->shape->cpu_milli * v->nplaces);
    }
    return milli >= q->need.gpu_milli && cpu >= (int64_t) q->need.cpu_milli;
}

/* Puts back who is not in the way, the greatest loss first.  The others stay in
 * their order: whether one may be asked depends on those before it.
 */
static void spare(struct hunt *s, struct paper_node *at, uint32_t part,
                  uint32_t from, struct plan_place *ret)
{
    for (uint32_t k = s->nsteps; k-- > from;) {
        const struct step was = s->steps[k];
        struct option o = {
            .item = was.victim.item, .loss = was.loss,
            .cause = was.victim.cause, .how = was.victim.how,
        };

        hunt_put_back(s, k);
        if (paper_fits(&s->paper, at, s->i->shape, part, ret))
            continue;
        hunt_take_off(s, &o);
        memmove(&s->steps[k + 1], &s->steps[k],
                (s->nsteps - 1 - k) * sizeof(was));
        s->steps[k] = was;
    }
}

/* Takes them off in order until the rank fits, without those that turn out not
 * to be in the way, and finds places for those who move.
 */
static bool clear(struct hunt *s, struct paper_node *at, uint32_t part,
                  struct plan_place *ret)
{
    const struct shape *shape = s->i->shape;
    struct option options[RESIDENTS];
    uint32_t n = residents(s, at, options), from = s->nsteps;
    bool fits = false;

    if (!enough(s, at, part, options, n))
        return false;
    for (uint32_t k = 0; k < n && !fits; k++) {
        if (!hunt_may_go_too(s, &options[k]))
            continue;
        hunt_take_off(s, &options[k]);
        if (hunt_leaves_enough(s, options[k].item, at))
            fits = paper_fits(&s->paper, at, shape, part, ret);
        else
            hunt_put_back(s, s->nsteps - 1);
    }
    if (!fits)
        return false;
    spare(s, at, part, from, ret);
    (void) paper_fits(&s->paper, at, shape, part, ret);
    paper_take(&s->paper, shape, ret);
    hunt_resettle(s, from, at);
    fits = hunt_relocate(s, from, at);
    paper_give(&s->paper, shape, ret);
    return fits;
}

/* Where more are owed their places, one more waits longer for its own. */
static double debt(const struct plan *p, const struct plan_node *n)
{
    return pool_owed(p, n) * p->policy.suspend_cost_s;
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
    hunt_undo(s, from);
    return sum < DBL_MAX ? sum + debt(s->p, at->node) : sum;
}

/* ---- all ranks ---- */

static void add_place(struct hunt *s, const struct plan_place *place)
{
    struct plan_claim *c = s->claim;

    if (c->nplaces == s->places_cap) {
        s->places_cap = s->places_cap ? s->places_cap * 2 : 4;
        c->places = mem_grow(c->places, s->places_cap, sizeof(*c->places));
    }
    c->places[c->nplaces++] = *place;
    paper_take(&s->paper, s->i->shape, place);
}

static bool settle(struct hunt *s, struct paper_node *at, uint32_t part)
{
    struct plan_place place = { .node = NULL };

    if (!paper_fits(&s->paper, at, s->i->shape, part, &place) &&
        !clear(s, at, part, &place))
        return false;
    add_place(s, &place);
    return true;
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

/* Whom earlier ranks have asked leaves fewer that may be asked, and what they have
 * taken fewer holes to move to, so that a node may cost more by now than it did:
 * as long as that is so, another one is.
 */
static struct paper_node *cheapest_now(struct hunt *s, uint32_t part)
{
    for (;;) {
        struct paper_node *at = cheapest(s, part);
        double was = at ? at->cost : 0;

        if (!at || s->claim->nplaces == 0 ||
            !(s->moves || (s->p->fair && s->nsteps > 0)))
            return at;
        at->cost = cost_here(s, at, part);
        at->stale = false;             /* by trying it */
        if (at->cost <= was)
            return at;
    }
}

/* Each rank where its state is. */
static bool fill_back(struct hunt *s)
{
    for (uint32_t k = 0; k < s->i->nplaces; k++) {
        const struct plan_place *was = &s->i->places[k];
        struct paper_node *at = paper_find(&s->paper, was->node);

        if (!at || at->barred || cost_here(s, at, was->part) >= DBL_MAX ||
            !settle(s, at, was->part))
            return false;
    }
    return true;
}

static bool fill(struct hunt *s)
{
    const struct shape *shape = s->i->shape;

    if (place_bound(s->i))
        return fill_back(s);
    for (uint32_t m = 0; m < shape->nparts; m++) {
        uint32_t part = shape->by_size[m];

        for (uint32_t k = 0; k < s->paper.count; k++)
            s->paper.nodes[k].stale = true;
        for (uint32_t rank = 0; rank < shape->parts[part].count; rank++) {
            struct paper_node *at = cheapest_now(s, part);

            if (!at || !settle(s, at, part))
                return false;
        }
    }
    return true;
}

/* ---- where to look ---- */

/* What is found must not depend on the order in which nodes came. */
static void sort_nodes(struct plan_node **nodes, uint32_t n)
{
    for (uint32_t k = 1; k < n; k++)
        if (pool_order(&nodes[k - 1], &nodes[k]) > 0) {
            qsort(nodes, n, sizeof(struct plan_node *), pool_order);
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
    s->claim->victims = mem_array(s->nsteps + 1, sizeof(struct plan_victim));
    for (uint32_t k = 0; k < s->nsteps; k++) {
        s->claim->victims[s->claim->nvictims++] = s->steps[k].victim;
        s->claim->loss += s->steps[k].loss;
        s->steps[k].victim.item->picked = false;
        victim_off(&s->ask, s->steps[k].victim.item, false);
    }
}

/* Is more filled than those leave whose turn it is not to go? */
static bool fills_more(const struct hunt *s)
{
    uint64_t idle = meter_idle(s->p), want = s->i->shape->gpu_milli, left = 0;

    for (uint32_t k = 0; k < s->nsteps; k++) {
        const struct plan_victim *v = &s->steps[k].victim;

        if (v->cause == EVICT_TURN && !v->moves &&
            !victim_turn(&s->ask, v->item))
            left += v->item->held_milli;
    }
    if (s->i->shape->ranks > 1 && idle < want && left <= 2 * (want - idle))
        return true;
    return 2 * left <= want;
}

static struct plan_claim *search_in(struct plan *p, struct plan_item *i,
                                    const struct ask *ask,
                                    struct plan_node *const *nodes, uint32_t n,
                                    bool moves)
{
    struct hunt s = { .p = p, .i = i, .ask = *ask, .moves = moves };
    bool found;

    s.claim = mem_new(sizeof(*s.claim));
    s.claim->claimant = i;
    paper_init(&s.paper, p, i, nodes, n);
    found = fill(&s) && s.nsteps > 0 &&
            (!ask->fills || fills_more(&s)) && hunt_in_order(&s);
    take_victims(&s);
    paper_free(&s.paper);
    free(s.steps);
    if (found)
        return s.claim;
    room_claim_free(s.claim);
    return NULL;
}

static struct plan_claim *better(struct plan_claim *a, struct plan_claim *b)
{
    struct plan_claim *worse = b;

    if (!a || !b)
        return a ? a : b;
    if (b->loss < a->loss) {
        worse = a;
        a = b;
    }
    room_claim_free(worse);
    return a;
}

/* All of them, pool by pool where it must stay in one. */
static struct plan_claim *search_nodes(struct plan *p, struct plan_item *i,
                                       const struct ask *ask,
                                       struct plan_node **nodes, uint32_t n,
                                       bool moves)
{
    struct plan_claim *best = NULL;
    uint32_t from = 0;

    sort_nodes(nodes, n);
    if (!i->shape->one_pool || i->shape->ranks <= 1)
        return search_in(p, i, ask, nodes, n, moves);
    for (uint32_t k = 1; k <= n; k++)
        if (k == n || nodes[k]->pool_number != nodes[from]->pool_number) {
            best = better(best, search_in(p, i, ask, nodes + from, k - from,
                                          moves));
            from = k;
        }
    return best;
}

static struct plan_claim *search_all(struct plan *p, struct plan_item *i,
                                     const struct ask *ask)
{
    uint64_t idle = meter_idle(p), want = i->shape->gpu_milli;
    bool moves = room_moves(p) && idle >= 1000 && want > 0;
    autofree struct plan_node **nodes = NULL;

    if (!(moves && idle >= want) && !victim_hope(ask, idle))
        return NULL;
    nodes = mem_array(p->nnodes + 1, sizeof(struct plan_node *));
    return search_nodes(p, i, ask, nodes, all_nodes(p, nodes), moves);
}

/* ---- in a large pool ---- */

static uint32_t add_node(struct plan_node **nodes, uint32_t n,
                         struct plan_node *node)
{
    for (uint32_t k = 0; k < n; k++)
        if (nodes[k] == node)
            return n;
    nodes[n] = node;
    return n + 1;
}

/* On its own nodes, and nowhere else. */
static struct plan_claim *search_own(struct plan *p, struct plan_item *i,
                                     const struct ask *ask)
{
    autofree struct plan_node **nodes =
        mem_array(i->nplaces, sizeof(struct plan_node *));
    uint32_t n = 0;

    for (uint32_t k = 0; k < i->nplaces; k++) {
        const struct plan_place *at = &i->places[k];

        if (!at->node->open ||
            !victim_enough(ask, at->node, &i->shape->parts[at->part]))
            return NULL;
        n = add_node(nodes, n, at->node);
    }
    return search_in(p, i, ask, nodes, n, false);
}

/* Could a rank be there at all, if all left who may be made to? */
static bool could_be(const struct ask *ask, const struct plan_node *n)
{
    const struct part *q = &ask->i->shape->parts[0];

    return n->open && need_matches_node(n, q) && place_family(n->family, q) &&
           !(q->devices == 0 && score_keeps(ask->p, n, q, 1)) &&
           victim_enough(ask, n, q);
}

/* Node by node in the order of the victims, until one of them alone makes the
 * room, or so many nodes would do: who comes later in that order has no less to
 * lose.
 */
static struct plan_claim *search_one(struct plan *p, struct plan_item *i,
                                     const struct ask *ask,
                                     struct plan_item *const *victims,
                                     uint32_t n)
{
    struct plan_node *seen[ROOM_VICTIMS];
    struct plan_claim *best = NULL;
    uint32_t nseen = 0, found = 0;

    for (uint32_t k = 0; k < n && found < ROOM_CLAIMS &&
                         (!best || best->nvictims > 1); k++) {
        struct plan_node *node = victims[k]->places[0].node;
        uint32_t before = nseen;
        struct plan_claim *c;

        nseen = add_node(seen, nseen, node);
        if (nseen == before || !could_be(ask, node))
            continue;
        c = search_in(p, i, ask, &node, 1, false);
        found += c != NULL;
        best = better(best, c);
    }
    return best;
}

/* Where the first of those run who may be made to go. */
static struct plan_claim *search_some(struct plan *p, struct plan_item *i,
                                      const struct ask *ask)
{
    struct plan_item *victims[ROOM_VICTIMS];
    struct plan_node *nodes[ROOM_VICTIMS];
    uint32_t count, n = 0;

    if (!victim_hope(ask, meter_idle(p)))
        return NULL;
    count = victim_first(ask, victims);
    if (i->shape->simple)
        return search_one(p, i, ask, victims, count);
    for (uint32_t k = 0; k < count; k++) {
        struct plan_node *node = victims[k]->places[0].node;

        if (i->shape->nparts == 1 ? could_be(ask, node) : node->open)
            n = add_node(nodes, n, node);
    }
    if (n == 0)
        return NULL;
    return search_nodes(p, i, ask, nodes, n, false);
}

struct plan_claim *room_search(struct plan *p, struct plan_item *i)
{
    struct ask ask = victim_ask(p, i);
    struct plan_claim *c;

    if (p->pool->live <= ROOM_NODES) {
        ask.fills = victim_fills(p, i);
        c = search_all(p, i, &ask);
        if (c || !ask.fills)
            return c;
        ask.fills = false;
        return search_all(p, i, &ask);
    }
    return place_bound(i) ? search_own(p, i, &ask) : search_some(p, i, &ask);
}

struct plan_claim *room_search_on(struct plan *p, struct plan_item *i,
                                  struct plan_node *n)
{
    struct ask ask = victim_ask(p, i);

    return could_be(&ask, n) ? search_in(p, i, &ask, &n, 1, false) : NULL;
}

/* ---- slices ---- */

/* In a large pool, where those are whose slices are over for longest. */
struct plan_claim *room_search_slice(struct plan *p, struct plan_item *i)
{
    autofree struct plan_node **nodes =
        mem_array(p->nnodes + i->nplaces + ROOM_VICTIMS,
                  sizeof(struct plan_node *));
    struct plan_item *victims[ROOM_VICTIMS];
    struct ask ask = victim_ask(p, i);
    uint32_t n = 0, count = 0;

    ask.slice = true;
    if (p->pool->live <= ROOM_NODES)
        n = all_nodes(p, nodes);
    else if (!place_bound(i))
        count = slice_first(p, i, victims);
    else
        for (uint32_t k = 0; k < i->nplaces; k++)
            if (i->places[k].node->open)
                n = add_node(nodes, n, i->places[k].node);
    for (uint32_t k = 0; k < count; k++)
        if (victims[k]->places[0].node->open)
            n = add_node(nodes, n, victims[k]->places[0].node);
    return n > 0 ? search_nodes(p, i, &ask, nodes, n, false) : NULL;
}
