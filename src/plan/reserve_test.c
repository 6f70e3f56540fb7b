#include "plan/bed.h"
#include "plan/reserve.h"

static struct plan_item *run_one(struct bed *b, uint32_t milli,
                                 const char *like)
{
    struct plan_item *i = BED(.milli = milli, .like = like);

    bed_run(b);
    return i;
}

/* Four devices: two run, one waits for four past its patience. */
struct blocked {
    struct plan_item *runs, *waits;
};

static struct blocked block(struct bed *b, uint64_t reserved)
{
    struct blocked ret;
    struct policy policy = *plan_policy(b->p);

    policy.reservations = (uint32_t) reserved;
    policy.turns = TURNS_OFF;
    plan_set_policy(b->p, &policy);
    bed_teach(b, "hour", 60 * MINUTE, 2);
    bed_teach(b, "short", 5 * MINUTE, 1);
    (void) bed_node(b, "n", 4, false, false);
    ret.runs = run_one(b, 2000, "hour");
    ret.waits = run_one(b, 4000, "hour");
    ok(bed_runs(ret.runs) && !bed_runs(ret.waits), "four do not fit");
    return ret;
}

static void test_backfill(void)
{
    struct bed bed, *b = &bed;
    struct blocked at;
    struct plan_item *brief, *lasts;
    uint64_t start;

    bed_open(b);
    at = block(b, 1);
    lasts = run_one(b, 1000, "hour");
    ok(bed_runs(lasts), "before its patience ends anybody may overtake");
    plan_end(b->p, lasts, false);
    bed_wait(b, 10 * MINUTE);
    start = at.waits->reserved ? at.waits->reserved->start_ms : 0;
    ok(start > plan_now(b->p) + 40 * MINUTE &&
       start < plan_now(b->p) + 70 * MINUTE,
       "then the end of what runs is its start");
    ok(plan_wake_ms(b->p) <= start, "and the plan wakes for it");
    lasts = run_one(b, 1000, "hour");
    brief = run_one(b, 1000, "short");
    ok(!bed_runs(lasts) && bed_runs(brief), "who is gone by then may start");
    lasts = run_one(b, 1000, "unheard of");
    ok(!bed_runs(lasts), "who is not known may not");
    plan_end(b->p, brief, true);
    plan_end(b->p, at.runs, true);
    bed_run(b);
    ok(bed_runs(at.waits) && !at.waits->reserved, "it starts");
    plan_free(b->p);
}

/* What several ranks of one hold on a node comes free once. */
static void test_gang_ends(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *gang, *waits;

    bed_open(b);
    bed_teach(b, "hour", 60 * MINUTE, 2);
    bed_teach(b, "hours", 180 * MINUTE, 1);
    (void) bed_node(b, "n", 4, false, false);
    gang = BED(.milli = 1000, .ranks = 2, .like = "hour",
               .yield = YIELD_NEVER);
    (void) BED(.milli = 1000, .like = "hours", .yield = YIELD_NEVER);
    bed_run(b);
    waits = run_one(b, 4000, "hour");
    bed_wait(b, 10 * MINUTE);
    ok(bed_runs(gang) && waits->reserved && waits->reserved->nplaces == 1,
       "it is promised all of the node");
    plan_free(b->p);
}

static void test_priority(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *high;

    bed_open(b);
    (void) block(b, 1);
    bed_wait(b, 10 * MINUTE);
    high = BED(.milli = 1000, .priority = 1, .like = "hour");
    bed_run(b);
    ok(bed_runs(high), "a higher priority is not bound by it");
    plan_free(b->p);
}

/* One that lasts, after the patience of the one that waits. */
static struct plan_item *come_late(struct bed *b, unsigned reserved,
                                   struct blocked *ret)
{
    bed_open(b);
    *ret = block(b, reserved);
    bed_wait(b, 10 * MINUTE);
    return run_one(b, 1000, "hour");
}

/* The one that was promised the places counts for less than it did. */
static void test_demoted(void)
{
    struct bed bed, *b = &bed;
    struct blocked at;
    struct plan_item *lasts = come_late(b, 1, &at);

    ok(!bed_runs(lasts) && at.waits->reserved, "the promise binds its equals");
    plan_reprioritise(b->p, at.waits, -1);
    bed_run(b);
    ok(bed_runs(lasts), "and nobody who has come to be above it");
    plan_free(b->p);
}

static void test_none(void)
{
    struct bed bed, *b = &bed;
    struct blocked at;
    struct plan_item *lasts = come_late(b, 0, &at);

    ok(bed_runs(lasts) && !at.waits->reserved,
       "a policy without reservations has none");
    plan_free(b->p);
}

static void test_dropped(void)
{
    struct bed bed, *b = &bed;
    struct blocked at;
    struct plan_item *lasts = come_late(b, 1, &at);

    ok(!bed_runs(lasts), "it stands in the way");
    plan_hold(b->p, at.waits, true);
    bed_run(b);
    ok(bed_runs(lasts), "until it leaves the line");
    plan_free(b->p);
}

/* Short ones come for ever; the one that waits for all devices starts within
 * its patience and the time that a short one runs.
 */
static void test_starvation(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *running[5] = { NULL }, *whole;
    struct policy policy;
    uint64_t since;

    bed_open(b);
    policy = *plan_policy(b->p);
    policy.turns = TURNS_OFF;
    plan_set_policy(b->p, &policy);
    bed_teach(b, "short", 5 * MINUTE, 1);
    (void) bed_node(b, "n", 4, false, false);
    for (unsigned k = 0; k < 4; k++) {
        running[k] = run_one(b, 1000, "short");
        bed_wait(b, MINUTE);
    }
    whole = run_one(b, 4000, "short");
    since = plan_now(b->p);
    for (unsigned k = 0; !bed_runs(whole) && k < 200; k++) {
        unsigned at = k % 5;

        if (running[at] && bed_runs(running[at]))
            plan_end(b->p, running[at], true);
        else if (running[at])
            plan_end(b->p, running[at], false);
        running[at] = run_one(b, 1000, "short");
        bed_wait(b, MINUTE);
    }
    ok(bed_runs(whole), "it starts");
    ok(plan_now(b->p) - since <= 10 * MINUTE + 2 * 5 * MINUTE + 2 * MINUTE,
       "within the bound");
    plan_free(b->p);
}

static void test_window(void)
{
    struct bed bed, *b = &bed;
    struct plan_tenant *other;
    struct plan_node *n;
    struct plan_item *i, *mine;
    struct plan_window w = { .name = "demo", .nnodes = 1 };
    struct err err;

    bed_open(b);
    other = bed_tenant(b, "other", 0, 0, 0);
    n = bed_node(b, "n", 8, false, false);
    bed_teach(b, "short", 5 * MINUTE, 1);
    bed_teach(b, "hour", 60 * MINUTE, 1);
    w.tenant = other;
    w.nodes = &n;
    w.from_ms = plan_now(b->p) + 30 * MINUTE;
    w.to_ms = w.from_ms;
    ok(plan_window_set(b->p, &w, &err) < 0, "a window without an end");
    w.to_ms += 60 * MINUTE;
    ok(plan_window_set(b->p, &w, &err) == 0, "a window");
    i = run_one(b, 1000, "short");
    ok(bed_runs(i), "who is gone before it begins may start");
    mine = run_one(b, 1000, "hour");
    ok(!bed_runs(mine), "who would be there may not");
    i = BED(.milli = 1000, .t = other, .like = "hour");
    bed_run(b);
    ok(bed_runs(i), "whom it is kept for may");
    bed_wait(b, 31 * MINUTE);
    i = run_one(b, 1000, "short");
    ok(!bed_runs(i), "inside it nobody else starts");
    ok(plan_wake_ms(b->p) <= w.to_ms, "the plan wakes at its end");
    bed_wait(b, w.to_ms - plan_now(b->p));
    ok(bed_runs(i) && bed_runs(mine), "after it everybody does");
    w.to_ms += 60 * MINUTE;
    w.tenant = NULL;
    ok(plan_window_set(b->p, &w, &err) == 0, "a window for nobody");
    i = BED(.milli = 1000, .t = other, .like = "hour");
    bed_run(b);
    ok(!bed_runs(i), "is for nobody");
    plan_window_remove(b->p, "demo");
    w.from_ms = plan_now(b->p) + UINT64_C(365) * 24 * 60 * MINUTE;
    w.to_ms = w.from_ms + MINUTE;
    ok(plan_window_set(b->p, &w, &err) == 0, "a window a year from now");
    i = run_one(b, 1000, "never seen");
    ok(bed_runs(i), "is in nobody's way");
    plan_window_remove(b->p, "demo");
    bed_run(b);
    ok(bed_runs(i) && n->promised == 0, "and may be removed");
    w.from_ms = 0;
    w.to_ms = plan_now(b->p);
    ok(plan_window_set(b->p, &w, &err) == 0 && n->promised == 0,
       "one that is over keeps nothing");
    plan_free(b->p);
}

static void test_gone(void)
{
    struct bed bed, *b = &bed;
    struct blocked at;
    struct plan_node *n;
    struct plan_window w = { .name = "w", .nnodes = 1, .nodes = &n,
                             .to_ms = UINT64_MAX };

    bed_open(b);
    at = block(b, 4);
    bed_wait(b, 10 * MINUTE);
    n = at.waits->reserved ? at.runs->places[0].node : NULL;
    ok(n && plan_window_set(b->p, &w, NULL) == 0, "a window on a node");
    plan_end(b->p, at.runs, false);
    plan_node_remove(b->p, n);
    ok(!at.waits->reserved, "promises go with the node");
    bed_run(b);
    plan_free(b->p);
}

static void test_window_and_claim(void)
{
    struct bed bed, *b = &bed;
    struct plan_decision d;
    struct plan_item *claimant;
    struct plan_node *n;
    struct plan_window w = { .name = "w", .nnodes = 1, .nodes = &n,
                             .from_ms = 0, .to_ms = 60 * MINUTE };

    bed_open(b);
    n = bed_node(b, "n", 2, true, false);
    (void) BED(.milli = 1000);
    (void) BED(.milli = 1000);
    bed_run(b);
    bed_wait(b, 10 * MINUTE);
    claimant = BED(.milli = 2000, .priority = 1);
    ok(plan_next(b->p, &d) && d.what == PLAN_EVICT && d.claimant == claimant,
       "one has to go");
    plan_leaving(b->p, d.item, claimant);
    ok(plan_window_set(b->p, &w, NULL) == 0, "a window meanwhile");
    ok(!plan_next(b->p, &d), "nobody else leaves for who cannot start");
    plan_free(b->p);
}

/* Two of four devices are promised: the others are for who comes. */
static void test_beside(void)
{
    struct bed bed, *b = &bed;
    struct policy policy;
    struct plan_item *gang, *lasts;

    bed_open(b);
    policy = *plan_policy(b->p);
    policy.turns = TURNS_OFF;
    plan_set_policy(b->p, &policy);
    bed_teach(b, "hour", 60 * MINUTE, 2);
    (void) bed_node(b, "m", 2, false, false);
    (void) run_one(b, 2000, "hour");
    (void) bed_node(b, "n", 4, false, false);
    gang = BED(.milli = 2000, .ranks = 2, .cpus = 40, .like = "hour");
    bed_wait(b, 30 * MINUTE);
    ok(gang->reserved && !bed_runs(gang), "one rank to a node, later");
    lasts = run_one(b, 1000, "hour");
    ok(bed_runs(lasts) && lasts->places[0].device[0] == 2,
       "one starts beside what is promised");
    lasts = run_one(b, 2000, "hour");
    ok(!bed_runs(lasts), "and nobody on it");
    plan_free(b->p);
}

static void test_one_pool(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *gang;

    bed_open(b);
    bed_teach(b, "hour", 60 * MINUTE, 1);
    (void) bed_node_in(b, "one", "a", 1, false, false);
    (void) bed_node_in(b, "two", "b", 1, false, false);
    (void) bed_node_in(b, "one", "c", 1, false, false);
    (void) run_one(b, 1000, "hour");
    (void) run_one(b, 1000, "hour");
    (void) run_one(b, 1000, "hour");
    gang = BED(.milli = 1000, .ranks = 2, .one_pool = true, .like = "hour");
    bed_wait(b, 30 * MINUTE);
    ok(gang->reserved, "nodes of a pool belong together in whatever order "
       "they came");
    plan_free(b->p);
}

/* A gang on one node ends there once: what it leaves is promised once. */
static void test_gang_ends_once(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *gang, *set;

    bed_open(b);
    bed_teach(b, "hour", 60 * MINUTE, 2);
    (void) bed_node(b, "n", 2, false, false);
    plan_node_open(b->p, bed_node(b, "m", 2, false, false), false);
    gang = BED(.milli = 1000, .ranks = 2, .like = "hour");
    bed_run(b);
    ok(bed_runs(gang), "a gang runs");
    set = BED(.milli = 1000, .ranks = 4, .like = "hour");
    bed_wait(b, 30 * MINUTE);
    ok(!set->reserved, "nobody is promised a device twice");
    plan_free(b->p);
}

/* Several parts may have their places on one node. */
static void test_set(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *runs, *set;

    bed_open(b);
    bed_teach(b, "hour", 60 * MINUTE, 2);
    (void) bed_node(b, "n", 4, false, false);
    runs = BED(.milli = 1000, .yield = YIELD_NEVER, .like = "hour");
    bed_run(b);
    ok(bed_runs(runs), "one runs");
    set = BED(.milli = 1000, .beside = 3000, .like = "hour");
    bed_wait(b, 30 * MINUTE);
    ok(set->reserved, "both parts are promised a place on the node");
    plan_end(b->p, runs, true);
    bed_run(b);
    ok(bed_runs(set), "and start there");
    plan_free(b->p);
}

int main(void)
{
    test_gang_ends_once();
    test_set();
    test_backfill();
    test_gang_ends();
    test_priority();
    test_demoted();
    test_none();
    test_dropped();
    test_starvation();
    test_window();
    test_window_and_claim();
    test_beside();
    test_one_pool();
    test_gone();
    return tap_done();
}
