#include "runner/reap.h"

#include "base/fs.h"
#include "base/mem.h"
#include "runner/transient.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CHILDREN_MAX = 16 * 1024 * 1024, ENVIRON_MAX = 8 * 1024 * 1024 };

pid_t reap_parent(pid_t pid)
{
    autofree char *stat = NULL;
    char path[64];
    const char *p;
    int rc;

    (void) snprintf(path, sizeof path, "/proc/%ld/stat", (long) pid);
    rc = fs_read(path, 4096, &stat, NULL, NULL);
    if (rc < 0)
        return transient(rc) ? rc : 0;
    p = strrchr(stat, ')');            /* the name may hold anything */
    if (!p || strlen(p) < 4)
        return 0;
    return (pid_t) strtol(p + 4, NULL, 10);
}

typedef unsigned (*visit_f)(pid_t pid, void *arg);

/* The sum of what was said; 1 when there was no looking. */
static unsigned each_process(visit_f visit, void *arg)
{
    DIR *proc = opendir("/proc");
    struct dirent *e;
    unsigned n = proc ? 0 : 1;

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
    pid_t parent = reap_parent(pid);

    return parent < 0 ? 1 : parent == c->self ? kill_one(pid, c) : 0;
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

/* The value of the entry that begins with `name` ("WEIR_LEASE="), or NULL.
 * The text ends with a NUL, also where the last entry does not.
 */
static const char *entry(const char *env, size_t len, const char *name)
{
    for (const char *p = env; p < env + len; p += strlen(p) + 1)
        if (strncmp(p, name, strlen(name)) == 0)
            return p + strlen(name);
    return NULL;
}

struct search {
    const char *block;
    reap_match_f match;
    void *arg;
};

static bool is_theirs(const struct search *s, const char *env, size_t len)
{
    const char *block = entry(env, len, "WEIR_BLOCK=");
    const char *lease = entry(env, len, "WEIR_LEASE=");

    return block && lease && strcmp(block, s->block) == 0 &&
           s->match(lease, s->arg);
}

/* The pidfd is opened before the look, so that the process that is killed is
 * the one that was looked at.  1: could not look.
 */
static unsigned visit_lease(pid_t pid, void *arg)
{
    autoclose int fd = (int) syscall(SYS_pidfd_open, pid, 0);
    autofree char *env = NULL;
    char path[64];
    size_t len = 0;
    int rc;

    if (fd < 0)
        return transient(-errno);
    (void) snprintf(path, sizeof path, "/proc/%ld/environ", (long) pid);
    rc = fs_read(path, ENVIRON_MAX, &env, &len, NULL);
    if (rc < 0)
        return transient(rc);
    if (is_theirs(arg, env, len))
        (void) syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    return 0;
}

bool reap_by_lease(const char *block, reap_match_f match, void *arg)
{
    struct search s = { block, match, arg };

    return each_process(visit_lease, &s) == 0;
}
