#include "core/world_int.h"

#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Rows of what there is, back into a world: blocks, tenants, tokens and the
 * meta table.  See load.c.
 */
/* The row is an inventory as a runner would give it, but for one number. */
int load_block(struct world *w, const char *key, const json_t *body,
               struct err *err)
{
    const json_t *hidden = json_object_get(body, "_");
    autojson json_t *data = json_copy((json_t *) (uintptr_t) body);
    struct event e;
    struct block *b;
    int rc;

    json_put_u64(data, "cpus_milli", json_get_u64(hidden, "cpus_milli", 0));
    event_init(&e, EVENT_BLOCK_UP);
    if (strlen(key) >= sizeof(e.block))
        return bad_row(key, "its name is too long", err);
    memcpy(e.block, key, strlen(key) + 1);
    e.data = data;
    rc = world_check(w, &e, err);
    if (rc < 0)
        return err_prefix(err, rc, "row '%s'", key);
    if (world_block(w, key))
        return bad_row(key, "a block that is there twice", err);
    b = block_make(w, key);
    block_set_inventory(b, data);
    b->up_ms = json_get_u64(hidden, "up_ms", 0);
    b->shut = json_get_bool(body, "shut", false);
    bridge_block(w, b);
    block_set_open(w, b, strcmp(json_get_str(body, "state", ""), "up") == 0,
                   json_get_bool(body, "drained", false));
    b->dirty = false;
    return 0;
}

int load_tenant(struct world *w, const char *key, const json_t *body,
                struct err *err)
{
    const json_t *hidden = json_object_get(body, "_");
    const json_t *budget = json_object_get(hidden, "budget");
    json_t *members = json_object_get(body, "members");
    struct tenant *t;

    if (strlen(key) > SPEC_MAX_NAME || tenant_find(w, key) ||
        !json_is_array(members))
        return bad_row(key, "a tenant that is there twice, or without members",
                       err);
    t = tenant_make(w, key);
    json_decref(t->members);
    t->members = json_deep_copy(members);
    t->max_gpu_milli = (uint32_t) json_get_u64(hidden, "max_gpus_milli", 0);
    t->weight = (uint32_t) json_get_u64(body, "weight", 1);
    t->quota_gpu_milli = (uint32_t) json_get_u64(hidden, "quota_gpus_milli",
                                                 0);
    t->idle_grace_ms = json_get_u64(hidden, "idle_grace_ms", 0);
    t->has_interactive = json_object_get(body, "interactive_priority");
    t->interactive = (int16_t) json_integer_value(
        json_object_get(body, "interactive_priority"));
    t->parent_name = mem_str(json_get_str(body, "parent", NULL));
    t->used_cost_micro = json_get_u64(hidden, "used_cost_micro", 0);
    t->lost_gpu_ms = json_get_u64(hidden, "lost_gpu_ms", 0);
    t->idle = json_get_u64(hidden, "idle", 0);
    t->waits = json_object_get(hidden, "idle_mark") != NULL;
    t->idle_mark = json_get_u64(hidden, "idle_mark", 0);
    t->usage = strtod(json_get_str(hidden, "usage", "0"), NULL);
    t->usage_ms = json_get_u64(hidden, "usage_ms", 0);
    tenant_set_budget(t, budget);
    t->budget.spent = json_get_u64(budget, "spent", 0);
    t->budget.mark_ms = json_get_u64(budget, "mark_ms", 0);
    w->nbudgets += t->budget.period_ms != 0;
    free(t->note);
    t->note = mem_str(json_get_str(body, "note", ""));
    t->used_gpu_ms = json_get_u64(hidden, "used_gpu_ms", 0);
    t->used_cpu_ms = json_get_u64(hidden, "used_cpu_ms", 0);
    t->tasks_ended = json_get_u64(body, "tasks_ended", 0);
    t->created_ms = json_get_u64(hidden, "created_ms", 0);
    t->removed = json_get_bool(body, "removed", false);
    return 0;
}

static void load_text(char *to, size_t size, const json_t *o, const char *key)
{
    const char *text = json_get_str(o, key, "");
    size_t n = strlen(text);

    if (n >= size)
        n = size - 1;
    memcpy(to, text, n);
    to[n] = '\0';
}

int load_token(struct world *w, const char *key, const json_t *body,
               struct err *err)
{
    const json_t *hidden = json_object_get(body, "_");
    struct token *t;

    if (strlen(key) >= sizeof(t->id) || world_token(w, key))
        return bad_row(key, "a token that is there twice", err);
    t = token_make(w, key);
    load_text(t->name, sizeof(t->name), body, "name");
    load_text(t->tenant, sizeof(t->tenant), body, "tenant");
    load_text(t->role, sizeof(t->role), body, "role");
    load_text(t->hash, sizeof(t->hash), hidden, "hash");
    load_text(t->user.name, sizeof(t->user.name), body, "user");
    t->user.uid = (uint32_t) json_get_u64(body, "uid", 0);
    t->user.gid = (uint32_t) json_get_u64(hidden, "gid", 0);
    t->created_ms = json_get_u64(hidden, "created_ms", 0);
    t->expires_ms = json_get_u64(hidden, "expires_ms", 0);
    t->revoked = json_get_bool(body, "revoked", false);
    return 0;
}

/* ---- tenants, once all are there ---- */

static void tell_tenant(struct world *w, struct tenant *t)
{
    if (t->removed || t->plan_tenant)
        return;
    if (t->parent)
        tell_tenant(w, t->parent);
    bridge_tenant(w, t);
}

static int find_parent(const struct world *w, struct tenant *t,
                       struct err *err)
{
    const struct tenant *up;

    if (!t->parent_name)
        return 0;
    t->parent = world_tenant(w, t->parent_name);
    if (!t->parent)
        return bad_row(t->name, "the tenant above it is unknown", err);
    for (up = t->parent; up; up = up->parent)
        if (up == t)
            return bad_row(t->name, "a tenant above itself", err);
    free(take(t->parent_name));
    return 0;
}

int load_tenants_done(struct world *w, struct err *err)
{
    struct tenant *t;
    size_t pos = 0;
    int rc = 0;

    while (rc == 0 && (t = map_next(w->tenants, &pos, NULL)))
        rc = find_parent(w, t, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < w->nblocks; i++) {
        for (const struct lease *l = w->blocks[i]->leases; l;
             l = l->next_on_block) {
            if (l->off)
                continue;
            for (t = l->task->workload->tenant->parent; t; t = t->parent) {
                t->sum_milli += l->task->spec->gpu_milli;
                t->sum_price += l->price_micro;
            }
        }
    }
    pos = 0;
    while ((t = map_next(w->tenants, &pos, NULL)))
        tell_tenant(w, t);
    if (w->policy)
        bridge_policy(w);
    return 0;
}

/* ---- the meta table ---- */

static void get_shares(const json_t *j, struct plan_shares *ret)
{
    ret->used = json_get_u64(j, "used", 0);
    ret->idle_nodemand = json_get_u64(j, "idle_nodemand", 0);
    ret->idle_frag = json_get_u64(j, "idle_frag", 0);
    ret->waste = json_get_u64(j, "waste", 0);
}

static void load_kept(struct world *w, const json_t *body)
{
    const json_t *parts = json_object_get(body, "parts");
    struct kept_meter *k = &w->meter;

    kept_free(k);
    k->kept = true;
    k->at_ms = json_get_u64(body, "last_ms", 0);
    get_shares(body, &k->sum.devices);
    get_shares(json_object_get(body, "cpus"), &k->sum.cpus);
    k->sum.suspending = json_get_u64(body, "suspending", 0);
    k->nparts = (uint32_t) json_array_size(parts);
    k->parts = mem_array(k->nparts + 1u, sizeof(*k->parts));
    for (uint32_t i = 0; i < k->nparts; i++) {
        const json_t *one = json_array_get(parts, i);

        k->parts[i].pool = mem_str(json_get_str(one, "pool", ""));
        k->parts[i].model = mem_str(json_get_str(one, "model", ""));
        get_shares(one, &k->parts[i].shares);
    }
}

/* What the way here has summed up gives way to what the rows say. */
void load_meter_done(struct world *w)
{
    struct tenant *t;
    size_t pos = 0;

    plan_meter_load(w->plan, &w->meter.sum);
    for (uint32_t i = 0; i < w->meter.nparts; i++)
        (void) plan_meter_load_one(w->plan, w->meter.parts[i].pool,
                                   w->meter.parts[i].model,
                                   &w->meter.parts[i].shares);
    w->meter.kept = false;
    while ((t = map_next(w->tenants, &pos, NULL)))
        if (t->plan_tenant) {
            plan_tenant_load(w->plan, t->plan_tenant, t->usage, t->usage_ms);
            plan_tenant_waited_load(t->plan_tenant, &(struct plan_waited) {
                                    t->idle, t->idle_mark, t->waits });
        }
}

static bool all_text(const json_t *list)
{
    bool all = json_array_size(list) > 0;

    for (size_t i = 0; i < json_array_size(list); i++)
        all &= json_is_string(json_array_get(list, i));
    return all;
}

static int load_window(struct world *w, const char *name, const json_t *body,
                       struct err *err)
{
    const json_t *hidden = json_object_get(body, "_");
    json_t *nodes = json_object_get(body, "nodes");
    struct window *v;

    if (!spec_name_valid(name) || strlen(name) >= sizeof(v->name) ||
        map_get(w->windows, name) || !all_text(nodes))
        return bad_row(name, "a window that is there twice, or without nodes",
                       err);
    v = window_make(w, name);
    load_text(v->tenant, sizeof(v->tenant), body, "tenant");
    json_array_extend(v->nodes, nodes);
    v->from_ms = json_get_u64(hidden, "from_ms", 0);
    v->to_ms = json_get_u64(hidden, "to_ms", 0);
    if (v->to_ms <= v->from_ms)
        return bad_row(name, "a window that ends before it begins", err);
    return 0;
}

int load_windows_done(struct world *w, struct err *err)
{
    const struct window *v;
    size_t pos = 0;

    while ((v = map_next(w->windows, &pos, NULL)))
        if (v->tenant[0] && !world_tenant(w, v->tenant))
            return bad_row(v->name, "a window of a tenant that is not there",
                           err);
    bridge_windows(w);
    return 0;
}

static int load_policy(struct world *w, const json_t *body, struct err *err)
{
    json_t *document = json_object_get(body, "policy");
    struct policy policy;
    int rc = policy_from_json(document, &policy, err);

    if (rc < 0)
        return err_prefix(err, rc, "row 'policy'");
    w->policy = json_deep_copy(document);
    w->policy_version = json_get_u64(body, "version", 0);
    return 0;
}

static const char *after(const char *key, const char *prefix)
{
    size_t n = strlen(prefix);

    return strncmp(key, prefix, n) == 0 ? key + n : NULL;
}

int load_meta(struct world *w, const char *key, const json_t *body,
              struct err *err)
{
    const char *name;

    if (strcmp(key, "world") == 0) {
        w->epoch = json_get_u64(body, "epoch", 0);
        w->next_workload = json_get_u64(body, "next_workload", 1);
        w->dirty_meta = false;
        return 0;
    }
    if (strcmp(key, "meter") == 0) {
        load_kept(w, body);
        return 0;
    }
    if (strcmp(key, "promises") == 0) {
        json_decref(w->promises);
        w->promises = json_deep_copy(body);
        return 0;
    }
    if (strcmp(key, "policy") == 0)
        return load_policy(w, body, err);
    if ((name = after(key, "window/")))
        return load_window(w, name, body, err);
    if ((name = after(key, "pool/")))
        return load_pool(w, name, body, err);
    if ((name = after(key, "predict/")))
        return predict_load(plan_predict(w->plan), name, body, err);
    if ((name = after(key, "cost/")))
        return plan_cost_load(w->plan, name, body, err);
    return bad_row(key, "nothing of this name is known", err);
}
