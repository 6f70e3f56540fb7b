#pragma once

#include "plan/room.h"

/* victim - who may be made to go, for whom, and what that costs.
 *
 *     priority   for one of higher priority;
 *     quota      for a tenant within its guaranteed quota, by one beyond it;
 *     turn       for one of an earlier level, or that waits past its patience,
 *                if the policy's turns allow it;
 *     slice      for an equal, once its slice is over: see slice.c.
 */

/* A claimant asks; what it may ask of whom follows from this alone, as long as
 * nothing changes and nobody else asks.
 */
struct ask {
    const struct plan *p;
    const struct plan_item *i;
    uint64_t number;
    bool within;                       /* its tenant's guaranteed quota */
    uint32_t turn;                     /* the first level that gives way */
    uint32_t least;                    /* ... that might: see victim.c */
    uint64_t due_ms;                   /* who is there since then does, too */
    bool fills;                        /* ... and few: see victim_fills */
    bool slice;                        /* only those whose slice is over */
};

enum { ASK_RECLAIM = 1, ASK_TURN = 2 };            /* plan_tenant.may */

/* One who could be made to go. */
struct option {
    struct plan_item *item;
    double loss;
    enum plan_cause cause;
    enum plan_yield how;
};

struct ask victim_ask(const struct plan *p, const struct plan_item *i);
/* It waits past its patience while half of what it needs stands idle, or less if
 * it has several ranks: those may be made to go, whatever their level, who
 * together hold no more than the other half, or than twice what it lacks.
 */
bool victim_fills(const struct plan *p, const struct plan_item *i);
/* The most that one may need for that, with what is idle now. */
uint64_t victim_fillable(const struct plan *p, bool gang);
/* Is it i's turn, without regard to that? */
bool victim_turn(const struct ask *a, const struct plan_item *v);
bool victim_may(const struct ask *a, struct plan_item *v, struct option *ret);
/* slice.c: since when v has had its slice, with i waiting for it. */
uint64_t slice_over_ms(const struct plan *p, const struct plan_item *v,
                       const struct plan_item *i);
/* ... all who have: those who began first, at most ROOM_VICTIMS. */
uint32_t slice_first(const struct plan *p, const struct plan_item *i,
                     struct plan_item **ret);
/* More than is guaranteed to it, or to those above it. */
bool victim_over_quota(const struct plan_tenant *t);
/* On paper v is gone, or there again: what its tenant has more than it is
 * guaranteed is less.
 */
void victim_off(struct ask *a, const struct plan_item *v, bool off);
/* It was decided that v goes for i.  Is it still allowed?  The policy, priorities,
 * quotas and memory may be others by now; whose turn it was is not asked again.
 */
bool victim_still(const struct plan *p, const struct plan_item *i,
                  const struct plan_victim *v);
enum lend victim_lend(const struct plan_item *v);
/* So many levels must be between them for a turn; back: see victim.c. */
uint32_t victim_apart(bool back);
/* ... one of that level, to one that waits and has the level `own` but for its
 * patience?
 */
bool victim_lends(enum lend lend, uint8_t level, const struct shape *s,
                  uint8_t own, bool back);
enum plan_yield victim_how(const struct plan_item *v);
/* Can it not be suspended on that node any more, but could before so much memory
 * was taken there?
 */
bool victim_stays(const struct plan_item *v, const struct plan_node *n,
                  uint64_t taken);
double victim_loss(const struct plan *p, const struct plan_item *v,
                   enum plan_yield how, bool moves);
/* Could anybody at all be made to go, and could that be enough with what is
 * idle and what leaves for nobody?  If not, no search finds anything.
 */
bool victim_hope(const struct ask *a, uint64_t idle);
/* The first ROOM_VICTIMS who may be made to go: those of the lowest priority,
 * of the latest level, who started last.  Returns how many.
 */
uint32_t victim_first(const struct ask *a, struct plan_item **ret);
/* false: not even if all went who may be made to would a rank fit there. */
bool victim_enough(const struct ask *a, const struct plan_node *n,
                   const struct part *q);
