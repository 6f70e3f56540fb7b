#include "api/route.h"

#include "api/api_int.h"
#include "api/shape.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/near.h"
#include "base/quantity.h"
#include "net/url.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Does the path fit the pattern?  Both are taken part by part. */
static bool match(const char *pattern, const struct url *u,
                  const char *param[ROUTE_MAX_PARAMS])
{
    size_t params = 0, part = 0;

    while (*pattern == '/') {
        size_t len = strcspn(++pattern, "/");

        if (part == u->nparts)
            return false;
        if (*pattern == '{') {
            if (!*u->part[part])
                return false;
            param[params++] = u->part[part];
        } else if (strncmp(pattern, u->part[part], len) != 0 ||
                   u->part[part][len]) {
            return false;
        }
        part++;
        pattern += len;
    }
    return part == u->nparts;
}

const struct route *route_find(const char *method, const struct url *u,
                               const char *param[ROUTE_MAX_PARAMS],
                               char *allow, size_t size)
{
    size_t len = 0;

    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    allow[0] = '\0';
    for (size_t i = 0; i < routes_count; i++) {
        const struct route *r = &routes[i];

        if (!match(r->path, u, param))
            continue;
        if (strcmp(r->method, method) == 0)
            return r;
        len += (size_t) snprintf(allow + len, len < size ? size - len : 0,
                                 "%s%s%s", len ? ", " : "", r->method,
                                 strcmp(r->method, "GET") ? "" : ", HEAD");
    }
    return NULL;
}

/* A list of words with blanks between, and what to call a member of it. */
static int check_words(const struct arg *a, const char *value,
                       struct err *err)
{
    autofree char *copy = mem_str(a->words);
    char *rest = copy, *word;
    struct near near;

    near_init(&near, value);
    while ((word = strsep(&rest, " "))) {
        if (*word && strcmp(word, value) == 0)
            return 0;
        near_try(&near, word);
    }
    if (near.best)
        return err_set(err, EINVAL, "%s: there is no '%.40s'; did you mean "
                       "'%s'?", a->name, value, near.best);
    return err_set(err, EINVAL, "%s: '%.40s' is none of: %s", a->name, value,
                   a->words);
}

static int check_number(const struct arg *a, const char *value,
                        struct err *err)
{
    bool minus = a->kind == ARG_NUMBER && *value == '-';
    uint64_t n;

    if (quantity_count(value + minus, &n, NULL) < 0 || n > a->max ||
        (a->kind == ARG_COUNT && n < a->min))
        return err_set(err, EINVAL,
                       "%s: expected a number from %s%llu to %llu, not "
                       "'%.40s'", a->name, a->kind == ARG_NUMBER ? "-" : "",
                       (unsigned long long) (a->kind == ARG_NUMBER ? a->max :
                                             a->min),
                       (unsigned long long) a->max, value);
    return 0;
}

static int check_value(const struct arg *a, const char *value,
                       struct err *err)
{
    uint64_t n, m;

    switch (a->kind) {
    case ARG_COUNT:
    case ARG_NUMBER:
        return check_number(a, value, err);
    case ARG_FLAG:
        if (strcmp(value, "1") != 0 && strcmp(value, "0") != 0 &&
            strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
            return err_set(err, EINVAL, "%s: expected 1 or 0, not '%.40s'",
                           a->name, value);
        return 0;
    case ARG_WORD:
        return check_words(a, value, err);
    case ARG_CURSOR:
        return cursor_parse(value, &n, &m, err);
    case ARG_WORKLOAD:
        if (workload_id_parse(value, &n, NULL) < 0)
            return err_set(err, EINVAL,
                           "%s: expected a workload's id like w12, not "
                           "'%.40s'", a->name, value);
        return 0;
    case ARG_FIELDS:
        return shape_fields_check(a->words, value, err);
    case ARG_PARAM:
        if (*value == '=' || !strchr(value, '='))
            return err_set(err, EINVAL,
                           "%s: expected NAME=VALUE, not '%.40s'", a->name,
                           value);
        return 0;
    case ARG_TEXT:
    case ARG_NONE:
        break;
    }
    if (!*value || strlen(value) > a->max)
        return err_set(err, EINVAL, "%s: expected 1 to %llu bytes", a->name,
                       (unsigned long long) a->max);
    return 0;
}

static const struct arg *find_arg(const struct route *r, const char *name,
                                  struct err *err)
{
    struct near near;

    near_init(&near, name);
    for (const struct arg *a = r->args; a->kind != ARG_NONE; a++) {
        if (strcmp(a->name, name) == 0)
            return a;
        near_try(&near, a->name);
    }
    if (near.best)
        (void) err_set(err, EINVAL,
                       "unknown argument '%.60s'; did you mean '%s'?", name,
                       near.best);
    else
        (void) err_set(err, EINVAL, "unknown argument '%.60s'", name);
    return NULL;
}

int route_check_args(const struct route *r, const struct url *u,
                     struct err *err)
{
    for (size_t i = 0; i < u->nargs; i++) {
        const struct arg *a = find_arg(r, u->args[i].name, err);
        int rc;

        if (!a)
            return -EINVAL;
        rc = check_value(a, u->args[i].value, err);
        if (rc)
            return rc;
        for (size_t j = 0; j < i && a->kind != ARG_PARAM; j++) {
            if (strcmp(u->args[j].name, a->name) == 0)
                return err_set(err, EINVAL, "argument '%s' is given twice",
                               a->name);
        }
    }
    return 0;
}
