#include "sim/pack_int.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"
#include "sim/openb.h"

#include <math.h>
#include <string.h>

static const char NODES[] =
    "cpu_milli,memory_mib,gpu,model\n"
    "64000,64000,8,A\n"
    "128000,64000,8,B\n"
    "8000,64000,2,A\n";
/* Half of all need half a GPU, a quarter a whole one, a quarter none. */
static const char PODS[] =
    "cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    "4000,1,1,500,\n"
    "4000,1,1,500,\n"
    "8000,1,1,1000,B\n"
    "2000,1,0,0,\n";

static void read_list(const char *nodes, const char *pods,
                      struct pack_list *ret)
{
    autofree char *n = mem_str(nodes);
    autofree char *p = mem_str(pods);
    struct err err = { 0 };

    ok(openb_read("nodes", n, strlen(nodes), "pods", p, strlen(pods), ret,
                  &err) == 0, "a list is read: %s", err.text);
}

static bool near_to(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static void test_frag(const struct pack_list *l)
{
    struct frag_types t = { 0 };
    struct pack_node a = l->nodes[0], b = l->nodes[1];

    pack_types_of(l, 95, &t);
    ok(t.count == 3 && near_to(t.items[0].weight, 0.5) &&
       t.items[0].gpus == 1, "every kind is typical here, the first most");
    ok(near_to(pack_frag(&b, &t), 0.25 * 8000),
       "an empty node of B is lost to those that need no GPU");
    ok(near_to(pack_frag(&a, &t), 0.5 * 8000),
       "one of A also to those that want B");
    b.left[0] = 400;
    b.free = 7400;
    ok(near_to(pack_frag(&b, &t), 0.25 * 7400 + 0.75 * 400),
       "a piece that is too small is lost");
    b.cpu = 7999;
    ok(near_to(pack_frag(&b, &t), 0.5 * 7400 + 0.5 * 400),
       "all is lost to those whose CPUs are not there");
    free(t.items);
}

static void test_scores(const struct pack_list *l)
{
    struct pack p = { .list = l, .nodes = l->nodes };
    const struct pack_shape *half = &l->shapes[0], *none = &l->shapes[2];

    ok(near_to(pack_score_bestfit(&p, half, 1), 4),
       "bestfit: 100 - 50*124/128 - 50*7.5/8, cut");
    ok(near_to(pack_score_dotprod(&p, half, 1), 95),
       "dotprod: 100 - 50*4/128 - 50*0.5/8, cut");
    ok(near_to(pack_score_packing(&p, half, 1), 25) &&
       near_to(pack_score_packing(&p, half, 2), 31) &&
       near_to(pack_score_packing(&p, none, 1), 0), "packing: empty nodes");
    l->nodes[1].left[3] = 600;
    l->nodes[1].free = 7600;
    l->nodes[1].classes = 1;
    ok(near_to(pack_score_packing(&p, half, 1), 94),
       "packing: a piece of 600 is used first");
    ok(near_to(pack_score_packing(&p, &l->shapes[1], 1), 49),
       "packing: one whole GPU of a node in use");
    ok(pack_device_tight(&p, half, 1) == 3, "the GPU with least left");
    ok(near_to(pack_score_clustering(&p, half, 1), 76) &&
       near_to(pack_score_clustering(&p, half, 0), 25) &&
       near_to(pack_score_clustering(&p, &l->shapes[1], 1), 1),
       "clustering: like goes to like");
}

/* Two small nodes, a pod that only the larger holds comes last. */
static void test_replay(void)
{
    struct pack_list l = { 0 };
    uint32_t pods[] = { 0, 0, 1, 1 }, first[] = { 1, 0 };
    struct pack_order o = { .pods = pods, .npods = 4, .first = first };
    struct pack_result r;

    read_list("cpu_milli,memory_mib,gpu,model\n9,9,1,A\n9,9,2,A\n",
              "cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,1,500\n"
              "1,1,2,1000\n", &l);
    pack_replay(&l, &o, pack_policy_find("bestfit"), 1, &r);
    ok(r.arrived == 4 && r.failed == 1 && r.allocated_milli == 3000 &&
       r.arrived_milli == 5000 && r.capacity_milli == 3000,
       "bestfit leaves the large node to the large pod");
    pack_replay(&l, &o, pack_policy_find("dotprod"), 1, &r);
    ok(r.failed == 2 && r.allocated_milli == 1000,
       "dotprod sees no difference; the node that goes first is in the way");
    pods[0] = 1;
    pods[1] = 1;
    pack_replay(&l, &o, pack_policy_find("fgd"), 1, &r);
    ok(r.failed == 3 && r.allocated_milli == 2000,
       "what fits nowhere is dropped");
    pack_list_free(&l);
}

/* Two nodes of four GPUs, one with few CPUs to spare: a pod that needs
 * CPUs alone is in the way there.
 */
static void test_prices(void)
{
    struct pack_list l = { 0 };
    uint32_t pods[] = { 1, 0, 1, 1, 1, 1, 1, 1, 1 }, first[] = { 0, 1 };
    struct pack_order o = { .pods = pods, .npods = 9, .first = first };
    struct pack_result r;

    read_list("cpu_milli,memory_mib,gpu,model\n8000,99,4,A\n80000,99,4,A\n",
              "cpu_milli,memory_mib,num_gpu,gpu_milli\n6000,1,0,0\n"
              "1000,1,1,1000\n", &l);
    pack_replay(&l, &o, pack_policy_find("fgd"), 1, &r);
    ok(r.failed > 0, "fgd: one more pod has CPUs there, so all is well");
    pack_replay(&l, &o, pack_policy_find("weir"), 1, &r);
    ok(r.failed == 0 && r.allocated_milli == 8000,
       "weir: it goes where CPUs are plenty");
    pack_list_free(&l);
}

/* Every policy on the same drawn order: nothing is given twice, and the same
 * seed gives the same result.
 */
static void test_all(const struct pack_list *l)
{
    static const char *const names[] = { "random", "dotprod", "clustering",
                                         "packing", "bestfit", "fgd",
                                         "weir" };
    struct pack_order o = { 0 };
    struct pack_result r, again;

    pack_order_draw(l, 5, 200, &o);
    ok(o.npods > 40, "%zu pods ask for twice what there is", o.npods);
    for (size_t i = 0; i < array_size(names); i++) {
        const struct pack_policy *p = pack_policy_find(names[i]);

        pack_replay(l, &o, p, 5, &r);
        pack_replay(l, &o, p, 5, &again);
        ok(r.allocated_milli <= r.capacity_milli && r.failed > 0 &&
           r.allocated_milli > r.capacity_milli / 2 &&
           r.frag_milli <= (double) (r.capacity_milli - r.allocated_milli) &&
           r.allocated_milli == again.allocated_milli &&
           r.failed == again.failed, "%s: %llu of %llu", names[i],
           (unsigned long long) r.allocated_milli,
           (unsigned long long) r.capacity_milli);
        ok(strstr(pack_policy_names(), names[i]), "%s is named", names[i]);
    }
    ok(!pack_policy_find("first"), "there is no policy 'first'");
    pack_order_free(&o);
}

int main(void)
{
    struct pack_list l = { 0 };

    read_list(NODES, PODS, &l);
    test_frag(&l);
    test_all(&l);
    test_scores(&l);
    test_replay();
    test_prices();
    pack_list_free(&l);
    return tap_done();
}
