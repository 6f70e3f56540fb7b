#pragma once

#include "plan/paper.h"
#include "plan/victim.h"

/* hunt - a search for who gives way, as far as it has come: who is taken off, on
 * paper, and where those go who only move.  See search.c.
 */
enum { RESIDENTS = 64, MOVES = 16 };

struct step {                          /* one taken off on paper */
    struct plan_victim victim;
    double loss;
};

struct hunt {
    struct plan *p;
    struct plan_item *i;
    struct ask ask;
    struct paper paper;
    struct plan_claim *claim;               /* as far as it is made */
    uint32_t places_cap;
    struct step *steps;
    uint32_t nsteps, steps_cap;
    bool moves;                        /* is there enough free to move to? */
};

/* May it be moved to where there is room, whoever it is? */
bool hunt_may_move(const struct hunt *s, const struct plan_item *v);
void hunt_take_off(struct hunt *s, const struct option *o);
void hunt_put_back(struct hunt *s, uint32_t k);
/* ... all but the first so many. */
void hunt_undo(struct hunt *s, uint32_t to);
/* Free devices of the node, thousandths, on paper. */
uint64_t hunt_free_on(const struct paper_node *at);
/* Places for those from step `from` on who only move; false: somebody has none. */
bool hunt_relocate(struct hunt *s, uint32_t from,
                   const struct paper_node *not_here);
/* Who may be sent away goes where there is room all the same. */
void hunt_resettle(struct hunt *s, uint32_t from,
                   const struct paper_node *not_here);
/* Is there memory for v's state on its nodes, but for one? */
bool hunt_leaves_enough(const struct hunt *s, const struct plan_item *v,
                        const struct paper_node *but);
/* Those before it are gone: may it be asked as well? */
bool hunt_may_go_too(const struct hunt *s, struct option *o);
/* Puts all steps in an order in which each can be carried out while those after
 * it are still there, and says whether there is one.  What is on paper then is
 * without the claimant and those who have moved.
 */
bool hunt_in_order(struct hunt *s);
