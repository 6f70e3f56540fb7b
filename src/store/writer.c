#include "store/writer.h"

#include "base/err.h"
#include "base/mem.h"
#include "store/batch.h"
#include "store/sql.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* Every transaction ends by writing the head: the newest event's number and
 * time, how many events there are and how many workloads live.  Start-up
 * believes the head only when the tables agree with it.
 */
enum {
    DUE_FRAMES = 2000,       /* 8 MiB of log */
    TRIM_ROWS = 2000,        /* rows a slice deletes */
};

enum stmt { STMT_SET, STMT_DELETE, STMT_KINDS };

struct writer {
    struct sql *sql;
    struct schema_head head;
    struct query op[BATCH_OP_COUNT][STMT_KINDS];
    struct query spec, set_head;
    int frames;              /* in the write-ahead log */
    int tried;               /* frames at the last checkpoint */
};

#define KEYED(table, value) \
    { "INSERT INTO " table " VALUES(?1, ?2) ON CONFLICT DO UPDATE " \
      "SET " value " = excluded." value, \
      "DELETE FROM " table " WHERE key = ?1" }

static const char *const op_text[BATCH_OP_COUNT][STMT_KINDS] = {
    [BATCH_EVENT] = { "INSERT INTO event VALUES(?1, ?2, ?3, ?4, ?5, ?6)" },
    [BATCH_SUBMIT] = { "INSERT INTO workload(id, live, tenant, who, key, hash,"
                       " body) VALUES(?1, 1, ?2, ?3, ?4, ?5, '')" },
    [BATCH_END] = { "UPDATE workload SET ended_ms = ?2 WHERE id = ?1" },
    [BATCH_WORKLOAD] = { "UPDATE workload SET live = ?2, tenant = ?3, "
                         "body = ?4 WHERE id = ?1" },
    [BATCH_TASK] = { "INSERT INTO task VALUES(?1, ?2, ?3) "
                     "ON CONFLICT DO UPDATE SET body = excluded.body",
                     "DELETE FROM task WHERE workload = ?1 AND task = ?2" },
    [BATCH_BLOCK] = KEYED("block", "body"),
    [BATCH_TENANT] = KEYED("tenant", "body"),
    [BATCH_TOKEN] = KEYED("token", "body"),
    [BATCH_META] = KEYED("meta", "value"),
};

/* SQLite tells the length of the log after each commit. */
static int on_commit(void *arg, sqlite3 *db, const char *name, int frames)
{
    struct writer *w = arg;

    (void) db;
    (void) name;
    if (frames < w->frames)
        w->tried = 0;                  /* the log began anew */
    w->frames = frames;
    return SQLITE_OK;
}

static int prepare(struct writer *w, struct err *err)
{
    int rc = query_begin(&w->spec, w->sql,
                         "INSERT INTO spec VALUES(?1, ?2)", err);

    if (rc == 0)
        rc = query_begin(&w->set_head, w->sql, "UPDATE meta SET value = ?1 "
                         "WHERE key = 'store.head'", err);
    for (int i = 0; i < BATCH_OP_COUNT; i++)
        for (int k = 0; k < STMT_KINDS; k++)
            if (rc == 0 && op_text[i][k])
                rc = query_begin(&w->op[i][k], w->sql, op_text[i][k], err);
    return rc;
}

int writer_open(struct sql *sql, struct writer **ret, struct err *err)
{
    struct writer *w = mem_new(sizeof *w);
    int rc;

    w->sql = sql;
    rc = schema_head(sql, &w->head, err);
    if (rc == 0)
        rc = prepare(w, err);
    if (rc < 0) {
        writer_close(w);
        return rc;
    }
    (void) sqlite3_wal_hook(sql->db, on_commit, w);
    *ret = w;
    return 0;
}

void writer_close(struct writer *w)
{
    if (!w)
        return;
    for (int i = 0; i < BATCH_OP_COUNT; i++)
        for (int k = 0; k < STMT_KINDS; k++)
            query_end(&w->op[i][k]);
    query_end(&w->spec);
    query_end(&w->set_head);
    sql_close(w->sql);
    free(w);
}

static void bind_span(struct query *q, int at, const struct batch *b,
                      struct span s)
{
    if (s.there)
        query_text(q, at, batch_text(b, s), s.len);
    else
        query_null(q, at);
}

static void bind_op(struct query *q, const struct batch *b,
                    const struct op *op)
{
    switch (op->kind) {
    case BATCH_EVENT:
        query_u64(q, 1, op->seq);
        query_u64(q, 2, op->time_ms);
        bind_span(q, 3, b, op->type);
        bind_span(q, 4, b, op->tenant);
        if (op->workload)
            query_u64(q, 5, op->workload);
        bind_span(q, 6, b, op->body);
        break;
    case BATCH_SUBMIT:
        query_u64(q, 1, op->workload);
        bind_span(q, 2, b, op->tenant);
        bind_span(q, 3, b, op->who);
        bind_span(q, 4, b, op->key);
        bind_span(q, 5, b, op->hash);
        break;
    case BATCH_END:
        query_u64(q, 1, op->workload);
        query_u64(q, 2, op->time_ms);
        break;
    case BATCH_WORKLOAD:
        query_u64(q, 1, op->workload);
        query_u64(q, 2, op->live);
        bind_span(q, 3, b, op->tenant);
        bind_span(q, 4, b, op->body);
        break;
    case BATCH_TASK:
        query_u64(q, 1, op->workload);
        query_u64(q, 2, op->task);
        if (op->body.there)
            bind_span(q, 3, b, op->body);
        break;
    case BATCH_BLOCK:
    case BATCH_TENANT:
    case BATCH_TOKEN:
    case BATCH_META:
        bind_span(q, 1, b, op->key);
        if (op->body.there)
            bind_span(q, 2, b, op->body);
        break;
    case BATCH_OP_COUNT:
        break;
    }
}

static int run(struct query *q, struct err *err)
{
    int rc = query_step(q, err);

    query_reset(q);
    return rc;
}

static int write_spec(struct writer *w, const struct batch *b,
                      const struct op *op, struct err *err)
{
    query_u64(&w->spec, 1, op->workload);
    bind_span(&w->spec, 2, b, op->spec);
    return run(&w->spec, err);
}

static int write_op(struct writer *w, const struct batch *b,
                    const struct op *op, struct err *err)
{
    bool is_row = op->kind >= BATCH_WORKLOAD;
    bool must_hit = op->kind == BATCH_WORKLOAD || op->kind == BATCH_END;
    struct query *q =
        &w->op[op->kind][is_row && !op->body.there ? STMT_DELETE : STMT_SET];
    int rc;

    assert(q->stmt);                   /* a workload's row is never deleted */
    bind_op(q, b, op);
    rc = run(q, err);
    if (rc < 0)
        return rc;
    if (must_hit && sqlite3_changes(w->sql->db) != 1)
        return err_set(err, EBADMSG, "the store '%s': workload w%" PRIu64
                       " has no row", w->sql->path, op->workload);
    return op->spec.there ? write_spec(w, b, op, err) : 0;
}

static void count_op(struct schema_head *h, const struct op *op)
{
    if (op->kind == BATCH_EVENT) {
        h->events++;
        h->seq = op->seq;
        h->time_ms = op->time_ms;
    } else if (op->kind == BATCH_SUBMIT) {
        h->live++;
    } else if (op->kind == BATCH_END) {
        h->live--;
    }
}

static int write_batch(struct writer *w, const struct batch *b,
                       struct schema_head *h, struct err *err)
{
    for (size_t i = 0; i < b->nops; i++) {
        int rc = write_op(w, b, &b->ops[i], err);

        if (rc < 0)
            return rc;
        count_op(h, &b->ops[i]);
    }
    return 0;
}

static int begin(struct writer *w, struct err *err)
{
    return sql_exec(w->sql, "BEGIN IMMEDIATE", err);
}

/* Write the new head and commit, or take everything back. */
static int finish(struct writer *w, const struct schema_head *h, int rc,
                  struct err *err)
{
    char text[160];

    if (rc == 0) {
        (void) snprintf(text, sizeof text,
                        "{\"seq\":%" PRIu64 ",\"time_ms\":%" PRIu64
                        ",\"events\":%" PRIu64 ",\"live\":%" PRIu64 "}",
                        h->seq, h->time_ms, h->events, h->live);
        query_str(&w->set_head, 1, text);
        rc = run(&w->set_head, err);
    }
    if (rc == 0)
        rc = sql_exec(w->sql, "COMMIT", err);
    if (rc == 0)
        w->head = *h;
    else if (!sqlite3_get_autocommit(w->sql->db))
        (void) sql_exec(w->sql, "ROLLBACK", NULL);
    return rc;
}

int writer_write(struct writer *w, const struct batch *list, struct err *err)
{
    struct schema_head h = w->head;
    int rc = begin(w, err);

    if (rc < 0)
        return rc;
    for (const struct batch *b = list; b && rc == 0; b = b->next) {
        if (batch_whole(b))
            rc = write_batch(w, b, &h, err);
        else
            rc = err_set(err, EMSGSIZE, "the store '%s': one commit has more "
                         "text than it can hold", w->sql->path);
    }
    return finish(w, &h, rc, err);
}

/* The oldest workload to forget; 0: none. */
static int trim_pick(struct writer *w, uint64_t before_ms, uint64_t *ret,
                     struct err *err)
{
    autoquery struct query q = { 0 };
    int rc = query_begin(&q, w->sql, "SELECT id FROM workload WHERE "
                         "ended_ms < ?1 AND live = 0 AND id IS NOT "
                         "(SELECT workload FROM event WHERE seq = ?2) "
                         "ORDER BY ended_ms LIMIT 1", err);

    if (rc < 0)
        return rc;
    query_u64(&q, 1, before_ms);
    query_u64(&q, 2, w->head.seq);
    rc = query_step(&q, err);
    if (rc < 0)
        return rc;
    *ret = rc > 0 ? query_col_u64(&q, 0) : 0;
    return 0;
}

/* Run a deletion of (?1: a number, ?2: at most so many); how many went. */
static int trim_run(struct writer *w, const char *text, uint64_t a, uint64_t b,
                    struct err *err)
{
    autoquery struct query q = { 0 };
    int rc = query_begin(&q, w->sql, text, err);

    if (rc < 0)
        return rc;
    query_u64(&q, 1, a);
    if (sqlite3_bind_parameter_count(q.stmt) > 1)
        query_u64(&q, 2, b);
    rc = query_step(&q, err);
    return rc < 0 ? rc : sqlite3_changes(w->sql->db);
}

/* Remember the newest event that goes: a watcher from before it has missed
 * something.
 */
#define TRIMMED(which) \
    "INSERT INTO meta SELECT 'store.trimmed', CAST(max(seq) AS TEXT) " \
    "FROM event WHERE " which " HAVING max(seq) IS NOT NULL " \
    "ON CONFLICT(key) DO UPDATE SET value = CAST(max(" \
    "CAST(value AS INTEGER), CAST(excluded.value AS INTEGER)) AS TEXT)"

static int trim_workload(struct writer *w, uint64_t id, struct schema_head *h,
                         bool *ret_gone, struct err *err)
{
    int events, tasks, rc;

    rc = trim_run(w, TRIMMED("workload = ?1"), id, 0, err);
    if (rc < 0)
        return rc;
    events = trim_run(w, "DELETE FROM event WHERE seq IN (SELECT seq FROM "
                      "event WHERE workload = ?1 LIMIT ?2)", id, TRIM_ROWS,
                      err);
    if (events < 0)
        return events;
    h->events -= (uint64_t) events;
    tasks = trim_run(w, "DELETE FROM task WHERE workload = ?1 AND task IN "
                     "(SELECT task FROM task WHERE workload = ?1 LIMIT ?2)",
                     id, (uint64_t) (TRIM_ROWS - events), err);
    if (tasks < 0)
        return tasks;
    if (events + tasks == TRIM_ROWS)
        return 0;
    rc = trim_run(w, "DELETE FROM spec WHERE workload = ?1", id, 0, err);
    if (rc >= 0)
        rc = trim_run(w, "DELETE FROM workload WHERE id = ?1", id, 0, err);
    *ret_gone = rc >= 0;
    return rc < 0 ? rc : 0;
}

/* How many went. */
static int trim_audit(struct writer *w, uint64_t before_ms,
                      struct schema_head *h, struct err *err)
{
    int n = trim_run(w, TRIMMED("workload IS NULL AND time_ms < ?1 AND "
                                "seq < (SELECT max(seq) FROM event)"),
                     before_ms, 0, err);

    if (n >= 0)
        n = trim_run(w, "DELETE FROM event WHERE seq IN (SELECT seq FROM event "
                     "WHERE workload IS NULL AND time_ms < ?1 AND "
                     "seq < (SELECT max(seq) FROM event) LIMIT ?2)",
                     before_ms, TRIM_ROWS, err);
    if (n > 0)
        h->events -= (uint64_t) n;
    return n;
}

int writer_trim(struct writer *w, uint64_t before_ms, bool *ret_gone,
                struct err *err)
{
    struct schema_head h = w->head;
    uint64_t id = 0;
    bool gone = false;
    int rc = begin(w, err), n = 0;

    if (rc < 0)
        return rc;
    rc = trim_pick(w, before_ms, &id, err);
    if (rc == 0 && id)
        rc = trim_workload(w, id, &h, &gone, err);
    else if (rc == 0)
        n = trim_audit(w, before_ms, &h, err);
    if (n < 0)
        rc = n;
    if (rc == 0 && !id && n == 0)
        return sql_exec(w->sql, "ROLLBACK", err);
    rc = finish(w, &h, rc, err);
    if (rc < 0)
        return rc;
    *ret_gone = gone;
    return id || n == TRIM_ROWS;
}

bool writer_due(const struct writer *w, bool idle)
{
    return w->frames - w->tried >= (idle ? 1 : DUE_FRAMES);
}

int writer_checkpoint(struct writer *w, struct err *err)
{
    int code = sqlite3_wal_checkpoint_v2(w->sql->db, "main",
                                         SQLITE_CHECKPOINT_PASSIVE, NULL,
                                         NULL);

    if (code != SQLITE_OK && code != SQLITE_BUSY)
        return sql_fail(w->sql, code, "checkpoint", err);
    w->tried = w->frames;
    return 0;
}

struct schema_head writer_head(const struct writer *w)
{
    return w->head;
}
