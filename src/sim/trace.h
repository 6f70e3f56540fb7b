#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;

/* trace - jobs with a time of submission, a length and a number of GPUs.
 *
 * Which format it is shows in the heading:
 *
 *   ours:   submit_s, duration_s, gpus, and perhaps tenant
 *   Philly: the same with vc in place of tenant
 *   Muri:   submit_time and iteration_time in ms, iterations, num_gpu,
 *           model_name
 *
 * Jobs stand in order of submission, and in the file's order among equals.
 */
enum { TRACE_JOBS = 10000000, TRACE_TENANTS = 100000 };

struct trace_job {
    double submit, length;             /* seconds */
    double iteration;                  /* seconds; 0 where there are none */
    double iterations;
    double overhead;                   /* of Muri's model and gang, seconds */
    uint32_t gpus;
    uint32_t tenant;
};

struct trace_tenant {
    char *name;
    uint32_t quota;                    /* GPUs */
    int32_t cluster;                   /* it is pinned to, or -1 */
};

struct trace {
    struct trace_job *jobs;
    size_t count;
    struct trace_tenant *tenants;
    size_t ntenants;
};

/* The text is cut up.  On failure *ret is as before. */
int trace_read(const char *name, char *text, size_t len, struct trace *ret,
               struct err *err);
/* Quotas by tenant (or vc), nominal_gpus, and perhaps static_cluster_of_4 or
 * cluster.  Every tenant of the trace must be there.
 */
int trace_quotas(const char *name, char *text, size_t len, struct trace *t,
                 struct err *err);
void trace_free(struct trace *t);
