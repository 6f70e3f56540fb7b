#include "api/handlers.h"

#include "api/api_int.h"
#include "api/strays.h"
#include "base/json.h"
#include "base/mem.h"
#include "core/world.h"
#include "plan/plan.h"

#include <string.h>

/* What is there and what is free of it, in thousandths. */
struct sum {
    uint64_t devices, devices_free, cpus, cpus_free, memory, memory_free;
};

static void block_sum(const struct block *b, struct sum *s)
{
    if (!b->up)
        return;
    s->cpus += b->cpu_milli;
    s->cpus_free += b->cpu_free;
    s->memory += b->memory;
    s->memory_free += b->memory_free;
    for (uint32_t i = 0; i < b->ndevices; i++) {
        s->devices += 1000;
        s->devices_free += b->devices[i].free_milli;
    }
}

typedef void (*put_f)(json_t *o, const char *key, uint64_t value);

static void put_pair(json_t *o, const char *name, put_f put, uint64_t total,
                     uint64_t left)
{
    json_t *pair = json_object();

    put(pair, "total", total);
    put(pair, "free", left);
    json_put(o, name, pair);
}

static bool has_device(const struct grant *g, uint32_t device)
{
    for (uint32_t i = 0; i < g->ndevices; i++) {
        if (g->device[i] == device)
            return true;
    }
    return false;
}

/* Of another tenant's lease only the share shows. */
static json_t *lease_view(const struct call *c, const struct lease *l)
{
    const struct workload *wl = l->task->workload;
    json_t *o = json_object();
    char id[24];

    json_put_milli(o, "share", l->grant.milli);
    if (!auth_sees(c->api, &c->who, wl->tenant_name))
        return o;
    workload_id_print(wl->id, id, sizeof id);
    json_put_str(o, "workload", id);
    json_put_str(o, "task", l->task->spec->name);
    json_put_u64(o, "rank", l->rank);
    json_put_str(o, "tenant", wl->tenant_name);
    return o;
}

static json_t *device_view(const struct call *c, const struct block *b,
                           uint32_t index)
{
    const struct device *d = &b->devices[index];
    json_t *o = json_object(), *leases = json_array();
    json_t *health = view_health(d);
    const json_t *t;

    json_put_u64(o, "index", index);
    json_put_str(o, "model", d->model);
    json_put_str(o, "uuid", d->uuid[0] ? d->uuid : NULL);
    json_put_u64(o, "memory", d->memory);
    json_put_bool(o, "simulated", d->simulated);
    if (d->drained)
        json_put_bool(o, "drained", true);
    if (d->lost)
        json_put_bool(o, "lost", true);
    if (health)
        json_put(o, "health", health);
    t = d->uuid[0] ? c->api->ops->telemetry(b->id, d->uuid, c->api->arg) : NULL;
    if (t) {
        json_t *copy = json_copy((json_t *) (uintptr_t) t);

        (void) json_object_del(copy, "uuid");
        json_put(o, "telemetry", copy);
    }
    if (d->uuid[0])
        put_device_strays(c, b, d->uuid, o);
    json_put_milli(o, "free", d->free_milli);
    for (const struct lease *l = b->leases; l; l = l->next_on_block) {
        if (!l->off && has_device(&l->grant, index))
            (void) json_array_append_new(leases, lease_view(c, l));
    }
    json_put(o, "leases", leases);
    return o;
}

static json_t *node_view(const struct call *c, const struct block *b)
{
    json_t *o = json_object(), *devices = json_array();

    json_put_str(o, "name", b->node);
    json_put_str(o, "block", b->id);
    json_put_bool(o, "up", b->up);
    json_put_bool(o, "drained", b->drained);
    json_put_bool(o, "simulated", b->simulated);
    json_put_str(o, "limits", b->limits);
    if (b->domain[0])
        json_put_str(o, "domain", b->domain);
    if (json_object_size(b->labels))
        json_put(o, "labels", json_deep_copy(b->labels));
    put_pair(o, "cpus", json_put_milli, b->cpu_milli, b->cpu_free);
    put_pair(o, "memory", json_put_u64, b->memory, b->memory_free);
    for (uint32_t i = 0; i < b->ndevices; i++)
        (void) json_array_append_new(devices, device_view(c, b, i));
    json_put(o, "devices", devices);
    return o;
}

/* The pool of that name; NULL when no block is in it. */
static json_t *pool_view(const struct call *c, const char *name)
{
    json_t *nodes = json_array(), *o;
    const struct block *b, *first = NULL;
    bool simulated = false;
    struct sum s = { 0 };
    size_t pos = 0;

    while ((b = world_next_block(api_world(c->api), &pos))) {
        if (strcmp(b->pool, name) != 0)
            continue;
        first = first ? first : b;
        simulated = simulated || b->simulated;
        block_sum(b, &s);
        (void) json_array_append_new(nodes, node_view(c, b));
    }
    if (!first) {
        json_decref(nodes);
        return NULL;
    }
    o = json_object();
    json_put_str(o, "name", first->pool);
    json_put_str(o, "engine", first->engine);
    json_put_bool(o, "simulated", simulated);
    put_pair(o, "devices", json_put_milli, s.devices, s.devices_free);
    put_pair(o, "cpus", json_put_milli, s.cpus, s.cpus_free);
    put_pair(o, "memory", json_put_u64, s.memory, s.memory_free);
    json_put(o, "nodes", nodes);
    return o;
}

static bool shown(const json_t *items, const char *name)
{
    json_t *o;
    size_t i;

    json_array_foreach(items, i, o) {
        if (strcmp(json_get_str(o, "name", ""), name) == 0)
            return true;
    }
    return false;
}

void get_pools(struct call *c)
{
    json_t *items = json_array();
    const struct block *b;
    size_t pos = 0;

    while ((b = world_next_block(api_world(c->api), &pos))) {
        if (!shown(items, b->pool))
            (void) json_array_append_new(items, pool_view(c, b->pool));
    }
    reply_items(c, items, NULL);
}

void get_pool(struct call *c)
{
    json_t *o = pool_view(c, c->param[0]);

    if (o)
        reply_json(c, 200, o);
    else
        reply_absent(c, "pool", c->param[0]);
}

static void put_share(json_t *o, const char *name, uint64_t part,
                      uint64_t total)
{
    json_put(o, name, json_real(total ? (double) part / (double) total : 0));
}

static void put_shares(json_t *o, const struct plan_shares *s)
{
    uint64_t total = plan_shares_total(s);

    put_share(o, "wr", s->waste + s->idle_frag, total);
    put_share(o, "waste", s->waste, total);
    put_share(o, "idle_frag", s->idle_frag, total);
    put_share(o, "idle_nodemand", s->idle_nodemand, total);
    put_share(o, "used", s->used, total);
}

/* Of the tenants that the caller may see. */
static json_t *tenant_shares(struct call *c, const struct plan_meter *m)
{
    const struct world *w = api_world(c->api);
    json_t *all = json_array();
    const struct tenant *t;
    size_t pos = 0;

    while ((t = world_next_tenant(w, &pos))) {
        uint64_t idle = tenant_idle_ms(w, t, api_now(c->api));
        json_t *o;

        if (t->removed || !auth_sees(c->api, &c->who, t->name))
            continue;
        o = json_object();
        json_put_str(o, "tenant", t->name);
        json_put_milli(o, "idle_device_seconds", idle);
        put_share(o, "wr", idle * 1000, plan_shares_total(&m->devices));
        json_array_append_new(all, o);
    }
    return all;
}

void get_waste(struct call *c)
{
    const struct world *w = api_world(c->api);
    json_t *o = json_object(), *cpus = json_object();
    struct plan_meter m;

    api_meter(c->api, &m);
    put_shares(o, &m.devices);
    json_put_milli(o, "total_device_seconds",
                   plan_shares_total(&m.devices) / 1000);
    json_put_u64(o, "waiting", world_waiting(w));
    put_shares(cpus, &m.cpus);
    json_put(o, "cpus", cpus);
    json_put(o, "parts", view_meter_parts(w));
    json_put(o, "tenants", tenant_shares(c, &m));
    reply_json(c, 200, o);
}
