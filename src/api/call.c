#include "api/api_int.h"

#include "api/audit.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "core/world.h"
#include "net/url.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What was proposed and has no answer yet.  The service calls back exactly
 * once, perhaps after the API is gone: then `api` is NULL and nobody is told.
 */
struct pending {
    struct api *api;
    struct pending *next, *prev;
    struct call *call;
    call_then_f then;
    call_failed_f failed;
    void *arg;
};

const struct world *api_world(const struct api *a)
{
    return a->ops->world(a->arg);
}

void api_meter(const struct api *a, struct plan_meter *ret)
{
    world_meter(api_world(a), api_now(a), ret);
}

struct store *api_store(const struct api *a)
{
    return a->ops->store(a->arg);
}

uint64_t api_now(const struct api *a)
{
    uint64_t now = clock_wall_ms(), last = world_time_ms(api_world(a));

    return now > last ? now : last;
}

const char *call_arg(const struct call *c, const char *name)
{
    const struct url *u = http_url(c->req);

    for (size_t i = 0; i < u->nargs; i++) {
        if (strcmp(u->args[i].name, name) == 0)
            return u->args[i].value;
    }
    return NULL;
}

uint64_t call_count(const struct call *c, const char *name, uint64_t fallback)
{
    const char *s = call_arg(c, name);
    uint64_t n;

    return s && quantity_count(s, &n, NULL) == 0 ? n : fallback;
}

bool call_flag(const struct call *c, const char *name)
{
    const char *s = call_arg(c, name);

    return s && (strcmp(s, "1") == 0 || strcmp(s, "true") == 0);
}

void call_event(const struct call *c, struct event *e, enum event_type type)
{
    event_init(e, type);
    (void) snprintf(e->who, sizeof e->who, "%s", c->who.id);
}

unsigned trouble_status(const char *text)
{
    return strstr(text, "full") ? 507 : 503;
}

bool call_in_trouble(struct call *c)
{
    const char *text = c->api->ops->trouble(c->api->arg);

    if (!*text)
        return false;
    reply_error(c, trouble_status(text), "%s", text);
    return true;
}

void call_denied(const struct call *c, unsigned status)
{
    autofree char *what = mem_printf("%s %.380s", http_method(c->req),
                                     http_target(c->req));

    audit_denied(c->api->audit, &c->who, what, http_peer(c->req)->from,
                 status);
}

static struct pending *pending_new(struct call *c, call_then_f then,
                                   call_failed_f failed, void *arg)
{
    struct pending *p = mem_new(sizeof *p);

    *p = (struct pending) {
        .api = c->api, .call = c, .then = then, .failed = failed, .arg = arg,
    };
    list_push(c->api->pending, p);
    return p;
}

static void pending_unlink(struct api *a, struct pending *p)
{
    list_unlink(a->pending, p);
    p->api = NULL;
}

static void on_done(int rc, uint64_t seq, uint64_t workload,
                    const struct err *err, void *arg)
{
    struct pending *p = arg;

    if (p->api) {
        pending_unlink(p->api, p);
        if (rc == 0) {
            p->then(p->call, seq, workload, p->arg);
        } else {
            reply_rc(p->call, rc, err);
            if (p->failed)
                p->failed(p->arg);
        }
    }
    free(p);
}

void api_forget_pending(struct api *a)
{
    while (a->pending) {
        struct pending *p = a->pending;

        pending_unlink(a, p);
        if (p->failed)
            p->failed(p->arg);
    }
}

void call_propose_or(struct call *c, struct event *e, call_then_f then,
                     call_failed_f failed, void *arg)
{
    if (call_in_trouble(c)) {
        event_clear(e);
        if (failed)
            failed(arg);
        return;
    }
    c->api->ops->propose(e, on_done, pending_new(c, then, failed, arg),
                         c->api->arg);
}

void call_propose(struct call *c, struct event *e, call_then_f then,
                  void *arg)
{
    call_propose_or(c, e, then, NULL, arg);
}

void call_backup(struct call *c, const char *file, call_then_f then)
{
    c->api->ops->backup(file, on_done, pending_new(c, then, NULL, NULL),
                        c->api->arg);
}

int cursor_parse(const char *s, uint64_t *ret_epoch, uint64_t *ret_seq,
                 struct err *err)
{
    const char *colon = strchr(s, ':');
    uint64_t epoch, seq;
    char head[24];

    if (colon && (size_t) (colon - s) < sizeof head) {
        memcpy(head, s, (size_t) (colon - s));
        head[colon - s] = '\0';
        if (quantity_count(head, &epoch, NULL) == 0 &&
            quantity_count(colon + 1, &seq, NULL) == 0) {
            *ret_epoch = epoch;
            *ret_seq = seq;
            return 0;
        }
    }
    return err_set(err, EINVAL,
                   "since: expected EPOCH:N like 1:42, not '%.40s'", s);
}

void cursor_print(uint64_t epoch, uint64_t seq, char *buf, size_t size)
{
    (void) snprintf(buf, size, "%llu:%llu", (unsigned long long) epoch,
                    (unsigned long long) seq);
}
