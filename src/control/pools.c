#include "control/apart.h"
#include "control/guests.h"

#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "control/outside.h"
#include "engine/engine.h"
#include "engine/home.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Pools and their engines.
 *
 * The control plane's own pool follows from its flags: it is there from the
 * start to the end, and its block is CONTROL_BLOCK whatever it is called.  The
 * others are the world's: what a pool.set or pool.removed wants is done once it
 * is durable, and done again after a restart (the engine's calls are
 * repeatable).  The block of such a pool has its name; of many blocks each is
 * "POOL/NODE".  An engine that is told of another's block is not believed.
 *
 * An engine that cannot be opened does no harm to others: its pool is there,
 * with the reason, until it is set anew or the control plane starts again.
 *
 * The engine of a removed pool gives its blocks back and is closed LINGER_MS
 * later, or when a pool of that name is added again.  Its folder stays, for the
 * logs of what ran there.
 */
enum { LINGER_MS = 5000 };

static void on_trouble(const char *text, void *arg)
{
    const struct reached *r = arg;

    log_say(LOG_WARN, text, "pool", r->name, NULL);
}

/* Where nothing is to start any more, what runs still runs to its end. */
static bool is_wanted(const struct reached *r, const char *block)
{
    const struct block *b = world_block(r->c->world, block);

    return !r->observe || (b && b->leases);
}

/* Everything that there is to get. */
static int take_all(struct reached *r, struct err *err)
{
    autojson json_t *all = NULL;
    const json_t *nodes;
    int rc = 0;

    if (r->observe && r->ops->observed)
        return 0;
    all = r->ops->inventory(r->engine);
    nodes = json_object_get(all, "nodes");
    for (size_t i = 0; i < json_array_size(nodes) && rc == 0; i++) {
        const char *block = json_get_str(json_array_get(nodes, i), "block",
                                         "");

        if (is_wanted(r, block))
            rc = r->ops->get(r->engine, block, err);
    }
    return rc;
}

static bool is_named(const json_t *list, const char *id)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const char *name = json_is_string(one) ? json_string_value(one)
                                               : json_get_str(one, "block",
                                                              "");

        if (strcmp(name, id) == 0)
            return true;
    }
    return false;
}

/* An engine that was told something else may not have what it had: a block that
 * it neither has nor ever made is gone, and what ran there with it.  To be asked
 * once it can be reached, as it may not know before.
 */
static void lose_missing(struct reached *r)
{
    autojson json_t *all = r->ops->inventory(r->engine);
    autojson json_t *made = r->ops->apart ? NULL : r->ops->find(r->engine);
    struct block *b;
    size_t pos = 0;

    while ((b = world_next_block(r->c->world, &pos)))
        if (b->up && b->shut && strcmp(b->pool, r->name) == 0 &&
            !is_named(json_object_get(all, "nodes"), b->id) &&
            !is_named(made, b->id))
            blocks_missing(r->c, b->id);
}

static void on_changed(void *arg)
{
    struct reached *r = arg;
    struct err err = { 0 };

    if (r->close)
        return;
    if (take_all(r, &err) < 0)
        on_trouble(err.text, r);
    if (r->reachable)
        apart_sweep(r);
}

static void on_state(bool reachable, const char *why, void *arg)
{
    struct reached *r = arg;

    if (r->said && r->reachable == reachable && strcmp(r->why, why) == 0)
        return;
    if (!reachable)
        log_say(LOG_WARN, "a pool cannot be reached", "pool", r->name, "why",
                why, NULL);
    else if (r->said)
        log_say(LOG_INFO, "a pool can be reached again", "pool", r->name, NULL);
    r->said = true;
    r->reachable = reachable;
    (void) snprintf(r->why, sizeof r->why, "%s", why);
    if (r->close)
        return;
    blocks_look(r->c);
    if (reachable && !r->own && r->engine)
        lose_missing(r);
    if (reachable)
        apart_sweep(r);
}

static char *runner_path(const struct control *c)
{
    char self[4096];
    char *slash;
    ssize_t n;

    if (c->conf->runner)
        return mem_str(c->conf->runner);
    n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return mem_str("weir-runner");
    self[n] = '\0';
    slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    return mem_printf("%s/weir-runner", self);
}

static const struct engine_events events = {
    .block_up = blocks_up,
    .block_lost = blocks_lost,
    .changed = on_changed,
    .state = on_state,
    .trouble = on_trouble,
    .lease_over = apart_over,
    .guest = guests_came,
    .guest_gone = guests_gone,
    .guests_told = guests_told,
    .lease_begun = apart_begun,
};

static int engine_start(struct reached *r, struct err *err)
{
    const struct control *c = r->c;
    autofree char *base = mem_printf("%s/engine", c->conf->state_dir);
    autofree char *dir = r->own ? mem_str(base)
                                : mem_printf("%s/%s", base, r->name);
    autofree char *home = mem_printf("%s/home.sock", c->conf->state_dir);
    autofree char *runner = runner_path(c);
    struct engine_conf conf = {
        .pool = r->name,
        .block = r->own ? CONTROL_BLOCK : r->name,
        .state_dir = dir,
        .home = home,
        .runner = runner,
        .conf = r->conf,
        .observe = r->observe,
        .log_bytes = c->conf->log_bytes,
        .runners_url = outside_url(c),
        .runners_ca = outside_ca(c),
        .instance = c->instance,
    };
    int rc = r->own ? 0 : fs_mkdir(base, 0700, err);

    if (rc == 0)
        rc = r->ops->open(c->loop, &conf, &events, r, &r->engine, err);
    return rc < 0 ? rc : take_all(r, err);
}

static void engine_stop(struct reached *r)
{
    observe_leave(r->c, r);
    if (r->engine)
        r->ops->close(take(r->engine));
    guests_forget(r->c, r);
    r->said = r->reachable = false;
    r->why[0] = '\0';
}

static void reached_free(struct reached *r)
{
    watch_remove(r->close);
    engine_stop(r);
    json_decref(r->conf);
    free(r);
}

static struct reached *reached_new(struct control *c, const char *name)
{
    struct reached *r = mem_new(sizeof *r);

    r->c = c;
    (void) snprintf(r->name, sizeof r->name, "%s", name);
    (void) map_set(c->pools, r->name, r);
    return r;
}

/* ---- pools that were added ---- */

static void on_close(struct watch *w, void *arg)
{
    struct reached *r = arg;

    (void) w;
    r->close = NULL;
    (void) map_del(r->c->leaving, r->name);
    reached_free(r);
}

/* Nothing runs there any more: its blocks are let go. */
static void pool_leave(struct control *c, struct reached *r)
{
    struct wire_msg quit = { .kind = WIRE_QUIT };
    struct err err = { 0 };
    const struct heard *t;
    const char *id;
    size_t pos = 0;

    while ((t = map_next(c->blocks, &pos, &id))) {
        if (t->of != r)
            continue;
        if (r->ops->give(r->engine, id, &err) < 0)
            on_trouble(err.text, r);
        if (c->home)
            (void) home_send(c->home, id, &quit, NULL);
    }
    guests_leave(c, r);
    blocks_forget(c, r);
    (void) map_del(c->pools, r->name);
    (void) map_set(c->leaving, r->name, r);
    r->close = loop_timer(c->loop, LINGER_MS, on_close, r);
}

/* As the world says. */
static void pool_start(struct control *c, const struct pool *p)
{
    struct reached *r = map_get(c->leaving, p->name);
    struct err err = { 0 };
    int rc;

    if (r)
        on_close(NULL, r);
    r = map_get(c->pools, p->name);
    if (r && r->own) {                 /* pools_open and pools_check see to it */
        log_say(LOG_ERROR, "a pool has the name of our own", "pool", r->name,
                NULL);
        return;
    }
    if (!r)
        r = reached_new(c, p->name);
    else
        blocks_doubt(c, p->name);
    blocks_forget(c, r);
    engine_stop(r);
    json_decref(r->conf);
    r->conf = json_deep_copy(p->conf);
    r->observe = p->observe;
    rc = engine_choose(p->engine, &r->ops, &err);
    if (rc == 0)
        rc = r->ops->check(r->conf, r->observe, &err);
    if (rc == 0)
        rc = engine_start(r, &err);
    if (rc < 0) {
        engine_stop(r);
        on_state(false, err.text, r);
    } else {
        apart_again(r);
    }
}

static bool is_changed(const struct reached *r, const struct pool *p)
{
    return !r->engine || r->observe != p->observe ||
           strcmp(r->ops->name, p->engine) != 0 ||
           !json_equal(r->conf, p->conf);
}

/* Is more about it still on its way to the disk?  Then that will act. */
static bool more_follows(const struct control *c, const char *name)
{
    for (size_t i = c->first; i < c->count; i++)
        if (strcmp(c->effects[i].pool, name) == 0)
            return true;
    return false;
}

void pools_act(struct control *c, const char *name, bool removed)
{
    const struct pool *p = world_pool(c->world, name);
    struct reached *r = map_get(c->pools, name);

    if (c->draining)
        return;
    if (removed && r && !r->own) {     /* also where it is there again already */
        pool_leave(c, r);
        r = NULL;
    }
    if (more_follows(c, name))
        return;
    if (p && p->set && (!r || is_changed(r, p)))
        pool_start(c, p);
    else if ((!p || !p->set) && r && !r->own)
        pool_leave(c, r);
}

struct reached *pools_of(const struct control *c, const char *block)
{
    char name[sizeof ((struct block *) NULL)->id];
    struct reached *r;

    (void) snprintf(name, sizeof name, "%.*s", (int) strcspn(block, "/"),
                    block);
    r = map_get(c->pools, name);
    return r ? r : map_get(c->leaving, name);
}

/* ---- all of them ---- */

static int own_open(struct control *c, struct err *err)
{
    const struct control_conf *conf = c->conf;
    const struct pool *p = world_pool(c->world, conf->pool);
    struct reached *r;

    if (!spec_name_valid(conf->pool) || strlen(conf->pool) >= sizeof r->name)
        return err_set(err, EINVAL, "--pool: '%.80s' cannot be the name of a "
                       "pool: letters, digits and _.- with a letter or digit "
                       "first, fewer than %zu", conf->pool, sizeof r->name);
    if (p && p->set)
        return err_set(err, EEXIST, "a pool '%s' was added; name this "
                       "machine's otherwise (--pool), or remove that one "
                       "first", conf->pool);
    r = reached_new(c, conf->pool);
    r->own = true;
    r->ops = engine_find(conf->engine);
    if (!r->ops)
        return err_set(err, EINVAL, "there is no engine '%.40s'; there is "
                       "local, fake, or none", conf->engine);
    r->conf = json_object();
    json_put_str(r->conf, "devices", conf->devices);
    json_put_str(r->conf, "gpud", r->ops->own ? conf->gpud : NULL);
    return engine_start(r, err);
}

void pools_begin(struct control *c)
{
    const struct pool *p;
    size_t pos = 0;

    while ((p = world_next_pool(c->world, &pos)))
        if (p->set)
            pool_start(c, p);
    blocks_hold(c);
}

int pools_open(struct control *c, struct err *err)
{
    int rc = strcmp(c->conf->engine, CONTROL_NO_ENGINE) == 0
             ? 0 : own_open(c, err);

    if (rc == 0)
        pools_begin(c);
    return rc;
}

int pools_again(struct control *c, struct err *err)
{
    autojson json_t *names = json_array();
    const struct pool *p;
    const char *name;
    size_t pos = 0;
    int rc = 0;

    while (map_next(c->pools, &pos, &name))
        (void) json_array_append_new(names, json_string(name));
    pos = 0;
    while ((p = world_next_pool(c->world, &pos)))
        if (!map_get(c->pools, p->name))
            (void) json_array_append_new(names, json_string(p->name));
    for (size_t i = 0; i < json_array_size(names) && rc == 0; i++) {
        struct reached *is;

        name = json_string_value(json_array_get(names, i));
        pools_act(c, name, false);
        is = map_get(c->pools, name);
        if (is && is->engine && is->own)
            rc = take_all(is, err);
        else if (is && is->engine)
            on_changed(is);
        if (is)
            apart_again(is);
        if (is && is->reachable)
            apart_sweep(is);
    }
    blocks_hold(c);
    guests_again(c);
    return rc;
}

static void close_all(struct map *pools)
{
    struct reached *r;
    size_t pos = 0;

    while ((r = map_next(pools, &pos, NULL)))
        reached_free(r);
    map_free(pools);
}

void pools_close(struct control *c)
{
    blocks_forget(c, NULL);
    if (c->pools)
        close_all(take(c->pools));
    if (c->leaving)
        close_all(take(c->leaving));
    guests_close(c);
    c->pools = map_new();
    c->leaving = map_new();
}

/* ---- for the API ---- */

/* What has a runner of its own is its engine's to stop, and one that only looks
 * stops nothing.
 */
static int check_left(const struct control *c, const struct reached *r,
                      struct err *err)
{
    uint64_t n = r && r->ops && r->ops->apart
                 ? world_pool_leases(c->world, r->name) : 0;

    return n == 0 ? 0 : err_set(err, EBUSY, "pool '%s' has %" PRIu64 " lease%s "
                                "that nobody could stop then: drain it, and "
                                "observe it when they have ended", r->name, n,
                                n == 1 ? "" : "s");
}

int pools_check(const char *name, const char *engine, const json_t *conf,
                bool observe, struct err *err, void *arg)
{
    const struct control *c = arg;
    const struct reached *r = map_get(c->pools, name);
    const struct engine_ops *ops = NULL;
    int rc;

    if ((r && r->own) || strcmp(name, CONTROL_BLOCK) == 0)
        return err_set(err, EEXIST, "the pool '%s' is this control plane's "
                       "own: choose another name", name);
    rc = engine_choose(engine, &ops, err);
    if (rc == 0)
        rc = ops->check(conf, observe, err);
    return rc == 0 && observe ? check_left(c, r, err) : rc;
}

json_t *pools_seen(const char *name, void *arg)
{
    const struct control *c = arg;
    const struct reached *r = map_get(c->pools, name);

    return r && r->observe && r->engine && r->ops->observed
           ? r->ops->inventory(r->engine) : NULL;
}

bool pools_find(const char *name, struct service_pool *ret, void *arg)
{
    const struct control *c = arg;
    const struct reached *r = map_get(c->pools, name);

    if (!r)
        return false;
    *ret = (struct service_pool) {
        .engine = r->ops ? r->ops->name : "",
        .own = r->own, .known = r->said, .reachable = r->reachable,
        .why = r->why,
    };
    return true;
}
