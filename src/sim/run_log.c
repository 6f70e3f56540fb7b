#include "sim/run_int.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

void run_log_init(struct run_log *l, const struct trace *t,
                  const struct cluster *c)
{
    *l = (struct run_log) { .from = t->jobs[0].submit };
    l->width = (t->jobs[t->count - 1].submit - l->from) / RUN_BUCKETS;
    l->gpus = c->nodes * c->gpus;
    l->rows = c->nodes < RUN_ROWS ? c->nodes : RUN_ROWS;
    l->busy = mem_array((size_t) l->rows * RUN_BUCKETS, sizeof(*l->busy));
    l->waits = mem_array(t->count, sizeof(*l->waits));
    l->nwaits = t->count;
}

void run_log_free(struct run_log *l)
{
    free(l->busy);
    free(l->waits);
    *l = (struct run_log) { 0 };
}

/* GPU-seconds in use on each row of nodes. */
static void add_busy(struct run_log *l, const struct cluster *c, size_t at,
                     double time)
{
    for (size_t n = 0; n < c->nodes; n++) {
        size_t row = n * l->rows / c->nodes;

        l->busy[row * RUN_BUCKETS + at] +=
            time * (double) (c->gpus - c->free[n]);
    }
}

void run_log_add(struct run_log *l, const struct run *r, double to,
                 enum run_share idle_as)
{
    const struct cluster *c = r->cluster;
    size_t waiting = r->bound.count;
    double now = r->now;

    if (l->width <= 0)
        return;
    for (size_t k = 0; k < r->kinds; k++)
        waiting += r->kind_waiting[k];
    while (now < to) {
        size_t at = (size_t) ((now - l->from) / l->width);
        double end = l->from + (double) (at + 1) * l->width, time;

        if (at >= RUN_BUCKETS)
            break;
        /* Rounding must not stop the clock. */
        end = fmax(fmin(end, to), nextafter(now, INFINITY));
        time = end - now;
        l->shares[SHARE_BUSY][at] += time * (l->gpus - c->idle);
        l->shares[idle_as][at] += time * c->idle;
        l->queue[at] += time * (double) waiting;
        add_busy(l, c, at, time);
        now = end;
    }
}

void run_log_end(struct run_log *l, const struct trace *t, const double *ends,
                 const double *saved)
{
    for (size_t i = 0; i < t->count; i++)
        l->waits[i] = fmax(ends[i] - t->jobs[i].submit - t->jobs[i].length +
                           saved[i], 0);
}
