#include "core/world_int.h"

#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/quantity.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Rows back into a world.  A task without a row is as it was submitted.  What
 * can be worked out (counts, free shares, who waits for whom, timers, lines)
 * is not in the rows; world_loaded works it out.
 */
int bad_row(const char *key, const char *what, struct err *err)
{
    return err_set(err, EINVAL, "row '%s': %s", key, what);
}

static int get_name(const json_t *o, const char *field, unsigned count,
                    const char *(*name)(unsigned i), uint8_t *ret)
{
    const char *s = json_get_str(o, field, NULL);

    if (!s)
        return 0;
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(s, name(i)) == 0) {
            *ret = (uint8_t) i;
            return 0;
        }
    }
    return -EINVAL;
}

static const char *state_at(unsigned i)
{
    return task_state_name((enum task_state) i);
}

static const char *outcome_at(unsigned i)
{
    return outcome_name((enum outcome) i);
}

static const char *cause_at(unsigned i)
{
    return spec_cause_name((enum spec_cause) i);
}

static const char *lease_at(unsigned i)
{
    return lease_state_name((enum lease_state) i);
}

static int load_workload(struct world *w, const char *key, const json_t *body,
                         struct spec **spec, struct err *err)
{
    const json_t *hidden = json_object_get(body, "_");
    struct workload *wl;
    struct tenant *tn;
    uint64_t id, of = 0;

    if (quantity_count(key, &id, NULL) < 0 || id == 0 || id >= INT64_MAX)
        return bad_row(key, "it is not a workload's", err);
    if (!*spec)
        return bad_row(key, "a workload without its spec", err);
    if (world_workload(w, id))
        return bad_row(key, "a workload that is there twice", err);
    tn = tenant_find(w, json_get_str(body, "tenant", ""));
    if (!tn)
        return bad_row(key, "its tenant is unknown", err);
    if (json_get_str(body, "retry_of", NULL) &&
        workload_id_parse(json_get_str(body, "retry_of", ""), &of, err) < 0)
        return -EINVAL;
    wl = mem_new(sizeof(*wl));
    wl->id = id;
    wl->retry_of = of;
    wl->spec = take(*spec);
    wl->tenant = tn;
    wl->tenant_name = mem_str(tn->name);
    wl->who = mem_str(json_get_str(hidden, "who", ""));
    wl->key = mem_str(json_get_str(hidden, "key", NULL));
    wl->hash = mem_str(json_get_str(hidden, "hash", NULL));
    strncpy(wl->user.name, json_get_str(body, "user", ""),
            sizeof(wl->user.name) - 1);
    wl->user.uid = (uint32_t) json_get_u64(body, "uid", 0);
    wl->user.gid = (uint32_t) json_get_u64(hidden, "gid", 0);
    wl->priority = (int) json_integer_value(json_object_get(body, "priority"));
    wl->submitted_ms = json_get_u64(hidden, "submitted_ms", 0);
    wl->used_cost_micro = json_get_u64(hidden, "used_cost_micro", 0);
    wl->lost_gpu_ms = json_get_u64(hidden, "lost_gpu_ms", 0);
    wl->used_gpu_ms = json_get_u64(hidden, "used_gpu_ms", 0);
    wl->paused = json_get_bool(body, "paused", false);
    wl->aborting = json_get_bool(hidden, "aborting", false);
    wl->limited = json_get_bool(hidden, "limited", false);
    wl->force = json_get_bool(hidden, "force", false);
    wl->quarantined = json_get_bool(hidden, "quarantined", false);
    wl->gen_floor = (uint32_t) json_get_u64(hidden, "gen_floor", 0);
    wl->given = true;
    graph_make(wl);
    map_set_id(w->workloads, id, wl);
    if (guesses_load(wl, json_object_get(hidden, "guesses")) < 0)
        return bad_row(key, "its guesses are none", err);
    return 0;
}

/* "12/3" */
static int find_task(const struct world *w, const char *key, struct task **ret,
                     struct err *err)
{
    const char *slash = strchr(key, '/');
    autofree char *id = NULL;
    struct workload *wl;
    uint64_t number, index;

    if (!slash)
        return bad_row(key, "it is not a task's", err);
    id = mem_strn(key, (size_t) (slash - key));
    if (quantity_count(id, &number, NULL) < 0 ||
        quantity_count(slash + 1, &index, NULL) < 0)
        return bad_row(key, "it is not a task's", err);
    wl = world_workload(w, number);
    if (!wl || index >= wl->spec->ntasks)
        return bad_row(key, "its workload is unknown or has no such task", err);
    *ret = &wl->tasks[index];
    return 0;
}

int grant_load(const json_t *j, struct grant *g)
{
    const json_t *devices = json_object_get(j, "devices");

    if (json_array_size(devices) > array_size(g->device))
        return -EINVAL;
    for (size_t i = 0; i < json_array_size(devices); i++) {
        json_int_t n = json_integer_value(json_array_get(devices, i));

        if (n < 0 || n > UINT16_MAX)
            return -EINVAL;
        g->device[g->ndevices++] = (uint16_t) n;
    }
    return 0;
}

static int load_lease(struct world *w, struct task *t, uint32_t rank,
                      const json_t *j, const json_t *hidden, struct err *err)
{
    struct block *b = world_block(w, json_get_str(j, "block", ""));
    struct grant g = { .rank = rank };
    struct lease *l = &t->leases[rank];
    uint8_t state = LEASE_STATE_COUNT;
    int rc;

    if (!b || grant_load(j, &g) < 0 ||
        get_name(j, "state", LEASE_STATE_COUNT, lease_at, &state) < 0 ||
        state == LEASE_STATE_COUNT)
        return err_set(err, EINVAL, "rank %u: its block or state is unknown",
                       rank);
    l->off = json_integer_value(json_array_get(hidden, 5)) != 0;
    if (!t->away && state != LEASE_ENDED &&
        (l->off || state == LEASE_SUSPENDING || state == LEASE_SUSPENDED ||
         state == LEASE_RESUMING))
        return err_set(err, EINVAL, "rank %u: how it is suspended is not said",
                       rank);
    memcpy(g.block, b->id, sizeof(g.block));
    if (g.ndevices)
        g.milli = t->spec->gpu_milli < 1000 ? t->spec->gpu_milli : 1000;
    l->task = t;
    l->block = b;
    l->rank = rank;
    l->grant = g;
    l->price_micro = (uint64_t) json_integer_value(json_array_get(hidden, 3));
    l->from_ms = (uint64_t) json_integer_value(json_array_get(hidden, 4));
    if (state != LEASE_ENDED) {
        rc = l->off ? 0 : room_check(b, t->spec, &g, err);
        if (rc < 0)
            return rc;
        lease_open(w, t, rank, b, &g);
        t->unclaimed += state == LEASE_PLANNED;
    }
    l->state = (enum lease_state) state;
    l->planned_ms = (uint64_t) json_integer_value(json_array_get(hidden, 0));
    l->claimed_ms = (uint64_t) json_integer_value(json_array_get(hidden, 1));
    l->gen = (uint32_t) json_integer_value(json_array_get(hidden, 2));
    return 0;
}

static void load_ranked(struct lease *l, const json_t *row)
{
    json_int_t until = json_integer_value(json_array_get(row, 1));

    if (!row)
        return;
    l->ranked = true;
    l->run_level = (uint8_t) json_integer_value(json_array_get(row, 0));
    l->run_until = until == INT64_MAX ? UINT64_MAX : (uint64_t) until;
}

static int load_leases(struct world *w, struct task *t, const json_t *body,
                       const json_t *hidden, struct err *err)
{
    const json_t *shown = json_object_get(body, "leases");
    const json_t *more = json_object_get(hidden, "leases");
    int rc = 0;

    if (json_array_size(shown) == 0)
        return 0;
    if (json_array_size(shown) != t->ranks || t->ranks < t->spec->ranks ||
        t->ranks > SPEC_MAX_RANKS || json_array_size(more) != t->ranks ||
        t->leases)
        return err_set(err, EINVAL, "it has not one lease for each rank");
    t->leases = mem_array(t->ranks, sizeof(*t->leases));
    for (uint32_t i = 0; i < t->ranks && rc == 0; i++)
        rc = load_lease(w, t, i, json_array_get(shown, i),
                        json_array_get(more, i), err);
    load_ranked(t->leases, json_object_get(hidden, "ranked"));
    return rc;
}

static int load_task(struct world *w, const char *key, const json_t *body,
                     struct err *err)
{
    const json_t *hidden = json_object_get(body, "_");
    struct task *t = NULL;
    int rc = find_task(w, key, &t, err);

    if (rc < 0)
        return rc;
    if (get_name(body, "state", TASK_STATE_COUNT, state_at, &t->state) < 0 ||
        get_name(body, "outcome", OUTCOME_COUNT, outcome_at, &t->outcome) < 0 ||
        get_name(body, "cause", SPEC_CAUSE_COUNT, cause_at, &t->cause) < 0 ||
        get_name(hidden, "stop_cause", SPEC_CAUSE_COUNT, cause_at,
                 &t->stop_cause) < 0)
        return bad_row(key, "a state, outcome or cause is unknown", err);
    t->gen = (uint32_t) json_get_u64(body, "attempt", 0);
    t->tries = (uint32_t) json_get_u64(body, "tries", 0);
    task_set_reason(t, json_get_str(body, "reason", NULL));
    t->status = (int) json_integer_value(json_object_get(hidden, "status"));
    t->since_ms = json_get_u64(hidden, "since_ms", 0);
    t->ready_ms = json_get_u64(hidden, "ready_ms", 0);
    t->not_before_ms = json_get_u64(hidden, "not_before_ms", 0);
    t->started_ms = json_get_u64(hidden, "started_ms", 0);
    t->ended_ms = json_get_u64(hidden, "ended_ms", 0);
    t->attempt_ms = json_get_u64(hidden, "attempt_ms", 0);
    t->used_wall_ms = json_get_u64(hidden, "used_wall_ms", 0);
    t->used_gpu_ms = json_get_u64(hidden, "used_gpu_ms", 0);
    t->used_cost_micro = json_get_u64(hidden, "used_cost_micro", 0);
    t->lost_gpu_ms = json_get_u64(hidden, "lost_gpu_ms", 0);
    t->attempt_gpu_ms = json_get_u64(hidden, "attempt_gpu_ms", 0);
    t->level = (uint8_t) json_get_u64(hidden, "level", 0);
    t->for_workload = json_get_u64(hidden, "for_workload", 0);
    t->for_task = (uint32_t) json_get_u64(hidden, "for_task", 0);
    if (json_get_bool(hidden, "preempting", false))
        t->preempting = json_get_bool(hidden, "by_suspend", false)
                      ? PREEMPT_SUSPEND : PREEMPT_STOP;
    t->placed_ms = json_get_u64(hidden, "placed_ms", 0);
    t->score = (float) json_get_number(body, "score");
    t->paused = json_get_bool(body, "paused", false);
    t->own_priority = json_object_get(body, "priority") != NULL;
    t->priority = (int16_t) json_integer_value(json_object_get(body,
                                                               "priority"));
    if (t->gen > 0)
        t->ranks = (uint32_t) json_get_u64(body, "ranks", 0);
    if (progress_load(t, json_object_get(body, "progress")) < 0)
        return bad_row(key, "its progress is none", err);
    t->gens_staged = (uint32_t) json_get_u64(hidden, "gens_staged", 0);
    if (!port_load(w, t, json_get_u64(hidden, "port", 0)))
        return bad_row(key, "its port is another's, or none of ours", err);
    if (stage_load(w, t, json_object_get(body, "staged"),
                   json_object_get(hidden, "staged")) < 0)
        return bad_row(key, "where it is staged is nowhere", err);
    if (away_load(t, json_object_get(body, "suspend"),
                  json_object_get(hidden, "away")) < 0)
        return bad_row(key, "how it is suspended is not said", err);
    t->losses = (uint16_t) json_get_u64(hidden, "losses", 0);
    t->stopping = json_get_bool(hidden, "stopping", false);
    t->aborting = json_get_bool(hidden, "aborting", false);
    t->force = json_get_bool(hidden, "force", false);
    t->forced = json_get_bool(hidden, "forced", false);
    t->timer.due_ms = json_get_u64(hidden, "alarm_ms", 0);
    rc = load_leases(w, t, body, hidden, err);
    return rc < 0 ? err_prefix(err, rc, "row '%s'", key) : 0;
}

int world_load(struct world *w, enum world_table table, const char *key,
               const json_t *body, struct spec *spec, struct err *err)
{
    int rc = -EINVAL;

    if (!json_is_object(body)) {
        rc = bad_row(key, "it is no object", err);
        spec_free(spec);
        return rc;
    }
    switch (table) {
    case TABLE_WORKLOAD:
        rc = load_workload(w, key, body, &spec, err);
        break;
    case TABLE_TASK:
        rc = load_task(w, key, body, err);
        break;
    case TABLE_BLOCK:
        rc = load_block(w, key, body, err);
        break;
    case TABLE_TENANT:
        rc = load_tenant(w, key, body, err);
        break;
    case TABLE_TOKEN:
        rc = load_token(w, key, body, err);
        break;
    case TABLE_META:
        rc = load_meta(w, key, body, err);
        break;
    case TABLE_COUNT:
        break;
    }
    spec_free(spec);                   /* NULL when it found its workload */
    return rc;
}

static void count_held(struct workload *wl, const struct task *t)
{
    if (t->started_ms && (!wl->started_ms || t->started_ms < wl->started_ms))
        wl->started_ms = t->started_ms;
    for (uint32_t i = 0; t->leases && i < t->ranks; i++)
        if (t->leases[i].claimed_ms && t->leases[i].state != LEASE_ENDED &&
            !t->leases[i].off)
            limit_hold(wl, &t->leases[i]);
}

/* Counts first, over all tasks: lines and unblocking look at others. */
static void count_workload(struct workload *wl)
{
    memset(wl->count, 0, sizeof(wl->count));
    memset(wl->outcomes, 0, sizeof(wl->outcomes));
    for (uint32_t i = 0; i < wl->graph->nsets; i++)
        wl->graph->sets[i].blocked = wl->graph->sets[i].waiting = 0;
    for (uint32_t i = 0; i < wl->spec->ntasks; i++) {
        struct task *t = &wl->tasks[i];
        struct set *set = graph_set(wl, t);

        wl->count[t->state]++;
        if (t->state == TASK_ENDED)
            wl->outcomes[t->outcome]++;
        wl->started = wl->started || t->gen > 0;
        count_held(wl, t);
        if (set) {
            set->blocked += t->state == TASK_BLOCKED;
            set->waiting += t->state == TASK_WAITING;
        }
        t->needs_left = 0;
        for (uint32_t k = 0; k < t->spec->nneeds; k++)
            t->needs_left +=
                wl->tasks[t->spec->needs[k]].state != TASK_ENDED;
    }
}

static void wake_workload(struct world *w, struct workload *wl)
{
    workload_keyed(w, wl);
    wl->tenant->live++;
    workload_timer(w, wl);
    for (uint32_t i = 0; i < wl->spec->ntasks; i++) {
        struct task *t = &wl->tasks[i];

        task_timer(w, t);
        item_task(w, t);
        if (t->state != TASK_ENDED && t->state != TASK_WAITING)
            todo_add(w, t);
        else if (t->state == TASK_WAITING && t->aborting)
            todo_add(w, t);
    }
    if (wl->aborting)
        aborts_add(w, wl);
    if (wl->count[TASK_ENDED] == wl->spec->ntasks)
        heap_add(&w->ends, wl);
}

/* ---- the plan ---- */

static int by_placed(const void *a, const void *b)
{
    const struct task *x = *(struct task *const *) a;
    const struct task *y = *(struct task *const *) b;

    if (x->placed_ms != y->placed_ms)
        return x->placed_ms < y->placed_ms ? -1 : 1;
    if (x->workload->id != y->workload->id)
        return x->workload->id < y->workload->id ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Tasks with leases, by the time from which the plan counts them. */
static struct task **placed_tasks(const struct world *w, size_t *ret_n)
{
    struct task **list = NULL;
    struct workload *wl;
    size_t pos = 0, n = 0, cap = 0;

    while ((wl = map_next(w->workloads, &pos, NULL))) {
        for (uint32_t i = 0; i < wl->spec->ntasks; i++) {
            if (wl->tasks[i].leases_left == 0)
                continue;
            if (n == cap) {
                cap = cap ? 2 * cap : 64;
                list = mem_grow(list, cap, sizeof(*list));
            }
            list[n++] = &wl->tasks[i];
        }
    }
    if (n > 0)
        qsort(list, n, sizeof(*list), by_placed);
    *ret_n = n;
    return list;
}

/* Who stands ready; only those in line do. */
static int load_staged(struct world *w, struct err *err)
{
    struct workload *wl;
    size_t pos = 0;
    int rc = 0;

    while (rc == 0 && (wl = map_next(w->workloads, &pos, NULL)))
        for (uint32_t i = 0; i < wl->spec->ntasks && rc == 0; i++) {
            const struct task *t = &wl->tasks[i];

            if (t->staged && !t->item)
                rc = err_set(err, EINVAL, "w%" PRIu64 ", task '%s': it is "
                             "staged and not in line", wl->id, t->spec->name);
            else if (t->staged)
                rc = task_tell_staged(w, t, err);
        }
    return rc;
}

static void tell_at(struct world *w, struct task *t, uint64_t last_ms)
{
    if (away_off(t))
        return;
    bridge_time(w, t->placed_ms < last_ms ? t->placed_ms : last_ms);
    item_told(w, t);
}

/* Levels as they were kept are told last: what else a level was since then
 * follows from what is known.
 */
static void tell_placed(struct world *w, struct task *const *placed, size_t n,
                        uint64_t last_ms)
{
    for (size_t i = 0; i < n; i++)
        tell_at(w, placed[i], last_ms);
    bridge_time(w, last_ms);
    levels_load(w, placed, n);
}

/* Attempts go back on their places at the times at which they got them; the
 * line forms at the last moment that is known; and only then is it said what is
 * promised, and who leaves for whom.  What was summed up on the way is
 * overwritten by the rows.
 */
static int load_plan(struct world *w, uint64_t last_ms, struct err *err)
{
    size_t n, pos = 0;
    autofree struct task **placed = placed_tasks(w, &n);
    struct workload *wl;
    int rc = load_tenants_done(w, err);

    if (rc < 0)
        return rc;
    load_pools_done(w);
    tell_placed(w, placed, n, last_ms);
    for (size_t i = 0; i < n; i++)
        item_loaded(w, placed[i]);
    while ((wl = map_next(w->workloads, &pos, NULL)))
        wake_workload(w, wl);
    sets_sync(w);
    rc = load_windows_done(w, err);    /* first: they end claims */
    if (rc == 0)
        rc = load_promises_done(w, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        if (placed[i]->stopping || placed[i]->preempting ||
            away_leaves(placed[i]))
            item_leaves(w, placed[i]);
    rc = load_staged(w, err);
    if (rc < 0)
        return rc;
    load_meter_done(w);
    if (w->nbudgets > 0)
        budgets_look(w);
    return 0;
}

int world_loaded(struct world *w, uint64_t last_seq, uint64_t last_ms,
                 struct err *err)
{
    struct workload *wl;
    size_t pos = 0;
    int rc;

    world_tables_sort(w);
    w->seq = last_seq;
    w->time_ms = last_ms;
    while ((wl = map_next(w->workloads, &pos, NULL))) {
        count_workload(wl);
        if (wl->id >= w->next_workload)
            return err_set(err, EINVAL, "w%" PRIu64 " is newer than the "
                           "newest id given", wl->id);
    }
    rc = load_plan(w, last_ms, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < w->nblocks; i++)
        w->blocks[i]->dirty = false;
    pos = 0;
    for (struct tenant *t; (t = map_next(w->tenants, &pos, NULL));)
        t->dirty = false;
    return world_verify(w, err);
}
