#include "core/event.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* The plain fields stand in one table that both directions walk; what is a
 * structure of its own has a pair of functions.  Reading tolerates keys it
 * does not know (a newer version may write them) and nothing else.
 */
enum kind { U32, U64, INT, FLAG, TEXT, TIME, ID, OUTCOME, CAUSE };

struct field {
    const char *name;
    enum kind kind;
    size_t at, size;
};

#define FIELD(key, kind, member) \
    { key, kind, offsetof(struct event, member), \
      sizeof(((struct event *) NULL)->member) }

static const struct field fields[] = {
    FIELD("seq", U64, seq),
    FIELD("time", TIME, time_ms),
    FIELD("who", TEXT, who),
    FIELD("workload", ID, workload),
    FIELD("rank", U32, rank),
    FIELD("gen", U32, gen),
    FIELD("outcome", OUTCOME, outcome),
    FIELD("cause", CAUSE, cause),
    FIELD("status", INT, status),
    FIELD("priority", INT, priority),
    FIELD("device", U32, device),
    FIELD("force", FLAG, force),
    FIELD("until", TIME, until_ms),
    FIELD("started", TIME, started_ms),
    FIELD("ended", TIME, ended_ms),
    FIELD("cpu_ms", U64, cpu_ms),
    FIELD("rss_bytes", U64, rss_bytes),
    FIELD("epoch", U64, epoch),
    FIELD("retry_of", ID, retry_of),
    FIELD("tenant", TEXT, tenant),
    FIELD("block", TEXT, block),
    FIELD("node", TEXT, node),
    FIELD("token", TEXT, token),
    FIELD("key", TEXT, key),
    FIELD("hash", TEXT, hash),
};

/* A number read as another type than it is stored in would depend on the
 * machine; everything goes through these two.
 */
static uint64_t get_number(const struct event *e, const struct field *f)
{
    const char *p = (const char *) e + f->at;
    uint64_t wide = 0;
    uint32_t narrow;

    if (f->kind == FLAG)
        return *(const bool *) p;
    if (f->size == sizeof(narrow)) {
        memcpy(&narrow, p, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, p, sizeof(wide));
    return wide;
}

static void set_number(struct event *e, const struct field *f, uint64_t value)
{
    char *p = (char *) e + f->at;
    uint32_t narrow = (uint32_t) value;

    if (f->kind == FLAG)
        *(bool *) p = value != 0;
    else if (f->size == sizeof(narrow))
        memcpy(p, &narrow, sizeof(narrow));
    else
        memcpy(p, &value, sizeof(value));
}

static void put_time(json_t *j, const char *name, uint64_t ms)
{
    char text[32];

    clock_print(ms, text, sizeof(text));
    json_put_str(j, name, text);
}

static void put_field(json_t *j, const struct event *e, const struct field *f)
{
    const char *text = (const char *) e + f->at;
    uint64_t n;
    char id[24];

    if (f->kind == TEXT) {
        if (text[0])
            json_put_str(j, f->name, text);
        return;
    }
    n = get_number(e, f);
    if (n == 0)
        return;
    switch (f->kind) {
    case U32:
    case U64:
        json_put_u64(j, f->name, n);
        break;
    case INT:
        json_put(j, f->name, json_integer((int32_t) (uint32_t) n));
        break;
    case FLAG:
        json_put_bool(j, f->name, true);
        break;
    case TIME:
        put_time(j, f->name, n);
        break;
    case ID:
        workload_id_print(n, id, sizeof(id));
        json_put_str(j, f->name, id);
        break;
    case OUTCOME:
        json_put_str(j, f->name, outcome_name((enum outcome) n));
        break;
    case CAUSE:
        json_put_str(j, f->name, spec_cause_name((enum spec_cause) n));
        break;
    case TEXT:
        break;
    }
}

/* Events of a task or lease always say which; an abort without says "all". */
static bool of_task(enum event_type t)
{
    return (t >= EVENT_PLANNED && t <= EVENT_LEASE_ENDED) || event_of_some(t);
}

static json_t *grant_json(const struct grant *g)
{
    json_t *j = json_object(), *devices = json_array();

    json_put_u64(j, "rank", g->rank);
    json_put_str(j, "block", g->block);
    for (uint32_t i = 0; i < g->ndevices; i++)
        json_array_append_new(devices, json_integer(g->device[i]));
    if (g->ndevices) {
        json_put(j, "devices", devices);
        json_put_u64(j, "milli", g->milli);
    } else {
        json_decref(devices);
    }
    return j;
}

static void put_lists(json_t *j, const struct event *e)
{
    if (e->ndone) {
        json_t *done = json_array();

        for (uint32_t i = 0; i < e->ndone; i++)
            json_array_append_new(done, json_integer(e->done[i]));
        json_put(j, "done", done);
    }
    if (e->ngrants) {
        json_t *grants = json_array();

        for (uint32_t i = 0; i < e->ngrants; i++)
            json_array_append_new(grants, grant_json(&e->grants[i]));
        json_put(j, "grants", grants);
    }
}

json_t *event_to_json(const struct event *e, bool brief)
{
    json_t *j = json_object();

    json_put_str(j, "type", event_type_name(e->type));
    for (size_t i = 0; i < array_size(fields); i++)
        put_field(j, e, &fields[i]);
    if (of_task(e->type) && e->task != EVENT_ALL)
        json_put_u64(j, "task", e->task);
    if (e->type == EVENT_SUBMITTED || e->type == EVENT_TOKEN_CREATED) {
        json_t *user = json_object();

        json_put_str(user, "name", e->user.name);
        json_put_u64(user, "uid", e->user.uid);
        json_put_u64(user, "gid", e->user.gid);
        json_put(j, "user", user);
    }
    put_lists(j, e);
    if (e->spec && !brief)
        json_put(j, "spec", spec_to_json(e->spec));
    if (e->data)
        json_put(j, "data", json_deep_copy(e->data));
    return j;
}

static int bad(const char *name, const char *expected, struct err *err)
{
    return err_set(err, EINVAL, "event: '%s' is not %s", name, expected);
}

static int read_u32(const json_t *j, const char *name, uint32_t *ret,
                    struct err *err)
{
    json_int_t n = json_integer_value(j);

    if (!json_is_integer(j) || n < 0 || n > UINT32_MAX)
        return bad(name, "a number from 0 to 4294967295", err);
    *ret = (uint32_t) n;
    return 0;
}

static int read_text(const json_t *j, const char *name, char *ret, size_t size,
                     struct err *err)
{
    const char *s = json_string_value(j);

    if (!s || strlen(s) >= size)
        return err_set(err, EINVAL, "event: '%s' is not a text of at most %zu "
                       "bytes", name, size - 1);
    memcpy(ret, s, strlen(s) + 1);
    return 0;
}

static int read_name(const json_t *j, const struct field *f, uint64_t *ret,
                     struct err *err)
{
    const char *s = json_string_value(j);
    enum spec_cause cause;

    if (!s)
        return bad(f->name, "a word", err);
    if (f->kind == ID)
        return workload_id_parse(s, ret, err);
    if (f->kind == TIME)
        return clock_parse(s, ret, err);
    if (f->kind == CAUSE) {
        if (spec_cause_parse(s, &cause) < 0)
            return bad(f->name, "a cause", err);
        *ret = cause;
        return 0;
    }
    for (unsigned o = 0; o < OUTCOME_COUNT; o++) {
        if (strcmp(s, outcome_name((enum outcome) o)) == 0) {
            *ret = o;
            return 0;
        }
    }
    return bad(f->name, "an outcome", err);
}

static int read_field(const json_t *j, const struct field *f,
                      struct event *e, struct err *err)
{
    json_int_t n = json_integer_value(j);
    uint32_t narrow = 0;
    uint64_t value = 0;
    int rc = 0;

    switch (f->kind) {
    case TEXT:
        return read_text(j, f->name, (char *) e + f->at, f->size, err);
    case FLAG:
        if (!json_is_boolean(j))
            return bad(f->name, "true or false", err);
        value = json_is_true(j);
        break;
    case U32:
        rc = read_u32(j, f->name, &narrow, err);
        value = narrow;
        break;
    case U64:
        if (!json_is_integer(j) || n < 0)
            return bad(f->name, "a whole number", err);
        value = (uint64_t) n;
        break;
    case INT:
        if (!json_is_integer(j) || n < -4096 || n > INT32_MAX)
            return bad(f->name, "an exit status or a negative signal", err);
        value = (uint32_t) (int32_t) n;
        break;
    case TIME:
    case ID:
    case OUTCOME:
    case CAUSE:
        rc = read_name(j, f, &value, err);
        break;
    }
    if (rc == 0)
        set_number(e, f, value);
    return rc;
}

static int read_grant(const json_t *j, struct grant *g, struct err *err)
{
    const json_t *devices = json_object_get(j, "devices");
    const json_t *milli = json_object_get(j, "milli");
    uint32_t n = 0;

    if (!json_is_object(j))
        return bad("grants", "a list of objects", err);
    if (read_u32(json_object_get(j, "rank"), "rank", &g->rank, err) < 0 ||
        read_text(json_object_get(j, "block"), "block", g->block,
                  sizeof(g->block), err) < 0 ||
        (milli && read_u32(milli, "milli", &g->milli, err) < 0))
        return -EINVAL;
    if (devices && (!json_is_array(devices) ||
                    json_array_size(devices) > array_size(g->device)))
        return bad("devices", "a list of at most 16", err);
    for (size_t i = 0; i < json_array_size(devices); i++) {
        if (read_u32(json_array_get(devices, i), "devices", &n, err) < 0)
            return -EINVAL;
        if (n > UINT16_MAX)
            return bad("devices", "a list of small numbers", err);
        g->device[g->ndevices++] = (uint16_t) n;
    }
    return 0;
}

static int read_grants(const json_t *j, struct event *e, struct err *err)
{
    size_t n = json_array_size(j);

    if (!j)
        return 0;
    if (!json_is_array(j) || n > SPEC_MAX_RANKS)
        return bad("grants", "a list, one for each rank", err);
    e->grants = mem_array(n, sizeof(*e->grants));
    for (e->ngrants = 0; e->ngrants < n; e->ngrants++)
        if (read_grant(json_array_get(j, e->ngrants), &e->grants[e->ngrants],
                       err) < 0)
            return -EINVAL;
    return 0;
}

static int read_done(const json_t *j, struct event *e, struct err *err)
{
    size_t n = json_array_size(j);

    if (!j)
        return 0;
    if (!json_is_array(j) || n > SPEC_MAX_TASKS)
        return bad("done", "a list of tasks", err);
    e->done = mem_array(n, sizeof(*e->done));
    for (e->ndone = 0; e->ndone < n; e->ndone++)
        if (read_u32(json_array_get(j, e->ndone), "done", &e->done[e->ndone],
                     err) < 0)
            return -EINVAL;
    return 0;
}

static int read_user(const json_t *j, struct event_user *u, struct err *err)
{
    if (!j)
        return 0;
    if (read_text(json_object_get(j, "name"), "user.name", u->name,
                  sizeof(u->name), err) < 0 ||
        read_u32(json_object_get(j, "uid"), "user.uid", &u->uid, err) < 0)
        return -EINVAL;
    return read_u32(json_object_get(j, "gid"), "user.gid", &u->gid, err);
}

static int read_parts(const json_t *j, struct event *e, struct err *err)
{
    const json_t *task = json_object_get(j, "task");
    const json_t *spec = json_object_get(j, "spec");
    json_t *data = json_object_get(j, "data");
    int rc;

    if (task && (rc = read_u32(task, "task", &e->task, err)) < 0)
        return rc;
    if ((rc = read_user(json_object_get(j, "user"), &e->user, err)) < 0 ||
        (rc = read_done(json_object_get(j, "done"), e, err)) < 0 ||
        (rc = read_grants(json_object_get(j, "grants"), e, err)) < 0)
        return rc;
    if (spec && (rc = spec_from_json(spec, &e->spec, err)) < 0)
        return rc;
    if (data && !json_is_object(data))
        return bad("data", "an object", err);
    e->data = json_deep_copy(data);
    return 0;
}

int event_from_json(const json_t *j, struct event *ret, struct err *err)
{
    const char *type = json_get_str(j, "type", "");
    unsigned t = 0;
    struct event e;
    int rc = 0;

    while (t < EVENT_TYPE_COUNT &&
           strcmp(type, event_type_name((enum event_type) t)) != 0)
        t++;
    if (t == EVENT_TYPE_COUNT)
        return err_set(err, EINVAL, "event: there is no type '%.60s'", type);
    event_init(&e, (enum event_type) t);
    for (size_t i = 0; i < array_size(fields) && rc == 0; i++) {
        const json_t *value = json_object_get(j, fields[i].name);

        if (value)
            rc = read_field(value, &fields[i], &e, err);
    }
    if (rc == 0)
        rc = read_parts(j, &e, err);
    if (rc < 0) {
        event_clear(&e);
        return rc;
    }
    *ret = e;
    return 0;
}
