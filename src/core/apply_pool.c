#include "core/world_int.h"

#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

/* Blocks, nodes, tenants and tokens: what their events change. */
static void copy_text(char *to, size_t size, const json_t *data,
                      const char *key)
{
    const char *text = json_get_str(data, key, "");

    assert(strlen(text) < size);       /* check.c has looked */
    memcpy(to, text, strlen(text) + 1);
}

static bool node_drained(const struct world *w, const struct block *of)
{
    for (uint32_t i = 0; i < w->nblocks; i++)
        if (w->blocks[i] != of && w->blocks[i]->drained &&
            strcmp(w->blocks[i]->node, of->node) == 0)
            return true;
    return false;
}

static void set_labels(struct block *b, const json_t *labels)
{
    json_decref(b->labels);
    b->labels = labels ? json_deep_copy(labels) : json_object();
}

void devices_free(struct block *b)
{
    for (uint32_t i = 0; i < b->ndevices; i++)
        remedy_free(&b->devices[i]);
    free(b->devices);
}

/* What is drained stays so, by number; what is ill, by UUID. */
static void set_devices(struct block *b, const json_t *devices)
{
    uint32_t n = (uint32_t) json_array_size(devices);
    struct device *list = mem_array(n + 1u, sizeof(*list));

    for (uint32_t i = 0; i < n; i++) {
        const json_t *d = json_array_get(devices, i);

        copy_text(list[i].model, sizeof(list[i].model), d, "model");
        copy_text(list[i].uuid, sizeof(list[i].uuid), d, "uuid");
        list[i].memory = json_get_u64(d, "memory", 0);
        list[i].lost = json_get_bool(d, "lost", false);
        list[i].simulated = b->simulated;
        list[i].drained = i < b->ndevices ? b->devices[i].drained
                                          : json_get_bool(d, "drained", false);
        list[i].free_milli = 1000;
        remedy_keep(&list[i], b, d);
    }
    devices_free(b);
    b->devices = list;
    b->ndevices = n;
}

/* The whole inventory anew; what leases hold stays held. */
void block_set_inventory(struct block *b, const json_t *data)
{
    uint64_t cpu_held = b->cpu_milli - b->cpu_free;
    uint64_t memory_held = b->memory - b->memory_free;

    copy_text(b->pool, sizeof(b->pool), data, "pool");
    copy_text(b->engine, sizeof(b->engine), data, "engine");
    copy_text(b->node, sizeof(b->node), data, "node");
    copy_text(b->limits, sizeof(b->limits), data, "limits");
    copy_text(b->domain, sizeof(b->domain), data, "domain");
    set_labels(b, json_object_get(data, "labels"));
    b->simulated = json_get_bool(data, "simulated", false);
    b->stages = json_get_bool(data, "stages", false);
    b->suspends = json_get_bool(data, "suspends", false);
    b->images = json_get_bool(data, "images", false);
    b->whole = json_get_bool(data, "whole", false);
    b->cpu_milli = json_get_u64(data, "cpus_milli", 0);
    b->cpu_free = b->cpu_milli - cpu_held;
    b->memory = json_get_u64(data, "memory", 0);
    b->memory_free = b->memory - memory_held;
    set_devices(b, json_object_get(data, "devices"));
    for (const struct lease *l = b->leases; l; l = l->next_on_block)
        for (uint32_t i = 0; i < l->grant.ndevices && !l->off; i++)
            b->devices[l->grant.device[i]].free_milli -= l->grant.milli;
}

/* Is it what the block has already?  As a rule a runner that comes back brings
 * what it had, and then nothing moves.
 */
static bool same_inventory(const struct block *b, const json_t *data)
{
    const json_t *devices = json_object_get(data, "devices");
    const json_t *labels = json_object_get(data, "labels");

    if (!b->plan_node || b->ndevices != json_array_size(devices) ||
        b->cpu_milli != json_get_u64(data, "cpus_milli", 0) ||
        b->memory != json_get_u64(data, "memory", 0) ||
        b->stages != json_get_bool(data, "stages", false) ||
        b->suspends != json_get_bool(data, "suspends", false) ||
        b->images != json_get_bool(data, "images", false) ||
        b->whole != json_get_bool(data, "whole", false) ||
        strcmp(b->pool, json_get_str(data, "pool", "")) != 0 ||
        strcmp(b->domain, json_get_str(data, "domain", "")) != 0 ||
        !(labels ? json_equal(b->labels, labels)
                 : json_object_size(b->labels) == 0))
        return false;
    for (uint32_t i = 0; i < b->ndevices; i++) {
        const json_t *d = json_array_get(devices, i);

        if (strcmp(b->devices[i].model, json_get_str(d, "model", "")) != 0 ||
            strcmp(b->devices[i].uuid, json_get_str(d, "uuid", "")) != 0 ||
            b->devices[i].lost != json_get_bool(d, "lost", false) ||
            b->devices[i].memory != json_get_u64(d, "memory", 0))
            return false;
    }
    return true;
}

static bool has_devices(const struct lease *l)
{
    for (uint32_t i = 0; i < l->grant.ndevices; i++)
        if (l->grant.device[i] >= l->block->ndevices ||
            !device_matches(&l->block->devices[l->grant.device[i]],
                            l->task->spec))
            return false;
    return true;
}

/* Nobody is told any more on which devices the suspended were, where those are
 * gone.
 */
static void forget_devices(struct world *w, struct block *b)
{
    for (struct lease *l = b->leases; l; l = l->next_on_block)
        if (l->off && !has_devices(l)) {
            l->grant.ndevices = 0;
            l->grant.milli = 0;
            task_dirty(w, l->task);
        }
}

void apply_block_up(struct world *w, struct event *e)
{
    struct block *b = world_block(w, e->block);
    bool fresh = !b, same;

    if (fresh)
        b = block_make(w, e->block);
    if (!b->up)
        b->up_ms = e->time_ms;
    same = same_inventory(b, e->data) &&
           strcmp(b->node, json_get_str(e->data, "node", "")) == 0;
    block_set_inventory(b, e->data);
    forget_devices(w, b);
    b->shut = false;
    b->barred = pool_bars(w, b->pool);
    block_set_open(w, b, true, fresh ? node_drained(w, b) : b->drained);
    if (!same)
        bridge_block(w, b);
    remedy_look(w, b);
}

void apply_block_lost(struct world *w, struct event *e)
{
    struct block *b = world_block(w, e->block);

    block_unstage(w, b);
    b->shut = false;
    block_set_open(w, b, false, b->drained);
    for (struct lease *l = b->leases; l; l = l->next_on_block)
        lease_lose(w, l);
}

void apply_block_shut(struct world *w, struct event *e)
{
    struct block *b = world_block(w, e->block);

    b->shut = true;
    block_set_open(w, b, b->up, b->drained);
}

void apply_drain(struct world *w, struct event *e)
{
    for (uint32_t i = 0; i < w->nblocks; i++)
        if (strcmp(w->blocks[i]->node, e->node) == 0)
            block_set_open(w, w->blocks[i], w->blocks[i]->up,
                           e->type == EVENT_NODE_DRAINED);
}

struct block *node_device(const struct world *w, const char *node,
                          uint32_t number, uint32_t *ret_device)
{
    for (uint32_t i = 0; i < w->nblocks; i++) {
        if (strcmp(w->blocks[i]->node, node) != 0)
            continue;
        if (number < w->blocks[i]->ndevices) {
            *ret_device = number;
            return w->blocks[i];
        }
        number -= w->blocks[i]->ndevices;
    }
    return NULL;
}

void apply_device_drain(struct world *w, struct event *e)
{
    uint32_t device = 0;
    struct block *b = node_device(w, e->node, e->device, &device);

    assert(b);                         /* check.c has looked */
    b->devices[device].drained = e->type == EVENT_DEVICE_DRAINED;
    b->dirty = true;
    plan_device_open(w->plan, b->plan_node, device,
                     device_open(&b->devices[device]));
}

/* ---- tenants ---- */

/* What it holds counts for those above, old and new. */
static void tenant_set_parent(struct world *w, struct tenant *t, const char *name)
{
    struct tenant *parent = name[0] ? tenant_find(w, name) : NULL;
    int64_t milli = (int64_t) t->sum_milli, price = (int64_t) t->sum_price;

    if (t->parent == parent)
        return;
    tenant_hold(w, t->parent, -milli, -price);
    t->parent = parent;
    tenant_hold(w, t->parent, milli, price);
}

/* What was spent in this period stays spent when only the amount changes. */
void tenant_set_budget(struct tenant *t, const json_t *budget)
{
    const char *unit = json_get_str(budget, "unit", "");
    struct budget b = {
        .amount = json_get_u64(budget, "amount_micro", 0),
        .period_ms = json_get_u64(budget, "period_ms", 0),
        .unit = strcmp(unit, budget_unit_name(BUDGET_MONEY)) == 0
              ? BUDGET_MONEY : BUDGET_GPU_HOURS,
    };

    if (b.unit == t->budget.unit && b.period_ms == t->budget.period_ms) {
        b.spent = t->budget.spent;
        b.mark_ms = t->budget.mark_ms;
    }
    b.over = t->budget.over;
    t->budget = b;
}

static void count_budgets(struct world *w)
{
    const struct tenant *t;
    size_t pos = 0;

    w->nbudgets = 0;
    while ((t = map_next(w->tenants, &pos, NULL)))
        w->nbudgets += t->budget.period_ms != 0 || t->budget.over;
    w->budget_due_ms = 0;
}

static void set_members(struct tenant *t, const json_t *data)
{
    json_t *members = json_object_get(data, "members");
    const char *note = json_get_str(data, "note", NULL);

    if (members) {
        json_decref(t->members);
        t->members = json_deep_copy(members);
    }
    if (note) {
        free(t->note);
        t->note = mem_str(note);
    }
}

static void set_idle(struct tenant *t, const json_t *data)
{
    const json_t *p = json_object_get(data, "interactive_priority");

    t->idle_grace_ms = json_get_u64(data, "idle_grace_ms", t->idle_grace_ms);
    if (!p)
        return;
    t->has_interactive = json_is_integer(p);
    t->interactive = (int16_t) json_integer_value(p);
}

/* What the event does not name stays as it was. */
void apply_tenant_set(struct world *w, struct event *e)
{
    struct tenant *t = tenant_find(w, e->tenant);
    const json_t *max = json_object_get(e->data, "max_gpus_milli");
    const json_t *budget = json_object_get(e->data, "budget");

    if (!t) {
        t = tenant_make(w, e->tenant);
        t->created_ms = e->time_ms;
    }
    t->removed = false;
    t->dirty = true;
    if (max)
        t->max_gpu_milli = json_is_integer(max)
                         ? (uint32_t) json_integer_value(max) : UINT32_MAX;
    t->weight = (uint32_t) json_get_u64(e->data, "weight", t->weight);
    t->quota_gpu_milli = (uint32_t) json_get_u64(e->data, "quota_gpus_milli",
                                                 t->quota_gpu_milli);
    set_members(t, e->data);
    set_idle(t, e->data);
    if (json_object_get(e->data, "parent"))
        tenant_set_parent(w, t, json_get_str(e->data, "parent", ""));
    if (budget) {
        t->budget.spent = budget_spent(t, e->time_ms);
        t->budget.mark_ms = e->time_ms;
        tenant_set_budget(t, budget);
        t->budget.mark_ms = e->time_ms;
    }
    count_budgets(w);
    bridge_tenant(w, t);
}

void apply_tenant_removed(struct world *w, struct event *e)
{
    struct tenant *t = tenant_find(w, e->tenant);

    tenant_set_parent(w, t, "");
    t->removed = true;
    t->dirty = true;
    memset(&t->budget, 0, sizeof(t->budget));
    t->quota_gpu_milli = 0;
    t->idle_grace_ms = 0;
    t->has_interactive = false;
    tenant_keep_waited(t);
    plan_tenant_remove(w->plan, take(t->plan_tenant));
    count_budgets(w);
}

/* ---- windows, policy ---- */

struct window *window_make(struct world *w, const char *name)
{
    struct window *v = map_get(w->windows, name);

    if (v)
        return v;
    v = mem_new(sizeof(*v));
    assert(strlen(name) < sizeof(v->name));
    memcpy(v->name, name, strlen(name) + 1);
    v->nodes = json_array();
    map_set(w->windows, name, v);
    return v;
}

void window_free(struct window *v)
{
    json_decref(v->nodes);
    free(v);
}

void apply_window_set(struct world *w, struct event *e)
{
    struct window *v = window_make(w, json_get_str(e->data, "name", ""));

    copy_text(v->tenant, sizeof(v->tenant), e->data, "tenant");
    json_decref(v->nodes);
    v->nodes = json_deep_copy(json_object_get(e->data, "nodes"));
    v->from_ms = json_get_u64(e->data, "from_ms", 0);
    v->to_ms = json_get_u64(e->data, "to_ms", 0);
    v->dirty = true;
    bridge_windows(w);
}

void apply_window_removed(struct world *w, struct event *e)
{
    struct window *v = map_del(w->windows, json_get_str(e->data, "name", ""));

    plan_window_remove(w->plan, v->name);
    json_array_append_new(w->windows_gone, json_string(v->name));
    window_free(v);
}

void apply_policy_set(struct world *w, struct event *e)
{
    json_decref(w->policy);
    w->policy = json_deep_copy(json_object_get(e->data, "policy"));
    w->policy_version = json_get_u64(e->data, "version", 0);
    w->dirty_policy = true;
    bridge_policy(w);
    levels_policy(w);
}

/* ---- tokens ---- */

void apply_token_created(struct world *w, struct event *e)
{
    struct token *t = token_make(w, e->token);

    copy_text(t->name, sizeof(t->name), e->data, "name");
    copy_text(t->role, sizeof(t->role), e->data, "role");
    copy_text(t->hash, sizeof(t->hash), e->data, "hash");
    memcpy(t->tenant, e->tenant, sizeof(t->tenant));
    t->user = e->user;
    t->created_ms = e->time_ms;
    t->expires_ms = json_get_u64(e->data, "expires_ms", 0);
    t->dirty = true;
}

void apply_token_revoked(struct world *w, struct event *e)
{
    struct token *t = world_token(w, e->token);

    t->revoked = true;
    t->dirty = true;
}
