#include "plan/pool.h"
#include "plan/slots.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static void add_slot(struct slots *s, uint64_t at_ms,
                     const struct plan_place *place)
{
    if (s->count == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 16;
        s->list = mem_grow(s->list, s->cap, sizeof(*s->list));
    }
    s->list[s->count++] = (struct slot) { at_ms, *place };
}

static int by_time(const void *a, const void *b)
{
    const struct slot *x = a, *y = b;

    if (x->at_ms != y->at_ms)
        return x->at_ms < y->at_ms ? -1 : 1;
    return strcmp(x->place.node->name, y->place.node->name);
}

void slots_sort(struct slots *s)
{
    if (s->count > 0)
        qsort(s->list, s->count, sizeof(*s->list), by_time);
}

struct end {
    const struct plan_item *item;
    uint64_t at_ms;
};

static int by_end(const void *a, const void *b)
{
    const struct end *x = a, *y = b;

    if (x->at_ms != y->at_ms)
        return x->at_ms < y->at_ms ? -1 : 1;
    return x->item->order < y->item->order ? -1 : 1;
}

static uint32_t ends_on(const struct plan *p, const struct plan_node *n,
                        struct end *ret)
{
    uint32_t count = 0;

    pool_fetch(n);
    for (uint32_t k = 0; k < n->nitems; k++)
        if (n->items[k]->state == ITEM_RUNNING && !pool_met(n, k))
            ret[count++] = (struct end) {
                n->items[k],
                item_end_ms(p, n->items[k], p->policy.quantile)
            };
    qsort(ret, count, sizeof(*ret), by_end);
    return count;
}

static void end_on_paper(struct paper *pa, const struct plan_node *n,
                         const struct plan_item *o)
{
    for (uint32_t k = 0; k < o->nplaces; k++)
        if (o->places[k].node == n)
            paper_give(pa, o->shape, &o->places[k]);
}

/* As they end one by one, how many ranks fit on the node, and since when? */
void slots_of(struct paper *pa, struct paper_node *at, const struct shape *s,
              uint32_t part, uint32_t most, struct slots *ret)
{
    const struct plan_node *n = at->node;
    autofree struct end *ends = mem_array(n->nitems + 1u, sizeof(*ends));
    uint32_t count = ends_on(pa->plan, n, ends), found = 0;
    uint64_t when = pa->plan->now_ms;
    struct plan_place place;

    for (uint32_t k = 0; k <= count; k++) {
        if (k > 0) {
            end_on_paper(pa, n, ends[k - 1].item);
            when = ends[k - 1].at_ms;
        }
        while (found < most && paper_fits(pa, at, s, part, &place)) {
            add_slot(ret, when, &place);
            paper_take(pa, s, &place);
            found++;
        }
    }
}
