#include "gpu/hold.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

/* A thread in the midst of a driver's or a disk's call stops when that is over;
 * one that does not in this time keeps the task from being suspended.
 */
enum { PATIENCE_MS = 5000, REAP_MS = 200 };

struct hold_thread {
    pid_t tid;
    int sig;                           /* it was stopped on its way to it */
};

static void nap(void)
{
    const struct timespec t = { .tv_nsec = 200000 };

    (void) nanosleep(&t, NULL);
}

/* 1: it stands still, 0: it is gone.  Waiting without an end is not possible:
 * a first thread that ended before the others is never reported.
 */
static int wait_still(struct hold_thread *t, uint64_t end_ms, struct err *err)
{
    int status;

    for (;;) {
        pid_t got = waitpid(t->tid, &status, __WALL | WNOHANG);

        if (got < 0 && errno != EINTR)
            return 0;
        if (got == t->tid && !WIFSTOPPED(status))
            return 0;
        if (got == t->tid) {
            t->sig = status >> 16 ? 0 : WSTOPSIG(status);
            return 1;
        }
        if (clock_mono_ms() >= end_ms)
            return err_set(err, ETIMEDOUT, "thread %d does not stop: it is in"
                           " a call of the kernel", (int) t->tid);
        nap();
    }
}

/* 1: held, 0: it is gone; -ETIMEDOUT: it is ours and does not stop yet. */
static int seize(pid_t tid, struct hold_thread *ret, uint64_t end_ms,
                 struct err *err)
{
    ret->tid = tid;
    ret->sig = 0;
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0) {
        if (errno == ESRCH)
            return 0;
        return err_set(err, errno, "thread %d cannot be stopped: %s%s",
                       (int) tid, strerror(errno), errno == EPERM ? " (a"
                       " debugger has it, or CAP_SYS_PTRACE is missing)" : "");
    }
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0 && errno == ESRCH)
        return 0;
    return wait_still(ret, end_ms, err);
}

static bool has(const struct hold *h, pid_t tid)
{
    for (unsigned i = 0; i < h->n; i++)
        if (h->threads[i].tid == tid)
            return true;
    return false;
}

char hold_state(pid_t pid, pid_t tid)
{
    char path[64], text[512];
    const char *p;
    ssize_t n;

    (void) snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int) pid,
                    (int) tid);
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);

    n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    p = strrchr(text, ')');
    return (char) (p && p[1] == ' ' ? p[2] : 0);
}

/* How many were new, or what is the matter. */
static int sweep(struct hold *h, DIR *tasks, uint64_t end_ms, struct err *err)
{
    const struct dirent *e;
    int fresh = 0;

    rewinddir(tasks);
    while ((e = readdir(tasks))) {
        pid_t tid = (pid_t) strtol(e->d_name, NULL, 10);
        struct hold_thread t;
        int rc;

        if (tid <= 0 || tid == h->keep || has(h, tid) ||
            hold_state(h->pid, tid) == 'Z')
            continue;
        rc = seize(tid, &t, end_ms, err);
        if (rc == 1 || rc == -ETIMEDOUT) {
            h->threads = mem_more(h->threads, h->n, sizeof *h->threads);
            h->threads[h->n++] = t;
        }
        if (rc < 0)
            return rc;
        fresh += rc;
    }
    return fresh;
}

int hold_take(pid_t pid, pid_t keep, struct hold *ret, struct err *err)
{
    struct hold h = { .pid = pid, .keep = keep };
    uint64_t end_ms = clock_mono_ms() + PATIENCE_MS;
    char path[64];
    DIR *tasks;
    int rc;

    (void) snprintf(path, sizeof path, "/proc/%d/task", (int) pid);
    tasks = opendir(path);
    if (!tasks)
        return err_set(err, ESRCH, "process %d is gone", (int) pid);
    /* One that runs may still start others: until none is new. */
    do
        rc = sweep(&h, tasks, end_ms, err);
    while (rc > 0);
    (void) closedir(tasks);
    if (rc < 0) {
        hold_let_go(&h);
        return err_prefix(err, rc, "process %d", (int) pid);
    }
    *ret = h;
    return 0;
}

void hold_reap(struct hold *h)
{
    for (unsigned i = 0; i < h->n;) {
        int status;
        pid_t got = waitpid(h->threads[i].tid, &status, __WALL | WNOHANG);

        if ((got < 0 && errno == ECHILD) ||
            (got > 0 && !WIFSTOPPED(status))) {
            h->threads[i] = h->threads[--h->n];
            continue;
        }
        if (got > 0)                   /* it stopped late */
            h->threads[i].sig = status >> 16 ? 0 : WSTOPSIG(status);
        i++;
    }
}

static void detach(struct hold *h)
{
    for (unsigned i = 0; i < h->n;) {
        const struct hold_thread *t = &h->threads[i];

        if (ptrace(PTRACE_DETACH, t->tid, NULL,
                   (void *) (intptr_t) t->sig) == 0)
            h->threads[i] = h->threads[--h->n];
        else
            i++;
    }
}

/* One that has not stopped yet can be let go only when it does.  What is left of
 * these, and of who was killed, goes with the calling thread: the kernel lets
 * the tracees of a thread that ends run on.
 */
void hold_let_go(struct hold *h)
{
    uint64_t end_ms = clock_mono_ms() + REAP_MS;

    detach(h);
    hold_reap(h);
    while (h->n && clock_mono_ms() < end_ms) {
        nap();
        hold_reap(h);
        detach(h);
    }
    free(h->threads);
    *h = (struct hold) { 0 };
}

/* Detached while a stop of the whole process is under way, a thread takes part
 * in it before it gets back to its program.
 */
int hold_park(struct hold *h, struct err *err)
{
    uint64_t end_ms = clock_mono_ms() + PATIENCE_MS;
    char now;

    if (syscall(SYS_tgkill, h->pid, h->keep, SIGSTOP) < 0)
        return err_set(err, errno, "process %d cannot be stopped: %s",
                       (int) h->pid, strerror(errno));
    while ((now = hold_state(h->pid, h->keep)) != 'T') {
        if (!now || now == 'Z' || now == 'X')
            return err_set(err, ESRCH, "process %d is gone", (int) h->pid);
        if (clock_mono_ms() >= end_ms) {
            (void) kill(h->pid, SIGCONT);
            return err_set(err, ETIMEDOUT, "process %d does not stop",
                           (int) h->pid);
        }
        nap();
    }
    hold_let_go(h);
    return 0;
}

int hold_unpark(const struct hold *h, struct err *err)
{
    uint64_t end_ms = clock_mono_ms() + PATIENCE_MS;

    if (hold_state(h->pid, h->keep) != 'T')
        return 0;
    if (kill(h->pid, SIGCONT) < 0)
        return err_set(err, errno, "process %d cannot be continued: %s",
                       (int) h->pid, strerror(errno));
    while (hold_state(h->pid, h->keep) == 'T') {
        if (clock_mono_ms() >= end_ms)
            return err_set(err, ETIMEDOUT, "process %d does not continue",
                           (int) h->pid);
        nap();
    }
    return 0;
}
