#include "sim/whatif_int.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "core/spec.h"
#include "spec/node.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MILLI = 1000, MORE_NODES = 10000, WEIGHT_MAX = 10000 };

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

/* ---- the changes ---- */

static json_t *to_json(const struct node *n)
{
    json_t *v;

    if (n->kind == NODE_MAPPING) {
        v = json_object();
        for (uint32_t i = 0; i < n->count; i++)
            json_put(v, n->members[i].key->text,
                     to_json(n->members[i].value));
        return v;
    }
    if (n->kind == NODE_LIST) {
        v = json_array();
        for (uint32_t i = 0; i < n->count; i++)
            (void) json_array_append_new(v, to_json(n->items[i]));
        return v;
    }
    v = n->plain ? json_loads(n->text, JSON_DECODE_ANY, NULL) : NULL;
    return v ? v : json_string(n->text);
}

static int unknown_key(const char *name, const char *key,
                       const char *const *keys, size_t n, struct err *err)
{
    char list[128] = "";

    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(list);

        (void) snprintf(list + len, sizeof list - len, "%s%s",
                        i ? ", " : "", keys[i]);
    }
    return err_set(err, EINVAL, "%s: unknown key '%.60s'; there are %s", name,
                   key, list);
}

/* Only these keys, in an object. */
static int only_keys(const char *name, const json_t *o,
                     const char *const *keys, size_t n, struct err *err)
{
    const char *key;
    json_t *v;

    if (!json_is_object(o))
        return err_set(err, EINVAL, "%s: expected a mapping", name);
    json_object_foreach((json_t *) (uintptr_t) o, key, v) {
        size_t i = 0;

        while (i < n && strcmp(keys[i], key) != 0)
            i++;
        if (i == n)
            return unknown_key(name, key, keys, n, err);
    }
    return 0;
}

static int check_rows(const char *name, const json_t *list,
                      const char *const *keys, size_t n, struct err *err)
{
    json_t *row;
    size_t i;
    int rc = 0;

    if (list && !json_is_array(list))
        return err_set(err, EINVAL, "%s: expected a list", name);
    json_array_foreach(list, i, row) {
        rc = only_keys(name, row, keys, n, err);
        if (rc < 0)
            break;
        if (json_get_str(row, keys[0], "")[0] == '\0')
            return err_set(err, EINVAL, "%s[%zu]: no '%s'", name, i, keys[0]);
    }
    return rc;
}

static int check_changes(const char *name, const json_t *j, struct err *err)
{
    static const char *const all[] = { "nodes", "without", "tenants",
                                       "policy" };
    static const char *const node[] = { "like", "count" };
    static const char *const tenant[] = { "name", "quota", "weight",
                                          "max_gpus" };
    int rc = only_keys(name, j, all, array_size(all), err);

    if (rc == 0)
        rc = check_rows("nodes", json_object_get(j, "nodes"), node,
                        array_size(node), err);
    if (rc == 0)
        rc = check_rows("tenants", json_object_get(j, "tenants"), tenant,
                        array_size(tenant), err);
    return rc;
}

int whatif_read(const char *name, const char *text, size_t len, json_t **ret,
                struct err *err)
{
    struct spec_arena *arena = spec_arena_new();
    const struct node *root;
    struct node_fault fault;
    json_t *j = NULL;
    int rc = node_read(text, len, arena, &root, &fault);

    if (rc < 0)
        rc = err_set(err, EINVAL, "%s:%u:%u: %s", name, fault.line,
                     fault.column, fault.text);
    else if (root->weight > WEIGHT_MAX)
        rc = err_set(err, E2BIG, "%s: more than %d values", name, WEIGHT_MAX);
    else
        rc = check_changes(name, j = to_json(root), err);
    spec_arena_free(arena);
    if (rc < 0)
        json_decref(j);
    else
        *ret = j;
    return rc;
}

/* ---- policy ---- */

static int build_policy(struct whatif *w, struct err *err)
{
    autojson json_t *doc = json_deep_copy(w->state->policy);
    json_t *changed = json_object_get(w->changes, "policy");
    struct policy policy;
    int rc;

    if (changed)
        (void) json_object_update(doc, changed);
    rc = policy_from_json(doc, &policy, err);
    if (rc < 0)
        return err_prefix(err, rc, "policy");
    plan_set_policy(w->plan, &policy);
    return 0;
}

/* ---- nodes ---- */

static bool is_without(const struct whatif *w, const char *name)
{
    json_t *v;
    size_t i;

    json_array_foreach(json_object_get(w->changes, "without"), i, v)
        if (json_is_string(v) && strcmp(json_string_value(v), name) == 0)
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
    struct plan_device devices[PLAN_DEVICES];
    struct plan_node_spec spec = {
        .name = name, .pool = pool, .domain = "", .devices = devices,
        .cpu_milli = total_of(node, "cpus", MILLI),
        .memory = total_of(node, "memory", 1),
    };
    struct plan_node *n;

    for (size_t i = 0; i < json_array_size(list) && i < PLAN_DEVICES; i++) {
        const json_t *d = json_array_get(list, i);

        devices[spec.ndevices++] = (struct plan_device) {
            .model = json_get_str(d, "model", ""),
            .memory = json_get_u64(d, "memory", 0),
        };
    }
    n = plan_node_add(w->plan, &spec, NULL);
    if (json_get_bool(node, "drained", false) ||
        !json_get_bool(node, "up", true))
        plan_node_open(w->plan, n, false);
    (void) map_set(w->nodes, name, n);
}

/* Nodes that are added are empty, open copies of one that is there. */
static int add_more(struct whatif *w, const char *pool, const json_t *node,
                    struct err *err)
{
    const char *name = json_get_str(node, "name", "");
    json_t *row;
    size_t i;

    json_array_foreach(json_object_get(w->changes, "nodes"), i, row) {
        uint64_t count = json_get_u64(row, "count", 1);
        autojson json_t *fresh = NULL;

        if (strcmp(json_get_str(row, "like", ""), name) != 0)
            continue;
        if (count > MORE_NODES)
            return err_set(err, EINVAL, "nodes[%zu].count: at most %d", i,
                           MORE_NODES);
        fresh = json_copy((json_t *) (uintptr_t) node);
        json_put(fresh, "drained", json_false());
        json_put(fresh, "up", json_true());
        for (uint64_t k = 1; k <= count; k++) {
            autofree char *more = mem_printf("%s+%zu.%llu", name, i,
                                             (unsigned long long) k);

            add_node(w, pool, fresh, more);
        }
    }
    return 0;
}

/* Whoever is named must be there, or the answer would be of something else. */
static int check_names(const struct whatif *w, struct err *err)
{
    autojson json_t *known = json_object();
    json_t *pool, *node, *row;
    size_t i, k;

    json_array_foreach(json_object_get(w->state->pools, "items"), i, pool)
        json_array_foreach(json_object_get(pool, "nodes"), k, node)
            json_put_bool(known, json_get_str(node, "name", "?"), true);
    json_array_foreach(json_object_get(w->changes, "nodes"), i, row)
        if (!json_object_get(known, json_get_str(row, "like", "")))
            return err_set(err, ENOENT, "nodes[%zu].like: no node '%.60s'", i,
                           json_get_str(row, "like", ""));
    json_array_foreach(json_object_get(w->changes, "without"), i, row)
        if (!json_is_string(row) ||
            !json_object_get(known, json_string_value(row)))
            return err_set(err, ENOENT, "without[%zu]: no such node", i);
    return 0;
}

static int build_nodes(struct whatif *w, struct err *err)
{
    json_t *pool, *node;
    size_t i, k;
    int rc = check_names(w, err);

    json_array_foreach(json_object_get(w->state->pools, "items"), i, pool) {
        const char *name = json_get_str(pool, "name", "");

        json_array_foreach(json_object_get(pool, "nodes"), k, node) {
            const char *own = json_get_str(node, "name", "");

            if (!is_without(w, own))
                add_node(w, name, node, own);
            if (rc == 0)
                rc = add_more(w, name, node, err);
        }
    }
    return rc;
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

/* What `o` says goes over what is in *spec. */
static void read_tenant(const json_t *o, struct plan_tenant_spec *spec)
{
    const json_t *max = json_object_get(o, "max_gpus");
    const json_t *quota = json_object_get(o, "quota");

    spec->weight = (uint32_t) json_get_u64(o, "weight", spec->weight);
    if (json_is_number(quota))
        spec->quota_milli = (uint64_t) llround(MILLI *
                                               json_number_value(quota));
    if (json_is_number(max))
        spec->max_milli = (uint64_t) llround(MILLI * json_number_value(max));
    else if (json_is_string(max))
        spec->max_milli = PLAN_UNLIMITED;
}

struct plan_tenant *whatif_tenant(struct whatif *w,
                                  const struct plan_tenant_spec *spec)
{
    struct plan_tenant_spec own = *spec;

    read_tenant(named(json_object_get(w->state->tenants, "items"), own.name),
                &own);
    read_tenant(named(json_object_get(w->changes, "tenants"), own.name),
                &own);
    return plan_tenant_set(w->plan, &own);
}

static int check_tenants(const struct whatif *w, struct err *err)
{
    json_t *row;
    size_t i;

    json_array_foreach(json_object_get(w->changes, "tenants"), i, row)
        if (!named(json_object_get(w->state->tenants, "items"),
                   json_get_str(row, "name", "")))
            return err_set(err, ENOENT, "tenants[%zu].name: no tenant "
                           "'%.60s'", i, json_get_str(row, "name", ""));
    return 0;
}

int whatif_build(struct whatif *w, struct err *err)
{
    int rc = build_policy(w, err);

    if (rc == 0)
        rc = build_nodes(w, err);
    if (rc == 0)
        rc = check_tenants(w, err);
    return rc;
}
