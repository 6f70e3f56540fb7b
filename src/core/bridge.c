#include "core/world_int.h"

#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* What there is, told to the plan: a block is a node, a tenant a tenant, a
 * window a window.  The world's own tables stay the ones that count; whatever
 * is here can be told again from them.
 */
const struct policy *world_policy(const struct world *w)
{
    return plan_policy(w->plan);
}

uint64_t world_policy_version(const struct world *w)
{
    return w->policy_version;
}

struct predict *world_predict(const struct world *w)
{
    return plan_predict(w->plan);
}

uint64_t world_now(const struct world *w)
{
    return plan_now(w->plan);
}

/* ---- blocks ---- */

/* Beside its own labels, which have a "=", those of what it can do. */
static char **label_texts(const struct block *b, uint32_t *ret_n)
{
    char **texts = mem_array(json_object_size(b->labels) + 2, sizeof(*texts));
    const char *key;
    json_t *value;
    uint32_t n = 0;

    json_object_foreach(b->labels, key, value)
        texts[n++] = mem_printf("%s=%s", key, json_string_value(value));
    if (b->images)
        texts[n++] = mem_str(LABEL_IMAGES);
    if (!b->whole)
        texts[n++] = mem_str(LABEL_SHARES);
    *ret_n = n;
    return texts;
}

static void node_add(struct world *w, struct block *b)
{
    struct plan_node_spec spec = {
        .name = b->id, .pool = b->pool, .domain = b->domain,
        .cpu_milli = b->cpu_milli, .memory = b->memory,
        .ndevices = b->ndevices, .stages = b->stages,
        .suspends = b->suspends,
    };
    autofree struct plan_device *devices = mem_array(b->ndevices + 1u,
                                                     sizeof(*devices));
    autofree char **labels = label_texts(b, &spec.nlabels);

    for (uint32_t i = 0; i < b->ndevices; i++)
        devices[i] = (struct plan_device) { b->devices[i].model,
                                            b->devices[i].memory };
    spec.devices = devices;
    spec.labels = (const char *const *) labels;
    b->plan_node = plan_node_add(w->plan, &spec, b);
    for (uint32_t i = 0; i < spec.nlabels; i++)
        free(labels[i]);
    for (uint32_t i = 0; i < b->ndevices; i++)
        if (!device_open(&b->devices[i]))
            plan_device_open(w->plan, b->plan_node, i, false);
    bridge_open(w, b);
}

void bridge_open(struct world *w, struct block *b)
{
    if (b->plan_node)
        plan_node_open(w->plan, b->plan_node, block_open(b));
}

static void items_off(struct world *w, struct block *b)
{
    for (struct lease *l = b->leases; l; l = l->next_on_block)
        if (l->task->item) {
            item_keep(w, l->task);
            item_over(w, l->task, false);
        }
}

/* Its attempt goes on; the plan counts it from now. */
static void items_on(struct world *w, struct block *b)
{
    for (struct lease *l = b->leases; l; l = l->next_on_block) {
        struct task *t = l->task;

        if (t->item)
            continue;
        if (away_off(t)) {
            item_suspended(w, t);
            if (!t->in_line)
                plan_hold(w->plan, t->item, true);
            continue;
        }
        item_placed(t, w->time_ms);
        task_dirty(w, t);
        item_told(w, t);
        if (t->stopping || t->preempting || away_leaves(t))
            item_leaving(w, t);
    }
}

/* Windows hold nodes: they are told anew around it. */
void bridge_block(struct world *w, struct block *b)
{
    const struct window *v;
    size_t pos = 0;

    if (!b->plan_node) {
        node_add(w, b);
        bridge_windows(w);
        return;
    }
    while ((v = map_next(w->windows, &pos, NULL)))
        plan_window_remove(w->plan, v->name);
    items_off(w, b);
    block_unstage(w, b);
    plan_node_remove(w->plan, take(b->plan_node));
    node_add(w, b);
    items_on(w, b);
    bridge_windows(w);
}

/* ---- tenants ---- */

void bridge_tenant(struct world *w, struct tenant *t)
{
    struct plan_tenant_spec spec = {
        .name = t->name, .weight = t->weight,
        .parent = t->parent ? t->parent->plan_tenant : NULL,
        .quota_milli = t->quota_gpu_milli,
        .max_milli = t->max_gpu_milli == UINT32_MAX ? PLAN_UNLIMITED
                                                    : t->max_gpu_milli,
        .stopped = t->budget.over,
    };

    t->plan_tenant = plan_tenant_set(w->plan, &spec);
}

/* ---- windows ---- */

static bool window_names(const struct window *v, const char *node)
{
    for (size_t k = 0; k < json_array_size(v->nodes); k++)
        if (strcmp(json_string_value(json_array_get(v->nodes, k)), node) == 0)
            return true;
    return false;
}

/* Nothing is kept while none of its nodes is there. */
static void window_tell(struct world *w, const struct window *v)
{
    autofree struct plan_node **nodes = mem_array(w->nblocks + 1u,
                                                  sizeof(*nodes));
    const struct tenant *t = v->tenant[0] ? world_tenant(w, v->tenant) : NULL;
    struct plan_window pw = {
        .tenant = t ? t->plan_tenant : NULL,
        .from_ms = v->from_ms, .to_ms = v->to_ms, .nodes = nodes,
    };

    memcpy(pw.name, v->name, sizeof(pw.name));
    for (uint32_t i = 0; i < w->nblocks; i++)
        if (window_names(v, w->blocks[i]->node))
            nodes[pw.nnodes++] = w->blocks[i]->plan_node;
    if (pw.nnodes > 0) {
        int rc = plan_window_set(w->plan, &pw, NULL);

        assert(rc == 0);               /* check.c or load.c has looked */
        (void) rc;
    }
}

void bridge_windows(struct world *w)
{
    const struct window *v;
    size_t pos = 0;

    while ((v = map_next(w->windows, &pos, NULL))) {
        plan_window_remove(w->plan, v->name);
        window_tell(w, v);
    }
}

/* ---- policy ---- */

void bridge_policy(struct world *w)
{
    struct policy policy;
    int rc = policy_from_json(w->policy, &policy, NULL);

    assert(rc == 0);                   /* check.c has looked */
    (void) rc;
    plan_set_policy(w->plan, &policy);
}

/* ---- time ---- */

void kept_free(struct kept_meter *k)
{
    for (uint32_t i = 0; i < k->nparts; i++) {
        free(k->parts[i].pool);
        free(k->parts[i].model);
    }
    free(k->parts);
    memset(k, 0, sizeof(*k));
}

static void keep_part(const char *pool, const char *model,
                      const struct plan_shares *s, void *arg)
{
    struct kept_meter *k = arg;

    k->parts = mem_grow(k->parts, k->nparts + 1, sizeof(*k->parts));
    k->parts[k->nparts++] = (struct part_meter) { mem_str(pool),
                                                  mem_str(model), *s };
}

static int by_name(const void *a, const void *b)
{
    const struct part_meter *x = a, *y = b;
    int pool = strcmp(x->pool, y->pool);

    return pool ? pool : strcmp(x->model, y->model);
}

void meter_keep(struct world *w)
{
    if (w->meter.kept)
        return;
    kept_free(&w->meter);
    w->meter.kept = true;
    w->meter.at_ms = plan_now(w->plan);
    plan_meter(w->plan, &w->meter.sum);
    plan_meter_each(w->plan, keep_part, &w->meter);
    if (w->meter.nparts > 0)
        qsort(w->meter.parts, w->meter.nparts, sizeof(*w->meter.parts),
              by_name);
}

void bridge_time(struct world *w, uint64_t to_ms)
{
    if (to_ms <= plan_now(w->plan))
        return;
    meter_keep(w);
    plan_tick(w->plan, to_ms);
}
