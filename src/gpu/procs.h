#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* procs - the processes of a task, as what they are and not as numbers.
 *
 * A pid may be another process' by the time it is used.  Who was looked at is
 * known by its start time and held by a pidfd, and procs_alive is asked before
 * each use of the pid.
 */
enum { PROCS_MAX = 4096, PROCS_CGROUP = 1024 };

struct proc {
    pid_t pid;
    int fd;                            /* pidfd */
    uint64_t start;                    /* field 22 of /proc/PID/stat */
    uid_t uid;
};

struct procs {
    unsigned n;
    struct proc *all;                  /* by pid */
};

/* The process and all its descendants; a child whose parent ended is not found
 * this way.
 */
int procs_of_pid(pid_t pid, struct procs *ret, struct err *err);
/* All in a cgroup (version 2, its path as /proc/PID/cgroup has it) and in those
 * below it.
 */
int procs_of_cgroup(const char *path, struct procs *ret, struct err *err);
void procs_free(struct procs *p);

/* The process with that start time; -ESRCH: it is gone. */
int procs_open(pid_t pid, uint64_t start, struct proc *ret, struct err *err);
void procs_close(struct proc *p);
bool procs_alive(const struct proc *p);
/* Is it gone, or soon?  One that is being killed is no more to be worked with a
 * moment before it has ended.
 */
bool procs_ends(const struct proc *p, int wait_ms);
/* Its cgroup's path, of PROCS_CGROUP bytes; "" when it has none. */
void procs_cgroup(pid_t pid, char *path);
/* Of the running kernel: pids and start times are of one boot.  37 bytes. */
int procs_boot(char *ret, struct err *err);
