#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct err;

/* hold - the threads of a process, kept still while its device is taken away.
 *
 * A program whose threads go on while the driver unmaps what they poll may die
 * of it (JAX does), so all but the driver's own thread, `keep`, stand still from
 * before the checkpoint until after the restore.
 *
 * They are seized by ptrace for the length of one operation: no signal is sent,
 * and a signal that comes meanwhile is delivered afterwards.  When the tracer
 * dies the kernel lets its tracees run on.  For as long as a task stays
 * suspended they are therefore left in a plain job-control stop instead
 * (hold_park), which nobody has to keep up: it outlives weir-gpud.
 *
 * All calls for one hold come from one thread: to the kernel that is the tracer.
 */
struct hold {
    pid_t pid, keep;
    unsigned n;
    struct hold_thread *threads;
};

/* 'T' of a thread in a job-control stop, 't' of one that is traced and stands
 * still, 'Z' of one that ended, as /proc has it; 0: there is none.
 */
char hold_state(pid_t pid, pid_t tid);

/* Stop them, also those that come to be meanwhile.  On failure none is held. */
int hold_take(pid_t pid, pid_t keep, struct hold *ret, struct err *err);
/* Forget those that were killed: until then their process does not end. */
void hold_reap(struct hold *h);
/* Let them run on; an empty hold is fine. */
void hold_let_go(struct hold *h);
/* Leave them stopped, with `keep` stopped, too, and nobody to trace them.  On
 * failure they are still held.
 */
int hold_park(struct hold *h, struct err *err);
/* `keep` of a parked process runs again, the others stay held. */
int hold_unpark(const struct hold *h, struct err *err);
