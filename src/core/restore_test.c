#include "core/testing.h"

#include "base/json.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

/* A store that came back from a backup: what is quarantined, what a release
 * does, and that no generation comes twice.
 */
static int restore(struct sim *s, uint64_t epoch)
{
    struct event e;
    int rc;

    event_init(&e, EVENT_RESTORED);
    e.epoch = epoch;
    rc = sim_do(s, &e);
    sim_round(s);
    return rc;
}

static bool quarantined(const struct sim *s, uint64_t id)
{
    return workload_state(world_workload(s->w, id)) == WORKLOAD_QUARANTINED;
}

static void test_restore(void)
{
    struct spec *hasty = sim_spec(1);
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 2);
    for (int i = 0; i < 3; i++)
        (void) sim_submit(&s, sim_spec(1));
    hasty->max_wait_ms = 500;
    (void) sim_submit(&s, hasty);
    sim_claim(&s, 1, 0, 0, 1);
    ok(restore(&s, 2) == 0 && world_epoch(s.w) == 2, "a new epoch");
    ok(restore(&s, 2) == -ESTALE, "only forward");
    ok(quarantined(&s, 1) && quarantined(&s, 2), "what had leases is "
       "quarantined");
    ok(quarantined(&s, 3), "and what waited: it may have run since");
    sim_wait(&s, 1000);
    ok(quarantined(&s, 4), "a longest wait ends nothing there");
    ok(sim_claim(&s, 2, 0, 0, 1) == -ESTALE, "no claim in quarantine");
    ok(sim_on_workload(&s, EVENT_RELEASED, 1, true) == 0, "released: aborted");
    ok(sim_state(&s, 1, 0) == TASK_ENDING, "which stops it by its runner");
    sim_end(&s, 1, 0, 0, -9);
    ok(is(sim_row(&s, "0 1", "outcome"), "aborted"), "and ends it");
    ok(sim_on_workload(&s, EVENT_RELEASED, 3, false) == 0, "or queued again");
    ok(sim_on_workload(&s, EVENT_RELEASED, 3, false) == -ESTALE, "once");
    ok(sim_task(&s, 3, 0)->gen == GEN_STEP + 1 &&
       sim_state(&s, 3, 0) == TASK_STARTING,
       "with a generation that never was, also for what never ran");
    ok(sim_on_workload(&s, EVENT_RELEASED, 4, false) == 0 &&
       is(sim_row(&s, "1 4/0", "cause"), "timeout"),
       "released, its longest wait is over");
    close_checked(&s, "restore");
}

/* A task that runs on "b", and has been through a restore. */
static void open_restored(struct sim *s, uint32_t ranks)
{
    struct spec *spec = sim_spec(1);

    spec->tasks[0].ranks = ranks;
    sim_open(s);
    sim_block(s, "b", 0, "", ranks);
    (void) sim_submit(s, spec);
    for (uint32_t i = 0; i < ranks; i++)
        sim_claim(s, 1, 0, i, 1);
    (void) restore(s, 1);
}

static void test_release(void)
{
    struct sim s;

    open_restored(&s, 2);
    ok(sim_on_workload(&s, EVENT_RELEASED, 1, false) == 0, "released");
    sim_wait(&s, 60000);
    ok(sim_state(&s, 1, 0) == TASK_ENDING && sim_task(&s, 1, 0)->gen == 1 &&
       is(json_get_str(sim_last(&s, EVENT_STOPPING), "cause", ""), "lost") &&
       !json_is_true(json_object_get(sim_last(&s, EVENT_STOPPING), "force")),
       "what may still run is told to stop, with its grace");
    ok(lease_of_old(&sim_task(&s, 1, 0)->leases[0]), "it is of before");
    sim_end(&s, 1, 0, 1, -15);
    sim_wait(&s, 60000);
    ok(sim_count(&s, EVENT_PLANNED) == 1, "nothing is planned before all of "
       "it is gone");
    sim_end(&s, 1, 0, 0, 0);
    sim_wait(&s, LOST_BACKOFF_MS);
    ok(sim_state(&s, 1, 0) == TASK_STARTING &&
       sim_task(&s, 1, 0)->gen == 1 + GEN_STEP + 1 &&
       sim_task(&s, 1, 0)->tries == 0, "then it is, past every generation, "
       "and no try is counted");
    ok(!lease_of_old(&sim_task(&s, 1, 0)->leases[0]), "it is of now");
    ok(sim_claim(&s, 1, 0, 0, 1) == -ESTALE, "what was before is over");
    (void) restore(&s, 2);
    ok(sim_on_workload(&s, EVENT_RELEASED, 1, false) == 0, "a second time");
    sim_end(&s, 1, 0, 0, 0);
    sim_end(&s, 1, 0, 1, 0);
    sim_wait(&s, LOST_BACKOFF_MS * 2);
    ok(sim_task(&s, 1, 0)->gen == 2 * (1 + GEN_STEP) + 1, "past it again");
    close_checked(&s, "release");
    open_restored(&s, 1);
    sim_end(&s, 1, 0, 0, 0);
    ok(is(sim_row(&s, "0 1", "outcome"), "succeeded"), "an end that is told "
       "in quarantine is the end");
    close_checked(&s, "end in quarantine");
}

static int away(struct sim *s, enum event_type type, uint32_t rank)
{
    struct event e;

    event_init(&e, type);
    e.workload = 1;
    e.task = 0;
    e.rank = rank;
    e.gen = 1;
    e.data = json_pack("{s:s,s:i,s:i,s:s,s:s}", "why", "asked", "bytes", 1,
                       "ms", 1, "reason", "busy", "text", "so");
    return sim_event(s, &e);
}

/* Restored while a gang leaves, of which one rank stays. */
static void test_torn(void)
{
    struct spec *spec = sim_spec(1);
    struct sim s;

    spec->tasks[0].ranks = 2;
    spec->tasks[0].gpu_milli = 1000;
    sim_open(&s);
    s.suspends = true;
    sim_block(&s, "b", 2, "H100", 2);
    (void) sim_submit(&s, spec);
    sim_claim(&s, 1, 0, 0, 1);
    sim_claim(&s, 1, 0, 1, 1);
    ok(away(&s, EVENT_SUSPENDING, 0) == 0, "asked to leave %s", s.err.text);
    ok(away(&s, EVENT_LEASE_SUSPENDED, 0) == 0, "one does %s", s.err.text);
    (void) restore(&s, 1);
    ok(away(&s, EVENT_LEASE_KEPT, 1) == 0, "one does not %s", s.err.text);
    sim_wait(&s, 60000);
    ok(sim_count(&s, EVENT_RESUMING) == 0 && sim_count(&s, EVENT_STOPPING) == 0,
       "in quarantine nobody is put back, nor stopped");
    ok(sim_on_workload(&s, EVENT_RELEASED, 1, false) == 0, "released");
    ok(sim_count(&s, EVENT_RESUMING) == 0 && sim_count(&s, EVENT_STOPPING) == 1,
       "and is stopped, as all that may still run");
    close_checked(&s, "torn in quarantine");
}

int main(void)
{
    test_restore();
    test_release();
    test_torn();
    return tap_done();
}
