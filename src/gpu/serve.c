#include "gpu/serve.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/frame.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "gpu/ask.h"
#include "gpu/probe.h"
#include "net/listen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* The loop asks the probe once a period and keeps a copy of its last answer,
 * from which everybody is served.  XIDs go into a ring, numbered from the
 * start; a watcher knows the number of the next that it has not got.
 *
 * `out` of a client holds at most the answer to one request and what was pushed
 * while that was not read: nothing is pushed, and no request read, before it is
 * empty.
 */
struct client {
    struct client *next, *prev;
    struct serve *serve;
    int fd;
    struct watch *watch;
    struct buf in, out;
    uint64_t every_ms;                 /* 0: it does not watch */
    uint64_t due_ms;                   /* loop's clock: its next sample */
    uint64_t xid;                      /* number of the next one it gets */
};

struct serve {
    struct loop *loop;
    struct probe *probe;
    struct watch *probe_watch, *listen_watch, *tick;
    int fd;
    char *path;
    uint64_t every_ms, stuck_ms;
    uint64_t asked_ms;                 /* loop's clock */
    bool asking, open;                 /* open: there was a first answer */
    uint64_t nxids;                    /* ever; the last are in the ring */
    struct node_xid xids[SERVE_XIDS];
    struct client *clients;
    unsigned nclients;
    struct node_report report;
    struct device_list was;            /* before the last answer */
};

typedef void (*handle_f)(struct client *c, const struct ask *a);

static void client_drop(struct client *c)
{
    list_unlink(c->serve->clients, c);
    c->serve->nclients--;
    watch_remove(c->watch);
    (void) close(c->fd);
    buf_free(&c->in);
    buf_free(&c->out);
    free(c);
}

/* Takes `o`, and puts its kind in front. */
static void say(struct client *c, const char *kind, json_t *o)
{
    autojson json_t *m = json_object();
    autofree char *text = NULL;

    json_put_str(m, "t", kind);
    (void) json_object_update(m, o);
    json_decref(o);
    text = json_text(m);
    frame_add(&c->out, text, strlen(text));
}

static void say_error(struct client *c, const char *text)
{
    json_t *o = json_object();

    json_put_str(o, "text", text);
    say(c, "error", o);
}

static void handle_hello(struct client *c, const struct ask *a)
{
    const struct device_list *l = &c->serve->report.list;
    json_t *o = json_object();

    (void) a;
    json_put_u64(o, "v", ASK_VERSION);
    json_put_str(o, "version", WEIR_VERSION);
    json_put_str(o, "state", nvml_state_name(l->state));
    json_put_str(o, "why", l->why[0] ? l->why : NULL);
    say(c, "hello", o);
}

static void handle_inventory(struct client *c, const struct ask *a)
{
    (void) a;
    say(c, "inventory", device_list_json(&c->serve->report.list));
}

static void handle_sample(struct client *c, const struct ask *a)
{
    (void) a;
    say(c, "sample", node_sample_json(&c->serve->report));
}

/* Again from the same client: another period. */
static void handle_watch(struct client *c, const struct ask *a)
{
    json_t *o = json_object();

    if (!c->every_ms)
        c->xid = c->serve->nxids;
    c->every_ms = a->every_ms;
    c->due_ms = loop_now(c->serve->loop);
    json_put_u64(o, "every_ms", c->every_ms);
    say(c, "watch", o);
}

static const handle_f handlers[ASK_KIND_COUNT] = {
    [ASK_HELLO] = handle_hello,
    [ASK_INVENTORY] = handle_inventory,
    [ASK_SAMPLE] = handle_sample,
    [ASK_WATCH] = handle_watch,
};

static void push_xids(struct client *c)
{
    const struct serve *s = c->serve;
    uint64_t missed = 0;

    if (s->nxids - c->xid > SERVE_XIDS) {
        missed = s->nxids - c->xid - SERVE_XIDS;
        c->xid += missed;
    }
    for (; c->xid < s->nxids; c->xid++) {
        json_t *o = node_xid_json(&s->xids[c->xid % SERVE_XIDS]);

        if (missed)
            json_put_u64(o, "missed", missed);
        missed = 0;
        say(c, "xid", o);
    }
}

static void push(struct client *c)
{
    uint64_t now = loop_now(c->serve->loop);

    if (!c->every_ms || c->out.len)
        return;
    push_xids(c);
    if (now < c->due_ms)
        return;
    c->due_ms = now + c->every_ms;
    handle_sample(c, NULL);
}

/* 1: all of it, 0: it takes no more now, else -errno. */
static int client_write(struct client *c)
{
    while (c->out.len > 0) {
        ssize_t n = send(c->fd, c->out.data, c->out.len,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0)
            buf_drop(&c->out, (size_t) n);
        else if (errno != EINTR)
            return errno == EAGAIN ? 0 : -errno;
    }
    return 1;
}

/* Answer what was asked, for as long as answers are taken.  False: over. */
static bool client_answer(struct client *c)
{
    while (client_write(c) > 0) {
        struct err err = { 0 };
        struct ask a = { .kind = ASK_HELLO };
        int rc = ask_next(&c->in, &a, &err);

        if (rc == 0)
            break;
        if (rc > 0)
            handlers[a.kind](c, &a);
        else
            say_error(c, err.text);
        if (rc < 0 && rc != -EBADMSG) {
            (void) client_write(c);
            return false;
        }
    }
    return !c->out.over;
}

/* False: the client is gone. */
static bool client_go_on(struct client *c)
{
    bool ok = client_answer(c);
    int rc;

    if (ok)
        push(c);
    rc = ok ? client_write(c) : -EPIPE;
    if (rc < 0 || c->out.over) {
        client_drop(c);
        return false;
    }
    watch_want(c->watch, rc ? LOOP_READ : LOOP_WRITE);
    return true;
}

static void on_client(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct client *c = arg;
    char data[ASK_MAX + 4];
    ssize_t n;

    (void) w;
    if (ready & LOOP_READ && c->in.len < c->in.max) {
        n = recv(fd, data, c->in.max - c->in.len, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            client_drop(c);
            return;
        }
        if (n > 0)
            (void) buf_add(&c->in, data, (size_t) n);
    }
    (void) client_go_on(c);
}

static void on_connect(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct serve *s = arg;
    autoclose int conn = accept4(fd, NULL, NULL,
                                 SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct client *c;
    struct err err = { 0 };

    (void) w;
    (void) ready;
    if (conn < 0)
        return;                        /* gone again, or no descriptor now */
    if (s->nclients >= SERVE_CLIENTS) {
        log_say(LOG_WARN, "a client too many is turned away", NULL);
        return;
    }
    c = mem_new(sizeof *c);
    c->serve = s;
    c->in = (struct buf) ASK_IN_INIT;
    c->out = (struct buf) BUF_INIT(FRAME_MAX);
    if (loop_fd(s->loop, conn, LOOP_READ, on_client, c, &c->watch, &err) < 0) {
        log_say(LOG_WARN, err.text, NULL);
        free(c);
        return;
    }
    c->fd = take_fd(conn);
    list_push(s->clients, c);
    s->nclients++;
}

static void tell_all(struct serve *s)
{
    struct client *next;

    for (struct client *c = s->clients; c; c = next) {
        next = c->next;
        (void) client_go_on(c);
    }
}

/* Before there is an answer there is nothing to serve: connections wait. */
static void open_up(struct serve *s)
{
    struct err err = { 0 };

    if (s->open)
        return;
    if (loop_fd(s->loop, s->fd, LOOP_READ, on_connect, s, &s->listen_watch,
                &err) < 0) {
        log_say(LOG_ERROR, err.text, NULL);
        loop_stop(s->loop);
        return;
    }
    s->open = true;
}

static void log_changes(const struct device_list *was,
                        const struct device_list *l)
{
    if (was->state != l->state)
        log_say(l->state == NVML_READY ? LOG_INFO : LOG_WARN,
                l->state == NVML_READY ? "the driver answers" : l->why,
                "state", nvml_state_name(l->state), "driver", l->driver,
                NULL);
    for (unsigned i = 0; i < l->n; i++) {
        const struct device *d = &l->all[i];
        enum nvml_state before = i < was->n ? was->all[i].state : NVML_READY;

        if (d->state == before)
            continue;
        if (d->state == NVML_READY)
            log_say(LOG_INFO, "a device answers again", "device", d->uuid,
                    NULL);
        else
            log_say(LOG_WARN, d->why, "device", d->uuid, NULL);
    }
}

static void on_answer(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct serve *s = arg;

    (void) w;
    (void) fd;
    (void) ready;
    s->was = s->report.list;
    if (!probe_take(s->probe, &s->report))
        return;
    s->asking = false;
    log_changes(&s->was, &s->report.list);
    for (unsigned i = 0; i < s->report.nxids; i++) {
        const struct node_xid *x = &s->report.xids[i];
        char number[32];

        (void) snprintf(number, sizeof number, "%llu",
                        (unsigned long long) x->xid);
        log_say(LOG_WARN, "XID", "device", x->uuid, "xid", number, NULL);
        s->xids[s->nxids++ % SERVE_XIDS] = *x;
    }
    open_up(s);
    tell_all(s);
}

static void stuck(struct serve *s)
{
    struct device_list *l = &s->report.list;

    if (l->state == NVML_STUCK)
        return;
    l->state = NVML_STUCK;
    (void) snprintf(l->why, sizeof l->why, "the driver has not answered for"
                    " %llu ms", (unsigned long long) s->stuck_ms);
    memset(s->report.sampled, 0, sizeof s->report.sampled);
    log_say(LOG_ERROR, l->why, NULL);
    open_up(s);
    tell_all(s);
}

static void on_tick(struct watch *w, void *arg)
{
    struct serve *s = arg;
    uint64_t now = loop_now(s->loop);

    (void) w;
    s->tick = loop_timer(s->loop, s->every_ms, on_tick, s);
    if (!s->asking) {
        s->asking = true;
        s->asked_ms = now;
        probe_ask(s->probe);
    } else if (now - s->asked_ms >= s->stuck_ms)
        stuck(s);
}

void serve_close(struct serve *s)
{
    struct client *next;

    if (!s)
        return;
    for (struct client *c = s->clients; c; c = next) {
        next = c->next;
        client_drop(c);
    }
    watch_remove(s->tick);
    watch_remove(s->listen_watch);
    watch_remove(s->probe_watch);
    probe_close(s->probe);
    if (s->fd >= 0) {
        (void) close(s->fd);
        (void) unlink(s->path);
    }
    free(s->path);
    free(s);
}

int serve_open(struct loop *l, const struct serve_conf *conf,
               struct serve **ret, struct err *err)
{
    struct serve *s = mem_new(sizeof *s);
    int rc;

    s->loop = l;
    s->fd = -1;
    s->every_ms = conf->every_ms;
    s->stuck_ms = conf->stuck_ms;
    s->path = mem_str(conf->socket);
    rc = listen_unix(conf->socket, conf->mode, &s->fd, err);
    if (!rc)
        rc = probe_open(&s->probe, err);
    if (!rc)
        rc = loop_fd(l, probe_fd(s->probe), LOOP_READ, on_answer, s,
                     &s->probe_watch, err);
    if (rc < 0) {
        serve_close(s);
        return rc;
    }
    s->tick = loop_timer(l, 0, on_tick, s);
    *ret = s;
    return 0;
}
