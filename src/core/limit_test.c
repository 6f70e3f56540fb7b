#include "core/testing.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

/* What the tasks of a workload may use up between them. */
enum { SECOND = 1000, HOUR = 60 * 60 * 1000 };

/* Also of a workload that has ended. */
static bool ended_for(const struct sim *s, uint32_t task, const char *cause)
{
    char row[32];

    (void) snprintf(row, sizeof(row), "1 1/%u", task);
    return is(sim_row(s, row, "cause"), cause);
}

/* Two tasks of two devices each at the same time, then a third. */
static uint64_t submit(struct sim *s, uint64_t gpu_ms, uint64_t wall_ms,
                       uint64_t micro)
{
    struct spec *spec = sim_spec(3);

    for (uint32_t i = 0; i < 3; i++)
        spec->tasks[i].gpu_milli = 2000;
    sim_needs(spec, 2, 0);
    spec->limit_gpu_ms = gpu_ms;
    spec->limit_wall_ms = wall_ms;
    spec->limit_cost_micro = micro;
    return sim_submit(s, spec);
}

static void test_devices(void)
{
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 4, "H100", 8);
    (void) submit(&s, 100 * SECOND, 0, 0);
    sim_claim(&s, 1, 0, 0, 1);
    sim_wait(&s, 10 * SECOND);                     /* 20 */
    sim_claim(&s, 1, 1, 0, 1);
    sim_wait(&s, 15 * SECOND);                     /* 50 and 30 */
    ok(world_wake_ms(s.w) == s.now + 5 * SECOND,
       "the moment is known at which all that is held has used it up");
    sim_end(&s, 1, 0, 0, 0);
    ok(sim_state(&s, 1, 2) == TASK_STARTING &&
       world_wake_ms(s.w) == s.now + 10 * SECOND,
       "it is later once less is held");
    sim_wait(&s, 10 * SECOND - 1);
    ok(sim_count(&s, EVENT_ABORTING) == 0, "not a millisecond before");
    sim_wait(&s, 1);
    ok(sim_count(&s, EVENT_ABORTING) == 1 &&
       is(json_get_str(sim_last(&s, EVENT_ABORTING), "cause", ""), "limit"),
       "then the whole is told to end, and why");
    ok(sim_state(&s, 1, 1) == TASK_ENDING &&
       sim_task(&s, 1, 1)->stop_cause == SPEC_CAUSE_LIMIT, "what runs, too");
    ok(sim_twin(&s), "a world from the tables goes on the same");
    sim_end(&s, 1, 1, 0, 0);
    sim_end(&s, 1, 2, 0, -15);
    ok(ended_for(&s, 1, "limit") && ended_for(&s, 2, "limit"), "both ended for that");
    ok(is(sim_row(&s, "0 1", "outcome"), "failed"),
       "and the whole has failed");
    close_checked(&s, "devices");
}

static void test_waiting(void)
{
    struct spec *spec;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 2, "H100", 8);
    spec = sim_spec(3);
    for (uint32_t i = 0; i < 3; i++)
        spec->tasks[i].gpu_milli = 2000;
    sim_needs(spec, 2, 0);
    spec->tasks[0].retry_count = 5;
    spec->tasks[2].when = SPEC_ALWAYS;
    spec->limit_wall_ms = 60 * SECOND;
    (void) sim_submit(&s, spec);
    sim_wait(&s, HOUR);
    ok(sim_count(&s, EVENT_ABORTING) == 0, "waiting for a start uses nothing");
    sim_claim(&s, 1, 0, 0, 1);
    sim_wait(&s, 60 * SECOND);
    sim_end(&s, 1, 0, 0, 1);
    ok(is(sim_row(&s, "0 1", "outcome"), "failed"),
       "past its time the whole ends");
    ok(sim_count(&s, EVENT_RETRYING) == 0 && sim_count(&s, EVENT_PLANNED) == 1,
       "nothing is tried again, nothing more starts, no handler either");
    ok(ended_for(&s, 1, "limit") && ended_for(&s, 2, "limit"), "those that waited say why");
    close_checked(&s, "waiting");
}

static void test_money(void)
{
    struct sim s;

    sim_open(&s);
    ok(sim_policy(&s, 1, json_pack("{s:i,s:s,s:[{s:s,s:f}]}", "weir", 1,
                                   "kind", "policy", "models", "model", "H100",
                                   "price", 2.0)) == 0, "a price");
    sim_block(&s, "b", 4, "H100", 8);
    (void) submit(&s, 0, 0, 8000000);
    sim_claim(&s, 1, 0, 0, 1);
    sim_claim(&s, 1, 1, 0, 1);
    ok(world_wake_ms(s.w) == s.now + HOUR, "four devices at 2 cost 8 an hour");
    sim_wait(&s, HOUR / 2);
    sim_end(&s, 1, 1, 0, 0);
    ok(world_wake_ms(s.w) == s.now + HOUR, "two of them last longer");
    ok(sim_on_workload(&s, EVENT_ABORTING, 1, false) == 0,
       "somebody aborts it before");
    ok(ended_for(&s, 2, "aborted"), "that is why it ends then");
    sim_wait(&s, HOUR);
    sim_end(&s, 1, 0, 0, -15);
    ok(is(sim_row(&s, "0 1", "outcome"), "aborted"),
       "also when its limit comes while it ends");
    close_checked(&s, "money");
}

/* A force after the limit ends it faster and for the same reason. */
static void test_force(void)
{
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 4, "H100", 8);
    (void) submit(&s, 0, 10 * SECOND, 0);
    sim_claim(&s, 1, 0, 0, 1);
    sim_wait(&s, 10 * SECOND);
    ok(sim_on_workload(&s, EVENT_ABORTING, 1, false) != 0,
       "who is past its limits is being ended already");
    ok(sim_on_workload(&s, EVENT_ABORTING, 1, true) == 0 &&
       sim_task(&s, 1, 0)->forced, "unless it is to be killed");
    sim_end(&s, 1, 0, 0, -15);
    ok(ended_for(&s, 0, "limit"), "the reason stays");
    close_checked(&s, "force");
}

int main(void)
{
    test_devices();
    test_waiting();
    test_money();
    test_force();
    return tap_done();
}
