#pragma once

#include "runner/account.h"
#include "runner/cgroup.h"
#include "runner/order.h"

#include <sys/types.h>

struct err;

/* keeper - the one parent of a lease's processes.
 *
 * Forked from the runner, without exec, one per lease; it starts the task,
 * copies what the task prints into the log, and when the task ends kills what
 * is left of it, writes the report and ends.  It outlives the runner; a
 * restarted runner finds it by the lock that it holds (record.h).
 */
struct keeper {
    const char *dir;           /* the runner's */
    const struct lease_id *id;
    const char *lease;         /* "w12/3.0#2@1" */
    const char *block;         /* see task.h */
    const struct order *order;
    const struct account *account;
    const struct cgroup *cgroup;
    const char *gate_lib, *gate_socket;        /* see task.h */
    /* In a container of the lease's own, with a runner that is alone: the folder
     * that was started in, and what to add 1 to when the task has said something.
     * Such a keeper dies with its runner.  NULL, -1: not so.
     */
    const char *folder;
    int wake;
    uint64_t log_bytes;
    int record;                /* open and locked; stays the caller's */
};

/* The keeper's pid, or -errno. */
pid_t keeper_start(const struct keeper *k, struct err *err);

/* Tell a keeper: a signal for its task's group; SIGKILL for everything; or
 * KEEPER_COMMAND: run the command that the record has.  By pid for a
 * child of ours, by pidfd for others.
 */
enum { KEEPER_COMMAND = 0 };
int keeper_tell(pid_t pid, int value);
int keeper_tell_fd(int pidfd, int value);
