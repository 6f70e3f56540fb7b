#include "engine/kubernetes/pods_int.h"

#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "engine/kubernetes/podspec.h"
#include "kube/kube.h"
#include "kube/object.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Requests for a pod, one at a time.  What the server does not answer, or asks
 * us to say later, is said again; what it will not have is the lease's end.
 */
static void again(struct pod *p, const struct kube_answer *a)
{
    pod_later(p, backoff_next(&p->backoff, a->wait_ms, fs_random()));
}

/* Does the server say no, and will it the next time?  Credentials are another
 * matter: who has the kubeconfig mends them.
 */
static bool is_final(const struct kube_answer *a)
{
    return a->http >= 400 && a->http < 500 &&
           (a->rc == -EACCES || a->rc == -EINVAL || a->rc == -ENOENT ||
            a->rc == -EPROTO);
}

/* A server that comes up knows no roles for a moment, and its admission is not
 * ready: it says no to everybody, which is no word on the pod.
 */
static bool is_early(const struct kube_answer *a)
{
    return a->http == 403 &&
           (strstr(a->text, " cannot create resource ") ||
            strstr(a->text, "not yet ready to handle request"));
}

/* Is it no for good?  What may be early is asked again for a while. */
static bool is_no(struct pod *p, const struct kube_answer *a)
{
    uint64_t now = loop_now(p->of->loop);

    if (!is_final(a) || !is_early(a))
        return is_final(a);
    if (!p->denied)
        p->denied_ms = now;
    p->denied = true;
    return now - p->denied_ms >= PODS_HELD_MS;
}

static bool is_absent(const struct kube_answer *a)
{
    return a->http == 404;
}

static bool is_there(const struct kube_answer *a)
{
    return a->http == 409;
}

/* Who does not want it any more does not care. */
static void refused(struct pod *p, const char *what,
                    const struct kube_answer *a)
{
    autofree char *why = mem_printf("%s: %s", what, a->text);

    if (p->want == POD_WANTED)
        pod_over(p, SPEC_CAUSE_REFUSED, 0, why);
    else
        pod_step(p);
}

static void ask(struct pod *p, const char *method, const char *kind,
                const char *name, const json_t *body,
                const struct kube_ops *ops)
{
    autofree char *text = body ? json_text(body) : NULL;
    autofree char *path = mem_printf("/api/v1/namespaces/%s/%s%s%s",
                                     p->of->conf.spec->space, kind,
                                     name ? "/" : "", name ? name : "");
    struct kube_request q = {
        .method = method, .path = path,
        .type = text ? "application/json" : NULL, .body = text,
        .len = text ? strlen(text) : 0,
    };
    struct kube_answer full = { .rc = -EAGAIN };

    if (kube_start(p->of->kube, &q, ops, p, &p->call, NULL) < 0)
        again(p, &full);
    if (text)
        explicit_bzero(text, strlen(text));
}

/* ---- make ---- */

static void made(struct pod *p, const struct kube_answer *a)
{
    autojson json_t *o = NULL;

    backoff_reset(&p->backoff);
    p->denied = false;
    p->fresh = true;                   /* the watch may have been faster */
    if (!p->uid && object_read(a->body, a->len, KUBE_BODY_MAX, &o,
                               NULL) == 0) {
        p->uid = mem_str(object_str(o, "metadata", "uid", NULL));
        p->seen = p->of->lists + 1;    /* a list may be older than it */
    }
    pod_step(p);
}

/* What is there already is shown by the watch, if it is the one. */
static void on_made(const struct kube_answer *a, void *arg)
{
    struct pod *p = arg;

    p->call = NULL;
    if (a->rc == 0) {
        made(p, a);
    } else if (is_there(a)) {
        pod_met(p);
    } else if (is_no(p, a)) {
        refused(p, "the pod", a);
    } else {
        p->unsure = p->unsure ||
                    (a->rc != -EBUSY && a->rc != -ECONNREFUSED);
        again(p, a);
    }
}

static const struct kube_ops make_ops = {
    .done = on_made,
};

void pod_make(struct pod *p)
{
    autojson json_t *o = podspec_pod(p->of->conf.spec, &p->lease, p->name,
                                     p->node);

    p->asked = true;
    ask(p, "POST", "pods", NULL, o, &make_ops);
}

/* ---- give it its Secret ---- */

static void on_cleared(const struct kube_answer *a, void *arg)
{
    struct pod *p = arg;

    p->call = NULL;
    if (a->rc < 0 && !is_absent(a))
        again(p, a);
    else
        pod_step(p);
}

static const struct kube_ops clear_ops = {
    .done = on_cleared,
};

/* A Secret beside a pod that was made just now is of one of that name that was
 * there before, and goes with it at any moment.
 */
static void on_given(const struct kube_answer *a, void *arg)
{
    struct pod *p = arg;

    p->call = NULL;
    if (is_there(a) && p->fresh && p->want == POD_WANTED) {
        ask(p, "DELETE", "secrets", p->name, NULL, &clear_ops);
        return;
    }
    if (a->rc == 0 || is_there(a)) {
        p->given = true;
        backoff_reset(&p->backoff);
        pod_step(p);
    } else if (is_no(p, a)) {
        refused(p, "its Secret", a);
    } else {
        again(p, a);
    }
}

static const struct kube_ops give_ops = {
    .done = on_given,
};

void pod_give(struct pod *p)
{
    autojson json_t *o = podspec_secret(p->of->conf.spec, &p->lease, p->name,
                                        p->uid);

    ask(p, "POST", "secrets", NULL, o, &give_ops);
}

/* ---- drop it ---- */

static void on_dropped(const struct kube_answer *a, void *arg)
{
    struct pod *p = arg;

    p->call = NULL;
    if (is_absent(a) || (a->rc == 0 && !p->uid)) {
        pod_absent(p);
    } else if (a->rc < 0) {
        again(p, a);
    } else {
        backoff_reset(&p->backoff);
        p->dropped = true;
        pod_later(p, PODS_DROP_GRACE_S * 1000 + PODS_SILENT_MS);
    }
}

static const struct kube_ops drop_ops = {
    .done = on_dropped,
};

void pod_drop(struct pod *p, bool at_once)
{
    autojson json_t *o = json_pack(
        "{s:s,s:s,s:i}", "apiVersion", "v1", "kind", "DeleteOptions",
        "gracePeriodSeconds", at_once ? 0 : PODS_DROP_GRACE_S);

    ask(p, "DELETE", "pods", p->name, o, &drop_ops);
}
