#include "engine/kubernetes/rights.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "kube/backoff.h"
#include "kube/kube.h"
#include "kube/object.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* One question at a time, in this order; then all over again if need be. */
static const struct right {
    const char *verb, *resource;
    bool everywhere;                   /* in all namespaces */
} rights[] = {
    { "list", "nodes", true }, { "watch", "nodes", true },
    { "list", "pods", true }, { "watch", "pods", true },
    { "create", "pods", false }, { "delete", "pods", false },
    { "create", "secrets", false }, { "delete", "secrets", false },
};

enum { SAID_MAX = 400 };

struct rights {
    struct kube *kube;
    char *space;
    const struct rights_ops *ops;
    void *arg;
    struct kube_call *call;
    struct watch *timer;
    struct backoff backoff;
    size_t next;
    bool denied[array_size(rights)];
    bool told;
    char said[SAID_MAX];
};

static void ask(struct rights *r);

static void on_timer(struct watch *w, void *arg)
{
    struct rights *r = arg;

    (void) w;
    r->timer = NULL;
    ask(r);
}

static void later(struct rights *r, uint64_t ms)
{
    r->timer = loop_timer(kube_loop(r->kube), ms, on_timer, r);
}

/* "create secrets in namespace 'x'", with commas between them. */
static void say(struct rights *r)
{
    autobuf struct buf b = BUF_INIT(SAID_MAX - 1);
    size_t missing = 0;

    for (size_t i = 0; i < array_size(rights); i++)
        if (r->denied[i])
            (void) buf_printf(&b, "%s%s %s%s%.63s%s",
                              missing++ ? ", " : "this account may not ",
                              rights[i].verb, rights[i].resource,
                              rights[i].everywhere ? " of the cluster"
                                                   : " in namespace '",
                              rights[i].everywhere ? "" : r->space,
                              rights[i].everywhere ? "" : "'");
    if (missing)
        later(r, RIGHTS_AGAIN_MS);
    if (r->told && strcmp(buf_text(&b), r->said) == 0)
        return;
    r->told = true;
    (void) snprintf(r->said, sizeof r->said, "%s", buf_text(&b));
    r->ops->told(r->said, r->arg);
}

static void on_done(const struct kube_answer *a, void *arg)
{
    struct rights *r = arg;
    autojson json_t *o = NULL;

    r->call = NULL;
    if (a->rc < 0 && a->rc != -EACCES && a->rc != -ENOENT) {
        later(r, backoff_next(&r->backoff, a->wait_ms, fs_random()));
        return;
    }
    backoff_reset(&r->backoff);
    r->denied[r->next] =
        a->rc == 0 && object_read(a->body, a->len, KUBE_BODY_MAX, &o,
                                  NULL) == 0 &&
        json_is_false(object_at(o, "status", "allowed", NULL));
    if (++r->next < array_size(rights)) {
        ask(r);
        return;
    }
    r->next = 0;
    say(r);
}

static const struct kube_ops kube_ops = { .done = on_done };

static void ask(struct rights *r)
{
    const struct right *one = &rights[r->next];
    autojson json_t *o = json_pack(
        "{s:s,s:s,s:{s:{s:s,s:s}}}",
        "apiVersion", "authorization.k8s.io/v1",
        "kind", "SelfSubjectAccessReview", "spec", "resourceAttributes",
        "verb", one->verb, "resource", one->resource);
    autofree char *body = NULL;
    struct kube_request q = {
        .method = "POST", .type = "application/json",
        .path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    };

    if (!one->everywhere)
        json_put_str(json_object_get(json_object_get(o, "spec"),
                                     "resourceAttributes"), "namespace",
                     r->space);
    body = json_text(o);
    q.body = body;
    q.len = strlen(body);
    if (kube_start(r->kube, &q, &kube_ops, r, &r->call, NULL) < 0)
        later(r, backoff_next(&r->backoff, 0, fs_random()));
}

struct rights *rights_open(struct kube *k, const char *space,
                           const struct rights_ops *ops, void *arg)
{
    struct rights *r = mem_new(sizeof *r);

    r->kube = k;
    r->space = mem_str(space);
    r->ops = ops;
    r->arg = arg;
    later(r, 0);
    return r;
}

void rights_close(struct rights *r)
{
    if (!r)
        return;
    kube_cancel(r->call);
    watch_remove(r->timer);
    free(r->space);
    free(r);
}
