#include "cuda_in.h"

#include <string.h>

/* Lock, checkpoint, restore and unlock of another process.
 *
 * As the driver has it: a lock that cannot be had in time leaves the process
 * running and says "not ready"; a checkpoint that is refused leaves it locked;
 * a state that does not fit the call is an illegal one.
 */
static int fault(const char *key)
{
    return (int) standin_number("faults", key, 0);
}

static void take_ms(const char *key)
{
    standin_sleep_until(standin_now_ns() +
                        standin_number("faults", key, 0) * 1000000U);
}

API CUresult cuCheckpointProcessGetState(int pid, int *state)
{
    struct standin_proc *p = standin_map(pid);

    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    *state = (int) p->state;
    standin_unmap(p);
    return CUDA_SUCCESS;
}

API CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid)
{
    struct standin_proc *p = standin_map(pid);

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

static int lock_it(struct standin_proc *p, unsigned int ms)
{
    uint64_t end = standin_now_ns() + (uint64_t) ms * 1000000U;
    uint32_t running = STANDIN_RUNNING;

    if (!atomic_compare_exchange_strong(&p->state, &running, STANDIN_LOCKED))
        return CUDA_ERROR_ILLEGAL_STATE;
    while (!still(p)) {
        if (ms && standin_now_ns() >= end) {
            p->state = STANDIN_RUNNING;
            return CUDA_ERROR_NOT_READY;
        }
        standin_sleep_until(standin_now_ns() + 1000000);
    }
    return CUDA_SUCCESS;
}

API CUresult cuCheckpointProcessLock(int pid, struct CUcheckpoint_lock *args)
{
    struct standin_proc *p = standin_map(pid);
    unsigned int ms = args ? args->timeout_ms : 0;
    int rc = fault("lock");

    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_ERROR_NOT_READY)
        standin_sleep_until(standin_now_ns() + (uint64_t) ms * 1000000U);
    if (rc == CUDA_SUCCESS)
        rc = lock_it(p, ms);
    standin_unmap(p);
    return rc;
}

static int park(struct standin_proc *p)
{
    int rc = fault("checkpoint");

    if (p->state != STANDIN_LOCKED)
        return CUDA_ERROR_ILLEGAL_STATE;
    take_ms("checkpoint_ms");
    if (rc == CUDA_SUCCESS && p->unfit)
        rc = CUDA_ERROR_NOT_SUPPORTED;
    if (rc)
        return rc;
    for (int k = 0; k < STANDIN_DEVICES; k++) {
        p->parked_of[k] = atomic_exchange(&p->used[k], 0);
        p->parked += p->parked_of[k];
    }
    p->state = STANDIN_CHECKPOINTED;
    return CUDA_SUCCESS;
}

API CUresult cuCheckpointProcessCheckpoint(int pid, void *args)
{
    struct standin_proc *p = standin_map(pid);
    int rc;

    (void) args;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    rc = park(p);
    standin_unmap(p);
    return rc;
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

static int check_room(const struct standin_proc *p,
                      const struct CUcheckpoint_restore *args)
{
    for (int k = 0; k < STANDIN_DEVICES; k++) {
        uint64_t n = p->parked_of[k];
        int to = n ? target(k, args) : k;

        if (to < 0)
            return CUDA_ERROR_INVALID_VALUE;
        if (n && standin_used(to) + n > standin_total(to))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

static int unpark(struct standin_proc *p,
                  const struct CUcheckpoint_restore *args)
{
    int rc = fault("restore");

    if (p->state != STANDIN_CHECKPOINTED)
        return CUDA_ERROR_ILLEGAL_STATE;
    take_ms("restore_ms");
    if (rc == CUDA_SUCCESS)
        rc = check_room(p, args);
    if (rc)
        return rc;
    for (int k = 0; k < STANDIN_DEVICES; k++) {
        uint64_t n = atomic_exchange(&p->parked_of[k], 0);
        int to = n ? target(k, args) : k;

        p->used[to] += n;
        if (to != k)
            p->at[k] = (uint32_t) to + 1;
    }
    p->parked = 0;
    p->state = STANDIN_LOCKED;
    return CUDA_SUCCESS;
}

API CUresult cuCheckpointProcessRestore(int pid,
                                        struct CUcheckpoint_restore *args)
{
    struct standin_proc *p = standin_map(pid);
    int rc;

    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    rc = unpark(p, args);
    standin_unmap(p);
    return rc;
}

API CUresult cuCheckpointProcessUnlock(int pid, void *args)
{
    struct standin_proc *p = standin_map(pid);
    uint32_t locked = STANDIN_LOCKED;
    int rc = fault("unlock");

    (void) args;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS &&
        !atomic_compare_exchange_strong(&p->state, &locked, STANDIN_RUNNING))
        rc = CUDA_ERROR_ILLEGAL_STATE;
    standin_unmap(p);
    return rc;
}
