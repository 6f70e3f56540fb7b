#pragma once

#include "runner/order.h"

#include <stdbool.h>
#include <sys/types.h>

struct err;

/* folder - what is known of a lease, on disk: DIR/leases/w12/3.0.GEN.EPOCH/
 *
 *   order     what to start; not claimed yet
 *   claimed   the same file after the claim was granted: its new name.  The
 *             rename happens once, so a generation starts at most once.  The
 *             keeper holds a lock on it for as long as it lives.
 *   started   by the keeper: its pid, the task's pid and time of start
 *   stop      the checkpoint command, when there is one to run
 *   exit      by the keeper (or by the runner, for what never started): the
 *             report, whole or not there
 *   log.N     segments of the log (logfile.h)
 *
 * A lease's state follows from the folder alone.  When its end is
 * acknowledged, what it logged moves to DIR/logs/w12/3.0.GEN.EPOCH/ and the
 * rest goes.
 */
enum folder_state {
    FOLDER_NEW,                /* ordered */
    FOLDER_RUNNING,            /* claimed, its keeper lives */
    FOLDER_ENDED,              /* the report is there */
    FOLDER_LOST,               /* claimed, no keeper and no report */
};

struct report {
    char cause[16];
    int status;
    uint64_t started_ms, ended_ms, cpu_ms, rss_bytes;
    uint64_t log_bytes;        /* written to the log */
};

struct started {
    pid_t keeper, task;
    uint64_t at_ms;
};

/* DIR/leases/... of a lease; caller frees. */
char *folder_path(const char *dir, const struct lease_id *id);

/* Make the folder with its order.  No effect on failure. */
int folder_order(const char *path, const json_t *task, struct err *err);
int folder_read_order(const char *path, struct order *ret, struct err *err);
/* order becomes claimed: -EEXIST when it was already.  *ret_lock is the locked
 * file: the keeper inherits it, the runner closes it.
 */
int folder_claim(const char *path, int *ret_lock, struct err *err);

int folder_write_started(const char *path, const struct started *s,
                         struct err *err);
int folder_read_started(const char *path, struct started *ret,
                        struct err *err);
int folder_write_report(const char *path, const struct report *r,
                        struct err *err);
int folder_read_report(const char *path, struct report *ret,
                       struct err *err);

int folder_state(const char *path, enum folder_state *ret, struct err *err);

/* The end is acknowledged: keep the log, if any, and nothing else. */
int folder_archive(const char *dir, const struct lease_id *id, bool has_log,
                   struct err *err);
/* It was never claimed and never will be. */
int folder_remove(const char *dir, const struct lease_id *id,
                  struct err *err);
/* Forget the archived logs of a key, all generations. */
int folder_drop(const char *dir, const struct lease_key *key,
                struct err *err);

/* Every lease under DIR/leases. */
typedef void (*folder_f)(const struct lease_id *id, void *arg);
int folder_scan(const char *dir, folder_f cb, void *arg, struct err *err);
