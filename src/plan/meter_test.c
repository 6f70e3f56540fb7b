#include "base/tap.h"
#include "plan/plan_int.h"

#include <string.h>

static struct plan_node *add_node(struct plan *p, const char *name,
                                  const char *pool, const char *model)
{
    const struct plan_device list[] = { { model, 1 }, { model, 1 } };

    return plan_node_add(p, &(struct plan_node_spec) {
        .name = name, .pool = pool, .domain = "", .cpu_milli = 4000,
        .memory = 100, .devices = list, .ndevices = 2,
    }, NULL);
}

static struct plan_item *add_item(struct plan *p, struct plan_tenant *t,
                                  uint32_t gpu_milli, uint64_t cpus)
{
    const struct plan_part part = {
        .need = { .gpu_milli = gpu_milli, .cpu_milli = cpus * 1000 },
        .count = 1, .max = 1,
    };

    return plan_add(p, &(struct plan_item_spec) {
        .tenant = t, .parts = &part, .nparts = 1, .order = p->items + 1,
        .yield = YIELD_NEVER, .ready_ms = plan_now(p),
    });
}

/* The shares of the next second alone. */
static struct plan_meter second(struct plan *p)
{
    struct plan_meter a, b;

    plan_meter(p, &a);
    plan_tick(p, plan_now(p) + 1000);
    plan_meter(p, &b);
    b.devices.used -= a.devices.used;
    b.devices.idle_nodemand -= a.devices.idle_nodemand;
    b.devices.idle_frag -= a.devices.idle_frag;
    b.devices.waste -= a.devices.waste;
    b.cpus.used -= a.cpus.used;
    b.cpus.idle_nodemand -= a.cpus.idle_nodemand;
    b.cpus.idle_frag -= a.cpus.idle_frag;
    b.cpus.waste -= a.cpus.waste;
    return b;
}

static bool is(struct plan_shares s, uint64_t used, uint64_t none,
               uint64_t frag, uint64_t waste)
{
    bool good = s.used == used * 1000 && s.idle_nodemand == none * 1000 &&
                s.idle_frag == frag * 1000 && s.waste == waste * 1000;

    if (!good)
        printf("# %ju %ju %ju %ju\n", (uintmax_t) s.used,
               (uintmax_t) s.idle_nodemand, (uintmax_t) s.idle_frag,
               (uintmax_t) s.waste);
    return good;
}

static void start(struct plan *p)
{
    struct plan_decision d;

    ok(plan_next(p, &d) && d.what == PLAN_START &&
       plan_start(p, d.item, d.places, d.nplaces, NULL) == 0, "one starts");
}

static void test_shares(void)
{
    struct plan *p = plan_new();
    struct plan_tenant *t = plan_tenant_set(p, &(struct plan_tenant_spec) {
        .name = "t", .max_milli = PLAN_UNLIMITED });
    struct plan_node *n = add_node(p, "n", "main", "A100");
    struct plan_item *big, *never;

    ok(is(second(p).devices, 0, 2000, 0, 0), "nobody waits: no demand");
    (void) add_item(p, t, 500, 1);
    ok(is(second(p).devices, 0, 0, 0, 2000), "one would fit: waste");
    start(p);
    ok(is(second(p).devices, 500, 1500, 0, 0), "it runs: a half is used");
    ok(is(second(p).cpus, 1000, 3000, 0, 0), "and a CPU");
    big = add_item(p, t, 2000, 1);
    ok(is(second(p).devices, 500, 0, 1500, 0), "one fits nowhere: fragmented");
    ok(is(second(p).cpus, 1000, 0, 3000, 0), "and it wants a CPU, too");
    plan_hold(p, big, true);
    ok(is(second(p).devices, 500, 1500, 0, 0), "what is held is no demand");
    never = add_item(p, t, 9000, 1);
    ok(is(second(p).devices, 500, 1500, 0, 0),
       "nor is what can never start");
    plan_end(p, never, false);
    (void) add_item(p, t, 0, 4);
    ok(is(second(p).devices, 500, 1500, 0, 0),
       "nor, for devices, who wants CPUs alone");
    ok(is(second(p).cpus, 1000, 0, 3000, 0), "the CPUs are too few for it");
    plan_device_open(p, n, 1, false);
    ok(is(second(p).devices, 500, 500, 0, 0),
       "what is closed and idle counts nowhere");
    plan_free(p);
}

static void test_limit(void)
{
    struct plan *p = plan_new();
    struct plan_tenant *t = plan_tenant_set(p, &(struct plan_tenant_spec) {
        .name = "t", .max_milli = 1000 });

    (void) add_node(p, "n", "main", "A100");
    (void) add_item(p, t, 1000, 1);
    (void) add_item(p, t, 1000, 1);
    start(p);
    ok(is(second(p).devices, 1000, 1000, 0, 0),
       "who is over its limit is no demand");
    plan_free(p);
}

struct seen {
    unsigned count;
    uint64_t used;
    bool names;
};

static void see(const char *pool, const char *model,
                const struct plan_shares *s, void *arg)
{
    struct seen *seen = arg;

    seen->count++;
    seen->used += s->used;
    seen->names |= strcmp(pool, "far") == 0 && strcmp(model, "H100") == 0 &&
                   s->idle_nodemand == 7;
}

static void test_each(void)
{
    struct plan *p = plan_new();
    struct plan_tenant *t = plan_tenant_set(p, &(struct plan_tenant_spec) {
        .name = "t", .max_milli = PLAN_UNLIMITED });
    struct plan_shares far = { .used = 3, .idle_nodemand = 7 };
    struct plan_meter m = { .devices = { .waste = 5 }, .suspending = 2 };
    struct seen seen = { 0 };

    plan_meter_load(p, &m);
    ok(plan_meter_load_one(p, "far", "H100", &far) == 0, "shares are loaded");
    (void) add_node(p, "n", "main", "A100");
    (void) add_item(p, t, 1000, 1);
    start(p);
    (void) second(p);
    plan_meter_each(p, see, &seen);
    ok(seen.count == 2 && seen.used == 1000003 && seen.names,
       "each pool and model has its own");
    plan_meter(p, &m);
    ok(m.devices.waste == 5 && m.suspending == 2 && m.devices.used == 1000000,
       "the sum goes on from what was loaded");
    plan_free(p);
}

static uint64_t idle_of(const struct plan *p, const struct plan_tenant *t)
{
    struct plan_waited w;
    struct plan_meter m;

    plan_tenant_waited(t, &w);
    plan_meter(p, &m);
    return plan_waited_idle(&w, &m) / 1000000;
}

/* Who wants two devices waits while one of them stands idle. */
static void test_tenants(void)
{
    struct plan *p = plan_new();
    struct plan_tenant *lab, *a, *b;
    struct plan_item *first, *second_one;
    struct plan_waited kept;

    lab = plan_tenant_set(p, &(struct plan_tenant_spec) {
        .name = "lab", .max_milli = PLAN_UNLIMITED });
    a = plan_tenant_set(p, &(struct plan_tenant_spec) {
        .name = "a", .parent = lab, .max_milli = PLAN_UNLIMITED });
    b = plan_tenant_set(p, &(struct plan_tenant_spec) {
        .name = "b", .max_milli = PLAN_UNLIMITED });
    (void) add_node(p, "n", "main", "A100");
    (void) add_item(p, b, 1000, 1);
    start(p);
    (void) second(p);
    ok(idle_of(p, a) == 0 && idle_of(p, lab) == 0, "idle, and nobody waits");
    first = add_item(p, a, 2000, 1);
    (void) second(p);
    second_one = add_item(p, a, 2000, 1);
    (void) second(p);
    ok(idle_of(p, a) == 2 && idle_of(p, lab) == 2 && idle_of(p, b) == 0,
       "a device for two seconds counts for who waits and for those above");
    plan_end(p, first, false);
    (void) second(p);
    ok(idle_of(p, a) == 3, "as long as one of its items waits");
    plan_hold(p, second_one, true);
    (void) add_item(p, b, 2000, 1);
    (void) second(p);
    ok(idle_of(p, a) == 3 && idle_of(p, lab) == 3 && idle_of(p, b) == 1,
       "not while it waits for something else; others go on");
    plan_hold(p, second_one, false);
    (void) plan_tenant_set(p, &(struct plan_tenant_spec) {
        .name = "a", .parent = b, .max_milli = PLAN_UNLIMITED });
    (void) second(p);
    ok(idle_of(p, a) == 4 && idle_of(p, lab) == 3 && idle_of(p, b) == 2 &&
       plan_check(p, NULL) == 0, "under another it counts there");
    plan_tenant_waited(a, &kept);
    kept.idle += 1000000;
    plan_tenant_waited_load(a, &kept);
    ok(idle_of(p, a) == 5, "it goes on from what was loaded");
    plan_free(p);
}

int main(void)
{
    test_tenants();
    test_shares();
    test_limit();
    test_each();
    return tap_done();
}
