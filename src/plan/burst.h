#pragma once

#include "plan/plan_int.h"

/* burst - start now on a slower or dearer device, or wait for a better one?
 *
 * See burst.c.  Where all devices are of one rating and price nobody ever
 * waits, and asking costs a comparison.
 */
struct burst {
    uint16_t here, there;              /* models: free now; hoped for */
    uint64_t free_ms;                  /* by then that is thought to be free */
    uint64_t later_ms;                 /* it would end so much later here */
};

/* Is the item to wait rather than to start on these places?  *ret is set only
 * then.
 */
bool burst_waits(struct plan *p, const struct plan_item *i,
                 const struct plan_place *places, uint32_t nplaces,
                 struct burst *ret);
