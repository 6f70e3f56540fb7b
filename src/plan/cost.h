#pragma once

#include "plan/plan_int.h"

/* cost - what suspending and going on again costs, learned.
 *
 * Each model of device has what a round took: a part that comes with every one,
 * and a part for each byte.  Until a round was measured there, the policy's
 * number counts.  plan_costs and plan_cost_load keep it across restarts.
 */
struct cost {                          /* of one model */
    uint32_t rounds;                   /* measured */
    double bytes, ms;                  /* means, of late */
    double spread, along;              /* variance of bytes; with ms */
};

void costs_free(struct plan *p);
void cost_learn(struct cost *c, uint64_t bytes, uint64_t ms);
/* What a round of so many bytes takes, of a model that was measured. */
double cost_ms(const struct cost *c, uint64_t bytes);
/* The same of the item, which holds its places; ranks move side by side. */
double suspend_cost_ms(const struct plan *p, const struct plan_item *v);
