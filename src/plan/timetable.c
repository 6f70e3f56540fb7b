#include "plan/plan_int.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

void timetable_init(struct timetable *t)
{
    t->waiting.slot = t->running.slot = offsetof(struct plan_item, timer_slot);
}

void timetable_free(struct timetable *t)
{
    keyed_free(&t->waiting);
    keyed_free(&t->running);
    free(t->list);
}

/* ---- the list ---- */

static bool is_after(uint64_t at_ms, uint64_t order,
                     const struct keyed_entry *e)
{
    return at_ms != e->key[0] ? at_ms > e->key[0] : order > e->key[1];
}

/* All who come now wait for that long at most before they are looked at: what
 * is later belongs to few, and would keep them out.
 */
static bool in_order(const struct plan *p, const struct plan_item *i,
                     uint64_t at_ms)
{
    const struct timetable *t = &p->timetable;

    return at_ms <= p->now_ms + p->policy.patience_ms &&
           (t->live == 0 || is_after(at_ms, i->order, &t->list[t->end - 1]));
}

/* Room for one more: what is gone is closed up first. */
static void make_room(struct timetable *t)
{
    uint32_t n = 0;

    if (t->end < t->cap)
        return;
    for (uint32_t k = t->first; k < t->end; k++) {
        struct plan_item *i = t->list[k].item;

        if (!i)
            continue;
        t->list[n++] = t->list[k];
        i->timer_slot = n;
    }
    t->first = 0;
    t->end = n;
    if (n >= t->cap / 2) {
        t->cap = t->cap ? 2 * t->cap : 16;
        t->list = mem_grow(t->list, t->cap, sizeof(*t->list));
    }
}

static void append(struct timetable *t, struct plan_item *i, uint64_t at_ms)
{
    make_room(t);
    t->list[t->end++] = (struct keyed_entry) { { at_ms, i->order }, i };
    t->live++;
    i->timer_slot = t->end;
}

/* The first and the last are never gone. */
static void take_away(struct timetable *t, struct plan_item *i)
{
    assert(t->list[i->timer_slot - 1].item == i);
    t->list[i->timer_slot - 1].item = NULL;
    i->timer_slot = 0;
    t->live--;
    while (t->first < t->end && !t->list[t->first].item)
        t->first++;
    while (t->end > t->first && !t->list[t->end - 1].item)
        t->end--;
    if (t->live == 0)
        t->first = t->end = 0;
}

/* ---- all ---- */

static void clear(struct timetable *t, struct plan_item *i)
{
    if (i->timer_slot == 0)
        return;
    switch ((enum timer_of) i->timer_of) {
    case TIMER_WAITING:
        keyed_remove(&t->waiting, i);
        break;
    case TIMER_RUNNING:
        keyed_remove(&t->running, i);
        break;
    case TIMER_IN_ORDER:
        take_away(t, i);
        break;
    }
}

void timetable_set(struct plan *p, struct plan_item *i, uint64_t at_ms)
{
    struct timetable *t = &p->timetable;
    enum timer_of of = item_runs(i) ? TIMER_RUNNING : TIMER_WAITING;

    if (of != i->timer_of || at_ms == UINT64_MAX)
        clear(t, i);
    if (at_ms == UINT64_MAX)
        return;
    if (of == TIMER_WAITING && i->timer_slot == 0 && in_order(p, i, at_ms)) {
        i->timer_of = TIMER_IN_ORDER;
        append(t, i, at_ms);
        return;
    }
    i->timer_of = (uint8_t) of;
    keyed_set(of == TIMER_RUNNING ? &t->running : &t->waiting, i, at_ms,
              i->order);
}

static const struct keyed_entry *entry_of(const struct timetable *t,
                                          const struct plan_item *i)
{
    const struct keyed_entry *list =
        i->timer_of == TIMER_WAITING ? t->waiting.list :
        i->timer_of == TIMER_RUNNING ? t->running.list : t->list;

    return &list[i->timer_slot - 1];
}

uint64_t timetable_ms(const struct timetable *t, const struct plan_item *i)
{
    return i->timer_slot ? entry_of(t, i)->key[0] : UINT64_MAX;
}

const struct keyed_entry *timetable_first(const struct timetable *t)
{
    const struct keyed_entry *of[] = {
        t->waiting.count ? t->waiting.list : NULL,
        t->running.count ? t->running.list : NULL,
        t->live ? &t->list[t->first] : NULL,
    };
    const struct keyed_entry *first = NULL;

    for (size_t k = 0; k < array_size(of); k++)
        if (of[k] && (!first || is_after(first->key[0], first->key[1], of[k])))
            first = of[k];
    return first;
}

/* Whoever is due in a heap is below one that is. */
static uint32_t heap_due(const struct keyed *h, uint64_t now_ms,
                         struct plan_item **ret, uint32_t most)
{
    uint32_t at[TIMETABLE_DUE], n = 0;

    if (most > 0 && h->count > 0 && h->list[0].key[0] <= now_ms)
        at[n++] = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t below = at[k] * KEYED_BELOW + 1;

        ret[k] = h->list[at[k]].item;
        for (uint32_t end = below + KEYED_BELOW; below < end; below++)
            if (n < most && below < h->count &&
                h->list[below].key[0] <= now_ms)
                at[n++] = below;
    }
    return n;
}

uint32_t timetable_due(const struct timetable *t, uint64_t now_ms,
                       struct plan_item *ret[TIMETABLE_DUE])
{
    uint32_t n = heap_due(&t->running, now_ms, ret, TIMETABLE_DUE);

    n += heap_due(&t->waiting, now_ms, &ret[n], TIMETABLE_DUE - n);
    for (uint32_t k = t->first; k < t->end && n < TIMETABLE_DUE &&
                                t->list[k].key[0] <= now_ms; k++)
        if (t->list[k].item)
            ret[n++] = t->list[k].item;
    return n;
}
