#include "sim/pack_int.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* Weir's packing: a pod goes where it destroys least of what the work to come
 * could use.
 *
 * FGD asks whether a typical pod fits on a node, and counts all the GPUs that
 * it could lie on as usable then.  Near the end that is wrong where it costs
 * most: on a node with 8 free GPUs and CPUs for one more pod, 7 are as good as
 * gone.  So for each typical pod two amounts are worked out, and the smaller
 * one counts as usable:
 *
 *  - the free GPU on devices where it fits, as in FGD;
 *  - what the node's CPUs can feed.  A node is filled by a mix and not by one
 *    kind, so the CPUs that a GPU costs are taken between those of this kind
 *    and the mean (OWN), with some slack, as pods with few CPUs will come as
 *    well (SLACK).
 *
 * The second is what makes a CPU dear on a node whose GPUs wait for it and
 * free of charge elsewhere: pods that need many CPUs, or CPUs alone, go where
 * there are plenty, and pods that need few go where few are left.
 *
 * The score is not cut to an integer.  Which pods are typical is learned from
 * those that came so far, which is what a running system knows.
 */
static const double OWN = 0.7;
static const double SLACK = 1.5;

/* ---- what is typical ---- */

static void learn(struct pack *p)
{
    struct pack_list seen = *p->list;
    double cpu = 0, milli = 0;

    /* The shapes as they were counted so far, in place of the list's. */
    seen.shapes = p->seen;
    seen.npods = p->arrived;
    free(p->learned.items);
    pack_types_of(&seen, 100, &p->learned);
    for (size_t i = 0; i < seen.nshapes; i++) {
        const struct pack_shape *s = &seen.shapes[i];

        if (s->gpus == 0)
            continue;
        cpu += (double) s->count * (double) s->cpu;
        milli += (double) s->count * s->gpus * s->milli;
    }
    p->cpu_per_milli = milli > 0 ? cpu / milli : 0;
    for (size_t i = 0; i < p->list->nnodes; i++)
        p->turns[i]++;
}

/* Every score is worked out again after this, so it is done each time that
 * the number of arrivals has grown by an eighth.
 */
void pack_weir_arrives(struct pack *p, const struct pack_pod *pod)
{
    if (!p->seen)
        p->seen = mem_dup(p->list->shapes,
                          p->list->nshapes * sizeof *p->seen);
    if (p->arrived == 0)
        for (size_t i = 0; i < p->list->nshapes; i++)
            p->seen[i].count = 0;
    p->seen[pod->shape].count++;
    p->arrived++;
    if (p->arrived >= p->learn_at) {
        learn(p);
        p->learn_at = p->arrived + (p->arrived + 7) / 8;
    }
}

/* ---- what is usable ---- */

struct room {
    unsigned gpus;                     /* on which this size fits */
    int milli;                         /* free on those */
};

static void measure(const struct pack_node *n, const struct pack_types *t,
                    struct room *ret)
{
    for (size_t i = 0; i < t->nsizes; i++) {
        struct room r = { 0, 0 };

        for (unsigned g = 0; g < n->gpus; g++) {
            bool fits = n->left[g] >= t->sizes[i];

            r.gpus += fits;
            r.milli += fits ? n->left[g] : 0;
        }
        ret[i] = r;
    }
}

/* The milli-GPU that typical pods could use of a node, in expectation. */
static double usable(const struct pack *p, const struct pack_node *n)
{
    const struct pack_types *t = &p->learned;
    struct room rooms[PACK_WHOLE + 1];
    double sum = 0;

    if (n->free == 0)
        return 0;
    measure(n, t, rooms);
    for (size_t i = 0; i < t->count; i++) {
        const struct pack_type *m = &t->items[i];
        const struct room *r = &rooms[m->size];
        double milli = m->gpus * t->sizes[m->size];
        double cost, fed;

        if (m->gpus == 0 || !(m->models >> n->model & 1) ||
            r->gpus < m->gpus || n->cpu < m->cpu)
            continue;
        cost = OWN * (double) m->cpu / milli + (1 - OWN) * p->cpu_per_milli;
        fed = cost > 0 ? SLACK * (double) n->cpu / cost : r->milli;
        sum += m->weight * (fed < r->milli ? fed : r->milli);
    }
    return sum;
}

static double score_after(const struct pack *p, const struct pack_shape *s,
                          size_t node, unsigned gpu)
{
    struct pack_node after = p->nodes[node];

    pack_take(&after, s, gpu);
    return usable(p, &after) - usable(p, &p->nodes[node]);
}

double pack_score_weir(const struct pack *p, const struct pack_shape *s,
                       size_t node)
{
    unsigned gpu = 0;

    return pack_best_device(p, s, node, score_after, &gpu);
}

unsigned pack_device_weir(struct pack *p, const struct pack_shape *s,
                          size_t node)
{
    unsigned gpu = 0;

    (void) pack_best_device(p, s, node, score_after, &gpu);
    return gpu;
}
