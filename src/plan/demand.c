#include "plan/line.h"
#include "plan/pool.h"

#include "base/mem.h"

#include <stdlib.h>

/* Questions to the line: who is before whom, and does somebody wait for what
 * is free?
 */

uint32_t line_position(struct plan *p, const struct plan_item *i)
{
    uint32_t before = 0;

    if (!i->queue)
        return 0;
    for (const struct plan_item *o = p->all; o; o = o->next)
        if (o != i && o->queue && item_before(p, o, i))
            before++;
    return before + 1;
}

/* Somebody of the shape may start, as far as its tenant is concerned. */
static bool wants(const struct shape *s)
{
    for (const struct queue *q = s->queues; q; q = q->next)
        if (!tenant_barred(q->tenant, s->gpu_milli))
            return true;
    return false;
}

/* ... one that may do so anywhere; or NULL.  Who goes on where its state is has
 * looked there itself, and what it found is not kept.
 */
static const struct plan_item *wants_any(const struct shape *s)
{
    for (uint32_t k = 0; k < s->nrows; k++)
        for (uint32_t l = 0; l < ROW_LEVELS; l++)
            for (const struct queue *q = s->rows[k]->all[l]; q; q = q->twin)
                if (!tenant_barred(q->tenant, s->gpu_milli))
                    return keyed_top(&q->items);
    return NULL;
}

/* Has somebody of the shape not looked at what there is now?  A closed shape
 * fits nowhere: it was closed for that, and room opens it.
 */
static bool may_look(const struct shape *s)
{
    if (s->open || s->denied + s->hoping > 0)
        return true;
    for (uint32_t k = 0; k < s->nrows; k++)
        if (s->rows[k]->bench->queues.count > 0)
            return true;
    return false;
}

enum demand line_demand(struct plan *p, bool cpus)
{
    static const struct place_opts any = { .ignore_promises = true };
    enum demand demand = DEMAND_NONE;

    if (score_changed(p))
        line_cpus(p);
    for (uint32_t k = 0; k < p->nshapes; k++) {
        struct shape *s = p->shapes[k];
        const struct plan_item *i;
        autofree struct plan_place *places = NULL;
        uint32_t n;
        double score;

        if (s->waiting == 0 || (cpus ? s->cpu_milli : s->gpu_milli) == 0 ||
            (demand == DEMAND_STUCK && !may_look(s)))
            continue;
        if (!wants(s) || line_never(p, s))
            continue;
        demand = DEMAND_STUCK;
        i = may_look(s) ? wants_any(s) : NULL;
        if (i && place_may_fit(p, s) &&
            place_find(p, i, &any, &places, &n, &score))
            return DEMAND_FITS;
    }
    return demand;
}
