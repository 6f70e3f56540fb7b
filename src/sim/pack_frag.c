#include "sim/pack_int.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* Fragmentation gradient descent (Weng et al., USENIX ATC'23): what of a
 * node's free GPUs would be of no use to a typical pod, in expectation; a pod
 * goes where it raises this least.
 *
 * The digits are to be those of the published program: doubles are added for
 * each cause apart, in the order of the types, and the causes then in the
 * order below; scores are cut to integers.
 */
enum cause {
    LACKS_BOTH, LACKS_GPU, LACKS_CPU, NO_GPU_FITS, NO_GPU_LACKS_CPU,
    NO_ACCESS, CAUSES
};

/* ---- typical pods ---- */

static int by_count(const void *va, const void *vb)
{
    const struct pack_shape *a = *(const struct pack_shape *const *) va;
    const struct pack_shape *b = *(const struct pack_shape *const *) vb;

    if (a->count != b->count)
        return a->count < b->count ? 1 : -1;
    if (a->cpu != b->cpu)
        return a->cpu < b->cpu ? 1 : -1;
    if (a->milli != b->milli)
        return a->milli < b->milli ? 1 : -1;
    if (a->gpus != b->gpus)
        return a->gpus < b->gpus ? 1 : -1;
    return strcmp(b->spec, a->spec);
}

void pack_types_of(const struct pack_list *l, unsigned percent,
                   struct frag_types *ret)
{
    autofree const struct pack_shape **sorted =
        mem_array(l->nshapes, sizeof *sorted);
    double all = (double) l->npods;
    size_t covered = 0;

    ret->items = mem_array(l->nshapes, sizeof *ret->items);
    ret->count = ret->nsizes = 0;
    for (size_t i = 0; i < l->nshapes; i++)
        sorted[i] = &l->shapes[i];
    qsort(sorted, l->nshapes, sizeof(struct pack_shape *), by_count);
    while (covered * 100 < l->npods * percent) {
        const struct pack_shape *s = sorted[ret->count];

        ret->items[ret->count++] = (struct frag_type) {
            .cpu = s->cpu, .models = s->models, .gpus = s->gpus,
            .size = frag_size(ret, s->milli), .weight = (double) s->count,
        };
        covered += s->count;
    }
    /* Two divisions, as published: a gradient of nothing but rounding decides
     * which way a score is cut.
     */
    for (size_t i = 0; i < ret->count; i++)
        ret->items[i].weight = ret->items[i].weight / all /
                               ((double) covered / all);
}

/* ---- a node's fragmentation ---- */

struct fit {
    unsigned gpus;                     /* with room for this size */
    int lost;                          /* milli on the others */
};

static void measure(const struct pack_node *n, const struct frag_types *t,
                    struct fit *ret)
{
    for (size_t i = 0; i < t->nsizes; i++) {
        struct fit f = { 0, 0 };

        for (unsigned g = 0; g < n->gpus; g++) {
            bool fits = n->left[g] >= t->sizes[i];

            f.gpus += fits;
            f.lost += fits ? 0 : n->left[g];
        }
        ret[i] = f;
    }
}

double pack_frag(const struct pack_node *n, const struct frag_types *t)
{
    struct fit fits[PACK_WHOLE + 1];
    double sum[CAUSES] = { 0 }, all = 0;

    if (n->free == 0)
        return 0;
    measure(n, t, fits);
    for (size_t i = 0; i < t->count; i++) {
        const struct frag_type *m = &t->items[i];
        const struct fit *f = &fits[m->size];
        bool cpu = n->cpu >= m->cpu;
        int lost = n->free;
        enum cause why;

        if (m->gpus == 0)
            why = cpu ? NO_GPU_FITS : NO_GPU_LACKS_CPU;
        else if (!(m->models >> n->model & 1))
            why = NO_ACCESS;
        else if (f->gpus < m->gpus)
            why = cpu ? LACKS_GPU : LACKS_BOTH;
        else if (!cpu)
            why = LACKS_CPU;
        else {
            why = LACKS_GPU;
            lost = f->lost;
        }
        sum[why] += m->weight * lost;
    }
    for (unsigned i = 0; i < CAUSES; i++)
        all += sum[i];
    return all;
}

/* ---- the policy ---- */

double pack_after_fgd(const struct pack *p, const struct pack_shape *s,
                      size_t node, unsigned gpu)
{
    struct pack_node after = p->nodes[node];
    double gain;

    pack_take(&after, s, gpu);
    gain = p->frag[node] - pack_frag(&after, &p->types);
    return floor(100 * (1 / (1 + exp(-gain / 1000))));
}
