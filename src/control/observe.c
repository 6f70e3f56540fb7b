#include "control/control_int.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "engine/engine.h"

#include <string.h>

/* What stood idle in pools that are observed, into the journal: each row of an
 * engine's history becomes a pool.seen, once it is over.  Rows that are not
 * durable yet are kept here, oldest first, and are written again when the store
 * could not.
 *
 * When the control plane ends, or stops to observe a pool, the row under way
 * ends.  Where it is killed that row is lost, and its time counts as not seen.
 */
enum { LOOK_MS = 5000, ROWS_MAX = 10000 };

struct sending {
    struct control *c;
    json_t *kept;                      /* its place in c->rows */
};

static void forget(json_t *rows, const json_t *kept)
{
    const json_t *one;
    size_t i;

    json_array_foreach(rows, i, one)
        if (one == kept) {
            (void) json_array_remove(rows, i);
            return;
        }
}

static void on_row(int rc, uint64_t seq, uint64_t workload,
                   const struct err *err, void *arg)
{
    struct sending *s = arg;

    (void) seq;
    (void) workload;
    (void) err;                        /* whoever failed has said it */
    if (rc == 0)
        forget(s->c->rows, s->kept);
    else
        json_put_bool(s->kept, "sent", false);
    json_decref(s->kept);
    free(s);
}

static void send_row(struct control *c, json_t *kept)
{
    struct sending *s;
    struct event e;

    if (c->trouble[0] || json_get_bool(kept, "sent", false))
        return;
    s = mem_new(sizeof *s);
    *s = (struct sending) { .c = c, .kept = json_incref(kept) };
    event_init(&e, EVENT_POOL_SEEN);
    e.data = json_incref(json_object_get(kept, "row"));
    json_put_bool(kept, "sent", true);
    if (journal_event(c, &e, on_row, s, NULL) < 0)
        on_row(-1, 0, 0, NULL, s);
}

static void send_rows(struct control *c)
{
    json_t *kept;
    size_t i;

    json_array_foreach(c->rows, i, kept)
        send_row(c, kept);
}

/* {seen, models: {MODEL: {used, ...}}}, in seconds: of a row into a sum. */
static void add_sum(json_t *sum, const json_t *row)
{
    static const char *const shares[] = { "used", "waste", "idle_frag",
                                          "idle_nodemand" };
    json_t *models = json_object_get(sum, "models"), *to;
    uint64_t from = 0, until = 0;
    const json_t *d;
    size_t i;

    if (clock_parse(json_get_str(row, "from", ""), &from, NULL) == 0 &&
        clock_parse(json_get_str(row, "to", ""), &until, NULL) == 0)
        json_put_u64(sum, "seen", json_get_u64(sum, "seen", 0) +
                     (until - from) / 1000);
    json_array_foreach(json_object_get(row, "devices"), i, d) {
        const char *model = json_get_str(d, "model", "");

        if (!json_object_get(models, model))
            json_put(models, model, json_object());
        to = json_object_get(models, model);
        for (size_t k = 0; k < array_size(shares); k++)
            json_put_u64(to, shares[k], json_get_u64(to, shares[k], 0) +
                         json_get_u64(d, shares[k], 0));
    }
}

static void add_total(struct control *c, const char *pool, const json_t *row)
{
    if (!c->totals)
        c->totals = json_object();
    if (!json_object_get(c->totals, pool))
        json_put(c->totals, pool, json_pack("{s:{}}", "models"));
    add_sum(json_object_get(c->totals, pool), row);
}

/* A disk that is full for so long: the oldest are not seen, then. */
static void keep_row(struct control *c, const char *pool, const json_t *row)
{
    json_t *named = json_object();

    add_total(c, pool, row);
    if (!c->rows)
        c->rows = json_array();
    if (json_array_size(c->rows) >= ROWS_MAX) {
        log_say(LOG_WARN, "what was seen of a pool is forgotten, as it cannot "
                "be written", "pool", pool, NULL);
        (void) json_array_remove(c->rows, 0);
    }
    json_put_str(named, "name", pool);
    (void) json_object_update(named, (json_t *) (uintptr_t) row);
    (void) json_array_append_new(c->rows, json_pack("{s:b,s:o}", "sent", 0,
                                                    "row", named));
}

static void take_rows(struct control *c, struct reached *r,
                      enum engine_history what)
{
    autojson json_t *rows = r->engine ? r->ops->history(r->engine, what)
                                      : NULL;
    const json_t *row;
    size_t i;

    json_array_foreach(rows, i, row)
        if (r->observe)
            keep_row(c, r->name, row);
}

static void take_all(struct control *c, enum engine_history what)
{
    struct reached *r;
    size_t pos = 0;

    while ((r = map_next(c->pools, &pos, NULL)))
        take_rows(c, r, what);
    send_rows(c);
}

static void on_look(struct watch *w, void *arg)
{
    struct control *c = arg;

    (void) w;
    take_all(c, ENGINE_OVER);
    c->observing = loop_timer(c->loop, LOOK_MS, on_look, c);
}

void observe_start(struct control *c)
{
    c->observing = loop_timer(c->loop, LOOK_MS, on_look, c);
}

void observe_stop(struct control *c)
{
    watch_remove(take(c->observing));
    take_all(c, ENGINE_END);
}

void observe_leave(struct control *c, struct reached *r)
{
    if (c->draining || c->closing)
        return;
    take_rows(c, r, ENGINE_END);
    send_rows(c);
}

void observe_close(struct control *c)
{
    c->closing = true;
    watch_remove(take(c->observing));
    json_decref(take(c->rows));
    json_decref(take(c->totals));
}

/* To look at it may end a row: it is taken at once, so that no time is missing
 * and sums never fall.
 */
static json_t *under_way(struct control *c, const char *pool, bool going)
{
    struct reached *r = map_get(c->pools, pool);
    json_t *now;

    if (!r || !r->engine || !r->observe)
        return NULL;
    now = r->ops->history(r->engine, going ? ENGINE_GOING : ENGINE_UNDER_WAY);
    take_rows(c, r, ENGINE_OVER);
    return now;
}

json_t *observe_rows(const char *pool, bool going, void *arg)
{
    struct control *c = arg;
    json_t *list = json_array(), *kept;
    autojson json_t *now = under_way(c, pool, going);
    size_t i;

    json_array_foreach(c->rows, i, kept) {
        json_t *row = json_object_get(kept, "row");

        if (strcmp(json_get_str(row, "name", ""), pool) == 0)
            (void) json_array_append(list, row);
    }
    if (now) {
        json_put_bool(json_array_get(now, 0), "going", true);
        (void) json_array_extend(list, now);
    }
    return list;
}

json_t *observe_totals(const char *pool, void *arg)
{
    struct control *c = arg;
    autojson json_t *now = under_way(c, pool, false);
    const json_t *so_far = json_object_get(c->totals, pool);
    json_t *sum;

    if (!so_far && !now)
        return NULL;
    sum = so_far ? json_deep_copy(so_far) : json_pack("{s:{}}", "models");
    if (now)
        add_sum(sum, json_array_get(now, 0));
    return sum;
}
