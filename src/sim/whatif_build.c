#include "sim/whatif_int.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { MILLI = 1000 };

uint64_t whatif_time(const json_t *o, const char *key)
{
    const char *s = json_get_str(o, key, NULL);
    uint64_t ms = 0;

    return s && clock_parse(s, &ms, NULL) == 0 ? ms : 0;
}

const json_t *whatif_workload(const struct whatif *w, const char *id)
{
    json_t *o;
    size_t i;

    json_array_foreach(json_object_get(w->state->workloads, "items"), i, o)
        if (strcmp(json_get_str(o, "id", ""), id) == 0)
            return o;
    return NULL;
}

/* ---- policy ---- */

static int build_policy(struct whatif *w, struct err *err)
{
    autojson json_t *doc = json_deep_copy(w->state->policy);
    struct policy policy;
    int rc;

    if (w->changes && w->changes->policy)
        (void) json_object_update(doc, w->changes->policy);
    rc = policy_from_json(doc, &policy, err);
    if (rc < 0)
        return err_prefix(err, rc, "policy");
    plan_set_policy(w->plan, &policy);
    return 0;
}

/* ---- nodes ---- */

static bool is_without(const struct whatif *w, const char *name)
{
    for (uint32_t i = 0; w->changes && i < w->changes->nwithout; i++)
        if (strcmp(w->changes->without[i], name) == 0)
            return true;
    return false;
}

static uint64_t total_of(const json_t *node, const char *key, double unit)
{
    return (uint64_t) llround(unit * json_number_value(json_object_get(
        json_object_get(node, key), "total")));
}

static void add_node(struct whatif *w, const char *pool, const json_t *node,
                     const char *name)
{
    const json_t *list = json_object_get(node, "devices");
    autofree struct plan_device *devices =
        mem_array(json_array_size(list) + 1, sizeof(*devices));
    struct plan_node_spec spec = {
        .name = name, .pool = pool, .domain = "", .devices = devices,
        .cpu_milli = total_of(node, "cpus", MILLI),
        .memory = total_of(node, "memory", 1),
    };
    struct plan_node *n;

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *d = json_array_get(list, i);

        devices[spec.ndevices++] = (struct plan_device) {
            .model = json_get_str(d, "model", ""),
            .memory = json_get_u64(d, "memory", 0),
        };
    }
    n = plan_node_add(w->plan, &spec, NULL);
    if (json_get_bool(node, "drained", false) ||
        json_get_bool(node, "shut", false) ||
        !json_get_bool(node, "up", true))
        plan_node_open(w->plan, n, false);
    (void) map_set(w->nodes, name, n);
}

/* Nodes that are added are empty, open copies of one that is there. */
static void add_more(struct whatif *w, const char *pool, const json_t *node)
{
    const char *name = json_get_str(node, "name", "");

    for (uint32_t i = 0; w->changes && i < w->changes->nmore; i++) {
        const struct whatif_more *row = &w->changes->more[i];
        autojson json_t *fresh = NULL;

        if (strcmp(row->like, name) != 0)
            continue;
        fresh = json_copy((json_t *) (uintptr_t) node);
        json_put(fresh, "drained", json_false());
        json_put(fresh, "up", json_true());
        json_put(fresh, "shut", json_false());
        for (uint32_t k = 1; k <= row->count; k++) {
            autofree char *more = mem_printf("%s+%u.%u", name, i, k);

            add_node(w, pool, fresh, more);
        }
    }
}

static bool has_node(const struct whatif_state *s, const char *name)
{
    json_t *pool, *node;
    size_t i, k;

    json_array_foreach(json_object_get(s->pools, "items"), i, pool)
        json_array_foreach(json_object_get(pool, "nodes"), k, node)
            if (strcmp(json_get_str(node, "name", ""), name) == 0)
                return true;
    return false;
}

/* Whoever is named must be there, or the answer would be of something else. */
static int check_nodes(const struct whatif *w, struct err *err)
{
    const struct whatif_changes *c = w->changes;

    for (uint32_t i = 0; c && i < c->nmore; i++)
        if (!has_node(w->state, c->more[i].like))
            return err_set(err, ENOENT, "nodes[%u].like: no node '%.60s'", i,
                           c->more[i].like);
    for (uint32_t i = 0; c && i < c->nwithout; i++)
        if (!has_node(w->state, c->without[i]))
            return err_set(err, ENOENT, "without[%u]: no node '%.60s'", i,
                           c->without[i]);
    return 0;
}

/* A pool that is drained has nothing for who waits. */
static void build_pool(struct whatif *w, const json_t *pool)
{
    const char *name = json_get_str(pool, "name", "");
    bool drained = json_get_bool(pool, "drained", false);
    json_t *node;
    size_t i;

    json_array_foreach(json_object_get(pool, "nodes"), i, node) {
        const char *own = json_get_str(node, "name", "");
        autojson json_t *as = json_copy(node);

        if (drained)
            json_put(as, "drained", json_true());
        if (!is_without(w, own))
            add_node(w, name, as, own);
        add_more(w, name, node);
    }
}

/* Nothing starts where it is only looked at. */
static void build_nodes(struct whatif *w)
{
    json_t *pool;
    size_t i;

    json_array_foreach(json_object_get(w->state->pools, "items"), i, pool)
        if (!json_get_bool(pool, "observe", false))
            build_pool(w, pool);
}

/* ---- tenants ---- */

static const json_t *named(const json_t *list, const char *name)
{
    json_t *o;
    size_t i;

    json_array_foreach(list, i, o)
        if (strcmp(json_get_str(o, "name", ""), name) == 0)
            return o;
    return NULL;
}

/* As the control plane tells it: a limit is a number or "unlimited". */
static void as_it_is(const json_t *o, struct plan_tenant_spec *spec)
{
    const json_t *max = json_object_get(o, "max_gpus");

    spec->weight = (uint32_t) json_get_u64(o, "weight", spec->weight);
    spec->quota_milli = (uint64_t) llround(MILLI *
                                           json_get_number(o, "quota"));
    if (json_is_number(max))
        spec->max_milli = (uint64_t) llround(MILLI * json_number_value(max));
}

static void as_changed(const struct whatif_tenant *t,
                       struct plan_tenant_spec *spec)
{
    if (t->weight > 0)
        spec->weight = t->weight;
    if (t->quota.said)
        spec->quota_milli = t->quota.milli;
    if (t->max.said)
        spec->max_milli = t->max.milli;
}

struct plan_tenant *whatif_set_tenant(struct whatif *w,
                                      const struct plan_tenant_spec *spec)
{
    struct plan_tenant_spec own = *spec;
    const struct whatif_tenant *t = whatif_tenant_find(w->changes, own.name);

    as_it_is(named(json_object_get(w->state->tenants, "items"), own.name),
             &own);
    if (t)
        as_changed(t, &own);
    return plan_tenant_set(w->plan, &own);
}

static int check_tenants(const struct whatif *w, struct err *err)
{
    const struct whatif_changes *c = w->changes;

    for (uint32_t i = 0; c && i < c->ntenants; i++)
        if (!named(json_object_get(w->state->tenants, "items"),
                   c->tenants[i].name))
            return err_set(err, ENOENT, "tenants[%u].name: no tenant "
                           "'%.60s'", i, c->tenants[i].name);
    return 0;
}

int whatif_build(struct whatif *w, struct err *err)
{
    int rc = build_policy(w, err);

    if (rc == 0)
        rc = check_nodes(w, err);
    if (rc == 0)
        rc = check_tenants(w, err);
    if (rc == 0)
        build_nodes(w);
    return rc;
}
