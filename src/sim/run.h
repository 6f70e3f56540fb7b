#pragma once

#include "plan/policy.h"
#include "plan/predict.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cluster;
struct err;
struct trace;

/* run - a trace of gangs goes through a cluster on a virtual clock.
 *
 * Things happen at submissions, ends and what a policy asks for.  At one
 * instant ends come first, then submissions, then the policy decides once.
 * The same input gives the same result.
 *
 *   fifo            nobody passes the head of the line
 *   fifo-backfill   whoever fits starts
 *   easy            ... unless it would delay the head (true lengths)
 *   sjf             shortest first, whoever fits starts (true lengths)
 *   srtf, srsf      least time left (times GPUs) first, anew each time; what
 *                   runs may be suspended and go on elsewhere (true lengths)
 *   las             least attained service, in three steps, as Tiresias
 *   quota-strict    first come, first served, within the tenant's quota
 *   quota-backfill  the same, passing over what does not fit
 *   quota-borrow    within quotas first, then what others leave
 *   weir            the plan that Weir runs on (src/plan): lengths are learned
 *                   from the ends that came before; see run_plan.c
 */
struct run_policy;

/* What a report draws: the time from the first submission to the last in
 * equal pieces, and what happened in each.
 */
enum { RUN_BUCKETS = 240, RUN_ROWS = 128 };

struct run_log {
    double from, width;                /* seconds */
    uint32_t gpus, rows;               /* rows: nodes, or groups of them */
    double shares[4][RUN_BUCKETS];     /* GPU-seconds in use; idle without
                                          demand; fragmented; wasted */
    double queue[RUN_BUCKETS];         /* waiting jobs times seconds */
    double *busy;                      /* GPU-seconds, by row and piece */
    double *waits;                     /* of each job, seconds */
    size_t nwaits;
};
void run_log_free(struct run_log *l);

struct run_options {
    const struct run_policy *policy;
    /* How fast models are, and all else that weir goes by but what a resume
     * costs; NULL: the defaults, and all as fast.
     */
    const struct policy *rules;
    double resume_cost;                /* seconds, at each resume */
    double startup;                    /* seconds before the work begins, once;
                                          GPUs are held.  Who is suspended in
                                          it owes the rest */
    int64_t lookahead_ms;              /* weir: of the policy; below 0: its own.
                                          Who waits is staged if it starts up */
    bool pinned;                       /* tenants keep to their cluster */
    bool same_node;                    /* weir: one resumes where it was */
    bool stays;                        /* weir: nobody is suspended */
    bool quotas;                       /* weir: tenants share by their quotas */
    /* The published program of Muri, quirks included: srtf, srsf and las
     * with its overheads.  Shares of time are not worked out then.
     */
    bool muri;
    struct run_log *log;               /* filled when not NULL; not by muri */
    /* How much is done, from 0 to 1, now and then; may be NULL. */
    void (*progress)(double done, void *arg);
    void *arg;
};

/* What look-ahead brought: first starts whose startup was over, or under way,
 * where they were staged, and all others; and stages that were for nothing.
 */
struct run_staged {
    uint64_t ready, late, cold, vain;
};

struct run_result {
    size_t jobs;
    double avg_jct, p50_jct, p99_jct;
    double avg_wait, p50_wait, p90_wait, p99_wait, p999_wait;
    double over_60s;                   /* share of jobs that waited longer */
    double makespan;
    /* Of the GPUs, from the first submission to the last; the first four sum
     * to 1.  waste: idle while a waiting job would fit; idle_frag: idle while
     * jobs wait and none fits.  Where all came at once, and by Muri's rules,
     * there are no shares, and all are 0.
     */
    bool shares;                       /* there are */
    double util, idle_nodemand, idle_frag, waste;
    double waste_usable;               /* of the waste, what could be filled */
    double overhead;                   /* of util, resumes and startup */
    uint64_t preemptions;
    struct run_staged staged;
    /* weir: how good its guesses of the lengths were. */
    struct predict_quality quality;
};

/* Rules from a document, as `weir policy set` takes it; `file` is its name. */
int run_rules(const char *file, const char *text, size_t len,
              struct policy *ret, struct err *err);
const struct run_policy *run_policy_find(const char *name);
const char *run_policy_names(void);                /* "a, b, c" */
bool run_muri_has(const struct run_policy *p);     /* by Muri's rules, too */
unsigned run_gpus_max(const struct run_policy *p);     /* of a node */

/* The cluster is empty before and after. */
int run_trace(const struct trace *t, struct cluster *c,
              const struct run_options *o, struct run_result *ret,
              struct err *err);
