#include "engine/kubernetes/guestpods_int.h"

#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "engine/kubernetes/guestspec.h"
#include "engine/kubernetes/words.h"
#include "kube/kube.h"
#include "kube/object.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Requests for a guest, one at a time.  What the server does not answer, or
 * asks us to say later, is said again.
 */
static void again(struct guest *g, const struct kube_answer *a)
{
    guest_later(g, backoff_next(&g->backoff, a->wait_ms, fs_random()));
}

/* What is bound is told when nothing else is to be bound. */
void guest_binding(struct guest *g, bool binds)
{
    struct guestpods *all = g->of;

    if (g->binds == binds)
        return;
    g->binds = binds;
    all->binding += binds ? 1 : -1;
    words_hold(all->words, all->binding > 0);
}

static void ask(struct guest *g, const char *method, const char *more,
                json_t *body, const struct kube_ops *ops)
{
    autojson json_t *owned = body;
    autofree char *text = json_text(owned);
    autofree char *path = mem_printf("/api/v1/namespaces/%s/pods/%s%s",
                                     g->space, g->name, more);
    struct kube_request q = { .method = method, .path = path,
                              .type = "application/json", .body = text,
                              .len = strlen(text), .repeats = true };
    struct kube_answer full = { .rc = -EAGAIN };

    if (kube_start(g->of->kube, &q, ops, g, &g->call, NULL) < 0)
        again(g, &full);
}

/* ---- bind ---- */

/* Whoever has the kubeconfig mends this; it is said once. */
static void forbidden(struct guest *g, const struct kube_answer *a)
{
    struct guestpods *all = g->of;
    autofree char *text = mem_printf("pods cannot be bound: %s", a->text);

    if (!all->forbidden)
        all->conf.trouble(text, all->conf.arg);
    all->forbidden = true;
    again(g, a);
}

static void bound(struct guest *g)
{
    autofree char *text = mem_printf("Weir has bound it to %s as %s", g->block,
                                     g->runner);
    const struct word w = { g->uid, g->space, g->name, text, true };

    backoff_reset(&g->backoff);
    g->of->forbidden = false;
    words_say(g->of->words, &w);
}

/* What is there already, or not any more, is shown by the watch.  A binding is
 * refused for good where the pod itself is at fault.
 */
static void on_bound(const struct kube_answer *a, void *arg)
{
    struct guest *g = arg;
    autofree char *why = NULL;

    g->call = NULL;
    g->unsure = true;
    if (a->rc == 0)
        bound(g);
    guest_binding(g, false);
    if (a->rc == 0 || a->http == 409 || a->http == 404) {
        if (g->node)
            g->unsure = false;
        else
            guest_later(g, GUESTPODS_UNSURE_MS);
        guest_step(g);
    } else if (a->http == 401 || a->http == 403) {
        g->unsure = false;
        forbidden(g, a);
    } else if (a->http == 400 || a->http == 422) {
        g->unsure = false;
        why = mem_printf("its binding: %s", a->text);
        guest_over(g, SPEC_CAUSE_REFUSED, 0, why);
    } else {
        again(g, a);
    }
}

static const struct kube_ops bind_ops = {
    .done = on_bound,
};

void guest_bind(struct guest *g, const char *node)
{
    ask(g, "POST", "/binding",
        guestspec_binding(g->space, g->name, g->uid, node, g->runner,
                          g->of->conf.instance), &bind_ops);
    guest_binding(g, g->call != NULL);
}

/* ---- delete ---- */

static void on_deleted(const struct kube_answer *a, void *arg)
{
    struct guest *g = arg;

    g->call = NULL;
    if (a->http == 404 || a->http == 409) {        /* or another of that name */
        guest_absent(g);
    } else if (a->rc < 0) {
        again(g, a);
    } else {
        backoff_reset(&g->backoff);
        g->dropped = true;
        guest_later(g, GUESTPODS_DROP_MS);
    }
}

static const struct kube_ops delete_ops = {
    .done = on_deleted,
};

/* It has as long as it says itself. */
void guest_delete(struct guest *g)
{
    ask(g, "DELETE", "",
        json_pack("{s:s,s:s,s:{s:s}}", "apiVersion", "v1", "kind",
                  "DeleteOptions", "preconditions", "uid", g->uid),
        &delete_ops);
}

/* ---- the right to do so ---- */

static void on_ask(struct watch *w, void *arg)
{
    struct guestpods *all = arg;

    (void) w;
    all->ask = NULL;
    all->asking = false;
    guestpods_ask(all);
}

static void ask_later(struct guestpods *all, uint64_t ms)
{
    all->ask = loop_timer(all->loop, ms, on_ask, all);
}

/* A server that cannot say lets us try. */
static void on_asked(const struct kube_answer *a, void *arg)
{
    struct guestpods *all = arg;
    autojson json_t *o = NULL;

    all->asked = NULL;
    if (a->rc < 0 && a->http != 403 && a->http != 404) {
        ask_later(all, backoff_next(&all->asks, a->wait_ms, fs_random()));
        return;
    }
    if (a->rc == 0 && object_read(a->body, a->len, KUBE_BODY_MAX, &o,
                                  NULL) == 0 &&
        json_is_false(object_at(o, "status", "allowed", NULL))) {
        if (!all->forbidden)
            all->conf.trouble("this account may not create pods/binding: pods "
                              "of others that want to be placed are left "
                              "alone", all->conf.arg);
        all->forbidden = true;
        ask_later(all, GUESTPODS_ASK_MS);
        return;
    }
    guestpods_allowed(all);
}

static const struct kube_ops asked_ops = {
    .done = on_asked,
};

void guestpods_ask(struct guestpods *all)
{
    autojson json_t *o = json_pack(
        "{s:s,s:s,s:{s:{s:s,s:s,s:s}}}",
        "apiVersion", "authorization.k8s.io/v1",
        "kind", "SelfSubjectAccessReview", "spec", "resourceAttributes",
        "verb", "create", "resource", "pods", "subresource", "binding");
    autofree char *body = json_text(o);
    struct kube_request q = {
        .method = "POST", .type = "application/json", .body = body,
        .path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        .len = strlen(body), .repeats = true,
    };

    if (all->may || all->asking)
        return;
    all->asking = true;
    if (kube_start(all->kube, &q, &asked_ops, all, &all->asked, NULL) < 0)
        ask_later(all, backoff_next(&all->asks, 0, fs_random()));
}
