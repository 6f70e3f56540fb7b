#include "cli/call.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "net/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CALL_MS = 60 * 1000, PATH_MAX_BYTES = 64 * 1024 };

int call_exit(int status)
{
    switch (status) {
    case 400:
        return CLI_USAGE;
    case 401:
    case 403:
        return CLI_DENIED;
    case 404:
    case 410:
        return CLI_MISSING;
    case 413:
    case 422:
        return CLI_DOCUMENT;
    case 409:
    case 429:
    case 503:
    case 507:
        return CLI_REFUSED;
    default:
        return CLI_BROKEN;
    }
}

int call_lost(const struct cli *c, int rc, const struct err *err)
{
    const char *name = client_name(c->client);

    if (rc == -ENOENT || rc == -ECONNREFUSED) {
        if (c->where.server)
            return cli_fail(c, CLI_UNREACHABLE, "nobody answers at %s (%s)",
                            name, err->text);
        return cli_fail(c, CLI_UNREACHABLE, "nobody answers at %s; start one "
                        "with 'weir up'", name);
    }
    if (rc == -EACCES)
        return cli_fail(c, CLI_DENIED, "%s: the socket is there, but not for "
                        "this user", name);
    return cli_fail(c, CLI_UNREACHABLE, "%s", err->text);
}

/* A document's complaints, one a line as compilers print them. */
static void print_problems(const json_t *problems)
{
    const json_t *p;
    size_t i;

    json_array_foreach(problems, i, p) {
        const char *field = json_get_str(p, "field", "");
        uint64_t at = json_get_u64(p, "line", 0);     /* 0: nowhere in it */
        autofree char *place = at ? mem_printf(
            ":%" PRIu64 ":%" PRIu64, at, json_get_u64(p, "column", 0)) :
            mem_str("");
        autofree char *line = mem_printf(
            "%s%s: %s%s%s", json_get_str(p, "file", "document"), place, field,
            field[0] ? ": " : "", json_get_str(p, "text", "?"));

        cli_tame(line);
        fprintf(stderr, "%s\n", line);
    }
}

int call_refused(const struct cli *c, int status, const char *body, size_t len)
{
    int code = call_exit(status);
    autojson json_t *j = NULL;
    const json_t *problems;
    const char *detail;

    if (json_read(body, len, CLIENT_BODY_MAX, &j, NULL) < 0)
        return cli_fail(c, code, "the server answered %d", status);
    problems = json_object_get(j, "problems");
    if (status == 422 && !problems)    /* of arguments, not of a document */
        code = CLI_USAGE;
    if (json_array_size(problems) > 0 && !c->muted) {
        print_problems(problems);
        return cli_fail(c, code, "the document is refused: %zu problem%s",
                        json_array_size(problems),
                        json_array_size(problems) == 1 ? "" : "s");
    }
    detail = json_get_str(j, "detail", json_get_str(j, "title", "refused"));
    if (strncmp(detail, "body: ", 6) == 0)
        detail += 6;                   /* the user wrote none */
    return cli_fail(c, code, "%s", detail);
}

const char *call_type_of(const char *text, size_t len)
{
    size_t i = 0;

    while (i < len && strchr(" \t\r\n", text[i]))
        i++;
    return i < len && text[i] == '{' ? "application/json" : "application/yaml";
}

/* Ask; *ret may be NULL when the answer does not matter. */
static int ask(struct cli *c, const struct client_request *q, json_t **ret)
{
    struct client_reply r;
    struct err err;
    int rc = cli_connect(c);

    if (rc != 0)
        return rc;
    rc = client_call(c->client, q, &r, &err);
    if (rc < 0)
        return call_lost(c, rc, &err);
    if (r.status >= 400)
        rc = call_refused(c, r.status, buf_text(&r.body), r.body.len);
    else if (ret && json_read(buf_text(&r.body), r.body.len, CLIENT_BODY_MAX,
                              ret, &err) < 0)
        rc = cli_fail(c, CLI_BROKEN, "%s %s: no JSON came back: %s",
                      q->method, q->path, err.text);
    client_reply_free(&r);
    return rc;
}

int call_json(struct cli *c, const char *method, const char *path,
              const json_t *body, json_t **ret)
{
    autofree char *text = body ? json_text(body) : NULL;
    struct client_request q = {
        .method = method, .path = path, .timeout_ms = CALL_MS,
        .type = text ? "application/json" : NULL,
        .body = text, .len = text ? strlen(text) : 0,
    };

    return ask(c, &q, ret);
}

int call_document(struct cli *c, const char *method, const char *path,
                  const char *text, size_t len, json_t **ret)
{
    struct client_request q = {
        .method = method, .path = path, .timeout_ms = CALL_MS,
        .type = call_type_of(text, len), .body = text, .len = len,
    };

    return ask(c, &q, ret);
}

static char *path_vprintf(const char *fmt, va_list ap)
{
    autobuf struct buf b = BUF_INIT(PATH_MAX_BYTES);

    for (; *fmt; fmt++) {
        if (fmt[0] == '%' && fmt[1] == 's') {
            client_escape(&b, va_arg(ap, const char *));
            fmt++;
        } else {
            buf_char(&b, *fmt);
        }
    }
    return buf_take(&b);
}

char *call_path(const char *fmt, ...)
{
    va_list ap;
    char *path;

    va_start(ap, fmt);
    path = path_vprintf(fmt, ap);
    va_end(ap);
    return path;
}

int call_get(struct cli *c, json_t **ret, const char *fmt, ...)
{
    autofree char *path = NULL;
    va_list ap;

    va_start(ap, fmt);
    path = path_vprintf(fmt, ap);
    va_end(ap);
    return call_json(c, "GET", path, NULL, ret);
}

int call_try(struct cli *c, json_t **ret, const char *fmt, ...)
{
    autofree char *path = NULL;
    bool was = c->muted;
    va_list ap;
    int rc;

    va_start(ap, fmt);
    path = path_vprintf(fmt, ap);
    va_end(ap);
    c->muted = true;
    rc = call_json(c, "GET", path, NULL, ret);
    c->muted = was;
    return rc;
}

/* "next" is a number for tasks and a text elsewhere. */
static char *next_path(const char *path, const char *cursor,
                       const json_t *next)
{
    autofree char *number = NULL;

    if (json_is_string(next))
        return mem_printf("%s&%s=%s", path, cursor, json_string_value(next));
    number = json_text(next);
    return mem_printf("%s&%s=%s", path, cursor, number);
}

int call_list(struct cli *c, const char *path, const char *cursor,
              const char *from, size_t most, json_t **ret)
{
    autojson json_t *all = json_array();
    autofree char *first = from ? call_path("%s", from) : NULL;
    autofree char *at = first ? mem_printf("%s&%s=%s", path, cursor, first)
                              : mem_str(path);

    for (;;) {
        autojson json_t *page = NULL;
        const json_t *next;
        char *more;
        int rc = call_json(c, "GET", at, NULL, &page);

        if (rc != 0)
            return rc;
        (void) json_array_extend(all, json_object_get(page, "items"));
        next = json_object_get(page, "next");
        if (!next || json_is_null(next) ||
            (most && json_array_size(all) >= most))
            break;
        more = next_path(path, cursor, next);
        free(at);
        at = more;
    }
    while (most && json_array_size(all) > most)
        (void) json_array_remove(all, json_array_size(all) - 1);
    *ret = json_object();
    json_put(*ret, "items", take(all));
    return 0;
}

int call_tasks(struct cli *c, const char *id, const char *fields,
               json_t **ret)
{
    autofree char *all = call_path("/v1/workloads/%s/tasks?limit=10000", id);
    autofree char *path = fields ? mem_printf("%s&fields=%s", all, fields)
                                 : take(all);

    return call_list(c, path, "from", NULL, 0, ret);
}

int call_table(struct cli *c, const char *path,
               const struct table_column *columns, print_row_f add_row)
{
    autojson json_t *reply = NULL;
    int rc = call_json(c, "GET", path, NULL, &reply);

    return rc ? rc : print_items(c, reply, columns, add_row);
}

int call_task(struct cli *c, const char *id, const char *task, json_t **ret)
{
    return call_get(c, ret, "/v1/workloads/%s/tasks/%s", id, task);
}

int call_delete(struct cli *c, const char *noun, const char *key,
                const char *past)
{
    const char *name = c->args[0];
    autofree char *path = call_path("/v1/%ss/%s", noun, name);
    autojson json_t *j = json_object();
    int rc = call_json(c, "DELETE", path, NULL, NULL);

    json_put_str(j, key, name);
    json_put_bool(j, past, true);
    return rc ? rc : print_done(c, j, "%s %s is %s", noun, name, past);
}
