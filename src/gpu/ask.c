#include "gpu/ask.h"

#include "base/err.h"
#include "base/frame.h"
#include "base/json.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const kinds[ASK_KIND_COUNT] = {
#define X(name, text) [ASK_##name] = text,
    ASK_KINDS(X)
#undef X
};

const char *ask_kind_name(enum ask_kind kind)
{
    assert(kind < ASK_KIND_COUNT);
    return kinds[kind];
}

static int read_kind(const json_t *j, enum ask_kind *ret, struct err *err)
{
    const char *t = json_get_str(j, "t", NULL);

    if (!t)
        return err_set(err, EBADMSG, "a request is an object with \"t\"");
    for (unsigned i = 0; i < ASK_KIND_COUNT; i++)
        if (!strcmp(kinds[i], t)) {
            *ret = (enum ask_kind) i;
            return 0;
        }
    return err_set(err, EBADMSG, "no request '%.40s'", t);
}

static int read_number(const json_t *j, const char *key, uint64_t min,
                       uint64_t max, uint64_t *ret, struct err *err)
{
    const json_t *v = json_object_get(j, key);

    if (!v)
        return 0;
    if (!json_is_integer(v) || json_integer_value(v) < (json_int_t) min ||
        json_integer_value(v) > (json_int_t) max)
        return err_set(err, EBADMSG, "%s is a number from %llu to %llu", key,
                       (unsigned long long) min, (unsigned long long) max);
    *ret = (uint64_t) json_integer_value(v);
    return 0;
}

static int read_task(const json_t *j, struct suspend_ask *a, struct err *err)
{
    const char *task = json_get_str(j, "task", "");

    if (!record_task_ok(task))
        return err_set(err, EBADMSG, "task is 1 to %d letters, digits, '.',"
                       " '_' or '-', and no '.' first", RECORD_TASK);
    (void) snprintf(a->task, sizeof a->task, "%s", task);
    return 0;
}

static int read_suspend(const json_t *j, struct suspend_ask *a,
                        struct err *err)
{
    const char *cgroup = json_get_str(j, "cgroup", "");
    const json_t *hold = json_object_get(j, "hold");
    uint64_t pid = 0;
    int rc = read_task(j, a, err);

    if (!rc)
        rc = read_number(j, "pid", 1, INT32_MAX, &pid, err);
    if (!rc)
        rc = read_number(j, "lock_ms", 1, SUSPEND_LOCK_MAX_MS, &a->lock_ms,
                         err);
    if (rc < 0)
        return rc;
    if ((pid != 0) == (cgroup[0] != '\0'))
        return err_set(err, EBADMSG, "a task's processes are given by pid or"
                       " by cgroup");
    if (cgroup[0] && (cgroup[0] != '/' || strlen(cgroup) >= sizeof a->cgroup))
        return err_set(err, EBADMSG, "cgroup is a path from '/', of less than"
                       " %zu bytes", sizeof a->cgroup);
    if (hold && !json_is_boolean(hold))
        return err_set(err, EBADMSG, "hold is true or false");
    a->pid = (pid_t) pid;
    a->hold = json_get_bool(j, "hold", true);
    (void) snprintf(a->cgroup, sizeof a->cgroup, "%s", cgroup);
    return 0;
}

static int read_resume(const json_t *j, struct suspend_ask *a, struct err *err)
{
    json_t *pairs = json_object_get(j, "devices");
    const char *from;
    json_t *to;

    a->resume = true;
    if (pairs && (!json_is_object(pairs) ||
                  json_object_size(pairs) > RECORD_DEVICES))
        return err_set(err, EBADMSG, "devices is an object of at most %d"
                       " devices", RECORD_DEVICES);
    json_object_foreach(pairs, from, to) {
        struct record_device *d = &a->devices[a->ndevices++];
        const char *text = json_string_value(to);

        if (!text || !text[0] || !from[0] || strlen(text) >= sizeof d->to ||
            strlen(from) >= sizeof d->uuid)
            return err_set(err, EBADMSG, "devices is an object of UUID: UUID");
        (void) snprintf(d->uuid, sizeof d->uuid, "%s", from);
        (void) snprintf(d->to, sizeof d->to, "%s", text);
    }
    return read_task(j, a, err);
}

static int read_uuid(const json_t *j, struct ask *a, struct err *err)
{
    const char *uuid = json_get_str(j, "uuid", "");

    if (!uuid[0] || strlen(uuid) >= sizeof a->uuid)
        return err_set(err, EBADMSG, "uuid is that of a device");
    (void) snprintf(a->uuid, sizeof a->uuid, "%s", uuid);
    return 0;
}

static int ask_read(const char *body, size_t len, struct ask *ret,
                    struct err *err)
{
    struct ask a = { .v = ASK_VERSION, .every_ms = ASK_EVERY_MS,
                     .suspend = { .lock_ms = SUSPEND_LOCK_MS } };
    autojson json_t *j = NULL;
    int rc = json_read(body, len, ASK_MAX, &j, err);

    if (rc < 0)
        return -EBADMSG;
    rc = read_kind(j, &a.kind, err);
    if (!rc)
        rc = read_number(j, "v", 1, UINT32_MAX, &a.v, err);
    if (!rc)
        rc = read_number(j, "every_ms", ASK_EVERY_MIN_MS, ASK_EVERY_MAX_MS,
                         &a.every_ms, err);
    if (!rc && a.kind == ASK_WAS_RESET)
        rc = read_uuid(j, &a, err);
    if (!rc && a.kind == ASK_SUSPEND)
        rc = read_suspend(j, &a.suspend, err);
    if (!rc && a.kind == ASK_RESUME)
        rc = read_resume(j, &a.suspend, err);
    if (!rc)
        *ret = a;
    return rc;
}

int ask_next(struct buf *in, struct ask *ret, struct err *err)
{
    const char *body = NULL;
    size_t len = 0;
    int rc = frame_next(in, &body, &len, err);

    if (rc <= 0)
        return rc;
    rc = ask_read(body, len, ret, err);
    buf_drop(in, len + 4);
    return rc < 0 ? rc : 1;
}
