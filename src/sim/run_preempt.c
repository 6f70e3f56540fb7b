#include "sim/run_int.h"

#include "base/mem.h"

#include <math.h>

/* Policies that decide anew each time: the cluster is emptied on paper, and
 * filled in the policy's order, passing over what does not fit.  Who ran and
 * has no place any more is suspended.  Their lines hold running jobs as well.
 */

static void place_line(struct run *r, const struct line *l)
{
    for (size_t i = 0; i < l->count; i++) {
        struct job *j = &r->jobs[l->items[i]];

        j->placed = !r->misfit[j->kind] && r->cluster->idle > 0 &&
                    cluster_take(r->cluster, j->t->gpus, j->only, j->nodes);
        if (!j->placed)
            r->misfit[j->kind] = true;
    }
}

static void settle_line(struct run *r, const struct line *l)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct job *j = &r->jobs[l->items[i]];

        if (j->state == JOB_RUNNING && !j->placed)
            run_stop(r, l->items[i]);
        else if (j->state == JOB_WAITING && j->placed)
            run_start(r, l->items[i]);
    }
}

/* ---- least left first ---- */

static void sort_line(struct run *r, bool by_area)
{
    struct line *l = &r->line;
    autofree double *keys = mem_array(l->count + 1, sizeof *keys);

    /* By insertion: the line is almost in order since the last time. */
    for (size_t i = 0; i < l->count; i++) {
        uint32_t job = l->items[i];
        double key = run_left(r, &r->jobs[job]) *
                     (by_area ? r->jobs[job].t->gpus : 1);
        size_t k = i;

        while (k > 0 && (keys[k - 1] > key ||
                         (keys[k - 1] >= key && l->items[k - 1] > job))) {
            l->items[k] = l->items[k - 1];
            keys[k] = keys[k - 1];
            k--;
        }
        l->items[k] = job;
        keys[k] = key;
    }
}

static void pass_sorted(struct run *r, bool by_area)
{
    sort_line(r, by_area);
    run_begin_pass(r);
    cluster_clear(r->cluster);
    place_line(r, &r->line);
    settle_line(r, &r->line);
}

static void pass_srtf(struct run *r)
{
    pass_sorted(r, false);
}

static void pass_srsf(struct run *r)
{
    pass_sorted(r, true);
}

/* ---- least attained service ---- */

/* GPU-seconds after which a job moves on to the next queue. */
static const double LIMITS[RUN_QUEUES - 1] = { 3250, 7200 };

static double attained(const struct run *r, const struct job *j)
{
    return j->attained + (j->state == JOB_RUNNING ? r->now - j->since : 0);
}

static void submit_las(struct run *r, uint32_t job)
{
    jobs_add(&r->queues[0], job);
}

static void demote(struct run *r)
{
    /* In order of submission, whatever the order of the queues. */
    autofree uint32_t *moved = mem_array(r->running.count + 1,
                                         sizeof *moved);
    size_t n = 0;

    for (size_t i = 0; i < r->running.count; i++) {
        const struct job *j = &r->jobs[r->running.items[i]];
        size_t k = n;

        if (j->queue == RUN_QUEUES - 1 ||
            attained(r, j) * j->t->gpus < LIMITS[j->queue])
            continue;
        for (; k > 0 && moved[k - 1] > r->running.items[i]; k--)
            moved[k] = moved[k - 1];
        moved[k] = r->running.items[i];
        n++;
    }
    for (size_t i = 0; i < n; i++) {
        struct job *j = &r->jobs[moved[i]];

        jobs_remove(&r->queues[j->queue], moved[i]);
        jobs_add(&r->queues[++j->queue], moved[i]);
    }
}

static bool runs(const void *arg, uint32_t job)
{
    const struct run *r = arg;

    return r->jobs[job].state == JOB_RUNNING;
}

static void pass_las(struct run *r)
{
    demote(r);
    run_begin_pass(r);
    cluster_clear(r->cluster);
    for (unsigned q = 0; q < RUN_QUEUES; q++)
        place_line(r, &r->queues[q]);
    for (unsigned q = 0; q < RUN_QUEUES; q++) {
        settle_line(r, &r->queues[q]);
        jobs_running_first(&r->queues[q], runs, r);
    }
}

/* The earliest time at which a running job moves to the next queue.  Sums of
 * times are rounded: where the step is missed by that, the clock still goes on.
 */
static double wake_las(const struct run *r)
{
    double at = INFINITY;

    for (size_t i = 0; i < r->running.count; i++) {
        const struct job *j = &r->jobs[r->running.items[i]];

        if (j->queue < RUN_QUEUES - 1)
            at = fmin(at, r->now + ceil(LIMITS[j->queue] / j->t->gpus) -
                          attained(r, j));
    }
    return fmax(at, nextafter(r->now, INFINITY));
}

const struct run_policy run_srtf = {
    .name = "srtf", .preempts = true, .submit = run_submit_last,
    .pass = pass_srtf, .wake = run_never,
};
const struct run_policy run_srsf = {
    .name = "srsf", .preempts = true, .submit = run_submit_last,
    .pass = pass_srsf, .wake = run_never,
};
const struct run_policy run_las = {
    .name = "las", .preempts = true, .submit = submit_las,
    .pass = pass_las, .wake = wake_las,
};
