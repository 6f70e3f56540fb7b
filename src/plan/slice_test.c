#include "plan/bed.h"
#include "plan/cost.h"

static const uint64_t SECOND = 1000;

static void set_slice(struct bed *b, uint64_t ms, double cost_s)
{
    struct policy policy;

    policy_init(&policy);
    policy.slice_ms = ms;
    policy.suspend_cost_s = cost_s;
    plan_set_policy(b->p, &policy);
}

/* From wake to wake, as an owner does, for that long; each suspension takes
 * off_ms and each return on_ms, which are learned.
 */
static void run_for(struct bed *b, uint64_t ms, uint64_t off_ms,
                    uint64_t on_ms)
{
    uint64_t end = plan_now(b->p) + ms;
    struct plan_decision d;
    struct err err;

    for (unsigned n = 0; n < 10000; n++) {
        if (plan_next(b->p, &d)) {
            if (d.what == PLAN_EVICT) {
                plan_leaving(b->p, d.item, d.claimant);
                plan_tick(b->p, plan_now(b->p) + off_ms);
                plan_left(b->p, d.item, true, off_ms);
            } else if (d.what == PLAN_START) {
                bool back = plan_state(d.item) == ITEM_SUSPENDED;

                ok(plan_start(b->p, d.item, d.places, d.nplaces, &err) == 0,
                   "it starts");
                if (back)
                    plan_resumed(b->p, d.item, on_ms);
            }
            continue;
        }
        if (plan_now(b->p) >= end)
            return;
        plan_tick(b->p, plan_wake_ms(b->p) < end ? plan_wake_ms(b->p) : end);
    }
    ok(false, "there is an end");
}

/* Within a tenth of what the others had. */
static bool is_fair(const struct bed *b, struct plan_item *const *i,
                    uint32_t n)
{
    uint64_t least = UINT64_MAX, most = 0;

    for (uint32_t k = 0; k < n; k++) {
        uint64_t work = plan_work(b->p, i[k]);

        least = work < least ? work : least;
        most = work > most ? work : most;
    }
    printf("# device time from %llu to %llu ms\n", (unsigned long long) least,
           (unsigned long long) most);
    return least > 0 && most - least <= most / 10;
}

static void test_two(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *i[2];

    bed_open(b);
    (void) bed_node(b, "n", 1, true, false);
    set_slice(b, 10 * SECOND, 0.1);
    i[0] = BED(.milli = 1000);
    i[1] = BED(.milli = 1000);
    bed_run(b);
    ok(bed_runs(i[0]) && !bed_runs(i[1]), "one runs, one waits");
    bed_wait(b, 10 * SECOND - 1);
    ok(bed_runs(i[0]), "a slice is whole");
    ok(plan_wake_ms(b->p) == plan_now(b->p) + 1, "the plan says when");
    bed_wait(b, 1);
    ok(bed_runs(i[1]) && plan_state(i[0]) == ITEM_SUSPENDED,
       "and then it is the other's");
    bed_wait(b, 10 * SECOND - 1);
    ok(bed_runs(i[1]), "for as long");
    bed_wait(b, 1);
    ok(bed_runs(i[0]) && !bed_runs(i[1]), "and so on");
    plan_end(b->p, i[1], true);
    bed_wait(b, MINUTE);
    ok(bed_runs(i[0]), "alone, one goes on");
    ok(plan_wake_ms(b->p) == UINT64_MAX, "and nobody is woken for it");
    i[1] = BED(.milli = 1000);
    bed_run(b);
    ok(bed_runs(i[1]), "one that comes then does not wait");
    plan_free(b->p);
}

static void test_off(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *i[2];

    bed_open(b);
    (void) bed_node(b, "n", 1, true, false);
    set_slice(b, 0, 0.1);
    i[0] = BED(.milli = 1000);
    bed_run(b);
    i[1] = BED(.milli = 1000);
    bed_wait(b, MINUTE);
    ok(bed_runs(i[0]) && !bed_runs(i[1]), "without a slice nobody goes");
    set_slice(b, 10 * SECOND, 0.1);
    bed_run(b);
    ok(bed_runs(i[1]), "a policy counts at once");
    plan_free(b->p);
}

/* Equal shares with suspensions that take time, of any number on any number of
 * devices.
 */
static void test_fair(uint32_t devices, uint32_t count)
{
    struct bed bed, *b = &bed;
    struct plan_item *i[5];

    bed_open(b);
    (void) bed_node(b, "n", devices, true, false);
    set_slice(b, 10 * SECOND, 0.1);
    for (uint32_t k = 0; k < count; k++)
        i[k] = BED(.milli = 1000);
    run_for(b, 10 * MINUTE, 200, 100);
    ok(is_fair(b, i, count), "%u on %u devices have the same", count, devices);
    plan_free(b->p);
}

static void test_cost(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *i[2];

    bed_open(b);
    (void) bed_node(b, "n", 1, true, false);
    set_slice(b, 10 * SECOND, 3);
    i[0] = BED(.milli = 1000);
    i[1] = BED(.milli = 1000);
    bed_run(b);
    bed_wait(b, 30 * SECOND - 1);
    ok(bed_runs(i[0]), "a slice is ten times what it costs, at least");
    bed_wait(b, 1);
    ok(bed_runs(i[1]), "and no more");
    plan_free(b->p);

    bed_open(b);
    (void) bed_node(b, "n", 1, true, false);
    set_slice(b, 10 * SECOND, 3);
    i[0] = BED(.milli = 1000);
    i[1] = BED(.milli = 1000);
    run_for(b, 10 * MINUTE, 100, 100);
    ok(suspend_cost_ms(b->p, bed_runs(i[0]) ? i[0] : i[1]) < 1000,
       "what it costs is learned");
    bed_wait(b, 10 * SECOND);
    ok(is_fair(b, i, 2), "and slices are as the policy says then");
    plan_free(b->p);
}

static void test_unequal(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *low, *high, *stays, *wide;

    bed_open(b);
    (void) bed_node(b, "n", 2, true, false);
    set_slice(b, 10 * SECOND, 0.1);
    high = BED(.milli = 2000, .priority = 1);
    bed_run(b);
    low = BED(.milli = 1000);
    bed_wait(b, MINUTE);
    ok(bed_runs(high) && !bed_runs(low), "slices are among equals");
    plan_end(b->p, high, true);
    stays = BED(.milli = 1000, .yield = YIELD_KILL);
    bed_run(b);
    wide = BED(.milli = 2000);
    bed_wait(b, MINUTE);
    ok(bed_runs(low) && bed_runs(stays) && !bed_runs(wide),
       "nobody goes for one who does not fit then");
    plan_end(b->p, stays, true);
    bed_run(b);
    ok(bed_runs(wide) && !bed_runs(low), "one of two devices has its slice");
    bed_wait(b, 10 * SECOND);
    ok(bed_runs(low) && !bed_runs(wide), "and gives it back");
    plan_free(b->p);
}

static void test_tenants(void)
{
    struct bed bed, *b = &bed;
    struct plan_tenant *one, *two;
    struct plan_item *i[3];

    bed_open(b);
    (void) bed_node(b, "n", 1, true, false);
    set_slice(b, 10 * SECOND, 0.1);
    one = bed_tenant(b, "one", 3, 0, 0);
    two = bed_tenant(b, "two", 1, 0, 0);
    i[0] = BED(.milli = 1000, .t = one);
    i[1] = BED(.milli = 1000, .t = two);
    run_for(b, 20 * MINUTE, 200, 100);
    printf("# %llu and %llu ms\n",
           (unsigned long long) plan_work(b->p, i[0]),
           (unsigned long long) plan_work(b->p, i[1]));
    ok(plan_work(b->p, i[0]) > plan_work(b->p, i[1]) * 27 / 10 &&
       plan_work(b->p, i[0]) < plan_work(b->p, i[1]) * 33 / 10,
       "tenants have what their weights say");
    plan_free(b->p);
}

/* A plan that is told of a leaving one keeps the room for the same. */
static void test_claim(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *i[3];
    struct plan_decision d;

    bed_open(b);
    (void) bed_node(b, "n", 1, true, false);
    set_slice(b, 10 * SECOND, 0.1);
    for (uint32_t k = 0; k < 3; k++)
        i[k] = BED(.milli = 1000);
    bed_run(b);
    bed_wait(b, 10 * SECOND);
    bed_wait(b, 9 * SECOND);
    ok(bed_runs(i[1]), "the second has its slice");
    plan_tick(b->p, plan_now(b->p) + SECOND);
    plan_leaving(b->p, i[1], i[2]);
    ok(!plan_next(b->p, &d), "nobody else while it goes");
    plan_left(b->p, i[1], true, 0);
    bed_run(b);
    ok(bed_runs(i[2]), "the third, who waits longest");
    plan_free(b->p);
}

/* More nodes than are looked at one by one; a gang goes on on its own. */
static void test_large(void)
{
    enum { MANY = 300 };
    struct plan_item *i[MANY], *one, *gang;
    struct bed bed, *b = &bed;
    uint32_t off = 0;
    char name[16];

    bed_open(b);
    set_slice(b, 10 * SECOND, 0.1);
    for (uint32_t k = 0; k < MANY; k++) {
        (void) snprintf(name, sizeof name, "n%03u", k);
        (void) bed_node(b, name, 1, true, false);
        i[k] = BED(.milli = 1000);
        bed_run(b);
        plan_tick(b->p, plan_now(b->p) + 1);
    }
    one = BED(.milli = 1000);
    bed_wait(b, 10 * SECOND);
    ok(bed_runs(one) && !bed_runs(i[0]), "the first of many goes");
    gang = BED(.milli = 1000, .ranks = 2);
    bed_run(b);
    for (uint32_t k = 0; k < MANY; k++)
        off += !bed_runs(i[k]);
    ok(bed_runs(gang) && off == 3, "for a gang, two: %u", off - 1);
    bed_wait(b, 10 * SECOND);
    ok(!bed_runs(gang) && bed_runs(i[1]) && bed_runs(i[2]),
       "they have their slices on their own nodes");
    bed_wait(b, 10 * SECOND);
    ok(bed_runs(gang), "and so has the gang");
    plan_free(b->p);
}

int main(void)
{
    test_two();
    test_off();
    test_fair(1, 2);
    test_fair(1, 3);
    test_fair(2, 3);
    test_fair(2, 5);
    test_cost();
    test_unequal();
    test_tenants();
    test_claim();
    test_large();
    return tap_done();
}
