#include "api/api.h"

#include "api/api_int.h"
#include "api/audit.h"
#include "api/follow.h"
#include "api/shape.h"
#include "api/watch.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "net/listen.h"
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

enum {
    JSON_BODY_MAX = 1024 * 1024,
    IDLE_BODY_MAX = 64 * 1024,         /* sent along where none is wanted */
    PEM_MAX = 1024 * 1024,
    FILES_KEPT = 256,                  /* descriptors for everything else */
    CONNECTIONS_MAX = 16384,
};

/* The way of a request: route, caller, role, arguments, body, handler.  Each
 * step may answer, and the rest is not taken then.
 */
static bool find_route(struct call *c)
{
    char allow[64];

    c->route = route_find(http_method(c->req), http_url(c->req), c->param,
                          allow, sizeof allow);
    if (c->route)
        return true;
    if (*allow) {
        http_add_header(c->req, "Allow", allow);
        reply_error(c, 405, "%s is not possible here; %s is",
                    http_method(c->req), allow);
    } else {
        reply_error(c, 404, "there is no such path; GET /v1/openapi.json "
                    "lists them");
    }
    return false;
}

static bool admit(struct call *c)
{
    struct err err = { 0 };
    int rc;

    if (c->route->role == ROLE_NONE)
        return true;
    rc = auth_identify(c->api, c->req, &c->who, &err);
    if (rc == -ENOKEY) {
        call_denied(c, 401);
        http_add_header(c->req, "WWW-Authenticate", "Bearer realm=\"weir\"");
        reply_error(c, 401, "%s", err.text);
        return false;
    }
    if (rc) {
        call_denied(c, 403);
        reply_error(c, 403, "%s", err.text);
        return false;
    }
    if (c->who.role < c->route->role) {
        call_denied(c, 403);
        reply_error(c, 403, "this needs the role %s; you have %s",
                    role_name(c->route->role), role_name(c->who.role));
        return false;
    }
    return true;
}

static size_t body_max(const struct route *r)
{
    switch (r->body) {
    case BODY_DOCUMENT:
        return SPEC_MAX_BYTES;
    case BODY_JSON:
        return JSON_BODY_MAX;
    case BODY_NONE:
        break;
    }
    return IDLE_BODY_MAX;
}

static size_t on_head(struct http_req *r, void *arg)
{
    struct call *c = mem_new(sizeof *c);
    struct err err = { 0 };

    c->api = arg;
    c->req = r;
    http_set_context(r, c);
    if (c->api->draining) {
        reply_error(c, 503, "the control plane is going down");
        return 0;
    }
    if (!find_route(c) || !admit(c))
        return 0;
    if (route_check_args(c->route, http_url(r), &err) < 0) {
        reply_error(c, 400, "%s", err.text);
        return 0;
    }
    return body_max(c->route);
}

static bool is_type(const char *type, const char *want)
{
    size_t len = strlen(want);

    return strncasecmp(type, want, len) == 0 && strchr(" ;\t", type[len]);
}

/* No type at all is taken for the right one. */
static bool check_type(struct call *c)
{
    const char *type = http_header(c->req, "Content-Type");

    if (!type || is_type(type, "application/json"))
        return true;
    if (c->route->body == BODY_DOCUMENT &&
        (is_type(type, "application/yaml") ||
         is_type(type, "application/x-yaml") || is_type(type, "text/yaml")))
        return true;
    reply_error(c, 415, "Content-Type: expected %sapplication/json, not "
                "'%.80s'", c->route->body == BODY_DOCUMENT ?
                "application/yaml or " : "", type);
    return false;
}

static bool read_body(struct call *c)
{
    struct err err = { 0 };
    const char *text;
    size_t len;

    if (c->route->body == BODY_NONE)
        return true;
    text = http_body(c->req, &len);
    if (len && !check_type(c))
        return false;
    if (c->route->body == BODY_DOCUMENT)
        return true;
    if (!len)
        c->body = json_object();
    else if (json_read(text, len, JSON_BODY_MAX, &c->body, &err) < 0) {
        reply_error(c, 400, "body: %s", err.text);
        return false;
    }
    if (shape_check(shape_get(c->route->body_schema), c->body, &err) < 0) {
        reply_error(c, 400, "body: %s", err.text);
        return false;
    }
    shape_settle(c->body);
    return true;
}

static void on_request(struct http_req *r, void *arg)
{
    struct call *c = http_context(r);

    (void) arg;
    if (read_body(c))
        c->route->handle(c);
}

static void on_done(struct http_req *r, void *arg)
{
    struct call *c = http_context(r);

    (void) arg;
    if (!c)
        return;
    json_decref(c->body);
    free(c);
}

static const struct http_events events = {
    .head = on_head, .request = on_request, .done = on_done,
};

static int open_unix(struct api *a, const struct api_conf *conf,
                     unsigned files, struct err *err)
{
    struct http_conf h = { .local = true, .max_connections = files };
    int rc = listen_unix(conf->socket, conf->socket_mode, &h.fd, err);

    if (rc)
        return rc;
    a->socket = mem_str(conf->socket);
    return http_open(a->loop, &h, &events, a, &a->http[0], err);
}

static int open_tls(struct api *a, const struct api_conf *conf,
                    unsigned files, struct err *err)
{
    autofree char *cert = NULL, *key = NULL, *ca = NULL;
    struct http_conf h = { .max_connections = files };
    size_t len;
    int rc;

    if (!conf->tls_cert || !conf->tls_key)
        return err_set(err, EINVAL, "listen '%s': TCP needs a certificate "
                       "and a key", conf->listen);
    rc = fs_read(conf->tls_cert, PEM_MAX, &cert, &len, err);
    if (!rc)
        rc = fs_read(conf->tls_key, PEM_MAX, &key, &len, err);
    if (!rc && conf->tls_client_ca)
        rc = fs_read(conf->tls_client_ca, PEM_MAX, &ca, &len, err);
    if (!rc)
        rc = listen_tcp(conf->listen, &h.fd, err);
    if (rc)
        return rc;
    h.cert = cert;
    h.key = key;
    h.client_ca = ca;
    return http_open(a->loop, &h, &events, a, &a->http[1], err);
}

int api_open(struct loop *l, const struct api_conf *conf,
             const struct service *service, struct api **ret, struct err *err)
{
    struct api *a = mem_new(sizeof *a);
    unsigned files = listen_max_files();
    int rc;

    files = files > 2 * FILES_KEPT ? files - FILES_KEPT : files / 2;
    if (files > CONNECTIONS_MAX)
        files = CONNECTIONS_MAX;
    a->loop = l;
    a->ops = service->ops;
    a->arg = service->arg;
    a->uid = geteuid();
    a->started_ms = clock_wall_ms();
    a->keys = map_new();
    a->audit = audit_new(a);
    a->held.durable = store_durable(api_store(a));
    a->watchers = watchers_new(a);
    a->followers = followers_new(a);
    rc = open_unix(a, conf, conf->listen ? files / 2 : files, err);
    if (!rc && conf->listen)
        rc = open_tls(a, conf, files / 2, err);
    if (rc) {
        api_close(a);
        return rc;
    }
    *ret = a;
    return 0;
}

void api_drain(struct api *a)
{
    a->draining = true;
    for (size_t i = 0; i < array_size(a->http); i++) {
        if (a->http[i])
            http_drain(a->http[i]);
    }
}

void api_durable(struct api *a, uint64_t seq)
{
    held_durable(&a->held, seq);
    watchers_durable(a->watchers, seq);
}

void api_failed(struct api *a)
{
    const char *why = a->ops->trouble(a->arg);

    held_fail(&a->held, trouble_status(why), why);
    a->held.durable = store_durable(api_store(a));
}

void api_close(struct api *a)
{
    if (!a)
        return;
    a->draining = true;
    api_forget_pending(a);             /* http_close answers them */
    held_clear(&a->held);
    http_close(a->http[0]);
    http_close(a->http[1]);
    watchers_free(a->watchers);
    followers_free(a->followers);
    audit_free(a->audit);
    assert(map_count(a->keys) == 0);   /* each was pending */
    map_free(a->keys);
    if (a->socket)
        (void) unlink(a->socket);
    free(a->socket);
    free(a);
}
