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

static int add_version(const struct store_event *e, void *arg)
{
    autojson json_t *j = json_loadb(e->body, e->len, 0, NULL);
    const json_t *data = json_object_get(j, "data");
    json_t *o;

    if (!j)
        return -EBADMSG;
    o = json_object();
    json_put_u64(o, "version", json_get_u64(data, "version", 0));
    json_put_str(o, "set", json_get_str(j, "time", NULL));
    json_put_str(o, "who", json_get_str(j, "who", NULL));
    json_put(o, "policy", json_incref(json_object_get(data, "policy")));
    (void) json_array_append_new(arg, o);
    return 0;
}

/* The newest versions that the journal has, newest first. */
static int read_versions(const struct call *c, uint32_t limit, json_t *items,
                         struct err *err)
{
    struct store_event_query q = {
        .type = event_type_name(EVENT_POLICY_SET), .limit = limit,
        .before = INT64_MAX,
    };

    return store_events(api_store(c->api), &q, add_version, items, err);
}

/* What each changed: the first one the defaults, and of one whose predecessor
 * is not kept nothing is said.
 */
static void put_changes(json_t *items)
{
    autojson json_t *defaults = NULL;
    struct policy fresh;
    json_t *v;
    size_t i;

    policy_init(&fresh);
    defaults = policy_to_json(&fresh);
    json_array_foreach(items, i, v) {
        const json_t *before = json_object_get(json_array_get(items, i + 1),
                                               "policy");

        if (json_get_u64(v, "version", 0) == 1)
            before = defaults;
        if (before)
            json_put(v, "changes", changes(before,
                                           json_object_get(v, "policy")));
    }
}

void get_policy_history(struct call *c)
{
    json_t *items = json_array();
    struct err err = { 0 };
    int rc = read_versions(c, HISTORY_MAX, items, &err);

    if (rc < 0) {
        json_decref(items);
        reply_rc(c, rc, &err);
        return;
    }
    put_changes(items);
    reply_items(c, items, NULL);
}

/* ---- what is in force ---- */

static json_t *current(const struct call *c)
{
    return policy_to_json(world_policy(api_world(c->api)));
}

void get_policy(struct call *c)
{
    uint64_t version = world_policy_version(api_world(c->api));
    autojson json_t *items = json_array();
    const json_t *last;
    struct err err = { 0 };
    json_t *o;
    int rc = read_versions(c, 1, items, &err);

    if (rc < 0) {
        reply_rc(c, rc, &err);
        return;
    }
    last = json_array_get(items, 0);
    o = json_object();
    json_put_u64(o, "version", version);
    if (last && json_get_u64(last, "version", 0) == version) {
        json_put_str(o, "set", json_get_str(last, "set", NULL));
        json_put_str(o, "who", json_get_str(last, "who", NULL));
    }
    json_put(o, "policy", current(c));
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
