#include "plan/plan_int.h"

#include "base/mem.h"

/* Look-ahead.  Nothing is staged yet: no node says that it stages, and a plan
 * that never decides to is right for those.
 */

struct stager {
    uint32_t count;
};

void stage_init(struct plan *p)
{
    p->stager = mem_new(sizeof(*p->stager));
}

void stage_free(struct plan *p)
{
    free(p->stager);
}

bool stage_next(struct plan *p, struct plan_decision *ret)
{
    (void) p;
    (void) ret;
    return false;
}

void stage_drop(struct plan *p, struct plan_item *i)
{
    (void) p;
    i->state = i->places ? ITEM_SUSPENDED : ITEM_WAITING;
}
