#include "plan/bed.h"

/* One device; who gets it next? */
static void next_is(struct bed *b, const struct plan_item *i,
                    const char *what)
{
    struct plan_decision d;

    ok(plan_next(b->p, &d) && d.what == PLAN_START && d.item == i, "%s",
       what);
    ok(plan_next(b->p, &d) && d.item == i, "and asked again it is the same");
}

static void start_next(struct bed *b)
{
    struct plan_decision d;

    ok(plan_next(b->p, &d) && d.what == PLAN_START &&
       plan_start(b->p, d.item, d.places, d.nplaces, NULL) == 0,
       "it starts");
    plan_end(b->p, d.item, false);
}

static void test_order(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *first, *below, *high;

    bed_open(b);
    (void) bed_node(b, "n", 1, false, false);
    first = BED(.milli = 1000);
    (void) BED(.milli = 1000);
    next_is(b, first, "who was ready first");
    below = BED(.milli = 1000, .below_ms = 5000);
    next_is(b, below, "before that whom others wait for");
    (void) BED(.milli = 1000, .below_ms = 4000);
    next_is(b, below, "the longest way below first");
    high = BED(.milli = 1000, .priority = 1);
    next_is(b, high, "before all priority");
    plan_reprioritise(b->p, first, 2);
    next_is(b, first, "which may change");
    plan_set_below(b->p, high, 1);
    plan_hold(b->p, first, true);
    next_is(b, high, "who is held stands in nobody's way");
    plan_hold(b->p, first, false);
    next_is(b, first, "until it is not");
    for (unsigned k = 0; k < 5; k++)
        start_next(b);
    ok(plan_waiting(b->p) == 0, "all had their turn");
    plan_free(b->p);
}

static void test_patience(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *old;

    bed_open(b);
    (void) bed_node(b, "n", 1, false, false);
    old = BED(.milli = 1000);
    plan_tick(b->p, plan_now(b->p) + 10 * MINUTE - 1);
    (void) BED(.milli = 1000, .below_ms = 1000);
    ok(line_position(b->p, old) == 2, "one may overtake");
    plan_tick(b->p, plan_now(b->p) + 1);
    next_is(b, old, "but not past its patience");
    ok(line_position(b->p, old) == 1, "it is the first");
    plan_free(b->p);
}

/* Of those that wait about as long the widest; before it who waits twice as
 * long.
 */
static void test_wide_first(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *narrow, *wide;

    bed_open(b);
    (void) bed_node(b, "n", 2, false, false);
    narrow = BED(.milli = 1000);
    plan_tick(b->p, plan_now(b->p) + 9 * MINUTE);
    wide = BED(.milli = 2000);
    next_is(b, narrow, "who was ready first");
    plan_tick(b->p, plan_now(b->p) + 10 * MINUTE);
    next_is(b, wide, "the wider one, past their patience");
    plan_tick(b->p, plan_now(b->p) + MINUTE);
    next_is(b, narrow, "who has waited for twice that");
    plan_free(b->p);
}

static void test_deadline(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *first, *due;

    bed_open(b);
    (void) bed_node(b, "n", 1, false, false);
    bed_teach(b, "x", 5 * MINUTE, 1);
    plan_tick(b->p, 1000);
    first = BED(.milli = 1000, .like = "x");
    due = BED(.milli = 1000, .like = "x",
              .deadline_ms = plan_now(b->p) + 24 * MINUTE);
    next_is(b, first, "a deadline that is far changes nothing");
    plan_tick(b->p, plan_now(b->p) + 9 * MINUTE);
    next_is(b, due, "one that is near does");
    plan_free(b->p);
}

/* Two tenants with one device each to win, and many to ask. */
static void test_fair(void)
{
    struct bed bed, *b = &bed;
    struct plan_tenant *small, *large;
    struct plan_item *s[6], *l[6];
    unsigned of_small = 0, of_large = 0;

    bed_open(b);
    (void) bed_node(b, "n", 6, false, false);
    small = bed_tenant(b, "small", 1, 0, 0);
    large = bed_tenant(b, "large", 2, 0, 0);
    for (unsigned k = 0; k < 6; k++)
        s[k] = BED(.milli = 1000, .t = small);
    for (unsigned k = 0; k < 6; k++)
        l[k] = BED(.milli = 1000, .t = large);
    bed_run(b);
    for (unsigned k = 0; k < 6; k++) {
        of_small += bed_runs(s[k]);
        of_large += bed_runs(l[k]);
    }
    ok(of_small == 2 && of_large == 4, "twice the weight, twice the devices");
    plan_free(b->p);
}

static void test_not_fair(void)
{
    struct bed bed, *b = &bed;
    struct plan_tenant *other;
    struct plan_item *mine;
    struct policy policy;

    bed_open(b);
    (void) bed_node(b, "n", 2, false, false);
    other = bed_tenant(b, "other", 0, 0, 0);
    (void) BED(.milli = 1000);
    bed_run(b);
    mine = BED(.milli = 1000);
    (void) BED(.milli = 1000, .t = other);
    next_is(b, mine, "without weights tenants are one");
    policy = *plan_policy(b->p);
    policy.fair = true;
    plan_set_policy(b->p, &policy);
    ok(line_position(b->p, mine) == 2, "unless the policy wants it");
    plan_free(b->p);
}

static void test_usage(void)
{
    struct bed bed, *b = &bed;
    struct plan_tenant *one, *two;
    struct plan_item *a, *c;

    bed_open(b);
    (void) bed_node(b, "n", 1, false, false);
    one = bed_tenant(b, "one", 1, 0, 0);
    two = bed_tenant(b, "two", 1, 0, 0);
    plan_tenant_load(b->p, one, 1e6, plan_now(b->p));
    plan_tenant_load(b->p, two, 2e6, plan_now(b->p));
    a = BED(.milli = 1000, .t = two);
    c = BED(.milli = 1000, .t = one);
    next_is(b, c, "who used less goes first");
    plan_tenant_load(b->p, one, 3e6, plan_now(b->p));
    next_is(b, a, "until it has used more");
    bed_run(b);
    ok(two->held_milli == 1000 && one->held_milli == 0, "it holds it");
    plan_free(b->p);
}

static void test_limits(void)
{
    struct bed bed, *b = &bed;
    struct plan_tenant *t, *child;
    struct plan_item *one, *two;

    bed_open(b);
    (void) bed_node(b, "n", 4, false, false);
    t = bed_tenant(b, "limited", 0, 0, 1000);
    child = plan_tenant_set(b->p, &(struct plan_tenant_spec) {
        .name = "child", .parent = t, .max_milli = PLAN_UNLIMITED });
    one = BED(.milli = 1000, .t = child);
    two = BED(.milli = 1000, .t = t);
    bed_run(b);
    ok(bed_runs(one) && !bed_runs(two), "a limit is one of all below");
    plan_end(b->p, one, false);
    bed_run(b);
    ok(bed_runs(two), "what is given back may be taken");
    one = BED(.milli = 1000, .t = child);
    bed_run(b);
    (void) bed_tenant(b, "limited", 0, 0, 2000);
    bed_run(b);
    ok(bed_runs(one), "a higher limit lets in");
    plan_tenant_set(b->p, &(struct plan_tenant_spec) {
        .name = "limited", .max_milli = PLAN_UNLIMITED, .stopped = true });
    two = BED(.milli = 1000, .t = child);
    bed_run(b);
    ok(!bed_runs(two), "nothing of who is stopped starts");
    plan_free(b->p);
}

static void test_quota_first(void)
{
    struct bed bed, *b = &bed;
    struct plan_tenant *has, *none;
    struct plan_item *i;

    bed_open(b);
    (void) bed_node(b, "n", 2, false, false);
    has = bed_tenant(b, "has", 0, 2000, 0);
    none = bed_tenant(b, "none", 0, 0, 0);
    (void) BED(.milli = 1000, .t = has);
    bed_run(b);
    (void) BED(.milli = 1000, .t = none);
    i = BED(.milli = 1000, .t = has);
    next_is(b, i, "within its quota it goes first, though it holds more");
    plan_free(b->p);
}

static void test_never_and_demand(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *i;

    bed_open(b);
    (void) bed_node(b, "n", 2, false, false);
    ok(line_demand(b->p, false) == DEMAND_NONE, "nobody waits");
    i = BED(.milli = 3000);
    ok(line_demand(b->p, false) == DEMAND_NONE,
       "what can never start is no demand");
    plan_end(b->p, i, false);
    (void) BED(.milli = 1000);
    bed_run(b);
    (void) BED(.milli = 2000);
    ok(line_demand(b->p, false) == DEMAND_STUCK, "two of one free");
    (void) BED(.milli = 1000);
    ok(line_demand(b->p, false) == DEMAND_FITS, "one of one free");
    ok(line_demand(b->p, true) == DEMAND_NONE, "nobody wants a CPU");
    plan_free(b->p);
}

int main(void)
{
    test_order();
    test_patience();
    test_wide_first();
    test_deadline();
    test_fair();
    test_not_fair();
    test_usage();
    test_limits();
    test_quota_first();
    test_never_and_demand();
    return tap_done();
}
