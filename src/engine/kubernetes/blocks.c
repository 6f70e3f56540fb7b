#include "engine/kubernetes/blocks.h"

#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "engine/kubernetes/name.h"
#include "kube/inventory.h"
#include "kube/node.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MODEL_SIZE = 32, DOMAIN_SIZE = 64, DEVICES_MAX = 1024,
       TOKEN_BYTES = 32 };

/* What it was told for: while this is the same, nothing is to be told. */
struct sight {
    uint64_t stamp, cpus, memory, count;
    bool closed, busy;
};

static const char GPU[] = "nvidia.com/gpu";

struct block {
    char id[NAME_BLOCK];
    char *node;
    json_t *told;                      /* NULL: nothing, or that it is lost */
    struct sight sight;
    bool given, there, lost;           /* lost: so it was told */
};

struct blocks {
    struct loop *loop;
    const struct inventory *inventory;
    struct blocks_conf conf;
    struct map *all, *nodes;           /* by id; by the node's name */
    bool wanted, whole;
    struct watch *timer;
    /* Nobody speaks for a block here, so nobody knows this. */
    char token[2 * TOKEN_BYTES + 1];
};

/* ---- what a block has ---- */

static uint64_t left(uint64_t has, uint64_t taken, uint64_t own)
{
    uint64_t others = taken - own;

    return others < has ? has - others : 0;
}

/* "NVIDIA-H100-80GB-HBM3": as a device of a machine it is called without the
 * brand.
 */
static void put_model(json_t *device, const char *product)
{
    char model[MODEL_SIZE];

    if (product && strncmp(product, "NVIDIA-", strlen("NVIDIA-")) == 0)
        product += strlen("NVIDIA-");
    (void) snprintf(model, sizeof model, "%.31s",
                    product && product[0] ? product : "unknown");
    json_put_str(device, "model", model);
}

static json_t *devices(const struct kube_node *n, uint64_t count)
{
    json_t *list = json_array();

    for (uint64_t i = 0; i < count && i < DEVICES_MAX; i++) {
        json_t *d = json_object();

        put_model(d, n->product);
        json_put_u64(d, "memory", n->device_memory);
        (void) json_array_append_new(list, d);
    }
    return list;
}

static struct sight look(const struct kube_node *n,
                         const struct resources *taken,
                         const struct resources *own)
{
    return (struct sight) {
        .stamp = n->stamp,
        .cpus = left(n->has.cpu_milli, taken->cpu_milli, own->cpu_milli),
        .memory = left(n->has.memory, taken->memory, own->memory),
        .count = left(resources_count(&n->has, GPU),
                      resources_count(taken, GPU),
                      resources_count(own, GPU)),
    };
}

static bool same(const struct sight *a, const struct sight *b)
{
    return a->stamp == b->stamp && a->cpus == b->cpus &&
           a->memory == b->memory && a->count == b->count &&
           a->closed == b->closed && a->busy == b->busy;
}

json_t *blocks_json(const char *pool, const struct kube_node *n,
                    const struct resources *taken,
                    const struct resources *own, const char *closed)
{
    struct sight s = look(n, taken, own);
    char node[NAME_NODE], domain[DOMAIN_SIZE];
    json_t *o = json_object();

    name_node(n->name, node);
    json_put_str(o, "pool", pool);
    json_put_str(o, "engine", "kubernetes");
    json_put_str(o, "node", node);
    json_put_u64(o, "cpus_milli", closed ? 0 : s.cpus);
    json_put_u64(o, "memory", closed ? 0 : s.memory);
    json_put_str(o, "limits", "pod");
    json_put_bool(o, "simulated", n->simulated);
    json_put_bool(o, "images", true);
    json_put_bool(o, "whole", true);
    if (n->domain) {
        (void) snprintf(domain, sizeof domain, "%.63s", n->domain);
        json_put_str(o, "domain", domain);
    }
    json_put(o, "labels", json_deep_copy(n->labels));
    json_put(o, "devices", devices(n, closed ? 0 : s.count));
    return o;
}

/* ---- those that there are ---- */

struct blocks *blocks_new(struct loop *l, const struct inventory *v,
                          const struct blocks_conf *conf)
{
    struct blocks *b = mem_new(sizeof *b);

    b->loop = l;
    b->inventory = v;
    b->conf = *conf;
    b->all = map_new();
    b->nodes = map_new();
    fs_random_hex(b->token, TOKEN_BYTES);
    return b;
}

static void block_free(struct blocks *b, struct block *one)
{
    (void) map_del(b->all, one->id);
    (void) map_del(b->nodes, one->node);
    json_decref(one->told);
    free(one->node);
    free(one);
}

void blocks_free(struct blocks *b)
{
    struct block *one;
    size_t pos = 0;

    if (!b)
        return;
    for (; (one = map_next(b->all, &pos, NULL)); pos = 0)
        block_free(b, one);
    map_free(b->all);
    map_free(b->nodes);
    watch_remove(b->timer);
    free(b);
}

static struct block *block_of(struct blocks *b, const char *node)
{
    struct block *one = map_get(b->nodes, node);

    if (one)
        return one;
    one = mem_new(sizeof *one);
    name_block(b->conf.pool, node, one->id);
    one->node = mem_str(node);
    (void) map_set(b->all, one->id, one);
    (void) map_set(b->nodes, one->node, one);
    return one;
}

static void lose(struct blocks *b, struct block *one, const char *why)
{
    if (!one->told)
        return;
    json_decref(take(one->told));
    one->lost = true;
    b->conf.lost(one->id, why, b->conf.arg);
}

static void say(struct blocks *b, struct block *one, json_t *o)
{
    bool news = !one->told || !json_equal(one->told, o);

    json_decref(one->told);
    one->told = o;
    one->lost = false;
    if (news)
        b->conf.up(one->id, b->token, o, b->conf.arg);
}

/* One that is closed for now may be up as far as the world remembers: it has to
 * hear of it before it can hear that it is lost.  One that is for others by its
 * taints was never told of.
 */
static void say_closed(struct blocks *b, struct block *one,
                       const struct kube_node *n, json_t *o, const char *why,
                       bool busy)
{
    bool known = one->told || (!one->lost && (n->cordoned || !n->ready));

    if (!busy && !known) {
        json_decref(o);
        return;
    }
    say(b, one, o);
    if (!busy)
        lose(b, one, why);
}

static void tell(struct blocks *b, struct block *one,
                 const struct kube_node *n, const struct resources *taken,
                 const struct resources *own)
{
    const char *closed = kube_node_closed(n, b->conf.tolerate);
    struct sight s = look(n, taken, own);
    json_t *o;

    s.closed = closed != NULL;
    s.busy = closed && b->conf.busy(n->name, b->conf.arg);
    if (same(&s, &one->sight))
        return;
    one->sight = s;
    o = blocks_json(b->conf.pool, n, taken, own, closed);
    if (closed)
        say_closed(b, one, n, o, closed, s.busy);
    else
        say(b, one, o);
}

/* A map may not change while it is walked. */
static void lose_gone(struct blocks *b)
{
    size_t n = 0, pos = 0;
    struct block **gone = mem_array(map_count(b->all) + 1, sizeof *gone);
    struct block *one;

    while ((one = map_next(b->all, &pos, NULL)))
        if (!one->there)
            gone[n++] = one;
    for (size_t i = 0; i < n; i++) {
        lose(b, gone[i], "its node is gone");
        block_free(b, gone[i]);
    }
    free(gone);
}

static void find_all(struct blocks *b)
{
    const struct kube_node *n;
    struct block *one;
    size_t pos = 0;

    while ((one = map_next(b->all, &pos, NULL)))
        one->there = false;
    pos = 0;
    while ((n = inventory_next(b->inventory, &pos, NULL, NULL)))
        block_of(b, n->name)->there = true;
}

static void tell_all(struct blocks *b)
{
    struct block *one;
    size_t pos = 0;

    while ((one = map_next(b->all, &pos, NULL))) {
        const struct resources *taken, *own;
        const struct kube_node *n = inventory_node(b->inventory, one->node,
                                                   &taken, &own);

        if (n && !one->given)
            tell(b, one, n, taken, own);
    }
}

static void on_timer(struct watch *w, void *arg)
{
    struct blocks *b = arg;

    (void) w;
    b->timer = NULL;
    if (!b->whole)
        return;
    find_all(b);
    if (b->wanted)
        tell_all(b);
    lose_gone(b);
}

static void later(struct blocks *b, uint64_t ms)
{
    if (!b->timer)
        b->timer = loop_timer(b->loop, ms, on_timer, b);
}

void blocks_changed(struct blocks *b, bool whole)
{
    if (whole && !b->whole)
        find_all(b);
    b->whole = whole;
    later(b, BLOCKS_SETTLE_MS);
}

json_t *blocks_list(const struct blocks *b)
{
    json_t *nodes = json_array();
    const struct block *one;
    size_t pos = 0;

    while ((one = map_next(b->all, &pos, NULL))) {
        const struct kube_node *n = inventory_node(b->inventory, one->node,
                                                   NULL, NULL);

        if (n && (one->told || !kube_node_closed(n, b->conf.tolerate) ||
                  b->conf.busy(one->node, b->conf.arg)))
            (void) json_array_append_new(nodes, json_pack("{s:s}", "block",
                                                          one->id));
    }
    return json_pack("{s:o}", "nodes", nodes);
}

void blocks_get(struct blocks *b, const char *block)
{
    struct block *one = map_get(b->all, block);

    b->wanted = true;
    if (one) {
        one->given = false;
        json_decref(take(one->told));  /* asked again: answered again */
        one->lost = false;
        one->sight = (struct sight) { 0 };
    }
    watch_remove(take(b->timer));
    later(b, 0);
}

void blocks_give(struct blocks *b, const char *block)
{
    struct block *one = map_get(b->all, block);

    if (!one)
        return;
    one->given = true;
    one->sight = (struct sight) { 0 };
    json_decref(take(one->told));
}

const char *blocks_node(const struct blocks *b, const char *block)
{
    const struct block *one = map_get(b->all, block);

    return one ? one->node : NULL;
}
