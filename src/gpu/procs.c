#include "gpu/procs.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static const char cgroups[] = "/sys/fs/cgroup";

enum { STAT_PARENT = 1, STAT_START = 19, STAT_MAX = 4096, DEEP = 32 };

/* Field n of /proc/PID/stat, counted from the state, which is 0. */
static int stat_field(pid_t pid, unsigned n, uint64_t *ret)
{
    autofree char *text = NULL;
    char path[48];
    const char *p;
    size_t len;

    (void) snprintf(path, sizeof path, "/proc/%d/stat", (int) pid);
    if (fs_read(path, STAT_MAX, &text, &len, NULL) < 0)
        return -ESRCH;
    p = strrchr(text, ')');            /* a name may hold anything */
    for (unsigned i = 0; p && i <= n; i++) {
        p = strchr(p, ' ');
        p = p ? p + 1 : NULL;
    }
    if (!p)
        return -EBADMSG;
    *ret = strtoull(p, NULL, 10);
    return 0;
}

static int gone(pid_t pid, struct err *err)
{
    return err_set(err, ESRCH, "process %d is gone", (int) pid);
}

/* start 0: whoever has the pid now. */
static int open_proc(pid_t pid, uint64_t start, struct proc *ret,
                     struct err *err)
{
    struct proc p = { .pid = pid };
    struct stat st;
    char path[32];

    (void) snprintf(path, sizeof path, "/proc/%d", (int) pid);
    p.fd = (int) syscall(SYS_pidfd_open, pid, 0);
    if (p.fd < 0 && (errno == ESRCH || errno == EINVAL))
        return gone(pid, err);
    if (p.fd < 0)
        return err_set(err, errno, "process %d: %s", (int) pid,
                       strerror(errno));
    /* Read after the pidfd was made and found alive then: they are its. */
    if (stat_field(pid, STAT_START, &p.start) < 0 || stat(path, &st) < 0 ||
        (start && start != p.start) || !procs_alive(&p)) {
        procs_close(&p);
        return gone(pid, err);
    }
    p.uid = st.st_uid;
    *ret = p;
    return 0;
}

int procs_open(pid_t pid, uint64_t start, struct proc *ret, struct err *err)
{
    return open_proc(pid, start, ret, err);
}

void procs_close(struct proc *p)
{
    if (p->fd >= 0)
        (void) close(p->fd);
    p->fd = -1;
}

bool procs_alive(const struct proc *p)
{
    return !procs_ends(p, 0);
}

bool procs_ends(const struct proc *p, int wait_ms)
{
    struct pollfd fd = { .fd = p->fd, .events = POLLIN };

    return poll(&fd, 1, wait_ms) == 1;     /* not when poll itself fails */
}

void procs_free(struct procs *p)
{
    for (unsigned i = 0; i < p->n; i++)
        procs_close(&p->all[i]);
    free(p->all);
    *p = (struct procs) { 0 };
}

static int add(struct procs *l, pid_t pid, struct err *err)
{
    struct proc p;
    int rc;

    if (l->n == PROCS_MAX)
        return err_set(err, E2BIG, "the task has more than %d processes",
                       PROCS_MAX);
    rc = open_proc(pid, 0, &p, err);
    if (rc == -ESRCH)
        return 0;                      /* it ended meanwhile */
    if (rc < 0)
        return rc;
    l->all = mem_more(l->all, l->n, sizeof *l->all);
    l->all[l->n++] = p;
    return 0;
}

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct proc *) a)->pid;
    pid_t y = ((const struct proc *) b)->pid;

    return (x > y) - (x < y);
}

static int finish(struct procs *l, int rc, struct procs *ret)
{
    if (rc < 0) {
        procs_free(l);
        return rc;
    }
    if (l->n)
        qsort(l->all, l->n, sizeof *l->all, by_pid);
    *ret = *l;
    return 0;
}

static bool has(const struct procs *l, pid_t pid)
{
    for (unsigned i = 0; i < l->n; i++)
        if (l->all[i].pid == pid)
            return true;
    return false;
}

/* Adds the children of who is listed; how many were new. */
static int add_children(struct procs *l, DIR *dir, struct err *err)
{
    unsigned before = l->n;
    const struct dirent *e;
    int rc = 0;

    rewinddir(dir);
    while (!rc && (e = readdir(dir))) {
        pid_t pid = (pid_t) strtol(e->d_name, NULL, 10);
        uint64_t parent;

        unsigned n = l->n;

        if (pid <= 0 || stat_field(pid, STAT_PARENT, &parent) < 0 ||
            !has(l, (pid_t) parent) || has(l, pid))
            continue;
        rc = add(l, pid, err);
        /* Read again, now that it is held: the pid may be a stranger's. */
        if (l->n > n && (stat_field(pid, STAT_PARENT, &parent) < 0 ||
                         !has(l, (pid_t) parent)))
            procs_close(&l->all[--l->n]);
    }
    return rc < 0 ? rc : (int) (l->n - before);
}

int procs_of_pid(pid_t pid, struct procs *ret, struct err *err)
{
    struct procs l = { 0 };
    DIR *dir = opendir("/proc");
    int rc;

    if (!dir)
        return err_set(err, errno, "/proc: %s", strerror(errno));
    rc = add(&l, pid, err);
    if (!rc && !l.n)
        rc = gone(pid, err);
    if (!rc)
        do
            rc = add_children(&l, dir, err);
        while (rc > 0);
    (void) closedir(dir);
    return finish(&l, rc, ret);
}

static int add_listed(struct procs *l, const char *folder, struct err *err)
{
    autofree char *path = mem_printf("%s/cgroup.procs", folder);
    autofree char *text = NULL;
    size_t len;
    int rc = fs_read(path, PROCS_MAX * 12, &text, &len, err);

    for (const char *s = text; !rc && *s; s += strcspn(s, "\n") + 1) {
        pid_t pid = (pid_t) strtol(s, NULL, 10);
        char now[PROCS_CGROUP];
        unsigned n = l->n;

        rc = add(l, pid, err);
        if (l->n == n)
            continue;
        procs_cgroup(pid, now);        /* as above */
        if (strcmp(now, folder + strlen(cgroups)) != 0)
            procs_close(&l->all[--l->n]);
    }
    return rc;
}

static int add_cgroup(struct procs *l, const char *folder, unsigned deep,
                      struct err *err)
{
    int rc = add_listed(l, folder, err);
    DIR *dir = rc ? NULL : opendir(folder);
    const struct dirent *e;

    while (!rc && dir && (e = readdir(dir))) {
        autofree char *sub = NULL;

        if (e->d_type != DT_DIR || e->d_name[0] == '.')
            continue;
        sub = mem_printf("%s/%s", folder, e->d_name);
        rc = deep < DEEP ? add_cgroup(l, sub, deep + 1, err)
           : err_set(err, ELOOP, "cgroup '%s' is too deep", sub);
    }
    if (dir)
        (void) closedir(dir);
    return rc;
}

int procs_of_cgroup(const char *path, struct procs *ret, struct err *err)
{
    struct procs l = { 0 };
    autofree char *folder = NULL;

    if (path[0] != '/' || strstr(path, "..") || strlen(path) >= PROCS_CGROUP)
        return err_set(err, EINVAL, "'%.80s' is not a cgroup's path", path);
    folder = mem_printf("%s%s", cgroups, path);
    return finish(&l, add_cgroup(&l, folder, 0, err), ret);
}

void procs_cgroup(pid_t pid, char *path)
{
    autofree char *text = NULL;
    char name[48];
    const char *p;
    size_t len;

    path[0] = '\0';
    (void) snprintf(name, sizeof name, "/proc/%d/cgroup", (int) pid);
    if (fs_read(name, STAT_MAX, &text, &len, NULL) < 0)
        return;
    p = !strncmp(text, "0::", 3) ? text : strstr(text, "\n0::");
    if (!p)
        return;
    p = strchr(p, '/');
    len = p ? strcspn(p, "\n") : 0;
    if (p && len < PROCS_CGROUP)
        (void) snprintf(path, PROCS_CGROUP, "%.*s", (int) len, p);
}

int procs_boot(char *ret, struct err *err)
{
    autofree char *text = NULL;
    size_t len;
    int rc = fs_read("/proc/sys/kernel/random/boot_id", 64, &text, &len, err);

    if (!rc)
        (void) snprintf(ret, 37, "%.36s", text);
    return rc;
}
