#include "runner/held.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "runner/keeper.h"
#include "runner/logfile.h"
#include "runner/reap.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* A keeper that ends has written its report.  One that was killed has not:
 * then its lease is lost, and it ends only after nothing of it is left
 * (`sweep`).
 */
enum { SWEEP_MS = 20, FIND_MS = 20 };

static void sweep(struct watch *w, void *arg);
static void on_find(struct watch *w, void *arg);
static void tell(struct held *h, int value);

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
    if (h->pidfd >= 0)
        (void) close(take_fd(h->pidfd));
    if (h->pid)
        (void) map_del_id(h->runner->keepers, (uint64_t) h->pid);
    h->pid = 0;
}

void held_free(struct held *h)
{
    unwatch(h);
    (void) map_del(h->runner->held, h->name);
    json_decref(h->task);
    free(h);
}

static void complain(const struct held *h, const char *what, const char *why)
{
    log_say(LOG_ERROR, what, "lease", h->name, "why", why, NULL);
}

static void ended(struct held *h)
{
    if (h->state == HELD_RUNNING)
        h->runner->running--;
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

void held_end_unstarted(struct held *h, const char *cause)
{
    h->report.ended_ms = clock_wall_ms();
    (void) snprintf(h->report.cause, sizeof h->report.cause, "%s", cause);
    keep_report(h);
    ended(h);
}

static void end_lost(struct held *h)
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

static void keeper_gone(struct held *h)
{
    struct record rec = { 0 };
    struct err err = { 0 };

    unwatch(h);
    if (record_read(&h->runner->records, &h->id, &rec, &err) < 0)
        complain(h, "cannot read its record", err.text);
    h->started = rec.started;
    h->report = rec.report;
    if (rec.has_report) {
        ended(h);
    } else {
        complain(h, "its keeper was killed", "no report");
        sweep(NULL, h);
    }
    record_clear(&rec);
}

static bool is_keeper(pid_t pid, void *arg)
{
    struct runner *r = arg;

    return map_get_id(r->keepers, (uint64_t) pid) != NULL;
}

/* Kill what a dead keeper left, look again a moment later, and only when
 * nothing was found say that the lease has ended.  What was its child is ours
 * now, being the next subreaper; after a restart it may be anybody's, and is
 * known by its group or its environment.
 */
static void sweep(struct watch *w, void *arg)
{
    struct held *h = arg;
    unsigned n = cgroup_kill(&h->runner->cgroup, h->name);

    (void) w;
    n += reap_children(is_keeper, h->runner);
    n += reap_by_lease(h->name);
    h->timer = NULL;
    if (n > 0) {
        h->timer = loop_timer(h->runner->loop, SWEEP_MS, sweep, h);
        return;
    }
    cgroup_remove(&h->runner->cgroup, h->name);
    end_lost(h);
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
static const struct account *account_of(struct runner *r,
                                        const struct order *o)
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
        .order = o, .account = account_of(h->runner, o),
        .cgroup = &h->runner->cgroup, .record = record,
        .log_bytes = h->runner->conf->log_bytes,
    };
    pid_t pid = keeper_start(&k, err);

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
    held_end_unstarted(h, cause);
}

static int read_order(struct held *h, struct order *ret, struct err *err)
{
    autojson json_t *task = take(h->task);
    int rc = task ? 0 : record_read_order(&h->runner->records, &h->id, &task,
                                          err);

    return rc < 0 ? rc : order_read(task, ret, err);
}

/* "claimed" is written before the fork: whatever happens from then on, this
 * generation is not started again.
 */
static int claim_and_fork(struct held *h, const struct order *o,
                          struct err *err)
{
    autoclose int record = -1;
    int rc = record_open(&h->runner->records, &h->id, true, &record, err);

    if (rc == 0)
        rc = record_add_claimed(record, err);
    return rc == 0 ? fork_keeper(h, o, record, err) : rc;
}

void held_start(struct held *h)
{
    struct err err = { 0 };
    struct order o;
    int rc;

    if (h->state != HELD_NEW)
        return;
    rc = read_order(h, &o, &err);
    if (rc < 0) {
        refuse(h, err.text, rc == -EINVAL ? "refused" : "lost");
        return;
    }
    rc = claim_and_fork(h, &o, &err);
    order_clear(&o);
    if (rc < 0)
        refuse(h, err.text, "lost");
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
    bool alive;

    if (record_read(r, &h->id, &rec, NULL) == 0 && rec.has_started)
        fd = (int) syscall(SYS_pidfd_open, rec.started.keeper, 0);
    record_clear(&rec);
    /* Alive after the pidfd was opened: so the pidfd is the keeper's. */
    alive = record_read(r, &h->id, &rec, NULL) == 0 && rec.alive;
    record_clear(&rec);
    if (!alive) {
        keeper_gone(h);
        return;
    }
    if (fd < 0 || loop_fd(h->runner->loop, fd, LOOP_READ, on_pidfd, h,
                          &h->watch, NULL) < 0) {
        h->timer = loop_timer(h->runner->loop, FIND_MS, on_find, h);
        return;
    }
    h->pidfd = take_fd(fd);
    if (h->untold != HELD_NOTHING)
        tell(h, h->untold);
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
static void find_state(struct held *h, const struct record *rec)
{
    if (!rec->claimed && !rec->has_report) {
        if (h->runner->rebooted)
            held_end_unstarted(h, "lost");
        return;
    }
    h->state = HELD_RUNNING;           /* until shown otherwise */
    h->runner->running++;
    if (rec->alive && !rec->has_report)
        look(h);
    else
        keeper_gone(h);
}

void held_find(struct runner *r, const struct lease_id *id)
{
    struct held *h = held_new(r, id);
    struct record rec = { 0 };
    struct err err = { 0 };
    int rc = record_read(&r->records, id, &rec, &err);
    autojson json_t *task = NULL;

    if (rc == 0)
        rc = record_read_order(&r->records, id, &task, &err);
    if (rc == 0) {
        find_state(h, &rec);
    } else {
        /* Cut short because it was over, and then we were killed. */
        log_say(LOG_WARN, "no order in a record", "lease", h->name, "why",
                err.text, NULL);
        (void) record_retire(&r->records, id, NULL);
        held_free(h);
    }
    record_clear(&rec);
}

/* Stop. */

/* A keeper that is still looked for hears of it when it is found. */
static void tell(struct held *h, int value)
{
    int rc = 0;

    if (h->pid)
        rc = keeper_tell(h->pid, value);
    else if (h->pidfd >= 0)
        rc = keeper_tell_fd(h->pidfd, value);
    else
        h->untold = value;
    if (rc < 0 && rc != -ESRCH)
        complain(h, "signal its keeper", strerror(-rc));
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
        held_end_unstarted(h, "aborted");
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
