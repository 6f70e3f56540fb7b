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
    bool asked;                /* claim sent over this connection */
    bool told;                 /* `started` sent */
    bool stopping;
    pid_t pid;                 /* of the keeper, while it is our child */
    int pidfd;                 /* of a keeper found again; -1 */
    struct watch *watch;       /* of pidfd */
    struct watch *timer;       /* looking for a keeper, or for leftovers */
    struct watch *grace;
    int untold;                /* for a keeper not found yet */
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
    bool welcome, quitting, rebooted;
    unsigned running;
};

struct held *held_new(struct runner *r, const struct lease_id *id);
void held_free(struct held *h);                    /* forgets it, too */

/* The claim is granted: start its keeper.  A generation that was started
 * before, on whatever side of a restart, is not started again.
 */
void held_start(struct held *h);
/* Found on disk after a restart. */
void held_find(struct runner *r, const struct lease_id *id);
/* End it: by command or signal, and after the grace by SIGKILL. */
void held_stop(struct held *h, const struct wire_msg *m);
/* It ended without ever having run; told to home and kept where it can be. */
void held_end_unstarted(struct held *h, const char *cause);

/* Called by the above when a lease has ended: report and `state` are set. */
void runner_ended(struct held *h);
/* Called when a keeper runs, so that home hears of it unless it ends soon. */
void runner_tell_soon(struct runner *r);

/* SIGCHLD: some keeper, or an orphan that fell to us, has ended. */
void held_reap(struct runner *r);
