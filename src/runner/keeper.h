#pragma once

#include "runner/cgroup.h"
#include "runner/order.h"

#include <sys/types.h>

struct err;

/* keeper - the one parent of a lease's processes.
 *
 * Forked from the runner, without exec, one per lease; it starts the task,
 * copies what the task prints into the log, and when the task ends kills what
 * is left of it, writes the report and ends.  It outlives the runner; a
 * restarted runner finds it by the lock that it holds (folder.h).
 */
struct keeper {
    const char *path;          /* the lease's folder */
    const char *lease;         /* "w12/3.0#2@1" */
    const struct order *order;
    const struct cgroup *cgroup;
    uint64_t log_bytes;
    int lock;                  /* of folder_claim; stays the caller's */
};

/* The keeper's pid, or -errno. */
pid_t keeper_start(const struct keeper *k, struct err *err);

/* Tell a keeper: a signal for its task's group; SIGKILL for everything; or
 * KEEPER_COMMAND: run the command in the folder's file "stop".  By pid for a
 * child of ours, by pidfd for others.
 */
enum { KEEPER_COMMAND = 0 };
int keeper_tell(pid_t pid, int value);
int keeper_tell_fd(int pidfd, int value);
