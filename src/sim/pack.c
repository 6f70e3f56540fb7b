#include "sim/pack_int.h"

#include "base/mem.h"
#include "base/random.h"

#include <string.h>

/* The score of a shape on a node stays good until the node changes, and an
 * arrival changes one node.  So the scores stand in a table of shapes x nodes;
 * each with the node's turn at that time; what is stale is worked out when it
 * is looked at.
 */

enum { FGD_PERCENT = 95 };             /* of the pods are typical */

static void ignore(struct pack *p, const struct pack_pod *pod)
{
    (void) p;
    (void) pod;
}

static double no_score(const struct pack *p, const struct pack_shape *s,
                       size_t node)
{
    (void) p;
    (void) s;
    (void) node;
    return 0;
}

#define PLAIN(called, scores, dev) \
    { .name = (called), .arrives = ignore, .score = (scores), .device = (dev) }
static const struct pack_policy policies[] = {
    { .name = "random", .by_lot = true, .arrives = ignore, .score = no_score,
      .device = pack_device_by_lot },
    PLAIN("dotprod", pack_score_dotprod, pack_device_tight),
    PLAIN("clustering", pack_score_clustering, pack_device_tight),
    PLAIN("packing", pack_score_packing, pack_device_tight),
    PLAIN("bestfit", pack_score_bestfit, pack_device_tight),
    { .name = "fgd", .arrives = ignore,
      .score = pack_score_after, .device = pack_device_after,
      .after = pack_after_fgd },
    { .name = "weir", .arrives = pack_weir_arrives,
      .score = pack_score_after, .device = pack_device_after,
      .after = pack_after_weir },
};

const struct pack_policy *pack_policy_find(const char *name)
{
    for (size_t i = 0; i < array_size(policies); i++)
        if (strcmp(policies[i].name, name) == 0)
            return &policies[i];
    return NULL;
}

const char *pack_policy_names(void)
{
    return "random, dotprod, clustering, packing, bestfit, fgd, weir";
}

void pack_list_free(struct pack_list *l)
{
    for (size_t i = 0; i < l->nmodels; i++)
        free(l->models[i]);
    for (size_t i = 0; i < l->nshapes; i++)
        free(l->shapes[i].spec);
    free(l->nodes);
    free(l->pods);
    free(l->shapes);
    *l = (struct pack_list) { 0 };
}

void pack_order_free(struct pack_order *o)
{
    free(o->pods);
    free(o->first);
    *o = (struct pack_order) { 0 };
}

static void shuffle(uint32_t *list, size_t n, uint64_t *state)
{
    for (size_t i = n; i > 1; i--) {
        size_t k = random_next(state) % i;
        uint32_t t = list[i - 1];

        list[i - 1] = list[k];
        list[k] = t;
    }
}

static uint64_t pod_milli(const struct pack_list *l, size_t pod)
{
    const struct pack_shape *s = &l->shapes[l->pods[pod].shape];

    return (uint64_t) s->gpus * s->milli;
}

static uint64_t capacity(const struct pack_list *l)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < l->nnodes; i++)
        sum += (uint64_t) l->nodes[i].free;
    return sum;
}

void pack_order_draw(const struct pack_list *l, uint64_t seed,
                     unsigned percent, struct pack_order *ret)
{
    uint64_t state = seed, asked = 0, goal = capacity(l) * percent / 100;
    struct pack_order o = { .npods = l->npods };

    o.pods = mem_array(PACK_PODS, sizeof *o.pods);
    o.first = mem_array(l->nnodes, sizeof *o.first);
    for (size_t i = 0; i < l->npods; i++) {
        o.pods[i] = (uint32_t) i;
        asked += pod_milli(l, i);
    }
    shuffle(o.pods, o.npods, &state);
    while (asked > 0 && asked < goal && o.npods < PACK_PODS) {
        size_t pod = random_next(&state) % l->npods;

        o.pods[o.npods++] = (uint32_t) pod;
        asked += pod_milli(l, pod);
    }
    o.pods = mem_grow(o.pods, o.npods, sizeof *o.pods);
    for (size_t i = 0; i < l->nnodes; i++)
        o.first[i] = (uint32_t) i;
    shuffle(o.first, l->nnodes, &state);
    *ret = o;
}

/* ---- one arrival ---- */

/* The number of GPUs with at least this much left. */
static unsigned gpus_with(const struct pack_node *n, unsigned milli)
{
    unsigned count = 0;

    for (unsigned g = 0; g < n->gpus; g++)
        count += n->left[g] >= milli;
    return count;
}

static bool has_room(const struct pack_node *n, const struct pack_shape *s,
                     int64_t memory)
{
    if (n->cpu < s->cpu || n->memory < memory ||
        n->pods >= PACK_PODS_PER_NODE)
        return false;
    if (s->gpus == 0)
        return true;
    return n->free >= s->gpus * s->milli && (s->models >> n->model & 1) &&
           gpus_with(n, s->milli) >= s->gpus;
}

void pack_take(struct pack_node *n, const struct pack_shape *s, unsigned gpu)
{
    unsigned want = s->gpus;

    n->cpu -= s->cpu;
    n->free -= s->gpus * s->milli;
    if (s->gpus == 1) {
        n->left[gpu] = (uint16_t) (n->left[gpu] - s->milli);
        want = 0;
    }
    for (unsigned g = 0; want > 0; g++) {
        if (n->left[g] < s->milli)
            continue;
        n->left[g] = (uint16_t) (n->left[g] - s->milli);
        want--;
    }
}

static double score(struct pack *p, uint32_t shape, size_t node)
{
    struct pack_cell *cell = &p->cells[shape * p->list->nnodes + node];

    if (cell->turn != p->turns[node]) {
        cell->score = p->policy->score(p, &p->list->shapes[shape], node);
        cell->turn = p->turns[node];
    }
    return cell->score;
}

/* The node to use; their number when none has room. */
static size_t choose(struct pack *p, const struct pack_pod *pod,
                     const uint32_t *first)
{
    const struct pack_shape *s = &p->list->shapes[pod->shape];
    size_t best = p->list->nnodes;
    uint64_t seen = 0;
    double high = 0;

    for (size_t i = 0; i < p->list->nnodes; i++) {
        if (!has_room(&p->nodes[i], s, pod->memory))
            continue;
        seen++;
        if (p->policy->by_lot) {
            if (random_next(&p->random) % seen == 0)
                best = i;
            continue;
        }
        double v = score(p, pod->shape, i);

        if (seen == 1 || v > high || (v >= high && first[i] < first[best])) {
            best = i;
            high = v;
        }
    }
    return best;
}

static void place(struct pack *p, const struct pack_pod *pod, size_t node)
{
    const struct pack_shape *s = &p->list->shapes[pod->shape];
    struct pack_node *n = &p->nodes[node];
    unsigned gpu = s->gpus == 1 ? p->policy->device(p, s, node) : 0;

    pack_take(n, s, gpu);
    n->memory -= pod->memory;
    n->pods++;
    if (s->gpus)
        n->classes |= 1u << (s->milli < PACK_WHOLE ? 0 : s->gpus);
    p->frag[node] = pack_frag(n, &p->types);
    p->turns[node]++;
}

static void start(struct pack *p)
{
    const struct pack_list *l = p->list;

    p->nodes = mem_dup(l->nodes, l->nnodes * sizeof *l->nodes);
    p->turns = mem_array(l->nnodes, sizeof *p->turns);
    p->frag = mem_array(l->nnodes, sizeof *p->frag);
    if (!p->policy->by_lot)
        p->cells = mem_array(l->nshapes * l->nnodes, sizeof *p->cells);
    pack_types_of(l, FGD_PERCENT, &p->types);
    for (size_t i = 0; i < l->nnodes; i++) {
        p->turns[i] = 1;
        p->frag[i] = pack_frag(&p->nodes[i], &p->types);
    }
}

void pack_replay(const struct pack_list *l, const struct pack_order *o,
                 const struct pack_policy *policy, uint64_t seed,
                 struct pack_result *ret)
{
    struct pack p = { .list = l, .policy = policy, .random = seed };
    struct pack_result r = { .capacity_milli = capacity(l) };

    start(&p);
    for (size_t i = 0; i < o->npods; i++) {
        const struct pack_pod *pod = &l->pods[o->pods[i]];
        uint64_t milli = pod_milli(l, o->pods[i]);
        size_t node;

        policy->arrives(&p, pod);
        node = choose(&p, pod, o->first);
        r.arrived++;
        r.arrived_milli += milli;
        if (node == l->nnodes) {
            r.failed++;
            continue;
        }
        place(&p, pod, node);
        r.allocated_milli += milli;
    }
    for (size_t i = 0; i < l->nnodes; i++)
        r.frag_milli += p.frag[i];
    free(p.nodes);
    free(p.turns);
    free(p.frag);
    free(p.cells);
    free(p.types.items);
    free(p.seen);
    free(p.learned.items);
    *ret = r;
}
