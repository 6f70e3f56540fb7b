#pragma once

#include "base/heap.h"
#include "core/world.h"

struct map;

/* world_int - what the files of the world share; nobody else includes it.
 *
 *     world.c   tables, lookups, small changes that keep the counts right
 *     room.c    what leases take from blocks and give back
 *     timer.c   who sleeps, and what is due when
 *     check.c   may this event happen now?      (one row per event type)
 *     apply.c, apply_pool.c   what it changes   (one row per event type)
 *     graph.c   who needs whom, and who starts together
 *     step.c    what the world wants next: settle, alarms, then the plan
 *     plan.c    who starts next: the waiting line, by shape
 *     place.c   where a rank fits
 *     meter.c   where device-time went
 *     rows.c view.c load.c   the tables' form, and back
 *     verify.c  the invariants, worked out from nothing
 */
enum {
    PATIENCE_MS = 10 * 60 * 1000,      /* overtaken no longer than this */
    LOST_MAX = 20,                     /* attempts lost in a row: given up */
    LOST_BACKOFF_MS = 100,             /* after the first; doubles 9 times */
    LIVED_MS = 10 * 1000,              /* an attempt this long breaks the row */
    GEN_STEP = 1000,                   /* past what ran after a backup */
    DEVICES_PER_RANK = 16,
};
#define TIME_MAX UINT64_C(253402300799999) /* the last millisecond of 9999 */
#define BACKOFF_MAX (UINT64_C(24) * 60 * 60 * 1000)

/* Tasks of one workload that start together. */
struct set {
    uint32_t number;                   /* spec_task.together */
    uint32_t blocked, waiting;         /* members in these states */
    struct shape *shape;
};

struct graph {
    uint32_t *first;                   /* ntasks + 1: into `next` */
    uint32_t *next;                    /* those that need the task */
    struct set *sets;                  /* by number */
    uint32_t nsets;
};

/* Where a shape of waiting tasks stands; see plan.c. */
enum shape_place {
    SHAPE_OUT, SHAPE_TRY, SHAPE_PARKED, SHAPE_RIPE_ALL, SHAPE_RIPE_DEVICES,
    SHAPE_HELD, SHAPE_ASIDE
};

struct shape {
    char *key;                         /* NULL: the line of one set */
    struct tenant *tenant;
    struct set *set;                   /* or NULL */
    struct spec_task like;             /* only what a task needs; owned */
    struct heap tasks;
    enum shape_place place;
    uint32_t slot;                     /* in the heap of its place */
    uint32_t index;                    /* in plan.shapes */
    bool nofit;                        /* tried since room was last made */
};

struct pending {                       /* planned whole, journalled one by one */
    struct task *task;
    struct grant *grants;
};

struct plan {
    struct map *by_key;
    struct shape **shapes;
    uint32_t nshapes, cap;
    struct shape *recent;              /* the last one looked up, or NULL */
    struct heap try, parked, ripe_all, ripe_devices;
    struct pending *pending;
    uint32_t npending, next_pending;
    uint32_t waiting;                  /* tasks in line */
};

/* Sums in thousandths of a device (or CPU) times milliseconds. */
struct tally {
    uint64_t last_ms;
    uint64_t used, idle_nodemand, idle_frag, waste;
    uint64_t cpu_idle, cpu_used;
};

struct world {
    uint64_t seq, time_ms, epoch, next_workload;
    struct map *workloads, *keys, *tenants, *tokens, *block_ids;
    struct block **blocks;             /* by id */
    uint32_t nblocks;
    bool hold;                         /* world_hold; no part of the state */
    struct workload *gone;             /* ended, row not given yet */
    struct heap todo;                  /* tasks that settle something */
    struct heap aborts;                /* workloads with tasks to be told of it */
    struct heap ends;                  /* workloads whose tasks all ended */
    struct heap sleepers;              /* tasks that back off */
    struct heap alarms;                /* tasks and workloads to be stopped */
    struct plan plan;
    struct tally tally;                /* up to the newest time seen */
    struct tally tally_row;            /* as of the newest event */
    uint64_t idle_milli, used_milli;   /* of open blocks; of all leases */
    uint64_t cpu_idle, cpu_used;
    struct task *dirty_tasks;
    struct workload *dirty_workloads;
    bool dirty_meta, dirty_meter;
};

#define container_of(p, type, member) \
    ((type *) (void *) ((char *) (p) - offsetof(type, member)))

/* world.c */
void task_set_state(struct world *w, struct task *t, enum task_state state,
                    uint64_t now_ms);
void task_dirty(struct world *w, struct task *t);
void workload_dirty(struct world *w, struct workload *wl);
void todo_add(struct world *w, struct task *t);
bool task_aborting(const struct task *t);          /* alone, or with all */
bool task_force(const struct task *t);
void aborts_add(struct world *w, struct workload *wl);
void workload_forget(struct world *w, struct workload *wl);
void workload_free(struct workload *wl);
void workload_keyed(struct world *w, struct workload *wl);
void world_tables_sort(struct world *w);           /* workloads by id */
struct tenant *tenant_find(const struct world *w, const char *name);
struct tenant *tenant_make(struct world *w, const char *name);
struct token *token_make(struct world *w, const char *id);
struct block *block_make(struct world *w, const char *id);
uint32_t task_next_gen(const struct task *t);
uint32_t task_losses(const struct task *t, uint64_t now_ms);
uint64_t add_capped(uint64_t a, uint64_t b);       /* INT64_MAX at most */
uint64_t mul_capped(uint64_t a, uint64_t b);
uint64_t share_of(uint64_t ms, uint64_t milli);    /* ms * milli / 1000 */

/* timer.c: each sets what the state asks for, however it was before. */
void timers_init(struct world *w);
void timer_off(struct world *w, struct timer *t);
void task_timer(struct world *w, struct task *t);
void workload_timer(struct world *w, struct workload *wl);
uint64_t task_alarm_ms(const struct task *t);
void world_tick(struct world *w, uint64_t to_ms);  /* sleepers, then the meter */

/* room.c: leases and their room. */
bool block_open(const struct block *b);            /* may take something new */
void block_set_open(struct world *w, struct block *b, bool up, bool drained);
void lease_open(struct world *w, struct task *t, uint32_t rank,
                struct block *b, const struct grant *g);
void lease_close(struct world *w, struct lease *l);
uint64_t block_free_milli(const struct block *b);

/* graph.c */
void graph_make(struct workload *wl);
void graph_free(struct graph *g);
struct set *graph_set(const struct workload *wl, const struct task *t);
bool task_may_run(const struct task *t);           /* by its needs' outcomes */
void task_unblock(struct world *w, struct task *t, uint64_t now_ms);
void task_release_next(struct world *w, struct task *t, uint64_t now_ms);

/* apply.c */
void lease_lose(struct world *w, struct lease *l); /* its end follows by a step */

/* apply_pool.c */
void apply_block_up(struct world *w, struct event *e);
void apply_block_lost(struct world *w, struct event *e);
void apply_drain(struct world *w, struct event *e);
void apply_tenant_set(struct world *w, struct event *e);
void apply_tenant_removed(struct world *w, struct event *e);
void apply_token_created(struct world *w, struct event *e);
void apply_token_revoked(struct world *w, struct event *e);
void block_set_inventory(struct block *b, const json_t *data);

/* place.c: in `blocks`, which may be copies. */
bool place_rank(struct block *const *blocks, uint32_t n,
                const struct spec_task *s, struct block **ret_block,
                struct grant *ret);
void place_take(struct block *b, const struct spec_task *s,
                const struct grant *g);
void place_give(struct block *b, const struct spec_task *s,
                const struct grant *g);
bool place_matches(const struct device *d, const struct spec_task *s);
int place_check(const struct block *b, const struct spec_task *s,
                const struct grant *g, struct err *err);
/* Every rank of every task, or nothing taken and false. */
bool place_all(struct block *const *blocks, uint32_t n,
               struct task *const *tasks, uint32_t ntasks,
               struct grant **ret_grants);

/* plan.c */
void plan_init(struct plan *p);
void world_plan_free(struct plan *p);
void plan_task(struct world *w, struct task *t);   /* in line or not, by its state */
void plan_wake(struct world *w);                   /* room was made */
void plan_took(struct world *w);                   /* room was taken */
void plan_set_changed(struct world *w, struct set *s);
void plan_set_free(struct world *w, struct set *s);
void plan_applied(struct world *w, const struct event *e);
bool world_plan_next(struct world *w, uint64_t now_ms, struct event *ret);
bool plan_midway(const struct plan *p);            /* in the middle of a set */
bool task_before(const struct task *a, const struct task *b);
bool shape_ready(const struct shape *s);           /* its set is complete */
bool shape_wants_devices(const struct shape *s);
bool shape_over_quota(const struct shape *s);
bool shape_fits(const struct world *w, struct shape *s);
const struct task *shape_barred_by(const struct plan *p, const struct shape *s);
enum {                                 /* what if ... */
    IF_EMPTY = 1,                      /* nothing ran */
    IF_UNDRAINED = 2, IF_UP = 4,       /* every block that is known were open */
    IF_CPUS = 8, IF_MEMORY = 16,       /* there were any amount of them */
};
bool shape_fits_if(const struct world *w, const struct shape *s, unsigned what);
uint64_t shape_gpu_milli(const struct shape *s);

/* meter.c */
void meter_count(struct world *w, uint64_t to_ms);

/* view.c */
json_t *view_epoch(const struct world *w);
json_t *view_tally(const struct tally *t);
json_t *view_token_row(const struct token *t);    /* with its hash */
