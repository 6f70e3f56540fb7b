#include "core/world_int.h"

#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Pools: those that were added (pool.set) have an engine and what to tell it;
 * one that was not, the control plane's own, is only known by its blocks, and
 * has a row as long as it is drained.
 *
 * A pool that is drained, or is looked at only (`observe`), shuts its blocks:
 * each of them knows it (block.barred), so that who asks whether a block is
 * open need not look here.
 */
enum {
    CONF_KEYS = 64,
    CONF_BYTES = 4096,                 /* of a value */
    NOTE_BYTES = 1024,
};

struct pool *world_pool(const struct world *w, const char *name)
{
    return map_get(w->pools, name);
}

struct pool *world_next_pool(const struct world *w, size_t *pos)
{
    return map_next(w->pools, pos, NULL);
}

static struct pool *pool_make(struct world *w, const char *name)
{
    struct pool *p = world_pool(w, name);

    if (p)
        return p;
    p = mem_new(sizeof(*p));
    assert(strlen(name) < sizeof(p->name));
    memcpy(p->name, name, strlen(name) + 1);
    p->conf = json_object();
    p->note = mem_str("");
    map_set(w->pools, p->name, p);
    return p;
}

void pool_drop(struct pool *p)
{
    json_decref(p->conf);
    free(p->note);
    free(p);
}

static void pool_forget(struct world *w, struct pool *p)
{
    json_array_append_new(w->pools_gone, json_string(p->name));
    map_del(w->pools, p->name);
    pool_drop(p);
}

bool pool_bars(const struct world *w, const char *name)
{
    const struct pool *p = world_pool(w, name);

    return p && (p->drained || p->observe);
}

/* Its blocks are as the pool says now. */
static void pool_tell(struct world *w, const char *name)
{
    bool bars = pool_bars(w, name);

    for (uint32_t i = 0; i < w->nblocks; i++) {
        struct block *b = w->blocks[i];

        if (strcmp(b->pool, name) != 0 || b->barred == bars)
            continue;
        b->barred = bars;
        bridge_open(w, b);
    }
}

static const struct block *block_of(const struct world *w, const char *pool)
{
    for (uint32_t i = 0; i < w->nblocks; i++)
        if (strcmp(w->blocks[i]->pool, pool) == 0)
            return w->blocks[i];
    return NULL;
}

/* ---- may it happen? ---- */

static int check_conf(const char *name, const json_t *conf, struct err *err)
{
    const char *key;
    json_t *value;

    if (conf && !json_is_object(conf))
        return err_set(err, EINVAL, "pool '%s': conf is not {key: text}", name);
    if (json_object_size(conf) > CONF_KEYS)
        return err_set(err, EINVAL, "pool '%s': conf has more than %d keys",
                       name, CONF_KEYS);
    json_object_foreach((json_t *) (uintptr_t) conf, key, value)
        if (!spec_name_valid(key) || !json_is_string(value) ||
            json_string_length(value) > CONF_BYTES)
            return err_set(err, EINVAL, "pool '%s': conf: '%.64s' is not a "
                           "text of at most %d bytes", name, key, CONF_BYTES);
    return 0;
}

int pool_name_check(const char *name, struct err *err)
{
    if (spec_name_valid(name) && strlen(name) <= POOL_NAME_MAX)
        return 0;
    return err_set(err, EINVAL, "'%.80s' cannot be the name of a pool: "
                   "letters, digits and _.- with a letter or digit first, at "
                   "most %d", name, POOL_NAME_MAX);
}

static int check_set(const struct world *w, const char *name,
                     const struct event *e, struct err *err)
{
    const struct pool *p = world_pool(w, name);
    const char *engine = json_get_str(e->data, "engine", "");

    if (!spec_name_valid(engine) || strlen(engine) >= sizeof(p->engine))
        return err_set(err, EINVAL, "pool '%s': '%.40s' cannot be the name of "
                       "an engine", name, engine);
    if (strlen(json_get_str(e->data, "note", "")) > NOTE_BYTES)
        return err_set(err, EINVAL, "pool '%s': its note has more than %d "
                       "bytes", name, NOTE_BYTES);
    if ((!p || !p->set) && block_of(w, name))
        return err_set(err, EEXIST, "the pool '%s' is this control plane's "
                       "own: choose another name", name);
    if (p && p->set && strcmp(p->engine, engine) != 0)
        return err_set(err, EBUSY, "the pool '%s' has the engine %s; to give "
                       "it another, remove it first", name, p->engine);
    return check_conf(name, json_object_get(e->data, "conf"), err);
}

int check_pool_set(const struct world *w, const struct event *e,
                   struct err *err)
{
    const char *name = json_get_str(e->data, "name", "");
    int rc = want_data(e, err);

    if (rc == 0)
        rc = pool_name_check(name, err);
    return rc < 0 ? rc : check_set(w, name, e, err);
}

/* Leases of living attempts that are, or were, on a block of the pool: what has
 * ended is known by its block until the whole attempt is over.
 */
static uint64_t attempt_leases(const struct task *t, const char *pool)
{
    uint64_t n = 0;

    for (uint32_t i = 0; t->leases && i < t->ranks; i++)
        n += strcmp(t->leases[i].block->pool, pool) == 0;
    return n;
}

uint64_t world_pool_leases(const struct world *w, const char *pool)
{
    const struct workload *wl;
    uint64_t n = 0;
    size_t pos = 0;

    while ((wl = map_next(w->workloads, &pos, NULL)))
        for (uint32_t i = 0; i < wl->spec->ntasks; i++)
            n += attempt_leases(&wl->tasks[i], pool);
    return n;
}

int check_pool_removed(const struct world *w, const struct event *e,
                       struct err *err)
{
    const char *name = json_get_str(e->data, "name", "");
    const struct pool *p = world_pool(w, name);
    uint64_t leases;
    int rc = want_data(e, err);

    if (rc < 0)
        return rc;
    if (!p || !p->set)
        return err_set(err, ENOENT, "there is no pool '%.80s' that was added",
                       name);
    leases = world_pool_leases(w, name);
    if (leases > 0)
        return err_set(err, EBUSY, "pool '%s' has %" PRIu64 " lease%s: drain "
                       "it, and remove it when they have ended", name, leases,
                       leases == 1 ? "" : "s");
    return 0;
}

int check_pool_drain(const struct world *w, const struct event *e,
                     struct err *err)
{
    const char *name = json_get_str(e->data, "name", "");
    const struct pool *p = world_pool(w, name);
    bool drain = e->type == EVENT_POOL_DRAINED;
    int rc = want_data(e, err);

    if (rc < 0)
        return rc;
    if (!p && !block_of(w, name))
        return err_set(err, ENOENT, "there is no pool '%.80s'", name);
    if (drain == (p && p->drained))
        return err_set(err, ESTALE, "pool '%s' is %s already", name,
                       drain ? "drained" : "not drained");
    return 0;
}

/* ---- what it changes ---- */

/* What the event does not name is as in a new pool. */
void apply_pool_set(struct world *w, struct event *e)
{
    const char *name = json_get_str(e->data, "name", "");
    const char *engine = json_get_str(e->data, "engine", "");
    json_t *conf = json_object_get(e->data, "conf");
    struct pool *p = pool_make(w, name);

    if (!p->set)
        p->created_ms = e->time_ms;
    p->set = p->dirty = true;
    memcpy(p->engine, engine, strlen(engine) + 1);
    p->observe = json_get_bool(e->data, "observe", false);
    json_decref(p->conf);
    p->conf = conf ? json_deep_copy(conf) : json_object();
    free(p->note);
    p->note = mem_str(json_get_str(e->data, "note", ""));
    pool_tell(w, name);
}

static void block_forget(struct world *w, struct block *b)
{
    uint32_t at = 0;

    block_unstage(w, b);
    plan_node_remove(w->plan, take(b->plan_node));
    json_array_append_new(w->blocks_gone, json_string(b->id));
    while (w->blocks[at] != b)
        at++;
    w->nblocks--;
    memmove(w->blocks + at, w->blocks + at + 1,
            (w->nblocks - at) * sizeof(*w->blocks));
    map_del(w->block_ids, b->id);
    block_free(b);
}

/* Windows hold nodes: they are told anew around it. */
void apply_pool_removed(struct world *w, struct event *e)
{
    struct pool *p = world_pool(w, json_get_str(e->data, "name", ""));
    const struct window *v;
    size_t pos = 0;

    while ((v = map_next(w->windows, &pos, NULL)))
        plan_window_remove(w->plan, v->name);
    for (uint32_t i = w->nblocks; i-- > 0;)
        if (strcmp(w->blocks[i]->pool, p->name) == 0)
            block_forget(w, w->blocks[i]);
    bridge_windows(w);
    pool_forget(w, p);
}

void apply_pool_drain(struct world *w, struct event *e)
{
    const char *name = json_get_str(e->data, "name", "");
    struct pool *p = pool_make(w, name);

    p->drained = e->type == EVENT_POOL_DRAINED;
    p->dirty = true;
    pool_tell(w, name);
    if (!p->set && !p->drained)
        pool_forget(w, p);
}

/* ---- its row ---- */

json_t *view_pool(const struct pool *p)
{
    json_t *j = json_object(), *hidden = json_object();

    json_put_str(j, "name", p->name);
    if (p->set) {
        json_put_str(j, "engine", p->engine);
        json_put(j, "conf", json_deep_copy(p->conf));
        json_put_str(j, "note", p->note);
        view_time(j, "created", p->created_ms);
        json_put_u64(hidden, "created_ms", p->created_ms);
    }
    view_flag(j, "observe", p->observe);
    view_flag(j, "drained", p->drained);
    json_put(j, "_", hidden);
    return j;
}

int load_pool(struct world *w, const char *name, const json_t *body,
              struct err *err)
{
    const char *engine = json_get_str(body, "engine", "");
    json_t *conf = json_object_get(body, "conf");
    struct pool *p;

    if (!name[0] || strlen(name) >= sizeof(p->name) || world_pool(w, name) ||
        strlen(engine) >= sizeof(p->engine))
        return bad_row(name, "a pool that is there twice, or cannot be", err);
    if (check_conf(name, conf, err) < 0)
        return -EINVAL;
    p = pool_make(w, name);
    p->set = engine[0] != '\0';
    memcpy(p->engine, engine, strlen(engine) + 1);
    if (conf) {
        json_decref(p->conf);
        p->conf = json_deep_copy(conf);
    }
    free(p->note);
    p->note = mem_str(json_get_str(body, "note", ""));
    p->observe = json_get_bool(body, "observe", false);
    p->drained = json_get_bool(body, "drained", false);
    p->created_ms = json_get_u64(json_object_get(body, "_"), "created_ms", 0);
    return 0;
}

void load_pools_done(struct world *w)
{
    const struct pool *p;
    size_t pos = 0;

    while ((p = world_next_pool(w, &pos)))
        pool_tell(w, p->name);
}
