#include "api/api_int.h"
#include "api/route.h"
#include "api/shape.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "net/url.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What the API makes of a request before a handler sees it: "METHOD TARGET"
 * on the first line, the body after it.  What gets through is what the rows
 * and the schemas promise; what does not has a text that says why.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(cond) do { if (!(cond)) abort(); } while (0)

static void check_text(const char *s)
{
    must(utf8_valid(s, strlen(s)));
    for (; *s; s++)
        must((unsigned char) *s >= 0x20 && *s != 0x7f);
}

static void check_url(const struct url *u)
{
    must(u->nparts >= 1 && u->nparts <= URL_MAX_PARTS &&
         u->nargs <= URL_MAX_ARGS);
    for (size_t i = 0; i < u->nparts; i++)
        check_text(u->part[i]);
    for (size_t i = 0; i < u->nargs; i++) {
        check_text(u->args[i].name);
        check_text(u->args[i].value);
    }
}

/* Every argument that got through is in its row and of its kind. */
static void check_arg(const struct route *r, const struct url_arg *given)
{
    const struct arg *a = r->args;
    uint64_t n, m;

    while (a->kind != ARG_NONE && strcmp(a->name, given->name) != 0)
        a++;
    must(a->kind != ARG_NONE);
    if (a->kind == ARG_COUNT) {
        char *end;

        n = strtoull(given->value, &end, 10);
        must(!*end && n >= a->min && n <= a->max);
    }
    if (a->kind == ARG_CURSOR)
        must(cursor_parse(given->value, &n, &m, NULL) == 0);
    if (a->kind == ARG_WORKLOAD)
        must(workload_id_parse(given->value, &n, NULL) == 0);
    if (a->kind == ARG_TEXT)
        must(strlen(given->value) <= a->max);
}

static void check_body(const struct route *r, const char *body, size_t len)
{
    const json_t *shape = shape_get(r->body_schema), *name;
    autojson json_t *j = NULL;
    struct err err = { 0 };
    size_t i;

    if (json_read(body, len, 1 << 20, &j, &err) < 0) {
        must(!j && err.text[0]);
        return;
    }
    if (shape_check(shape, j, &err) < 0) {
        must(err.code == EINVAL && err.text[0]);
        return;
    }
    must(json_is_object(j));
    json_array_foreach(json_object_get(shape, "required"), i, name)
        must(json_object_get(j, json_string_value(name)));
}

static void request(const char *method, const char *target, const char *body,
                    size_t len)
{
    const char *param[ROUTE_MAX_PARAMS] = { NULL };
    struct url u = { 0 };
    struct err err = { 0 };
    const struct route *r;
    char allow[64];

    if (url_parse(target, &u, &err) < 0) {
        must(err.code && err.text[0] && !u.memory);
        return;
    }
    check_url(&u);
    r = route_find(method, &u, param, allow, sizeof allow);
    if (r && route_check_args(r, &u, &err) == 0) {
        for (size_t i = 0; i < u.nargs; i++)
            check_arg(r, &u.args[i]);
        if (r->body == BODY_JSON)
            check_body(r, body, len);
    } else if (r) {
        must(err.text[0]);
    }
    url_clear(&u);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    size_t line = end ? (size_t) (end - data) : size;
    autofree char *head = mem_strn((const char *) data, line);
    size_t rest = end ? size - line - 1 : 0;
    autofree char *body = mem_dup(end ? (const char *) end + 1 : "", rest);
    char *target = strchr(head, ' ');

    if (!target)
        return 0;
    *target++ = '\0';
    request(head, target, body, rest);
    return 0;
}
