#include "plan/plan_int.h"

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>

/* What is held and what is idle is known at all times, per pool and model; so
 * a stretch of time in which nothing changes is a few products.  Idle time is
 * sorted by what the line says: nobody waits, those who wait fit nowhere, or
 * somebody would fit.  What is closed and idle is offered to nobody and counts
 * nowhere.
 */
struct cell {
    char *pool, *model;
    uint64_t held, idle;               /* now, thousandths */
    struct plan_shares shares;
};

struct meters {
    struct map *by_name;               /* "model@pool" to its number + 1 */
    struct cell *cells;
    uint32_t ncells;
    uint64_t cpu_held, cpu_idle;
    struct plan_meter sum;
};

void meter_init(struct plan *p)
{
    p->meters = mem_new(sizeof *p->meters);
    p->meters->by_name = map_new();
}

void meter_free(struct plan *p)
{
    struct meters *m = p->meters;

    for (uint32_t k = 0; k < m->ncells; k++) {
        free(m->cells[k].pool);
        free(m->cells[k].model);
    }
    free(m->cells);
    map_free(m->by_name);
    free(m);
}

uint16_t meter_cell(struct plan *p, const char *pool, const char *model)
{
    struct meters *m = p->meters;
    autofree char *name = mem_printf("%s@%s", model, pool);
    uintptr_t at = (uintptr_t) map_get(m->by_name, name);

    if (at == 0) {
        m->cells = mem_grow(m->cells, m->ncells + 1, sizeof *m->cells);
        m->cells[m->ncells++] = (struct cell) {
            .pool = mem_str(pool), .model = mem_str(model),
        };
        at = m->ncells;
        (void) map_set(m->by_name, name, (void *) at);
    }
    return (uint16_t) (at - 1);
}

void meter_device(struct plan *p, const struct plan_node *n,
                  const struct device *d, int sign)
{
    struct cell *c = &p->meters->cells[d->cell];
    uint64_t held = 1000 - d->free_milli;
    uint64_t idle = n->open && d->open ? d->free_milli : 0;

    if (sign > 0) {
        c->held += held;
        c->idle += idle;
    } else {
        c->held -= held;
        c->idle -= idle;
    }
}

void meter_cpus(struct plan *p, const struct plan_node *n, int sign)
{
    struct meters *m = p->meters;
    uint64_t held = n->cpu_milli - n->cpu_free;
    uint64_t idle = n->open ? n->cpu_free : 0;

    if (sign > 0) {
        m->cpu_held += held;
        m->cpu_idle += idle;
    } else {
        m->cpu_held -= held;
        m->cpu_idle -= idle;
    }
}

uint64_t meter_idle(const struct plan *p)
{
    uint64_t sum = 0;

    for (uint32_t k = 0; k < p->meters->ncells; k++)
        sum += p->meters->cells[k].idle;
    return sum;
}

uint64_t meter_blocked(const struct plan_meter *m)
{
    return m->devices.idle_frag + m->devices.waste;
}

static void count(struct plan_shares *s, uint64_t held, uint64_t idle,
                  enum demand demand, uint64_t ms)
{
    s->used += held * ms;
    switch (demand) {
    case DEMAND_NONE:
        s->idle_nodemand += idle * ms;
        break;
    case DEMAND_STUCK:
        s->idle_frag += idle * ms;
        break;
    case DEMAND_FITS:
        s->waste += idle * ms;
        break;
    }
}

void meter_advance(struct plan *p, uint64_t to_ms)
{
    struct meters *m = p->meters;
    enum demand demand;
    uint64_t ms;

    if (to_ms <= p->now_ms)
        return;
    ms = to_ms - p->now_ms;
    demand = line_demand(p, false);
    for (uint32_t k = 0; k < m->ncells; k++) {
        struct cell *c = &m->cells[k];

        count(&c->shares, c->held, c->idle, demand, ms);
        count(&m->sum.devices, c->held, c->idle, demand, ms);
    }
    count(&m->sum.cpus, m->cpu_held, m->cpu_idle, line_demand(p, true), ms);
}

static int check_cell(const struct plan *p, uint32_t cell, struct err *err)
{
    const struct cell *c = &p->meters->cells[cell];
    uint64_t held = 0, idle = 0;

    for (uint32_t k = 0; k < p->nnodes; k++) {
        const struct plan_node *n = p->nodes[k];

        for (uint32_t d = 0; n && d < n->ndevices; d++) {
            if (n->devices[d].cell != cell)
                continue;
            held += 1000 - n->devices[d].free_milli;
            idle += n->open && n->devices[d].open ?
                    n->devices[d].free_milli : 0;
        }
    }
    if (c->held != held || c->idle != idle)
        return err_set(err, EPROTO, "%s in %s: %ju held and not %ju",
                       c->model, c->pool, (uintmax_t) c->held,
                       (uintmax_t) held);
    return 0;
}

int meter_check(const struct plan *p, struct err *err)
{
    uint64_t held = 0, idle = 0;

    for (uint32_t k = 0; k < p->meters->ncells; k++)
        if (check_cell(p, k, err) < 0)
            return -EPROTO;
    for (uint32_t k = 0; k < p->nnodes; k++) {
        const struct plan_node *n = p->nodes[k];

        held += n ? n->cpu_milli - n->cpu_free : 0;
        idle += n && n->open ? n->cpu_free : 0;
    }
    if (p->meters->cpu_held != held || p->meters->cpu_idle != idle)
        return err_set(err, EPROTO, "CPUs: %ju held and not %ju",
                       (uintmax_t) p->meters->cpu_held, (uintmax_t) held);
    return 0;
}

void meter_suspending(struct plan *p, uint64_t milli_ms)
{
    p->meters->sum.suspending += milli_ms;
}

void plan_meter(const struct plan *p, struct plan_meter *ret)
{
    *ret = p->meters->sum;
}

void plan_meter_at(struct plan *p, uint64_t now_ms, struct plan_meter *ret)
{
    const struct meters *m = p->meters;
    enum demand demand;
    uint64_t ms;

    *ret = m->sum;
    if (now_ms <= p->now_ms)
        return;
    ms = now_ms - p->now_ms;
    demand = line_demand(p, false);
    for (uint32_t k = 0; k < m->ncells; k++)
        count(&ret->devices, m->cells[k].held, m->cells[k].idle, demand, ms);
    count(&ret->cpus, m->cpu_held, m->cpu_idle, line_demand(p, true), ms);
}

void plan_meter_each(const struct plan *p, plan_meter_f cb, void *arg)
{
    const struct meters *m = p->meters;

    for (uint32_t k = 0; k < m->ncells; k++)
        cb(m->cells[k].pool, m->cells[k].model, &m->cells[k].shares, arg);
}

void plan_meter_load(struct plan *p, const struct plan_meter *m)
{
    p->meters->sum = *m;
}

int plan_meter_load_one(struct plan *p, const char *pool, const char *model,
                        const struct plan_shares *s)
{
    uint16_t at = meter_cell(p, pool, model);

    p->meters->cells[at].shares = *s;
    return 0;
}
