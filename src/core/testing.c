#include "core/testing.h"

#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define START UINT64_C(1800000000000)

void fault(struct sim *s, const char *what, const char *why)
{
    s->faults++;
    printf("# fault after event %" PRIu64 ": %s: %s\n", s->seq, what, why);
}

static void set_tenant(struct sim *s, json_t *data)
{
    struct event e;

    event_init(&e, EVENT_TENANT_SET);
    (void) snprintf(e.tenant, sizeof(e.tenant), "t");
    e.data = data;
    if (sim_do(s, &e) < 0)
        fault(s, "tenant", s->err.text);
    sim_round(s);
}

void sim_open(struct sim *s)
{
    memset(s, 0, sizeof(*s));
    s->w = world_new();
    s->now = START;
    s->journal = json_array();
    s->rows = json_object();
    set_tenant(s, json_object());
}

void sim_close(struct sim *s)
{
    world_free(s->w);
    world_free(s->twin);
    json_decref(s->journal);
    json_decref(s->rows);
}

static int apply_to(struct sim *s, struct world *w, const json_t *j)
{
    struct err err = { 0 };
    struct event e;
    int rc = event_from_json(j, &e, &err);

    if (rc < 0) {
        fault(s, "the journal's form does not read back", err.text);
        return rc;
    }
    rc = world_apply(w, &e, &s->err);
    if (rc < 0 && s->err.code != -rc)
        fault(s, "an error without a text", s->err.text);
    if (rc == 0 && world_verify(w, &err) < 0)
        fault(s, event_type_name(e.type), err.text);
    event_clear(&e);
    return rc;
}

int sim_do(struct sim *s, struct event *e)
{
    autojson json_t *j = NULL;
    int rc;

    e->seq = s->seq + 1;
    e->time_ms = s->now;
    if (!e->who[0])
        (void) snprintf(e->who, sizeof(e->who), "uid:1000");
    j = event_to_json(e, false);
    event_clear(e);
    rc = apply_to(s, s->w, j);
    if (s->twin && apply_to(s, s->twin, j) != rc)
        fault(s, "the twin differs", "in what it accepts");
    if (rc < 0)
        return rc;
    s->seq++;
    json_array_append(s->journal, j);
    return 0;
}

static int keep_row(const struct world_row *row, void *arg)
{
    json_t *rows = arg, *kept;
    char name[200];

    (void) snprintf(name, sizeof(name), "%d %s", (int) row->table, row->key);
    if (!row->body) {
        json_object_del(rows, name);
        return 0;
    }
    kept = json_object();
    json_put_str(kept, "body", row->body);
    json_put_bool(kept, "live", row->live);
    if (row->spec)
        json_put(kept, "spec", spec_to_json(row->spec));
    else if (json_object_get(json_object_get(rows, name), "spec"))
        json_put(kept, "spec", json_incref(json_object_get(
                     json_object_get(rows, name), "spec")));
    json_put(rows, name, kept);
    return 0;
}

static int drop_row(const struct world_row *row, void *arg)
{
    (void) row;
    (void) arg;
    return 0;
}

/* What is decided.  The score of a place is for the record: it also counts what
 * is typical, which is brought up to date now and then.
 */
static json_t *decision(const struct event *e)
{
    json_t *j = event_to_json(e, false);

    if (e->type == EVENT_PLANNED)
        json_object_del(j, "data");
    return j;
}

static bool same_step(struct sim *s, const struct event *e)
{
    autojson json_t *ours = e ? decision(e) : json_null();
    autojson json_t *theirs = json_null();
    struct event other;
    bool same;

    if (world_step(s->twin, s->now, &other)) {
        theirs = decision(&other);
        event_clear(&other);
    }
    same = json_equal(ours, theirs);
    if (!same) {
        autofree char *a = json_text(ours), *b = json_text(theirs);

        fault(s, a, b);
    }
    return same;
}

bool sim_some(struct sim *s, unsigned steps)
{
    struct event e;
    bool more = true;

    while (more && steps-- > 0) {
        const char *name;

        more = world_step(s->w, s->now, &e) > 0;
        if (s->twin && !same_step(s, more ? &e : NULL))
            world_free(take(s->twin));
        if (!more)
            break;
        name = event_type_name(e.type);
        if (sim_do(s, &e) < 0) {
            fault(s, name, s->err.text);
            event_clear(&e);
            more = false;
        }
    }
    (void) world_rows(s->w, keep_row, s->rows);
    if (s->twin)
        (void) world_rows(s->twin, drop_row, NULL);
    return more;
}

void sim_round(struct sim *s)
{
    if (sim_some(s, 1000000))
        fault(s, "a round", "has no end");
    if (world_wake_ms(s->w) <= s->now)
        fault(s, "the world wants to be woken", "at a time that is past");
}

void sim_wait(struct sim *s, uint64_t ms)
{
    s->now += ms;
    sim_round(s);
}

struct spec *sim_spec(uint32_t n)
{
    struct spec *s = spec_new();

    s->kind = SPEC_PIPELINE;
    s->name = spec_str(s, "p", 1);
    s->ntasks = n;
    s->tasks = spec_alloc(s, n * sizeof(*s->tasks));
    for (uint32_t i = 0; i < n; i++) {
        struct spec_task *t = &s->tasks[i];
        char name[16];
        int len = i < 26 ? snprintf(name, sizeof(name), "%c", 'a' + (int) i)
                         : snprintf(name, sizeof(name), "t%u", i);

        t->name = spec_str(s, name, (size_t) len);
        t->run = spec_str(s, "true", 4);
        t->ranks = 1;
        t->cpu_milli = 1000;
        t->stop_signal = 15;
        t->stop_grace_ms = 10000;
    }
    return s;
}

void sim_needs(struct spec *s, uint32_t task, uint32_t need)
{
    struct spec_task *t = &s->tasks[task];
    uint32_t *needs = spec_alloc(s, (t->nneeds + 1) * sizeof(*needs));

    if (t->nneeds)
        memcpy(needs, t->needs, t->nneeds * sizeof(*needs));
    needs[t->nneeds++] = need;
    t->needs = needs;
}

void sim_model(struct spec *s, uint32_t task, const char *model)
{
    const char **models = spec_alloc(s, sizeof(*models));

    models[0] = spec_str(s, model, strlen(model));
    s->tasks[task].models = models;
    s->tasks[task].nmodels = 1;
}

int sim_event(struct sim *s, struct event *e)
{
    int rc = sim_do(s, e);

    sim_round(s);
    return rc;
}

int sim_tenant(struct sim *s, const char *name, json_t *data)
{
    struct event e;

    event_init(&e, EVENT_TENANT_SET);
    (void) snprintf(e.tenant, sizeof(e.tenant), "%s", name);
    e.data = data;
    return sim_event(s, &e);
}

int sim_policy(struct sim *s, uint64_t version, json_t *policy)
{
    struct event e;

    event_init(&e, EVENT_POLICY_SET);
    e.data = json_pack("{s:I,s:o}", "version", (json_int_t) version, "policy",
                       policy);
    return sim_event(s, &e);
}

uint64_t sim_submit(struct sim *s, struct spec *spec)
{
    return sim_submit_as(s, "t", spec);
}

uint64_t sim_submit_as(struct sim *s, const char *tenant, struct spec *spec)
{
    uint64_t id = world_next_workload(s->w);
    struct event e;
    int rc;

    event_init(&e, EVENT_SUBMITTED);
    e.workload = id;
    (void) snprintf(e.tenant, sizeof(e.tenant), "%s", tenant);
    e.user.uid = e.user.gid = 1000;
    e.spec = spec;
    rc = sim_do(s, &e);
    sim_round(s);
    return rc < 0 ? 0 : id;
}

int sim_block(struct sim *s, const char *id, uint32_t ndevices,
              const char *model, uint32_t cpus)
{
    json_t *devices = json_array();
    struct event e;

    event_init(&e, EVENT_BLOCK_UP);
    (void) snprintf(e.block, sizeof(e.block), "%s", id);
    for (uint32_t i = 0; i < ndevices; i++)
        json_array_append_new(devices, json_pack("{s:s,s:I,s:o}", "model",
                              model, "memory", (json_int_t) 80 << 30, "uuid",
                              json_sprintf("GPU-%s-%u", id, i)));
    e.data = json_pack("{s:s,s:s,s:s+,s:I,s:I,s:b,s:b,s:b,s:b,s:b,s:o}",
                       "pool", s->pool ? s->pool : "local", "engine", "fake",
                       "node", "node-", id, "cpus_milli",
                       (json_int_t) cpus * 1000, "memory",
                       (json_int_t) 64 << 30, "simulated", 1, "stages",
                       (int) s->stages, "suspends", (int) s->suspends,
                       "images", (int) s->images, "whole", (int) s->whole,
                       "devices", devices);
    return sim_event(s, &e);
}

int sim_on_block(struct sim *s, enum event_type t, const char *id)
{
    struct event e;

    event_init(&e, t);
    (void) snprintf(e.block, sizeof(e.block), "%s", id);
    return sim_event(s, &e);
}

int sim_on_pool(struct sim *s, enum event_type t, const char *pool,
                json_t *more)
{
    struct event e;

    event_init(&e, t);
    e.data = more ? more : json_object();
    json_put_str(e.data, "name", pool);
    return sim_event(s, &e);
}

int sim_on_node(struct sim *s, enum event_type t, const char *node)
{
    struct event e;

    event_init(&e, t);
    (void) snprintf(e.node, sizeof(e.node), "%s", node);
    return sim_event(s, &e);
}

int sim_on_task(struct sim *s, enum event_type t, uint64_t id, json_t *data)
{
    const struct task *of = sim_task(s, id, 0);
    struct event e;

    event_init(&e, t);
    e.workload = id;
    e.task = 0;
    e.rank = 0;
    e.gen = of ? of->gen : 0;
    e.data = data;
    return sim_event(s, &e);
}

static int on_some(struct sim *s, enum event_type t, uint64_t id,
                   uint32_t task, bool force)
{
    struct event e;

    event_init(&e, t);
    e.workload = id;
    e.task = task;
    e.force = force;
    return sim_event(s, &e);
}

int sim_on_workload(struct sim *s, enum event_type t, uint64_t id, bool force)
{
    return on_some(s, t, id, EVENT_ALL, force);
}

int sim_abort_task(struct sim *s, uint64_t id, uint32_t task, bool force)
{
    return on_some(s, EVENT_ABORTING, id, task, force);
}

int sim_claim(struct sim *s, uint64_t id, uint32_t task, uint32_t rank,
              uint32_t gen)
{
    struct event e;

    event_init(&e, EVENT_CLAIMED);
    e.workload = id;
    e.task = task;
    e.rank = rank;
    e.gen = gen;
    return sim_event(s, &e);
}

static int end_lease(struct sim *s, uint64_t id, uint32_t task, uint32_t rank,
                     int status, enum spec_cause cause)
{
    const struct task *t = sim_task(s, id, task);
    struct event e;

    event_init(&e, EVENT_LEASE_ENDED);
    e.workload = id;
    e.task = task;
    e.rank = rank;
    e.status = status;
    e.cause = cause;
    e.ended_ms = s->now;
    if (t && t->leases && rank < t->ranks) {
        e.gen = t->leases[rank].gen;
        e.started_ms = t->leases[rank].claimed_ms;
    }
    return sim_event(s, &e);
}

int sim_end(struct sim *s, uint64_t id, uint32_t task, uint32_t rank,
            int status)
{
    return end_lease(s, id, task, rank, status, SPEC_CAUSE_NONE);
}

int sim_end_as(struct sim *s, uint64_t id, uint32_t task, uint32_t rank,
               enum spec_cause cause)
{
    return end_lease(s, id, task, rank, 0, cause);
}

int sim_quota(struct sim *s, uint32_t milli)
{
    set_tenant(s, milli == UINT32_MAX
               ? json_pack("{s:s}", "max_gpus_milli", "unlimited")
               : json_pack("{s:I}", "max_gpus_milli", (json_int_t) milli));
    return 0;
}

void sim_run(struct sim *s, uint64_t id, uint32_t task)
{
    const struct task *t = sim_task(s, id, task);
    uint32_t ranks = t && t->leases ? t->ranks : 0;

    for (uint32_t i = 0; i < ranks; i++)
        if (sim_claim(s, id, task, i, t->gen) < 0)
            fault(s, "claim", s->err.text);
    for (uint32_t i = 0; i < ranks; i++)
        if (sim_end(s, id, task, i, 0) < 0)
            fault(s, "end", s->err.text);
}

struct task *sim_task(const struct sim *s, uint64_t id, uint32_t task)
{
    struct workload *wl = world_workload(s->w, id);

    return wl && task < wl->spec->ntasks ? &wl->tasks[task] : NULL;
}

/* A workload that has ended is forgotten, and all its tasks have ended. */
enum task_state sim_state(const struct sim *s, uint64_t id, uint32_t task)
{
    const struct task *t = sim_task(s, id, task);

    return t ? (enum task_state) t->state : TASK_ENDED;
}

const char *sim_row(const struct sim *s, const char *row, const char *field)
{
    static char text[256];
    const json_t *kept = json_object_get(s->rows, row);
    const char *body = json_get_str(kept, "body", NULL);
    autojson json_t *j = NULL;
    const char *value;

    if (!body || json_read(body, strlen(body), 1 << 24, &j, NULL) < 0)
        return NULL;
    value = json_get_str(j, field, NULL);
    if (!value)
        return NULL;
    (void) snprintf(text, sizeof(text), "%s", value);
    return text;
}

uint32_t sim_count(const struct sim *s, enum event_type t)
{
    uint32_t n = 0;

    for (size_t i = 0; i < json_array_size(s->journal); i++)
        n += strcmp(json_get_str(json_array_get(s->journal, i), "type", ""),
                    event_type_name(t)) == 0;
    return n;
}

const json_t *sim_last(const struct sim *s, enum event_type t)
{
    for (size_t i = json_array_size(s->journal); i-- > 0;) {
        const json_t *j = json_array_get(s->journal, i);

        if (strcmp(json_get_str(j, "type", ""), event_type_name(t)) == 0)
            return j;
    }
    return NULL;
}

static void dump_one(json_t *all, json_t *view)
{
    json_array_append_new(all, view);
}

char *sim_dump(struct world *w)
{
    autojson json_t *all = json_array();
    const struct workload *wl;
    const struct tenant *tn;
    const struct token *tk;
    const struct window *v;
    const struct block *b;
    const struct pool *p;
    size_t pos = 0, windows = 0, pools = 0;

    while ((b = world_next_block(w, &pos)))
        dump_one(all, view_block(b));
    pos = 0;
    while ((tn = map_next(w->tenants, &pos, NULL)))
        dump_one(all, view_tenant_row(w, tn));
    pos = 0;
    while ((tk = world_next_token(w, &pos)))
        dump_one(all, view_token_row(tk));
    pos = 0;
    while ((wl = world_next(w, &pos))) {
        dump_one(all, view_workload(wl));
        for (uint32_t i = 0; i < wl->spec->ntasks; i++)
            dump_one(all, view_task(&wl->tasks[i]));
    }
    while ((v = world_next_window(w, &windows)))
        dump_one(all, view_window(v));
    while ((p = world_next_pool(w, &pools)))
        dump_one(all, view_pool(p));
    dump_one(all, view_policy(w));
    dump_one(all, view_kept(w));
    dump_one(all, view_epoch(w));
    return json_text(all);
}

static const enum world_table load_order[] = {
    TABLE_META, TABLE_TENANT, TABLE_TOKEN, TABLE_BLOCK, TABLE_WORKLOAD,
    TABLE_TASK,
};

static bool workload_live(const struct sim *s, const char *task_key)
{
    char name[200];

    (void) snprintf(name, sizeof(name), "%d %.*s", (int) TABLE_WORKLOAD,
                    (int) strcspn(task_key, "/"), task_key);
    return json_get_bool(json_object_get(s->rows, name), "live", false);
}

static int load_row(struct sim *s, struct world *w, enum world_table table,
                    const char *key, const json_t *row, struct err *err)
{
    const char *body = json_get_str(row, "body", "");
    const json_t *spec = json_object_get(row, "spec");
    struct spec *owned = NULL;
    autojson json_t *j = NULL;
    int rc;

    if (table == TABLE_TASK ? !workload_live(s, key)
                            : !json_get_bool(row, "live", false))
        return 0;
    rc = json_read(body, strlen(body), 1 << 24, &j, err);
    if (rc == 0 && spec)
        rc = spec_from_json(spec, &owned, err);
    return rc < 0 ? rc : world_load(w, table, key, j, owned, err);
}

struct world *sim_load(struct sim *s)
{
    struct world *w = world_new();
    struct err err = { 0 };
    const char *name;
    json_t *row;
    int rc = 0;

    for (size_t i = 0; i < array_size(load_order) && rc == 0; i++) {
        json_object_foreach(s->rows, name, row) {
            if (name[0] - '0' != (int) load_order[i] || rc < 0)
                continue;
            rc = load_row(s, w, load_order[i], name + 2, row, &err);
        }
    }
    if (rc == 0)
        rc = world_loaded(w, s->seq, world_time_ms(s->w), &err);
    if (rc < 0)
        fault(s, "the tables do not load", err.text);
    return w;
}

static bool same_text(struct sim *s, const char *what, const char *a,
                      const char *b)
{
    size_t i = 0;

    if (strcmp(a, b) == 0)
        return true;
    while (a[i] && a[i] == b[i])
        i++;
    i = i > 60 ? i - 60 : 0;
    fault(s, what, "differs");
    printf("# one:   %.160s\n# other: %.160s\n", a + i, b + i);
    return false;
}

/* For the world that lives time has passed since the last event, and may have
 * brought somebody into line.  What the other wants next is not asked for here.
 */
static void catch_up(const struct sim *s, struct world *w)
{
    uint64_t now = plan_now(s->w->plan);
    struct event e = { 0 };

    if (now > plan_now(w->plan) && world_step(w, now, &e) > 0)
        event_clear(&e);
}

bool sim_twin(struct sim *s)
{
    autofree char *ours = sim_dump(s->w), *theirs = NULL;

    if (s->twin) {
        theirs = sim_dump(s->twin);
        if (!same_text(s, "a world loaded before", ours, theirs))
            return false;
        free(take(theirs));
    }
    world_free(s->twin);
    s->twin = sim_load(s);
    catch_up(s, s->twin);
    theirs = sim_dump(s->twin);
    return same_text(s, "a loaded world", ours, theirs);
}

/* No event tells of these: see promises.c. */
static bool is_promises(const char *name)
{
    return strcmp(name + 2, "promises") == 0;
}

static size_t count_rows(json_t *rows)
{
    const char *name;
    json_t *row;
    size_t n = 0;

    json_object_foreach(rows, name, row)
        n += !is_promises(name);
    return n;
}

bool sim_replays(struct sim *s)
{
    struct world *w = world_new();
    autojson json_t *rows = json_object();
    autofree char *ours = NULL, *theirs = NULL;
    const char *name;
    json_t *row;
    bool same = true;

    for (size_t i = 0; i < json_array_size(s->journal); i++)
        if (apply_to(s, w, json_array_get(s->journal, i)) < 0)
            fault(s, "replay", s->err.text);
    catch_up(s, w);
    (void) world_rows(w, keep_row, rows);
    json_object_foreach(s->rows, name, row) {
        const char *b = json_get_str(json_object_get(rows, name), "body", "");

        if (is_promises(name))
            continue;
        same = same && same_text(s, name, json_get_str(row, "body", ""), b);
    }
    same = same && count_rows(rows) == count_rows(s->rows);
    ours = sim_dump(s->w);
    theirs = sim_dump(w);
    same = same_text(s, "a replayed world", ours, theirs) && same;
    world_free(w);
    return same;
}
