#include "cuda_in.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Lock, checkpoint, restore and unlock of another process.
 *
 * As with the driver, the first three are carried out by its thread in that
 * process: they go on when who asked dies, and wait while the process is
 * stopped.
 *
 * As the driver has it: a lock that cannot be had in time leaves the process
 * running and says "not ready"; a checkpoint that is refused leaves it locked;
 * a state that does not fit the call is an illegal one.
 */
/* Of one process, "checkpoint.4711=2", or of all. */
static uint64_t fault_number(const char *key, int pid)
{
    char own[64];

    (void) snprintf(own, sizeof own, "%s.%d", key, pid);
    return standin_number("faults", own, standin_number("faults", key, 0));
}

static int fault(const char *key, int pid)
{
    return (int) fault_number(key, pid);
}

static void sleep_ms(uint64_t ms)
{
    standin_sleep_until(standin_now_ns() + ms * 1000000U);
}

/* The state of a thread, as /proc has it; 0: it is gone. */
static char thread_state(int pid, int tid)
{
    char path[64], line[256];
    const char *p = NULL;
    FILE *in;

    (void) snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, tid);
    in = fopen(path, "re");
    if (in && fgets(line, sizeof line, in))
        p = strrchr(line, ')');
    if (in)
        (void) fclose(in);
    return (char) (p ? p[2] : 0);
}

static bool stopped(int pid, int tid)
{
    char c = thread_state(pid, tid);

    return c == 't' || c == 'T' || c == 'Z' || c == 0;
}

static bool ended(int pid, int tid)
{
    char c = thread_state(pid, tid);

    return c == 'Z' || c == 'X' || c == 0;
}

/* With fragile=1 a process dies, as some do, when one of its own threads runs
 * while its memory is moved.
 */
static void shake(const struct standin_proc *p, int pid)
{
    char path[64];
    const struct dirent *e;
    DIR *dir;

    (void) snprintf(path, sizeof path, "/proc/%d/task", pid);
    dir = fault("fragile", pid) ? opendir(path) : NULL;
    while (dir && (e = readdir(dir))) {
        int tid = (int) strtol(e->d_name, NULL, 10);

        if (tid > 0 && tid != (int) p->tid && !stopped(pid, tid))
            (void) kill(pid, SIGSEGV);
    }
    if (dir)
        (void) closedir(dir);
}

/* The driver asks its thread in the process, and waits for it: while that is
 * stopped, and while it does what another asked for.
 */
static struct standin_proc *reach(int pid)
{
    struct standin_proc *p = standin_map(pid);

    while (p && (thread_state(pid, (int) p->tid) == 'T' ||
                 (p->ask != STANDIN_NOTHING && !ended(pid, (int) p->tid))))
        sleep_ms(1);
    return p;
}

/* Has p->ask carried out; what goes with it is filled in. */
static int carry_out(struct standin_proc *p, int pid, enum standin_ask what)
{
    uint32_t number = ++p->asked;

    p->ask = what;
    standin_wake(&p->ask);
    while (p->answered != number) {
        if (ended(pid, (int) p->tid))
            return CUDA_ERROR_UNKNOWN;
        if (what != STANDIN_LOCK)
            shake(p, pid);
        sleep_ms(1);
    }
    return p->rc;
}

API CUresult cuCheckpointProcessGetState(int pid, int *state)
{
    struct standin_proc *p = reach(pid);
    int rc = fault("state", pid);

    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    *state = (int) fault_number("told", pid);
    if (!*state)
        *state = (int) p->state;
    standin_unmap(p);
    return rc;
}

API CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid)
{
    struct standin_proc *p = reach(pid);

    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    *tid = (int) p->tid;
    standin_unmap(p);
    return CUDA_SUCCESS;
}

static bool still(const struct standin_proc *p)
{
    return p->in_calls == 0 && p->busy_until_ns <= standin_now_ns();
}

/* In the driver's thread, as park and unpark are. */
static int lock_it(struct standin_proc *p)
{
    uint64_t end = standin_now_ns() + (uint64_t) p->ms * 1000000U;
    int rc = CUDA_SUCCESS;

    if (p->state != STANDIN_RUNNING)
        return CUDA_ERROR_ILLEGAL_STATE;
    p->locking = 1;
    while (rc == CUDA_SUCCESS && !still(p)) {
        if (p->ms && standin_now_ns() >= end)
            rc = CUDA_ERROR_NOT_READY;
        else
            sleep_ms(1);
    }
    if (rc == CUDA_SUCCESS)
        p->state = STANDIN_LOCKED;
    p->locking = 0;
    return rc;
}

static bool held(const char *name)
{
    char path[512];

    return standin_path(path, sizeof path, name) && access(path, F_OK) == 0;
}

/* As long as it is to take.  Nothing that locks: the thread that has the lock
 * may be frozen.
 */
static void take_time(const struct standin_proc *p)
{
    char mine[32];

    (void) snprintf(mine, sizeof mine, "hold.%d", (int) getpid());
    sleep_ms(p->ms);
    while (held("hold") || held(mine))
        sleep_ms(1);
}

static int park(struct standin_proc *p)
{
    if (p->state != STANDIN_LOCKED)
        return CUDA_ERROR_ILLEGAL_STATE;
    take_time(p);
    if (p->fault)
        return p->fault;
    for (int k = 0; k < STANDIN_DEVICES; k++) {
        p->parked_of[k] = atomic_exchange(&p->used[k], 0);
        p->parked += p->parked_of[k];
    }
    p->state = STANDIN_CHECKPOINTED;
    return CUDA_SUCCESS;
}

static int unpark(struct standin_proc *p)
{
    if (p->state != STANDIN_CHECKPOINTED)
        return CUDA_ERROR_ILLEGAL_STATE;
    take_time(p);
    if (p->fault)
        return p->fault;
    for (int k = 0; k < STANDIN_DEVICES; k++) {
        uint64_t n = atomic_exchange(&p->parked_of[k], 0);
        int to = n ? p->to[k] : k;

        p->used[to] += n;
        if (to == k)
            continue;
        p->at[k] = (uint32_t) to + 1;
        p->contexts |= 1u << to;
    }
    p->parked = 0;
    p->state = STANDIN_LOCKED;
    return CUDA_SUCCESS;
}

int standin_carry_out(struct standin_proc *p)
{
    uint32_t ask = p->ask;

    switch (ask) {
    case STANDIN_LOCK:
        return lock_it(p);
    case STANDIN_TAKE:
        return park(p);
    case STANDIN_RESTORE:
        return unpark(p);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* One that asks at a time. */
static struct standin_proc *begin(int pid)
{
    for (;;) {
        struct standin_proc *p = reach(pid);
        uint32_t nothing = STANDIN_NOTHING;

        if (!p || atomic_compare_exchange_strong(&p->ask, &nothing,
                                                 STANDIN_FILLING))
            return p;
        standin_unmap(p);
        if (ended(pid, pid))
            return NULL;
    }
}

/* Whoever is killed before the thread knows what it is asked for leaves it to
 * wait for ever: so all is at hand before.
 */
static int ask(int pid, enum standin_ask what, uint64_t ms, int rc,
               const int32_t *to)
{
    struct standin_proc *p = begin(pid);

    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    p->ms = (uint32_t) ms;
    p->fault = rc;
    for (int k = 0; to && k < STANDIN_DEVICES; k++)
        p->to[k] = to[k];
    rc = carry_out(p, pid, what);
    standin_unmap(p);
    return rc;
}

API CUresult cuCheckpointProcessLock(int pid, struct CUcheckpoint_lock *args)
{
    uint32_t ms = args ? args->timeout_ms : 0;
    int rc = fault("lock", pid);

    if (rc == CUDA_ERROR_NOT_READY)
        sleep_ms(ms);
    return rc ? rc : ask(pid, STANDIN_LOCK, ms, CUDA_SUCCESS, NULL);
}

API CUresult cuCheckpointProcessCheckpoint(int pid, void *args)
{
    uint64_t ms = fault_number("checkpoint_ms", pid);
    int rc = fault("checkpoint", pid);
    struct standin_proc *p = reach(pid);

    (void) args;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS && p->unfit)
        rc = CUDA_ERROR_NOT_SUPPORTED;
    standin_unmap(p);
    return ask(pid, STANDIN_TAKE, ms, rc, NULL);
}

static int find_device(const CUuuid *id)
{
    CUuuid have;

    for (int k = 0; k < standin_devices(); k++) {
        (void) standin_uuid(k, &have);
        if (memcmp(&have, id, sizeof have) == 0)
            return k;
    }
    return -1;
}

/* Where the bytes of device k are to go; -1 when a pair names no device. */
static int target(int k, const struct CUcheckpoint_restore *args)
{
    for (unsigned int n = 0; args && n < args->count; n++) {
        if (find_device(&args->pairs[n].from) == k)
            return find_device(&args->pairs[n].to);
    }
    return k;
}

/* Where each goes, and whether it fits. */
static int check_room(const struct standin_proc *p,
                      const struct CUcheckpoint_restore *args, int32_t *ret)
{
    char name[16];

    for (int k = 0; k < STANDIN_DEVICES; k++) {
        uint64_t n = p->parked_of[k];
        int to = n ? target(k, args) : k;

        if (to < 0)
            return CUDA_ERROR_INVALID_VALUE;
        ret[k] = to;
        (void) snprintf(name, sizeof name, "gpu%d", to);
        if (n && standin_number(name, "lost", 0))
            return CUDA_ERROR_DEVICE_UNAVAILABLE;
        if (n && standin_used(to) + n > standin_total(to))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

API CUresult cuCheckpointProcessRestore(int pid,
                                        struct CUcheckpoint_restore *args)
{
    uint64_t ms = fault_number("restore_ms", pid);
    int rc = fault("restore", pid);
    struct standin_proc *p = reach(pid);
    int32_t to[STANDIN_DEVICES] = { 0 };

    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = check_room(p, args, to);
    standin_unmap(p);
    return ask(pid, STANDIN_RESTORE, ms, rc, to);
}

API CUresult cuCheckpointProcessUnlock(int pid, void *args)
{
    struct standin_proc *p = reach(pid);
    uint32_t locked = STANDIN_LOCKED;
    int rc = fault("unlock", pid);

    (void) args;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS &&
        !atomic_compare_exchange_strong(&p->state, &locked, STANDIN_RUNNING))
        rc = CUDA_ERROR_ILLEGAL_STATE;
    standin_unmap(p);
    return rc;
}
