#include "kube/inventory.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/tap.h"
#include "kube/node.h"
#include "kube/object.h"
#include "kube/pod.h"

#include <errno.h>
#include <string.h>

#define GI (UINT64_C(1) << 30)

static json_t *parsed(const char *text)
{
    struct err err = { 0 };
    json_t *o = NULL;

    if (object_read(text, strlen(text), 1 << 20, &o, &err) < 0)
        printf("# %s\n", err.text);
    return o;
}

/* ---- nodes ---- */

static const char whole_node[] =
    "{\"metadata\":{\"name\":\"n1\",\"labels\":{"
    "\"nvidia.com/gpu.product\":\"NVIDIA-H100-80GB-HBM3\","
    "\"nvidia.com/gpu.memory\":\"81559\","
    "\"topology.kubernetes.io/zone\":\"eu-1a\"}},"
    "\"spec\":{\"taints\":[{\"key\":\"soft\",\"effect\":"
    "\"PreferNoSchedule\"}]},"
    "\"status\":{\"allocatable\":{\"cpu\":\"63500m\",\"memory\":\"512Gi\","
    "\"pods\":\"110\",\"ephemeral-storage\":\"1Ti\",\"hugepages-1Gi\":\"0\","
    "\"nvidia.com/gpu\":\"8\",\"nvidia.com/mig-1g.10gb\":\"7\","
    "\"example.com/none\":\"0\"},"
    "\"conditions\":[{\"type\":\"MemoryPressure\",\"status\":\"False\"},"
    "{\"type\":\"Ready\",\"status\":\"True\"}]}}";

static void test_node(void)
{
    autojson json_t *o = parsed(whole_node);
    struct kube_node *n = NULL;
    struct err err = { 0 };

    ok(kube_node_read(o, &n, &err) == 0 && strcmp(n->name, "n1") == 0,
       "a node");
    ok(n->has.cpu_milli == 63500 && n->has.memory == 512 * GI &&
       n->has.n == 2 &&
       resources_count(&n->has, "nvidia.com/gpu") == 8 &&
       resources_count(&n->has, "nvidia.com/mig-1g.10gb") == 7 &&
       resources_count(&n->has, "example.com/none") == 0, "what it has");
    ok(strcmp(n->product, "NVIDIA-H100-80GB-HBM3") == 0 &&
       n->device_memory == UINT64_C(81559) << 20 &&
       strcmp(n->domain, "eu-1a") == 0, "its devices and its place");
    ok(!n->closed, "nothing speaks against it");
    kube_node_free(n);
}

static void test_closed(void)
{
    static const struct {
        const char *spec, *ready, *closed;
    } cases[] = {
        { "\"unschedulable\":true", "True", "cordoned" },
        { "", "Unknown", "not ready" },
        { "\"taints\":[{\"key\":\"k\",\"value\":\"v\",\"effect\":"
          "\"NoSchedule\"}]", "True", "taint k=v:NoSchedule" },
        { "\"taints\":[{\"key\":\"k\\n\",\"effect\":\"NoExecute\"}]", "True",
          "taint k :NoExecute" },
    };

    for (size_t i = 0; i < array_size(cases); i++) {
        char text[512];
        autojson json_t *o = NULL;
        struct kube_node *n = NULL;

        (void) snprintf(text, sizeof text,
                        "{\"metadata\":{\"name\":\"n\"},\"spec\":{%s},"
                        "\"status\":{\"conditions\":[{\"type\":\"Ready\","
                        "\"status\":\"%s\"}]}}", cases[i].spec,
                        cases[i].ready);
        o = parsed(text);
        ok(kube_node_read(o, &n, NULL) == 0 && n->closed &&
           strcmp(n->closed, cases[i].closed) == 0, "closed: %s",
           cases[i].closed);
        kube_node_free(n);
    }
}

static void test_bad(void)
{
    static const struct {
        enum inventory_kind kind;
        const char *text, *says;
    } bad[] = {
        { INVENTORY_NODE, "{}", "without a metadata.name" },
        { INVENTORY_NODE, "{\"metadata\":{\"name\":3}}", "metadata.name" },
        { INVENTORY_NODE, "{\"metadata\":{\"name\":\"n\"},\"status\":{"
          "\"allocatable\":{\"cpu\":\"lots\"}}}",
          "node n: status.allocatable.cpu: 'lots'" },
        { INVENTORY_NODE, "{\"metadata\":{\"name\":\"n\"},\"status\":{"
          "\"allocatable\":[]}}", "node n: status.allocatable: expected" },
        { INVENTORY_NODE, "{\"metadata\":{\"name\":\"n\"},\"status\":{"
          "\"allocatable\":{\"cpu\":4}}}", "status.allocatable.cpu: expected" },
        { INVENTORY_POD, "{\"metadata\":{\"name\":\"p\"}}", "namespace" },
        { INVENTORY_POD, "{\"metadata\":{\"name\":\"p\",\"namespace\":\"s\"},"
          "\"spec\":{\"containers\":[{},{\"resources\":{\"requests\":{"
          "\"memory\":\"-1\"}}}]}}",
          "pod s/p: spec.containers[1].resources.requests.memory: '-1'" },
        { INVENTORY_POD, "{\"metadata\":{\"name\":\"p\",\"namespace\":\"s\"},"
          "\"spec\":{\"overhead\":{\"cpu\":\"x\"}}}",
          "pod s/p: spec.overhead.cpu: 'x'" },
    };
    struct inventory *v = inventory_new();

    for (size_t i = 0; i < array_size(bad); i++) {
        autojson json_t *o = parsed(bad[i].text);
        struct err err = { 0 };

        ok(inventory_put(v, bad[i].kind, o, &err) < 0 &&
           strstr(err.text, bad[i].says), "%s", err.text);
    }
    inventory_free(v);
}

/* ---- pods ---- */

static const struct {
    const char *what, *spec;
    uint64_t cpu_milli, memory, gpus;
} pods[] = {
    { "containers add up",
      "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"500m\","
      "\"memory\":\"1Gi\",\"nvidia.com/gpu\":\"1\"}}},{\"resources\":{"
      "\"requests\":{\"cpu\":\"1\",\"nvidia.com/gpu\":\"2\"}}},{}]",
      1500, GI, 3 },
    { "an init container needs more for a time",
      "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"1\","
      "\"memory\":\"1Gi\"}}}],\"initContainers\":[{\"resources\":{"
      "\"requests\":{\"cpu\":\"100m\",\"memory\":\"4Gi\","
      "\"nvidia.com/gpu\":\"1\"}}}]", 1000, 4 * GI, 1 },
    { "one that stays adds to all, and to those after it",
      "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"1\"}}}],"
      "\"initContainers\":[{\"restartPolicy\":\"Always\",\"resources\":{"
      "\"requests\":{\"cpu\":\"2\"}}},{\"resources\":{\"requests\":{"
      "\"cpu\":\"5\"}}}]", 7000, 0, 0 },
    { "the pod as a whole says otherwise",
      "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"1\","
      "\"nvidia.com/gpu\":\"1\"}}}],\"resources\":{\"requests\":{"
      "\"cpu\":\"8\",\"memory\":\"2Gi\"}},\"overhead\":{\"cpu\":\"250m\","
      "\"memory\":\"1Gi\"}", 8250, 3 * GI, 1 },
    { "nothing asked for", "\"containers\":[{}]", 0, 0, 0 },
    { "more than there is in the world",
      "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"9E\"}}},"
      "{\"resources\":{\"requests\":{\"cpu\":\"9E\"}}}]", RESOURCES_MAX, 0, 0 },
};

static void test_pods(void)
{
    for (size_t i = 0; i < array_size(pods); i++) {
        autofree char *text = mem_printf(
            "{\"metadata\":{\"name\":\"p\",\"namespace\":\"s\"},\"spec\":{%s,"
            "\"nodeName\":\"n1\"},\"status\":{\"phase\":\"Running\"}}",
            pods[i].spec);
        autojson json_t *o = parsed(text);
        struct kube_pod *p = NULL;
        struct err err = { 0 };

        ok(kube_pod_read(o, &p, &err) == 0 && strcmp(p->key, "s/p") == 0 &&
           strcmp(p->node, "n1") == 0 && !p->ended &&
           p->takes.cpu_milli == pods[i].cpu_milli &&
           p->takes.memory == pods[i].memory &&
           resources_count(&p->takes, "nvidia.com/gpu") == pods[i].gpus,
           "%s", pods[i].what);
        kube_pod_free(p);
    }
}

/* ---- what is counted ---- */

static json_t *node(const char *name, unsigned gpus)
{
    autofree char *count = mem_printf("%u", gpus);

    return json_pack("{s:{s:s}, s:{s:{s:s, s:s, s:s}}}", "metadata", "name",
                     name, "status", "allocatable", "cpu", "8", "memory",
                     "64Gi", "nvidia.com/gpu", count);
}

static json_t *pod(const char *name, const char *on, unsigned gpus,
                   const char *phase)
{
    autofree char *count = mem_printf("%u", gpus);

    return json_pack("{s:{s:s, s:s}, s:{s:s*, s:[{s:{s:{s:s, s:s}}}]}, "
                     "s:{s:s}}", "metadata", "name", name, "namespace", "s",
                     "spec", "nodeName", on, "containers", "resources",
                     "requests", "cpu", "1", "nvidia.com/gpu", count,
                     "status", "phase", phase);
}

static void put(struct inventory *v, enum inventory_kind kind, json_t *o)
{
    struct err err = { 0 };

    if (inventory_put(v, kind, o, &err) < 0)
        printf("# %s\n", err.text);
    json_decref(o);
}

static void drop(struct inventory *v, enum inventory_kind kind, json_t *o)
{
    (void) inventory_drop(v, kind, o, NULL);
    json_decref(o);
}

static bool holds(const struct inventory *v, size_t nodes, size_t npods,
                  size_t waiting, uint64_t gpus, uint64_t taken)
{
    struct inventory_sum s;
    bool same;

    inventory_total(v, &s);
    same = s.nodes == nodes && s.pods == npods && s.waiting == waiting &&
           resources_count(&s.has, "nvidia.com/gpu") == gpus &&
           resources_count(&s.taken, "nvidia.com/gpu") == taken;
    if (!same)
        printf("# %zu nodes, %zu pods, %zu waiting, %llu of %llu\n", s.nodes,
               s.pods, s.waiting, (unsigned long long)
               resources_count(&s.taken, "nvidia.com/gpu"),
               (unsigned long long) resources_count(&s.has, "nvidia.com/gpu"));
    resources_clear(&s.has);
    resources_clear(&s.taken);
    return same;
}

static void test_counts(void)
{
    struct inventory *v = inventory_new();

    put(v, INVENTORY_POD, pod("early", "n1", 2, "Running"));
    ok(holds(v, 0, 1, 0, 0, 0), "a pod on a node that is not known yet");
    put(v, INVENTORY_NODE, node("n1", 8));
    ok(holds(v, 1, 1, 0, 8, 2), "its node comes");
    put(v, INVENTORY_POD, pod("later", NULL, 4, "Pending"));
    ok(holds(v, 1, 2, 1, 8, 2), "one that waits takes nothing");
    put(v, INVENTORY_POD, pod("later", "n1", 4, "Pending"));
    ok(holds(v, 1, 2, 0, 8, 6), "bound, it does");
    put(v, INVENTORY_POD, pod("later", "n1", 4, "Running"));
    ok(holds(v, 1, 2, 0, 8, 6), "once");
    put(v, INVENTORY_POD, pod("later", "n1", 4, "Succeeded"));
    ok(holds(v, 1, 1, 0, 8, 2), "until it has ended");
    put(v, INVENTORY_NODE, node("n1", 4));
    ok(holds(v, 1, 1, 0, 4, 2), "a node that has less now");
    drop(v, INVENTORY_NODE, node("n1", 4));
    ok(holds(v, 0, 1, 0, 0, 0), "a node that is gone before its pods");
    drop(v, INVENTORY_POD, pod("early", "n1", 2, "Running"));
    drop(v, INVENTORY_POD, pod("never", "n1", 2, "Running"));
    ok(holds(v, 0, 0, 0, 0, 0), "all gone; one was never there");
    inventory_free(v);
}

static void test_lists(void)
{
    struct inventory *v = inventory_new();

    put(v, INVENTORY_NODE, node("n1", 8));
    put(v, INVENTORY_NODE, node("n2", 8));
    put(v, INVENTORY_POD, pod("a", "n1", 1, "Running"));
    put(v, INVENTORY_POD, pod("b", "n2", 2, "Running"));
    inventory_list(v, INVENTORY_NODE);
    put(v, INVENTORY_NODE, node("n2", 8));
    ok(holds(v, 2, 2, 0, 16, 3), "during a list nothing goes");
    inventory_listed(v, INVENTORY_NODE);
    ok(holds(v, 1, 2, 0, 8, 2), "after it what was not there goes");
    inventory_list(v, INVENTORY_POD);
    put(v, INVENTORY_POD, pod("c", "n2", 4, "Running"));
    inventory_list(v, INVENTORY_POD);
    put(v, INVENTORY_POD, pod("a", "n2", 5, "Running"));
    inventory_listed(v, INVENTORY_POD);
    ok(holds(v, 1, 1, 0, 8, 5), "a list that began anew counts");
    inventory_free(v);
}

/* Any order of changes ends in the same as the last state of each. */
static void test_random(void)
{
    enum { NODES = 8, PODS = 40, STEPS = 4000 };
    unsigned gpus[PODS] = { 0 };
    bool there[NODES] = { false };
    int on[PODS];
    struct inventory *v = inventory_new();
    uint64_t state = 11, has = 0, taken = 0;
    size_t nodes = 0, running = 0;

    for (int i = 0; i < PODS; i++)
        on[i] = -1;
    for (int i = 0; i < STEPS; i++) {
        unsigned r = (unsigned) random_next(&state);
        int p = (int) (r / 16 % PODS), n = (int) (r / 1024 % NODES);
        char pname[16], nname[16];

        (void) snprintf(pname, sizeof pname, "p%d", p);
        (void) snprintf(nname, sizeof nname, "n%d", n);
        if (r % 4 == 0) {
            there[n] = r / 4 % 4 != 0;
            (there[n] ? put : drop)(v, INVENTORY_NODE, node(nname, 8));
        } else if (r % 4 == 1) {
            drop(v, INVENTORY_POD, pod(pname, nname, 1, "Running"));
            on[p] = -1;
        } else {
            gpus[p] = r / 4 % 3;
            on[p] = n;
            put(v, INVENTORY_POD, pod(pname, nname, gpus[p], "Running"));
        }
    }
    for (int i = 0; i < NODES; i++) {
        nodes += there[i];
        has += there[i] ? 8 : 0;
    }
    for (int i = 0; i < PODS; i++) {
        running += on[i] >= 0;
        taken += on[i] >= 0 && there[on[i]] ? gpus[i] : 0;
    }
    ok(holds(v, nodes, running, 0, has, taken), "%d random changes", STEPS);
    inventory_free(v);
}

/* ---- our own, and what is tolerated ---- */

static bool is_own(const json_t *o, void *arg)
{
    (void) arg;
    return strncmp(object_str(o, "metadata", "name", NULL), "own", 3) == 0;
}

static bool takes(const struct inventory *v, uint64_t all, uint64_t own)
{
    const struct resources *taken = NULL, *ours = NULL;

    return inventory_node(v, "n1", &taken, &ours) &&
           resources_count(taken, "nvidia.com/gpu") == all &&
           resources_count(ours, "nvidia.com/gpu") == own;
}

static void test_own(void)
{
    struct inventory *v = inventory_new();

    inventory_own(v, is_own, NULL);
    ok(!inventory_node(v, "n1", NULL, NULL), "no such node");
    put(v, INVENTORY_NODE, node("n1", 8));
    put(v, INVENTORY_POD, pod("own1", "n1", 2, "Running"));
    put(v, INVENTORY_POD, pod("other", "n1", 3, "Running"));
    ok(takes(v, 5, 2), "what is taken, and by us");
    put(v, INVENTORY_POD, pod("own1", "n1", 2, "Failed"));
    ok(takes(v, 3, 0), "ours has ended");
    put(v, INVENTORY_POD, pod("own1", "n1", 1, "Running"));
    drop(v, INVENTORY_POD, pod("other", "n1", 3, "Running"));
    ok(takes(v, 1, 1), "another of ours, and theirs is gone");
    inventory_free(v);
}

static void test_tolerate(void)
{
    autojson json_t *o = parsed(
        "{\"metadata\":{\"name\":\"n\",\"labels\":{\"disk\":\"nvme\","
        "\"weir.dev/gpus\":\"simulated\",\"n\":3,"
        "\"feature.node.kubernetes.io/cpu\":\"x\"}},\"spec\":{\"taints\":["
        "{\"key\":\"a\",\"effect\":\"NoSchedule\"},"
        "{\"key\":\"b\",\"effect\":\"NoExecute\"}]},\"status\":"
        "{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}");
    struct kube_node *n = NULL;

    ok(kube_node_read(o, &n, NULL) == 0 && n->ntaints == 2 && n->simulated &&
       json_object_size(n->labels) == 2, "taints and labels");
    ok(strcmp(kube_node_closed(n, NULL), "taint a:NoSchedule") == 0 &&
       strcmp(kube_node_closed(n, "a"), "taint b:NoExecute") == 0 &&
       !kube_node_closed(n, "b,a") && kube_node_closed(n, "aa,b"),
       "closed but for those who tolerate");
    kube_node_free(n);
}

static void test_taints(void)
{
    autojson json_t *o = parsed(
        "{\"metadata\":{\"name\":\"n\"},\"spec\":{\"taints\":[]},"
        "\"status\":{\"conditions\":[{\"type\":\"Ready\","
        "\"status\":\"True\"}]}}");
    json_t *list = json_object_get(json_object_get(o, "spec"), "taints");
    struct kube_node *n = NULL;

    for (int i = 0; i <= KUBE_NODE_TAINTS; i++)
        json_array_append_new(list, json_pack("{s:s,s:s}", "key", "a",
                                              "effect", "NoSchedule"));
    ok(kube_node_read(o, &n, NULL) == 0 && n->ntaints == KUBE_NODE_TAINTS &&
       kube_node_closed(n, "a") && kube_node_closed(n, "a,,b") &&
       kube_node_closed(n, ",a"), "nobody tolerates more than are kept");
    kube_node_free(n);
}

int main(void)
{
    test_own();
    test_tolerate();
    test_taints();
    test_node();
    test_closed();
    test_bad();
    test_pods();
    test_counts();
    test_lists();
    test_random();
    return tap_done();
}
