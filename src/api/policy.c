#include "api/handlers.h"

#include "api/api_int.h"
#include "base/json.h"
#include "base/mem.h"
#include "core/world.h"
#include "plan/policy.h"
#include "spec/doc.h"
#include "spec/policy_doc.h"
#include "store/store.h"

#include <errno.h>
#include <string.h>

/* The policy: what is in force, how it came to be, and another one. */
enum { HISTORY_MAX = 1000 };

/* [{field, from, to}]: what differs, in the order of the document. */
static json_t *changes(const json_t *from, const json_t *to)
{
    json_t *list = json_array(), *v;
    const char *key;

    json_object_foreach((json_t *) (uintptr_t) to, key, v) {
        json_t *old = json_object_get(from, key), *o;

        if (old && json_equal(old, v))
            continue;
        o = json_object();
        json_put_str(o, "field", key);
        json_put(o, "from", old ? json_incref(old) : json_null());
        json_put(o, "to", json_incref(v));
        (void) json_array_append_new(list, o);
    }
    return list;
}

/* ---- history ---- */

struct history {
    json_t *items;                     /* oldest first */
    json_t *last;                      /* the document before, borrowed */
    json_t *defaults;
};

static int add_version(const struct store_event *e, void *arg)
{
    struct history *h = arg;
    autojson json_t *j = json_loadb(e->body, e->len, 0, NULL);
    json_t *data = json_object_get(j, "data"), *o = json_object();
    json_t *policy = json_object_get(data, "policy");

    json_put_u64(o, "version", json_get_u64(data, "version", 0));
    json_put_str(o, "set", json_get_str(j, "time", NULL));
    json_put_str(o, "who", json_get_str(j, "who", NULL));
    json_put(o, "changes", changes(h->last, policy));
    json_put(o, "policy", json_incref(policy));
    h->last = policy;
    (void) json_array_append_new(h->items, o);
    return 0;
}

/* Every version that the journal has. */
static int read_history(const struct call *c, struct history *h,
                        struct err *err)
{
    struct store_event_query q = {
        .type = event_type_name(EVENT_POLICY_SET), .limit = HISTORY_MAX,
    };
    struct policy fresh;

    policy_init(&fresh);
    h->defaults = policy_to_json(&fresh);
    h->last = h->defaults;
    h->items = json_array();
    return store_events(api_store(c->api), &q, add_version, h, err);
}

static void history_clear(struct history *h)
{
    json_decref(h->items);
    json_decref(h->defaults);
}

void get_policy_history(struct call *c)
{
    struct history h = { 0 };
    struct err err = { 0 };
    json_t *newest = json_array();
    int rc = read_history(c, &h, &err);

    for (size_t i = json_array_size(h.items); i-- > 0;)
        (void) json_array_append(newest, json_array_get(h.items, i));
    history_clear(&h);
    if (rc == 0) {
        reply_items(c, newest, NULL);
        return;
    }
    json_decref(newest);
    reply_rc(c, rc, &err);
}

/* ---- what is in force ---- */

static json_t *current(const struct call *c)
{
    return policy_to_json(world_policy(api_world(c->api)));
}

void get_policy(struct call *c)
{
    uint64_t version = world_policy_version(api_world(c->api));
    struct history h = { 0 };
    json_t *o = json_object(), *last;
    struct err err = { 0 };
    int rc = read_history(c, &h, &err);

    last = json_array_get(h.items, json_array_size(h.items) - 1);
    json_put_u64(o, "version", version);
    if (rc == 0 && json_get_u64(last, "version", 0) == version) {
        json_put_str(o, "set", json_get_str(last, "set", NULL));
        json_put_str(o, "who", json_get_str(last, "who", NULL));
    }
    json_put(o, "policy", current(c));
    history_clear(&h);
    reply_json(c, 200, o);
}

static void reply_set(struct call *c, json_t *differ, bool dry_run)
{
    json_t *o = json_object();

    json_put_u64(o, "version", world_policy_version(api_world(c->api)));
    json_put_bool(o, "dry_run", dry_run);
    json_put(o, "changes", differ);
    json_put(o, "policy", current(c));
    reply_json(c, 200, o);
}

static void was_set(struct call *c, uint64_t seq, uint64_t workload,
                    void *arg)
{
    (void) seq;
    (void) workload;
    reply_set(c, arg, false);
}

static void not_set(void *arg)
{
    json_decref(arg);
}

static void set_policy(struct call *c, const struct policy *p)
{
    autojson json_t *from = current(c), *to = policy_to_json(p);
    json_t *differ = changes(from, to);
    struct event e;

    if (call_flag(c, "dry_run") || json_array_size(differ) == 0) {
        reply_set(c, differ, call_flag(c, "dry_run"));
        return;
    }
    call_event(c, &e, EVENT_POLICY_SET);
    e.data = json_object();
    json_put_u64(e.data, "version",
                 world_policy_version(api_world(c->api)) + 1);
    json_put(e.data, "policy", json_incref(to));
    call_propose_or(c, &e, was_set, not_set, differ);
}

void put_policy(struct call *c)
{
    struct doc_problems problems = { .items = NULL };
    struct policy p;
    size_t len;
    const char *text = http_body(c->req, &len);
    int rc = policy_doc_read(text, len, &p, &problems);

    if (rc < 0)
        reply_problems(c, &problems, rc);
    else
        set_policy(c, &p);
    doc_problems_free(&problems);
}
