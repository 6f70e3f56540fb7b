#include "sim/pack_int.h"

#include "base/mem.h"

#include <stdlib.h>

/* Weir's packing: a pod goes where it destroys least of what the work to come
 * could use, by the measure that the plan places by (plan/frag.h).
 *
 * The score is not cut to an integer.  Which pods are typical is learned from
 * those that came so far, which is what a running system knows.
 */

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
    p->learned.cpu_per_milli = milli > 0 ? cpu / milli : 0;
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

/* The milli-GPU that typical pods could use of a node, in expectation. */
static double usable(const struct pack *p, const struct pack_node *n)
{
    struct frag_node f = {
        .left = n->left, .gpus = n->gpus, .models = UINT64_C(1) << n->model,
        .cpu = n->cpu,
    };

    return n->free ? frag_usable(&p->learned, &f) : 0;
}

double pack_after_weir(const struct pack *p, const struct pack_shape *s,
                       size_t node, unsigned gpu)
{
    struct pack_node after = p->nodes[node];

    pack_take(&after, s, gpu);
    return usable(p, &after) - usable(p, &p->nodes[node]);
}
