#include "api/handlers.h"

#include "api/api_int.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "core/world.h"
#include "plan/policy.h"
#include "store/store.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What stood idle in a pool that is observed: the rows of its history since some
 * time, added up.  Prices are those of the policy in force.
 *
 * Rows are read from the newest to the oldest; one that overlaps what was read
 * already is passed over, so that no time counts twice.
 */
enum {
    PAGE = 1000,
    ROW_S = 900,                       /* no row crosses an edge of these */
    POINTS = 200,
    WAITS = 20,
    JOBS = 100000,
    WEEK_MS = 7 * 24 * 3600 * 1000,
};

static const char *const shares[] = { "used", "waste", "idle_frag",
                                      "idle_nodemand" };
enum { USED, WASTE, FRAG, IDLE, SHARES };

struct point {
    uint64_t seconds, devices[SHARES];
};

struct model {
    const char *name;
    double price;                      /* of a device-second */
    uint64_t sum[SHARES];
};

struct space {
    const char *name;
    double seconds, cost;
    uint64_t cpus, waited;
};

struct account {
    const struct policy *policy;
    const char *pool;
    uint64_t from_s, to_s;             /* asked for; points begin at base_s */
    uint64_t base_s;
    uint64_t oldest_s;                 /* what was read begins there */
    uint64_t seen_s, asked, starts, start_waits, cpus[SHARES];
    struct map *models, *spaces;       /* name -> struct model, space */
    json_t *waits;                     /* longest first */
    json_t *jobs;                      /* newest rows first; NULL: not asked */
    uint64_t left_out;
    uint64_t step_s;
    struct point points[POINTS];
    bool past;
};

static uint64_t time_at(const json_t *row, const char *key)
{
    uint64_t ms;

    return clock_parse(json_get_str(row, key, ""), &ms, NULL) < 0 ? 0
                                                                  : ms / 1000;
}

/* ---- rows ---- */

static void put_time(json_t *o, const char *key, uint64_t s)
{
    char text[32];

    clock_print(s * 1000, text, sizeof text);
    json_put_str(o, key, text);
}

static struct model *model_of(struct account *t, const char *name)
{
    struct model *m = map_get(t->models, name);

    if (m)
        return m;
    m = mem_new(sizeof *m);
    m->price = policy_price(t->policy, name) / 3600;
    (void) map_set(t->models, name, m);
    return m;
}

static struct space *space_of(struct account *t, const char *name)
{
    struct space *s = map_get(t->spaces, name);

    if (!s) {
        s = mem_new(sizeof *s);
        (void) map_set(t->spaces, name, s);
    }
    return s;
}

static void add_devices(struct account *t, const json_t *row, struct point *at)
{
    const json_t *d;
    size_t i;

    json_array_foreach(json_object_get(row, "devices"), i, d) {
        struct model *m = model_of(t, json_get_str(d, "model", ""));

        for (int k = 0; k < SHARES; k++) {
            uint64_t seconds = json_get_u64(d, shares[k], 0);

            m->sum[k] += seconds;
            at->devices[k] += seconds;
        }
    }
}

static void add_spaces(struct account *t, const json_t *row)
{
    const char *model;
    const json_t *o;
    json_t *v;
    size_t i;

    json_array_foreach(json_object_get(row, "namespaces"), i, o) {
        struct space *s = space_of(t, json_get_str(o, "name", ""));

        json_object_foreach(json_object_get(o, "devices"), model, v) {
            double seconds = json_number_value(v);

            s->seconds += seconds;
            s->cost += seconds * model_of(t, model)->price;
        }
        s->cpus += json_get_u64(o, "cpus", 0);
        s->waited += json_get_u64(o, "waited", 0);
    }
}

static bool same_wait(const json_t *a, const json_t *b)
{
    return strcmp(json_get_str(a, "pod", ""), json_get_str(b, "pod", "")) == 0
           && strcmp(json_get_str(a, "since", ""),
                     json_get_str(b, "since", "")) == 0;
}

/* Of one pod the newest row has the whole of it, and it comes first. */
static void add_waits(struct account *t, const json_t *row)
{
    const json_t *w, *have;
    size_t i, k, n;

    json_array_foreach(json_object_get(row, "waits"), i, w) {
        bool known = false;

        json_array_foreach(t->waits, k, have)
            known = known || same_wait(w, have);
        n = json_array_size(t->waits);
        for (k = n; k > 0; k--)
            if (json_get_u64(json_array_get(t->waits, k - 1), "wait", 0) >=
                json_get_u64(w, "wait", 0))
                break;
        if (known || k == WAITS)
            continue;
        (void) json_array_insert(t->waits, k, (json_t *) (uintptr_t) w);
        if (n == WAITS)
            (void) json_array_remove(t->waits, n);
    }
}

/* "NAMESPACE DEVICES CPUS MADE BOUND ENDED"; NULL: it is not.  Cut up. */
static json_t *read_job(char *line)
{
    static const char *const times[] = { "made", "bound", "ended" };
    const char *space = strsep(&line, " ");
    uint64_t n[5];
    json_t *o;

    for (size_t k = 0; k < array_size(n); k++) {
        const char *word = strsep(&line, " ");

        if (!word || quantity_count(word, &n[k], NULL) < 0)
            return NULL;
    }
    o = json_object();
    json_put_str(o, "namespace", space);
    json_put_u64(o, "devices", n[0]);
    json_put_milli(o, "cpus", n[1]);
    for (size_t k = 0; k < array_size(times); k++)
        if (n[2 + k])
            put_time(o, times[k], n[2 + k]);
    return o;
}

/* Pods that ended, and those that go on. */
static void add_jobs(struct account *t, const json_t *row)
{
    autofree char *text = mem_str(json_get_str(row, "jobs", ""));
    char *at = text, *line;

    t->left_out += json_get_u64(row, "jobs_left_out", 0);
    while ((line = strsep(&at, "\n"))) {
        json_t *o = *line ? read_job(line) : NULL;

        if (o && json_array_size(t->jobs) < JOBS)
            (void) json_array_append(t->jobs, o);
        else
            t->left_out += o != NULL;
        json_decref(o);
    }
}

static void add_row(struct account *t, const json_t *row)
{
    uint64_t from = time_at(row, "from"), to = time_at(row, "to");
    struct point *at;

    if (json_get_bool(row, "going", false)) {
        t->to_s = to;
        if (t->jobs && from == to)
            add_jobs(t, row);          /* who goes on, of no time yet */
    }
    if (strcmp(json_get_str(row, "name", t->pool), t->pool) != 0 ||
        from >= to || to > t->oldest_s || from < t->from_s ||
        from >= t->base_s + POINTS * t->step_s)
        return;
    t->oldest_s = from;
    at = &t->points[(from - t->base_s) / t->step_s];
    at->seconds += to - from;
    t->seen_s += to - from;
    t->asked += json_get_u64(row, "asked", 0);
    t->starts += json_get_u64(row, "starts", 0);
    t->start_waits += json_get_u64(row, "start_waits", 0);
    for (int k = 0; k < SHARES; k++)
        t->cpus[k] += json_get_u64(json_object_get(row, "cpus"), shares[k],
                                   0);
    add_devices(t, row, at);
    add_spaces(t, row);
    add_waits(t, row);
    if (t->jobs)
        add_jobs(t, row);
}

struct page {
    struct account *account;
    uint64_t last;
    uint32_t seen;
};

static int on_event(const struct store_event *e, void *arg)
{
    struct page *p = arg;
    autojson json_t *j = json_loadb(e->body, e->len, 0, NULL);

    if (!j)
        return -EBADMSG;
    p->last = e->seq;
    p->seen++;
    if (e->time_ms / 1000 < p->account->from_s)
        p->account->past = true;         /* rows end before they are written */
    else
        add_row(p->account, json_object_get(j, "data"));
    return 0;
}

static int read_rows(struct call *c, struct account *t, struct err *err)
{
    autojson json_t *fresh = c->api->ops->pool_rows(t->pool, t->jobs,
                                                    c->api->arg);
    struct store_event_query q = { .before = INT64_MAX, .limit = PAGE,
                                   .type = "pool.seen" };
    struct page p = { .account = t };
    int rc = 0;

    for (size_t i = json_array_size(fresh); i-- > 0;)
        add_row(t, json_array_get(fresh, i));
    do {
        p.seen = 0;
        rc = store_events(api_store(c->api), &q, on_event, &p, err);
        q.before = p.last;
    } while (rc == 0 && p.seen == PAGE && !t->past);
    return rc;
}

/* ---- the answer ---- */

/* To so many digits: sums of what was rounded are. */
static void put_rounded(json_t *o, const char *key, double v, double digits)
{
    json_put(o, key, json_real(round(v * digits) / digits));
}

/* Seconds of `unit`s, and what of them is wasted. */
static void put_shares(json_t *o, const uint64_t *sum, double unit)
{
    uint64_t all = sum[USED] + sum[WASTE] + sum[FRAG] + sum[IDLE];

    for (int k = 0; k < SHARES; k++)
        put_rounded(o, shares[k], (double) sum[k] / unit, 1e3);
    put_rounded(o, "total", (double) all / unit, 1e3);
    put_rounded(o, "wr", all ? (double) (sum[WASTE] + sum[FRAG]) /
                (double) all : 0, 1e9);
    put_rounded(o, "utilisation", all ? (double) sum[USED] / (double) all : 0,
                1e9);
}

static void put_costs(json_t *o, const double *cost)
{
    json_t *costs = json_object();

    for (int k = 0; k < SHARES; k++)
        put_rounded(costs, shares[k], cost[k], 1e4);
    json_put(o, "cost", costs);
}

static void put_models(json_t *o, const struct account *t)
{
    uint64_t all[SHARES] = { 0 };
    double cost[SHARES] = { 0 };
    json_t *devices = json_object(), *list = json_array();
    const struct model *m;
    const char *name;
    size_t pos = 0;

    while ((m = map_next(t->models, &pos, &name))) {
        json_t *one = json_object();
        double mine[SHARES];

        for (int k = 0; k < SHARES; k++) {
            mine[k] = (double) m->sum[k] * m->price;
            all[k] += m->sum[k];
            cost[k] += mine[k];
        }
        json_put_str(one, "model", name);
        put_rounded(one, "price_hour", m->price * 3600, 1e6);
        put_shares(one, m->sum, 1);
        put_costs(one, mine);
        (void) json_array_append_new(list, one);
    }
    put_shares(devices, all, 1);
    put_rounded(devices, "asked", (double) t->asked, 1);
    put_costs(devices, cost);
    json_put(o, "devices", devices);
    json_put(o, "models", list);
}

static int by_use(const void *va, const void *vb)
{
    const struct space *a = *(const struct space *const *) va;
    const struct space *b = *(const struct space *const *) vb;

    if (a->seconds < b->seconds || a->seconds > b->seconds)
        return a->seconds < b->seconds ? 1 : -1;
    if (a->waited != b->waited)
        return a->waited < b->waited ? 1 : -1;
    return strcmp(a->name, b->name);
}

static void put_spaces(json_t *o, const struct account *t)
{
    size_t n = map_count(t->spaces), i = 0, pos = 0;
    autofree const struct space **all = mem_array(n + 1, sizeof(*all));
    json_t *list = json_array();
    const char *name;
    struct space *s;

    while ((s = map_next(t->spaces, &pos, &name))) {
        s->name = name;
        all[i++] = s;
    }
    qsort(all, n, sizeof *all, by_use);
    for (i = 0; i < n; i++) {
        json_t *one = json_object();

        json_put_str(one, "name", all[i]->name);
        put_rounded(one, "device_seconds", all[i]->seconds, 1);
        put_rounded(one, "cpu_seconds", (double) all[i]->cpus / 1000, 1e3);
        put_rounded(one, "cost", all[i]->cost, 1e4);
        put_rounded(one, "waited_device_seconds", (double) all[i]->waited, 1);
        (void) json_array_append_new(list, one);
    }
    json_put(o, "namespaces", list);
}

static void put_points(json_t *o, const struct account *t)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < POINTS; i++) {
        const struct point *p = &t->points[i];
        uint64_t from = t->base_s + i * t->step_s, to = from + t->step_s;
        json_t *one;

        if (from >= t->to_s)
            break;
        from = from > t->from_s ? from : t->from_s;
        to = to < t->to_s ? to : t->to_s;
        one = json_object();
        put_time(one, "from", from);
        json_put_u64(one, "seconds", to > from ? to - from : 0);
        json_put_u64(one, "seen_seconds", p->seconds);
        for (int k = 0; k < SHARES; k++)
            json_put_u64(one, shares[k], p->devices[k]);
        (void) json_array_append_new(list, one);
    }
    json_put(o, "series", list);
}

static void put_waits(json_t *o, const struct account *t)
{
    json_t *list = json_array();
    const json_t *w;
    size_t i;

    json_array_foreach(t->waits, i, w) {
        json_t *one = json_object();

        json_put_str(one, "pod", json_get_str(w, "pod", ""));
        json_put_u64(one, "devices", json_get_u64(w, "devices", 0));
        json_put_str(one, "since", json_get_str(w, "since", ""));
        json_put_u64(one, "wait_seconds", json_get_u64(w, "wait", 0));
        json_put_u64(one, "fits_seconds", json_get_u64(w, "fits", 0));
        json_put_bool(one, "going", json_get_bool(w, "going", false));
        json_put_str(one, "why", json_get_str(w, "why", NULL));
        (void) json_array_append_new(list, one);
    }
    json_put(o, "waits", list);
}

static json_t *answer(const struct account *t)
{
    uint64_t span = t->to_s > t->from_s ? t->to_s - t->from_s : 0;
    json_t *o = json_object(), *cpus = json_object();

    json_put_str(o, "pool", t->pool);
    put_time(o, "from", t->from_s);
    put_time(o, "to", t->to_s);
    json_put_u64(o, "seen_seconds", t->seen_s);
    json_put_u64(o, "not_seen_seconds", span > t->seen_s ? span - t->seen_s
                                                         : 0);
    put_models(o, t);
    put_shares(cpus, t->cpus, 1000);
    json_put(o, "cpus", cpus);
    put_spaces(o, t);
    json_put_u64(o, "starts", t->starts);
    put_rounded(o, "average_wait_seconds", t->starts ?
                (double) t->start_waits / (double) t->starts : 0, 1e3);
    put_waits(o, t);
    put_points(o, t);
    if (t->jobs) {
        json_put(o, "jobs", json_incref(t->jobs));
        json_put_u64(o, "jobs_left_out", t->left_out);
    }
    return o;
}

/* ---- the question ---- */

/* In steps of a row or some, so that no row is in two. */
static void choose_step(struct account *t)
{
    static const uint32_t steps[] = { 1, 2, 4, 8, 16, 24, 48, 96, 192, 384 };

    for (size_t i = 0; i < array_size(steps); i++) {
        t->step_s = steps[i] * (uint64_t) ROW_S;
        t->base_s = t->from_s - t->from_s % t->step_s;
        if (t->to_s < t->base_s + (POINTS - 1) * t->step_s)
            return;
    }
    t->base_s = t->to_s - t->to_s % t->step_s - (POINTS - 2) * t->step_s;
    t->from_s = t->base_s;
}

static void account_begin(struct account *t, const struct call *c,
                        const struct pool *p, uint64_t since_ms)
{
    uint64_t now = api_now(c->api);

    *t = (struct account) {
        .policy = world_policy(api_world(c->api)), .pool = p->name,
        .models = map_new(), .spaces = map_new(), .waits = json_array(),
        .jobs = call_flag(c, "jobs") ? json_array() : NULL,
        .oldest_s = UINT64_MAX, .to_s = now / 1000,
        .from_s = (since_ms ? since_ms : now > WEEK_MS ? now - WEEK_MS : 0) /
                  1000,
    };
    t->from_s -= t->from_s % ROW_S;    /* whole rows */
    if (t->from_s < p->created_ms / 1000)
        t->from_s = p->created_ms / 1000;
    choose_step(t);
}

static void account_end(struct account *t)
{
    size_t pos = 0;
    void *one;

    while ((one = map_next(t->models, &pos, NULL)))
        free(one);
    for (pos = 0; (one = map_next(t->spaces, &pos, NULL));)
        free(one);
    map_free(t->models);
    map_free(t->spaces);
    json_decref(t->waits);
    json_decref(t->jobs);
}

void get_pool_waste(struct call *c)
{
    const struct pool *p = world_pool(api_world(c->api), c->param[0]);
    struct err err = { 0 };
    struct account t;
    uint64_t since;
    int rc;

    if (!call_since(c, &since))
        return;
    if (!p || !p->set) {
        reply_absent(c, "pool", c->param[0]);
        return;
    }
    if (!p->observe) {
        reply_error(c, 409, "pool '%s' is not one that is looked at only "
                    "(--observe): what it wastes is in /v1/waste", p->name);
        return;
    }
    account_begin(&t, c, p, since);
    rc = read_rows(c, &t, &err);
    if (rc == 0)
        reply_json(c, 200, answer(&t));
    else
        reply_rc(c, rc, &err);
    account_end(&t);
}
