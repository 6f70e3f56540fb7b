#include "plan/plan_int.h"

#include "base/err.h"
#include "base/list.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

/* The life of an item: in line, on its places, off them, gone.
 *
 * Work is device-milliseconds, the running stretch included only when asked
 * for (plan_work).  The level follows from the work and from what was learned;
 * it is worked out when an item joins the line, when one that runs has come to
 * be one that may be asked to leave, when its work has come to the end of the
 * level, and when it gives a place back.  Until it may be asked, the level of one
 * that runs is of no meaning: when it was worked out last is not what a world
 * that was loaded knows.
 *
 * What time alone changes has a timer (timetable.c): a running item's next
 * level, or that it may be asked to leave; a waiting one's end of patience, the
 * nearing of its deadline, and its next look at a better device.
 */

uint64_t places_milli(const struct shape *s, const struct plan_place *places,
                      uint32_t n)
{
    uint64_t sum = 0;

    for (uint32_t k = 0; k < n; k++)
        sum += (uint64_t) s->parts[places[k].part].need.gpu_milli;
    return sum;
}

/* ---- work and levels ---- */

uint64_t plan_work(const struct plan *p, const struct plan_item *i)
{
    if (!item_runs(i))
        return i->work;
    return i->work + i->held_milli * (p->now_ms - i->since_ms) / 1000;
}

uint8_t plan_level(const struct plan_item *i)
{
    return i->level;
}

/* Returns the work at which it ends; of one that runs this is remembered, as
 * more may have been learned by then.
 */
static uint64_t item_level(struct plan *p, struct plan_item *i)
{
    uint64_t until;
    uint32_t level = predict_level(p->predict, &i->sig, plan_work(p, i),
                                   &until);

    i->level = (uint8_t) (level < UINT8_MAX ? level : UINT8_MAX);
    if (item_runs(i))
        p->level_ends[i->run_slot] = until;
    return until;
}

/* ---- timers ---- */

void items_init(struct plan *p)
{
    p->slab.size = sizeof(struct plan_item);
    timetable_init(&p->timetable);
}

uint64_t items_wake_ms(const struct plan *p)
{
    const struct keyed_entry *e = timetable_first(&p->timetable);

    return e ? e->key[0] : UINT64_MAX;
}

/* When work reaches that: the same whenever it is asked. */
static uint64_t work_at_ms(const struct plan *p, const struct plan_item *i,
                           uint64_t until)
{
    uint64_t left, at;

    if (until == UINT64_MAX || i->held_milli == 0)
        return UINT64_MAX;
    left = until > i->work ? until - i->work : 0;
    at = i->since_ms + (left * 1000 + i->held_milli - 1) / i->held_milli;
    return at > p->now_ms ? at : p->now_ms + 1;
}

/* One that has run for long bears a longer wait: its patience is the policy's
 * or as long as it has run, whichever is longer.
 */
static uint64_t item_patience_ms(const struct plan *p,
                                 const struct plan_item *i)
{
    return i->run_ms > p->policy.patience_ms ? i->run_ms
                                             : p->policy.patience_ms;
}

enum { PROMOTED_MAX = 20 };

/* Past its patience: how often its wait has doubled since, and once more. */
static uint8_t promoted_now(const struct plan *p, const struct plan_item *i)
{
    uint64_t patience = item_patience_ms(p, i);
    uint8_t n = 0;

    while (n < PROMOTED_MAX && p->now_ms >= i->since_ms + (patience << n))
        n++;
    return n;
}

uint8_t item_promoted(const struct plan *p, const struct plan_item *i)
{
    return i->promoted ? promoted_now(p, i) : 0;
}

/* The first half of the wait, as it was when it doubled last: so time alone
 * changes this only then, and the item looks again.
 */
uint64_t item_due_ms(const struct plan *p, const struct plan_item *i)
{
    uint8_t n = item_promoted(p, i);

    return n == 0 ? 0 : i->since_ms + (item_patience_ms(p, i) << n) / 4;
}

/* From when on the deadline is near: the predicted time (0.9) and the
 * policy's patience are all that is left.
 */
static uint64_t urgent_ms(const struct plan *p, const struct plan_item *i)
{
    struct guess g;
    uint64_t left;

    if (i->deadline_ms == 0)
        return UINT64_MAX;
    if (i->urgent_ms)
        return i->urgent_ms;
    predict_guess(p->predict, &i->sig, i->run_ms, (double) i->progress, &g);
    left = (g.high_ms > i->run_ms ? g.high_ms - i->run_ms : 0) +
           p->policy.patience_ms;
    return i->deadline_ms > left ? i->deadline_ms - left : 0;
}

/* From when on it has run for long enough to be asked to leave; never at the
 * instant of its start, or two could drive each other out for ever.
 */
uint64_t item_ripe_ms(const struct plan *p, const struct plan_item *i)
{
    uint64_t least = p->policy.min_run_ms, at;

    if (i->run_ms >= least)
        return i->since_ms + 1;
    at = i->since_ms + (uint64_t) ceil((double) (least - i->run_ms) /
                                       item_rating(p, i));
    return at > i->since_ms ? at : i->since_ms + 1;
}

/* A stretch lasts for so many times what going off and on costs: turns take a
 * twentieth of a device's time at most.
 */
enum { TURN_COSTS = 20 };

uint64_t item_turn_ms(const struct plan *p, const struct plan_item *i)
{
    return i->since_ms +
           (uint64_t) (p->policy.suspend_cost_s * 1000 * TURN_COSTS);
}

/* Its level ends with that work; which level it has matters to nobody before
 * it may be asked to leave.
 */
static uint64_t running_changes_ms(const struct plan *p,
                                   const struct plan_item *i, uint64_t until)
{
    uint64_t ripe = i->room_slot ? 0 : item_ripe_ms(p, i);
    uint64_t turn = item_turn_ms(p, i), level;

    if (i->yield == YIELD_NEVER)
        return UINT64_MAX;
    if (ripe > p->now_ms)
        return ripe;
    level = work_at_ms(p, i, until);
    return turn > p->now_ms && turn < level ? turn : level;
}

/* It is past its patience, or past twice as much as it was. */
static uint64_t doubles_ms(const struct plan *p, const struct plan_item *i)
{
    return i->promoted == PROMOTED_MAX ? UINT64_MAX :
           i->since_ms + (item_patience_ms(p, i) << i->promoted);
}

static uint64_t waiting_changes_ms(const struct plan *p,
                                   const struct plan_item *i)
{
    uint64_t at = UINT64_MAX, urgent;

    if (!i->promoted || line_follows(i))
        at = doubles_ms(p, i);
    if (!i->urgent) {
        urgent = urgent_ms(p, i);
        at = urgent < at ? urgent : at;
    }
    return i->look_ms && i->look_ms < at ? i->look_ms : at;
}

static void item_timer(struct plan *p, struct plan_item *i)
{
    uint64_t at = UINT64_MAX;

    if (i->state == ITEM_RUNNING) {
        at = running_changes_ms(p, i, p->level_ends[i->run_slot]);
    } else if (item_waits(i)) {
        at = waiting_changes_ms(p, i);
    }
    timetable_set(p, i, at);
}

uint64_t plan_level_until(const struct plan *p, const struct plan_item *i)
{
    return i->state == ITEM_RUNNING && i->room_slot > 0
         ? p->level_ends[i->run_slot] : 0;
}

void plan_level_load(struct plan *p, struct plan_item *i, uint8_t level,
                     uint64_t until)
{
    uint8_t was = i->level;

    if (plan_level_until(p, i) == 0 || plan_work(p, i) >= until)
        return;
    i->level = level;
    if (level != was)
        room_moved(p, i, was);
    p->level_ends[i->run_slot] = until;
    item_timer(p, i);
}

struct plan_item *plan_running(const struct plan *p, uint32_t k)
{
    return k < p->nrunning ? p->running[k] : NULL;
}

void item_follow(struct plan *p, struct plan_item *i)
{
    uint64_t at;

    i->promoted = item_promoted(p, i);
    at = doubles_ms(p, i);
    if (at < timetable_ms(&p->timetable, i))
        timetable_set(p, i, at);
}

void item_hopes(struct plan *p, struct plan_item *i, uint64_t look_ms)
{
    i->look_ms = look_ms;
    item_timer(p, i);
}

/* It runs, and may be asked to leave, or may not; could: until now it might. */
static void may_leave(struct plan *p, struct plan_item *i, bool could)
{
    if (!could)
        (void) item_level(p, i);
    room_running(p, i, true);
}

static void due_running(struct plan *p, struct plan_item *i)
{
    uint8_t was = i->level;

    if (i->room_slot == 0) {
        may_leave(p, i, false);
    } else if (plan_work(p, i) >= p->level_ends[i->run_slot]) {
        (void) item_level(p, i);
        if (i->level != was)
            room_moved(p, i, was);
    }
    item_timer(p, i);
    line_chance(p, i);
}

static void due(struct plan *p, struct plan_item *i)
{
    if (i->state == ITEM_RUNNING) {
        due_running(p, i);
        return;
    }
    line_remove(p, i);
    i->promoted = promoted_now(p, i);
    if (p->now_ms >= urgent_ms(p, i))
        i->urgent = true;
    line_add(p, i);
    item_timer(p, i);
}

/* What it is by patience, deadline and least run time, as the policy has them
 * now.
 */
void item_policy(struct plan *p, struct plan_item *i)
{
    bool could = i->room_slot > 0;

    room_running(p, i, false);
    if (i->state == ITEM_RUNNING)
        may_leave(p, i, could);
    if (item_waits(i)) {
        line_remove(p, i);
        i->promoted = promoted_now(p, i);
        i->urgent = p->now_ms >= urgent_ms(p, i);
        line_add(p, i);
    }
    item_timer(p, i);
}

/* Those due lie far apart, and so do their places and nodes. */
static void fetch_due(const struct plan *p)
{
    struct plan_item *list[TIMETABLE_DUE];
    uint32_t n = timetable_due(&p->timetable, p->now_ms, list);

    for (uint32_t k = 0; k < n; k++) {
        item_fetch(list[k]);
        __builtin_prefetch(&list[k]->queue);
    }
    for (uint32_t k = 0; k < n; k++)
        __builtin_prefetch(list[k]->places);
    for (uint32_t k = 0; k < n; k++)
        if (list[k]->places)
            node_fetch(list[k]->places->node);
    for (uint32_t k = 0; k < n; k++)
        if (list[k]->places)
            room_fetch(list[k]->places->node);
}

void items_tick(struct plan *p)
{
    const struct keyed_entry *e;
    uint32_t done = 0;

    while ((e = timetable_first(&p->timetable)) && e->key[0] <= p->now_ms) {
        if (done++ % TIMETABLE_DUE == 0)
            fetch_due(p);
        due(p, e->item);
    }
}

/* ---- in line ---- */

static void join(struct plan *p, struct plan_item *i, uint8_t level)
{
    i->state = i->places ? ITEM_SUSPENDED : i->stage ? ITEM_STAGED
                                                     : ITEM_WAITING;
    i->promoted = 0;
    i->urgent = false;
    i->stagings = 0;
    if (level)
        i->level = level - 1;
    else
        (void) item_level(p, i);
    item_timer(p, i);
    p->waiting++;
    if (i->shape->gpu_milli > 0)
        tenant_wants(p, i->tenant, 1);
    line_add(p, i);
}

static void leave_line(struct plan *p, struct plan_item *i)
{
    if (i->state == ITEM_STAGED)
        stage_drop(p, i);
    promise_drop(p, i);
    room_over(p, i);
    line_remove(p, i);
    timetable_set(p, i, UINT64_MAX);
    p->waiting--;
    if (i->shape->gpu_milli > 0)
        tenant_wants(p, i->tenant, -1);
}

static void leave_hold(struct plan *p, struct plan_item *i)
{
    stage_ready(p, i);
    if (i->stage)
        stage_drop(p, i);
}

struct plan_item *plan_add(struct plan *p, const struct plan_item_spec *spec)
{
    struct plan_item *i = slab_get(&p->slab);

    i->shape = shape_intern(p, spec);
    i->tenant = spec->tenant;
    i->tenant->items++;
    i->owner = spec->owner;
    i->priority = (int16_t) spec->priority;
    i->yield = (uint8_t) spec->yield;
    i->order = spec->order;
    i->ready_ms = i->since_ms = item_ms(spec->ready_ms);
    i->deadline_ms = item_ms(spec->deadline_ms);
    i->urgent_ms = item_ms(spec->urgent_ms);
    i->below_ms = item_ms(spec->below_ms);
    i->work = item_ms(spec->had_work);
    i->run_ms = item_ms(spec->had_ms);
    i->bytes = spec->bytes;
    i->sig = spec->sig;
    i->cold = spec->cold;
    p->items++;
    list_push(p->all, i);
    join(p, i, spec->level);
    return i;
}

void plan_hold(struct plan *p, struct plan_item *i, bool hold)
{
    if (hold && item_waits(i)) {
        leave_line(p, i);
        i->state = ITEM_HELD;
    } else if (!hold && i->state == ITEM_HELD) {
        i->since_ms = p->now_ms;
        if (i->near_ms > 0)
            i->ready_ms = p->now_ms;
        stage_ready(p, i);
        join(p, i, 0);
    }
}

void plan_reprioritise(struct plan *p, struct plan_item *i, int priority)
{
    if (i->priority == priority)
        return;
    if (i->state == ITEM_RUNNING)
        room_running(p, i, false);
    if (item_waits(i))
        line_remove(p, i);
    i->priority = (int16_t) priority;
    if (item_waits(i))
        line_add(p, i);
    promise_moved(p, i);
    if (i->state == ITEM_RUNNING) {
        room_running(p, i, true);
        line_chance(p, i);
    }
}

void plan_set_below(struct plan *p, struct plan_item *i, uint64_t below_ms)
{
    if (item_waits(i))
        line_remove(p, i);
    i->below_ms = item_ms(below_ms);
    if (item_waits(i))
        line_add(p, i);
}

void plan_progress(struct plan *p, struct plan_item *i, double progress)
{
    i->progress = (float) progress;
    if (i->state == ITEM_RUNNING && i->look_slot > 0)
        stage_running(p, i, true);     /* more is known of its end */
}

/* What one that leaves leaves behind is another question, too. */
void plan_set_yield(struct plan *p, struct plan_item *i, enum plan_yield yield)
{
    bool could = i->room_slot > 0;

    if (i->yield == yield)
        return;
    if (i->state == ITEM_RUNNING)
        room_running(p, i, false);
    i->yield = (uint8_t) yield;
    if (i->state == ITEM_RUNNING)
        may_leave(p, i, could);
    item_timer(p, i);
    if (item_runs(i))
        line_room(p, NULL);
}

enum plan_state plan_state(const struct plan_item *i)
{
    return i->state;
}

void *plan_owner(const struct plan_item *i)
{
    return i->owner;
}

uint32_t plan_places(const struct plan_item *i, const struct plan_place **ret)
{
    *ret = i->places;
    return i->nplaces;
}

/* ---- on its places, and off ---- */

/* Takes all places, or none. */
static int take_all(struct plan *p, const struct plan_item *i,
                    const struct plan_place *places, uint32_t n,
                    uint64_t gave, struct err *err)
{
    const struct shape *s = i->shape;
    uint32_t k = 0;

    while (k < n && places[k].part < s->nparts &&
           pool_has(p, &s->parts[places[k].part], &places[k], gave))
        pool_take(p, s, &places[k++]);
    if (k == n)
        return 0;
    err_set(err, EBUSY, "node %s: no room for rank %u", places[k].node->name,
            k);
    while (k > 0)
        pool_give(p, s, &places[--k]);
    return -EBUSY;
}

static void add_running(struct plan *p, struct plan_item *i)
{
    if (p->nrunning == p->running_cap) {
        p->running_cap = p->running_cap ? p->running_cap * 2 : 16;
        p->running = mem_grow(p->running, p->running_cap,
                              sizeof(struct plan_item *));
        p->level_ends = mem_grow(p->level_ends, p->running_cap,
                                 sizeof(*p->level_ends));
    }
    i->run_slot = p->nrunning;
    p->running[p->nrunning++] = i;
    for (uint32_t k = 0; k < i->nplaces; k++)
        pool_item_add(i->places[k].node, i);
}

static void remove_running(struct plan *p, struct plan_item *i)
{
    p->running[i->run_slot] = p->running[--p->nrunning];
    p->running[i->run_slot]->run_slot = i->run_slot;
    p->level_ends[i->run_slot] = p->level_ends[p->nrunning];
    for (uint32_t k = 0; k < i->nplaces; k++)
        pool_item_remove(i->places[k].node, i);
}

static void tie(struct plan_item *i)
{
    i->tied = false;
    for (uint32_t k = 0; k < i->nplaces; k++)
        i->tied |= !i->places[k].node->roams;
}

/* gave: memory on each of its nodes that it has already. */
static int start_on(struct plan *p, struct plan_item *i,
                    const struct plan_place *places, uint32_t n,
                    uint64_t gave, struct err *err)
{
    bool lacked = i->places && line_lacks_memory(p, i);
    struct plan_place *copy;
    uint64_t until;
    int rc;

    assert(!item_runs(i));
    if (i->places)
        item_park(p, i, false);
    rc = take_all(p, i, places, n, gave, err);
    if (rc < 0) {
        if (i->places)
            item_park(p, i, true);
        return rc;
    }
    copy = mem_dup(places, n * sizeof(*places));
    i->resumes = i->places;
    if (item_waits(i))
        leave_line(p, i);
    else
        leave_hold(p, i);
    item_restore(p, i);
    for (uint32_t k = 0; lacked && k < i->nplaces; k++)
        line_room(p, i->places[k].node);   /* its state is there no more */
    free(i->places);
    i->places = copy;
    i->nplaces = n;
    tie(i);
    i->state = ITEM_RUNNING;
    i->since_ms = p->now_ms;
    i->held_milli = places_milli(i->shape, copy, n);
    tenant_took(p, i->tenant, i->held_milli);
    line_tenant(p, i->tenant);
    add_running(p, i);
    until = item_level(p, i);
    timetable_set(p, i, running_changes_ms(p, i, until));
    room_running(p, i, true);
    stage_running(p, i, true);
    line_took(p, pool_left(i->places, i->nplaces));
    line_fills(p, i);
    return 0;
}

int plan_start(struct plan *p, struct plan_item *i,
               const struct plan_place *places, uint32_t n, struct err *err)
{
    return start_on(p, i, places, n, i->places ? i->bytes : 0, err);
}

int plan_runs(struct plan *p, struct plan_item *i,
              const struct plan_place *places, uint32_t n, struct err *err)
{
    return start_on(p, i, places, n, UINT64_MAX, err);
}

void plan_leaving(struct plan *p, struct plan_item *i,
                  struct plan_item *claimant)
{
    bool beside = pool_left(i->places, i->nplaces);

    if (i->state != ITEM_RUNNING)
        return;
    beside |= room_leaving(p, i, claimant);
    room_running(p, i, false);
    i->state = ITEM_LEAVING;
    for (uint32_t k = 0; k < i->nplaces; k++)
        i->places[k].node->leaving++;
    item_timer(p, i);
    stage_running(p, i, false);
    if (!i->claimant)                  /* with that, fewer have to give way */
        line_room(p, NULL);
    else                               /* which is kept for that one */
        line_took(p, beside);
}

/* Its work counts from here as if the rank had never been: so what is known
 * of it follows from what it holds and since when, also after a restart.
 */
void plan_gave(struct plan *p, struct plan_item *i, uint32_t place)
{
    struct plan_place at;
    uint64_t milli;

    assert(item_runs(i) && i->nplaces > 1 && place < i->nplaces);
    at = i->places[place];
    milli = i->shape->parts[at.part].need.gpu_milli;
    if (i->state == ITEM_RUNNING)
        room_running(p, i, false);
    room_gave(p, i, place);
    pool_item_remove(at.node, i);
    at.node->leaving -= i->state == ITEM_LEAVING;
    pool_give(p, i->shape, &at);
    memmove(&i->places[place], &i->places[place + 1],
            (i->nplaces - place - 1) * sizeof(*i->places));
    i->nplaces--;
    tie(i);
    i->held_milli -= milli;
    tenant_gave(p, i->tenant, milli);
    if (i->state == ITEM_RUNNING)
        may_leave(p, i, false);
    item_timer(p, i);
    stage_node(p, at.node);
    line_room(p, at.node);
    line_tenant(p, i->tenant);
}

/* Off its devices; the places are kept for who asks. */
static void release(struct plan *p, struct plan_item *i, bool counts)
{
    uint64_t ran = p->now_ms - i->since_ms;

    if (i->state == ITEM_RUNNING)
        room_running(p, i, false);
    if (counts)
        i->run_ms = plan_ran(p, i);
    i->work += i->held_milli * ran / 1000;
    remove_running(p, i);
    for (uint32_t k = 0; k < i->nplaces; k++) {
        i->places[k].node->leaving -= i->state == ITEM_LEAVING;
        pool_give(p, i->shape, &i->places[k]);
    }
    tenant_gave(p, i->tenant, i->held_milli);
    i->held_milli = 0;
    stage_running(p, i, false);
}

/* `claimant`: for whom it made the room, or NULL. */
static void say_room(struct plan *p, const struct plan_item *i,
                     const struct plan_item *claimant)
{
    for (uint32_t k = 0; k < i->nplaces; k++) {
        const struct plan_node *n = i->places[k].node;

        if ((k == 0 || n != i->places[k - 1].node) &&
            !(claimant && room_taken(p, claimant, n)))
            line_room(p, n);
    }
    line_tenant(p, i->tenant);
}

static void forget_places(struct plan_item *i)
{
    free(i->places);
    i->places = NULL;
    i->nplaces = 0;
}

void plan_left(struct plan *p, struct plan_item *i, bool suspended,
               uint64_t cost_ms)
{
    const struct plan_item *claimant = i->claimant;

    assert(item_runs(i));
    meter_suspending(p, i->held_milli * cost_ms);
    timetable_set(p, i, UINT64_MAX);
    room_gone(p, i);
    release(p, i, suspended || i->yield != YIELD_KILL);
    i->off_ms = (uint32_t) (cost_ms < UINT32_MAX ? cost_ms : UINT32_MAX);
    if (suspended)
        item_park(p, i, true);
    say_room(p, i, claimant);
    if (suspended)
        item_shrink(p, i);
    else
        forget_places(i);
    i->since_ms = p->now_ms;
    join(p, i, 0);
}

void plan_suspended(struct plan *p, struct plan_item *i,
                    const struct plan_place *places, uint32_t n,
                    uint64_t since_ms, uint64_t cost_ms)
{
    assert(i->state == ITEM_WAITING && n > 0);
    leave_line(p, i);
    i->places = mem_dup(places, n * sizeof(*places));
    i->nplaces = n;
    tie(i);
    i->off_ms = cost_ms;
    i->since_ms = since_ms;
    item_park(p, i, true);
    item_shrink(p, i);
    join(p, i, (uint8_t) (i->level + 1));
}

void plan_end(struct plan *p, struct plan_item *i, bool learn)
{
    mem_fetch(i, sizeof(*i));
    if (i->places)
        node_fetch(i->places->node);
    if (item_waits(i))
        leave_line(p, i);
    else if (i->state == ITEM_HELD)
        leave_hold(p, i);
    timetable_set(p, i, UINT64_MAX);
    if (item_runs(i)) {
        room_fetch(i->places->node);
        room_gone(p, i);
        room_over(p, i);
        release(p, i, true);
        say_room(p, i, NULL);
    } else if (i->places) {
        item_park(p, i, false);
        say_room(p, i, NULL);
    }
    if (learn)
        predict_learn(p->predict, &i->sig, i->run_ms, i->work, p->now_ms);
    i->tenant->items--;
    p->items--;
    list_unlink(p->all, i);
    item_restore(p, i);
    shape_put(p, i->shape);
    forget_places(i);
    slab_put(&p->slab, i);
}
