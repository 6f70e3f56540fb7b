#include "runner/held.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
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
    h->path = folder_path(r->conf->dir, id);
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
    free(h->path);
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

    h->on_disk = folder_write_report(h->path, &h->report, &err) == 0;
    if (!h->on_disk)
        complain(h, "report is not on disk", err.text);
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
    (void) folder_read_started(h->path, &h->started, NULL);
    h->report = (struct report) {
        .cause = "lost",
        .started_ms = h->started.at_ms,
        .ended_ms = clock_wall_ms(),
        .log_bytes = 1,                /* unknown: keep what is there */
    };
    if (h->report.ended_ms < h->report.started_ms)
        h->report.ended_ms = h->report.started_ms;
    keep_report(h);
    ended(h);
}

static void keeper_gone(struct held *h)
{
    struct err err = { 0 };

    unwatch(h);
    if (folder_read_report(h->path, &h->report, &err) == 0) {
        h->on_disk = true;
        ended(h);
        return;
    }
    complain(h, "keeper ended without a report", err.text);
    sweep(NULL, h);
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

static int fork_keeper(struct held *h, const struct order *o, int lock,
                       struct err *err)
{
    struct keeper k = {
        .path = h->path, .lease = h->name, .order = o,
        .cgroup = &h->runner->cgroup, .lock = lock,
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
    logfile_init(&log, h->path, h->runner->conf->log_bytes);
    (void) logfile_add(&log, line, strlen(line), NULL);
    logfile_close(&log);
    h->report.log_bytes = log.end;
    held_end_unstarted(h, cause);
}

void held_start(struct held *h)
{
    struct err err = { 0 };
    struct order o;
    autoclose int lock = -1;
    int rc;

    if (h->state != HELD_NEW)
        return;
    rc = folder_read_order(h->path, &o, &err);
    if (rc < 0) {
        refuse(h, err.text, rc == -EINVAL ? "refused" : "lost");
        return;
    }
    rc = folder_claim(h->path, &lock, &err);
    if (rc == 0)
        rc = fork_keeper(h, &o, lock, &err);
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
    struct err err = { 0 };
    enum folder_state s = FOLDER_LOST;
    int fd = -1;

    if (folder_read_started(h->path, &h->started, NULL) == 0)
        fd = (int) syscall(SYS_pidfd_open, h->started.keeper, 0);
    /* Still alive after the pidfd was opened: so it is the keeper's. */
    if (folder_state(h->path, &s, &err) < 0 || s != FOLDER_RUNNING) {
        if (fd >= 0)
            (void) close(fd);
        keeper_gone(h);
        return;
    }
    if (fd >= 0 && loop_fd(h->runner->loop, fd, LOOP_READ, on_pidfd, h,
                           &h->watch, &err) == 0) {
        h->pidfd = fd;
        if (h->untold != HELD_NOTHING)
            tell(h, h->untold);
        runner_tell_soon(h->runner);
        return;
    }
    if (fd >= 0)
        (void) close(fd);
    h->timer = loop_timer(h->runner->loop, FIND_MS, on_find, h);
}

static void on_find(struct watch *w, void *arg)
{
    struct held *h = arg;

    (void) w;
    h->timer = NULL;
    look(h);
}

/* After a reboot nothing that was there runs, whatever the folders say, and
 * a claim that was never written down may have been granted: nothing from
 * before is started.
 */
static void find_state(struct held *h, enum folder_state s)
{
    switch (s) {
    case FOLDER_NEW:
        if (h->runner->rebooted)
            held_end_unstarted(h, "lost");
        break;
    case FOLDER_RUNNING:
        h->state = HELD_RUNNING;
        h->runner->running++;
        look(h);
        break;
    case FOLDER_ENDED:
    case FOLDER_LOST:
        h->state = HELD_RUNNING;       /* until swept */
        h->runner->running++;
        keeper_gone(h);
        break;
    }
}

void held_find(struct runner *r, const struct lease_id *id)
{
    struct held *h = held_new(r, id);
    enum folder_state s;
    struct err err = { 0 };

    if (folder_state(h->path, &s, &err) == 0) {
        find_state(h, s);
        return;
    }
    /* Made, and then killed before the order was in it: never told of. */
    log_say(LOG_WARN, "empty lease folder", "lease", h->name, NULL);
    (void) folder_remove(r->conf->dir, id, NULL);
    held_free(h);
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
    autofree char *file = mem_printf("%s/stop", h->path);

    return fs_write(file, command, strlen(command), 0600, false, err);
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
