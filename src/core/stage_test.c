#include "core/testing.h"
#include "core/why.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

/* Tasks that stand ready, on blocks that stage. */
enum { MINUTE = 60 * 1000 };

static uint64_t submit(struct sim *s, int priority)
{
    struct spec *spec = sim_spec(1);

    spec->priority = priority;
    spec->tasks[0].gpu_milli = 1000;
    spec->tasks[0].memory = UINT64_C(8) << 30;
    return sim_submit(s, spec);
}

static void run_for(struct sim *s, uint64_t id, uint64_t ms)
{
    const struct task *t = sim_task(s, id, 0);

    sim_claim(s, id, 0, 0, t->gen);
    sim_wait(s, ms);
    sim_end(s, id, 0, 0, 0);
}

/* The like of them take ten minutes; one runs for nearly that, on "b", and one
 * waits.  Returns the latter.
 */
static uint64_t open_near(struct sim *s, bool stages)
{
    uint64_t id = 0;

    sim_open(s);
    s->stages = stages;
    sim_block(s, "b", 1, "H100", 8);
    for (int i = 0; i < 6; i++) {
        id = submit(s, 0);
        run_for(s, id, 10 * MINUTE);
    }
    id = submit(s, 0);
    sim_claim(s, id, 0, 0, 1);
    id = submit(s, 0);
    for (int i = 0; i < 38; i++)
        sim_wait(s, MINUTE / 4);
    return id;
}

static void test_staged(void)
{
    struct sim s;
    uint64_t id = open_near(&s, true);
    const struct task *t = sim_task(&s, id, 0);
    struct grant other = t->staged->grants[0];
    struct why y;

    other.device[0] = 1;
    ok(task_gen_at(t, t->staged->grants, 1) == 1 &&
       task_gen_at(t, &other, 1) == 2, "on another device it is another's");
    ok(t->state == TASK_WAITING && t->staged && t->staged->gen == 1 &&
       is(t->staged->blocks[0]->id, "b") && sim_count(&s, EVENT_STAGED) == 1,
       "it stands ready on the block");
    ok(world_block(s.w, "b")->staged == UINT64_C(8) << 30 && t->gen == 0,
       "with memory, and no attempt yet");
    why_task(s.w, t, s.now, &y);
    ok(strncmp(y.staged, "It stands ready on node-b, and starts when w7/a ends,"
               " about 20", 61) == 0, "%s", y.staged);
    ok(sim_twin(&s) && s.twin && sim_replays(&s), "a loaded world has it so");
    world_free(take(s.twin));
    sim_end(&s, id - 1, 0, 0, 0);
    t = sim_task(&s, id, 0);
    ok(t->state == TASK_STARTING && t->gen == 1 && !t->staged &&
       world_block(s.w, "b")->staged == 0, "its attempt is the one staged");
    sim_run(&s, id, 0);
    close_checked(&s, "staged");
}

static void test_unstaged(void)
{
    struct sim s;
    uint64_t id = open_near(&s, true);
    struct event e;

    event_init(&e, EVENT_UNSTAGED);
    e.workload = id;
    e.gen = 2;
    ok(sim_event(&s, &e) == -ESTALE, "%s", s.err.text);
    event_init(&e, EVENT_STAGED);
    e.workload = id;
    e.gen = 1;
    ok(sim_event(&s, &e) == -ESTALE, "%s", s.err.text);
    sim_on_node(&s, EVENT_NODE_DRAINED, "node-b");
    ok(!sim_task(&s, id, 0)->staged && sim_count(&s, EVENT_UNSTAGED) == 1,
       "not on a node that is drained");
    sim_on_node(&s, EVENT_NODE_UNDRAINED, "node-b");
    ok(sim_task(&s, id, 0)->staged && sim_task(&s, id, 0)->staged->gen == 2,
       "again, with another generation");
    (void) sim_on_workload(&s, EVENT_PAUSED, id, false);
    ok(!sim_task(&s, id, 0)->staged && sim_count(&s, EVENT_UNSTAGED) == 1,
       "out of line it goes without saying");
    (void) sim_on_workload(&s, EVENT_UNPAUSED, id, false);
    ok(sim_task(&s, id, 0)->staged && sim_task(&s, id, 0)->staged->gen == 3,
       "and again");
    sim_block(&s, "c", 1, "H100", 8);
    ok(sim_state(&s, id, 0) == TASK_STARTING && sim_task(&s, id, 0)->gen == 4 &&
       is(sim_task(&s, id, 0)->leases[0].block->id, "c"),
       "planned elsewhere it is another attempt");
    ok(sim_claim(&s, id, 0, 0, 3) == -ESTALE, "which the staged one is not");
    close_checked(&s, "unstaged");
}

static void test_lost(void)
{
    struct sim s;
    uint64_t id = open_near(&s, true);

    sim_on_block(&s, EVENT_BLOCK_LOST, "b");
    ok(!sim_task(&s, id, 0)->staged && sim_count(&s, EVENT_UNSTAGED) == 0 &&
       world_block(s.w, "b")->staged == 0, "gone with its block");
    sim_block(&s, "b", 2, "H100", 8);
    ok(sim_state(&s, id, 0) == TASK_STARTING && sim_task(&s, id, 0)->gen == 2,
       "and starts when there is one");
    close_checked(&s, "lost");
}

static void test_none(void)
{
    struct sim s;
    uint64_t id = open_near(&s, false);
    struct event e;

    ok(sim_count(&s, EVENT_STAGED) == 0, "nothing is staged where no block "
       "stages");
    event_init(&e, EVENT_STAGED);
    e.workload = id;
    e.gen = 1;
    e.ngrants = 1;
    e.grants = mem_array(1, sizeof(*e.grants));
    memcpy(e.grants[0].block, "b", 2);
    ok(sim_event(&s, &e) == -EBUSY, "%s", s.err.text);
    close_checked(&s, "none");
}

/* Told by somebody else, for a task that waits while another runs. */
static int tell(struct sim *s, uint64_t id, uint32_t ngrants, uint32_t rank)
{
    struct event e;

    event_init(&e, EVENT_STAGED);
    e.workload = id;
    e.gen = 1;
    e.ngrants = ngrants;
    e.grants = mem_array(ngrants, sizeof(*e.grants));
    for (uint32_t i = 0; i < ngrants; i++) {
        e.grants[i] = (struct grant) { .rank = rank + i, .ndevices = 1,
                                       .milli = 1000 };
        memcpy(e.grants[i].block, "b", 2);
    }
    return sim_event(s, &e);
}

static void test_ranks(void)
{
    struct sim s;
    uint64_t id;

    sim_open(&s);
    s.stages = true;
    sim_block(&s, "b", 1, "H100", 8);
    (void) submit(&s, 0);
    id = submit(&s, 0);
    ok(tell(&s, id, 2, 0) == -EINVAL, "%s", s.err.text);
    ok(tell(&s, id, 1, 1) == -EINVAL, "%s", s.err.text);
    ok(tell(&s, id, 1, 0) == 0 && sim_task(&s, id, 0)->staged, "one of one");
    close_checked(&s, "ranks");
}

/* A row that names a device which the block does not have. */
static void test_damaged(void)
{
    struct sim s;
    uint64_t id = open_near(&s, true);
    json_t *row = NULL;
    const char *name;
    char *body, *at = NULL;

    json_object_foreach(s.rows, name, row) {
        at = strstr(json_get_str(row, "body", ""), "\"staged\":{");
        if (at)
            break;
    }
    body = mem_str(json_get_str(row, "body", ""));
    at = strstr(body, "\"devices\":[0]");
    ok(sim_task(&s, id, 0)->staged && at, "it is in the tables");
    if (at)
        at[11] = '1';
    json_put_str(row, "body", body);
    world_free(sim_load(&s));
    ok(s.faults == 1, "which do not load");
    if (at)
        at[11] = '0';
    json_put_str(row, "body", body);
    s.faults = 0;
    free(body);
    close_checked(&s, "damaged");
}

int main(void)
{
    test_staged();
    test_unstaged();
    test_lost();
    test_none();
    test_ranks();
    test_damaged();
    return tap_done();
}
