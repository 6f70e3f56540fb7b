#include "control/control_int.h"

#include "api/api.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "control/outside.h"
#include "engine/home.h"
#include "spec/doc.h"
#include "spec/policy_doc.h"
#include "store/store.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LEAVE_MS = 5000,                   /* at most this long for what is in flight */
    LEAVE_LOOK_MS = 20,
};

/* Wall clock that never goes back and does not stand still either when
 * somebody sets the machine's clock back: then time goes on from where it was.
 */
uint64_t control_now(struct control *c)
{
    uint64_t wall = clock_wall_ms();
    uint64_t now = c->wall_base + (clock_mono_ms() - c->mono_base);

    if (wall > now) {
        c->wall_base += wall - now;
        now = wall;
    }
    return now;
}

static void clock_begin(struct control *c)
{
    uint64_t last = world_time_ms(c->world);

    c->wall_base = clock_wall_ms();
    if (c->wall_base < last) {
        log_say(LOG_WARN, "the clock is behind the last event: "
                "going on from that one's time", NULL);
        c->wall_base = last;
    }
    c->mono_base = clock_mono_ms();
    c->started_ms = c->wall_base;
}

/* A new store in a folder where others ran: runners and logs there know
 * leases by numbers that are about to be given again.  In an epoch of its own
 * none of them is taken for a new one.
 */
static uint64_t first_epoch(const struct control *c)
{
    autofree char *engine = mem_printf("%s/engine", c->conf->state_dir);

    if (world_seq(c->world) > 0 || access(engine, F_OK) < 0)
        return 0;
    log_say(LOG_WARN, "the store is new and the folder is not: what ran here "
            "before is ended and its logs are not shown", "state",
            c->conf->state_dir, NULL);
    return c->started_ms;
}

/* A folder that was there keeps its mode, for it may have been opened on
 * purpose, to let others reach a socket in it.  For that they need not list
 * it; what is in it is shut to them in any case.
 */
static void tell_open(const char *dir)
{
    struct stat st;

    if (stat(dir, &st) == 0 && (st.st_mode & (S_IRGRP | S_IROTH)))
        log_say(LOG_WARN, "others can list the state folder; 'chmod go-r' "
                "shuts it", "state", dir, NULL);
}

static int state_open(struct control *c, struct err *err)
{
    const char *dir = c->conf->state_dir;
    autofree char *lock = mem_printf("%s/lock", dir);
    autofree char *db = mem_printf("%s/weir.db", dir);
    struct store_conf conf = { .path = db, .check_full = c->conf->check_full };
    int rc = fs_mkdir(dir, 0700, err);

    if (rc < 0)
        return rc;
    tell_open(dir);
    rc = fs_lock(lock, &c->lock, err);
    if (rc == -EWOULDBLOCK)
        return err_set(err, EBUSY, "another control plane uses '%s'; "
                       "stop it first, or name another folder with --state",
                       dir);
    if (rc < 0)
        return rc;
    rc = store_open(&conf, &c->store, err);
    if (rc < 0)
        return rc;
    c->world = world_new();
    rc = store_load(c->store, c->world, err);
    if (rc < 0)
        return rc;
    clock_begin(c);
    c->first_epoch = first_epoch(c);
    return store_attach(c->store, c->loop, journal_durable, journal_failed, c,
                        err);
}

/* The tenant that is always there. */
static int first_tenant(struct control *c, struct err *err)
{
    struct event e;
    char member[32];

    if (world_tenant(c->world, "default"))
        return 0;
    event_init(&e, EVENT_TENANT_SET);
    (void) snprintf(e.tenant, sizeof e.tenant, "default");
    (void) snprintf(member, sizeof member, "uid:%u", (unsigned) geteuid());
    e.data = json_pack("{s:[s]}", "members", member);
    return journal_event(c, &e, NULL, NULL, err);
}

static int say_started(struct control *c, struct err *err)
{
    struct event e;

    event_init(&e, EVENT_STARTED);
    e.data = json_pack("{s:s}", "version", WEIR_VERSION);
    return journal_event(c, &e, NULL, NULL, err);
}

static int begin_epoch(struct control *c, struct err *err)
{
    struct event e;

    if (c->first_epoch <= world_epoch(c->world))
        return 0;
    event_init(&e, EVENT_RESTORED);
    e.epoch = c->first_epoch;
    return journal_event(c, &e, NULL, NULL, err);
}

int control_begin(struct control *c, struct err *err)
{
    int rc = begin_epoch(c, err);

    if (rc == 0)
        rc = say_started(c, err);
    return rc < 0 ? rc : first_tenant(c, err);
}

void control_fail(struct control *c, int rc, const struct err *err)
{
    c->rc = rc;
    c->err = *err;
    loop_stop(c->loop);
}

static int api_start(struct control *c, const struct service *service,
                     struct err *err)
{
    struct api_conf conf = {
        .socket = c->conf->socket,
        .socket_mode = geteuid() == 0 ? 0666 : 0600,
        .listen = c->conf->listen,
        .tls_cert = c->conf->tls_cert,
        .tls_key = c->conf->tls_key,
        .tls_client_ca = c->conf->tls_client_ca,
    };

    return api_open(c->loop, &conf, service, &c->api, err);
}

/* ---- the end ---- */

static bool nothing_runs(const struct control *c)
{
    struct block *b;
    size_t pos = 0;

    while ((b = world_next_block(c->world, &pos)))
        if (b->leases)
            return false;
    return true;
}

/* Runners without work end with us; those with work go on and are found again
 * by the next control plane.
 */
static void runners_leave(struct control *c)
{
    struct wire_msg quit = { .kind = WIRE_QUIT };
    struct block *b;
    size_t pos = 0;

    /* A runner that ends is started again by its engine: that ends first. */
    pools_close(c);
    while (c->home && (b = world_next_block(c->world, &pos)))
        if (!b->leases)
            (void) home_send(c->home, b->id, &quit, NULL);
}

/* One turn after the last word: replies and "quit" have left by now. */
static void on_left(struct watch *w, void *arg)
{
    struct control *c = arg;

    (void) w;
    c->leave = NULL;
    loop_stop(c->loop);
}

static void on_leave(struct watch *w, void *arg)
{
    struct control *c = arg;

    (void) w;
    c->leave = NULL;
    if (c->first != c->count && !c->trouble[0] &&
        control_now(c) < c->leaving_ms + LEAVE_MS) {
        c->leave = loop_timer(c->loop, LEAVE_LOOK_MS, on_leave, c);
        return;
    }
    runners_leave(c);
    c->leave = loop_timer(c->loop, LEAVE_LOOK_MS, on_left, c);
}

static void on_signal(int sig, void *arg)
{
    struct control *c = arg;

    if (c->draining)
        return;
    log_say(LOG_INFO, sig == SIGINT ? "interrupted: stopping"
                                    : "told to stop: stopping", NULL);
    if (!nothing_runs(c))
        log_say(LOG_INFO, "what runs goes on under its runner; "
                "'weir up' finds it again", NULL);
    observe_stop(c);
    c->draining = true;
    c->leaving_ms = control_now(c);
    api_drain(c->api);
    c->leave = loop_timer(c->loop, LEAVE_LOOK_MS, on_leave, c);
}

static void control_close(struct control *c)
{
    observe_close(c);
    journal_close(c);
    retention_stop(c);
    watch_remove(c->leave);
    watch_remove(c->silent);
    pools_close(c);
    json_decref(c->telemetry);
    json_decref(c->strays);
    free(c->epochs);
    api_close(c->api);
    if (c->held)
        leases_close(c);
    outside_close(c);
    store_close(c->store);
    world_free(c->world);
    map_free(c->blocks);
    map_free(c->pools);
    map_free(c->leaving);
    map_free(c->held);
    map_free(c->alone);
    loop_close(c->loop);
    if (c->lock >= 0)
        (void) close(c->lock);
}

static int control_open(struct control *c, const struct service *service,
                        struct err *err)
{
    int rc = loop_open(&c->loop, err);

    if (rc < 0)
        return rc;
    if ((rc = loop_signal(c->loop, SIGTERM, on_signal, c, err)) < 0 ||
        (rc = loop_signal(c->loop, SIGINT, on_signal, c, err)) < 0 ||
        (rc = state_open(c, err)) < 0 ||
        (rc = identity_open(c, err)) < 0 ||
        (rc = outside_open(c, err)) < 0 ||
        (rc = leases_open(c, err)) < 0 ||
        (rc = outside_listen(c, err)) < 0 ||
        (rc = control_begin(c, err)) < 0 ||
        (rc = serve_epochs(c, err)) < 0 ||
        (rc = pools_open(c, err)) < 0)
        return rc;
    return api_start(c, service, err);
}

int control_run(const struct control_conf *conf, struct err *err)
{
    struct control c = {
        .conf = conf,
        .lock = -1,
        .held = map_new(),
        .blocks = map_new(),
        .pools = map_new(),
        .leaving = map_new(),
    };
    struct service service = { .ops = &control_service, .arg = &c };
    int rc;

    (void) signal(SIGPIPE, SIG_IGN);
    rc = control_open(&c, &service, err);
    if (rc == 0) {
        log_say(LOG_INFO, "ready", "socket", conf->socket, "state",
                conf->state_dir, "devices", conf->devices, NULL);
        retention_start(&c);
        observe_start(&c);
        rc = loop_run(c.loop, err);
        if (rc == 0 && c.rc < 0) {
            rc = c.rc;
            if (err)
                *err = c.err;
        }
        log_say(LOG_INFO, "stopped", NULL);
    }
    control_close(&c);
    return rc;
}

int control_restore(const char *state_dir, const char *backup,
                    struct err *err)
{
    autofree char *lock = mem_printf("%s/lock", state_dir);
    autofree char *db = mem_printf("%s/weir.db", state_dir);
    autoclose int fd = -1;
    int rc = fs_mkdir(state_dir, 0700, err);

    if (rc < 0)
        return rc;
    rc = fs_lock(lock, &fd, err);
    if (rc == -EWOULDBLOCK)
        return err_set(err, EBUSY, "a control plane uses '%s'; stop it first",
                       state_dir);
    if (rc < 0)
        return rc;
    return store_restore(backup, db, clock_wall_ms(), err);
}

const char *control_schema(void)
{
    return doc_schema();
}

const char *control_policy_schema(void)
{
    return policy_doc_schema();
}
