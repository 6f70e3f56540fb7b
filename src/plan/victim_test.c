#include "plan/room_bed.h"

/* Who has to go beside those who leave anyhow. */

static void no_moves(struct bed *b)
{
    struct policy policy = *plan_policy(b->p);

    policy.move = false;
    plan_set_policy(b->p, &policy);
}

/* What leaves anyhow is counted, all its ranks, and each once. */
static void test_leaves_anyhow(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *gang, *low, *high;

    bed_open(b);
    (void) bed_node(b, "m", 2, false, false);
    (void) bed_node(b, "n", 2, false, false);
    gang = RAN(0, .milli = 1000, .ranks = 2, .yield = YIELD_KILL);
    low = RAN(6 * MINUTE, .milli = 2000, .yield = YIELD_KILL);
    ok(gang->places[0].node == gang->places[1].node && bed_runs(low),
       "two ranks are on one node");
    plan_leaving(b->p, gang, NULL);
    high = BED(.milli = 2000, .priority = 1);
    ok(nothing(b), "nobody else has to go");
    plan_left(b->p, gang, false, 0);
    bed_run(b);
    ok(bed_runs(high) && bed_runs(low), "it starts there");
    plan_free(b->p);
}

/* ... also where that is too little alone. */
static void test_leaves_beside(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *goes, *low, *high;

    bed_open(b);
    (void) bed_node(b, "n", 1, true, false);
    goes = RAN(0, .milli = 500);
    low = RAN(6 * MINUTE, .milli = 500);
    plan_leaving(b->p, goes, NULL);
    high = BED(.milli = 1000, .priority = 1);
    ok(evicts(b, low, high, EVICT_PRIORITY, YIELD_SUSPEND),
       "who is beside one that leaves has to go as well");
    plan_leaving(b->p, low, high);
    ok(nothing(b), "one after the other");
    plan_left(b->p, low, true, 0);
    plan_left(b->p, goes, true, 0);
    bed_run(b);
    ok(bed_runs(high), "and with both gone it starts");
    plan_free(b->p);
}

/* One leaves of itself, and its place would do; then its node closes. */
static void test_leaving_closed(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *goes, *low, *high;
    struct plan_node *n;

    bed_open(b);
    no_moves(b);
    n = bed_node(b, "m", 1, false, false);
    goes = RAN(0, .milli = 1000);
    (void) bed_node(b, "n", 1, false, false);
    low = RAN(6 * MINUTE, .milli = 1000);
    plan_leaving(b->p, goes, NULL);
    high = BED(.milli = 1000, .priority = 1);
    ok(nothing(b), "nobody has to go where one is leaving");
    plan_node_open(b->p, n, false);
    bed_run(b);
    ok(bed_runs(high) && !bed_runs(low), "until that place is closed");
    plan_free(b->p);
}

int main(void)
{
    test_leaves_anyhow();
    test_leaves_beside();
    test_leaving_closed();
    return tap_done();
}
