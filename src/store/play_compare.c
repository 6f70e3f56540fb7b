#include "store/play.h"

#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "core/world.h"
#include "store/sql.h"
#include "store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Rows by "TABLE KEY", each a text. */
struct replay {
    struct world *world;
    struct map *rows;
    uint64_t events, last;
    struct err err;
};

static const char *const tables[TABLE_COUNT] = {
    [TABLE_WORKLOAD] = "workload", [TABLE_TASK] = "task",
    [TABLE_BLOCK] = "block", [TABLE_TENANT] = "tenant",
    [TABLE_TOKEN] = "token", [TABLE_META] = "meta",
};

static void put(struct map *rows, const char *name, char *text)
{
    free(text ? map_set(rows, name, text) : map_del(rows, name));
}

static int on_row(const struct world_row *row, void *arg)
{
    struct replay *r = arg;
    autofree char *name = mem_printf("%s %s", tables[row->table], row->key);

    if (row->table == TABLE_META && strcmp(row->key, "promises") == 0)
        return 0;                      /* no event tells of what is promised */
    put(r->rows, name, mem_str(row->body));
    if (row->table == TABLE_WORKLOAD) {
        autofree char *live = mem_printf("live %s", row->key);
        autofree char *tenant = mem_printf("of %s", row->key);

        put(r->rows, live, mem_str(row->live ? "1" : "0"));
        put(r->rows, tenant, mem_str(row->tenant));
    }
    return 0;
}

/* What the store itself keeps from events. */
static void note_event(struct replay *r, const struct event *e)
{
    autofree char *end = mem_printf("ended %" PRIu64, e->workload);
    autofree char *key = mem_printf("key %" PRIu64, e->workload);
    autofree char *spec = mem_printf("spec %" PRIu64, e->workload);

    if (e->spec) {
        autojson json_t *j = spec_to_json(e->spec);

        put(r->rows, spec, json_text(j));
    }
    if (e->type == EVENT_WORKLOAD_ENDED)
        put(r->rows, end, mem_printf("%" PRIu64, e->time_ms));
    if (e->type == EVENT_SUBMITTED && e->key[0])
        put(r->rows, key, mem_printf("%s %s %s", e->who, e->key, e->hash));
}

static int on_event(const struct store_event *s, void *arg)
{
    struct replay *r = arg;
    autojson json_t *j = NULL;
    struct event e = { 0 };
    int rc;

    if (s->seq != r->last + 1)
        return err_set(&r->err, EILSEQ, "event %" PRIu64 " follows %" PRIu64,
                       s->seq, r->last);
    rc = json_read(s->body, s->len, 1 << 30, &j, &r->err);
    if (rc == 0)
        rc = event_from_json(j, &e, &r->err);
    if (rc < 0)
        return rc;
    if (e.seq != s->seq || e.time_ms != s->time_ms ||
        e.workload != s->workload ||
        strcmp(event_type_name(e.type), s->type) != 0)
        rc = err_set(&r->err, EILSEQ, "event %" PRIu64 ": columns and body "
                     "differ", s->seq);
    note_event(r, &e);
    if (rc == 0)
        rc = world_apply(r->world, &e, &r->err);
    event_clear(&e);
    r->last = s->seq;
    r->events++;
    return rc < 0 ? err_prefix(&r->err, rc, "event %" PRIu64, s->seq) :
        world_rows(r->world, on_row, r);
}

static int compare_row(struct replay *r, const char *name, const char *have,
                       struct err *err)
{
    autofree char *want = map_del(r->rows, name);

    if (!want)
        return err_set(err, EILSEQ, "%s: is in the tables, not in the replay",
                       name);
    if (strcmp(want, have) != 0)
        return err_set(err, EILSEQ, "%s: the tables say %.150s, the replay "
                       "says %.150s", name, have, want);
    return 0;
}

/* Every row of the tables must be in the replay, which loses it here. */
static int compare_tables(struct replay *r, struct sql *sql, struct err *err)
{
    autoquery struct query q = { 0 };
    int rc = query_begin(&q, sql,
        "SELECT 'workload ' || id, body FROM workload UNION ALL "
        "SELECT 'live ' || id, live FROM workload UNION ALL "
        "SELECT 'of ' || id, tenant FROM workload UNION ALL "
        "SELECT 'ended ' || id, ended_ms FROM workload "
        "  WHERE ended_ms IS NOT NULL UNION ALL "
        "SELECT 'key ' || id, who || ' ' || key || ' ' || hash FROM workload "
        "  WHERE key IS NOT NULL UNION ALL "
        "SELECT 'spec ' || workload, body FROM spec UNION ALL "
        "SELECT 'task ' || workload || '/' || task, body FROM task UNION ALL "
        "SELECT 'block ' || key, body FROM block UNION ALL "
        "SELECT 'tenant ' || key, body FROM tenant UNION ALL "
        "SELECT 'token ' || key, body FROM token UNION ALL "
        "SELECT 'meta ' || key, value FROM meta "
        "  WHERE key NOT LIKE 'store.%' AND key <> 'promises'", err);

    while (rc == 0 && (rc = query_step(&q, err)) > 0)
        rc = compare_row(r, query_col(&q, 0, NULL), query_col(&q, 1, NULL),
                         err);
    return rc;
}

static int compare_rest(const struct replay *r, struct err *err)
{
    const char *name = NULL;
    size_t pos = 0;

    if (map_next(r->rows, &pos, &name))
        return err_set(err, EILSEQ, "%s: is in the replay, not in the tables",
                       name);
    return 0;
}

/* For the world that lived time has passed since the last event, and may have
 * brought somebody into line: that is no event, and the row of a tenant.
 */
static int catch_up(struct replay *r, uint64_t now_ms)
{
    struct event e = { 0 };

    if (world_step(r->world, now_ms, &e) > 0)
        event_clear(&e);
    return world_rows(r->world, on_row, r);
}

static int replay_all(struct play *p, uint64_t now_ms, struct replay *r,
                      struct err *err)
{
    struct store_event_query all = { .limit = UINT32_MAX, .whole = true };
    struct sql *sql = NULL;
    int rc = store_events(p->store, &all, on_event, r, err);

    if (rc == 0 && now_ms > 0)
        rc = catch_up(r, now_ms);
    if (rc < 0 && r->err.text[0])
        return err_set(err, -rc, "replay: %s", r->err.text);
    if (rc < 0)
        return rc;
    rc = sql_open(p->path, p->vfs, SQL_READ, &sql, err);
    if (rc == 0)
        rc = compare_tables(r, sql, err);
    if (rc == 0)
        rc = compare_rest(r, err);
    sql_close(sql);
    return rc;
}

int play_compare_at(struct play *p, uint64_t now_ms, uint64_t *ret,
                    struct err *err)
{
    struct replay r = { .world = world_new(), .rows = map_new() };
    size_t pos = 0;
    void *text;
    int rc = replay_all(p, now_ms, &r, err);

    while ((text = map_next(r.rows, &pos, NULL)))
        free(text);
    map_free(r.rows);
    world_free(r.world);
    if (rc == 0 && ret)
        *ret = r.events;
    return rc;
}

int play_compare(struct play *p, uint64_t *ret, struct err *err)
{
    return play_compare_at(p, 0, ret, err);
}
