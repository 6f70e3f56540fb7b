#pragma once

#include "plan/predict.h"
#include "sim/run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct plan;

/* flow - tasks that wait for each other go through the plan on a virtual
 * clock.
 *
 * A task comes into line when all its parents have ended, with the predicted
 * way from its start to the end of its workload.  The plan decides, its
 * decisions are carried out at once; who is suspended pays when it goes on.
 * The same input gives the same result.
 */
enum { FLOW_TASKS = 1000000, FLOW_EDGES = 10000000 };

struct flow_task {
    uint64_t submit_ms, length_ms;
    uint64_t cpu_milli;                /* of all */
    uint32_t gpus;                     /* up to a node's on one node */
    uint32_t tenant, workload;
    int priority;
    uint32_t first, nparents;          /* of its edges */
    struct predict_sig sig;
};

struct flow {
    struct flow_task *tasks;           /* a workload's stand together */
    uint32_t count;
    uint32_t *edges;                   /* numbers of parents */
    uint32_t nedges;
    uint32_t ntenants, nworkloads;
};
void flow_free(struct flow *f);
/* 0, or -ELOOP with a task named that waits for itself. */
int flow_check(const struct flow *f, struct err *err);

/* The way from the start of each task to the end of what hangs on it, given
 * the length of each.  Mem_array, the caller frees.
 */
uint64_t *flow_ways(const struct flow *f, const uint64_t *lengths);

struct flow_nodes {                    /* alike */
    uint32_t count, gpus;
    uint64_t cpu_milli;
};
struct flow_options {
    const struct flow_nodes *nodes;
    size_t nnodes;
    bool learned;                      /* ways by what the plan has learned */
    bool alone;                        /* all came at once, to be done soon:
                                          no patience, no turns */
    bool suspends;                     /* tasks can be, and go on anywhere */
    uint64_t resume_ms;                /* what going on costs */
    /* What a task with GPUs takes once before its work begins; who is
     * suspended in it owes the rest.  Above 0 nodes stage, and kids are
     * expected when their last parent ends.
     */
    uint64_t startup_ms;
    int64_t lookahead_ms;              /* with startup_ms; below 0: the policy's */
};
/* A plan with these nodes, all simulated, and nothing in line. */
struct plan *flow_plan(const struct flow_options *o);

struct flow_result {
    uint64_t makespan_ms;              /* from the first submission */
    uint64_t critical_ms;              /* the longest way, by true lengths */
    uint64_t cpu_ms, gpu_ms;           /* work: thousandths of CPUs; GPUs */
    uint64_t gpus;                     /* there are */
    uint64_t resume_ms;                /* GPU-milliseconds of going on */
    /* GPU-milliseconds while some task waits for GPUs, and idle of these. */
    uint64_t wanted_ms, idle_ms;
    double avg_ms;                     /* submission to end, of workloads */
    uint64_t preemptions;
    struct run_staged staged;
    struct predict_quality quality;
};
/* Play all tasks; the plan keeps what it has learned, and its clock goes on. */
int flow_play(const struct flow *f, struct plan *p,
              const struct flow_options *o, struct flow_result *ret,
              struct err *err);
