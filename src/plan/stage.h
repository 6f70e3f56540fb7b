#pragma once

#include "plan/plan_int.h"

/* stage - what stands ready where, and what may soon be free: see stage.c. */

enum {
    STAGE_NODES = 16,                  /* looked at for one that waits */
    STAGE_TIMES = 4,                   /* in one wait, at most */
};

struct stage {
    struct plan_item *item;
    struct plan_place *places;         /* where it is thought to start */
    uint32_t nplaces;
    uint32_t slot;                     /* in stager.due */
    uint64_t since_ms;
};

/* Nodes that stage are looked at again when something changed there. */
struct stager {
    uint32_t nodes;                    /* that stage */
    struct keyed looks;                /* running items: when to guess again */
    struct keyed near;                 /* nodes, by what may end first there */
    struct keyed due;                  /* stages: when to look at them again */
    struct keyed expected;             /* held items, by when they are ready */
    struct plan_node **touched;
    uint32_t ntouched, touched_cap;
};

/* Memory that the item holds of the node by being staged there. */
uint64_t stage_memory(const struct plan_item *i, const struct plan_node *n);
bool stage_on(const struct plan_item *i, const struct plan_node *n);
/* What has changed is worked in: guesses that are due, nodes touched. */
void stage_settle(struct plan *p);
/* More is promised of its memory than it has. */
bool stage_crowded(const struct plan_node *n);
