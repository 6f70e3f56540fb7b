#include "runner/cgroup.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "runner/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { FILE_MAX = 1024 * 1024 };       /* of what the kernel tells us */

static int put(const char *dir, const char *file, const char *text)
{
    autofree char *path = mem_printf("%s/%s", dir, file);
    autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        return -errno;
    return 0;
}

static int put_number(const char *dir, const char *file, uint64_t n)
{
    char text[32];

    (void) snprintf(text, sizeof text, "%" PRIu64, n);
    return put(dir, file, text);
}

static char *get(const char *dir, const char *file)
{
    autofree char *path = mem_printf("%s/%s", dir, file);
    char *text = NULL;

    return fs_read(path, FILE_MAX, &text, NULL, NULL) < 0 ? NULL : text;
}

/* Next line of *text, cut off; NULL at the end. */
static char *next_line(char **text)
{
    char *line = *text;
    char *end;

    if (!line || !*line)
        return NULL;
    end = strchr(line, '\n');
    if (end)
        *end = '\0';
    *text = end ? end + 1 : NULL;
    return line;
}

/* "a,b,c" has `word`? */
static bool list_has(const char *list, const char *word, const char *ends)
{
    size_t len = strlen(word);

    for (const char *p = list; (p = strstr(p, word)); p += len)
        if ((p == list || strchr(ends, p[-1])) &&
            (!p[len] || strchr(ends, p[len])))
            return true;
    return false;
}

/* Where the hierarchy is mounted: of version 2 (controller NULL), or the one
 * of version 1 with this controller.
 */
static char *mount_point(const char *controller)
{
    autofree char *text = NULL;
    char *rest, *line;

    if (fs_read("/proc/self/mounts", FILE_MAX, &text, NULL, NULL) < 0)
        return NULL;
    for (rest = text; (line = next_line(&rest)); ) {
        char dir[256], type[32], options[512];

        if (sscanf(line, "%*s %255s %31s %511s", dir, type, options) != 3)
            continue;
        if (controller ? strcmp(type, "cgroup") == 0 &&
                         list_has(options, controller, ",")
                       : strcmp(type, "cgroup2") == 0)
            return mem_str(dir);
    }
    return NULL;
}

/* The group we are in, in that hierarchy; as the mount shows it. */
static char *own_group(const char *mount, const char *controller)
{
    autofree char *text = NULL;
    autofree char *path = NULL;
    char *rest, *line;

    if (fs_read("/proc/self/cgroup", FILE_MAX, &text, NULL, NULL) < 0)
        return NULL;
    for (rest = text; (line = next_line(&rest)); ) {
        char *list = strchr(line, ':');
        char *at = list ? strchr(list + 1, ':') : NULL;

        if (!at)
            continue;
        *at++ = '\0';
        list++;
        if (controller ? list_has(list, controller, ",") : !*list) {
            path = mem_printf("%s%s", mount, strcmp(at, "/") ? at : "");
            break;
        }
    }
    return path && access(path, W_OK) == 0 ? take(path) : NULL;
}

/* Names of blocks and leases have characters that no group may have. */
static char *group_of(const char *base, const char *name)
{
    char *path = mem_printf("%s/%s", base, name);

    for (char *p = path + strlen(base) + 1; *p; p++)
        if (*p == '/')
            *p = '.';
    return path;
}

static bool make_base(const char *path)
{
    if (mkdir(path, 0755) == 0 || errno == EEXIST)
        return true;
    if (errno != EACCES && errno != EPERM && errno != EROFS)
        log_say(LOG_WARN, "a group cannot be made, and its limits are weaker",
                "group", path, "error", strerror(errno), NULL);
    return false;
}

/* A group of ours below `parent`, shown to work by making one in it. */
static char *base_in(const char *parent, const char *name)
{
    autofree char *path = group_of(parent, name);
    autofree char *probe = mem_printf("%s/probe", path);

    if (!make_base(path))
        return NULL;
    if (!make_base(probe)) {
        (void) rmdir(path);
        return NULL;
    }
    (void) rmdir(probe);
    return take(path);
}

/* Pass controllers down to the leases' groups.  The kernel refuses this for a
 * group that has processes of its own, the top one apart.
 */
static bool pass_down(const char *parent, const char *base)
{
    static const char all[] = "+memory +cpu";
    autofree char *have = NULL;

    (void) put(parent, "cgroup.subtree_control", all);
    (void) put(base, "cgroup.subtree_control", all);
    have = get(base, "cgroup.subtree_control");
    return have && list_has(have, "memory", " \n") &&
           list_has(have, "cpu", " \n");
}

static void open_v2(struct cgroup *c, const char *name)
{
    autofree char *mount = mount_point(NULL);
    autofree char *own = mount ? own_group(mount, NULL) : NULL;

    if (own)
        c->track = base_in(own, name);
    if (c->track && pass_down(own, c->track)) {
        c->unified = true;
        return;
    }
    if (mount && geteuid() == 0 && (!own || strcmp(own, mount) != 0)) {
        autofree char *top = base_in(mount, name);

        if (top && pass_down(mount, top)) {
            if (c->track)
                (void) rmdir(c->track);
            free(c->track);
            c->track = take(top);
            c->unified = true;
        } else if (top) {
            (void) rmdir(top);
        }
    }
}

static char *open_v1(const char *controller, const char *name,
                     const char *knob, const char *value)
{
    autofree char *mount = mount_point(controller);
    autofree char *own = mount ? own_group(mount, controller) : NULL;
    autofree char *base = own ? base_in(own, name) : NULL;
    autofree char *probe = base ? mem_printf("%s/probe", base) : NULL;
    bool works;

    if (!base || (mkdir(probe, 0755) < 0 && errno != EEXIST))
        return NULL;
    works = put(probe, knob, value) == 0;
    (void) rmdir(probe);
    return works ? take(base) : NULL;
}

void cgroup_open(struct cgroup *c, const char *name)
{
    *c = (struct cgroup) { .limits = "rlimits" };
    open_v2(c, name);
    if (c->unified) {
        c->memory = mem_str(c->track);
        c->cpu = mem_str(c->track);
        c->limits = "cgroup2";
        return;
    }
    c->memory = open_v1("memory", name, "memory.limit_in_bytes", "1G");
    c->cpu = open_v1("cpu", name, "cpu.shares", "1024");
    if (!c->track)
        c->devices = open_v1("devices", name, "devices.deny", "c 195:* rwm");
    if (c->memory)
        c->limits = "cgroup1";
}

void cgroup_inside(struct cgroup *c)
{
    *c = (struct cgroup) { .limits = "container", .inside = true };
    c->events = inside_find();
    c->kills = inside_kills(c->events);
}

void cgroup_close(struct cgroup *c)
{
    char *const bases[] = { c->track, c->memory, c->cpu, c->devices };

    free(c->events);
    for (size_t i = 0; i < array_size(bases); i++) {
        if (bases[i])
            (void) rmdir(bases[i]);
        free(bases[i]);
    }
    *c = (struct cgroup) { .limits = "rlimits" };
}

static int make_group(const char *base, const char *lease, char **ret,
                      struct err *err)
{
    autofree char *path = group_of(base, lease);

    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return err_set(err, errno, "make group '%s': %s", path,
                       strerror(errno));
    *ret = take(path);
    return 0;
}

static int limit(const char *group, const char *file, uint64_t value,
                 struct err *err)
{
    int rc = put_number(group, file, value);

    return rc < 0 ? err_set(err, -rc, "set %s of group '%s': %s", file,
                            group, strerror(-rc)) : 0;
}

static int set_memory(const struct cgroup *c, const char *group,
                      uint64_t bytes, struct err *err)
{
    int rc;

    /* A group of that name that was left here may have a lower one, which the
     * other must not pass.
     */
    if (!c->unified)
        (void) put(group, "memory.memsw.limit_in_bytes", "-1");
    rc = limit(group, c->unified ? "memory.max" : "memory.limit_in_bytes",
               bytes, err);
    /* Swap would let it grow past the limit; not every kernel counts it. */
    if (rc == 0 && c->unified)
        (void) put(group, "memory.swap.max", "0");
    else if (rc == 0)
        (void) put_number(group, "memory.memsw.limit_in_bytes", bytes);
    return rc;
}

/* A weight and no quota: a CPU that nobody else wants is not left idle. */
static int set_cpus(const struct cgroup *c, const char *group,
                    uint64_t milli, struct err *err)
{
    uint64_t weight = milli / 10, shares = milli * 1024 / 1000;

    if (c->unified)
        return limit(group, "cpu.weight", weight < 1 ? 1
                     : weight > 10000 ? 10000 : weight, err);
    return limit(group, "cpu.shares", shares < 2 ? 2
                 : shares > 262144 ? 262144 : shares, err);
}

/* On version 1 the weight needs a second group, and entering it takes the
 * kernel some 20 ms, which a short task feels.  One CPU is the weight that a
 * process has anyway, and less than one is for what hardly uses it.
 */
static bool wants_cpu_group(const struct cgroup *c, uint64_t cpus_milli)
{
    return c->cpu && cpus_milli && (c->unified || cpus_milli > 1000);
}

int cgroup_make(const struct cgroup *c, const char *lease,
                uint64_t cpus_milli, uint64_t memory, int *ret_track,
                struct err *err)
{
    autofree char *track = NULL, *mem = NULL, *cpu = NULL;
    autoclose int fd = -1;
    int rc = 0;

    if (c->track)
        rc = make_group(c->track, lease, &track, err);
    if (rc == 0 && c->memory && memory)
        rc = make_group(c->memory, lease, &mem, err);
    if (rc == 0 && mem)
        rc = set_memory(c, mem, memory, err);
    if (rc == 0 && wants_cpu_group(c, cpus_milli))
        rc = make_group(c->cpu, lease, &cpu, err);
    if (rc == 0 && cpu)
        rc = set_cpus(c, cpu, cpus_milli, err);
    if (rc == 0 && track) {
        fd = open(track, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            rc = err_set(err, errno, "open '%s': %s", track,
                         strerror(errno));
    }
    if (rc < 0) {
        cgroup_remove(c, lease);
        return rc;
    }
    *ret_track = take_fd(fd);
    return 0;
}

static int enter(const char *base, const char *lease)
{
    autofree char *group = group_of(base, lease);
    int rc = put(group, "cgroup.procs", "0");

    return rc == -ENOENT ? 0 : rc;     /* no limit of this kind was asked */
}

int cgroup_enter(const struct cgroup *c, const char *lease, bool tracked,
                 uint64_t memory)
{
    int rc = 0;

    if (c->track && !tracked)
        rc = enter(c->track, lease);
    if (rc == 0 && c->memory && !c->unified && memory)
        rc = enter(c->memory, lease);
    if (rc == 0 && c->cpu && !c->unified)
        rc = enter(c->cpu, lease);
    if (rc == 0 && c->devices)
        rc = enter(c->devices, lease);
    return rc;
}

unsigned cgroup_kill(const struct cgroup *c, const char *lease)
{
    autofree char *group = c->track ? group_of(c->track, lease) : NULL;
    autofree char *pids = group ? get(group, "cgroup.procs") : NULL;
    bool done = pids && *pids && put(group, "cgroup.kill", "1") == 0;
    unsigned n = 0;
    char *rest = pids, *line;

    while ((line = next_line(&rest))) {
        pid_t pid = (pid_t) strtol(line, NULL, 10);

        n++;
        if (!done && pid > 0)
            (void) kill(pid, SIGKILL);
    }
    return n;
}

uint64_t cgroup_oom_kills(const struct cgroup *c, const char *lease)
{
    autofree char *group = c->memory ? group_of(c->memory, lease) : NULL;
    autofree char *text = group ? get(group, c->unified ? "memory.events"
                                             : "memory.oom_control") : NULL;
    const char *at = text ? strstr(text, "oom_kill ") : NULL;
    uint64_t now = c->inside ? inside_kills(c->events) : 0;

    if (c->inside)                     /* none, if it cannot be read any more */
        return now > c->kills ? now - c->kills : 0;
    return at ? strtoull(at + strlen("oom_kill "), NULL, 10) : 0;
}

void cgroup_remove(const struct cgroup *c, const char *lease)
{
    char *const bases[] = { c->track, c->memory, c->cpu, c->devices };

    for (size_t i = 0; i < (c->unified ? 1 : array_size(bases)); i++) {
        autofree char *group = bases[i] ? group_of(bases[i], lease) : NULL;

        if (group)
            (void) rmdir(group);
    }
}

int cgroup_for_nodes(const struct cgroup *c, const char *lease, bool make,
                     char **ret, bool *ret_two, struct err *err)
{
    const char *base = c->track ? c->track : c->devices;
    autofree char *group = NULL;

    if (!base)
        return err_set(err, ENOTSUP, "no control groups of version 2, nor of "
                       "version 1 with 'devices', that are ours");
    *ret_two = c->track != NULL;
    if (make)
        return make_group(base, lease, ret, err);
    group = group_of(base, lease);
    *ret = access(group, F_OK) == 0 ? take(group) : NULL;
    return 0;
}
