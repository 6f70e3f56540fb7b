#include "store/store_int.h"

#include "base/json.h"
#include "base/mem.h"
#include "core/spec.h"
#include "core/world.h"
#include "store/batch.h"
#include "store/load.h"
#include "store/schema.h"
#include "store/sql.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* Start-up: the rows of what is alive, from one view of the tables.  What
 * cannot be read is named and refused.
 */

int load_json(const struct query *q, int at, const char *what, json_t **ret,
              struct err *err)
{
    size_t len;
    const char *text = query_col(q, at, &len);
    struct err why = { 0 };

    if (!text)
        return err_set(err, EBADMSG, "the store '%s' is damaged: %s is "
                       "missing", q->sql->path, what);
    if (json_read(text, len, LOAD_JSON_MAX, ret, &why) < 0)
        return err_set(err, EBADMSG, "the store '%s' is damaged: %s: %s",
                       q->sql->path, what, why.text);
    return 0;
}

int load_spec(const struct query *q, int at, uint64_t workload,
              struct spec **ret, struct err *err)
{
    autojson json_t *j = NULL;
    struct err why = { 0 };
    char what[64];
    int rc;

    (void) snprintf(what, sizeof what, "the spec of w%" PRIu64, workload);
    rc = load_json(q, at, what, &j, err);
    if (rc < 0)
        return rc;
    if (spec_from_json(j, ret, &why) < 0)
        return err_set(err, EBADMSG, "the store '%s' is damaged: %s: %s",
                       q->sql->path, what, why.text);
    return 0;
}

static int give(const struct query *q, struct world *w, enum world_table table,
                const char *key, int body_at, struct spec *spec,
                struct err *err)
{
    autojson json_t *body = NULL;
    struct err why = { 0 };
    int rc = load_json(q, body_at, key, &body, err);

    if (rc < 0) {
        spec_free(spec);
        return rc;
    }
    if (world_load(w, table, key, body, spec, &why) < 0)
        return err_set(err, EBADMSG, "the store '%s' is damaged: the row '%s': "
                       "%s", q->sql->path, key, why.text);
    return 0;
}

static int load_keyed(struct store *s, struct world *w, enum world_table table,
                      const char *text, struct err *err)
{
    autoquery struct query q = { 0 };
    int rc = query_begin(&q, s->reader, text, err);

    while (rc == 0 && (rc = query_step(&q, err)) > 0) {
        const char *key = query_col(&q, 0, NULL);

        rc = give(&q, w, table, key ? key : "", 1, NULL, err);
    }
    return rc;
}

static int load_tasks(struct store *s, struct world *w, uint64_t id,
                      struct err *err)
{
    autoquery struct query q = { 0 };
    int rc = query_begin(&q, s->reader, "SELECT task, body FROM task "
                         "WHERE workload = ?1", err);

    if (rc < 0)
        return rc;
    query_u64(&q, 1, id);
    while (rc == 0 && (rc = query_step(&q, err)) > 0) {
        char key[64];

        (void) snprintf(key, sizeof key, "%" PRIu64 "/%" PRIu64, id,
                        query_col_u64(&q, 0));
        rc = give(&q, w, TABLE_TASK, key, 1, NULL, err);
    }
    return rc;
}

static int load_workloads(struct store *s, struct world *w, struct err *err)
{
    autoquery struct query q = { 0 };
    int rc = query_begin(&q, s->reader, "SELECT w.id, w.body, s.body FROM "
                         "workload w LEFT JOIN spec s ON s.workload = w.id "
                         "WHERE w.live = 1 ORDER BY w.id", err);

    while (rc == 0 && (rc = query_step(&q, err)) > 0) {
        uint64_t id = query_col_u64(&q, 0);
        struct spec *spec = NULL;
        char key[32];

        (void) snprintf(key, sizeof key, "%" PRIu64, id);
        rc = load_spec(&q, 2, id, &spec, err);
        if (rc == 0)
            rc = give(&q, w, TABLE_WORKLOAD, key, 1, spec, err);
        if (rc == 0)
            rc = load_tasks(s, w, id, err);
    }
    return rc;
}

static int load_all(struct store *s, struct world *w, struct err *err)
{
    struct schema_head head = { 0 };
    int rc = load_keyed(s, w, TABLE_META, "SELECT key, value FROM meta "
                        "WHERE key NOT LIKE 'store.%'", err);

    if (rc == 0)
        rc = load_keyed(s, w, TABLE_TENANT, "SELECT key, body FROM tenant",
                        err);
    if (rc == 0)
        rc = load_keyed(s, w, TABLE_TOKEN, "SELECT key, body FROM token", err);
    if (rc == 0)
        rc = load_keyed(s, w, TABLE_BLOCK, "SELECT key, body FROM block", err);
    if (rc == 0)
        rc = load_workloads(s, w, err);
    if (rc == 0)
        rc = schema_head(s->reader, &head, err);
    return rc < 0 ? rc : world_loaded(w, head.seq, head.time_ms, err);
}

int store_load(struct store *s, struct world *w, struct err *err)
{
    int rc = sql_exec(s->reader, "BEGIN", err);

    if (rc < 0)
        return rc;
    rc = load_all(s, w, err);
    if (rc < 0)
        (void) sql_exec(s->reader, "ROLLBACK", NULL);
    else
        rc = sql_exec(s->reader, "COMMIT", err);
    batch_slim();
    return rc;
}
