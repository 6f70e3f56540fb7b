#include "core/testing.h"
#include "core/why.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

/* Tasks that are pods of others. */
static struct spec *guest(const char *pool, const char *uid)
{
    struct spec *s = sim_spec(1);
    struct spec_task *t = &s->tasks[0];

    t->run = NULL;
    t->argv = NULL;
    t->gpu_milli = 1000;
    t->guest_pool = pool;
    t->guest_pod = "ns/p";
    t->guest_uid = uid;
    return s;
}

static void test_spec(void)
{
    struct spec *s = guest("lab", "u-1"), *back = NULL;
    struct spec_pair node = { "nvidia.com/gpu.product", "H100" };
    struct err err = { 0 };
    autojson json_t *j = NULL, *again = NULL;

    s->tasks[0].nodes = &node;
    s->tasks[0].nnodes = 1;
    ok(spec_check(s, &err) == 0, "a pod of others is a task: %s", err.text);
    j = spec_to_json(s);
    ok(spec_from_json(j, &back, &err) == 0, "it is read back: %s", err.text);
    again = back ? spec_to_json(back) : NULL;
    ok(again && json_equal(j, again), "as it was");
    spec_free(back);
    s->tasks[0].run = "true";
    ok(spec_check(s, &err) == -EINVAL, "it has no command: %s", err.text);
    s->tasks[0].run = NULL;
    s->tasks[0].ranks = 2;
    ok(spec_check(s, &err) == -EINVAL, "it is one: %s", err.text);
    s->tasks[0].ranks = 1;
    s->tasks[0].guest_pod = "p";
    ok(spec_check(s, &err) == -EINVAL, "it has a namespace: %s", err.text);
    s->tasks[0].guest_pod = NULL;
    ok(spec_check(s, &err) == -EINVAL, "it has a name: %s", err.text);
    s->tasks[0].guest_uid = NULL;
    s->tasks[0].guest_pool = NULL;
    ok(spec_check(s, &err) == -EINVAL, "what is none has a command: %s",
       err.text);
    spec_free(s);
}

static void test_labels(void)
{
    static const char *const right[] = { "a", "a/b", "nvidia.com/gpu.product",
                                         "kubernetes.io/os", "a.b-c_d" };
    static const char *const wrong[] = { "", "/", "a/", "/b", "a/b/c", "a b",
                                         ".a/b" };

    for (size_t i = 0; i < array_size(right); i++)
        ok(spec_label_valid(right[i]), "'%s' is a label", right[i]);
    for (size_t i = 0; i < array_size(wrong); i++)
        ok(!spec_label_valid(wrong[i]), "'%s' is none", wrong[i]);
}

static void test_place(void)
{
    struct sim s;
    struct why y;
    uint64_t id;

    sim_open(&s);
    sim_block(&s, "local", 4, "H100", 8);
    id = sim_submit(&s, guest("lab", "u-1"));
    ok(sim_state(&s, id, 0) == TASK_WAITING, "it is not of this pool");
    why_task(s.w, sim_task(&s, id, 0), s.now, &y);
    ok(y.code == WHY_NO_BLOCK && strstr(y.text, "'lab'"), "%s", y.text);
    s.pool = "lab";
    sim_block(&s, "lab/n1", 1, "H100", 8);
    ok(sim_state(&s, id, 0) == TASK_STARTING &&
       is(sim_task(&s, id, 0)->leases[0].block->id, "lab/n1"),
       "where it comes from it has its place");
    sim_run(&s, id, 0);
    ok(is(sim_row(&s, "0 w1", "outcome"), "succeeded") ||
       !world_workload(s.w, id), "and it ends");
    close_checked(&s, "place");
}

static uint64_t begin(struct sim *s)
{
    sim_open(s);
    s->pool = "lab";
    sim_block(s, "lab/n1", 1, "H100", 8);
    return sim_submit(s, guest("lab", "u-1"));
}

static void test_again(void)
{
    static const struct {
        enum spec_cause cause;
        bool claimed, again;
    } ends[] = {
        { SPEC_CAUSE_LOST, false, true }, { SPEC_CAUSE_LOST, true, false },
        { SPEC_CAUSE_TAKEN, false, false }, { SPEC_CAUSE_NODE, true, false },
        { SPEC_CAUSE_DELETED, false, false },
        { SPEC_CAUSE_EVICTED, true, false },
        { SPEC_CAUSE_FAILED, true, false },
    };

    for (size_t i = 0; i < array_size(ends); i++) {
        struct sim s;
        uint64_t id = begin(&s);

        if (ends[i].claimed)
            (void) sim_claim(&s, id, 0, 0, 1);
        (void) sim_end_as(&s, id, 0, 0, ends[i].cause);
        ok((world_workload(s.w, id) != NULL) == ends[i].again,
           "%s, %s: %s", spec_cause_name(ends[i].cause),
           ends[i].claimed ? "begun" : "not begun",
           ends[i].again ? "it waits again" : "it is over");
        close_checked(&s, "again");
    }
}

static void test_retry(void)
{
    struct sim s;
    struct event e;

    (void) begin(&s);
    event_init(&e, EVENT_SUBMITTED);
    e.workload = world_next_workload(s.w);
    (void) snprintf(e.tenant, sizeof e.tenant, "t");
    e.retry_of = 1;
    e.spec = guest("lab", "u-1");
    ok(sim_do(&s, &e) == -EINVAL && strstr(s.err.text, "others"),
       "nobody retries it: %s", s.err.text);
    close_checked(&s, "retry");
}

int main(void)
{
    test_spec();
    test_labels();
    test_place();
    test_again();
    test_retry();
    return tap_done();
}
