#include "runner/runner.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "runner/alone.h"
#include "runner/held.h"
#include "runner/link.h"
#include "runner/logfile.h"
#include "runner/output.h"
#include "runner/runlog.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

/* What home says, and what it is told.  An end is told when it happens and
 * again after every welcome until it is acknowledged.  A claim is asked once
 * over a connection; after a reconnect home sees "new" in hello and either
 * grants, orders again or drops.
 */
enum {
    TELL_MS = 20,              /* what ends within is told as ended alone */
    IDLE_CHECK_MS = 1000,
    TOKEN_MAX = 256,
};

static struct wire_msg message(enum wire_kind kind, const struct held *h)
{
    return (struct wire_msg) {
        .kind = kind, .key = h->id.key, .gen = h->id.gen,
        .epoch = h->id.epoch,
    };
}

static void send_ended(struct held *h)
{
    struct wire_msg m = message(WIRE_ENDED, h);
    struct alone *a = h->runner->alone;

    if (!h->runner->welcome || (a && !alone_may_tell(h->runner)))
        return;
    said_tell(h);
    (void) snprintf(m.cause, sizeof m.cause, "%s",
                    a && a->deleted ? "deleted" : h->report.cause);
    m.status = h->report.status;
    m.started_ms = h->report.started_ms;
    m.ended_ms = h->report.ended_ms;
    m.cpu_ms = h->report.cpu_ms;
    m.rss_bytes = h->report.rss_bytes;
    link_send(h->runner->link, &m);
}

static void send_started(struct held *h)
{
    struct wire_msg m = message(WIRE_STARTED, h);
    struct record rec = { 0 };

    if (!h->started.task &&
        record_read(&h->runner->records, &h->id, &rec, NULL) == 0)
        h->started = rec.started;
    record_clear(&rec);
    if (!h->started.task) {
        runner_tell_soon(h->runner);
        return;
    }
    m.pid = h->started.task;
    m.started_ms = h->started.at_ms;
    h->told = true;
    link_send(h->runner->link, &m);
}

void runner_claim(struct held *h)
{
    struct wire_msg m = message(WIRE_CLAIM, h);

    if (!h->asked)
        link_send(h->runner->link, &m);
    h->asked = true;
}

static void on_tell(struct watch *w, void *arg)
{
    struct runner *r = arg;
    struct held *h;
    size_t pos = 0;

    (void) w;
    r->tell = NULL;
    if (!r->welcome)
        return;
    while ((h = map_next(r->held, &pos, NULL)))
        if (h->state == HELD_RUNNING && !h->told)
            send_started(h);
}

void runner_tell_soon(struct runner *r)
{
    if (!r->tell)
        r->tell = loop_timer(r->loop, TELL_MS, on_tell, r);
}

void runner_end_if_done(struct runner *r)
{
    if ((r->quitting || r->ending) && r->running == 0 &&
        (!r->alone || alone_may_end(r)))
        loop_stop(r->loop);
}

void runner_tell_end(struct held *h)
{
    send_ended(h);
}

void runner_ended(struct held *h)
{
    if (h->runner->alone)
        alone_ended(h);
    send_ended(h);
    runner_end_if_done(h->runner);
}

/* Messages. */

static struct held *find(struct runner *r, const struct wire_msg *m)
{
    struct lease_id id = { m->key, m->gen, m->epoch };
    char name[LEASE_NAME_SIZE];

    lease_id_name(&id, name, sizeof name);
    return map_get(r->held, name);
}

static void repeat(struct held *h)
{
    if (h->state == HELD_ENDED)
        send_ended(h);
    else if (h->state == HELD_NEW && h->made && !h->granted)
        runner_claim(h);
    else if (h->told)
        send_started(h);
}

static void on_order(struct runner *r, const struct wire_msg *m)
{
    struct lease_id id = { m->key, m->gen, m->epoch };
    struct held *h = find(r, m);

    r->quitting = false;
    if (h) {
        repeat(h);
        return;
    }
    h = held_new(r, &id);
    h->task = json_incref(m->task);
    held_order(h);
}

static void forget(struct held *h)
{
    struct err err = { 0 };

    if (h->behind)
        gatepost_forget(&h->runner->gates, &h->id);
    if (record_retire(&h->runner->records, &h->id, &err) < 0)
        log_say(LOG_ERROR, "record stays", "lease", h->name, "why",
                err.text, NULL);
    said_forget(h);
    held_free(h);
}

/* Home believes in a lease that is not here: it is lost, and home is told for
 * as long as it does not acknowledge it.
 */
static void unknown(struct runner *r, const struct wire_msg *m)
{
    struct lease_id id = { m->key, m->gen, m->epoch };
    struct held *h = held_new(r, &id);

    h->state = HELD_ENDED;
    (void) snprintf(h->report.cause, sizeof h->report.cause, "lost");
    h->report.ended_ms = clock_wall_ms();
    send_ended(h);
}

static void on_grant(struct runner *r, const struct wire_msg *m)
{
    struct held *h = find(r, m);

    if (!h && m->ok)
        unknown(r, m);
    else if (h && m->ok)
        held_start(h);
    else if (h && h->state == HELD_NEW)
        forget(h);
}

static void on_stop(struct runner *r, const struct wire_msg *m)
{
    struct held *h = find(r, m);

    if (!h)
        unknown(r, m);
    else if (h->state == HELD_ENDED)
        send_ended(h);
    else
        held_stop(h, m);
}

static void on_ack(struct runner *r, const struct wire_msg *m)
{
    struct held *h = find(r, m);

    if (h && h->state == HELD_ENDED)
        forget(h);
    runner_end_if_done(r);
}

/* One that has not started yet starts as its order says; what home wants else
 * it says again when it hears that it runs.  The gate of one that is off its
 * devices is not opened before it is back.
 */
static void on_gate(struct runner *r, const struct wire_msg *m)
{
    struct held *h = find(r, m);

    if (!h || !h->gate)
        return;
    if (h->where == MOVE_ON && !h->move)
        behind_set(h, m->gate);
    else if (strcmp(m->gate, "active") == 0)
        move_resume(h, NULL);
    else
        behind_look(h);
}

static void on_drop(struct runner *r, const struct wire_msg *m)
{
    struct err err = { 0 };

    if (logfile_drop(r->conf->dir, &m->key, &err) < 0)
        log_say(LOG_ERROR, "drop logs", "why", err.text, NULL);
}

static void on_welcome(struct runner *r)
{
    struct held *h;
    size_t pos = 0;

    if (r->away[0])
        log_say(LOG_INFO, "home is there", NULL);
    r->away[0] = '\0';
    r->welcome = true;
    r->quitting = false;
    link_welcome(r->link);
    if (r->alone)
        alone_welcome(r);
    while ((h = map_next(r->held, &pos, NULL)))
        if (h->state == HELD_ENDED)
            send_ended(h);
    said_tell_all(r);
    runner_tell_soon(r);
    if (r->alone)                      /* the node's is another's to tell */
        return;
    telemetry_start(r);
    health_start(r);
}

static void on_move(struct runner *r, const struct wire_msg *m)
{
    struct held *h = find(r, m);

    if (!h)
        unknown(r, m);
    else if (h->state == HELD_ENDED)
        send_ended(h);
    else if (m->kind == WIRE_SUSPEND)
        move_suspend(h, m);
    else
        move_resume(h, m->devices);
}

/* Why home is away is said once, until it is another reason or it was back. */
static void say_away(struct runner *r, const char *text, const char *why)
{
    if (strcmp(r->away, why) == 0)
        return;
    (void) snprintf(r->away, sizeof r->away, "%s", why);
    log_say(LOG_WARN, text, "why", why, NULL);
}

/* Before the welcome it is why home does not let us in; what follows, that it
 * hung up, is no news.
 */
static void on_error(struct runner *r, const char *text)
{
    if (r->welcome)
        log_say(LOG_WARN, "home says", "text", text, NULL);
    else if (!r->refused)
        say_away(r, "home does not let us in", text);
    r->refused = !r->welcome;
}

static void on_message(const struct wire_msg *m, void *arg)
{
    struct runner *r = arg;
    struct wire_msg pong = { .kind = WIRE_PONG };

    if (r->alone && !alone_takes(r, m))
        return;
    switch (m->kind) {
    case WIRE_WELCOME:
        on_welcome(r);
        break;
    case WIRE_ORDER:
        on_order(r, m);
        break;
    case WIRE_GRANT:
        on_grant(r, m);
        break;
    case WIRE_STOP:
        on_stop(r, m);
        break;
    case WIRE_ACK:
        on_ack(r, m);
        break;
    case WIRE_GATE:
        on_gate(r, m);
        break;
    case WIRE_SUSPEND:
    case WIRE_RESUME:
        on_move(r, m);
        break;
    case WIRE_DROP:
        on_drop(r, m);
        break;
    case WIRE_PING:
        link_send(r->link, &pong);
        break;
    case WIRE_QUIT:
        r->quitting = true;
        runner_end_if_done(r);
        break;
    case WIRE_HEARD:
        if (r->alone)
            output_heard(r->alone->output, m->offset);
        break;
    case WIRE_ERROR:
        on_error(r, m->text);
        break;
    case WIRE_HELLO:
    case WIRE_CLAIM:
    case WIRE_STARTED:
    case WIRE_PROGRESS:
    case WIRE_ACTIVITY:
    case WIRE_MOVED:
    case WIRE_TELEMETRY:
    case WIRE_HEALTH:
    case WIRE_ENDED:
    case WIRE_OUTPUT:
    case WIRE_PONG:
    case WIRE_KIND_COUNT:
        break;                         /* ours to say, not to hear */
    }
}

/* The way home. */

static const char *state_text(const struct held *h)
{
    return h->state == HELD_NEW ? "new"
         : h->state == HELD_ENDED ? "ended" : "running";
}

static int read_token(const struct runner *r, char *buf, size_t size,
                      struct err *err)
{
    autofree char *text = NULL;
    int rc = 0;

    if (r->conf->token)
        text = mem_str(r->conf->token);
    else
        rc = fs_read(r->conf->token_file, TOKEN_MAX, &text, NULL, err);
    if (rc < 0)
        return rc;
    text[strcspn(text, "\r\n")] = '\0';
    if (strlen(text) >= size)
        return err_set(err, EINVAL, "'%s': the token is too long",
                       r->conf->token_file);
    (void) snprintf(buf, size, "%s", text);
    return 0;
}

static void on_up(void *arg)
{
    struct runner *r = arg;
    struct wire_msg m = {
        .kind = WIRE_HELLO, .v = WIRE_VERSION, .pid = getpid(),
    };
    struct err err = { 0 };
    struct held *h;
    size_t pos = 0;

    r->refused = read_token(r, m.token, sizeof m.token, &err) < 0;
    if (r->refused)
        say_away(r, "token", err.text);
    (void) snprintf(m.block, sizeof m.block, "%s", r->conf->block);
    (void) snprintf(m.address, sizeof m.address, "%s",
                    r->conf->address ? r->conf->address : "");
    m.leases = mem_array(map_count(r->held), sizeof *m.leases);
    while ((h = map_next(r->held, &pos, NULL))) {
        struct wire_lease *l = &m.leases[m.nleases++];

        *l = (struct wire_lease) { .key = h->id.key, .gen = h->id.gen,
                                   .epoch = h->id.epoch };
        (void) snprintf(l->state, sizeof l->state, "%s", state_text(h));
        (void) snprintf(l->gate, sizeof l->gate, "%s", behind_state(h));
        h->seen_told = false;
        h->asked = false;
        h->told = false;
        h->said_at_ms = 0;
    }
    link_send(r->link, &m);
    free(m.leases);
}

static void on_down(const char *why, void *arg)
{
    struct runner *r = arg;

    if (!r->refused)
        say_away(r, "home is away", why);
    r->welcome = r->refused = false;
}

static const struct link_ops link_ops = {
    .up = on_up,
    .message = on_message,
    .down = on_down,
};

/* What waits on disk loses nothing when the runner ends: it is started again
 * together with home.  One that is alone is not: it has waited for long enough.
 */
static void on_idle(struct watch *w, void *arg)
{
    struct runner *r = arg;
    struct err err = { 0 };

    (void) w;
    r->idle = loop_timer(r->loop, IDLE_CHECK_MS, on_idle, r);
    if (runlog_trim(r->conf->dir, &err) < 0)
        log_say(LOG_WARN, "own log", "why", err.text, NULL);
    if (r->running > 0 || link_away_ms(r->link) < r->conf->idle_ms)
        return;
    r->quitting = true;
    runner_end_if_done(r);
}

/* Beginning and end. */

static void on_child(int sig, void *arg)
{
    (void) sig;
    held_reap(arg);
}

static void on_term(int sig, void *arg)
{
    struct runner *r = arg;

    (void) sig;
    r->ending = true;
    if (r->alone)
        alone_term(r);
    runner_end_if_done(r);
}

struct scan {
    struct runner *runner;
    struct err *err;
    int rc;
};

static void on_lease(const struct lease_id *id, void *arg)
{
    struct scan *s = arg;

    if (s->rc == 0)
        s->rc = held_find(s->runner, id, s->err);
}

/* A record that cannot be read may be of something that runs: rather no runner
 * for now, and another attempt by whoever starts it, than a wrong word to home.
 */
static int find_leases(struct runner *r, struct err *err)
{
    struct scan s = { r, err, 0 };
    int rc = records_scan(&r->records, on_lease, &s, err);

    return rc < 0 ? rc : s.rc;
}

static int watch_signals(struct runner *r, struct err *err)
{
    sigset_t set;
    int rc = loop_signal(r->loop, SIGCHLD, on_child, r, err);

    /* Whatever was ignored where we come from: tasks inherit it. */
    for (int sig = 1; sig < NSIG; sig++)
        (void) signal(sig, SIG_DFL);
    /* A keeper may be told something before it has set itself up. */
    (void) sigemptyset(&set);
    (void) sigaddset(&set, SIGRTMIN);
    (void) sigprocmask(SIG_BLOCK, &set, NULL);
    (void) signal(SIGPIPE, SIG_IGN);
    (void) signal(SIGHUP, SIG_IGN);
    (void) signal(SIGINT, SIG_IGN);
    if (rc == 0 && r->conf->alone)
        rc = alone_signals(r, on_term, err);
    return rc < 0 ? rc : loop_signal(r->loop, SIGTERM, on_term, r, err);
}

static int set_up(struct runner *r, struct err *err)
{
    int rc = records_open(&r->records, r->conf->dir, err);

    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return err_set(err, errno, "subreaper: %s", strerror(errno));
    if (rc == 0)
        rc = loop_open(&r->loop, err);
    if (rc == 0)
        rc = watch_signals(r, err);
    if (rc == 0)
        rc = machine_limits(r, err);
    if (rc == 0)
        rc = said_open(r, err);
    if (rc == 0 && r->conf->alone)
        rc = alone_open(r, err);
    if (rc == 0)
        behind_init(r);
    if (rc == 0)
        rc = machine_check(r, err);
    if (rc == 0)
        rc = find_leases(r, err);
    return rc == 0 ? machine_note(r, err) : rc;
}

static void clear(struct runner *r)
{
    struct held *h;
    size_t pos;

    link_close(r->link);
    said_close(r);
    for (pos = 0; (h = map_next(r->held, &pos, NULL)); pos = 0)
        held_free(h);
    alone_close(r);
    behind_clear(r);
    telemetry_stop(r);
    health_stop(r);
    cgroup_close(&r->cgroup);
    records_close(&r->records);
    accounts_clear(&r->accounts);
    map_free(r->held);
    map_free(r->keepers);
    loop_close(r->loop);
}

int runner_run(const struct runner_conf *conf, int *ret_status,
               struct err *err)
{
    struct runner r = {
        .conf = conf, .held = map_new(), .keepers = map_new(),
        .files = -1, .cgroup = { .limits = "rlimits" },
    };
    int rc = set_up(&r, err);

    if (rc == 0) {
        log_say(LOG_INFO, "runner is here", "block", conf->block, "limits",
                r.cgroup.limits, NULL);
        r.link = link_open(r.loop, &conf->home, &link_ops, &r);
        on_idle(NULL, &r);
        rc = loop_run(r.loop, err);
    }
    if (rc == 0 && r.alone)
        alone_farewell(&r);
    if (rc == 0)
        *ret_status = r.alone ? r.alone->status : 0;
    clear(&r);
    return rc;
}
