#include "plan/bed.h"

#include <time.h>

static void test_clock(void)
{
    struct bed bed, *b = &bed;

    bed_open(b);
    plan_tick(b->p, 5000);
    plan_tick(b->p, 4000);
    ok(plan_now(b->p) == 5000, "time does not go back");
    ok(plan_wake_ms(b->p) == UINT64_MAX, "an empty plan has no need to wake");
    plan_free(b->p);
    plan_free(NULL);
}

static void test_work(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *i;

    bed_open(b);
    (void) bed_node(b, "n", 4, true, false);
    i = BED(.milli = 2000, .had_work = 500, .had_ms = 250);
    bed_run(b);
    bed_wait(b, 1000);
    ok(plan_work(b->p, i) == 2500, "work is of all its devices");
    plan_leaving(b->p, i, NULL);
    ok(plan_state(i) == ITEM_LEAVING, "told to go, it is still there");
    plan_left(b->p, i, true, 0);
    ok(plan_state(i) == ITEM_SUSPENDED && plan_work(b->p, i) == 2500 &&
       i->run_ms == 1250, "what it did counts");
    plan_tick(b->p, plan_now(b->p) + 1000);
    ok(plan_work(b->p, i) == 2500, "off its devices it does no work");
    plan_hold(b->p, i, true);
    ok(plan_state(i) == ITEM_HELD && plan_waiting(b->p) == 0, "held");
    bed_run(b);
    plan_hold(b->p, i, false);
    ok(plan_state(i) == ITEM_SUSPENDED, "it is suspended all the while");
    bed_run(b);
    ok(bed_runs(i), "and goes on");
    plan_free(b->p);
}

static void test_busy(void)
{
    struct bed bed, *b = &bed;
    struct plan_place at = { .ndevices = 2, .device = { 0, 1 } };
    struct plan_item *i, *j;
    struct err err;

    bed_open(b);
    at.node = bed_node(b, "n", 2, true, false);
    i = BED(.milli = 2000);
    j = BED(.milli = 2000);
    ok(plan_start(b->p, i, &at, 1, &err) == 0, "there is room for one");
    ok(plan_start(b->p, j, &at, 1, &err) < 0 &&
       plan_state(j) == ITEM_WAITING && strstr(err.text, "n"),
       "not for two, and nothing has changed");
    ok(plan_check(b->p, &err) == 0, "all is well");
    plan_free(b->p);
}

static void test_rank_ends(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *gang, *next;
    const struct plan_place *places;

    bed_open(b);
    (void) bed_node(b, "n", 2, true, false);
    gang = BED(.milli = 1000, .ranks = 2);
    next = BED(.milli = 1000);
    bed_run(b);
    ok(bed_runs(gang) && !bed_runs(next), "a gang starts whole");
    plan_gave(b->p, gang, 0);
    ok(plan_places(gang, &places) == 1, "a rank of it ends");
    bed_run(b);
    ok(bed_runs(next), "its place is free");
    ok(b->t->held_milli == 2000, "the tenant holds what runs");
    plan_free(b->p);
}

/* Two small ranks would go together to the node that the large one needs. */
static void test_hardest_first(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *set;

    bed_open(b);
    (void) bed_node(b, "a", 3, false, false);
    (void) bed_node(b, "b", 1, false, false);
    (void) bed_node(b, "c", 1, false, false);
    set = BED(.milli = 1000, .ranks = 2, .beside = 3000);
    bed_run(b);
    ok(bed_runs(set), "the part that is hardest to place goes first");
    plan_free(b->p);
}

/* As many parts as a document may have tasks, the hardest last. */
static void test_large_set(void)
{
    enum { PARTS = 100000 };
    autofree struct plan_part *parts = mem_array(PARTS, sizeof(*parts));
    struct bed bed, *b = &bed;
    struct plan_item *set;
    clock_t began;
    bool sorted = true;

    bed_open(b);
    for (uint32_t k = 0; k < PARTS; k++)
        parts[k] = (struct plan_part) { .need.cpu_milli = 1 + k / 2,
                                        .count = 1 };
    began = clock();
    set = plan_add(b->p, &(struct plan_item_spec) {
        .tenant = b->t, .parts = parts, .nparts = PARTS, .order = 1,
    });
    ok(clock() - began < 4 * CLOCKS_PER_SEC, "it is added in no time");
    for (uint32_t k = 0; k < PARTS; k += 2)
        sorted &= set->shape->by_size[k] == PARTS - 2 - k &&
                  set->shape->by_size[k + 1] == PARTS - 1 - k;
    ok(sorted, "the hardest first, of two alike the earlier");
    plan_free(b->p);
}

/* One that was suspended goes on with the ranks that it had. */
static void test_goes_on(bool roams)
{
    struct bed bed, *b = &bed;
    struct plan_item *gang, *high;
    const struct plan_place *places;
    struct err err = { 0 };

    bed_open(b);
    (void) bed_node(b, "n", 3, true, roams);
    gang = BED(.milli = 1000, .ranks = 3);
    bed_run(b);
    plan_gave(b->p, gang, 1);
    bed_wait(b, 6 * MINUTE);
    high = BED(.milli = 3000, .priority = 1, .yield = YIELD_NEVER);
    bed_run(b);
    ok(bed_runs(high) && plan_state(gang) == ITEM_SUSPENDED,
       "two of three ranks are suspended");
    plan_end(b->p, high, true);
    high = BED(.milli = 1000, .priority = 1, .yield = YIELD_NEVER);
    bed_run(b);
    ok(bed_runs(high) && bed_runs(gang) && plan_places(gang, &places) == 2,
       "they go on where two fit");
    plan_leaving(b->p, gang, NULL);
    plan_left(b->p, gang, false, 0);
    ok(plan_check(b->p, &err) == 0, "all is well %s", err.text);
    plan_end(b->p, high, true);
    bed_run(b);
    ok(plan_places(gang, &places) == 3, "from the start there are three");
    plan_free(b->p);
}

/* What a gang left in its node's memory is free when it goes on there. */
static void test_goes_back(void)
{
    struct bed bed, *b = &bed;
    struct plan_part part = {
        .need = { .gpu_milli = 1000, .memory = 500 }, .count = 2, .max = 2,
    };
    struct plan_item *gang;

    bed_open(b);
    (void) bed_node(b, "n", 2, true, true);
    gang = plan_add(b->p, &(struct plan_item_spec) {
        .tenant = b->t, .parts = &part, .nparts = 1, .order = ++b->order,
        .ready_ms = plan_now(b->p), .bytes = 512,
    });
    bed_run(b);
    ok(bed_runs(gang), "a gang runs");
    plan_leaving(b->p, gang, NULL);
    plan_left(b->p, gang, true, 0);
    bed_run(b);
    ok(bed_runs(gang), "it finds back beside its own state");
    plan_free(b->p);
}

/* A time beyond all bounds is far away, and not long past. */
static void test_bounds(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *i, *ran, *worked;

    bed_open(b);
    (void) bed_node(b, "n", 1, true, false);
    (void) BED(.milli = 1000, .yield = YIELD_NEVER);
    bed_wait(b, 20 * MINUTE);
    ran = BED(.milli = 1000, .had_ms = UINT64_MAX);
    i = plan_add(b->p, &(struct plan_item_spec) {
        .tenant = b->t, .nparts = 1, .ready_ms = UINT64_MAX, .order = 100,
        .parts = &(struct plan_part) { .need.gpu_milli = 1000, .count = 1 },
    });
    bed_run(b);
    ok(!ran->promoted, "who has run for ever is patient");
    ok(!i->promoted, "who is not ready yet does not wait");
    plan_end(b->p, i, false);
    (void) bed_node(b, "m", 1, true, false);
    worked = BED(.milli = 1000, .priority = 1, .had_work = UINT64_MAX);
    bed_run(b);
    bed_wait(b, MINUTE);
    ok(bed_runs(worked) && plan_work(b->p, worked) > MINUTE,
       "work only grows");
    plan_free(b->p);
}

/* Many others were short.  When does one start that waits for one the like of
 * which nobody has seen?  Nobody knows; and of one that was seen often?
 */
static void test_told(void)
{
    struct bed bed, *b = &bed;
    struct plan_item *unseen, *i;
    struct plan_reason r;

    bed_open(b);
    (void) bed_node(b, "n", 1, false, false);
    bed_teach(b, "short", 500, 1);
    unseen = BED(.milli = 1000, .like = "unseen", .yield = YIELD_NEVER);
    bed_run(b);
    i = BED(.milli = 1000, .like = "short");
    bed_run(b);
    plan_reason(b->p, i, plan_now(b->p), &r);
    ok(bed_runs(unseen) && r.start_low_ms < plan_now(b->p) + MINUTE &&
       r.start_high_ms > plan_now(b->p) + 60 * MINUTE,
       "the range is wide: %ju to %ju s",
       (uintmax_t) (r.start_low_ms - plan_now(b->p)) / 1000,
       (uintmax_t) (r.start_high_ms - plan_now(b->p)) / 1000);
    plan_end(b->p, unseen, false);
    bed_teach(b, "unseen", 10 * MINUTE, 1);
    (void) BED(.milli = 1000, .like = "unseen", .priority = 1,
               .yield = YIELD_NEVER);
    bed_run(b);
    plan_reason(b->p, i, plan_now(b->p), &r);
    ok(r.start_low_ms > plan_now(b->p) + 5 * MINUTE &&
       r.start_high_ms < plan_now(b->p) + 15 * MINUTE,
       "what was seen often makes it narrow");
    plan_free(b->p);
}

/* More devices than a rank may have: never, and not a byte beyond. */
static void test_too_wide(void)
{
    struct bed bed, *b = &bed;
    struct plan_device list[PLAN_DEVICES + 4];
    struct plan_item *wide, *most;
    struct plan_reason r;

    bed_open(b);
    for (uint32_t k = 0; k < array_size(list); k++)
        list[k] = (struct plan_device) { "simulated", 1 };
    (void) plan_node_add(b->p, &(struct plan_node_spec) {
        .name = "n", .pool = "pool", .cpu_milli = 64000, .memory = 1024,
        .devices = list, .ndevices = array_size(list),
    }, NULL);
    wide = BED(.milli = (PLAN_DEVICES + 1) * 1000);
    most = BED(.milli = PLAN_DEVICES * 1000);
    bed_run(b);
    plan_reason(b->p, wide, plan_now(b->p), &r);
    ok(plan_state(wide) == ITEM_WAITING && r.code == REASON_NEVER_DEVICES,
       "%s", plan_reason_name(r.code));
    ok(bed_runs(most), "as many as a rank may have");
    plan_free(b->p);
}

static void test_learns(void)
{
    struct bed bed, *b = &bed;
    struct predict_sig sig = { .key = { predict_key("x", 0) } };
    struct plan_item *i;
    struct guess g;

    bed_open(b);
    (void) bed_node(b, "n", 1, true, false);
    for (unsigned k = 0; k < 3; k++) {
        i = BED(.milli = 1000, .like = "x");
        bed_run(b);
        bed_wait(b, 1000);
        plan_end(b->p, i, k > 0);
    }
    predict_guess(plan_predict(b->p), &sig, 0, 0, &g);
    ok(g.seen == 2 && g.mid_ms > 500 && g.mid_ms < 2000, "what ended by itself is learned from");
    plan_free(b->p);
}

static void test_usage(void)
{
    struct bed bed, *b = &bed;
    double used;
    uint64_t at;

    bed_open(b);
    (void) bed_node(b, "n", 1, true, false);
    plan_tenant_load(b->p, b->t, 1000, plan_now(b->p));
    plan_tick(b->p, plan_now(b->p) + plan_policy(b->p)->half_life_ms);
    (void) BED(.milli = 1000);
    bed_run(b);
    used = plan_tenant_usage(b->p, b->t, &at);
    ok(used > 499 && used < 501 && at == plan_now(b->p),
       "usage halves with its half-life");
    plan_free(b->p);
}

static void test_names(void)
{
    ok(strcmp(plan_cause_name(EVICT_PRIORITY), "priority") == 0 &&
       strcmp(plan_cause_name(EVICT_MOVE), "move") == 0, "causes");
    for (unsigned k = 0; k < REASON_COUNT; k++)
        ok(plan_reason_name(k)[0] != '\0', "reason %u has a name", k);
}

int main(void)
{
    test_told();
    test_clock();
    test_work();
    test_busy();
    test_rank_ends();
    test_hardest_first();
    test_large_set();
    test_goes_back();
    test_goes_on(false);
    test_goes_on(true);
    test_bounds();
    test_too_wide();
    test_learns();
    test_usage();
    test_names();
    return tap_done();
}
