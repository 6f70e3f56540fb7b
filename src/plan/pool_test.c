#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"
#include "plan/line.h"
#include "plan/pool.h"
#include "plan/stage.h"

#include <string.h>

static const uint64_t GIB = UINT64_C(1) << 30;

static struct plan_node *add_node(struct plan *p, const char *name,
                                  uint32_t devices, uint64_t cpus)
{
    struct plan_device list[64];

    for (uint32_t k = 0; k < devices; k++)
        list[k] = (struct plan_device) { "A100", 80 * GIB };
    return plan_node_add(p, &(struct plan_node_spec) {
        .name = name, .pool = "main", .domain = "", .cpu_milli = cpus * 1000,
        .memory = 100 * GIB, .devices = list, .ndevices = devices,
        .suspends = true,
    }, NULL);
}

static struct plan_item *add_item(struct plan *p, uint32_t gpu_milli,
                                  uint64_t cpus)
{
    struct plan_tenant *t = plan_tenant_set(p, &(struct plan_tenant_spec) {
        .name = "t", .max_milli = PLAN_UNLIMITED,
    });
    struct plan_part part = {
        .need = { .gpu_milli = gpu_milli, .cpu_milli = cpus * 1000,
                  .memory = 10 * GIB },
        .count = 1, .max = 1,
    };

    return plan_add(p, &(struct plan_item_spec) {
        .tenant = t, .parts = &part, .nparts = 1, .order = p->items + 1,
        .bytes = 20 * GIB,
    });
}

static bool fine(const struct plan *p)
{
    struct err err = { 0 };

    if (plan_check(p, &err) == 0)
        return true;
    printf("# %s\n", err.text);
    return false;
}

/* ---- sets of bits, over what is left out of a plain list ---- */

static void test_bits(void)
{
    enum { SIZE = 10000 };
    struct plan *p = plan_new();
    char name[32];
    uint32_t k, seen = 0, last = 0;
    struct family *f;
    bool sorted = true;

    for (k = 0; k < SIZE; k++) {
        (void) snprintf(name, sizeof name, "n%05u", SIZE - k);
        (void) add_node(p, name, 1, k % 97 == 0 ? 1 : 4);
    }
    f = p->pool->families[0];
    pool_ready(f);
    k = bits_next(&f->whole[1][1], 0, f->nnodes);
    for (; k != UINT32_MAX; k = bits_next(&f->whole[1][1], k + 1, f->nnodes)) {
        sorted &= seen == 0 || strcmp(f->nodes[last]->name,
                                      f->nodes[k]->name) < 0;
        sorted &= f->nodes[k]->cpu_free == 1000;
        last = k;
        seen++;
    }
    ok(seen == (SIZE + 96) / 97, "a bucket has its nodes, far apart: %u", seen);
    ok(sorted, "in the order of their names");
    ok(p->pool->nfamilies == 1 && p->pool->nkinds == 2,
       "equal devices are a family, equal CPUs a kind");
    ok(fine(p), "the checker agrees");
    plan_free(p);
}

/* ---- take and give ---- */

static void test_take(void)
{
    struct plan *p = plan_new();
    struct plan_node *n = add_node(p, "n", 4, 16);
    struct plan_item *i = add_item(p, 2000, 8), *q = add_item(p, 300, 1);
    struct plan_place two = { .node = n, .ndevices = 2, .device = { 1, 3 } };
    struct plan_place part = { .node = n, .ndevices = 1, .device = { 2 } };
    struct plan_place bad = { .node = n, .ndevices = 2, .device = { 3, 1 } };

    ok(!pool_has(p, &i->shape->parts[0], &bad, 0), "devices are ascending");
    bad.device[0] = bad.device[1];
    ok(!pool_has(p, &i->shape->parts[0], &bad, 0), "and differ");
    bad.device[1] = 4;
    ok(!pool_has(p, &i->shape->parts[0], &bad, 0), "and are there");
    bad.ndevices = 1;
    ok(!pool_has(p, &i->shape->parts[0], &bad, 0), "and as many as are needed");
    ok(plan_start(p, i, &two, 1, NULL) == 0 && n->free_whole == 2 &&
       n->free_milli == 2000 && n->cpu_free == 8000, "two devices are taken");
    ok(plan_start(p, q, &part, 1, NULL) == 0 && n->free_whole == 1 &&
       n->free_part == 700 && n->free_most == 1000, "and a share of one");
    ok(fine(p), "the checker agrees");
    plan_left(p, i, true, 0);
    ok(n->parked == 20 * GIB && n->memory_free == 70 * GIB &&
       n->free_whole == 3, "the suspended stays in the node's memory");
    ok(fine(p), "the checker agrees");
    plan_end(p, i, false);
    plan_end(p, q, true);
    ok(n->parked == 0 && n->free_milli == 4000 && n->cpu_free == 16000 &&
       n->memory_free == 100 * GIB && n->nitems == 0, "all is given back");
    ok(fine(p), "the checker agrees");
    plan_free(p);
}

static void test_checker(void)
{
    struct plan *p = plan_new();
    struct plan_node *n = add_node(p, "n", 4, 16);

    pool_ready(n->family);
    n->devices[0].free_milli = 900;
    ok(!fine(p), "a share that nobody holds is found");
    n->devices[0].free_milli = 1000;
    n->family->whole[4][5].count++;
    ok(!fine(p), "a bucket that counts wrong is found");
    n->family->whole[4][5].count--;
    n->cpu_free--;
    ok(!fine(p), "a CPU that is nowhere is found");
    n->cpu_free++;
    p->line->hopers++;
    ok(!fine(p), "one that hopes and is not there is found");
    p->line->hopers--;
    p->timetable.live++;
    ok(!fine(p), "a timer of nobody is found");
    p->timetable.live--;
    p->stager->looks.count++;
    ok(!fine(p), "a look at nobody is found");
    p->stager->looks.count--;
    ok(fine(p), "and all is well again");
    plan_free(p);
}

/* ---- closed ---- */

static void test_open(void)
{
    struct plan *p = plan_new();
    struct plan_node *n = add_node(p, "n", 2, 16);
    struct plan_item *i = add_item(p, 1000, 1);
    struct plan_decision d;

    plan_device_open(p, n, 0, false);
    ok(n->free_whole == 1 && plan_next(p, &d) && d.places[0].device[0] == 1,
       "a closed device is not used");
    plan_node_open(p, n, false);
    ok(!plan_next(p, &d) && n->bucket_whole == 0, "nor is a closed node");
    ok(fine(p), "the checker agrees");
    plan_node_open(p, n, true);
    plan_device_open(p, n, 0, true);
    ok(plan_next(p, &d) && d.item == i && d.places[0].device[0] == 0,
       "open again, both are");
    plan_end(p, i, false);
    plan_node_remove(p, n);
    ok(fine(p) && p->pool->nkinds == 0, "a node goes, and its kind with it");
    n = add_node(p, "m", 2, 16);
    ok(n->index == 0 && fine(p), "the next one gets its number");
    plan_free(p);
}

int main(void)
{
    test_bits();
    test_take();
    test_checker();
    test_open();
    return tap_done();
}
