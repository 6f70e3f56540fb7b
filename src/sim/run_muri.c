#include "sim/run_int.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <math.h>

/* The published simulator of Muri (SIGCOMM'22), as far as its figures for
 * srtf, srsf and Tiresias hang on it:
 *
 *  - a job counts iterations; at every event each running job loses its
 *    overhead, also when it just goes on;
 *  - the end is foreseen without that overhead, and what was foreseen is what
 *    happens unless an event comes before;
 *  - ends within a billionth of each other are one event;
 *  - Tiresias counts GPUs and does not look where they are.
 */
static const double SAME = 1e-9;
static const double LIMITS[RUN_QUEUES - 1] = { 3250, 7200 };

struct muri_job {
    double done;                       /* iterations */
    double executed;                   /* seconds on GPUs, overhead included */
    bool running;
    unsigned queue;
};

struct muri {
    const struct trace *trace;
    struct cluster *cluster;
    const struct run_policy *policy;
    struct muri_job *jobs;
    double *ends;
    double now;
    size_t next;
    struct line line;                  /* all that are there */
    struct line queues[RUN_QUEUES];
    uint32_t *nodes;
};

static double left(const struct muri *m, uint32_t job)
{
    const struct trace_job *t = &m->trace->jobs[job];

    return (t->iterations - m->jobs[job].done) * t->iteration;
}

static double end_of(const struct muri *m, uint32_t job)
{
    return m->now + left(m, job);
}

static double next_event(const struct muri *m, double *ret_end)
{
    double end = INFINITY, at = INFINITY;

    for (size_t i = 0; i < m->line.count; i++) {
        uint32_t k = m->line.items[i];
        const struct muri_job *j = &m->jobs[k];
        uint32_t gpus = m->trace->jobs[k].gpus;

        if (!j->running)
            continue;
        end = fmin(end, end_of(m, k));
        if (m->policy == &run_las && j->queue < RUN_QUEUES - 1)
            at = fmin(at, m->now + ceil(LIMITS[j->queue] / gpus) -
                          j->executed);
    }
    if (m->next < m->trace->count)
        at = fmin(at, m->trace->jobs[m->next].submit);
    /* Rounding may not turn the clock back, nor stop it. */
    at = fmax(at, nextafter(m->now, INFINITY));
    *ret_end = end;
    return fmax(fmin(at, end), m->now);
}

/* Work until `at`; who is foreseen to end then, ends. */
static void advance(struct muri *m, double at, double end)
{
    size_t kept = 0;
    bool ends = end <= at * (1 + SAME);

    for (size_t i = 0; i < m->line.count; i++) {
        uint32_t k = m->line.items[i];
        const struct trace_job *t = &m->trace->jobs[k];
        struct muri_job *j = &m->jobs[k];

        if (j->running && ends && end_of(m, k) <= end * (1 + SAME)) {
            m->ends[k] = at;
            for (unsigned q = 0; q < RUN_QUEUES; q++)
                jobs_remove(&m->queues[q], k);
            continue;
        }
        m->line.items[kept++] = k;
        if (!j->running)
            continue;
        j->done += fmax(0, at - m->now - t->overhead) / t->iteration;
        j->executed += at - m->now;
    }
    m->line.count = kept;
    m->now = at;
}

static void submit_due(struct muri *m)
{
    while (m->next < m->trace->count &&
           m->trace->jobs[m->next].submit <= m->now) {
        uint32_t k = (uint32_t) m->next++;

        jobs_add(&m->line, k);
        jobs_add(&m->queues[0], k);
    }
}

/* ---- srtf, srsf ---- */

static void sort_line(struct muri *m)
{
    bool by_area = m->policy == &run_srsf;
    autofree double *keys = mem_array(m->line.count + 1, sizeof *keys);
    uint32_t *items = m->line.items;

    for (size_t i = 0; i < m->line.count; i++) {
        uint32_t k = items[i];
        double key = left(m, k) * (by_area ? m->trace->jobs[k].gpus : 1);
        size_t at = i;

        for (; at > 0 && keys[at - 1] > key; at--) {
            items[at] = items[at - 1];
            keys[at] = keys[at - 1];
        }
        items[at] = k;
        keys[at] = key;
    }
}

static void pass_sorted(struct muri *m)
{
    sort_line(m);
    cluster_clear(m->cluster);
    for (size_t i = 0; i < m->line.count; i++) {
        uint32_t k = m->line.items[i];

        m->jobs[k].running = cluster_take(m->cluster, m->trace->jobs[k].gpus,
                                          CLUSTER_ANY, m->nodes);
    }
}

/* ---- Tiresias ---- */

static void demote(struct muri *m)
{
    for (size_t i = 0; i < m->line.count; i++) {
        uint32_t k = m->line.items[i];
        struct muri_job *j = &m->jobs[k];

        if (!j->running || j->queue == RUN_QUEUES - 1 ||
            j->executed * m->trace->jobs[k].gpus < LIMITS[j->queue])
            continue;
        jobs_remove(&m->queues[j->queue], k);
        jobs_add(&m->queues[++j->queue], k);
    }
}

static bool runs(const void *arg, uint32_t job)
{
    const struct muri *m = arg;

    return m->jobs[job].running;
}

static void pass_las(struct muri *m)
{
    unsigned idle = m->cluster->nodes * m->cluster->gpus;

    demote(m);
    for (unsigned q = 0; q < RUN_QUEUES; q++) {
        for (size_t i = 0; i < m->queues[q].count; i++) {
            uint32_t k = m->queues[q].items[i];
            uint32_t gpus = m->trace->jobs[k].gpus;

            m->jobs[k].running = gpus <= idle;
            idle -= gpus <= idle ? gpus : 0;
        }
        jobs_running_first(&m->queues[q], runs, m);
    }
}

/* ---- the whole ---- */

static void play(struct muri *m)
{
    double end, at;

    while (!isinf(at = next_event(m, &end))) {
        advance(m, at, end);
        submit_due(m);
        if (m->policy == &run_las)
            pass_las(m);
        else
            pass_sorted(m);
    }
}

bool run_muri_has(const struct run_policy *p)
{
    return p == &run_srtf || p == &run_srsf || p == &run_las;
}

static int check(const struct trace *t, const struct cluster *c,
                 const struct run_policy *p, struct err *err)
{
    if (!run_muri_has(p))
        return err_set(err, EINVAL, "Muri's rules are for srtf, srsf and las");
    for (size_t i = 0; i < t->count; i++) {
        if (t->jobs[i].iteration <= 0)
            return err_set(err, EINVAL, "job %zu has no iterations: Muri's "
                           "rules need one of its traces", i);
        if (!cluster_fits(c, t->jobs[i].gpus, CLUSTER_ANY))
            return err_set(err, EINVAL, "job %zu needs %u GPUs and fits "
                           "nowhere, ever", i, t->jobs[i].gpus);
    }
    return 0;
}

int run_muri(const struct trace *t, struct cluster *c,
             const struct run_options *o, struct run_result *ret,
             struct err *err)
{
    struct muri m = { .trace = t, .cluster = c, .policy = o->policy };
    struct run_result result = { 0 };
    int rc = check(t, c, o->policy, err);

    if (rc < 0)
        return rc;
    m.jobs = mem_array(t->count, sizeof *m.jobs);
    m.ends = mem_array(t->count, sizeof *m.ends);
    m.nodes = mem_array(c->nodes, sizeof *m.nodes);
    m.line.items = mem_array(t->count, sizeof *m.line.items);
    for (unsigned q = 0; q < RUN_QUEUES; q++)
        m.queues[q].items = mem_array(t->count, sizeof *m.line.items);
    c->first_fit = true;
    play(&m);
    c->first_fit = false;
    cluster_clear(c);
    run_times(t, m.ends, NULL, &result);
    for (unsigned q = 0; q < RUN_QUEUES; q++)
        free(m.queues[q].items);
    free(m.line.items);
    free(m.nodes);
    free(m.ends);
    free(m.jobs);
    *ret = result;
    return 0;
}
