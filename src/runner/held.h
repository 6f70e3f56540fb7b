#pragma once

#include "runner/account.h"
#include "runner/cgroup.h"
#include "runner/gatepost.h"
#include "runner/record.h"
#include "runner/runner.h"

#include <stdbool.h>

struct alone;
struct gpuask;
struct link;
struct loop;
struct map;
struct move;
struct watch;

/* held - the leases a runner holds, between the wire and the records.  Shared
 * by runner.c (what home says) and held.c (what keepers do).
 */
enum held_state { HELD_NEW, HELD_RUNNING, HELD_ENDED };
enum { HELD_NOTHING = -1 };    /* of untold */
/* Where a task behind the gate is: on its devices, off them, or as weir-gpud
 * knows.
 */
enum move_where { MOVE_ON, MOVE_OFF, MOVE_UNSURE };

struct held {
    struct runner *runner;
    struct lease_id id;
    char name[LEASE_NAME_SIZE];
    json_t *task;              /* of a new one, unless found on disk */
    enum held_state state;
    bool made;                 /* its record is on disk */
    bool granted;              /* of a new one: may start */
    bool claimed;              /* and its record says so */
    bool asked;                /* claim sent over this connection */
    bool told;                 /* `started` sent */
    bool stopping;
    bool said;                 /* it has a progress file */
    uint64_t said_at_ms;       /* of what home heard over this connection */
    bool sweeping, found;      /* its keeper is dead; something was left */
    pid_t pid;                 /* of the keeper, while it is our child */
    int pidfd;                 /* of a keeper found again; -1 */
    struct watch *watch;       /* of pidfd */
    struct watch *timer;       /* the next attempt at what did not work */
    uint64_t wait_ms;          /* see transient.h */
    struct watch *grace;
    struct watch *retell;
    int untold;                /* for a keeper that could not be told yet */
    struct started started;
    struct report report;      /* once ended */
    bool behind;               /* the gate: has files there */
    struct gatepost *gate;     /* while it runs there */
    struct watch *find;        /* the next attempt to take up its post */
    uint64_t find_ms;
    struct gatepage_seen seen; /* there, as home heard of it last */
    uint64_t seen_ms;          /* the loop's time */
    bool seen_told, spoilt;
    enum move_where where;
    char *devices;             /* owned: by name, as it sees them; or NULL */
    uint64_t device_memory;    /* it may have on each of them; 0: no limit */
    uint64_t context;          /* and for each process beyond that */
    enum order_nodes nodes;    /* that it can open */
    bool nodes_late;           /* settled with the next sample */
    unsigned turn;             /* counts changes of where it may be */
    struct move *move;         /* under way; or NULL */
};

struct runner {
    const struct runner_conf *conf;
    struct loop *loop;
    struct link *link;
    struct map *held;          /* name -> held */
    struct map *keepers;       /* pid -> held */
    struct records records;
    struct cgroup cgroup;
    struct accounts accounts;
    struct watch *tell;        /* for `started` of what runs a while */
    struct watch *idle;
    struct watch *sweep;
    uint64_t sweep_ms;
    int files;                 /* inotify of what tasks say; -1 */
    struct watch *files_watch;
    struct gateposts gates;
    char *gate_dir;            /* owned: of gates */
    struct watch *telemetry;   /* of the devices */
    struct gpuask *sample;     /* under way; or NULL */
    json_t *minors;            /* of devices: UUID -> number; or NULL */
    bool nodes_told;           /* that they cannot be closed */
    json_t *strays;            /* of the last look: what -> turn; or NULL */
    uint64_t sample_ms;        /* since then */
    struct watch *health;      /* health.c: of the devices */
    struct gpuask *changes;    /* of it, as weir-gpud tells; or NULL */
    bool health_asked;         /* all there is, and not answered yet */
    struct watch *look;        /* at what tasks do behind the gate */
    char mark[64];             /* WEIR_BLOCK: of our folder, on this machine */
    bool welcome, rebooted;
    bool refused;              /* why this attempt came to nothing is said */
    char away[512];            /* why home is, as said last; "": it is not */
    bool quitting;             /* told by home: until it wants us again */
    bool ending;               /* told by a signal: for good */
    unsigned running;
    struct alone *alone;       /* or NULL: it has as many leases as come */
};

struct held *held_new(struct runner *r, const struct lease_id *id);
void held_free(struct held *h);                    /* forgets it, too */

/* It is ordered, `task` is set: make its record, then claim it.  A machine
 * that has no room for it now is asked again until it has.
 */
void held_order(struct held *h);
/* The claim is granted: start its keeper, as soon as the machine can.  A
 * generation that was started before, on whatever side of a restart, is not
 * started again.
 */
void held_start(struct held *h);
/* Found on disk after a restart.  Fails when nothing certain can be said of
 * it; then it is left as it is.
 */
int held_find(struct runner *r, const struct lease_id *id, struct err *err);
/* End it: by command or signal, and after the grace by SIGKILL. */
void held_stop(struct held *h, const struct wire_msg *m);

/* The pid of its keeper; 0: not known yet. */
pid_t held_keeper(struct held *h);
/* Let a task that is stopped, in the sense of job control, run. */
void held_continue(struct held *h);

/* Its keeper is dead: kill what is left of it; then it has ended. */
void held_sweep(struct held *h);
void held_end_lost(struct held *h);

/* Called by the above when a record is there: ask home, once. */
void runner_claim(struct held *h);
/* Called by the above when a lease has ended: report and `state` are set. */
void runner_ended(struct held *h);
/* Tell home of the end, as soon as it may be told. */
void runner_tell_end(struct held *h);
/* It was told to end, and nothing runs. */
void runner_end_if_done(struct runner *r);
/* Called when a keeper runs, so that home hears of it unless it ends soon. */
void runner_tell_soon(struct runner *r);

/* said.c: what tasks say about themselves, to home. */
int said_open(struct runner *r, struct err *err);
void said_close(struct runner *r);
void said_tell(struct held *h);
void said_tell_all(struct runner *r);
void said_forget(const struct held *h);            /* and its file */

/* Who the order's task runs as; borrowed until the next call. */
const struct account *held_account(struct runner *r, const struct order *o);

/* behind.c: tasks behind the gate.  behind_open does nothing for an order that
 * is to run without, and refuses one that is to wait all the same; `found` is
 * for what ran before we were started.
 */
void behind_init(struct runner *r);
void behind_clear(struct runner *r);
int behind_open(struct held *h, const struct order *o,
                const struct account *a, bool found, struct err *err);
void behind_find(struct held *h, json_t *task);
void behind_close(struct held *h);
void behind_set(struct held *h, const char *state);
/* "suspended" for all that may be off their devices; "": it is not there. */
const char *behind_state(const struct held *h);
void behind_look(struct held *h);                  /* home hears how it is */

/* move.c: off its devices and back; answered by `moved`. */
void move_suspend(struct held *h, const struct wire_msg *m);
void move_resume(struct held *h, const char *devices);     /* NULL: the same */
void move_close(struct held *h);

/* reach.c: which device nodes a task can open, as its order and its gate say;
 * or, before a resume, those of its devices and of `more` ("A,B", or NULL).
 */
void reach_settle(struct held *h);
void reach_open(struct held *h, const char *more);
/* The numbers of devices, from a sample. */
void reach_learn(struct runner *r, const json_t *devices);

/* stray.c: processes that use a device otherwise than a lease says, in a list
 * for home: those that this look at the devices shows, and the one before.
 * The caller owns it.
 */
json_t *stray_look(struct runner *r, const json_t *devices);

/* machine.c: has the machine started anew since we were here last?  And now we
 * were.
 */
int machine_check(struct runner *r, struct err *err);
int machine_note(const struct runner *r, struct err *err);
/* Which limits hold here, for whoever shows the block; with our pid, so that
 * they are known to be ours.
 */
int machine_limits(struct runner *r, struct err *err);

/* telemetry.c: how the node's devices are, to home. */
void telemetry_start(struct runner *r);
void telemetry_stop(struct runner *r);

/* health.c: what is the matter with them, to home. */
void health_start(struct runner *r);
void health_stop(struct runner *r);

/* SIGCHLD: some keeper, or an orphan that fell to us, has ended. */
void held_reap(struct runner *r);
