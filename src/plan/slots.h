#pragma once

#include "plan/paper.h"

/* slots - from when on has a node room, if what runs there ends as predicted
 * (the policy's quantile)?
 */
struct slot {                          /* one rank could be there from then */
    uint64_t at_ms;
    struct plan_place place;
};

struct slots {
    struct slot *list;
    uint32_t count, cap;
};

/* The first `most` ranks of the part on that node of the paper, which is spent
 * by it.  The list is from mem_grow, caller frees.
 */
void slots_of(struct paper *pa, struct paper_node *at, const struct shape *s,
              uint32_t part, uint32_t most, struct slots *ret);
void slots_sort(struct slots *s);      /* the earliest first, then by name */
