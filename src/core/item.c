#include "core/world_int.h"

#include "base/json.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <signal.h>
#include <string.h>

/* Tasks and the plan's items.
 *
 * A task in line has an item of its own, or its set has one for all members
 * that wait.  An attempt has an item from task.planned to the end of its last
 * lease; a task that is tried again gets a new one.  So an item follows from
 * the task's own state: a world that was loaded makes the same ones.
 */
struct parts {
    struct plan_part *parts;
    const char ***labels;              /* of each part; owned */
    uint32_t n;
};

static const char **label_texts(const struct spec_task *s, uint32_t *ret_n)
{
    const char **texts = mem_array(s->nnodes + 3u, sizeof(*texts));
    uint32_t n = 0;

    for (; n < s->nnodes; n++)
        texts[n] = mem_printf("%s=%s", s->nodes[n].key, s->nodes[n].value);
    if (s->image)
        texts[n++] = mem_str(LABEL_IMAGES);
    if (spec_task_shares(s))
        texts[n++] = mem_str(LABEL_SHARES);
    *ret_n = n;
    return texts;
}

static void part_add(struct parts *all, const struct spec_task *s,
                     uint32_t least, uint32_t most)
{
    uint32_t nlabels;
    const char **labels = label_texts(s, &nlabels);

    all->labels[all->n] = labels;
    all->parts[all->n++] = (struct plan_part) {
        .need = {
            .gpu_milli = s->gpu_milli, .cpu_milli = s->cpu_milli,
            .memory = s->memory, .gpu_memory = s->gpu_memory,
            .models = s->models, .nmodels = s->nmodels,
            .labels = labels, .nlabels = nlabels,
        },
        .count = least, .max = most,
    };
}

static void parts_init(struct parts *all, uint32_t n)
{
    all->parts = mem_array(n, sizeof(*all->parts));
    all->labels = mem_array(n, sizeof(*all->labels));
    all->n = 0;
}

static void parts_free(struct parts *all)
{
    for (uint32_t i = 0; i < all->n; i++) {
        for (uint32_t k = 0; all->labels[i][k]; k++)
            free((void *) (uintptr_t) all->labels[i][k]);
        free(all->labels[i]);
    }
    free(all->labels);
    free(all->parts);
}

static int task_priority(const struct task *t)
{
    if (t->own_priority)
        return t->priority;
    return t->away && t->away->urgent ? t->away->priority
                                      : t->workload->priority;
}

bool task_has_contract(const struct task *t)
{
    return t->spec->stop_command || t->spec->stop_signal != SIGTERM;
}

/* Who has said how to save its work keeps it; a set would be torn apart. */
static enum plan_yield contract_of(const struct task *t)
{
    if (t->spec->together)
        return YIELD_NEVER;
    return task_has_contract(t) ? YIELD_CHECKPOINT : YIELD_KILL;
}

/* Who was asked in vain to leave with all it has is not asked so again, but by
 * an operator.  Who is on the way, or could not come back, does leave so.
 */
static enum plan_yield yield_of(const struct task *t)
{
    bool kept = t->away && t->away->kept > 0 && !away_off(t) &&
                !away_leaves(t) && !away_under_way(t);

    return task_suspends(t) && !kept ? YIELD_SUSPEND : contract_of(t);
}

static enum plan_near near_of(const struct spec_task *s)
{
    static const enum plan_near nears[] = {
        [SPEC_NEAR_ANY] = NEAR_ANY, [SPEC_NEAR_DOMAIN] = NEAR_DOMAIN,
        [SPEC_NEAR_NODE] = NEAR_NODE,
    };

    return nears[s->near];
}

static uint64_t ready_ms(const struct task *t)
{
    return t->not_before_ms > t->since_ms ? t->not_before_ms : t->since_ms;
}

/* What a task's item says, but for its parts. */
static void item_of_task(const struct world *w, const struct task *t,
                         struct plan_item_spec *ret)
{
    *ret = (struct plan_item_spec) {
        .tenant = t->workload->tenant->plan_tenant,
        .priority = task_priority(t),
        .near = near_of(t->spec),
        .yield = yield_of(t),
        .ready_ms = ready_ms(t),
        .order = t->workload->id << 17 | t->index,
        .deadline_ms = t->workload->spec->deadline_ms,
        .urgent_ms = task_urgent_ms(w, t),
        .below_ms = t->below_ms,
        .level = (uint8_t) (t->level + 1),
        .had_work = t->used_gpu_ms - t->attempt_gpu_ms,
        .had_ms = contract_of(t) == YIELD_CHECKPOINT
                ? t->used_wall_ms - task_earlier_ms(t) : 0,
        .bytes = t->away ? t->away->bytes : 0,
        .owner = (void *) (uintptr_t) t,
    };
    task_sig(t, &ret->sig);
}

static struct plan_item *make_one(struct world *w, const struct task *t,
                                  uint32_t least, uint32_t most,
                                  struct plan_item_spec *spec)
{
    struct plan_item *item;
    struct parts all;

    parts_init(&all, 1);
    part_add(&all, t->spec, least, most);
    spec->parts = all.parts;
    spec->nparts = all.n;
    item = plan_add(w->plan, spec);
    parts_free(&all);
    return item;
}

/* ---- in line ---- */

bool task_wants(const struct task *t)
{
    const struct workload *wl = t->workload;

    return (t->state == TASK_WAITING ||
            (t->state == TASK_SUSPENDED && !t->away->held &&
             !t->away->idle)) &&
           !t->timer.asleep && !t->aborting && !t->paused && !wl->paused &&
           !wl->quarantined;
}

static void set_in_line(struct world *w, struct task *t, bool in)
{
    struct set *set = graph_set(t->workload, t);

    if (t->in_line == in)
        return;
    if (!in)
        task_unstage(w, t);
    t->in_line = in;
    w->waiting += in ? 1 : UINT32_MAX;
    if (set)
        set->in_line += in ? 1 : UINT32_MAX;
}

/* Out of line its state stays in memory; back in line it is as a world that is
 * loaded then has it.
 */
static void hold_suspended(struct world *w, struct task *t)
{
    if (!t->in_line) {
        plan_hold(w->plan, t->item, true);
        return;
    }
    plan_end(w->plan, take(t->item), false);
    item_suspended(w, t);
}

void item_task(struct world *w, struct task *t)
{
    struct set *set = graph_set(t->workload, t);
    bool wants = task_wants(t);
    struct plan_item_spec spec;

    if (wants == t->in_line)
        return;
    set_in_line(w, t, wants);
    if (set) {
        set_changed(w, set);
    } else if (t->state == TASK_SUSPENDED) {
        hold_suspended(w, t);
    } else if (wants) {
        item_of_task(w, t, &spec);
        t->item = make_one(w, t, t->spec->ranks, t->spec->ranks_max, &spec);
    } else {
        plan_end(w->plan, take(t->item), false);
    }
}

void item_changed(struct world *w, struct task *t)
{
    struct set *set = graph_set(t->workload, t);

    if (t->item)
        plan_reprioritise(w->plan, t->item, task_priority(t));
    else if (set)
        set_changed(w, set);
}

/* ---- sets ---- */

void set_changed(struct world *w, struct set *s)
{
    if (s->dirty)
        return;
    s->dirty = true;
    s->dirty_next = w->dirty_sets;
    w->dirty_sets = s;
}

/* None of its members is still blocked and all that wait are in line.  Members
 * that run or have ended no longer count: one that is tried again starts alone.
 */
static bool set_ready(const struct set *s)
{
    return s->in_line > 0 && s->blocked == 0 && s->waiting == s->in_line;
}

static void set_item(struct world *w, struct set *s)
{
    const uint32_t *members = s->workload->graph->members + s->first;
    struct plan_item_spec spec = { 0 }, one;
    struct parts all;

    parts_init(&all, s->count);
    for (uint32_t i = 0; i < s->count; i++) {
        struct task *t = &s->workload->tasks[members[i]];

        if (!t->in_line)
            continue;
        item_of_task(w, t, &one);
        if (all.n == 0)
            spec = one;
        spec.priority = one.priority > spec.priority ? one.priority
                                                     : spec.priority;
        spec.ready_ms = one.ready_ms > spec.ready_ms ? one.ready_ms
                                                     : spec.ready_ms;
        spec.below_ms = one.below_ms > spec.below_ms ? one.below_ms
                                                     : spec.below_ms;
        spec.near = one.near > spec.near ? one.near : spec.near;
        part_add(&all, t->spec, t->spec->ranks, t->spec->ranks);
    }
    spec.parts = all.parts;
    spec.nparts = all.n;
    spec.cold = true;                  /* no one task stands for it */
    s->item = plan_add(w->plan, &spec);
    parts_free(&all);
}

void sets_sync(struct world *w)
{
    struct set *s;

    while ((s = w->dirty_sets)) {
        w->dirty_sets = s->dirty_next;
        s->dirty = false;
        if (s->item)
            plan_end(w->plan, take(s->item), false);
        if (set_ready(s))
            set_item(w, s);
    }
}

struct plan_item *task_item(const struct task *t)
{
    const struct set *set = graph_set(t->workload, t);

    if (t->item || !set || !t->in_line)
        return t->item;
    return set->item;
}

/* ---- attempts ---- */

/* The plan counts what they use anew. */
void usage_counted(const struct task *t)
{
    for (struct tenant *tn = t->workload->tenant; tn; tn = tn->parent)
        tn->dirty = true;
}

/* Places in order of rank, of those that have not ended. */
static struct plan_place *places_of(const struct task *t, uint32_t *ret_n)
{
    struct plan_place *places = mem_array(t->ranks, sizeof(*places));
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->ranks; i++) {
        const struct lease *l = &t->leases[i];

        if (l->state == LEASE_ENDED)
            continue;
        places[n].node = l->block->plan_node;
        places[n].ndevices = l->grant.ndevices;
        memcpy(places[n].device, l->grant.device, sizeof(places[n].device));
        n++;
    }
    *ret_n = n;
    return places;
}

/* What ran before the plan began to count is told as had. */
static void spec_of_attempt(const struct world *w, const struct task *t,
                            struct plan_item_spec *ret)
{
    uint64_t planned = t->leases[0].planned_ms;
    uint64_t ran = t->placed_ms > planned ? t->placed_ms - planned : 0;

    item_of_task(w, t, ret);
    if (t->away && t->away->counted) {
        ret->had_ms = t->away->ran_ms;
        ret->had_work = t->away->ran_work;
        return;
    }
    ret->had_ms += ran;
    ret->had_work += share_of(ran, (uint64_t) t->spec->gpu_milli * t->ranks);
}

void item_suspended(struct world *w, struct task *t)
{
    const struct task_away *a = t->away;
    autofree struct plan_place *places = NULL;
    struct plan_item_spec spec;
    uint64_t since = a->since_ms > t->not_before_ms ? a->since_ms
                                                    : t->not_before_ms;
    uint32_t n;

    places = places_of(t, &n);
    spec_of_attempt(w, t, &spec);
    spec.ready_ms = t->ready_ms;
    spec.level = (uint8_t) (a->level + 1);
    t->item = make_one(w, t, t->ranks, t->ranks, &spec);
    plan_suspended(w->plan, t->item, places, n, since, a->off_ms);
}

static void start_at(struct world *w, struct task *t,
                     const struct plan_place *places, uint32_t n, bool anew)
{
    int rc = anew ? plan_runs(w->plan, t->item, places, n, NULL)
                  : plan_start(w->plan, t->item, places, n, NULL);

    assert(rc == 0);                   /* check.c has looked */
    (void) rc;
    usage_counted(t);
}

static void put_on(struct world *w, struct task *t, bool anew)
{
    autofree struct plan_place *places = NULL;
    struct set *set = graph_set(t->workload, t);
    struct plan_item_spec spec;
    uint32_t n;

    places = places_of(t, &n);
    set_in_line(w, t, false);
    if (set)
        set_changed(w, set);
    if (t->item)
        plan_end(w->plan, take(t->item), false);
    spec_of_attempt(w, t, &spec);
    t->item = make_one(w, t, t->ranks, t->ranks, &spec);
    if (away_resumes(t))               /* what that takes is learned */
        plan_suspended(w->plan, t->item, places, n, plan_now(w->plan),
                       t->away->off_ms);
    start_at(w, t, places, n, anew);
    if (t->progress && t->progress->value >= 0)
        plan_progress(w->plan, t->item, t->progress->value);
}

void item_placed(struct task *t, uint64_t now_ms)
{
    t->placed_ms = now_ms;
    if (t->leases)
        t->leases[0].ranked = false;
}

void item_start(struct world *w, struct task *t)
{
    put_on(w, t, false);
}

void item_told(struct world *w, struct task *t)
{
    put_on(w, t, true);
}

static struct plan_item *claimant(const struct world *w, const struct task *t)
{
    const struct workload *wl = t->for_workload
                              ? world_workload(w, t->for_workload) : NULL;

    if (!t->preempting || !wl || t->for_task >= wl->spec->ntasks ||
        !wl->tasks[t->for_task].in_line)
        return NULL;
    return task_item(&wl->tasks[t->for_task]);
}

void item_leaving(struct world *w, struct task *t)
{
    if (!t->item || plan_state(t->item) != ITEM_RUNNING)
        return;
    sets_sync(w);
    plan_leaving(w->plan, t->item, claimant(w, t));
}

/* For nobody, where the room is not promised any more. */
void item_leaves(struct world *w, struct task *t)
{
    struct plan_item *i = claimant(w, t);

    if (!t->item || plan_state(t->item) != ITEM_RUNNING)
        return;
    plan_leaving(w->plan, t->item,
                 i && plan_counts_on(w->plan, i, t->item) ? i : NULL);
}

/* ---- levels of those that run ---- */

/* What was kept of one that may not be asked to leave any more is over. */
static void level_drop(struct world *w, struct task *t)
{
    struct lease *l = t->leases;

    if (!l || !l->ranked || plan_level_until(w->plan, t->item) > 0)
        return;
    l->ranked = false;
    task_dirty(w, t);
}

void item_yields(struct world *w, struct task *t)
{
    if (!t->item)
        return;
    plan_set_yield(w->plan, t->item, yield_of(t));
    level_drop(w, t);
}

static void level_keep(struct world *w, struct task *t)
{
    uint8_t level = plan_level(t->item);
    uint64_t until = plan_level_until(w->plan, t->item);
    struct lease *l = t->leases;

    level_drop(w, t);
    if (until == 0 ||
        (l->ranked && l->run_level == level && l->run_until == until))
        return;
    l->ranked = true;
    l->run_level = level;
    l->run_until = until;
    task_dirty(w, t);
}

/* A level is worked out from what is known then, and stays while more is
 * learned.  So when levels become others, what those have who run is kept; all
 * that was worked out since follows from what is known now.
 */
static void levels_keep(struct world *w)
{
    struct plan_item *i;

    for (uint32_t k = 0; (i = plan_running(w->plan, k)); k++)
        level_keep(w, plan_owner(i));
}

void levels_policy(struct world *w)
{
    struct plan_item *i;

    for (uint32_t k = 0; (i = plan_running(w->plan, k)); k++)
        level_drop(w, plan_owner(i));
}

void levels_load(struct world *w, struct task *const *tasks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct lease *l = tasks[i]->leases;

        if (l->ranked && tasks[i]->item)
            plan_level_load(w->plan, tasks[i]->item, l->run_level,
                            l->run_until);
    }
}

/* Called before the lease counts as ended.  Its level is of now. */
void item_gave(struct world *w, struct task *t, uint32_t rank)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < rank; i++)
        at += t->leases[i].state != LEASE_ENDED;
    plan_gave(w->plan, t->item, at);
    t->leases[0].ranked = false;
    usage_counted(t);
}

void item_keep(const struct world *w, struct task *t)
{
    if (!t->away || away_off(t))
        return;
    t->away->ran_ms = plan_ran(w->plan, t->item);
    t->away->ran_work = plan_work(w->plan, t->item);
    t->away->counted = true;
}

void item_again(struct world *w, struct task *t)
{
    item_keep(w, t);
    item_placed(t, w->time_ms);
    item_told(w, t);
}

void item_left(struct world *w, struct task *t)
{
    struct task_away *a = t->away;

    plan_set_bytes(t->item, a->bytes);
    plan_left(w->plan, t->item, true, a->moved_ms);
    a->ran_ms = plan_ran(w->plan, t->item);
    a->ran_work = plan_work(w->plan, t->item);
    a->level = plan_level(t->item);
    a->counted = true;
    plan_end(w->plan, take(t->item), false);
    usage_counted(t);
    item_suspended(w, t);
    set_in_line(w, t, true);
}

void item_loaded(struct world *w, struct task *t)
{
    if (!away_off(t))
        return;
    away_loaded(t);
    item_suspended(w, t);
    if (t->state == TASK_SUSPENDED)
        set_in_line(w, t, true);
    else                               /* stopped since */
        plan_hold(w->plan, t->item, true);
}

void item_back(struct world *w, struct task *t)
{
    uint32_t n;
    autofree struct plan_place *places = places_of(t, &n);

    set_in_line(w, t, false);
    start_at(w, t, places, n, false);
}

void item_fewer(struct world *w, struct task *t)
{
    plan_end(w->plan, take(t->item), false);
    item_suspended(w, t);
    if (!t->in_line)
        plan_hold(w->plan, t->item, true);
}

/* Its state stays in memory until its ranks have ended. */
void item_stranded(struct world *w, struct task *t)
{
    set_in_line(w, t, false);
    plan_hold(w->plan, t->item, true);
}

void item_over(struct world *w, struct task *t, bool learn)
{
    const struct predict *known = plan_predict(w->plan);
    uint64_t ranked = predict_ranked(known);

    plan_end(w->plan, take(t->item), learn);
    if (predict_ranked(known) != ranked)
        levels_keep(w);
    usage_counted(t);
}

/* ---- decisions ---- */

void pending_clear(struct world *w)
{
    for (uint32_t i = 0; i < w->npending; i++)
        free(w->pending[i].grants);
    free(w->pending);
    w->pending = NULL;
    w->npending = w->next_pending = 0;
}

void item_grants(const struct plan_decision *d, uint32_t part,
                 const struct spec_task *s, struct pending *ret)
{
    ret->grants = mem_array(d->nplaces, sizeof(*ret->grants));
    ret->ngrants = 0;
    for (uint32_t i = 0; i < d->nplaces; i++) {
        const struct plan_place *at = &d->places[i];
        const struct block *b;
        struct grant *g;

        if (at->part != part)
            continue;
        b = plan_node_owner(at->node);
        g = &ret->grants[ret->ngrants];
        g->rank = ret->ngrants++;
        memcpy(g->block, b->id, sizeof(g->block));
        g->ndevices = at->ndevices;
        memcpy(g->device, at->device, sizeof(g->device));
        if (at->ndevices)
            g->milli = s->gpu_milli < 1000 ? s->gpu_milli : 1000;
    }
}

/* All tasks of the item, in the order of its parts. */
static void pending_make(struct world *w, const struct plan_decision *d)
{
    struct task *first = plan_owner(d->item);
    const struct set *s = graph_set(first->workload, first);
    bool whole = s && s->item == d->item;
    const uint32_t *members = whole ? s->workload->graph->members + s->first
                                    : &first->index;
    uint32_t n = whole ? s->count : 1;

    w->pending = mem_array(n, sizeof(*w->pending));
    for (uint32_t i = 0; i < n; i++) {
        struct task *t = &first->workload->tasks[members[i]];
        struct pending *p = &w->pending[w->npending];

        if (!t->in_line)
            continue;
        p->task = t;
        p->score = round(d->score * 1000) / 1000;
        item_grants(d, w->npending++, t->spec, p);
    }
}

static void want_planned(const struct world *w, struct event *ret)
{
    const struct pending *next = &w->pending[w->next_pending];

    event_init(ret, EVENT_PLANNED);
    ret->workload = next->task->workload->id;
    ret->task = next->task->index;
    ret->gen = task_gen_at(next->task, next->grants, next->ngrants);
    ret->ngrants = next->ngrants;
    ret->grants = mem_dup(next->grants, next->ngrants * sizeof(*ret->grants));
    ret->data = json_object();
    json_put(ret->data, "score", json_real(next->score));
}

static void want_preempting(const struct plan_decision *d, struct event *ret)
{
    static const char *const hows[] = {
        [YIELD_SUSPEND] = "suspend", [YIELD_CHECKPOINT] = "checkpoint",
        [YIELD_KILL] = "kill", [YIELD_NEVER] = "never",
    };
    const struct task *t = plan_owner(d->item);
    const struct task *by = d->claimant ? plan_owner(d->claimant) : NULL;
    char id[24];

    event_init(ret, EVENT_PREEMPTING);
    ret->workload = t->workload->id;
    ret->task = t->index;
    ret->gen = t->gen;
    ret->data = json_object();
    if (by) {
        workload_id_print(by->workload->id, id, sizeof(id));
        json_put_str(ret->data, "for", id);
        json_put_u64(ret->data, "task", by->index);
    }
    json_put_str(ret->data, "why", plan_cause_name(d->cause));
    json_put_str(ret->data, "how", hows[d->how]);
}

bool item_next(struct world *w, struct event *ret)
{
    struct plan_decision d = { .what = PLAN_START };

    if (w->npending == 0) {
        sets_sync(w);
        if (!plan_next(w->plan, &d))
            return false;
        if (d.what == PLAN_START && plan_state(d.item) == ITEM_SUSPENDED) {
            want_resuming(&d, ret);
            return true;
        }
        if (d.what == PLAN_START)
            pending_make(w, &d);
    }
    switch (d.what) {
    case PLAN_START:
        want_planned(w, ret);
        break;
    case PLAN_EVICT:
        want_preempting(&d, ret);
        break;
    case PLAN_STAGE:
        want_staged(&d, ret);
        break;
    case PLAN_UNSTAGE:
        want_unstaged(&d, ret);
        break;
    }
    return true;
}

/* A plan holds for as long as nothing but itself happens. */
void item_applied(struct world *w, const struct event *e)
{
    const struct task *next;

    if (w->npending == 0)
        return;
    next = w->pending[w->next_pending].task;
    if (e->type == EVENT_PLANNED && e->task == next->index &&
        e->workload == next->workload->id &&
        w->next_pending + 1 < w->npending) {
        w->next_pending++;
        return;
    }
    pending_clear(w);
}
