#include "cuda_in.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What every process shows to the others, and the waiting of a locked one.
 *
 * A call counts itself in before it looks whether the process is locked, and
 * who locks says so before it waits for the count: so no call goes on in a
 * locked process.  A call that waits for a lock to end is not counted.
 */
struct standin_proc *standin_me;

/* As linux/futex.h has them, which a compiler for musl does not find. */
enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1 };

static pid_t me_pid;
static pthread_mutex_t me_lock = PTHREAD_MUTEX_INITIALIZER;

bool standin_path(char *path, size_t size, const char *name)
{
    const char *folder = getenv(STANDIN_VAR);
    int n = folder ? snprintf(path, size, "%s/%s", folder, name) : -1;

    return n > 0 && (size_t) n < size;
}

bool standin_key(const char *file, const char *key, char *value, size_t size)
{
    char path[512], line[512];
    size_t len = strlen(key);
    bool found = false;
    FILE *in = standin_path(path, sizeof path, file) ? fopen(path, "re") : NULL;

    if (!in)
        return false;
    while (!found && fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = '\0';
        found = strncmp(line, key, len) == 0 && line[len] == '=';
    }
    (void) fclose(in);
    if (found)
        (void) snprintf(value, size, "%s", line + len + 1);
    return found;
}

uint64_t standin_number(const char *file, const char *key, uint64_t other)
{
    char value[64];

    return standin_key(file, key, value, sizeof value)
           ? strtoull(value, NULL, 10) : other;
}

uint64_t standin_now_ns(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000U + (uint64_t) t.tv_nsec;
}

void standin_sleep_until(uint64_t ns)
{
    struct timespec t = { .tv_sec = (time_t) (ns / 1000000000U),
                          .tv_nsec = (long) (ns % 1000000000U) };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        continue;
}

/* A forked child has no context, whatever its parent had. */
static void forget(void)
{
    if (standin_me && me_pid != getpid())
        standin_me = NULL;
}

void standin_wait(_Atomic uint32_t *word, uint32_t was)
{
    (void) syscall(SYS_futex, word, FUTEX_WAIT, was, NULL, NULL, 0);
}

void standin_wake(_Atomic uint32_t *word)
{
    (void) syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Allocates nothing: who is held meanwhile may have the allocator's lock. */
static void *driver_thread(void *arg)
{
    struct standin_proc *p = arg;

    p->tid = (uint32_t) syscall(SYS_gettid);
    __atomic_store_n(&p->version, STANDIN_VERSION, __ATOMIC_RELEASE);
    for (;;) {
        uint32_t ask = p->ask;

        if (ask < STANDIN_LOCK) {
            standin_wait(&p->ask, ask);
            continue;
        }
        p->rc = standin_carry_out(p);
        p->answered = p->asked;
        p->ask = STANDIN_NOTHING;
    }
    return NULL;
}

/* The driver has a thread in every process with a context. */
static int start_thread(struct standin_proc *p)
{
    sigset_t all, old;
    pthread_t t;
    int rc;

    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&t, NULL, driver_thread, p);
    (void) pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0)
        (void) pthread_detach(t);
    return rc;
}

static struct standin_proc *map_file(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0644);
    struct standin_proc *p = MAP_FAILED;

    if (fd < 0)
        return NULL;
    if (!(flags & O_CREAT) || ftruncate(fd, sizeof *p) == 0)
        p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void) close(fd);
    return p == MAP_FAILED ? NULL : p;
}

static int make_me(void)
{
    char path[512], name[32];
    struct standin_proc *p = NULL;

    if (standin_path(path, sizeof path, "proc"))
        (void) mkdir(path, 0777);
    (void) snprintf(name, sizeof name, "proc/%d", (int) getpid());
    if (standin_path(path, sizeof path, name))
        p = map_file(path, O_RDWR | O_CREAT | O_TRUNC);
    if (!p || start_thread(p))
        return CUDA_ERROR_OPERATING_SYSTEM;
    while (__atomic_load_n(&p->version, __ATOMIC_ACQUIRE) != STANDIN_VERSION)
        (void) sched_yield();
    me_pid = getpid();
    standin_me = p;
    return CUDA_SUCCESS;
}

int standin_make_me(void)
{
    int rc;

    (void) pthread_mutex_lock(&me_lock);
    forget();
    rc = standin_me ? CUDA_SUCCESS : make_me();
    (void) pthread_mutex_unlock(&me_lock);
    return rc;
}

struct standin_proc *standin_map(int pid)
{
    char path[512], name[32];
    struct standin_proc *p;

    (void) snprintf(name, sizeof name, "proc/%d", pid);
    if ((kill(pid, 0) != 0 && errno == ESRCH) ||
        !standin_path(path, sizeof path, name))
        return NULL;
    p = map_file(path, O_RDWR);
    if (p && p->version == STANDIN_VERSION)
        return p;
    standin_unmap(p);
    return NULL;
}

void standin_unmap(struct standin_proc *p)
{
    if (p)
        (void) munmap(p, sizeof *p);
}

void standin_each(void (*see)(struct standin_proc *p, void *arg), void *arg)
{
    char path[512];
    DIR *dir = standin_path(path, sizeof path, "proc") ? opendir(path) : NULL;
    struct dirent *e;

    while (dir && (e = readdir(dir))) {
        long pid = strtol(e->d_name, NULL, 10);
        struct standin_proc *p = pid > 0 ? standin_map((int) pid) : NULL;

        if (p)
            see(p, arg);
        standin_unmap(p);
    }
    if (dir)
        (void) closedir(dir);
}

struct standin_call standin_enter(void)
{
    struct standin_call c = { NULL, errno };

    forget();
    c.in = standin_me;
    if (!c.in)
        return c;
    c.in->calls++;
    for (;;) {
        c.in->in_calls++;
        if (c.in->state == STANDIN_RUNNING && !c.in->locking)
            return c;
        c.in->in_calls--;
        standin_sleep_until(standin_now_ns() + 1000000);
    }
}

void standin_left(const struct standin_call *c)
{
    if (c->in)
        c->in->in_calls--;
    errno = c->saved_errno;
}

__attribute__((destructor))
static void gone(void)
{
    char path[512], name[32];

    if (!standin_me || me_pid != getpid())
        return;
    (void) snprintf(name, sizeof name, "proc/%d", (int) me_pid);
    if (standin_path(path, sizeof path, name))
        (void) unlink(path);
}
