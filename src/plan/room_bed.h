#pragma once

#include "plan/bed.h"

/* room_bed - what tests of room being made share. */

static inline struct plan_item *ran(struct bed *b, struct bed_item spec,
                                    uint64_t ms)
{
    struct plan_item *i = bed_add(b, spec);

    bed_run(b);
    ok(bed_runs(i), "it runs");
    bed_wait(b, ms);
    return i;
}
#define RAN(ms, ...) ran(b, (struct bed_item) { __VA_ARGS__ }, (ms))

static inline bool evicts(struct bed *b, const struct plan_item *v,
                          const struct plan_item *c, enum plan_cause cause,
                          enum plan_yield how)
{
    struct plan_decision d;

    return plan_next(b->p, &d) && d.what == PLAN_EVICT && d.item == v &&
           d.claimant == c && d.cause == cause && d.how == how;
}

static inline bool nothing(struct bed *b)
{
    struct plan_decision d;

    return !plan_next(b->p, &d);
}
