#include "store/store_int.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "core/event.h"
#include "core/spec.h"
#include "store/load.h"
#include "store/sql.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Each query names the one index that it should walk: the most selective of
 * the conditions that were asked for.  The others are hidden from the planner
 * by a plus sign, so that a list is read in order and stops at its limit.
 */
enum { TEXT_MAX = 1 << 30, SQL_MAX = 1024 };

static void events_where(struct buf *text, const struct store_event_query *q)
{
    bool walk = true;        /* this condition may use its index */

    (void) buf_str(text, " WHERE e.seq > ?1");
    if (q->before)
        (void) buf_str(text, " AND e.seq < ?2");
    if (q->workload) {
        (void) buf_str(text, " AND e.workload = ?3");
        walk = false;
    }
    if (q->tenant) {
        (void) buf_printf(text, " AND %se.tenant = ?4", walk ? "" : "+");
        walk = false;
    }
    if (q->type)
        (void) buf_printf(text, " AND %se.type = ?5", walk ? "" : "+");
    (void) buf_printf(text, " ORDER BY e.seq %s LIMIT ?6",
                      q->before ? "DESC" : "ASC");
}

static int events_begin(struct store *s, const struct store_event_query *q,
                        struct query *ret, struct err *err)
{
    cleanup(buf_free) struct buf text = BUF_INIT(SQL_MAX);
    int rc;

    (void) buf_printf(&text, "SELECT e.seq, e.time_ms, e.type, e.tenant, "
                      "e.workload, e.body, %s FROM event e",
                      q->whole ? "(SELECT s.body FROM spec s WHERE "
                      "s.workload = e.workload AND "
                      "e.type = 'workload.submitted')" : "NULL");
    events_where(&text, q);
    rc = query_begin(ret, s->reader, buf_text(&text), err);
    if (rc < 0)
        return rc;
    query_u64(ret, 1, q->after < INT64_MAX ? q->after : INT64_MAX);
    if (q->before)
        query_u64(ret, 2, q->before < INT64_MAX ? q->before : INT64_MAX);
    if (q->workload)
        query_u64(ret, 3, q->workload < INT64_MAX ? q->workload : INT64_MAX);
    if (q->tenant)
        query_str(ret, 4, q->tenant);
    if (q->type)
        query_str(ret, 5, q->type);
    query_u64(ret, 6, q->limit);
    return 0;
}

/* The body with the spec put back in: {...,"spec":{...}}. */
static bool splice(struct buf *whole, const char *body, size_t len,
                   const char *spec, size_t spec_len)
{
    buf_clear(whole);
    if (len < 2 || body[len - 1] != '}')
        return false;
    (void) buf_add(whole, body, len - 1);
    if (len > 2)
        (void) buf_char(whole, ',');
    (void) buf_str(whole, "\"spec\":");
    (void) buf_add(whole, spec, spec_len);
    return buf_char(whole, '}');
}

static int event_row(const struct query *q, struct buf *whole,
                     struct store_event *ret, struct err *err)
{
    size_t spec_len;
    const char *spec;

    *ret = (struct store_event) {
        .seq = query_col_u64(q, 0),
        .time_ms = query_col_u64(q, 1),
        .type = query_col(q, 2, NULL),
        .tenant = query_col(q, 3, NULL),
        .workload = query_col_u64(q, 4),
    };
    ret->body = query_col(q, 5, &ret->len);
    spec = query_col(q, 6, &spec_len);
    if (!ret->type || !ret->body)
        return err_set(err, EBADMSG, "the store '%s' is damaged: event %"
                       PRIu64 " has no text", q->sql->path, ret->seq);
    if (!spec)
        return 0;
    if (!splice(whole, ret->body, ret->len, spec, spec_len))
        return err_set(err, EBADMSG, "the store '%s' is damaged: event %"
                       PRIu64 " is no object", q->sql->path, ret->seq);
    ret->body = buf_text(whole);
    ret->len = whole->len;
    return 0;
}

int store_events(struct store *s, const struct store_event_query *q,
                 store_event_f cb, void *arg, struct err *err)
{
    autoquery struct query query = { 0 };
    cleanup(buf_free) struct buf whole = BUF_INIT(TEXT_MAX);
    int rc = events_begin(s, q, &query, err);

    while (rc == 0 && (rc = query_step(&query, err)) > 0) {
        struct store_event e;

        rc = event_row(&query, &whole, &e, err);
        if (rc == 0)
            rc = cb(&e, arg);
    }
    return rc;
}

uint64_t store_first_event(struct store *s)
{
    int64_t seq;

    if (sql_number(s->reader, "SELECT max(coalesce(min(seq), 0), coalesce(("
                   "SELECT value FROM meta WHERE key = 'store.trimmed') + 1, "
                   "0)) FROM event", &seq, NULL) < 0)
        return 0;
    return (uint64_t) seq;
}

/* Rows of (number, text) to a callback. */
static int each_body(struct query *q, store_body_f cb, void *arg,
                     struct err *err)
{
    int rc = 0;

    while (rc == 0 && (rc = query_step(q, err)) > 0) {
        size_t len;
        const char *body = query_col(q, 1, &len);

        if (!body)
            return err_set(err, EBADMSG, "the store '%s' is damaged: a row "
                           "has no text", q->sql->path);
        rc = cb(query_col_u64(q, 0), body, len, arg);
    }
    return rc;
}

static const char *state_where(const struct store_workload_query *q)
{
    if (!q->state)
        return "";
    if (strcmp(q->state, "live") == 0)
        return q->tenant ? " AND +live = 1" : " AND live = 1";
    if (strcmp(q->state, "ended") == 0)
        return " AND +live = 0";
    return NULL;
}

int store_workloads(struct store *s, const struct store_workload_query *q,
                    store_body_f cb, void *arg, struct err *err)
{
    autoquery struct query query = { 0 };
    const char *state = state_where(q);
    char text[256];
    int rc;

    if (!state)
        return err_set(err, EINVAL, "a state is 'live' or 'ended', not '%s'",
                       q->state);
    (void) snprintf(text, sizeof text, "SELECT id, body FROM workload "
                    "WHERE id < ?1%s%s ORDER BY id DESC LIMIT ?2",
                    q->tenant ? " AND tenant = ?3" : "", state);
    rc = query_begin(&query, s->reader, text, err);
    if (rc < 0)
        return rc;
    query_u64(&query, 1, q->before && q->before < INT64_MAX ? q->before :
              INT64_MAX);
    query_u64(&query, 2, q->limit);
    if (q->tenant)
        query_str(&query, 3, q->tenant);
    return each_body(&query, cb, arg, err);
}

static int read_spec(struct store *s, uint64_t id, struct spec **ret,
                     struct err *err)
{
    autoquery struct query q = { 0 };
    int rc = query_begin(&q, s->reader, "SELECT body FROM spec "
                         "WHERE workload = ?1", err);

    if (rc < 0)
        return rc;
    query_u64(&q, 1, id);
    rc = query_step(&q, err);
    if (rc == 0)
        return err_set(err, EBADMSG, "the store '%s' is damaged: w%" PRIu64
                       " has no spec", s->path, id);
    return rc < 0 ? rc : load_spec(&q, 0, id, ret, err);
}

int store_workload(struct store *s, uint64_t id, json_t **ret_body,
                   struct spec **ret_spec, struct err *err)
{
    autoquery struct query q = { 0 };
    autojson json_t *body = NULL;
    int rc = query_begin(&q, s->reader, "SELECT body FROM workload "
                         "WHERE id = ?1", err);

    if (rc < 0)
        return rc;
    query_u64(&q, 1, id < INT64_MAX ? id : INT64_MAX);
    rc = query_step(&q, err);
    if (rc == 0)
        return err_set(err, ENOENT, "no workload w%" PRIu64, id);
    if (rc > 0)
        rc = load_json(&q, 0, "a workload's row", &body, err);
    if (rc == 0 && ret_spec)
        rc = read_spec(s, id, ret_spec, err);
    if (rc == 0 && ret_body)
        *ret_body = take(body);
    return rc;
}

int store_tasks(struct store *s, uint64_t workload, uint32_t from,
                uint32_t limit, store_body_f cb, void *arg, struct err *err)
{
    autoquery struct query q = { 0 };
    int rc = query_begin(&q, s->reader, "SELECT task, body FROM task WHERE "
                         "workload = ?1 AND task >= ?2 ORDER BY task "
                         "LIMIT ?3", err);

    if (rc < 0)
        return rc;
    query_u64(&q, 1, workload < INT64_MAX ? workload : INT64_MAX);
    query_u64(&q, 2, from);
    query_u64(&q, 3, limit);
    return each_body(&q, cb, arg, err);
}

int store_find_key(struct store *s, const char *who, const char *key,
                   uint64_t *ret_workload, char ret_hash[65], struct err *err)
{
    autoquery struct query q = { 0 };
    const char *hash;
    int rc = query_begin(&q, s->reader, "SELECT id, hash FROM workload WHERE "
                         "key = ?1 AND who = ?2 ORDER BY id DESC LIMIT 1",
                         err);

    if (rc < 0)
        return rc;
    query_str(&q, 1, key);
    query_str(&q, 2, who);
    rc = query_step(&q, err);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return err_set(err, ENOENT, "nothing was submitted with the key '%s'",
                       key);
    hash = query_col(&q, 1, NULL);
    *ret_workload = query_col_u64(&q, 0);
    (void) snprintf(ret_hash, 65, "%s", hash ? hash : "");
    return 0;
}
