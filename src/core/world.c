#include "core/world_int.h"

#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

#define X(name, text) [TASK_##name] = text,
static const char *const task_names[] = { TASK_STATES(X) };
#undef X
static const char *const workload_names[] = {
    [WORKLOAD_QUEUED] = "queued",
    [WORKLOAD_RUNNING] = "running",
    [WORKLOAD_PAUSED] = "paused",
    [WORKLOAD_QUARANTINED] = "quarantined",
    [WORKLOAD_ENDED] = "ended",
};

const char *task_state_name(enum task_state s)
{
    assert(s < TASK_STATE_COUNT);
    return task_names[s];
}

const char *workload_state_name(enum workload_state s)
{
    assert(s < array_size(workload_names));
    return workload_names[s];
}

uint64_t add_capped(uint64_t a, uint64_t b)
{
    return a + b < a || a + b > INT64_MAX ? INT64_MAX : a + b;
}

uint64_t mul_capped(uint64_t a, uint64_t b)
{
    uint64_t product;

    if (__builtin_mul_overflow(a, b, &product) || product > INT64_MAX)
        return INT64_MAX;
    return product;
}

uint64_t share_of(uint64_t ms, uint64_t milli)
{
    __extension__ unsigned __int128 product = ms;

    product = product * milli / 1000;
    return product > INT64_MAX ? INT64_MAX : (uint64_t) product;
}

/* Both orders are strict and depend on nothing but the state, so a
 * world that was loaded decides as the one that it was saved from.
 */
static bool todo_before(const void *a, const void *b)
{
    const struct task *x = a, *y = b;

    if (x->workload != y->workload)
        return x->workload->id < y->workload->id;
    return x->index < y->index;
}

static uint32_t *todo_slot(void *item)
{
    return &((struct task *) item)->todo_slot;
}

static bool id_before(const void *a, const void *b)
{
    const struct workload *x = a, *y = b;

    return x->id < y->id;
}

static uint32_t *abort_slot(void *item)
{
    return &((struct workload *) item)->abort_slot;
}

static uint32_t *end_slot(void *item)
{
    return &((struct workload *) item)->end_slot;
}

struct world *world_new(void)
{
    struct world *w = mem_new(sizeof(*w));

    w->next_workload = 1;
    w->workloads = map_new();
    w->keys = map_new();
    w->tenants = map_new();
    w->tokens = map_new();
    w->block_ids = map_new();
    w->windows = map_new();
    w->pools = map_new();
    w->windows_gone = json_array();
    w->pools_gone = json_array();
    w->blocks_gone = json_array();
    w->todo = (struct heap) { .before = todo_before, .slot = todo_slot };
    w->aborts = (struct heap) { .before = id_before, .slot = abort_slot };
    w->ends = (struct heap) { .before = id_before, .slot = end_slot };
    timers_init(w);
    w->plan = plan_new();
    w->dirty_meta = true;
    return w;
}

void workload_free(struct workload *wl)
{
    if (!wl)
        return;
    for (uint32_t i = 0; wl->tasks && i < wl->spec->ntasks; i++) {
        free(wl->tasks[i].leases);
        progress_free(wl->tasks[i].progress);
        task_stage_free(wl->tasks[i].staged);
        away_free(wl->tasks[i].away);
    }
    json_decref(wl->reasons);
    graph_free(wl->graph);
    free(wl->guesses);
    free(wl->tasks);
    free(wl->tenant_name);
    free(wl->who);
    free(wl->key);
    free(wl->hash);
    spec_free(wl->spec);
    free(wl);
}

static void world_free_tables(struct world *w)
{
    struct tenant *tn;
    struct token *tk;
    struct window *v;
    struct pool *p;
    size_t pos = 0;

    while ((tn = map_next(w->tenants, &pos, NULL))) {
        json_decref(tn->members);
        free(tn->note);
        free(tn->parent_name);
        free(tn);
    }
    pos = 0;
    while ((tk = map_next(w->tokens, &pos, NULL)))
        free(tk);
    pos = 0;
    while ((v = map_next(w->windows, &pos, NULL)))
        window_free(v);
    pos = 0;
    while ((p = map_next(w->pools, &pos, NULL)))
        pool_drop(p);
    for (uint32_t i = 0; i < w->nblocks; i++)
        block_free(w->blocks[i]);
    free(w->blocks);
}

void world_free(struct world *w)
{
    struct workload *wl;
    size_t pos = 0;

    if (!w)
        return;
    pending_clear(w);
    plan_free(w->plan);
    kept_free(&w->meter);
    json_decref(w->policy);
    json_decref(w->windows_gone);
    json_decref(w->pools_gone);
    json_decref(w->blocks_gone);
    json_decref(w->promises);
    while ((wl = map_next(w->workloads, &pos, NULL)))
        workload_free(wl);
    while ((wl = w->gone)) {
        w->gone = wl->next_gone;
        workload_free(wl);
    }
    world_free_tables(w);
    map_free(w->workloads);
    map_free(w->keys);
    map_free(w->tenants);
    map_free(w->tokens);
    map_free(w->block_ids);
    map_free(w->windows);
    map_free(w->pools);
    heap_free(&w->todo);
    heap_free(&w->aborts);
    heap_free(&w->ends);
    heap_free(&w->sleepers);
    heap_free(&w->alarms);
    free(w);
}

void task_dirty(struct world *w, struct task *t)
{
    workload_dirty(w, t->workload);
    if (t->dirty)
        return;
    t->dirty = true;
    t->dirty_next = w->dirty_tasks;
    w->dirty_tasks = t;
}

void workload_dirty(struct world *w, struct workload *wl)
{
    if (wl->dirty)
        return;
    wl->dirty = true;
    wl->dirty_next = w->dirty_workloads;
    w->dirty_workloads = wl;
}

void todo_add(struct world *w, struct task *t)
{
    if (t->todo_slot == 0)
        heap_add(&w->todo, t);
}

bool task_aborting(const struct task *t)
{
    return t->aborting || t->workload->aborting;
}

bool task_force(const struct task *t)
{
    return t->force || t->workload->force;
}

/* Steps look at its tasks one by one from the first on, so that an abort costs
 * nothing at once, however many there are.
 */
void aborts_add(struct world *w, struct workload *wl)
{
    wl->abort_from = 0;
    if (wl->abort_slot == 0)
        heap_add(&w->aborts, wl);
}

void task_set_state(struct world *w, struct task *t, enum task_state state,
                    uint64_t now_ms)
{
    struct workload *wl = t->workload;
    struct set *set = graph_set(wl, t);

    wl->count[t->state]--;
    wl->count[state]++;
    if (set) {
        set->blocked += (state == TASK_BLOCKED) - (t->state == TASK_BLOCKED);
        set->waiting += (state == TASK_WAITING) - (t->state == TASK_WAITING);
    }
    t->state = (uint8_t) state;
    t->since_ms = now_ms;
    if (state == TASK_WAITING)
        task_relevel(w, t);
    if (state == TASK_ENDED)           /* replay applies without settling */
        heap_remove(&w->todo, t);
    task_dirty(w, t);
    task_timer(w, t);
    item_task(w, t);
    if (set)
        set_changed(w, set);
}

/* Attempts lost in a row before the one that is over now.  One that lived for
 * a while was no part of a row: its place was good for something.
 */
uint32_t task_losses(const struct task *t, uint64_t now_ms)
{
    bool lived = t->attempt_ms != 0 && now_ms - t->attempt_ms >= LIVED_MS;

    return lived ? 0 : t->losses;
}

static void reason_key(const struct task *t, char *buf, size_t size)
{
    (void) snprintf(buf, size, "%u", t->index);
}

const char *task_reason(const struct task *t)
{
    char key[16];

    if (!t->workload->reasons)
        return NULL;
    reason_key(t, key, sizeof(key));
    return json_get_str(t->workload->reasons, key, NULL);
}

void task_set_reason(struct task *t, const char *text)
{
    struct workload *wl = t->workload;
    char key[16];

    if (!wl->reasons && !text)
        return;
    reason_key(t, key, sizeof(key));
    if (!wl->reasons)
        wl->reasons = json_object();
    if (text)
        json_put_str(wl->reasons, key, text);
    else
        (void) json_object_del(wl->reasons, key);
}

/* Ended: out of every index, kept until its last row is given. */
void workload_forget(struct world *w, struct workload *wl)
{
    heap_remove(&w->ends, wl);
    heap_remove(&w->aborts, wl);
    timer_off(w, &wl->timer);
    sets_sync(w);                      /* none of its sets is on a list then */
    map_del_id(w->workloads, wl->id);
    if (wl->key) {
        autofree char *key = mem_printf("%s\n%s", wl->who, wl->key);

        map_del(w->keys, key);
    }
    wl->tenant->live--;
    wl->next_gone = w->gone;
    w->gone = wl;
}

void workload_keyed(struct world *w, struct workload *wl)
{
    autofree char *key = NULL;

    if (!wl->key)
        return;
    key = mem_printf("%s\n%s", wl->who, wl->key);
    map_set(w->keys, key, wl);
}


static int by_id(const void *a, const void *b)
{
    const struct workload *x = *(struct workload *const *) a;
    const struct workload *y = *(struct workload *const *) b;

    return (x->id > y->id) - (x->id < y->id);
}

/* The map goes by insertion; rows are loaded in any order. */
void world_tables_sort(struct world *w)
{
    struct map *sorted = map_new();
    size_t n = map_count(w->workloads), pos = 0;
    autofree struct workload **all = mem_array(n + 1, sizeof(*all));

    for (size_t i = 0; i < n; i++)
        all[i] = map_next(w->workloads, &pos, NULL);
    qsort(all, n, sizeof(*all), by_id);
    for (size_t i = 0; i < n; i++)
        map_set_id(sorted, all[i]->id, all[i]);
    map_free(w->workloads);
    w->workloads = sorted;
}

struct tenant *tenant_find(const struct world *w, const char *name)
{
    return map_get(w->tenants, name);
}

struct tenant *tenant_make(struct world *w, const char *name)
{
    struct tenant *t = mem_new(sizeof(*t));

    assert(strlen(name) < sizeof(t->name));
    memcpy(t->name, name, strlen(name) + 1);
    t->members = json_array();
    t->max_gpu_milli = UINT32_MAX;
    t->weight = 1;
    t->note = mem_str("");
    map_set(w->tenants, name, t);
    return t;
}

struct token *token_make(struct world *w, const char *id)
{
    struct token *t = mem_new(sizeof(*t));

    assert(strlen(id) < sizeof(t->id));
    memcpy(t->id, id, strlen(id) + 1);
    map_set(w->tokens, id, t);
    return t;
}

struct block *block_make(struct world *w, const char *id)
{
    struct block *b = mem_new(sizeof(*b));
    uint32_t i = w->nblocks;

    assert(strlen(id) < sizeof(b->id));
    memcpy(b->id, id, strlen(id) + 1);
    b->labels = json_object();
    map_set(w->block_ids, id, b);
    w->blocks = mem_grow(w->blocks, w->nblocks + 1, sizeof(*w->blocks));
    for (; i > 0 && strcmp(w->blocks[i - 1]->id, id) > 0; i--)
        w->blocks[i] = w->blocks[i - 1];
    w->blocks[i] = b;
    w->nblocks++;
    return b;
}

void block_free(struct block *b)
{
    json_decref(b->labels);
    devices_free(b);
    free(b);
}

uint64_t world_seq(const struct world *w)
{
    return w->seq;
}

uint64_t world_time_ms(const struct world *w)
{
    return w->time_ms;
}

uint64_t world_epoch(const struct world *w)
{
    return w->epoch;
}

uint64_t world_next_workload(const struct world *w)
{
    return w->next_workload;
}

uint32_t world_waiting(const struct world *w)
{
    return w->waiting;
}

struct workload *world_workload(const struct world *w, uint64_t id)
{
    return map_get_id(w->workloads, id);
}

struct workload *world_by_key(const struct world *w, const char *who,
                              const char *key)
{
    autofree char *both = mem_printf("%s\n%s", who, key);

    return map_get(w->keys, both);
}

struct task *workload_task(const struct workload *wl, const char *name)
{
    for (uint32_t i = 0; i < wl->spec->ntasks; i++)
        if (strcmp(wl->tasks[i].spec->name, name) == 0)
            return &wl->tasks[i];
    return NULL;
}

enum workload_state workload_state(const struct workload *wl)
{
    if (wl->outcome != OUTCOME_NONE)
        return WORKLOAD_ENDED;
    if (wl->quarantined)
        return WORKLOAD_QUARANTINED;
    if (wl->paused)
        return WORKLOAD_PAUSED;
    return wl->started ? WORKLOAD_RUNNING : WORKLOAD_QUEUED;
}

bool lease_of_old(const struct lease *l)
{
    const struct workload *wl = l->task->workload;

    return wl->quarantined || l->gen <= wl->gen_floor;
}

uint32_t task_next_gen(const struct task *t)
{
    uint32_t floor = t->workload->gen_floor;

    return (t->gen > floor ? t->gen : floor) + t->gens_staged + 1;
}

struct tenant *world_tenant(const struct world *w, const char *name)
{
    struct tenant *t = map_get(w->tenants, name);

    return t && !t->removed ? t : NULL;
}

struct token *world_token(const struct world *w, const char *id)
{
    return map_get(w->tokens, id);
}

struct block *world_block(const struct world *w, const char *id)
{
    return map_get(w->block_ids, id);
}

struct workload *world_next(const struct world *w, size_t *pos)
{
    return map_next(w->workloads, pos, NULL);
}

struct tenant *world_next_tenant(const struct world *w, size_t *pos)
{
    struct tenant *t;

    do {
        t = map_next(w->tenants, pos, NULL);
    } while (t && t->removed);
    return t;
}

struct token *world_next_token(const struct world *w, size_t *pos)
{
    return map_next(w->tokens, pos, NULL);
}

struct window *world_next_window(const struct world *w, size_t *pos)
{
    return map_next(w->windows, pos, NULL);
}

struct block *world_next_block(const struct world *w, size_t *pos)
{
    return *pos < w->nblocks ? w->blocks[(*pos)++] : NULL;
}
