#include "plan/plan_int.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>

/* What is promised: reservations, room being made for a claimant, windows. */

struct promises {
    uint32_t count;
};

void promises_init(struct plan *p)
{
    p->promises = mem_new(sizeof(*p->promises));
}

void promises_free(struct plan *p)
{
    free(p->promises);
}

void promises_tick(struct plan *p)
{
    (void) p;
}

void promises_changed(struct plan *p)
{
    (void) p;
}

uint64_t promises_wake_ms(const struct plan *p)
{
    (void) p;
    return UINT64_MAX;
}

bool promise_allows(struct plan *p, const struct plan_item *i,
                    const struct plan_node *n, const struct part *part,
                    const struct plan_place *place)
{
    return room_allows(p, i, n, part, place);
}

bool promise_bars(struct plan *p, const struct plan_item *i,
                  const struct plan_node *n)
{
    (void) p;
    (void) i;
    (void) n;
    return false;
}

void promise_drop(struct plan *p, struct plan_item *i)
{
    (void) p;
    (void) i;
}

void promise_tenant_gone(struct plan *p, const struct plan_tenant *t)
{
    (void) p;
    (void) t;
}

int plan_window_set(struct plan *p, const struct plan_window *w,
                    struct err *err)
{
    (void) p;
    return err_set(err, ENOSYS, "window %s: not planned yet", w->name);
}

void plan_window_remove(struct plan *p, const char *name)
{
    (void) p;
    (void) name;
}
