#include "engine/kubernetes/blocks.h"

#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/tap.h"
#include "kube/inventory.h"
#include "kube/node.h"

#include <stdint.h>
#include <string.h>

static uint64_t now_ms = 1000;
static struct loop *loop;
static struct inventory *inventory;
static struct blocks *blocks;
static unsigned ups, losts;
static json_t *last;                   /* what was told last */
static char why[64];
static bool is_busy;

static uint64_t clock_ms(void *arg)
{
    (void) arg;
    return now_ms;
}

/* So much time goes by, and what is due is done. */
static void pass(uint64_t ms)
{
    now_ms += ms;
    for (int i = 0; i < 3; i++)
        (void) loop_turn(loop, 0, NULL);
}

static void on_up(const char *block, const char *token, const json_t *has,
                  void *arg)
{
    (void) arg;
    ups++;
    json_decref(last);
    last = json_deep_copy(has);
    json_put_str(last, "id", block);
    json_put_bool(last, "safe", strlen(token) == 64);
}

static void on_lost(const char *block, const char *text, void *arg)
{
    (void) block;
    (void) arg;
    losts++;
    (void) snprintf(why, sizeof why, "%s", text);
}

static bool busy(const char *node, void *arg)
{
    (void) node;
    (void) arg;
    return is_busy;
}

static void put_node(const char *spec)
{
    autofree char *text = mem_printf(
        "{\"metadata\":{\"name\":\"n1\",\"labels\":{\"nvidia.com/gpu.product\":"
        "\"NVIDIA-H200\",\"nvidia.com/gpu.memory\":\"1024\","
        "\"topology.kubernetes.io/zone\":\"z1\",\"weir.dev/gpus\":"
        "\"simulated\"}},\"spec\":{%s},\"status\":{\"allocatable\":{\"cpu\":"
        "\"8\",\"memory\":\"8Gi\",\"nvidia.com/gpu\":\"4\"},\"conditions\":["
        "{\"type\":\"Ready\",\"status\":\"True\"}]}}", spec);
    autojson json_t *o = mem_there(json_loads(text, 0, NULL));

    (void) inventory_put(inventory, INVENTORY_NODE, o, NULL);
    blocks_changed(blocks, true);
}

static void put_pod(const char *name, const char *gpus)
{
    autojson json_t *o = json_pack(
        "{s:{s:s,s:s},s:{s:s,s:[{s:{s:{s:s,s:s}}}]},s:{s:s}}", "metadata",
        "name", name, "namespace", "s", "spec", "nodeName", "n1",
        "containers", "resources", "requests", "cpu", "1500m",
        "nvidia.com/gpu", gpus, "status", "phase", "Running");

    (void) inventory_put(inventory, INVENTORY_POD, o, NULL);
    blocks_changed(blocks, true);
}

static bool is_own(const json_t *o, void *arg)
{
    (void) arg;
    return strcmp(json_get_str(json_object_get(o, "metadata"), "name", ""),
                  "own") == 0;
}

static bool has(uint64_t cpus, size_t devices)
{
    return json_get_u64(last, "cpus_milli", 99) == cpus &&
           json_array_size(json_object_get(last, "devices")) == devices;
}

static void test_told(void)
{
    const json_t *d;

    put_node("");
    pass(5000);
    ok(ups == 0, "nothing is told before it is asked for");
    blocks_get(blocks, "lab/n1");
    pass(0);
    d = json_array_get(json_object_get(last, "devices"), 0);
    ok(ups == 1 && has(8000, 4) && json_is_true(json_object_get(last, "safe"))
       && strcmp(json_get_str(last, "id", ""), "lab/n1") == 0 &&
       strcmp(json_get_str(last, "domain", ""), "z1") == 0 &&
       json_get_bool(last, "simulated", false) &&
       json_get_bool(last, "images", false) &&
       json_get_bool(last, "whole", false), "a node is a block");
    ok(strcmp(json_get_str(d, "model", ""), "H200") == 0 &&
       json_get_u64(d, "memory", 0) == UINT64_C(1) << 30 &&
       !json_object_get(d, "uuid"), "its devices, without the brand");
}

static void test_settles(void)
{
    put_pod("a", "1");
    put_pod("b", "1");
    pass(BLOCKS_SETTLE_MS - 1);
    ok(ups == 1, "a change is not told at once");
    pass(1);
    ok(ups == 2 && has(5000, 2), "two are told as one, a second later");
    put_pod("own", "2");
    pass(BLOCKS_SETTLE_MS);
    ok(ups == 2, "what our own pods take is the world's to count");
    put_node("");
    pass(BLOCKS_SETTLE_MS);
    ok(ups == 2, "the same once more is no news");
}

static void test_closed(void)
{
    is_busy = true;
    put_node("\"unschedulable\":true");
    pass(BLOCKS_SETTLE_MS);
    ok(ups == 3 && losts == 0 && has(0, 0),
       "cordoned, with pods of ours: it has nothing, and is not lost");
    is_busy = false;
    blocks_changed(blocks, true);
    pass(BLOCKS_SETTLE_MS);
    ok(ups == 3 && losts == 1 && strcmp(why, "cordoned") == 0,
       "lost when they are gone");
    blocks_changed(blocks, true);
    pass(BLOCKS_SETTLE_MS);
    ok(losts == 1, "once");
    put_node("\"taints\":[{\"key\":\"gpu\",\"effect\":\"NoSchedule\"}]");
    pass(BLOCKS_SETTLE_MS);
    ok(ups == 4 && has(5000, 2), "open again, with a taint it tolerates");
}

static void test_gone(void)
{
    autojson json_t *o = json_pack("{s:{s:s}}", "metadata", "name", "n1");
    autojson json_t *list = NULL;

    ok(strcmp(blocks_node(blocks, "lab/n1"), "n1") == 0 &&
       !blocks_node(blocks, "lab/n2"), "a block has its node");
    (void) inventory_drop(inventory, INVENTORY_NODE, o, NULL);
    blocks_changed(blocks, false);
    pass(BLOCKS_SETTLE_MS);
    ok(losts == 1, "what is not known whole is not told");
    blocks_changed(blocks, true);
    pass(BLOCKS_SETTLE_MS);
    list = blocks_list(blocks);
    ok(losts == 2 && !blocks_node(blocks, "lab/n1") &&
       json_array_size(json_object_get(list, "nodes")) == 0,
       "a node that is gone is lost: %s", why);
}

int main(void)
{
    struct blocks_conf conf = { .pool = "lab", .tolerate = "gpu", .up = on_up,
                                .lost = on_lost, .busy = busy };

    (void) loop_open(&loop, NULL);
    loop_set_clock(loop, clock_ms, NULL);
    inventory = inventory_new();
    inventory_own(inventory, is_own, NULL);
    blocks = blocks_new(loop, inventory, &conf);
    test_told();
    test_settles();
    test_closed();
    test_gone();
    blocks_free(blocks);
    inventory_free(inventory);
    json_decref(last);
    loop_close(loop);
    return tap_done();
}
