#include "api/handlers.h"

#include "api/api_int.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "core/world.h"

#include <string.h>

/* Nodes that are kept for a tenant, or for nobody, for some time.  Everybody
 * sees which nodes and when, for it is a reason of theirs to wait; for whom is
 * seen by those who may see the tenant.
 */
static json_t *shown(const struct call *c, const struct window *w)
{
    json_t *o = view_window(w);

    (void) json_object_del(o, "_");
    if (w->tenant[0] && !auth_sees(c->api, &c->who, w->tenant))
        json_put_str(o, "tenant", "another");
    return o;
}

static const struct window *find(const struct call *c)
{
    const struct window *w;
    size_t pos = 0;

    while ((w = world_next_window(api_world(c->api), &pos)))
        if (strcmp(w->name, c->param[0]) == 0)
            return w;
    return NULL;
}

void get_windows(struct call *c)
{
    json_t *items = json_array();
    const struct window *w;
    size_t pos = 0;

    while ((w = world_next_window(api_world(c->api), &pos)))
        (void) json_array_append_new(items, shown(c, w));
    reply_items(c, items, NULL);
}

static void was_set(struct call *c, uint64_t seq, uint64_t workload,
                    void *arg)
{
    const struct window *w = find(c);

    (void) seq;
    (void) workload;
    if (w)
        reply_json(c, arg ? 201 : 200, shown(c, w));
    else                               /* removed again meanwhile */
        reply_absent(c, "window", c->param[0]);
}

/* A time of the body into the event; false: answered. */
static bool put_time(struct call *c, json_t *data, const char *key,
                     const char *to, uint64_t fallback)
{
    const char *text = json_get_str(c->body, key, NULL);
    struct err err = { 0 };
    uint64_t ms = fallback;

    if (text && clock_parse(text, &ms, &err) < 0) {
        reply_error(c, 422, "%s: %s", key, err.text);
        return false;
    }
    json_put_u64(data, to, ms);
    return true;
}

/* The first name that is there twice; NULL: none is. */
static const char *twice(const json_t *names)
{
    struct map *seen = map_new();
    const char *found = NULL;
    const json_t *n;
    size_t i;

    json_array_foreach(names, i, n) {
        const char *name = json_string_value(n);

        if (map_get(seen, name)) {
            found = name;
            break;
        }
        (void) map_set(seen, name, seen);
    }
    map_free(seen);
    return found;
}

/* What makes no sense, to the world or to people; true: answered. */
static bool no_sense(struct call *c, const json_t *data)
{
    uint64_t from = json_get_u64(data, "from_ms", 0);
    uint64_t to = json_get_u64(data, "to_ms", 0);
    const char *again = twice(json_object_get(data, "nodes"));

    if (!spec_name_valid(c->param[0]) ||
        strlen(c->param[0]) >= sizeof ((struct window *) NULL)->name)
        reply_error(c, 422, "'%.128s' cannot be the name of a window: "
                    "letters, digits and _.- with a letter or digit first, "
                    "fewer than 64", c->param[0]);
    else if (json_array_size(json_object_get(data, "nodes")) == 0)
        reply_error(c, 422, "nodes: names none");
    else if (again)
        reply_error(c, 422, "nodes: '%.127s' is there twice", again);
    else if (to <= api_now(c->api) || from >= to)
        reply_error(c, 422, "it ends before it begins, or is over already");
    else
        return false;
    return true;
}

void put_window(struct call *c)
{
    static char created;
    bool fresh = !find(c);
    struct event e;

    call_event(c, &e, EVENT_WINDOW_SET);
    e.data = json_object();
    json_put_str(e.data, "name", c->param[0]);
    json_put(e.data, "nodes",
             json_incref(json_object_get(c->body, "nodes")));
    json_put_str(e.data, "tenant", json_get_str(c->body, "tenant", NULL));
    if (!put_time(c, e.data, "from", "from_ms", api_now(c->api)) ||
        !put_time(c, e.data, "to", "to_ms", 0) || no_sense(c, e.data)) {
        event_clear(&e);
        return;
    }
    call_propose(c, &e, was_set, fresh ? &created : NULL);
}

void delete_window(struct call *c)
{
    struct event e;

    if (!find(c)) {
        reply_absent(c, "window", c->param[0]);
        return;
    }
    call_event(c, &e, EVENT_WINDOW_REMOVED);
    e.data = json_object();
    json_put_str(e.data, "name", c->param[0]);
    call_propose(c, &e, reply_none_then, NULL);
}
