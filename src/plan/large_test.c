#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"
#include "plan/pool.h"
#include "plan/room.h"

#include <stdio.h>
#include <string.h>

/* A pool of more than ROOM_NODES, where not everybody looks at every change.
 * Items come, end, are withdrawn and evicted at random, at once or slowly, and
 * after each step
 *
 *  - nobody waits for whom there is a place: no wake was forgotten;
 *  - who was told to leave has left for one who starts;
 *  - plan_check agrees.
 *
 * In the end, when nothing comes any more, everybody has started.
 */
enum {
    NODES = ROOM_NODES + 44, DEVICES = 4, TENANTS = 3, ITEMS = 4000,
    STEPS = 400, LOOKED_AT = 40,
};

struct world {
    struct plan *p;
    struct plan_tenant *tenants[TENANTS];
    struct plan_item *items[ITEMS];    /* by what owner says; NULL: gone */
    struct plan_item *claimants[ITEMS];
    bool suspends[ITEMS];              /* it leaves so */
    uint32_t nclaimants, starts, evictions;
    uint64_t random, now, order;
    const char *wrong;
};

static uint64_t draw(struct world *w, uint64_t below)
{
    uint64_t z = w->random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}

static void open_world(struct world *w, uint64_t seed)
{
    struct plan_device list[DEVICES];

    *w = (struct world) { .p = plan_new(), .random = seed, .now = 1 };
    plan_tick(w->p, w->now);
    for (uint32_t k = 0; k < DEVICES; k++)
        list[k] = (struct plan_device) { "simulated", 1 };
    for (uint32_t k = 0; k < TENANTS; k++) {
        char name[16];

        (void) snprintf(name, sizeof name, "t%u", k);
        w->tenants[k] = plan_tenant_set(w->p, &(struct plan_tenant_spec) {
            .name = name, .weight = k + 1, .max_milli = PLAN_UNLIMITED,
            .quota_milli = k ? UINT64_C(1000) * NODES : 0,
        });
    }
    for (uint32_t k = 0; k < NODES; k++) {
        char name[16];

        (void) snprintf(name, sizeof name, "n%03u", k);
        (void) plan_node_add(w->p, &(struct plan_node_spec) {
            .name = name, .pool = "pool", .domain = "", .cpu_milli = 16000,
            .memory = 64, .devices = list, .ndevices = k % 16 ? DEVICES : 0,
            .suspends = k % 8 != 1, .roams = k % 4 == 2,
        }, NULL);
    }
}

static void close_world(struct world *w)
{
    plan_free(w->p);
}

static void add_item(struct world *w)
{
    static const uint32_t milli[] = {
        0, 250, 500, 1000, 1000, 1000, 2000, 4000,
    };
    uint32_t at = 0, gang = draw(w, 12) == 0 ? 3 : 1;
    struct plan_part part = { .count = gang, .max = gang };
    uint64_t kind = draw(w, array_size(milli));

    while (at < ITEMS && w->items[at])
        at++;
    if (at == ITEMS)
        return;
    part.need.gpu_milli = milli[kind];
    part.need.cpu_milli = 1000 * (1 + draw(w, 3));
    part.need.memory = 1;
    w->items[at] = plan_add(w->p, &(struct plan_item_spec) {
        .tenant = w->tenants[draw(w, TENANTS)], .parts = &part, .nparts = 1,
        .priority = draw(w, 16) == 0, .ready_ms = w->now,
        .order = ++w->order, .bytes = 1, .owner = &w->items[at],
        .below_ms = draw(w, 4) == 0 ? draw(w, 100000) : 0,
        .deadline_ms = draw(w, 16) == 0 ? w->now + draw(w, 5000000) : 0,
        .sig.key = { 1 + kind, 1 },
    });
}

static void end_item(struct world *w, struct plan_item *i, bool learn)
{
    *(struct plan_item **) plan_owner(i) = NULL;
    for (uint32_t k = 0; k < w->nclaimants; k++)
        if (w->claimants[k] == i)
            w->claimants[k--] = w->claimants[--w->nclaimants];
    plan_end(w->p, i, learn);
}

static void evict(struct world *w, const struct plan_decision *d, bool at_once)
{
    if (plan_state(d->item) != ITEM_RUNNING || !item_waits(d->claimant))
        w->wrong = "an eviction of nobody, or for nobody";
    w->claimants[w->nclaimants++ % ITEMS] = d->claimant;
    w->evictions++;
    w->suspends[(struct plan_item **) plan_owner(d->item) - w->items] =
        d->how == YIELD_SUSPEND;
    plan_leaving(w->p, d->item, d->claimant);
    if (at_once)
        plan_left(w->p, d->item, d->how == YIELD_SUSPEND, 0);
}

static void settle(struct world *w, bool at_once)
{
    struct plan_decision d;
    struct err err = { 0 };

    for (uint32_t k = 0; plan_next(w->p, &d); k++) {
        if (k == 100000) {
            w->wrong = "decisions without end";
            break;
        }
        if (d.what == PLAN_EVICT) {
            evict(w, &d, at_once);
        } else if (plan_start(w->p, d.item, d.places, d.nplaces, &err) < 0) {
            w->wrong = "a start that cannot be";
            break;
        } else {
            w->starts++;
        }
    }
}

static void all_leave(struct world *w)
{
    for (uint32_t k = 0; k < ITEMS; k++)
        if (w->items[k] && plan_state(w->items[k]) == ITEM_LEAVING)
            plan_left(w->p, w->items[k], w->suspends[k], 0);
}

/* Everybody has left and all is decided. */
static void look(struct world *w)
{
    static const struct place_opts none;

    for (uint32_t k = 0; k < w->nclaimants; k++)
        if (!item_runs(w->claimants[k]))
            w->wrong = "somebody left for one who does not start";
    w->nclaimants = 0;
    for (uint32_t k = 0; k < LOOKED_AT; k++) {
        struct plan_item *i = w->items[draw(w, ITEMS)];
        struct plan_place *places = NULL;
        uint32_t n;
        double score;

        if (i && item_waits(i) &&
            place_find(w->p, i, &none, &places, &n, &score))
            w->wrong = "somebody waits for whom there is a place";
        free(places);
    }
}

static void end_some(struct world *w, uint32_t one_in)
{
    for (uint32_t k = 0; k < ITEMS; k++)
        if (w->items[k] && item_runs(w->items[k]) && draw(w, one_in) == 0)
            end_item(w, w->items[k], true);
}

static void step(struct world *w, bool comes)
{
    w->now += draw(w, 100000);
    plan_tick(w->p, w->now);
    end_some(w, comes ? 40 : 8);
    for (uint32_t k = 0; comes && k < 40; k++)
        add_item(w);
    for (uint32_t k = 0; comes && k < 4; k++) {
        struct plan_item *i = w->items[draw(w, ITEMS)];

        if (i && item_waits(i))
            end_item(w, i, false);
    }
    settle(w, draw(w, 4) != 0);
    all_leave(w);
    settle(w, true);
    look(w);
}

static size_t waiting(const struct world *w)
{
    return plan_waiting(w->p);
}

static void test_large(uint64_t seed)
{
    struct world w;
    struct err err = { 0 };
    uint32_t k = 0;

    open_world(&w, seed);
    for (; k < STEPS && !w.wrong; k++) {
        step(&w, true);
        if (k % 20 == 0 && plan_check(w.p, &err) < 0)
            w.wrong = err.text;
    }
    ok(!w.wrong, "seed %ju, step %u: %s", (uintmax_t) seed, k,
       w.wrong ? w.wrong : "all is well");
    ok(w.evictions > 100 && waiting(&w) > 100, "%u starts, %u evictions, "
       "%zu wait", w.starts, w.evictions, waiting(&w));
    for (k = 0; k < 4 * STEPS && waiting(&w) > 0 && !w.wrong; k++)
        step(&w, false);
    ok(waiting(&w) == 0 && !w.wrong, "in the end all have started: %zu wait; "
       "%s", waiting(&w), w.wrong ? w.wrong : "all is well");
    close_world(&w);
}

int main(void)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        test_large(seed);
    return tap_done();
}
