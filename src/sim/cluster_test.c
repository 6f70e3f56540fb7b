#include "sim/cluster.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/tap.h"

#include <string.h>

static struct err err;

static void test_specs(void)
{
    static const char *const bad[] = { "", "8", "x8", "8x", "0x8", "8x0",
                                       "1x2x3x4", "8x65", "70000x8", "ax8",
                                       "300x300x8" };
    struct cluster c = { 0 };

    ok(cluster_parse("4x16x8", &c, &err) == 0 && c.clusters == 4 &&
       c.nodes == 64 && c.gpus == 8 && c.idle == 512, "4x16x8");
    cluster_free(&c);
    for (size_t i = 0; i < array_size(bad); i++)
        ok(cluster_parse(bad[i], &c, &err) < 0 && !c.free, "refused: %s",
           err.text);
}

static void test_models(void)
{
    static const char *const bad[] = {
        "2x8:", "2x8:a:b", "2x8:a+", "2x8:a+2x4:b", "2x8:a+2x2x8:b",
        "2x2x8:a+2x8:b", "65000x8:a+1000x8:b",
        "2x8:abcdefghijklmnopqrstuvwxyzabcdef", "2x8:a,b",
        "1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1",
    };
    struct cluster c = { 0 };

    ok(cluster_parse("4x8", &c, &err) == 0 &&
       strcmp(cluster_model(&c, 3), "simulated") == 0, "no model is said");
    cluster_free(&c);
    ok(cluster_parse("2x8:H200+3x8:A10", &c, &err) == 0 && c.nodes == 5 &&
       c.clusters == 1 && c.idle == 40 &&
       strcmp(cluster_model(&c, 1), "H200") == 0 &&
       strcmp(cluster_model(&c, 2), "A10") == 0 &&
       strcmp(cluster_model(&c, 4), "A10") == 0, "two models in one cluster");
    cluster_free(&c);
    for (size_t i = 0; i < array_size(bad); i++)
        ok(cluster_parse(bad[i], &c, &err) < 0 && !c.free, "refused: %s",
           err.text);
}

static void test_best_fit(void)
{
    struct cluster c = { 0 };
    uint32_t a[4], b[4], d[4];

    ok(cluster_parse("3x8", &c, &err) == 0, "three nodes");
    ok(cluster_take(&c, 5, CLUSTER_ANY, a) && a[0] == 0, "the lowest");
    ok(cluster_take(&c, 4, CLUSTER_ANY, b) && b[0] == 1, "the next that fits");
    ok(cluster_take(&c, 3, CLUSTER_ANY, d) && d[0] == 0,
       "least free that fits");
    cluster_give(&c, 3, d);
    ok(cluster_take(&c, 11, CLUSTER_ANY, d) && d[0] == 2 && d[1] == 0,
       "a node of its own, the rest where least is free");
    ok(c.idle == 4 && cluster_fits(&c, 4, CLUSTER_ANY) &&
       !cluster_fits(&c, 5, CLUSTER_ANY), "four are left");
    cluster_give(&c, 11, d);
    c.first_fit = true;
    ok(cluster_take(&c, 1, CLUSTER_ANY, d) && d[0] == 0 &&
       cluster_take(&c, 4, CLUSTER_ANY, d) && d[0] == 1, "first fit");
    cluster_free(&c);
}

static void test_clusters(void)
{
    struct cluster c = { 0 }, copy = { 0 };
    uint32_t a[4], b[4];

    ok(cluster_parse("2x2x4", &c, &err) == 0, "two clusters");
    ok(cluster_take(&c, 1, CLUSTER_ANY, a) && a[0] == 0 &&
       cluster_take(&c, 1, CLUSTER_ANY, b) && b[0] == 2,
       "the cluster with most idle GPUs");
    ok(!cluster_fits(&c, 8, CLUSTER_ANY) && cluster_fits(&c, 7, CLUSTER_ANY),
       "no gang spans clusters");
    ok(cluster_take(&c, 2, 1, b) && b[0] == 2, "a gang that is pinned");
    cluster_copy(&copy, &c);
    cluster_give(&copy, 2, b);
    ok(copy.idle == 14 && c.idle == 12, "a copy is one's own");
    cluster_take_at(&copy, 2, b);
    ok(copy.idle == 12 && memcmp(copy.free, c.free, 4) == 0,
       "taken where it was");
    cluster_free(&copy);
    cluster_free(&c);
}

/* Many gangs come and go; whether a gang fits is known by counting. */
static void test_random(void)
{
    enum { GANGS = 40 };
    struct cluster c = { 0 };
    uint32_t nodes[GANGS][20];
    unsigned size[GANGS] = { 0 }, wrong = 0, in_use = 0;
    uint64_t seed = 1;

    ok(cluster_parse("70x4", &c, &err) == 0, "more nodes than a word has");
    for (int i = 0; i < 20000; i++) {
        uint64_t x = random_next(&seed);
        unsigned g = x % GANGS, want = 1 + (unsigned) (x >> 32) % 30;

        if (size[g]) {
            cluster_give(&c, size[g], nodes[g]);
            in_use -= size[g];
            size[g] = 0;
            continue;
        }
        bool fits = cluster_fits(&c, want, CLUSTER_ANY);

        if (cluster_take(&c, want, CLUSTER_ANY, nodes[g])) {
            size[g] = want;
            in_use += want;
        }
        wrong += fits != (size[g] > 0);
        wrong += c.idle != 280 - in_use;
    }
    ok(wrong == 0 && in_use > 0, "fits says what take does, sums hold");
    for (int g = 0; g < GANGS; g++)
        if (size[g])
            cluster_give(&c, size[g], nodes[g]);
    ok(c.idle == 280 && cluster_fits(&c, 280, CLUSTER_ANY), "all is given");
    cluster_free(&c);
}

int main(void)
{
    test_specs();
    test_models();
    test_best_fit();
    test_clusters();
    test_random();
    return tap_done();
}
