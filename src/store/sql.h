#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* sql - SQLite in our words: connections, statements kept ready, errors.
 *
 * A connection is used by one thread at a time.
 */
enum sql_mode {
    SQL_WRITE,               /* WAL, full sync, no waiting for a lock */
    SQL_READ,                /* beside a writer: waits a moment for a lock */
    SQL_READ_ONLY,           /* the file and its folder may not be writable */
    SQL_FROZEN,              /* read-only, and nobody else has it open */
    SQL_COPY,                /* the target of a backup: its owner syncs it */
};

enum { SQL_SLOTS = 24 };

struct sql {
    sqlite3 *db;
    char *path;
    struct sql_slot {
        char *text;
        sqlite3_stmt *stmt;
        bool busy;
    } slot[SQL_SLOTS];
    unsigned next_slot;      /* the one to be replaced next */
};

/* Opens `path`, which is there already, with the VFS of that name (NULL: the
 * default).
 */
int sql_open(const char *path, const char *vfs, enum sql_mode mode,
             struct sql **ret, struct err *err);
void sql_close(struct sql *s);         /* NULL is fine */

/* What the last call on `s` said, as -errno and text.  `what` is what was
 * being done: "read an event".
 */
int sql_fail(struct sql *s, int code, const char *what, struct err *err);

int sql_exec(struct sql *s, const char *text, struct err *err);
int sql_number(struct sql *s, const char *text, int64_t *ret, struct err *err);

/* A statement on its way; statements are kept prepared by their text.
 *
 *     autoquery struct query q = { 0 };
 *     rc = query_begin(&q, sql, "SELECT ...", err);
 *     query_u64(&q, 1, id);
 *     while ((rc = query_step(&q, err)) > 0)
 *         ...
 *
 * Binding cannot fail in a way that step does not report.  Texts are borrowed
 * until query_end.
 */
struct query {
    struct sql *sql;
    sqlite3_stmt *stmt;
    struct sql_slot *slot;   /* NULL: not kept */
    int bad;                 /* the first binding that failed */
};
#define autoquery cleanup(query_end)

int query_begin(struct query *q, struct sql *s, const char *text,
                struct err *err);
void query_u64(struct query *q, int at, uint64_t value);
void query_text(struct query *q, int at, const char *text, size_t len);
void query_str(struct query *q, int at, const char *text);   /* NULL: null */
void query_null(struct query *q, int at);
int query_step(struct query *q, struct err *err);  /* 1: a row; 0: no more */
void query_reset(struct query *q);     /* to be bound and run again */
void query_end(struct query *q);                   /* idempotent */

uint64_t query_col_u64(const struct query *q, int at);
/* Borrowed until the next step; NULL for null. */
const char *query_col(const struct query *q, int at, size_t *ret_len);
