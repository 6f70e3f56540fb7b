#include "sim/run_int.h"

#include "base/mem.h"

#include <math.h>

/* ---- shares of time ---- */

/* What a pass over the waiting jobs in order of submission could fill. */
static unsigned fillable(struct run *r)
{
    unsigned before = r->cluster->idle;

    cluster_copy(&r->spare, r->cluster);
    run_begin_pass(r);
    for (size_t w = 0; w <= r->trace->count / 64; w++) {
        for (uint64_t bits = r->waiting[w]; bits; bits &= bits - 1) {
            struct job *j = &r->jobs[w * 64 +
                                     (size_t) __builtin_ctzll(bits)];

            if (r->spare.idle == 0)
                return before;
            if (j->bound && cluster_fits_at(&r->spare, j->t->gpus, j->nodes))
                cluster_take_at(&r->spare, j->t->gpus, j->nodes);
            else if (!j->bound && !r->misfit[j->kind] &&
                     !cluster_take(&r->spare, j->t->gpus, CLUSTER_ANY,
                                   j->nodes))
                r->misfit[j->kind] = true;
        }
    }
    return before - r->spare.idle;
}

static bool some_fits(const struct run *r, bool *ret_waits)
{
    *ret_waits = r->bound.count > 0;
    for (size_t i = 0; i < r->bound.count; i++) {
        const struct job *j = &r->jobs[r->bound.items[i]];

        if (cluster_fits_at(r->cluster, j->t->gpus, j->nodes))
            return true;
    }
    for (size_t k = 0; k < r->kinds; k++) {
        if (r->kind_waiting[k] == 0)
            continue;
        *ret_waits = true;
        if (cluster_fits(r->cluster, r->kind_gpus[2 * k], CLUSTER_ANY))
            return true;
    }
    return false;
}

static double overhead_time(const struct run *r, double to)
{
    double sum = 0;

    for (size_t i = 0; i < r->running.count; i++) {
        const struct job *j = &r->jobs[r->running.items[i]];

        if (j->warm > r->now)
            sum += j->t->gpus * (fmin(j->warm, to) - r->now);
    }
    return sum;
}

void run_account(struct run *r, double to)
{
    unsigned idle = r->cluster->idle;
    double last = r->trace->jobs[r->trace->count - 1].submit, time;
    enum run_share as = SHARE_NO_DEMAND;
    bool waits;

    if (to > last)
        to = last;
    time = to - r->now;
    if (time <= 0)
        return;
    r->sums[SHARE_BUSY] += time * (r->cluster->nodes * r->cluster->gpus -
                                   idle);
    if (r->options->resume_cost > 0 || r->options->startup > 0)
        r->sums[SHARE_OVERHEAD] += overhead_time(r, to);
    if (idle > 0) {
        if (some_fits(r, &waits)) {
            as = SHARE_WASTE;
            r->sums[SHARE_USABLE] += time * fillable(r);
        } else if (waits) {
            as = SHARE_FRAG;
        }
        r->sums[as] += time * idle;
    }
    if (r->options->log)
        run_log_add(r->options->log, r, to, as);
}

/* ---- results ---- */

static int by_value(const void *va, const void *vb)
{
    double a = *(const double *) va, b = *(const double *) vb;

    return (a > b) - (a < b);
}

static double at_share(const double *sorted, size_t n, double share)
{
    size_t i = (size_t) (share * (double) n);

    return sorted[i < n ? i : n - 1];
}

void run_times(const struct trace *t, const double *ends, const double *saved,
               struct run_result *ret)
{
    size_t n = t->count;
    autofree double *jct = mem_array(n, sizeof *jct);
    autofree double *wait = mem_array(n, sizeof *wait);
    double last = 0, over = 0;

    for (size_t i = 0; i < n; i++) {
        jct[i] = ends[i] - t->jobs[i].submit;
        wait[i] = jct[i] - t->jobs[i].length + (saved ? saved[i] : 0);
        ret->avg_jct += jct[i] / (double) n;
        ret->avg_wait += wait[i] / (double) n;
        over += wait[i] > 60;
        last = fmax(last, ends[i]);
    }
    qsort(jct, n, sizeof *jct, by_value);
    qsort(wait, n, sizeof *wait, by_value);
    ret->jobs = n;
    ret->p50_jct = at_share(jct, n, 0.5);
    ret->p99_jct = at_share(jct, n, 0.99);
    ret->p50_wait = at_share(wait, n, 0.5);
    ret->p90_wait = at_share(wait, n, 0.9);
    ret->p99_wait = at_share(wait, n, 0.99);
    ret->p999_wait = at_share(wait, n, 0.999);
    ret->over_60s = over / (double) n;
    ret->makespan = last - t->jobs[0].submit;
}
