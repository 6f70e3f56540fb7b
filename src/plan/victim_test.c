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

/* ... or leaves for one that has no use for it. */
static void test_leaves_for_runner(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *goes, *low, *high, *other;

    bed_open(b);
    no_moves(b);
    (void) bed_node(b, "n", 1, true, false);
    goes = RAN(0, .milli = 500, .yield = YIELD_NEVER);
    low = RAN(6 * MINUTE, .milli = 500);
    other = RAN(0, .cpus = 1);
    high = BED(.milli = 1000, .priority = 1);
    ok(nothing(b), "one never leaves, and the other stays");
    plan_leaving(b->p, goes, other);
    ok(evicts(b, low, high, EVICT_PRIORITY, YIELD_SUSPEND),
       "it does, for one that runs: the other has to go as well");
    bed_run(b);
    plan_free(b->p);
}

static struct plan_place at(struct plan_node *n, uint32_t devices,
                            uint16_t first)
{
    struct plan_place place = { .node = n, .ndevices = devices };

    for (uint32_t d = 0; d < devices; d++)
        place.device[d] = (uint16_t) (first + d);
    return place;
}

static struct plan_item *starts(struct bed *b, struct plan_item *i,
                                const struct plan_place *places, uint32_t n)
{
    struct err err;

    ok(plan_start(b->p, i, places, n, &err) == 0, "it is put there");
    return i;
}

/* Two ranks leave for one that wants the place of the first; it wants it no more,
 * and the second's is for whoever waits there, in a pool where not all look again
 * at any change.
 */
static void test_leaves_for_nobody(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *back, *gang, *low, *high;
    struct plan_node *m, *n;
    char name[8];

    bed_open(b);
    m = bed_node(b, "m", 1, true, false);
    n = bed_node(b, "n", 2, true, false);
    for (unsigned k = 0; k < 16; k++) {
        (void) snprintf(name, sizeof name, "o%u", k);
        (void) bed_node(b, name, 0, true, false);
    }
    back = starts(b, BED(.milli = 2000, .priority = 1),
                  (struct plan_place []) { at(n, 2, 0) }, 1);
    plan_leaving(b->p, back, NULL);
    plan_left(b->p, back, true, 0);
    (void) starts(b, BED(.cpus = 1, .yield = YIELD_NEVER),
                  (struct plan_place []) { at(n, 0, 0) }, 1);
    gang = starts(b, BED(.milli = 1000, .ranks = 2, .yield = YIELD_KILL),
                  (struct plan_place []) { at(m, 1, 0), at(n, 1, 0) }, 2);
    low = starts(b, BED(.milli = 1000),
                 (struct plan_place []) { at(n, 1, 1) }, 1);
    plan_tick(b->p, plan_now(b->p) + 6 * MINUTE);
    high = BED(.milli = 1000, .cpus = 64, .priority = 2);
    ok(evicts(b, gang, high, EVICT_PRIORITY, YIELD_KILL), "the gang goes");
    plan_leaving(b->p, gang, high);
    ok(nothing(b), "and is waited for");
    plan_hold(b->p, high, true);
    ok(evicts(b, low, back, EVICT_PRIORITY, YIELD_SUSPEND),
       "what it leaves is for another now");
    bed_run(b);
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
    test_leaves_for_runner();
    test_leaves_for_nobody();
    test_leaving_closed();
    return tap_done();
}
