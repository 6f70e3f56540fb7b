#pragma once

#include "gate/gate.h"

/* slot - this process's place in the page, and those of processes that are no
 * more.
 */

/* NULL: the page has no slots, or every one is in use.  Then the sums of the
 * page are right until the process is killed.
 */
struct gate_slot *slot_mine(void);

/* Adds to a sum of the page and to the same of a slot (NULL: to the sum alone),
 * or takes off.  Whoever is killed between the two leaves the sum too high, never
 * too low: less than nothing would be very much.
 */
#define SLOT_ADD(page, slot, what, n) \
    do { \
        (page)->what += (n); \
        if (slot) \
            (slot)->what += (n); \
    } while (0)
#define SLOT_SUB(page, slot, what, n) \
    do { \
        if (slot) \
            (slot)->what -= (n); \
        (page)->what -= (n); \
    } while (0)

/* Takes off what processes left that are no more. */
void slot_reap(void);
void slot_forked(void);                /* in a child: none is ours */
