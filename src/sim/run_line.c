#include "sim/run_int.h"

#include "base/mem.h"

#include <string.h>

/* Policies that let run what has started.  Their line holds who waits. */

/* Whether the job at hand is to be tried; whether those behind it are. */
enum verdict { TRY, PASS_OVER, STOP };
typedef enum verdict (*verdict_f)(struct run *r, const struct job *j);

/* One walk along the line; who starts leaves it. */
static void walk(struct run *r, verdict_f before, verdict_f misfit)
{
    size_t i = 0, kept = 0;
    enum verdict v = TRY;

    run_begin_pass(r);
    for (; i < r->line.count && v != STOP && r->cluster->idle > 0; i++) {
        uint32_t job = r->line.items[i];

        v = before(r, &r->jobs[job]);
        if (v == TRY && run_try(r, job))
            continue;
        if (v == TRY)
            v = misfit(r, &r->jobs[job]);
        r->line.items[kept++] = job;
    }
    memmove(r->line.items + kept, r->line.items + i,
            (r->line.count - i) * sizeof *r->line.items);
    r->line.count -= i - kept;
}

static enum verdict try_it(struct run *r, const struct job *j)
{
    (void) r;
    (void) j;
    return TRY;
}

static enum verdict pass_over(struct run *r, const struct job *j)
{
    (void) r;
    (void) j;
    return PASS_OVER;
}

static enum verdict stop(struct run *r, const struct job *j)
{
    (void) r;
    (void) j;
    return STOP;
}

/* ---- fifo, sjf ---- */

static void pass_fifo(struct run *r)
{
    walk(r, try_it, stop);
}

static void pass_backfill(struct run *r)
{
    walk(r, try_it, pass_over);
}

static void submit_by_length(struct run *r, uint32_t job)
{
    double length = r->jobs[job].t->length;
    size_t low = 0, high = r->line.count;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (r->jobs[r->line.items[mid]].t->length <= length)
            low = mid + 1;
        else
            high = mid;
    }
    jobs_insert(&r->line, low, job);
}

/* ---- quotas ---- */

static bool within_quota(const struct run *r, const struct job *j)
{
    return r->held[j->t->tenant] + j->t->gpus <=
           r->trace->tenants[j->t->tenant].quota;
}

static enum verdict if_within(struct run *r, const struct job *j)
{
    return within_quota(r, j) ? TRY : PASS_OVER;
}

/* Each tenant has a line of its own, in which nobody passes the head.  A head
 * that does not fit shuts its tenant out for the rest of this walk: that is
 * noted as a use of its whole quota.
 */
static enum verdict shut_out(struct run *r, const struct job *j)
{
    r->held[j->t->tenant] |= UINT32_C(1) << 31;
    return PASS_OVER;
}

static enum verdict head_within(struct run *r, const struct job *j)
{
    if (r->held[j->t->tenant] >> 31)
        return PASS_OVER;
    return within_quota(r, j) ? TRY : shut_out(r, j);
}

static void pass_strict(struct run *r)
{
    walk(r, head_within, shut_out);
    for (size_t i = 0; i < r->trace->ntenants; i++)
        r->held[i] &= ~(UINT32_C(1) << 31);
}

static void pass_quota(struct run *r)
{
    walk(r, if_within, pass_over);
}

static void pass_borrow(struct run *r)
{
    walk(r, if_within, pass_over);
    walk(r, try_it, pass_over);
}

/* ---- easy ---- */

struct release {
    double end;
    uint32_t job;
};

static int by_end(const void *va, const void *vb)
{
    const struct release *a = va, *b = vb;

    if (a->end < b->end || a->end > b->end)
        return a->end < b->end ? -1 : 1;
    return (a->job > b->job) - (a->job < b->job);
}

/* The earliest time at which the head fits, with r->spare as it is then. */
static double reserve(struct run *r, const struct job *head)
{
    size_t n = r->running.count;
    autofree struct release *list = mem_array(n + 1, sizeof *list);
    double at = r->now;

    cluster_copy(&r->spare, r->cluster);
    for (size_t i = 0; i < n; i++) {
        list[i].job = r->running.items[i];
        list[i].end = r->jobs[list[i].job].end;
    }
    qsort(list, n, sizeof *list, by_end);
    for (size_t i = 0; i < n; i++) {
        const struct job *j = &r->jobs[list[i].job];

        cluster_give(&r->spare, j->t->gpus, j->nodes);
        at = list[i].end;
        if (i + 1 < n && list[i + 1].end <= at)
            continue;
        if (cluster_fits(&r->spare, head->t->gpus, head->only))
            break;
    }
    return at;
}

/* Start a job that outlasts the reservation only if the head fits beside it. */
static bool start_beside(struct run *r, uint32_t job, const struct job *head)
{
    struct job *j = &r->jobs[job];

    if (r->refused[j->kind] || !run_take(r, job))
        return false;
    cluster_take_at(&r->spare, j->t->gpus, j->nodes);
    if (cluster_fits(&r->spare, head->t->gpus, head->only)) {
        run_start(r, job);
        return true;
    }
    cluster_give(&r->spare, j->t->gpus, j->nodes);
    cluster_give(r->cluster, j->t->gpus, j->nodes);
    r->refused[j->kind] = true;
    return false;
}

static void pass_easy(struct run *r)
{
    const struct job *head;
    size_t kept = 1;
    double at;

    walk(r, try_it, stop);
    if (r->line.count < 2 || r->cluster->idle == 0)
        return;
    head = &r->jobs[r->line.items[0]];
    at = reserve(r, head);
    run_begin_pass(r);
    memset(r->refused, 0, r->kinds * sizeof *r->refused);
    for (size_t i = 1; i < r->line.count; i++) {
        uint32_t job = r->line.items[i];
        bool before = r->now + r->options->startup + r->jobs[job].left <= at;

        if (before ? run_try(r, job) : start_beside(r, job, head)) {
            /* The next one of a kind may now get another place. */
            memset(r->refused, 0, r->kinds * sizeof *r->refused);
            continue;
        }
        r->line.items[kept++] = job;
    }
    r->line.count = kept;
}

#define POLICY(var, called, by_quota, submits, passes)                    \
    const struct run_policy var = {                                       \
        .name = (called), .quotas = (by_quota), .submit = (submits),      \
        .pass = (passes), .wake = run_never,                              \
    }
POLICY(run_fifo, "fifo", false, run_submit_last, pass_fifo);
POLICY(run_fifo_backfill, "fifo-backfill", false, run_submit_last,
       pass_backfill);
POLICY(run_easy, "easy", false, run_submit_last, pass_easy);
POLICY(run_sjf, "sjf", false, submit_by_length, pass_backfill);
POLICY(run_quota_strict, "quota-strict", true, run_submit_last, pass_strict);
POLICY(run_quota_backfill, "quota-backfill", true, run_submit_last,
       pass_quota);
POLICY(run_quota_borrow, "quota-borrow", false, run_submit_last, pass_borrow);
