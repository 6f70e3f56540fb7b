#include "api/handlers.h"

#include "api/api_int.h"
#include "base/json.h"
#include "base/mem.h"
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

/* The body as the event has it: devices in thousandths. */
static json_t *tenant_data(const json_t *body)
{
    const json_t *max = json_object_get(body, "max_gpus");
    json_t *data = json_copy((json_t *) (intptr_t) body);

    (void) json_object_del(data, "max_gpus");
    if (json_is_string(max))
        json_put_str(data, "max_gpus_milli", "unlimited");
    else if (max)
        json_put_u64(data, "max_gpus_milli",
                     (uint64_t) llround(json_number_value(max) * 1000));
    return data;
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
    if (fresh && c->api->ops->single_user(c->api->arg)) {
        reply_error(c, 403, "this Weir was started without root and serves "
                    "its own user alone: there are no further tenants");
        return;
    }
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
