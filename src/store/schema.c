#include "store/schema.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "store/sql.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TAIL_EVENTS = 1000, HEAD_MAX = 4096 };

/* The spec of a submission is kept once, in a table of its own: the event's
 * body leaves it out, all rows of a workload are deleted together, and a
 * change of the workload's row does not write its spec again, which may be
 * megabytes.  `who`, `key`, `hash` and `ended_ms` of a workload come from
 * events, the rest of its row from the world.
 *
 * Lists in the API go by tenant, workload or type and then by number: each has
 * an index, so that a reader of history never walks the whole of it.
 */
static const struct schema_step steps[SCHEMA_VERSION] = {
    [0] = {
        "CREATE TABLE meta("
        "  key TEXT PRIMARY KEY, value TEXT NOT NULL"
        ") STRICT, WITHOUT ROWID;"
        "CREATE TABLE event("
        "  seq INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL,"
        "  type TEXT NOT NULL, tenant TEXT, workload INTEGER,"
        "  body TEXT NOT NULL"
        ") STRICT;"
        "CREATE INDEX event_workload ON event(workload)"
        "  WHERE workload IS NOT NULL;"
        "CREATE INDEX event_tenant ON event(tenant) WHERE tenant IS NOT NULL;"
        "CREATE INDEX event_type ON event(type);"
        "CREATE INDEX event_audit ON event(time_ms) WHERE workload IS NULL;"
        "CREATE TABLE workload("
        "  id INTEGER PRIMARY KEY, live INTEGER NOT NULL,"
        "  tenant TEXT NOT NULL, who TEXT NOT NULL, key TEXT, hash TEXT,"
        "  ended_ms INTEGER, body TEXT NOT NULL"
        ") STRICT;"
        "CREATE INDEX workload_live ON workload(id) WHERE live = 1;"
        "CREATE INDEX workload_key ON workload(key, who)"
        "  WHERE key IS NOT NULL;"
        "CREATE INDEX workload_tenant ON workload(tenant);"
        "CREATE INDEX workload_ended ON workload(ended_ms)"
        "  WHERE ended_ms IS NOT NULL;"
        "CREATE TABLE spec("
        "  workload INTEGER PRIMARY KEY, body TEXT NOT NULL"
        ") STRICT;"
        "CREATE TABLE task("
        "  workload INTEGER NOT NULL, task INTEGER NOT NULL,"
        "  body TEXT NOT NULL, PRIMARY KEY(workload, task)"
        ") STRICT, WITHOUT ROWID;"
        "CREATE TABLE block(key TEXT PRIMARY KEY, body TEXT NOT NULL)"
        "  STRICT, WITHOUT ROWID;"
        "CREATE TABLE tenant(key TEXT PRIMARY KEY, body TEXT NOT NULL)"
        "  STRICT, WITHOUT ROWID;"
        "CREATE TABLE token(key TEXT PRIMARY KEY, body TEXT NOT NULL)"
        "  STRICT, WITHOUT ROWID;"
        "INSERT INTO meta VALUES('store.head',"
        "  '{\"seq\":0,\"time_ms\":0,\"events\":0,\"live\":0}');"
    },
};

/* Which version, once it is sure that the file is a store or empty. */
static int read_version(struct sql *s, unsigned newest, unsigned *ret,
                        struct err *err)
{
    int64_t id = 0, version = 0, objects = 0;
    int rc = sql_number(s, "PRAGMA application_id", &id, err);

    if (rc == 0)
        rc = sql_number(s, "PRAGMA user_version", &version, err);
    if (rc == 0)
        rc = sql_number(s, "SELECT count(*) FROM sqlite_schema", &objects,
                        err);
    if (rc < 0)
        return rc;
    if (id == 0 && version == 0 && objects == 0) {
        *ret = 0;
        return 0;
    }
    if (id != SCHEMA_APPLICATION)
        return err_set(err, EBADMSG, "'%s' is a database, but not a store of "
                       "Weir", s->path);
    if (version < 1)
        return err_set(err, EBADMSG, "the store '%s' has the impossible "
                       "version %" PRId64, s->path, version);
    if (version > (int64_t) newest)
        return err_set(err, EPROTONOSUPPORT, "the store '%s' has version %"
                       PRId64 " and this Weir reads up to version %u: use the "
                       "Weir that wrote it, or a newer one", s->path, version,
                       newest);
    *ret = (unsigned) version;
    return 0;
}

static int take_steps(struct sql *s, const struct schema_step *list,
                      unsigned from, unsigned to, struct err *err)
{
    char text[128];
    int rc = 0;

    for (unsigned i = from; i < to && rc == 0; i++) {
        rc = sql_exec(s, list[i].text, err);
        if (rc < 0)
            return err_prefix(err, rc, "bring the store from version %u to %u",
                              i, i + 1);
    }
    (void) snprintf(text, sizeof text,
                    "PRAGMA application_id = %d; PRAGMA user_version = %u",
                    (int) SCHEMA_APPLICATION, to);
    return sql_exec(s, text, err);
}

int schema_migrate_with(struct sql *s, const struct schema_step *list,
                        unsigned nsteps, struct err *err)
{
    unsigned version = 0;
    int rc = read_version(s, nsteps, &version, err);

    if (rc < 0 || version == nsteps)
        return rc;
    rc = sql_exec(s, "BEGIN IMMEDIATE", err);
    if (rc < 0)
        return rc;
    rc = take_steps(s, list, version, nsteps, err);
    if (rc == 0)
        rc = sql_exec(s, "COMMIT", err);
    if (rc < 0)
        (void) sql_exec(s, "ROLLBACK", NULL);  /* may have happened already */
    return rc;
}

int schema_migrate(struct sql *s, struct err *err)
{
    return schema_migrate_with(s, steps, SCHEMA_VERSION, err);
}

int schema_expect(struct sql *s, struct err *err)
{
    unsigned version = 0;
    int rc = read_version(s, SCHEMA_VERSION, &version, err);

    if (rc < 0)
        return rc;
    if (version < SCHEMA_VERSION)
        return err_set(err, EROFS, "the store '%s' has version %u and must be "
                       "brought to version %d first: 'weir up' does it",
                       s->path, version, SCHEMA_VERSION);
    return 0;
}

int schema_head(struct sql *s, struct schema_head *ret, struct err *err)
{
    autoquery struct query q = { 0 };
    autojson json_t *j = NULL;
    const char *text;
    size_t len;
    int rc = query_begin(&q, s, "SELECT value FROM meta "
                         "WHERE key = 'store.head'", err);

    if (rc == 0)
        rc = query_step(&q, err);
    if (rc < 0)
        return rc;
    text = rc > 0 ? query_col(&q, 0, &len) : NULL;
    if (!text || json_read(text, len, HEAD_MAX, &j, NULL) < 0)
        return err_set(err, EBADMSG, "the store '%s' is damaged: its head is "
                       "not readable", s->path);
    *ret = (struct schema_head) {
        .seq = json_get_u64(j, "seq", 0),
        .time_ms = json_get_u64(j, "time_ms", 0),
        .events = json_get_u64(j, "events", 0),
        .live = json_get_u64(j, "live", 0),
    };
    return 0;
}

static int read_tables(struct sql *s, char **ret, struct err *err)
{
    autoquery struct query q = { 0 };
    const char *text;
    int rc = query_begin(&q, s, "SELECT group_concat(sql, ';') FROM (SELECT "
                         "sql FROM sqlite_schema WHERE sql IS NOT NULL "
                         "AND name NOT LIKE 'sqlite_stat%' ORDER BY name)",
                         err);

    if (rc == 0)
        rc = query_step(&q, err);
    if (rc < 0)
        return rc;
    text = rc > 0 ? query_col(&q, 0, NULL) : NULL;
    *ret = mem_str(text ? text : "");
    return 0;
}

/* Compared with tables made by the same steps in memory. */
static int check_tables(struct sql *s, struct err *err)
{
    autofree char *want = NULL, *have = NULL;
    struct sql *model = NULL;
    int rc = sql_open(":memory:", NULL, SQL_WRITE, &model, err);

    if (rc == 0)
        rc = schema_migrate(model, err);
    if (rc == 0)
        rc = read_tables(model, &want, err);
    sql_close(model);
    if (rc == 0)
        rc = read_tables(s, &have, err);
    if (rc != 0)
        return rc;
    if (strcmp(want, have) != 0)
        return err_set(err, EBADMSG, "the store '%s' is damaged: its tables "
                       "are not those of version %d", s->path, SCHEMA_VERSION);
    return 0;
}

static int check_number(struct sql *s, const char *what, const char *text,
                        uint64_t want, struct err *err)
{
    int64_t have = -1;
    int rc = sql_number(s, text, &have, err);

    if (rc < 0)
        return rc;
    if (have < 0 || (uint64_t) have != want)
        return err_set(err, EBADMSG, "the store '%s' is damaged: %s should be "
                       "%" PRIu64 " and is %" PRId64, s->path, what, want,
                       have);
    return 0;
}

/* The newest events stand in order of time, each with its text. */
static int check_tail(struct sql *s, struct err *err)
{
    autoquery struct query q = { 0 };
    uint64_t later = UINT64_MAX;
    int rc = query_begin(&q, s, "SELECT seq, time_ms, json_valid(body) FROM "
                         "event ORDER BY seq DESC LIMIT ?1", err);

    if (rc < 0)
        return rc;
    query_u64(&q, 1, TAIL_EVENTS);
    while ((rc = query_step(&q, err)) > 0) {
        uint64_t time_ms = query_col_u64(&q, 1);

        if (time_ms > later || query_col_u64(&q, 2) != 1)
            return err_set(err, EBADMSG, "the store '%s' is damaged: event %"
                           PRIu64 " is not readable or out of order", s->path,
                           query_col_u64(&q, 0));
        later = time_ms;
    }
    return rc;
}

static int check_pages(struct sql *s, const char *text, struct err *err)
{
    autoquery struct query q = { 0 };
    autofree char *said = NULL;
    int rc = query_begin(&q, s, text, err);

    if (rc == 0)
        rc = query_step(&q, err);
    if (rc < 0)
        return rc;
    said = mem_str(rc > 0 ? query_col(&q, 0, NULL) : NULL);
    if (said && strcmp(said, "ok") == 0)
        return 0;
    for (char *p = said; p && *p; p++)
        if (*p == '\n')
            *p = ' ';
    return err_set(err, EBADMSG, "the store '%s' is damaged: put a backup in "
                   "its place with 'weir restore' (%.200s)", s->path,
                   said ? said : "no answer");
}

static int check_head(struct sql *s, struct schema_head *head, struct err *err)
{
    int rc = schema_head(s, head, err);

    if (rc == 0)
        rc = check_number(s, "the number of the newest event",
                          "SELECT coalesce(max(seq), 0) FROM event", head->seq,
                          err);
    if (rc == 0)
        rc = check_number(s, "the number of live workloads",
                          "SELECT count(*) FROM workload WHERE live = 1",
                          head->live, err);
    return rc;
}

static int check_all(struct sql *s, enum schema_depth depth, struct err *err)
{
    static const char *const small[] = {
        "PRAGMA quick_check('meta')", "PRAGMA quick_check('block')",
        "PRAGMA quick_check('tenant')", "PRAGMA quick_check('token')",
    };
    struct schema_head head = { 0 };
    int rc = check_tables(s, err);

    if (rc == 0 && depth == SCHEMA_QUICK)
        rc = check_pages(s, "PRAGMA quick_check(1)", err);
    if (rc == 0 && depth == SCHEMA_FULL)
        rc = check_pages(s, "PRAGMA integrity_check(1)", err);
    for (unsigned i = 0; i < array_size(small) && rc == 0; i++)
        if (depth == SCHEMA_BOUNDED)
            rc = check_pages(s, small[i], err);
    if (rc == 0)
        rc = check_head(s, &head, err);
    if (rc == 0)
        rc = check_tail(s, err);
    if (rc == 0 && depth == SCHEMA_FULL)
        rc = check_number(s, "the number of events",
                          "SELECT count(*) FROM event", head.events, err);
    return rc;
}

int schema_check(struct sql *s, enum schema_depth depth, struct err *err)
{
    int rc = sql_exec(s, "BEGIN", err);    /* one view, beside a writer too */

    if (rc < 0)
        return rc;
    rc = check_all(s, depth, err);
    if (sql_exec(s, "COMMIT", rc < 0 ? NULL : err) < 0 && rc == 0)
        rc = -EIO;
    return rc;
}

int schema_sound(struct sql *s, struct err *err)
{
    unsigned version = 0;
    int rc = read_version(s, SCHEMA_VERSION, &version, err);

    if (rc < 0)
        return rc;
    if (version == 0)
        return err_set(err, EBADMSG, "'%s' is empty, not a store of Weir",
                       s->path);
    return check_pages(s, "PRAGMA integrity_check(1)", err);
}
