#include "core/testing.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Each rule of the world once: needs, attempts, gangs, aborts, limits, blocks.
 * Order and placement are in plan_test.c, restores in restore_test.c.
 */
static void test_job(void)
{
    struct sim s;
    uint64_t id;

    sim_open(&s);
    id = sim_submit(&s, sim_spec(1));
    ok(sim_state(&s, id, 0) == TASK_WAITING, "without a block it waits");
    ok(world_waiting(s.w) == 1, "and is in line");
    sim_block(&s, "b", 0, "", 2);
    ok(sim_state(&s, id, 0) == TASK_STARTING, "with one it is planned");
    ok(workload_state(world_workload(s.w, id)) == WORKLOAD_RUNNING,
       "its workload runs");
    s.now += 5;
    ok(sim_claim(&s, id, 0, 0, 2) == -ESTALE, "a claim of another generation "
       "is refused");
    ok(sim_claim(&s, id, 0, 1, 1) == -ENOENT, "a rank that is not there");
    ok(sim_claim(&s, id, 0, 0, 1) == 0, "the claim");
    ok(sim_claim(&s, id, 0, 0, 1) == -ESTALE, "a second one is refused");
    ok(sim_state(&s, id, 0) == TASK_RUNNING, "it runs");
    s.now += 1500;
    ok(sim_end(&s, id, 0, 0, 0) == 0, "its end");
    ok(sim_end(&s, id, 0, 0, 0) == -ENOENT, "a second end is refused");
    ok(!world_workload(s.w, id), "an ended workload is forgotten");
    ok(is(sim_row(&s, "0 1", "outcome"), "succeeded"), "its row is not");
    ok(is(sim_row(&s, "1 1/0", "state"), "ended"), "nor its task's");
    ok(world_tenant(s.w, "t")->used_cpu_ms == 1500, "CPU time is counted");
    ok(world_block(s.w, "b")->cpu_free == 2000, "the room is free again");
    close_checked(&s, "job");
}

static void test_needs(void)
{
    static const struct {
        enum spec_when when;
        int status;
        const char *outcome, *whole;
    } table[] = {
        { SPEC_ON_SUCCESS, 0, "succeeded", "succeeded" },
        { SPEC_ON_SUCCESS, 1, "skipped", "failed" },
        { SPEC_ON_FAILURE, 0, "skipped", "succeeded" },
        { SPEC_ON_FAILURE, 3, "succeeded", "failed" },
        { SPEC_ALWAYS, 0, "succeeded", "succeeded" },
        { SPEC_ALWAYS, -9, "succeeded", "failed" },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct spec *spec = sim_spec(3);
        struct sim s;
        uint64_t id;

        sim_open(&s);
        sim_block(&s, "b", 0, "", 4);
        sim_needs(spec, 2, 0);
        sim_needs(spec, 2, 1);
        spec->tasks[2].when = table[i].when;
        id = sim_submit(&s, spec);
        ok(sim_state(&s, id, 2) == TASK_BLOCKED, "it is blocked at first");
        sim_run(&s, id, 0);
        ok(sim_state(&s, id, 2) == TASK_BLOCKED, "and while a need runs");
        sim_claim(&s, id, 1, 0, 1);
        sim_end(&s, id, 1, 0, table[i].status);
        if (sim_state(&s, id, 2) == TASK_STARTING)
            sim_run(&s, id, 2);
        ok(is(sim_row(&s, "1 1/2", "outcome"), table[i].outcome),
           "row %zu: the task is %s", i, table[i].outcome);
        ok(is(sim_row(&s, "0 1", "outcome"), table[i].whole),
           "row %zu: the workload is %s", i, table[i].whole);
        close_checked(&s, "needs");
    }
}

static void test_needs_chain(void)
{
    struct spec *spec = sim_spec(4);
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 4);
    sim_needs(spec, 1, 0);
    sim_needs(spec, 2, 1);
    spec->tasks[3].when = SPEC_ON_FAILURE;
    (void) sim_submit(&s, spec);
    ok(is(sim_row(&s, "1 1/3", "outcome"), "skipped"),
       "after a failure of nobody: skipped at once");
    sim_claim(&s, 1, 0, 0, 1);
    sim_end(&s, 1, 0, 0, 7);
    ok(is(sim_row(&s, "1 1/2", "outcome"), "skipped"), "skips pass on");
    ok(is(sim_row(&s, "1 1/0", "cause"), "failed"), "the cause is kept");
    ok(json_get_u64(sim_last(&s, EVENT_WORKLOAD_ENDED), "seq", 0) == s.seq,
       "the workload's end is the last event");
    close_checked(&s, "chain");
}

static void test_done(void)
{
    struct spec *spec = sim_spec(3);
    struct event e;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 4);
    sim_needs(spec, 1, 0);
    sim_needs(spec, 2, 1);
    event_init(&e, EVENT_SUBMITTED);
    e.workload = 7;
    memcpy(e.tenant, "t", 2);
    memcpy(e.key, "k", 2);
    e.retry_of = 3;
    e.spec = spec;
    e.ndone = 2;
    e.done = calloc(2, sizeof(*e.done));
    if (e.done)
        e.done[1] = 1;
    ok(sim_do(&s, &e) == 0, "a retry, two of whose tasks are done");
    sim_round(&s);
    ok(sim_state(&s, 7, 2) == TASK_STARTING, "goes on with the third");
    ok(world_by_key(s.w, "uid:1000", "k") == world_workload(s.w, 7),
       "it is found by its key");
    ok(!world_by_key(s.w, "uid:1001", "k"), "but not by somebody else");
    event_init(&e, EVENT_SUBMITTED);
    e.workload = 8;
    memcpy(e.tenant, "t", 2);
    memcpy(e.key, "k", 2);
    e.spec = sim_spec(1);
    ok(sim_do(&s, &e) == -EEXIST, "the same key again is refused");
    event_init(&e, EVENT_SUBMITTED);
    e.workload = 7;
    memcpy(e.tenant, "t", 2);
    e.spec = sim_spec(1);
    ok(sim_do(&s, &e) == -EEXIST, "and so is an id that was given");
    event_init(&e, EVENT_SUBMITTED);
    e.workload = 8;
    memcpy(e.tenant, "u", 2);
    e.spec = sim_spec(1);
    ok(sim_do(&s, &e) == -ENOENT, "and a tenant that is not there");
    close_checked(&s, "done");
}

static struct spec *retry_spec(uint32_t count, uint64_t backoff_ms)
{
    struct spec *spec = sim_spec(1);

    spec->tasks[0].retry_count = count;
    spec->tasks[0].retry_on = 1u << SPEC_CAUSE_FAILED |
                              1u << SPEC_CAUSE_TIMEOUT;
    spec->tasks[0].retry_backoff_ms = backoff_ms;
    return spec;
}

static void test_retries(void)
{
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 4);
    (void) sim_submit(&s, retry_spec(2, 1000));
    sim_claim(&s, 1, 0, 0, 1);
    sim_end(&s, 1, 0, 0, 1);
    ok(sim_state(&s, 1, 0) == TASK_WAITING, "it failed and waits");
    ok(world_wake_ms(s.w) == s.now + 1000, "for its back-off");
    ok(world_waiting(s.w) == 0, "out of line");
    sim_wait(&s, 999);
    ok(sim_state(&s, 1, 0) == TASK_WAITING, "not a moment less");
    sim_wait(&s, 1);
    ok(sim_state(&s, 1, 0) == TASK_STARTING, "then it starts again");
    ok(sim_task(&s, 1, 0)->gen == 2, "as generation 2");
    ok(sim_claim(&s, 1, 0, 0, 1) == -ESTALE, "the first cannot claim");
    sim_claim(&s, 1, 0, 0, 2);
    sim_end(&s, 1, 0, 0, 1);
    ok(world_wake_ms(s.w) == s.now + 2000, "the back-off doubles");
    sim_wait(&s, 2000);
    sim_claim(&s, 1, 0, 0, 3);
    sim_end(&s, 1, 0, 0, 1);
    ok(is(sim_row(&s, "1 1/0", "outcome"), "failed"), "two retries, no more");
    close_checked(&s, "retries");

    sim_open(&s);
    sim_block(&s, "b", 0, "", 4);
    (void) sim_submit(&s, retry_spec(2, 0));
    sim_claim(&s, 1, 0, 0, 1);
    sim_end(&s, 1, 0, 0, -11);
    ok(is(sim_row(&s, "1 1/0", "cause"), "signalled"),
       "a cause that is not asked for is not tried again");
    (void) sim_submit(&s, retry_spec(2, 0));
    sim_end_as(&s, 2, 0, 0, SPEC_CAUSE_REFUSED);
    ok(is(sim_row(&s, "1 2/0", "cause"), "refused"), "nor is a refusal");
    close_checked(&s, "no retries");
}

static void test_lost(void)
{
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 1, "H100", 4);
    (void) sim_submit(&s, sim_spec(1));
    sim_claim(&s, 1, 0, 0, 1);
    s.now += 10000;
    ok(sim_on_block(&s, EVENT_BLOCK_LOST, "b") == 0, "its block is lost");
    ok(sim_state(&s, 1, 0) == TASK_WAITING, "so it waits again");
    ok(is(json_get_str(sim_last(&s, EVENT_LEASE_ENDED), "cause", ""), "lost"),
       "the journal tells its lease's end");
    ok(world_tenant(s.w, "t")->used_cpu_ms == 10000, "what it used counts");
    ok(sim_on_block(&s, EVENT_BLOCK_LOST, "b") == -ESTALE, "only once");
    ok(sim_on_block(&s, EVENT_BLOCK_LOST, "x") == -ENOENT, "no such block");
    ok(sim_end(&s, 1, 0, 0, 0) == -ESTALE, "a late report is refused");
    ok(sim_task(&s, 1, 0)->tries == 0, "it does not count as a try");
    sim_block(&s, "b", 1, "H100", 4);
    ok(sim_state(&s, 1, 0) == TASK_WAITING, "not at once");
    sim_wait(&s, 100);
    ok(sim_state(&s, 1, 0) == TASK_STARTING, "but soon, it is tried again");
    close_checked(&s, "lost");
}

static int report(struct sim *s, enum event_type type, const char *block)
{
    struct event e;

    event_init(&e, type);
    e.workload = 1;
    e.gen = 1;
    e.ended_ms = s->now;
    if (type == EVENT_PROGRESS)
        e.data = json_pack("{s:f}", "progress", 0.5);
    (void) snprintf(e.block, sizeof(e.block), "%s", block);
    return sim_event(s, &e);
}

/* Who says which block it speaks for, has to be that of the lease. */
static void test_reporter(void)
{
    static const enum event_type types[] = {
        EVENT_CLAIMED, EVENT_PROGRESS, EVENT_LEASE_ENDED,
    };
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 1, "H100", 4);
    (void) sim_submit(&s, sim_spec(1));
    for (size_t i = 0; i < array_size(types); i++) {
        ok(report(&s, types[i], "a") == -EINVAL, "%s of another block's lease",
           event_type_name(types[i]));
        ok(report(&s, types[i], "b") == 0, "and of its own");
    }
    close_checked(&s, "reporter");
}

/* Claimed, lived for that long, lost; then the time until it is planned. */
static uint64_t lose(struct sim *s, uint64_t id, uint64_t life_ms)
{
    uint64_t from;

    sim_claim(s, id, 0, 0, sim_task(s, id, 0)->gen);
    s->now += life_ms;
    sim_end_as(s, id, 0, 0, SPEC_CAUSE_LOST);
    from = s->now;
    while (world_workload(s->w, id) && sim_state(s, id, 0) == TASK_WAITING)
        sim_wait(s, world_wake_ms(s->w) - s->now);
    return s->now - from;
}

static void test_lost_again(void)
{
    struct sim s;
    unsigned n;

    sim_open(&s);
    sim_block(&s, "b", 1, "H100", 4);
    (void) sim_submit(&s, sim_spec(1));
    for (n = 0; n < 3; n++)
        ok(lose(&s, 1, 1) == 100u << n, "each loss doubles the wait");
    for (n = 3; n < 10; n++)
        (void) lose(&s, 1, 1);
    ok(lose(&s, 1, 1) == 51200, "up to 51.2 s");
    ok(lose(&s, 1, LIVED_MS - 1) == 51200, "a short life changes nothing");
    ok(lose(&s, 1, LIVED_MS) == 100, "a longer one starts the count anew");
    for (n = 2; n < LOST_MAX; n++)
        (void) lose(&s, 1, 1);
    ok(sim_state(&s, 1, 0) == TASK_STARTING && sim_task(&s, 1, 0)->tries == 0,
       "none counts as a try");
    ok(lose(&s, 1, 1) == 0 && !world_workload(s.w, 1), "lost %u times in a "
       "row, claimed or not: given up", n);
    ok(is(sim_row(&s, "1 1/0", "cause"), "lost"), "with that cause");
    (void) sim_submit(&s, sim_spec(1));
    for (n = 1; sim_on_block(&s, EVENT_BLOCK_LOST, "b") == 0 &&
         world_workload(s.w, 2); n++) {
        sim_block(&s, "b", 1, "H100", 4);
        sim_wait(&s, 51200);
    }
    ok(n == LOST_MAX, "never claimed, lost %u times: the same", n);
    close_checked(&s, "lost again");
}

static void test_gang(void)
{
    struct spec *spec = sim_spec(1);
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 2);
    spec->tasks[0].ranks = 3;
    (void) sim_submit(&s, spec);
    ok(sim_state(&s, 1, 0) == TASK_WAITING, "three ranks, two CPUs: it waits");
    ok(world_block(s.w, "b")->cpu_free == 2000, "and holds nothing meanwhile");
    sim_block(&s, "c", 0, "", 2);
    ok(sim_state(&s, 1, 0) == TASK_STARTING, "with a second block it starts");
    sim_claim(&s, 1, 0, 0, 1);
    sim_claim(&s, 1, 0, 2, 1);
    ok(sim_state(&s, 1, 0) == TASK_STARTING, "two of three have claimed");
    sim_claim(&s, 1, 0, 1, 1);
    ok(sim_state(&s, 1, 0) == TASK_RUNNING, "now all");
    sim_end(&s, 1, 0, 0, 0);
    ok(sim_state(&s, 1, 0) == TASK_RUNNING, "one may end before the others");
    sim_end(&s, 1, 0, 2, 4);
    ok(sim_state(&s, 1, 0) == TASK_ENDING, "one that fails stops all");
    ok(is(json_get_str(sim_last(&s, EVENT_STOPPING), "cause", ""), "gang"),
       "for the gang");
    sim_end(&s, 1, 0, 1, -15);
    ok(is(sim_row(&s, "1 1/0", "cause"), "failed"),
       "the cause is that of the first");
    ok(json_integer_value(json_object_get(sim_last(&s, EVENT_TASK_ENDED),
                                          "status")) == 4, "and its status");
    close_checked(&s, "gang");
}

static void test_abort(void)
{
    struct spec *spec = sim_spec(4);
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 1);
    sim_needs(spec, 2, 0);
    sim_needs(spec, 3, 0);
    spec->tasks[3].when = SPEC_ALWAYS;
    (void) sim_submit(&s, spec);
    sim_claim(&s, 1, 0, 0, 1);
    ok(sim_on_workload(&s, EVENT_ABORTING, 1, false) == 0, "abort");
    ok(sim_state(&s, 1, 0) == TASK_ENDING, "what runs is told to stop");
    ok(sim_state(&s, 1, 1) == TASK_ENDED, "what waited has ended");
    ok(sim_state(&s, 1, 3) == TASK_ENDED, "handlers do not run after an abort");
    ok(sim_on_workload(&s, EVENT_ABORTING, 1, false) == -ESTALE, "once");
    ok(sim_count(&s, EVENT_STOPPING) == 1, "one stop");
    ok(sim_on_workload(&s, EVENT_ABORTING, 1, true) == 0, "with force");
    ok(sim_count(&s, EVENT_STOPPING) == 2, "a second stop");
    ok(json_is_true(json_object_get(sim_last(&s, EVENT_STOPPING), "force")),
       "with force");
    ok(sim_on_workload(&s, EVENT_ABORTING, 1, true) == -ESTALE, "once, too");
    sim_end(&s, 1, 0, 0, 0);
    ok(is(sim_row(&s, "1 1/0", "outcome"), "aborted"),
       "whatever its status, it was aborted");
    ok(is(sim_row(&s, "0 1", "outcome"), "aborted"), "and the workload");
    ok(sim_on_workload(&s, EVENT_ABORTING, 1, false) == -ENOENT, "it is over");
    close_checked(&s, "abort");
}

static int count_row(const struct world_row *row, void *arg)
{
    unsigned *n = arg;

    n[row->table]++;
    return 0;
}

static void test_abort_many(void)
{
    enum { MANY = 500 };
    unsigned n[TABLE_COUNT] = { 0 };
    struct event e;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 1);
    (void) sim_submit(&s, sim_spec(MANY));
    sim_claim(&s, 1, 0, 0, 1);
    event_init(&e, EVENT_ABORTING);
    e.workload = 1;
    e.task = EVENT_ALL;
    ok(sim_do(&s, &e) == 0, "an abort of %d tasks", (int) MANY);
    ok(world_rows(s.w, count_row, n) == 0 && n[TABLE_WORKLOAD] == 1 &&
       n[TABLE_TASK] == 0, "changes one row, and no task's");
    ok(sim_some(&s, 3) && sim_state(&s, 1, 0) == TASK_ENDING &&
       sim_state(&s, 1, 2) == TASK_ENDED &&
       sim_state(&s, 1, 3) == TASK_WAITING, "tasks follow one by one");
    sim_end(&s, 1, 0, 0, 0);
    ok(is(sim_row(&s, "0 1", "outcome"), "aborted") &&
       sim_count(&s, EVENT_TASK_ENDED) == MANY, "all of them");
    ok(sim_count(&s, EVENT_PLANNED) == 1, "and nothing starts in between");
    ok(s.faults == 0, "abort of many");
    sim_close(&s);
}

static void test_abort_stage(void)
{
    struct spec *spec = sim_spec(3);
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 2);
    sim_needs(spec, 1, 0);
    sim_needs(spec, 2, 0);
    spec->tasks[2].when = SPEC_ON_FAILURE;
    (void) sim_submit(&s, spec);
    ok(sim_abort_task(&s, 1, 9, false) == -ENOENT, "no such stage");
    ok(sim_abort_task(&s, 1, 0, false) == 0, "abort of a stage");
    ok(sim_claim(&s, 1, 0, 0, 1) == -ESTALE, "it cannot claim any more");
    ok(sim_abort_task(&s, 1, 0, false) == -ESTALE, "once");
    sim_end_as(&s, 1, 0, 0, SPEC_CAUSE_ABORTED);
    ok(is(sim_row(&s, "1 1/0", "outcome"), "aborted"), "it is aborted");
    ok(is(sim_row(&s, "1 1/1", "outcome"), "skipped"), "what needs it, skipped");
    ok(sim_state(&s, 1, 2) == TASK_STARTING, "its handler runs");
    sim_run(&s, 1, 2);
    ok(is(sim_row(&s, "0 1", "outcome"), "aborted"), "the whole is aborted");
    ok(sim_abort_task(&s, 1, 0, false) == -ENOENT, "it is over");
    close_checked(&s, "abort of a stage");
}

static void test_timeout(void)
{
    struct spec *spec = retry_spec(1, 0);
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 2);
    spec->tasks[0].timeout_ms = 5000;
    (void) sim_submit(&s, spec);
    sim_wait(&s, 60000);
    ok(sim_state(&s, 1, 0) == TASK_STARTING, "the clock starts with the claim");
    sim_claim(&s, 1, 0, 0, 1);
    ok(world_wake_ms(s.w) == s.now + 5000, "the world knows when to look");
    sim_wait(&s, 4999);
    ok(sim_state(&s, 1, 0) == TASK_RUNNING, "it may use all of it");
    sim_wait(&s, 1);
    ok(sim_state(&s, 1, 0) == TASK_ENDING, "then it is stopped");
    sim_end(&s, 1, 0, 0, 0);
    ok(sim_state(&s, 1, 0) == TASK_STARTING, "and tried again");
    sim_claim(&s, 1, 0, 0, 2);
    sim_wait(&s, 5000);
    sim_end(&s, 1, 0, 0, -15);
    ok(is(sim_row(&s, "1 1/0", "cause"), "timeout"), "its cause is the timeout");
    close_checked(&s, "timeout");
}

static void test_limits(void)
{
    struct spec *spec = retry_spec(9, 0);
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 4, "H100", 2);
    spec->tasks[0].limit_wall_ms = 10000;
    (void) sim_submit(&s, spec);
    sim_claim(&s, 1, 0, 0, 1);
    sim_wait(&s, 7000);
    sim_end(&s, 1, 0, 0, 1);
    ok(sim_claim(&s, 1, 0, 0, 2) == 0, "a second attempt within the limit");
    ok(world_wake_ms(s.w) == s.now + 3000, "has what is left of it");
    sim_wait(&s, 3000);
    ok(is(json_get_str(sim_last(&s, EVENT_STOPPING), "cause", ""), "limit"),
       "then it is stopped");
    sim_end(&s, 1, 0, 0, 1);
    ok(is(sim_row(&s, "1 1/0", "cause"), "limit"), "for good");

    spec = retry_spec(9, 0);
    spec->tasks[0].limit_gpu_ms = 12000;
    spec->tasks[0].gpu_milli = 3000;
    (void) sim_submit(&s, spec);
    sim_claim(&s, 2, 0, 0, 1);
    ok(world_wake_ms(s.w) == s.now + 4001, "three devices use it up threefold");
    sim_wait(&s, 4001);
    sim_end(&s, 2, 0, 0, -15);
    ok(is(sim_row(&s, "1 2/0", "cause"), "limit"), "and that is the end");
    ok(world_tenant(s.w, "t")->used_gpu_ms == 12003, "device time is counted");
    close_checked(&s, "limits");
}

static void test_max_wait(void)
{
    struct spec *spec = sim_spec(3);
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 1);
    (void) sim_submit(&s, sim_spec(1));
    sim_needs(spec, 1, 0);
    sim_needs(spec, 2, 0);
    spec->tasks[2].when = SPEC_ON_FAILURE;
    spec->max_wait_ms = 60000;
    (void) sim_submit(&s, spec);
    sim_wait(&s, 59999);
    ok(sim_state(&s, 2, 0) == TASK_WAITING, "it waits for as long as it may");
    sim_wait(&s, 1);
    ok(is(sim_row(&s, "0 2", "outcome"), "failed"), "then it ends");
    ok(is(sim_row(&s, "1 2/0", "cause"), "timeout"), "its tasks by timeout");

    spec = sim_spec(2);
    spec->deadline_ms = s.now + 1000;
    sim_needs(spec, 1, 0);
    (void) sim_submit(&s, spec);
    sim_run(&s, 1, 0);
    ok(sim_state(&s, 3, 0) == TASK_STARTING, "begun before its deadline");
    sim_wait(&s, 2000);
    sim_run(&s, 3, 0);
    ok(sim_state(&s, 3, 1) == TASK_STARTING, "it goes on after it");
    close_checked(&s, "max_wait");
}

static void test_pause(void)
{
    struct spec *spec = sim_spec(2);
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 1);
    sim_needs(spec, 1, 0);
    (void) sim_submit(&s, spec);
    ok(sim_on_workload(&s, EVENT_PAUSED, 1, false) == 0, "pause");
    ok(sim_on_workload(&s, EVENT_PAUSED, 1, false) == -ESTALE, "once");
    sim_run(&s, 1, 0);
    ok(sim_state(&s, 1, 1) == TASK_WAITING, "what runs ends, nothing starts");
    ok(workload_state(world_workload(s.w, 1)) == WORKLOAD_PAUSED, "paused");
    ok(sim_on_workload(&s, EVENT_UNPAUSED, 1, false) == 0, "unpause");
    ok(sim_state(&s, 1, 1) == TASK_STARTING, "it goes on");
    close_checked(&s, "pause");
}

static void test_together(void)
{
    struct spec *spec = sim_spec(3);
    struct sim s;
    size_t n;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 1);
    for (uint32_t i = 0; i < 2; i++)
        spec->tasks[i].together = 3;
    spec->tasks[1].retry_count = 1;
    spec->tasks[1].retry_on = 1u << SPEC_CAUSE_FAILED;
    sim_needs(spec, 1, 2);
    (void) sim_submit(&s, spec);
    ok(sim_state(&s, 1, 0) == TASK_WAITING, "it waits for its sibling");
    sim_run(&s, 1, 2);
    ok(sim_state(&s, 1, 0) == TASK_WAITING, "and for room for both");
    ok(sim_state(&s, 1, 1) == TASK_WAITING, "so does the sibling");
    sim_block(&s, "c", 0, "", 1);
    n = json_array_size(s.journal);
    ok(sim_state(&s, 1, 0) == TASK_STARTING &&
       sim_state(&s, 1, 1) == TASK_STARTING, "then both start");
    ok(is(json_get_str(json_array_get(s.journal, n - 1), "type", ""),
          "task.planned") &&
       is(json_get_str(json_array_get(s.journal, n - 2), "type", ""),
          "task.planned"), "one after the other");
    sim_claim(&s, 1, 0, 0, 1);
    sim_claim(&s, 1, 1, 0, 1);
    sim_end(&s, 1, 1, 0, 1);
    ok(sim_state(&s, 1, 0) == TASK_RUNNING, "one fails, the other goes on");
    ok(sim_state(&s, 1, 1) == TASK_STARTING, "and it is tried again alone");
    close_checked(&s, "together");
}

/* Both failed; they start again together, so one waits for the other. */
static void test_together_again(void)
{
    struct spec *spec = sim_spec(2);
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 4);
    for (uint32_t i = 0; i < 2; i++) {
        spec->tasks[i].together = 1;
        spec->tasks[i].retry_count = 1;
        spec->tasks[i].retry_on = 1u << SPEC_CAUSE_FAILED;
        spec->tasks[i].retry_backoff_ms = 1000 * (1 + i);
    }
    (void) sim_submit(&s, spec);
    for (uint32_t i = 0; i < 2; i++)
        sim_claim(&s, 1, i, 0, 1);
    for (uint32_t i = 0; i < 2; i++)
        sim_end(&s, 1, i, 0, 1);
    sim_wait(&s, 1000);
    ok(sim_state(&s, 1, 0) == TASK_WAITING && world_waiting(s.w) == 1,
       "one is back in line and waits for the other");
    sim_wait(&s, 1000);
    ok(sim_state(&s, 1, 0) == TASK_STARTING &&
       sim_state(&s, 1, 1) == TASK_STARTING, "then both start");
    close_checked(&s, "together again");
}

static int block_on(struct sim *s, const char *id, const char *node)
{
    struct event e;
    int rc;

    event_init(&e, EVENT_BLOCK_UP);
    (void) snprintf(e.block, sizeof(e.block), "%s", id);
    e.data = json_pack("{s:s,s:i}", "node", node, "cpus_milli", 4000);
    rc = sim_do(s, &e);
    sim_round(s);
    return rc;
}

static void test_drained(void)
{
    struct sim s;

    sim_open(&s);
    ok(block_on(&s, "one", "n") == 0, "a block");
    sim_on_node(&s, EVENT_NODE_DRAINED, "n");
    ok(block_on(&s, "one", "n") == 0 && world_block(s.w, "one")->drained,
       "it comes up again and stays drained");
    ok(block_on(&s, "two", "n") == 0 && world_block(s.w, "two")->drained,
       "a second one of the node is drained, too");
    (void) sim_submit(&s, sim_spec(1));
    ok(sim_state(&s, 1, 0) == TASK_WAITING, "nothing starts on either");
    ok(block_on(&s, "three", "m") == 0 && !world_block(s.w, "three")->drained &&
       sim_state(&s, 1, 0) == TASK_STARTING, "another node is not");
    close_checked(&s, "drained");
}

static void test_blocks(void)
{
    struct spec *spec = sim_spec(1);
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 4, "H100", 4);
    spec->tasks[0].gpu_milli = 3000;
    (void) sim_submit(&s, spec);
    sim_claim(&s, 1, 0, 0, 1);
    ok(sim_block(&s, "b", 2, "H100", 4) == -EBUSY, "a block cannot shrink "
       "below its leases");
    ok(sim_block(&s, "b", 4, "H100", 4) == 0, "the same again is fine");
    ok(sim_block(&s, "b", 3, "H100", 4) == 0, "so is what still fits");
    ok(sim_state(&s, 1, 0) == TASK_RUNNING, "its lease stays");
    ok(sim_on_node(&s, EVENT_NODE_DRAINED, "node-x") == -ENOENT, "no such node");
    ok(sim_on_node(&s, EVENT_NODE_DRAINED, "node-b") == 0, "drain");
    ok(sim_on_node(&s, EVENT_NODE_DRAINED, "node-b") == -ESTALE, "once");
    (void) sim_submit(&s, sim_spec(1));
    ok(sim_state(&s, 2, 0) == TASK_WAITING, "nothing new starts there");
    ok(sim_state(&s, 1, 0) == TASK_RUNNING, "what runs goes on");
    sim_end(&s, 1, 0, 0, 0);
    ok(sim_on_node(&s, EVENT_NODE_UNDRAINED, "node-b") == 0, "undrain");
    ok(sim_state(&s, 2, 0) == TASK_STARTING, "and it starts");
    close_checked(&s, "blocks");
}

static int tenant(struct sim *s, enum event_type t, const char *name)
{
    struct event e;

    event_init(&e, t);
    (void) snprintf(e.tenant, sizeof(e.tenant), "%s", name);
    if (t == EVENT_TENANT_SET)
        e.data = json_pack("{s:[s],s:s,s:i}", "members", "uid:7", "note",
                           "lab", "weight", 3);
    return sim_do(s, &e);
}

static int token(struct sim *s, enum event_type t, const char *role)
{
    struct event e;

    event_init(&e, t);
    memcpy(e.token, "ab12", 5);
    memcpy(e.tenant, "t", 2);
    if (t == EVENT_TOKEN_CREATED)
        e.data = json_pack("{s:s,s:s,s:s}", "name", "ci", "role", role, "hash",
                           "00ff");
    return sim_do(s, &e);
}

static void test_tenants(void)
{
    struct sim s;
    struct spec *spec = sim_spec(2);

    sim_open(&s);
    sim_block(&s, "b", 4, "H100", 4);
    ok(tenant(&s, EVENT_TENANT_SET, "lab") == 0, "a tenant");
    ok(tenant(&s, EVENT_TENANT_SET, "no good") == -EINVAL, "a bad name");
    ok(world_tenant(s.w, "lab")->weight == 3, "has what was set");
    ok(tenant(&s, EVENT_TENANT_REMOVED, "lab") == 0, "goes");
    ok(!world_tenant(s.w, "lab"), "and is gone");
    ok(tenant(&s, EVENT_TENANT_REMOVED, "lab") == -ENOENT, "once");
    spec->tasks[0].gpu_milli = spec->tasks[1].gpu_milli = 1000;
    sim_quota(&s, 1500);
    (void) sim_submit(&s, spec);
    ok(tenant(&s, EVENT_TENANT_REMOVED, "t") == -EBUSY, "not while it works");
    ok(sim_state(&s, 1, 0) == TASK_STARTING, "one within the quota");
    ok(sim_state(&s, 1, 1) == TASK_WAITING, "two are not");
    sim_quota(&s, UINT32_MAX);
    ok(sim_state(&s, 1, 1) == TASK_STARTING, "without a quota it starts");
    ok(token(&s, EVENT_TOKEN_CREATED, "king") == -EINVAL, "no such role");
    ok(token(&s, EVENT_TOKEN_CREATED, "viewer") == 0, "a token");
    ok(token(&s, EVENT_TOKEN_CREATED, "viewer") == -EEXIST, "once");
    sim_round(&s);
    ok(!strstr(sim_row(&s, "4 ab12", "id"), "00ff"), "its row has an id");
    ok(token(&s, EVENT_TOKEN_REVOKED, "") == 0, "revoked");
    ok(token(&s, EVENT_TOKEN_REVOKED, "") == -ESTALE, "once");
    sim_round(&s);
    close_checked(&s, "tenants");
}

static void test_time(void)
{
    struct event e;
    struct sim s;

    sim_open(&s);
    event_init(&e, EVENT_STARTED);
    e.time_ms = world_time_ms(s.w) - 1;
    ok(world_apply(s.w, &e, &s.err) == -EINVAL, "time does not go back");
    e.time_ms = world_time_ms(s.w);
    e.seq = world_seq(s.w);
    ok(world_apply(s.w, &e, &s.err) == -EINVAL, "nor does the number");
    close_checked(&s, "time");
}

int main(void)
{
    test_job();
    test_needs();
    test_needs_chain();
    test_done();
    test_retries();
    test_lost();
    test_reporter();
    test_lost_again();
    test_gang();
    test_abort();
    test_abort_many();
    test_abort_stage();
    test_timeout();
    test_limits();
    test_max_wait();
    test_pause();
    test_together();
    test_together_again();
    test_drained();
    test_blocks();
    test_tenants();
    test_time();
    return tap_done();
}
