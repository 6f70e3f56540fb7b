#include "core/world_int.h"

#include "base/json.h"

/* Where device-time went, piece by piece between changes.
 *
 * Capacity is what open blocks (up, not drained) have free plus what leases
 * hold, wherever they are.  The free part is
 *
 *   waste          while some task that wants devices is in line and would fit
 *                  right now;
 *   idle_frag      while such a task is in line and none fits: free, but in
 *                  the wrong pieces;
 *   idle_nodemand  otherwise.  Paused, sleeping and blocked tasks are not in
 *                  line, and tasks over their tenant's quota do not count.
 *
 * WR is (waste + idle_frag) / total.  Everything is whole thousandths of a
 * device times milliseconds; only world_meter divides.
 */
enum demand { DEMAND_NONE, DEMAND_STUCK, DEMAND_FITS };

static enum demand demand_now(const struct world *w)
{
    enum demand d = DEMAND_NONE;

    for (uint32_t i = 0; i < w->plan.nshapes; i++) {
        struct shape *s = w->plan.shapes[i];

        if (s->tasks.count == 0 || !shape_wants_devices(s) ||
            !shape_ready(s) || shape_over_quota(s))
            continue;
        if (shape_fits(w, s))
            return DEMAND_FITS;
        d = DEMAND_STUCK;
    }
    return d;
}

static void tally_add(const struct world *w, struct tally *t, uint64_t to_ms)
{
    uint64_t span = to_ms - t->last_ms;
    uint64_t idle = mul_capped(w->idle_milli, span);
    uint64_t *share = &t->idle_nodemand;

    if (idle > 0) {
        enum demand d = demand_now(w);

        if (d == DEMAND_FITS)
            share = &t->waste;
        else if (d == DEMAND_STUCK)
            share = &t->idle_frag;
    }
    *share = add_capped(*share, idle);
    t->used = add_capped(t->used, mul_capped(w->used_milli, span));
    t->cpu_idle = add_capped(t->cpu_idle, mul_capped(w->cpu_idle, span));
    t->cpu_used = add_capped(t->cpu_used, mul_capped(w->cpu_used, span));
    t->last_ms = to_ms;
}

void meter_count(struct world *w, uint64_t to_ms)
{
    if (to_ms > w->tally.last_ms)
        tally_add(w, &w->tally, to_ms);
}

void world_meter(const struct world *w, uint64_t now_ms, struct meter *ret)
{
    struct tally t = w->tally;

    if (now_ms > t.last_ms)
        tally_add(w, &t, now_ms);
    ret->used = t.used / 1000;
    ret->idle_nodemand = t.idle_nodemand / 1000;
    ret->idle_frag = t.idle_frag / 1000;
    ret->waste = t.waste / 1000;
    ret->total = ret->used + ret->idle_nodemand + ret->idle_frag + ret->waste;
    ret->cpu_used = t.cpu_used;
    ret->cpu_total = add_capped(t.cpu_used, t.cpu_idle);
}
