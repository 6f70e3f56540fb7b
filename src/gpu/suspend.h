#pragma once

#include "gpu/node.h"
#include "gpu/record.h"

#include <jansson.h>

/* suspend - takes a task off its devices and brings it back.
 *
 * Promises:
 *  1. All or none: when one process cannot be taken, those that were are
 *     restored and unlocked, in reverse, and the task runs on.
 *  2. Nothing is begun for which host memory is not there.
 *  3. Nothing is done to a process before a record says so on disk; after a
 *     crash suspend_recover undoes, keeps or finishes as that record says.
 *  4. A task is never killed here.  What cannot be brought back stays as it
 *     is, and can be asked for again; it is called suspended only when all of
 *     it is off its devices, as the driver says.
 *
 * The calls wait for the driver, seconds for each 10 GB: each comes from a
 * thread of its own.  Two for one task at a time are the caller's to prevent.
 */
#define SUSPEND_REASONS(X) \
    X(DONE, "done")                    /* none: it was done */ \
    X(BUSY, "busy")                    /* its kernels do not end in time */ \
    X(UNSUPPORTED, "unsupported")      /* the driver cannot: managed memory */ \
    X(MPS, "mps") X(MIG, "mig") \
    X(MEMORY, "memory")                /* host or device memory is short */ \
    X(GONE, "gone")                    /* a process ended meanwhile */ \
    X(LOST, "lost")                    /* the device does not answer */ \
    X(UNLIKE, "unlike")                /* the other device is another model */ \
    X(IDLE, "no-context")              /* nothing of it is on a device */ \
    X(STATE, "state")                  /* it is suspended, or it is not */ \
    X(DENIED, "denied") \
    X(THREADS, "threads")              /* a thread cannot be stopped */ \
    X(DRIVER, "driver")                /* none, too old, or it fails */ \
    X(NODE, "node")                    /* an error of this machine */
enum suspend_reason {
#define X(name, text) SUSPEND_##name,
    SUSPEND_REASONS(X)
#undef X
    SUSPEND_REASON_COUNT
};
const char *suspend_reason_name(enum suspend_reason r);

enum { SUSPEND_LOCK_MS = 10000, SUSPEND_LOCK_MAX_MS = 600 * 1000 };

struct suspend_ask {
    char task[RECORD_TASK + 1];
    bool resume;
    uid_t uid;                         /* who asks; 0 and our own may all */
    /* Of suspend: one of the two says which processes. */
    pid_t pid;                         /* 0: not given */
    char cgroup[1024];                 /* "": not given */
    bool hold;                         /* threads stand still meanwhile */
    uint64_t lock_ms;                  /* for all locks together */
    /* Of resume: devices to be used in place of others; those that the task
     * did not use say nothing.
     */
    unsigned ndevices;
    struct record_device devices[RECORD_DEVICES];
};

struct suspend_result {
    enum suspend_reason reason;
    char text[512];                    /* of a reason that is not DONE */
    bool known;                        /* where the task is now: */
    bool suspended;                    /* all that lives is off its devices */
    bool left;                         /* a recovery is to be tried again */
    unsigned processes, gone;
    uint64_t bytes;                    /* that were, or are, on devices */
    uint64_t lock_us, stop_us, checkpoint_us, restore_us, unlock_us;
};

struct suspend;
/* `dir` is made if need be; `spare` bytes of host memory stay free.
 * -EADDRINUSE: another has that folder.
 */
int suspend_open(const char *dir, uint64_t spare, struct suspend **ret,
                 struct err *err);
void suspend_close(struct suspend *s);             /* NULL is fine */
/* The operation for that task hangs: what it was promised is for others. */
void suspend_give_up(struct suspend *s, const char *task);

/* `now` is how the devices were a moment ago. */
void suspend_do(struct suspend *s, const struct suspend_ask *a,
                const struct node_report *now, struct suspend_result *ret);
/* What a record of before asks for; `task` is one of suspend_left. */
void suspend_recover(struct suspend *s, const char *task,
                     const struct node_report *now,
                     struct suspend_result *ret);
/* Calls `each` for every task whose record asks for something. */
int suspend_left(struct suspend *s, void (*each)(const char *task, void *arg),
                 void *arg, struct err *err);

/* {task, done, reason?, text?, processes, bytes, ...}; caller owns. */
json_t *suspend_result_json(const struct suspend_ask *a,
                            const struct suspend_result *r);
