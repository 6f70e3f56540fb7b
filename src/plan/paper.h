#pragma once

#include "plan/plan_int.h"

/* paper - what if?  Some nodes as they would be with some items taken off and
 * others put there, worked out beside the pool.
 *
 * What is promised to others is not free on paper.  A node is on one paper at a
 * time.
 */
struct paper_node {
    struct plan_node *node;
    int64_t cpu, memory;               /* below 0: more is promised than is left */
    uint64_t alone;                    /* CPUs of ranks without a device */
    uint32_t *left;                    /* of each device */
    double cost;                       /* room.c: of one more rank here */
    bool stale;                        /* ... is to be worked out */
    bool barred;                       /* not for this item */
};

struct paper {
    struct plan *plan;
    struct paper_node *nodes;
    uint32_t count;
    uint32_t *devices;                 /* behind `left` */
};

/* The nodes as they are for the item; what leaves for it or for nobody is gone
 * already.
 */
void paper_init(struct paper *pa, struct plan *p, const struct plan_item *i,
                struct plan_node *const *nodes, uint32_t n);
/* ... as they are, promised or not. */
void paper_blank(struct paper *pa, struct plan *p,
                 struct plan_node *const *nodes, uint32_t n);
void paper_free(struct paper *pa);
/* As if the device were not there. */
void paper_hide(struct paper_node *at, uint32_t device);
/* The node, or NULL when it is not on the paper. */
struct paper_node *paper_find(const struct paper *pa,
                              const struct plan_node *n);
/* A place for one rank on the node, or false. */
bool paper_fits(const struct paper *pa, const struct paper_node *at,
                const struct shape *s, uint32_t part, struct plan_place *ret);
void paper_take(struct paper *pa, const struct shape *s,
                const struct plan_place *place);
/* Such a rank, on whichever devices there are: the same ones if they are left. */
void paper_take_any(struct paper *pa, const struct shape *s,
                    const struct plan_place *place);
void paper_give(struct paper *pa, const struct shape *s,
                const struct plan_place *place);
/* What it leaves in its nodes' memory when it is suspended comes, or goes. */
void paper_park(struct paper *pa, const struct plan_item *i, bool on);
/* All places of the item, where the paper has the node. */
void paper_take_item(struct paper *pa, const struct plan_item *i);
void paper_give_item(struct paper *pa, const struct plan_item *i);
