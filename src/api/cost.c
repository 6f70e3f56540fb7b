#include "api/handlers.h"

#include "api/api_int.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "core/world.h"
#include "store/store.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* What was used and what it costs: of tenants, or of their workloads.  The rows
 * of workloads have the sums; those that have ended are in the store as long
 * as retention keeps them.
 */
enum { PAGE = 1000 };

struct sum {
    double gpu_s, lost_s, cost;
    uint64_t workloads;
};

struct bill {
    struct call *call;
    json_t *items;
    struct map *tenants;               /* name -> struct sum; by tenant */
    uint64_t since_ms, last;           /* the last id that was seen */
    uint64_t shown;                    /* and that is in `items` */
    uint32_t seen, want;
    bool by_workload, full, past;
};

static void add(struct sum *s, const json_t *row)
{
    s->gpu_s += json_get_number(row, "gpu_seconds");
    s->lost_s += json_get_number(row, "gpu_seconds_lost");
    s->cost += json_get_number(row, "cost");
    s->workloads++;
}

/* To so many digits: sums of what was rounded are. */
static json_t *rounded(double v, double digits)
{
    return json_real(round(v * digits) / digits);
}

static json_t *line(const char *tenant, const struct sum *s)
{
    json_t *o = json_object();

    json_put_str(o, "tenant", tenant);
    json_put(o, "gpu_seconds", rounded(s->gpu_s, 1e3));
    json_put(o, "gpu_hours", rounded(s->gpu_s / 3600, 1e5));
    json_put(o, "gpu_seconds_lost", rounded(s->lost_s, 1e3));
    json_put(o, "cost", rounded(s->cost, 1e4));
    return o;
}

/* A row of the store: newest first. */
static int on_workload(uint64_t id, const char *body, size_t len, void *arg)
{
    struct bill *b = arg;
    autojson json_t *row = json_loadb(body, len, 0, NULL);
    const char *tenant = json_get_str(row, "tenant", "");
    const struct workload *wl = world_workload(api_world(b->call->api), id);
    autojson json_t *live = wl ? view_workload(wl) : NULL;
    struct sum one = { 0 }, *s;
    uint64_t submitted = 0;

    if (!row)
        return -EBADMSG;
    b->last = id;
    b->seen++;
    (void) clock_parse(json_get_str(row, "submitted", ""), &submitted, NULL);
    if (submitted < b->since_ms) {
        b->past = true;
        return 0;
    }
    if (!auth_sees(b->call->api, &b->call->who, tenant))
        return 0;
    if (b->by_workload) {
        json_t *o;

        if (json_array_size(b->items) == b->want) {
            b->full = true;
            return 0;
        }
        add(&one, live ? live : row);
        o = line(tenant, &one);
        json_put_str(o, "workload", json_get_str(row, "id", NULL));
        json_put_str(o, "name", json_get_str(row, "name", NULL));
        (void) json_array_append_new(b->items, o);
        b->shown = id;
        return 0;
    }
    s = map_get(b->tenants, tenant);
    if (!s) {
        s = mem_new(sizeof *s);
        (void) map_set(b->tenants, tenant, s);
    }
    add(s, live ? live : row);
    return 0;
}

static int read_workloads(struct bill *b, struct err *err)
{
    const char *before = call_arg(b->call, "before");
    struct store_workload_query q = {
        .limit = PAGE, .tenant = call_arg(b->call, "tenant"),
    };
    int rc = 0;

    if (before)
        (void) workload_id_parse(before, &q.before, NULL);
    do {
        b->seen = 0;
        rc = store_workloads(api_store(b->call->api), &q, on_workload, b,
                             err);
        q.before = b->last;
    } while (rc == 0 && b->seen == PAGE && !b->past && !b->full);
    return rc;
}

static void take_tenants(struct bill *b)
{
    const char *name;
    struct sum *s;
    size_t pos = 0;

    while ((s = map_next(b->tenants, &pos, &name))) {
        json_t *o = line(name, s);

        json_put_u64(o, "workloads", s->workloads);
        (void) json_array_append_new(b->items, o);
        free(s);
    }
    map_free(b->tenants);
}

bool call_since(struct call *c, uint64_t *ret)
{
    const char *s = call_arg(c, "since");
    uint64_t ms;

    *ret = 0;
    if (!s)
        return true;
    if (quantity_duration(s, &ms, NULL) == 0) {
        *ret = api_now(c->api) > ms ? api_now(c->api) - ms : 0;
        return true;
    }
    if (clock_parse(s, ret, NULL) == 0)
        return true;
    reply_error(c, 422, "since: expected a date such as "
                "2030-01-31T18:00:00Z, or so long ago such as 7d");
    return false;
}

/* All time, of tenants: they keep their sums whatever retention takes. */
static void tenants_ever(struct call *c)
{
    autojson json_t *all = view_cost(api_world(c->api), api_now(c->api));
    const char *only = call_arg(c, "tenant");
    json_t *items = json_array(), *o;
    size_t i;

    json_array_foreach(json_object_get(all, "tenants"), i, o) {
        const char *name = json_get_str(o, "tenant", "");

        if (auth_sees(c->api, &c->who, name) &&
            (!only || strcmp(only, name) == 0))
            (void) json_array_append(items, o);
    }
    reply_items(c, items, NULL);
}

static void some(struct call *c, uint64_t since_ms, bool by_workload)
{
    struct bill b = {
        .call = c, .items = json_array(), .tenants = map_new(),
        .since_ms = since_ms, .by_workload = by_workload,
        .want = (uint32_t) call_count(c, "limit", 100),
    };
    struct err err = { 0 };
    int rc = read_workloads(&b, &err);
    char next[24];

    take_tenants(&b);
    if (rc == 0) {
        workload_id_print(b.shown, next, sizeof next);
        reply_items(c, b.items, b.full ? json_string(next) : NULL);
        return;
    }
    json_decref(b.items);
    reply_rc(c, rc, &err);
}

void get_cost(struct call *c)
{
    const char *by = call_arg(c, "by");
    bool by_workload = by && strcmp(by, "workload") == 0;
    uint64_t since_ms;

    if (!call_since(c, &since_ms))
        return;
    if (call_arg(c, "tenant") && !call_tenant(c, call_arg(c, "tenant")))
        return;
    if (call_arg(c, "before") && !by_workload) {
        reply_error(c, 422, "before: goes with by=workload");
        return;
    }
    if (since_ms || by_workload)
        some(c, since_ms, by_workload);
    else
        tenants_ever(c);
}
