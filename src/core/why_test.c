#include "core/testing.h"
#include "core/why.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

/* Each code once, with its sentence. */
static bool seen[WHY_COUNT];

static void says(const struct sim *s, uint64_t id, uint32_t task,
                 enum why_code code, uint32_t position, const char *text,
                 const char *change)
{
    const struct task *t = sim_task(s, id, task);
    struct why y = { .code = WHY_COUNT };

    if (t)
        why_task(s->w, t, s->now, &y);
    seen[code] = true;
    ok(y.code == code, "%s", why_code_name(code));
    ok(strcmp(y.text, text) == 0, "%s", y.text);
    ok(strcmp(y.change, change) == 0, "change: %s", y.change);
    ok(y.position == position, "position %u", y.position);
}

static uint64_t submit(struct sim *s, uint32_t gpu_milli, uint32_t cpu_milli)
{
    struct spec *spec = sim_spec(1);

    spec->tasks[0].gpu_milli = gpu_milli;
    spec->tasks[0].cpu_milli = cpu_milli;
    return sim_submit(s, spec);
}

static void test_life(void)
{
    struct spec *spec = sim_spec(6);
    struct sim s;

    sim_open(&s);
    spec->tasks[0].retry_count = 1;
    spec->tasks[0].retry_on = 1u << SPEC_CAUSE_FAILED;
    spec->tasks[0].retry_backoff_ms = 90000;
    for (uint32_t i = 0; i < 5; i++)
        sim_needs(spec, 5, i);
    (void) sim_submit(&s, spec);
    says(&s, 1, 0, WHY_NO_BLOCK, 1, "No node has joined yet.",
         "It starts when a runner reports from one.");
    sim_block(&s, "b", 0, "", 1);
    says(&s, 1, 0, WHY_STARTING, 0, "It has its place on node 'node-b' and is "
         "about to start: 0 of 1 ranks have begun.", "");
    says(&s, 1, 5, WHY_NEEDS, 0, "It waits for 5 of the 5 tasks it needs: 'a' "
         "(starting), 'b' (waiting), 'c' (waiting) and 2 more.", "");
    says(&s, 1, 2, WHY_CPUS, 2, "It needs 1 CPU; at most 0 are free on one node.",
         "It starts when running work ends and leaves enough.");
    sim_claim(&s, 1, 0, 0, 1);
    says(&s, 1, 0, WHY_RUNNING, 0, "It is running on node 'node-b', attempt "
         "1.", "");
    sim_end(&s, 1, 0, 0, 2);
    sim_wait(&s, 30000);
    says(&s, 1, 0, WHY_BACKOFF, 0, "Attempt 1 ended (failed); it is tried "
         "again at 2027-01-15T08:01:30.000Z, in 1m.", "");
    sim_run(&s, 1, 1);
    says(&s, 1, 1, WHY_ENDED, 0, "It has ended: succeeded.", "");
    sim_abort_task(&s, 1, 2, false);
    says(&s, 1, 2, WHY_ENDING, 0, "It was told to stop (aborted) and has not "
         "ended yet.", "It has 10s to end by itself; abort it with --force to "
         "not wait.");
    sim_end_as(&s, 1, 2, 0, SPEC_CAUSE_ABORTED);
    says(&s, 1, 2, WHY_ENDED, 0, "It has ended: aborted (aborted, status 0).",
         "");
    sim_on_workload(&s, EVENT_PAUSED, 1, false);
    says(&s, 1, 4, WHY_PAUSED, 0, "Its workload is paused.",
         "weir unpause w1");
    sim_close(&s);
}

/* Each fits alone, and not beside the other. */
static void test_never_together(void)
{
    struct spec *spec = sim_spec(2);
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 4, "H100", 8);
    for (unsigned i = 0; i < 2; i++) {
        spec->tasks[i].gpu_milli = 3000;
        spec->tasks[i].together = 1;
    }
    (void) sim_submit(&s, spec);
    says(&s, 1, 0, WHY_NEVER_GANG, 1, "It can never start here: with the tasks "
         "that start together with it, it asks for more than there is.",
         "Ask for fewer devices or another model, or add a node that has "
         "them.");
    sim_block(&s, "c", 4, "H100", 8);
    ok(sim_state(&s, 1, 0) == TASK_STARTING &&
       sim_state(&s, 1, 1) == TASK_STARTING, "until a node comes");
    close_checked(&s, "never together");
}

static void test_too_wide(void)
{
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 20, "H100", 8);
    (void) submit(&s, 17000, 1000);
    says(&s, 1, 0, WHY_NEVER_DEVICES, 1, "It can never start here: it asks "
         "for 17 devices, and a rank has at most 16.", "Ask for more ranks "
         "with fewer devices each.");
    (void) submit(&s, 16000, 1000);
    ok(sim_state(&s, 2, 0) == TASK_STARTING, "16 it may have");
    close_checked(&s, "too wide");
}

static void test_never(void)
{
    struct spec *spec;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 4, "H100", 8);
    (void) submit(&s, 8000, 1000);
    says(&s, 1, 0, WHY_NEVER_DEVICES, 1, "It can never start here: it asks "
         "for 8 devices on one node, and the largest of the nodes has 4 of 4 "
         "in all.", "Ask for fewer devices or another "
         "model, or add a node that has them.");
    spec = sim_spec(1);
    spec->tasks[0].gpu_milli = 1000;
    sim_model(spec, 0, "A100");
    (void) sim_submit(&s, spec);
    says(&s, 2, 0, WHY_NEVER_MODEL, 2, "It can never start here: it asks for "
         "1 device of model A100, and there are 0 devices of such a model.",
         "Ask for fewer devices or another model, or add a node that has "
         "them.");
    spec = sim_spec(1);
    spec->tasks[0].gpu_milli = 500;
    spec->tasks[0].gpu_memory = UINT64_C(141) << 30;
    (void) sim_submit(&s, spec);
    says(&s, 3, 0, WHY_NEVER_GPU_MEMORY, 3, "It can never start here: it asks "
         "for 0.5 device with at least 141Gi, and there are 0 devices with so "
         "much memory.", "Ask for fewer devices or another model, or add a "
         "node that has them.");
    (void) submit(&s, 0, 9000);
    says(&s, 4, 0, WHY_NEVER_CPUS, 4, "It can never start here: it asks for 9 "
         "CPUs, and the largest node has 8.",
         "Ask for fewer CPUs, or add a larger node.");
    spec = sim_spec(1);
    spec->tasks[0].memory = UINT64_C(65) << 30;
    (void) sim_submit(&s, spec);
    says(&s, 5, 0, WHY_NEVER_MEMORY, 5, "It can never start here: it asks for "
         "65Gi of memory, and the largest node has 64Gi.",
         "Ask for less memory, or add a larger node.");
    spec = sim_spec(1);
    spec->tasks[0].gpu_milli = 3000;
    spec->tasks[0].ranks = 2;
    sim_block(&s, "c", 2, "H100", 8);
    (void) sim_submit(&s, spec);
    says(&s, 6, 0, WHY_NEVER_GANG, 6, "It can never start here: 3 devices "
         "for each of 2 ranks do not fit on the 6 devices there are.",
         "Ask for fewer devices or another model, or add a node that has "
         "them.");
    sim_close(&s);
}

static void test_room(void)
{
    struct spec *spec = sim_spec(1);
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 4, "H100", 8);
    spec->tasks[0].gpu_milli = 3000;
    spec->tasks[0].memory = UINT64_C(60) << 30;
    (void) sim_submit(&s, spec);
    spec = sim_spec(1);
    spec->tasks[0].memory = UINT64_C(5) << 30;
    (void) sim_submit(&s, spec);
    says(&s, 2, 0, WHY_MEMORY, 1, "It needs 5Gi of memory; at most 4Gi is free "
         "on one node.",
         "It starts when running work ends and leaves enough.");
    spec = sim_spec(1);
    spec->tasks[0].gpu_milli = 2000;
    sim_model(spec, 0, "h100");
    (void) sim_submit(&s, spec);
    says(&s, 3, 0, WHY_DEVICES, 2, "It needs 2 devices of model h100; of 4 "
         "devices that would do, 1 is free in all.",
         "It starts when running work ends and leaves enough.");
    sim_close(&s);
}

static void label(struct spec *s, const char *key, const char *value)
{
    struct spec_pair *pair = spec_alloc(s, sizeof(*pair));

    pair->key = key;
    pair->value = value;
    s->tasks[0].nodes = pair;
    s->tasks[0].nnodes = 1;
}

static void test_label(void)
{
    struct spec *spec = sim_spec(1);
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 1);
    label(spec, "zone", "x");
    (void) sim_submit(&s, spec);
    says(&s, 1, 0, WHY_NEVER_LABEL, 1, "It can never start here: no node has "
         "the label zone=x.", "Ask for other labels, or give them to a node.");
    sim_close(&s);
}

/* What a node cannot do is said as such, and at once. */
static void test_able(void)
{
    struct spec *spec = sim_spec(1), *both = sim_spec(1);
    const char *change = "Leave the image out, or add a pool that runs images.";
    struct sim s;

    sim_open(&s);
    sim_block(&s, "plain", 2, "H100", 8);
    spec->tasks[0].image = "lab/x:1";
    (void) sim_submit(&s, spec);
    says(&s, 1, 0, WHY_NEVER_IMAGE, 1, "It can never start here: it asks for "
         "the image 'lab/x:1', and no node runs images.", change);
    s.images = s.whole = true;
    sim_block(&s, "pods", 2, "H100", 8);
    sim_round(&s);
    ok(strcmp(sim_task(&s, 1, 0)->leases->block->id, "pods") == 0,
       "it starts where there are images");
    both->tasks[0].image = "lab/x:1";
    both->tasks[0].gpu_milli = 500;
    (void) sim_submit(&s, both);
    says(&s, 2, 0, WHY_NEVER_SHARES, 1, "It can never start here: it asks for "
         "0.5 of a device, and all nodes that run images give whole devices "
         "only.", "Ask for a whole device, or add a node that gives parts.");
    (void) submit(&s, 500, 1000);
    ok(strcmp(sim_task(&s, 3, 0)->leases->block->id, "plain") == 0,
       "half a device is on a node that gives parts");
    both = sim_spec(1);
    both->tasks[0].image = "lab/x:1";
    label(both, "zone", "x");
    (void) sim_submit(&s, both);
    says(&s, 4, 0, WHY_NEVER_LABEL, 2, "It can never start here: no node that "
         "runs images has the label zone=x.",
         "Ask for other labels, or give them to a node.");
    sim_close(&s);
}

/* An engine's word is in the sentences. */
static void test_reason(void)
{
    struct spec *spec = sim_spec(1);
    struct event e;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 1, "H100", 8);
    (void) sim_submit(&s, spec);
    event_init(&e, EVENT_LEASE_ENDED);
    e.workload = 1;
    e.task = 0;
    e.gen = 1;
    e.cause = SPEC_CAUSE_EVICTED;
    e.data = json_pack("{s:s}", "why", "the node was low on memory");
    ok(sim_event(&s, &e) == 0, "evicted, and a reason");
    says(&s, 1, 0, WHY_BACKOFF, 0, "Attempt 1 ended (evicted); it is tried "
         "again at 2027-01-15T08:00:00.100Z, in 100ms. The reason was: the "
         "node was low on memory", "");
    sim_wait(&s, 100);
    ok(!task_reason(sim_task(&s, 1, 0)), "another attempt has none");
    sim_close(&s);
}

static void test_tenant(void)
{
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 4, "H100", 8);
    (void) submit(&s, 3000, 1000);
    sim_quota(&s, 3000);
    (void) submit(&s, 1000, 1000);
    says(&s, 2, 0, WHY_QUOTA, 1, "Tenant 't' may hold 3 devices at once and "
         "holds 3; this needs 1.",
         "It starts when other work of the tenant ends.");
    sim_quota(&s, 500);
    says(&s, 2, 0, WHY_NEVER_QUOTA, 1, "Tenant 't' may hold 0.5 devices at "
         "once and holds 3; this needs 1.", "It needs more than the tenant may "
         "ever hold: weir tenant set t --max-gpus N");
    sim_quota(&s, UINT32_MAX);
    ok(sim_state(&s, 2, 0) == TASK_STARTING, "without a limit it starts");
    sim_tenant(&s, "t", json_pack("{s:{s:I,s:s,s:I}}", "budget",
               "amount_micro", (json_int_t) 2000000, "unit", "gpu_hours",
               "period_ms", (json_int_t) 7200000));
    sim_run(&s, 2, 0);
    sim_wait(&s, 3600000);
    (void) submit(&s, 1000, 1000);
    says(&s, 3, 0, WHY_BUDGET, 1, "The budget of tenant 't' is used up: 3 of 2 "
         "GPU-hours in this period.", "It starts when the next period begins, "
         "at 2027-01-15T10:00:00.000Z, or with a larger budget.");
    sim_close(&s);
}

static void test_closed(void)
{
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 1, "H100", 8);
    sim_on_node(&s, EVENT_NODE_DRAINED, "node-b");
    (void) submit(&s, 1000, 1000);
    says(&s, 1, 0, WHY_DRAINED, 1, "The nodes that could run it are drained (1 "
         "of 1).", "weir node undrain NODE");
    sim_on_block(&s, EVENT_BLOCK_LOST, "b");
    says(&s, 1, 0, WHY_NO_BLOCK, 1, "No node that could run it is up: 0 of 1 "
         "are.", "It starts when the node is back.");
    sim_close(&s);
}

/* Two of four are free, and on two nodes. */
static void test_fragmented(void)
{
    struct sim s;

    sim_open(&s);
    sim_block(&s, "a", 2, "H100", 8);
    (void) submit(&s, 1000, 1000);
    sim_block(&s, "b", 2, "H100", 8);
    sim_on_node(&s, EVENT_NODE_DRAINED, "node-a");
    (void) submit(&s, 1000, 1000);
    sim_on_node(&s, EVENT_NODE_UNDRAINED, "node-a");
    (void) submit(&s, 2000, 1000);
    says(&s, 3, 0, WHY_FRAGMENTED, 1, "It needs 2 devices; of 4 devices that "
         "would do, 2 are free, but not where it could use them together.",
         "It starts when running work ends and leaves enough.");
    sim_close(&s);
}

static void test_behind(void)
{
    struct spec *spec;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 4, "H100", 8);
    (void) submit(&s, 3000, 1000);
    sim_claim(&s, 1, 0, 0, 1);
    sim_wait(&s, 6 * 60 * 1000);
    spec = sim_spec(1);
    spec->tasks[0].gpu_milli = 4000;
    spec->priority = 1;
    (void) sim_submit(&s, spec);
    says(&s, 2, 0, WHY_MAKING_ROOM, 1, "Room is being made for it: 'a' of w1 "
         "was told to give way.", "It starts when that has ended.");
    says(&s, 1, 0, WHY_ENDING, 0, "It was told to give way to w2 and has not "
         "ended yet.", "It has 10s to end by itself; abort it with --force to "
         "not wait.");
    (void) submit(&s, 1000, 1000);
    says(&s, 3, 0, WHY_RESERVED, 2, "It would fit, but would still be there "
         "when 'a' of w2 is to start, for which the place is reserved.",
         "It starts after that task, or with a higher priority.");
    sim_close(&s);
    sim_open(&s);
    world_hold(s.w, true);
    sim_block(&s, "b", 1, "H100", 8);
    (void) submit(&s, 1000, 1000);
    says(&s, 1, 0, WHY_ORDER, 1, "It would fit, and is about to be given its "
         "place.", "");
    sim_close(&s);
}

static void test_window(void)
{
    struct event e;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 1, "H100", 8);
    sim_tenant(&s, "u", json_object());
    event_init(&e, EVENT_WINDOW_SET);
    e.data = json_pack("{s:s,s:s,s:[s],s:I,s:I}", "name", "w", "tenant", "u",
                       "nodes", "node-b", "from_ms", (json_int_t) s.now,
                       "to_ms", (json_int_t) s.now + 3600000);
    ok(sim_event(&s, &e) == 0, "a window");
    (void) submit(&s, 1000, 1000);
    says(&s, 1, 0, WHY_WINDOW, 1, "The nodes that could run it are kept for "
         "tenant 'u' by the window 'w' until 2027-01-15T09:00:00.000Z.",
         "weir reserve remove w");
    sim_close(&s);
}

/* Said at once, with a predicted start, and not when the time has come. */
static void test_late(void)
{
    struct spec *spec;
    struct why y;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 1, "H100", 8);
    for (uint64_t i = 1; i <= 20; i++) {
        (void) submit(&s, 1000, 1000);
        sim_claim(&s, i, 0, 0, 1);
        sim_wait(&s, 3600000);
        sim_end(&s, i, 0, 0, 0);
    }
    (void) submit(&s, 1000, 1000);
    sim_claim(&s, 21, 0, 0, 1);
    spec = sim_spec(1);
    spec->tasks[0].gpu_milli = 1000;
    spec->deadline_ms = s.now + 3700000;
    (void) sim_submit(&s, spec);
    why_task(s.w, sim_task(&s, 22, 0), s.now, &y);
    ok(y.start_ms > s.now + 3000000 && y.start_ms < s.now + 4200000 &&
       y.start_low_ms <= y.start_ms && y.start_ms <= y.start_high_ms,
       "it starts when the other one ends, an hour from now");
    ok(strncmp(y.late, "As predicted it will not have ended by its deadline",
               51) == 0, "%s", y.late);
    why_task(s.w, sim_task(&s, 22, 0), s.now + 7200000, &y);
    ok(y.start_low_ms > s.now + 7200000 && y.start_ms > y.start_low_ms &&
       y.start_high_ms > y.start_ms, "it outlives its kind and nothing else "
       "happens: asked later, it is said from then on");
    spec = sim_spec(1);
    spec->tasks[0].gpu_milli = 1000;
    spec->max_wait_ms = 60000;
    (void) sim_submit(&s, spec);
    why_task(s.w, sim_task(&s, 23, 0), s.now, &y);
    ok(strcmp(y.late, "As predicted it will not start within its max_wait of "
              "1m.") == 0, "%s", y.late);
    sim_close(&s);
}

/* A slower device is free, and a faster one will be soon. */
static void test_better(void)
{
    struct sim s;
    struct why y;

    sim_open(&s);
    ok(sim_policy(&s, 1, json_pack("{s:i,s:s,s:[{s:s,s:i}]}", "weir", 1,
                                   "kind", "policy", "models", "model", "H200",
                                   "rating", 4)) == 0, "ratings");
    sim_block(&s, "b", 1, "H200", 8);
    for (uint64_t i = 1; i <= 40; i++) {
        (void) submit(&s, 1000, 1000);
        sim_claim(&s, i, 0, 0, 1);
        sim_wait(&s, 3600000);
        sim_end(&s, i, 0, 0, 0);
    }
    (void) submit(&s, 1000, 1000);
    sim_claim(&s, 41, 0, 0, 1);
    sim_wait(&s, 3500000);
    sim_block(&s, "c", 1, "A10", 8);
    (void) submit(&s, 1000, 1000);
    why_task(s.w, sim_task(&s, 42, 0), s.now, &y);
    says(&s, 42, 0, WHY_BETTER, 1, "It waits for a device of model H200 that "
         "is expected to be free by 2027-01-17T01:00:53.014Z: on the A10 that "
         "is free now it would end 167m later.", "It starts on any device when "
         "its patience is over; ask for model A10 to start now, or lower "
         "burst_margin in the policy.");
    ok(y.start_low_ms <= s.now && y.start_ms > s.now &&
       y.start_high_ms == y.start_ms, "with the time it is to start");
    sim_end(&s, 41, 0, 0, 0);
    ok(sim_state(&s, 42, 0) == TASK_STARTING, "it starts when that has ended");
    sim_close(&s);
}

static void test_rest(void)
{
    struct spec *spec = sim_spec(3);
    struct event e;
    struct sim s;
    struct why y = { .code = WHY_ORDER, .text = "x", .position = 3 };
    autojson json_t *j = why_json(&y);

    ok(json_object_size(j) == 3 && json_get_u64(j, "position", 0) == 3 &&
       strcmp(json_get_str(j, "code", ""), "order") == 0, "as JSON");
    sim_open(&s);
    sim_block(&s, "b", 0, "", 1);
    spec->tasks[0].together = spec->tasks[1].together = 1;
    sim_needs(spec, 1, 2);
    (void) sim_submit(&s, spec);
    says(&s, 1, 0, WHY_TOGETHER, 0, "It starts together with others: 1 of them "
         "still wait for what they need, 0 for the time of their next "
         "attempt.", "");
    event_init(&e, EVENT_RESTORED);
    e.epoch = 1;
    ok(sim_do(&s, &e) == 0, "a restore");
    says(&s, 1, 0, WHY_QUARANTINED, 0, "Its workload had not ended when the "
         "store was saved that has now been restored, and may have run since.",
         "An operator releases w1: queue it again, or abort it.");
    sim_close(&s);
}

/* Kept off its device by somebody, and in the way of another's memory. */
static void test_suspended(void)
{
    struct spec *spec = sim_spec(1), *other = sim_spec(1);
    struct event e;
    struct sim s;

    sim_open(&s);
    s.suspends = true;
    sim_block(&s, "b", 1, "H100", 8);
    spec->tasks[0].gpu_milli = 1000;
    (void) sim_submit(&s, spec);
    (void) sim_claim(&s, 1, 0, 0, 1);
    event_init(&e, EVENT_SUSPENDING);
    e.workload = 1;
    e.task = 0;
    e.gen = 1;
    e.data = json_pack("{s:s}", "why", "asked");
    ok(sim_event(&s, &e) == 0, "asked to leave");
    event_init(&e, EVENT_LEASE_SUSPENDED);
    e.workload = 1;
    e.task = 0;
    e.gen = 1;
    e.data = json_pack("{s:I}", "bytes", (json_int_t) 60 << 30);
    ok(sim_event(&s, &e) == 0, "and off");
    says(&s, 1, 0, WHY_SUSPENDED, 0, "It is kept suspended by uid:1000.",
         "weir resume w1/a");
    other->tasks[0].memory = UINT64_C(10) << 30;
    (void) sim_submit(&s, other);
    says(&s, 2, 0, WHY_HOST_MEMORY, 1, "It would fit if the suspended work on "
         "the nodes did not hold their memory.", "It starts when that goes on "
         "or ends.");
    sim_close(&s);
}

int main(void)
{
    test_life();
    test_never();
    test_too_wide();
    test_never_together();
    test_room();
    test_label();
    test_able();
    test_reason();
    test_tenant();
    test_closed();
    test_fragmented();
    test_behind();
    test_window();
    test_late();
    test_better();
    test_rest();
    test_suspended();
    for (unsigned c = 0; c < WHY_COUNT; c++)
        ok(seen[c], "code '%s' has a test", why_code_name((enum why_code) c));
    return tap_done();
}
