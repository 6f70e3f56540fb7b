#include "sim/openb.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"
#include "sim/pack.h"

#include <string.h>

static const char NODES[] =
    "sn,cpu_milli,memory_mib,gpu,model\n"
    "n0,64000,1000,2,P100\n"
    "n1,96000,2000,8,T4\n"
    "n2,32000,500,0,\n";
static const char PODS[] =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    "p0,1000,10,1,500,\n"
    "p1,1000,20,1,500,\n"
    "p2,1000,10,1,500,T4|V100\n"
    "p3,2000,10,0,0,\n"
    "p4,8000,10,8,1000,V100\n";
static const char ORDER[] =
    "# for people\n"
    "pods 7 3 4 0 4\n"
    "nodes 7 3 2 0 1\n"
    "pods 8 1 0\n";

static struct err err;

static int read_both(const char *nodes, const char *pods,
                     struct pack_list *ret)
{
    autofree char *n = mem_str(nodes);
    autofree char *p = mem_str(pods);

    return openb_read("nodes", n, strlen(nodes), "pods", p, strlen(pods), ret,
                      &err);
}

static int read_order(const char *text, uint64_t seed,
                      const struct pack_list *l, struct pack_order *ret)
{
    autofree char *t = mem_str(text);

    return openb_order("order", t, strlen(text), seed, l, ret, &err);
}

static void test_lists(struct pack_list *l)
{
    ok(read_both(NODES, PODS, l) == 0 && l->nnodes == 3 && l->npods == 5,
       "nodes and pods are read");
    ok(l->nodes[1].gpus == 8 && l->nodes[1].free == 8000 &&
       l->nodes[1].left[7] == 1000 && l->nodes[1].cpu == 96000,
       "a node is empty at first");
    ok(l->nshapes == 4 && l->pods[0].shape == l->pods[1].shape &&
       l->shapes[0].count == 2, "pods that differ in memory have one shape");
    ok(l->shapes[0].models == UINT64_MAX && l->shapes[1].models == 2,
       "an empty spec is any model; what no node has is none");
    ok(l->shapes[3].models == 0, "a model that nobody has fits nowhere");
}

static void test_orders(const struct pack_list *l)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        { "pods 7 2 0 1\n", "no order for seed" },
        { "pods 7 2 0\nnodes 7 3 0 1 2\n", "missing" },
        { "pods 7 2 0 1 1\nnodes 7 3 0 1 2\n", "more than" },
        { "pods 7 1 5\nnodes 7 3 0 1 2\n", "beyond the list" },
        { "pods 7 1 0\nnodes 7 2 0 1\n", "ranks 2 nodes" },
        { "pots 7 1 0\n", "neither" },
        { "pods 7 1 x\n", "order:1" },
        { "pods 7 99999999 1\n", "more than" },
    };
    struct pack_order o = { 0 };

    ok(read_order(ORDER, 7, l, &o) == 0 && o.npods == 3 && o.pods[0] == 4 &&
       o.pods[1] == 0 && o.first[0] == 2, "the order of one seed");
    pack_order_free(&o);
    for (size_t i = 0; i < array_size(bad); i++)
        ok(read_order(bad[i].text, 7, l, &o) < 0 && !o.pods &&
           strstr(err.text, bad[i].why), "refused: %s", err.text);
}

static void test_bad_lists(void)
{
    static const struct {
        const char *nodes, *pods, *why;
    } bad[] = {
        { "sn,cpu_milli,gpu,model\n", PODS, "no column 'memory_mib'" },
        { "cpu_milli,memory_mib,gpu,model\n", PODS, "no nodes" },
        { "cpu_milli,memory_mib,gpu,model\n1,1,17,A\n", PODS, "gpu '17'" },
        { NODES, "cpu_milli,memory_mib,num_gpu,gpu_milli\n", "no pods" },
        { NODES, "cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,2,500\n",
          "whole GPUs" },
        { NODES, "cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,1,0\n",
          "1 to 1000" },
        { NODES, "cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,1,1001\n",
          "too large" },
    };
    struct pack_list l = { 0 };

    for (size_t i = 0; i < array_size(bad); i++)
        ok(read_both(bad[i].nodes, bad[i].pods, &l) < 0 && !l.nodes &&
           strstr(err.text, bad[i].why), "refused: %s", err.text);
}

int main(void)
{
    struct pack_list l = { 0 };

    test_lists(&l);
    test_orders(&l);
    test_bad_lists();
    pack_list_free(&l);
    return tap_done();
}
