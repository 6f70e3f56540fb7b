#include "sim/observed.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "plan/plan.h"
#include "sim/flow.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MILLI = 1000 };

/* Who waits and what is in use changes by so much. */
struct edge {
    uint64_t at_ms;
    int64_t waiting, gpus;
};

struct reading {
    struct flow flow;
    struct edge *edges;                /* as it was: three of each pod */
    size_t nedges;
    struct flow_nodes *nodes;
    size_t nnodes;
    uint64_t from_ms, to_ms, left_out;
    double wait_ms, length_ms;
    struct map *tenants;               /* name -> number + 1 */
};

static uint64_t time_at(const json_t *o, const char *key)
{
    uint64_t ms;

    return clock_parse(json_get_str(o, key, ""), &ms, NULL) < 0 ? 0 : ms;
}

/* Those that could take anything: a taint keeps some pods away, not all. */
static void read_nodes(struct reading *r, const json_t *pool)
{
    const json_t *list = json_object_get(pool, "nodes"), *n;
    size_t i;

    r->nodes = mem_array(json_array_size(list) + 1, sizeof(*r->nodes));
    json_array_foreach(list, i, n) {
        const char *closed = json_get_str(n, "closed", "");
        uint64_t gpus = json_get_u64(json_object_get(n, "device_count"),
                                     "total", 0);

        if (gpus == 0 || gpus > PLAN_DEVICES ||
            (*closed && strncmp(closed, "taint ", 6) != 0))
            continue;
        r->nodes[r->nnodes++] = (struct flow_nodes) {
            .count = 1, .gpus = (uint32_t) gpus, .cpu_milli = (uint64_t)
            llround(json_get_number(json_object_get(n, "cpus"), "total") *
                    MILLI),
        };
    }
}

static bool has_place(const struct reading *r, uint64_t gpus, uint64_t cpus)
{
    for (size_t i = 0; i < r->nnodes; i++)
        if (r->nodes[i].gpus >= gpus && r->nodes[i].cpu_milli >= cpus)
            return true;
    return false;
}

static uint32_t tenant_of(struct reading *r, const char *name)
{
    uintptr_t at = (uintptr_t) map_get(r->tenants, name);

    if (at == 0) {
        at = ++r->flow.ntenants;
        (void) map_set(r->tenants, name, (void *) at);
    }
    return (uint32_t) at - 1;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void add_edges(struct reading *r, uint64_t made, uint64_t bound,
                      uint64_t ended, uint64_t gpus)
{
    struct edge *e = r->edges + r->nedges;

    e[0] = (struct edge) { made, 1, 0 };
    e[1] = (struct edge) { bound, -1, (int64_t) gpus };
    e[2] = (struct edge) { ended, 0, -(int64_t) gpus };
    r->nedges += 3;
}

static int by_time(const void *va, const void *vb)
{
    const struct edge *a = va, *b = vb;

    return (a->at_ms > b->at_ms) - (a->at_ms < b->at_ms);
}

/* GPU-milliseconds of these that were idle while some pod waited. */
static double idle_as_it_was(struct reading *r, uint64_t gpus)
{
    int64_t waiting = 0, used = 0;
    double idle = 0;

    qsort(r->edges, r->nedges, sizeof *r->edges, by_time);
    for (size_t i = 0; i < r->nedges; i++) {
        const struct edge *e = &r->edges[i];

        if (i > 0 && waiting > 0 && used < (int64_t) gpus)
            idle += (double) ((int64_t) gpus - used) *
                    (double) (e->at_ms - e[-1].at_ms);
        waiting += e->waiting;
        used += e->gpus;
    }
    return idle;
}

static void read_job(struct reading *r, const json_t *j)
{
    const char *space = json_get_str(j, "namespace", "");
    uint64_t gpus = json_get_u64(j, "devices", 0);
    uint64_t cpus = (uint64_t) llround(json_get_number(j, "cpus") * MILLI);
    uint64_t made = later(time_at(j, "made"), r->from_ms);
    uint64_t bound = later(time_at(j, "bound"), made);
    uint64_t ended = time_at(j, "ended");
    struct flow_task *t = &r->flow.tasks[r->flow.count];

    ended = ended && ended < r->to_ms ? ended : r->to_ms;
    if (ended <= bound)
        return;                        /* not of this time */
    if (gpus == 0 || !has_place(r, gpus, cpus) ||
        r->flow.count == FLOW_TASKS) {
        r->left_out++;
        return;
    }
    *t = (struct flow_task) {
        .submit_ms = made - r->from_ms, .length_ms = ended - bound,
        .cpu_milli = cpus, .gpus = (uint32_t) gpus,
        .tenant = tenant_of(r, space), .workload = r->flow.count,
        .sig.key = { predict_key(space, gpus), predict_key(space, 0) },
    };
    add_edges(r, made, bound, ended, gpus);
    r->wait_ms += (double) (bound - made);
    r->length_ms += (double) (ended - bound);
    r->flow.count++;
    r->flow.nworkloads++;
}

static int play(struct reading *r, struct observed *ret, struct err *err)
{
    struct flow_options o = { .nodes = r->nodes, .nnodes = r->nnodes,
                              .learned = true, .lookahead_ms = -1 };
    struct plan *p = flow_plan(&o);
    uint64_t span = r->to_ms - r->from_ms;
    struct flow_result got = { 0 };
    double n = r->flow.count, all;
    int rc = flow_play(&r->flow, p, &o, &got, err);

    plan_free(p);
    if (rc < 0)
        return rc;
    all = (double) got.gpus * (double) later(span, got.makespan_ms);
    ret->pods = r->flow.count;
    ret->left_out += r->left_out;
    ret->wait_s = r->wait_ms / n / 1000;
    ret->plan_wait_s = fmax(0, got.avg_ms - r->length_ms / n) / 1000;
    ret->wr = span && got.gpus ? idle_as_it_was(r, got.gpus) /
              ((double) got.gpus * (double) span) : 0;
    ret->plan_wr = all > 0 ? (double) got.idle_ms / all : 0;
    ret->gpus = got.gpus;
    return 0;
}

int observed_play(const json_t *waste, const json_t *pool,
                  struct observed *ret, struct err *err)
{
    const json_t *jobs = json_object_get(waste, "jobs"), *j;
    struct reading r = {
        .from_ms = time_at(waste, "from"), .to_ms = time_at(waste, "to"),
        .tenants = map_new(),
    };
    size_t i;
    int rc = 0;

    *ret = (struct observed) {
        .left_out = json_get_u64(waste, "jobs_left_out", 0),
    };
    r.flow.tasks = mem_array(json_array_size(jobs) + 1, sizeof(*r.flow.tasks));
    r.edges = mem_array(3 * json_array_size(jobs) + 1, sizeof(*r.edges));
    r.flow.edges = mem_array(1, sizeof(*r.flow.edges));
    read_nodes(&r, pool);
    json_array_foreach(jobs, i, j)
        read_job(&r, j);
    if (r.nnodes == 0 || r.flow.count == 0)
        rc = err_set(err, ENOENT, r.nnodes ? "no pods with GPUs ran there in "
                     "this time" : "no node with GPUs is open there now");
    else
        rc = play(&r, ret, err);
    flow_free(&r.flow);
    free(r.nodes);
    free(r.edges);
    map_free(r.tenants);
    return rc;
}
