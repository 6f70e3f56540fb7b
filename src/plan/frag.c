#include "plan/frag.h"

#include <stdbool.h>
#include <string.h>

static const double FRAG_OWN = 0.7;
static const double FRAG_SLACK = 1.5;

uint16_t frag_size(struct frag_types *t, uint16_t milli)
{
    size_t i = 0;

    while (i < t->nsizes && t->sizes[i] != milli)
        i++;
    if (i == t->nsizes)
        t->sizes[t->nsizes++] = milli;
    return (uint16_t) i;
}

struct room {
    unsigned gpus;                     /* on which this size fits */
    int milli;                         /* free on those */
};

/* On a node that is nearly full most devices have nothing left, and only work
 * without a device, which does not count, would fit there.
 */
static void measure(const struct frag_node *n, const struct frag_types *t,
                    struct room *ret)
{
    memset(ret, 0, t->nsizes * sizeof(*ret));
    for (unsigned g = 0; g < n->gpus; g++)
        for (size_t i = 0; n->left[g] > 0 && i < t->nsizes; i++) {
            bool fits = n->left[g] >= t->sizes[i];

            ret[i].gpus += fits;
            ret[i].milli += fits ? n->left[g] : 0;
        }
}

double frag_usable(const struct frag_types *t, const struct frag_node *n)
{
    struct room rooms[FRAG_SIZES];
    double sum = 0;

    measure(n, t, rooms);
    for (size_t i = 0; i < t->count; i++) {
        const struct frag_type *m = &t->items[i];
        const struct room *r = &rooms[m->size];
        double milli = m->gpus * t->sizes[m->size];
        double cost, fed;

        if (m->gpus == 0 || !(m->models & n->models) ||
            r->gpus < m->gpus || n->cpu < m->cpu)
            continue;
        cost = FRAG_OWN * (double) m->cpu / milli +
               (1 - FRAG_OWN) * t->cpu_per_milli;
        fed = cost > 0 ? FRAG_SLACK * (double) n->cpu / cost : r->milli;
        sum += m->weight * (fed < r->milli ? fed : r->milli);
    }
    return sum;
}
