#include "core/world_int.h"

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Who starts next.
 *
 * Tasks that are ready and may start stand in line by shape: equal needs of an
 * equal tenant.  A set that starts together is a shape of its own.  Within a
 * shape and between the shapes' first tasks the order is priority, then
 * workload, then task.  A shape is always in one of these places:
 *
 *   TRY      not asked yet since something changed
 *   PARKED   did not fit; others may overtake it
 *   RIPE     did not fit, and its first task has waited longer than
 *            PATIENCE_MS although it would fit an empty pool: nothing behind
 *            it may take what it waits for (devices; or anything, when it
 *            wants no devices or lacks CPUs or memory)
 *   HELD     would fit, but is behind a ripe one
 *   ASIDE    not for want of room: over its tenant's quota, a set that is not
 *            complete, or more than the pool has
 *
 * Room that is made (plan_wake) brings all back to TRY.  So each shape is asked
 * once per change and not once per task, and the answer is the same as if all
 * had been asked from the beginning: what did not fit fits no better after
 * others were planned.
 */
bool task_before(const struct task *a, const struct task *b)
{
    if (a->workload != b->workload) {
        int x = a->workload->spec->priority, y = b->workload->spec->priority;

        return x != y ? x > y : a->workload->id < b->workload->id;
    }
    return a->index < b->index;
}

static bool queue_before(const void *a, const void *b)
{
    return task_before(a, b);
}

static uint32_t *queue_slot(void *item)
{
    return &((struct task *) item)->queue_slot;
}

static struct task *head(const struct shape *s)
{
    return heap_top(&s->tasks);
}

static bool shape_before(const void *a, const void *b)
{
    return task_before(head(a), head(b));
}

static bool ripe_before(const void *a, const void *b)
{
    const struct task *x = head(a), *y = head(b);

    return x->since_ms != y->since_ms ? x->since_ms < y->since_ms
                                      : task_before(x, y);
}

static uint32_t *shape_slot(void *item)
{
    return &((struct shape *) item)->slot;
}

void plan_init(struct plan *p)
{
    p->by_key = map_new();
    p->try = (struct heap) { .before = shape_before, .slot = shape_slot };
    p->parked = (struct heap) { .before = ripe_before, .slot = shape_slot };
    p->ripe_all = p->try;
    p->ripe_devices = p->try;
}

static void shape_free(struct shape *s)
{
    for (uint32_t i = 0; i < s->like.nmodels; i++)
        free((void *) (uintptr_t) s->like.models[i]);
    free((void *) (uintptr_t) s->like.models);
    heap_free(&s->tasks);
    free(s->key);
    free(s);
}

static void pending_clear(struct plan *p)
{
    for (uint32_t i = 0; i < p->npending; i++)
        free(p->pending[i].grants);
    free(p->pending);
    p->pending = NULL;
    p->npending = p->next_pending = 0;
}

void world_plan_free(struct plan *p)
{
    pending_clear(p);
    for (uint32_t i = 0; i < p->nshapes; i++)
        shape_free(p->shapes[i]);
    free(p->shapes);
    map_free(p->by_key);
    heap_free(&p->try);
    heap_free(&p->parked);
    heap_free(&p->ripe_all);
    heap_free(&p->ripe_devices);
}

static struct heap *heap_of(struct plan *p, enum shape_place place)
{
    switch (place) {
    case SHAPE_TRY:
        return &p->try;
    case SHAPE_PARKED:
        return &p->parked;
    case SHAPE_RIPE_ALL:
        return &p->ripe_all;
    case SHAPE_RIPE_DEVICES:
        return &p->ripe_devices;
    case SHAPE_OUT:
    case SHAPE_HELD:
    case SHAPE_ASIDE:
        break;
    }
    return NULL;
}

static void move(struct plan *p, struct shape *s, enum shape_place to)
{
    enum shape_place from = s->place;

    if (heap_of(p, from))
        heap_remove(heap_of(p, from), s);
    s->place = to;
    if (heap_of(p, to))
        heap_add(heap_of(p, to), s);
    if (from != SHAPE_RIPE_ALL && from != SHAPE_RIPE_DEVICES)
        return;
    for (uint32_t i = 0; i < p->nshapes; i++)
        if (p->shapes[i]->place == SHAPE_HELD)
            move(p, p->shapes[i], SHAPE_TRY);
}

void plan_wake(struct world *w)
{
    struct plan *p = &w->plan;

    for (uint32_t i = 0; i < p->nshapes; i++) {
        p->shapes[i]->nofit = false;
        if (p->shapes[i]->place != SHAPE_OUT)
            move(p, p->shapes[i], SHAPE_TRY);
    }
}

/* Room was taken.  What did not fit still does not; but a ripe one that lacked
 * CPUs or memory may now lack devices or be over its quota, and then stands in
 * fewer ways.  Those held behind it are asked again, for they may not fit any
 * more and ripen, too.
 */
void plan_took(struct world *w)
{
    struct plan *p = &w->plan;

    if (p->ripe_all.count == 0 && p->ripe_devices.count == 0)
        return;
    for (uint32_t i = 0; i < p->nshapes; i++) {
        struct shape *s = p->shapes[i];

        if ((s->place == SHAPE_RIPE_ALL || s->place == SHAPE_RIPE_DEVICES) &&
            shape_wants_devices(s))
            move(p, s, SHAPE_PARKED);
    }
}

/* Models count by name alone; the order in which they are named does too,
 * which only costs a shape more.
 */
static char *shape_key(const struct task *t)
{
    const struct spec_task *s = t->spec;
    struct buf key = BUF_INIT(2 * (size_t) SPEC_MAX_BYTES);

    buf_printf(&key, "%u %u %u %" PRIu64 " %" PRIu64 " %s", s->gpu_milli,
               s->cpu_milli, s->ranks, s->memory, s->gpu_memory,
               t->workload->tenant->name);
    for (uint32_t i = 0; i < s->nmodels; i++)
        buf_printf(&key, "\n%s", s->models[i]);
    return buf_take(&key);
}

static struct shape *shape_new(struct plan *p, const struct task *t,
                               struct set *set)
{
    const struct spec_task *from = t->spec;
    struct shape *s = mem_new(sizeof(*s));
    char **models = mem_array((size_t) from->nmodels + 1, sizeof(*models));

    for (uint32_t i = 0; i < from->nmodels; i++)
        models[i] = mem_str(from->models[i]);
    s->tenant = t->workload->tenant;
    s->set = set;
    s->like = (struct spec_task) {
        .gpu_milli = from->gpu_milli, .cpu_milli = from->cpu_milli,
        .ranks = from->ranks, .memory = from->memory,
        .gpu_memory = from->gpu_memory, .nmodels = from->nmodels,
        .models = (const char *const *) models,
    };
    s->tasks = (struct heap) { .before = queue_before, .slot = queue_slot };
    if (p->nshapes == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 16;
        p->shapes = mem_grow(p->shapes, p->cap, sizeof(*p->shapes));
    }
    s->index = p->nshapes;
    p->shapes[p->nshapes++] = s;
    return s;
}

static void shape_drop(struct plan *p, struct shape *s)
{
    assert(s->place == SHAPE_OUT && s->tasks.count == 0);
    p->shapes[s->index] = p->shapes[--p->nshapes];
    p->shapes[s->index]->index = s->index;
    if (s->key)
        map_del(p->by_key, s->key);
    if (s->set)
        s->set->shape = NULL;
    if (p->recent == s)
        p->recent = NULL;
    shape_free(s);
}

/* Most tasks are like the one before; those need no key. */
static bool like_recent(const struct plan *p, const struct task *t)
{
    const struct shape *r = p->recent;
    const struct spec_task *s = t->spec;

    return r && r->tenant == t->workload->tenant && s->nmodels == 0 &&
           r->like.nmodels == 0 && r->like.gpu_milli == s->gpu_milli &&
           r->like.cpu_milli == s->cpu_milli && r->like.ranks == s->ranks &&
           r->like.memory == s->memory && r->like.gpu_memory == s->gpu_memory;
}

static struct shape *shape_for(struct plan *p, const struct task *t)
{
    struct set *set = graph_set(t->workload, t);
    autofree char *key = NULL;
    struct shape *s;

    if (set) {
        if (!set->shape)
            set->shape = shape_new(p, t, set);
        return set->shape;
    }
    if (like_recent(p, t))
        return p->recent;
    key = shape_key(t);
    s = map_get(p->by_key, key);
    if (!s) {
        s = shape_new(p, t, NULL);
        s->key = take(key);
        map_set(p->by_key, s->key, s);
    }
    p->recent = s;
    return s;
}

/* The heaps go by a shape's first task: it leaves them before that changes. */
static void line_add(struct world *w, struct task *t)
{
    struct plan *p = &w->plan;
    struct shape *s = shape_for(p, t);
    bool first = !head(s) || s->set || task_before(t, head(s));

    if (first)
        move(p, s, SHAPE_OUT);
    heap_add(&s->tasks, t);
    t->queue = s;
    p->waiting++;
    if (first) {
        s->nofit = s->nofit && !s->set;
        move(p, s, SHAPE_TRY);
    }
}

static void line_remove(struct world *w, struct task *t)
{
    struct plan *p = &w->plan;
    struct shape *s = t->queue;
    bool first = s->set || head(s) == t;

    if (first)
        move(p, s, SHAPE_OUT);
    heap_remove(&s->tasks, t);
    t->queue = NULL;
    p->waiting--;
    if (!head(s)) {
        shape_drop(p, s);
    } else if (first) {
        s->nofit = s->nofit && !s->set;
        move(p, s, SHAPE_TRY);
    }
}

void plan_task(struct world *w, struct task *t)
{
    const struct workload *wl = t->workload;
    bool wants = t->state == TASK_WAITING && !t->timer.asleep && !t->aborting &&
                 !wl->paused && !wl->quarantined;

    if (wants && !t->queue)
        line_add(w, t);
    else if (!wants && t->queue)
        line_remove(w, t);
}

void plan_set_changed(struct world *w, struct set *set)
{
    if (!set->shape)
        return;
    set->shape->nofit = false;
    move(&w->plan, set->shape, SHAPE_TRY);
}

void plan_set_free(struct world *w, struct set *set)
{
    if (!set->shape)
        return;
    move(&w->plan, set->shape, SHAPE_OUT);
    shape_drop(&w->plan, set->shape);
}

/* A set is complete when none of its members is still blocked and all that
 * wait are in line.  Members that run or have ended no longer count: one that
 * is tried again starts alone.
 */
bool shape_ready(const struct shape *s)
{
    return !s->set ||
           (s->set->blocked == 0 && s->set->waiting == s->tasks.count);
}

uint64_t shape_gpu_milli(const struct shape *s)
{
    uint64_t sum = 0;

    if (!s->set)
        return (uint64_t) s->like.gpu_milli * s->like.ranks;
    for (uint32_t i = 0; i < s->tasks.count; i++) {
        const struct task *t = s->tasks.items[i];

        sum += (uint64_t) t->spec->gpu_milli * t->spec->ranks;
    }
    return sum;
}

bool shape_wants_devices(const struct shape *s)
{
    return shape_gpu_milli(s) > 0;
}

bool shape_over_quota(const struct shape *s)
{
    uint64_t milli = shape_gpu_milli(s);

    return milli > 0 && s->tenant->max_gpu_milli != UINT32_MAX &&
           s->tenant->used_gpu_milli + milli > s->tenant->max_gpu_milli;
}

static int by_order(const void *a, const void *b)
{
    return task_before(*(struct task *const *) a, *(struct task *const *) b)
           ? -1 : 1;
}

/* What starts with the first task: itself, or its whole set in order. */
static struct task **starters(const struct shape *s, uint32_t *ret_n)
{
    uint32_t n = s->set ? s->tasks.count : 1;
    struct task **tasks = mem_array(n, sizeof(struct task *));

    for (uint32_t i = 0; i < n; i++)
        tasks[i] = s->tasks.items[i];
    qsort(tasks, n, sizeof(struct task *), by_order);
    *ret_n = n;
    return tasks;
}

static bool place_shape(struct block *const *blocks, uint32_t nblocks,
                        const struct shape *s, struct pending **ret,
                        uint32_t *ret_n)
{
    uint32_t n;
    autofree struct task **tasks = starters(s, &n);
    autofree struct grant **grants = mem_array(n, sizeof(struct grant *));

    if (!place_all(blocks, nblocks, tasks, n, grants))
        return false;
    *ret = mem_array(n, sizeof(**ret));
    *ret_n = n;
    for (uint32_t i = 0; i < n; i++)
        (*ret)[i] = (struct pending) { tasks[i], grants[i] };
    return true;
}

static bool try_out(struct block *const *blocks, uint32_t n,
                    const struct shape *s)
{
    struct plan scratch = { 0 };
    bool fits = place_shape(blocks, n, s, &scratch.pending, &scratch.npending);

    pending_clear(&scratch);
    return fits;
}

bool shape_fits(const struct world *w, struct shape *s)
{
    if (!s->nofit && !try_out(w->blocks, w->nblocks, s))
        s->nofit = true;
    return !s->nofit;
}

/* What if: on copies of the blocks, changed as asked. */
bool shape_fits_if(const struct world *w, const struct shape *s, unsigned what)
{
    autofree struct block *copies = mem_array(w->nblocks + 1u, sizeof(*copies));
    autofree struct block **list = mem_array(w->nblocks + 1u, sizeof(*list));
    bool fits;

    for (uint32_t i = 0; i < w->nblocks; i++) {
        struct block *b = list[i] = &copies[i];

        *b = *w->blocks[i];
        b->up = b->up || (what & IF_UP);
        b->drained = b->drained && !(what & IF_UNDRAINED);
        if (what & (IF_EMPTY | IF_CPUS))
            b->cpu_free = what & IF_CPUS ? UINT64_MAX : b->cpu_milli;
        if (what & (IF_EMPTY | IF_MEMORY))
            b->memory_free = what & IF_MEMORY ? UINT64_MAX : b->memory;
        b->devices = mem_array(b->ndevices + 1u, sizeof(*b->devices));
        for (uint32_t k = 0; k < b->ndevices; k++) {
            b->devices[k] = w->blocks[i]->devices[k];
            if (what & IF_EMPTY)
                b->devices[k].free_milli = 1000;
        }
    }
    fits = try_out(list, w->nblocks, s);
    for (uint32_t i = 0; i < w->nblocks; i++)
        free(copies[i].devices);
    return fits;
}

/* Those whose patience is over stand in the way, unless they never could run:
 * then waiting for them would be for nothing.
 */
static void ripen(struct world *w, uint64_t now_ms)
{
    struct plan *p = &w->plan;
    struct shape *s;

    while ((s = heap_top(&p->parked)) &&
           add_capped(head(s)->since_ms, PATIENCE_MS) <= now_ms) {
        if (shape_over_quota(s) || !shape_fits_if(w, s, IF_EMPTY))
            move(p, s, SHAPE_ASIDE);
        else if (shape_wants_devices(s) &&
                 !shape_fits_if(w, s, IF_CPUS | IF_MEMORY))
            move(p, s, SHAPE_RIPE_DEVICES);
        else
            move(p, s, SHAPE_RIPE_ALL);
    }
}

/* The first task of the ripe shape that stands before this one, or NULL. */
const struct task *shape_barred_by(const struct plan *p, const struct shape *s)
{
    const struct shape *all = heap_top(&p->ripe_all);
    const struct shape *devices = heap_top(&p->ripe_devices);

    if (all && shape_before(all, s))
        return head(all);
    if (devices && shape_wants_devices(s) && shape_before(devices, s))
        return head(devices);
    return NULL;
}

static bool find_next(struct world *w, uint64_t now_ms)
{
    struct plan *p = &w->plan;
    struct shape *s;

    for (;;) {
        ripen(w, now_ms);
        s = heap_top(&p->try);
        if (!s)
            return false;
        if (!shape_ready(s) || shape_over_quota(s)) {
            move(p, s, SHAPE_ASIDE);
        } else if (!shape_fits(w, s)) {
            move(p, s, SHAPE_PARKED);
        } else if (shape_barred_by(p, s)) {
            move(p, s, SHAPE_HELD);
        } else {
            return place_shape(w->blocks, w->nblocks, s, &p->pending,
                               &p->npending);
        }
    }
}

bool plan_midway(const struct plan *p)
{
    return p->next_pending > 0;
}

bool world_plan_next(struct world *w, uint64_t now_ms, struct event *ret)
{
    struct plan *p = &w->plan;
    const struct pending *next;
    uint32_t ranks;

    if (p->npending == 0 && !find_next(w, now_ms))
        return false;
    next = &p->pending[p->next_pending];
    ranks = next->task->spec->ranks;
    event_init(ret, EVENT_PLANNED);
    ret->workload = next->task->workload->id;
    ret->task = next->task->index;
    ret->gen = task_next_gen(next->task);
    ret->ngrants = ranks;
    ret->grants = mem_dup(next->grants, ranks * sizeof(*ret->grants));
    return true;
}

/* A plan holds for as long as nothing but itself happens. */
void plan_applied(struct world *w, const struct event *e)
{
    struct plan *p = &w->plan;

    if (p->npending == 0)
        return;
    if (e->type == EVENT_PLANNED &&
        e->task == p->pending[p->next_pending].task->index &&
        e->workload == p->pending[p->next_pending].task->workload->id &&
        p->next_pending + 1 < p->npending) {
        p->next_pending++;
        return;
    }
    pending_clear(p);
}
