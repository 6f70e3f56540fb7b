#pragma once

#include <stdint.h>

struct plan_item;

/* timer - which item is to be looked at next as time passes.
 *
 * A heap with four below each.  The time stands beside the item: going up and
 * down touches no item but those that move.  Ties go by the items' order, so
 * what comes first does not depend on what came before.
 */
struct timer {
    uint64_t at_ms;
    struct plan_item *item;            /* its timer_slot is this place, from 1 */
};

struct timers {
    struct timer *list;
    uint32_t count, cap;
};

/* From now on at that time; UINT64_MAX: no more.  O(log). */
void timer_set(struct timers *t, struct plan_item *i, uint64_t at_ms);
/* UINT64_MAX: there is none. */
uint64_t timer_first(const struct timers *t, struct plan_item **ret);
