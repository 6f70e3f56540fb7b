#include "api/handlers.h"

#include "api/api_int.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "core/world.h"
#include "spec/doc.h"
#include "store/store.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Submissions, each at most once.
 *
 * A key is the caller's: the same key of another caller is another key.  It is
 * looked for in three places, in this order: among submissions under way
 * (those who repeat one wait for its answer), among live workloads, and in the
 * store.
 */
struct waiter {
    struct waiter *next;
    struct call *call;
};

struct submission {
    struct api *api;
    char *key;                         /* who and key; NULL: none was given */
    char hash[65];
    struct waiter *waiters;
};

static void reply_workload(struct call *c, unsigned status, uint64_t id)
{
    autotarget struct target t = { 0 };
    struct err err = { 0 };
    char name[24], path[64];
    int rc = target_get(c, id, false, &t, &err);

    if (rc < 0) {
        reply_rc(c, rc, &err);
        return;
    }
    workload_id_print(id, name, sizeof name);
    (void) snprintf(path, sizeof path, "/v1/workloads/%s", name);
    http_add_header(c->req, "Location", path);
    reply_json(c, status, show(c, target_view(&t)));
}

static void submission_free(struct submission *s)
{
    if (s->key)
        (void) map_del(s->api->keys, s->key);
    while (s->waiters) {
        struct waiter *w = s->waiters;

        s->waiters = w->next;
        free(w);
    }
    free(s->key);
    free(s);
}

static void submitted(struct call *c, uint64_t seq, uint64_t workload,
                      void *arg)
{
    struct submission *s = arg;

    (void) seq;
    reply_workload(c, 201, workload);
    for (struct waiter *w = s->waiters; w; w = w->next)
        reply_workload(w->call, 200, workload);
    submission_free(s);
}

/* The first one was answered with why; the others may try again.  When the API
 * is closing http_close answers all of them.
 */
static void not_submitted(void *arg)
{
    struct submission *s = arg;

    for (struct waiter *w = s->waiters; w && !s->api->draining; w = w->next)
        reply_error(w->call, 503, "the submission with this key was refused; "
                    "try again");
    submission_free(s);
}

static void other_document(struct call *c)
{
    reply_error(c, 409, "this Idempotency-Key was used for another document");
}

static bool good_key(const char *key)
{
    size_t n = 0;

    for (; key[n]; n++) {
        if (!isgraph((unsigned char) key[n]))
            return false;
    }
    return n > 0 && n <= 128;
}

static char *map_key(const struct call *c, const char *key)
{
    return mem_printf("%s\n%s", c->who.id, key);
}

/* Was this submitted before, or is it being so?  Then it is answered, or will
 * be.
 */
static bool answer_again(struct call *c, const char *key, const char *hash)
{
    autofree char *name = map_key(c, key);
    struct submission *s = map_get(c->api->keys, name);
    const struct workload *wl;
    struct err err = { 0 };
    char old[65] = "";
    uint64_t id = 0;
    int rc;

    if (s && strcmp(s->hash, hash) == 0) {
        struct waiter *w = mem_new(sizeof *w);

        *w = (struct waiter) { .next = s->waiters, .call = c };
        s->waiters = w;
        return true;
    }
    wl = s ? NULL : world_by_key(api_world(c->api), c->who.id, key);
    if (s || wl) {
        rc = 0;
        id = wl ? wl->id : 0;
        (void) snprintf(old, sizeof old, "%s", wl && wl->hash ? wl->hash : "");
    } else {
        rc = store_find_key(api_store(c->api), c->who.id, key, &id, old,
                            &err);
    }
    if (rc == -ENOENT)
        return false;
    if (rc < 0)
        reply_rc(c, rc, &err);
    else if (strcmp(old, hash) != 0)
        other_document(c);
    else
        reply_workload(c, 200, id);
    return true;
}

/* The event is complete but for its key: send it off. */
static void submit(struct call *c, struct event *e, const char *key,
                   const char *hash)
{
    struct submission *s = mem_new(sizeof *s);

    s->api = c->api;
    (void) snprintf(s->hash, sizeof s->hash, "%s", hash);
    if (key) {
        s->key = map_key(c, key);
        (void) map_set(c->api->keys, s->key, s);
        (void) snprintf(e->key, sizeof e->key, "%s", key);
        (void) snprintf(e->hash, sizeof e->hash, "%s", hash);
    }
    call_propose_or(c, e, submitted, not_submitted, s);
}

/* The key of the request: false: answered. */
static bool read_key(struct call *c, const char **ret)
{
    const char *key = http_header(c->req, "Idempotency-Key");

    if (key && !good_key(key)) {
        reply_error(c, 400, "Idempotency-Key: expected 1 to 128 printable "
                    "characters without blanks");
        return false;
    }
    *ret = key;
    return true;
}

/* Document and query together are what was asked for. */
static void hash_request(const struct call *c, char ret[65])
{
    const struct url *u = http_url(c->req);
    struct auth_text t[1 + 2 * URL_MAX_ARGS];
    size_t n = 0;

    t[0].data = http_body(c->req, &t[0].len);
    for (size_t i = 0; i < u->nargs; i++) {
        t[++n] = (struct auth_text) { u->args[i].name,
                                      strlen(u->args[i].name) };
        t[++n] = (struct auth_text) { u->args[i].value,
                                      strlen(u->args[i].value) };
    }
    auth_hash(t, n + 1, ret);
}

static size_t read_params(const struct call *c, struct doc_param *params,
                          char **ret_memory)
{
    const struct url *u = http_url(c->req);
    autobuf struct buf names = BUF_INIT(2 * URL_MAX);
    size_t n = 0, at = 0;
    char *memory;

    for (size_t i = 0; i < u->nargs; i++) {
        if (strcmp(u->args[i].name, "param") == 0)
            (void) buf_add(&names, u->args[i].value,
                           strcspn(u->args[i].value, "=") + 1);
    }
    memory = buf_take(&names);
    for (size_t i = 0; i < u->nargs; i++) {
        size_t len = strcspn(u->args[i].value, "=");

        if (strcmp(u->args[i].name, "param") != 0)
            continue;
        memory[at + len] = '\0';
        params[n++] = (struct doc_param) { memory + at,
                                           u->args[i].value + len + 1 };
        at += len + 1;
    }
    *ret_memory = memory;
    return n;
}

static struct spec *read_document(struct call *c)
{
    struct doc_param params[URL_MAX_ARGS];
    struct doc_problems problems = { 0 };
    autofree char *memory = NULL;
    size_t n = read_params(c, params, &memory), len;
    const char *text = http_body(c->req, &len);
    const char *priority = call_arg(c, "priority");
    struct spec *spec = NULL;
    int rc;

    rc = doc_read(text, len, params, n, api_now(c->api), &spec, &problems);
    if (rc < 0)
        reply_problems(c, &problems, rc);
    else if (priority)
        spec->priority = (int) strtol(priority, NULL, 10);
    doc_problems_free(&problems);
    return rc < 0 ? NULL : spec;
}

static bool choose_tenant(struct call *c, const struct spec *spec,
                          char *ret, size_t size)
{
    const char *name = call_arg(c, "tenant");

    return call_choose_tenant(c, name ? name : spec->tenant, "with 'tenant:' "
                              "in the document or ?tenant=NAME", ret, size);
}

void post_workloads(struct call *c)
{
    const char *key = NULL;
    char hash[65];
    struct event e;

    if (call_in_trouble(c) || !read_key(c, &key))
        return;
    hash_request(c, hash);
    if (key && answer_again(c, key, hash))
        return;
    call_event(c, &e, EVENT_SUBMITTED);
    e.spec = read_document(c);
    if (!e.spec || !choose_tenant(c, e.spec, e.tenant, sizeof e.tenant)) {
        event_clear(&e);
        return;
    }
    auth_caller(&c->who, &e.user);
    submit(c, &e, key, hash);
}

/* Tasks of the old workload that succeeded: they count as done. */
static int add_done(uint64_t index, const char *body, size_t len, void *arg)
{
    struct event *e = arg;
    autojson json_t *o = json_loadb(body, len, 0, NULL);

    if (!o)
        return -EBADMSG;
    if (strcmp(json_get_str(o, "outcome", ""), "succeeded") == 0)
        e->done[e->ndone++] = (uint32_t) index;
    return 0;
}

/* An operator who retries somebody's workload does it for them. */
static void retry_user(const struct call *c, const struct target *t,
                       struct event_user *ret)
{
    uint64_t uid = json_get_u64(t->row, "uid", UINT32_MAX);

    if (auth_sees_all(&c->who) && uid < UINT32_MAX)
        auth_user((uint32_t) uid, ret);
    else
        auth_caller(&c->who, ret);
}

static int retry_event(struct call *c, struct target *t, struct event *e,
                       struct err *err)
{
    call_event(c, e, EVENT_SUBMITTED);
    (void) snprintf(e->tenant, sizeof e->tenant, "%s", target_tenant(t));
    retry_user(c, t, &e->user);
    e->retry_of = t->id;
    e->done = mem_array(t->spec->ntasks, sizeof *e->done);
    e->spec = take(t->spec);
    return store_tasks(api_store(c->api), t->id, 0, e->spec->ntasks, add_done,
                       e, err);
}

void post_retry(struct call *c)
{
    autotarget struct target t = { 0 };
    struct err err = { 0 };
    const char *key = NULL;
    char hash[65];
    struct event e;
    int rc;

    if (call_in_trouble(c) || !read_key(c, &key) ||
        !target_find(c, c->param[0], true, &t))
        return;
    auth_hash(&(struct auth_text) { c->param[0], strlen(c->param[0]) }, 1,
              hash);
    if (key && answer_again(c, key, hash))
        return;
    if (t.live) {
        reply_error(c, 409, "%s has not ended: abort it first", c->param[0]);
        return;
    }
    rc = retry_event(c, &t, &e, &err);
    if (rc == 0 && e.ndone == e.spec->ntasks)
        rc = err_set(&err, EBUSY, "%s succeeded: there is nothing to retry",
                     c->param[0]);
    if (rc < 0) {
        event_clear(&e);
        reply_rc(c, rc, &err);
        return;
    }
    submit(c, &e, key, hash);
}
