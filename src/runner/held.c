#include "runner/held.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "runner/alone.h"
#include "runner/keeper.h"
#include "runner/logfile.h"
#include "runner/output.h"
#include "runner/transient.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* A keeper that ends has written its report.  One that was killed has not:
 * then its lease is lost, and it ends only after nothing of it is left
 * (sweep.c).
 */
enum { FIND_MS = 20, RETELL_MS = 100 };

static void on_find(struct watch *w, void *arg);
static void tell_now(struct held *h);

struct held *held_new(struct runner *r, const struct lease_id *id)
{
    struct held *h = mem_new(sizeof *h);

    *h = (struct held) { .runner = r, .id = *id, .pidfd = -1,
                         .untold = HELD_NOTHING };
    lease_id_name(id, h->name, sizeof h->name);
    (void) map_set(r->held, h->name, h);
    return h;
}

static void unwatch(struct held *h)
{
    watch_remove(take(h->watch));
    watch_remove(take(h->timer));
    watch_remove(take(h->grace));
    watch_remove(take(h->retell));
    if (h->pidfd >= 0)
        (void) close(take_fd(h->pidfd));
    if (h->pid)
        (void) map_del_id(h->runner->keepers, (uint64_t) h->pid);
    h->pid = 0;
}

void held_free(struct held *h)
{
    move_close(h);
    watch_remove(take(h->find));
    gatepost_close(take(h->gate));
    unwatch(h);
    (void) map_del(h->runner->held, h->name);
    json_decref(h->task);
    free(h->devices);
    free(h);
}

static void complain(const struct held *h, const char *what, const char *why)
{
    log_say(LOG_ERROR, what, "lease", h->name, "why", why, NULL);
}

/* Try again later: `cb` is for h->timer.  The first time is worth a line. */
static void try_later(struct held *h, const char *what, const char *why,
                      loop_timer_f cb)
{
    if (!h->wait_ms)
        complain(h, what, why);
    h->timer = loop_timer(h->runner->loop, transient_wait(&h->wait_ms), cb,
                          h);
}

static void ended(struct held *h)
{
    if (h->state == HELD_RUNNING)
        h->runner->running--;
    move_close(h);
    behind_close(h);
    unwatch(h);
    h->state = HELD_ENDED;
    runner_ended(h);
}

static void keep_report(struct held *h)
{
    struct err err = { 0 };
    autoclose int fd = -1;
    int rc = record_open(&h->runner->records, &h->id, false, &fd, &err);

    if (rc == 0)
        rc = record_add_report(fd, &h->report, &err);
    if (rc < 0)
        complain(h, "its report is not on disk", err.text);
}

/* It ended without ever having run; told to home and kept where it can be. */
static void end_unstarted(struct held *h, const char *cause)
{
    h->report.ended_ms = clock_wall_ms();
    (void) snprintf(h->report.cause, sizeof h->report.cause, "%s", cause);
    if (h->made)
        keep_report(h);
    ended(h);
}

void held_end_lost(struct held *h)
{
    h->report = (struct report) {
        .cause = "lost",
        .started_ms = h->started.at_ms,
        .ended_ms = clock_wall_ms(),
    };
    if (h->report.ended_ms < h->report.started_ms)
        h->report.ended_ms = h->report.started_ms;
    keep_report(h);
    ended(h);
}

static void keeper_gone(struct held *h);

static void on_gone(struct watch *w, void *arg)
{
    struct held *h = arg;

    (void) w;
    h->timer = NULL;
    keeper_gone(h);
}

static void keeper_gone(struct held *h)
{
    struct record rec = { 0 };
    struct err err = { 0 };
    int rc;

    unwatch(h);
    rc = record_read(&h->runner->records, &h->id, &rec, &err);
    if (transient(rc)) {
        try_later(h, "its report is not read yet", err.text, on_gone);
        return;
    }
    if (rc < 0)
        complain(h, "cannot read its record", err.text);
    h->started = rec.started;
    h->report = rec.report;
    if (rec.has_report) {
        ended(h);
    } else {
        complain(h, "its keeper was killed", "no report");
        held_sweep(h);
    }
    record_clear(&rec);
}

void held_reap(struct runner *r)
{
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
        struct held *h = map_get_id(r->keepers, (uint64_t) pid);

        if (h)
            keeper_gone(h);
    }
}

/* Start. */

/* Without a user in the order: as ourselves. */
const struct account *held_account(struct runner *r, const struct order *o)
{
    if (o->has_user)
        return accounts_get(&r->accounts, o->uid, o->gid, o->user);
    return accounts_get(&r->accounts, geteuid(), getegid(), "");
}

static int fork_keeper(struct held *h, const struct order *o, int record,
                       struct err *err)
{
    struct keeper k = {
        .dir = h->runner->conf->dir, .id = &h->id, .lease = h->name,
        .block = h->runner->mark,
        .order = o, .account = held_account(h->runner, o),
        .gate_lib = h->gate ? h->runner->conf->gate_lib : NULL,
        .gate_socket = h->gate ? gatepost_socket(h->gate) : NULL,
        .cgroup = &h->runner->cgroup, .record = record,
        .log_bytes = h->runner->conf->log_bytes, .wake = -1,
    };
    pid_t pid;

    if (h->runner->alone) {
        k.folder = h->runner->conf->folder;
        k.wake = output_wake(h->runner->alone->output);
    }
    pid = keeper_start(&k, err);
    if (pid < 0)
        return (int) pid;
    h->pid = pid;
    h->state = HELD_RUNNING;
    h->runner->running++;
    (void) map_set_id(h->runner->keepers, (uint64_t) pid, h);
    runner_tell_soon(h->runner);
    return 0;
}

/* The submitter reads why in the log. */
static void refuse(struct held *h, const char *why, const char *cause)
{
    autofree char *line = mem_printf("weir: cannot start the task: %s\n",
                                     why);
    struct logfile log;

    complain(h, "not started", why);
    logfile_init(&log, h->runner->conf->dir, &h->id,
                 h->runner->conf->log_bytes);
    (void) logfile_add(&log, line, strlen(line), NULL);
    logfile_close(&log);
    cgroup_remove(&h->runner->cgroup, h->name);    /* reach.c may have made it */
    end_unstarted(h, cause);
}

static int read_order(struct held *h, struct order *ret, struct err *err)
{
    autojson json_t *task = json_incref(h->task);
    int rc = task ? 0 : record_read_order(&h->runner->records, &h->id, &task,
                                          err);

    return rc < 0 ? rc : order_read(task, ret, err);
}

/* "claimed" is written before the fork: whatever happens to us from then on,
 * no other runner starts this generation.
 */
static int claim_and_fork(struct held *h, const struct order *o,
                          struct err *err)
{
    autoclose int record = -1;
    int rc = record_open(&h->runner->records, &h->id, true, &record, err);

    if (rc == 0 && !h->claimed)
        rc = record_add_claimed(record, err);
    if (rc < 0)
        return rc;
    h->claimed = true;
    return fork_keeper(h, o, record, err);
}

static void on_room(struct watch *w, void *arg);

static void start(struct held *h)
{
    struct err err = { 0 };
    struct order o = { 0 };
    int rc = read_order(h, &o, &err);
    bool wrong;

    if (rc == 0)
        rc = behind_open(h, &o, held_account(h->runner, &o), false, &err);
    wrong = rc == -EINVAL;
    if (rc == 0)
        reach_settle(h);
    if (rc == 0)
        rc = claim_and_fork(h, &o, &err);
    order_clear(&o);
    if (rc == 0) {
        json_decref(take(h->task));
        h->wait_ms = 0;
    } else if (transient(rc)) {
        try_later(h, "not started yet", err.text, on_room);
    } else {
        refuse(h, err.text, wrong ? "refused" : "lost");
    }
}

void held_start(struct held *h)
{
    if (h->state != HELD_NEW || h->granted)
        return;
    h->granted = true;
    if (h->made)
        start(h);
}

/* A grant may come before the record is there: home saw it in a hello. */
void held_order(struct held *h)
{
    struct err err = { 0 };
    int rc = record_make(&h->runner->records, &h->id, h->task, &err);

    if (transient(rc)) {
        try_later(h, "order not taken yet", err.text, on_room);
        return;
    }
    if (rc < 0) {
        complain(h, "order not taken", err.text);
        end_unstarted(h, "lost");
        return;
    }
    h->made = true;
    h->wait_ms = 0;
    if (h->granted)
        start(h);
    else
        runner_claim(h);
}

static void on_room(struct watch *w, void *arg)
{
    struct held *h = arg;

    (void) w;
    h->timer = NULL;
    if (h->made)
        start(h);
    else
        held_order(h);
}

/* Find. */

static void on_pidfd(struct watch *w, int fd, unsigned ready, void *arg)
{
    (void) w;
    (void) fd;
    (void) ready;
    keeper_gone(arg);
}

/* The lock says that the keeper lives and `started` says who it is; a keeper
 * that has not written that yet is looked for again in a moment.
 */
static void look(struct held *h)
{
    const struct records *r = &h->runner->records;
    struct record rec = { 0 };
    autoclose int fd = -1;
    bool gone;
    int rc;

    if (record_read(r, &h->id, &rec, NULL) == 0 && rec.has_started)
        fd = (int) syscall(SYS_pidfd_open, rec.started.keeper, 0);
    record_clear(&rec);
    /* Alive after the pidfd was opened: so the pidfd is the keeper's. */
    rc = record_read(r, &h->id, &rec, NULL);
    gone = rc == -ENOENT || (rc == 0 && !rec.alive);
    record_clear(&rec);
    if (gone) {
        keeper_gone(h);
        return;
    }
    if (rc < 0 || fd < 0 || loop_fd(h->runner->loop, fd, LOOP_READ, on_pidfd,
                                    h, &h->watch, NULL) < 0) {
        h->timer = loop_timer(h->runner->loop, FIND_MS, on_find, h);
        return;
    }
    h->pidfd = take_fd(fd);
    if (h->untold != HELD_NOTHING)
        tell_now(h);
    runner_tell_soon(h->runner);
}

static void on_find(struct watch *w, void *arg)
{
    struct held *h = arg;

    (void) w;
    h->timer = NULL;
    look(h);
}

/* After a reboot nothing that was there runs, and a claim that never reached
 * the disk may have been granted: nothing from before is started.
 */
static void find_state(struct held *h, const struct record *rec,
                       json_t *task)
{
    if (!rec->claimed && !rec->has_report) {
        if (h->runner->rebooted)
            end_unstarted(h, "lost");
        return;
    }
    h->state = HELD_RUNNING;           /* until shown otherwise */
    h->runner->running++;
    if (rec->alive && !rec->has_report) {
        h->where = rec->off ? MOVE_UNSURE : MOVE_ON;
        h->devices = rec->devices ? mem_str(rec->devices) : NULL;
        behind_find(h, task);
        look(h);
    } else {
        keeper_gone(h);
    }
}

/* Cut short because it was over, and then we were killed.  Only a record that
 * was read, and says that nobody has claimed it, is that.
 */
static void retire(struct held *h, const char *why)
{
    struct err err = { 0 };

    log_say(LOG_WARN, "no order in a record", "lease", h->name, "why", why,
            NULL);
    if (record_retire(&h->runner->records, &h->id, &err) < 0)
        complain(h, "record stays", err.text);
    held_free(h);
}

int held_find(struct runner *r, const struct lease_id *id, struct err *err)
{
    struct record rec = { 0 };
    struct err why = { 0 };
    autojson json_t *task = NULL;
    struct held *h;
    int rc = record_read(&r->records, id, &rec, err);

    if (rc < 0)
        return rc;
    rc = record_read_order(&r->records, id, &task, &why);
    if (rc < 0 && rc != -EINVAL && rc != -EFBIG) {
        record_clear(&rec);
        return err_set(err, -rc, "%s", why.text);
    }
    h = held_new(r, id);
    h->made = true;
    h->behind = json_object_get(task, "gate") != NULL;
    if (rc < 0 && !rec.claimed && !rec.alive && !rec.has_report)
        retire(h, why.text);
    else
        find_state(h, &rec, task);
    record_clear(&rec);
    return 0;
}

pid_t held_keeper(struct held *h)
{
    struct record rec = { 0 };

    if (h->pid)
        return h->pid;
    if (h->pidfd >= 0 && !h->started.keeper &&
        record_read(&h->runner->records, &h->id, &rec, NULL) == 0)
        h->started = rec.started;
    record_clear(&rec);
    return h->pidfd >= 0 ? h->started.keeper : 0;
}

/* Stop. */

static void on_retell(struct watch *w, void *arg)
{
    struct held *h = arg;

    (void) w;
    h->retell = NULL;
    tell_now(h);
}

/* A keeper that is still looked for hears of it when it is found, one whose
 * queue of signals is full in a moment.
 */
static void tell_now(struct held *h)
{
    int rc;

    if (!h->pid && h->pidfd < 0)
        return;
    rc = h->pid ? keeper_tell(h->pid, h->untold)
                : keeper_tell_fd(h->pidfd, h->untold);
    if (rc == -EAGAIN) {
        h->retell = loop_timer(h->runner->loop, RETELL_MS, on_retell, h);
        return;
    }
    h->untold = HELD_NOTHING;
    if (rc < 0 && rc != -ESRCH)
        complain(h, "signal its keeper", strerror(-rc));
}

static void tell(struct held *h, int value)
{
    h->untold = value;
    watch_remove(take(h->retell));
    tell_now(h);
}

void held_continue(struct held *h)
{
    if (h->untold == HELD_NOTHING)     /* else that is told, and continues it */
        tell(h, SIGCONT);
}

static void on_grace(struct watch *w, void *arg)
{
    struct held *h = arg;

    (void) w;
    h->grace = NULL;
    tell(h, SIGKILL);
}

static int leave_command(const struct held *h, const char *command,
                         struct err *err)
{
    autoclose int fd = -1;
    int rc = record_open(&h->runner->records, &h->id, false, &fd, err);

    return rc < 0 ? rc : record_add_stop(fd, command, err);
}

/* Said again, a stop does not begin the grace again; force cuts it short. */
void held_stop(struct held *h, const struct wire_msg *m)
{
    struct err err = { 0 };

    if (h->state == HELD_NEW) {
        end_unstarted(h, "aborted");
        return;
    }
    if (h->state != HELD_RUNNING || (h->stopping && !m->force))
        return;
    watch_remove(take(h->grace));
    h->stopping = true;
    if (m->force) {
        tell(h, SIGKILL);
        return;
    }
    h->grace = loop_timer(h->runner->loop, m->grace_ms, on_grace, h);
    if (!m->command || !*m->command) {
        tell(h, m->signal ? m->signal : SIGTERM);
    } else if (leave_command(h, m->command, &err) == 0) {
        tell(h, KEEPER_COMMAND);
    } else {
        complain(h, "no checkpoint command", err.text);
        tell(h, m->signal ? m->signal : SIGTERM);
    }
}
