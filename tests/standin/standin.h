#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* standin - what the libcuda.so.1 and libnvidia-ml.so.1 made here agree on.
 *
 * They stand in for the vendor's driver on machines without a GPU, and behave
 * like it as far as tests go.  All state is in the folder $WEIR_STANDIN; without
 * that variable there is no driver.
 *
 *     driver      text, key=value a line: version=580.159.04, cuda=13000;
 *                 the file is not there: no driver is loaded
 *     gpu0 ...    text, key=value a line: what the device is and how it is
 *                 (uuid, model, memory, temperature, ..., lost=1, xid=79);
 *                 written by tests at any time, read at every question
 *                 memory is bytes
 *     faults      text, key=value a line: what is to go wrong; for libcuda the
 *                 result of init, retain, alloc, lock, checkpoint, restore,
 *                 unlock, state (a CUresult), and checkpoint_ms, restore_ms,
 *                 told (a state in place of the true one), fragile=1 (it dies
 *                 when its threads run meanwhile), left=1 (memory is not
 *                 cleared between processes); from lock on with ".PID"
 *                 behind them for one process alone
 *     hold        while it is there, no checkpoint and no restore ends;
 *     hold.PID    none of that process does
 *     mem/        what stands behind device memory, a file for each piece
 *     proc/PID    struct standin_proc, mapped: made by a process with its first
 *                 context; left behind by one that was killed, so who reads it
 *                 looks whether the process still lives
 */
#define STANDIN_VAR "WEIR_STANDIN"

enum { STANDIN_VERSION = 1, STANDIN_DEVICES = 16 };

enum standin_state {                   /* as the driver's checkpoint has it */
    STANDIN_RUNNING,
    STANDIN_LOCKED,
    STANDIN_CHECKPOINTED,
    STANDIN_FAILED,
};

enum standin_ask {
    STANDIN_NOTHING, STANDIN_FILLING,  /* it is being written */
    STANDIN_LOCK, STANDIN_TAKE, STANDIN_RESTORE,
};

struct standin_proc {
    uint32_t version;                  /* STANDIN_VERSION, written last */
    uint32_t tid;                      /* of the driver's own thread */
    _Atomic uint32_t state;            /* enum standin_state */
    _Atomic uint32_t contexts;         /* bit k: it has one on device k */
    _Atomic uint64_t busy_until_ns;    /* CLOCK_MONOTONIC: its kernels run */
    _Atomic uint64_t calls;            /* into the driver, all */
    _Atomic uint64_t used[STANDIN_DEVICES];    /* bytes on each device */
    _Atomic uint64_t parked;           /* bytes in host memory, checkpointed */
    _Atomic uint32_t unfit;            /* pieces no checkpoint takes: managed */
    _Atomic uint32_t in_calls;         /* threads that are in the driver */
    _Atomic uint64_t parked_of[STANDIN_DEVICES];   /* where they were */
    _Atomic uint32_t at[STANDIN_DEVICES];  /* where a restore put device k, + 1 */
    /* What the driver's thread is asked to do; it goes on with that also when
     * who asked has died, and nobody else is answered before it is over.
     */
    _Atomic uint32_t ask;              /* enum standin_ask */
    _Atomic uint32_t locking;          /* a lock waits for calls and kernels */
    _Atomic uint32_t asked, answered;  /* numbers of the last ones */
    int32_t rc;                        /* of the last one */
    uint32_t ms;                       /* a lock's limit; how long others take */
    int32_t fault;                     /* the result of one that is to fail */
    int32_t to[STANDIN_DEVICES];       /* where a restore puts device k */
};
