#include "runner/keeper.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "runner/logfile.h"
#include "runner/progress.h"
#include "runner/reap.h"
#include "runner/record.h"
#include "runner/task.h"
#include "runner/transient.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* The order of things in a keeper's life:
 *
 *   1. it is a subreaper before it has a child, so that every orphan of the
 *      task becomes its child and waitpid says truly when nothing is left;
 *   2. `started` is noted after the task is there;
 *   3. the report is written after the last process is gone, and retried for
 *      as long as the disk is full: it is the one thing that may not be lost.
 */
enum {
    CHUNK = 64 * 1024,
    DRAIN_MAX = 1024 * 1024,           /* after the last process is gone */
    RETRY_MS = 500,
};

struct life {
    const struct keeper *k;
    struct task task;
    struct logfile log;
    int signals;                       /* signalfd */
    int out[2];                        /* pipe: read, write */
    int said[2];                       /* and of what it says about itself */
    char line[PROGRESS_LINE];          /* of that, not yet whole */
    size_t line_len;
    struct progress progress;
    uint64_t told_us;                  /* when it was last written; 0: never */
    bool untold, misread;              /* newer than that; a line was wrong */
    pid_t pid;                         /* of the task; 0 once reaped */
    int wait_status;
    int record, wake;
    bool noted;                        /* `started` is in the record */
    struct started started;
    uint64_t start_us;                 /* monotonic */
};

/* Only the record and `wake` stay, and what the runner has at 0, 1 and 2. */
static void close_others(struct life *l, int record, int wake)
{
    enum { RECORD = 3, WAKE, REST };
    int aside = wake < 0 ? -1 : fcntl(wake, F_DUPFD_CLOEXEC, REST);

    l->record = record == RECORD ? record : dup3(record, RECORD, O_CLOEXEC);
    l->wake = aside < 0 ? -1 : dup3(aside, WAKE, O_CLOEXEC);
    if (l->record < 0) {               /* then the rest stays open, too */
        l->record = record;
        return;
    }
    if (close_range(l->wake < 0 ? WAKE : REST, ~0u, 0) < 0)
        for (int fd = l->wake < 0 ? WAKE : REST; fd < 65536; fd++)
            (void) close(fd);
}

/* There is something new for a runner that reads along. */
static void wake(const struct life *l)
{
    if (l->wake >= 0)
        (void) eventfd_write(l->wake, 1);
}

static int open_signals(void)
{
    sigset_t set;

    (void) sigfillset(&set);
    (void) sigprocmask(SIG_SETMASK, &set, NULL);
    (void) sigemptyset(&set);
    (void) sigaddset(&set, SIGCHLD);
    (void) sigaddset(&set, SIGRTMIN);
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* fork, into the lease's group where the kernel can do both at once. */
static pid_t fork_into(int group, bool *ret_tracked)
{
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP,
        .exit_signal = SIGCHLD,
        .cgroup = (uint64_t) group,
    };
    long pid = group < 0 ? -1 : syscall(SYS_clone3, &args, sizeof args);

    *ret_tracked = pid >= 0;
    return pid >= 0 ? (pid_t) pid : fork();
}

static int spawn(struct life *l, const char *command, pid_t *ret,
                 struct err *err)
{
    const struct order *o = l->k->order;
    autoclose int group = -1;
    bool tracked = false;
    pid_t pid;
    int rc = cgroup_make(l->k->cgroup, l->k->lease, o->cpus_milli, o->memory,
                         &group, err);

    if (rc < 0)
        return rc;
    pid = fork_into(group, &tracked);
    if (pid < 0)
        return err_set(err, errno, "fork: %s", strerror(errno));
    if (pid == 0)
        task_exec(&l->task, tracked, command, l->pid);
    *ret = pid;
    return 0;
}

static void say(struct life *l, const char *text)
{
    autofree char *line = mem_printf("weir: %s\n", text);

    (void) logfile_add(&l->log, line, strlen(line), NULL);
    wake(l);
}

/* Copy what is in the pipe now, `max` bytes at most. */
static void copy(struct life *l, size_t max)
{
    static char data[CHUNK];
    ssize_t n;

    do {
        n = read(l->out[0], data, sizeof data);
        if (n > 0)
            (void) logfile_add(&l->log, data, (size_t) n, NULL);
        if (n > 0)
            wake(l);
        max -= n > 0 && (size_t) n < max ? (size_t) n : max;
    } while (n > 0 && max > 0);
}

static void take_line(struct life *l)
{
    struct err err = { 0 };

    l->line[l->line_len] = '\0';       /* one within it ends it sooner */
    l->line_len = 0;
    if (progress_line(&l->progress, l->line, clock_wall_ms(), &err) == 0) {
        l->untold = true;
    } else if (!l->misread) {          /* once is enough for the log */
        autofree char *text = mem_printf("progress: %s", err.text);

        l->misread = true;
        say(l, text);
    }
}

/* What the task said; a line that is too long is cut and then wrong. */
static void listen_to(struct life *l)
{
    static char data[4096];
    ssize_t n;

    while ((n = read(l->said[0], data, sizeof data)) > 0)
        for (ssize_t i = 0; i < n; i++) {
            if (data[i] == '\n')
                take_line(l);
            else if (l->line_len < sizeof l->line - 1)
                l->line[l->line_len++] = data[i];
        }
}

/* Milliseconds until what is new may be written; -1: nothing is. */
static int tell_after(const struct life *l)
{
    uint64_t since = (clock_mono_us() - l->told_us) / 1000;

    if (!l->untold)
        return -1;
    return !l->told_us || since >= PROGRESS_EVERY_MS ? 0 :
           (int) (PROGRESS_EVERY_MS - since);
}

/* A file that cannot be written now is tried again as if it were new. */
static void tell(struct life *l)
{
    l->told_us = clock_mono_us();
    l->untold = progress_write(l->k->dir, l->k->id, &l->progress, NULL) < 0;
    wake(l);
}

static void kill_all(struct life *l)
{
    if (l->pid)
        (void) kill(-l->pid, SIGKILL);
    (void) cgroup_kill(l->k->cgroup, l->k->lease);
    (void) reap_children(NULL, NULL);
}

static void run_command(struct life *l)
{
    struct record rec = { 0 };
    struct err err = { 0 };
    pid_t pid;
    int rc = record_read_fd(l->record, &rec, &err);

    if (rc == 0 && rec.stop)
        rc = spawn(l, rec.stop, &pid, &err);
    if (rc < 0) {
        autofree char *text = mem_printf("checkpoint command: %s", err.text);

        say(l, text);
    }
    record_clear(&rec);
}

static void obey(struct life *l, int value)
{
    if (!l->pid)
        return;
    if (value == KEEPER_COMMAND)
        run_command(l);
    else if (value == SIGKILL)
        kill_all(l);
    else if (value > 0 && value < NSIG)
        (void) kill(-l->pid, value);
    /* One that is suspended is stopped, and would not hear of it. */
    (void) kill(-l->pid, SIGCONT);
}

/* False once the task itself has ended. */
static bool reap(struct life *l)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == l->pid) {
            l->wait_status = status;
            l->pid = 0;
        }
    return l->pid != 0;
}

static bool take_signals(struct life *l)
{
    struct signalfd_siginfo info;
    bool child = false;

    while (read(l->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            child = true;
        else
            obey(l, info.ssi_int);
    }
    return !child || reap(l);
}

static void note_started(struct life *l)
{
    l->noted = l->noted ||
               record_add_started(l->record, &l->started, NULL) == 0;
}

static void watch(struct life *l)
{
    struct pollfd fds[3] = {
        { .fd = l->signals, .events = POLLIN },
        { .fd = l->out[0], .events = POLLIN },
        { .fd = l->said[0], .events = POLLIN },
    };
    bool alive = true;

    while (alive) {
        int wait = tell_after(l);
        int n = poll(fds, 3, l->noted || (wait >= 0 && wait < RETRY_MS) ?
                     wait : RETRY_MS);

        note_started(l);
        if (n > 0 && fds[1].revents)
            copy(l, CHUNK);
        if (n > 0 && fds[2].revents)
            listen_to(l);
        if (tell_after(l) == 0)
            tell(l);
        if (n > 0 && fds[0].revents)
            alive = take_signals(l);
    }
}

/* Kill until there is no child: see (1) at the top. */
static void clean_up(struct life *l)
{
    while (waitpid(-1, NULL, WNOHANG) >= 0 || errno == EINTR) {
        kill_all(l);
        copy(l, DRAIN_MAX);
        (void) poll(NULL, 0, 1);
    }
    copy(l, DRAIN_MAX);
    listen_to(l);
    if (l->untold)
        tell(l);
}

static void judge(const struct life *l, struct report *r)
{
    const struct task_failure *f = l->task.failure;
    const char *cause = "none";

    r->status = WIFSIGNALED(l->wait_status) ? -WTERMSIG(l->wait_status)
                                            : WEXITSTATUS(l->wait_status);
    if (f->code && transient(-f->code)) {
        cause = "lost";
        r->status = 0;
    } else if (f->code) {
        cause = "refused";
        r->status = f->status;
    } else if (r->status &&
               (l->k->order->memory || l->k->cgroup->inside) &&
               cgroup_oom_kills(l->k->cgroup, l->k->lease) > 0) {
        cause = "memory";
    } else if (r->status) {
        cause = r->status < 0 ? "signalled" : "failed";
    }
    (void) snprintf(r->cause, sizeof r->cause, "%s", cause);
}

static uint64_t cpu_ms(const struct rusage *u)
{
    return (uint64_t) (u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000 +
           (uint64_t) (u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1000;
}

/* Durations by the monotonic clock: the wall clock may be set back. */
static void make_report(struct life *l, struct report *r)
{
    struct rusage u = { 0 };

    (void) getrusage(RUSAGE_CHILDREN, &u);
    r->started_ms = l->started.at_ms;
    r->ended_ms = l->started.at_ms +
                  (clock_mono_us() - l->start_us + 999) / 1000;
    r->cpu_ms = cpu_ms(&u);
    r->rss_bytes = (uint64_t) u.ru_maxrss * 1024;
}

/* A full disk is waited for: nobody else knows how the task ended. */
static void leave_report(struct life *l, struct report *r)
{
    logfile_close(&l->log);
    while (record_add_report(l->record, r, NULL) < 0)
        (void) poll(NULL, 0, RETRY_MS);
}

/* Nothing was started: for what is wrong with the order it is refused; when
 * the machine had no room it is lost, and somebody else's to try again.
 */
static void refuse(struct life *l, int rc, const char *text, struct report *r)
{
    autofree char *line = mem_printf("cannot start the task: %s", text);

    say(l, line);
    *r = (struct report) { .cause = "refused", .status = 126 };
    if (transient(rc))
        *r = (struct report) { .cause = "lost" };
    r->ended_ms = clock_wall_ms();
}

/* The pipe is the task's own to open by WEIR_PROGRESS. */
static int open_said(struct life *l, struct err *err)
{
    const struct account *a = l->k->account;

    if (pipe2(l->said, O_CLOEXEC) < 0 ||
        (geteuid() == 0 && fchown(l->said[1], a->uid, a->gid) < 0))
        return err_set(err, errno, "keeper: %s", strerror(errno));
    l->task.said = l->said[1];
    return fs_set_nonblock(l->said[0], err);
}

static int set_up(struct life *l, struct err *err)
{
    int rc = open_said(l, err);

    if (rc < 0)
        return rc;
    l->signals = open_signals();
    if (l->signals < 0 || pipe2(l->out, O_CLOEXEC) < 0)
        return err_set(err, errno, "keeper: %s", strerror(errno));
    l->task.failure = mmap(NULL, sizeof *l->task.failure,
                           PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (l->task.failure == MAP_FAILED)
        return err_set(err, errno, "keeper: %s", strerror(errno));
    l->task.out = l->out[1];
    return fs_set_nonblock(l->out[0], err);
}

static void live(struct life *l, struct report *r)
{
    struct err err = { 0 };
    int rc = set_up(l, &err);

    l->started.keeper = getpid();
    l->started.at_ms = clock_wall_ms();
    l->start_us = clock_mono_us();
    if (rc == 0) {
        task_prepare(&l->task);
        rc = spawn(l, NULL, &l->pid, &err);
    }
    if (rc < 0) {
        refuse(l, rc, err.text, r);
        return;
    }
    l->started.task = l->pid;
    note_started(l);
    watch(l);
    clean_up(l);
    if (l->task.failure->code)
        say(l, l->task.failure->text);
    judge(l, r);
    make_report(l, r);
}

/* Nobody would find it: its runner's folder goes with the container. */
static void die_with(pid_t runner)
{
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != runner)
        _exit(1);
}

static _Noreturn void keep(const struct keeper *k, pid_t runner)
{
    struct report r = { 0 };
    struct life l = {
        .k = k,
        .task = {
            .order = k->order, .lease = k->lease, .cgroup = k->cgroup,
            .account = k->account, .block = k->block, .keeper = getpid(),
            .gate_lib = k->gate_lib, .gate_socket = k->gate_socket,
            .folder = k->folder,
        },
    };

    (void) setsid();
    (void) prctl(PR_SET_NAME, "weir-keeper");
    (void) prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (k->folder)
        die_with(runner);
    close_others(&l, k->record, k->wake);
    logfile_init(&l.log, k->dir, k->id, k->order->log_bytes
                 ? k->order->log_bytes : k->log_bytes);
    live(&l, &r);
    leave_report(&l, &r);
    cgroup_remove(k->cgroup, k->lease);
    _exit(0);
}

pid_t keeper_start(const struct keeper *k, struct err *err)
{
    pid_t runner = getpid(), pid = fork();

    if (pid < 0)
        return err_set(err, errno, "fork: %s", strerror(errno));
    if (pid == 0)
        keep(k, runner);
    return pid;
}

/* sigqueue and its pidfd form carry the value with the signal. */
static siginfo_t info_of(int value)
{
    siginfo_t info;

    memset(&info, 0, sizeof info);
    info.si_signo = SIGRTMIN;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_int = value;
    return info;
}

int keeper_tell(pid_t pid, int value)
{
    union sigval v = { .sival_int = value };

    return sigqueue(pid, SIGRTMIN, v) < 0 ? -errno : 0;
}

int keeper_tell_fd(int pidfd, int value)
{
    siginfo_t info = info_of(value);

    return syscall(SYS_pidfd_send_signal, pidfd, SIGRTMIN, &info, 0) < 0
         ? -errno : 0;
}
