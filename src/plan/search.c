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
 * Loss is device-time: of suspending and resuming, of work to be done again.
 * In a large pool only so many nodes are looked at, those of who should go
 * first: see `candidates`.
 */
enum { ALL_NODES = 256, SOME_NODES = 96, RESIDENTS = 64 };

struct option {
    struct victim victim;
    double loss;
};

struct search {
    struct plan *p;
    struct plan_item *i;
    struct paper paper;
    struct claim *claim;               /* as far as it is made */
    uint32_t places_cap, victims_cap;
    bool moves;                        /* is there enough free to move to? */
};

/* ---- may it be made to go, and what does that cost? ---- */

static enum plan_yield how_of(const struct plan_item *v)
{
    if (v->yield != YIELD_SUSPEND)
        return v->yield;
    for (uint32_t k = 0; k < v->nplaces; k++) {
        const struct plan_node *n = v->places[k].node;

        if (!n->suspends || n->memory_free +
                v->shape->parts[v->places[k].part].need.memory < v->bytes)
            return YIELD_KILL;
    }
    return YIELD_SUSPEND;
}

static const struct plan_tenant *over_quota(const struct plan_tenant *t)
{
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
           tenant_within_quota(i->tenant, i->shape->gpu_milli) &&
           v->held_milli > 0 && over_quota(v->tenant);
}

static bool may_turn(const struct plan *p, const struct plan_item *i,
                     const struct plan_item *v, enum plan_yield how)
{
    if (p->policy.turns == TURNS_OFF || i->priority != v->priority ||
        v->level <= (i->promoted ? 0 : i->level))
        return false;
    if (how == YIELD_KILL ||
        (how == YIELD_CHECKPOINT && p->policy.turns != TURNS_CHECKPOINT))
        return false;
    return tenant_order(p, i->tenant, v->tenant) <= 0;
}

/* What the victim loses, in device-ms. */
static double loss_of(const struct plan *p, const struct plan_item *v,
                      enum plan_yield how)
{
    double devices = v->held_milli > 0 ? (double) v->held_milli / 1000 : 0.1;
    double cost = p->policy.suspend_cost_s * 1000;
    double ran = (double) (p->now_ms - v->since_ms);

    if (how == YIELD_SUSPEND)
        return devices * cost;
    if (how == YIELD_CHECKPOINT)
        return devices * (cost + (double) p->policy.min_run_ms);
    return devices * (cost + (double) p->policy.min_run_ms + ran);
}

static bool may_go(const struct plan *p, const struct plan_item *i,
                   const struct plan_item *v, struct option *ret)
{
    enum plan_yield how = how_of(v);

    if (how == YIELD_NEVER || item_age_ms(p, v) < p->policy.min_run_ms)
        return false;
    if (i->priority > v->priority)
        ret->victim.cause = EVICT_PRIORITY;
    else if (may_reclaim(p, i, v))
        ret->victim.cause = EVICT_QUOTA;
    else if (may_turn(p, i, v, how))
        ret->victim.cause = EVICT_TURN;
    else
        return false;
    ret->victim.how = how;
    ret->loss = loss_of(p, v, how);
    return true;
}

static bool may_move(const struct search *s, const struct plan_item *v)
{
    return s->moves && s->p->policy.move && v->shape->simple &&
           v->nplaces == 1 && v->places[0].node->roams &&
           how_of(v) == YIELD_SUSPEND && place_may_fit(s->p, v->shape);
}

/* Another node where it fits, the one with least left. */
static bool find_hole(const struct search *s, const struct plan_item *v,
                      const struct paper_node *not_here,
                      struct plan_place *ret)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t k = 0; k < s->paper.count; k++) {
        const struct paper_node *at = &s->paper.nodes[k];
        struct plan_place place;
        uint64_t left = 0;

        if (at == not_here || at->barred || !at->node->roams ||
            !paper_fits(&s->paper, at, v->shape, 0, &place))
            continue;
        for (uint32_t d = 0; d < at->node->ndevices; d++)
            left += at->left[d];
        if (left < least) {
            least = left;
            *ret = place;
        }
    }
    return least != UINT64_MAX;
}

/* ---- one more rank on a node ---- */

static int by_loss(const void *a, const void *b)
{
    const struct option *x = a, *y = b;

    if (x->loss < y->loss || x->loss > y->loss)
        return x->loss < y->loss ? -1 : 1;
    if (x->victim.item->level != y->victim.item->level)
        return x->victim.item->level > y->victim.item->level ? -1 : 1;
    return x->victim.item->order > y->victim.item->order ? -1 : 1;
}

static uint32_t residents(const struct search *s, const struct paper_node *at,
                          struct option *ret)
{
    const struct plan_node *n = at->node;
    uint32_t count = 0;

    for (uint32_t k = 0; k < n->nitems && count < RESIDENTS; k++) {
        struct plan_item *v = n->items[k];
        struct option *o = &ret[count];

        if (v->state != ITEM_RUNNING || v->picked)
            continue;
        memset(o, 0, sizeof(*o));
        o->victim.item = v;
        if (may_go(s->p, s->i, v, o))
            count++;
        else if (may_move(s, v) && find_hole(s, v, at, &o->victim.to)) {
            o->victim.cause = EVICT_MOVE;
            o->victim.how = YIELD_SUSPEND;
            o->victim.moves = true;
            o->loss = loss_of(s->p, v, YIELD_SUSPEND);
            count++;
        }
    }
    qsort(ret, count, sizeof(*ret), by_loss);
    return count;
}

static bool take_off(struct search *s, struct paper_node *at,
                     struct option *o)
{
    if (o->victim.moves &&
        !find_hole(s, o->victim.item, at, &o->victim.to))
        return false;
    paper_give_item(&s->paper, o->victim.item);
    if (o->victim.moves)
        paper_take(&s->paper, o->victim.item->shape, &o->victim.to);
    return true;
}

static void put_back(struct search *s, const struct option *o)
{
    if (o->victim.moves)
        paper_give(&s->paper, o->victim.item->shape, &o->victim.to);
    paper_take_item(&s->paper, o->victim.item);
}

/* Takes them off in order until the rank fits, then puts back who was not in
 * the way, the greatest loss first.  Returns how many are off, kept at the
 * front of `options`; 0: it does not fit.
 */
static uint32_t clear(struct search *s, struct paper_node *at, uint32_t part,
                      struct option *options, uint32_t n,
                      struct plan_place *ret)
{
    const struct shape *shape = s->i->shape;
    uint32_t off = 0;
    bool fits = false;

    for (uint32_t k = 0; k < n && !fits; k++)
        if (take_off(s, at, &options[k])) {
            options[off++] = options[k];
            fits = paper_fits(&s->paper, at, shape, part, ret);
        }
    for (uint32_t k = off; k-- > 0;) {
        put_back(s, &options[k]);
        if (fits && paper_fits(&s->paper, at, shape, part, ret)) {
            memmove(&options[k], &options[k + 1],
                    (off - k - 1) * sizeof(*options));
            off--;
        } else if (fits) {
            paper_give_item(&s->paper, options[k].victim.item);
            if (options[k].victim.moves)
                paper_take(&s->paper, options[k].victim.item->shape,
                           &options[k].victim.to);
        }
    }
    if (!fits)
        return 0;
    (void) paper_fits(&s->paper, at, shape, part, ret);
    return off;
}

static double cost_here(struct search *s, struct paper_node *at,
                        uint32_t part)
{
    struct option options[RESIDENTS];
    struct plan_place place;
    uint32_t n, off;
    double sum = 0;

    if (paper_fits(&s->paper, at, s->i->shape, part, &place))
        return 0;
    if (!need_matches_node(at->node, &s->i->shape->parts[part]))
        return DBL_MAX;
    n = residents(s, at, options);
    off = clear(s, at, part, options, n, &place);
    for (uint32_t k = 0; k < off; k++)
        sum += options[k].loss;
    for (uint32_t k = off; k-- > 0;)
        put_back(s, &options[k]);
    return off > 0 ? sum : DBL_MAX;
}

/* ---- all ranks ---- */

static void add_place(struct search *s, const struct plan_place *place)
{
    struct claim *c = s->claim;

    if (c->nplaces == s->places_cap) {
        s->places_cap = s->places_cap ? s->places_cap * 2 : 4;
        c->places = mem_grow(c->places, s->places_cap, sizeof(*c->places));
    }
    c->places[c->nplaces++] = *place;
    paper_take(&s->paper, s->i->shape, place);
}

static void add_victim(struct search *s, const struct option *o)
{
    struct claim *c = s->claim;

    if (c->nvictims == s->victims_cap) {
        s->victims_cap = s->victims_cap ? s->victims_cap * 2 : 4;
        c->victims = mem_grow(c->victims, s->victims_cap,
                              sizeof(*c->victims));
    }
    c->victims[c->nvictims++] = o->victim;
    c->loss += o->loss;
    o->victim.item->picked = true;
}

static void settle(struct search *s, struct paper_node *at, uint32_t part)
{
    struct option options[RESIDENTS];
    struct plan_place place = { .node = NULL };

    if (!paper_fits(&s->paper, at, s->i->shape, part, &place)) {
        uint32_t n = residents(s, at, options);
        uint32_t off = clear(s, at, part, options, n, &place);

        for (uint32_t k = 0; k < off; k++)
            add_victim(s, &options[k]);
    }
    add_place(s, &place);
}

static bool own_node(const struct plan_item *i, const struct plan_node *n)
{
    if (!i->places || i->places[0].node->roams)
        return true;
    for (uint32_t k = 0; k < i->nplaces; k++)
        if (i->places[k].node == n)
            return true;
    return false;
}

/* Where one more costs least; the fuller node among equals, then by name. */
static struct paper_node *cheapest(struct search *s, uint32_t part)
{
    struct paper_node *best = NULL;

    for (uint32_t k = 0; k < s->paper.count; k++) {
        struct paper_node *at = &s->paper.nodes[k];

        if (at->barred || !own_node(s->i, at->node))
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

static bool fill(struct search *s)
{
    const struct shape *shape = s->i->shape;

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

static bool outranks(const struct plan *p, const struct plan_item *i,
                     const struct running_set *set)
{
    return set->count > 0 &&
           (i->priority > set->priority ||
            (i->priority == set->priority && p->policy.turns != TURNS_OFF &&
             set->level > (i->promoted ? 0 : i->level)));
}

/* Could anybody at all be made to go, and could that be enough? */
static bool hopeful(const struct plan *p, const struct plan_item *i,
                    uint64_t free_milli, bool *ret_moves)
{
    uint64_t milli = free_milli;
    bool any = false;

    *ret_moves = p->policy.move && free_milli >= i->shape->gpu_milli &&
                 i->shape->gpu_milli > 0;
    if (*ret_moves || (p->policy.reclaim && p->fair &&
                       tenant_within_quota(i->tenant, i->shape->gpu_milli)))
        return true;
    for (uint32_t k = 0; k < p->rooms->nsets; k++)
        if (outranks(p, i, &p->rooms->sets[k])) {
            milli += p->rooms->sets[k].milli;
            any = true;
        }
    return any && milli >= i->shape->gpu_milli;
}

static uint64_t free_in_all(const struct plan *p)
{
    uint64_t sum = 0;

    for (uint32_t k = 0; k < p->nnodes; k++)
        if (p->nodes[k] && p->nodes[k]->open)
            sum += p->nodes[k]->free_milli;
    return sum;
}

static uint32_t all_nodes(const struct plan *p, struct plan_node **ret)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < p->nnodes; k++)
        if (p->nodes[k] && p->nodes[k]->open)
            ret[n++] = p->nodes[k];
    return n;
}

static struct claim *search_in(struct plan *p, struct plan_item *i,
                               struct plan_node *const *nodes, uint32_t n,
                               bool moves)
{
    struct search s = { .p = p, .i = i, .moves = moves };
    bool found;

    s.claim = mem_new(sizeof(*s.claim));
    s.claim->claimant = i;
    paper_init(&s.paper, p, i, nodes, n);
    found = fill(&s) && s.claim->nvictims > 0;
    for (uint32_t k = 0; k < s.claim->nvictims; k++)
        s.claim->victims[k].item->picked = false;
    paper_free(&s.paper);
    if (found)
        return s.claim;
    free(s.claim->places);
    free(s.claim->victims);
    free(s.claim);
    return NULL;
}

static struct claim *better(struct claim *a, struct claim *b)
{
    struct claim *worse = !a || (b && b->loss < a->loss) ? a : b;
    struct claim *best = worse == a ? b : a;

    if (worse) {
        free(worse->places);
        free(worse->victims);
        free(worse);
    }
    return best;
}

struct claim *room_search(struct plan *p, struct plan_item *i)
{
    autofree struct plan_node **nodes = NULL;
    struct claim *best = NULL;
    uint32_t n, from = 0;
    bool moves;

    if (!hopeful(p, i, free_in_all(p), &moves))
        return NULL;
    nodes = mem_array(p->nnodes + 1, sizeof(struct plan_node *));
    n = all_nodes(p, nodes);
    if (!i->shape->one_pool || i->shape->ranks <= 1)
        return search_in(p, i, nodes, n, moves);
    /* Nodes of one pool stand together, as they were added. */
    for (uint32_t k = 1; k <= n; k++)
        if (k == n || nodes[k]->pool_number != nodes[from]->pool_number) {
            best = better(best, search_in(p, i, nodes + from, k - from,
                                          moves));
            from = k;
        }
    return best;
}
