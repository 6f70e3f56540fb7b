#include "api/handlers.h"

#include "api/api_int.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "core/world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void get_tenants(struct call *c)
{
    json_t *items = json_array();
    const struct tenant *t;
    size_t pos = 0;

    while ((t = world_next_tenant(api_world(c->api), &pos))) {
        if (auth_sees(c->api, &c->who, t->name))
            (void) json_array_append_new(items, show(c, view_tenant(t)));
    }
    reply_items(c, items, NULL);
}

void get_tenant(struct call *c)
{
    const struct tenant *t = call_tenant(c, c->param[0]);

    if (t)
        reply_json(c, 200, show(c, view_tenant(t)));
}

static void was_set(struct call *c, uint64_t seq, uint64_t workload,
                    void *arg)
{
    const struct tenant *t = world_tenant(api_world(c->api), c->param[0]);

    (void) seq;
    (void) workload;
    if (!t)                            /* removed again meanwhile */
        reply_absent(c, "tenant", c->param[0]);
    else
        reply_json(c, arg ? 201 : 200, show(c, view_tenant(t)));
}

/* "month", or a time such as 30d; the schema has seen to the rest. */
static uint64_t period_ms(const char *s)
{
    static const struct { const char *word, *time; } words[] = {
        { "day", "1d" }, { "week", "7d" }, { "month", "30d" },
        { "year", "365d" },
    };
    uint64_t ms = 0;

    for (size_t i = 0; i < array_size(words); i++)
        if (strcmp(words[i].word, s) == 0)
            s = words[i].time;
    (void) quantity_duration(s, &ms, NULL);
    return ms;
}

static json_t *budget_data(const json_t *budget)
{
    double amount = json_get_number(budget, "amount");
    json_t *o;

    if (json_is_null(budget))
        return json_null();
    o = json_object();
    json_put_u64(o, "amount_micro", (uint64_t) llround(amount * 1e6));
    json_put_str(o, "unit", json_get_str(budget, "unit", NULL));
    json_put_u64(o, "period_ms", period_ms(json_get_str(budget, "period",
                                                        "")));
    return o;
}

static void put_devices(json_t *data, const char *key, const json_t *v)
{
    if (json_is_string(v))
        json_put_str(data, key, json_string_value(v));
    else if (v)
        json_put_u64(data, key,
                     (uint64_t) llround(json_number_value(v) * 1000));
}

/* The body as the event has it: devices in thousandths, times in
 * milliseconds.
 */
static json_t *tenant_data(const json_t *body)
{
    const json_t *budget = json_object_get(body, "budget");
    const json_t *grace = json_object_get(body, "idle_grace_seconds");
    json_t *data = json_copy((json_t *) (intptr_t) body);

    (void) json_object_del(data, "max_gpus");
    (void) json_object_del(data, "quota");
    put_devices(data, "max_gpus_milli", json_object_get(body, "max_gpus"));
    put_devices(data, "quota_gpus_milli",
                json_object_get(body, "quota"));
    if (budget)
        json_put(data, "budget", budget_data(budget));
    if (grace) {
        (void) json_object_del(data, "idle_grace_seconds");
        json_put_u64(data, "idle_grace_ms",
                     (uint64_t) llround(json_number_value(grace) * 1000));
    }
    return data;
}

/* Who belongs to a tenant, and it to another, is for admins to say. */
static bool may_set(struct call *c, bool fresh)
{
    if (c->who.role >= ROLE_ADMIN ||
        (!fresh && !json_object_get(c->body, "members") &&
         !json_object_get(c->body, "parent")))
        return true;
    call_denied(c, 403);
    reply_error(c, 403, "making a tenant, its members and its parent are for "
                "admins; you are %s", role_name(c->who.role));
    return false;
}

void put_tenant(struct call *c)
{
    static char created;
    bool fresh = !world_tenant(api_world(c->api), c->param[0]);
    struct event e;

    if (!spec_name_valid(c->param[0])) {
        reply_error(c, 400, "'%.128s' cannot be the name of a tenant: letters, "
                    "digits and _.- with a letter or digit first",
                    c->param[0]);
        return;
    }
    if (fresh && strcmp(c->param[0], "none") == 0) {
        reply_error(c, 400, "'none' cannot be the name of a tenant: where a "
                    "parent is named it means that there is none");
        return;
    }
    if (fresh && c->api->ops->single_user(c->api->arg)) {
        reply_error(c, 403, "this Weir was started without root and serves "
                    "its own user alone: there are no further tenants");
        return;
    }
    if (!may_set(c, fresh))
        return;
    call_event(c, &e, EVENT_TENANT_SET);
    (void) snprintf(e.tenant, sizeof e.tenant, "%s", c->param[0]);
    e.data = tenant_data(c->body);
    call_propose(c, &e, was_set, fresh ? &created : NULL);
}

void delete_tenant(struct call *c)
{
    struct event e;

    if (!call_tenant(c, c->param[0]))
        return;
    if (strcmp(c->param[0], "default") == 0) {
        reply_error(c, 409, "the tenant 'default' is always there");
        return;
    }
    call_event(c, &e, EVENT_TENANT_REMOVED);
    (void) snprintf(e.tenant, sizeof e.tenant, "%s", c->param[0]);
    call_propose(c, &e, reply_none_then, NULL);
}
