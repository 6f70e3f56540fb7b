#pragma once

#include "runner/account.h"
#include "runner/cgroup.h"
#include "runner/order.h"

#include <stdbool.h>
#include <sys/types.h>

/* task - the way from a keeper's child to the user's program: session, limits,
 * user, folder, a clean environment, nothing inherited.
 */

/* Why the program could not be started, told to the keeper through memory that
 * both share; code 0: it was.
 */
struct task_failure {
    int code;                  /* errno */
    int status;                /* 126 or 127, as a shell would say */
    char text[256];
};

struct task {
    const struct order *order;
    const char *lease;         /* "w12/3.0#2@1" */
    const char *block;         /* WEIR_BLOCK: tells ours from those of others
                                * on the machine that have the same lease */
    const struct cgroup *cgroup;
    const struct account *account;
    const char *gate_lib;      /* libweir-gate.so; NULL: without the gate */
    const char *gate_socket;
    const char *folder;        /* in a container of its own: where that begins,
                                * and what it has is the task's; else NULL */
    char **env;                /* owned, NULL at its end */
    struct task_failure *failure;
    pid_t keeper;
    int out;                   /* standard output and error */
    int said;                  /* what it says about itself: PROGRESS_FD */
};

/* What it sees: sets env. */
void task_prepare(struct task *t);

/* In the child: become the task.  With `command` become that shell command
 * beside the task instead, which is told the task's pid.
 */
_Noreturn void task_exec(struct task *t, bool tracked, const char *command,
                         pid_t main_pid);
