#include "core/world_int.h"

#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

/* Rows that changed.  All are given first and marked clean only then, so that
 * a caller that fails half-way gets every one of them again.
 */
struct giving {
    world_row_f cb;
    void *arg;
};

static int give(const struct giving *g, struct world_row *row, json_t *body)
{
    autojson json_t *owned = body;
    autofree char *text = owned ? json_text(owned) : NULL;

    row->body = text;
    return g->cb(row, g->arg);
}

static int give_workload(const struct giving *g, struct workload *wl)
{
    struct world_row row = {
        .table = TABLE_WORKLOAD,
        .workload = wl->id,
        .live = wl->outcome == OUTCOME_NONE,
        .tenant = wl->tenant_name,
        .spec = wl->given ? NULL : wl->spec,
    };

    (void) snprintf(row.key, sizeof(row.key), "%" PRIu64, wl->id);
    return give(g, &row, view_workload(wl));
}

static int give_task(const struct giving *g, const struct task *t)
{
    struct world_row row = {
        .table = TABLE_TASK,
        .workload = t->workload->id,
        .task = t->index,
        .live = t->workload->outcome == OUTCOME_NONE,
    };

    (void) snprintf(row.key, sizeof(row.key), "%" PRIu64 "/%u",
                    t->workload->id, t->index);
    return give(g, &row, view_task(t));
}

static int give_named(const struct giving *g, enum world_table table,
                      const char *key, json_t *body)
{
    struct world_row row = { .table = table, .live = true };

    (void) snprintf(row.key, sizeof(row.key), "%s", key);
    return give(g, &row, body);
}

/* Rows of the meta table that are one of many have a path for a key. */
static int give_meta(const struct giving *g, const char *kind, const char *name,
                     json_t *body)
{
    autofree char *key = mem_printf("%s/%s", kind, name);

    return give_named(g, TABLE_META, key, body);
}

static int give_windows(const struct world *w, const struct giving *g)
{
    const struct window *v;
    size_t pos = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < json_array_size(w->windows_gone); i++) {
        const char *name = json_string_value(
            json_array_get(w->windows_gone, i));

        if (!map_get(w->windows, name))
            rc = give_meta(g, "window", name, NULL);
    }
    while (rc == 0 && (v = map_next(w->windows, &pos, NULL)))
        if (v->dirty)
            rc = give_meta(g, "window", v->name, view_window(v));
    return rc;
}

static int give_pools(const struct world *w, const struct giving *g)
{
    const struct pool *p;
    size_t pos = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < json_array_size(w->pools_gone); i++) {
        const char *name = json_string_value(json_array_get(w->pools_gone, i));

        if (!map_get(w->pools, name))
            rc = give_meta(g, "pool", name, NULL);
    }
    while (rc == 0 && (p = map_next(w->pools, &pos, NULL)))
        if (p->dirty)
            rc = give_meta(g, "pool", p->name, view_pool(p));
    return rc;
}

static int give_blocks(const struct world *w, const struct giving *g)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < json_array_size(w->blocks_gone); i++) {
        const char *id = json_string_value(json_array_get(w->blocks_gone, i));

        if (!world_block(w, id))
            rc = give_named(g, TABLE_BLOCK, id, NULL);
    }
    for (uint32_t i = 0; rc == 0 && i < w->nblocks; i++)
        if (w->blocks[i]->dirty)
            rc = give_named(g, TABLE_BLOCK, w->blocks[i]->id,
                            view_block(w->blocks[i]));
    return rc;
}

static int give_known(const char *key, const json_t *body, void *arg)
{
    return give_meta(arg, "predict", key, body ? json_incref(
                         (json_t *) (uintptr_t) body) : NULL);
}

static int give_cost(const char *model, const json_t *row, void *arg)
{
    return give_meta(arg, "cost", model,
                     json_incref((json_t *) (uintptr_t) row));
}

/* Waiting for devices, since its row was given. */
static bool began_or_ended(const struct tenant *t)
{
    struct plan_waited now = tenant_waited(t);

    return now.waits != t->waits || now.mark != t->idle_mark ||
           now.idle != t->idle;
}

static int give_pool(struct world *w, const struct giving *g)
{
    const struct tenant *tn;
    const struct token *tk;
    size_t pos = 0;
    int rc = 0;

    while (rc == 0 && (tn = map_next(w->tenants, &pos, NULL)))
        if (tn->dirty || began_or_ended(tn))
            rc = give_named(g, TABLE_TENANT, tn->name,
                            view_tenant_row(w, tn));
    if (rc == 0)
        rc = give_blocks(w, g);
    pos = 0;
    while (rc == 0 && (tk = map_next(w->tokens, &pos, NULL)))
        if (tk->dirty)
            rc = give_named(g, TABLE_TOKEN, tk->id, view_token_row(tk));
    if (rc == 0 && w->dirty_meta)
        rc = give_named(g, TABLE_META, "world", view_epoch(w));
    if (rc == 0 && w->dirty_meter)
        rc = give_named(g, TABLE_META, "meter", view_kept(w));
    if (rc == 0 && w->dirty_policy)
        rc = give_named(g, TABLE_META, "policy", view_policy(w));
    if (rc == 0 && w->promised != plan_promised(w->plan))
        rc = give_named(g, TABLE_META, "promises", promises_row(w));
    if (rc == 0 && w->dirty_costs)
        rc = plan_costs(w->plan, give_cost, (void *) (uintptr_t) g);
    if (rc == 0)
        rc = give_pools(w, g);
    return rc < 0 ? rc : give_windows(w, g);
}

static void all_clean(struct world *w)
{
    struct workload *wl;
    struct tenant *tn;
    struct token *tk;
    struct window *v;
    struct pool *p;
    struct task *t;
    size_t pos = 0;

    while ((tn = map_next(w->tenants, &pos, NULL))) {
        tn->dirty = false;
        tenant_keep_waited(tn);
    }
    pos = 0;
    while ((tk = map_next(w->tokens, &pos, NULL)))
        tk->dirty = false;
    for (uint32_t i = 0; i < w->nblocks; i++)
        w->blocks[i]->dirty = false;
    pos = 0;
    while ((v = map_next(w->windows, &pos, NULL)))
        v->dirty = false;
    pos = 0;
    while ((p = map_next(w->pools, &pos, NULL)))
        p->dirty = false;
    json_array_clear(w->windows_gone);
    json_array_clear(w->pools_gone);
    json_array_clear(w->blocks_gone);
    w->dirty_meta = w->dirty_meter = w->dirty_policy = false;
    w->dirty_costs = false;
    w->promised = plan_promised(w->plan);
    while ((t = w->dirty_tasks)) {
        w->dirty_tasks = t->dirty_next;
        t->dirty = false;
    }
    while ((wl = w->dirty_workloads)) {
        w->dirty_workloads = wl->dirty_next;
        wl->dirty = false;
        wl->given = true;
    }
    while ((wl = w->gone)) {
        w->gone = wl->next_gone;
        workload_free(wl);
    }
}

int world_rows(struct world *w, world_row_f cb, void *arg)
{
    struct giving g = { cb, arg };
    int rc;

    sets_sync(w);                      /* who waits is told to the plan */
    rc = give_pool(w, &g);
    for (struct workload *wl = w->dirty_workloads; rc == 0 && wl;
         wl = wl->dirty_next)
        rc = give_workload(&g, wl);
    for (struct task *t = w->dirty_tasks; rc == 0 && t; t = t->dirty_next)
        rc = give_task(&g, t);
    if (rc == 0)                       /* last: these are clean once given */
        rc = predict_rows(plan_predict(w->plan), give_known, &g);
    if (rc == 0)
        all_clean(w);
    return rc;
}
