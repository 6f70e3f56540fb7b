#include "base/err.h"
#include "base/mem.h"
#include "plan/plan.h"
#include "sim/cluster.h"
#include "sim/dag.h"
#include "sim/openb.h"
#include "sim/pack.h"
#include "sim/run.h"
#include "sim/trace.h"
#include "sim/whatif.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* The first byte says which reader gets the rest: a trace (then a run of what
 * is a small one), quotas, pods, nodes, an order, a workflow or changes.  A
 * reader takes it or says in words what is wrong and leaves nothing behind;
 * what was read can be played.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(cond) do { if (!(cond)) abort(); } while (0)
enum { JOBS_PLAYED = 100 };

static const char NODES[] = "cpu_milli,memory_mib,gpu,model\n9,9,2,A\n";
static const char PODS[] =
    "cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,1,500\n1,1,0,0\n";
static const char TRACE[] = "submit_s,duration_s,gpus,tenant\n0,1,1,a\n";

static void play_trace(const struct trace *t)
{
    static const char *const names[] = { "easy", "las", "srtf", "sjf",
                                         "weir" };
    struct cluster c = { 0 };

    must(cluster_parse("2x3x4", &c, NULL) == 0);
    for (size_t i = 0; i < array_size(names); i++) {
        struct run_options o = { .policy = run_policy_find(names[i]),
                                 .resume_cost = 1 };
        struct run_result r = { 0 };
        struct err err = { 0 };

        if (run_trace(t, &c, &o, &r, &err) < 0)
            must(err.text[0]);
        else
            must(r.jobs == t->count && !isnan(r.avg_jct));
    }
    cluster_free(&c);
}

static void fuzz_trace(char *text, size_t len)
{
    struct trace t = { 0 };
    struct err err = { 0 };

    if (trace_read("fuzz", text, len, &t, &err) < 0) {
        must(err.text[0] && !t.jobs && !t.tenants);
        return;
    }
    must(t.count > 0);
    for (size_t i = 1; i < t.count; i++)
        must(t.jobs[i - 1].submit <= t.jobs[i].submit);
    if (t.count <= JOBS_PLAYED)
        play_trace(&t);
    trace_free(&t);
}

static void fuzz_quotas(char *text, size_t len)
{
    autofree char *jobs = mem_str(TRACE);
    struct trace t = { 0 };
    struct err err = { 0 };

    must(trace_read("jobs", jobs, strlen(jobs), &t, NULL) == 0);
    if (trace_quotas("fuzz", text, len, &t, &err) < 0)
        must(err.text[0]);
    trace_free(&t);
}

static void play_pack(const struct pack_list *l, const struct pack_order *o)
{
    struct pack_result r;

    pack_replay(l, o, pack_policy_find("weir"), 1, &r);
    must(r.allocated_milli <= r.capacity_milli && r.arrived == o->npods);
}

static void fuzz_lists(char *text, size_t len, bool pods)
{
    autofree char *other = mem_str(pods ? NODES : PODS);
    struct pack_list l = { 0 };
    struct pack_order o = { 0 };
    struct err err = { 0 };
    int rc = pods ? openb_read("n", other, strlen(other), "p", text, len, &l,
                               &err)
                  : openb_read("n", text, len, "p", other, strlen(other), &l,
                               &err);

    if (rc < 0) {
        must(err.text[0] && !l.nodes && !l.pods);
        return;
    }
    if (l.nnodes <= JOBS_PLAYED && l.npods <= JOBS_PLAYED) {
        uint32_t in_order[JOBS_PLAYED];

        for (uint32_t i = 0; i < JOBS_PLAYED; i++)
            in_order[i] = i;
        o.pods = in_order;
        o.first = in_order;
        o.npods = l.npods;
        play_pack(&l, &o);
    }
    pack_list_free(&l);
}

static void fuzz_order(char *text, size_t len)
{
    autofree char *nodes = mem_str(NODES);
    autofree char *pods = mem_str(PODS);
    struct pack_list l = { 0 };
    struct pack_order o = { 0 };
    struct err err = { 0 };

    must(openb_read("n", nodes, strlen(nodes), "p", pods, strlen(pods), &l,
                    NULL) == 0);
    if (openb_order("fuzz", text, len, 1, &l, &o, &err) < 0)
        must(err.text[0] && !o.pods && !o.first);
    else
        play_pack(&l, &o);
    pack_order_free(&o);
    pack_list_free(&l);
}

static void fuzz_dag(char *text, size_t len)
{
    struct flow_nodes node = { .count = 1, .cpu_milli = 2000 };
    struct flow_options o = { .nodes = &node, .nnodes = 1, .alone = true };
    struct flow f = { 0 };
    struct flow_result r = { 0 };
    struct err err = { 0 };
    struct plan *p;

    if (dag_read("fuzz", text, len, &f, &err) < 0) {
        must(err.text[0] && !f.tasks && !f.edges);
        return;
    }
    must(f.count > 0 && flow_check(&f, NULL) == 0);
    if (f.count <= JOBS_PLAYED) {
        p = flow_plan(&o);
        must(flow_play(&f, p, &o, &r, &err) == 0);
        must(r.makespan_ms >= r.critical_ms);
        plan_free(p);
    }
    flow_free(&f);
}

static void fuzz_changes(const char *text, size_t len)
{
    struct whatif_changes *c = NULL;
    struct err err = { 0 };

    if (whatif_read("fuzz", text, len, &c, &err) < 0)
        must(err.text[0] && !c);
    else
        must(c);
    whatif_changes_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autofree char *text = NULL;

    if (size == 0)
        return 0;
    text = mem_new(size);              /* and a NUL */
    memcpy(text, data + 1, size - 1);
    switch (data[0]) {
    case 'q': fuzz_quotas(text, size - 1); break;
    case 'p': fuzz_lists(text, size - 1, true); break;
    case 'n': fuzz_lists(text, size - 1, false); break;
    case 'o': fuzz_order(text, size - 1); break;
    case 'd': fuzz_dag(text, size - 1); break;
    case 'c': fuzz_changes(text, size - 1); break;
    default:  fuzz_trace(text, size - 1); break;
    }
    return 0;
}
