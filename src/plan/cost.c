#include "plan/cost.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

/* A line through what was measured, bytes to milliseconds, of the last MEMORY
 * rounds or so: later ones count more.  Neither its slope nor what it has at no
 * byte is below 0; where all had the same size it is flat.
 */
enum { MEMORY = 32 };

void costs_free(struct plan *p)
{
    free(p->costs);
}

void cost_learn(struct cost *c, uint64_t bytes, uint64_t ms)
{
    double weight, x = (double) bytes - c->bytes;
    double y = (double) ms - c->ms;

    if (c->rounds < MEMORY)
        c->rounds++;
    weight = 1.0 / c->rounds;
    c->bytes += weight * x;
    c->ms += weight * y;
    c->spread = (1 - weight) * (c->spread + weight * x * x);
    c->along = (1 - weight) * (c->along + weight * x * y);
}

double cost_ms(const struct cost *c, uint64_t bytes)
{
    double slope = 0;

    if (c->spread > 0 && c->bytes > 0)
        slope = fmin(fmax(c->along / c->spread, 0), c->ms / c->bytes);
    return c->ms + slope * ((double) bytes - c->bytes);
}

/* Or NULL: no device. */
static const struct device *device_of(const struct plan_place *at)
{
    return at->ndevices ? &at->node->devices[at->device[0]] : NULL;
}

/* What one has on its devices is known once it was suspended.  Before, all of
 * their memory is what room is made for, and what others took the better guess of
 * the time.
 */
static double rank_cost_ms(const struct cost *c, const struct plan_item *v,
                           const struct plan_place *at)
{
    return v->bytes > 0 ? cost_ms(c, item_bytes(v, at)) : c->ms;
}

double suspend_cost_ms(const struct plan *p, const struct plan_item *v)
{
    double most = -1;

    for (uint32_t k = 0; p->ncosts > 0 && k < v->nplaces; k++) {
        const struct device *d = device_of(&v->places[k]);

        if (d && d->model < p->ncosts && p->costs[d->model].rounds > 0)
            most = fmax(most, rank_cost_ms(&p->costs[d->model], v,
                                           &v->places[k]));
    }
    return most >= 0 ? most : p->policy.suspend_cost_s * 1000;
}

static struct cost *cost_of(struct plan *p, uint16_t model)
{
    if (p->ncosts < p->nmodels) {
        p->costs = mem_grow(p->costs, p->nmodels, sizeof(*p->costs));
        for (uint32_t k = p->ncosts; k < p->nmodels; k++)
            p->costs[k] = (struct cost) { 0 };
        p->ncosts = p->nmodels;
    }
    return &p->costs[model];
}

void plan_resumed(struct plan *p, struct plan_item *i, uint64_t cost_ms)
{
    const struct device *d;

    assert(item_runs(i));
    meter_suspending(p, i->held_milli * cost_ms);
    d = device_of(&i->places[0]);
    if (!i->resumes || !d)
        return;
    i->resumes = false;
    cost_learn(cost_of(p, d->model), item_bytes(i, &i->places[0]),
               i->off_ms + cost_ms);
}

void plan_set_bytes(struct plan_item *i, uint64_t bytes)
{
    assert(i->state != ITEM_SUSPENDED);
    i->bytes = bytes;
}

/* ---- rows ---- */

int plan_costs(const struct plan *p, plan_cost_f cb, void *arg)
{
    int rc = 0;

    for (uint32_t k = 0; k < p->ncosts && rc == 0; k++) {
        const struct cost *c = &p->costs[k];
        autojson json_t *row = NULL;

        if (c->rounds == 0)
            continue;
        row = json_pack("{s:I,s:f,s:f,s:f,s:f}", "rounds",
                        (json_int_t) c->rounds, "bytes", c->bytes, "ms", c->ms,
                        "spread", c->spread, "along", c->along);
        rc = cb(p->models[k], row, arg);
    }
    return rc;
}

int plan_cost_load(struct plan *p, const char *model, const json_t *row,
                   struct err *err)
{
    struct cost c = {
        .rounds = (uint32_t) json_get_u64(row, "rounds", 0),
        .bytes = json_get_number(row, "bytes"),
        .ms = json_get_number(row, "ms"),
        .spread = json_get_number(row, "spread"),
        .along = json_get_number(row, "along"),
    };

    if (c.rounds == 0 || c.rounds > MEMORY || !(c.bytes >= 0) ||
        !(c.ms >= 0) || !(c.spread >= 0))
        return err_set(err, EINVAL, "what suspending costs on '%s' is no "
                       "cost", model);
    *cost_of(p, pool_model(p, model)) = c;
    return 0;
}
