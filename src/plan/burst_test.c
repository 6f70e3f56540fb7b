#include "plan/bed.h"

/* Two devices, one of them twice as fast: who waits for it, who does not? */

static struct plan_node *device_of(struct bed *b, const char *name,
                                   const char *model)
{
    struct plan_device d = { model, 1 };

    return plan_node_add(b->p, &(struct plan_node_spec) {
        .name = name, .pool = "pool", .domain = "", .cpu_milli = 64000,
        .memory = 1024, .devices = &d, .ndevices = 1,
    }, NULL);
}

static void set_policy(struct bed *b, double rating, double price,
                       double margin)
{
    struct policy y = *plan_policy(b->p);

    y.nmodels = 1;
    y.models[0] = (struct policy_model) { "good", rating, price };
    y.price_hour = 2;
    y.burst_margin = margin;
    plan_set_policy(b->p, &y);
}

/* The good device has one that ends in about that time; the other is free.
 * Lengths are at rating 1: a long one takes an hour on the slow device.
 */
static struct plan_item *bed_two(struct bed *b, double rating, double price,
                                 double margin, uint64_t busy_ms)
{
    struct plan_item *first;

    bed_open(b);
    set_policy(b, rating, price, margin);
    bed_teach(b, "long", 60 * MINUTE, 1);
    bed_teach(b, "busy", 40 * MINUTE, 1);
    (void) device_of(b, "a", "good");
    (void) device_of(b, "b", "poor");
    first = BED(.milli = 1000, .like = "busy", .yield = YIELD_NEVER);
    bed_run(b);
    bed_wait(b, (uint64_t) (40 * (double) MINUTE / rating) - busy_ms);
    return first;
}

static bool runs_on(const struct plan_item *i, const char *node)
{
    return bed_runs(i) && strcmp(i->places[0].node->name, node) == 0;
}

/* So many nodes beside them that not all are looked at; none has a device. */
static void add_others(struct bed *b, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        autofree char *name = mem_printf("other%03u", k);

        (void) plan_node_add(b->p, &(struct plan_node_spec) {
            .name = name, .pool = "pool", .domain = "", .cpu_milli = 1000,
            .memory = 1024,
        }, NULL);
    }
}

static void test_waits(uint32_t others)
{
    struct bed bed, *b = &bed;
    struct plan_item *first = bed_two(b, 2, 0, 0, 5 * MINUTE), *i;
    struct plan_reason r;
    uint64_t now = plan_now(b->p);

    add_others(b, others);
    i = BED(.milli = 1000, .like = "long", .yield = YIELD_NEVER);
    bed_run(b);
    ok(runs_on(first, "a") && !bed_runs(i), "it waits for the faster one");
    plan_reason(b->p, i, now, &r);
    ok(r.code == REASON_BETTER && strcmp(r.better, "good") == 0 &&
       strcmp(r.model, "poor") == 0, "%s: %s, not %s",
       plan_reason_name(r.code), r.better, r.model);
    ok(r.start_ms > now && r.start_ms <= now + 10 * MINUTE &&
       r.later_ms > 15 * MINUTE && r.later_ms < 30 * MINUTE,
       "free in %ju s, %ju s later here", (uintmax_t) (r.start_ms - now) / 1000,
       (uintmax_t) r.later_ms / 1000);
    ok(plan_wake_ms(b->p) <= r.start_ms, "it looks again when that is over");
    plan_reason(b->p, i, now + 20 * MINUTE, &r);
    ok(r.start_low_ms == now + 20 * MINUTE && r.start_ms == r.start_low_ms &&
       r.start_high_ms == r.start_ms, "asked later, it starts no sooner");
    plan_end(b->p, first, true);
    bed_run(b);
    ok(runs_on(i, "a"), "and has it when it is free");
    plan_free(b->p);
}

/* What was to end does not: it takes what there is, at the latest when its
 * patience is over.
 */
static void test_late(uint32_t others)
{
    struct bed bed, *b = &bed;
    struct plan_item *i;
    uint64_t end;

    (void) bed_two(b, 2, 0, 0, 2 * MINUTE);
    add_others(b, others);
    end = plan_now(b->p) + 10 * MINUTE;
    i = BED(.milli = 1000, .like = "long", .yield = YIELD_NEVER);
    bed_run(b);
    ok(!bed_runs(i), "it waits");
    while (!bed_runs(i) && plan_wake_ms(b->p) < UINT64_MAX) {
        plan_tick(b->p, plan_wake_ms(b->p));
        bed_run(b);
    }
    ok(runs_on(i, "b") && plan_now(b->p) <= end, "for %ju s, not longer",
       (uintmax_t) (plan_now(b->p) + 10 * MINUTE - end) / 1000);
    plan_free(b->p);
}

static void test_starts(uint32_t others)
{
    struct bed bed, *b = &bed;
    struct plan_item *i, *j;

    (void) bed_two(b, 2, 0, 0, 15 * MINUTE);
    add_others(b, others);
    i = BED(.milli = 1000, .like = "long");
    bed_run(b);
    ok(runs_on(i, "b"), "nobody waits for what comes after its patience");
    plan_free(b->p);

    (void) bed_two(b, 2, 0, 0, 5 * MINUTE);
    bed_teach(b, "short", 4 * MINUTE, 1);
    i = BED(.milli = 1000, .like = "short");
    bed_run(b);
    ok(runs_on(i, "b"), "nor who is done by then");
    plan_free(b->p);

    (void) bed_two(b, 1, 2, 0, 5 * MINUTE);
    i = BED(.milli = 1000, .like = "long");
    bed_run(b);
    ok(runs_on(i, "b"), "nor where all are as fast");
    plan_free(b->p);

    (void) bed_two(b, 2, 0, 0, 5 * MINUTE);
    i = BED(.milli = 1000, .like = "long", .yield = YIELD_NEVER);
    j = BED(.milli = 1000, .like = "long", .yield = YIELD_NEVER);
    bed_run(b);
    ok(!bed_runs(i) && runs_on(j, "b"), "of two the second one takes what is "
       "free");
    plan_free(b->p);

    (void) bed_two(b, 2, 0, 0, 5 * MINUTE);
    i = bed_add(b, (struct bed_item) { .milli = 1000, .like = "long",
                                       .ranks = 2, .yield = YIELD_NEVER });
    j = BED(.milli = 1000, .like = "long", .yield = YIELD_NEVER);
    bed_run(b);
    ok(!bed_runs(i) && runs_on(j, "b"), "who is behind one that wants all of "
       "them does not wait");
    plan_free(b->p);
}

/* A gang needs all of its devices, and is as fast as the slowest. */
static void test_gang(void)
{
    static const char *const names[] = { "a", "b", "c", "d" };
    struct bed bed, *b = &bed;
    struct plan_item *first[2], *gang;

    bed_open(b);
    set_policy(b, 2, 0, 0);
    bed_teach(b, "long", 60 * MINUTE, 2);
    bed_teach(b, "busy", 40 * MINUTE, 1);
    for (unsigned k = 0; k < 4; k++)
        (void) device_of(b, names[k], k < 2 ? "good" : "poor");
    for (unsigned k = 0; k < 2; k++)
        first[k] = BED(.milli = 1000, .like = "busy", .yield = YIELD_NEVER);
    bed_run(b);
    bed_wait(b, 15 * MINUTE);
    gang = BED(.milli = 1000, .ranks = 2, .like = "long",
               .yield = YIELD_NEVER);
    bed_run(b);
    ok(!bed_runs(gang), "a gang waits for two that are fast");
    plan_end(b->p, first[0], true);
    bed_run(b);
    ok(!bed_runs(gang), "and does not start with one of them");
    plan_end(b->p, first[1], true);
    bed_run(b);
    ok(bed_runs(gang) && strcmp(gang->places[0].node->name, "b") <= 0 &&
       strcmp(gang->places[1].node->name, "b") <= 0, "but with both");
    plan_free(b->p);
}

/* Nothing was ever seen to end: who knows how long that takes? */
static void test_unknown(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *first, *i;

    bed_open(b);
    set_policy(b, 2, 0, 0);
    (void) device_of(b, "a", "good");
    (void) device_of(b, "b", "poor");
    first = BED(.milli = 1000);
    i = BED(.milli = 1000);
    bed_run(b);
    ok(runs_on(first, "a") && runs_on(i, "b"), "who knows nothing starts");
    plan_free(b->p);
}

static void test_margin(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *i;
    struct plan_reason r;

    (void) bed_two(b, 2, 0, -10, 5 * MINUTE);
    i = BED(.milli = 1000, .like = "long");
    bed_run(b);
    ok(runs_on(i, "b"), "below 0 it may end later");
    plan_free(b->p);

    (void) bed_two(b, 1, 1, 0.5, 5 * MINUTE);
    i = BED(.milli = 1000, .like = "long", .yield = YIELD_NEVER);
    bed_run(b);
    plan_reason(b->p, i, plan_now(b->p), &r);
    ok(!bed_runs(i) && r.code == REASON_BETTER && r.later_ms == 0,
       "with a margin one waits for the cheaper device");
    set_policy(b, 1, 1, 0);
    bed_run(b);
    ok(runs_on(i, "b"), "and no longer when the policy says so");
    plan_free(b->p);
}

static void test_price(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *i;

    bed_open(b);
    set_policy(b, 1, 1, 0);
    (void) device_of(b, "a", "poor");
    (void) device_of(b, "b", "good");
    i = BED(.milli = 1000);
    bed_run(b);
    ok(runs_on(i, "b"), "of devices as fast the cheaper one");
    plan_end(b->p, i, false);
    set_policy(b, 1, 3, 0);
    i = BED(.milli = 1000);
    bed_run(b);
    ok(runs_on(i, "a"), "whichever that is");
    plan_end(b->p, i, false);
    set_policy(b, 1.5, 30, 0);
    i = BED(.milli = 1000);
    bed_run(b);
    ok(runs_on(i, "b"), "and the faster one at any price");
    plan_free(b->p);
}

/* In a large pool the room on a poor device is not for who has turned one down:
 * who comes after it has it, and the good one when that ends is the first's.
 */
static void test_large(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *first = bed_two(b, 2, 0, 0, 5 * MINUTE), *i, *j, *k;

    add_others(b, 300);
    bed_teach(b, "short", MINUTE, 3);
    i = BED(.milli = 1000, .like = "long", .yield = YIELD_NEVER);
    bed_run(b);
    j = BED(.milli = 1000, .like = "short", .yield = YIELD_NEVER);
    k = BED(.milli = 1000, .like = "short", .yield = YIELD_NEVER);
    bed_run(b);
    ok(!bed_runs(i) && runs_on(j, "b") && !bed_runs(k), "who is next has it");
    plan_end(b->p, j, false);
    bed_run(b);
    ok(!bed_runs(i) && runs_on(k, "b"), "and again");
    plan_end(b->p, first, true);
    bed_run(b);
    ok(runs_on(i, "a"), "the good one is for whom it was hoped");
    plan_free(b->p);
}

/* One machine with a good device and poor ones beside it, which are free; it has
 * eight CPUs.
 */
static void test_mixed(uint32_t poor, uint64_t cpus, uint32_t others)
{
    const struct plan_device devices[] = {
        { "good", 1 }, { "poor", 1 }, { "poor", 1 }, { "poor", 1 },
    };
    struct bed bed, *b = &bed;
    struct plan_item *first, *i;

    bed_open(b);
    set_policy(b, 4, 0, 0);
    bed_teach(b, "long", 60 * MINUTE, 1);
    bed_teach(b, "busy", 20 * MINUTE, 1);
    (void) plan_node_add(b->p, &(struct plan_node_spec) {
        .name = "a", .pool = "pool", .domain = "", .cpu_milli = 8000,
        .memory = 1024, .devices = devices, .ndevices = 1 + poor,
    }, NULL);
    add_others(b, others);
    first = BED(.milli = 1000, .cpus = cpus, .like = "busy",
                .yield = YIELD_NEVER);
    bed_run(b);
    ok(bed_runs(first) && first->places[0].device[0] == 0,
       "the first has the good one");
    i = BED(.milli = 1000, .cpus = cpus, .like = "long");
    bed_run(b);
    ok(!bed_runs(i), "the next waits for it, with %u others free", poor);
    plan_free(b->p);
}

int main(void)
{
    test_mixed(1, 1, 0);
    test_mixed(3, 1, 0);
    test_mixed(3, 4, 0);
    test_mixed(3, 1, 300);
    test_waits(0);
    test_waits(300);
    test_late(0);
    test_late(300);
    test_starts(0);
    test_starts(300);
    test_large();
    test_gang();
    test_unknown();
    test_margin();
    test_price();
    return tap_done();
}
