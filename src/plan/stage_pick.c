#include "plan/line.h"
#include "plan/paper.h"
#include "plan/pool.h"
#include "plan/reserve.h"
#include "plan/room.h"
#include "plan/stage.h"

#include "base/mem.h"

#include <string.h>

/* Look-ahead: who is staged, where, and who is not any more.
 *
 * When nobody can start and nobody can make room, the first in line of those
 * not staged yet who will fit where something may end soon is staged there: of
 * the STAGE_NODES nodes where that may be first, those of which nothing is
 * promised to others.  So a node has no more staged than its devices will do
 * for.  One with several ranks is staged where it was promised a place, when
 * that time is near; before, where all its ranks will be is not known.  Whoever
 * others were told to leave for is staged on their places at once.  After all
 * of these come those who do not wait yet but are expected within the look-ahead
 * (plan_expect), where there is room now or near an end.
 *
 * A stage binds nobody: its item keeps its place in line and starts wherever it
 * can, rather where it stands ready (place.c), and of those alike the one that
 * does goes first (stage_instead).  It ends with the start; when after twice the
 * look-ahead there is no end in view that makes room for it; when its memory is
 * needed; or, after the look-ahead, for one that comes before it by priority or
 * level and finds no other place.  Nobody is staged more than STAGE_TIMES in one
 * wait, so that there is an end to it.
 */

/* ---- who is first? ---- */

static bool eligible(const struct plan_item *i)
{
    return i->state == ITEM_WAITING && i->stagings < STAGE_TIMES && !i->cold &&
           !i->reserved;
}

/* Before `best`, of the queue's heap from `at` on: below one that will do, or
 * that comes later than the best so far, nobody is looked at.
 */
static struct plan_item *first_item(const struct plan *p,
                                    const struct keyed *h, uint32_t at,
                                    struct plan_item *best)
{
    struct plan_item *i;

    if (at >= h->count)
        return best;
    i = h->list[at].item;
    if (best && !item_before(p, i, best))
        return best;
    if (eligible(i))
        return i;
    for (uint32_t k = 1; k <= KEYED_BELOW; k++)
        best = first_item(p, h, at * KEYED_BELOW + k, best);
    return best;
}

/* Those who go on where their state is have nothing to be staged, and where
 * those start who hope for a better device is not known.
 */
static struct plan_item *first_in_queue(const struct plan *p,
                                        const struct queue *q,
                                        struct plan_item *best)
{
    if (q->bound || q->pool > 0 || q->hopes ||
        tenant_barred(q->tenant, q->shape->gpu_milli))
        return best;
    return first_item(p, &q->items, 0, best);
}

static struct plan_item *first_in_row(const struct plan *p,
                                      const struct keyed *h, uint32_t at,
                                      struct plan_item *best)
{
    const struct queue *q;

    if (at >= h->count)
        return best;
    q = h->list[at].item;
    if (best && !item_before(p, keyed_top(&q->items), best))
        return best;
    best = first_in_queue(p, q, best);
    for (uint32_t k = 1; k <= KEYED_BELOW; k++)
        best = first_in_row(p, h, at * KEYED_BELOW + k, best);
    return best;
}

static struct plan_item *first_of_shape(const struct plan *p,
                                        const struct shape *s)
{
    struct plan_item *best = NULL;

    for (uint32_t k = 0; k < s->nrows; k++)
        best = first_in_row(p, &s->rows[k]->queues, 0, best);
    for (const struct queue *q = s->queues; s->denied > 0 && q; q = q->next)
        if (q->parked == PARKED_DENIED)
            best = first_in_queue(p, q, best);
    return best;
}

/* ---- where? ---- */

/* ... now, with `out` (or NULL) no longer staged there. */
static bool has_memory(const struct plan_node *n, uint64_t memory,
                       const struct stage *out)
{
    uint64_t staged = n->staged_memory -
                      (out ? stage_memory(out->item, n) : 0);

    return n->memory_held + n->parked + staged + memory <= n->memory;
}

/* The node as it will be when what is near its end has ended, and those staged
 * there who come before `i`, or (all) any of them but `out`, have started.
 */
static bool fits_then(struct plan *p, struct plan_node *n,
                      const struct plan_item *i, const struct stage *out,
                      bool all, struct plan_place *ret)
{
    struct paper pa;
    bool fits;

    paper_blank(&pa, p, &n, 1);
    for (uint32_t k = 0; k < n->nitems; k++)
        if (n->items[k]->near_ms > 0 && !pool_met(n, k))
            paper_give_item(&pa, n->items[k]);
    for (uint32_t k = 0; k < n->nstaged; k++) {
        const struct stage *s = n->staged[k];

        for (uint32_t m = 0; s != out && s->item != i && m < s->nplaces; m++)
            if (all || item_before(p, s->item, i))
                paper_take_any(&pa, s->item->shape, &s->places[m]);
    }
    fits = paper_fits(&pa, &pa.nodes[0], i->shape, 0, ret);
    paper_free(&pa);
    return fits;
}

/* One staged item for each device is all that a node has. */
static bool has_slot(const struct plan_node *n)
{
    return n->nstaged < n->ndevices && n->leaving == 0 && n->open;
}

static bool find_near(struct plan *p, const struct plan_item *i,
                      void *const *nodes, uint32_t n, struct plan_place *ret)
{
    for (uint32_t k = 0; k < n; k++) {
        struct plan_node *node = nodes[k];

        if (node->promised == 0 && has_slot(node) &&
            has_memory(node, i->shape->parts[0].need.memory, NULL) &&
            fits_then(p, node, i, NULL, true, ret))
            return true;
    }
    return false;
}

/* ---- decisions ---- */

static bool unstage(struct plan_item *i, struct plan_decision *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->what = PLAN_UNSTAGE;
    ret->item = i;
    return true;
}

static bool stage_at(struct plan *p, struct plan_item *i,
                     const struct plan_place *places, uint32_t n,
                     struct plan_decision *ret)
{
    free(p->next);
    p->next = mem_dup(places, n * sizeof(*places));
    ret->what = PLAN_STAGE;
    ret->item = i;
    ret->places = p->next;
    ret->nplaces = n;
    return true;
}

/* The last in line of those staged there. */
static struct plan_item *last_on(const struct plan *p,
                                 const struct plan_node *n,
                                 const struct plan_item *but)
{
    struct plan_item *last = NULL;

    for (uint32_t k = 0; k < n->nstaged; k++) {
        struct plan_item *i = n->staged[k]->item;

        if (i != but && (!last || item_before(p, last, i)))
            last = i;
    }
    return last;
}

/* ... memory that the decision takes of the node, beyond what it gives. */
static int64_t takes(const struct plan_decision *d, const struct plan_node *n)
{
    const struct plan_item *i = d->item;
    int64_t sum = 0;

    for (uint32_t k = 0; d->what == PLAN_START && k < d->nplaces; k++)
        if (d->places[k].node == n)
            sum += (int64_t) i->shape->parts[d->places[k].part].need.memory;
    for (uint32_t k = 0; d->what == PLAN_EVICT && k < i->nplaces; k++)
        if (i->places[k].node == n)
            sum += (int64_t) item_bytes(i, &i->places[k]) -
                   (int64_t) i->shape->parts[i->places[k].part].need.memory;
    return sum - (int64_t) item_parked(i, n) - (int64_t) stage_memory(i, n);
}

static bool too_much(const struct plan_node *n, int64_t more)
{
    return (int64_t) (n->memory_held + n->parked + n->staged_memory) + more >
           (int64_t) n->memory;
}

bool stage_before(struct plan *p, struct plan_decision *ret)
{
    bool start = ret->what == PLAN_START;
    const struct plan_place *places = start ? ret->places : ret->item->places;
    uint32_t n = start ? ret->nplaces : ret->item->nplaces;

    if (p->stager->due.count == 0 || (!start && ret->how != YIELD_SUSPEND))
        return false;
    for (uint32_t k = 0; k < n; k++) {
        const struct plan_node *node = places[k].node;
        struct plan_item *last = node->nstaged == 0 ? NULL :
                                 last_on(p, node, ret->item);

        if (last && too_much(node, takes(ret, node)))
            return unstage(last, ret);
    }
    return false;
}

/* More was left on a node than it has beside what is staged. */
bool stage_relieve(struct plan *p, struct plan_decision *ret)
{
    const struct plan_node *first = NULL;

    for (uint32_t k = 0; p->stager->due.count > 0 &&
                         k < p->stager->ntouched; k++) {
        const struct plan_node *n = p->stager->touched[k];

        if (n->nstaged > 0 && stage_crowded(n) &&
            (!first || strcmp(n->name, first->name) < 0))
            first = n;
    }
    return first && unstage(last_on(p, first, NULL), ret);
}

/* Of the devices only those count that the rank has. */
static bool same_place(const struct plan_place *a, const struct plan_place *b)
{
    return a->node == b->node && a->part == b->part &&
           a->ndevices == b->ndevices &&
           memcmp(a->device, b->device, a->ndevices * sizeof(*a->device)) == 0;
}

static bool kept_for(const struct stage *s)
{
    const struct reservation *r = s->item->reserved;
    bool same = r && r->nplaces == s->nplaces;

    for (uint32_t k = 0; same && k < s->nplaces; k++)
        same = same_place(&r->places[k], &s->places[k]);
    return same;
}

/* Is there still an end in view that makes room for it? */
static bool in_view(struct plan *p, const struct stage *s)
{
    struct plan_place place;

    for (uint32_t k = 0; k < s->nplaces; k++)
        if (!s->places[k].node->open)
            return false;
    if (s->item->state == ITEM_HELD)
        return s->item->near_ms > 0 &&
               p->now_ms < s->item->near_ms + p->policy.lookahead_ms;
    if (room_claim(p, s->item))
        return true;
    if (s->item->reserved || !s->item->shape->simple)
        return kept_for(s);
    return fits_then(p, s->places[0].node, s->item, s, false, &place);
}

static bool unstage_due(struct plan *p, struct plan_decision *ret)
{
    struct keyed *due = &p->stager->due;
    struct stage *s;

    while ((s = keyed_top(due)) && due->list[0].key[0] <= p->now_ms) {
        if (!in_view(p, s))
            return unstage(s->item, ret);
        keyed_set(due, s, p->now_ms + p->policy.lookahead_ms, s->item->order);
    }
    return false;
}

static bool uses(const struct plan_item *i, const struct plan_node *n,
                 uint16_t device)
{
    for (uint32_t k = 0; k < i->nplaces; k++)
        for (uint32_t d = 0; i->places[k].node == n &&
                             d < i->places[k].ndevices; d++)
            if (i->places[k].device[d] == device)
                return true;
    return false;
}

/* Are its devices free, or with those alone who may end soon? */
static bool opens_soon(const struct plan_place *at)
{
    const struct plan_node *n = at->node;

    for (uint32_t d = 0; d < at->ndevices; d++)
        for (uint32_t k = 0; k < n->nitems; k++)
            if (n->items[k]->near_ms == 0 &&
                uses(n->items[k], n, at->device[d]))
                return false;
    return true;
}

/* Can the k-th rank of it be staged there, with all before it?  Devices may have
 * closed since it was promised them.
 */
static bool may_stand(const struct plan_item *i,
                      const struct plan_place *places, uint32_t k)
{
    const struct plan_place *at = &places[k];
    const struct plan_node *n = at->node;
    uint64_t memory = 0;

    for (uint32_t d = 0; d < at->ndevices; d++)
        if (!n->devices[at->device[d]].open)
            return false;
    for (uint32_t m = 0; m <= k; m++)
        if (places[m].node == n)
            memory += i->shape->parts[places[m].part].need.memory;
    return n->stages && n->open && n->nstaged < n->ndevices &&
           has_memory(n, memory, NULL);
}

/* Its places are known: may it be staged, of itself? */
static bool may_stage(const struct plan_item *i)
{
    return i->state == ITEM_WAITING && i->stagings < STAGE_TIMES && !i->cold &&
           i->shape->gpu_milli > 0;
}

/* All places of a promise are known: it is staged when its time is near, or
 * when all of them may be free.
 */
static bool stage_promised(struct plan *p, struct plan_decision *ret)
{
    for (uint32_t k = 0; k < p->promises->count; k++) {
        const struct reservation *r = p->promises->list[k];
        const struct plan_item *i = r->item;
        bool will = may_stage(i);
        bool soon = r->start_ms <= p->now_ms + p->policy.lookahead_ms;

        for (uint32_t m = 0; will && m < r->nplaces; m++)
            will = r->places[m].node->leaving == 0 &&
                   may_stand(i, r->places, m) &&
                   (soon || opens_soon(&r->places[m]));
        if (will)
            return stage_at(p, r->item, r->places, r->nplaces, ret);
    }
    return false;
}

/* Somebody leaves for it, which takes a while. */
static bool stage_claimed(struct plan *p, struct plan_decision *ret)
{
    for (const struct plan_claim *c = p->rooms->claims; c; c = c->next) {
        bool will = c->nvictims > 0 && !c->loose && may_stage(c->claimant);

        for (uint32_t k = 0; will && k < c->nplaces; k++)
            will = may_stand(c->claimant, c->places, k);
        if (will)
            return stage_at(p, c->claimant, c->places, c->nplaces, ret);
    }
    return false;
}

/* By priority or level, so that age alone does not shift anybody. */
static bool comes_before(const struct plan *p, const struct plan_item *i,
                         const struct plan_item *o)
{
    if (i->priority != o->priority)
        return i->priority > o->priority;
    return (i->promoted || i->level < o->level) && !o->promoted &&
           item_before(p, i, o);
}

/* Of the oldest stages one that gives its place to the item, or false. */
static bool unstage_for(struct plan *p, const struct plan_item *i,
                        struct plan_decision *ret)
{
    void *list[STAGE_NODES];
    uint32_t n = keyed_first(&p->stager->due, list, STAGE_NODES);
    struct plan_item *last = NULL;
    struct plan_place place;

    for (uint32_t k = 0; k < n; k++) {
        const struct stage *s = list[k];
        struct plan_node *node = s->places[0].node;

        if (s->since_ms + p->policy.lookahead_ms <= p->now_ms &&
            !s->item->reserved && s->nplaces == 1 &&
            node->promised == 0 && node->leaving == 0 && node->open &&
            comes_before(p, i, s->item) &&
            (!last || item_before(p, last, s->item)) &&
            has_memory(node, i->shape->parts[0].need.memory, s) &&
            fits_then(p, node, i, s, true, &place))
            last = s->item;
    }
    return last && unstage(last, ret);
}

/* The first in line who fits near an end; or the first of all, who does not. */
static bool stage_first(struct plan *p, struct plan_decision *ret)
{
    void *nodes[STAGE_NODES];
    uint32_t n = keyed_first(&p->stager->near, nodes, STAGE_NODES);
    struct plan_item *best = NULL, *stuck = NULL;
    struct plan_place place, at;

    for (uint32_t k = 0; k < p->nshapes; k++) {
        struct shape *s = p->shapes[k];
        struct plan_item *i = NULL;

        if (s->queues && s->simple && s->gpu_milli > 0)
            i = first_of_shape(p, s);
        if (!i || (best && !item_before(p, i, best)) || line_never(p, s))
            continue;
        if (find_near(p, i, nodes, n, &at)) {
            best = i;
            place = at;
        } else if (!stuck || item_before(p, i, stuck)) {
            stuck = i;
        }
    }
    if (best && (!stuck || item_before(p, best, stuck)))
        return stage_at(p, best, &place, 1, ret);
    if (stuck && unstage_for(p, stuck, ret))
        return true;
    return best && stage_at(p, best, &place, 1, ret);
}

/* Where there is room for it now, or will be. */
static bool find_for_expected(struct plan *p, struct plan_item *i,
                              void *const *nodes, uint32_t n,
                              struct plan_place *ret)
{
    static const struct place_opts none;
    struct plan_place *places = NULL;
    struct plan_node *node = NULL;
    uint32_t count;
    double score;
    void *one;

    if (place_find(p, i, &none, &places, &count, &score))
        node = places[0].node;
    free(places);
    one = node;
    return (node && node->stages && find_near(p, i, &one, 1, ret)) ||
           find_near(p, i, nodes, n, ret);
}

/* The first to be ready of those who are not yet, within the look-ahead. */
static bool stage_expected(struct plan *p, struct plan_decision *ret)
{
    const struct stager *g = p->stager;
    void *items[STAGE_NODES], *nodes[STAGE_NODES];
    uint32_t count = keyed_first(&g->expected, items, STAGE_NODES);
    uint32_t n = count > 0 ? keyed_first(&g->near, nodes, STAGE_NODES) : 0;
    uint64_t ahead = p->policy.lookahead_ms;
    struct plan_place at;

    for (uint32_t k = 0; k < count; k++) {
        struct plan_item *i = items[k];
        struct shape *s = i->shape;

        if (i->near_ms > p->now_ms + ahead)
            break;
        if (p->now_ms >= i->near_ms + ahead)
            continue;                  /* it should have been ready long since */
        if (!i->stage && !i->cold && i->stagings < STAGE_TIMES && s->simple &&
            s->gpu_milli > 0 && !tenant_barred(i->tenant, s->gpu_milli) &&
            !line_never(p, s) && find_for_expected(p, i, nodes, n, &at))
            return stage_at(p, i, &at, 1, ret);
    }
    return false;
}

bool stage_next(struct plan *p, struct plan_decision *ret)
{
    const struct stager *g = p->stager;

    if (g->nodes == 0 || (p->waiting == 0 && g->expected.count == 0 &&
                          g->due.count == 0))
        return false;
    if (p->policy.lookahead_ms == 0)
        return g->due.count > 0 &&
               unstage(((struct stage *) keyed_top(&g->due))->item, ret);
    stage_settle(p);
    if (unstage_due(p, ret) || stage_claimed(p, ret) || stage_promised(p, ret))
        return true;
    if ((g->near.count > 0 || g->due.count > 0) && stage_first(p, ret))
        return true;
    return g->expected.count > 0 && stage_expected(p, ret);
}

/* ---- who starts there? ---- */

/* Alike: of one shape, tenant, priority and level, and no more urgent than the
 * other.  Whoever is past its patience is passed by nobody.
 */
struct plan_item *stage_instead(const struct plan *p,
                                const struct plan_item *i,
                                const struct plan_node *n)
{
    struct plan_item *best = NULL;

    if (n->nstaged == 0 || i->promoted || i->urgent || stage_on(i, n))
        return NULL;
    for (uint32_t k = 0; k < n->nstaged; k++) {
        struct plan_item *o = n->staged[k]->item;

        if (o->queue == i->queue && o->below_ms >= i->below_ms &&
            (!best || item_before(p, o, best)))
            best = o;
    }
    return best;
}
