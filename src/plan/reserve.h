#pragma once

#include "plan/paper.h"

/* reserve - places promised for later. */

struct reservation {
    struct plan_item *item;
    struct plan_place *places;
    uint32_t nplaces;
    uint64_t made_ms, start_ms;
    uint64_t firm_ms;                  /* the start that was promised first */
    uint64_t tried;                    /* in vain, when plan.room was this */
};

struct window {
    struct window *next;
    char name[64];
    const struct plan_tenant *tenant;  /* NULL: for nobody */
    uint64_t from_ms, to_ms;
    struct plan_node **nodes;
    uint32_t nnodes;
};

struct promises {
    struct reservation **list;         /* the oldest first */
    uint32_t count;
    struct window *windows;
};

/* From now on, after all others; taken. */
void promise_add(struct plan *p, struct reservation *r);
