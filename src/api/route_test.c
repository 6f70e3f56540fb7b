#include "api/route.h"

#include "api/api.h"
#include "api/shape.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"
#include "net/url.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The table against itself, against the OpenAPI document, and against
 * requests.
 */
static const struct route *find(const char *method, const char *path,
                                const char *param[ROUTE_MAX_PARAMS],
                                char *allow)
{
    const struct route *r;
    struct url u = { 0 };
    static char memory[256];           /* what param points to */

    if (url_parse(path, &u, NULL) < 0)
        return NULL;
    r = route_find(method, &u, param, allow, 64);
    for (size_t i = 0, at = 0; r && i < ROUTE_MAX_PARAMS && param[i]; i++) {
        size_t len = strlen(param[i]) + 1;

        memcpy(memory + at, param[i], len);
        param[i] = memory + at;
        at += len;
    }
    url_clear(&u);
    return r;
}

static void finds(const char *method, const char *path, const char *id,
                  const char *first, const char *second)
{
    const char *param[ROUTE_MAX_PARAMS] = { NULL };
    char allow[64];
    const struct route *r = find(method, path, param, allow);

    ok(r && strcmp(r->id, id) == 0, "%s %s is %s", method, path, id);
    ok((!first || (param[0] && strcmp(param[0], first) == 0)) &&
       (!second || (param[1] && strcmp(param[1], second) == 0)),
       "%s %s: its parameters", method, path);
}

static void finds_not(const char *method, const char *path,
                      const char *want_allow)
{
    const char *param[ROUTE_MAX_PARAMS] = { NULL };
    char allow[64] = "x";

    ok(!find(method, path, param, allow) && strcmp(allow, want_allow) == 0,
       "%s %s is not there; allowed: '%s'", method, path, allow);
}

static int check(const char *id, const char *query, struct err *err)
{
    autofree char *target = mem_printf("/x?%s", query);
    struct url u = { 0 };
    int rc = url_parse(target, &u, err);

    for (size_t i = 0; i < routes_count && !rc; i++) {
        if (strcmp(routes[i].id, id) == 0)
            rc = route_check_args(&routes[i], &u, err);
    }
    url_clear(&u);
    return rc;
}

static void takes(const char *id, const char *query)
{
    struct err err = { 0 };

    ok(check(id, query, &err) == 0, "%s takes %s %s", id, query, err.text);
}

static void refuses(const char *id, const char *query, const char *words)
{
    struct err err = { 0 };

    ok(check(id, query, &err) == -EINVAL && strstr(err.text, words),
       "%s refuses %s: %s", id, query, err.text);
}

static void arguments(void)
{
    takes("listWorkloads", "limit=1");
    takes("listWorkloads", "limit=1000&state=live&before=w12");
    takes("listWorkloads", "fields=id,state");
    takes("submit", "param=a=1&param=b=2&priority=-1000");
    takes("submit", "param=a=");
    takes("getLog", "follow=1&rank=0&offset=0");
    takes("watch", "since=1:0");
    refuses("listWorkloads", "limit=0", "from 1 to 1000");
    refuses("listWorkloads", "limit=1001", "from 1 to 1000");
    refuses("listWorkloads", "limit=", "from 1 to 1000");
    refuses("listWorkloads", "limit=-1", "from 1 to 1000");
    refuses("listWorkloads", "limit=99999999999999999999", "from 1 to 1000");
    refuses("listWorkloads", "limt=1", "did you mean 'limit'?");
    refuses("listWorkloads", "limit=1&limit=2", "given twice");
    refuses("listWorkloads", "state=liv", "did you mean 'live'?");
    refuses("listWorkloads", "state=zzzzz", "none of: live ended");
    takes("listEvents", "type=control.started");
    refuses("listEvents", "type=workload.submited",
            "did you mean 'workload.submitted'?");
    refuses("listEvents", "type=", "none of");
    refuses("listWorkloads", "state=", "none of: live ended");
    refuses("listWorkloads", "before=12", "like w12");
    refuses("listWorkloads", "fields=id,stat", "did you mean 'state'?");
    refuses("listWorkloads", "fields=", "unknown member");
    refuses("submit", "param=a", "NAME=VALUE");
    refuses("submit", "param==1", "NAME=VALUE");
    refuses("submit", "priority=1001", "from -1000 to 1000");
    refuses("submit", "priority=--1", "from -1000 to 1000");
    refuses("getLog", "follow=yes", "expected 1 or 0");
    refuses("watch", "since=1", "EPOCH:N");
    refuses("watch", "since=1:2:3", "EPOCH:N");
    refuses("watch", "since=:1", "EPOCH:N");
    refuses("healthz", "x=1", "unknown argument 'x'");
}

/* Each row by itself. */
static void rows(void)
{
    for (size_t i = 0; i < routes_count; i++) {
        const struct route *r = &routes[i];
        bool writes = strcmp(r->method, "GET") != 0;

        ok(r->handle && r->id && r->summary && r->status &&
           (!r->schema || shape_get(r->schema)) &&
           (r->body != BODY_JSON || shape_get(r->body_schema)),
           "%s %s is complete", r->method, r->path);
        ok(!writes || r->role >= ROLE_USER, "%s %s: no write without a role",
           r->method, r->path);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(routes[k].id, r->id) == 0 ||
                (strcmp(routes[k].path, r->path) == 0 &&
                 strcmp(routes[k].method, r->method) == 0))
                ok(false, "%s is there twice", r->id);
        }
    }
}

static void count_parameters(const struct route *r, const json_t *op)
{
    const json_t *list = json_object_get(op, "parameters"), *p;
    size_t i, query = 0, path = 0, args = 0, parts = 0;

    json_array_foreach(list, i, p) {
        query += strcmp(json_get_str(p, "in", ""), "query") == 0;
        path += strcmp(json_get_str(p, "in", ""), "path") == 0;
    }
    for (const struct arg *a = r->args; a->kind != ARG_NONE; a++)
        args++;
    for (const char *s = r->path; (s = strchr(s, '{')); s++)
        parts++;
    ok(query == args && path == parts, "%s: its parameters are described",
       r->id);
}

/* Every row is in the document, and the document has nothing else. */
static void document(void)
{
    autojson json_t *doc = NULL;
    const json_t *paths, *path;
    size_t n = 0;
    const char *name;

    ok(json_read(api_openapi(), strlen(api_openapi()), 1 << 20, &doc, NULL)
       == 0, "the OpenAPI document is JSON");
    ok(strcmp(json_get_str(doc, "openapi", ""), "3.1.0") == 0, "of 3.1");
    paths = json_object_get(doc, "paths");
    for (size_t i = 0; i < routes_count; i++) {
        const struct route *r = &routes[i];
        char method[8] = "", status[12];
        const json_t *op;

        for (size_t k = 0; r->method[k]; k++)
            method[k] = (char) tolower((unsigned char) r->method[k]);
        op = json_object_get(json_object_get(paths, r->path), method);
        (void) snprintf(status, sizeof status, "%u", r->status);
        ok(op && strcmp(json_get_str(op, "operationId", ""), r->id) == 0 &&
           strcmp(json_get_str(op, "x-weir-role", ""),
                  role_name(r->role)) == 0 &&
           json_object_get(json_object_get(op, "responses"), status) &&
           !json_object_get(op, "requestBody") == (r->body == BODY_NONE),
           "%s is in the document", r->id);
        count_parameters(r, op);
    }
    json_object_foreach((json_t *) (intptr_t) paths, name, path)
        n += json_object_size(path);
    ok(n == routes_count, "nothing else is (%zu)", n);
}

int main(void)
{
    finds("GET", "/v1/workloads/w12", "getWorkload", "w12", NULL);
    finds("HEAD", "/v1/workloads", "listWorkloads", NULL, NULL);
    finds("GET", "/v1/workloads/w1/tasks/a%2Fb/log", "getLog", "w1", "a/b");
    finds("POST", "/v1/nodes/box/drain", "drain", "box", NULL);
    finds_not("PATCH", "/v1/workloads", "POST, GET, HEAD");
    finds_not("GET", "/v1/backup", "POST");
    finds_not("GET", "/v1/workloads/", "");
    finds_not("GET", "/v1//workloads", "");
    finds_not("GET", "/v1/workloads/w1/tasks//log", "");
    finds_not("GET", "/v1/workload", "");
    finds_not("GET", "/v1/workloadsx", "");
    finds_not("GET", "/", "");
    arguments();
    rows();
    document();
    return tap_done();
}
