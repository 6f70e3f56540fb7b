#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"
#include "plan/pool.h"

#include <string.h>

static const uint64_t GIB = UINT64_C(1) << 30;

struct node {
    const char *name, *model, *pool, *domain, *label;
    uint32_t devices;
    uint64_t cpus;
    bool roams;
};

static struct plan_node *add_node(struct plan *p, struct node n)
{
    struct plan_device list[16];
    const char *const labels[] = { n.label };

    for (uint32_t k = 0; k < n.devices; k++)
        list[k] = (struct plan_device) { n.model ? n.model : "A100",
                                         80 * GIB };
    return plan_node_add(p, &(struct plan_node_spec) {
        .name = n.name, .pool = n.pool ? n.pool : "main",
        .domain = n.domain ? n.domain : "", .labels = labels,
        .nlabels = n.label ? 1 : 0, .cpu_milli = (n.cpus ? n.cpus : 64) * 1000,
        .memory = 1024 * GIB, .devices = list, .ndevices = n.devices,
        .suspends = true, .roams = n.roams,
    }, NULL);
}

struct item {
    uint32_t milli, count, max;
    uint64_t cpus, memory, gpu_memory;
    const char *model, *label;
    enum plan_near near;
    bool one_pool;
};

static struct plan_item *add_item(struct plan *p, struct item i)
{
    struct plan_tenant *t = plan_tenant_set(p, &(struct plan_tenant_spec) {
        .name = "t", .max_milli = PLAN_UNLIMITED,
    });
    const char *const models[] = { i.model }, *const labels[] = { i.label };
    struct plan_part part = {
        .need = { .gpu_milli = i.milli, .cpu_milli = i.cpus * 1000,
                  .memory = i.memory, .gpu_memory = i.gpu_memory,
                  .models = models, .nmodels = i.model ? 1 : 0,
                  .labels = labels, .nlabels = i.label ? 1 : 0 },
        .count = i.count ? i.count : 1, .max = i.max ? i.max : i.count,
    };

    return plan_add(p, &(struct plan_item_spec) {
        .tenant = t, .parts = &part, .nparts = 1, .near = i.near,
        .one_pool = i.one_pool, .order = p->items + 1, .bytes = GIB,
    });
}

#define NODE(...) add_node(p, (struct node) { __VA_ARGS__ })
#define ITEM(...) add_item(p, (struct item) { __VA_ARGS__ })

/* Where it would go, "node:device,device node:..."; "" nowhere. */
static const char *where(struct plan *p, const struct plan_item *i)
{
    static char text[4096];
    struct plan_place *list = NULL;
    uint32_t n = 0;
    size_t at = 0;
    double score;

    text[0] = '\0';
    if (!place_find(p, i, NULL, &list, &n, &score))
        return text;
    for (uint32_t k = 0; k < n; k++) {
        at += (size_t) snprintf(text + at, sizeof text - at, "%s%s",
                                k ? " " : "", list[k].node->name);
        for (uint32_t d = 0; d < list[k].ndevices; d++)
            at += (size_t) snprintf(text + at, sizeof text - at, "%c%u",
                                    d ? ',' : ':', list[k].device[d]);
    }
    free(list);
    return text;
}

static void start(struct plan *p, struct plan_item *i, struct plan_node *n,
                  uint16_t device)
{
    struct plan_place place = { .node = n };

    place.ndevices = i->shape->parts[0].devices;
    for (uint32_t k = 0; k < place.ndevices; k++)
        place.device[k] = (uint16_t) (device + k);
    ok(plan_start(p, i, &place, 1, NULL) == 0, "it starts on %s", n->name);
}

#define goes(p, i, to, ...) do { \
        const char *at_ = where((p), (i)); \
        ok(strcmp(at_, (to)) == 0, __VA_ARGS__); \
        if (strcmp(at_, (to)) != 0) \
            printf("# '%s'\n", at_); \
    } while (0)

/* ---- one rank ---- */

static void test_needs(void)
{
    struct plan *p = plan_new();

    (void) NODE(.name = "a", .model = "A100", .devices = 2, .cpus = 8);
    (void) NODE(.name = "h", .model = "H100", .devices = 4, .cpus = 64,
                .label = "zone=b");
    goes(p, ITEM(.milli = 1000, .model = "h100"), "h:0",
         "the model that is asked for");
    goes(p, ITEM(.milli = 1000, .model = "T4"), "",
         "a model that is nowhere");
    goes(p, ITEM(.milli = 3000), "h:0,1,2",
         "as many devices as one node has");
    goes(p, ITEM(.milli = 5000), "", "and no more");
    goes(p, ITEM(.milli = 1000, .cpus = 9), "h:0",
         "as many CPUs");
    goes(p, ITEM(.milli = 1000, .cpus = 65), "",
         "and no more");
    goes(p, ITEM(.milli = 1000, .label = "zone=b"), "h:0",
         "a label");
    goes(p, ITEM(.milli = 1000, .label = "zone=a"), "",
         "another label");
    goes(p, ITEM(.milli = 1000, .memory = 1025 * GIB), "",
         "more memory than there is");
    goes(p, ITEM(.milli = 1000, .gpu_memory = 81 * GIB), "",
         "more device memory than there is");
    plan_free(p);
}

static void test_fraction(void)
{
    struct plan *p = plan_new();
    struct plan_node *a = NODE(.name = "a", .devices = 2);
    struct plan_item *i = ITEM(.milli = 600);

    start(p, i, a, 1);
    goes(p, ITEM(.milli = 400), "a:1",
         "a share goes beside another one");
    goes(p, ITEM(.milli = 500), "a:0",
         "or to a device of its own when it must");
    start(p, ITEM(.milli = 700), a, 0);
    goes(p, ITEM(.milli = 500), "",
         "it never lies on two devices");
    goes(p, ITEM(.milli = 300), "a:0",
         "it leaves as little as it can");
    plan_free(p);
}

/* One device of two nodes: the one that is broken already. */
static void test_tight(void)
{
    struct plan *p = plan_new();
    struct plan_node *b;
    struct plan_item *i;

    (void) NODE(.name = "a", .devices = 4);
    b = NODE(.name = "b", .devices = 4);
    for (uint32_t k = 0; k < 8; k++)
        (void) ITEM(.milli = 4000, .cpus = 4);
    i = ITEM(.milli = 1000, .cpus = 4);
    start(p, ITEM(.milli = 1000, .cpus = 4), b, 2);
    goes(p, i, "b:0", "a single device does not break a whole node");
    plan_free(p);
}

/* CPUs alone: where there is no device, then where CPUs are to spare. */
static void test_cpus(void)
{
    struct plan *p = plan_new();
    struct plan_node *c, *few, *many;
    struct plan_item *i;

    few = NODE(.name = "a", .devices = 8, .cpus = 64);
    many = NODE(.name = "b", .devices = 2, .cpus = 64);
    c = NODE(.name = "c", .cpus = 8);
    for (uint32_t k = 0; k < 8; k++)
        (void) ITEM(.milli = 1000, .cpus = 8);
    i = ITEM(.milli = 0, .cpus = 8);
    goes(p, i, "c", "work without a device goes to a node without any");
    start(p, ITEM(.milli = 0, .cpus = 8), c, 0);
    goes(p, i, "b", "then to where devices do not need the CPUs");
    plan_node_open(p, many, false);
    goes(p, i, "", "and leaves devices the CPUs that they need");
    plan_end(p, c->items[0], false);
    plan_node_remove(p, c);
    plan_node_remove(p, many);
    goes(p, i, "a", "unless there is no other node for it");
    (void) few;
    plan_free(p);
}

static void test_cpu_gang(void)
{
    struct plan *p = plan_new();
    struct plan_item *two;

    (void) NODE(.name = "a", .devices = 2, .cpus = 16);
    (void) ITEM(.milli = 1000, .cpus = 5);
    two = ITEM(.milli = 0, .cpus = 4, .count = 2);
    goes(p, two, "a a", "CPUs are not kept for devices from ranks that would "
         "not all find others");
    plan_free(p);
}

static void test_rating(void)
{
    struct plan *p = plan_new();
    struct policy policy;
    struct plan_item *i;

    policy_init(&policy);
    policy.nmodels = 1;
    policy.models[0] = (struct policy_model) { "H100", 2, 0 };
    plan_set_policy(p, &policy);
    (void) NODE(.name = "a", .model = "A100", .devices = 1);
    (void) NODE(.name = "b", .model = "H100", .devices = 1);
    i = ITEM(.milli = 1000);
    goes(p, i, "b:0", "the faster device first");
    policy.nmodels = 0;
    plan_set_policy(p, &policy);
    goes(p, i, "a:0", "among equals the smaller name");
    plan_free(p);
}

/* ---- many nodes: what is kept about where it fits ---- */

static void test_nowhere(void)
{
    enum { NODES = 400 };
    struct plan *p = plan_new();
    struct plan_node *nodes[NODES];
    struct plan_item *held[NODES], *i, *j;
    char name[16];

    for (uint32_t k = 0; k < NODES; k++) {
        struct plan_place all = { .ndevices = 2, .device = { 0, 1 } };

        (void) snprintf(name, sizeof name, "n%03u", k);
        nodes[k] = NODE(.name = name, .devices = 2);
        held[k] = ITEM(.milli = 2000);
        all.node = nodes[k];
        (void) plan_start(p, held[k], &all, 1, NULL);
    }
    i = ITEM(.milli = 1000);
    j = ITEM(.milli = 2000);
    goes(p, i, "", "a full pool has no room");
    ok(i->shape->nowhere_at == p->pool->gave, "which is noted");
    plan_end(p, held[321], false);
    goes(p, i, "n321:0", "room is found where it was made");
    goes(p, j, "n321:0,1", "by others, too");
    start(p, i, nodes[321], 0);
    goes(p, j, "", "and is gone again");
    plan_end(p, held[7], false);
    plan_end(p, held[5], false);
    goes(p, j, "n005:0,1", "the smaller name of two");
    ok(plan_check(p, NULL) == 0, "the checker agrees");
    plan_free(p);
}

/* What a node costs is kept until something changes there. */
static void test_scored(void)
{
    struct plan *p = plan_new();
    struct plan_node *a = NODE(.name = "a", .devices = 2);
    struct plan_node *b = NODE(.name = "b", .devices = 2);
    struct plan_item *i = ITEM(.milli = 500), *half = ITEM(.milli = 500);

    (void) ITEM(.milli = 2000);
    (void) ITEM(.milli = 1000);
    goes(p, i, "a:0", "two alike: the smaller name");
    ok(i->shape->parts[0].scored, "what they cost is kept");
    start(p, half, b, 1);
    goes(p, i, "b:1", "one is used in part now, and better");
    plan_end(p, half, false);
    goes(p, i, "a:0", "and no more");
    plan_device_open(p, b, 0, false);
    goes(p, i, "b:1", "one has a device less, and less to lose");
    plan_device_open(p, b, 0, true);
    goes(p, i, "a:0", "and has it again");
    half = ITEM(.milli = 500);
    start(p, half, a, 1);
    goes(p, i, "a:1", "a device in use in part");
    plan_leaving(p, half, NULL);
    plan_left(p, half, true, 0);
    ok(a->owed == 500, "who left is owed its place");
    goes(p, i, "b:0", "and others go elsewhere");
    ok(plan_check(p, NULL) == 0, "the checker agrees");
    plan_free(p);
}

/* Nodes where one without a device found no room are asked again once there is
 * some.
 */
static void test_vain(void)
{
    struct plan *p = plan_new();
    struct plan_node *a = NODE(.name = "a", .cpus = 8);
    struct plan_node *b = NODE(.name = "b", .cpus = 8), *c;
    struct plan_item *on_a = ITEM(.cpus = 3), *on_b = ITEM(.cpus = 3), *i;

    c = NODE(.name = "c", .cpus = 8);
    start(p, on_a, a, 0);
    start(p, on_b, b, 0);
    i = ITEM(.cpus = 6);
    goes(p, i, "c", "the only one with room");
    ok(i->shape->vain, "others are known to have none");
    goes(p, i, "c", "and are not asked again");
    ok(plan_check(p, NULL) == 0, "the checker agrees");
    plan_end(p, on_a, false);
    goes(p, i, "a", "where something ends there is room");
    plan_node_open(p, a, false);
    goes(p, i, "c", "a node that is closed has none");
    plan_node_open(p, a, true);
    goes(p, i, "a", "and has some when it opens");
    start(p, ITEM(.cpus = 3), a, 0);
    goes(p, i, "c", "it is taken");
    plan_node_remove(p, c);
    (void) NODE(.name = "aa", .cpus = 8);
    goes(p, i, "aa", "a new one has another's number, and room");
    plan_leaving(p, on_b, NULL);
    plan_left(p, on_b, false, 0);
    plan_hold(p, on_b, true);
    plan_node_open(p, p->nodes[2], false);
    goes(p, i, "b", "who leaves makes room");
    ok(plan_check(p, NULL) == 0, "the checker agrees");
    plan_free(p);
}

/* ---- gangs ---- */

static void test_gang(void)
{
    struct plan *p = plan_new();
    struct plan_node *b, *d;
    struct plan_item *four, *six;

    (void) NODE(.name = "a", .devices = 4, .domain = "x");
    b = NODE(.name = "b", .devices = 4, .domain = "y");
    (void) NODE(.name = "c", .devices = 4, .domain = "x");
    d = NODE(.name = "d", .devices = 4, .domain = "y");
    four = ITEM(.milli = 1000, .count = 4);
    six = ITEM(.milli = 1000, .count = 6);
    goes(p, four, "a:0 a:1 a:2 a:3", "a gang on one node when it fits there");
    start(p, ITEM(.milli = 1000), b, 0);
    start(p, ITEM(.milli = 1000), d, 0);
    goes(p, six, "b:1 b:2 b:3 d:1 d:2 d:3",
         "within the domain that has least to spare");
    goes(p, ITEM(.milli = 1000, .count = 9),
         "a:0 a:1 a:2 a:3 c:0 c:1 c:2 c:3 b:1",
         "over domains when it must, on few nodes");
    goes(p, ITEM(.milli = 2000, .count = 7), "",
         "whole or not at all");
    goes(p, ITEM(.milli = 2000, .count = 6),
         "a:0,1 a:2,3 c:0,1 c:2,3 b:1,2 d:1,2", "ranks of two devices");
    goes(p, ITEM(.milli = 1000, .count = 2, .max = 5),
         "b:1 b:2 b:3", "an elastic one takes what is near");
    ok(plan_check(p, NULL) == 0, "trying leaves nothing behind");
    plan_free(p);
}

static void test_pools(void)
{
    struct plan *p = plan_new();

    (void) NODE(.name = "a", .devices = 3, .pool = "one");
    (void) NODE(.name = "b", .devices = 3, .pool = "two");
    (void) NODE(.name = "c", .devices = 1, .pool = "two");
    goes(p, ITEM(.milli = 1000, .count = 4, .one_pool = true),
         "b:0 b:1 b:2 c:0", "a gang within one pool");
    goes(p, ITEM(.milli = 1000, .count = 5, .one_pool = true),
         "", "or not at all");
    goes(p, ITEM(.milli = 1000, .count = 5),
         "a:0 a:1 a:2 b:0 b:1", "unless it may span them");
    plan_free(p);
}

static void test_parts(void)
{
    struct plan *p = plan_new();
    struct plan_tenant *t = plan_tenant_set(p, &(struct plan_tenant_spec) {
        .name = "t", .max_milli = PLAN_UNLIMITED,
    });
    struct plan_part parts[] = {
        { .need = { .gpu_milli = 2000 }, .count = 1 },
        { .need = { .gpu_milli = 500, .cpu_milli = 32000 }, .count = 2 },
        { .need = { .cpu_milli = 4000 }, .count = 1 },
    };
    struct plan_item *i = plan_add(p, &(struct plan_item_spec) {
        .tenant = t, .parts = parts, .nparts = 3, .order = 1,
    });

    (void) NODE(.name = "a", .devices = 3, .cpus = 67);
    goes(p, i, "", "a set that lacks one CPU waits as a whole");
    (void) NODE(.name = "b", .cpus = 4);
    goes(p, i, "a:0,1 a:2 a:2 b", "parts see what the parts before took");
    plan_free(p);
}

/* ---- the suspended ---- */

static void test_back(void)
{
    struct plan *p = plan_new();
    struct plan_node *a = NODE(.name = "a", .devices = 1);
    struct plan_node *r = NODE(.name = "r", .devices = 1, .roams = true);
    struct plan_item *i = ITEM(.milli = 1000);
    struct plan_item *j = ITEM(.milli = 1000);

    (void) NODE(.name = "q", .devices = 1, .roams = true, .pool = "other");
    start(p, i, a, 0);
    start(p, j, r, 0);
    plan_left(p, i, true, 0);
    plan_left(p, j, true, 0);
    goes(p, i, "a:0", "the suspended goes on where its state is");
    start(p, ITEM(.milli = 1000), a, 0);
    goes(p, i, "", "and waits for that node");
    start(p, ITEM(.milli = 1000), r, 0);
    goes(p, j, "", "state is not moved to another pool");
    (void) NODE(.name = "s", .devices = 1, .roams = true);
    goes(p, j, "s:0", "unless its state can be moved");
    plan_free(p);
}

/* Its own bytes do not stand in its way. */
static void test_host_memory(void)
{
    struct plan *p = plan_new();
    struct plan_node *a = NODE(.name = "a", .devices = 2);
    struct plan_item *i = ITEM(.milli = 1000, .memory = 600 * GIB);

    i->bytes = 500 * GIB;
    start(p, i, a, 0);
    plan_left(p, i, true, 0);
    goes(p, i, "a:0", "the memory of the suspended is its own");
    goes(p, ITEM(.milli = 1000, .memory = 600 * GIB), "",
         "and nobody else's");
    plan_free(p);
}

static double score_in(bool ghost)
{
    struct plan *p = plan_new();
    struct plan_place *list = NULL;
    struct plan_node *gone;
    uint32_t n = 0;
    double score = 0;

    if (ghost) {
        struct policy policy = *plan_policy(p);

        policy.nmodels = 1;
        policy.models[0] = (struct policy_model) { "H200", 2, 2 };
        plan_set_policy(p, &policy);
        gone = NODE("g", .model = "H200", .devices = 1);
        plan_node_remove(p, gone);
    }
    (void) NODE("a", .devices = 3, .cpus = 4);
    for (unsigned k = 0; k < 3; k++)
        (void) ITEM(.milli = 2000, .cpus = 1);
    for (unsigned k = 0; k < 2; k++)
        (void) ITEM(.milli = 2000, .cpus = 1, .model = "A100");
    ok(place_find(p, ITEM(.milli = 500), NULL, &list, &n, &score), "it fits");
    free(list);
    plan_free(p);
    return score;
}

static void test_ghost(void)
{
    double with = score_in(true), without = score_in(false);

    ok(with <= without && with >= without,
       "a model that came and went leaves no trace: %g, %g", with, without);
}

int main(void)
{
    test_needs();
    test_fraction();
    test_tight();
    test_cpus();
    test_cpu_gang();
    test_rating();
    test_nowhere();
    test_scored();
    test_vain();
    test_gang();
    test_pools();
    test_parts();
    test_back();
    test_host_memory();
    test_ghost();
    return tap_done();
}
