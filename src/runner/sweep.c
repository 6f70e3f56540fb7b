#include "runner/held.h"

#include "base/loop.h"
#include "base/map.h"
#include "runner/reap.h"

/* Kill what dead keepers left, look again a moment later, and only when
 * nothing was found say that a lease has ended.  What was a keeper's child is
 * ours now, being the next subreaper; after a restart it may be anybody's, and
 * is known by its group or its environment.  One look serves all leases.
 */
enum { SWEEP_MIN_MS = 20, SWEEP_MAX_MS = 1000 };

static bool is_keeper(pid_t pid, void *arg)
{
    struct runner *r = arg;

    return map_get_id(r->keepers, (uint64_t) pid) != NULL;
}

static bool is_swept(const char *lease, void *arg)
{
    struct runner *r = arg;
    struct held *h = map_get(r->held, lease);

    if (!h || !h->sweeping)
        return false;
    h->found = true;
    return true;
}

static void kill_groups(struct runner *r)
{
    struct held *h;
    size_t pos = 0;

    while ((h = map_next(r->held, &pos, NULL)))
        if (h->sweeping)
            h->found = cgroup_kill(&r->cgroup, h->name) > 0;
}

/* True when some lease has something left. */
static bool end_clean(struct runner *r)
{
    bool left = false;
    struct held *h;
    size_t pos = 0;

    while ((h = map_next(r->held, &pos, NULL))) {
        if (!h->sweeping)
            continue;
        if (h->found) {
            left = true;
            continue;
        }
        h->sweeping = false;
        cgroup_remove(&r->cgroup, h->name);
        held_end_lost(h);
    }
    return left;
}

static void on_sweep(struct watch *w, void *arg)
{
    struct runner *r = arg;
    bool left;

    (void) w;
    r->sweep = NULL;
    kill_groups(r);
    /* An orphan that fell to us is not known to be one lease's or another's. */
    left = reap_children(is_keeper, r) > 0;
    left |= !reap_by_lease(r->mark, is_swept, r);
    if (!left)
        left = end_clean(r);
    if (!left)
        return;
    r->sweep = loop_timer(r->loop, r->sweep_ms, on_sweep, r);
    r->sweep_ms = r->sweep_ms * 2 > SWEEP_MAX_MS ? SWEEP_MAX_MS
                                                 : r->sweep_ms * 2;
}

void held_sweep(struct held *h)
{
    struct runner *r = h->runner;

    h->sweeping = true;
    r->sweep_ms = SWEEP_MIN_MS;
    if (!r->sweep)
        r->sweep = loop_soon(r->loop, on_sweep, r);
}
