#include "plan/bed.h"
#include "plan/cost.h"

#include <math.h>

static const uint64_t GIB = UINT64_C(1) << 30;

static bool is_about(double ms, double want)
{
    return fabs(ms - want) < 0.05 * want;
}

/* Two seconds, and one for ten GiB more. */
static uint64_t round_ms(uint64_t gib)
{
    return 2000 + 100 * gib;
}

static void test_line(void)
{
    struct cost c = { 0 };

    cost_learn(&c, 40 * GIB, 6000);
    ok(is_about(cost_ms(&c, GIB), 6000) && is_about(cost_ms(&c, 80 * GIB),
       6000), "after one round all are thought to be alike");
    for (uint64_t k = 0; k < 100; k++)
        cost_learn(&c, (k % 5 * 20 + 1) * GIB, round_ms(k % 5 * 20 + 1));
    ok(is_about(cost_ms(&c, 0), 2000) && is_about(cost_ms(&c, 70 * GIB),
       9000), "%.0f ms, and %.0f for 70 GiB", cost_ms(&c, 0),
       cost_ms(&c, 70 * GIB));
    for (uint64_t k = 0; k < 100; k++)
        cost_learn(&c, (k % 5 * 20 + 1) * GIB, 2 * round_ms(k % 5 * 20 + 1));
    ok(is_about(cost_ms(&c, 70 * GIB), 18000), "what has become slower is "
       "known soon");
    c = (struct cost) { 0 };
    for (uint64_t k = 0; k < 100; k++)
        cost_learn(&c, 5, 60000);
    ok(c.ms >= 60000 && c.ms <= 60000 && c.spread <= 0,
       "what is always the same is kept to the digit");
    for (uint64_t k = 0; k < 100; k++)
        cost_learn(&c, k % 2 ? GIB : 80 * GIB, k % 2 ? 9000 : 1000);
    ok(cost_ms(&c, 80 * GIB) > 0 && cost_ms(&c, 0) > 0,
       "more bytes never cost less, none not less than nothing");
}

static struct plan_node *device_of(struct bed *b, const char *name,
                                   const char *model)
{
    struct plan_device d = { model, 80 };

    return plan_node_add(b->p, &(struct plan_node_spec) {
        .name = name, .pool = name, .domain = "", .cpu_milli = 64000,
        .memory = 1024, .devices = &d, .ndevices = 1, .suspends = true,
        .roams = true,
    }, NULL);
}

static void suspend_once(struct bed *b, struct plan_item *i, uint64_t off_ms,
                         uint64_t on_ms)
{
    struct plan_place at = i->places[0];

    plan_leaving(b->p, i, NULL);
    plan_left(b->p, i, true, off_ms);
    ok(plan_start(b->p, i, &at, 1, NULL) == 0, "it goes on");
    plan_resumed(b->p, i, on_ms);
}

/* Of two on devices of two models, who goes for one that is more important? */
static void test_victim(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *i[2], *high;
    struct plan_meter m;

    bed_open(b);
    (void) device_of(b, "a", "slow");
    (void) device_of(b, "b", "quick");
    for (unsigned k = 0; k < 2; k++)
        i[k] = BED(.milli = 1000);
    bed_run(b);
    bed_wait(b, 20 * MINUTE);
    ok(is_about(suspend_cost_ms(b->p, i[0]), 60000), "unmeasured, the "
       "policy's number");
    plan_resumed(b->p, i[0], 5000);
    ok(is_about(suspend_cost_ms(b->p, i[0]), 60000), "one that was not "
       "suspended teaches nothing");
    for (unsigned k = 0; k < 2; k++) {
        bool quick = strcmp(i[k]->places[0].node->name, "b") == 0;

        suspend_once(b, i[k], quick ? 500 : 40000, quick ? 1500 : 20000);
        ok(is_about(suspend_cost_ms(b->p, i[k]), quick ? 2000 : 60000),
           "%s: off and on again", quick ? "quick" : "slow");
    }
    plan_meter(b->p, &m);
    ok(m.suspending == UINT64_C(1000) * (5000 + 2000 + 60000),
       "all of it is counted");
    bed_wait(b, 20 * MINUTE);
    high = BED(.milli = 1000, .priority = 1);
    bed_run(b);
    ok(bed_runs(high) && strcmp(high->places[0].node->name, "b") == 0,
       "who is suspended with less loss gives way");
    plan_free(b->p);
}

/* One of which nobody knows what it has there, after others of whom that is
 * known.
 */
static void test_unknown(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *i, *new;

    bed_open(b);
    (void) device_of(b, "a", "H");
    i = BED(.milli = 1000);
    bed_run(b);
    for (uint64_t k = 0; k < 100; k++) {
        uint64_t gib = k % 2 ? 1 : 9;

        plan_set_bytes(i, gib * GIB);
        suspend_once(b, i, round_ms(10 * gib) / 2, round_ms(10 * gib) / 2);
    }
    ok(is_about(suspend_cost_ms(b->p, i), round_ms(10)),
       "one with 1 GiB: %.0f ms", suspend_cost_ms(b->p, i));
    plan_end(b->p, i, true);
    new = BED(.milli = 1000, .unmeasured = true);
    bed_run(b);
    ok(bed_runs(new) && is_about(suspend_cost_ms(b->p, new), round_ms(50)),
       "one that never left costs what rounds took: %.0f ms",
       suspend_cost_ms(b->p, new));
    plan_free(b->p);
}

int main(void)
{
    test_line();
    test_unknown();
    test_victim();
    return tap_done();
}
