#include "core/world_int.h"

#include "base/json.h"
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

/* The whole inventory anew; what leases hold stays held. */
void block_set_inventory(struct block *b, const json_t *data)
{
    const json_t *devices = json_object_get(data, "devices");
    uint64_t cpu_held = b->cpu_milli - b->cpu_free;
    uint64_t memory_held = b->memory - b->memory_free;

    copy_text(b->pool, sizeof(b->pool), data, "pool");
    copy_text(b->engine, sizeof(b->engine), data, "engine");
    copy_text(b->node, sizeof(b->node), data, "node");
    copy_text(b->limits, sizeof(b->limits), data, "limits");
    b->simulated = json_get_bool(data, "simulated", false);
    b->cpu_milli = json_get_u64(data, "cpus_milli", 0);
    b->cpu_free = b->cpu_milli - cpu_held;
    b->memory = json_get_u64(data, "memory", 0);
    b->memory_free = b->memory - memory_held;
    b->ndevices = (uint32_t) json_array_size(devices);
    free(b->devices);
    b->devices = mem_array(b->ndevices + 1u, sizeof(*b->devices));
    for (uint32_t i = 0; i < b->ndevices; i++) {
        const json_t *d = json_array_get(devices, i);

        copy_text(b->devices[i].model, sizeof(b->devices[i].model), d, "model");
        b->devices[i].memory = json_get_u64(d, "memory", 0);
        b->devices[i].simulated = b->simulated;
        b->devices[i].free_milli = 1000;
    }
    for (const struct lease *l = b->leases; l; l = l->next_on_block)
        for (uint32_t i = 0; i < l->grant.ndevices; i++)
            b->devices[l->grant.device[i]].free_milli -= l->grant.milli;
}

void apply_block_up(struct world *w, struct event *e)
{
    struct block *b = world_block(w, e->block);
    bool fresh = !b;

    if (fresh)
        b = block_make(w, e->block);
    if (!b->up)
        b->up_ms = e->time_ms;
    block_set_open(w, b, false, b->drained);
    block_set_inventory(b, e->data);
    block_set_open(w, b, true, fresh ? node_drained(w, b) : b->drained);
}

void apply_block_lost(struct world *w, struct event *e)
{
    struct block *b = world_block(w, e->block);

    block_set_open(w, b, false, b->drained);
    for (struct lease *l = b->leases; l; l = l->next_on_block)
        lease_lose(w, l);
}

void apply_drain(struct world *w, struct event *e)
{
    for (uint32_t i = 0; i < w->nblocks; i++)
        if (strcmp(w->blocks[i]->node, e->node) == 0)
            block_set_open(w, w->blocks[i], w->blocks[i]->up,
                           e->type == EVENT_NODE_DRAINED);
}

/* What the event does not name stays as it was. */
void apply_tenant_set(struct world *w, struct event *e)
{
    struct tenant *t = tenant_find(w, e->tenant);
    const json_t *max = json_object_get(e->data, "max_gpus_milli");
    json_t *members = json_object_get(e->data, "members");
    const char *note = json_get_str(e->data, "note", NULL);

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
    if (members) {
        json_decref(t->members);
        t->members = json_deep_copy(members);
    }
    if (note) {
        free(t->note);
        t->note = mem_str(note);
    }
    plan_wake(w);
}

void apply_tenant_removed(struct world *w, struct event *e)
{
    struct tenant *t = tenant_find(w, e->tenant);

    t->removed = true;
    t->dirty = true;
}

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
