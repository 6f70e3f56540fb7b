#include "control/leases.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* The control plane as the API sees it (api/service.h). */
enum { EPOCHS_MAX = 1000 };

/* A refusal reaches whoever asked from the loop, never from inside the call. */
struct refusal {
    service_done_f done;
    void *arg;
    int rc;
    struct err err;
};

static void on_refusal(struct watch *w, void *arg)
{
    struct refusal *r = arg;

    (void) w;
    r->done(r->rc, 0, 0, &r->err, r->arg);
    free(r);
}

static void refuse(struct control *c, service_done_f done, void *arg, int rc,
                   const struct err *err)
{
    struct refusal *r = mem_new(sizeof *r);

    *r = (struct refusal) { .done = done, .arg = arg, .rc = rc, .err = *err };
    (void) loop_soon(c->loop, on_refusal, r);
}

static const struct world *serve_world(void *arg)
{
    const struct control *c = arg;

    return c->world;
}

static struct store *serve_store(void *arg)
{
    const struct control *c = arg;

    return c->store;
}

static void serve_propose(struct event *e, service_done_f done, void *done_arg,
                          void *arg)
{
    struct control *c = arg;
    struct err err = { 0 };
    int rc;

    if (c->draining) {
        rc = err_set(&err, ESHUTDOWN, "the control plane is stopping; "
                     "try again when it is back");
        event_clear(e);
    } else {
        if (e->type == EVENT_SUBMITTED)
            e->workload = world_next_workload(c->world);
        rc = journal_event(c, e, done, done_arg, &err);
    }
    if (rc < 0)
        refuse(c, done, done_arg, rc, &err);
}

/* ---- logs ---- */

static void epoch_add(struct control *c, uint64_t epoch, uint64_t since_ms)
{
    c->epochs = mem_grow(c->epochs, c->nepochs + 1, sizeof *c->epochs);
    c->epochs[c->nepochs++] = (struct epoch) { epoch, since_ms };
}

static int on_restored(const struct store_event *e, void *arg)
{
    autojson json_t *j = NULL;

    if (json_read(e->body, e->len, e->len, &j, NULL) == 0)
        epoch_add(arg, json_get_u64(j, "epoch", 0), e->time_ms);
    return 0;
}

int serve_epochs(struct control *c, struct err *err)
{
    struct store_event_query q = { .type = "store.restored",
                                   .limit = EPOCHS_MAX };

    int rc;

    epoch_add(c, 0, 0);
    rc = store_events(c->store, &q, on_restored, c, err);
    /* Retention may have forgotten when this one began. */
    if (rc == 0 && c->epochs[c->nepochs - 1].epoch != world_epoch(c->world))
        epoch_add(c, world_epoch(c->world), 0);
    return rc;
}

uint64_t serve_epoch_at(const struct control *c, uint64_t ms)
{
    size_t i = c->nepochs;

    while (i > 1 && c->epochs[i - 1].since_ms > ms)
        i--;
    return i > 0 ? c->epochs[i - 1].epoch : world_epoch(c->world);
}

static uint64_t submitted_ms(const struct control *c, uint64_t workload)
{
    const struct workload *wl = world_workload(c->world, workload);
    autojson json_t *body = NULL;
    uint64_t at = UINT64_MAX;

    if (wl)
        return wl->submitted_ms;
    if (store_workload(c->store, workload, &body, NULL, NULL) < 0 ||
        clock_parse(json_get_str(body, "submitted", ""), &at, NULL) < 0)
        return UINT64_MAX;
    return at;
}

struct log_of {
    const char *block;                 /* NULL: the lease has ended */
    char key[64];
    uint32_t gen;
    uint64_t epoch, offset;
    void *buf;
    size_t size;
};

/* In the pool that it is in; else in the first that knows of it. */
static int log_in(const struct control *c, const struct log_of *of,
                  struct engine_log *ret, struct err *err)
{
    const struct heard *t = of->block ? map_get(c->blocks, of->block) : NULL;
    const struct reached *r;
    size_t pos = 0;
    int rc = -ENOENT;

    while (rc == -ENOENT && (r = map_next(c->pools, &pos, NULL)))
        if (r->engine && (!t || t->of == r))
            rc = r->ops->log(r->engine, t ? of->block : NULL, of->key, of->gen,
                             of->epoch, of->offset, of->buf, of->size, ret,
                             err);
    return rc;
}

/* The epoch of an attempt is not kept, but it is none from before its
 * workload was submitted: a number may have been another's then.
 */
static int serve_log(uint64_t workload, uint32_t task, uint32_t rank,
                     uint32_t gen, uint64_t offset, void *buf, size_t size,
                     struct service_log *ret, struct err *err, void *arg)
{
    struct control *c = arg;
    struct lease_key k = { workload, task, rank };
    uint64_t at = c->nepochs > 1 ? submitted_ms(c, workload) : 0;
    const struct lease *l = leases_find(c, &k, gen);
    struct log_of of = { .block = l ? l->block->id : NULL, .gen = gen,
                         .offset = offset, .buf = buf, .size = size };
    struct engine_log got;
    int rc = -ENOENT;

    lease_key_print(&k, of.key, sizeof of.key);
    if (map_count(c->pools) == 0)
        return err_set(err, ESHUTDOWN, "the control plane is stopping");
    (void) err_set(err, ENOENT, "lease %s has no log", of.key);
    for (size_t i = c->nepochs; i-- > 0 && rc == -ENOENT;) {
        of.epoch = c->epochs[i].epoch;
        rc = log_in(c, &of, &got, err);
        if (c->epochs[i].since_ms <= at)
            break;                     /* it was submitted in this one */
    }
    if (rc == 0)
        *ret = (struct service_log) { .start = got.start, .len = got.len,
                                      .end = got.end };
    return rc;
}

/* ---- the rest ---- */

static void serve_backup(const char *file, service_done_f done, void *done_arg,
                         void *arg)
{
    struct control *c = arg;
    struct err err = { 0 };
    int rc;

    if (file[0] != '/')
        rc = err_set(&err, EINVAL, "'%s' is not an absolute path", file);
    else
        rc = service_backup(c->store, file, done, done_arg, &err);
    if (rc < 0)
        refuse(c, done, done_arg, rc, &err);
}

static const char *serve_trouble(void *arg)
{
    const struct control *c = arg;

    return c->trouble;
}

static json_t *serve_stat(void *arg)
{
    struct control *c = arg;
    json_t *o = json_object(), *s = json_object();
    struct store_stat st;

    store_stat(c->store, &st);
    json_put_str(o, "version", WEIR_VERSION);
    json_put_u64(o, "pid", (uint64_t) getpid());
    json_put_u64(o, "uptime_ms", control_now(c) - c->started_ms);
    json_put_u64(o, "epoch", world_epoch(c->world));
    json_put_u64(o, "seq", world_seq(c->world));
    json_put_u64(s, "bytes", st.bytes);
    json_put_u64(s, "events", st.events);
    json_put_u64(s, "commits", st.commits);
    json_put_u64(s, "commit_ms", st.synced_ms);
    json_put_bool(s, "refusing", c->trouble[0] != '\0');
    json_put(o, "store", s);
    json_put_str(o, "engine", c->conf->engine);
    json_put_str(o, "devices", c->conf->devices);
    return o;
}

static bool serve_single_user(void *arg)
{
    (void) arg;
    return geteuid() != 0;
}

const struct service_ops control_service = {
    .world = serve_world,
    .store = serve_store,
    .propose = serve_propose,
    .log = serve_log,
    .backup = serve_backup,
    .trouble = serve_trouble,
    .stat = serve_stat,
    .single_user = serve_single_user,
    .telemetry = telemetry_find,
    .strays = stray_find,
    .use = idle_find,
    .pool_check = pools_check,
    .pool = pools_find,
    .pool_seen = pools_seen,
    .pool_rows = observe_rows,
    .pool_totals = observe_totals,
};
