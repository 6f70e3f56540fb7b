#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct event;
struct loop;
struct spec;
struct world;

/* store - the journal and its tables, in SQLite (WAL, synchronous=FULL).
 *
 * One writer thread with group commit: everything handed over while a
 * transaction is being written goes into the next one, so that one fsync
 * serves every reply and action that waits for it.  Events and the rows they
 * change are in the same transaction; the tables are the snapshot at the last
 * event.  The store never repairs silently: what it cannot read it refuses to
 * open, in one line that says what to do.
 *
 * The functions are for the loop's thread.
 */
struct store;

struct store_conf {
    const char *path;                  /* the database file */
    const char *vfs;                   /* SQLite VFS; NULL: the default */
    bool check_full;                   /* every page, index and row */
    bool read_only;                    /* beside another that writes, too */
};

/* Makes the file (0600) when it is not there.  -EBADMSG: not ours or damaged;
 * -EPROTONOSUPPORT: from a newer Weir; -ENOSPC, -EROFS...; an older schema is
 * migrated in one transaction.  Without check_full the check takes no longer
 * for a longer history: docs/store.md says what it sees.
 */
int store_open(const struct store_conf *conf, struct store **ret,
               struct err *err);
/* Writes what was handed over; a backup under way is stopped and its callback
 * not called.  NULL is fine.
 */
void store_close(struct store *s);

/* Fill an empty world from the tables (live workloads alone) and make it ready
 * (world_loaded).
 */
int store_load(struct store *s, struct world *w, struct err *err);

/* Tell the loop: durable(seq) once everything up to `seq` is on disk;
 * failed(err) when a transaction could not be written (disk full, I/O error):
 * then nothing after the last durable seq is in the store and nothing more is
 * taken until store_resume.  The owner throws its world away, loads again and
 * calls store_resume.
 */
typedef void (*store_durable_f)(uint64_t seq, void *arg);
typedef void (*store_failed_f)(const struct err *err, void *arg);
int store_attach(struct store *s, struct loop *l, store_durable_f durable,
                 store_failed_f failed, void *arg, struct err *err);
void store_resume(struct store *s);

/* Add an event (numbered by the caller: seq is the last one plus 1) to the
 * batch being put together; tenant may be NULL (then only operators see it).
 */
void store_event(struct store *s, const struct event *e, const char *tenant);
/* Add the rows that changed (world_rows), then hand the batch to the writer.
 * Nothing to write: no effect.
 */
int store_commit(struct store *s, struct world *w, struct err *err);
uint64_t store_durable(const struct store *s);     /* the last durable seq */

/* Reads see what is durable, on a connection of their own.  Each returns 0 or
 * -errno; a callback that returns non-zero ends the read with that.
 */
struct store_event {
    uint64_t seq, time_ms;
    const char *type, *tenant;         /* tenant may be NULL */
    uint64_t workload;                 /* 0: none */
    const char *body;                  /* event_to_json, brief unless asked */
    size_t len;
};
struct store_event_query {
    uint64_t after;                    /* seq > after */
    uint64_t before;                   /* not 0: seq < before, newest first */
    uint32_t limit;
    const char *tenant;                /* NULL: all */
    uint64_t workload;                 /* 0: all */
    const char *type;                  /* NULL: all */
    bool whole;                        /* with the spec of submissions */
};
typedef int (*store_event_f)(const struct store_event *e, void *arg);
int store_events(struct store *s, const struct store_event_query *q,
                 store_event_f cb, void *arg, struct err *err);
/* From here on nothing is missing: the oldest event, or the one after the last
 * that retention took; 0: none.
 */
uint64_t store_first_event(struct store *s);

struct store_workload_query {
    uint64_t before;                   /* id < before; 0: from the newest */
    uint32_t limit;
    const char *tenant;                /* NULL: all */
    const char *state;                 /* NULL: all; "live", "ended" */
};
typedef int (*store_body_f)(uint64_t id, const char *body, size_t len,
                            void *arg);
int store_workloads(struct store *s, const struct store_workload_query *q,
                    store_body_f cb, void *arg, struct err *err);
/* One workload, ended ones too: -ENOENT; caller frees *ret_body; *ret_spec may
 * be NULL when not wanted (free with spec_free).
 */
int store_workload(struct store *s, uint64_t id, json_t **ret_body,
                   struct spec **ret_spec, struct err *err);
/* Task rows by index from `after` on (first: 0); tasks without a row of their
 * own are not there.
 */
int store_tasks(struct store *s, uint64_t workload, uint32_t from,
                uint32_t limit, store_body_f cb, void *arg, struct err *err);
/* The newest workload that `who` submitted with the key: -ENOENT. */
int store_find_key(struct store *s, const char *who, const char *key,
                   uint64_t *ret_workload, char ret_hash[65], struct err *err);

/* An online copy into a new file (-EEXIST when it is there), made beside the
 * loop in a thread, one at a time (-EBUSY); done is called from the loop.  It
 * is one file of mode 0600 and holds one moment, however long it takes.
 */
typedef void (*store_done_f)(int rc, const struct err *err, void *arg);
int store_backup(struct store *s, const char *file, store_done_f done,
                 void *arg, struct err *err);
/* Offline (the caller sees to it that nobody has the store open): check
 * `backup` fully, put it in place of `path` (the old one is kept as
 * PATH.before-restore-N), raise the epoch past both and journal
 * store.restored.  Cut off at any point, run again it completes.
 */
int store_restore(const char *backup, const char *path, uint64_t now_ms,
                  struct err *err);

/* Forget ended workloads (and their events) that ended before `before_ms`, at
 * most `limit` of them at a time; when none is left, events of no workload
 * that are older.  Done in the writer, in slices between batches.
 */
void store_trim(struct store *s, uint64_t before_ms, uint32_t limit);

struct store_stat {
    uint64_t bytes, events, commits;
    uint64_t synced_ms;                /* time spent committing */
    bool failed;
};
void store_stat(const struct store *s, struct store_stat *ret);
