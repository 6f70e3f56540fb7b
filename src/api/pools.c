#include "api/handlers.h"

#include "api/api_int.h"
#include "api/strays.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "core/world.h"
#include "plan/plan.h"

#include <errno.h>
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
    s->memory += b->memory;
    s->devices += UINT64_C(1000) * b->ndevices;
    if (b->shut)
        return;
    s->cpus_free += b->cpu_free;
    s->memory_free += b->memory_free;
    for (uint32_t i = 0; i < b->ndevices; i++)
        s->devices_free += b->devices[i].free_milli;
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
    if (b->shut)
        json_put_bool(o, "shut", true);
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

/* What was said about it, and what its engine says.  What it is told may name
 * what is nobody else's business.
 */
static void put_said(const struct call *c, json_t *o, const struct pool *p,
                     const struct service_pool *s)
{
    char at[32];

    json_put_str(o, "state", s->known && s->reachable ? "ready" :
                 s->why[0] ? "unreachable" : "starting");
    if (s->why[0])
        json_put_str(o, "why", s->why);
    if (s->own)
        json_put_bool(o, "own", true);
    if (p && p->drained)
        json_put_bool(o, "drained", true);
    if (!p || !p->set)
        return;
    if (p->observe)
        json_put_bool(o, "observe", true);
    json_put_str(o, "note", p->note[0] ? p->note : NULL);
    clock_print(p->created_ms, at, sizeof at);
    json_put_str(o, "created", at);
    if (c->who.role >= ROLE_OPERATOR)
        json_put(o, "conf", json_deep_copy(p->conf));
}

/* ---- pools that are observed ---- */

static uint64_t part(const json_t *node, const char *name, const char *key)
{
    return json_get_u64(json_object_get(node, name), key, 0);
}

/* In the form of node_view, as far as an observer can say. */
static json_t *seen_node(const json_t *n, struct sum *s)
{
    static const char *const same[] = { "name", "model", "device_memory",
                                        "domain", "others", "closed", "pods" };
    uint64_t devices = part(n, "devices", "total");
    uint64_t left = part(n, "devices", "free");
    json_t *o = json_object();

    for (size_t i = 0; i < array_size(same); i++)
        if (json_object_get(n, same[i]))
            json_put(o, same[i], json_incref(json_object_get(n, same[i])));
    json_put(o, "block", json_string(""));
    json_put_bool(o, "up", true);
    json_put_bool(o, "drained", false);
    json_put_bool(o, "simulated", false);
    put_pair(o, "cpus", json_put_milli, part(n, "cpus_milli", "total"),
             part(n, "cpus_milli", "free"));
    put_pair(o, "memory", json_put_u64, part(n, "memory", "total"),
             part(n, "memory", "free"));
    put_pair(o, "device_count", json_put_u64, devices, left);
    json_put(o, "devices", json_array());
    s->cpus += part(n, "cpus_milli", "total");
    s->cpus_free += part(n, "cpus_milli", "free");
    s->memory += part(n, "memory", "total");
    s->memory_free += part(n, "memory", "free");
    s->devices += devices * 1000;
    s->devices_free += left * 1000;
    return o;
}

/* What others have there, and use of it. */
static void put_seen(const struct call *c, json_t *o, const char *name,
                     json_t *nodes, struct sum *s)
{
    autojson json_t *seen = c->api->ops->pool_seen(name, c->api->arg);
    const json_t *n;
    size_t i;

    json_array_foreach(json_object_get(seen, "nodes"), i, n)
        (void) json_array_append_new(nodes, seen_node(n, s));
    if (seen) {
        json_put_u64(o, "pods", json_get_u64(seen, "pods", 0));
        json_put_u64(o, "pods_waiting", json_get_u64(seen, "waiting", 0));
    }
}

/* The pool of that name; NULL: there is none. */
static json_t *pool_view(const struct call *c, const char *name)
{
    const struct pool *p = world_pool(api_world(c->api), name);
    struct service_pool said = { .engine = "", .why = "" };
    bool known = c->api->ops->pool(name, &said, c->api->arg);
    json_t *nodes, *o;
    const struct block *b, *first = NULL;
    bool simulated = false;
    struct sum s = { 0 };
    size_t pos = 0;

    nodes = json_array();
    while ((b = world_next_block(api_world(c->api), &pos))) {
        if (strcmp(b->pool, name) != 0)
            continue;
        first = first ? first : b;
        simulated = simulated || b->simulated;
        block_sum(b, &s);
        (void) json_array_append_new(nodes, node_view(c, b));
    }
    if (!first && !known && !(p && p->set)) {
        json_decref(nodes);
        return NULL;
    }
    o = json_object();
    json_put_str(o, "name", name);
    json_put_str(o, "engine", p && p->set ? p->engine :
                 known ? said.engine : first->engine);
    put_said(c, o, p, &said);
    put_seen(c, o, name, nodes, &s);
    json_put_bool(o, "simulated", simulated);
    put_pair(o, "devices", json_put_milli, s.devices, s.devices_free);
    put_pair(o, "cpus", json_put_milli, s.cpus, s.cpus_free);
    put_pair(o, "memory", json_put_u64, s.memory, s.memory_free);
    json_put(o, "nodes", nodes);
    return o;
}

static void add_pool(const struct call *c, json_t *items, const char *name)
{
    json_t *o;
    size_t i;

    json_array_foreach(items, i, o) {
        if (strcmp(json_get_str(o, "name", ""), name) == 0)
            return;
    }
    (void) json_array_append_new(items, pool_view(c, name));
}

void get_pools(struct call *c)
{
    json_t *items = json_array();
    const struct block *b;
    const struct pool *p;
    size_t pos = 0;

    while ((b = world_next_block(api_world(c->api), &pos)))
        add_pool(c, items, b->pool);
    pos = 0;
    while ((p = world_next_pool(api_world(c->api), &pos)))
        if (p->set)
            add_pool(c, items, p->name);
    reply_items(c, items, NULL);
}

static void reply_pool(struct call *c, unsigned status)
{
    json_t *o = pool_view(c, c->param[0]);

    if (o)
        reply_json(c, status, o);
    else
        reply_absent(c, "pool", c->param[0]);
}

void get_pool(struct call *c)
{
    reply_pool(c, 200);
}

/* ---- to add, change and remove ---- */

static void was_set(struct call *c, uint64_t seq, uint64_t workload,
                    void *arg)
{
    (void) seq;
    (void) workload;
    reply_pool(c, arg ? 201 : 200);
}

/* Is it what there is already, and of use?  One that cannot be reached is tried
 * again by setting it again.
 */
static bool is_same(const struct call *c, const struct pool *p,
                    const json_t *data)
{
    const json_t *conf = json_object_get(data, "conf");
    struct service_pool is = { .engine = "" };

    return p && p->set && c->api->ops->pool(p->name, &is, c->api->arg) &&
           (is.reachable || !is.known) &&
           strcmp(p->engine, json_get_str(data, "engine", "")) == 0 &&
           strcmp(p->note, json_get_str(data, "note", "")) == 0 &&
           p->observe == json_get_bool(data, "observe", false) &&
           (conf ? json_equal(p->conf, conf)
                 : json_object_size(p->conf) == 0);
}

/* A refusal of the service: the name is taken, a field makes no sense, or what
 * runs there is in the way.
 */
static bool refused(struct call *c)
{
    autojson json_t *none = json_object();
    const json_t *conf = json_object_get(c->body, "conf");
    struct err err = { 0 };
    int rc = pool_name_check(c->param[0], &err);

    if (rc == 0)
        rc = c->api->ops->pool_check(c->param[0],
                                     json_get_str(c->body, "engine", ""),
                                     conf ? conf : none,
                                     json_get_bool(c->body, "observe", false),
                                     &err, c->api->arg);
    if (rc < 0)
        reply_error(c, rc == -EEXIST || rc == -EBUSY ? 409 : 422, "%s",
                    err.text);
    return rc < 0;
}

void put_pool(struct call *c)
{
    static char created;
    const struct pool *p = world_pool(api_world(c->api), c->param[0]);
    struct event e;

    if (refused(c))
        return;
    if (is_same(c, p, c->body)) {
        reply_pool(c, 200);
        return;
    }
    call_event(c, &e, EVENT_POOL_SET);
    e.data = json_deep_copy(c->body);
    json_put_str(e.data, "name", c->param[0]);
    call_propose(c, &e, was_set, p && p->set ? NULL : &created);
}

/* An event about the pool of the path. */
static void pool_event(struct call *c, enum event_type type, call_then_f then)
{
    struct event e;

    call_event(c, &e, type);
    e.data = json_object();
    json_put_str(e.data, "name", c->param[0]);
    call_propose(c, &e, then, NULL);
}

void delete_pool(struct call *c)
{
    const struct pool *p = world_pool(api_world(c->api), c->param[0]);
    autojson json_t *is = pool_view(c, c->param[0]);

    if (!is)
        reply_absent(c, "pool", c->param[0]);
    else if (!p || !p->set)
        reply_error(c, 409, "the pool '%s' is this control plane's own: it "
                    "goes with 'weir up'", c->param[0]);
    else
        pool_event(c, EVENT_POOL_REMOVED, reply_none_then);
}

static void set_drained(struct call *c, bool drained)
{
    const struct pool *p = world_pool(api_world(c->api), c->param[0]);
    autojson json_t *is = pool_view(c, c->param[0]);

    if (!is)
        reply_absent(c, "pool", c->param[0]);
    else if ((p && p->drained) == drained)
        reply_pool(c, 200);
    else
        pool_event(c, drained ? EVENT_POOL_DRAINED : EVENT_POOL_UNDRAINED,
                   was_set);
}

void post_pool_drain(struct call *c)
{
    set_drained(c, true);
}

void post_pool_undrain(struct call *c)
{
    set_drained(c, false);
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
