#pragma once

#include "plan/policy.h"
#include "plan/predict.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* plan - who starts where, who gives way, and why.
 *
 * Pure and incremental: the owner tells what changed (a node, a tenant, an
 * item, an end, time), plan_next says the next thing to do, the owner carries
 * it out and tells that, too.  The plan itself starts nothing.  The same state
 * gives the same decisions.  In a pool of up to 16 nodes a plan made anew from
 * the same state decides the same (plan_check, random_test.c); in one of up to
 * 256 as well, but for turns, moves, new promises, the wait for a better device
 * and whom a set of several ranks has killed (the loss grows with time), which
 * are looked for only when something happens that may help; for larger ones see
 * docs/plan.md.  Control plane, simulator, benchmarks and fuzzers
 * share it.
 *
 *   1. no device, CPU or memory (also not the host memory that holds the
 *      suspended and the staged) is promised beyond what a node has;
 *   2. an item starts whole (its least number of ranks) or not at all; one that
 *      was suspended goes on with the ranks that it had;
 *   3. a tenant never holds more than its limit, nor does any above it;
 *   4. what is reserved is not delayed beyond the policy's tolerance by what
 *      starts later, as far as the predicted ends hold;
 *   5. nobody is evicted unless the claimant can start then, and the claimant
 *      is named;
 *   6. whoever waits has a reason; whoever may start and waits longer than the
 *      policy's patience is overtaken by nobody who would take its place.
 *
 * An item is what starts together: one task, a gang, or a set of both.
 * Waiting items stand in queues of equal shape, tenant, priority and level;
 * only heads compete, and a shape that does not fit is asked again only when
 * room that could help it was made.  See line.c for the order and its cost.
 */
#define PLAN_UNLIMITED UINT64_MAX
enum { PLAN_DEVICES = 16 };            /* of one rank, at most */

struct plan;
struct plan_node;
struct plan_tenant;
struct plan_item;

struct plan *plan_new(void);
void plan_free(struct plan *p);
void plan_set_policy(struct plan *p, const struct policy *policy);
const struct policy *plan_policy(const struct plan *p);
struct predict *plan_predict(struct plan *p);      /* its own; learns at plan_end */
/* Time passes; never back.  Every call below happens at this time. */
void plan_tick(struct plan *p, uint64_t now_ms);
uint64_t plan_now(const struct plan *p);

/* ---- what there is ---- */

struct plan_device {
    const char *model;
    uint64_t memory;
};

struct plan_node_spec {
    const char *name;                  /* ties go to the smaller one */
    const char *pool;
    const char *domain;                /* of the network; "": none told */
    const char *const *labels;         /* "key=value" */
    uint32_t nlabels;
    uint64_t cpu_milli, memory;
    const struct plan_device *devices;
    uint32_t ndevices;
    bool suspends;                     /* items here can be suspended */
    bool roams;                        /* ... and go on at another such one of the pool */
    bool stages;                       /* items can be staged here */
};
struct plan_node *plan_node_add(struct plan *p,
                                const struct plan_node_spec *spec,
                                void *owner);
/* Closed: nothing new starts there.  What runs goes on. */
void plan_node_open(struct plan *p, struct plan_node *n, bool open);
void plan_device_open(struct plan *p, struct plan_node *n, uint32_t device,
                      bool open);
/* Nothing is there: nobody runs on it, and nobody's state is in its memory. */
void plan_node_remove(struct plan *p, struct plan_node *n);
void *plan_node_owner(const struct plan_node *n);

/* ---- tenants: a tree ---- */

struct plan_tenant_spec {
    const char *name;
    struct plan_tenant *parent;        /* NULL: at the top */
    uint32_t weight;                   /* among its siblings; 0: as 1 */
    uint64_t quota_milli;              /* guaranteed devices; 0: none */
    uint64_t max_milli;                /* PLAN_UNLIMITED */
    bool stopped;                      /* over its budget: nothing starts */
};
struct plan_tenant *plan_tenant_set(struct plan *p,
                                    const struct plan_tenant_spec *spec);
void plan_tenant_remove(struct plan *p, struct plan_tenant *t); /* has no item */
/* Decayed device-milliseconds, and as of when: it was counted last when what
 * the tenant holds changed, and from there it follows.  To keep across restarts.
 */
double plan_tenant_usage(const struct plan *p, const struct plan_tenant *t,
                         uint64_t *ret_ms);
void plan_tenant_load(struct plan *p, struct plan_tenant *t, double usage,
                      uint64_t at_ms);

/* ---- items ---- */

struct plan_need {                     /* of one rank */
    uint32_t gpu_milli;                /* 0, 1..999, or n * 1000 */
    uint64_t cpu_milli, memory;
    uint64_t gpu_memory;               /* least, of each device */
    const char *const *models;         /* any of these; none: any */
    const char *const *labels;         /* all of these, "key=value" */
    uint32_t nmodels, nlabels;
};

struct plan_part {                     /* ranks alike */
    struct plan_need need;
    uint32_t count, max;               /* max > count: elastic */
};

enum plan_near { NEAR_ANY, NEAR_DOMAIN, NEAR_NODE };  /* wish, kept if possible */

/* How it can be taken off its devices, best first. */
enum plan_yield { YIELD_SUSPEND, YIELD_CHECKPOINT, YIELD_KILL, YIELD_NEVER };

struct plan_item_spec {
    struct plan_tenant *tenant;
    int priority;
    const struct plan_part *parts;     /* copied; equal ones are shared */
    uint32_t nparts;
    enum plan_near near;
    bool one_pool;                     /* all ranks in one, or not at all */
    enum plan_yield yield;             /* SUSPEND: where the node can, else KILL */
    uint64_t ready_ms;                 /* it could have started since */
    uint64_t order;                    /* the last tie: smaller first; unique */
    uint64_t deadline_ms;              /* to have ended by; 0: none */
    uint64_t urgent_ms;                /* that is near from then on; 0: as the
                                          plan guesses when it looks */
    uint64_t below_ms;                 /* predicted way from its end to the end
                                          of all that waits for it; 0: nobody */
    uint8_t level;                     /* it joins the line with, and one more;
                                          0: as predict_level says then */
    uint64_t had_work;                 /* device-ms of earlier attempts */
    uint64_t had_ms;                   /* run time that counts as done */
    uint64_t bytes;                    /* each rank leaves in memory when it is
                                          suspended; 0: its own memory and all
                                          of its devices' */
    bool cold;                         /* never staged */
    struct predict_sig sig;
    void *owner;
};

enum plan_state {
    ITEM_HELD,                         /* out of line: paused, backing off */
    ITEM_WAITING, ITEM_STAGED, ITEM_RUNNING,
    ITEM_LEAVING,                      /* told to go, still there */
    ITEM_SUSPENDED,                    /* in line, bound to its node's memory */
};

struct plan_item *plan_add(struct plan *p, const struct plan_item_spec *spec);
void plan_hold(struct plan *p, struct plan_item *i, bool hold); /* not while it runs */
/* It is held, and predicted to be ready then: what it needs will have ended.  It
 * may be staged before, after all who wait; `ready` counts from when it is let
 * go.  0: that is not known any more.
 */
void plan_expect(struct plan *p, struct plan_item *i, uint64_t ready_ms);
void plan_reprioritise(struct plan *p, struct plan_item *i, int priority);
void plan_set_below(struct plan *p, struct plan_item *i, uint64_t below_ms);
void plan_progress(struct plan *p, struct plan_item *i, double progress);
void plan_set_yield(struct plan *p, struct plan_item *i,
                    enum plan_yield yield);
enum plan_state plan_state(const struct plan_item *i);
void *plan_owner(const struct plan_item *i);
uint64_t plan_work(const struct plan *p, const struct plan_item *i); /* device-ms so far */

struct plan_place {                    /* of one rank */
    struct plan_node *node;
    uint32_t part;
    uint32_t ndevices;
    uint16_t device[PLAN_DEVICES];     /* ascending */
};
/* Carried out: it holds these places from now on.  0, or -EBUSY when they do
 * not have the room (a journal from elsewhere): nothing has changed then.
 */
int plan_start(struct plan *p, struct plan_item *i,
               const struct plan_place *places, uint32_t n, struct err *err);
/* The same for one that was there before it was told of: what is suspended beside
 * it may hold more than it left, so nobody asks whether there is memory.
 */
int plan_runs(struct plan *p, struct plan_item *i,
              const struct plan_place *places, uint32_t n, struct err *err);
/* Told to go.  claimant: who gets the room (PLAN_EVICT), or NULL; until it
 * starts or leaves the line the room is nobody else's.  A plan that never gave
 * the decision (a replay, a load) has to come out the same.
 */
void plan_leaving(struct plan *p, struct plan_item *i,
                  struct plan_item *claimant);
/* A rank of it has ended before the others: that place is free, and those
 * behind it move up.  Never the last one: that is plan_end.
 */
void plan_gave(struct plan *p, struct plan_item *i, uint32_t place);
/* It is off its devices and in line again; suspended: its state is in the
 * memory of its nodes (`bytes` of each rank's).  cost_ms: what getting off took.
 */
void plan_left(struct plan *p, struct plan_item *i, bool suspended,
               uint64_t cost_ms);
/* It was suspended and goes on now: what getting on again took.  With cost_ms
 * above this says what a suspension costs there; see cost.h.
 */
void plan_resumed(struct plan *p, struct plan_item *i, uint64_t cost_ms);
/* It waits, and is told to have been suspended there: for an owner that makes
 * its items anew.  since_ms: when it left; cost_ms: what that took.
 */
void plan_suspended(struct plan *p, struct plan_item *i,
                    const struct plan_place *places, uint32_t n,
                    uint64_t since_ms, uint64_t cost_ms);
/* What each of its ranks leaves in memory, now that it was measured; not while
 * it is suspended.  0: all it has.
 */
void plan_set_bytes(struct plan_item *i, uint64_t bytes);
/* What the spec of an item made anew says: run time that counts as done, and
 * its level.
 */
uint64_t plan_ran(const struct plan *p, const struct plan_item *i);
uint8_t plan_level(const struct plan_item *i);
/* The level of one that may be asked to leave is as it was worked out last, and
 * holds until it has had so much work, while more is learned (predict_ranked).
 * To keep across restarts; 0: there is nothing to keep, as it may not be asked,
 * and once it may, its level is worked out from what is known then.  Loaded is
 * what still holds.
 */
uint64_t plan_level_until(const struct plan *p, const struct plan_item *i);
void plan_level_load(struct plan *p, struct plan_item *i, uint8_t level,
                     uint64_t until);
/* The k-th of those on their places, in no order; NULL: there are fewer. */
struct plan_item *plan_running(const struct plan *p, uint32_t k);
/* What was learned of suspending, of each model; to keep across restarts. */
typedef int (*plan_cost_f)(const char *model, const json_t *row, void *arg);
int plan_costs(const struct plan *p, plan_cost_f cb, void *arg);
int plan_cost_load(struct plan *p, const char *model, const json_t *row,
                   struct err *err);
/* Carried out (PLAN_STAGE): it stands ready on these nodes, and is in line or
 * held as before; held and not expected any more it is unstaged in a while.  It
 * holds the memory of its need there and no device; the devices of the places
 * are where it is thought to start.  0, or -EBUSY when it does neither, or a
 * node does not stage or has no such devices or memory: nothing has changed then.
 */
int plan_staged(struct plan *p, struct plan_item *i,
                const struct plan_place *places, uint32_t n, struct err *err);
/* ... (PLAN_UNSTAGE): no more.  It goes without saying when the item starts, is
 * held or over, and when a node of it is removed.
 */
void plan_unstaged(struct plan *p, struct plan_item *i);
/* Where it stands ready, and since when; 0: it does not. */
uint32_t plan_stage(const struct plan_item *i, const struct plan_place **ret,
                    uint64_t *ret_ms);
/* The k-th on it; NULL: there are fewer.  One with several ranks there may come
 * again.
 */
struct plan_item *plan_node_staged(const struct plan_node *n, uint32_t k);
/* It is over and forgotten.  learn: it ended by itself, so its time counts. */
void plan_end(struct plan *p, struct plan_item *i, bool learn);
uint32_t plan_places(const struct plan_item *i, const struct plan_place **ret);

/* ---- operators' windows ---- */

struct plan_window {
    char name[64];
    struct plan_tenant *tenant;        /* for whom; NULL: nobody at all */
    uint64_t from_ms, to_ms;
    struct plan_node *const *nodes;    /* which nodes, whole */
    uint32_t nnodes;
};
int plan_window_set(struct plan *p, const struct plan_window *w,
                    struct err *err);
void plan_window_remove(struct plan *p, const char *name);

/* ---- decisions ---- */

enum plan_what { PLAN_START, PLAN_EVICT, PLAN_STAGE, PLAN_UNSTAGE };
enum plan_cause {                      /* of an eviction */
    EVICT_PRIORITY, EVICT_QUOTA, EVICT_TURN, EVICT_MOVE, EVICT_SLICE
};
const char *plan_cause_name(enum plan_cause c);

struct plan_decision {
    enum plan_what what;
    struct plan_item *item;
    struct plan_item *claimant;        /* EVICT: who gets the room */
    enum plan_cause cause;
    enum plan_yield how;
    const struct plan_place *places;   /* START, STAGE; until the next call */
    uint32_t nplaces;
    double score;                      /* of the place; for the record */
};
/* The next thing to do at plan_now, or false.  Asking twice without doing it
 * gives the same answer.
 */
bool plan_next(struct plan *p, struct plan_decision *ret);
/* When to ask again if nothing else happens; UINT64_MAX: no need. */
uint64_t plan_wake_ms(const struct plan *p);

/* ---- promises ---- */

/* Claims and reservations follow from what was found when they were made, not
 * from where everybody stands now: an owner that makes its plan anew keeps them
 * and tells them again, the oldest first, when all others are told of, and
 * before plan_leaving.
 */

/* One that has to leave for somebody, told so or not yet. */
struct plan_victim {
    struct plan_item *item;
    enum plan_cause cause;
    enum plan_yield how;
    bool moves;                        /* to a place that is free */
    struct plan_place to;
};

/* Room that is being made: the claimant starts there when they are gone. */
struct plan_claim {
    struct plan_claim *next;
    struct plan_item *claimant;
    struct plan_place *places;         /* all it needs */
    uint32_t nplaces;
    struct plan_victim *victims;       /* still there */
    uint32_t nvictims;
    double loss;                       /* theirs, when it was made */
    bool loose;                        /* the places are not its own choice */
};
/* The oldest, or NULL. */
const struct plan_claim *plan_claims(const struct plan *p);
/* Copied but for `next`.  0, or -EINVAL when the claimant is held or has one
 * (it is in line, or moves), a victim is on no place, or a place is none:
 * nothing has changed then.
 */
int plan_claim_load(struct plan *p, const struct plan_claim *c,
                    struct err *err);
/* Has the item a claim that counts on that victim? */
bool plan_counts_on(const struct plan *p, const struct plan_item *i,
                    const struct plan_item *victim);

/* Places that one may have later. */
struct plan_reservation {
    struct plan_item *item;
    const struct plan_place *places;
    uint32_t nplaces;
    uint64_t made_ms;
    uint64_t start_ms, firm_ms;        /* now, and as it was promised first */
};
/* The k-th; false: there are fewer. */
bool plan_reserved(const struct plan *p, uint32_t k,
                   struct plan_reservation *ret);
/* Copied.  0, or -EINVAL when the item is not in line or has one, or a place is
 * none: nothing has changed then.
 */
int plan_reserved_load(struct plan *p, const struct plan_reservation *r,
                       struct err *err);

/* Grows when a claim or a reservation comes, changes or goes. */
uint64_t plan_promised(const struct plan *p);

/* ---- reasons ---- */

#define PLAN_REASONS(X) \
    X(NONE, "none") X(HELD, "held") X(ORDER, "order") X(RESERVED, "reserved") \
    X(DEVICES, "devices") X(CPUS, "cpus") X(MEMORY, "memory") \
    X(FRAGMENTED, "fragmented") X(HOST_MEMORY, "host-memory") \
    X(CLOSED, "closed") X(WINDOW, "window") X(QUOTA, "quota") \
    X(BUDGET, "budget") X(MAKING_ROOM, "making-room") X(BETTER, "better") \
    X(NEVER_DEVICES, "never-devices") X(NEVER_MODEL, "never-model") \
    X(NEVER_GPU_MEMORY, "never-gpu-memory") X(NEVER_CPUS, "never-cpus") \
    X(NEVER_MEMORY, "never-memory") X(NEVER_LABEL, "never-label") \
    X(NEVER_GANG, "never-gang") X(NEVER_QUOTA, "never-quota") \
    X(NO_NODE, "no-node")
enum plan_reason_code {
#define X(name, text) REASON_##name,
    PLAN_REASONS(X)
#undef X
    REASON_COUNT
};
const char *plan_reason_name(enum plan_reason_code c);

struct plan_reason {
    enum plan_reason_code code;
    uint32_t position;                 /* in line, from 1; 0: not in line */
    const struct plan_item *other;     /* who is ahead, reserved, or leaving */
    const struct plan_tenant *tenant;  /* QUOTA, BUDGET: whose */
    uint64_t want, have;               /* of what is lacking, its own unit */
    /* BETTER: the model it waits for, the one that is free, and how much later
     * it would end on that.
     */
    const char *better, *model;
    uint64_t later_ms;
    /* Predicted start, and its range; 0: not known. */
    uint64_t start_low_ms, start_ms, start_high_ms;
};
/* now_ms: when it is asked; the start is predicted for then. */
void plan_reason(struct plan *p, const struct plan_item *i, uint64_t now_ms,
                 struct plan_reason *ret);
/* Could it ever start on what there is, all open and empty?  In under 1 ms:
 * per kind of node, not per node.  REASON_NONE: yes.
 */
enum plan_reason_code plan_never(const struct plan *p,
                                 const struct plan_item *i);
/* Will it have ended by then, or be started by then, as predicted?  For
 * deadline and max_wait, which are said to be impossible at once.
 */
bool plan_can_end_by(struct plan *p, const struct plan_item *i,
                     uint64_t now_ms, uint64_t when_ms);

/* ---- where time went ---- */

/* Thousandths of a device (or CPU) times milliseconds; the four shares sum to
 * the total.  waste: idle while a waiting item would fit right now; idle_frag:
 * idle while items wait and none fits.
 */
struct plan_shares {
    uint64_t used, idle_nodemand, idle_frag, waste;
};
static inline uint64_t plan_shares_total(const struct plan_shares *s)
{
    return s->used + s->idle_nodemand + s->idle_frag + s->waste;
}
struct plan_meter {
    struct plan_shares devices, cpus;
    uint64_t suspending;               /* of used: device-time of getting off and on */
};
void plan_meter(const struct plan *p, struct plan_meter *ret);
/* As it will be at a later time if nothing happens until then. */
void plan_meter_at(struct plan *p, uint64_t now_ms, struct plan_meter *ret);
/* Per pool and model: call back with each. */
typedef void (*plan_meter_f)(const char *pool, const char *model,
                             const struct plan_shares *s, void *arg);
void plan_meter_each(const struct plan *p, plan_meter_f cb, void *arg);
void plan_meter_load(struct plan *p, const struct plan_meter *m);
int plan_meter_load_one(struct plan *p, const char *pool, const char *model,
                        const struct plan_shares *s);

/* Idle while a tenant, or one below it, waited for devices: `idle` (thousandths
 * of a device times milliseconds), and, while it waits, all that stood idle
 * while anybody did since that was `mark`.  To keep across restarts.
 */
struct plan_waited {
    uint64_t idle, mark;
    bool waits;
};
void plan_tenant_waited(const struct plan_tenant *t, struct plan_waited *ret);
void plan_tenant_waited_load(struct plan_tenant *t,
                             const struct plan_waited *w);
/* ... up to the time of that meter. */
uint64_t plan_waited_idle(const struct plan_waited *w,
                          const struct plan_meter *m);

/* ---- checking ---- */

/* The invariants and every index, worked out from nothing and compared. */
int plan_check(const struct plan *p, struct err *err);
size_t plan_waiting(const struct plan *p);
