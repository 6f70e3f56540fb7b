#include "core/world_int.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

/* The rows' bodies.  What people read stands at the top: times in words, sizes
 * in whole units.  What only load.c needs (exact milliseconds, flags) stands
 * under "_", which the API leaves out.
 */
static void put_time(json_t *j, const char *key, uint64_t ms)
{
    char text[32];

    if (ms == 0)
        return;
    clock_print(ms < TIME_MAX ? ms : TIME_MAX, text, sizeof(text));
    json_put_str(j, key, text);
}

static void put_some(json_t *j, const char *key, uint64_t value)
{
    if (value)
        json_put_u64(j, key, value);
}

static void put_flag(json_t *j, const char *key, bool value)
{
    if (value)
        json_put_bool(j, key, true);
}

/* Thousandths as a number that shows no more digits than it has. */
static void put_milli(json_t *j, const char *key, uint64_t milli)
{
    if (milli % 1000 == 0)
        json_put_u64(j, key, milli / 1000);
    else
        json_put(j, key, json_real((double) milli / 1000.0));
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
    put_some(j, "ended_ms", wl->ended_ms);
    put_some(j, "used_gpu_ms", wl->used_gpu_ms);
    put_flag(j, "aborting", wl->aborting);
    put_flag(j, "force", wl->force);
    put_flag(j, "quarantined", wl->quarantined);
    put_some(j, "gen_floor", wl->gen_floor);
    return j;
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
    json_put(j, "priority", json_integer(wl->spec->priority));
    json_put_str(j, "state", workload_state_name(workload_state(wl)));
    if (wl->outcome != OUTCOME_NONE)
        json_put_str(j, "outcome", outcome_name(wl->outcome));
    put_time(j, "submitted", wl->submitted_ms);
    put_time(j, "ended", wl->ended_ms);
    put_time(j, "deadline", wl->spec->deadline_ms);
    json_put(j, "tasks", view_counts(wl));
    for (uint32_t i = 0; i < wl->spec->nlabels; i++)
        json_put_str(labels, wl->spec->labels[i].key,
                     wl->spec->labels[i].value);
    json_put(j, "labels", labels);
    put_milli(j, "gpu_seconds", wl->used_gpu_ms);
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
        put_milli(j, "share", l->grant.milli);
    put_flag(j, "simulated", l->block->simulated && l->grant.ndevices);
    put_time(j, "planned", l->planned_ms);
    put_time(j, "claimed", l->claimed_ms);
    return j;
}

/* Of each lease, in order of rank: planned, claimed, generation. */
static json_t *leases_hidden(const struct task *t)
{
    json_t *all = json_array();

    for (uint32_t i = 0; i < t->spec->ranks; i++) {
        const struct lease *l = &t->leases[i];

        json_array_append_new(all, json_pack("[I,I,I]",
                              (json_int_t) l->planned_ms,
                              (json_int_t) l->claimed_ms, (json_int_t) l->gen));
    }
    return all;
}

static json_t *task_hidden(const struct task *t)
{
    json_t *j = json_object();

    json_put_u64(j, "since_ms", t->since_ms);
    put_some(j, "ready_ms", t->ready_ms);
    put_some(j, "not_before_ms", t->not_before_ms);
    put_some(j, "started_ms", t->started_ms);
    put_some(j, "ended_ms", t->ended_ms);
    put_some(j, "attempt_ms", t->attempt_ms);
    put_some(j, "used_wall_ms", t->used_wall_ms);
    put_some(j, "used_gpu_ms", t->used_gpu_ms);
    put_some(j, "losses", t->losses);
    put_flag(j, "stopping", t->stopping);
    put_flag(j, "aborting", t->aborting);
    put_flag(j, "force", t->force);
    put_flag(j, "forced", t->forced);
    if (t->status)
        json_put(j, "status", json_integer(t->status));
    if (t->stop_cause)
        json_put_str(j, "stop_cause",
                     spec_cause_name((enum spec_cause) t->stop_cause));
    if (t->leases) {
        json_put(j, "leases", leases_hidden(t));
        put_some(j, "alarm_ms", t->timer.due_ms);
    }
    return j;
}

static void view_end(json_t *j, const struct task *t)
{
    if (t->outcome != OUTCOME_NONE)
        json_put_str(j, "outcome", outcome_name((enum outcome) t->outcome));
    if (t->cause != SPEC_CAUSE_NONE)
        json_put_str(j, "cause", spec_cause_name((enum spec_cause) t->cause));
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
    put_milli(j, "gpus", t->spec->gpu_milli);
    put_milli(j, "cpus", t->spec->cpu_milli);
    put_some(j, "memory", t->spec->memory);
    json_put_u64(j, "ranks", t->spec->ranks);
    for (uint32_t i = 0; i < t->spec->nneeds; i++)
        json_array_append_new(needs, json_string(
            t->workload->tasks[t->spec->needs[i]].spec->name));
    json_put(j, "needs", needs);
    put_time(j, "since", t->since_ms);
    put_time(j, "ready", t->ready_ms);
    put_time(j, "started", t->started_ms);
    put_time(j, "ended", t->ended_ms);
    if (t->state == TASK_WAITING)
        put_time(j, "not_before", t->not_before_ms);
    for (uint32_t i = 0; t->leases && i < t->spec->ranks; i++)
        json_array_append_new(leases, view_lease(&t->leases[i]));
    json_put(j, "leases", leases);
    put_milli(j, "gpu_seconds", t->used_gpu_ms);
    json_put(j, "_", task_hidden(t));
    return j;
}

static json_t *view_device(const struct device *d, uint32_t index)
{
    json_t *j = json_object();

    json_put_u64(j, "index", index);
    json_put_str(j, "model", d->model);
    json_put_u64(j, "memory", d->memory);
    json_put_bool(j, "simulated", d->simulated);
    put_milli(j, "free", d->free_milli);
    return j;
}

json_t *view_block(const struct block *b)
{
    json_t *j = json_object(), *devices = json_array(), *hidden = json_object();

    json_put_str(j, "id", b->id);
    json_put_str(j, "pool", b->pool);
    json_put_str(j, "engine", b->engine);
    json_put_str(j, "node", b->node);
    json_put_str(j, "state", b->up ? "up" : "down");
    json_put_bool(j, "drained", b->drained);
    json_put_bool(j, "simulated", b->simulated);
    json_put_str(j, "limits", b->limits);
    put_milli(j, "cpus", b->cpu_milli);
    put_milli(j, "cpus_free", b->cpu_free);
    json_put_u64(j, "memory", b->memory);
    json_put_u64(j, "memory_free", b->memory_free);
    for (uint32_t i = 0; i < b->ndevices; i++)
        json_array_append_new(devices, view_device(&b->devices[i], i));
    json_put(j, "devices", devices);
    put_time(j, "up", b->up_ms);
    json_put_u64(hidden, "cpus_milli", b->cpu_milli);
    json_put_u64(hidden, "up_ms", b->up_ms);
    json_put(j, "_", hidden);
    return j;
}

json_t *view_tenant(const struct tenant *t)
{
    json_t *j = json_object(), *hidden = json_object();

    json_put_str(j, "name", t->name);
    json_put(j, "members", json_deep_copy(t->members));
    if (t->max_gpu_milli == UINT32_MAX)
        json_put_str(j, "max_gpus", "unlimited");
    else
        put_milli(j, "max_gpus", t->max_gpu_milli);
    json_put_u64(j, "weight", t->weight);
    json_put_str(j, "note", t->note);
    put_milli(j, "gpus_held", t->used_gpu_milli);
    put_milli(j, "gpu_seconds", t->used_gpu_ms);
    put_milli(j, "cpu_seconds", t->used_cpu_ms);
    json_put_u64(j, "tasks_ended", t->tasks_ended);
    put_time(j, "created", t->created_ms);
    put_flag(j, "removed", t->removed);
    json_put_u64(hidden, "max_gpus_milli", t->max_gpu_milli);
    json_put_u64(hidden, "used_gpu_ms", t->used_gpu_ms);
    json_put_u64(hidden, "used_cpu_ms", t->used_cpu_ms);
    json_put_u64(hidden, "created_ms", t->created_ms);
    json_put(j, "_", hidden);
    return j;
}

json_t *view_token(const struct token *t)
{
    json_t *j = json_object();

    json_put_str(j, "id", t->id);
    json_put_str(j, "name", t->name);
    if (t->tenant[0])
        json_put_str(j, "tenant", t->tenant);
    json_put_str(j, "role", t->role);
    json_put_str(j, "user", t->user.name);
    json_put_u64(j, "uid", t->user.uid);
    put_time(j, "created", t->created_ms);
    put_time(j, "expires", t->expires_ms);
    json_put_bool(j, "revoked", t->revoked);
    return j;
}

json_t *view_token_row(const struct token *t)
{
    json_t *j = view_token(t), *hidden = json_object();

    json_put_str(hidden, "hash", t->hash);
    json_put_u64(hidden, "gid", t->user.gid);
    json_put_u64(hidden, "created_ms", t->created_ms);
    json_put_u64(hidden, "expires_ms", t->expires_ms);
    json_put(j, "_", hidden);
    return j;
}

/* To six digits. */
static double ratio(uint64_t part, uint64_t whole)
{
    uint64_t millionths = 0;

    if (whole)
        millionths = (uint64_t) ((double) part / (double) whole * 1e6 + 0.5);
    return (double) millionths / 1e6;
}

json_t *view_meter(const struct meter *m)
{
    json_t *j = json_object();

    put_milli(j, "device_seconds", m->total);
    put_milli(j, "used", m->used);
    put_milli(j, "idle_nodemand", m->idle_nodemand);
    put_milli(j, "idle_frag", m->idle_frag);
    put_milli(j, "waste", m->waste);
    json_put(j, "wr", json_real(ratio(m->waste + m->idle_frag, m->total)));
    json_put(j, "utilisation", json_real(ratio(m->used, m->total)));
    put_milli(j, "cpu_seconds", m->cpu_total / 1000);
    put_milli(j, "cpu_used", m->cpu_used / 1000);
    return j;
}

json_t *view_tally(const struct tally *t)
{
    json_t *j = json_object();

    json_put_u64(j, "last_ms", t->last_ms);
    json_put_u64(j, "used", t->used);
    json_put_u64(j, "idle_nodemand", t->idle_nodemand);
    json_put_u64(j, "idle_frag", t->idle_frag);
    json_put_u64(j, "waste", t->waste);
    json_put_u64(j, "cpu_idle", t->cpu_idle);
    json_put_u64(j, "cpu_used", t->cpu_used);
    return j;
}

json_t *view_epoch(const struct world *w)
{
    json_t *j = json_object();

    json_put_u64(j, "epoch", w->epoch);
    json_put_u64(j, "next_workload", w->next_workload);
    return j;
}
