#include "core/testing.h"

#include "base/mem.h"
#include "base/tap.h"

/* Why attempts end, and what follows from it. */
static bool is_cause(const struct sim *s, const char *row, enum spec_cause c)
{
    return is(sim_row(s, row, "cause"), spec_cause_name(c));
}

/* Whose place went away is tried again, uncounted, under the cause's name; an
 * image only if that is asked for.
 */
static void test_causes(void)
{
    static const enum spec_cause of_place[] = {
        SPEC_CAUSE_EVICTED, SPEC_CAUSE_NODE, SPEC_CAUSE_DELETED,
        SPEC_CAUSE_TAKEN,
    };
    struct spec *spec;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 1, "H100", 4);
    (void) sim_submit(&s, sim_spec(1));
    for (unsigned i = 0; i < array_size(of_place); i++) {
        (void) sim_claim(&s, 1, 0, 0, i + 1);
        (void) sim_end_as(&s, 1, 0, 0, of_place[i]);
        sim_round(&s);
        ok(sim_state(&s, 1, 0) == TASK_WAITING &&
           is_cause(&s, "1 1/0", of_place[i]),
           "%s: it waits for another attempt",
           spec_cause_name(of_place[i]));
        sim_wait(&s, 100u << i);
        ok(sim_state(&s, 1, 0) == TASK_STARTING &&
           sim_task(&s, 1, 0)->tries == 0, "which is not counted");
    }
    (void) sim_claim(&s, 1, 0, 0, 5);
    (void) sim_end_as(&s, 1, 0, 0, SPEC_CAUSE_IMAGE);
    sim_round(&s);
    ok(!world_workload(s.w, 1) && is_cause(&s, "1 1/0", SPEC_CAUSE_IMAGE),
       "an image that cannot be had is the end");
    spec = sim_spec(1);
    spec->tasks[0].retry_count = 1;
    spec->tasks[0].retry_on = 1u << SPEC_CAUSE_IMAGE;
    (void) sim_submit(&s, spec);
    (void) sim_end_as(&s, 2, 0, 0, SPEC_CAUSE_IMAGE);
    sim_round(&s);
    ok(sim_task(&s, 2, 0) && sim_task(&s, 2, 0)->tries == 1,
       "unless that is asked for");
    sim_close(&s);
}

int main(void)
{
    test_causes();
    return tap_done();
}
