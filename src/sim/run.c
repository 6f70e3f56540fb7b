#include "sim/run_int.h"

#include "base/err.h"
#include "base/mem.h"
#include "spec/doc.h"
#include "spec/policy_doc.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const struct run_policy *const policies[] = {
    &run_fifo, &run_fifo_backfill, &run_easy, &run_sjf, &run_las, &run_srtf,
    &run_srsf, &run_quota_strict, &run_quota_backfill, &run_quota_borrow,
    &run_weir,
};

const struct run_policy *run_policy_find(const char *name)
{
    for (size_t i = 0; i < array_size(policies); i++)
        if (strcmp(policies[i]->name, name) == 0)
            return policies[i];
    return NULL;
}

const char *run_policy_names(void)
{
    return "fifo, fifo-backfill, easy, sjf, las, srtf, srsf, quota-strict, "
           "quota-backfill, quota-borrow, weir";
}

unsigned run_gpus_max(const struct run_policy *p)
{
    return p->gpus_max ? p->gpus_max : CLUSTER_GPUS;
}

int run_rules(const char *file, const char *text, size_t len,
              struct policy *ret, struct err *err)
{
    struct doc_problems problems = { 0 };
    int rc = policy_doc_read(text, len, ret, &problems);

    if (rc < 0)
        rc = doc_problems_err(&problems, file, -rc, err);
    doc_problems_free(&problems);
    return rc;
}

/* ---- lines ---- */

void jobs_add(struct line *l, uint32_t job)
{
    l->items[l->count++] = job;
}

void jobs_insert(struct line *l, size_t at, uint32_t job)
{
    memmove(l->items + at + 1, l->items + at,
            (l->count - at) * sizeof *l->items);
    l->items[at] = job;
    l->count++;
}

void jobs_remove(struct line *l, uint32_t job)
{
    size_t i = 0;

    while (i < l->count && l->items[i] != job)
        i++;
    if (i == l->count)
        return;
    l->count--;
    memmove(l->items + i, l->items + i + 1,
            (l->count - i) * sizeof *l->items);
}

void jobs_running_first(struct line *l, jobs_runs_f runs, const void *arg)
{
    autofree uint32_t *later = mem_array(l->count + 1, sizeof *later);
    size_t n = 0, kept = 0;

    for (size_t i = 0; i < l->count; i++) {
        if (runs(arg, l->items[i]))
            l->items[kept++] = l->items[i];
        else
            later[n++] = l->items[i];
    }
    for (size_t i = 0; i < n; i++)
        l->items[kept++] = later[i];
}

/* ---- what policies do with jobs ---- */

static void set_waiting(struct run *r, uint32_t job, bool waiting)
{
    uint64_t bit = UINT64_C(1) << job % 64;
    struct job *j = &r->jobs[job];

    if (waiting)
        r->waiting[job / 64] |= bit;
    else
        r->waiting[job / 64] &= ~bit;
    if (j->bound && waiting)
        jobs_add(&r->bound, job);
    else if (j->bound)
        jobs_remove(&r->bound, job);
    else
        r->kind_waiting[j->kind] += waiting ? 1 : -1;
}

double run_left(const struct run *r, const struct job *j)
{
    if (j->state != JOB_RUNNING)
        return j->left;
    return (j->end - (j->warm > r->now ? j->warm : r->now)) * j->speed;
}

/* A gang is as fast as its slowest GPU. */
static double speed_of(const struct run *r, const struct job *j)
{
    double least = HUGE_VAL;

    if (!r->options->rules)
        return 1;
    for (size_t i = 0; i < cluster_span(r->cluster, j->t->gpus); i++)
        least = fmin(least, policy_rating(r->options->rules,
                                          cluster_model(r->cluster,
                                                        j->nodes[i])));
    return least;
}

static void count_start(struct run *r, const struct job *j)
{
    double startup = r->options->startup;

    if (startup <= 0)
        return;
    if (j->owed <= 0)
        r->staged.ready++;
    else if (j->owed < startup)
        r->staged.late++;
    else
        r->staged.cold++;
}

void run_start(struct run *r, uint32_t job)
{
    struct job *j = &r->jobs[job];

    set_waiting(r, job, false);
    if (!j->started)
        count_start(r, j);
    j->state = JOB_RUNNING;
    j->since = r->now;
    j->warm = r->now + (j->started ? r->options->resume_cost : 0) + j->owed;
    j->speed = speed_of(r, j);
    j->end = j->warm + j->left / j->speed;
    j->started = true;
    r->held[j->t->tenant] += j->t->gpus;
    jobs_add(&r->running, job);
}

/* So much work was done there. */
static void save(struct job *j, double work)
{
    j->saved += work - work / j->speed;
}

void run_stop(struct run *r, uint32_t job)
{
    struct job *j = &r->jobs[job];
    double left = run_left(r, j);

    /* What it has done of its startup is kept with its state; a resume that
     * is broken off is paid in full the next time.
     */
    j->owed = fmin(j->owed, fmax(j->warm - r->now, 0));
    save(j, j->left - left);
    j->left = left;
    j->attained += r->now - j->since;
    j->state = JOB_WAITING;
    r->held[j->t->tenant] -= j->t->gpus;
    r->preemptions++;
    jobs_remove(&r->running, job);
    j->bound = r->options->same_node;
    set_waiting(r, job, true);
}

bool run_take(struct run *r, uint32_t job)
{
    struct job *j = &r->jobs[job];

    if (!r->misfit[j->kind])
        r->misfit[j->kind] = !cluster_take(r->cluster, j->t->gpus, j->only,
                                           j->nodes);
    return !r->misfit[j->kind];
}

bool run_try(struct run *r, uint32_t job)
{
    if (!run_take(r, job))
        return false;
    run_start(r, job);
    return true;
}

void run_begin_pass(struct run *r)
{
    memset(r->misfit, 0, r->kinds * sizeof *r->misfit);
}

double run_never(const struct run *r)
{
    (void) r;
    return INFINITY;
}

void run_submit_last(struct run *r, uint32_t job)
{
    jobs_add(&r->line, job);
}

/* ---- the clock ---- */

static double next_event(const struct run *r)
{
    double at = r->options->policy->wake(r);

    if (r->next < r->trace->count && r->trace->jobs[r->next].submit < at)
        at = r->trace->jobs[r->next].submit;
    for (size_t i = 0; i < r->running.count; i++)
        if (r->jobs[r->running.items[i]].end < at)
            at = r->jobs[r->running.items[i]].end;
    return at;
}

static void finish(struct run *r, uint32_t job)
{
    struct job *j = &r->jobs[job];
    const struct run_policy *policy = r->options->policy;
    bool preempts = policy->preempts;

    j->state = JOB_DONE;
    save(j, j->left);
    r->held[j->t->tenant] -= j->t->gpus;
    cluster_give(r->cluster, j->t->gpus, j->nodes);
    if (preempts)
        jobs_remove(&r->line, job);
    for (unsigned q = 0; preempts && q < RUN_QUEUES; q++)
        jobs_remove(&r->queues[q], job);
    if (policy->end)
        policy->end(r, job);
}

static void finish_due(struct run *r)
{
    size_t kept = 0;

    for (size_t i = 0; i < r->running.count; i++) {
        uint32_t job = r->running.items[i];

        if (r->jobs[job].end <= r->now)
            finish(r, job);
        else
            r->running.items[kept++] = job;
    }
    r->running.count = kept;
}

static void submit_due(struct run *r)
{
    while (r->next < r->trace->count &&
           r->trace->jobs[r->next].submit <= r->now) {
        uint32_t job = (uint32_t) r->next++;

        r->jobs[job].state = JOB_WAITING;
        set_waiting(r, job, true);
        r->options->policy->submit(r, job);
    }
}

/* Submissions are most of the events, and they are counted. */
static void say_progress(struct run *r)
{
    const struct run_options *o = r->options;
    size_t step = r->trace->count / 200 + 1;

    if (o->progress && r->next >= r->said + step) {
        r->said = r->next;
        o->progress((double) r->next / (double) r->trace->count, o->arg);
    }
}

static void play(struct run *r)
{
    for (;;) {
        double at = next_event(r);

        if (isinf(at) || r->broken)
            break;
        run_account(r, at);
        r->now = at;
        say_progress(r);
        finish_due(r);
        submit_due(r);
        r->options->policy->pass(r);
    }
}

/* ---- before and after ---- */

/* A job that would wait for ever. */
static int check(const struct run *r, struct err *err)
{
    const struct trace *t = r->trace;

    for (size_t i = 0; i < t->count; i++) {
        const struct job *j = &r->jobs[i];

        if (j->only >= (int) r->cluster->clusters)
            return err_set(err, EINVAL, "'%.60s' is pinned to cluster %d of "
                           "%u", t->tenants[j->t->tenant].name, j->only,
                           r->cluster->clusters);
        if (!cluster_fits(r->cluster, j->t->gpus, j->only))
            return err_set(err, EINVAL, "job %zu needs %u GPUs and fits "
                           "nowhere, ever", i, j->t->gpus);
        if (r->options->policy->quotas &&
            j->t->gpus > t->tenants[j->t->tenant].quota)
            return err_set(err, EINVAL, "job %zu needs %u GPUs, the quota of "
                           "'%.60s' is %u", i, j->t->gpus,
                           t->tenants[j->t->tenant].name,
                           t->tenants[j->t->tenant].quota);
    }
    return 0;
}

/* Whoever fits an empty cluster comes to its turn. */
static int all_done(const struct run *r, struct err *err)
{
    if (r->broken)
        return err_set(err, EIO, "%s: %s", r->options->policy->name,
                       r->err.text);
    for (size_t i = 0; i < r->trace->count; i++)
        if (r->jobs[i].state != JOB_DONE)
            return err_set(err, EIO, "job %zu of %u GPUs never came to its "
                           "end under %s", i, r->jobs[i].t->gpus,
                           r->options->policy->name);
    return 0;
}

static uint32_t find_kind(struct run *r, const struct job *j)
{
    size_t at = 0;

    while (at < r->kinds && (r->kind_gpus[2 * at] != j->t->gpus ||
                             (int) r->kind_gpus[2 * at + 1] != j->only))
        at++;
    if (at == r->kinds) {
        r->kinds++;
        r->kind_gpus = mem_grow(r->kind_gpus, 2 * r->kinds,
                                sizeof *r->kind_gpus);
        r->kind_gpus[2 * at] = j->t->gpus;
        r->kind_gpus[2 * at + 1] = (uint32_t) j->only;
    }
    return (uint32_t) at;
}

static struct line line_new(size_t n)
{
    return (struct line) { .items = mem_array(n + 1, sizeof(uint32_t)) };
}

static void open_run(struct run *r)
{
    const struct trace *t = r->trace;

    r->jobs = mem_array(t->count, sizeof *r->jobs);
    for (size_t i = 0; i < t->count; i++) {
        struct job *j = &r->jobs[i];

        j->t = &t->jobs[i];
        j->left = j->t->length;
        j->owed = r->options->startup;
        j->only = r->options->pinned ? t->tenants[j->t->tenant].cluster
                                     : CLUSTER_ANY;
        j->kind = find_kind(r, j);
        j->nodes = mem_array(cluster_span(r->cluster, j->t->gpus),
                             sizeof *j->nodes);
    }
    r->line = line_new(t->count);
    r->running = line_new(t->count);
    r->bound = line_new(t->count);
    for (unsigned q = 0; q < RUN_QUEUES; q++)
        r->queues[q] = line_new(t->count);
    r->held = mem_array(t->ntenants, sizeof *r->held);
    r->kind_waiting = mem_array(r->kinds, sizeof *r->kind_waiting);
    r->misfit = mem_array(r->kinds, sizeof *r->misfit);
    r->refused = mem_array(r->kinds, sizeof *r->refused);
    r->waiting = mem_array(t->count / 64 + 1, sizeof *r->waiting);
    r->sums = mem_array(SHARES, sizeof *r->sums);
    r->now = t->jobs[0].submit;
}

static void close_run(struct run *r)
{
    for (size_t i = 0; i < r->trace->count; i++)
        free(r->jobs[i].nodes);
    for (unsigned q = 0; q < RUN_QUEUES; q++)
        free(r->queues[q].items);
    free(r->jobs);
    free(r->line.items);
    free(r->running.items);
    free(r->bound.items);
    free(r->held);
    free(r->kind_gpus);
    free(r->kind_waiting);
    free(r->misfit);
    free(r->refused);
    free(r->waiting);
    free(r->sums);
    cluster_free(&r->spare);
    cluster_clear(r->cluster);
}

static void fill_result(const struct run *r, struct run_result *ret)
{
    const struct trace *t = r->trace;
    autofree double *ends = mem_array(t->count, sizeof *ends);
    autofree double *saved = mem_array(t->count, sizeof *saved);
    double span = t->jobs[t->count - 1].submit - t->jobs[0].submit;
    double all = span * r->cluster->nodes * r->cluster->gpus;

    for (size_t i = 0; i < t->count; i++) {
        ends[i] = r->jobs[i].end;
        saved[i] = r->jobs[i].saved;
    }
    run_times(t, ends, saved, ret);
    if (r->options->log)
        run_log_end(r->options->log, t, ends, saved);
    ret->preemptions = r->preemptions;
    ret->staged = r->staged;
    if (all <= 0)
        return;
    ret->shares = true;
    ret->util = r->sums[SHARE_BUSY] / all;
    ret->idle_nodemand = r->sums[SHARE_NO_DEMAND] / all;
    ret->idle_frag = r->sums[SHARE_FRAG] / all;
    ret->waste = r->sums[SHARE_WASTE] / all;
    ret->waste_usable = r->sums[SHARE_USABLE] / all;
    ret->overhead = r->sums[SHARE_OVERHEAD] / all;
}

int run_trace(const struct trace *t, struct cluster *c,
              const struct run_options *o, struct run_result *ret,
              struct err *err)
{
    struct run r = { .trace = t, .options = o, .cluster = c };
    struct run_result result = { 0 };
    int rc;

    if (o->muri)
        return run_muri(t, c, o, ret, err);
    if (c->gpus > run_gpus_max(o->policy))
        return err_set(err, EINVAL, "%u GPUs on a node: %s has at most %u",
                       c->gpus, o->policy->name, run_gpus_max(o->policy));
    open_run(&r);
    rc = check(&r, err);
    if (rc == 0 && o->log)
        run_log_init(o->log, t, c);
    if (rc == 0) {
        if (o->policy->open)
            o->policy->open(&r);
        play(&r);
        fill_result(&r, &result);
        rc = all_done(&r, err);
    }
    if (o->policy->close)
        o->policy->close(&r, &result);
    if (rc == 0)
        *ret = result;
    close_run(&r);
    return rc;
}
