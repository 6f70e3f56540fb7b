#include "core/world_int.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Tasks that leave their devices and come back, with their state in the memory
 * of their blocks meanwhile.
 *
 *   task.suspending   its leases are suspending; it still holds all it had
 *   lease.suspended   ... of the last rank: the task is suspended, its room
 *                     is free, and it is in line for the same blocks
 *   task.resuming     it holds its new devices; its leases are resuming
 *   lease.resumed     ... of the last rank: it runs
 *   lease.kept        that rank is where it was
 *
 * All ranks or none: when all have answered and some are off and some on, those
 * that did what was asked are put back.  Where that fails as well it is tried
 * again, the other way round, later each time.  Who could not be suspended is
 * told to the plan anew, as one that cannot be: so the plan asks for it by
 * other means, or not at all.  Who could not be resumed is in line again after
 * a while.
 *
 * One that was idle (idle.c) leaves with its threads running, and is not in
 * line before it wants its devices again.
 *
 * Time off the devices is paid by nobody, and no timeout or limit of the task
 * counts it: usage is summed up stretch by stretch.  The wall time of its
 * workload and deadlines go on.
 */
enum {
    KEPT_MS = 1000, KEPT_DOUBLES = 9,
    MOVED_MS_MAX = 24 * 60 * 60 * 1000, /* a move of more counts as a day */
};

struct ranks {                         /* of those that have not ended */
    uint32_t planned, active, moving, off;
};

static struct ranks ranks_of(const struct task *t)
{
    struct ranks n = { 0 };

    for (uint32_t i = 0; t->leases && i < t->ranks; i++) {
        enum lease_state s = t->leases[i].state;

        n.planned += s == LEASE_PLANNED;
        n.active += s == LEASE_ACTIVE;
        n.moving += s == LEASE_SUSPENDING || s == LEASE_RESUMING;
        n.off += s == LEASE_SUSPENDED;
    }
    return n;
}

bool away_leaves(const struct task *t)
{
    return t->away && t->away->since_ms == 0 &&
           (t->away->leaving || t->away->putting_back);
}

bool away_resumes(const struct task *t)
{
    struct ranks n = ranks_of(t);

    return t->away && !t->away->leaving && !t->away->putting_back &&
           n.moving > 0;
}

bool away_off(const struct task *t)
{
    return t->away && t->away->since_ms != 0;
}

bool away_torn(const struct task *t)
{
    struct ranks n = ranks_of(t);

    return t->away && n.moving == 0 && n.active > 0 && n.off > 0;
}

uint64_t task_stretch_ms(const struct task *t)
{
    return t->away && t->away->stretch_ms ? t->away->stretch_ms
                                          : t->attempt_ms;
}

uint64_t task_earlier_ms(const struct task *t)
{
    return t->away ? t->away->wall_ms : 0;
}

bool task_suspends(const struct task *t)
{
    if (t->spec->together || t->spec->gpu_milli == 0 || !t->leases)
        return false;
    for (uint32_t i = 0; i < t->ranks; i++)
        if (t->leases[i].state != LEASE_ENDED && !t->leases[i].block->suspends)
            return false;
    return true;
}

/* ---- may it be? ---- */

/* Until when it is asked to be off; 0: until it is recalled.  By the world's
 * time, which may be ahead of any other clock.
 */
static uint64_t asked_until_ms(const struct event *e)
{
    uint64_t seconds = json_get_u64(e->data, "seconds", 0), until;

    if (seconds == 0)
        return e->until_ms;
    until = add_capped(e->time_ms, mul_capped(seconds, 1000));
    return until < TIME_MAX ? until : TIME_MAX;
}

static int check_suspending(const struct event *e, const struct task *t,
                            struct err *err)
{
    const char *why = json_get_str(e->data, "why", "");
    struct ranks n = ranks_of(t);

    if (strcmp(why, "asked") == 0 && t->state == TASK_SUSPENDED)
        return t->away->held && asked_until_ms(e) == 0
             ? err_set(err, ESTALE, "task '%s' is kept suspended already",
                       t->spec->name) : 0;
    if (t->stopping || t->leases_left == 0 || e->gen != t->gen)
        return err_set(err, ESTALE, "task '%s' is not running",
                       t->spec->name);
    if (n.moving > 0)
        return err_set(err, ESTALE, "task '%s' is on its way off its devices, "
                       "or back", t->spec->name);
    if (strcmp(why, "gang") != 0 && n.off > 0)
        return err_set(err, ESTALE, "task '%s' is suspended in part",
                       t->spec->name);
    if (n.planned > 0 || n.active == 0)
        return err_set(err, EBUSY, "task '%s' has not started yet",
                       t->spec->name);
    if (t->spec->gpu_milli == 0)
        return err_set(err, EINVAL, "task '%s' has no device to leave",
                       t->spec->name);
    if (t->spec->together)
        return err_set(err, EINVAL, "task '%s' runs together with others, "
                       "which would wait for it", t->spec->name);
    if (strcmp(why, "gang") != 0 && !task_suspends(t))
        return err_set(err, EINVAL, "task '%s' is on a node that cannot "
                       "suspend", t->spec->name);
    return strcmp(why, "idle") == 0 ? check_idle(e, t, err) : 0;
}

static bool is_wanted(const struct event *e)
{
    return strcmp(json_get_str(e->data, "why", ""), "wanted") == 0;
}

/* What a torn one waits for is its own back-off, nobody's wish. */
static int check_recalled(const struct event *e, const struct task *t,
                          struct err *err)
{
    bool for_now = t->not_before_ms != 0 && !away_torn(t) && t->away &&
                   t->away->leaving;
    bool idle = t->away && t->away->idle;

    if (t->away && !t->stopping &&
        (is_wanted(e) ? idle : t->away->held || for_now || idle))
        return 0;
    return err_set(err, ESTALE, "task '%s' is not kept suspended",
                   t->spec->name);
}

static void park(struct task *t, bool on)
{
    for (uint32_t i = 0; i < t->ranks; i++)
        if (t->leases[i].state != LEASE_ENDED)
            t->leases[i].block->parked += on ? t->away->bytes
                                             : 0 - t->away->bytes;
}

static int check_grant(const struct task *t, const struct event *e, uint32_t n,
                       struct err *err)
{
    const struct grant *g = &e->grants[n];
    const struct lease *l = g->rank < t->ranks ? &t->leases[g->rank] : NULL;

    if (!l || l->state == LEASE_ENDED ||
        (n > 0 && g->rank <= e->grants[n - 1].rank))
        return err_set(err, EINVAL, "task '%s' has no rank %u to come back, "
                       "or has it twice", t->spec->name, g->rank);
    if (strcmp(g->block, l->block->id) != 0)
        return err_set(err, EINVAL, "rank %u of task '%s' is in the memory of "
                       "block '%s'", l->rank, t->spec->name, l->block->id);
    if (!grant_open(l->block, g))
        return err_set(err, EBUSY, "block '%s' takes nothing new", g->block);
    return room_back(l->block, t->spec, g, err);
}

/* As if its memory were given back, which is no less than it takes; and then
 * it is as before.
 */
static int check_back(const struct event *e, struct task *t, struct err *err)
{
    uint32_t n = 0;
    int rc = 0;

    park(t, false);
    for (; n < e->ngrants; n++) {
        rc = check_grant(t, e, n, err);
        if (rc < 0)
            break;
        room_take(t->leases[e->grants[n].rank].block, t->spec, &e->grants[n]);
    }
    while (n-- > 0)
        room_give(t->leases[e->grants[n].rank].block, t->spec, &e->grants[n]);
    park(t, true);
    return rc;
}

static int check_resuming(const struct event *e, struct task *t,
                          struct err *err)
{
    bool whole = t->state == TASK_SUSPENDED;

    if (t->stopping || e->gen != t->gen || (!whole && !away_torn(t)))
        return err_set(err, ESTALE, "task '%s' is not suspended",
                       t->spec->name);
    if (!whole)
        return 0;
    if (e->ngrants != t->leases_left ||
        ranks_of(t).off != t->leases_left)
        return err_set(err, EINVAL, "task '%s' has %u ranks to come back, not "
                       "%u", t->spec->name, t->leases_left, e->ngrants);
    return check_back(e, t, err);
}

int check_away(const struct world *w, const struct event *e, struct task *t,
               struct err *err)
{
    (void) w;
    if (e->type == EVENT_RECALLED)
        return check_recalled(e, t, err);
    if (e->until_ms > TIME_MAX)
        return err_set(err, EINVAL, "a time past all times");
    return e->type == EVENT_SUSPENDING ? check_suspending(e, t, err)
                                       : check_resuming(e, t, err);
}

int check_moved(const struct event *e, const struct lease *l, struct err *err)
{
    enum lease_move move = e->type == EVENT_LEASE_SUSPENDED
                         ? LEASE_MOVE_SUSPENDED
                         : e->type == EVENT_LEASE_RESUMED ? LEASE_MOVE_RESUMED
                         : LEASE_MOVE_KEEP;
    enum lease_state next;

    if (json_get_u64(e->data, "bytes", 0) > INT64_MAX / SPEC_MAX_RANKS / 2 ||
        json_get_u64(e->data, "ms", 0) > TIME_MAX)
        return err_set(err, EINVAL, "a move of more bytes, or of more time, "
                       "than there can be");
    return lease_next(l->state, move, &next, err);
}

/* ---- it leaves ---- */

static void set_text(char **at, const char *text)
{
    free(*at);
    *at = mem_str(text);
}

/* Who is to blame, for `weir why`. */
static void set_by(struct world *w, struct task *t, const struct event *e)
{
    const struct workload *wl = world_workload(w, t->for_workload);

    if (strcmp(json_get_str(e->data, "why", ""), "asked") == 0) {
        set_text(&t->away->by, e->who);
        return;
    }
    free(take(t->away->by));
    if (!wl && task_remedy(t) >= REMEDY_DRAIN)
        t->away->by = mem_printf("the health of %s", task_illest(t)->uuid);
    if (wl && t->for_task < wl->spec->ntasks)
        t->away->by = mem_printf("w%" PRIu64 "/%s", wl->id,
                                 wl->tasks[t->for_task].spec->name);
}

static void apply_asked(struct world *w, struct task *t, const struct event *e)
{
    t->not_before_ms = asked_until_ms(e);
    t->away->held = t->not_before_ms == 0;
    if (t->state != TASK_SUSPENDED)
        return;
    task_timer(w, t);
    item_task(w, t);
}

static void apply_suspending(struct world *w, struct task *t,
                             const struct event *e)
{
    const char *why = json_get_str(e->data, "why", "");
    bool gang = strcmp(why, "gang") == 0;

    if (!t->away)
        t->away = mem_new(sizeof(*t->away));
    task_dirty(w, t);
    if (!gang)
        set_by(w, t, e);
    if (strcmp(why, "asked") == 0)
        apply_asked(w, t, e);
    if (t->state == TASK_SUSPENDED)
        return;
    if (!gang)
        t->away->idle = t->away->awake = t->away->urgent = false;
    if (strcmp(why, "idle") == 0)
        apply_idle(t, e);
    item_changed(w, t);
    t->away->leaving = true;
    t->away->putting_back = gang;
    t->away->moved_ms = 0;
    if (!gang)
        t->away->kept = t->away->moved_bytes = 0;
    for (uint32_t i = 0; i < t->ranks; i++)
        if (t->leases[i].state == LEASE_ACTIVE)
            (void) lease_moved(&t->leases[i], LEASE_MOVE_SUSPEND);
    item_yields(w, t);
    item_leaving(w, t);
}

static uint64_t kept_ms(const struct task *t)
{
    uint32_t n = t->away->kept;

    return (uint64_t) KEPT_MS << (n < KEPT_DOUBLES ? n : KEPT_DOUBLES);
}

static void stretch_over(struct task *t, uint64_t now_ms)
{
    uint64_t ms = now_ms - task_stretch_ms(t);

    t->used_wall_ms = add_capped(t->used_wall_ms, ms);
    t->away->wall_ms = add_capped(t->away->wall_ms, ms);
}

static void lease_left(struct world *w, struct lease *l, uint64_t now_ms)
{
    uint64_t from = l->from_ms ? l->from_ms : l->claimed_ms;

    task_charge(l->task, l, now_ms - from);
    limit_drop(l->task->workload, l);
    lease_give(w, l);
}

/* All its ranks are off. */
static void left(struct world *w, struct task *t, uint64_t now_ms)
{
    struct task_away *a = t->away;
    bool was_leaving = a->leaving;

    for (uint32_t i = 0; i < t->ranks; i++)
        if (t->leases[i].state != LEASE_ENDED)
            lease_left(w, &t->leases[i], now_ms);
    stretch_over(t, now_ms);
    workload_timer(w, t->workload);
    t->workload->tenant->dirty = true;
    workload_dirty(w, t->workload);
    a->leaving = true;
    a->putting_back = false;
    a->since_ms = now_ms;
    if (was_leaving)                   /* else it could not come back */
        a->off_ms = a->moved_ms;
    a->bytes = a->moved_bytes ? a->moved_bytes : 1;
    t->preempting = PREEMPT_NOT;
    t->for_workload = t->for_task = 0;
    if (a->kept > 0 && t->not_before_ms < now_ms + kept_ms(t))
        t->not_before_ms = now_ms + kept_ms(t);
    park(t, true);
    item_left(w, t);
    task_set_state(w, t, TASK_SUSPENDED, now_ms);
}

/* ---- and comes back ---- */

static void lease_back(struct world *w, struct lease *l, const struct grant *g,
                       uint64_t now_ms)
{
    l->grant = *g;
    l->price_micro = grant_price(w, l->block, g);
    l->from_ms = now_ms;
    lease_take(w, l);
    limit_hold(l->task->workload, l);
}

/* What stood still did so while it could not move. */
static void shift_still(struct task *t, uint64_t ms)
{
    if (t->progress && t->progress->still_ms)
        t->progress->still_ms = add_capped(t->progress->still_ms, ms);
}

static void come_back(struct world *w, struct task *t, const struct event *e)
{
    struct task_away *a = t->away;

    park(t, false);
    for (uint32_t i = 0; i < e->ngrants; i++)
        lease_back(w, &t->leases[e->grants[i].rank], &e->grants[i],
                   e->time_ms);
    shift_still(t, e->time_ms - a->since_ms);
    item_placed(t, e->time_ms);
    a->stretch_ms = e->time_ms;
    t->not_before_ms = 0;
    a->since_ms = 0;
    item_back(w, t);
    timer_off(w, &t->timer);
    t->timer.due_ms = task_alarm_ms(t);
    workload_timer(w, t->workload);
    task_set_state(w, t, TASK_RUNNING, e->time_ms);
}

static void apply_resuming(struct world *w, struct task *t,
                           const struct event *e)
{
    bool whole = t->state == TASK_SUSPENDED;

    t->away->leaving = false;
    t->away->putting_back = !whole;
    t->away->moved_ms = 0;
    if (whole)
        come_back(w, t, e);
    for (uint32_t i = 0; i < t->ranks; i++)
        if (t->leases[i].state == LEASE_SUSPENDED)
            (void) lease_moved(&t->leases[i], LEASE_MOVE_RESUME);
    task_dirty(w, t);
}

/* Who wants its devices is still kept off them by who asked for that. */
static void apply_recalled(struct world *w, struct task *t,
                           const struct event *e)
{
    t->away->idle = false;
    if (!is_wanted(e)) {
        t->away->held = false;
        if (!away_torn(t))
            t->not_before_ms = 0;
    }
    task_dirty(w, t);
    if (t->state != TASK_SUSPENDED)
        return;
    task_timer(w, t);
    item_task(w, t);
}

void apply_away(struct world *w, struct task *t, struct event *e)
{
    if (e->type == EVENT_SUSPENDING)
        apply_suspending(w, t, e);
    else if (e->type == EVENT_RESUMING)
        apply_resuming(w, t, e);
    else
        apply_recalled(w, t, e);
}

/* All its ranks are on. */
static void on_again(struct world *w, struct task *t)
{
    if (away_leaves(t)) {
        if (t->away->awake)            /* of the plan's own nothing is known */
            t->away->kept = 0;
        t->away->idle = t->away->awake = t->away->urgent = false;
        t->away->leaving = t->away->putting_back = t->away->held = false;
        t->preempting = PREEMPT_NOT;
        t->for_workload = t->for_task = 0;
        t->not_before_ms = 0;
        item_again(w, t);
    } else {
        t->away->kept = 0;
        plan_resumed(w->plan, t->item, t->away->moved_ms);
        w->dirty_costs = true;
    }
    todo_add(w, t);
}

/* Nobody of it is on the way any more.  However many ranks failed, that is one
 * failure.
 */
void away_round(struct world *w, struct task *t, uint64_t now_ms)
{
    struct ranks n = ranks_of(t);

    if (n.moving > 0 || n.active + n.off == 0 || t->stopping)
        return;
    t->away->kept += t->away->failed;
    t->away->failed = false;
    if (n.active == 0) {
        left(w, t, now_ms);
    } else if (n.off == 0) {
        on_again(w, t);
    } else {
        t->not_before_ms = t->away->putting_back ? now_ms + kept_ms(t) : 0;
        task_timer(w, t);
        todo_add(w, t);
    }
}

static void keep_rank(struct task *t, const json_t *data)
{
    t->away->failed = true;
    set_text(&t->away->reason, json_get_str(data, "reason", ""));
    set_text(&t->away->text, json_get_str(data, "text", ""));
}

/* What a rank leaves in memory, its own memory with it. */
static void measure(struct task *t, const json_t *data)
{
    uint64_t bytes = add_capped(json_get_u64(data, "bytes", 0),
                                t->spec->memory);

    if (bytes > t->away->moved_bytes)
        t->away->moved_bytes = bytes;
}

static uint64_t moved_ms_of(const json_t *data, const char *key)
{
    uint64_t ms = json_get_u64(data, key, 0);

    return ms < MOVED_MS_MAX ? ms : MOVED_MS_MAX;
}

void apply_moved(struct world *w, struct lease *l, const struct event *e)
{
    static const enum lease_move moves[EVENT_TYPE_COUNT] = {
        [EVENT_LEASE_SUSPENDED] = LEASE_MOVE_SUSPENDED,
        [EVENT_LEASE_RESUMED] = LEASE_MOVE_RESUMED,
        [EVENT_LEASE_KEPT] = LEASE_MOVE_KEEP,
    };
    struct task *t = l->task;
    uint64_t ms = moved_ms_of(e->data, "ms");

    (void) lease_moved(l, moves[e->type]);
    if (ms > t->away->moved_ms)
        t->away->moved_ms = ms;
    if (e->type == EVENT_LEASE_KEPT)
        keep_rank(t, e->data);
    else if (e->type == EVENT_LEASE_SUSPENDED)
        measure(t, e->data);
    away_round(w, t, e->time_ms);
    task_dirty(w, t);
}

/* ---- ends ---- */

void away_loaded(struct task *t)
{
    park(t, true);
}

bool away_moves(const struct task *t)
{
    return t->away && (ranks_of(t).moving > 0 || away_leaves(t));
}

bool away_under_way(const struct task *t)
{
    return t->away && (ranks_of(t).moving > 0 || away_torn(t));
}

/* A rank of it ends, and still counts.  Where it has ended well the others come
 * back without it; else they have nothing to come back to, and are stopped.
 */
void away_ended(struct world *w, struct task *t, enum spec_cause cause,
                uint64_t now_ms)
{
    if (t->state != TASK_SUSPENDED ||
        (cause == SPEC_CAUSE_NONE && t->leases_left > 1))
        return;
    item_stranded(w, t);
    task_set_state(w, t, TASK_ENDING, now_ms);
}

void away_free(struct task_away *a)
{
    if (!a)
        return;
    free(a->by);
    free(a->reason);
    free(a->text);
    free(a);
}

/* ---- what the world wants ---- */

static void want(struct event *e, enum event_type type, const struct task *t,
                 const char *why)
{
    event_init(e, type);
    e->workload = t->workload->id;
    e->task = t->index;
    e->gen = t->gen;
    e->data = json_object();
    json_put_str(e->data, "why", why);
}

bool away_next(const struct task *t, uint64_t now_ms, struct event *ret)
{
    struct ranks n = ranks_of(t);

    if (t->stopping || n.moving > 0)
        return false;
    if (away_torn(t)) {
        if (t->not_before_ms > now_ms)
            return false;
        want(ret, t->away->leaving ? EVENT_RESUMING : EVENT_SUSPENDING, t,
             "gang");
        return true;
    }
    if (t->preempting == PREEMPT_SUSPEND && n.planned == 0 && n.active > 0 &&
        task_suspends(t)) {
        want(ret, EVENT_SUSPENDING, t, "preempted");
        return true;
    }
    return false;
}

/* The plan says which devices; whose state is where is the leases' to say. */
void want_resuming(const struct plan_decision *d, struct event *ret)
{
    const struct task *t = plan_owner(d->item);
    autofree bool *used = mem_array(d->nplaces + 1u, sizeof(*used));

    event_init(ret, EVENT_RESUMING);
    ret->workload = t->workload->id;
    ret->task = t->index;
    ret->gen = t->gen;
    ret->grants = mem_array(d->nplaces, sizeof(*ret->grants));
    for (uint32_t i = 0; i < t->ranks; i++) {
        const struct lease *l = &t->leases[i];
        struct grant *g = &ret->grants[ret->ngrants];
        uint32_t k = 0;

        if (l->state == LEASE_ENDED)
            continue;
        while (k < d->nplaces &&
               (used[k] || d->places[k].node != l->block->plan_node))
            k++;
        assert(k < d->nplaces);        /* it does not roam */
        used[k] = true;
        *g = l->grant;
        g->milli = t->spec->gpu_milli < 1000 ? t->spec->gpu_milli : 1000;
        g->ndevices = d->places[k].ndevices;
        memcpy(g->device, d->places[k].device, sizeof(g->device));
        ret->ngrants++;
    }
}

/* ---- rows ---- */

json_t *away_view(const struct task *t)
{
    const struct task_away *a = t->away;
    json_t *j = json_object();

    view_time(j, "since", a->since_ms);
    if (a->since_ms)
        json_put_u64(j, "bytes", a->bytes);
    view_flag(j, "held", a->held);
    if (a->since_ms)
        view_time(j, "until", t->not_before_ms);
    if (a->by)
        json_put_str(j, "by", a->by);
    if (a->awake)
        json_put(j, "idle", idle_view(a));
    if (a->reason) {
        json_put_str(j, "reason", a->reason);
        json_put_str(j, "text", a->text);
    }
    return j;
}

json_t *away_hidden(const struct task_away *a)
{
    json_t *j = json_object();

    view_flag(j, "leaving", a->leaving);
    view_flag(j, "putting_back", a->putting_back);
    view_flag(j, "failed", a->failed);
    view_flag(j, "counted", a->counted);
    view_some(j, "level", a->level);
    view_some(j, "kept", a->kept);
    view_some(j, "since_ms", a->since_ms);
    view_some(j, "stretch_ms", a->stretch_ms);
    view_some(j, "wall_ms", a->wall_ms);
    view_some(j, "bytes", a->bytes);
    view_some(j, "moved_ms", a->moved_ms);
    view_some(j, "moved_bytes", a->moved_bytes);
    view_some(j, "off_ms", a->off_ms);
    view_some(j, "ran_ms", a->ran_ms);
    view_some(j, "ran_work", a->ran_work);
    if (a->awake)
        json_put(j, "idle", idle_hidden(a));
    return j;
}

int away_load(struct task *t, const json_t *row, const json_t *hidden)
{
    struct task_away *a;

    if (!hidden)
        return t->state == TASK_SUSPENDED ? -EINVAL : 0;
    a = t->away = mem_new(sizeof(*a));
    a->leaving = json_get_bool(hidden, "leaving", false);
    a->putting_back = json_get_bool(hidden, "putting_back", false);
    a->failed = json_get_bool(hidden, "failed", false);
    a->counted = json_get_bool(hidden, "counted", false);
    a->held = json_get_bool(row, "held", false);
    a->level = (uint8_t) json_get_u64(hidden, "level", 0);
    a->kept = (uint32_t) json_get_u64(hidden, "kept", 0);
    a->since_ms = json_get_u64(hidden, "since_ms", 0);
    a->stretch_ms = json_get_u64(hidden, "stretch_ms", 0);
    a->wall_ms = json_get_u64(hidden, "wall_ms", 0);
    a->bytes = json_get_u64(hidden, "bytes", 0);
    a->moved_ms = moved_ms_of(hidden, "moved_ms");
    a->moved_bytes = json_get_u64(hidden, "moved_bytes", 0);
    a->off_ms = moved_ms_of(hidden, "off_ms");
    a->ran_ms = json_get_u64(hidden, "ran_ms", 0);
    a->ran_work = json_get_u64(hidden, "ran_work", 0);
    a->by = mem_str(json_get_str(row, "by", NULL));
    a->reason = mem_str(json_get_str(row, "reason", NULL));
    a->text = mem_str(json_get_str(row, "text", NULL));
    if (t->state == TASK_SUSPENDED && (a->since_ms == 0 || a->bytes == 0))
        return -EINVAL;
    return idle_load(a, row, json_object_get(hidden, "idle"));
}
