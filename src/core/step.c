#include "core/world_int.h"

#include "base/json.h"

#include <assert.h>
#include <stdio.h>

/* What the world wants next, in this order:
 *
 *   1. the rest of a set that is half planned;
 *   2. what follows from what happened: ends of lost leases, the rest of a
 *      gang or of a released attempt stopped, attempts that are over, aborts,
 *      tasks to be skipped;
 *   3. workloads whose tasks have all ended;
 *   4. what is due: timeouts, limits, deadlines, windows that are over;
 *   5. the plan.
 *
 * Nothing here changes the world beyond its indexes.
 */
static void want(struct event *e, enum event_type type, const struct task *t)
{
    event_init(e, type);
    e->workload = t->workload->id;
    e->task = t->index;
    e->gen = t->gen;
}

static void want_end(struct event *e, const struct task *t, enum outcome o,
                     enum spec_cause cause)
{
    want(e, EVENT_TASK_ENDED, t);
    e->outcome = o;
    e->cause = cause;
    if (t->gen > 0)
        e->status = t->status;
}

static void want_stop(struct event *e, const struct task *t,
                      enum spec_cause cause, bool force)
{
    want(e, EVENT_STOPPING, t);
    e->cause = cause;
    e->force = force;
}

static bool lost_lease(const struct task *t, uint64_t now_ms, struct event *e)
{
    for (uint32_t i = 0; i < t->ranks; i++) {
        const struct lease *l = &t->leases[i];

        if (l->state != LEASE_LOST)
            continue;
        want(e, EVENT_LEASE_ENDED, t);
        e->rank = i;
        e->gen = l->gen;
        e->cause = SPEC_CAUSE_LOST;
        e->started_ms = l->claimed_ms;
        e->ended_ms = now_ms;
        return true;
    }
    return false;
}

static enum spec_cause abort_cause(const struct task *t)
{
    return t->workload->limited && !t->aborting ? SPEC_CAUSE_LIMIT
                                                : SPEC_CAUSE_ABORTED;
}

/* What a backup says of who leaves is past: in quarantine nobody is asked to
 * move or to go, an operator decides.
 */
static bool give_way(const struct task *t, uint64_t now_ms, struct event *e)
{
    if (away_next(t, now_ms, e))
        return true;
    if (!t->preempting || t->stopping ||
        (t->preempting == PREEMPT_SUSPEND && away_moves(t)))
        return false;
    want_stop(e, t, SPEC_CAUSE_PREEMPTED, false);
    return true;
}

static bool settle_leases(const struct task *t, uint64_t now_ms,
                          struct event *e)
{
    if (lost_lease(t, now_ms, e))
        return true;
    if (task_aborting(t) &&
        (!t->stopping || t->stop_cause != abort_cause(t) ||
         (task_force(t) && !t->forced))) {
        want_stop(e, t, abort_cause(t), task_force(t));
        return true;
    }
    if (t->state == TASK_ENDING && !t->stopping) {
        want_stop(e, t, SPEC_CAUSE_GANG, false);   /* see away.c */
        return true;
    }
    if (t->gen <= t->workload->gen_floor && !t->stopping) {
        want_stop(e, t, SPEC_CAUSE_LOST, false);   /* released, see apply.c */
        return true;
    }
    if (remedy_next(t, e))
        return true;
    if (!t->workload->quarantined && give_way(t, now_ms, e))
        return true;
    if (t->cause != SPEC_CAUSE_NONE && !t->stopping) {
        want_stop(e, t, SPEC_CAUSE_GANG, false);
        return true;
    }
    return false;
}

/* Why the attempt ended.  Whoever was told to stop ended for that reason,
 * whatever its status; in a gang the first to fail is the reason for all.
 */
static enum spec_cause attempt_cause(const struct task *t)
{
    if (task_aborting(t))
        return abort_cause(t);
    if (t->stopping && t->stop_cause != SPEC_CAUSE_GANG)
        return t->stop_cause;
    return t->cause;
}

static bool limits_used(const struct task *t)
{
    return (t->spec->limit_wall_ms &&
            t->used_wall_ms >= t->spec->limit_wall_ms) ||
           (t->spec->limit_gpu_ms &&
            t->used_gpu_ms >= t->spec->limit_gpu_ms) ||
           (t->spec->limit_cost_micro &&
            t->used_cost_micro >= t->spec->limit_cost_micro);
}

/* Lost work is tried again without being counted, unless it gets lost again
 * and again: then the work itself, or every place it gets, is at fault.
 */
static bool tried_again(const struct task *t, enum spec_cause cause,
                        uint64_t now_ms)
{
    if (cause == SPEC_CAUSE_REFUSED || cause == SPEC_CAUSE_LIMIT ||
        limits_used(t))
        return false;
    if (cause == SPEC_CAUSE_PREEMPTED)
        return true;
    if (spec_cause_of_place(cause))
        return task_losses(t, now_ms) + 1 < LOST_MAX;
    return (t->spec->retry_on & 1u << cause) != 0 &&
           t->tries < t->spec->retry_count;
}

static uint64_t backoff_ms(const struct task *t, enum spec_cause cause,
                           uint64_t now_ms)
{
    uint64_t ms = t->spec->retry_backoff_ms;
    uint32_t losses = task_losses(t, now_ms);

    if (cause == SPEC_CAUSE_PREEMPTED)
        return 0;
    if (spec_cause_of_place(cause))
        return (uint64_t) LOST_BACKOFF_MS << (losses < 9 ? losses : 9);
    for (uint32_t i = 0; i < t->tries && ms < BACKOFF_MAX; i++)
        ms *= 2;
    return ms < BACKOFF_MAX ? ms : BACKOFF_MAX;
}

static void settle_attempt(const struct task *t, uint64_t now_ms,
                           struct event *e)
{
    enum spec_cause cause = attempt_cause(t);

    if (cause == SPEC_CAUSE_NONE || cause == SPEC_CAUSE_STILL) {
        want_end(e, t, OUTCOME_SUCCEEDED, cause);
    } else if (cause == SPEC_CAUSE_ABORTED) {
        want_end(e, t, OUTCOME_ABORTED, cause);
    } else if (tried_again(t, cause, now_ms)) {
        want(e, EVENT_RETRYING, t);
        e->cause = cause;
        e->until_ms = now_ms + backoff_ms(t, cause, now_ms);
        if (e->until_ms > TIME_MAX)
            e->until_ms = TIME_MAX;
    } else {
        want_end(e, t, OUTCOME_FAILED, cause);
    }
}

static bool settle_task(const struct task *t, uint64_t now_ms, struct event *e)
{
    if (t->leases_left > 0)
        return settle_leases(t, now_ms, e);
    switch ((enum task_state) t->state) {
    case TASK_STARTING:
    case TASK_RUNNING:
    case TASK_SUSPENDED:
    case TASK_ENDING:
        settle_attempt(t, now_ms, e);
        return true;
    case TASK_BLOCKED:
        if (task_aborting(t))
            break;
        if (t->needs_left > 0)
            return false;
        want_end(e, t, OUTCOME_SKIPPED, SPEC_CAUSE_NONE);
        return true;
    case TASK_WAITING:
        if (!task_aborting(t))
            return false;
        break;
    case TASK_ENDED:
    case TASK_STATE_COUNT:
        return false;
    }
    want_end(e, t, abort_cause(t) == SPEC_CAUSE_LIMIT ? OUTCOME_FAILED
                                                      : OUTCOME_ABORTED,
             abort_cause(t));
    return true;
}

/* The next task of a workload that is being aborted, or NULL. */
static struct task *aborted_task(struct world *w)
{
    struct workload *wl;

    while ((wl = heap_top(&w->aborts))) {
        while (wl->abort_from < wl->spec->ntasks &&
               wl->tasks[wl->abort_from].state == TASK_ENDED)
            wl->abort_from++;
        if (wl->abort_from < wl->spec->ntasks)
            return &wl->tasks[wl->abort_from];
        heap_remove(&w->aborts, wl);
    }
    return NULL;
}

/* The first task, by workload and index, that wants something: in which of the
 * two it is found makes no difference.
 */
static bool settle(struct world *w, uint64_t now_ms, struct event *e)
{
    struct task *t, *aborted;

    for (;;) {
        t = heap_top(&w->todo);
        aborted = aborted_task(w);
        if (!t && !aborted)
            return false;
        if (!t || (aborted && !w->todo.before(t, aborted)))
            t = aborted;
        if (settle_task(t, now_ms, e))
            return true;
        if (t == aborted)
            t->workload->abort_from++;
        heap_remove(&w->todo, t);
    }
}

/* A failure counts even when a handler ran after it.  A stage that was aborted
 * alone makes the whole aborted, unless something failed too.
 */
static bool end_workload(const struct world *w, struct event *e)
{
    const struct workload *wl = heap_top(&w->ends);

    if (!wl)
        return false;
    event_init(e, EVENT_WORKLOAD_ENDED);
    e->workload = wl->id;
    if (wl->aborting && !wl->limited)
        e->outcome = OUTCOME_ABORTED;
    else if (wl->outcomes[OUTCOME_FAILED])
        e->outcome = OUTCOME_FAILED;
    else if (wl->outcomes[OUTCOME_ABORTED])
        e->outcome = OUTCOME_ABORTED;
    else
        e->outcome = OUTCOME_SUCCEEDED;
    return true;
}

/* Past its deadline or longest wait with nothing begun: its tasks end one by
 * one, and with them the workload.
 */
static void expire(struct workload *wl, struct event *e)
{
    while (wl->tasks[wl->expire_from].state == TASK_ENDED)
        wl->expire_from++;
    assert(wl->expire_from < wl->spec->ntasks);
    want_end(e, &wl->tasks[wl->expire_from], OUTCOME_FAILED,
             SPEC_CAUSE_TIMEOUT);
}

static void overrun(const struct task *t, struct event *e)
{
    bool timeout = t->spec->timeout_ms &&
                   t->timer.due_ms == task_timeout_ms(t);

    want_stop(e, t, timeout ? SPEC_CAUSE_TIMEOUT :
              t->timer.due_ms == task_still_ms(t) ? SPEC_CAUSE_STILL :
              SPEC_CAUSE_LIMIT, false);
}

/* Past its deadline with nothing begun, or past its limits. */
static void overrun_workload(struct workload *wl, struct event *e)
{
    if (!wl->started) {
        expire(wl, e);
        return;
    }
    event_init(e, EVENT_ABORTING);
    e->workload = wl->id;
    e->task = EVENT_ALL;
    e->cause = SPEC_CAUSE_LIMIT;
}

static bool sound_alarm(struct world *w, uint64_t now_ms, struct event *e)
{
    struct timer *first = heap_top(&w->alarms);

    if (!first || first->due_ms > now_ms)
        return false;
    if (first->of_workload)
        overrun_workload(container_of(first, struct workload, timer), e);
    else
        overrun(container_of(first, struct task, timer), e);
    return true;
}

/* A window that is over is no longer worth a row. */
static bool end_window(const struct world *w, uint64_t now_ms, struct event *e)
{
    const struct window *v;
    size_t pos = 0;

    while ((v = world_next_window(w, &pos))) {
        if (v->to_ms > now_ms)
            continue;
        event_init(e, EVENT_WINDOW_REMOVED);
        e->data = json_object();
        json_put_str(e->data, "name", v->name);
        return true;
    }
    return false;
}

bool world_midway(const struct world *w)
{
    return w->next_pending > 0;
}

void world_hold(struct world *w, bool hold)
{
    w->hold = hold;
}

int world_step(struct world *w, uint64_t now_ms, struct event *ret)
{
    bool found;

    if (now_ms < w->time_ms)
        now_ms = w->time_ms;
    world_tick(w, now_ms);
    if (world_midway(w))
        found = item_next(w, ret);
    else
        found = settle(w, now_ms, ret) || end_workload(w, ret) ||
                sound_alarm(w, now_ms, ret) || end_window(w, now_ms, ret) ||
                (!w->hold && item_next(w, ret));
    if (!found)
        return 0;
    ret->time_ms = now_ms;
    (void) snprintf(ret->who, sizeof(ret->who), "weir");
    return 1;
}
