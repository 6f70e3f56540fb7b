#include "core/why_int.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>

/* The reason a task is not running.  For one in line the plan says which; here
 * it gets its words and its numbers.
 */
#define X(name, text) [WHY_##name] = text,
static const char *const code_names[] = { WHY_CODES(X) };
#undef X

const char *why_code_name(enum why_code c)
{
    assert(c < WHY_COUNT);
    return code_names[c];
}

static void why_needs(const struct task *t, struct why *y)
{
    autobuf struct buf names = BUF_INIT(200);
    uint32_t shown = 0;

    for (uint32_t i = 0; i < t->spec->nneeds; i++) {
        const struct task *need = &t->workload->tasks[t->spec->needs[i]];

        if (need->state == TASK_ENDED)
            continue;
        if (shown++ < 3)
            buf_printf(&names, "%s'%s' (%s)", shown > 1 ? ", " : "",
                       need->spec->name, task_state_name(need->state));
    }
    if (shown > 3)
        buf_printf(&names, " and %u more", shown - 3);
    say(y, WHY_NEEDS, "It waits for %u of the %u tasks it needs: %s.",
        t->needs_left, t->spec->nneeds, buf_text(&names));
}

static void why_begun(const struct task *t, struct why *y)
{
    const char *node = t->leases ? t->leases[0].block->node : "?";

    if (t->state == TASK_STARTING)
        say(y, WHY_STARTING, "It has its place on node '%s' and is about to "
            "start: %u of %u ranks have begun.", node,
            t->ranks - t->unclaimed, t->ranks);
    else if (t->state == TASK_RUNNING)
        say(y, WHY_RUNNING, "It is running on node '%s', attempt %u.", node,
            t->gen);
    else if (t->stop_cause == SPEC_CAUSE_PREEMPTED)
        say(y, WHY_ENDING, "It was told to give way to w%" PRIu64 " and has "
            "not ended yet.", t->for_workload);
    else if (t->stop_cause == SPEC_CAUSE_STILL)
        say(y, WHY_ENDING, "It was told to stop, for '%s' stood still for %s, "
            "and has not ended yet.", t->spec->still_metric,
            duration(t->spec->still_ms).text);
    else
        say(y, WHY_ENDING, "It was told to stop (%s) and has not ended yet.",
            spec_cause_name((enum spec_cause) t->stop_cause));
    if (t->state == TASK_ENDING && !t->forced)
        change(y, "It has %s to end by itself; abort it with --force to not "
               "wait.", duration(t->spec->stop_grace_ms).text);
}

static void why_ended(const struct task *t, struct why *y)
{
    const char *reason = task_reason(t);

    if (t->cause == SPEC_CAUSE_NONE)
        say(y, WHY_ENDED, "It has ended: %s.",
            outcome_name((enum outcome) t->outcome));
    else if (t->cause == SPEC_CAUSE_STILL)
        say(y, WHY_ENDED, "It has ended: %s, for '%s' stood still for %s.",
            outcome_name((enum outcome) t->outcome), t->spec->still_metric,
            duration(t->spec->still_ms).text);
    else if (t->cause == SPEC_CAUSE_TIMEOUT && t->gen == 0)
        say(y, WHY_ENDED, "It has ended: its workload did not start within "
            "its max_wait or before its deadline.");
    else
        say(y, WHY_ENDED, "It has ended: %s (%s, status %d)%s%s.",
            outcome_name((enum outcome) t->outcome),
            spec_cause_name((enum spec_cause) t->cause), t->status,
            reason ? ": " : "", reason ? reason : "");
}

/* Waiting, but not in line for a reason of its own. */
static bool why_aside(const struct task *t, uint64_t now_ms, struct why *y)
{
    const struct workload *wl = t->workload;
    const char *reason = task_reason(t);
    char at[32];

    if (wl->quarantined) {
        say(y, WHY_QUARANTINED, "Its workload had not ended when the store "
            "was saved that has now been restored, and may have run since.");
        change(y, "An operator releases w%" PRIu64 ": queue it again, or "
               "abort it.", wl->id);
    } else if (wl->paused) {
        say(y, WHY_PAUSED, "Its workload is paused.");
        change(y, "weir unpause w%" PRIu64, wl->id);
    } else if (t->paused) {
        say(y, WHY_PAUSED, "It is paused, alone of its workload.");
        change(y, "weir unpause w%" PRIu64 "/%s", wl->id, t->spec->name);
    } else if (t->state == TASK_SUSPENDED && t->away->held) {
        say(y, WHY_SUSPENDED, "It is kept suspended by %s.",
            t->away->by ? t->away->by : "an operator");
        change(y, "weir resume w%" PRIu64 "/%s", wl->id, t->spec->name);
    } else if (t->state == TASK_SUSPENDED && t->away->idle) {
        clock_print(t->away->idle_used_ms, at, sizeof(at));
        say(y, WHY_SUSPENDED, "It did not use its devices for %s and is "
            "suspended until it calls the driver again; its last use was at "
            "%s (%s).", duration(t->away->idle_grace_ms).text, at,
            t->away->idle_kind);
        change(y, "Nothing: it comes back when it wants its devices, or with "
               "weir resume w%" PRIu64 "/%s.", wl->id, t->spec->name);
    } else if (t->state == TASK_SUSPENDED && t->timer.asleep) {
        clock_print(t->not_before_ms, at, sizeof(at));
        say(y, WHY_SUSPENDED, "It is suspended and gets in line again at %s, "
            "in %s.", at, duration(t->not_before_ms - now_ms).text);
        change(y, "weir resume w%" PRIu64 "/%s", wl->id, t->spec->name);
    } else if (t->timer.asleep && t->not_before_ms > now_ms) {
        clock_print(t->not_before_ms, at, sizeof(at));
        say(y, WHY_BACKOFF, "Attempt %u ended (%s); it is tried again at %s, "
            "in %s.%s%.200s", t->gen,
            spec_cause_name((enum spec_cause) t->cause), at,
            duration(t->not_before_ms - now_ms).text,
            reason ? " The reason was: " : "", reason ? reason : "");
    } else {
        return false;
    }
    return true;
}

static void why_together(const struct set *set, struct why *y)
{
    say(y, WHY_TOGETHER, "It starts together with others: %u of them still "
        "wait for what they need, %u for the time of their next attempt.",
        set->blocked, set->waiting - set->in_line);
}

/* ---- not now ---- */

static uint64_t wants_milli(const struct task *t)
{
    return (uint64_t) t->spec->gpu_milli * t->spec->ranks;
}

static const struct tenant *named(const struct world *w,
                                  const struct plan_tenant *tenant)
{
    const struct tenant *t;
    size_t pos = 0;

    while ((t = world_next_tenant(w, &pos)))
        if (t->plan_tenant == tenant)
            return t;
    return NULL;
}

static void why_quota(const struct world *w, const struct task *t,
                      const struct plan_reason *r, struct why *y)
{
    const struct tenant *tn = named(w, r->tenant);

    if (!tn)
        tn = t->workload->tenant;
    say(y, WHY_QUOTA, "Tenant '%s' may hold %s devices at once and holds %s; "
        "this needs %s.", tn->name, milli(tn->max_gpu_milli).text,
        milli(tn->sum_milli).text, milli(wants_milli(t)).text);
    change(y, "It starts when other work of the tenant ends.");
    if (r->code != REASON_NEVER_QUOTA)
        return;
    y->code = WHY_NEVER_QUOTA;
    change(y, "It needs more than the tenant may ever hold: weir tenant set %s "
           "--max-gpus N", tn->name);
}

static void why_budget(const struct world *w, const struct task *t,
                       const struct plan_reason *r, uint64_t now_ms,
                       struct why *y)
{
    const struct tenant *tn = named(w, r->tenant);
    const struct budget *b;
    uint64_t next;
    char at[32];

    if (!tn || tn->budget.period_ms == 0)
        tn = t->workload->tenant;
    b = &tn->budget;
    next = b->period_ms ? now_ms - now_ms % b->period_ms + b->period_ms
                        : now_ms;
    clock_print(next < TIME_MAX ? next : TIME_MAX, at, sizeof(at));
    say(y, WHY_BUDGET, "The budget of tenant '%s' is used up: %s of %s %s in "
        "this period.", tn->name, milli(budget_spent(tn, now_ms) / 1000).text,
        milli(b->amount / 1000).text,
        b->unit == BUDGET_MONEY ? "of money" : "GPU-hours");
    change(y, "It starts when the next period begins, at %s, or with a larger "
           "budget.", at);
}

/* Of the blocks that are up. */
static void why_shut(uint32_t up, uint32_t drained, uint32_t barred,
                     struct why *y)
{
    say(y, WHY_DRAINED, "The nodes that could run it %s (%u of %u).", drained ?
        "are drained" : barred ? "are in a pool that takes nothing new" :
        "take nothing new: what they have is not known for now",
        drained ? drained : barred ? barred : up, up);
    change(y, drained ? "weir node undrain NODE" :
           barred ? "weir pool undrain POOL" : "weir pool ls says why.");
}

static void why_closed(const struct world *w, const struct task *t,
                       struct why *y)
{
    uint64_t closed = why_supply(w, t->spec, true).closed;
    uint32_t up = 0, drained = 0, barred = 0;

    for (uint32_t i = 0; i < w->nblocks; i++) {
        up += w->blocks[i]->up;
        drained += w->blocks[i]->up && w->blocks[i]->drained;
        barred += w->blocks[i]->up && w->blocks[i]->barred;
    }
    if (w->nblocks == 0) {
        say(y, WHY_NO_BLOCK, "No node has joined yet.");
        change(y, "It starts when a runner reports from one.");
    } else if (closed > 0) {
        say(y, WHY_DRAINED, "The devices that could run it are drained, lost "
            "or kept out of use for their health (%" PRIu64 ").", closed);
        change(y, "weir pool show POOL --devices says which, and why.");
    } else if (up > 0) {
        why_shut(up, drained, barred, y);
    } else {
        say(y, WHY_NO_BLOCK, "No node that could run it is up: %u of %u are.",
            up, w->nblocks);
        change(y, "It starts when the node is back.");
    }
}

static void why_short(const struct world *w, const struct task *t,
                      enum why_code code, struct why *y)
{
    const struct spec_task *s = t->spec;
    struct supply has = why_supply(w, s, true);
    autobuf struct buf what = wanted(s);

    if (code == WHY_DEVICES)
        say(y, code, "It needs %s%s; of %" PRIu64 " devices that would do, %s "
            "%s free in all%s.", buf_text(&what), per_rank(s).text,
            has.matching, milli(has.free_milli).text,
            has.free_milli == 1000 ? "is" : "are", has.closed ? ", beside "
            "those that are drained, lost or ill" : "");
    else if (code == WHY_FRAGMENTED)
        say(y, code, "It needs %s%s; of %" PRIu64 " devices that would do, %s "
            "%s free, but not where it could use them together.",
            buf_text(&what), per_rank(s).text, has.matching,
            milli(has.free_milli).text,
            has.free_milli == 1000 ? "is" : "are");
    else if (code == WHY_CPUS)
        say(y, code, "It needs %s%s; at most %s %s free on one node.",
            cpus(s->cpu_milli).text, per_rank(s).text,
            milli(has.cpus_free).text, has.cpus_free == 1000 ? "is" : "are");
    else
        say(y, code, "It needs %s of memory%s; at most %s is free on one "
            "node.", bytes(s->memory).text, per_rank(s).text,
            bytes(has.memory_free).text);
    change(y, "It starts when running work ends and leaves enough.");
}

static const struct task *other_task(const struct plan_reason *r)
{
    return r->other ? plan_owner(r->other) : NULL;
}

static void why_window(const struct world *w, uint64_t now_ms, struct why *y)
{
    const struct window *v, *first = NULL;
    size_t pos = 0;
    char at[32];

    while ((v = world_next_window(w, &pos)))
        if (v->to_ms > now_ms && (!first || v->from_ms < first->from_ms))
            first = v;
    if (!first) {
        say(y, WHY_WINDOW, "The nodes that could run it are kept for others.");
        return;
    }
    clock_print(first->to_ms, at, sizeof(at));
    say(y, WHY_WINDOW, "The nodes that could run it are kept for %s%s%s by the "
        "window '%s' until %s.", first->tenant[0] ? "tenant '" : "nobody",
        first->tenant, first->tenant[0] ? "'" : "", first->name, at);
    change(y, "weir reserve remove %s", first->name);
}

static void why_behind(const struct plan_reason *r, uint64_t now_ms,
                       struct why *y)
{
    const struct task *by = other_task(r);

    if (!by) {
        say(y, WHY_ORDER, "It would fit, and is about to be given its place.");
        return;
    }
    if (r->code == REASON_RESERVED)
        say(y, WHY_RESERVED, "It would fit, but would still be there when '%s' "
            "of w%" PRIu64 " is to start, for which the place is reserved.",
            by->spec->name, by->workload->id);
    else
        say(y, WHY_ORDER, "It would fit, but '%s' of w%" PRIu64 " comes before "
            "it and has waited %s for more than is free: nothing may overtake "
            "it any more.", by->spec->name, by->workload->id,
            duration(now_ms > by->since_ms ? now_ms - by->since_ms : 0).text);
    change(y, "It starts after that task, or with a higher priority.");
}

static void why_room(const struct plan_reason *r, struct why *y)
{
    const struct task *by = other_task(r);

    if (by)
        say(y, WHY_MAKING_ROOM, "Room is being made for it: '%s' of w%" PRIu64
            " was told to give way.", by->spec->name, by->workload->id);
    else
        say(y, WHY_MAKING_ROOM, "Room is being made for it.");
    change(y, "It starts when that has ended.");
}

static void why_better(const struct plan_reason *r, struct why *y)
{
    char at[32];

    clock_print(r->start_ms < TIME_MAX ? r->start_ms : TIME_MAX, at,
                sizeof(at));
    if (r->later_ms > 0)
        say(y, WHY_BETTER, "It waits for a device of model %s that is expected "
            "to be free by %s: on the %s that is free now it would end %s "
            "later.", r->better, at, r->model, duration(r->later_ms).text);
    else
        say(y, WHY_BETTER, "It waits for a device of model %s that is expected "
            "to be free by %s: on the %s that is free now it would not end "
            "sooner by the policy's burst_margin.", r->better, at, r->model);
    change(y, "It starts on any device when its patience is over; ask for "
           "model %s to start now, or lower burst_margin in the policy.",
           r->model);
}

static void why_plan(const struct world *w, const struct task *t,
                     const struct plan_reason *r, uint64_t now_ms,
                     struct why *y)
{
    switch (r->code) {
    case REASON_NEVER_DEVICES:
    case REASON_NEVER_MODEL:
    case REASON_NEVER_GPU_MEMORY:
    case REASON_NEVER_CPUS:
    case REASON_NEVER_MEMORY:
    case REASON_NEVER_LABEL:
    case REASON_NEVER_GANG:
        why_never(w, t, r->code, y);
        break;
    case REASON_NO_NODE:
    case REASON_CLOSED:
        why_closed(w, t, y);
        break;
    case REASON_QUOTA:
    case REASON_NEVER_QUOTA:
        why_quota(w, t, r, y);
        break;
    case REASON_BUDGET:
        why_budget(w, t, r, now_ms, y);
        break;
    case REASON_DEVICES:
        why_short(w, t, WHY_DEVICES, y);
        break;
    case REASON_FRAGMENTED:
        why_short(w, t, WHY_FRAGMENTED, y);
        break;
    case REASON_CPUS:
        why_short(w, t, WHY_CPUS, y);
        break;
    case REASON_MEMORY:
        why_short(w, t, WHY_MEMORY, y);
        break;
    case REASON_HOST_MEMORY:
        say(y, WHY_HOST_MEMORY, "It would fit if the suspended work on the "
            "nodes did not hold their memory.");
        change(y, "It starts when that goes on or ends.");
        break;
    case REASON_WINDOW:
        why_window(w, now_ms, y);
        break;
    case REASON_MAKING_ROOM:
        why_room(r, y);
        break;
    case REASON_BETTER:
        why_better(r, y);
        break;
    case REASON_NONE:
    case REASON_HELD:
    case REASON_ORDER:
    case REASON_RESERVED:
    case REASON_COUNT:
        why_behind(r, now_ms, y);
        break;
    }
}

/* Said at once, and not when the time has come. */
static void why_late(const struct world *w, const struct task *t,
                     const struct plan_item *item, uint64_t now_ms,
                     struct why *y)
{
    const struct spec *s = t->workload->spec;
    uint64_t begin = add_capped(t->workload->submitted_ms, s->max_wait_ms);
    char at[32];

    if (s->deadline_ms &&
        !plan_can_end_by(w->plan, item, now_ms, s->deadline_ms)) {
        clock_print(s->deadline_ms < TIME_MAX ? s->deadline_ms : TIME_MAX, at,
                    sizeof(at));
        (void) snprintf(y->late, sizeof(y->late), "As predicted it will not "
                        "have ended by its deadline, %s.", at);
    } else if (s->max_wait_ms && !t->workload->started &&
               y->start_low_ms > begin) {
        (void) snprintf(y->late, sizeof(y->late), "As predicted it will not "
                        "start within its max_wait of %s.",
                        duration(s->max_wait_ms).text);
    }
}

/* Who holds the first device that it stands ready for, or NULL. */
static const struct task *holder(const struct task_stage *s)
{
    const struct lease *l = s->blocks[0]->leases;

    for (; l && s->grants[0].ndevices > 0; l = l->next_on_block)
        for (uint32_t i = 0; i < l->grant.ndevices; i++)
            if (!l->off && l->grant.device[i] == s->grants[0].device[0])
                return l->task;
    return NULL;
}

static void why_staged(const struct task *t, struct why *y)
{
    const struct task *by = holder(t->staged);
    const char *node = t->staged->blocks[0]->node;
    char at[32] = "";

    if (y->start_ms)
        clock_print(y->start_ms < TIME_MAX ? y->start_ms : TIME_MAX, at,
                    sizeof(at));
    if (by)
        (void) snprintf(y->staged, sizeof(y->staged), "It stands ready on %s, "
                        "and starts when w%" PRIu64 "/%s ends%s%s.", node,
                        by->workload->id, by->spec->name,
                        at[0] ? ", about " : "", at);
    else
        (void) snprintf(y->staged, sizeof(y->staged), "It stands ready on "
                        "%s.", node);
}

static void why_in_line(const struct world *w, const struct task *t,
                        uint64_t now_ms, struct why *y)
{
    const struct plan_item *item = task_item(t);
    struct plan_reason r;

    if (!item) {
        why_together(graph_set(t->workload, t), y);
        return;
    }
    plan_reason(w->plan, item, now_ms, &r);
    y->position = r.position;
    y->start_low_ms = r.start_low_ms;
    y->start_ms = r.start_ms;
    y->start_high_ms = r.start_high_ms;
    why_plan(w, t, &r, now_ms, y);
    why_late(w, t, item, now_ms, y);
    if (t->staged)
        why_staged(t, y);
}

static void why_suspended(const struct task *t, struct why *y)
{
    const struct task_away *a = t->away;
    char at[32];

    clock_print(a->since_ms, at, sizeof(at));
    (void) snprintf(y->suspended, sizeof(y->suspended), "It is suspended since "
                    "%s%s%s: %s in the memory of %s.%s%.120s", at,
                    a->by ? ", for " : a->awake ? ", for it was idle" : "",
                    a->by ? a->by : "",
                    bytes(a->bytes * t->leases_left).text,
                    t->leases[0].block->node,
                    a->kept ? "  It could not be resumed: " : "",
                    a->kept ? a->text : "");
}

static void why_waiting(const struct world *w, const struct task *t,
                        uint64_t now_ms, struct why *y)
{
    if (why_aside(t, now_ms, y))
        return;
    if (t->in_line)
        why_in_line(w, t, now_ms, y);
    else
        say(y, WHY_ORDER, "It is about to be put in line.");
}

void why_task(const struct world *w, const struct task *t, uint64_t now_ms,
              struct why *ret)
{
    memset(ret, 0, sizeof(*ret));
    switch ((enum task_state) t->state) {
    case TASK_ENDED:
        why_ended(t, ret);
        break;
    case TASK_STARTING:
    case TASK_RUNNING:
    case TASK_ENDING:
        why_begun(t, ret);
        break;
    case TASK_BLOCKED:
        why_needs(t, ret);
        break;
    case TASK_SUSPENDED:
        why_suspended(t, ret);
        why_waiting(w, t, now_ms, ret);
        break;
    case TASK_WAITING:
        why_waiting(w, t, now_ms, ret);
        break;
    case TASK_STATE_COUNT:
        break;
    }
}
