#pragma once

#include "core/event.h"
#include "core/lease.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct plan_item;
struct plan_meter;
struct plan_node;
struct plan_tenant;
struct policy;
struct predict;

/* world - everything Weir knows, and what it decides from it.
 *
 * Pure: no I/O, no clock, no randomness, no global.  State changes only
 * through world_apply; world_step says which event the world itself wants to
 * happen next.  The same events give the same world and the same decisions on
 * every machine, so control plane, simulator, fuzzers and replay share it.
 *
 *   1. no device, CPU or memory is promised beyond what a block has;
 *   2. a gang is planned whole or not at all, and so is a `together` set;
 *   3. a task holds devices only between task.planned and its leases' ends;
 *   4. at most one lease of a (workload, task, rank) is not ended, and its
 *      generation is larger than that of every earlier one;
 *   5. every attempt has exactly one end per lease, every task one end;
 *   6. every task that waits has a reason (why.h).
 *
 * world_verify checks 1 to 5 on the whole state; tests call it after every
 * event.
 *
 * Who starts where, who gives way and why is the plan's to say (plan/plan.h);
 * the world tells it what happens and turns its decisions into events.  An
 * event is O(log n) in the tasks, unless it is about many: all of a workload,
 * all that need one, all leases of a block.
 */
#define TASK_STATES(X) \
    X(BLOCKED, "blocked")    /* its needs have not ended */ \
    X(WAITING, "waiting")    /* ready; waits for room, a retry's time or an unpause */ \
    X(STARTING, "starting")  /* planned, not all ranks claimed */ \
    X(RUNNING, "running")    /* every rank claimed its lease */ \
    X(SUSPENDED, "suspended") /* off its devices, its state in host memory */ \
    X(ENDING, "ending")      /* told to stop */ \
    X(ENDED, "ended")
enum task_state {
#define X(name, text) TASK_##name,
    TASK_STATES(X)
#undef X
    TASK_STATE_COUNT
};
const char *task_state_name(enum task_state s);

enum workload_state {        /* worked out from its tasks */
    WORKLOAD_QUEUED,         /* nothing ran yet */
    WORKLOAD_RUNNING,        /* something runs, or has run and more will */
    WORKLOAD_PAUSED,
    WORKLOAD_QUARANTINED,    /* after a restore: an operator decides */
    WORKLOAD_ENDED,
};
const char *workload_state_name(enum workload_state s);

struct lease {
    struct task *task;
    struct block *block;
    enum lease_state state;
    uint32_t rank, gen;
    struct grant grant;
    uint64_t planned_ms, claimed_ms;
    uint64_t price_micro;              /* of all its devices, for an hour */
    uint64_t from_ms;                  /* back on its devices since; 0: never
                                          off them */
    bool off;                          /* holds no device, CPU or memory: its
                                          task is, or was, suspended */
    struct lease *next_on_block, *prev_on_block;
    /* Of rank 0: how the attempt runs, if that was kept; see levels_keep. */
    bool ranked;
    uint8_t run_level;
    uint64_t run_until;                /* device-ms: the end of that level */
};

/* Something due at a time; in at most one of the world's heaps. */
struct timer {
    uint64_t due_ms;
    uint32_t slot;
    bool of_workload, asleep;
};

/* What a task says about its living attempt. */
struct progress {
    double value;                      /* 0..1; below 0: not said */
    json_t *metrics;                   /* {name: newest number} */
    json_t *history;                   /* [[ms, value or null, {metrics}], ...],
                                          bounded: see report.c */
    double still;                      /* the metric of stop_when, and */
    uint64_t still_ms;                 /* since when it is there; 0: not said */
};

/* A task that stands ready for its next attempt, while it waits. */
struct task_stage {
    uint32_t gen, ngrants;
    uint64_t since_ms;
    struct grant *grants;              /* of the ranks; devices: as thought */
    struct block **blocks;             /* likewise */
};

/* A living attempt that was asked to leave its devices.  See away.c. */
struct task_away {
    bool leaving;                      /* asked to go last, not to come back */
    bool putting_back;                 /* ... for one rank of it had failed */
    bool held;                         /* an operator wants it off */
    bool failed;                       /* a rank stays, others still move */
    bool idle;                         /* it is not in line: it has not wanted
                                          its devices since it left them */
    bool awake;                        /* its threads run while it is off */
    bool urgent;                       /* `priority` counts: of idle.c */
    int16_t priority;
    char idle_kind[12];                /* awake: its last use, and ... */
    uint64_t idle_used_ms, idle_grace_ms;
    bool counted;                      /* ran_ms and ran_work hold */
    uint8_t level;                     /* of the plan, when it left */
    uint32_t kept;                     /* failures in a row */
    uint64_t since_ms;                 /* off its devices; 0: on them */
    uint64_t stretch_ms;               /* back on them; 0: never off them */
    uint64_t wall_ms;                  /* of used_wall_ms: earlier stretches */
    uint64_t bytes;                    /* a rank leaves in memory; 0: not known */
    uint64_t moved_ms, moved_bytes;    /* the slowest and the largest rank */
    uint64_t off_ms;                   /* what leaving took */
    uint64_t ran_ms, ran_work;         /* by the plan's count, until it left or
                                          was told to the plan anew */
    char *by;                          /* who asked, or for whom it went */
    char *reason, *text;               /* of the last failure, or NULL */
};

enum preempting {            /* task.preempting was journalled, and how */
    PREEMPT_NOT, PREEMPT_STOP, PREEMPT_SUSPEND,
};

enum { REASON_MAX = 511 };             /* bytes; see task_reason */

struct task {
    struct workload *workload;
    const struct spec_task *spec;
    uint32_t index;
    uint8_t state, outcome, cause;     /* enum task_state, outcome, spec_cause */
    bool stopping;                     /* task.stopping was journalled */
    bool aborting, force;              /* it alone; see its workload's */
    bool paused;                       /* it alone */
    uint8_t preempting;                /* enum preempting */
    bool own_priority;                 /* `priority` is not its workload's */
    uint8_t stop_cause;                /* enum spec_cause */
    int16_t priority;
    int status;
    uint32_t gen;                      /* of the newest attempt; 0: none yet */
    uint32_t tries;                    /* attempts that counted against retries */
    uint32_t needs_left;
    uint64_t since_ms;                 /* of this state */
    uint64_t ready_ms;                 /* first time it could have started */
    uint64_t not_before_ms;            /* back-off of a retry */
    uint64_t started_ms, ended_ms;     /* first start, last end */
    uint64_t used_wall_ms, used_gpu_ms, used_cost_micro;
    uint64_t lost_gpu_ms;              /* of used: redone, for it gave way */
    uint64_t attempt_gpu_ms;           /* of used: by the living attempt */
    uint64_t for_workload;             /* to whom it gives way, and ... */
    uint32_t for_task;
    uint32_t ranks;                    /* of the newest attempt; 0: none yet */
    float score;                       /* of the newest attempt's places */
    uint32_t gens_staged;              /* generations after `gen` that were
                                          staged and never planned */
    struct progress *progress;         /* or NULL */
    struct task_stage *staged;         /* or NULL */
    struct lease *leases;              /* `ranks` of them while an attempt lives, else NULL */
    uint16_t leases_left;              /* not ended yet */
    uint16_t unclaimed;                /* of those: still planned */
    uint16_t losses;                   /* attempts lost in a row, all short */
    uint16_t port;                     /* where its ranks meet; 0: see
                                          task_port */
    uint64_t attempt_ms;               /* first claim of the living attempt; 0: none */
    struct task_away *away;            /* or NULL: never asked to leave */
    bool forced;                       /* a task.stopping with force was journalled */
    /* The world's own: in which of its lists the task is. */
    bool dirty, in_line;
    uint8_t level;                     /* with which it gets in line */
    uint32_t todo_slot;
    struct timer timer;                /* sleeps until, or is stopped at */
    struct plan_item *item;            /* of the plan; NULL: it has none, or
                                          waits as one of a set */
    uint64_t placed_ms;                /* the plan counts the attempt from here */
    uint64_t below_ms;                 /* predicted way below it; see sig.c */
    struct task *dirty_next;
};

/* What the claimed leases of a workload use up as time goes by: devices and
 * money for an hour, and the sums of each times its claim.  See limit.c.
 */
__extension__ typedef unsigned __int128 wide;

struct claims {
    uint64_t milli, price;
    wide milli_at, price_at;
};

struct workload {
    uint64_t id;
    struct spec *spec;
    struct event_user user;
    char *tenant_name, *who, *key, *hash;
    struct tenant *tenant;
    uint64_t submitted_ms, ended_ms, retry_of;
    bool paused, aborting, force, quarantined;
    bool limited;                      /* aborting: past its limits */
    int priority;                      /* the document's, or as set since */
    enum outcome outcome;
    struct task *tasks;                /* spec->ntasks */
    uint32_t count[TASK_STATE_COUNT];
    uint32_t outcomes[OUTCOME_COUNT];  /* of ended tasks */
    uint64_t used_gpu_ms, used_cost_micro, lost_gpu_ms;
    json_t *reasons;                   /* NULL, or {index: for a task's cause,
                                          in words} */
    uint32_t gen_floor;                /* attempts up to it are of before a restore */
    /* The world's own. */
    struct graph *graph;               /* dependents, sets */
    struct known_guess *guesses;       /* of its tasks, when it was submitted */
    uint32_t nguesses;
    bool started;                      /* some task was planned once */
    uint64_t started_ms;               /* first claim; 0: none yet */
    struct claims claims;
    bool dirty, given;                 /* given: its row has been given once */
    uint32_t expire_from;              /* tasks before it have ended */
    uint32_t abort_from;               /* tasks before it know of the abort */
    uint32_t end_slot, abort_slot;
    struct timer timer;                /* deadline or max_wait; limits */
    struct workload *next_gone, *dirty_next;
};

/* What the health of a device asks for, from weak to strong; see remedy.c. */
#define REMEDIES(X) \
    X(NONE, "none") X(NOTE, "note") X(ALERT, "alert") X(CORDON, "cordon") \
    X(DRAIN, "drain") X(MOVE, "move") X(RESTART, "restart")
enum remedy {
#define X(name, text) REMEDY_##name,
    REMEDIES(X)
#undef X
    REMEDY_COUNT
};
const char *remedy_name(enum remedy r);

struct device {
    char model[32];
    char uuid[48];                     /* "": it has none, as simulated ones */
    uint64_t memory;
    bool simulated, drained;
    bool lost;                         /* it does not answer: not to be used */
    json_t *rules;                     /* of health, {rule: {rule, state,
                                          action, text, since}}; or NULL */
    enum remedy remedy;                /* in force: the strongest of them */
    uint32_t free_milli;
};

struct block {
    char id[48], pool[64], engine[16], node[128], limits[32], domain[64];
    json_t *labels;                    /* {key: value} of the node */
    bool up, drained, simulated;
    bool shut;                         /* see block.shut */
    bool barred;                       /* its pool is drained, or looked at only */
    bool stages;                       /* tasks can be staged there */
    uint64_t staged;                   /* memory that those hold */
    bool suspends;                     /* tasks can be suspended there */
    bool images;                       /* tasks may name an image there */
    bool whole;                        /* devices are given whole alone */
    uint64_t parked;                   /* memory that those hold, beside
                                          memory_free */
    uint32_t ndevices;
    struct device *devices;
    uint64_t cpu_milli, cpu_free;
    uint64_t memory, memory_free;
    struct lease *leases;              /* not ended ones */
    struct plan_node *plan_node;       /* the world's own */
    uint64_t up_ms;
    bool dirty;                        /* the world's own */
};

/* What was said about a pool: that it is there, or that it is drained.  One
 * that is the control plane's own is never set: it is where its blocks are.
 */
enum { POOL_NAME_MAX = 31 };           /* of one that is set: in ids of blocks */

struct pool {
    char name[64], engine[16];
    bool set, observe, drained;
    json_t *conf;                      /* {key: text}, of the engine */
    char *note;
    uint64_t created_ms;
    bool dirty;                        /* the world's own */
};

enum budget_unit { BUDGET_GPU_HOURS, BUDGET_MONEY };
const char *budget_unit_name(enum budget_unit u);

/* So much in each period; periods are counted from 1970 on.  What the tenant
 * and those below it have spent in this one: `spent` up to `mark_ms`, and what
 * they hold since.  In millionths.
 */
struct budget {
    uint64_t amount, period_ms;        /* period 0: no budget */
    enum budget_unit unit;
    uint64_t spent, mark_ms;
    bool over;                         /* nothing new starts */
};

struct tenant {
    char name[SPEC_MAX_NAME + 1];
    struct tenant *parent;             /* or NULL */
    uint32_t quota_gpu_milli;          /* guaranteed; 0: none */
    struct budget budget;
    uint64_t sum_milli, sum_price;     /* held now, with those below: devices,
                                          money for an hour */
    uint64_t used_cost_micro, lost_gpu_ms;
    json_t *members;                   /* ["uid:1000", ...] */
    uint32_t max_gpu_milli;            /* UINT32_MAX: unlimited */
    uint64_t idle_grace_ms;            /* 0: the policy's */
    bool has_interactive;              /* what wants its devices back has */
    int16_t interactive;               /* this priority */
    uint32_t weight;
    char *note;
    uint32_t used_gpu_milli;           /* held right now */
    uint64_t used_gpu_ms, used_cpu_ms, tasks_ended;
    uint64_t created_ms;
    uint32_t live;                     /* workloads that have not ended */
    bool removed;
    bool waits;                        /* of its row, for devices; and what */
    uint64_t idle, idle_mark;          /* stood idle then: struct plan_waited */
    struct plan_tenant *plan_tenant;   /* the world's own; NULL when removed */
    double usage;                      /* of a loaded row, until it is told */
    uint64_t usage_ms;
    char *parent_name;                 /* likewise */
    bool dirty;                        /* the world's own */
};

struct token {
    char id[48], name[65], tenant[SPEC_MAX_NAME + 1], role[16], hash[65];
    uint64_t created_ms, expires_ms;   /* expires 0: never */
    struct event_user user;            /* what is submitted with it runs as them */
    bool revoked;
    bool dirty;                        /* the world's own */
};

/* Nodes kept for one tenant, or for nobody, for a while. */
struct window {
    char name[64];
    char tenant[SPEC_MAX_NAME + 1];    /* "": nobody */
    json_t *nodes;                     /* ["node1", ...] */
    uint64_t from_ms, to_ms;
    bool dirty;                        /* the world's own */
};

struct world;

struct world *world_new(void);
void world_free(struct world *w);

/* Would this event be accepted now?  0, or -ENOENT (no such workload, task,
 * tenant...), -EEXIST, -ESTALE (an old generation, or said already), -EBUSY,
 * -EINVAL, -EDQUOT, each with a text for the person who asked.
 */
int world_check(const struct world *w, const struct event *e, struct err *err);

/* Apply an event that world_check accepts; the same error when it does not,
 * and then nothing has changed.  Takes e->spec (left NULL in *e).
 */
int world_apply(struct world *w, struct event *e, struct err *err);

/* The next thing the world itself wants, to be journalled and applied before
 * asking again: 1 and *ret filled (caller clears), or 0.  Same world, same now
 * -> same answer.
 */
int world_step(struct world *w, uint64_t now_ms, struct event *ret);
/* Is a `together` set planned in part?  A batch must not end here: after a
 * crash the rest of the set would be planned alone.
 */
bool world_midway(const struct world *w);
/* While held, world_step starts nothing new; it goes on to settle, stop and
 * end.  For an owner that does not know yet what there is to plan on.
 */
void world_hold(struct world *w, bool hold);
/* When world_step should be asked again if nothing else happens; UINT64_MAX:
 * only after the next event.
 */
uint64_t world_wake_ms(struct world *w);

int world_verify(const struct world *w, struct err *err);

/* The tables: one row per object, in the very form that the API shows.  Rows
 * that changed since the last call are given once each; body NULL: the row is
 * to be deleted.  A workload that has ended is given one last time and then
 * forgotten: its row is its memory.
 */
enum world_table {
    TABLE_WORKLOAD, TABLE_TASK, TABLE_BLOCK, TABLE_TENANT, TABLE_TOKEN,
    TABLE_META, TABLE_COUNT
};
struct world_row {
    enum world_table table;
    char key[160];                     /* "12", "12/3", block id, tenant, token, "meter" */
    uint64_t workload;                 /* of workload and task rows */
    uint32_t task;
    bool live;                         /* workload not ended: load it at start */
    const char *tenant;                /* of workload rows: for an index */
    const struct spec *spec;           /* of a workload row the first time only: keep it beside */
    const char *body;                  /* JSON text, borrowed for the call */
};
typedef int (*world_row_f)(const struct world_row *row, void *arg);
int world_rows(struct world *w, world_row_f cb, void *arg);

/* Start-up: give back every live row (workload rows with their spec, which is
 * taken), in any order but workload before its tasks and tenants and blocks
 * before workloads; then world_loaded once.
 */
int world_load(struct world *w, enum world_table table, const char *key,
               const json_t *body, struct spec *spec, struct err *err);
int world_loaded(struct world *w, uint64_t last_seq, uint64_t last_ms,
                 struct err *err);

/* Reading. */
uint64_t world_seq(const struct world *w);
uint64_t world_time_ms(const struct world *w);
uint64_t world_epoch(const struct world *w);
uint64_t world_next_workload(const struct world *w);     /* the id for the next submit */
struct workload *world_workload(const struct world *w, uint64_t id);   /* live ones; NULL */
struct workload *world_by_key(const struct world *w, const char *who, const char *key);
/* Why `cause`, in words; NULL: nobody said. */
const char *task_reason(const struct task *t);
struct task *workload_task(const struct workload *wl, const char *name);
enum workload_state workload_state(const struct workload *wl);
/* Planned before a restore: its generation keeps the epoch it was planned in. */
bool lease_of_old(const struct lease *l);
struct tenant *world_tenant(const struct world *w, const char *name); /* not removed */
struct token *world_token(const struct world *w, const char *id);
struct block *world_block(const struct world *w, const char *id);
/* Any of which something was said; NULL: of none of this name. */
struct pool *world_pool(const struct world *w, const char *name);
struct pool *world_next_pool(const struct world *w, size_t *pos);
/* Of living attempts, those that have ended counted: they keep it there. */
uint64_t world_pool_leases(const struct world *w, const char *pool);
/* May it be the name of one that is set? */
int pool_name_check(const char *name, struct err *err);
/* The k-th task that stands ready there; NULL: there are fewer.  One with
 * several ranks there may come again.
 */
struct task *block_staged(const struct block *b, uint32_t k);
struct workload *world_next(const struct world *w, size_t *pos);       /* in order of id */
struct tenant *world_next_tenant(const struct world *w, size_t *pos);
struct token *world_next_token(const struct world *w, size_t *pos);
struct block *world_next_block(const struct world *w, size_t *pos);
/* Where the ranks of that generation meet, on the node of the first one. */
uint16_t task_port(const struct task *t, uint32_t gen);
struct window *world_next_window(const struct world *w, size_t *pos);
const struct policy *world_policy(const struct world *w);
struct predict *world_predict(const struct world *w);
uint64_t world_policy_version(const struct world *w);    /* 0: none was set */
/* Its living attempt may leave its devices unused for so long; 0: as long as it
 * likes, or it cannot leave them.
 */
uint64_t task_idle_grace_ms(const struct world *w, const struct task *t);
uint64_t budget_spent(const struct tenant *t, uint64_t now_ms); /* millionths */
/* Since the beginning, in device- and CPU-milliseconds times 1000. */
void world_meter(const struct world *w, uint64_t now_ms,
                 struct plan_meter *ret);
/* Device-milliseconds that stood idle while it waited for devices. */
uint64_t tenant_idle_ms(const struct world *w, const struct tenant *t,
                        uint64_t now_ms);
uint32_t world_waiting(const struct world *w);           /* tasks ready but not started */

/* The rows' bodies, made now (caller owns): what the API shows. */
json_t *view_workload(const struct workload *wl);
json_t *view_task(const struct task *t);
json_t *view_block(const struct block *b);
json_t *view_pool(const struct pool *p);
/* {action, rules: [...]}; NULL: nothing is the matter with it. */
json_t *view_health(const struct device *d);
json_t *view_tenant(const struct tenant *t);
json_t *view_token(const struct token *t);               /* hash left out */
/* The shares of each pool and model: [{pool, model, used, ...}]. */
json_t *view_meter_parts(const struct world *w);
json_t *view_window(const struct window *v);
json_t *view_policy(const struct world *w);              /* {version, policy} */
/* What was used and what it costs, by tenant, up to now. */
json_t *view_cost(const struct world *w, uint64_t now_ms);
