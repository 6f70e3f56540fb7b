#include "core/testing.h"
#include "core/why.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

/* Tasks that leave their devices and come back. */
enum { SECOND = 1000, MINUTE = 60 * SECOND };
#define GIB (UINT64_C(1) << 30)

static uint64_t submit(struct sim *s, uint32_t ranks, int priority)
{
    struct spec *spec = sim_spec(1);

    spec->priority = priority;
    spec->tasks[0].gpu_milli = 1000;
    spec->tasks[0].memory = GIB;
    spec->tasks[0].ranks = ranks;
    return sim_submit(s, spec);
}

static void claim_all(struct sim *s, uint64_t id)
{
    const struct task *t = sim_task(s, id, 0);

    for (uint32_t i = 0; t->leases && i < t->ranks; i++)
        (void) sim_claim(s, id, 0, i, t->gen);
}

/* One that runs, on a block with so many devices. */
static uint64_t open_running(struct sim *s, uint32_t ranks, uint32_t devices)
{
    uint64_t id;

    sim_open(s);
    s->suspends = true;
    sim_block(s, "b", devices, "H100", 8);
    id = submit(s, ranks, 0);
    claim_all(s, id);
    return id;
}

static int suspend(struct sim *s, uint64_t id, uint64_t until_ms)
{
    struct event e;

    event_init(&e, EVENT_SUSPENDING);
    e.workload = id;
    e.task = 0;
    e.gen = sim_task(s, id, 0)->gen;
    e.until_ms = until_ms;
    e.data = json_pack("{s:s}", "why", "asked");
    return sim_event(s, &e);
}

static int suspend_for(struct sim *s, uint64_t id, uint64_t seconds)
{
    struct event e;

    event_init(&e, EVENT_SUSPENDING);
    e.workload = id;
    e.task = 0;
    e.gen = sim_task(s, id, 0)->gen;
    e.data = json_pack("{s:s,s:I}", "why", "asked", "seconds",
                       (json_int_t) seconds);
    return sim_event(s, &e);
}

static int recall(struct sim *s, uint64_t id)
{
    struct event e;

    event_init(&e, EVENT_RECALLED);
    e.workload = id;
    e.task = 0;
    return sim_event(s, &e);
}

static int moved(struct sim *s, enum event_type type, uint64_t id,
                 uint32_t rank, uint64_t bytes, uint64_t ms)
{
    struct event e;

    event_init(&e, type);
    e.workload = id;
    e.task = 0;
    e.rank = rank;
    e.gen = sim_task(s, id, 0)->gen;
    e.data = json_pack("{s:I,s:I}", "bytes", (json_int_t) bytes, "ms",
                       (json_int_t) ms);
    if (type == EVENT_LEASE_KEPT) {
        json_put_str(e.data, "reason", "busy");
        json_put_str(e.data, "text", "its kernels do not end");
    }
    return sim_event(s, &e);
}

static enum lease_state lease(const struct sim *s, uint64_t id, uint32_t rank)
{
    return sim_task(s, id, 0)->leases[rank].state;
}

/* What it has run, and since when it runs (0: it does not). */
static bool shows_time(const struct task *t, double ran_s, uint64_t from_ms)
{
    autojson json_t *j = view_task(t);
    const char *from = json_get_str(j, "running_since", NULL);
    uint64_t ms = 0;

    if (from)
        (void) clock_parse(from, &ms, NULL);
    return json_get_number(j, "run_seconds") == ran_s && ms == from_ms;
}

/* In line, and back at once: nobody else is there. */
static void test_asked(void)
{
    struct sim s;
    uint64_t id = open_running(&s, 1, 1), other;
    const struct task *t = sim_task(&s, id, 0);
    const struct block *b = world_block(s.w, "b");
    struct why y;

    sim_wait(&s, MINUTE);
    ok(suspend(&s, id, 0) == 0 && lease(&s, id, 0) == LEASE_SUSPENDING &&
       t->state == TASK_RUNNING && b->devices[0].free_milli == 0,
       "asked to leave it is there until it has left");
    ok(suspend(&s, id, 0) == -ESTALE, "%s", s.err.text);
    sim_wait(&s, 3 * SECOND);
    ok(moved(&s, EVENT_LEASE_SUSPENDED, id, 0, 4 * GIB, 2900) == 0 &&
       t->state == TASK_SUSPENDED && b->devices[0].free_milli == 1000 &&
       b->parked == 5 * GIB, "its device is free, its state in memory");
    ok(t->used_gpu_ms == 63 * SECOND && t->used_wall_ms == 63 * SECOND,
       "it has paid for what it had");
    ok(shows_time(t, 63, 0), "which is its time; no more is added");
    ok(moved(&s, EVENT_LEASE_SUSPENDED, id, 0, 1, 1) == -ESTALE, "%s",
       s.err.text);
    why_task(s.w, t, s.now, &y);
    ok(y.code == WHY_SUSPENDED && strstr(y.text, "uid:1000") &&
       strstr(y.suspended, "5Gi in the memory of node-b"), "%s %s", y.text,
       y.suspended);
    ok(sim_twin(&s) && s.twin, "a loaded world has it so");
    sim_wait(&s, 10 * MINUTE);
    ok(t->state == TASK_SUSPENDED, "it does not come back by itself");
    other = submit(&s, 1, 0);
    ok(sim_state(&s, other, 0) == TASK_STARTING, "another has its device");
    sim_run(&s, other, 0);
    ok(suspend(&s, id, 0) == -ESTALE, "%s", s.err.text);
    ok(recall(&s, id) == 0 && lease(&s, id, 0) == LEASE_RESUMING &&
       t->state == TASK_RUNNING && b->parked == 0 &&
       b->devices[0].free_milli == 0, "recalled it comes back");
    ok(shows_time(t, 63, s.now), "and its time goes on");
    ok(recall(&s, id) == -ESTALE, "%s", s.err.text);
    sim_wait(&s, SECOND);
    ok(moved(&s, EVENT_LEASE_RESUMED, id, 0, 0, 900) == 0 &&
       lease(&s, id, 0) == LEASE_ACTIVE && t->gen == 1, "and runs on");
    sim_wait(&s, MINUTE);
    sim_end(&s, id, 0, 0, 0);
    ok(is(sim_row(&s, "0 1", "outcome"), "succeeded"), "to its end");
    ok(world_tenant(s.w, "t")->used_gpu_ms == 124 * SECOND,
       "what it was off its device for is paid by nobody");
    close_checked(&s, "asked");
}

static void test_refused(void)
{
    struct sim s;
    uint64_t id;

    sim_open(&s);
    sim_block(&s, "b", 1, "H100", 8);
    id = submit(&s, 1, 0);
    ok(suspend(&s, id, 0) == -EBUSY, "%s", s.err.text);
    claim_all(&s, id);
    ok(suspend(&s, id, 0) == -EINVAL, "%s", s.err.text);
    ok(recall(&s, id) == -ESTALE, "%s", s.err.text);
    close_checked(&s, "refused");
}

/* For so long, and then in line. */
static void test_until(void)
{
    struct sim s;
    uint64_t id = open_running(&s, 1, 1);
    const struct task *t = sim_task(&s, id, 0);

    ok(suspend(&s, id, s.now + MINUTE) == 0, "suspended for a minute");
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    sim_wait(&s, 59 * SECOND);
    ok(t->state == TASK_SUSPENDED && !t->in_line && sim_twin(&s), "it is off");
    sim_wait(&s, SECOND);
    ok(lease(&s, id, 0) == LEASE_RESUMING, "and then not any more");
    (void) moved(&s, EVENT_LEASE_RESUMED, id, 0, 0, 300);
    ok(suspend_for(&s, id, 90) == 0 && !t->away->held &&
       t->not_before_ms == s.now + 90 * SECOND,
       "seconds count by the time of the world");
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    sim_wait(&s, 90 * SECOND);
    ok(lease(&s, id, 0) == LEASE_RESUMING, "and are over then");
    (void) moved(&s, EVENT_LEASE_RESUMED, id, 0, 0, 300);
    ok(suspend_for(&s, id, INT64_MAX) == 0 && t->not_before_ms == TIME_MAX,
       "more than there are is for as long as there is time");
    close_checked(&s, "until");
}

/* It could not be suspended: it runs on, and is not asked again. */
static void test_kept(void)
{
    struct sim s;
    uint64_t id = open_running(&s, 1, 1);
    const struct task *t = sim_task(&s, id, 0);

    (void) suspend(&s, id, 0);
    ok(moved(&s, EVENT_LEASE_KEPT, id, 0, 0, 10000) == 0 &&
       lease(&s, id, 0) == LEASE_ACTIVE && t->state == TASK_RUNNING &&
       !t->away->held && is(t->away->reason, "busy"), "it is where it was");
    ok(sim_twin(&s), "a loaded world has it so");
    sim_wait(&s, MINUTE);
    ok(suspend(&s, id, 0) == 0, "who asks again is heard");
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    ok(t->state == TASK_SUSPENDED, "and this time it leaves");
    (void) recall(&s, id);
    ok(moved(&s, EVENT_LEASE_KEPT, id, 0, 0, 20) == 0 &&
       t->state == TASK_SUSPENDED && !t->in_line &&
       world_block(s.w, "b")->devices[0].free_milli == 1000,
       "which could not come back, and waits");
    sim_wait(&s, 2 * SECOND);
    ok(lease(&s, id, 0) == LEASE_RESUMING, "for a while");
    (void) moved(&s, EVENT_LEASE_RESUMED, id, 0, 0, 20);
    sim_end(&s, id, 0, 0, 0);
    close_checked(&s, "kept");
}

/* All ranks or none. */
static void test_gang(void)
{
    struct sim s;
    uint64_t id = open_running(&s, 2, 2);
    const struct task *t = sim_task(&s, id, 0);

    (void) suspend(&s, id, 0);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    ok(t->state == TASK_RUNNING && lease(&s, id, 0) == LEASE_SUSPENDED &&
       sim_twin(&s), "one of two is off");
    (void) moved(&s, EVENT_LEASE_KEPT, id, 1, 0, 500);
    ok(lease(&s, id, 0) == LEASE_RESUMING && lease(&s, id, 1) == LEASE_ACTIVE,
       "the other stays, and so it is brought back");
    (void) moved(&s, EVENT_LEASE_KEPT, id, 0, 0, 500);
    ok(lease(&s, id, 0) == LEASE_SUSPENDED && sim_twin(&s),
       "which may fail, too");
    sim_wait(&s, 10 * SECOND);
    ok(lease(&s, id, 1) == LEASE_SUSPENDING, "then the other way round, later");
    (void) moved(&s, EVENT_LEASE_KEPT, id, 1, 0, 500);
    sim_wait(&s, 20 * SECOND);
    (void) moved(&s, EVENT_LEASE_RESUMED, id, 0, 0, 500);
    ok(lease(&s, id, 0) == LEASE_ACTIVE && lease(&s, id, 1) == LEASE_ACTIVE &&
       !away_leaves(t), "until it is whole");
    (void) suspend(&s, id, 0);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 1, GIB, 500);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, 2 * GIB, 500);
    ok(t->state == TASK_SUSPENDED && world_block(s.w, "b")->parked == 6 * GIB,
       "off, as the largest of them");
    (void) recall(&s, id);
    (void) moved(&s, EVENT_LEASE_RESUMED, id, 1, 0, 500);
    (void) moved(&s, EVENT_LEASE_KEPT, id, 0, 0, 500);
    ok(lease(&s, id, 1) == LEASE_SUSPENDING, "nor does one come back alone");
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 1, GIB, 500);
    ok(t->state == TASK_SUSPENDED && !t->in_line, "it is off again");
    close_checked(&s, "gang");
}

/* A gang that came back in part, and could not be put back either. */
static uint64_t open_torn(struct sim *s)
{
    uint64_t id = open_running(s, 2, 2);

    sim_wait(s, MINUTE);
    (void) suspend(s, id, 0);
    (void) moved(s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    (void) moved(s, EVENT_LEASE_SUSPENDED, id, 1, GIB, 500);
    (void) recall(s, id);
    (void) moved(s, EVENT_LEASE_RESUMED, id, 0, 0, 500);
    (void) moved(s, EVENT_LEASE_KEPT, id, 1, 0, 500);
    (void) moved(s, EVENT_LEASE_KEPT, id, 0, 0, 500);
    return id;
}

/* The end of its sleep is no limit of its own. */
static void test_torn_sleeps(void)
{
    struct sim s;
    uint64_t id = open_torn(&s);
    const struct task *t = sim_task(&s, id, 0);

    ok(lease(&s, id, 0) == LEASE_ACTIVE && lease(&s, id, 1) == LEASE_SUSPENDED
       && t->timer.asleep, "torn, it waits before it is tried again");
    ok(recall(&s, id) == -ESTALE, "%s", s.err.text);
    ok(sim_twin(&s), "a loaded world has it so");
    sim_wait(&s, 20 * SECOND);
    ok(lease(&s, id, 1) == LEASE_RESUMING && !t->stopping && s.faults == 0,
       "then it is, in both worlds");
    close_checked(&s, "torn, asleep");
    id = open_torn(&s);
    sim_end(&s, id, 0, 1, 0);
    t = sim_task(&s, id, 0);
    sim_wait(&s, MINUTE);
    ok(sim_state(&s, id, 0) == TASK_RUNNING && !t->stopping && sim_twin(&s),
       "the rank that was off has ended: the other runs on");
    sim_end(&s, id, 0, 0, 0);
    ok(is(sim_row(&s, "0 1", "outcome"), "succeeded"), "to its end");
    close_checked(&s, "torn, one ends");
}

/* Loaded while it comes back, after a time when it could not. */
static void test_kept_off(void)
{
    struct sim s;
    uint64_t id = open_running(&s, 1, 1);

    sim_wait(&s, MINUTE);
    (void) suspend(&s, id, 0);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    (void) recall(&s, id);
    (void) moved(&s, EVENT_LEASE_KEPT, id, 0, 0, 500);
    sim_wait(&s, MINUTE);
    ok(lease(&s, id, 0) == LEASE_RESUMING && sim_twin(&s),
       "it is tried again, and loaded meanwhile");
    (void) moved(&s, EVENT_LEASE_RESUMED, id, 0, 0, 500);
    sim_wait(&s, 60 * MINUTE);
    (void) submit(&s, 1, 100);
    ok(lease(&s, id, 0) == LEASE_SUSPENDING && s.faults == 0,
       "to give way it is suspended, in both worlds");
    close_checked(&s, "kept off");
}

/* Many ranks that fail at once are one failure. */
static void test_kept_gang(void)
{
    struct sim s;
    uint64_t id = open_running(&s, 8, 8);
    const struct task *t = sim_task(&s, id, 0);

    (void) suspend(&s, id, 0);
    for (uint32_t i = 0; i < 8; i++)
        (void) moved(&s, EVENT_LEASE_SUSPENDED, id, i, GIB, 500);
    for (uint64_t n = 1; n <= 2; n++) {
        (void) recall(&s, id);
        for (uint32_t i = 0; i < 8; i++) {
            (void) moved(&s, EVENT_LEASE_KEPT, id, i, 0, 500);
            if (i == 4)
                ok(sim_twin(&s), "a loaded world goes on in the middle");
        }
        ok(t->state == TASK_SUSPENDED &&
           t->not_before_ms == s.now + (uint64_t) SECOND * 2 * n,
           "eight ranks fail: it waits for %d seconds", (int) (2 * n));
    }
    close_checked(&s, "kept, a gang");
}

/* What leaving took is learned when it is back, whatever failed between. */
static void test_off_ms(void)
{
    struct sim s;
    uint64_t id = open_running(&s, 1, 1);
    const struct task *t = sim_task(&s, id, 0);

    (void) suspend(&s, id, 0);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    (void) recall(&s, id);
    (void) moved(&s, EVENT_LEASE_KEPT, id, 0, 0, 30 * SECOND);
    ok(t->state == TASK_SUSPENDED && t->away->off_ms == 500,
       "a time when it could not come back is not one of leaving");
    (void) recall(&s, id);
    (void) moved(&s, EVENT_LEASE_RESUMED, id, 0, 0, 300);
    ok(strstr(json_get_str(json_object_get(s.rows, "5 cost/H100"), "body", ""),
              "\"ms\":800.0"), "there and back took 0.8 s");
    (void) suspend(&s, id, 0);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, TIME_MAX);
    ok(t->away->off_ms == 24 * 60 * MINUTE && sim_twin(&s),
       "what a runner says took longer than a day took a day");
    close_checked(&s, "off");
}

/* A gang is put back whatever its node says of itself now. */
static void test_torn_unable(void)
{
    struct sim s;
    uint64_t id = open_torn(&s);

    s.suspends = false;
    ok(sim_block(&s, "b", 2, "H100", 8) == 0, "its node suspends no more");
    sim_wait(&s, 10 * SECOND);
    (void) moved(&s, EVENT_LEASE_KEPT, id, 1, 0, 500);
    sim_wait(&s, MINUTE);
    ok(lease(&s, id, 0) == LEASE_SUSPENDING && s.faults == 0,
       "it is asked all the same");
    (void) moved(&s, EVENT_LEASE_KEPT, id, 0, 0, 500);
    sim_wait(&s, MINUTE);
    (void) moved(&s, EVENT_LEASE_RESUMED, id, 1, 0, 500);
    ok(lease(&s, id, 1) == LEASE_ACTIVE && sim_state(&s, id, 0) == TASK_RUNNING,
       "until it is whole");
    close_checked(&s, "torn, unable");
}

static int resume_on(struct sim *s, uint64_t id, uint16_t device)
{
    struct event e;
    int rc;

    event_init(&e, EVENT_RESUMING);
    e.workload = id;
    e.task = 0;
    e.gen = sim_task(s, id, 0)->gen;
    e.time_ms = s->now;
    e.grants = mem_array(1, sizeof(*e.grants));
    e.ngrants = 1;
    *e.grants = (struct grant) {
        .block = "b", .ndevices = 1, .milli = 1000, .device = { device },
    };
    rc = world_check(s->w, &e, &s->err);
    event_clear(&e);
    return rc;
}

/* Not by the plan, which knows better. */
static void test_resuming_checked(void)
{
    struct sim s;
    uint64_t id = open_running(&s, 1, 2);
    struct event e;

    (void) suspend(&s, id, 0);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    event_init(&e, EVENT_DEVICE_DRAINED);
    (void) snprintf(e.node, sizeof(e.node), "node-b");
    e.device = 1;
    ok(sim_event(&s, &e) == 0, "a device is drained: %s", s.err.text);
    world_block(s.w, "b")->dirty = false;
    ok(resume_on(&s, id, 1) == -EBUSY, "%s", s.err.text);
    ok(resume_on(&s, id, 2) == -EINVAL, "%s", s.err.text);
    ok(resume_on(&s, id, 0) == 0 && !world_block(s.w, "b")->dirty,
       "the other would do; asking changes nothing");
    close_checked(&s, "resuming, checked");
}

/* The plan's own: a more important one comes. */
static void test_preempted(void)
{
    struct sim s;
    uint64_t id = open_running(&s, 1, 1), other;
    const struct task *t = sim_task(&s, id, 0);
    struct why y;

    sim_policy(&s, 1, json_pack("{s:i,s:s,s:s,s:s}", "weir", 1, "kind",
                                "policy", "min_run", "1m", "suspend_cost",
                                "1s"));
    sim_block(&s, "b", 1, "H100", 8);
    (void) suspend(&s, id, 0);         /* so its bytes are known */
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    (void) recall(&s, id);
    (void) moved(&s, EVENT_LEASE_RESUMED, id, 0, 0, 300);
    sim_wait(&s, 20 * MINUTE);
    other = submit(&s, 1, 10);
    ok(sim_count(&s, EVENT_PREEMPTING) == 1 &&
       lease(&s, id, 0) == LEASE_SUSPENDING && t->preempting &&
       sim_count(&s, EVENT_STOPPING) == 0, "it is asked to give way");
    ok(sim_twin(&s), "a loaded world has it so");
    world_free(take(s.twin));
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    ok(sim_state(&s, other, 0) == TASK_STARTING && t->in_line &&
       t->state == TASK_SUSPENDED, "to the other, and is in line");
    why_task(s.w, t, s.now, &y);
    ok(y.position == 1 && strstr(y.suspended, "for w2/a"), "%s %s", y.text,
       y.suspended);
    claim_all(&s, other);
    sim_wait(&s, MINUTE);
    sim_end(&s, other, 0, 0, 0);
    ok(lease(&s, id, 0) == LEASE_RESUMING && t->gen == 1,
       "and comes back when that has ended");
    (void) moved(&s, EVENT_LEASE_RESUMED, id, 0, 0, 300);
    ok(json_object_get(s.rows, "5 cost/H100"), "what that takes is learned");
    sim_end(&s, id, 0, 0, 0);
    close_checked(&s, "preempted");
}

/* With a contract of its own, or without. */
static void test_preempted_kept(bool contract)
{
    struct sim s;
    uint64_t id, other;
    struct spec *spec = sim_spec(1);

    sim_open(&s);
    s.suspends = true;
    sim_block(&s, "b", 1, "H100", 8);
    spec->tasks[0].gpu_milli = 1000;
    spec->tasks[0].stop_signal = contract ? SIGUSR1 : SIGTERM;
    id = sim_submit(&s, spec);
    claim_all(&s, id);
    (void) suspend(&s, id, 0);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    (void) recall(&s, id);
    (void) moved(&s, EVENT_LEASE_RESUMED, id, 0, 0, 300);
    sim_wait(&s, 20 * MINUTE);
    other = submit(&s, 1, 10);
    ok(lease(&s, id, 0) == LEASE_SUSPENDING, "asked to give way");
    (void) moved(&s, EVENT_LEASE_KEPT, id, 0, 0, 500);
    sim_wait(&s, MINUTE);
    ok(sim_count(&s, EVENT_SUSPENDING) == 2 &&
       lease(&s, id, 0) == LEASE_ENDING && sim_count(&s, EVENT_STOPPING) == 1,
       "it cannot, and is stopped: %s", contract ? "it has a checkpoint"
                                                 : "the policy has it so");
    sim_end(&s, id, 0, 0, -15);
    ok(sim_state(&s, other, 0) == TASK_STARTING, "then the other starts");
    close_checked(&s, "preempted, kept");
}

/* A row of one that moves, which does not say how. */
static void test_damaged(void)
{
    struct sim s;
    uint64_t id = open_running(&s, 1, 1);
    json_t *row = NULL;
    const char *name;
    char *body, *at = NULL;

    (void) suspend(&s, id, 0);
    json_object_foreach(s.rows, name, row) {
        at = strstr(json_get_str(row, "body", ""), "\"away\":{");
        if (at)
            break;
    }
    body = mem_str(json_get_str(row, "body", ""));
    at = strstr(body, "\"away\":{");
    ok(lease(&s, id, 0) == LEASE_SUSPENDING && at, "it is in the tables");
    if (at)
        at[1] = 'A';
    json_put_str(row, "body", body);
    world_free(sim_load(&s));
    ok(s.faults == 1, "which do not load");
    if (at)
        at[1] = 'a';
    json_put_str(row, "body", body);
    s.faults = 0;
    free(body);
    close_checked(&s, "damaged");
}

/* Told to stop, or lost, while it is off. */
static void test_ends(void)
{
    struct sim s;
    uint64_t id = open_running(&s, 2, 2);
    const struct block *b = world_block(s.w, "b");

    (void) suspend(&s, id, 0);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 1, GIB, 500);
    (void) sim_on_workload(&s, EVENT_ABORTING, id, false);
    ok(lease(&s, id, 0) == LEASE_ENDING && b->parked == 4 * GIB &&
       sim_twin(&s), "told to stop its state is still in memory");
    sim_end(&s, id, 0, 0, -9);
    ok(b->parked == 2 * GIB && sim_twin(&s), "of each rank until that ends");
    sim_end(&s, id, 0, 1, -9);
    ok(b->parked == 0 && is(sim_row(&s, "0 1", "outcome"), "aborted"),
       "and then it has ended");
    id = submit(&s, 2, 0);
    claim_all(&s, id);
    (void) suspend(&s, id, 0);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 1, GIB, 500);
    sim_end(&s, id, 0, 1, -9);
    ok(lease(&s, id, 0) == LEASE_ENDING && sim_twin(&s),
       "one of it gone, the rest is stopped");
    sim_end(&s, id, 0, 0, -9);
    ok(is(sim_row(&s, "0 2", "outcome"), "failed"), "and it has failed");
    id = submit(&s, 1, 0);
    claim_all(&s, id);
    (void) suspend(&s, id, 0);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    (void) sim_on_block(&s, EVENT_BLOCK_LOST, "b");
    ok(sim_state(&s, id, 0) == TASK_WAITING, "lost with its block it is tried "
       "again");
    close_checked(&s, "ends");
}

/* Its memory is nobody's before it has ended. */
static void test_ends_memory(void)
{
    struct sim s;
    uint64_t id = open_running(&s, 1, 2), other;
    struct spec *spec = sim_spec(1);

    (void) suspend(&s, id, 0);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, 50 * GIB, 500);
    spec->tasks[0].memory = 30 * GIB;
    other = sim_submit(&s, spec);
    ok(sim_state(&s, other, 0) == TASK_WAITING, "another waits for memory");
    (void) sim_on_workload(&s, EVENT_ABORTING, id, false);
    ok(lease(&s, id, 0) == LEASE_ENDING &&
       sim_state(&s, other, 0) == TASK_WAITING && sim_twin(&s),
       "and still does while the suspended one is being stopped");
    (void) sim_block(&s, "b", 3, "H100", 8);
    ok(sim_state(&s, other, 0) == TASK_WAITING && sim_twin(&s),
       "also when its node has changed");
    sim_end(&s, id, 0, 0, -15);
    ok(sim_state(&s, other, 0) == TASK_STARTING, "until that has ended");
    close_checked(&s, "memory of one that ends");
}

/* One of a suspended gang has ended well: the others come back without it. */
static void test_ends_well(void)
{
    struct sim s;
    uint64_t id = open_running(&s, 2, 2);
    const struct task *t = sim_task(&s, id, 0);

    (void) suspend(&s, id, 0);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 1, GIB, 500);
    sim_end(&s, id, 0, 0, 0);
    ok(t->state == TASK_SUSPENDED && !t->stopping &&
       world_block(s.w, "b")->parked == 2 * GIB && sim_twin(&s),
       "the other stays suspended");
    (void) recall(&s, id);
    (void) moved(&s, EVENT_LEASE_RESUMED, id, 1, 0, 300);
    ok(lease(&s, id, 1) == LEASE_ACTIVE && t->state == TASK_RUNNING,
       "and runs on");
    (void) suspend(&s, id, 0);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 1, GIB, 500);
    sim_end(&s, id, 0, 1, 0);
    ok(is(sim_row(&s, "0 1", "outcome"), "succeeded") &&
       world_block(s.w, "b")->parked == 0, "to its end");
    close_checked(&s, "ends well");
}

/* The device that it had is gone: it comes back on another. */
static void test_device_gone(void)
{
    struct sim s;
    uint64_t first = open_running(&s, 1, 2), id = submit(&s, 1, 0);
    const struct task *t = sim_task(&s, id, 0);

    claim_all(&s, id);
    ok(t->leases[0].grant.device[0] == 1, "it is on the second device");
    ok(sim_block(&s, "b", 1, "H100", 8) == -EBUSY &&
       strstr(s.err.text, "of w2"), "%s", s.err.text);
    (void) suspend(&s, id, 0);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    ok(sim_block(&s, "b", 1, "H100", 8) == 0 && sim_twin(&s),
       "suspended it keeps nobody from working without that");
    (void) recall(&s, id);
    ok(t->state == TASK_SUSPENDED && t->in_line, "it waits for another");
    sim_end(&s, first, 0, 0, 0);
    ok(lease(&s, id, 0) == LEASE_RESUMING && sim_twin(&s) &&
       t->leases[0].grant.device[0] == 0, "which it gets");
    (void) moved(&s, EVENT_LEASE_RESUMED, id, 0, 0, 300);
    (void) suspend(&s, id, 0);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    (void) recall(&s, id);
    ok(sim_block(&s, "b", 0, "H100", 8) == -EBUSY, "%s", s.err.text);
    (void) moved(&s, EVENT_LEASE_KEPT, id, 0, 0, 300);
    ok(t->state == TASK_SUSPENDED && sim_block(&s, "b", 0, "H100", 8) == 0,
       "nor does the last one");
    sim_wait(&s, MINUTE);
    ok(t->state == TASK_SUSPENDED && sim_twin(&s), "without any it waits");
    close_checked(&s, "device gone");
}

/* A timeout counts the time on devices alone. */
static void test_timeout(void)
{
    struct sim s;
    struct spec *spec = sim_spec(1);
    uint64_t id;

    sim_open(&s);
    s.suspends = true;
    sim_block(&s, "b", 1, "H100", 8);
    spec->tasks[0].gpu_milli = 1000;
    spec->tasks[0].timeout_ms = 2 * MINUTE;
    id = sim_submit(&s, spec);
    claim_all(&s, id);
    sim_wait(&s, MINUTE);
    (void) suspend(&s, id, 0);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id, 0, GIB, 500);
    sim_wait(&s, 10 * MINUTE);
    ok(sim_state(&s, id, 0) == TASK_SUSPENDED, "it is not told to stop");
    (void) recall(&s, id);
    (void) moved(&s, EVENT_LEASE_RESUMED, id, 0, 0, 300);
    sim_wait(&s, 59 * SECOND);
    ok(sim_state(&s, id, 0) == TASK_RUNNING, "nor when it is back");
    sim_wait(&s, SECOND);
    ok(sim_state(&s, id, 0) == TASK_ENDING, "but when its time is used up");
    sim_end(&s, id, 0, 0, -15);
    close_checked(&s, "timeout");
}

/* Two on a node of 64 GiB with so much memory for each rank, which run. */
static void open_two(struct sim *s, uint32_t ranks, uint64_t memory,
                     uint64_t id[2])
{
    sim_open(s);
    s->suspends = true;
    sim_block(s, "b", 2 * ranks, "H100", 8);
    for (uint32_t k = 0; k < 2; k++) {
        struct spec *spec = sim_spec(1);

        spec->tasks[0].gpu_milli = 1000;
        spec->tasks[0].memory = memory;
        spec->tasks[0].ranks = ranks;
        id[k] = sim_submit(s, spec);
        claim_all(s, id[k]);
    }
    sim_wait(s, MINUTE);
}

static void take_off(struct sim *s, uint64_t id, uint64_t bytes)
{
    (void) suspend(s, id, 0);
    for (uint32_t r = 0; r < sim_task(s, id, 0)->ranks; r++)
        (void) moved(s, EVENT_LEASE_SUSPENDED, id, r, bytes, 500);
}

/* What is suspended has more of the node's memory than was left. */
static void test_overfull(void)
{
    struct sim s;
    uint64_t id[2];

    open_two(&s, 1, 20 * GIB, id);
    take_off(&s, id[1], 60 * GIB);
    ok(sim_state(&s, id[1], 0) == TASK_SUSPENDED &&
       world_block(s.w, "b")->parked == 80 * GIB, "80 GiB of 64");
    (void) suspend(&s, id[0], 0);
    ok(moved(&s, EVENT_LEASE_KEPT, id[0], 0, 0, 500) == 0 &&
       sim_state(&s, id[0], 0) == TASK_RUNNING,
       "one that could not leave goes on beside it");
    ok(sim_block(&s, "b", 3, "H100", 8) == 0 &&
       sim_state(&s, id[0], 0) == TASK_RUNNING, "and so it does when the node "
       "is told anew");
    ok(sim_twin(&s) && s.twin, "or all is loaded");
    close_checked(&s, "overfull");
}

static void test_gangs_back(void)
{
    struct sim s;
    uint64_t id[2];

    open_two(&s, 2, 15 * GIB, id);
    for (uint32_t k = 0; k < 2; k++)
        take_off(&s, id[k], 20 * GIB);
    for (uint32_t k = 0; k < 2; k++)
        ok(recall(&s, id[k]) == 0 && lease(&s, id[k], 0) == LEASE_RESUMING,
           "a gang comes back beside another that is suspended");
    close_checked(&s, "gangs back");
}

int main(void)
{
    test_asked();
    test_overfull();
    test_gangs_back();
    test_refused();
    test_until();
    test_kept();
    test_gang();
    test_torn_sleeps();
    test_kept_off();
    test_kept_gang();
    test_off_ms();
    test_torn_unable();
    test_resuming_checked();
    test_preempted();
    test_preempted_kept(true);
    test_preempted_kept(false);
    test_damaged();
    test_ends();
    test_ends_memory();
    test_ends_well();
    test_device_gone();
    test_timeout();
    return tap_done();
}
