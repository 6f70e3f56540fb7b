#pragma once

#include "api/service.h"
#include "base/err.h"
#include "control/control.h"
#include "core/event.h"
#include "core/world.h"
#include "engine/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api;
struct engine;
struct engine_events;
struct engine_ops;
struct home;
struct loop;
struct map;
struct store;
struct watch;

/* The block of the control plane's own pool; those of others are named after
 * their pool, see pools.c.
 */
#define CONTROL_BLOCK "local"

/* What waits for an event to be durable: a reply to whoever asked for it, and
 * the action that follows from it.
 */
struct effect {
    uint64_t seq;
    service_done_f done;               /* may be NULL */
    void *arg;
    enum event_type type;
    uint64_t workload;
    uint32_t task, rank, gen;
    uint64_t epoch;                    /* of an end: its lease's */
    char block[48];                    /* of the runner to acknowledge; may be "" */
    char on[48];                       /* of an end: the block of its lease */
    char pool[POOL_NAME_MAX + 1];      /* of what is about one; may be "" */
};

/* A pool and the engine that it is reached by. */
struct reached {
    struct control *c;
    char name[64];
    const struct engine_ops *ops;
    struct engine *engine;             /* NULL: it could not be opened */
    bool own;                          /* by the flags; never in the journal */
    json_t *conf;                      /* that it was opened with, and ... */
    bool observe;
    bool said, reachable;              /* its word on that, if it said one */
    char why[256];                     /* it cannot be reached, or opened */
    bool full;                         /* output cannot be kept; it is said */
    struct watch *close;               /* its pool is gone, and soon it is, too */
};

/* A block, as its engine tells of it. */
struct heard {
    char id[48];
    struct reached *of;
    char *token;                       /* of its runner */
    json_t *inventory;                 /* refused for now: what runs there
                                          holds more; else NULL */
    struct watch *again;               /* ... and is proposed again */
    bool lied;                         /* its runner spoke of another's lease */
};

/* An epoch and when it began. */
struct epoch {
    uint64_t epoch, since_ms;
};

struct control {
    const struct control_conf *conf;
    struct loop *loop;
    struct store *store;
    struct world *world;
    struct home *home;
    struct outside *outside;           /* NULL: no runner dials from elsewhere */
    struct map *pools;                 /* name -> struct reached */
    struct map *leaving;               /* likewise: of pools that are gone */
    struct map *blocks;                /* id -> struct heard */
    struct api *api;
    struct guests *guests;             /* guests.c; NULL: there was none yet */

    struct effect *effects;            /* in order of seq: a queue [first, count) */
    size_t first, count, room;

    struct map *held;                  /* lease key -> struct held: what runners
                                          were told or told us */
    struct map *alone;                 /* name of a runner that has one lease
                                          and is here -> its address */
    struct map *stages;                /* lease key -> struct staged: what
                                          stands ready; see staged.c */

    unsigned char runners_key[32];     /* identity.c */
    char instance[17];

    uint64_t first_epoch;              /* of a new store in a used folder; else 0 */
    struct epoch *epochs;              /* oldest first; the first is that of the first day */
    size_t nepochs;

    struct watch *flush, *wake, *probe, *leave;
    struct watch *silent;              /* blocks.c: nothing starts so far */
    struct watch *aging;               /* staged.c */
    struct watch *moving;              /* moving.c */
    struct watch *idling;              /* idle.c */
    struct watch *observing;           /* observe.c */
    json_t *rows, *totals;             /* ... and what is not durable yet, and
                                          sums by pool since the start */
    json_t *telemetry;                 /* telemetry.c; block id -> {at, devices} */
    json_t *strays;                    /* stray.c; block id -> {what: evidence} */
    struct watch *trim, *sweep;        /* retention.c */
    json_t *logs;                      /* [pool, workload] whose logs are
                                          looked at */
    uint64_t wall_base, mono_base;     /* control_now counts from here */
    uint64_t started_ms, leaving_ms;
    char trouble[512];                 /* why writes are refused; "" when all is well */
    bool draining, closing;
    int rc;                            /* why the loop was stopped; 0: asked to */
    struct err err;
    int lock;
};

/* control.c */
uint64_t control_now(struct control *c);
/* What is journalled first, on a start and after a store that failed. */
int control_begin(struct control *c, struct err *err);
/* End the program with this error. */
void control_fail(struct control *c, int rc, const struct err *err);

/* journal.c: propose, apply, journal, act. */

/* Check, number, journal and apply one event, which is cleared whatever comes
 * of it.  `done` (may be NULL) is called once it is durable, or when the store
 * fails; not when this returns an error.
 */
int journal_event(struct control *c, struct event *e, service_done_f done,
                  void *arg, struct err *err);
/* Let the world decide at the end of this turn of the loop. */
void journal_soon(struct control *c);
/* Is the event that put this lease where it is still on its way to the disk?
 * Then its effect will act.
 */
bool journal_pending(const struct control *c, enum event_type type,
                     const struct lease *l);
void journal_durable(uint64_t seq, void *arg);
void journal_failed(const struct err *err, void *arg);
void journal_close(struct control *c);

/* leases.c, settle.c: what runners are told and what they tell. */
void leases_act(struct control *c, const struct effect *f);
/* After the last of those that wait: everything that is known is durable. */
void leases_swept(struct control *c);
int leases_open(struct control *c, struct err *err);
void leases_close(struct control *c);

/* identity.c: what this state folder is to what is not in it.  Read, or made at
 * the first start.
 */
int identity_open(struct control *c, struct err *err);
/* The token of a runner that has one lease: the same after any restart. */
enum { IDENTITY_TOKEN_SIZE = 65 };
void identity_token(const struct control *c, const char *runner, char *ret);

/* The epoch in which something was at that time. */
uint64_t serve_epoch_at(const struct control *c, uint64_t ms);

/* telemetry.c: how devices are. */
void telemetry_take(struct control *c, const char *block,
                    const struct wire_msg *m);
const json_t *telemetry_find(const char *block, const char *uuid, void *arg);

/* stray.c: who uses them otherwise than a lease says. */
void stray_take(struct control *c, const char *block,
                const struct wire_msg *m);
const json_t *stray_find(const char *block, void *arg);

/* idle.c: what is known of its use of its devices; see service.h. */
json_t *idle_find(const struct task *t, void *arg);

/* health.c: what is the matter with them, into the journal. */
void health_take(struct control *c, const char *block,
                 const struct wire_msg *m);

/* blocks.c: what engines say of blocks; `arg` is a struct reached. */
void blocks_up(const char *block, const char *token, const json_t *inventory,
               void *arg);
void blocks_lost(const char *block, const char *why, void *arg);
/* Hold the world until every block has said what it is; those that do not, or
 * cannot, are shut, and the others go on.
 */
void blocks_hold(struct control *c);
void blocks_look(struct control *c);
/* Its engine does not have it any more. */
void blocks_missing(struct control *c, const char *block);
/* Shut those of a pool until they are up again. */
void blocks_doubt(struct control *c, const char *pool);
/* Of a pool, or all (NULL): nobody speaks for them any more. */
void blocks_forget(struct control *c, const struct reached *of);

/* pools.c: pools and their engines. */
int pools_open(struct control *c, struct err *err);
/* All but our own, which is there. */
void pools_begin(struct control *c);
void pools_close(struct control *c);
/* Of a block, by its id: also of a pool that is gone and not closed yet. */
struct reached *pools_of(const struct control *c, const char *block);
/* A pool was set or removed, and that is durable. */
void pools_act(struct control *c, const char *name, bool removed);
/* The world was loaded again: as it says, and every block anew. */
int pools_again(struct control *c, struct err *err);
int pools_check(const char *name, const char *engine, const json_t *conf,
                bool observe, struct err *err, void *arg);
json_t *pools_seen(const char *name, void *arg);
bool pools_find(const char *name, struct service_pool *ret, void *arg);

/* observe.c: what stood idle in pools that are observed, into the journal. */
void observe_start(struct control *c);
/* The last word of all: they are journalled, and nothing is looked at after. */
void observe_stop(struct control *c);
/* The engine of this pool is about to be closed. */
void observe_leave(struct control *c, struct reached *r);
void observe_close(struct control *c); /* before the journal is */
/* Rows that the store may not have yet, the one under way last. */
json_t *observe_rows(const char *pool, bool going, void *arg);
json_t *observe_totals(const char *pool, void *arg);

/* order.c: one rank of an attempt, or of one that is staged. */
struct order_of {
    const struct task *task;
    const struct grant *grant;
    const struct block *block;
    uint32_t ranks, rank, gen;
    bool staged;
    const char *meet;                  /* address of the first rank; NULL or "":
                                        * this machine's own */
};
json_t *order_json(const struct control *c, const struct order_of *f);

/* retention.c: old history and its logs. */
void retention_start(struct control *c);
void retention_stop(struct control *c);

/* serve.c */
int serve_epochs(struct control *c, struct err *err);
extern const struct service_ops control_service;
