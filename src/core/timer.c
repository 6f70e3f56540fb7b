#include "core/world_int.h"

#include "base/map.h"

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

/* When what costs so much for an hour has cost `left`, from the claim on. */
static uint64_t cost_alarm_ms(const struct task *t)
{
    uint64_t hourly = 0, left = 0;
    __extension__ unsigned __int128 ms;

    for (uint32_t i = 0; i < t->ranks; i++)
        hourly = add_capped(hourly, t->leases[i].price_micro);
    if (hourly == 0)
        return UINT64_MAX;
    if (t->spec->limit_cost_micro > t->used_cost_micro)
        left = t->spec->limit_cost_micro - t->used_cost_micro;
    ms = left;
    ms = ms * (60 * 60 * 1000) / hourly + 1;
    return add_capped(task_stretch_ms(t), ms > INT64_MAX ? INT64_MAX
                                                    : (uint64_t) ms);
}

/* Only time on its devices counts. */
uint64_t task_timeout_ms(const struct task *t)
{
    uint64_t left = t->spec->timeout_ms > task_earlier_ms(t)
                  ? t->spec->timeout_ms - task_earlier_ms(t) : 0;

    return add_capped(task_stretch_ms(t), left);
}

/* When its metric has stood still for long enough, or UINT64_MAX. */
uint64_t task_still_ms(const struct task *t)
{
    if (!t->spec->still_metric || !t->progress || !t->progress->still_ms)
        return UINT64_MAX;
    return add_capped(t->progress->still_ms, t->spec->still_ms);
}

/* When the living attempt is past its timeout or its limits; 0: never. */
uint64_t task_alarm_ms(const struct task *t)
{
    const struct spec_task *s = t->spec;
    uint64_t milli = (uint64_t) s->gpu_milli * t->ranks;
    uint64_t due = UINT64_MAX, left;

    if (s->timeout_ms)
        due = task_timeout_ms(t);
    if (s->limit_wall_ms) {
        left = s->limit_wall_ms > t->used_wall_ms
             ? s->limit_wall_ms - t->used_wall_ms : 0;
        left = add_capped(task_stretch_ms(t), left);
        due = left < due ? left : due;
    }
    if (s->limit_gpu_ms && milli) {
        left = s->limit_gpu_ms > t->used_gpu_ms
             ? s->limit_gpu_ms - t->used_gpu_ms : 0;
        left = add_capped(task_stretch_ms(t),
                          add_capped(share_of(left, 1000000) / milli, 1));
        due = left < due ? left : due;
    }
    if (s->limit_cost_micro) {
        left = cost_alarm_ms(t);
        due = left < due ? left : due;
    }
    left = task_still_ms(t);
    due = left < due ? left : due;
    return due == UINT64_MAX ? 0 : due;
}

/* When one that slept is to be stopped; `due_ms` was the end of its sleep. */
static uint64_t awake_due_ms(const struct task *t)
{
    return t->leases_left > 0 && !away_off(t) && t->attempt_ms != 0
           ? task_alarm_ms(t) : 0;
}

void task_timer(struct world *w, struct task *t)
{
    bool sleeps = t->state == TASK_WAITING || t->state == TASK_SUSPENDED ||
                  away_torn(t);
    bool slept = t->timer.asleep;

    timer_off(w, &t->timer);
    if (slept)
        t->timer.due_ms = awake_due_ms(t);
    if (sleeps && t->not_before_ms > world_now(w)) {
        t->timer.due_ms = t->not_before_ms;
        t->timer.asleep = true;
        heap_add(&w->sleepers, &t->timer);
    } else if (t->leases_left > 0 && !away_off(t) &&
               t->attempt_ms != 0 && t->timer.due_ms != 0 && !t->stopping &&
               !t->workload->quarantined) {
        heap_add(&w->alarms, &t->timer);
    }
}

/* A workload that has not begun by then never will. */
static uint64_t begin_by_ms(const struct workload *wl)
{
    uint64_t due = wl->spec->deadline_ms ? wl->spec->deadline_ms : UINT64_MAX;
    uint64_t waited = add_capped(wl->submitted_ms, wl->spec->max_wait_ms);

    return wl->spec->max_wait_ms && waited < due ? waited : due;
}

void workload_timer(struct world *w, struct workload *wl)
{
    uint64_t due = wl->started ? limit_due_ms(wl) : begin_by_ms(wl);

    timer_off(w, &wl->timer);
    wl->timer.due_ms = due;
    wl->timer.of_workload = true;
    if (due != UINT64_MAX && !wl->aborting && !wl->quarantined &&
        wl->outcome == OUTCOME_NONE)
        heap_add(&w->alarms, &wl->timer);
}

static uint64_t sleeps_ms(const struct world *w)
{
    const struct timer *first = heap_top(&w->sleepers);

    return first ? first->due_ms : UINT64_MAX;
}

/* The next moment at which time alone changes something, or UINT64_MAX. */
static uint64_t stirs_ms(struct world *w)
{
    uint64_t budget = budget_due_ms(w), sleeps = sleeps_ms(w);

    return sleeps < budget ? sleeps : budget;
}

static void wake_sleepers(struct world *w)
{
    struct timer *first;

    while ((first = heap_top(&w->sleepers)) && first->due_ms <= world_now(w)) {
        struct task *t = container_of(first, struct task, timer);

        task_timer(w, t);
        if (t->leases_left > 0) {      /* suspended, or between the two */
            todo_add(w, t);
            task_dirty(w, t);
        }
        item_task(w, t);
    }
}

/* Time passes up to `to_ms`: who has slept long enough gets in line at that
 * very moment, and a budget is used up at its own, so that all comes out the
 * same however often this is called in between.  A clock that leaps over
 * years is not followed through every budget of theirs.
 */
void world_tick(struct world *w, uint64_t to_ms)
{
    unsigned n = 0;
    uint64_t at;

    sets_sync(w);
    while ((at = stirs_ms(w)) <= to_ms) {
        n += at < sleeps_ms(w);        /* who sleeps does so once */
        bridge_time(w, n < BUDGETS_MAX ? at : to_ms);
        wake_sleepers(w);
        if (w->nbudgets > 0)
            budgets_look(w);
        sets_sync(w);
    }
    bridge_time(w, to_ms);
}

static uint64_t windows_end_ms(const struct world *w)
{
    uint64_t due = UINT64_MAX;
    const struct window *v;
    size_t pos = 0;

    while ((v = map_next(w->windows, &pos, NULL)))
        due = v->to_ms < due ? v->to_ms : due;
    return due;
}

uint64_t world_wake_ms(struct world *w)
{
    const struct timer *alarm = heap_top(&w->alarms);
    uint64_t due = stirs_ms(w), more = windows_end_ms(w);

    due = more < due ? more : due;
    if (alarm && alarm->due_ms < due)
        due = alarm->due_ms;
    if (w->hold)
        return due;
    more = plan_wake_ms(w->plan);
    return more < due ? more : due;
}
