#include "engine/fake/fake.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "engine/devices.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* fake - blocks without machines: each has a runner that lives in this very
 * loop, dials home like any other and starts nothing.  It lies on command:
 *
 *     fake:4xH100-80GB;slow=50;lose=7;double=3;cpus=64
 *
 *   slow=MS     a task takes that long (else it ends at once)
 *   lose=N      every Nth lease is reported lost
 *   double=N    every Nth end is told twice
 *   drop=N      the connection breaks after every Nth end
 *   cpus=N      of each block (8)
 *   away=MS     it cannot be reached for so long
 *
 * That is the conf's `devices`; its `nodes` is the number of blocks (1).
 *
 * A task ends with status 0, or with N where its command is "exit N" (or, at
 * the first attempt, "exit N once").  What ended is told again after each hello
 * until it is acknowledged.
 *
 * fake-apart is the same with a runner for each lease.  What those print is
 * kept in memory; its blocks have images and give whole devices only.  Of every
 * Nth runner
 *
 *   refuse=N, image=N, taken=N      it never comes, and the engine says so
 *   never=N     it never comes, and nobody says so
 *   early=N     it is lost when it is ordered
 *   late=N, evicted=N, node=N, deleted=N    its task is gone at its end
 *   echo=N      the output is told twice
 *   gap=N       the first half of the output is not told
 *   stay=N      it goes on when it is stopped for the first time
 */
struct block {
    struct fake *engine;
    char id[48];
    struct runner *runner;             /* NULL: each lease has one */
    struct watch *up;
};

enum { NODES_MAX = 1000 };

static const char *const conf_keys[] = { "devices", "nodes", NULL };

bool fake_lies_at(uint64_t every, uint64_t n)
{
    return every > 0 && n % every == 0;
}

/* Blocks. */

/* The n-th: one is alone, "POOL"; of many it is "POOL/POOL-N". */
static void block_id(const struct fake *e, uint64_t n, char *buf, size_t size)
{
    if (e->nodes == 1)
        (void) snprintf(buf, size, "%s", e->block);
    else
        (void) snprintf(buf, size, "%s/%s-%" PRIu64, e->block, e->block, n);
}

static json_t *block_json(const struct fake *e, const char *id)
{
    const char *slash = strchr(id, '/');
    json_t *j = json_object();

    json_put_str(j, "pool", e->pool);
    json_put_str(j, "engine", e->base.ops->name);
    json_put_str(j, "block", id);
    json_put_str(j, "node", slash ? slash + 1 : id);
    json_put_u64(j, "cpus_milli", e->lies.cpus * 1000);
    json_put_u64(j, "memory", e->lies.cpus << 30);
    json_put_str(j, "limits", "none");
    json_put_bool(j, "simulated", true);
    if (e->base.ops->apart) {
        json_put_bool(j, "images", true);
        json_put_bool(j, "whole", true);
    }
    json_put(j, "devices", json_deep_copy(e->devices));
    return j;
}

static void on_up(struct watch *w, void *arg)
{
    struct block *b = arg;
    autojson json_t *j = block_json(b->engine, b->id);

    (void) w;
    b->up = NULL;
    if (b->engine->away)               /* on_state asks again */
        return;
    b->engine->events->block_up(b->id, b->runner ? b->runner->token : "", j,
                                b->engine->arg);
    if (b->runner)
        runner_dial(b->runner);
}

static int fake_get(struct engine *base, const char *id, struct err *err)
{
    struct fake *e = (struct fake *) base;
    struct block *b = map_get(e->blocks, id);
    char token[33];

    if (strlen(id) >= sizeof b->id)
        return err_set(err, EINVAL, "block '%s': the name is too long", id);
    if (!b) {
        b = mem_new(sizeof *b);
        b->engine = e;
        (void) snprintf(b->id, sizeof b->id, "%s", id);
        fs_random_hex(token, 16);
        if (!base->ops->apart)
            b->runner = runner_new(e, id, token);
        (void) map_set(e->blocks, b->id, b);
    }
    if (b->runner)
        b->runner->given = false;
    if (!b->up)
        b->up = loop_timer(e->loop, 0, on_up, b);
    return 0;
}

static void block_free(struct block *b)
{
    watch_remove(take(b->up));
    runner_free(b->runner);
    (void) map_del(b->engine->blocks, b->id);
    free(b);
}

static int fake_give(struct engine *base, const char *id, struct err *err)
{
    struct block *b = map_get(((struct fake *) base)->blocks, id);

    if (!b)
        return err_set(err, ENOENT, "no block '%s'", id);
    if (b->runner)
        b->runner->given = true;       /* gone with its connection */
    return 0;
}

static json_t *fake_find(struct engine *base)
{
    struct fake *e = (struct fake *) base;
    json_t *list = json_array();
    const char *id;
    size_t pos = 0;

    while (map_next(e->blocks, &pos, &id))
        (void) json_array_append_new(list, json_string(id));
    return list;
}

static json_t *fake_inventory(struct engine *base)
{
    struct fake *e = (struct fake *) base;
    json_t *nodes = json_array();
    json_t *j = json_object();
    char id[48];

    for (uint64_t n = 1; n <= e->nodes && !e->away; n++) {
        block_id(e, n, id, sizeof id);
        (void) json_array_append_new(nodes, block_json(e, id));
    }
    json_put(j, "nodes", nodes);
    return j;
}

static int fake_log(struct engine *base, const char *block,
                    const char *lease_key, uint32_t gen, uint64_t epoch,
                    uint64_t offset, void *buf, size_t size,
                    struct engine_log *ret, struct err *err)
{
    (void) base;
    (void) block;
    (void) gen;
    (void) epoch;
    (void) offset;
    (void) buf;
    (void) size;
    (void) ret;
    return err_set(err, ENOENT, "lease %s has no log: nothing ran",
                   lease_key);
}

static json_t *fake_log_list(struct engine *base)
{
    (void) base;
    return json_array();
}

static int fake_log_drop(struct engine *base, uint64_t workload,
                         struct err *err)
{
    (void) base;
    (void) workload;
    (void) err;
    return 0;
}

/* Open and close. */

static int read_lie(struct fake *e, const char *word, struct err *err)
{
    struct lies *to = &e->lies;
    const struct {
        const char *name;
        uint64_t *to;
        bool apart;                    /* of runners that have one lease */
    } lies[] = {
        { "slow=", &to->slow_ms, false }, { "lose=", &to->lose, false },
        { "double=", &to->twice, false }, { "drop=", &to->drop, false },
        { "cpus=", &to->cpus, false }, { "away=", &to->away_ms, false },
        { "refuse=", &to->refuse, true }, { "image=", &to->image, true },
        { "taken=", &to->taken, true }, { "never=", &to->never, true },
        { "early=", &to->early, true }, { "late=", &to->late, true },
        { "evicted=", &to->evicted, true }, { "node=", &to->node, true },
        { "deleted=", &to->deleted, true }, { "echo=", &to->echo, true },
        { "gap=", &to->gap, true }, { "stay=", &to->stay, true },
    };

    for (size_t i = 0; i < array_size(lies); i++) {
        size_t len = strlen(lies[i].name);

        if (strncmp(word, lies[i].name, len) == 0 &&
            (e->base.ops->apart || !lies[i].apart))
            return quantity_count(word + len, lies[i].to, err);
    }
    return err_set(err, EINVAL, "'%s': no such lie; known are slow, lose, "
                   "double, drop, cpus, away%s", word,
                   e->base.ops->apart ? ", refuse, image, taken, never, "
                   "early, late, evicted, node, deleted, echo, gap, stay"
                                      : "");
}

static int read_conf(struct fake *e, const char *text, struct err *err)
{
    autofree char *copy = mem_str(text);
    char *rest = copy;
    const char *devices = strsep(&rest, ";");
    const char *word;
    int rc = devices_parse(devices, "fake", &e->devices, err);

    while (rc == 0 && (word = strsep(&rest, ";")))
        rc = read_lie(e, word, err);
    return rc;
}

static int read_nodes(struct fake *e, const char *text, struct err *err)
{
    int rc = quantity_count(text, &e->nodes, err);

    if (rc < 0)
        return err_prefix(err, rc, "conf: nodes");
    if (e->nodes < 1 || e->nodes > NODES_MAX)
        return err_set(err, EINVAL, "conf: nodes: from 1 to %d are possible, "
                       "not '%.20s'", NODES_MAX, text);
    return 0;
}

static int read_all(struct fake *e, const json_t *conf, struct err *err)
{
    int rc = engine_conf_keys(conf, conf_keys, err);

    if (rc == 0)
        rc = read_conf(e, json_get_str(conf, "devices", "none"), err);
    if (rc == 0)
        rc = read_nodes(e, json_get_str(conf, "nodes", "1"), err);
    return rc;
}

static int check(const struct engine_ops *ops, const json_t *conf,
                 struct err *err)
{
    struct fake e = { .base.ops = ops, .lies.cpus = 8 };
    int rc = read_all(&e, conf, err);

    json_decref(e.devices);
    return rc;
}

static int fake_check(const json_t *conf, bool observe, struct err *err)
{
    (void) observe;
    return check(&engine_fake, conf, err);
}

static int apart_check(const json_t *conf, bool observe, struct err *err)
{
    (void) observe;
    return check(&engine_fake_apart, conf, err);
}

/* The first word about it; and once it is no longer away, the second. */
static void on_state(struct watch *w, void *arg)
{
    struct fake *e = arg;
    bool over = e->said && e->away;
    struct block *b;
    size_t pos = 0;

    (void) w;
    e->away = e->lies.away_ms > 0 && !e->said;
    e->said = true;
    e->state = e->away ? loop_timer(e->loop, e->lies.away_ms, on_state, e)
                       : NULL;
    while (over && (b = map_next(e->blocks, &pos, NULL)))
        if (!b->up)
            b->up = loop_timer(e->loop, 0, on_up, b);
    e->events->state(!e->away, e->away ? "it is told to be away" : "", e->arg);
    e->events->changed(e->arg);
}

static void fake_close(struct engine *base)
{
    struct fake *e = (struct fake *) base;
    struct block *b;
    size_t pos;

    if (!e)
        return;
    watch_remove(e->state);
    free(e->block);
    for (pos = 0; (b = map_next(e->blocks, &pos, NULL)); pos = 0)
        block_free(b);
    map_free(e->blocks);
    fake_apart_close(e);
    json_decref(e->devices);
    free(e->pool);
    free(e->home);
    free(e);
}

static int open_as(const struct engine_ops *ops, struct loop *l,
                   const struct engine_conf *conf,
                   const struct engine_events *events, void *arg,
                   struct engine **ret, struct err *err)
{
    struct fake *e = mem_new(sizeof *e);
    int rc;

    *e = (struct fake) {
        .base.ops = ops, .loop = l, .events = events, .arg = arg,
        .pool = mem_str(conf->pool), .home = mem_str(conf->home),
        .block = mem_str(conf->block), .lies.cpus = 8, .blocks = map_new(),
        .alone = map_new(), .logs = map_new(), .log_bytes = conf->log_bytes,
    };
    rc = read_all(e, conf->conf, err);
    if (rc < 0) {
        fake_close(&e->base);
        return rc;
    }
    e->away = e->lies.away_ms > 0;
    e->state = loop_timer(l, 0, on_state, e);
    *ret = &e->base;
    return 0;
}

static int fake_open(struct loop *l, const struct engine_conf *conf,
                     const struct engine_events *events, void *arg,
                     struct engine **ret, struct err *err)
{
    return open_as(&engine_fake, l, conf, events, arg, ret, err);
}

static int apart_open(struct loop *l, const struct engine_conf *conf,
                      const struct engine_events *events, void *arg,
                      struct engine **ret, struct err *err)
{
    return open_as(&engine_fake_apart, l, conf, events, arg, ret, err);
}

const struct engine_ops engine_fake = {
    .name = "fake",
    .grain = ENGINE_GRAIN_DEVICE,
    .own = false,
    .check = fake_check,
    .open = fake_open,
    .close = fake_close,
    .inventory = fake_inventory,
    .history = engine_no_history,
    .get = fake_get,
    .give = fake_give,
    .start = engine_no_start,
    .stop = engine_no_stop,
    .output = engine_no_output,
    .tell = engine_no_tell,
    .find = fake_find,
    .log = fake_log,
    .log_list = fake_log_list,
    .log_drop = fake_log_drop,
};

const struct engine_ops engine_fake_apart = {
    .name = "fake-apart",
    .grain = ENGINE_GRAIN_DEVICE,
    .own = false,
    .apart = true,
    .check = apart_check,
    .open = apart_open,
    .close = fake_close,
    .inventory = fake_inventory,
    .history = engine_no_history,
    .get = fake_get,
    .give = fake_give,
    .start = fake_apart_start,
    .stop = fake_apart_stop,
    .output = fake_apart_output,
    .tell = engine_no_tell,
    .find = fake_apart_find,
    .log = fake_apart_log,
    .log_list = fake_apart_log_list,
    .log_drop = fake_apart_log_drop,
};
