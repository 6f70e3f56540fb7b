#include "plan/room_bed.h"

static void test_priority(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *low, *high, *other;

    bed_open(b);
    (void) bed_node(b, "n", 2, true, false);
    low = RAN(6 * MINUTE, .milli = 2000);
    high = BED(.milli = 1000, .priority = 1);
    ok(evicts(b, low, high, EVICT_PRIORITY, YIELD_SUSPEND),
       "one of lower priority is suspended");
    ok(evicts(b, low, high, EVICT_PRIORITY, YIELD_SUSPEND),
       "asked again it is the same");
    plan_leaving(b->p, low, high);
    other = BED(.milli = 1000, .priority = 1, .below_ms = 1);
    ok(nothing(b), "then there is nothing but to wait");
    plan_left(b->p, low, true, 0);
    bed_run(b);
    ok(bed_runs(high) && bed_runs(other) &&
       plan_state(low) == ITEM_SUSPENDED, "who claimed it starts");
    plan_end(b->p, high, true);
    bed_run(b);
    ok(plan_state(low) == ITEM_SUSPENDED, "it waits for both");
    plan_end(b->p, other, true);
    bed_run(b);
    ok(bed_runs(low), "and goes on where it was");
    plan_free(b->p);
}

static void test_min_run(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *low, *high;

    bed_open(b);
    (void) bed_node(b, "n", 1, true, false);
    low = RAN(5 * MINUTE - 1, .milli = 1000);
    high = BED(.milli = 1000, .priority = 1);
    ok(nothing(b), "not before it has run for a while");
    ok(plan_wake_ms(b->p) <= plan_now(b->p) + 2, "the plan says when");
    bed_wait(b, 2);
    ok(bed_runs(high) && !bed_runs(low), "then it gives way");
    plan_free(b->p);
}

static void test_in_vain(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *low, *never;

    bed_open(b);
    (void) bed_node(b, "m", 1, true, false);
    (void) bed_node(b, "n", 2, true, false);
    low = RAN(0, .milli = 1000);
    never = RAN(6 * MINUTE, .milli = 2000, .yield = YIELD_NEVER);
    (void) BED(.milli = 2000, .priority = 1);
    ok(nothing(b), "nobody goes for one who could not start then");
    ok(bed_runs(low) && bed_runs(never), "they go on");
    plan_free(b->p);
}

static void test_least_loss(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *kill, *check, *susp, *high;

    bed_open(b);
    (void) bed_node(b, "k", 1, false, false);
    (void) bed_node(b, "c", 1, false, false);
    (void) bed_node(b, "s", 1, true, false);
    kill = BED(.milli = 1000, .yield = YIELD_KILL);
    check = BED(.milli = 1000, .yield = YIELD_CHECKPOINT);
    bed_run(b);
    susp = BED(.milli = 1000, .yield = YIELD_SUSPEND);
    bed_run(b);
    bed_wait(b, 6 * MINUTE);
    ok(bed_runs(kill) && bed_runs(check) && bed_runs(susp), "all run");
    for (unsigned k = 0; k < 3; k++) {
        high = BED(.milli = 1000, .priority = 1);
        bed_run(b);
        ok(bed_runs(high), "each time one starts");
        ok(bed_runs(kill) == (k < 2) && bed_runs(check) == (k < 1) &&
           !bed_runs(susp), "suspend, then checkpoint, then kill (%u)", k);
    }
    plan_free(b->p);
}

/* A suspended one keeps its own memory beside what it had on its device. */
static void test_leaves_memory(uint64_t memory, enum plan_yield how)
{
    struct bed bed, *b = &bed;
    struct plan_item *low, *high;

    bed_open(b);
    (void) bed_node(b, "n", 1, true, false);
    low = RAN(6 * MINUTE, .milli = 1000, .memory = memory, .unmeasured = true);
    high = BED(.milli = 1000, .priority = 1);
    ok(evicts(b, low, high, EVICT_PRIORITY, how), "%s of 1024",
       how == YIELD_KILL ? "1024 and the device's 1" : "1023 and 1");
    plan_free(b->p);
}

/* Two parts come back to a node: what one part left more than it takes is had
 * by the other one once.
 */
static void test_back_in_parts(void)
{
    struct plan_device device[] = {
        { "simulated", 1 }, { "simulated", 1 }, { "simulated", 1 },
    };
    struct plan_part parts[] = {
        { .need = { .gpu_milli = 1000, .memory = 18 }, .count = 1, .max = 1 },
        { .need = { .gpu_milli = 1000, .memory = 1 }, .count = 2, .max = 2 },
    };
    struct bed bed, *b = &bed;
    struct plan_item *set, *other;

    bed_open(b);
    (void) plan_node_add(b->p, &(struct plan_node_spec) {
        .name = "n", .pool = "pool", .domain = "", .cpu_milli = 64000,
        .memory = 21, .devices = device, .ndevices = 3, .suspends = true,
    }, NULL);
    set = plan_add(b->p, &(struct plan_item_spec) {
        .tenant = b->t, .parts = parts, .nparts = 2, .order = ++b->order,
        .ready_ms = plan_now(b->p), .bytes = 1,
    });
    bed_run(b);
    ok(bed_runs(set), "it runs");
    plan_leaving(b->p, set, NULL);
    plan_left(b->p, set, true, 0);
    other = BED(.cpus = 1, .memory = 2, .priority = 1);
    bed_run(b);
    ok(bed_runs(other) && !bed_runs(set), "20 are more than the 19 left");
    plan_end(b->p, other, true);
    bed_run(b);
    ok(bed_runs(set), "then it goes on");
    plan_free(b->p);
}

static void test_quota(void)
{
    struct bed bed, *b = &bed;
    struct plan_tenant *owner, *guest;
    struct plan_item *g[2], *mine;
    struct policy policy;

    bed_open(b);
    (void) bed_node(b, "n", 2, true, false);
    owner = bed_tenant(b, "owner", 0, 1000, 0);
    guest = bed_tenant(b, "guest", 0, 1000, 0);
    for (unsigned k = 0; k < 2; k++)
        g[k] = BED(.milli = 1000, .t = guest);
    bed_run(b);
    ok(bed_runs(g[0]) && bed_runs(g[1]), "what others leave is borrowed");
    bed_wait(b, 6 * MINUTE);
    policy = *plan_policy(b->p);
    policy.reclaim = false;
    policy.turns = TURNS_OFF;
    plan_set_policy(b->p, &policy);
    mine = BED(.milli = 1000, .t = owner);
    ok(nothing(b), "the policy may leave it there");
    policy.reclaim = true;
    plan_set_policy(b->p, &policy);
    bed_run(b);
    ok(bed_runs(mine) && bed_runs(g[0]) + bed_runs(g[1]) == 1,
       "or take it back");
    mine = BED(.milli = 1000, .t = owner);
    bed_wait(b, 6 * MINUTE);
    ok(!bed_runs(mine), "but not more than the quota");
    plan_free(b->p);
}

static void test_quota_kill(void)
{
    struct bed bed, *b = &bed;
    struct plan_tenant *owner, *guest;
    struct plan_item *loses, *mine;
    struct policy policy;

    bed_open(b);
    (void) bed_node(b, "n", 1, false, false);
    owner = bed_tenant(b, "owner", 0, 1000, 0);
    guest = bed_tenant(b, "guest", 0, 0, 0);
    policy = *plan_policy(b->p);
    policy.kill = false;
    plan_set_policy(b->p, &policy);
    loses = BED(.milli = 1000, .t = guest, .yield = YIELD_KILL);
    bed_run(b);
    bed_wait(b, 6 * MINUTE);
    mine = BED(.milli = 1000, .t = owner);
    ok(nothing(b), "who would lose its work keeps what it borrowed");
    policy.kill = true;
    plan_set_policy(b->p, &policy);
    ok(evicts(b, loses, mine, EVICT_QUOTA, YIELD_KILL),
       "unless the policy says otherwise");
    plan_free(b->p);
}

static void test_turn(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *had, *fresh;
    struct policy policy;

    bed_open(b);
    bed_teach(b, "x", 10 * MINUTE, 1);
    (void) bed_node(b, "n", 1, true, false);
    policy = *plan_policy(b->p);
    policy.turns = TURNS_OFF;
    plan_set_policy(b->p, &policy);
    had = RAN(1000 * MINUTE, .milli = 1000, .like = "x");
    fresh = BED(.milli = 1000, .like = "x");
    ok(nothing(b), "no turns, if the policy says so");
    policy.turns = TURNS_SUSPEND;
    plan_set_policy(b->p, &policy);
    ok(evicts(b, had, fresh, EVICT_TURN, YIELD_SUSPEND),
       "who had its time gives way to who has had none");
    bed_run(b);
    ok(bed_runs(fresh), "who starts");
    plan_free(b->p);
}

/* Whoever is suspended there waits for that very place. */
static void test_turn_bound(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *wide, *half, *two;

    bed_open(b);
    bed_teach(b, "x", 10 * MINUTE, 1);
    bed_teach(b, "y", 10 * MINUTE, 2);
    (void) bed_node(b, "n", 4, true, false);
    wide = RAN(1000 * MINUTE, .milli = 3000, .like = "x");
    (void) BED(.milli = 1000, .like = "x", .yield = YIELD_NEVER);
    bed_run(b);
    (void) BED(.milli = 1000, .like = "x");
    ok(nothing(b) && bed_runs(wide), "most of a node is not given for a turn");
    plan_end(b->p, wide, false);
    bed_run(b);
    half = RAN(1000 * MINUTE, .milli = 2000, .like = "y");
    two = BED(.milli = 2000, .like = "y");
    ok(nothing(b) && !bed_runs(two), "two devices are not taken for one");
    plan_end(b->p, two, false);
    two = BED(.milli = 1000, .like = "x");
    ok(evicts(b, half, two, EVICT_TURN, YIELD_SUSPEND),
       "half a node gives way to one who wants a single device");
    plan_free(b->p);
}

/* Of two nodes, the one that owes nothing takes the next. */
static void test_owed(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *first, *second, *high, *last;
    struct plan_node *owes;
    const struct plan_place *at;

    bed_open(b);
    (void) bed_node(b, "m", 2, true, false);
    (void) bed_node(b, "n", 2, true, false);
    first = RAN(6 * MINUTE, .milli = 2000);
    second = RAN(6 * MINUTE, .milli = 2000);
    (void) plan_places(first, &at);
    owes = at->node;
    high = BED(.milli = 2000, .priority = 1);
    bed_run(b);
    ok(bed_runs(high) && bed_runs(first) != bed_runs(second),
       "one of two is suspended");
    if (bed_runs(first)) {
        (void) plan_places(second, &at);
        owes = at->node;
    }
    ok(owes->owed == 2000, "its node owes it two devices");
    plan_end(b->p, high, false);
    plan_end(b->p, bed_runs(first) ? first : second, false);
    last = BED(.milli = 1000, .priority = 1);
    bed_run(b);
    (void) plan_places(last, &at);
    ok(bed_runs(last) && at->node != owes, "others go where nothing is owed");
    ok(owes->owed == 0, "and it goes on");
    plan_free(b->p);
}

static void test_no_turn_for_an_equal(void)
{
    struct bed bed, *b = &bed;

    bed_open(b);
    bed_teach(b, "x", 60 * MINUTE, 1);
    (void) bed_node(b, "n", 1, true, false);
    (void) RAN(6 * MINUTE, .milli = 1000, .like = "x");
    (void) BED(.milli = 1000, .like = "x");
    ok(nothing(b), "who is as far goes on");
    plan_free(b->p);
}

/* Who went on just now is left alone for 20 times what that cost. */
static void test_turn_lasts(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *had, *fresh;

    bed_open(b);
    bed_teach(b, "x", 10 * MINUTE, 1);
    (void) bed_node(b, "n", 1, true, true);
    had = RAN(1000 * MINUTE, .milli = 1000, .like = "x");
    fresh = BED(.milli = 1000, .like = "x");
    bed_run(b);
    ok(bed_runs(fresh) && !bed_runs(had), "it gave way");
    plan_end(b->p, fresh, true);
    bed_run(b);
    ok(bed_runs(had), "and goes on");
    fresh = BED(.milli = 1000, .like = "x");
    bed_wait(b, 20 * MINUTE - 1);
    ok(nothing(b), "for its time");
    bed_wait(b, 1);
    ok(bed_runs(fresh) && !bed_runs(had), "and no longer");
    plan_free(b->p);
}

/* Past its patience one may ask those who were there for half of its wait. */
static void test_turn_due(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *wide, *late;

    bed_open(b);
    bed_teach(b, "x", 1000 * MINUTE, 1);
    (void) bed_node(b, "n", 3, true, true);
    (void) RAN(MINUTE, .milli = 2000, .like = "x");
    wide = BED(.milli = 3000, .like = "x");
    bed_wait(b, 15 * MINUTE);
    late = BED(.milli = 1000, .like = "x");
    bed_run(b);
    ok(bed_runs(late) && !bed_runs(wide), "one finds a hole beside it");
    bed_wait(b, 25 * MINUTE - 1);
    ok(nothing(b), "who came late in its wait stays");
    bed_wait(b, 1);
    ok(bed_runs(wide), "until that has doubled");
    plan_free(b->p);
}

/* Past its patience, and half of what it needs stands idle: so those go who hold
 * no more than the other half.
 */
static void test_fill(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *most, *few, *wide;

    bed_open(b);
    bed_teach(b, "x", 1000 * MINUTE, 1);
    (void) bed_node(b, "n", 4, true, true);
    most = RAN(6 * MINUTE, .milli = 3000, .like = "x");
    wide = BED(.milli = 4000, .like = "x");
    bed_wait(b, 12 * MINUTE);
    ok(bed_runs(most) && !bed_runs(wide), "a quarter is idle: nobody goes");
    plan_end(b->p, most, false);
    bed_run(b);
    ok(bed_runs(wide), "it starts");
    plan_end(b->p, wide, false);
    few = RAN(6 * MINUTE, .milli = 2000, .like = "x");
    wide = BED(.milli = 4000, .like = "x");
    bed_wait(b, 10 * MINUTE - 1);
    ok(bed_runs(few), "a half is idle: it has patience");
    bed_wait(b, 1);
    ok(bed_runs(wide) && !bed_runs(few), "and then four run instead of two");
    plan_free(b->p);
}

static void test_no_turn_for_cpus(void)
{
    struct bed bed, *b = &bed;

    bed_open(b);
    bed_teach(b, "x", 10 * MINUTE, 1);
    (void) bed_node(b, "n", 1, true, false);
    (void) RAN(1000 * MINUTE, .milli = 1000, .like = "x", .cpus = 64);
    (void) BED(.cpus = 64);
    bed_wait(b, 1000 * MINUTE);
    ok(nothing(b), "no device is left for the CPUs beside it");
    plan_free(b->p);
}

/* Two half-full nodes, and one who needs a whole one. */
static void test_move(void)
{
    struct bed bed, *b = &bed;
    struct plan_node *n[2];
    struct plan_item *i[2], *whole;
    struct plan_place at = { .ndevices = 2, .device = { 0, 1 } };
    const struct plan_place *places;
    struct policy policy;

    bed_open(b);
    for (unsigned k = 0; k < 2; k++) {
        n[k] = bed_node(b, k ? "m" : "n", 4, true, true);
        i[k] = BED(.milli = 2000);
        at.node = n[k];
        ok(plan_start(b->p, i[k], &at, 1, NULL) == 0, "it runs");
    }
    bed_wait(b, 6 * MINUTE);
    policy = *plan_policy(b->p);
    policy.turns = TURNS_OFF;
    policy.move = false;
    plan_set_policy(b->p, &policy);
    whole = BED(.milli = 4000);
    ok(nothing(b), "nobody moves, if the policy says so");
    policy.move = true;
    plan_set_policy(b->p, &policy);
    bed_run(b);
    ok(bed_runs(whole) && bed_runs(i[0]) && bed_runs(i[1]),
       "one moves, all run");
    (void) plan_places(i[0], &places);
    at.node = places[0].node;
    (void) plan_places(i[1], &places);
    ok(at.node == places[0].node, "the two share a node");
    plan_free(b->p);
}

static void test_gang(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *low[4], *gang;
    static const char *const names[] = { "a", "b", "c", "d" };
    unsigned running = 0;

    bed_open(b);
    for (unsigned k = 0; k < 4; k++) {
        (void) bed_node(b, names[k], 1, true, false);
        low[k] = BED(.milli = 1000);
        bed_run(b);
    }
    bed_wait(b, 6 * MINUTE);
    gang = BED(.milli = 1000, .ranks = 3, .priority = 1);
    bed_run(b);
    for (unsigned k = 0; k < 4; k++)
        running += bed_runs(low[k]);
    ok(bed_runs(gang) && running == 1, "as many go as it has ranks");
    gang = BED(.milli = 1000, .ranks = 5, .priority = 2);
    bed_run(b);
    ok(!bed_runs(gang), "nobody goes for one larger than the pool");
    plan_free(b->p);
}

static void test_earmark(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *low, *gang, *small;

    bed_open(b);
    (void) bed_node(b, "n", 4, true, false);
    low = RAN(6 * MINUTE, .milli = 3000);
    gang = BED(.milli = 4000, .priority = 1);
    ok(evicts(b, low, gang, EVICT_PRIORITY, YIELD_SUSPEND), "it must go");
    plan_leaving(b->p, low, gang);
    small = BED(.milli = 1000);
    ok(nothing(b), "what is free is kept for who will use it");
    plan_hold(b->p, gang, true);
    bed_run(b);
    ok(bed_runs(small), "unless he does not want it any more");
    plan_free(b->p);
}

/* Who moves and the claimant's second rank go to the same device. */
static void test_shared(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *moved, *wide;
    struct plan_decision d;

    bed_open(b);
    (void) bed_node(b, "a", 2, true, true);
    moved = RAN(0, .milli = 500);
    (void) bed_node(b, "b", 1, true, true);
    bed_wait(b, 20 * MINUTE);
    wide = BED(.milli = 2000, .beside = 250);
    ok(evicts(b, moved, wide, EVICT_TURN, YIELD_SUSPEND), "it moves");
    plan_leaving(b->p, moved, wide);
    plan_left(b->p, moved, true, 0);
    ok(plan_next(b->p, &d) && d.what == PLAN_START && d.item == wide,
       "who it moved for starts, though both have a share of one device");
    bed_run(b);
    ok(bed_runs(wide) && bed_runs(moved), "and then it goes on");
    plan_free(b->p);
}

/* A suspended one that roams goes on where others roam, and nowhere else. */
static void test_roams(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *roams, *high, *fixed;

    bed_open(b);
    (void) bed_node(b, "r", 1, true, true);
    roams = RAN(6 * MINUTE, .milli = 1000, .priority = 1);
    high = BED(.milli = 1000, .priority = 2, .yield = YIELD_NEVER);
    bed_run(b);
    ok(bed_runs(high) && !bed_runs(roams), "one is suspended");
    (void) bed_node(b, "s", 1, true, false);
    fixed = BED(.milli = 1000);
    bed_run(b);
    bed_wait(b, 6 * MINUTE);
    ok(bed_runs(fixed) && nothing(b),
       "nobody goes from where it could not go on");
    plan_free(b->p);
}

/* Two have to go for one; the first has, and now that is another question. */
static struct plan_item *half_way(struct bed *b, struct plan_item **ret_second)
{
    struct plan_item *low[2], *high;

    bed_open(b);
    (void) bed_node(b, "n", 2, true, false);
    low[0] = BED(.milli = 1000);
    low[1] = BED(.milli = 1000);
    bed_run(b);
    bed_wait(b, 6 * MINUTE);
    high = BED(.milli = 2000, .priority = 1);
    for (unsigned k = 0; k < 2; k++) {
        struct plan_decision d;

        ok(plan_next(b->p, &d) && d.what == PLAN_EVICT &&
           d.claimant == high, "both are to go");
        *ret_second = d.item == low[0] ? low[1] : low[0];
        if (k == 0) {
            plan_leaving(b->p, d.item, high);
            plan_left(b->p, d.item, true, 0);
        } else {
            *ret_second = d.item;
        }
    }
    return high;
}

static void test_claim_off(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *high, *second;

    high = half_way(b, &second);
    plan_reprioritise(b->p, second, 1);
    bed_run(b);
    ok(bed_runs(second) && !bed_runs(high),
       "nobody goes for one that is no more important now");
    plan_free(b->p);
    high = half_way(b, &second);
    b->t = bed_tenant(b, "t", 0, 0, 1000);
    bed_run(b);
    ok(bed_runs(second) && !bed_runs(high),
       "nobody goes for one that may not start");
    plan_free(b->p);
}

/* Of two that the guest has beyond its guarantee, only one goes: with the first
 * it is within it.
 */
static void test_quota_of_several(void)
{
    struct bed bed, *b = &bed;
    struct plan_tenant *owner, *guest;
    struct plan_item *g[2], *mine;

    bed_open(b);
    (void) bed_node(b, "n", 2, true, false);
    owner = bed_tenant(b, "owner", 0, 2000, 0);
    guest = bed_tenant(b, "guest", 0, 1000, 0);
    for (unsigned k = 0; k < 2; k++)
        g[k] = BED(.milli = 1000, .t = guest);
    bed_run(b);
    bed_wait(b, 6 * MINUTE);
    mine = BED(.milli = 2000, .t = owner);
    bed_run(b);
    ok(bed_runs(g[0]) && bed_runs(g[1]) && !bed_runs(mine),
       "what is guaranteed to both goes to neither");
    plan_end(b->p, mine, false);
    mine = BED(.milli = 1000, .t = owner);
    bed_run(b);
    ok(bed_runs(g[0]) != bed_runs(g[1]) && bed_runs(mine),
       "what one has beyond it goes back");
    plan_free(b->p);
}

/* Suspended where there were no other CPUs; then there are some elsewhere, and
 * its state cannot go there.
 */
static void test_no_home(bool roams)
{
    struct bed bed, *b = &bed;
    struct plan_item *i, *next;

    bed_open(b);
    (void) bed_node(b, "n", 1, true, roams);
    i = BED(.cpus = 64);
    bed_run(b);
    ok(bed_runs(i), "it starts on CPUs that a device may want");
    plan_leaving(b->p, i, NULL);
    plan_left(b->p, i, true, 0);
    (void) bed_node_in(b, "other", "m", 0, true, roams);
    next = BED(.cpus = 64);
    bed_run(b);
    ok(bed_runs(i) && i->places[0].node->ndevices == 1,
       "it goes on there, though others would wait for CPUs elsewhere");
    ok(bed_runs(next) && next->places[0].node->ndevices == 0, "as one does");
    plan_free(b->p);
}

int main(void)
{
    test_no_home(false);
    test_no_home(true);
    test_claim_off();
    test_quota_of_several();
    test_priority();
    test_min_run();
    test_in_vain();
    test_least_loss();
    test_leaves_memory(1023, YIELD_SUSPEND);
    test_leaves_memory(1024, YIELD_KILL);
    test_back_in_parts();
    test_quota();
    test_quota_kill();
    test_turn();
    test_no_turn_for_an_equal();
    test_turn_lasts();
    test_turn_due();
    test_fill();
    test_no_turn_for_cpus();
    test_move();
    test_gang();
    test_earmark();
    test_shared();
    test_roams();
    test_turn_bound();
    test_owed();
    return tap_done();
}
