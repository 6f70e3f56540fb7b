#include "sim/pack_int.h"

#include "base/mem.h"
#include "base/random.h"

#include <assert.h>
#include <math.h>

/* The policies that FGD was compared with.  They measure a node against the
 * largest of that cluster, in CPUs and in GPUs.
 */
static const double CPU_MOST = 128000;
static const double GPU_MOST = 8000;

double pack_score_bestfit(const struct pack *p, const struct pack_shape *s,
                          size_t node)
{
    const struct pack_node *n = &p->nodes[node];
    double cpu = (double) (n->cpu - s->cpu) / CPU_MOST;
    double gpu = (double) (n->free - s->gpus * s->milli) / GPU_MOST;

    return trunc(100 * (1 - (0.5 * cpu + 0.5 * gpu)));
}

double pack_score_dotprod(const struct pack *p, const struct pack_shape *s,
                          size_t node)
{
    const struct pack_node *n = &p->nodes[node];
    double cpu = (double) n->cpu / CPU_MOST * ((double) s->cpu / CPU_MOST);
    double gpu = n->free / GPU_MOST * (s->gpus * s->milli / GPU_MOST);

    return trunc(100 * (1 - (cpu + gpu) / 2));
}

/* How the pod uses GPUs, those with least left first: the number of wholly
 * free ones, and how much the others had left.
 */
static void fill_tight(const struct pack_node *n, const struct pack_shape *s,
                       int *ret_whole, int *ret_left)
{
    bool used[PACK_GPUS] = { false };
    int whole = 0, left = 0;

    for (unsigned k = 0; k < s->gpus; k++) {
        unsigned best = PACK_GPUS;

        for (unsigned g = 0; g < n->gpus; g++)
            if (!used[g] && n->left[g] >= s->milli &&
                (best == PACK_GPUS || n->left[g] < n->left[best]))
                best = g;
        assert(best < PACK_GPUS);      /* the node has room */
        used[best] = true;
        if (n->left[best] == PACK_WHOLE)
            whole++;
        else
            left += n->left[best] * 100 / PACK_WHOLE;
    }
    *ret_whole = whole;
    *ret_left = left;
}

static double larger(int a, int b)
{
    return a > b ? a : b;
}

double pack_score_packing(const struct pack *p, const struct pack_shape *s,
                          size_t node)
{
    const struct pack_node *n = &p->nodes[node];
    int whole, left;

    if (s->gpus == 0)
        return 0;
    if (n->free == n->gpus * PACK_WHOLE)
        return larger(33 - n->gpus, n->gpus);
    fill_tight(n, s, &whole, &left);
    if (whole > 0)
        return larger(50 - whole, 33);
    return larger(100 - left / 10, 50);
}

double pack_score_clustering(const struct pack *p, const struct pack_shape *s,
                             size_t node)
{
    const struct pack_node *n = &p->nodes[node];
    int base = 25 * (8000 - n->free) / 8000;
    unsigned mine = 1u << (s->milli < PACK_WHOLE ? 0 : s->gpus);

    if (s->gpus == 0)
        return 0;
    if (n->classes & mine)
        return base + (n->classes == mine ? 75 : 50);
    return base + (n->classes == 0 ? 25 : 0);
}

unsigned pack_device_tight(struct pack *p, const struct pack_shape *s,
                           size_t node)
{
    const struct pack_node *n = &p->nodes[node];
    unsigned best = PACK_GPUS;

    for (unsigned g = 0; g < n->gpus; g++)
        if (n->left[g] >= s->milli &&
            (best == PACK_GPUS || n->left[g] < n->left[best]))
            best = g;
    return best;
}

unsigned pack_device_by_lot(struct pack *p, const struct pack_shape *s,
                            size_t node)
{
    const struct pack_node *n = &p->nodes[node];
    uint64_t seen = 0;
    unsigned best = 0;

    for (unsigned g = 0; g < n->gpus; g++)
        if (n->left[g] >= s->milli && random_next(&p->random) % ++seen == 0)
            best = g;
    return best;
}

/* The best score that a pod has on a node, by a function that scores it on one
 * device; *ret: the first device that has it.  For a pod that needs one GPU or
 * part of one; any other is scored as it is.
 */
static double best_device(const struct pack *p, const struct pack_shape *s,
                          size_t node, unsigned *ret)
{
    const struct pack_node *n = &p->nodes[node];
    double high = -INFINITY;

    if (s->gpus != 1)
        return p->policy->after(p, s, node, 0);
    for (unsigned g = 0; g < n->gpus; g++) {
        unsigned like = 0;
        double v;

        /* Like devices score alike, and the first of them is taken. */
        while (n->left[like] != n->left[g])
            like++;
        if (like < g || n->left[g] < s->milli)
            continue;
        v = p->policy->after(p, s, node, g);
        if (v > high) {
            high = v;
            *ret = g;
        }
    }
    return high;
}

double pack_score_after(const struct pack *p, const struct pack_shape *s,
                        size_t node)
{
    unsigned gpu = 0;

    return best_device(p, s, node, &gpu);
}

unsigned pack_device_after(struct pack *p, const struct pack_shape *s,
                           size_t node)
{
    unsigned gpu = 0;

    (void) best_device(p, s, node, &gpu);
    return gpu;
}
