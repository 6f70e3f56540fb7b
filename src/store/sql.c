#include "store/sql.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { READ_BUSY_MS = 2000, WRITE_CACHE_KIB = 8192, READ_CACHE_KIB = 4096 };

static int code_errno(int code, int sys)
{
    if (sys == ENOSPC || sys == EDQUOT)
        return ENOSPC;
    switch (code & 0xff) {
    case SQLITE_FULL:     return ENOSPC;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:  return EBADMSG;
    case SQLITE_READONLY: return EROFS;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:   return EBUSY;
    case SQLITE_NOMEM:    return ENOMEM;
    case SQLITE_TOOBIG:   return EMSGSIZE;
    case SQLITE_PERM:
    case SQLITE_AUTH:     return EACCES;
    case SQLITE_CANTOPEN: return sys ? sys : EACCES;
    default:              return EIO;
    }
}

/* What was tried may be many statements: the first words say enough. */
static int fail_text(const char *path, int code, int sys, const char *said,
                     const char *what, struct err *err)
{
    int number = code_errno(code, sys);

    switch (number) {
    case ENOSPC:
        return err_set(err, ENOSPC, "the disk that holds '%s' is full: free "
                       "some space; nothing was lost", path);
    case EBADMSG:
        return err_set(err, EBADMSG, "the store '%s' is damaged or is not a "
                       "store (%.40s: %s): put a backup in its place with "
                       "'weir restore'", path, what, said);
    case EBUSY:
        return err_set(err, EBUSY, "the store '%s' is locked by another "
                       "program (%.40s)", path, what);
    default:
        return err_set(err, number, "the store '%s': %.40s: %s%s%s", path, what,
                       said, sys ? ": " : "", sys ? strerror(sys) : "");
    }
}

int sql_fail(struct sql *s, int code, const char *what, struct err *err)
{
    int kind = code & 0xff;
    /* SQLite keeps the system's number of an earlier failure otherwise. */
    bool system = kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN;

    return fail_text(s->path, code, system ? sqlite3_system_errno(s->db) : 0,
                     sqlite3_errmsg(s->db), what, err);
}

/* A path as SQLite's URI, so that one that starts with "file:" or has a '?' in
 * it names the same file here as everywhere else.
 */
static char *path_uri(const char *path, bool frozen)
{
    static const char hex[] = "0123456789abcdef";
    char *uri = mem_array(3 * strlen(path) + 32, 1), *to = uri;

    to = stpcpy(to, "file:");
    for (const char *p = path; *p; p++) {
        unsigned char c = (unsigned char) *p;

        if (c == '%' || c == '?' || c == '#') {
            *to++ = '%';
            *to++ = hex[c >> 4];
            *to++ = hex[c & 15];
        } else {
            *to++ = *p;
        }
    }
    (void) snprintf(to, 16, "%s", frozen ? "?immutable=1" : "");
    return uri;
}

static int set_pragmas(struct sql *s, enum sql_mode mode, struct err *err)
{
    char text[256];
    int cache = mode == SQL_WRITE ? WRITE_CACHE_KIB : READ_CACHE_KIB;
    int rc;

    (void) snprintf(text, sizeof text,
                    "PRAGMA foreign_keys = OFF; PRAGMA mmap_size = 0;"
                    "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"
                    "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -%d;",
                    cache);
    rc = sql_exec(s, text, err);
    if (rc < 0)
        return rc;
    switch (mode) {
    case SQL_WRITE:
        /* The writer checkpoints by itself, after it has told what is durable.
         * Deleted pages are not overwritten with zeros: the file is 0600.
         */
        return sql_exec(s, "PRAGMA synchronous = FULL;"
                        "PRAGMA secure_delete = OFF;"
                        "PRAGMA wal_autocheckpoint = 0;"
                        "PRAGMA journal_size_limit = 67108864", err);
    case SQL_COPY:
        return sql_exec(s, "PRAGMA synchronous = OFF;"
                        "PRAGMA journal_mode = OFF", err);
    case SQL_READ:
    case SQL_READ_ONLY:
    case SQL_FROZEN:
        return sql_exec(s, "PRAGMA query_only = ON", err);
    }
    return 0;
}

int sql_open(const char *path, const char *vfs, enum sql_mode mode,
             struct sql **ret, struct err *err)
{
    bool locked = mode == SQL_READ_ONLY || mode == SQL_FROZEN;
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI | SQLITE_OPEN_EXRESCODE |
        (locked ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE);
    autofree char *uri = path_uri(path, mode == SQL_FROZEN);
    struct sql *s = mem_new(sizeof *s);
    int code, rc;

    s->path = mem_str(path);
    code = sqlite3_open_v2(uri, &s->db, flags, vfs);
    if (code != SQLITE_OK) {
        rc = s->db ? sql_fail(s, code, "open", err) :
            err_set(err, ENOMEM, "the store '%s': out of memory", path);
        sql_close(s);
        return rc;
    }
    (void) sqlite3_busy_timeout(s->db, mode == SQL_WRITE ? 0 : READ_BUSY_MS);
    rc = set_pragmas(s, mode, err);
    if (rc < 0) {
        sql_close(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void sql_close(struct sql *s)
{
    if (!s)
        return;
    for (unsigned i = 0; i < SQL_SLOTS; i++) {
        (void) sqlite3_finalize(s->slot[i].stmt);
        free(s->slot[i].text);
    }
    (void) sqlite3_close(s->db);
    free(s->path);
    free(s);
}

int sql_exec(struct sql *s, const char *text, struct err *err)
{
    int code = sqlite3_exec(s->db, text, NULL, NULL, NULL);

    return code == SQLITE_OK ? 0 : sql_fail(s, code, text, err);
}

int sql_number(struct sql *s, const char *text, int64_t *ret, struct err *err)
{
    autoquery struct query q = { 0 };
    int rc = query_begin(&q, s, text, err);

    if (rc < 0)
        return rc;
    rc = query_step(&q, err);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return err_set(err, ENOENT, "the store '%s': no row for '%s'",
                       s->path, text);
    *ret = sqlite3_column_int64(q.stmt, 0);
    return 0;
}

static struct sql_slot *slot_find(struct sql *s, const char *text)
{
    for (unsigned i = 0; i < SQL_SLOTS; i++)
        if (!s->slot[i].busy && s->slot[i].text &&
            strcmp(s->slot[i].text, text) == 0)
            return &s->slot[i];
    return NULL;
}

/* A place for a new statement: an empty one, else the oldest that is not in
 * use; NULL when all are.
 */
static struct sql_slot *slot_make(struct sql *s)
{
    for (unsigned i = 0; i < SQL_SLOTS; i++) {
        struct sql_slot *slot = &s->slot[s->next_slot++ % SQL_SLOTS];

        if (slot->busy)
            continue;
        (void) sqlite3_finalize(slot->stmt);
        free(slot->text);
        slot->stmt = NULL;
        slot->text = NULL;
        return slot;
    }
    return NULL;
}

int query_begin(struct query *q, struct sql *s, const char *text,
                struct err *err)
{
    struct sql_slot *slot = slot_find(s, text);
    int code;

    *q = (struct query) { .sql = s };
    if (slot) {
        slot->busy = true;
        q->slot = slot;
        q->stmt = slot->stmt;
        return 0;
    }
    code = sqlite3_prepare_v3(s->db, text, -1, SQLITE_PREPARE_PERSISTENT,
                              &q->stmt, NULL);
    if (code != SQLITE_OK)
        return sql_fail(s, code, text, err);
    slot = slot_make(s);
    if (slot) {
        *slot = (struct sql_slot) { mem_str(text), q->stmt, true };
        q->slot = slot;
    }
    return 0;
}

static void note(struct query *q, int code)
{
    if (code != SQLITE_OK && !q->bad)
        q->bad = code;
}

void query_u64(struct query *q, int at, uint64_t value)
{
    note(q, value > INT64_MAX ? SQLITE_RANGE :
         sqlite3_bind_int64(q->stmt, at, (sqlite3_int64) value));
}

void query_text(struct query *q, int at, const char *text, size_t len)
{
    note(q, sqlite3_bind_text64(q->stmt, at, text, len, SQLITE_STATIC,
                                SQLITE_UTF8));
}

void query_str(struct query *q, int at, const char *text)
{
    if (text)
        query_text(q, at, text, strlen(text));
    else
        query_null(q, at);
}

void query_null(struct query *q, int at)
{
    note(q, sqlite3_bind_null(q->stmt, at));
}

int query_step(struct query *q, struct err *err)
{
    int code = q->bad ? q->bad : sqlite3_step(q->stmt);

    if (code == SQLITE_ROW)
        return 1;
    if (code == SQLITE_DONE)
        return 0;
    return sql_fail(q->sql, code, sqlite3_sql(q->stmt), err);
}

void query_reset(struct query *q)
{
    (void) sqlite3_reset(q->stmt);     /* repeats the error of the last step */
    (void) sqlite3_clear_bindings(q->stmt);
    q->bad = 0;
}

void query_end(struct query *q)
{
    if (!q->stmt)
        return;
    query_reset(q);
    if (q->slot)
        q->slot->busy = false;
    else
        (void) sqlite3_finalize(q->stmt);
    *q = (struct query) { 0 };
}

uint64_t query_col_u64(const struct query *q, int at)
{
    sqlite3_int64 v = sqlite3_column_int64(q->stmt, at);

    return v < 0 ? 0 : (uint64_t) v;
}

const char *query_col(const struct query *q, int at, size_t *ret_len)
{
    const char *text = (const char *) sqlite3_column_text(q->stmt, at);

    if (ret_len)
        *ret_len = (size_t) sqlite3_column_bytes(q->stmt, at);
    return text;
}
