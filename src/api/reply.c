#include "api/api_int.h"

#include "base/json.h"
#include "base/mem.h"
#include "spec/doc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void reply_json(struct call *c, unsigned status, json_t *body)
{
    char *text = json_text(body);

    json_decref(body);
    held_reply(c, status, text);
}

void reply_items(struct call *c, json_t *items, json_t *next)
{
    json_t *o = json_object();

    json_put(o, "items", items);
    if (next)
        json_put(o, "next", next);
    reply_json(c, 200, o);
}

void reply_text(struct call *c, unsigned status, const char *type,
                const char *text)
{
    http_reply(c->req, status, type, mem_str(text), strlen(text));
}

void reply_none(struct call *c)
{
    http_reply(c->req, 204, NULL, NULL, 0);
}

void reply_none_then(struct call *c, uint64_t seq, uint64_t workload,
                     void *arg)
{
    (void) seq;
    (void) workload;
    (void) arg;
    reply_none(c);
}

void reply_error(struct call *c, unsigned status, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    (void) vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    http_problem(c->req, status, text);
}

/* With further members of the problem object (taken). */
static void reply_problem(struct call *c, unsigned status, const char *detail,
                          json_t *more)
{
    json_t *o = http_problem_json(status, detail);
    char *text;

    (void) json_object_update(o, more);
    json_decref(more);
    text = json_text(o);
    json_decref(o);
    http_reply(c->req, status, "application/problem+json", text,
               strlen(text));
}

void reply_problems(struct call *c, const struct doc_problems *p, int rc)
{
    const char *file = call_arg(c, "file");
    autobuf struct buf text = BUF_INIT(65536);
    json_t *more = json_object();

    file = file ? file : "document";
    doc_problems_print(p, file, &text);
    json_put(more, "problems", doc_problems_json(p, file));
    if (p->more)
        json_put_u64(more, "more", p->more);
    reply_problem(c, rc == -E2BIG ? 413 : 422, buf_text(&text), more);
}

static unsigned status_of(int rc)
{
    switch (-rc) {
    case ENOENT:
        return 404;
    case EEXIST:
    case EBUSY:
    case ESTALE:
        return 409;
    case EINVAL:
        return 400;
    case EPERM:
    case EACCES:
    case EDQUOT:
        return 403;
    case E2BIG:
        return 413;
    case ENOSPC:
        return 507;
    case EIO:
    case EROFS:
    case ESHUTDOWN:
    case EAGAIN:
        return 503;
    default:
        return 500;
    }
}

void reply_rc(struct call *c, int rc, const struct err *err)
{
    http_problem(c->req, status_of(rc),
                 err && err->text[0] ? err->text : strerror(-rc));
}

void reply_absent(struct call *c, const char *what, const char *name)
{
    reply_error(c, 404, "%s '%.200s': not found", what, name);
}

json_t *show(struct call *c, json_t *o)
{
    const char *fields = call_arg(c, "fields");
    autofree char *copy = NULL;
    char *rest, *field;
    json_t *kept;

    (void) json_object_del(o, "_");
    if (!fields)
        return o;
    kept = json_object();
    copy = mem_str(fields);
    rest = copy;
    while ((field = strsep(&rest, ","))) {
        json_t *value = json_object_get(o, field);

        if (value)
            (void) json_object_set(kept, field, value);
    }
    json_decref(o);
    return kept;
}
