#pragma once

#include "base/heap.h"
#include "core/world.h"
#include "plan/plan.h"

struct map;

/* world_int - what the files of the world share; nobody else includes it.
 *
 *     world.c   tables, lookups, small changes that keep the counts right
 *     room.c    what leases take from blocks and give back
 *     timer.c   who sleeps, and what is due when
 *     pool.c    pools: added, drained, removed
 *     check.c, check_pool.c   may this event happen now?  (one row per type)
 *     apply.c, apply_pool.c   what it changes             (one row per type)
 *     report.c  what a task says about itself
 *     stage.c   tasks that stand ready
 *     away.c    tasks that are suspended and come back
 *     idle.c    ... for they did not use their devices
 *     remedy.c  what is the matter with devices, and what is done about it
 *     graph.c   who needs whom, and who starts together
 *     step.c    what the world wants next: settle, alarms, then the plan
 *     bridge.c  blocks, tenants, windows and the policy, told to the plan
 *     item.c    tasks and sets, told to the plan; its decisions as events
 *     sig.c     by what a task is known to the predictor
 *     money.c   prices and budgets
 *     rows.c view.c view_pool.c load.c load_pool.c   the tables' form, and back
 *     verify.c  the invariants, worked out from nothing
 */
enum {
    LOST_MAX = 20,                     /* attempts lost in a row: given up */
    BUDGETS_MAX = 10 * 1000,           /* periods followed one by one, at once */
    LOST_BACKOFF_MS = 100,             /* after the first; doubles 9 times */
    LIVED_MS = 10 * 1000,              /* an attempt this long breaks the row */
    GEN_STEP = 1000,                   /* past what ran after a backup */
    DEVICES_PER_RANK = 16,
};
/* What a node can do, as a label of it; others have a "=".  Images: it has
 * them.  Shares: it gives parts of a device.
 */
#define LABEL_IMAGES "images"
#define LABEL_SHARES "shares"
#define TIME_MAX UINT64_C(253402300799999) /* the last millisecond of 9999 */
#define BACKOFF_MAX (UINT64_C(24) * 60 * 60 * 1000)

/* Tasks of one workload that start together.  While they wait they are one
 * item of the plan; once started each has its own.
 */
struct set {
    uint32_t number;                   /* spec_task.together */
    uint32_t blocked, waiting;         /* members in these states */
    uint32_t in_line;                  /* of the waiting */
    uint32_t first, count;             /* into graph.members */
    struct workload *workload;
    struct plan_item *item;            /* or NULL: not complete, none in line */
    bool dirty;                        /* item is to be made anew */
    struct set *dirty_next;
};

struct graph {
    uint32_t *first;                   /* ntasks + 1: into `next` */
    uint32_t *next;                    /* those that need the task */
    struct set *sets;                  /* by number */
    uint32_t *members;                 /* of all sets, one after the other */
    uint32_t nsets;
};

struct pending {                       /* planned whole, journalled one by one */
    struct task *task;
    struct grant *grants;
    uint32_t ngrants;
    double score;                      /* of the places, to three digits */
};

/* The meter of one pool and model, as the plan's rows keep it. */
struct part_meter {
    char *pool, *model;
    struct plan_shares shares;
};

/* The plan's meter as of the newest event: time that has passed since is no
 * part of the state.
 */
struct kept_meter {
    bool kept;                         /* else the plan's own is it */
    uint64_t at_ms;
    struct plan_meter sum;
    struct part_meter *parts;
    uint32_t nparts;
};

enum { PORT_FIRST = 20000, PORTS = 10000 };

struct world {
    uint64_t seq, time_ms, epoch, next_workload;
    struct map *workloads, *keys, *tenants, *tokens, *block_ids, *windows, *pools;
    struct block **blocks;             /* by id */
    uint32_t nblocks;
    bool hold;                         /* world_hold; no part of the state */
    struct workload *gone;             /* ended, row not given yet */
    struct heap todo;                  /* tasks that settle something */
    struct heap aborts;                /* workloads with tasks to be told of it */
    struct heap ends;                  /* workloads whose tasks all ended */
    struct heap sleepers;              /* tasks that back off */
    struct heap alarms;                /* tasks and workloads to be stopped */
    struct plan *plan;
    json_t *policy;                    /* the document; NULL: the defaults */
    uint64_t policy_version;
    struct pending *pending;
    uint32_t npending, next_pending;
    uint32_t waiting;                  /* tasks in line */
    struct set *dirty_sets;
    struct kept_meter meter;
    uint32_t nbudgets;                 /* tenants that have one */
    uint64_t budget_due_ms;            /* 0: to be worked out */
    struct task *dirty_tasks;
    struct workload *dirty_workloads;
    json_t *windows_gone;              /* names whose rows are to go */
    json_t *pools_gone, *blocks_gone;  /* likewise */
    bool dirty_meta, dirty_meter, dirty_policy, dirty_costs;
    uint64_t promised;                 /* by the plan, as its row has it */
    json_t *promises;                  /* the row, while it is loaded */
    uint64_t ports[PORTS / 64 + 1];    /* taken ones; see port.c */
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
void block_free(struct block *b);                  /* not its place in tables */
uint32_t task_next_gen(const struct task *t);
void task_set_reason(struct task *t, const char *text);  /* or NULL */
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
uint64_t task_still_ms(const struct task *t);
uint64_t task_timeout_ms(const struct task *t);    /* it has one */
void world_tick(struct world *w, uint64_t to_ms);
uint64_t world_now(const struct world *w);         /* the newest time seen */

/* room.c: leases and their room. */
bool block_open(const struct block *b);            /* may take something new */
void block_set_open(struct world *w, struct block *b, bool up, bool drained);
void lease_open(struct world *w, struct task *t, uint32_t rank,
                struct block *b, const struct grant *g);
void lease_close(struct world *w, struct lease *l);
void room_take(struct block *b, const struct spec_task *s,
               const struct grant *g);
void room_give(struct block *b, const struct spec_task *s,
               const struct grant *g);
void lease_take(struct world *w, struct lease *l); /* its room, its tenant's too */
void lease_give(struct world *w, struct lease *l);
uint64_t block_memory_left(const struct block *b); /* of leases and suspended */
/* A grant from outside: of the size asked for, on such devices, whether free
 * or not.
 */
int room_size(const struct block *b, const struct spec_task *s,
              const struct grant *g, struct err *err);
/* ... and within what is free. */
int room_check(const struct block *b, const struct spec_task *s,
               const struct grant *g, struct err *err);
/* ... of one whose memory is there. */
int room_back(const struct block *b, const struct spec_task *s,
              const struct grant *g, struct err *err);
bool device_open(const struct device *d);          /* may it be given? */
bool grant_open(const struct block *b, const struct grant *g); /* all of it? */
bool device_matches(const struct device *d, const struct spec_task *s);

/* graph.c */
void graph_make(struct workload *wl);
void graph_free(struct graph *g);
struct set *graph_set(const struct workload *wl, const struct task *t);
void task_release_next(struct world *w, struct task *t, uint64_t now_ms);

/* pool.c */
void pool_drop(struct pool *p);
bool pool_bars(const struct world *w, const char *name); /* nothing new there */
int check_pool_set(const struct world *w, const struct event *e,
                   struct err *err);
int check_pool_removed(const struct world *w, const struct event *e,
                       struct err *err);
int check_pool_drain(const struct world *w, const struct event *e,
                     struct err *err);
void apply_pool_set(struct world *w, struct event *e);
void apply_pool_removed(struct world *w, struct event *e);
void apply_pool_drain(struct world *w, struct event *e);
int load_pool(struct world *w, const char *name, const json_t *body,
              struct err *err);
void load_pools_done(struct world *w);             /* their blocks are there */

/* check_pool.c */
int want_data(const struct event *e, struct err *err);
int check_block_up(const struct world *w, const struct event *e,
                   struct err *err);
int check_block_lost(const struct world *w, const struct event *e,
                     struct err *err);
int check_block_shut(const struct world *w, const struct event *e,
                     struct err *err);
int check_drain(const struct world *w, const struct event *e, struct err *err);
int check_device_drain(const struct world *w, const struct event *e,
                       struct err *err);
int check_tenant_set(const struct world *w, const struct event *e,
                     struct err *err);
int check_tenant_removed(const struct world *w, const struct event *e,
                         struct err *err);
int check_token_created(const struct world *w, const struct event *e,
                        struct err *err);
int check_token_revoked(const struct world *w, const struct event *e,
                        struct err *err);
int check_window_set(const struct world *w, const struct event *e,
                     struct err *err);
int check_window_removed(const struct world *w, const struct event *e,
                         struct err *err);
int check_policy_set(const struct world *w, const struct event *e,
                     struct err *err);

/* apply.c */
void lease_lose(struct world *w, struct lease *l); /* its end follows by a step */
/* It was on its devices for so long, and pays for that. */
void task_charge(struct task *t, const struct lease *l, uint64_t ms);
bool lease_moved(struct lease *l, enum lease_move move); /* or no such arrow */

/* apply_pool.c */
void apply_block_up(struct world *w, struct event *e);
void apply_block_lost(struct world *w, struct event *e);
void apply_block_shut(struct world *w, struct event *e);
void apply_drain(struct world *w, struct event *e);
void apply_device_drain(struct world *w, struct event *e);
void apply_tenant_set(struct world *w, struct event *e);
void apply_tenant_removed(struct world *w, struct event *e);
void apply_token_created(struct world *w, struct event *e);
void apply_token_revoked(struct world *w, struct event *e);
void apply_window_set(struct world *w, struct event *e);
void apply_window_removed(struct world *w, struct event *e);
void apply_policy_set(struct world *w, struct event *e);
void block_set_inventory(struct block *b, const json_t *data);
void devices_free(struct block *b);
/* The device of that number on the node, counted over its blocks. */
struct block *node_device(const struct world *w, const char *node,
                          uint32_t number, uint32_t *ret_device);
struct window *window_make(struct world *w, const char *name);
void window_free(struct window *v);
void tenant_set_budget(struct tenant *t, const json_t *budget);

/* report.c */
int check_report(const struct task *t, const struct event *e, struct err *err);
void task_report(struct task *t, const json_t *data, uint64_t now_ms);
void progress_free(struct progress *g);
json_t *progress_row(const struct progress *g);
int progress_load(struct task *t, const json_t *row);

/* bridge.c */
void bridge_block(struct world *w, struct block *b);     /* as it is now */
void bridge_open(struct world *w, struct block *b);
void bridge_tenant(struct world *w, struct tenant *t);
void bridge_windows(struct world *w);
void bridge_policy(struct world *w);
void bridge_time(struct world *w, uint64_t to_ms);
void meter_keep(struct world *w);
void kept_free(struct kept_meter *k);

/* item.c */
bool task_wants(const struct task *t);             /* it should be in line */
bool task_has_contract(const struct task *t);      /* to save its work */
void item_task(struct world *w, struct task *t);   /* in line or not, by its state */
void item_changed(struct world *w, struct task *t); /* its order or needs did */
void item_start(struct world *w, struct task *t);  /* its leases are there */
void item_told(struct world *w, struct task *t);   /* ... and were before */
void item_placed(struct task *t, uint64_t now_ms); /* told from then on */
void levels_load(struct world *w, struct task *const *tasks, size_t n);
void levels_policy(struct world *w);               /* after another policy */
void item_leaving(struct world *w, struct task *t);
void item_leaves(struct world *w, struct task *t); /* ... and did before */
void item_yields(struct world *w, struct task *t); /* another way to leave */
void item_gave(struct world *w, struct task *t, uint32_t rank);
void item_over(struct world *w, struct task *t, bool learn);
void item_keep(const struct world *w, struct task *t);   /* what it counts */
void item_again(struct world *w, struct task *t);  /* it runs, told anew */
void item_suspended(struct world *w, struct task *t);    /* told as suspended */
void item_loaded(struct world *w, struct task *t); /* if it is off */
void item_left(struct world *w, struct task *t);   /* off its devices */
void item_back(struct world *w, struct task *t);   /* on them */
void item_fewer(struct world *w, struct task *t);  /* ... a rank has ended */
void item_stranded(struct world *w, struct task *t); /* never back on them */
void usage_counted(const struct task *t);
void set_changed(struct world *w, struct set *s);
void sets_sync(struct world *w);
struct plan_item *task_item(const struct task *t); /* its own, or its set's */
bool item_next(struct world *w, struct event *ret);
void item_applied(struct world *w, const struct event *e);
void pending_clear(struct world *w);

/* Of those places of the decision that are of the part, in order of rank. */
void item_grants(const struct plan_decision *d, uint32_t part,
                 const struct spec_task *s, struct pending *ret);

/* check.c: may an attempt of it have so many? */
int check_ranks(const struct task *t, uint32_t ranks, struct err *err);

/* port.c */
/* For a gang of that many ranks; none is taken for a single one, nor when there
 * is none left.
 */
void port_take(struct world *w, struct task *t, uint32_t gen, uint32_t ranks);
void port_give(struct world *w, struct task *t);
bool port_load(struct world *w, struct task *t, uint64_t port);
bool port_right(const struct world *w, const struct task *t);

/* stage.c */
/* The generation of an attempt there: the next, or where it is staged and that
 * is elsewhere, the one after.
 */
uint32_t task_gen_at(const struct task *t, const struct grant *grants,
                     uint32_t n);
int check_staged(const struct world *w, const struct event *e,
                 const struct task *t, struct err *err);
int check_unstaged(const struct event *e, const struct task *t,
                   struct err *err);
void apply_staged(struct world *w, struct task *t, struct event *e);
int task_tell_staged(struct world *w, const struct task *t, struct err *err);
void task_stage_free(struct task_stage *s);        /* NULL is fine */
void task_unstage(struct world *w, struct task *t); /* if it is staged */
void block_unstage(struct world *w, const struct block *b);
void want_staged(const struct plan_decision *d, struct event *ret);
void want_unstaged(const struct plan_decision *d, struct event *ret);
json_t *stage_view(const struct task_stage *s);
int stage_load(const struct world *w, struct task *t, const json_t *row,
               const json_t *hidden);
bool stage_right(const struct task *t);            /* the plan has the same */

/* away.c */
int check_away(const struct world *w, const struct event *e, struct task *t,
               struct err *err);       /* suspending, recalled, resuming */
int check_moved(const struct event *e, const struct lease *l, struct err *err);
void apply_away(struct world *w, struct task *t, struct event *e);
void apply_moved(struct world *w, struct lease *l, const struct event *e);
bool away_next(const struct task *t, uint64_t now_ms, struct event *ret);
/* Told to, and not gone; also a torn one that is put back. */
bool away_leaves(const struct task *t);
bool away_resumes(const struct task *t);           /* on its way back, whole */
bool away_off(const struct task *t);               /* its devices are free */
bool away_torn(const struct task *t);              /* some ranks are, some not */
void away_ended(struct world *w, struct task *t, enum spec_cause cause,
                uint64_t now_ms);      /* a rank */
bool away_moves(const struct task *t);             /* or is about to */
bool away_under_way(const struct task *t);         /* some ranks are not there */
void away_round(struct world *w, struct task *t, uint64_t now_ms); /* over? */
void away_loaded(struct task *t);                  /* it is off */
void away_free(struct task_away *a);               /* NULL is fine */
bool task_suspends(const struct task *t);          /* its attempt can be */
/* The living attempt is on its devices since, and was there before for. */
uint64_t task_stretch_ms(const struct task *t);
uint64_t task_earlier_ms(const struct task *t);
void want_resuming(const struct plan_decision *d, struct event *ret);
json_t *away_view(const struct task *t);
json_t *away_hidden(const struct task_away *a);
int away_load(struct task *t, const json_t *row, const json_t *hidden);

/* idle.c: devices that are not used */
int check_idle(const struct event *e, const struct task *t, struct err *err);
void apply_idle(struct task *t, const struct event *e);
json_t *idle_view(const struct task_away *a);
json_t *idle_hidden(const struct task_away *a);
int idle_load(struct task_away *a, const json_t *row, const json_t *hidden);

/* promises.c */
json_t *promises_row(const struct world *w);
int load_promises_done(struct world *w, struct err *err);

/* remedy.c */
int check_device_health(const struct world *w, const struct event *e,
                        struct err *err);
int check_health(const json_t *device, struct err *err); /* of an inventory */
void apply_device_health(struct world *w, struct event *e);
void remedy_look(struct world *w, const struct block *b);
void remedy_free(struct device *d);
/* A device of a new inventory: as the block has had it, or as its row says. */
void remedy_keep(struct device *d, const struct block *b, const json_t *row);
/* Of the devices that it holds; NULL: none. */
const struct device *task_illest(const struct task *t);
enum remedy task_remedy(const struct task *t);     /* of that one */
bool remedy_next(const struct task *t, struct event *ret);

/* sig.c */
void task_sig(const struct task *t, struct predict_sig *ret);
void guesses_make(struct world *w, struct workload *wl); /* and what follows */
void task_relevel(const struct world *w, struct task *t);
uint64_t task_urgent_ms(const struct world *w, const struct task *t);
json_t *guesses_row(const struct workload *wl);
int guesses_load(struct workload *wl, const json_t *row);

/* money.c */
uint64_t grant_price(const struct world *w, const struct block *b,
                     const struct grant *g);
uint64_t price_of(uint64_t price_micro, uint64_t ms);    /* micro per hour */
void tenant_hold(struct world *w, struct tenant *t, int64_t milli,
                 int64_t price);
uint64_t budget_due_ms(struct world *w);

/* What stood idle while it waited, as the plan has it. */
struct plan_waited tenant_waited(const struct tenant *t);
void tenant_keep_waited(struct tenant *t);         /* its row has it */

/* limit.c: a lease was claimed, or a claimed one ends. */
void limit_hold(struct workload *wl, const struct lease *l);
void limit_drop(struct workload *wl, const struct lease *l);
/* When the workload is past its limits; UINT64_MAX: never, as things are. */
uint64_t limit_due_ms(const struct workload *wl);
void budgets_look(struct world *w);                /* who is over, who no more */

/* view.c, view_pool.c */
void view_time(json_t *j, const char *key, uint64_t ms);
void view_some(json_t *j, const char *key, uint64_t value);
void view_flag(json_t *j, const char *key, bool value);
void view_micro(json_t *j, const char *key, uint64_t micro);
json_t *view_epoch(const struct world *w);
json_t *view_kept(struct world *w);                /* the meter's row */
json_t *view_token_row(const struct token *t);     /* with its hash */
json_t *view_tenant_row(const struct world *w, const struct tenant *t);

/* load_pool.c */
int load_block(struct world *w, const char *key, const json_t *body,
               struct err *err);
int load_tenant(struct world *w, const char *key, const json_t *body,
                struct err *err);
int load_token(struct world *w, const char *key, const json_t *body,
               struct err *err);
int load_meta(struct world *w, const char *key, const json_t *body,
              struct err *err);
int load_tenants_done(struct world *w, struct err *err); /* parents, usage */
int load_windows_done(struct world *w, struct err *err);
void load_meter_done(struct world *w);
int grant_load(const json_t *j, struct grant *g);        /* its devices */
int bad_row(const char *key, const char *what, struct err *err);
