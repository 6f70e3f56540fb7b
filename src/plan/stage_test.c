#include "plan/bed.h"
#include "plan/reserve.h"
#include "plan/stage.h"

#include <errno.h>

/* One node of `devices` that stages; of what runs there it is known that the
 * like of it takes ten minutes.  Nobody gives way.
 */
static struct plan_node *ready_node(struct bed *b, const char *name,
                                    uint32_t devices, uint64_t memory)
{
    struct plan_device list[8];

    for (uint32_t k = 0; k < 8; k++)
        list[k] = (struct plan_device) { "simulated", 1 };
    return plan_node_add(b->p, &(struct plan_node_spec) {
        .name = name, .pool = "pool", .domain = "", .cpu_milli = 64000,
        .memory = memory, .devices = list, .ndevices = devices,
        .stages = true,
    }, NULL);
}

static void open_bed(struct bed *b)
{
    struct policy policy;

    bed_open(b);
    policy = *plan_policy(b->p);
    policy.turns = TURNS_OFF;
    policy.lookahead_ms = MINUTE;
    plan_set_policy(b->p, &policy);
    bed_teach(b, "ten", 10 * MINUTE, 1);
}

static struct plan_item *add(struct bed *b, uint32_t milli, uint64_t memory,
                             int priority)
{
    struct plan_part part = {
        .need = { .gpu_milli = milli, .memory = memory },
        .count = 1, .max = 1,
    };

    return plan_add(b->p, &(struct plan_item_spec) {
        .tenant = b->t, .priority = priority, .parts = &part, .nparts = 1,
        .yield = YIELD_NEVER, .ready_ms = plan_now(b->p),
        .order = ++b->order, .sig.key = { predict_key("ten", 0) },
    });
}

/* One device: one item runs there, and the next waits for it. */
static struct plan_node *open_two(struct bed *b, struct plan_item **ret_first,
                                  struct plan_item **ret_next)
{
    struct plan_node *n;

    open_bed(b);
    n = ready_node(b, "n", 1, 100);
    *ret_first = add(b, 1000, 40, 0);
    bed_run(b);
    *ret_next = add(b, 1000, 40, 0);
    return n;
}

static bool staged(const struct plan_item *i, const struct plan_node *n)
{
    return plan_state(i) == ITEM_STAGED && stage_on(i, n);
}

static void test_stage(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *first, *next, *later;
    struct plan_node *n;

    n = open_two(b, &first, &next);
    later = add(b, 1000, 40, 0);
    bed_wait(b, 5 * MINUTE);
    ok(plan_state(next) == ITEM_WAITING, "the end is not near");
    ok(plan_wake_ms(b->p) <= 10 * MINUTE, "the plan wakes for it");
    bed_wait(b, 4 * MINUTE + MINUTE / 2);
    ok(staged(next, n) && plan_state(later) == ITEM_WAITING,
       "the first in line is staged, and only that");
    ok(n->staged_memory == 40 && n->memory_free == 60,
       "what it has of the memory is nobody's hindrance");
    bed_wait(b, MINUTE / 2);
    plan_end(b->p, first, true);
    bed_run(b);
    ok(bed_runs(next) && n->nstaged == 0, "it starts");
    plan_free(b->p);
}

static void test_memory(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *first, *next, *cpus;
    struct plan_node *n;

    n = open_two(b, &first, &next);
    bed_wait(b, 9 * MINUTE + MINUTE / 2);
    ok(staged(next, n), "staged");
    cpus = add(b, 0, 50, 0);
    bed_run(b);
    ok(bed_runs(cpus) && plan_state(next) == ITEM_WAITING,
       "who needs the memory has it");
    plan_end(b->p, cpus, false);
    plan_end(b->p, first, true);
    bed_run(b);
    ok(bed_runs(next), "and the other starts as if it had not been");
    plan_free(b->p);
}

/* What was to end goes on. */
static void test_wrong(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *first, *next;
    struct plan_node *n;
    unsigned times = 0;
    bool was = false;

    n = open_two(b, &first, &next);
    for (unsigned k = 0; k < 2000; k++) {
        bool is;

        plan_tick(b->p, plan_now(b->p) + MINUTE / 4);
        bed_quiet(b);
        is = staged(next, n);
        times += is && !was;
        was = is;
    }
    ok(times >= 1 && times <= STAGE_TIMES, "staged %u times in all", times);
    plan_node_open(b->p, n, false);
    bed_run(b);
    ok(plan_state(next) == ITEM_WAITING, "a closed node stages nobody");
    plan_end(b->p, first, true);
    plan_node_open(b->p, n, true);
    bed_run(b);
    ok(bed_runs(next), "it starts all the same");
    plan_free(b->p);
}

static void test_order(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *runs[2], *one, *two, *high;
    struct plan_node *n, *m;

    open_bed(b);
    for (uint64_t k = 10; k < 26; k++)
        bed_teach(b, "ten", k * MINUTE / 4, 1);
    n = ready_node(b, "n", 1, 100);
    m = ready_node(b, "m", 1, 100);
    runs[0] = add(b, 1000, 40, 0);
    bed_run(b);
    bed_wait(b, MINUTE / 2);
    runs[1] = add(b, 1000, 40, 0);
    bed_run(b);
    one = add(b, 1000, 40, 0);
    two = add(b, 1000, 40, 0);
    for (unsigned k = 0; k < 40 && plan_state(two) != ITEM_STAGED; k++) {
        plan_tick(b->p, plan_now(b->p) + MINUTE / 4);
        (void) bed_quiet(b);
    }
    ok(staged(one, m) && staged(two, n), "each has a device that is near");
    plan_end(b->p, runs[1], true);
    bed_run(b);
    ok(bed_runs(two) && staged(one, m), "of those alike the one that is ready");
    high = add(b, 1000, 40, 1);
    bed_wait(b, MINUTE / 4);
    ok(staged(one, m) && plan_state(high) == ITEM_WAITING,
       "a stage is left alone for a while");
    bed_wait(b, MINUTE);
    ok(staged(high, m) && plan_state(one) == ITEM_WAITING,
       "then it is for who comes first");
    plan_end(b->p, runs[0], true);
    bed_run(b);
    ok(bed_runs(high), "and starts");
    plan_free(b->p);
}

/* No such node: nothing is looked at. */
static void test_none(void)
{
    struct bed bed, *b = &bed;

    open_bed(b);
    (void) bed_node(b, "n", 1, false, false);
    (void) add(b, 1000, 40, 0);
    bed_run(b);
    (void) add(b, 1000, 40, 0);
    bed_wait(b, 9 * MINUTE + MINUTE / 2);
    ok(b->p->stager->looks.count == 0 && b->p->stager->due.count == 0,
       "nobody is staged where no node stages");
    plan_free(b->p);
}

static void test_told(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *i;
    struct plan_place at = { .ndevices = 1 };
    const struct plan_place *places;
    struct plan_decision d;
    struct err err = { 0 };
    uint64_t since = 0;

    open_bed(b);
    at.node = ready_node(b, "n", 1, 100);
    i = add(b, 1000, 101, 0);
    ok(plan_staged(b->p, i, &at, 1, &err) == -EBUSY && err.text[0],
       "not without memory: %s", err.text);
    plan_end(b->p, i, false);
    i = add(b, 1000, 40, 0);
    ok(plan_staged(b->p, i, &at, 1, &err) == 0 &&
       plan_stage(i, &places, &since) == 1 && places[0].node == at.node &&
       since == plan_now(b->p), "staged");
    ok(plan_staged(b->p, i, &at, 1, &err) == -EBUSY, "once");
    plan_unstaged(b->p, i);
    plan_unstaged(b->p, i);
    at.device[0] = 1;
    ok(plan_staged(b->p, i, &at, 1, &err) == -EBUSY && at.node->nstaged == 0,
       "nor for a device that the node does not have: %s", err.text);
    at.device[0] = 0;
    at.ndevices = 0;
    ok(plan_staged(b->p, i, &at, 1, &err) == -EBUSY, "or for too few");
    at.ndevices = 1;
    ok(plan_staged(b->p, i, &at, 1, &err) == 0, "staged again");
    plan_hold(b->p, i, true);
    ok(plan_stage(i, &places, &since) == 0 && at.node->nstaged == 0,
       "not while it is held");
    plan_hold(b->p, i, false);
    plan_node_open(b->p, at.node, false);
    ok(plan_staged(b->p, i, &at, 1, &err) == 0 && plan_next(b->p, &d) &&
       d.what == PLAN_UNSTAGE && d.item == i,
       "told of a closed node it is not left there");
    plan_unstaged(b->p, i);
    ok(plan_staged(b->p, i, &at, 1, &err) == 0, "again");
    plan_node_remove(b->p, at.node);
    ok(plan_state(i) == ITEM_WAITING && plan_check(b->p, &err) == 0,
       "nor where the node is gone");
    plan_free(b->p);
}

/* Whoever others leave for is staged while they do. */
static void test_claimed(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *low, *high;
    struct plan_node *n;
    struct plan_decision d;
    struct err err = { 0 };

    open_bed(b);
    n = ready_node(b, "n", 1, 100);
    low = BED(.milli = 1000, .yield = YIELD_CHECKPOINT);
    bed_run(b);
    bed_wait(b, 6 * MINUTE);
    high = BED(.milli = 1000, .priority = 1, .yield = YIELD_NEVER);
    ok(plan_next(b->p, &d) && d.what == PLAN_EVICT && d.item == low,
       "one is to leave");
    plan_leaving(b->p, low, high);
    ok(plan_next(b->p, &d) && d.what == PLAN_STAGE && d.item == high &&
       d.places[0].node == n, "the other is staged there");
    ok(plan_staged(b->p, high, d.places, d.nplaces, &err) == 0 &&
       !plan_next(b->p, &d), "and that is all");
    plan_tick(b->p, plan_now(b->p) + 10 * MINUTE);
    ok(!plan_next(b->p, &d) && staged(high, n), "for as long as it takes");
    plan_left(b->p, low, false, 0);
    bed_run(b);
    ok(bed_runs(high) && n->nstaged == 0, "it starts");
    plan_free(b->p);
}

/* The next is not ready before the first has ended. */
static void test_expected(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *next, *other;
    struct plan_node *n;

    open_bed(b);
    n = ready_node(b, "n", 1, 100);
    next = add(b, 1000, 40, 0);
    plan_hold(b->p, next, true);
    plan_expect(b->p, next, plan_now(b->p) + 5 * MINUTE);
    bed_run(b);
    ok(plan_state(next) == ITEM_HELD && n->nstaged == 0, "not yet");
    ok(plan_wake_ms(b->p) == plan_now(b->p) + 4 * MINUTE,
       "the plan wakes for it");
    bed_wait(b, 4 * MINUTE);
    ok(plan_state(next) == ITEM_HELD && n->nstaged == 1,
       "it stands ready before it is");
    other = add(b, 1000, 80, 0);
    bed_run(b);
    ok(bed_runs(other) && n->nstaged == 0, "and is in nobody's way");
    plan_end(b->p, other, false);
    plan_expect(b->p, next, plan_now(b->p) + MINUTE);
    bed_run(b);
    ok(n->nstaged == 1, "again");
    bed_wait(b, MINUTE / 2);
    plan_hold(b->p, next, false);
    ok(plan_state(next) == ITEM_STAGED, "it is ready, and still there");
    bed_run(b);
    ok(bed_runs(next), "it starts");
    next = add(b, 1000, 40, 0);
    plan_hold(b->p, next, true);
    plan_expect(b->p, next, plan_now(b->p) + 1000);
    plan_expect(b->p, next, 0);
    bed_run(b);
    ok(b->p->stager->expected.count == 0 && n->nstaged == 0, "not any more");
    plan_expect(b->p, next, plan_now(b->p) + 1000);
    plan_end(b->p, next, false);
    ok(b->p->stager->expected.count == 0, "nor when it is over");
    plan_free(b->p);
}

/* What a held one says of itself is no news of an end. */
static void test_says(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *first, *next;
    struct plan_node *n = open_two(b, &first, &next);
    struct plan_place at = { .node = n, .ndevices = 1 };
    struct policy policy;
    struct plan_decision d;
    struct err err = { 0 };

    plan_hold(b->p, next, true);
    plan_expect(b->p, next, UINT64_MAX);
    plan_progress(b->p, next, 0.5);
    ok(plan_check(b->p, &err) == 0 && b->p->stager->expected.count == 1,
       "it is expected as before: %s", err.text);
    ok(!plan_next(b->p, &d) && n->nstaged == 0, "at a time that never comes");
    plan_expect(b->p, next, plan_now(b->p) + 1000);
    ok(plan_next(b->p, &d) == false, "or where there is no room");
    plan_end(b->p, first, false);
    bed_run(b);
    plan_expect(b->p, next, UINT64_MAX);
    bed_wait(b, 2 * MINUTE);
    ok(n->nstaged == 1, "who is expected later than thought stays ready");
    plan_expect(b->p, next, 0);
    bed_run(b);
    ok(n->nstaged == 1, "as does, for now, who is not expected any more");
    plan_unstaged(b->p, next);
    ok(plan_staged(b->p, next, &at, 1, &err) == 0,
       "which can be told of again: %s", err.text);
    policy = *plan_policy(b->p);
    policy.lookahead_ms = plan_now(b->p) + 10 * MINUTE;
    plan_set_policy(b->p, &policy);
    bed_wait(b, 2 * MINUTE);
    ok(n->nstaged == 0, "until that is looked at again");
    plan_free(b->p);
}

/* The rank on the node that stages ends first, and the node goes. */
static void test_node_goes(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *gang;
    struct plan_node *n, *m;

    open_bed(b);
    n = ready_node(b, "n", 1, 100);
    (void) bed_node(b, "m", 1, false, false);
    gang = BED(.milli = 1000, .ranks = 2, .like = "ten");
    bed_run(b);
    ok(bed_runs(gang) && b->p->stager->looks.count == 1, "one is looked at");
    plan_gave(b->p, gang, gang->places[0].node == n ? 0 : 1);
    plan_node_remove(b->p, n);
    plan_end(b->p, gang, true);
    ok(b->p->stager->looks.count == 0, "but not when it is over");
    m = ready_node(b, "n", 1, 100);
    for (unsigned k = 0; k < 3; k++)
        (void) add(b, 1000, 40, 0);
    bed_wait(b, MINUTE);
    ok(m->nitems == 1, "another such node does as well");
    plan_free(b->p);
}

/* What was promised may close before that time comes. */
static void test_promised_closed(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *runs, *wide;
    struct plan_decision d;
    struct plan_node *n;

    open_bed(b);
    n = ready_node(b, "n", 2, 1024);
    runs = add(b, 1000, 1, 0);
    bed_run(b);
    wide = add(b, 2000, 1, 0);
    wide->promoted = true;
    promise_for(b->p, wide);
    ok(bed_runs(runs) && wide->reserved, "one is promised both devices");
    plan_device_open(b->p, n, 1, false);
    plan_tick(b->p, wide->reserved->start_ms - MINUTE / 2);
    ok(!plan_next(b->p, &d), "it is not staged on a closed one");
    plan_device_open(b->p, n, 1, true);
    ok(plan_next(b->p, &d) && d.what == PLAN_STAGE && d.item == wide,
       "but when that is open");
    plan_free(b->p);
}

int main(void)
{
    test_promised_closed();
    test_stage();
    test_memory();
    test_wrong();
    test_order();
    test_none();
    test_told();
    test_claimed();
    test_expected();
    test_says();
    test_node_goes();
    return tap_done();
}
