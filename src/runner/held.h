#pragma once

#include "runner/account.h"
#include "runner/cgroup.h"
#include "runner/record.h"
#include "runner/runner.h"

#include <stdbool.h>

struct link;
struct loop;
struct map;
struct watch;

/* held - the leases a runner holds, between the wire and the records.  Shared
 * by runner.c (what home says) and held.c (what keepers do).
 */
enum held_state { HELD_NEW, HELD_RUNNING, HELD_ENDED };
enum { HELD_NOTHING = -1 };    /* of untold */

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
    char mark[64];             /* WEIR_BLOCK: of our folder, on this machine */
    bool welcome, rebooted;
    bool quitting;             /* told by home: until it wants us again */
    bool ending;               /* told by a signal: for good */
    unsigned running;
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

/* Its keeper is dead: kill what is left of it; then it has ended. */
void held_sweep(struct held *h);
void held_end_lost(struct held *h);

/* Called by the above when a record is there: ask home, once. */
void runner_claim(struct held *h);
/* Called by the above when a lease has ended: report and `state` are set. */
void runner_ended(struct held *h);
/* Called when a keeper runs, so that home hears of it unless it ends soon. */
void runner_tell_soon(struct runner *r);

/* said.c: what tasks say about themselves, to home. */
int said_open(struct runner *r, struct err *err);
void said_close(struct runner *r);
void said_tell(struct held *h);
void said_tell_all(struct runner *r);
void said_forget(const struct held *h);            /* and its file */

/* SIGCHLD: some keeper, or an orphan that fell to us, has ended. */
void held_reap(struct runner *r);
