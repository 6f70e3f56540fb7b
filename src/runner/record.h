#pragma once

#include "runner/order.h"

#include <stdbool.h>
#include <sys/types.h>

struct err;

/* record - what is known of a lease, on disk: one file, DIR/leases/NAME, to
 * which facts are added, one JSON object a line:
 *
 *   {...}                      the order; there when the file is
 *   {"claimed": MS}            by the runner, after the grant and before it
 *                              forks the keeper
 *   {"started": {...}}         by the keeper, once the task is there
 *   {"stop": "COMMAND"}        by the runner: the checkpoint command to run
 *   {"moved": {off, devices?}} by the runner: before it is taken off its devices,
 *                              and after it was brought back, where to
 *   {"exit": {...}}            the report: by the keeper after the last process
 *                              is gone, by the runner for what never started
 *                              or was lost
 *
 * A line without its end is no line: whoever wrote it was killed.  The keeper
 * holds a lock on the file for as long as it lives.  So a lease's state
 * follows from its file alone.
 *
 * File systems are slow at making and removing many files: records that are
 * done with are cut short and kept in DIR/spare for the next order.
 */
struct report {
    char cause[16];
    int status;
    uint64_t started_ms, ended_ms, cpu_ms, rss_bytes;
};

struct started {
    pid_t keeper, task;
    uint64_t at_ms;
};

struct record {
    bool claimed, alive;       /* alive: its keeper is */
    bool has_started, has_report;
    struct started started;
    struct report report;
    char *stop;                /* owned; NULL: no command */
    bool off;                  /* it may be off its devices */
    char *devices;             /* owned; NULL: as the order says */
};

struct records {
    char *dir;
    unsigned spares;           /* DIR/spare/0 and up */
};

/* Makes the folders. */
int records_open(struct records *r, const char *dir, struct err *err);
void records_close(struct records *r);
/* Every lease that has a record. */
typedef void (*records_f)(const struct lease_id *id, void *arg);
int records_scan(const struct records *r, records_f cb, void *arg,
                 struct err *err);

/* The lease that a record's file is named after. */
bool record_name_parse(const char *s, struct lease_id *ret);

/* A record of this order.  No effect on failure. */
int record_make(struct records *r, const struct lease_id *id,
                const json_t *task, struct err *err);
/* The facts; -ENOENT without a record.  *ret: record_clear. */
int record_read(const struct records *r, const struct lease_id *id,
                struct record *ret, struct err *err);
int record_read_order(const struct records *r, const struct lease_id *id,
                      json_t **ret, struct err *err);
void record_clear(struct record *rec);
/* The lease is over: forget it. */
int record_retire(struct records *r, const struct lease_id *id,
                  struct err *err);

/* Open for adding facts; with `lock` as the keeper's, -EWOULDBLOCK when one
 * is there already.  Caller closes.
 */
int record_open(const struct records *r, const struct lease_id *id, bool lock,
                int *ret, struct err *err);
/* The facts of an open record, as a keeper wants them. */
int record_read_fd(int fd, struct record *ret, struct err *err);
int record_add_claimed(int fd, struct err *err);
int record_add_started(int fd, const struct started *s, struct err *err);
int record_add_stop(int fd, const char *command, struct err *err);
int record_add_moved(int fd, bool off, const char *devices, struct err *err);
int record_add_report(int fd, const struct report *r, struct err *err);
