#pragma once

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/random.h"
#include "plan/room.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* random_world - the world of random_test.c: what there is, as the test knows
 * it, and random changes of it.  Included once.
 */
enum {
    NODES = 24, DEVICES = 4, TENANTS = 4, ITEMS = 64, PARTS = 2,
    DEFAULT_PLANS = 1000, WINDOWS = 2,
    LONGEST = 300000,                  /* a run in a crowd, ms */
    STAGED = 7000000,                  /* worlds from that seed on have nodes
                                          that stage */
    SLICED = 1500000000,               /* ... and slices */
};

static const uint64_t GIB = UINT64_C(1) << 30;
static const char *const MODELS[] = { "A100", "H100" };
static const char *const LABELS[] = { "zone=a", "zone=b" };
static const char *const POOLS[] = { "one", "two" };
static const char *const DOMAINS[] = { "", "rack1", "rack2" };

struct tnode {
    struct plan_node *n;               /* NULL: not there */
    char name[8];
    unsigned model, pool, domain, label;
    uint32_t devices;
    uint64_t cpus, memory, gpu_memory;
    bool open, suspends, roams, stages;
    bool device_open[DEVICES];
};

struct titem {
    struct plan_item *i;               /* NULL: not there */
    struct plan_item_spec spec;
    struct plan_part parts[PARTS];
    const char *models[1], *labels[1];
    uint64_t turn;                     /* when it changed its place, of all */
};

struct twindow {
    bool there;
    char name[8];
    unsigned node;
    int tenant;                        /* -1: nobody */
    uint64_t from, to;
};

/* Most worlds are small, as what goes wrong at all goes wrong there; in others
 * there are more nodes than the plan looks at one by one at every change.
 */
struct size {
    unsigned nodes, devices, items, steps;
};
static const struct size SMALL = { 6, DEVICES, 24, 40 };
static const struct size WIDE = { NODES, 1, ITEMS, 160 };

struct world {
    struct plan *p;
    struct size size;
    bool plain;                        /* no turns, moves and reservations */
    uint64_t seed, random, now, order;
    struct policy policy;
    struct tnode nodes[NODES];
    struct plan_tenant_spec tenants[TENANTS];
    struct plan_tenant *tenant[TENANTS];
    char tenant_names[TENANTS][8];
    struct titem items[ITEMS];
    struct twindow windows[WINDOWS];
    struct map *rows;                  /* what was learned: key to json */
    unsigned step;
    uint64_t turns;
    char said[1024];                   /* what is wrong; "": nothing */
};

#define WRONG(w, ...) do { \
        if (!(w)->said[0]) \
            (void) snprintf((w)->said, sizeof (w)->said, __VA_ARGS__); \
    } while (0)

static uint64_t draw(struct world *w, uint64_t below)
{
    return random_next(&w->random) % below;
}

static uint64_t order_of(const struct plan_item *i)
{
    return i ? i->order : 0;
}

/* Is there room for it, also (all) where it is promised to others? */
static bool has_place(struct plan *p, const struct plan_item *i, bool all)
{
    const struct place_opts opts = { .ignore_promises = all };
    struct plan_place *list = NULL;
    uint32_t n;
    double score;
    bool found = place_find(p, i, &opts, &list, &n, &score);

    free(list);
    return found;
}

/* ---- making things, in any plan ---- */

static struct plan_node *make_node(struct plan *p, struct tnode *t)
{
    struct plan_device list[DEVICES];
    struct plan_node *n;

    for (uint32_t k = 0; k < t->devices; k++)
        list[k] = (struct plan_device) { MODELS[t->model], t->gpu_memory };
    n = plan_node_add(p, &(struct plan_node_spec) {
        .name = t->name, .pool = POOLS[t->pool], .domain = DOMAINS[t->domain],
        .labels = &LABELS[t->label], .nlabels = 1, .cpu_milli = t->cpus * 1000,
        .memory = t->memory, .devices = list, .ndevices = t->devices,
        .suspends = t->suspends, .roams = t->roams, .stages = t->stages,
    }, t);
    plan_node_open(p, n, t->open);
    for (uint32_t k = 0; k < t->devices; k++)
        plan_device_open(p, n, k, t->device_open[k]);
    return n;
}

static void make_window(struct world *w, struct plan *p,
                        const struct twindow *t, struct plan_node *n,
                        struct plan_tenant *tenant)
{
    struct plan_window v = {
        .tenant = tenant, .from_ms = t->from, .to_ms = t->to, .nodes = &n,
        .nnodes = 1,
    };
    struct err err = { 0 };

    memcpy(v.name, t->name, sizeof t->name);
    if (plan_window_set(p, &v, &err) < 0)
        WRONG(w, "window: %s", err.text);
}

/* ---- random changes ---- */

static void draw_policy(struct world *w)
{
    struct policy *y = &w->policy;

    policy_init(y);
    y->patience_ms = 60000 * (1 + draw(w, 10));
    y->min_run_ms = 10000 * draw(w, 10);
    y->turns = (enum policy_turns) draw(w, 3);
    y->reservations = (uint32_t) draw(w, 4);
    y->reclaim = draw(w, 4) > 0;
    y->kill = draw(w, 4) == 0;
    y->move = draw(w, 2) > 0;
    y->suspend_cost_s = (double) draw(w, 60);
    y->burst_margin = (double) (y->patience_ms / 60000 % 3) * 0.4;
    if (draw(w, 2)) {
        y->nmodels = 1;
        y->models[0] = (struct policy_model) { "H100", 2, 2 };
    }
    if (w->seed >= STAGED && draw(w, 8) > 0)
        y->lookahead_ms = 10000 * draw(w, 30);
    if (w->seed >= SLICED && draw(w, 4) > 0)
        y->slice_ms = 5000 * (1 + draw(w, 20));
    if (w->plain) {
        y->slice_ms = 0;
        y->turns = TURNS_OFF;
        y->move = false;
        y->reservations = 0;
        y->nmodels = 0;
    }
    plan_set_policy(w->p, y);
}

/* Lengths are known from the beginning: a minute, and four times each more. */
static void teach(struct world *w)
{
    for (uint64_t key = 1; key <= 4; key++)
        for (unsigned n = 0; n < 100; n++)
            predict_learn(plan_predict(w->p), &(struct predict_sig) {
                .key = { key, 100 } }, UINT64_C(15000) << 2 * key, 0, 1);
}

static void add_node(struct world *w)
{
    uint64_t k = draw(w, w->size.nodes);
    struct tnode *t = &w->nodes[k];

    if (t->n)
        return;
    *t = (struct tnode) {
        .model = (unsigned) draw(w, 2), .pool = (unsigned) draw(w, 2),
        .domain = (unsigned) draw(w, 3), .label = (unsigned) draw(w, 2),
        .devices = (uint32_t) draw(w, w->size.devices + 1), .cpus = 4 + draw(w, 12),
        .memory = (64 + draw(w, 256)) * GIB, .open = draw(w, 8) > 0,
        .gpu_memory = (draw(w, 4) ? 80 : 40) * GIB,
        .suspends = draw(w, 4) > 0,
    };
    t->roams = t->suspends && draw(w, 2);
    t->stages = w->seed >= STAGED && draw(w, 4) > 0;
    (void) snprintf(t->name, sizeof t->name, "n%c", (char) ('a' + k));
    for (uint32_t d = 0; d < DEVICES; d++)
        t->device_open[d] = draw(w, 16) > 0;
    t->n = make_node(w->p, t);
}

/* Has it a place or state there? */
static bool is_on(const struct titem *t, const struct plan_node *n)
{
    const struct plan_place *list;
    uint32_t count = t->i ? plan_places(t->i, &list) : 0;

    for (uint32_t r = 0; r < count; r++)
        if (list[r].node == n)
            return true;
    return false;
}

/* Its state is lost: the like of it, which has to begin again. */
static void begin_again(struct world *w, struct titem *t)
{
    bool held = plan_state(t->i) == ITEM_HELD;

    plan_end(w->p, t->i, false);
    t->turn = ++w->turns;
    t->i = plan_add(w->p, &t->spec);
    plan_hold(w->p, t->i, true);       /* its wait counts from now on */
    if (!held)
        plan_hold(w->p, t->i, false);
}

/* The node is lost with all that is there, as without a word. */
static void lose_node(struct world *w, struct tnode *t)
{
    for (unsigned k = 0; k < w->size.items; k++) {
        struct titem *i = &w->items[k];

        if (!is_on(i, t->n))
            continue;
        if (plan_state(i->i) == ITEM_RUNNING ||
            plan_state(i->i) == ITEM_LEAVING) {
            i->turn = ++w->turns;
            plan_left(w->p, i->i, false, 0);
        } else {
            begin_again(w, i);
        }
    }
    for (unsigned k = 0; k < WINDOWS; k++) {
        struct twindow *v = &w->windows[k];

        if (!v->there || v->node != (unsigned) (t - w->nodes))
            continue;
        plan_window_remove(w->p, v->name);
        v->there = false;
    }
    plan_node_remove(w->p, t->n);
    t->n = NULL;
}

static void change_node(struct world *w)
{
    struct tnode *t = &w->nodes[draw(w, w->size.nodes)];
    uint64_t what = draw(w, 4);
    uint32_t d;

    if (!t->n)
        return;
    if (what < 2) {
        t->open = !t->open;
        plan_node_open(w->p, t->n, t->open);
    } else if (what == 2 && t->devices > 0) {
        d = (uint32_t) draw(w, t->devices);
        t->device_open[d] = !t->device_open[d];
        plan_device_open(w->p, t->n, d, t->device_open[d]);
    } else {
        lose_node(w, t);
    }
}

static void set_tenant(struct world *w)
{
    uint64_t k = draw(w, TENANTS);
    struct plan_tenant_spec *s = &w->tenants[k];

    (void) snprintf(w->tenant_names[k], sizeof w->tenant_names[k], "t%u",
                    (unsigned) k);
    s->name = w->tenant_names[k];
    s->parent = k > 0 && w->tenant[0] ? w->tenant[0] : NULL;
    if (w->tenant[k])
        s->parent = w->tenant[k]->parent;
    s->weight = (uint32_t) draw(w, 3);
    s->quota_milli = draw(w, 3) ? 0 : draw(w, 8) * 1000;
    s->max_milli = draw(w, 3) ? PLAN_UNLIMITED : draw(w, 10) * 1000;
    s->stopped = draw(w, 10) == 0;
    w->tenant[k] = plan_tenant_set(w->p, s);
}

static void remove_tenant(struct world *w)
{
    uint64_t k = draw(w, TENANTS);
    struct plan_tenant *t = w->tenant[k];

    if (!t || t->items > 0 || t->children > 0)
        return;
    plan_tenant_remove(w->p, t);
    w->tenant[k] = NULL;
    for (unsigned v = 0; v < WINDOWS; v++)
        if (w->windows[v].tenant == (int) k)
            w->windows[v].tenant = -1;
}

static void set_window(struct world *w)
{
    uint64_t k = draw(w, WINDOWS);
    struct twindow *v = &w->windows[k];
    int tenant = (int) draw(w, TENANTS + 1) - 1;

    if (v->there) {
        plan_window_remove(w->p, v->name);
        v->there = false;
        return;
    }
    v->node = (unsigned) draw(w, w->size.nodes);
    if (!w->nodes[v->node].n || (tenant >= 0 && !w->tenant[tenant]))
        return;
    *v = (struct twindow) {
        .there = true, .node = v->node, .tenant = tenant,
        .from = w->now + draw(w, 600000),
    };
    v->to = v->from + 1 + draw(w, 600000);
    (void) snprintf(v->name, sizeof v->name, "w%u", (unsigned) k);
    make_window(w, w->p, v, w->nodes[v->node].n,
                tenant < 0 ? NULL : w->tenant[tenant]);
}

static void draw_part(struct world *w, struct titem *t, struct plan_part *q)
{
    static const uint32_t sizes[] = { 0, 250, 400, 500, 1000, 1000, 1000,
                                      2000, 3000, 4000 };

    *q = (struct plan_part) {
        .need = { .gpu_milli = sizes[draw(w, array_size(sizes))],
                  .cpu_milli = draw(w, 6) * 500, .memory = draw(w, 32) * GIB,
                  .gpu_memory = draw(w, 8) ? 0 : draw(w, 81) * GIB },
        .count = draw(w, 4) ? 1 : 1 + (uint32_t) draw(w, 3),
    };
    q->max = draw(w, 8) ? q->count : q->count + (uint32_t) draw(w, 3);
    if (draw(w, 6) == 0) {
        q->need.models = t->models;
        q->need.nmodels = 1;
    }
    if (draw(w, 8) == 0) {
        q->need.labels = t->labels;
        q->need.nlabels = 1;
    }
}

/* Or NULL: the place is taken. */
static struct titem *add_item(struct world *w)
{
    struct titem *t = &w->items[draw(w, w->size.items)];
    uint64_t tenant = draw(w, TENANTS);

    if (t->i || !w->tenant[tenant])
        return NULL;
    memset(t, 0, sizeof *t);
    t->models[0] = MODELS[draw(w, 2)];
    t->labels[0] = LABELS[draw(w, 2)];
    t->spec = (struct plan_item_spec) {
        .tenant = w->tenant[tenant], .priority = (int) draw(w, 3),
        .parts = t->parts, .nparts = draw(w, 6) ? 1 : 2,
        .near = (enum plan_near) draw(w, 3), .one_pool = draw(w, 8) == 0,
        .yield = (enum plan_yield) draw(w, 4), .ready_ms = w->now,
        .order = ++w->order, .bytes = draw(w, 3) ? GIB : 0,
        .below_ms = draw(w, 3) ? 0 : draw(w, 1000000),
        .deadline_ms = draw(w, 8) ? 0 : w->now + draw(w, 4000000),
        .owner = t,
    };
    for (uint32_t k = 0; k < t->spec.nparts; k++)
        draw_part(w, t, &t->parts[k]);
    t->spec.sig.key[0] = 1 + draw(w, 4);
    t->spec.sig.key[1] = 100;
    t->i = plan_add(w->p, &t->spec);
    return t;
}

static bool in_line(const struct titem *t)
{
    enum plan_state s = plan_state(t->i);

    return s == ITEM_WAITING || s == ITEM_SUSPENDED || s == ITEM_STAGED;
}

static bool can_suspend(const struct titem *t)
{
    const struct plan_place *list;
    uint32_t n = plan_places(t->i, &list);

    for (uint32_t k = 0; k < n; k++) {
        const struct plan_node *node = list[k].node;

        if (!node->suspends ||
            node->memory_free < n * item_bytes(t->i, &list[k]))
            return false;
    }
    return t->spec.yield == YIELD_SUSPEND;
}

static void leave(struct world *w, struct titem *t)
{
    bool suspend = can_suspend(t) && draw(w, 4) > 0;

    t->turn = ++w->turns;
    plan_left(w->p, t->i, suspend, draw(w, 3000));
}

static void end_item(struct world *w, struct titem *t, bool learn)
{
    plan_end(w->p, t->i, learn);
    t->i = NULL;
}

static void hold_item(struct world *w, struct titem *t)
{
    bool held = plan_state(t->i) == ITEM_HELD;

    if (held)
        t->turn = ++w->turns;
    plan_hold(w->p, t->i, !held);
    if (!held && w->seed >= STAGED && draw(w, 2))
        plan_expect(w->p, t->i, w->now + 1 + draw(w, 300000));
    if (held)
        t->spec.ready_ms = t->i->ready_ms;
}

/* It told how far it is, and may be ready at another time, or nobody knows. */
static void change_held(struct world *w, struct titem *t)
{
    plan_progress(w->p, t->i, (double) draw(w, 100) / 100);
    if (w->seed >= STAGED && draw(w, 2))
        plan_expect(w->p, t->i,
                    draw(w, 2) ? 0 : w->now + 1 + draw(w, 300000));
}

/* A rank ends before the others, or tells how far it is. */
static void change_runner(struct world *w, struct titem *t)
{
    const struct plan_place *list;
    uint32_t n = plan_places(t->i, &list);

    if (plan_state(t->i) != ITEM_RUNNING &&
        plan_state(t->i) != ITEM_LEAVING)
        return;
    if (n > 1 && draw(w, 2))
        plan_gave(w->p, t->i, (uint32_t) draw(w, n));
    else
        plan_progress(w->p, t->i, (double) draw(w, 100) / 100);
}

static void change_item(struct world *w)
{
    struct titem *t = &w->items[draw(w, w->size.items)];

    if (!t->i)
        return;
    switch (draw(w, 9)) {
    case 0:
        if (in_line(t) || plan_state(t->i) == ITEM_HELD)
            hold_item(w, t);
        break;
    case 1:
        t->spec.priority = (int) draw(w, 3);
        plan_reprioritise(w->p, t->i, t->spec.priority);
        break;
    case 2:
        t->spec.below_ms = draw(w, 1000000);
        plan_set_below(w->p, t->i, t->spec.below_ms);
        break;
    case 3:
        if (plan_state(t->i) == ITEM_RUNNING && draw(w, 2))
            plan_leaving(w->p, t->i, NULL);
        else if (plan_state(t->i) == ITEM_LEAVING ||
                   plan_state(t->i) == ITEM_RUNNING)
            leave(w, t);
        break;
    case 4:
        if (draw(w, 3) == 0)
            end_item(w, t, false);
        break;
    case 5:
        if (plan_state(t->i) == ITEM_HELD)
            change_held(w, t);
        else
            change_runner(w, t);
        break;
    default:
        if (plan_state(t->i) == ITEM_RUNNING ||
            plan_state(t->i) == ITEM_LEAVING)
            end_item(w, t, true);
        break;
    }
}
