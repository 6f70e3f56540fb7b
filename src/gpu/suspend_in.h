#pragma once

#include "gpu/cuda.h"
#include "gpu/hold.h"
#include "gpu/procs.h"
#include "gpu/room.h"
#include "gpu/suspend.h"

#include <pthread.h>

/* suspend_in - what the files of suspend share: one operation on one task, in
 * one thread.
 */
struct promise {
    char task[RECORD_TASK + 1];
    struct room_need need;
};

struct suspend {
    char *dir;
    int fd;                            /* of the folder, locked */
    uint64_t spare;
    pthread_mutex_t lock;              /* of what follows */
    pthread_cond_t opened;             /* `opening` is over */
    bool opening;
    struct cuda cuda;
    unsigned npromises;                /* host memory, to operations under way */
    struct promise *promises;
};

/* A process with a context.
 *
 * The driver is asked through its thread in that process.  While the whole
 * process is stopped no question about it is answered, nor does it fail: it
 * waits for ever.  So who that thread is stands in the record, and it is made
 * to run before the driver is asked anything.
 */
struct one {
    struct proc proc;
    pid_t tid;                         /* of the driver's thread in it */
    unsigned rec;                      /* its number in the record */
    uint64_t bytes, on[DEVICE_MAX];    /* ... on each of the node's, if told */
    bool known;                        /* where it is: */
    enum cuda_state at;
    bool was_back;                     /* an undo found it locked or taken */
    struct hold hold;
};

struct op {
    struct suspend *s;
    const struct suspend_ask *ask;     /* NULL in a recovery */
    const struct node_report *now;
    struct suspend_result *res;
    struct record rec;
    unsigned n;
    struct one *all;
};

/* How long a process that fails a step is given to turn out to be ending. */
enum { ENDING_MS = 200 };

/* Why not.  Returns -1. */
int op_refuse(struct op *o, enum suspend_reason why, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int op_refuse_err(struct op *o, enum suspend_reason why, const struct err *err);
/* The same for what the driver answered about a process. */
int op_refuse_rc(struct op *o, struct one *p, const char *call, int rc);
/* What went wrong besides. */
void op_also(struct op *o, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The library, loaded with the first operation. */
int op_begin(struct op *o);
/* May who asks do this to what is of `uid`? */
bool op_allowed(const struct suspend_ask *a, uid_t uid);
/* Is it ending? */
bool op_ends(struct one *p);

/* The record, in that phase; as what is left of a task that could not be brought
 * back; and away with it.
 */
int op_save(struct op *o, enum record_phase phase);
void op_save_left(struct op *o);
void op_forget(struct op *o);

/* What o->ask wants. */
void op_suspend(struct op *o);
void op_resume_task(struct op *o);
/* Open again who is in the record; the others are gone. */
int op_reopen(struct op *o);
/* Does what was taken fit where it is to go?  A restore for which the device has
 * no room may fail for good: the driver cannot be asked a second time.
 */
int op_fits(struct op *o);
/* Resume as the record says. */
void op_finish(struct op *o);

/* Stop its threads. */
int op_hold(struct op *o, struct one *p);
/* Checkpoint one that is locked and whose threads are held. */
int op_take(struct op *o, struct one *p);
/* The threads of one that was taken: parked, or let go, as the record says. */
int op_settle(struct op *o, struct one *p);

/* Undo a suspend: bring back all that can be.  True: the task runs.  In a
 * recovery a lock may be under way still: who runs is asked about until that
 * cannot be.
 */
bool op_undo(struct op *o);
/* Bring all back, where the record says, or leave all suspended. */
int op_resume(struct op *o);
