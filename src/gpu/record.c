#include "gpu/record.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char *const phases[RECORD_PHASE_COUNT] = {
#define X(name, text) [RECORD_##name] = text,
    RECORD_PHASES(X)
#undef X
};

const char *record_phase_name(enum record_phase p)
{
    assert(p < RECORD_PHASE_COUNT);
    return phases[p];
}

bool record_task_ok(const char *task)
{
    size_t n = strlen(task);

    if (n < 1 || n > RECORD_TASK || task[0] == '.')
        return false;
    for (const char *p = task; *p; p++)
        if (!isalnum((unsigned char) *p) && !strchr("._-", *p))
            return false;
    return true;
}

static int bad(struct err *err, const char *what)
{
    return err_set(err, EBADMSG, "'%s' is missing or wrong", what);
}

/* A member that must be there, from min to max. */
static bool get_number(const json_t *o, const char *key, uint64_t min,
                       uint64_t max, uint64_t *ret)
{
    const json_t *v = json_object_get(o, key);

    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return false;
    *ret = (uint64_t) json_integer_value(v);
    return *ret >= min && *ret <= max;
}

static bool get_text(const json_t *o, const char *key, char *ret, size_t size)
{
    const char *s = json_get_str(o, key, NULL);

    if (!s || strlen(s) >= size)
        return false;
    (void) snprintf(ret, size, "%s", s);
    return true;
}

const char *record_place(const struct record *r, unsigned p, unsigned i)
{
    unsigned at = r->procs[p].at[i];

    return at ? r->places[at - 1] : r->devices[i].uuid;
}

bool record_put(struct record *r, unsigned p, unsigned i, const char *uuid)
{
    unsigned k = 0;

    if (!strcmp(uuid, r->devices[i].uuid)) {
        r->procs[p].at[i] = 0;
        return true;
    }
    while (k < r->nplaces && strcmp(r->places[k], uuid) != 0)
        k++;
    if (k == RECORD_DEVICES)
        return false;
    if (k == r->nplaces)
        (void) snprintf(r->places[r->nplaces++], NVML_TEXT, "%s", uuid);
    r->procs[p].at[i] = (unsigned char) (k + 1);
    return true;
}

/* A process' part of device i, and where that is. */
static bool read_on(const json_t *j, struct record *r, unsigned p)
{
    const json_t *o;
    size_t k;

    json_array_foreach(json_object_get(j, "on"), k, o) {
        char place[NVML_TEXT];
        uint64_t i;

        if (!get_number(o, "device", 0, r->ndevices - 1, &i) ||
            !get_number(o, "bytes", 0, INT64_MAX, &r->procs[p].on[i]) ||
            !get_text(o, "at", place, sizeof place) ||
            (place[0] && !record_put(r, p, (unsigned) i, place)))
            return false;
    }
    return true;
}

static int read_procs(const json_t *j, struct record *r, struct err *err)
{
    const json_t *all = json_object_get(j, "processes");
    size_t n = json_array_size(all);

    if (!json_is_array(all) || n < 1 || n > RECORD_PROCS)
        return bad(err, "processes");
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(all, i);
        struct record_proc *p = &r->procs[i];
        uint64_t pid, tid;

        if (!get_number(o, "pid", 1, INT_MAX, &pid) ||
            !get_number(o, "tid", 1, INT_MAX, &tid) ||
            !get_number(o, "start", 1, INT64_MAX, &p->start) ||
            !get_number(o, "bytes", 0, INT64_MAX, &p->bytes) ||
            !read_on(o, r, (unsigned) i))
            return bad(err, "processes");
        p->pid = (pid_t) pid;
        p->tid = (pid_t) tid;
    }
    r->nprocs = (unsigned) n;
    return 0;
}

static int read_devices(const json_t *j, struct record *r, struct err *err)
{
    const json_t *all = json_object_get(j, "devices");
    size_t n = json_array_size(all);

    if (!json_is_array(all) || n > RECORD_DEVICES)
        return bad(err, "devices");
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(all, i);
        struct record_device *d = &r->devices[i];

        if (!get_text(o, "uuid", d->uuid, sizeof d->uuid) || !d->uuid[0] ||
            !get_text(o, "to", d->to, sizeof d->to))
            return bad(err, "devices");
    }
    r->ndevices = (unsigned) n;
    return 0;
}

static int read_phase(const json_t *j, enum record_phase *ret, struct err *err)
{
    const char *s = json_get_str(j, "phase", "");

    for (unsigned i = 0; i < RECORD_PHASE_COUNT; i++)
        if (!strcmp(s, phases[i])) {
            *ret = (enum record_phase) i;
            return 0;
        }
    return bad(err, "phase");
}

int record_read(const char *text, size_t len, struct record *ret,
                struct err *err)
{
    autofree struct record *r = mem_new(sizeof *r);
    autojson json_t *j = NULL;
    uint64_t v = 0, uid = 0;
    int rc = json_read(text, len, RECORD_MAX, &j, err);

    if (rc < 0)
        return rc;
    if (!get_number(j, "v", 1, 1, &v))
        return bad(err, "v");
    if (!get_text(j, "task", r->task, sizeof r->task) ||
        !record_task_ok(r->task))
        return bad(err, "task");
    if (!get_text(j, "boot", r->boot, sizeof r->boot))
        return bad(err, "boot");
    if (!get_number(j, "uid", 0, UINT32_MAX, &uid))
        return bad(err, "uid");
    r->uid = (uid_t) uid;
    if (!json_is_boolean(json_object_get(j, "hold")))
        return bad(err, "hold");
    r->hold = json_get_bool(j, "hold", true);
    r->locks_end_ms = json_get_u64(j, "locks_end_ms", 0);
    rc = read_phase(j, &r->phase, err);
    if (!rc)
        rc = read_devices(j, r, err);
    if (!rc)
        rc = read_procs(j, r, err);
    if (!rc)
        *ret = *r;
    return rc;
}

static json_t *on_json(const struct record *r, unsigned p)
{
    json_t *all = json_array();

    for (unsigned i = 0; i < r->ndevices; i++) {
        json_t *o;

        if (!r->procs[p].on[i] && !r->procs[p].at[i])
            continue;
        o = json_object();
        json_put_u64(o, "device", i);
        json_put_u64(o, "bytes", r->procs[p].on[i]);
        json_put_str(o, "at", r->procs[p].at[i] ? record_place(r, p, i) : "");
        (void) json_array_append_new(all, o);
    }
    return all;
}

char *record_text(const struct record *r)
{
    autojson json_t *j = json_object();
    json_t *procs = json_array(), *devices = json_array();

    json_put_u64(j, "v", 1);
    json_put_str(j, "task", r->task);
    json_put_str(j, "phase", record_phase_name(r->phase));
    json_put_str(j, "boot", r->boot);
    json_put_u64(j, "uid", r->uid);
    json_put_bool(j, "hold", r->hold);
    json_put_u64(j, "locks_end_ms", r->locks_end_ms);
    for (unsigned i = 0; i < r->nprocs; i++) {
        json_t *o = json_object();

        json_put_u64(o, "pid", (uint64_t) r->procs[i].pid);
        json_put_u64(o, "tid", (uint64_t) r->procs[i].tid);
        json_put_u64(o, "start", r->procs[i].start);
        json_put_u64(o, "bytes", r->procs[i].bytes);
        json_put(o, "on", on_json(r, i));
        (void) json_array_append_new(procs, o);
    }
    for (unsigned i = 0; i < r->ndevices; i++) {
        json_t *o = json_object();

        json_put_str(o, "uuid", r->devices[i].uuid);
        json_put_str(o, "to", r->devices[i].to);
        (void) json_array_append_new(devices, o);
    }
    json_put(j, "processes", procs);
    json_put(j, "devices", devices);
    return json_text(j);
}

static char *path_of(const char *dir, const char *task)
{
    assert(record_task_ok(task));
    return mem_printf("%s/%s.json", dir, task);
}

int record_save(const char *dir, const struct record *r, struct err *err)
{
    autofree char *path = path_of(dir, r->task);
    autofree char *text = record_text(r);

    return fs_write(path, text, strlen(text), 0600, true, err);
}

int record_load(const char *dir, const char *task, struct record *ret,
                struct err *err)
{
    autofree char *path = path_of(dir, task);
    autofree char *text = NULL;
    size_t len = 0;
    int rc = fs_read(path, RECORD_MAX, &text, &len, err);

    if (rc < 0)
        return rc;
    rc = record_read(text, len, ret, err);
    if (!rc && strcmp(ret->task, task) != 0)
        rc = bad(err, "task");
    return rc < 0 ? err_prefix(err, rc, "'%s'", path) : 0;
}

int record_remove(const char *dir, const char *task, struct err *err)
{
    autofree char *path = path_of(dir, task);
    autoclose int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || (unlink(path) < 0 && errno != ENOENT) || fsync(fd) < 0)
        return err_set(err, errno, "remove '%s': %s", path, strerror(errno));
    return 0;
}
