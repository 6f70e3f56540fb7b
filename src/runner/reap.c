#include "runner/reap.h"

#include "base/fs.h"
#include "base/mem.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CHILDREN_MAX = 16 * 1024 * 1024, ENVIRON_MAX = 8 * 1024 * 1024 };

static pid_t parent_of(pid_t pid)
{
    autofree char *stat = NULL;
    char path[64];
    const char *p;

    (void) snprintf(path, sizeof path, "/proc/%ld/stat", (long) pid);
    if (fs_read(path, 4096, &stat, NULL, NULL) < 0)
        return 0;
    p = strrchr(stat, ')');            /* the name may hold anything */
    if (!p || strlen(p) < 4)
        return 0;
    return (pid_t) strtol(p + 4, NULL, 10);
}

typedef unsigned (*visit_f)(pid_t pid, void *arg);

static unsigned each_process(visit_f visit, void *arg)
{
    DIR *proc = opendir("/proc");
    struct dirent *e;
    unsigned n = 0;

    while (proc && (e = readdir(proc)))
        if (isdigit((unsigned char) e->d_name[0]))
            n += visit((pid_t) strtol(e->d_name, NULL, 10), arg);
    if (proc)
        (void) closedir(proc);
    return n;
}

struct children {
    reap_spare_f spare;
    void *arg;
    pid_t self;
};

static unsigned kill_one(pid_t pid, const struct children *c)
{
    if (pid <= 1 || (c->spare && c->spare(pid, c->arg)))
        return 0;
    (void) kill(pid, SIGKILL);         /* our child: the pid is not reused */
    return 1;
}

static unsigned visit_child(pid_t pid, void *arg)
{
    const struct children *c = arg;

    return parent_of(pid) == c->self ? kill_one(pid, c) : 0;
}

unsigned reap_children(reap_spare_f spare, void *arg)
{
    struct children c = { spare, arg, getpid() };
    autofree char *list = NULL;
    char path[64];
    unsigned n = 0;

    /* One file where the kernel has it, a walk over all where not. */
    (void) snprintf(path, sizeof path, "/proc/self/task/%ld/children",
                    (long) c.self);
    if (fs_read(path, CHILDREN_MAX, &list, NULL, NULL) < 0)
        return each_process(visit_child, &c);
    for (char *p = list, *end; *p; p = end) {
        pid_t pid = (pid_t) strtol(p, &end, 10);

        if (end == p)
            break;
        n += kill_one(pid, &c);
        end += strspn(end, " \n");
    }
    return n;
}

static bool has_entry(const char *env, size_t len, const char *want)
{
    size_t size = strlen(want) + 1;

    for (const char *p = env; p < env + len; p += strlen(p) + 1)
        if ((size_t) (env + len - p) >= size && memcmp(p, want, size) == 0)
            return true;
    return false;
}

/* The pidfd is opened before the look, so that the process that is killed is
 * the one that was looked at.
 */
static unsigned visit_lease(pid_t pid, void *arg)
{
    autoclose int fd = (int) syscall(SYS_pidfd_open, pid, 0);
    autofree char *env = NULL;
    char path[64];
    size_t len = 0;

    (void) snprintf(path, sizeof path, "/proc/%ld/environ", (long) pid);
    if (fd < 0 || fs_read(path, ENVIRON_MAX, &env, &len, NULL) < 0 ||
        !has_entry(env, len, arg))
        return 0;
    (void) syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    return 1;
}

unsigned reap_by_lease(const char *lease)
{
    autofree char *want = mem_printf("WEIR_LEASE=%s", lease);

    return each_process(visit_lease, want);
}
