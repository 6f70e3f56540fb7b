#include "control/control_int.h"

#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* The control plane as the API sees it (api/service.h). */

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

/* Which epoch an old attempt ran in is not kept: the newest that has a log. */
static int serve_log(uint64_t workload, uint32_t task, uint32_t rank,
                     uint32_t gen, uint64_t offset, void *buf, size_t size,
                     struct service_log *ret, struct err *err, void *arg)
{
    struct control *c = arg;
    struct lease_key k = { workload, task, rank };
    struct engine_log got = { 0 };
    char key[64];
    int rc = -ENOENT;

    if (!c->engine)
        return err_set(err, ESHUTDOWN, "the control plane is stopping");
    lease_key_print(&k, key, sizeof key);
    for (uint64_t epoch = world_epoch(c->world); rc == -ENOENT; epoch--) {
        rc = c->engine->ops->log(c->engine, CONTROL_BLOCK, key, gen, epoch,
                                 offset, buf, size, &got, err);
        if (epoch == 0)
            break;
    }
    if (rc == 0)
        *ret = (struct service_log) { .start = got.start, .len = got.len,
                                      .end = got.end };
    return rc;
}

struct backup {
    struct control *c;
    service_done_f done;
    void *arg;
};

static void on_backup(int rc, const struct err *err, void *arg)
{
    struct backup *b = arg;

    b->done(rc, 0, 0, err, b->arg);
    free(b);
}

static void serve_backup(const char *file, service_done_f done, void *done_arg,
                         void *arg)
{
    struct control *c = arg;
    struct backup *b = mem_new(sizeof *b);
    struct err err = { 0 };
    int rc;

    *b = (struct backup) { .c = c, .done = done, .arg = done_arg };
    if (file[0] != '/')
        rc = err_set(&err, EINVAL, "'%s' is not an absolute path", file);
    else
        rc = store_backup(c->store, file, on_backup, b, &err);
    if (rc < 0) {
        free(b);
        refuse(c, done, done_arg, rc, &err);
    }
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
};
