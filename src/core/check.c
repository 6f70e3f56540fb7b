#include "core/world_int.h"

#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* May this event happen now?  One function per event type, in one table; none
 * changes anything.  What gets through here, apply.c can do.  Blocks, tenants,
 * tokens, windows and the policy are in check_pool.c.
 */
static int want_workload(const struct world *w, const struct event *e,
                         struct workload **ret, struct err *err)
{
    *ret = world_workload(w, e->workload);
    if (!*ret)
        return err_set(err, ENOENT, "there is no workload w%" PRIu64
                       " that has not ended", e->workload);
    return 0;
}

static int want_task(const struct world *w, const struct event *e,
                     struct task **ret, struct err *err)
{
    struct workload *wl;
    int rc = want_workload(w, e, &wl, err);

    if (rc < 0)
        return rc;
    if (e->task >= wl->spec->ntasks)
        return err_set(err, ENOENT, "w%" PRIu64 " has no task %u", wl->id,
                       e->task);
    *ret = &wl->tasks[e->task];
    return 0;
}

static int check_done(const struct event *e, struct err *err)
{
    for (uint32_t i = 0; i < e->ndone; i++)
        if (e->done[i] >= e->spec->ntasks ||
            (i > 0 && e->done[i] <= e->done[i - 1]))
            return err_set(err, EINVAL, "done: task %u is out of order or out "
                           "of range", e->done[i]);
    return 0;
}

static int check_submitted(const struct world *w, const struct event *e,
                           struct err *err)
{
    const struct tenant *t = tenant_find(w, e->tenant);

    if (!e->spec)
        return err_set(err, EINVAL, "nothing was submitted");
    if (e->workload < w->next_workload || e->workload >= INT64_MAX)
        return err_set(err, EEXIST, "the id w%" PRIu64 " has been given "
                       "already; w%" PRIu64 " is next", e->workload,
                       w->next_workload);
    if (!t || t->removed)
        return err_set(err, ENOENT, "there is no tenant '%s'", e->tenant);
    if (e->retry_of && e->spec->tasks[0].guest_uid)
        return err_set(err, EINVAL, "w%" PRIu64 " is of pods that others have "
                       "made: who made them makes them again", e->retry_of);
    if (e->key[0] && world_by_key(w, e->who, e->key))
        return err_set(err, EEXIST, "the key '%s' is in use", e->key);
    return check_done(e, err);
}

/* Of the whole, or of one task that has not ended: *ret_task NULL or that. */
static int want_some(const struct world *w, const struct event *e,
                     struct workload **ret, struct task **ret_task,
                     struct err *err)
{
    int rc = want_workload(w, e, ret, err);

    *ret_task = NULL;
    if (rc < 0 || e->task == EVENT_ALL)
        return rc;
    rc = want_task(w, e, ret_task, err);
    if (rc == 0 && (*ret_task)->state == TASK_ENDED)
        return err_set(err, ESTALE, "task '%s' has ended",
                       (*ret_task)->spec->name);
    return rc;
}

static int check_paused(const struct world *w, const struct event *e,
                        struct err *err)
{
    bool pause = e->type == EVENT_PAUSED;
    struct workload *wl;
    struct task *t;
    int rc = want_some(w, e, &wl, &t, err);

    if (rc < 0)
        return rc;
    if (t && t->paused == pause)
        return err_set(err, ESTALE, "task '%s' is %s already", t->spec->name,
                       pause ? "paused" : "not paused");
    if (!t && wl->paused == pause)
        return err_set(err, ESTALE, "w%" PRIu64 " is %s already", wl->id,
                       pause ? "paused" : "not paused");
    return 0;
}

static int check_prioritised(const struct world *w, const struct event *e,
                             struct err *err)
{
    struct workload *wl;
    struct task *t;
    int rc = want_some(w, e, &wl, &t, err);

    if (rc == 0 && (e->priority < -SPEC_MAX_PRIORITY ||
                    e->priority > SPEC_MAX_PRIORITY))
        return err_set(err, EINVAL, "priority %d is not from %d to %d",
                       e->priority, -SPEC_MAX_PRIORITY, SPEC_MAX_PRIORITY);
    return rc;
}

static int check_aborting(const struct world *w, const struct event *e,
                          struct err *err)
{
    struct workload *wl;
    struct task *t;
    int rc = want_some(w, e, &wl, &t, err);

    if (rc < 0)
        return rc;
    if (!t && wl->aborting && (wl->force || !e->force))
        return err_set(err, ESTALE, "w%" PRIu64 " is being aborted already",
                       wl->id);
    if (t && task_aborting(t) && (task_force(t) || !e->force))
        return err_set(err, ESTALE, "task '%s' is being aborted already",
                       t->spec->name);
    return 0;
}

static int check_workload_ended(const struct world *w, const struct event *e,
                                struct err *err)
{
    struct workload *wl;
    int rc = want_workload(w, e, &wl, err);

    if (rc < 0)
        return rc;
    if (wl->count[TASK_ENDED] != wl->spec->ntasks)
        return err_set(err, EBUSY, "w%" PRIu64 " has tasks that have not ended",
                       wl->id);
    if (e->outcome == OUTCOME_NONE || e->outcome >= OUTCOME_COUNT)
        return err_set(err, EINVAL, "an end without an outcome");
    return 0;
}

/* The grants take from the blocks one after the other, so that they are right
 * together, and give everything back.
 */
static int check_grants(const struct world *w, const struct task *t,
                        const struct event *e, struct err *err)
{
    autofree struct block **held = mem_array(e->ngrants, sizeof(*held));
    uint32_t n;
    int rc = 0;

    for (n = 0; n < e->ngrants; n++) {
        const struct grant *g = &e->grants[n];

        held[n] = world_block(w, g->block);
        if (g->rank != n)
            rc = err_set(err, EINVAL, "grant %u is not for rank %u", n, n);
        else if (!held[n])
            rc = err_set(err, ENOENT, "there is no block '%s'", g->block);
        else if (!grant_open(held[n], g))
            rc = err_set(err, EBUSY, "block '%s' takes nothing new", g->block);
        else
            rc = room_check(held[n], t->spec, g, err);
        if (rc < 0)
            break;
        room_take(held[n], t->spec, g);
    }
    while (n-- > 0)
        room_give(held[n], t->spec, &e->grants[n]);
    return rc;
}

int check_ranks(const struct task *t, uint32_t ranks, struct err *err)
{
    uint32_t most = t->spec->ranks_max ? t->spec->ranks_max : t->spec->ranks;

    if (ranks >= t->spec->ranks && ranks <= most)
        return 0;
    return err_set(err, EINVAL, "task '%s' has %u ranks, not %u",
                   t->spec->name, t->spec->ranks, ranks);
}

static int check_planned(const struct world *w, const struct event *e,
                         struct err *err)
{
    struct task *t;
    uint32_t next;
    int rc = want_task(w, e, &t, err);

    if (rc < 0)
        return rc;
    if (t->state != TASK_WAITING)
        return err_set(err, EBUSY, "task '%s' is %s, not waiting",
                       t->spec->name, task_state_name(t->state));
    next = task_gen_at(t, e->grants, e->ngrants);
    if (e->gen != next || e->gen == 0)
        return err_set(err, ESTALE, "task '%s': generation %u is not %u, the "
                       "next", t->spec->name, e->gen, next);
    rc = check_ranks(t, e->ngrants, err);
    return rc < 0 ? rc : check_grants(w, t, e, err);
}

static int check_stage(const struct world *w, const struct event *e,
                       struct err *err)
{
    struct task *t = NULL;
    int rc = want_task(w, e, &t, err);

    if (rc < 0)
        return rc;
    return e->type == EVENT_STAGED ? check_staged(w, e, t, err)
                                   : check_unstaged(e, t, err);
}

static int check_preempting(const struct world *w, const struct event *e,
                            struct err *err)
{
    struct task *t;
    int rc = want_task(w, e, &t, err);

    if (rc == 0)
        rc = want_data(e, err);
    if (rc < 0)
        return rc;
    if (t->leases_left == 0 || e->gen != t->gen || t->stopping ||
        t->preempting || away_off(t))
        return err_set(err, ESTALE, "task '%s' has nothing to give way with",
                       t->spec->name);
    return 0;
}

/* Who reports, if the event says it, has the lease. */
static int want_reporter(const struct lease *l, const struct event *e,
                         struct err *err)
{
    if (!e->block[0] || strcmp(e->block, l->block->id) == 0)
        return 0;
    return err_set(err, EINVAL, "w%" PRIu64 ", task '%s', rank %u: block '%s' "
                   "has it, not '%s'", e->workload, l->task->spec->name,
                   l->rank, l->block->id, e->block);
}

static int check_progress(const struct world *w, const struct event *e,
                          struct err *err)
{
    struct task *t = NULL;
    int rc = want_task(w, e, &t, err);

    if (rc == 0)
        rc = check_report(t, e, err);
    return rc < 0 || e->rank >= t->ranks
         ? rc : want_reporter(&t->leases[e->rank], e, err);
}

static int check_stopping(const struct world *w, const struct event *e,
                          struct err *err)
{
    struct task *t;
    int rc = want_task(w, e, &t, err);

    if (rc < 0)
        return rc;
    if (t->leases_left == 0 || e->gen != t->gen)
        return err_set(err, ESTALE, "task '%s' has nothing to stop",
                       t->spec->name);
    if (e->cause == SPEC_CAUSE_NONE || e->cause >= SPEC_CAUSE_COUNT)
        return err_set(err, EINVAL, "a stop without a cause");
    if (t->stopping && t->stop_cause == e->cause && (t->forced || !e->force))
        return err_set(err, ESTALE, "task '%s' is being stopped already",
                       t->spec->name);
    return 0;
}

/* Between the end of the last lease and what follows from it. */
static bool attempt_over(const struct task *t)
{
    return t->leases_left == 0 &&
           (t->state == TASK_STARTING || t->state == TASK_RUNNING ||
            t->state == TASK_ENDING);
}

static int check_retrying(const struct world *w, const struct event *e,
                          struct err *err)
{
    struct task *t;
    int rc = want_task(w, e, &t, err);

    if (rc < 0)
        return rc;
    if (!attempt_over(t))
        return err_set(err, EBUSY, "task '%s' has no attempt that is over",
                       t->spec->name);
    if (e->cause == SPEC_CAUSE_NONE || e->cause >= SPEC_CAUSE_COUNT ||
        e->until_ms > TIME_MAX)
        return err_set(err, EINVAL, "a retry without a cause or a time");
    return 0;
}

static int check_task_ended(const struct world *w, const struct event *e,
                            struct err *err)
{
    struct task *t;
    int rc = want_task(w, e, &t, err);

    if (rc < 0)
        return rc;
    if (t->state == TASK_ENDED)
        return err_set(err, ESTALE, "task '%s' has ended already",
                       t->spec->name);
    if (t->leases_left > 0)
        return err_set(err, EBUSY, "task '%s' has leases that have not ended",
                       t->spec->name);
    if (e->outcome == OUTCOME_NONE || e->outcome >= OUTCOME_COUNT ||
        e->cause >= SPEC_CAUSE_COUNT)
        return err_set(err, EINVAL, "an end without an outcome");
    return 0;
}

static int want_lease(const struct world *w, const struct event *e,
                      struct lease **ret, struct err *err)
{
    struct task *t;
    int rc = want_task(w, e, &t, err);

    if (rc < 0)
        return rc;
    if (e->rank >= t->ranks && (t->leases || e->rank >= t->spec->ranks))
        return err_set(err, ENOENT, "task '%s' has no rank %u", t->spec->name,
                       e->rank);
    if (!t->leases || t->leases[e->rank].gen != e->gen ||
        t->leases[e->rank].state == LEASE_ENDED)
        return err_set(err, ESTALE, "w%" PRIu64 ", task '%s', rank %u: "
                       "generation %u is over", e->workload, t->spec->name,
                       e->rank, e->gen);
    *ret = &t->leases[e->rank];
    return want_reporter(*ret, e, err);
}

static int check_claimed(const struct world *w, const struct event *e,
                         struct err *err)
{
    enum lease_state next;
    struct lease *l;
    int rc = want_lease(w, e, &l, err);

    if (rc < 0)
        return rc;
    if (l->task->workload->quarantined)
        return err_set(err, ESTALE, "w%" PRIu64 " is quarantined", e->workload);
    return lease_next(l->state, LEASE_MOVE_CLAIM, &next, err);
}

static int check_lease_ended(const struct world *w, const struct event *e,
                             struct err *err)
{
    struct lease *l;
    int rc = want_lease(w, e, &l, err);

    if (rc < 0)
        return rc;
    if (e->cause >= SPEC_CAUSE_COUNT || e->started_ms > TIME_MAX ||
        e->ended_ms > TIME_MAX)
        return err_set(err, EINVAL, "an end with times or a cause that cannot "
                       "be");
    if (strlen(json_get_str(e->data, "why", "")) > REASON_MAX)
        return err_set(err, EINVAL, "an end with a reason of more than %d "
                       "bytes", REASON_MAX);
    return 0;
}

static int check_task_away(const struct world *w, const struct event *e,
                           struct err *err)
{
    struct task *t = NULL;
    int rc = want_task(w, e, &t, err);

    return rc < 0 ? rc : check_away(w, e, t, err);
}

static int check_lease_moved(const struct world *w, const struct event *e,
                             struct err *err)
{
    struct lease *l = NULL;
    int rc = want_lease(w, e, &l, err);

    return rc < 0 ? rc : check_moved(e, l, err);
}

static int check_restored(const struct world *w, const struct event *e,
                          struct err *err)
{
    if (e->epoch <= w->epoch || e->epoch > INT64_MAX)
        return err_set(err, ESTALE, "epoch %" PRIu64 " does not follow "
                       "%" PRIu64, e->epoch, w->epoch);
    return 0;
}

static int check_released(const struct world *w, const struct event *e,
                          struct err *err)
{
    struct workload *wl;
    int rc = want_workload(w, e, &wl, err);

    if (rc == 0 && !wl->quarantined)
        return err_set(err, ESTALE, "w%" PRIu64 " is not quarantined", wl->id);
    return rc;
}

static int check_nothing(const struct world *w, const struct event *e,
                         struct err *err)
{
    (void) w;
    (void) e;
    (void) err;
    return 0;
}

typedef int (*check_f)(const struct world *w, const struct event *e,
                       struct err *err);

static const check_f checks[EVENT_TYPE_COUNT] = {
    [EVENT_SUBMITTED] = check_submitted,
    [EVENT_PAUSED] = check_paused,
    [EVENT_UNPAUSED] = check_paused,
    [EVENT_PRIORITISED] = check_prioritised,
    [EVENT_ABORTING] = check_aborting,
    [EVENT_WORKLOAD_ENDED] = check_workload_ended,
    [EVENT_PLANNED] = check_planned,
    [EVENT_STAGED] = check_stage,
    [EVENT_UNSTAGED] = check_stage,
    [EVENT_PREEMPTING] = check_preempting,
    [EVENT_SUSPENDING] = check_task_away,
    [EVENT_RECALLED] = check_task_away,
    [EVENT_RESUMING] = check_task_away,
    [EVENT_LEASE_SUSPENDED] = check_lease_moved,
    [EVENT_LEASE_RESUMED] = check_lease_moved,
    [EVENT_LEASE_KEPT] = check_lease_moved,
    [EVENT_STOPPING] = check_stopping,
    [EVENT_RETRYING] = check_retrying,
    [EVENT_TASK_ENDED] = check_task_ended,
    [EVENT_PROGRESS] = check_progress,
    [EVENT_CLAIMED] = check_claimed,
    [EVENT_LEASE_ENDED] = check_lease_ended,
    [EVENT_BLOCK_UP] = check_block_up,
    [EVENT_BLOCK_LOST] = check_block_lost,
    [EVENT_BLOCK_SHUT] = check_block_shut,
    [EVENT_POOL_SET] = check_pool_set,
    [EVENT_POOL_REMOVED] = check_pool_removed,
    [EVENT_POOL_DRAINED] = check_pool_drain,
    [EVENT_POOL_UNDRAINED] = check_pool_drain,
    [EVENT_POOL_SEEN] = check_nothing,
    [EVENT_NODE_DRAINED] = check_drain,
    [EVENT_NODE_UNDRAINED] = check_drain,
    [EVENT_DEVICE_DRAINED] = check_device_drain,
    [EVENT_DEVICE_UNDRAINED] = check_device_drain,
    [EVENT_DEVICE_HEALTH] = check_device_health,
    [EVENT_DEVICE_STRAY] = check_nothing,
    [EVENT_TENANT_SET] = check_tenant_set,
    [EVENT_TENANT_REMOVED] = check_tenant_removed,
    [EVENT_TOKEN_CREATED] = check_token_created,
    [EVENT_TOKEN_REVOKED] = check_token_revoked,
    [EVENT_WINDOW_SET] = check_window_set,
    [EVENT_WINDOW_REMOVED] = check_window_removed,
    [EVENT_POLICY_SET] = check_policy_set,
    [EVENT_RESTORED] = check_restored,
    [EVENT_RELEASED] = check_released,
    [EVENT_DENIED] = check_nothing,
    [EVENT_STARTED] = check_nothing,
};

int world_check(const struct world *w, const struct event *e, struct err *err)
{
    if (e->type >= EVENT_TYPE_COUNT)
        return err_set(err, EINVAL, "there is no such event");
    if (e->time_ms < w->time_ms || e->time_ms > TIME_MAX)
        return err_set(err, EINVAL, "%s: its time is before that of the event "
                       "before, or past all times", event_type_name(e->type));
    if (e->seq != 0 && e->seq <= w->seq)
        return err_set(err, EINVAL, "%s: number %" PRIu64 " does not follow "
                       "%" PRIu64, event_type_name(e->type), e->seq, w->seq);
    return checks[e->type](w, e, err);
}
