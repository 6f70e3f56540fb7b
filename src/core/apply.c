#include "core/world_int.h"

#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#include <assert.h>
#include <signal.h>
#include <string.h>

/* What each event changes.  world_check has let it through, so nothing here
 * can fail; nothing here decides, either: an event that was journalled has
 * its effect whatever the policy of the day.  Blocks, tenants and tokens are
 * in apply_pool.c.
 */
static struct task *task_of(const struct world *w, const struct event *e)
{
    struct workload *wl = world_workload(w, e->workload);

    assert(wl && e->task < wl->spec->ntasks);
    return &wl->tasks[e->task];
}

static void end_task(struct world *w, struct task *t, enum outcome outcome,
                     uint64_t now_ms)
{
    struct workload *wl = t->workload;

    t->outcome = (uint8_t) outcome;
    t->ended_ms = now_ms;
    t->stopping = false;
    wl->outcomes[outcome]++;
    wl->tenant->tasks_ended++;
    wl->tenant->dirty = true;
    task_set_state(w, t, TASK_ENDED, now_ms);
    task_release_next(w, t, now_ms);
    if (wl->count[TASK_ENDED] == wl->spec->ntasks)
        heap_add(&w->ends, wl);
}

static struct workload *workload_of_event(struct event *e, struct tenant *tn)
{
    struct workload *wl = mem_new(sizeof(*wl));

    wl->id = e->workload;
    wl->spec = take(e->spec);
    wl->user = e->user;
    wl->tenant_name = mem_str(e->tenant);
    wl->who = mem_str(e->who);
    wl->key = e->key[0] ? mem_str(e->key) : NULL;
    wl->hash = e->hash[0] ? mem_str(e->hash) : NULL;
    wl->tenant = tn;
    wl->priority = wl->spec->priority;
    wl->submitted_ms = e->time_ms;
    wl->retry_of = e->retry_of;
    return wl;
}

static void apply_submitted(struct world *w, struct event *e)
{
    struct workload *wl = workload_of_event(e, tenant_find(w, e->tenant));

    graph_make(wl);
    guesses_make(w, wl);
    map_set_id(w->workloads, wl->id, wl);
    workload_keyed(w, wl);
    wl->tenant->live++;
    w->next_workload = wl->id + 1;
    w->dirty_meta = true;
    workload_dirty(w, wl);
    workload_timer(w, wl);
    for (uint32_t i = 0; i < e->ndone; i++)
        end_task(w, &wl->tasks[e->done[i]], OUTCOME_SUCCEEDED, e->time_ms);
    for (uint32_t i = 0; i < wl->spec->ntasks; i++) {
        struct task *t = &wl->tasks[i];

        item_task(w, t);
        if (t->state == TASK_BLOCKED && t->needs_left == 0)
            todo_add(w, t);
    }
    if (wl->spec->ntasks == 0)
        heap_add(&w->ends, wl);
}

static void apply_paused(struct world *w, struct event *e)
{
    struct workload *wl = world_workload(w, e->workload);

    if (e->task != EVENT_ALL) {
        wl->tasks[e->task].paused = e->type == EVENT_PAUSED;
        task_dirty(w, &wl->tasks[e->task]);
        item_task(w, &wl->tasks[e->task]);
        return;
    }
    wl->paused = e->type == EVENT_PAUSED;
    workload_dirty(w, wl);
    for (uint32_t i = 0; i < wl->spec->ntasks; i++)
        item_task(w, &wl->tasks[i]);
}

static void apply_prioritised(struct world *w, struct event *e)
{
    struct workload *wl = world_workload(w, e->workload);

    workload_dirty(w, wl);
    if (e->task != EVENT_ALL) {
        struct task *t = &wl->tasks[e->task];

        t->own_priority = true;
        t->priority = (int16_t) e->priority;
        task_dirty(w, t);
        item_changed(w, t);
        return;
    }
    wl->priority = e->priority;
    for (uint32_t i = 0; i < wl->spec->ntasks; i++) {
        struct task *t = &wl->tasks[i];

        if (t->own_priority)
            task_dirty(w, t);
        t->own_priority = false;
        item_changed(w, t);
    }
}

static void abort_task(struct world *w, struct task *t, bool force)
{
    if (t->state == TASK_ENDED)
        return;
    t->aborting = true;
    t->force = t->force || force;
    item_task(w, t);
    todo_add(w, t);
    task_dirty(w, t);
}

static void abort_workload(struct world *w, struct workload *wl,
                           const struct event *e)
{
    wl->limited = wl->limited || e->cause == SPEC_CAUSE_LIMIT;
    wl->aborting = true;
    wl->force = wl->force || e->force;
    workload_dirty(w, wl);
    workload_timer(w, wl);
    aborts_add(w, wl);
}

static void apply_aborting(struct world *w, struct event *e)
{
    if (e->task == EVENT_ALL)
        abort_workload(w, world_workload(w, e->workload), e);
    else
        abort_task(w, task_of(w, e), e->force);
}

static void apply_workload_ended(struct world *w, struct event *e)
{
    struct workload *wl = world_workload(w, e->workload);

    wl->outcome = e->outcome;
    wl->ended_ms = e->time_ms;
    workload_dirty(w, wl);
    workload_forget(w, wl);
}

static void apply_planned(struct world *w, struct event *e)
{
    struct task *t = task_of(w, e);
    uint16_t port = 0;

    if (t->staged && t->staged->gen == e->gen) {   /* its process knows it */
        port = t->port;
        t->port = 0;
    }
    t->gen = e->gen;
    t->cause = SPEC_CAUSE_NONE;
    task_set_reason(t, NULL);
    t->status = 0;
    t->attempt_ms = t->attempt_gpu_ms = 0;
    item_placed(t, e->time_ms);
    t->score = (float) json_get_number(e->data, "score");
    progress_free(take(t->progress));
    timer_off(w, &t->timer);
    t->timer.due_ms = 0;
    t->ranks = e->ngrants;
    t->leases = mem_array(t->ranks, sizeof(*t->leases));
    for (uint32_t i = 0; i < t->ranks; i++) {
        struct block *b = world_block(w, e->grants[i].block);

        t->leases[i].gen = e->gen;
        t->leases[i].planned_ms = e->time_ms;
        t->leases[i].price_micro = grant_price(w, b, &e->grants[i]);
        lease_open(w, t, i, b, &e->grants[i]);
    }
    t->unclaimed = (uint16_t) e->ngrants;
    t->workload->started = true;
    workload_timer(w, t->workload);
    item_start(w, t);
    t->gens_staged = 0;                /* `gen` is past them */
    t->port = port;
    port_take(w, t, e->gen, e->ngrants);
    task_set_state(w, t, TASK_STARTING, e->time_ms);
}

static void apply_stage(struct world *w, struct event *e)
{
    if (e->type == EVENT_STAGED)
        apply_staged(w, task_of(w, e), e);
    else
        task_unstage(w, task_of(w, e));
}

/* The state a move leads to, or false when the table has no such arrow. */
bool lease_moved(struct lease *l, enum lease_move move)
{
    enum lease_state from = l->state;

    if (lease_next(from, move, &l->state, NULL) < 0)
        return false;
    if (from == LEASE_PLANNED)
        l->task->unclaimed--;
    return true;
}

/* For whom is kept, so that the room stays that one's after a restart, too. */
static void apply_preempting(struct world *w, struct event *e)
{
    struct task *t = task_of(w, e);
    const char *by = json_get_str(e->data, "for", NULL);

    t->preempting = strcmp(json_get_str(e->data, "how", ""), "suspend") == 0
                  ? PREEMPT_SUSPEND : PREEMPT_STOP;
    t->for_workload = 0;
    if (by && workload_id_parse(by, &t->for_workload, NULL) == 0)
        t->for_task = (uint32_t) json_get_u64(e->data, "task", 0);
    item_leaving(w, t);
    todo_add(w, t);
    task_dirty(w, t);
}

static void apply_progress(struct world *w, struct event *e)
{
    struct task *t = task_of(w, e);

    task_report(t, e->data, e->time_ms);
    if (t->spec->still_metric && t->attempt_ms) {
        timer_off(w, &t->timer);
        t->timer.due_ms = task_alarm_ms(t);
        task_timer(w, t);
    }
    if (t->item && t->progress->value >= 0)
        plan_progress(w->plan, t->item, t->progress->value);
    task_dirty(w, t);
}

static void apply_stopping(struct world *w, struct event *e)
{
    struct task *t = task_of(w, e);

    t->stopping = true;
    t->stop_cause = (uint8_t) e->cause;
    t->forced = t->forced || e->force;
    for (uint32_t i = 0; i < t->ranks; i++)
        (void) lease_moved(&t->leases[i], LEASE_MOVE_STOP);
    if (t->state == TASK_SUSPENDED)
        item_stranded(w, t);
    item_leaving(w, t);
    if (t->state != TASK_ENDING) {
        task_set_state(w, t, TASK_ENDING, e->time_ms);
        return;
    }
    task_timer(w, t);
    task_dirty(w, t);
}

/* Without a checkpoint all that the attempt did is to be done again. */
static void count_lost(struct task *t)
{
    struct workload *wl = t->workload;
    uint64_t lost = t->attempt_gpu_ms;

    if (task_has_contract(t))
        return;
    t->lost_gpu_ms = add_capped(t->lost_gpu_ms, lost);
    wl->lost_gpu_ms = add_capped(wl->lost_gpu_ms, lost);
    wl->tenant->lost_gpu_ms = add_capped(wl->tenant->lost_gpu_ms, lost);
    wl->tenant->dirty = true;
}

static void apply_retrying(struct world *w, struct event *e)
{
    struct task *t = task_of(w, e);

    t->losses = (uint16_t) task_losses(t, e->time_ms);
    if (spec_cause_of_place(e->cause))
        t->losses++;
    else if (e->cause == SPEC_CAUSE_PREEMPTED)
        count_lost(t);
    else
        t->tries++;
    t->cause = (uint8_t) e->cause;
    t->stopping = t->forced = false;
    t->preempting = PREEMPT_NOT;
    t->for_workload = t->for_task = 0;
    t->stop_cause = SPEC_CAUSE_NONE;
    t->attempt_ms = t->attempt_gpu_ms = 0;
    t->not_before_ms = e->until_ms;
    if (task_aborting(t))
        todo_add(w, t);
    task_set_state(w, t, TASK_WAITING, e->time_ms);
}

static void apply_task_ended(struct world *w, struct event *e)
{
    struct task *t = task_of(w, e);

    t->cause = (uint8_t) e->cause;
    t->status = e->status;
    end_task(w, t, e->outcome, e->time_ms);
}

static void apply_claimed(struct world *w, struct event *e)
{
    struct task *t = task_of(w, e);
    struct lease *l = &t->leases[e->rank];
    bool moved = lease_moved(l, LEASE_MOVE_CLAIM);

    assert(moved);
    (void) moved;
    l->claimed_ms = e->time_ms;
    if (t->started_ms == 0)
        t->started_ms = e->time_ms;
    if (t->workload->started_ms == 0)
        t->workload->started_ms = e->time_ms;
    limit_hold(t->workload, l);
    workload_timer(w, t->workload);
    if (t->attempt_ms == 0) {
        t->attempt_ms = e->time_ms;
        t->timer.due_ms = task_alarm_ms(t);
    }
    if (task_remedy(t) >= REMEDY_DRAIN)
        todo_add(w, t);
    if (t->unclaimed == 0 && t->state == TASK_STARTING) {
        task_set_state(w, t, TASK_RUNNING, e->time_ms);
    } else {
        task_timer(w, t);
        task_dirty(w, t);
    }
}

static void add_to(uint64_t *sum, uint64_t more)
{
    *sum = add_capped(*sum, more);
}

/* The last stretch; the others have been paid for. */
static uint64_t usage_ms(const struct lease *l, const struct event *e)
{
    uint64_t from = e->started_ms > l->from_ms ? e->started_ms : l->from_ms;

    return e->started_ms != 0 && e->ended_ms > from && !l->off
           ? e->ended_ms - from : 0;
}

void task_charge(struct task *t, const struct lease *l, uint64_t ms)
{
    struct workload *wl = t->workload;
    uint64_t gpu_ms = share_of(ms, t->spec->gpu_milli);
    uint64_t cost = price_of(l->price_micro, ms);

    add_to(&t->attempt_gpu_ms, gpu_ms);
    add_to(&t->used_gpu_ms, gpu_ms);
    add_to(&wl->used_gpu_ms, gpu_ms);
    add_to(&wl->tenant->used_gpu_ms, gpu_ms);
    add_to(&t->used_cost_micro, cost);
    add_to(&wl->used_cost_micro, cost);
    add_to(&wl->tenant->used_cost_micro, cost);
    add_to(&wl->tenant->used_cpu_ms, share_of(ms, t->spec->cpu_milli));
}

/* A report that gives a status but no cause means the plain one. */
static enum spec_cause cause_of_end(const struct event *e)
{
    if (e->cause != SPEC_CAUSE_NONE || e->status == 0)
        return e->cause;
    return e->status < 0 ? SPEC_CAUSE_SIGNALLED : SPEC_CAUSE_FAILED;
}

/* The attempt is over.  Only one that ended well by itself says how long the
 * likes of it run.
 */
static void attempt_ended(struct world *w, struct task *t, uint64_t now_ms)
{
    if (t->attempt_ms != 0 && !away_off(t))
        add_to(&t->used_wall_ms, now_ms - task_stretch_ms(t));
    item_over(w, t, t->cause == SPEC_CAUSE_NONE && !t->stopping &&
              t->attempt_ms != 0 && !away_off(t));
    port_give(w, t);
    free(take(t->leases));
    away_free(take(t->away));
}

static void apply_lease_ended(struct world *w, struct event *e)
{
    struct task *t = task_of(w, e);
    struct lease *l = &t->leases[e->rank];
    enum spec_cause cause = cause_of_end(e);
    bool under_way = away_under_way(t);

    task_charge(t, l, usage_ms(l, e));
    if (l->claimed_ms != 0 && !l->off)
        limit_drop(t->workload, l);
    workload_timer(w, t->workload);
    away_ended(w, t, cause, e->time_ms);
    if (t->leases_left > 1 && !away_off(t))
        item_gave(w, t, e->rank);
    (void) lease_moved(l, LEASE_MOVE_END);     /* a lost one stays lost */
    l->state = LEASE_ENDED;
    lease_close(w, l);
    if (cause != SPEC_CAUSE_NONE && t->cause == SPEC_CAUSE_NONE) {
        t->cause = (uint8_t) cause;
        t->status = e->status;
        task_set_reason(t, json_get_str(e->data, "why", NULL));
    }
    if (t->leases_left == 0)
        attempt_ended(w, t, e->time_ms);
    else if (away_off(t))
        item_fewer(w, t);
    else if (under_way)
        away_round(w, t, e->time_ms);
    item_yields(w, t);                 /* those left may do otherwise */
    todo_add(w, t);
    task_timer(w, t);
    task_dirty(w, t);
}

/* What the backup does not show as ended may have gone on, or have begun and
 * ended, since.
 */
static void apply_restored(struct world *w, struct event *e)
{
    struct workload *wl;
    size_t pos = 0;

    w->epoch = e->epoch;
    w->dirty_meta = true;
    while ((wl = map_next(w->workloads, &pos, NULL))) {
        wl->quarantined = true;
        workload_dirty(w, wl);
        workload_timer(w, wl);
        for (uint32_t i = 0; i < wl->spec->ntasks; i++) {
            item_task(w, &wl->tasks[i]);
            task_timer(w, &wl->tasks[i]);
        }
    }
}

void lease_lose(struct world *w, struct lease *l)
{
    if (!lease_moved(l, LEASE_MOVE_LOSE))
        return;
    todo_add(w, l->task);
    task_dirty(w, l->task);
}

/* Out of quarantine.  What its last attempt left on a block that is up may
 * still run: a step stops it, and nothing is planned before its end is told.
 */
static void release_task(struct world *w, struct task *t)
{
    for (uint32_t i = 0; t->leases && i < t->ranks; i++)
        if (!t->leases[i].block->up)
            lease_lose(w, &t->leases[i]);
    if (t->leases)
        todo_add(w, t);
    task_timer(w, t);
    item_task(w, t);
}

/* No generation that was given after the backup is given again. */
static void raise_floor(struct workload *wl)
{
    uint32_t top = wl->gen_floor;

    for (uint32_t i = 0; i < wl->spec->ntasks; i++)
        if (wl->tasks[i].gen > top)
            top = wl->tasks[i].gen;
    wl->gen_floor = top < UINT32_MAX - GEN_STEP ? top + GEN_STEP : top;
}

static void apply_released(struct world *w, struct event *e)
{
    struct workload *wl = world_workload(w, e->workload);

    wl->quarantined = false;
    workload_dirty(w, wl);
    workload_timer(w, wl);
    if (e->force)
        abort_workload(w, wl, e);
    else
        raise_floor(wl);
    for (uint32_t i = 0; i < wl->spec->ntasks; i++)
        release_task(w, &wl->tasks[i]);
}

static void apply_task_away(struct world *w, struct event *e)
{
    apply_away(w, task_of(w, e), e);
}

static void apply_lease_moved(struct world *w, struct event *e)
{
    apply_moved(w, &task_of(w, e)->leases[e->rank], e);
}

static void apply_nothing(struct world *w, struct event *e)
{
    (void) w;
    (void) e;
}

typedef void (*apply_f)(struct world *w, struct event *e);

static const apply_f applies[EVENT_TYPE_COUNT] = {
    [EVENT_SUBMITTED] = apply_submitted,
    [EVENT_PAUSED] = apply_paused,
    [EVENT_UNPAUSED] = apply_paused,
    [EVENT_PRIORITISED] = apply_prioritised,
    [EVENT_ABORTING] = apply_aborting,
    [EVENT_WORKLOAD_ENDED] = apply_workload_ended,
    [EVENT_PLANNED] = apply_planned,
    [EVENT_STAGED] = apply_stage,
    [EVENT_UNSTAGED] = apply_stage,
    [EVENT_PREEMPTING] = apply_preempting,
    [EVENT_SUSPENDING] = apply_task_away,
    [EVENT_RECALLED] = apply_task_away,
    [EVENT_RESUMING] = apply_task_away,
    [EVENT_LEASE_SUSPENDED] = apply_lease_moved,
    [EVENT_LEASE_RESUMED] = apply_lease_moved,
    [EVENT_LEASE_KEPT] = apply_lease_moved,
    [EVENT_STOPPING] = apply_stopping,
    [EVENT_RETRYING] = apply_retrying,
    [EVENT_TASK_ENDED] = apply_task_ended,
    [EVENT_PROGRESS] = apply_progress,
    [EVENT_CLAIMED] = apply_claimed,
    [EVENT_LEASE_ENDED] = apply_lease_ended,
    [EVENT_BLOCK_UP] = apply_block_up,
    [EVENT_BLOCK_LOST] = apply_block_lost,
    [EVENT_BLOCK_SHUT] = apply_block_shut,
    [EVENT_POOL_SET] = apply_pool_set,
    [EVENT_POOL_REMOVED] = apply_pool_removed,
    [EVENT_POOL_DRAINED] = apply_pool_drain,
    [EVENT_POOL_UNDRAINED] = apply_pool_drain,
    [EVENT_POOL_SEEN] = apply_nothing,
    [EVENT_NODE_DRAINED] = apply_drain,
    [EVENT_NODE_UNDRAINED] = apply_drain,
    [EVENT_DEVICE_DRAINED] = apply_device_drain,
    [EVENT_DEVICE_UNDRAINED] = apply_device_drain,
    [EVENT_DEVICE_HEALTH] = apply_device_health,
    [EVENT_DEVICE_STRAY] = apply_nothing,
    [EVENT_TENANT_SET] = apply_tenant_set,
    [EVENT_TENANT_REMOVED] = apply_tenant_removed,
    [EVENT_TOKEN_CREATED] = apply_token_created,
    [EVENT_TOKEN_REVOKED] = apply_token_revoked,
    [EVENT_WINDOW_SET] = apply_window_set,
    [EVENT_WINDOW_REMOVED] = apply_window_removed,
    [EVENT_POLICY_SET] = apply_policy_set,
    [EVENT_RESTORED] = apply_restored,
    [EVENT_RELEASED] = apply_released,
    [EVENT_DENIED] = apply_nothing,
    [EVENT_STARTED] = apply_nothing,
};

int world_apply(struct world *w, struct event *e, struct err *err)
{
    int rc = world_check(w, e, err);

    if (rc < 0)
        return rc;
    world_tick(w, e->time_ms);
    w->time_ms = e->time_ms;
    if (e->seq != 0)
        w->seq = e->seq;
    applies[e->type](w, e);
    item_applied(w, e);
    if (w->nbudgets > 0)
        budgets_look(w);
    w->meter.kept = false;
    w->dirty_meter = true;
    return 0;
}
