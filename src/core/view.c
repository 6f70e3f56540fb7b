#include "core/world_int.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "core/why.h"

#include <math.h>

/* The rows' bodies.  What people read stands at the top: times in words, sizes
 * in whole units.  What only load.c needs (exact milliseconds, flags) stands
 * under "_", which the API leaves out.  Blocks, tenants and the rest are in
 * view_pool.c.
 */
void view_time(json_t *j, const char *key, uint64_t ms)
{
    char text[32];

    if (ms == 0)
        return;
    clock_print(ms < TIME_MAX ? ms : TIME_MAX, text, sizeof(text));
    json_put_str(j, key, text);
}

void view_some(json_t *j, const char *key, uint64_t value)
{
    if (value)
        json_put_u64(j, key, value);
}

void view_flag(json_t *j, const char *key, bool value)
{
    if (value)
        json_put_bool(j, key, true);
}

/* Millionths, to four digits: money and device-hours. */
void view_micro(json_t *j, const char *key, uint64_t micro)
{
    uint64_t digits = micro / 100;

    json_put(j, key, json_real((double) digits / 1e4));
}

static json_t *view_counts(const struct workload *wl)
{
    json_t *j = json_object();

    json_put_u64(j, "total", wl->spec->ntasks);
    for (unsigned s = 0; s < TASK_STATE_COUNT; s++)
        json_put_u64(j, task_state_name((enum task_state) s), wl->count[s]);
    for (unsigned o = OUTCOME_SUCCEEDED; o < OUTCOME_COUNT; o++)
        json_put_u64(j, outcome_name((enum outcome) o), wl->outcomes[o]);
    return j;
}

static json_t *workload_hidden(const struct workload *wl)
{
    json_t *j = json_object();

    json_put_str(j, "who", wl->who);
    json_put_str(j, "key", wl->key);
    json_put_str(j, "hash", wl->hash);
    json_put_u64(j, "gid", wl->user.gid);
    json_put_u64(j, "submitted_ms", wl->submitted_ms);
    view_some(j, "ended_ms", wl->ended_ms);
    view_some(j, "used_gpu_ms", wl->used_gpu_ms);
    view_flag(j, "aborting", wl->aborting);
    view_flag(j, "limited", wl->limited);
    view_flag(j, "force", wl->force);
    view_flag(j, "quarantined", wl->quarantined);
    view_some(j, "gen_floor", wl->gen_floor);
    view_some(j, "used_cost_micro", wl->used_cost_micro);
    view_some(j, "lost_gpu_ms", wl->lost_gpu_ms);
    if (wl->nguesses)
        json_put(j, "guesses", guesses_row(wl));
    return j;
}

/* What its tasks may use up between them, where something is said. */
static void view_limits(json_t *j, const struct spec *s)
{
    json_t *limits = json_object();

    if (s->limit_gpu_ms)
        json_put_milli(limits, "gpu_seconds", s->limit_gpu_ms);
    if (s->limit_wall_ms)
        json_put_milli(limits, "wall_seconds", s->limit_wall_ms);
    if (s->limit_cost_micro)
        view_micro(limits, "cost", s->limit_cost_micro);
    if (json_object_size(limits) > 0)
        json_put(j, "limits", limits);
    else
        json_decref(limits);
}

json_t *view_workload(const struct workload *wl)
{
    json_t *j = json_object(), *labels = json_object();
    char id[24];

    workload_id_print(wl->id, id, sizeof(id));
    json_put_str(j, "id", id);
    json_put_str(j, "name", wl->spec->name);
    json_put_str(j, "kind", wl->spec->kind == SPEC_JOB ? "job" : "pipeline");
    json_put_str(j, "tenant", wl->tenant_name);
    json_put_str(j, "user", wl->user.name);
    json_put_u64(j, "uid", wl->user.uid);
    json_put(j, "priority", json_integer(wl->priority));
    json_put_str(j, "state", workload_state_name(workload_state(wl)));
    if (wl->outcome != OUTCOME_NONE)
        json_put_str(j, "outcome", outcome_name(wl->outcome));
    view_time(j, "submitted", wl->submitted_ms);
    view_time(j, "ended", wl->ended_ms);
    view_time(j, "deadline", wl->spec->deadline_ms);
    json_put(j, "tasks", view_counts(wl));
    for (uint32_t i = 0; i < wl->spec->nlabels; i++)
        json_put_str(labels, wl->spec->labels[i].key,
                     wl->spec->labels[i].value);
    json_put(j, "labels", labels);
    json_put_milli(j, "gpu_seconds", wl->used_gpu_ms);
    view_micro(j, "cost", wl->used_cost_micro);
    view_limits(j, wl->spec);
    if (wl->retry_of) {
        workload_id_print(wl->retry_of, id, sizeof(id));
        json_put_str(j, "retry_of", id);
    }
    json_put_bool(j, "paused", wl->paused);
    json_put(j, "_", workload_hidden(wl));
    return j;
}

static json_t *view_lease(const struct lease *l)
{
    json_t *j = json_object(), *devices = json_array();

    json_put_u64(j, "rank", l->rank);
    json_put_str(j, "state", lease_state_name(l->state));
    json_put_str(j, "block", l->block->id);
    json_put_str(j, "node", l->block->node);
    for (uint32_t i = 0; i < l->grant.ndevices; i++)
        json_array_append_new(devices, json_integer(l->grant.device[i]));
    json_put(j, "devices", devices);
    if (l->grant.ndevices)
        json_put_milli(j, "share", l->grant.milli);
    view_flag(j, "simulated", l->block->simulated && l->grant.ndevices);
    view_time(j, "planned", l->planned_ms);
    view_time(j, "claimed", l->claimed_ms);
    return j;
}

/* Of each lease, in order of rank: planned, claimed, generation, price, back
 * on its devices since, off them.
 */
static json_t *ranked_hidden(const struct lease *l)
{
    uint64_t until = l->run_until < INT64_MAX ? l->run_until : INT64_MAX;

    return json_pack("[i,I]", (int) l->run_level, (json_int_t) until);
}

static json_t *leases_hidden(const struct task *t)
{
    json_t *all = json_array();

    for (uint32_t i = 0; i < t->ranks; i++) {
        const struct lease *l = &t->leases[i];

        json_array_append_new(all, json_pack("[I,I,I,I,I,i]",
                              (json_int_t) l->planned_ms,
                              (json_int_t) l->claimed_ms, (json_int_t) l->gen,
                              (json_int_t) l->price_micro,
                              (json_int_t) l->from_ms, (int) l->off));
    }
    return all;
}

static json_t *task_hidden(const struct task *t)
{
    json_t *j = json_object();

    json_put_u64(j, "since_ms", t->since_ms);
    view_some(j, "ready_ms", t->ready_ms);
    view_some(j, "not_before_ms", t->not_before_ms);
    view_some(j, "started_ms", t->started_ms);
    view_some(j, "ended_ms", t->ended_ms);
    view_some(j, "attempt_ms", t->attempt_ms);
    if (t->away)
        json_put(j, "away", away_hidden(t->away));
    view_some(j, "used_wall_ms", t->used_wall_ms);
    view_some(j, "used_gpu_ms", t->used_gpu_ms);
    view_some(j, "used_cost_micro", t->used_cost_micro);
    view_some(j, "lost_gpu_ms", t->lost_gpu_ms);
    view_some(j, "attempt_gpu_ms", t->attempt_gpu_ms);
    view_some(j, "level", t->level);
    view_some(j, "gens_staged", t->gens_staged);
    view_some(j, "port", t->port);
    if (t->staged)
        json_put(j, "staged", json_pack("[I,I]", (json_int_t) t->staged->gen,
                 (json_int_t) t->staged->since_ms));
    view_some(j, "for_workload", t->for_workload);
    view_some(j, "for_task", t->for_task);
    view_flag(j, "preempting", t->preempting);
    view_flag(j, "by_suspend", t->preempting == PREEMPT_SUSPEND);
    view_some(j, "losses", t->losses);
    view_flag(j, "stopping", t->stopping);
    view_flag(j, "aborting", t->aborting);
    view_flag(j, "force", t->force);
    view_flag(j, "forced", t->forced);
    if (t->status)
        json_put(j, "status", json_integer(t->status));
    if (t->stop_cause)
        json_put_str(j, "stop_cause",
                     spec_cause_name((enum spec_cause) t->stop_cause));
    if (t->leases) {
        json_put(j, "leases", leases_hidden(t));
        json_put_u64(j, "placed_ms", t->placed_ms);
        if (t->leases->ranked)
            json_put(j, "ranked", ranked_hidden(t->leases));
        view_some(j, "alarm_ms", t->timer.asleep ? 0 : t->timer.due_ms);
    }
    return j;
}

/* A float has more digits than it knows. */
static double digits3(double value)
{
    return round(value * 1000) / 1000;
}

static void view_end(json_t *j, const struct task *t)
{
    if (t->outcome != OUTCOME_NONE)
        json_put_str(j, "outcome", outcome_name((enum outcome) t->outcome));
    if (t->cause != SPEC_CAUSE_NONE)
        json_put_str(j, "cause", spec_cause_name((enum spec_cause) t->cause));
    json_put_str(j, "reason", task_reason(t));
    if (t->status < 0)
        json_put_u64(j, "signal", (uint64_t) -(int64_t) t->status);
    else if (t->state == TASK_ENDED && t->gen > 0)
        json_put_u64(j, "status", (uint64_t) t->status);
}

json_t *view_task(const struct task *t)
{
    json_t *j = json_object(), *needs = json_array(), *leases = json_array();
    char id[24];

    workload_id_print(t->workload->id, id, sizeof(id));
    json_put_str(j, "workload", id);
    json_put_str(j, "task", t->spec->name);
    json_put_u64(j, "index", t->index);
    json_put_str(j, "state", task_state_name((enum task_state) t->state));
    view_end(j, t);
    json_put_u64(j, "attempt", t->gen);
    json_put_u64(j, "tries", t->tries);
    json_put_milli(j, "gpus", t->spec->gpu_milli);
    json_put_milli(j, "cpus", t->spec->cpu_milli);
    view_some(j, "memory", t->spec->memory);
    json_put_u64(j, "ranks", t->ranks ? t->ranks : t->spec->ranks);
    if (t->own_priority)
        json_put(j, "priority", json_integer(t->priority));
    view_flag(j, "paused", t->paused);
    for (uint32_t i = 0; i < t->spec->nneeds; i++)
        json_array_append_new(needs, json_string(
            t->workload->tasks[t->spec->needs[i]].spec->name));
    json_put(j, "needs", needs);
    view_time(j, "since", t->since_ms);
    view_time(j, "ready", t->ready_ms);
    view_time(j, "started", t->started_ms);
    view_time(j, "ended", t->ended_ms);
    if (t->leases)
        view_time(j, "attempt_started", t->attempt_ms);
    if (t->leases && !away_off(t))
        view_time(j, "running_since", task_stretch_ms(t));
    if (t->used_wall_ms)
        json_put_milli(j, "run_seconds", t->used_wall_ms);
    if (t->state == TASK_WAITING)
        view_time(j, "not_before", t->not_before_ms);
    for (uint32_t i = 0; t->leases && i < t->ranks; i++)
        json_array_append_new(leases, view_lease(&t->leases[i]));
    json_put(j, "leases", leases);
    if (t->staged)
        json_put(j, "staged", stage_view(t->staged));
    if (t->away)
        json_put(j, "suspend", away_view(t));
    if (t->leases)
        json_put(j, "score", json_real(digits3((double) t->score)));
    json_put_milli(j, "gpu_seconds", t->used_gpu_ms);
    view_micro(j, "cost", t->used_cost_micro);
    if (t->lost_gpu_ms)
        json_put_milli(j, "gpu_seconds_lost", t->lost_gpu_ms);
    if (t->progress)
        json_put(j, "progress", progress_row(t->progress));
    json_put(j, "_", task_hidden(t));
    return j;
}

json_t *why_json(const struct why *y)
{
    json_t *j = json_object();

    json_put_str(j, "code", why_code_name(y->code));
    json_put_str(j, "text", y->text);
    if (y->change[0])
        json_put_str(j, "change", y->change);
    if (y->late[0])
        json_put_str(j, "late", y->late);
    if (y->staged[0])
        json_put_str(j, "staged", y->staged);
    if (y->suspended[0])
        json_put_str(j, "suspended", y->suspended);
    if (y->position)
        json_put_u64(j, "position", y->position);
    if (y->start_ms) {
        json_t *start = json_object();

        view_time(start, "low", y->start_low_ms);
        view_time(start, "mid", y->start_ms);
        view_time(start, "high", y->start_high_ms);
        json_put(j, "start", start);
    }
    return j;
}
