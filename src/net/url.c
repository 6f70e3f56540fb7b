#include "net/url.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Decode in place; the result is never longer. */
static int decode(char *s, bool query, struct err *err)
{
    char *out = s;

    for (const char *in = s; *in; in++) {
        int c = (unsigned char) *in;

        if (c == '%') {
            int high = hex(in[1]);
            int low = high < 0 ? -1 : hex(in[2]);

            if (low < 0)
                return err_set(err, EINVAL,
                               "URL: '%%' without two hex digits");
            c = high * 16 + low;
            in += 2;
        } else if (c == '+' && query) {
            c = ' ';
        }
        if (c < 0x20 || c == 0x7f)
            return err_set(err, EINVAL, "URL: control character %d", c);
        *out++ = (char) c;
    }
    *out = '\0';
    if (!utf8_valid(s, (size_t) (out - s)))
        return err_set(err, EINVAL, "URL: not valid UTF-8");
    return 0;
}

static int parse_path(char *path, struct url *u, struct err *err)
{
    if (*path != '/')
        return err_set(err, EINVAL, "URL: the path must start with '/'");
    while (path) {
        char *part = path + 1;
        int rc;

        path = strchr(part, '/');
        if (path)
            *path = '\0';
        if (u->nparts == URL_MAX_PARTS)
            return err_set(err, E2BIG, "URL: more than %d parts",
                           URL_MAX_PARTS);
        rc = decode(part, false, err);
        if (rc)
            return rc;
        u->part[u->nparts++] = part;
    }
    return 0;
}

static int parse_query(char *query, struct url *u, struct err *err)
{
    char *rest = query, *arg;

    while ((arg = strsep(&rest, "&"))) {
        char *name = strsep(&arg, "=");
        int rc;

        if (!*name && !arg)
            continue;                  /* "a=1&&b=2" */
        if (u->nargs == URL_MAX_ARGS)
            return err_set(err, E2BIG, "URL: more than %d arguments",
                           URL_MAX_ARGS);
        rc = decode(name, true, err);
        if (!rc && arg)
            rc = decode(arg, true, err);
        if (rc)
            return rc;
        u->args[u->nargs++] = (struct url_arg) {
            .name = name, .value = arg ? arg : "",
        };
    }
    return 0;
}

int url_parse(const char *raw, struct url *ret, struct err *err)
{
    struct url u = { 0 };
    char *query;
    int rc;

    if (strnlen(raw, URL_MAX + 1) > URL_MAX)
        return err_set(err, ENAMETOOLONG, "URL: longer than %d bytes",
                       URL_MAX);
    u.memory = mem_str(raw);
    query = strchr(u.memory, '?');
    if (query)
        *query++ = '\0';
    rc = parse_path(u.memory, &u, err);
    if (!rc && query)
        rc = parse_query(query, &u, err);
    if (rc) {
        url_clear(&u);
        return rc;
    }
    *ret = u;
    return 0;
}

void url_clear(struct url *u)
{
    free(u->memory);
    *u = (struct url) { 0 };
}
