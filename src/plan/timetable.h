#pragma once

#include "base/keyed.h"

struct plan;
struct plan_item;

/* timetable - what time alone changes: each item has one at most.
 *
 * Those that run are few and change often; those that wait may be a million
 * whose patience ends in the order in which they came.  So there are two heaps,
 * and before that of the waiting a list in order, at whose end a timer is set
 * and at whose beginning it is due, without touching any other item.  One that
 * comes before the last of the list, or so late that none would come after it,
 * is in the heap.
 */
struct timetable {
    struct keyed waiting, running;
    struct keyed_entry *list;          /* by time and order; item NULL: gone */
    uint32_t first, end, cap, live;
};

/* Where an item's timer is. */
enum timer_of { TIMER_WAITING, TIMER_RUNNING, TIMER_IN_ORDER };

void timetable_init(struct timetable *t);
void timetable_free(struct timetable *t);
/* UINT64_MAX: no more.  O(log), in the list O(1). */
void timetable_set(struct plan *p, struct plan_item *i, uint64_t at_ms);
uint64_t timetable_ms(const struct timetable *t, const struct plan_item *i);
/* The first, by time and order; NULL: none. */
const struct keyed_entry *timetable_first(const struct timetable *t);
/* Some of those that are due then, in no order; returns how many. */
enum { TIMETABLE_DUE = 64 };
uint32_t timetable_due(const struct timetable *t, uint64_t now_ms,
                       struct plan_item *ret[TIMETABLE_DUE]);
