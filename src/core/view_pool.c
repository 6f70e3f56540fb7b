#include "core/world_int.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>

/* The rows' bodies of what there is: blocks, tenants, tokens, windows, the
 * policy and the meter.  See view.c.
 */
static json_t *view_device(const struct device *d, uint32_t index)
{
    json_t *j = json_object();

    json_put_u64(j, "index", index);
    json_put_str(j, "model", d->model);
    json_put_str(j, "uuid", d->uuid[0] ? d->uuid : NULL);
    json_put_u64(j, "memory", d->memory);
    json_put_bool(j, "simulated", d->simulated);
    view_flag(j, "drained", d->drained);
    view_flag(j, "lost", d->lost);
    if (json_object_size(d->rules))
        json_put(j, "health", view_health(d));
    json_put_milli(j, "free", d->free_milli);
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
    view_flag(j, "shut", b->shut);
    json_put_bool(j, "simulated", b->simulated);
    json_put_str(j, "limits", b->limits);
    view_flag(j, "stages", b->stages);
    view_flag(j, "suspends", b->suspends);
    view_flag(j, "images", b->images);
    view_flag(j, "whole", b->whole);
    if (b->domain[0])
        json_put_str(j, "domain", b->domain);
    if (json_object_size(b->labels))
        json_put(j, "labels", json_deep_copy(b->labels));
    json_put_milli(j, "cpus", b->cpu_milli);
    json_put_milli(j, "cpus_free", b->cpu_free);
    json_put_u64(j, "memory", b->memory);
    json_put_u64(j, "memory_free", block_memory_left(b));
    view_some(j, "memory_suspended", b->parked);
    for (uint32_t i = 0; i < b->ndevices; i++)
        json_array_append_new(devices, view_device(&b->devices[i], i));
    json_put(j, "devices", devices);
    view_time(j, "up", b->up_ms);
    json_put_u64(hidden, "cpus_milli", b->cpu_milli);
    json_put_u64(hidden, "up_ms", b->up_ms);
    json_put(j, "_", hidden);
    return j;
}

static json_t *view_budget(const struct budget *b)
{
    json_t *j = json_object();

    view_micro(j, "amount", b->amount);
    json_put_str(j, "unit", budget_unit_name(b->unit));
    json_put_milli(j, "period_s", b->period_ms);
    view_flag(j, "over", b->over);
    return j;
}

json_t *view_tenant(const struct tenant *t)
{
    json_t *j = json_object();

    json_put_str(j, "name", t->name);
    json_put(j, "members", json_deep_copy(t->members));
    if (t->parent)
        json_put_str(j, "parent", t->parent->name);
    if (t->max_gpu_milli == UINT32_MAX)
        json_put_str(j, "max_gpus", "unlimited");
    else
        json_put_milli(j, "max_gpus", t->max_gpu_milli);
    json_put_milli(j, "quota", t->quota_gpu_milli);
    json_put_u64(j, "weight", t->weight);
    if (t->budget.period_ms)
        json_put(j, "budget", view_budget(&t->budget));
    if (t->idle_grace_ms)
        json_put_milli(j, "idle_grace_seconds", t->idle_grace_ms);
    if (t->has_interactive)
        json_put(j, "interactive_priority", json_integer(t->interactive));
    json_put_str(j, "note", t->note);
    json_put_milli(j, "gpus_held", t->used_gpu_milli);
    json_put_milli(j, "gpu_seconds", t->used_gpu_ms);
    json_put_milli(j, "gpu_seconds_lost", t->lost_gpu_ms);
    json_put_milli(j, "cpu_seconds", t->used_cpu_ms);
    view_micro(j, "cost", t->used_cost_micro);
    json_put_u64(j, "tasks_ended", t->tasks_ended);
    view_time(j, "created", t->created_ms);
    view_flag(j, "removed", t->removed);
    return j;
}

/* Exact, which the numbers of JSON are not. */
static void put_exact(json_t *j, const char *key, double value)
{
    char text[40];

    (void) snprintf(text, sizeof(text), "%a", value);
    json_put_str(j, key, text);
}

json_t *view_tenant_row(const struct world *w, const struct tenant *t)
{
    json_t *j = view_tenant(t), *hidden = json_object();
    const struct plan_waited waited = tenant_waited(t);
    const struct budget *b = &t->budget;
    uint64_t usage_ms = 0;
    double usage = 0;

    if (t->plan_tenant)
        usage = plan_tenant_usage(w->plan, t->plan_tenant, &usage_ms);
    json_put_u64(hidden, "max_gpus_milli", t->max_gpu_milli);
    view_some(hidden, "quota_gpus_milli", t->quota_gpu_milli);
    view_some(hidden, "idle_grace_ms", t->idle_grace_ms);
    json_put_u64(hidden, "used_gpu_ms", t->used_gpu_ms);
    json_put_u64(hidden, "used_cpu_ms", t->used_cpu_ms);
    view_some(hidden, "used_cost_micro", t->used_cost_micro);
    view_some(hidden, "lost_gpu_ms", t->lost_gpu_ms);
    json_put_u64(hidden, "created_ms", t->created_ms);
    view_some(hidden, "idle", waited.idle);
    if (waited.waits)
        json_put_u64(hidden, "idle_mark", waited.mark);
    put_exact(hidden, "usage", usage);
    json_put_u64(hidden, "usage_ms", usage_ms);
    if (b->period_ms)
        json_put(hidden, "budget", json_pack("{s:I,s:I,s:s,s:I,s:I}",
                 "amount_micro", (json_int_t) b->amount, "period_ms",
                 (json_int_t) b->period_ms, "unit", budget_unit_name(b->unit),
                 "spent", (json_int_t) b->spent, "mark_ms",
                 (json_int_t) b->mark_ms));
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
    view_time(j, "created", t->created_ms);
    view_time(j, "expires", t->expires_ms);
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

static void put_shares(json_t *j, const struct plan_shares *s)
{
    json_put_u64(j, "used", s->used);
    json_put_u64(j, "idle_nodemand", s->idle_nodemand);
    json_put_u64(j, "idle_frag", s->idle_frag);
    json_put_u64(j, "waste", s->waste);
}

static void add_part(const char *pool, const char *model,
                     const struct plan_shares *s, void *arg)
{
    uint64_t total = plan_shares_total(s);
    json_t *j = json_object();

    json_put_str(j, "pool", pool);
    json_put_str(j, "model", model);
    json_put_milli(j, "used", s->used / 1000);
    json_put_milli(j, "idle_nodemand", s->idle_nodemand / 1000);
    json_put_milli(j, "idle_frag", s->idle_frag / 1000);
    json_put_milli(j, "waste", s->waste / 1000);
    json_put(j, "wr", json_real(ratio(s->waste + s->idle_frag, total)));
    json_put(j, "utilisation", json_real(ratio(s->used, total)));
    json_array_append_new(arg, j);
}

json_t *view_meter_parts(const struct world *w)
{
    json_t *all = json_array();

    plan_meter_each(w->plan, add_part, all);
    return all;
}

json_t *view_kept(struct world *w)
{
    json_t *j = json_object(), *cpus = json_object(), *parts = json_array();

    meter_keep(w);
    json_put_u64(j, "last_ms", w->meter.at_ms);
    put_shares(j, &w->meter.sum.devices);
    put_shares(cpus, &w->meter.sum.cpus);
    json_put(j, "cpus", cpus);
    view_some(j, "suspending", w->meter.sum.suspending);
    for (uint32_t i = 0; i < w->meter.nparts; i++) {
        json_t *one = json_object();

        json_put_str(one, "pool", w->meter.parts[i].pool);
        json_put_str(one, "model", w->meter.parts[i].model);
        put_shares(one, &w->meter.parts[i].shares);
        json_array_append_new(parts, one);
    }
    json_put(j, "parts", parts);
    return j;
}

json_t *view_epoch(const struct world *w)
{
    json_t *j = json_object();

    json_put_u64(j, "epoch", w->epoch);
    json_put_u64(j, "next_workload", w->next_workload);
    return j;
}

json_t *view_window(const struct window *v)
{
    json_t *j = json_object(), *hidden = json_object();

    json_put_str(j, "name", v->name);
    json_put_str(j, "tenant", v->tenant[0] ? v->tenant : NULL);
    json_put(j, "nodes", json_deep_copy(v->nodes));
    view_time(j, "from", v->from_ms);
    view_time(j, "to", v->to_ms);
    json_put_u64(hidden, "from_ms", v->from_ms);
    json_put_u64(hidden, "to_ms", v->to_ms);
    json_put(j, "_", hidden);
    return j;
}

json_t *view_policy(const struct world *w)
{
    json_t *j = json_object();

    json_put_u64(j, "version", w->policy_version);
    json_put(j, "policy", w->policy ? json_deep_copy(w->policy)
                                    : policy_to_json(world_policy(w)));
    return j;
}

/* To five digits. */
static json_t *gpu_hours(uint64_t ms)
{
    uint64_t digits = ms / 36;

    return json_real((double) digits / 1e5);
}

static json_t *cost_of_tenant(const struct tenant *t, uint64_t now_ms)
{
    json_t *j = json_object();

    json_put_str(j, "tenant", t->name);
    json_put_milli(j, "gpu_seconds", t->used_gpu_ms);
    json_put(j, "gpu_hours", gpu_hours(t->used_gpu_ms));
    json_put_milli(j, "cpu_seconds", t->used_cpu_ms);
    json_put_milli(j, "gpu_seconds_lost", t->lost_gpu_ms);
    view_micro(j, "cost", t->used_cost_micro);
    if (t->budget.period_ms) {
        json_t *b = view_budget(&t->budget);

        view_micro(b, "spent", budget_spent(t, now_ms));
        json_put(j, "budget", b);
    }
    return j;
}

json_t *view_cost(const struct world *w, uint64_t now_ms)
{
    json_t *j = json_object(), *all = json_array();
    uint64_t gpu_ms = 0, cost = 0;
    const struct tenant *t;
    size_t pos = 0;

    while ((t = world_next_tenant(w, &pos))) {
        gpu_ms = add_capped(gpu_ms, t->used_gpu_ms);
        cost = add_capped(cost, t->used_cost_micro);
        json_array_append_new(all, cost_of_tenant(t, now_ms));
    }
    json_put_milli(j, "gpu_seconds", gpu_ms);
    json_put(j, "gpu_hours", gpu_hours(gpu_ms));
    view_micro(j, "cost", cost);
    json_put(j, "tenants", all);
    return j;
}

uint64_t tenant_idle_ms(const struct world *w, const struct tenant *t,
                        uint64_t now_ms)
{
    struct plan_waited waited = tenant_waited(t);
    struct plan_meter m;

    plan_meter_at(w->plan, now_ms, &m);
    return plan_waited_idle(&waited, &m) / 1000;
}

void world_meter(const struct world *w, uint64_t now_ms,
                 struct plan_meter *ret)
{
    plan_meter_at(w->plan, now_ms, ret);
}
