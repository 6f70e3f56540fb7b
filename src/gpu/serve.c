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
#include "gpu/health_log.h"
#include "gpu/jobs.h"
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
    uint64_t xid, change;              /* numbers of the next ones it gets */
    uid_t uid;
    bool waits;                        /* for the end of a job */
};

struct serve {
    struct loop *loop;
    struct probe *probe;
    struct jobs *jobs;                 /* NULL: nobody is suspended here */
    struct health_log *health;
    struct watch *probe_watch, *jobs_watch, *listen_watch, *tick;
    int fd;
    char *path;
    uint64_t every_ms, stuck_ms, hung_ms;
    uint64_t asked_ms;                 /* loop's clock */
    bool asking, open;                 /* open: there was a first answer */
    bool ending;
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
    if (c->waits)
        jobs_forget(c->serve->jobs, c);
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

/* `reason`: a word for a program that asked; NULL: none. */
static void say_error(struct client *c, const char *reason, const char *text)
{
    json_t *o = json_object();

    json_put_str(o, "reason", reason);
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
    if (c->serve->jobs)
        json_put(o, "hung", jobs_hung_json(c->serve->jobs));
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

static void handle_health(struct client *c, const struct ask *a)
{
    const struct serve *s = c->serve;

    (void) a;
    say(c, "health", health_json(s->health->health, loop_now(s->loop)));
}

/* Whose word it is decides where tasks go. */
static void handle_was_reset(struct client *c, const struct ask *a)
{
    const struct serve *s = c->serve;
    json_t *o;

    if (c->uid != 0 && c->uid != geteuid()) {
        say_error(c, "denied", "that a device was reset is for root to say,"
                  " and for the user of weir-gpud");
        return;
    }
    o = json_object();
    json_put_str(o, "uuid", a->uuid);
    json_put_u64(o, "rules", health_log_was_reset(s->health, a->uuid));
    log_say(LOG_INFO, "a device was reset, somebody says", "device", a->uuid,
            NULL);
    say(c, "was-reset", o);
}

/* Again from the same client: another period. */
static void handle_watch(struct client *c, const struct ask *a)
{
    json_t *o = json_object();

    if (!c->every_ms) {
        c->xid = c->serve->nxids;
        c->change = c->serve->health->n;
    }
    c->every_ms = a->every_ms;
    c->due_ms = loop_now(c->serve->loop);
    json_put_u64(o, "every_ms", c->every_ms);
    say(c, "watch", o);
}

static void ask_probe(struct serve *s)
{
    if (s->asking)
        return;
    s->asking = true;
    s->asked_ms = loop_now(s->loop);
    probe_ask(s->probe);
}

/* Suspend and resume: answered when it is over. */
static void handle_job(struct client *c, const struct ask *a)
{
    struct serve *s = c->serve;
    struct suspend_ask ask = a->suspend;
    struct err err = { 0 };

    ask.uid = c->uid;
    if (!s->jobs) {
        say_error(c, "unsupported", "no task is suspended here: weir-gpud"
                  " was started without --state");
    } else if (s->report.list.state == NVML_STUCK) {
        say_error(c, "driver", s->report.list.why);
    } else if (jobs_add(s->jobs, &ask, c, &err) < 0) {
        say_error(c, err.code == EIO ? "driver" : "again", err.text);
    } else {
        c->waits = true;
        ask_probe(s);
    }
}

static const handle_f handlers[ASK_KIND_COUNT] = {
    [ASK_HELLO] = handle_hello,
    [ASK_INVENTORY] = handle_inventory,
    [ASK_SAMPLE] = handle_sample,
    [ASK_HEALTH] = handle_health,
    [ASK_WAS_RESET] = handle_was_reset,
    [ASK_WATCH] = handle_watch,
    [ASK_SUSPEND] = handle_job,
    [ASK_RESUME] = handle_job,
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

static void push_changes(struct client *c)
{
    const struct health_log *l = c->serve->health;
    const struct health_change *x;
    uint64_t missed;

    while ((x = health_log_next(l, &c->change, &missed))) {
        json_t *o = health_change_json(x);

        if (missed)
            json_put_u64(o, "missed", missed);
        say(c, "health-change", o);
    }
}

static void push(struct client *c)
{
    uint64_t now = loop_now(c->serve->loop);

    if (!c->every_ms || c->out.len)
        return;
    push_xids(c);
    push_changes(c);
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
    while (!c->waits && client_write(c) > 0) {
        struct err err = { 0 };
        struct ask a = { .kind = ASK_HELLO };
        int rc = ask_next(&c->in, &a, &err);

        if (rc == 0)
            break;
        if (rc > 0)
            handlers[a.kind](c, &a);
        else
            say_error(c, NULL, err.text);
        if (rc < 0 && rc != -EBADMSG) {
            (void) client_write(c);
            return false;
        }
    }
    return !c->out.over;
}

/* One that waits and has said as much as is kept: no more is read of it, and its
 * hanging up not seen, before what it waits for is over.
 */
static bool full(const struct client *c)
{
    return c->in.len >= c->in.max;
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
    if (!rc)
        watch_want(c->watch, LOOP_WRITE);
    else
        watch_want(c->watch, full(c) ? 0 : LOOP_READ);
    return true;
}

static void on_client(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct client *c = arg;
    char data[ASK_MAX + 4];
    ssize_t n;

    (void) w;
    if (ready & LOOP_READ && !full(c)) {
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
    struct ucred peer = { .uid = (uid_t) -1 };
    socklen_t size = sizeof peer;

    (void) w;
    (void) ready;
    if (conn < 0) {                    /* gone again, or no descriptor now */
        watch_want(s->listen_watch, 0);        /* until the next look */
        return;
    }
    if (s->nclients >= SERVE_CLIENTS) {
        log_say(LOG_WARN, "a client too many is turned away", NULL);
        return;
    }
    if (getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
        log_say(LOG_WARN, "a client without a user is turned away", NULL);
        return;
    }
    c = mem_new(sizeof *c);
    c->serve = s;
    c->uid = peer.uid;
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
    health_log_look(s->health, &s->report, loop_now(s->loop));
    if (s->jobs)
        jobs_start(s->jobs, &s->report);
    open_up(s);
    tell_all(s);
}

static void log_job(const struct job *b)
{
    const struct suspend_result *r = &b->result;
    bool done = r->reason == SUSPEND_DONE;

    log_say(done ? LOG_INFO : LOG_WARN,
            done ? "done" : r->text,
            "what", job_what(b), "task", b->ask.task,
            "reason", suspend_reason_name(r->reason), NULL);
}

static void end_if_free(struct serve *s)
{
    if (s->ending && !(s->jobs && jobs_busy(s->jobs)))
        loop_stop(s->loop);
}

void serve_end(struct serve *s)
{
    s->ending = true;
    if (s->jobs)
        jobs_end(s->jobs);
    end_if_free(s);
    if (s->jobs && jobs_busy(s->jobs))
        log_say(LOG_INFO, "it ends when the tasks that are being suspended or"
                " resumed are", NULL);
}

bool serve_hangs(const struct serve *s)
{
    return s->jobs && jobs_hang(s->jobs);
}

static void on_job(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct serve *s = arg;
    struct job *b;

    (void) w;
    (void) fd;
    (void) ready;
    while ((b = jobs_take(s->jobs))) {
        struct client *c = b->who;

        log_job(b);
        if (c) {
            c->waits = false;
            say(c, b->ask.resume ? "resume" : "suspend",
                suspend_result_json(&b->ask, &b->result));
            (void) client_go_on(c);
        }
        free(b);
    }
    end_if_free(s);
}

/* Where the task is then nobody knows: the answer has no `suspended`. */
static void say_hung(struct client *c, const struct job *b, const char *text)
{
    json_t *o = json_object();

    json_put_str(o, "task", b->ask.task);
    json_put_bool(o, "done", false);
    json_put_str(o, "reason", "driver");
    json_put_str(o, "text", text);
    c->waits = false;
    say(c, job_what(b), o);
    (void) client_go_on(c);
}

static void look_for_hung(struct serve *s)
{
    const struct job *b;
    void *who = NULL;
    char text[128];

    (void) snprintf(text, sizeof text, "a call into the driver has not"
                    " returned for %llu ms", (unsigned long long) s->hung_ms);
    while (s->jobs && (b = jobs_hung(s->jobs, s->hung_ms, &who))) {
        log_say(LOG_ERROR, text, "what", job_what(b), "task", b->ask.task,
                NULL);
        if (who)
            say_hung(who, b, text);
    }
}

static void get_stuck(struct serve *s)
{
    struct device_list *l = &s->report.list;

    l->state = NVML_STUCK;
    (void) snprintf(l->why, sizeof l->why, "the driver has not answered for"
                    " %llu ms", (unsigned long long) s->stuck_ms);
    memset(s->report.sampled, 0, sizeof s->report.sampled);
    s->report.nxids = 0;               /* they were told already */
    log_say(LOG_ERROR, l->why, NULL);
    if (s->jobs)
        jobs_start(s->jobs, &s->report);       /* to be told why not */
    open_up(s);
}

/* For the rules of health time goes on. */
static void stay_stuck(struct serve *s)
{
    health_log_look(s->health, &s->report, loop_now(s->loop));
    tell_all(s);
}

static void on_tick(struct watch *w, void *arg)
{
    struct serve *s = arg;
    uint64_t now = loop_now(s->loop);

    (void) w;
    s->tick = loop_timer(s->loop, s->every_ms, on_tick, s);
    look_for_hung(s);
    end_if_free(s);
    if (s->listen_watch)
        watch_want(s->listen_watch, LOOP_READ);
    if (!s->asking)
        ask_probe(s);
    else if (now - s->asked_ms >= s->stuck_ms) {
        if (s->report.list.state != NVML_STUCK)
            get_stuck(s);
        stay_stuck(s);
    }
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
    watch_remove(s->jobs_watch);
    jobs_close(s->jobs);
    health_log_free(s->health);
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
    s->hung_ms = conf->hung_ms;
    s->path = mem_str(conf->socket);
    s->health = health_log_new(conf->rules, conf->every_ms);
    rc = listen_unix(conf->socket, conf->mode, &s->fd, err);
    if (!rc)
        rc = probe_open(&s->probe, err);
    if (!rc)
        rc = loop_fd(l, probe_fd(s->probe), LOOP_READ, on_answer, s,
                     &s->probe_watch, err);
    if (!rc && conf->state)
        rc = jobs_open(conf->state, conf->spare, &s->jobs, err);
    if (!rc && conf->state)
        rc = health_log_keep(s->health, conf->state, err);
    if (!rc && s->jobs)
        rc = loop_fd(l, jobs_fd(s->jobs), LOOP_READ, on_job, s,
                     &s->jobs_watch, err);
    if (rc < 0) {
        serve_close(s);
        return rc;
    }
    s->tick = loop_timer(l, 0, on_tick, s);
    *ret = s;
    return 0;
}
