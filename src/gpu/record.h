#pragma once

#include "gpu/nvml_types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* record - what is being done to a task, on disk before it is done.
 *
 * One file for each task that is not running as if nothing had been.  It says
 * which processes are concerned and what was meant; how far that went is asked
 * of the driver, which knows each process' state.
 *
 *     suspending   undo it: restore and unlock what is not running
 *     suspended    leave it: all of them are off their devices
 *     resuming     finish it: restore, on the devices named, and unlock
 *     stuck        undo it: it could be neither done nor undone, and of what
 *                  lives not all is known to be off its devices
 */
#define RECORD_PHASES(X) \
    X(SUSPENDING, "suspending") X(SUSPENDED, "suspended") \
    X(RESUMING, "resuming") X(STUCK, "stuck")
enum record_phase {
#define X(name, text) RECORD_##name,
    RECORD_PHASES(X)
#undef X
    RECORD_PHASE_COUNT
};
const char *record_phase_name(enum record_phase p);

enum {
    RECORD_TASK = 128, RECORD_PROCS = 256, RECORD_DEVICES = 32,
    RECORD_MAX = 1 << 20,              /* bytes of a file */
};

struct record_proc {
    pid_t pid;
    pid_t tid;                         /* of the driver's thread in it */
    uint64_t start;                    /* as procs.h has it */
    uint64_t bytes;                    /* on devices, before */
    uint64_t on[RECORD_DEVICES];       /* of these on each, as far as told */
    /* Where what was on each is now: 0: there, else places[at - 1], for a
     * resume elsewhere that failed half way.
     */
    unsigned char at[RECORD_DEVICES];
};

struct record_device {
    char uuid[NVML_TEXT];              /* it was used before */
    char to[NVML_TEXT];                /* to be used from now on; or "" */
};

struct record {
    char task[RECORD_TASK + 1];
    enum record_phase phase;
    uid_t uid;                         /* of who asked for it */
    bool hold;                         /* its threads stand still meanwhile */
    char boot[37];
    uint64_t locks_end_ms;             /* monotonic: no lock lands later */
    unsigned nprocs, ndevices;
    struct record_proc procs[RECORD_PROCS];
    struct record_device devices[RECORD_DEVICES];
    unsigned nplaces;
    char places[RECORD_DEVICES][NVML_TEXT];    /* UUIDs */
};

/* Where device i of process p is now. */
const char *record_place(const struct record *r, unsigned p, unsigned i);
/* It is there from now on.  False: there are too many places. */
bool record_put(struct record *r, unsigned p, unsigned i, const char *uuid);

/* A name of 1 to 128 letters, digits, '.', '_', '-', and no '.' first. */
bool record_task_ok(const char *task);

int record_read(const char *text, size_t len, struct record *ret,
                struct err *err);
char *record_text(const struct record *r);         /* caller frees */

/* In the folder `dir`; written through to the disk.  -ENOENT: none there. */
int record_save(const char *dir, const struct record *r, struct err *err);
int record_load(const char *dir, const char *task, struct record *ret,
                struct err *err);
int record_remove(const char *dir, const char *task, struct err *err);
