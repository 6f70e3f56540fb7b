#pragma once

#include "plan/paper.h"

/* room - claims, and the search for whom to evict. */

enum {
    ROOM_NODES = 256,                  /* looked at one by one; in a larger pool */
    ROOM_VICTIMS = 16,                 /* ... those where so many run */
    ROOM_CLAIMS = 4,                   /* compared there, for one rank */
};

/* Who runs and may be asked to leave, as far as time is concerned: of one
 * priority, level and tenant, the latest first.
 */
struct running_set {
    int16_t priority;
    uint8_t level;
    struct plan_tenant *tenant;
    struct keyed items;
    uint64_t milli;
};

/* For whose turn may it be suspended?  See victim.c. */
enum lend { LEND_ANY, LEND_NARROW, LEND_NOT };

/* A rank of such a one on its node. */
struct ripe {
    const struct plan_item *item;
    struct plan_tenant *tenant;
    uint64_t cpu_milli;
    uint32_t gpu_milli;
    int16_t priority;
    uint8_t level;
    enum lend lend;
};

struct rooms {
    struct plan_claim *claims;              /* the oldest first */
    struct plan_claim *draft;               /* decided, not begun */
    struct running_set *sets;          /* who goes first first: see ripe.c */
    uint32_t nsets, sets_cap;
    uint64_t leaving_milli;            /* devices of those who leave for nobody */
    uint64_t asks;                     /* victim.c: so far */
};

/* Who must go for the item to start, and where it starts then: at least one
 * victim, or NULL.  Changes nothing.
 */
struct plan_claim *room_search(struct plan *p, struct plan_item *i);
/* ... on that node: one of one rank. */
struct plan_claim *room_search_on(struct plan *p, struct plan_item *i,
                                  struct plan_node *n);
/* ... of those alone whose slice is over, for i. */
struct plan_claim *room_search_slice(struct plan *p, struct plan_item *i);
/* From now on, after all others; taken. */
void room_add(struct plan *p, struct plan_claim *c);
/* The claim of the item, or NULL. */
struct plan_claim *room_claim(const struct plan *p, const struct plan_item *i);
void room_claim_free(struct plan_claim *c);             /* NULL is fine */
