#include "core/world_int.h"

#include "base/map.h"
#include "base/mem.h"

#include <assert.h>

/* Prices and budgets.
 *
 * A lease has the price of its devices when it was planned, in millionths for
 * an hour.  A budget is spent by what the tenant and those below it hold, from
 * planned to ended.  `spent` is brought up to date when that changes, which
 * only events do; in between it follows.  So a budget that is used up, and a
 * period that begins, need no event of their own: only time that passes.
 */
enum { HOUR_MS = 60 * 60 * 1000 };

static const char *const units[] = {
    [BUDGET_GPU_HOURS] = "gpu_hours", [BUDGET_MONEY] = "money",
};

const char *budget_unit_name(enum budget_unit u)
{
    assert(u < array_size(units));
    return units[u];
}

uint64_t price_of(uint64_t price_micro, uint64_t ms)
{
    __extension__ unsigned __int128 product = price_micro;

    product = product * ms / HOUR_MS;
    return product > INT64_MAX ? INT64_MAX : (uint64_t) product;
}

uint64_t grant_price(const struct world *w, const struct block *b,
                     const struct grant *g)
{
    const struct policy *p = world_policy(w);
    uint64_t sum = 0;

    for (uint32_t i = 0; i < g->ndevices; i++) {
        double price = policy_price(p, b->devices[g->device[i]].model);

        sum = add_capped(sum, (uint64_t) (price * 1e3 * g->milli + 0.5));
    }
    return sum;
}

/* Millionths of the budget's unit that go in an hour. */
static uint64_t rate(const struct tenant *t)
{
    return t->budget.unit == BUDGET_MONEY ? t->sum_price
                                          : mul_capped(t->sum_milli, 1000);
}

uint64_t budget_spent(const struct tenant *t, uint64_t now_ms)
{
    const struct budget *b = &t->budget;
    uint64_t begin;

    if (b->period_ms == 0)
        return 0;
    begin = now_ms - now_ms % b->period_ms;
    if (b->mark_ms < begin)
        return price_of(rate(t), now_ms - begin);
    return add_capped(b->spent, price_of(rate(t), now_ms > b->mark_ms
                                         ? now_ms - b->mark_ms : 0));
}

void tenant_hold(struct world *w, struct tenant *t, int64_t milli,
                 int64_t price)
{
    for (; t; t = t->parent) {
        if (w->time_ms > t->budget.mark_ms) {      /* not while loading */
            t->budget.spent = budget_spent(t, w->time_ms);
            t->budget.mark_ms = w->time_ms;
        }
        t->sum_milli += (uint64_t) milli;
        t->sum_price += (uint64_t) price;
        t->dirty = true;
    }
    w->budget_due_ms = 0;
}

struct plan_waited tenant_waited(const struct tenant *t)
{
    struct plan_waited now = { t->idle, t->idle_mark, t->waits };

    if (t->plan_tenant)
        plan_tenant_waited(t->plan_tenant, &now);
    return now;
}

void tenant_keep_waited(struct tenant *t)
{
    struct plan_waited now = tenant_waited(t);

    t->idle = now.idle;
    t->idle_mark = now.mark;
    t->waits = now.waits;
}

/* When a tenant's state by its budget changes, if nothing else does. */
static uint64_t changes_ms(const struct tenant *t, uint64_t now_ms)
{
    const struct budget *b = &t->budget;
    uint64_t next = now_ms - now_ms % b->period_ms + b->period_ms;
    uint64_t spent = budget_spent(t, now_ms), hourly = rate(t), ms;
    __extension__ unsigned __int128 left;

    if (spent >= b->amount || hourly == 0)
        return b->over ? next : UINT64_MAX;
    left = b->amount - spent;
    left = left * HOUR_MS / hourly + 1;
    ms = left > INT64_MAX ? INT64_MAX : (uint64_t) left;
    return add_capped(now_ms, ms) < next ? now_ms + ms : next;
}

uint64_t budget_due_ms(struct world *w)
{
    uint64_t due = UINT64_MAX;
    const struct tenant *t;
    size_t pos = 0;

    if (w->nbudgets == 0)
        return UINT64_MAX;
    if (w->budget_due_ms != 0)
        return w->budget_due_ms;
    while ((t = map_next(w->tenants, &pos, NULL))) {
        uint64_t at = t->budget.period_ms && !t->removed
                    ? changes_ms(t, world_now(w)) : UINT64_MAX;

        due = at < due ? at : due;
    }
    w->budget_due_ms = due;
    return due;
}

void budgets_look(struct world *w)
{
    struct tenant *t;
    size_t pos = 0;

    w->budget_due_ms = 0;
    while ((t = map_next(w->tenants, &pos, NULL))) {
        bool over = t->budget.period_ms != 0 &&
                    budget_spent(t, world_now(w)) >= t->budget.amount;

        if (over == t->budget.over || t->removed)
            continue;
        t->budget.over = over;
        t->dirty = true;
        bridge_tenant(w, t);
    }
}
