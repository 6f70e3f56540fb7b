#include "runner/held.h"

#include "base/fs.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "runner/reap.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Who uses a device otherwise than a lease says.  The gate is no boundary: an
 * empty environment, a static program or a bare ioctl go around it.  What the
 * driver counts for each process shows it all the same.
 *
 *   device      a task's process is on a device that its lease has not
 *   staged      ... has something on its device while it only stands ready
 *   suspended   ... while it is suspended
 *   memory      a task's processes have more on a device than its limit and
 *               what their contexts may take
 *   stranger    a process of no task of ours is on a device
 *
 * A sample is a moment old, and what it shows may have been right then: so a
 * thing counts when two looks running show it, and of a task only if it was not
 * moved or let through its gate between them.  A process that is not to be
 * found here has ended, or is of another pid namespace: nothing is said of it.
 * Every process of a task is below its keeper, which adopts orphans.
 */
enum { DEPTH_MAX = 4096, COMM_SIZE = WIRE_COMM + 1 };

struct look {
    struct runner *runner;
    struct map *owners;                /* keeper's pid -> held */
    json_t *now;                       /* what -> turn */
    json_t *found;                     /* what counts */
};

/* What the processes of one lease have on the device that is looked at. */
struct sum {
    struct held *held;
    uint64_t bytes, most;
    uint32_t n;
    pid_t pid;                         /* who has the most */
};

struct sums {
    struct sum *list;
    size_t n;
};

static bool comm_of(pid_t pid, char comm[COMM_SIZE])
{
    autofree char *text = NULL;
    char path[64];
    size_t n = 0;

    (void) snprintf(path, sizeof path, "/proc/%ld/comm", (long) pid);
    if (fs_read(path, 64, &text, NULL, NULL) < 0)
        return false;
    /* A process chooses its name. */
    for (const char *p = text; *p && *p != '\n' && n < WIRE_COMM; p++) {
        comm[n] = *p;
        if (*p < ' ' || *p >= 0x7f)
            comm[n] = '?';
        n++;
    }
    comm[n] = '\0';
    return true;
}

static struct held *owner_of(const struct look *l, pid_t pid)
{
    struct held *h = NULL;

    for (int i = 0; i < DEPTH_MAX && pid > 1 && !h; i++) {
        h = map_get_id(l->owners, (uint64_t) pid);
        if (!h)
            pid = reap_parent(pid);
    }
    return h;
}

/* "A,B" has A? */
static bool has_device(const char *devices, const char *uuid)
{
    size_t len = strlen(uuid);

    for (const char *p = devices; p && *p; p += *p == ',') {
        size_t n = strcspn(p, ",");

        if (n == len && strncmp(p, uuid, n) == 0)
            return true;
        p += n;
    }
    return false;
}

/* NULL: it may be there. */
static const char *kind_of(const struct held *h, const char *uuid)
{
    const char *state = behind_state(h);

    if (!has_device(h->devices, uuid))
        return "device";
    return strcmp(state, "staged") == 0 || strcmp(state, "suspended") == 0
         ? state : NULL;
}

/* `o` is the evidence, and taken. */
static void find(struct look *l, struct held *h, const char *kind,
                 const char *uuid, json_t *o)
{
    bool together = strcmp(kind, "memory") == 0;
    uint64_t pid = json_get_u64(o, "pid", 0);
    unsigned turn = h ? h->turn : 0;
    char key[48], what[256];

    (void) snprintf(what, sizeof what, "%s %s %s %" PRIu64, kind,
                    h ? h->name : "-", uuid, together ? 0 : pid);
    json_put_str(o, "kind", kind);
    json_put_str(o, "uuid", uuid);
    if (h) {
        lease_key_print(&h->id.key, key, sizeof key);
        json_put_str(o, "key", key);
        json_put_u64(o, "gen", h->id.gen);
    }
    json_put_u64(l->now, what, turn);
    if (json_object_get(l->runner->strays, what) &&
        json_get_u64(l->runner->strays, what, 0) == turn &&
        json_array_size(l->found) < WIRE_STRAYS)
        (void) json_array_append(l->found, o);
    json_decref(o);
}

static void add(struct sums *s, struct held *h, pid_t pid, uint64_t bytes)
{
    size_t i = 0;

    while (i < s->n && s->list[i].held != h)
        i++;
    if (i == s->n) {
        s->list = mem_grow(s->list, s->n + 1, sizeof *s->list);
        s->list[s->n++] = (struct sum) { .held = h };
    }
    s->list[i].bytes += bytes;
    s->list[i].n++;
    if (bytes > s->list[i].most) {
        s->list[i].most = bytes;
        s->list[i].pid = pid;
    }
}

static json_t *evidence(pid_t pid, const char *comm, uint64_t bytes)
{
    json_t *o = json_object();

    json_put_u64(o, "pid", (uint64_t) pid);
    json_put_str(o, "comm", comm);
    json_put_u64(o, "bytes", bytes < INT64_MAX ? bytes : INT64_MAX);
    return o;
}

static void look_process(struct look *l, const char *uuid, const json_t *p,
                         struct sums *s)
{
    uint64_t pid = json_get_u64(p, "pid", 0);
    uint64_t bytes = json_get_u64(p, "memory_bytes", 0);
    char comm[COMM_SIZE];
    const char *kind;
    struct held *h;

    if (pid == 0 || pid > INT32_MAX || bytes == 0 ||
        !comm_of((pid_t) pid, comm))
        return;
    h = owner_of(l, (pid_t) pid);
    /* Devices that its order does not name, or one on its way, cannot be
     * told from others.
     */
    if (h && (h->move || h->where == MOVE_UNSURE ||
              (h->gate && !h->devices)))
        return;
    kind = h ? kind_of(h, uuid) : "stranger";
    if (kind)
        find(l, h, kind, uuid, evidence((pid_t) pid, comm, bytes));
    else
        add(s, h, (pid_t) pid, bytes);
}

static void look_memory(struct look *l, const char *uuid, const struct sum *s)
{
    const struct held *h = s->held;
    char comm[COMM_SIZE];
    json_t *o;

    if (!h->device_memory || s->bytes <= h->device_memory ||
        (s->bytes - h->device_memory) / s->n <= h->context ||
        !comm_of(s->pid, comm))
        return;
    o = evidence(s->pid, comm, s->bytes);
    json_put_u64(o, "limit", h->device_memory);
    json_put_u64(o, "processes", s->n);
    find(l, s->held, "memory", uuid, o);
}

static void look_device(struct look *l, const json_t *d)
{
    const char *uuid = json_get_str(d, "uuid", "");
    struct sums s = { 0 };
    const json_t *p;
    size_t i;

    if (!*uuid)
        return;
    json_array_foreach(json_object_get(d, "processes"), i, p)
        look_process(l, uuid, p, &s);
    for (i = 0; i < s.n; i++)
        look_memory(l, uuid, &s.list[i]);
    free(s.list);
}

static struct map *find_owners(struct runner *r)
{
    struct map *m = map_new();
    struct held *h;
    size_t pos = 0;

    while ((h = map_next(r->held, &pos, NULL))) {
        pid_t keeper = h->state == HELD_RUNNING ? held_keeper(h) : 0;

        if (keeper > 0)
            (void) map_set_id(m, (uint64_t) keeper, h);
    }
    return m;
}

json_t *stray_look(struct runner *r, const json_t *devices)
{
    struct look l = { .runner = r, .owners = find_owners(r),
                      .now = json_object(), .found = json_array() };
    const json_t *d;
    size_t i;

    json_array_foreach(devices, i, d)
        look_device(&l, d);
    json_decref(r->strays);
    r->strays = l.now;
    map_free(l.owners);
    return l.found;
}
