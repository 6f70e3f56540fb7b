#include "core/testing.h"
#include "core/why.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <string.h>

/* Two tasks whose memory together exceeds the device take turns, by slices of
 * the policy.
 */
enum { SECOND = 1000, SLICE = 10 * SECOND, OFF = 300, ON = 200 };
#define GIB (UINT64_C(1) << 30)

static void set_slice(struct sim *s, uint64_t version, const char *slice)
{
    sim_policy(s, version, json_pack("{s:i,s:s,s:s,s:s}", "weir", 1, "kind",
                                     "policy", "slice", slice,
                                     "suspend_cost", "500ms"));
}

static uint64_t submit(struct sim *s)
{
    struct spec *spec = sim_spec(1);

    spec->tasks[0].gpu_milli = 600;
    spec->tasks[0].memory = GIB;
    return sim_submit(s, spec);
}

static void moved(struct sim *s, enum event_type type, uint64_t id,
                  uint64_t bytes, uint64_t ms)
{
    struct event e;

    event_init(&e, type);
    e.workload = id;
    e.gen = sim_task(s, id, 0)->gen;
    e.data = json_pack("{s:I,s:I}", "bytes", (json_int_t) bytes, "ms",
                       (json_int_t) ms);
    (void) sim_event(s, &e);
}

/* What a runner would do, and takes for it. */
static void carry_out(struct sim *s, uint64_t id)
{
    const struct task *t = sim_task(s, id, 0);

    if (!t->leases)
        return;
    if (t->leases[0].state == LEASE_PLANNED) {
        (void) sim_claim(s, id, 0, 0, t->gen);
    } else if (t->leases[0].state == LEASE_SUSPENDING) {
        sim_wait(s, OFF);
        moved(s, EVENT_LEASE_SUSPENDED, id, 4 * GIB, OFF);
    } else if (t->leases[0].state == LEASE_RESUMING) {
        sim_wait(s, ON);
        moved(s, EVENT_LEASE_RESUMED, id, 0, ON);
    }
}

static bool has_device(const struct sim *s, uint64_t id)
{
    const struct task *t = sim_task(s, id, 0);

    return t->leases && t->leases[0].state == LEASE_ACTIVE;
}

/* Charged for, and what it has had since. */
static uint64_t device_ms(const struct sim *s, uint64_t id)
{
    const struct task *t = sim_task(s, id, 0);
    uint64_t now = 0;

    if (has_device(s, id))
        now = (s->now - task_stretch_ms(t)) * 6 / 10;
    return t->used_gpu_ms + now;
}

static void test_turns(void)
{
    uint64_t one, two, a, b, had, end;
    struct sim s;
    struct why y;

    sim_open(&s);
    s.suspends = true;
    sim_block(&s, "b", 1, "H100", 8);
    one = submit(&s);
    two = submit(&s);
    carry_out(&s, one);
    sim_wait(&s, 3 * SLICE);
    ok(sim_count(&s, EVENT_PREEMPTING) == 0 && !has_device(&s, two),
       "without slices the first keeps it");
    set_slice(&s, 1, "10s");
    ok(is(json_get_str(json_object_get(sim_last(&s, EVENT_PREEMPTING),
                                       "data"), "why", ""), "slice"),
       "with them its slice is over");
    ok(sim_twin(&s), "a loaded world has it so");
    world_free(take(s.twin));
    carry_out(&s, one);
    why_task(s.w, sim_task(&s, one, 0), s.now, &y);
    ok(strstr(y.suspended, "for w2/a"), "it is told for whom: %s",
       y.suspended);
    ok(sim_twin(&s), "and off its device");
    world_free(take(s.twin));
    had = device_ms(&s, one);
    for (end = s.now + 10 * 60 * SECOND; s.now < end;) {
        carry_out(&s, one);
        carry_out(&s, two);
        if (has_device(&s, one) || has_device(&s, two))
            sim_wait(&s, SECOND);
    }
    a = device_ms(&s, one) - had;
    b = device_ms(&s, two);
    ok(a > 100 * SECOND && b > 100 * SECOND &&
       a < b + b / 10 && b < a + a / 10, "of 10 minutes each has its half: "
       "%llu and %llu ms", (unsigned long long) a, (unsigned long long) b);
    ok(sim_count(&s, EVENT_PREEMPTING) >= 40, "%u slices",
       sim_count(&s, EVENT_PREEMPTING));
    close_checked(&s, "turns");
}

/* Nobody is suspended where nobody waits. */
static void test_alone(void)
{
    uint64_t one, two;
    struct sim s;

    sim_open(&s);
    s.suspends = true;
    sim_block(&s, "b", 1, "H100", 8);
    set_slice(&s, 1, "10s");
    one = submit(&s);
    carry_out(&s, one);
    sim_wait(&s, 10 * SLICE);
    ok(sim_count(&s, EVENT_PREEMPTING) == 0, "alone it goes on");
    two = submit(&s);
    ok(sim_count(&s, EVENT_PREEMPTING) == 1, "until somebody comes");
    carry_out(&s, one);
    carry_out(&s, two);
    ok(has_device(&s, two), "who has the device");
    sim_wait(&s, SLICE / 2);
    sim_end(&s, two, 0, 0, 0);
    carry_out(&s, one);
    ok(has_device(&s, one), "for as long as it needs it");
    sim_wait(&s, 10 * SLICE);
    ok(sim_count(&s, EVENT_PREEMPTING) == 1, "and alone it goes on");
    close_checked(&s, "alone");
}

int main(void)
{
    test_turns();
    test_alone();
    return tap_done();
}
