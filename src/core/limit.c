#include "core/world_int.h"

/* What the tasks of a workload may use up between them.
 *
 * By a time T they have used what their ended leases did, and T - claim of
 * each claimed one (of one that was suspended, the stretch that it is on).
 * Kept as two sums over the leases, of what each holds and of that times its
 * claim, it costs the same for one task and for 100,000 to say when a limit is
 * reached.  Both follow from the leases: no row has them.
 */
enum { HOUR_MS = 60 * 60 * 1000 };

static bool has_limits(const struct spec *s)
{
    return s->limit_gpu_ms || s->limit_wall_ms || s->limit_cost_micro;
}

/* What it used before it was suspended is among what was used. */
static uint64_t held_from(const struct lease *l)
{
    return l->from_ms ? l->from_ms : l->claimed_ms;
}

void limit_hold(struct workload *wl, const struct lease *l)
{
    uint64_t milli = l->task->spec->gpu_milli;
    struct claims *h = &wl->claims;

    h->milli += milli;
    h->price += l->price_micro;
    h->milli_at += (wide) milli * held_from(l);
    h->price_at += (wide) l->price_micro * held_from(l);
}

void limit_drop(struct workload *wl, const struct lease *l)
{
    uint64_t milli = l->task->spec->gpu_milli;
    struct claims *h = &wl->claims;

    h->milli -= milli;
    h->price -= l->price_micro;
    h->milli_at -= (wide) milli * held_from(l);
    h->price_at -= (wide) l->price_micro * held_from(l);
}

/* When `used` and what is held have become `limit`; a unit of it is `unit`
 * times what is held for a millisecond.
 */
static uint64_t reached_ms(uint64_t limit, uint64_t used, uint64_t unit,
                           uint64_t rate, wide at)
{
    wide ms = at;

    if (limit == 0)
        return UINT64_MAX;
    if (used >= limit)
        return 0;
    if (rate == 0)
        return UINT64_MAX;
    ms += (wide) (limit - used) * unit + rate - 1;
    ms /= rate;
    return ms > INT64_MAX ? UINT64_MAX : (uint64_t) ms;
}

uint64_t limit_due_ms(const struct workload *wl)
{
    const struct spec *s = wl->spec;
    uint64_t due = UINT64_MAX, at;

    if (!has_limits(s))
        return UINT64_MAX;
    if (s->limit_wall_ms && wl->started_ms)
        due = add_capped(wl->started_ms, s->limit_wall_ms);
    at = reached_ms(s->limit_gpu_ms, wl->used_gpu_ms, 1000, wl->claims.milli,
                    wl->claims.milli_at);
    due = at < due ? at : due;
    at = reached_ms(s->limit_cost_micro, wl->used_cost_micro, HOUR_MS,
                    wl->claims.price, wl->claims.price_at);
    return at < due ? at : due;
}
