#include "plan/plan_int.h"

#include "base/mem.h"

/* Who gives way. */

struct rooms {
    uint32_t count;
};

void room_init(struct plan *p)
{
    p->rooms = mem_new(sizeof(*p->rooms));
}

void room_free(struct plan *p)
{
    free(p->rooms);
}

bool room_next(struct plan *p, struct plan_decision *ret)
{
    (void) p;
    (void) ret;
    return false;
}

bool room_for(struct plan *p, struct plan_item *i, struct plan_decision *ret)
{
    (void) p;
    (void) i;
    (void) ret;
    return false;
}

void room_running(struct plan *p, struct plan_item *i, bool runs)
{
    (void) i;
    p->rooms->count += runs ? 1 : UINT32_MAX;
}

void room_moved(struct plan *p, struct plan_item *i, uint8_t was)
{
    if (i->level > was)
        line_chance(p, i);
}

void room_over(struct plan *p, struct plan_item *i)
{
    (void) p;
    (void) i;
}
