#pragma once

#include "base/err.h"
#include "sim/cluster.h"
#include "sim/run.h"
#include "sim/trace.h"

/* run_int - what the policies of a run share. */

enum job_state { JOB_AWAY, JOB_WAITING, JOB_RUNNING, JOB_DONE };
enum { RUN_QUEUES = 3 };               /* of las */

struct job {
    const struct trace_job *t;
    enum job_state state;
    double left;                       /* of its work, while it waits */
    double owed;                       /* of its startup, the same */
    double end;                        /* while it runs; when it ended */
    double warm;                       /* until then it resumes or starts up */
    double speed;                      /* while it runs: work in a second */
    double saved;                      /* seconds, by devices that are faster */
    double since, attained;            /* las: running since, seconds before */
    uint32_t *nodes;
    uint32_t kind;                     /* among sizes (and clusters) */
    unsigned queue;                    /* of las */
    int only;                          /* the cluster it may use */
    bool placed;                       /* in this pass */
    bool started;                      /* at least once */
    bool bound;                        /* waits for the nodes it was on */
};

/* Numbers of jobs that stand in some order. */
struct line {
    uint32_t *items;
    size_t count;
};

struct run {
    const struct trace *trace;
    const struct run_options *options;
    struct cluster *cluster;
    struct job *jobs;
    double now;
    size_t next;                       /* job to be submitted */
    size_t said;                       /* of these, at the last progress */
    struct line line;                  /* the policy's; see run_policy */
    struct line running;               /* in no order */
    struct line bound;                 /* the same; they wait */
    struct line queues[RUN_QUEUES];
    uint32_t *held;                    /* GPUs of each tenant */
    /* Jobs of one kind fit in the same places: when one did not fit in a
     * pass, no other does.
     */
    size_t kinds;
    uint32_t *kind_gpus;
    size_t *kind_waiting;
    bool *misfit, *refused;
    uint64_t *waiting;                 /* bits of jobs */
    struct cluster spare;
    double *sums;                      /* see run_share */
    uint64_t preemptions;
    struct run_staged staged;
    struct run_plan *plan;             /* of weir */
    bool broken;                       /* err says how */
    struct err err;
};

/* A policy that preempts keeps running jobs in its line as well.  The last
 * three may be NULL.
 */
struct run_policy {
    const char *name;
    bool preempts, quotas;
    unsigned gpus_max;                 /* of a node; 0: CLUSTER_GPUS */
    void (*submit)(struct run *r, uint32_t job);
    void (*pass)(struct run *r);
    double (*wake)(const struct run *r);           /* INFINITY: never */
    void (*open)(struct run *r);
    void (*end)(struct run *r, uint32_t job);      /* it is over */
    void (*close)(struct run *r, struct run_result *ret);
};

extern const struct run_policy run_fifo, run_fifo_backfill, run_easy, run_sjf,
    run_quota_strict, run_quota_backfill, run_quota_borrow, run_srtf,
    run_srsf, run_las, run_weir;

void jobs_add(struct line *l, uint32_t job);       /* it has room */
void jobs_insert(struct line *l, size_t at, uint32_t job);
void jobs_remove(struct line *l, uint32_t job);
/* Who runs goes before who waits; otherwise the order stays. */
typedef bool (*jobs_runs_f)(const void *arg, uint32_t job);
void jobs_running_first(struct line *l, jobs_runs_f runs, const void *arg);

/* Take the place of a waiting job; false when it does not fit. */
bool run_take(struct run *r, uint32_t job);
/* The same, and start it. */
bool run_try(struct run *r, uint32_t job);
/* Start one whose place is taken; stop one whose place is given. */
void run_start(struct run *r, uint32_t job);
void run_stop(struct run *r, uint32_t job);
void run_begin_pass(struct run *r);                /* forgets the misfits */
/* The work that a job still has before it. */
double run_left(const struct run *r, const struct job *j);
double run_never(const struct run *r);             /* INFINITY */
/* Put new jobs at the end of the line. */
void run_submit_last(struct run *r, uint32_t job);

/* ---- shares of time ---- */

enum run_share {
    SHARE_BUSY, SHARE_NO_DEMAND, SHARE_FRAG, SHARE_WASTE, SHARE_USABLE,
    SHARE_OVERHEAD, SHARES
};
/* Add up from now until `to`. */
void run_account(struct run *r, double to);

/* ---- what a report draws ---- */

void run_log_init(struct run_log *l, const struct trace *t,
                  const struct cluster *c);
void run_log_add(struct run_log *l, const struct run *r, double to,
                 enum run_share idle_as);
void run_log_end(struct run_log *l, const struct trace *t, const double *ends,
                 const double *saved);

/* ---- results ---- */

/* From the ends of all jobs, and what faster devices saved of their lengths
 * (NULL: there are none).
 */
void run_times(const struct trace *t, const double *ends, const double *saved,
               struct run_result *ret);
int run_muri(const struct trace *t, struct cluster *c,
             const struct run_options *o, struct run_result *ret,
             struct err *err);
