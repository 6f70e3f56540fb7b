#include "kube/split.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "kube/object.h"

#include <errno.h>
#include <string.h>

static int kind_of(const char *type, enum split_kind *ret, struct err *err)
{
    static const struct {
        const char *type;
        enum split_kind kind;
    } known[] = {
        { "ADDED", SPLIT_PUT }, { "MODIFIED", SPLIT_PUT },
        { "DELETED", SPLIT_GONE }, { "BOOKMARK", SPLIT_MARK },
        { "ERROR", SPLIT_ERROR },
    };
    char line[64];

    for (size_t i = 0; i < array_size(known); i++) {
        if (strcmp(type, known[i].type) == 0) {
            *ret = known[i].kind;
            return 0;
        }
    }
    object_line(type, strlen(type), line, sizeof line);
    return err_set(err, EPROTO, "an event of a watch with the type '%s'", line);
}

static int on_line(const char *text, size_t len, split_f each, void *arg,
                   struct err *err)
{
    autojson json_t *o = NULL;
    enum split_kind kind = SPLIT_ERROR;
    int rc;

    if (len == 0 || (len == 1 && text[0] == '\r'))
        return 0;
    rc = object_read(text, len, SPLIT_MAX, &o, err);
    if (rc < 0)
        return err_prefix(err, rc, "an event of a watch");
    rc = kind_of(json_get_str(o, "type", ""), &kind, err);
    if (rc < 0)
        return rc;
    if (!json_is_object(json_object_get(o, "object")))
        return err_set(err, EPROTO, "an event of a watch without an object");
    return each(kind, json_object_get(o, "object"), arg, err);
}

/* A line that is whole in the piece is read where it stands; only the end of
 * one that is not is copied, and each byte is looked at once.
 */
int split_feed(struct split *s, const char *p, size_t n, split_f each,
               void *arg, struct err *err)
{
    while (n > 0) {
        const char *end = memchr(p, '\n', n);
        size_t len = end ? (size_t) (end - p) : n;
        int rc;

        if (!end || s->rest.len > 0) {
            if (!buf_add(&s->rest, p, len))
                return err_set(err, EPROTO, "an event of a watch is longer "
                               "than %d MiB", SPLIT_MAX >> 20);
        }
        if (!end)
            return 0;
        rc = s->rest.len > 0 ? on_line(s->rest.data, s->rest.len, each, arg,
                                       err)
                             : on_line(p, len, each, arg, err);
        buf_clear(&s->rest);
        if (rc < 0)
            return rc;
        p += len + 1;
        n -= len + 1;
    }
    return 0;
}

void split_clear(struct split *s)
{
    buf_free(&s->rest);
}
