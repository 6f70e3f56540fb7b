#include "core/world_int.h"

#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* May it happen now?  Of blocks, nodes, tenants, tokens, windows and the
 * policy; see check.c.
 */
int want_data(const struct event *e, struct err *err)
{
    if (!json_is_object(e->data))
        return err_set(err, EINVAL, "%s: it has no data",
                       event_type_name(e->type));
    return 0;
}

static int check_device(const json_t *d, struct err *err)
{
    const char *model = json_get_str(d, "model", "");

    if (!model[0] || strlen(model) >= sizeof(((struct device *) NULL)->model))
        return err_set(err, EINVAL, "a device without a model, or one with a "
                       "model of more than 31 bytes");
    if (strlen(json_get_str(d, "uuid", "")) >=
        sizeof(((struct device *) NULL)->uuid))
        return err_set(err, EINVAL, "a device with a UUID of more than 47 "
                       "bytes");
    return check_health(d, err);
}

static int check_labels(const json_t *labels, struct err *err)
{
    const char *key;
    json_t *value;

    if (labels && !json_is_object(labels))
        return err_set(err, EINVAL, "labels are not {key: value}");
    json_object_foreach((json_t *) (uintptr_t) labels, key, value)
        if (!json_is_string(value))
            return err_set(err, EINVAL, "the label '%s' is not a text", key);
    return 0;
}

static bool still_there(const struct lease *l, const json_t *device)
{
    struct device d = { .memory = json_get_u64(device, "memory", 0) };

    if (!device)
        return false;
    (void) snprintf(d.model, sizeof(d.model), "%s",
                    json_get_str(device, "model", ""));
    return device_matches(&d, l->task->spec);
}

/* What a block's leases hold has to fit into its new inventory.  The suspended
 * hold no device: they come back on what there is then, or wait for it.
 */
static int check_inventory(const struct block *b, const struct event *e,
                           struct err *err)
{
    const json_t *devices = json_object_get(e->data, "devices");
    uint64_t cpus = json_get_u64(e->data, "cpus_milli", 0);
    uint64_t memory = json_get_u64(e->data, "memory", 0);
    uint64_t held = b->memory - b->memory_free;
    const struct lease *l;

    for (l = b->leases; l; l = l->next_on_block)
        held += l->off ? l->task->spec->memory : 0;    /* it comes back */
    if (b->cpu_milli - b->cpu_free > cpus || held > memory)
        return err_set(err, EBUSY, "block '%s' has leases that hold more CPUs "
                       "or memory than it has now", b->id);
    for (l = b->leases; l; l = l->next_on_block)
        for (uint32_t i = 0; i < l->grant.ndevices && !l->off; i++)
            if (!still_there(l, json_array_get(devices, l->grant.device[i])))
                return err_set(err, EBUSY, "task '%s' of w%" PRIu64 " has "
                               "device %u of block '%s', which it no longer "
                               "has", l->task->spec->name,
                               l->task->workload->id, l->grant.device[i],
                               b->id);
    return 0;
}

int check_block_up(const struct world *w, const struct event *e,
                   struct err *err)
{
    static const struct { const char *name; size_t max; } texts[] = {
        { "pool", sizeof(((struct block *) NULL)->pool) },
        { "engine", sizeof(((struct block *) NULL)->engine) },
        { "node", sizeof(((struct block *) NULL)->node) },
        { "limits", sizeof(((struct block *) NULL)->limits) },
        { "domain", sizeof(((struct block *) NULL)->domain) },
    };
    const struct block *b = world_block(w, e->block);
    const json_t *devices;
    int rc = want_data(e, err);

    if (rc < 0)
        return rc;
    if (!e->block[0])
        return err_set(err, EINVAL, "a block without an id");
    for (size_t i = 0; i < array_size(texts); i++)
        if (strlen(json_get_str(e->data, texts[i].name, "")) >= texts[i].max)
            return err_set(err, EINVAL, "block '%s': '%s' has more than %zu "
                           "bytes", e->block, texts[i].name, texts[i].max - 1);
    devices = json_object_get(e->data, "devices");
    if ((devices && !json_is_array(devices)) ||
        json_array_size(devices) > UINT16_MAX)
        return err_set(err, EINVAL, "block '%s': 'devices' is not a list, or "
                       "is longer than can be", e->block);
    for (size_t i = 0; i < json_array_size(devices) && rc == 0; i++)
        rc = check_device(json_array_get(devices, i), err);
    if (rc == 0)
        rc = check_labels(json_object_get(e->data, "labels"), err);
    if (rc == 0 && b)
        rc = check_inventory(b, e, err);
    return rc;
}

int check_block_lost(const struct world *w, const struct event *e,
                     struct err *err)
{
    const struct block *b = world_block(w, e->block);

    if (!b)
        return err_set(err, ENOENT, "there is no block '%s'", e->block);
    if (!b->up)
        return err_set(err, ESTALE, "block '%s' is down already", e->block);
    return 0;
}

int check_block_shut(const struct world *w, const struct event *e,
                     struct err *err)
{
    const struct block *b = world_block(w, e->block);

    if (!b)
        return err_set(err, ENOENT, "there is no block '%s'", e->block);
    if (!b->up || b->shut)
        return err_set(err, ESTALE, "block '%s' is %s already", e->block,
                       b->up ? "shut" : "down");
    return 0;
}

int check_drain(const struct world *w, const struct event *e, struct err *err)
{
    bool drain = e->type == EVENT_NODE_DRAINED, known = false, news = false;

    for (uint32_t i = 0; i < w->nblocks; i++) {
        if (strcmp(w->blocks[i]->node, e->node) != 0)
            continue;
        known = true;
        news = news || w->blocks[i]->drained != drain;
    }
    if (!known)
        return err_set(err, ENOENT, "there is no node '%s'", e->node);
    if (!news)
        return err_set(err, ESTALE, "node '%s' is %s already", e->node,
                       drain ? "drained" : "not drained");
    return 0;
}

static int check_members(const json_t *members, struct err *err)
{
    if (members && !json_is_array(members))
        return err_set(err, EINVAL, "members is not a list");
    for (size_t i = 0; i < json_array_size(members); i++)
        if (!json_is_string(json_array_get(members, i)))
            return err_set(err, EINVAL, "a member is not a text");
    return 0;
}

static int check_parent(const struct world *w, const struct event *e,
                        struct err *err)
{
    const json_t *named = json_object_get(e->data, "parent");
    const char *name = json_string_value(named);
    const struct tenant *up;

    if (!named || (name && !name[0]))
        return 0;
    up = name ? world_tenant(w, name) : NULL;
    if (!up)
        return err_set(err, ENOENT, "tenant '%s': there is no tenant '%s' to "
                       "be above it", e->tenant, name ? name : "?");
    for (; up; up = up->parent)
        if (strcmp(up->name, e->tenant) == 0)
            return err_set(err, EINVAL, "tenant '%s' cannot be above itself",
                           e->tenant);
    return 0;
}

static int check_budget(const struct event *e, struct err *err)
{
    const json_t *b = json_object_get(e->data, "budget");
    const char *unit = json_get_str(b, "unit", "");
    uint64_t period = json_get_u64(b, "period_ms", 0);

    if (!b || json_is_null(b))
        return 0;
    if (!json_is_object(b) || json_get_u64(b, "amount_micro", 0) == 0)
        return err_set(err, EINVAL, "tenant '%s': a budget without an amount",
                       e->tenant);
    if (strcmp(unit, budget_unit_name(BUDGET_GPU_HOURS)) != 0 &&
        strcmp(unit, budget_unit_name(BUDGET_MONEY)) != 0)
        return err_set(err, EINVAL, "tenant '%s': a budget is in gpu_hours or "
                       "money, not '%.40s'", e->tenant, unit);
    if (period < 60 * 1000 || period > SPEC_MAX_MS)
        return err_set(err, EINVAL, "tenant '%s': the period of a budget is a "
                       "minute at least", e->tenant);
    return 0;
}

static bool milli_or_none(const json_t *j, const char *none)
{
    if (none && json_is_string(j))
        return strcmp(json_string_value(j), none) == 0;
    return json_is_integer(j) && json_integer_value(j) >= 0 &&
           json_integer_value(j) < UINT32_MAX;
}

static int check_tenant_idle(const struct event *e, struct err *err)
{
    const json_t *grace = json_object_get(e->data, "idle_grace_ms");
    const json_t *p = json_object_get(e->data, "interactive_priority");
    json_int_t ms = json_integer_value(grace), v = json_integer_value(p);

    if (grace && (!json_is_integer(grace) || ms < 0 ||
                  ms > (json_int_t) SPEC_MAX_MS))
        return err_set(err, EINVAL, "tenant '%s': idle_grace_ms is not a time",
                       e->tenant);
    if (p && !json_is_null(p) &&
        (!json_is_integer(p) || v < -SPEC_MAX_PRIORITY ||
         v > SPEC_MAX_PRIORITY))
        return err_set(err, EINVAL, "tenant '%s': interactive_priority is not "
                       "within -%d..%d", e->tenant, SPEC_MAX_PRIORITY,
                       SPEC_MAX_PRIORITY);
    return 0;
}

int check_tenant_set(const struct world *w, const struct event *e,
                     struct err *err)
{
    const json_t *max = json_object_get(e->data, "max_gpus_milli");
    const json_t *quota = json_object_get(e->data, "quota_gpus_milli");
    int rc = want_data(e, err);

    if (rc < 0)
        return rc;
    if (!spec_name_valid(e->tenant))
        return err_set(err, EINVAL, "'%s' cannot be the name of a tenant",
                       e->tenant);
    if (max && !milli_or_none(max, "unlimited"))
        return err_set(err, EINVAL, "tenant '%s': max_gpus_milli is neither a "
                       "number nor 'unlimited'", e->tenant);
    if (quota && !milli_or_none(quota, NULL))
        return err_set(err, EINVAL, "tenant '%s': quota_gpus_milli is not a "
                       "number", e->tenant);
    if (json_get_u64(e->data, "weight", 1) < 1 ||
        json_get_u64(e->data, "weight", 1) > 1000000)
        return err_set(err, EINVAL, "tenant '%s': weight is not from 1 to "
                       "1000000", e->tenant);
    rc = check_parent(w, e, err);
    if (rc == 0)
        rc = check_budget(e, err);
    if (rc == 0)
        rc = check_tenant_idle(e, err);
    return rc < 0 ? rc : check_members(json_object_get(e->data, "members"),
                                       err);
}

int check_tenant_removed(const struct world *w, const struct event *e,
                         struct err *err)
{
    const struct tenant *t = world_tenant(w, e->tenant), *other;
    const struct window *v;
    size_t pos = 0;

    if (!t)
        return err_set(err, ENOENT, "there is no tenant '%s'", e->tenant);
    if (t->live > 0)
        return err_set(err, EBUSY, "tenant '%s' has %u workloads that have not "
                       "ended", e->tenant, t->live);
    while ((other = world_next_tenant(w, &pos)))
        if (other->parent == t)
            return err_set(err, EBUSY, "tenant '%s' is above '%s'", e->tenant,
                           other->name);
    pos = 0;
    while ((v = world_next_window(w, &pos)))
        if (strcmp(v->tenant, e->tenant) == 0)
            return err_set(err, EBUSY, "tenant '%s' has the window '%s'",
                           e->tenant, v->name);
    return 0;
}

int check_token_created(const struct world *w, const struct event *e,
                        struct err *err)
{
    static const char *const roles[] = { "viewer", "user", "operator",
                                         "admin" };
    const char *role = json_get_str(e->data, "role", "");
    size_t i = 0;
    int rc = want_data(e, err);

    if (rc < 0)
        return rc;
    while (i < array_size(roles) && strcmp(role, roles[i]) != 0)
        i++;
    if (i == array_size(roles))
        return err_set(err, EINVAL, "there is no role '%.40s'", role);
    if (!e->token[0] ||
        strlen(json_get_str(e->data, "name", "")) >=
            sizeof(((struct token *) NULL)->name) ||
        strlen(json_get_str(e->data, "hash", "")) >=
            sizeof(((struct token *) NULL)->hash) ||
        json_get_u64(e->data, "expires_ms", 0) > TIME_MAX)
        return err_set(err, EINVAL, "a token without an id, or with a name, "
                       "hash or time that is too long");
    if (world_token(w, e->token))
        return err_set(err, EEXIST, "the token '%s' is there already",
                       e->token);
    if (e->tenant[0] && !world_tenant(w, e->tenant))
        return err_set(err, ENOENT, "there is no tenant '%s'", e->tenant);
    return 0;
}

int check_token_revoked(const struct world *w, const struct event *e,
                        struct err *err)
{
    const struct token *t = world_token(w, e->token);

    if (!t)
        return err_set(err, ENOENT, "there is no token '%s'", e->token);
    if (t->revoked)
        return err_set(err, ESTALE, "token '%s' is revoked already", e->token);
    return 0;
}

int check_device_drain(const struct world *w, const struct event *e,
                       struct err *err)
{
    bool drain = e->type == EVENT_DEVICE_DRAINED;
    uint32_t device = 0;
    const struct block *b = node_device(w, e->node, e->device, &device);

    if (!b)
        return err_set(err, ENOENT, "there is no device %u on a node '%s'",
                       e->device, e->node);
    if (b->devices[device].drained == drain)
        return err_set(err, ESTALE, "device %u of node '%s' is %s already",
                       e->device, e->node, drain ? "drained" : "not drained");
    return 0;
}

static bool node_known(const struct world *w, const char *node)
{
    for (uint32_t i = 0; node && i < w->nblocks; i++)
        if (strcmp(w->blocks[i]->node, node) == 0)
            return true;
    return false;
}

static int check_window_name(const char *name, struct err *err)
{
    if (!spec_name_valid(name) ||
        strlen(name) >= sizeof(((struct window *) NULL)->name))
        return err_set(err, EINVAL, "'%.80s' cannot be the name of a window",
                       name);
    return 0;
}

int check_window_set(const struct world *w, const struct event *e,
                     struct err *err)
{
    const json_t *nodes = json_object_get(e->data, "nodes");
    const char *name = json_get_str(e->data, "name", "");
    const char *tenant = json_get_str(e->data, "tenant", "");
    uint64_t to = json_get_u64(e->data, "to_ms", 0);
    int rc = want_data(e, err);

    if (rc == 0)
        rc = check_window_name(name, err);
    if (rc < 0)
        return rc;
    if (tenant[0] && !world_tenant(w, tenant))
        return err_set(err, ENOENT, "there is no tenant '%.128s'", tenant);
    if (to <= e->time_ms || to > TIME_MAX ||
        json_get_u64(e->data, "from_ms", 0) >= to)
        return err_set(err, EINVAL, "window '%s': it ends before it begins, or "
                       "is over already", name);
    if (json_array_size(nodes) == 0)
        return err_set(err, EINVAL, "window '%s': it names no nodes", name);
    for (size_t i = 0; i < json_array_size(nodes); i++)
        if (!node_known(w, json_string_value(json_array_get(nodes, i))))
            return err_set(err, ENOENT, "window '%s': there is no node '%s'",
                           name, json_string_value(json_array_get(nodes, i)));
    return 0;
}

int check_window_removed(const struct world *w, const struct event *e,
                         struct err *err)
{
    const char *name = json_get_str(e->data, "name", "");
    int rc = want_data(e, err);

    if (rc == 0 && !map_get(w->windows, name))
        return err_set(err, ENOENT, "there is no window '%.80s'", name);
    return rc;
}

/* Whoever sets one has seen the one before: two at a time do not get lost. */
int check_policy_set(const struct world *w, const struct event *e,
                     struct err *err)
{
    uint64_t version = json_get_u64(e->data, "version", 0);
    struct policy policy;
    int rc = want_data(e, err);

    if (rc < 0)
        return rc;
    if (version != w->policy_version + 1)
        return err_set(err, ESTALE, "the policy has version %" PRIu64 " by "
                       "now; the next one is %" PRIu64, w->policy_version,
                       w->policy_version + 1);
    return policy_from_json(json_object_get(e->data, "policy"), &policy, err);
}
