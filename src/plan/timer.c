#include "plan/plan_int.h"

#include "base/mem.h"

enum { BELOW = 4 };

static bool before(const struct timer *a, const struct timer *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms
                                : a->item->order < b->item->order;
}

static void put(struct timers *t, uint32_t at, struct timer e)
{
    t->list[at] = e;
    e.item->timer_slot = at + 1;
}

static void rise(struct timers *t, uint32_t at, struct timer e)
{
    while (at > 0) {
        uint32_t up = (at - 1) / BELOW;

        if (!before(&e, &t->list[up]))
            break;
        put(t, at, t->list[up]);
        at = up;
    }
    put(t, at, e);
}

static void sink(struct timers *t, uint32_t at, struct timer e)
{
    for (;;) {
        uint32_t first = at * BELOW + 1, least = first;

        if (first >= t->count)
            break;
        for (uint32_t k = first + 1; k < first + BELOW && k < t->count; k++)
            if (before(&t->list[k], &t->list[least]))
                least = k;
        if (!before(&t->list[least], &e))
            break;
        put(t, at, t->list[least]);
        at = least;
    }
    put(t, at, e);
}

/* Where somebody left a gap, or changed. */
static void settle(struct timers *t, uint32_t at, struct timer e)
{
    if (at > 0 && before(&e, &t->list[(at - 1) / BELOW]))
        rise(t, at, e);
    else
        sink(t, at, e);
}

static void remove_at(struct timers *t, uint32_t at)
{
    struct timer last = t->list[--t->count];

    t->list[at].item->timer_slot = 0;
    if (at < t->count)
        settle(t, at, last);
}

void timer_set(struct timers *t, struct plan_item *i, uint64_t at_ms)
{
    struct timer e = { at_ms, i };

    if (at_ms == UINT64_MAX) {
        if (i->timer_slot > 0)
            remove_at(t, i->timer_slot - 1);
        return;
    }
    if (i->timer_slot > 0) {
        settle(t, i->timer_slot - 1, e);
        return;
    }
    if (t->count == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 16;
        t->list = mem_grow(t->list, t->cap, sizeof(*t->list));
    }
    rise(t, t->count++, e);
}

uint64_t timer_first(const struct timers *t, struct plan_item **ret)
{
    if (t->count == 0)
        return UINT64_MAX;
    *ret = t->list[0].item;
    return t->list[0].at_ms;
}
