#include "core/world_int.h"

/* Two heaps of timers.  Sleepers are tasks that back off before they are tried
 * again: waking one is no event, only time that passes.  Alarms are tasks past
 * a limit and workloads past their deadline: each becomes an event.
 */
static const struct task *timer_task(const struct timer *t)
{
    return (const struct task *) (const void *)
           ((const char *) t - offsetof(struct task, timer));
}

static const struct workload *timer_workload(const struct timer *t)
{
    if (!t->of_workload)
        return timer_task(t)->workload;
    return (const struct workload *) (const void *)
           ((const char *) t - offsetof(struct workload, timer));
}

static bool timer_before(const void *a, const void *b)
{
    const struct timer *x = a, *y = b;
    const struct workload *wx = timer_workload(x), *wy = timer_workload(y);

    if (x->due_ms != y->due_ms)
        return x->due_ms < y->due_ms;
    if (wx != wy)
        return wx->id < wy->id;
    if (x->of_workload || y->of_workload)
        return x->of_workload && !y->of_workload;
    return timer_task(x)->index < timer_task(y)->index;
}

static uint32_t *timer_slot(void *item)
{
    return &((struct timer *) item)->slot;
}

void timers_init(struct world *w)
{
    w->sleepers = (struct heap) { .before = timer_before, .slot = timer_slot };
    w->alarms = (struct heap) { .before = timer_before, .slot = timer_slot };
}

void timer_off(struct world *w, struct timer *t)
{
    heap_remove(t->asleep ? &w->sleepers : &w->alarms, t);
    t->asleep = false;
}

/* When the living attempt is past its timeout or its limits; 0: never.  The
 * cost limit needs a price of a device, and none is known here yet.
 */
uint64_t task_alarm_ms(const struct task *t)
{
    const struct spec_task *s = t->spec;
    uint64_t milli = (uint64_t) s->gpu_milli * s->ranks;
    uint64_t due = UINT64_MAX, left;

    if (s->timeout_ms)
        due = add_capped(t->attempt_ms, s->timeout_ms);
    if (s->limit_wall_ms) {
        left = s->limit_wall_ms > t->used_wall_ms
             ? s->limit_wall_ms - t->used_wall_ms : 0;
        left = add_capped(t->attempt_ms, left);
        due = left < due ? left : due;
    }
    if (s->limit_gpu_ms && milli) {
        left = s->limit_gpu_ms > t->used_gpu_ms
             ? s->limit_gpu_ms - t->used_gpu_ms : 0;
        left = add_capped(t->attempt_ms,
                          add_capped(share_of(left, 1000000) / milli, 1));
        due = left < due ? left : due;
    }
    return due == UINT64_MAX ? 0 : due;
}

void task_timer(struct world *w, struct task *t)
{
    timer_off(w, &t->timer);
    if (t->state == TASK_WAITING && t->not_before_ms > w->tally.last_ms) {
        t->timer.due_ms = t->not_before_ms;
        t->timer.asleep = true;
        heap_add(&w->sleepers, &t->timer);
    } else if (t->leases_left > 0 && t->attempt_ms != 0 &&
               t->timer.due_ms != 0 && !t->stopping &&
               !t->workload->quarantined) {
        heap_add(&w->alarms, &t->timer);
    }
}

/* A workload that has not begun by then never will. */
void workload_timer(struct world *w, struct workload *wl)
{
    uint64_t due = wl->spec->deadline_ms ? wl->spec->deadline_ms : UINT64_MAX;
    uint64_t waited = add_capped(wl->submitted_ms, wl->spec->max_wait_ms);

    if (wl->spec->max_wait_ms && waited < due)
        due = waited;
    timer_off(w, &wl->timer);
    wl->timer.due_ms = due;
    wl->timer.of_workload = true;
    if (due != UINT64_MAX && !wl->started && !wl->quarantined &&
        wl->outcome == OUTCOME_NONE)
        heap_add(&w->alarms, &wl->timer);
}

/* Time passes up to `to_ms`: who has slept long enough gets in line at that
 * very moment, so that the meter comes out the same however often this is
 * called in between.
 */
void world_tick(struct world *w, uint64_t to_ms)
{
    struct timer *first;

    while ((first = heap_top(&w->sleepers)) && first->due_ms <= to_ms) {
        struct task *t = container_of(first, struct task, timer);

        meter_count(w, first->due_ms);
        timer_off(w, first);
        plan_task(w, t);
    }
    meter_count(w, to_ms);
}

uint64_t world_wake_ms(const struct world *w)
{
    const struct timer *alarm = heap_top(&w->alarms);
    const struct timer *sleeper = heap_top(&w->sleepers);
    uint64_t due = UINT64_MAX;

    if (alarm)
        due = alarm->due_ms;
    if (sleeper && sleeper->due_ms < due)
        due = sleeper->due_ms;
    return due;
}
