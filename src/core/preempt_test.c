#include "core/testing.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

/* Who gives way: told so, off its place, in line again without a try counted,
 * and the one that it made room for has the place.
 */
enum { MIN_RUN = 5 * 60 * 1000 };

static uint64_t submit(struct sim *s, int priority, bool checkpoint)
{
    struct spec *spec = sim_spec(1);

    spec->priority = priority;
    spec->tasks[0].gpu_milli = 2000;
    if (checkpoint)
        spec->tasks[0].stop_signal = SIGUSR1;
    return sim_submit(s, spec);
}

/* What it has run, and since when it runs (0: it does not). */
static void shows_time(const struct task *t, uint64_t ran_ms, uint64_t from_ms)
{
    autojson json_t *j = view_task(t);
    const char *from = json_get_str(j, "attempt_started", NULL);
    uint64_t ms = 0;

    if (from)
        (void) clock_parse(from, &ms, NULL);
    ok(json_get_number(j, "run_seconds") * 1000 == (double) ran_ms &&
       ms == from_ms, "its time is that of its attempts: %g s, since %s",
       json_get_number(j, "run_seconds"), from ? from : "-");
}

static void test_priority(bool checkpoint)
{
    const struct task *t;
    const json_t *e;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 2, "H100", 8);
    (void) submit(&s, 0, checkpoint);
    sim_claim(&s, 1, 0, 0, 1);
    sim_wait(&s, 2 * MIN_RUN);
    (void) submit(&s, 10, false);
    e = sim_last(&s, EVENT_PREEMPTING);
    ok(e && is(json_get_str(json_object_get(e, "data"), "for", ""), "w2") &&
       is(json_get_str(json_object_get(e, "data"), "why", ""), "priority") &&
       is(json_get_str(json_object_get(e, "data"), "how", ""),
          checkpoint ? "checkpoint" : "kill"), "it is said for whom, and how");
    e = sim_last(&s, EVENT_STOPPING);
    ok(sim_state(&s, 1, 0) == TASK_ENDING && e &&
       is(json_get_str(e, "cause", ""), "preempted"), "it is told to stop");
    ok(sim_state(&s, 2, 0) == TASK_WAITING, "the other one waits for that");
    (void) submit(&s, 5, false);
    sim_end_as(&s, 1, 0, 0, SPEC_CAUSE_PREEMPTED);
    ok(sim_state(&s, 2, 0) == TASK_STARTING, "and has the place then");
    t = sim_task(&s, 1, 0);
    ok(t->state == TASK_WAITING && t->tries == 0 && !t->preempting &&
       t->cause == SPEC_CAUSE_PREEMPTED, "the first is in line, no try "
       "counted");
    ok(t->used_gpu_ms == 4 * MIN_RUN &&
       t->lost_gpu_ms == (checkpoint ? 0 : 4 * MIN_RUN),
       "what it lost is counted");
    shows_time(t, 2 * MIN_RUN, 0);
    sim_run(&s, 2, 0);
    ok(sim_state(&s, 3, 0) == TASK_STARTING, "by priority");
    sim_run(&s, 3, 0);
    ok(sim_state(&s, 1, 0) == TASK_STARTING && sim_task(&s, 1, 0)->gen == 2,
       "and again");
    sim_wait(&s, 1000);
    sim_claim(&s, 1, 0, 0, 2);
    shows_time(sim_task(&s, 1, 0), 2 * MIN_RUN,
               sim_task(&s, 1, 0)->leases[0].claimed_ms);
    close_checked(&s, "priority");
}

static void test_refused(void)
{
    struct event e;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 2, "H100", 8);
    (void) submit(&s, 0, false);
    event_init(&e, EVENT_PREEMPTING);
    e.workload = 1;
    e.gen = 2;
    e.data = json_object();
    ok(sim_event(&s, &e) == -ESTALE, "%s", s.err.text);
    event_init(&e, EVENT_PREEMPTING);
    e.workload = 1;
    e.gen = 1;
    ok(sim_event(&s, &e) == -EINVAL, "%s", s.err.text);
    event_init(&e, EVENT_PREEMPTING);
    e.workload = 1;
    e.gen = 1;
    e.data = json_pack("{s:s,s:i}", "for", "w99", "task", 3);
    ok(sim_event(&s, &e) == 0 && sim_state(&s, 1, 0) == TASK_ENDING,
       "for one that is not there, it goes all the same");
    sim_end_as(&s, 1, 0, 0, SPEC_CAUSE_PREEMPTED);
    ok(sim_state(&s, 1, 0) == TASK_STARTING && sim_task(&s, 1, 0)->gen == 2,
       "and starts again");
    close_checked(&s, "refused");
}

/* One that was told to go and is aborted meanwhile does not come back. */
static void test_aborted(void)
{
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 2, "H100", 8);
    (void) submit(&s, 0, false);
    sim_claim(&s, 1, 0, 0, 1);
    sim_wait(&s, 2 * MIN_RUN);
    (void) submit(&s, 10, false);
    ok(sim_on_workload(&s, EVENT_ABORTING, 1, false) == 0, "an abort");
    sim_end_as(&s, 1, 0, 0, SPEC_CAUSE_ABORTED);
    ok(is(sim_row(&s, "0 1", "outcome"), "aborted"), "it has ended");
    ok(sim_state(&s, 2, 0) == TASK_STARTING, "its place is given");
    close_checked(&s, "aborted");
}

int main(void)
{
    test_priority(false);
    test_priority(true);
    test_refused();
    test_aborted();
    return tap_done();
}
