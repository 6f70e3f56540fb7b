#include "sim/whatif.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <string.h>

static struct err err;

/* ---- reading ---- */

static const struct {
    const char *text, *fault;          /* ... in the line that is said */
} wrong[] = {
    { "weir: 1", "c:1:1: unknown key 'weir'; expected one of nodes, without, "
      "tenants, policy" },
    { "node: []", "c:1:1: unknown key 'node'; did you mean 'nodes'?" },
    { "[nodes]", "c:1:1: expected a mapping, got a list" },
    { "nodes: []\nnodes: []", "c:2:1: duplicate key 'nodes'" },
    { "nodes: vm", "nodes: expected a list such as" },
    { "nodes: {like: vm}", "c:1:8: nodes: expected a list such as" },
    { "nodes: [vm]", "c:1:9: nodes[0]: expected a mapping, got 'vm'" },
    { "nodes: [{count: 2}]", "nodes[0]: missing key 'like'" },
    { "nodes: [{like: }]", "nodes[0].like: expected the name of a node" },
    { "nodes: [{like: ''}]", "nodes[0].like: expected the name of a node" },
    { "nodes: [{like: vm, count: two}]", "c:1:27: nodes[0].count: expected a "
      "whole number from 1 to 10000, got 'two'" },
    { "nodes: [{like: vm, count: 1.5}]", "nodes[0].count: expected a whole" },
    { "nodes: [{like: vm, count: -2}]", "nodes[0].count: expected a whole" },
    { "nodes: [{like: vm, count: 0}]", "nodes[0].count: expected a whole" },
    { "nodes: [{like: vm, count: 10001}]", "nodes[0].count: expected" },
    { "nodes: [{like: vm, count: 99999999999999999999}]",
      "nodes[0].count: expected a whole" },
    { "nodes: [{like: vm, count: [1]}]", "got a list" },
    { "nodes: [{like: a, count: 9999}, {like: b, count: 2}]",
      "more than 10000 nodes in all" },
    { "nodes: [{like: vm, like: vm}]", "duplicate key 'like'" },
    { "nodes: [{like: vm, cuont: 2}]", "did you mean 'count'?" },
    { "without: vm", "c:1:10: without: expected a list of nodes, got 'vm'" },
    { "without: [[vm]]", "without[0]: expected the name of a node" },
    { "without: [vm, vm]", "c:1:15: without[1]: 'vm' goes already" },
    { "tenants: [{quota: 2}]", "tenants[0]: missing key 'name'" },
    { "tenants: [{name: t, quota: many}]", "c:1:28: tenants[0].quota: expected "
      "a number of GPUs from 0 to 1000000, got 'many'" },
    { "tenants: [{name: t, quota: -1}]", "tenants[0].quota: expected" },
    { "tenants: [{name: t, quota: unlimited}]", "tenants[0].quota: expected" },
    { "tenants: [{name: t, quota: 1000001}]", "tenants[0].quota: expected" },
    { "tenants: [{name: t, max_gpus: x}]", "tenants[0].max_gpus: expected a "
      "number of GPUs from 0 to 1000000, or unlimited, got 'x'" },
    { "tenants: [{name: t, max_gpus: -5}]", "tenants[0].max_gpus: expected" },
    { "tenants: [{name: t, weight: 0}]", "tenants[0].weight: expected" },
    { "tenants: [{name: t, weight: 1000001}]", "tenants[0].weight: expected" },
    { "tenants: [{name: t}, {name: t}]", "tenants[1]: 't' has a row already" },
    { "policy: 5", "c:1:9: policy: expected a mapping of the policy's fields, "
      "got '5'" },
    { "policy: [x]", "policy: expected a mapping" },
    { "policy:", "policy: expected a mapping" },
    { "policy: {patience: soon}", "c:1:20: policy.patience: expected a time" },
    { "policy: {patience: 1h, patience: 2h}", "duplicate key 'patience'" },
    { "policy: {pateince: 1h}", "did you mean 'patience'?" },
    { "policy: {models: [{model: a}, {rating: 2}]}",
      "policy.models[1]: missing key 'model'" },
    { "policy: {weir: 2}", "policy.weir: expected 1" },
    { "", "empty" },
    { "a: [", "c:" },
};

static void test_refused(void)
{
    for (size_t i = 0; i < array_size(wrong); i++) {
        struct whatif_changes *c = NULL;
        int rc = whatif_read("c", wrong[i].text, strlen(wrong[i].text), &c,
                             &err);

        ok(rc < 0 && !c && strstr(err.text, wrong[i].fault) &&
           !strchr(err.text, '\n'), "%s", err.text);
        whatif_changes_free(c);
    }
}

/* ---- what they change ---- */

/* One node of two devices; `a` holds both and `b` waits, each of a tenant of
 * its own.
 */
static const char STATE[] =
    "{'pools': {'items': [{'name': 'p', 'nodes': [{'name': 'vm',"
    "  'up': true, 'cpus': {'total': 4}, 'memory': {'total': 100}, 'devices':"
    "  [{'model': 'H', 'memory': 1}, {'model': 'H', 'memory': 1}]}]}]},"
    " 'tenants': {'items': [{'name': 's', 'max_gpus': 'unlimited',"
    "  'weight': 1, 'quota': 0}, {'name': 't', 'max_gpus': 2,"
    "  'weight': 1, 'quota': 0}]},"
    " 'policy': {'weir': 1, 'kind': 'policy', 'turns': 'off',"
    "  'min_run': '0s'},"
    " 'workloads': {'items': [{'id': 'w1', 'name': 'a', 'tenant': 's'},"
    "  {'id': 'w2', 'name': 'b', 'tenant': 't'}]},"
    " 'tasks': [{'workload': 'w1', 'task': 'a', 'state': 'running', 'gpus': 2,"
    "  'cpus': 1, 'ranks': 1, 'started': '1970-01-01T00:01:00.000Z',"
    "  'leases': [{'node': 'vm', 'devices': [0, 1]}]},"
    "  {'workload': 'w2', 'task': 'b', 'state': 'waiting', 'gpus': 2,"
    "  'cpus': 1, 'ranks': 1, 'ready': '1970-01-01T00:01:10.000Z'}]}";

enum { NOW_MS = 100000 };

static json_t *part(const json_t *all, const char *name)
{
    return json_incref(json_object_get(all, name));
}

static void make_state(struct whatif_state *ret)
{
    autofree char *text = mem_str(STATE);
    autojson json_t *j = NULL;

    for (char *s = text; *s; s++)
        if (*s == '\'')
            *s = '"';
    if (json_read(text, strlen(text), 65536, &j, &err) < 0)
        printf("Bail out! %s\n", err.text);
    *ret = (struct whatif_state) {
        .pools = part(j, "pools"), .tenants = part(j, "tenants"),
        .policy = part(j, "policy"), .workloads = part(j, "workloads"),
        .tasks = part(j, "tasks"), .specs = json_object(),
        .ended = json_array(), .now_ms = NOW_MS,
    };
}

/* When w2 starts; 0: never; 1: the changes were refused. */
static uint64_t starts_with(const char *text)
{
    struct whatif_changes *c = NULL;
    struct whatif_state s;
    autojson json_t *all = NULL;
    uint64_t at = 1;

    err.text[0] = '\0';
    make_state(&s);
    if (whatif_read("c", text, strlen(text), &c, &err) == 0 &&
        whatif_play(&s, c, &all, &err) == 0)
        at = json_get_u64(json_object_get(all, "w2"), "start", 0);
    whatif_changes_free(c);
    whatif_free(&s);
    return at;
}

static void test_played(void)
{
    uint64_t later = starts_with("{}"), at;

    ok(later > NOW_MS, "it waits: %s", err.text);
    ok(starts_with("nodes: [{like: vm}]") == NOW_MS,
       "a node more: it starts now");
    ok(starts_with("nodes: [{like: vm, count: 2}]\nwithout: [vm]") == NOW_MS,
       "two more and one less: the same");
    ok(starts_with("without: [vm]") == 0, "no node at all: never");
    ok(starts_with("tenants: [{name: t, max_gpus: 1}]") == 0,
       "a limit of one device: never");
    ok(starts_with("tenants: [{name: t, max_gpus: unlimited}]") == later,
       "no limit: as it is");
    at = starts_with("tenants: [{name: t, quota: 2, weight: 3}]");
    ok(at >= NOW_MS && at < NOW_MS + 1000,
       "a guarantee: at once, from who borrows");
    ok(starts_with("tenants: [{name: t, quota: 2}]\n"
                   "policy: {reclaim: false}") == later,
       "unless nothing is taken back");
    ok(starts_with("nodes: [{like: nowhere}]") == 1 &&
       strcmp(err.text, "nodes[0].like: no node 'nowhere'") == 0, "%s",
       err.text);
    ok(starts_with("without: [vm, x]") == 1 &&
       strcmp(err.text, "without[1]: no node 'x'") == 0, "%s", err.text);
    ok(starts_with("tenants: [{name: u}]") == 1 &&
       strcmp(err.text, "tenants[0].name: no tenant 'u'") == 0, "%s",
       err.text);
}

/* A node of 20 devices, of which `a` holds 16, and `b` asks for one of 20
 * models, of which the last is there.
 */
static void test_large(void)
{
    json_t *node, *running, *devices, *held, *models = json_array();
    autojson json_t *all = NULL;
    struct whatif_state s;

    make_state(&s);
    node = json_array_get(json_object_get(json_array_get(json_object_get(
        s.pools, "items"), 0), "nodes"), 0);
    running = json_array_get(s.tasks, 0);
    devices = json_object_get(node, "devices");
    held = json_object_get(json_array_get(json_object_get(running, "leases"),
                                          0), "devices");
    for (int k = 2; k < 20; k++)
        json_array_append_new(devices, json_pack("{s:s,s:i}", "model", "H",
                                                 "memory", 1));
    for (int k = 2; k < 16; k++)
        json_array_append_new(held, json_integer(k));
    json_put_u64(running, "gpus", 16);
    for (int k = 0; k < 19; k++)
        json_array_append_new(models, json_string("Q"));
    json_array_append_new(models, json_string("H"));
    json_put(s.specs, "w2", json_pack("{s:[{s:s,s:o}]}", "tasks", "name", "b",
                                      "models", models));
    ok(whatif_play(&s, NULL, &all, &err) == 0 &&
       json_get_u64(json_object_get(all, "w2"), "start", 0) == NOW_MS,
       "all devices of a node count, and all models of a task");
    whatif_free(&s);
}

/* What waits starts on a node more, unless its pool takes nothing. */
static void test_pools(void)
{
    static const char *const closed[] = { NULL, "observe", "drained" };

    for (size_t k = 0; k < 3; k++) {
        autojson json_t *all = NULL;
        struct whatif_state s;
        json_t *items, *pool;
        bool now;

        make_state(&s);
        items = json_object_get(s.pools, "items");
        pool = json_deep_copy(json_array_get(items, 0));
        json_put_str(pool, "name", "other");
        json_put_str(json_array_get(json_object_get(pool, "nodes"), 0), "name",
                     "other");
        if (closed[k])
            json_put_bool(pool, closed[k], true);
        (void) json_array_append_new(items, pool);
        now = whatif_play(&s, NULL, &all, &err) == 0 &&
              json_get_u64(json_object_get(all, "w2"), "start", 0) == NOW_MS;
        ok(now == !closed[k], "another pool%s%s: %s", k ? ", " : "",
           k ? closed[k] : "", now ? "it starts now" : "it waits");
        whatif_free(&s);
    }
}

int main(void)
{
    test_pools();
    test_refused();
    test_played();
    test_large();
    return tap_done();
}
