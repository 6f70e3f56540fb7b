#include "plan/plan_int.h"

#include "base/mem.h"

/* What the suspended leave: their state in the memory of their nodes, and the
 * shape that they go on with.
 */

/* Its own memory, which it keeps, and what it has on its devices. */
uint64_t item_bytes(const struct plan_item *i, const struct plan_place *at)
{
    uint64_t sum = i->shape->parts[at->part].need.memory;

    if (i->bytes > 0)
        return i->bytes;
    for (uint32_t d = 0; d < at->ndevices; d++)
        sum += at->node->devices[at->device[d]].memory *
               i->shape->parts[at->part].milli / 1000;
    return sum;
}

uint64_t item_parked(const struct plan_item *i, const struct plan_node *n)
{
    uint64_t sum = 0;

    if (i->state != ITEM_SUSPENDED)
        return 0;
    for (uint32_t k = 0; k < i->nplaces; k++)
        if (i->places[k].node == n)
            sum += item_bytes(i, &i->places[k]);
    return sum;
}

void item_park(struct plan *p, const struct plan_item *i, bool on)
{
    for (uint32_t k = 0; k < i->nplaces; k++) {
        const struct plan_place *at = &i->places[k];
        int64_t bytes = (int64_t) item_bytes(i, at);
        int64_t milli = i->shape->parts[at->part].need.gpu_milli;

        pool_park(p, at->node, on ? bytes : -bytes, on ? milli : -milli);
    }
}

void item_shrink(struct plan *p, struct plan_item *i)
{
    struct shape *s;

    if (i->shape->simple && !i->shape->alone)
        return;
    s = shape_of(p, i->shape, i->places, i->nplaces);
    if (s == i->shape) {
        shape_put(p, s);
        return;
    }
    i->whole = i->shape;
    shape_keep(p, i->whole);
    i->shape = s;
}

void item_restore(struct plan *p, struct plan_item *i)
{
    if (!i->whole)
        return;
    shape_put(p, i->shape);
    i->shape = take(i->whole);
    shape_back(p, i->shape);
}
