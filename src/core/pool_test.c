#include "core/testing.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What operators do with nodes, devices, windows and the policy; labels; and
 * what tasks say about themselves.
 */
enum { HOUR = 60 * 60 * 1000 };

static int drain_device(struct sim *s, const char *node, uint32_t device,
                        bool drain)
{
    struct event e;

    event_init(&e, drain ? EVENT_DEVICE_DRAINED : EVENT_DEVICE_UNDRAINED);
    (void) snprintf(e.node, sizeof(e.node), "%s", node);
    e.device = device;
    return sim_event(s, &e);
}

static uint64_t submit_gpu(struct sim *s, uint32_t milli)
{
    struct spec *spec = sim_spec(1);

    spec->tasks[0].gpu_milli = milli;
    return sim_submit(s, spec);
}

static void test_device(void)
{
    const struct task *t;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 2, "H100", 8);
    ok(drain_device(&s, "node-b", 0, true) == 0, "a device is drained");
    ok(drain_device(&s, "node-b", 0, true) == -ESTALE, "%s", s.err.text);
    ok(drain_device(&s, "node-b", 2, true) == -ENOENT, "%s", s.err.text);
    (void) submit_gpu(&s, 1000);
    t = sim_task(&s, 1, 0);
    ok(t->leases && t->leases[0].grant.device[0] == 1, "the other one is "
       "given");
    (void) submit_gpu(&s, 1000);
    ok(sim_state(&s, 2, 0) == TASK_WAITING, "that one is not");
    sim_block(&s, "b", 2, "H100", 8);
    ok(sim_state(&s, 2, 0) == TASK_WAITING, "nor after its runner came back");
    ok(drain_device(&s, "node-b", 0, false) == 0 &&
       sim_state(&s, 2, 0) == TASK_STARTING, "until it is let go");
    close_checked(&s, "device");
}

static int set_window(struct sim *s, const char *name, const char *tenant,
                      uint64_t from, uint64_t to, const char *node)
{
    struct event e;

    event_init(&e, EVENT_WINDOW_SET);
    e.data = json_pack("{s:s,s:s,s:[s],s:I,s:I}", "name", name, "tenant",
                       tenant, "nodes", node, "from_ms", (json_int_t) from,
                       "to_ms", (json_int_t) to);
    return sim_event(s, &e);
}

static void test_window(void)
{
    struct event e;
    struct sim s;

    sim_open(&s);
    sim_tenant(&s, "u", json_object());
    sim_block(&s, "b", 2, "H100", 8);
    ok(set_window(&s, "w", "u", s.now, s.now + HOUR, "node-x") == -ENOENT,
       "%s", s.err.text);
    ok(set_window(&s, "w", "x", s.now, s.now + HOUR, "node-b") == -ENOENT,
       "%s", s.err.text);
    ok(set_window(&s, "w", "u", s.now, s.now, "node-b") == -EINVAL, "%s",
       s.err.text);
    ok(set_window(&s, "-", "u", s.now, s.now + HOUR, "node-b") == -EINVAL,
       "%s", s.err.text);
    ok(set_window(&s, "w", "u", s.now, s.now + HOUR, "node-b") == 0,
       "a window: %s", s.err.text);
    (void) submit_gpu(&s, 1000);
    ok(sim_state(&s, 1, 0) == TASK_WAITING, "others wait");
    {
        struct spec *spec = sim_spec(1);

        spec->tasks[0].gpu_milli = 1000;
        (void) sim_submit_as(&s, "u", spec);
    }
    ok(sim_state(&s, 2, 0) == TASK_STARTING, "whom it is for does not");
    event_init(&e, EVENT_TENANT_REMOVED);
    (void) snprintf(e.tenant, sizeof(e.tenant), "u");
    ok(sim_event(&s, &e) == -EBUSY, "%s", s.err.text);
    ok(sim_twin(&s), "it is in the tables");
    sim_wait(&s, HOUR);
    ok(sim_count(&s, EVENT_WINDOW_REMOVED) == 1 &&
       !json_object_get(s.rows, "5 window/w"), "it is over, and gone");
    ok(sim_state(&s, 1, 0) == TASK_STARTING, "the way is free");
    close_checked(&s, "window");
}

/* A row as it stands in the tables, to a world with nothing else. */
static int load_window(const char *row, struct err *err)
{
    struct world *w = world_new();
    autojson json_t *j = json_loads(row, 0, NULL);
    int rc = world_load(w, TABLE_META, "window/w", j, NULL, err);

    if (rc == 0)
        rc = world_loaded(w, 0, 1, err);
    world_free(w);
    return rc;
}

static void test_window_row(void)
{
    static const struct {
        const char *row, *says;
    } bad[] = {
        { "{\"nodes\":[\"n\"],\"_\":{\"from_ms\":9,\"to_ms\":9}}",
          "ends before it begins" },
        { "{\"nodes\":[],\"_\":{\"from_ms\":1,\"to_ms\":9}}",
          "without nodes" },
        { "{\"nodes\":[7],\"_\":{\"from_ms\":1,\"to_ms\":9}}",
          "without nodes" },
        { "{\"tenant\":\"x\",\"nodes\":[\"n\"],"
          "\"_\":{\"from_ms\":1,\"to_ms\":9}}", "of a tenant" },
    };
    struct err err = { 0 };

    for (size_t k = 0; k < array_size(bad); k++)
        ok(load_window(bad[k].row, &err) == -EINVAL &&
           strstr(err.text, bad[k].says), "%s", err.text);
    ok(load_window("{\"nodes\":[\"n\"],\"_\":{\"from_ms\":1,"
                   "\"to_ms\":9}}", &err) == 0, "one whose node is away");
}

static void test_window_twice(void)
{
    struct event e;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 2, "H100", 8);
    event_init(&e, EVENT_WINDOW_SET);
    e.data = json_pack("{s:s,s:[s,s,s,s,s,s],s:I,s:I}", "name", "w", "nodes",
                       "node-b", "node-b", "node-b", "node-b", "node-b",
                       "node-b", "from_ms", (json_int_t) s.now, "to_ms",
                       (json_int_t) s.now + HOUR);
    ok(sim_event(&s, &e) == 0, "a node that is named twice is kept once");
    (void) submit_gpu(&s, 1000);
    ok(sim_state(&s, 1, 0) == TASK_WAITING, "all wait");
    sim_wait(&s, HOUR);
    ok(sim_state(&s, 1, 0) == TASK_STARTING, "until it is over");
    close_checked(&s, "window");
}

static void test_policy(void)
{
    struct sim s;

    sim_open(&s);
    ok(world_policy_version(s.w) == 0, "none was set");
    ok(sim_policy(&s, 2, json_pack("{s:i,s:s}", "weir", 1, "kind",
                                   "policy")) == -ESTALE, "%s", s.err.text);
    ok(sim_policy(&s, 1, json_pack("{s:i,s:s,s:s}", "weir", 1, "kind",
                                   "policy", "patience", "no")) == -EINVAL,
       "%s", s.err.text);
    ok(sim_policy(&s, 1, json_pack("{s:i,s:s,s:s}", "weir", 1, "kind",
                                   "policy", "patience", "20m")) == 0 &&
       world_policy(s.w)->patience_ms == 20 * 60 * 1000 &&
       world_policy_version(s.w) == 1, "the first: %s", s.err.text);
    close_checked(&s, "policy");
}

static int say(struct sim *s, uint64_t id, uint32_t gen, json_t *data)
{
    struct event e;

    event_init(&e, EVENT_PROGRESS);
    e.workload = id;
    e.gen = gen;
    e.data = data;
    return sim_event(s, &e);
}

static void test_progress(void)
{
    const struct progress *g;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 1, "H100", 8);
    (void) submit_gpu(&s, 1000);
    sim_claim(&s, 1, 0, 0, 1);
    ok(say(&s, 1, 1, json_pack("{s:f,s:{s:f}}", "progress", 0.4, "metrics",
                               "loss", 0.31)) == 0, "a report");
    ok(say(&s, 1, 1, json_pack("{s:{s:f}}", "metrics", "loss", 0.25)) == 0,
       "another, of a metric alone");
    g = sim_task(&s, 1, 0)->progress;
    ok(g && g->value > 0.39 && g->value < 0.41 &&
       json_real_value(json_object_get(g->metrics, "loss")) < 0.26 &&
       json_array_size(g->history) == 2, "the newest of each is kept");
    ok(say(&s, 1, 2, json_pack("{s:f}", "progress", 0.5)) == -ESTALE, "%s",
       s.err.text);
    ok(say(&s, 1, 1, json_pack("{s:f}", "progress", 1.5)) == -EINVAL, "%s",
       s.err.text);
    ok(say(&s, 1, 1, json_object()) == -EINVAL, "%s", s.err.text);
    ok(say(&s, 1, 1, json_pack("{s:{s:s}}", "metrics", "a", "b")) == -EINVAL,
       "%s", s.err.text);
    for (int i = 0; i < 200; i++)
        (void) say(&s, 1, 1, json_pack("{s:i}", "progress", i % 2));
    ok(json_array_size(g->history) <= 64 &&
       json_real_value(json_object_get(g->metrics, "loss")) < 0.26,
       "the history is bounded");
    close_checked(&s, "progress");
}

static json_t *loss(double v)
{
    return json_pack("{s:{s:f}}", "metrics", "loss", v);
}

/* A minute without a move by more than a hundredth is enough. */
static void test_still(void)
{
    struct spec *spec = sim_spec(2);
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 1, "H100", 8);
    spec->tasks[0].still_metric = "loss";
    spec->tasks[0].still_ms = 60000;
    spec->tasks[0].still_milli = 10;
    sim_needs(spec, 1, 0);
    (void) sim_submit(&s, spec);
    sim_claim(&s, 1, 0, 0, 1);
    sim_wait(&s, 600000);
    ok(sim_state(&s, 1, 0) == TASK_RUNNING, "nothing said: nothing stops it");
    (void) say(&s, 1, 1, loss(4));
    sim_wait(&s, 59000);
    (void) say(&s, 1, 1, loss(3.9));
    sim_wait(&s, 59000);
    ok(sim_state(&s, 1, 0) == TASK_RUNNING, "a move begins the time again");
    (void) say(&s, 1, 1, loss(3.88));
    sim_wait(&s, 999);
    ok(sim_state(&s, 1, 0) == TASK_RUNNING, "a small one is none");
    ok(sim_twin(&s), "a world that is loaded knows, too");
    sim_wait(&s, 2);
    ok(sim_state(&s, 1, 0) == TASK_ENDING, "it stood still: enough");
    sim_end_as(&s, 1, 0, 0, SPEC_CAUSE_SIGNALLED);
    ok(sim_state(&s, 1, 0) == TASK_ENDED &&
       is(sim_row(&s, "1 1/0", "outcome"), "succeeded") &&
       is(sim_row(&s, "1 1/0", "cause"), "still"),
       "it has succeeded, for that reason");
    ok(sim_state(&s, 1, 1) != TASK_BLOCKED, "and what needs it goes on");
    close_checked(&s, "stop_when");
}

static int some(struct sim *s, enum event_type type, uint64_t id,
                uint32_t task, int priority)
{
    struct event e;

    event_init(&e, type);
    e.workload = id;
    e.task = task;
    e.priority = priority;
    return sim_event(s, &e);
}

static void test_stage(void)
{
    struct sim s;

    sim_open(&s);
    (void) sim_submit(&s, sim_spec(2));
    (void) sim_submit(&s, sim_spec(1));
    ok(some(&s, EVENT_PAUSED, 1, 0, 0) == 0, "one stage is paused");
    ok(some(&s, EVENT_PAUSED, 1, 0, 0) == -ESTALE, "%s", s.err.text);
    ok(some(&s, EVENT_PAUSED, 1, 7, 0) == -ENOENT, "%s", s.err.text);
    ok(some(&s, EVENT_PRIORITISED, 2, EVENT_ALL, 5) == 0, "a workload goes "
       "first");
    ok(some(&s, EVENT_PRIORITISED, 2, EVENT_ALL, 5000) == -EINVAL, "%s",
       s.err.text);
    sim_block(&s, "b", 0, "", 1);
    ok(sim_state(&s, 2, 0) == TASK_STARTING, "so it does");
    ok(some(&s, EVENT_PRIORITISED, 1, 1, 9) == 0, "one stage, too");
    ok(some(&s, EVENT_UNPAUSED, 1, 0, 0) == 0, "the other goes on");
    sim_run(&s, 2, 0);
    ok(sim_state(&s, 1, 1) == TASK_STARTING && sim_state(&s, 1, 0) ==
       TASK_WAITING, "the one with priority is first");
    close_checked(&s, "stage");
}

static void test_labels(void)
{
    struct spec *spec = sim_spec(1);
    struct spec_pair *pair = spec_alloc(spec, sizeof(*pair));
    struct event e;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "a", 0, "", 4);
    pair->key = "zone";
    pair->value = "x";
    spec->tasks[0].nodes = pair;
    spec->tasks[0].nnodes = 1;
    (void) sim_submit(&s, spec);
    ok(sim_state(&s, 1, 0) == TASK_WAITING, "no node has the label");
    event_init(&e, EVENT_BLOCK_UP);
    (void) snprintf(e.block, sizeof(e.block), "b");
    e.data = json_pack("{s:s,s:I,s:{s:s}}", "node", "n", "cpus_milli",
                       (json_int_t) 4000, "labels", "zone", "x");
    ok(sim_event(&s, &e) == 0 && sim_state(&s, 1, 0) == TASK_STARTING &&
       is(sim_task(&s, 1, 0)->leases[0].block->id, "b"), "one that has");
    close_checked(&s, "labels");
}

/* Starts with what is there, and never with less than it needs. */
static void test_elastic(void)
{
    struct spec *spec = sim_spec(1);
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 3, "H100", 8);
    spec->tasks[0].gpu_milli = 1000;
    spec->tasks[0].ranks = 2;
    spec->tasks[0].ranks_max = 8;
    (void) sim_submit(&s, spec);
    ok(sim_task(&s, 1, 0)->ranks == 3, "three of two to eight");
    sim_run(&s, 1, 0);
    ok(sim_state(&s, 1, 0) == TASK_ENDED, "all of them run and end");
    close_checked(&s, "elastic");
}

int main(void)
{
    test_device();
    test_window();
    test_window_row();
    test_window_twice();
    test_policy();
    test_progress();
    test_still();
    test_stage();
    test_labels();
    test_elastic();
    return tap_done();
}
