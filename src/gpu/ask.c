#include "gpu/ask.h"

#include "base/err.h"
#include "base/frame.h"
#include "base/json.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
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

static int ask_read(const char *body, size_t len, struct ask *ret,
                    struct err *err)
{
    struct ask a = { .v = ASK_VERSION, .every_ms = ASK_EVERY_MS };
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
