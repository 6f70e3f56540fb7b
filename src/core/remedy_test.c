#include "core/testing.h"
#include "core/why.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* What the health of devices leads to, action by action. */
enum { SECOND = 1000, MINUTE = 60 * SECOND };
#define GIB (UINT64_C(1) << 30)

static int tell(struct sim *s, uint32_t device, const char *rule,
                const char *state, const char *action)
{
    struct event e;

    event_init(&e, EVENT_DEVICE_HEALTH);
    (void) snprintf(e.block, sizeof(e.block), "b");
    e.data = json_pack("{s:o,s:s,s:s,s:s,s:s,s:{s:i}}",
                       "uuid", json_sprintf("GPU-b-%u", device), "rule", rule,
                       "state", state, "action", action, "text",
                       "XID 79: device-stopped", "evidence", "value", 1);
    return sim_event(s, &e);
}

static uint64_t submit(struct sim *s, int stop_signal)
{
    struct spec *spec = sim_spec(1);

    spec->tasks[0].gpu_milli = 1000;
    spec->tasks[0].memory = GIB;
    if (stop_signal)
        spec->tasks[0].stop_signal = stop_signal;
    return sim_submit(s, spec);
}

/* One that runs on device 0 of two. */
static uint64_t open_running(struct sim *s, bool suspends, int stop_signal)
{
    uint64_t id;

    sim_open(s);
    s->suspends = suspends;
    sim_block(s, "b", 2, "H100", 8);
    id = submit(s, stop_signal);
    (void) sim_claim(s, id, 0, 0, 1);
    sim_wait(s, MINUTE);
    return id;
}

static uint32_t device(const struct sim *s, uint64_t id)
{
    const struct task *t = sim_task(s, id, 0);

    return t->leases ? t->leases[0].grant.device[0] : UINT32_MAX;
}

static int moved(struct sim *s, enum event_type type, uint64_t id)
{
    struct event e;

    event_init(&e, type);
    e.workload = id;
    e.task = 0;
    e.gen = sim_task(s, id, 0)->gen;
    e.data = json_pack("{s:I,s:I,s:s,s:s}", "bytes", (json_int_t) GIB, "ms",
                       (json_int_t) 900, "reason", "busy", "text", "no");
    return sim_event(s, &e);
}

static const char *why(const struct sim *s, enum event_type type,
                       const char *key)
{
    return json_get_str(json_object_get(sim_last(s, type), "data"), key, "");
}

static int drain(struct sim *s, enum event_type type)
{
    struct event e;

    event_init(&e, type);
    (void) snprintf(e.node, sizeof(e.node), "node-b");
    return sim_event(s, &e);
}

static void test_refused(void)
{
    struct sim s;
    struct event e;

    sim_open(&s);
    sim_block(&s, "b", 1, "H100", 8);
    ok(tell(&s, 1, "hot", "raised", "alert") == -ENOENT, "%s", s.err.text);
    ok(tell(&s, 0, "hot", "cleared", "alert") == -ESTALE, "%s", s.err.text);
    ok(tell(&s, 0, "hot", "pending", "alert") == -EINVAL, "%s", s.err.text);
    ok(tell(&s, 0, "hot", "raised", "explode") == -EINVAL, "%s", s.err.text);
    ok(tell(&s, 0, "hot", "raised", "none") == -EINVAL, "%s", s.err.text);
    ok(tell(&s, 0, "", "raised", "note") == -EINVAL, "%s", s.err.text);
    ok(tell(&s, 0, "hot", "raised", "alert") == 0, "raised");
    ok(tell(&s, 0, "hot", "raised", "alert") == -ESTALE, "%s", s.err.text);
    event_init(&e, EVENT_DEVICE_HEALTH);
    ok(sim_event(&s, &e) == -EINVAL, "%s", s.err.text);
    close_checked(&s, "refused");
}

/* An event, and a row; nothing else. */
static void test_weak(void)
{
    struct sim s;
    uint64_t id = open_running(&s, true, SIGUSR1), other;

    ok(tell(&s, 0, "row", "raised", "note") == 0 &&
       tell(&s, 0, "hot", "raised", "alert") == 0 &&
       tell(&s, 1, "hot", "raised", "alert") == 0, "noted, and an alert");
    other = submit(&s, 0);
    ok(sim_state(&s, id, 0) == TASK_RUNNING &&
       device(&s, other) == 1, "devices are used as before");
    ok(world_block(s.w, "b")->devices[0].remedy == REMEDY_ALERT,
       "the stronger one is in force");
    close_checked(&s, "weak");
}

static void test_cordon(void)
{
    struct sim s;
    uint64_t id = open_running(&s, true, SIGUSR1), other;
    const struct block *b = world_block(s.w, "b");
    struct why y;

    ok(tell(&s, 0, "brake", "raised", "cordon") == 0 &&
       tell(&s, 1, "brake", "raised", "cordon") == 0, "a cordon on both");
    other = submit(&s, 0);
    ok(sim_state(&s, id, 0) == TASK_RUNNING && !sim_task(&s, id, 0)->preempting,
       "what runs there runs on");
    ok(sim_state(&s, other, 0) == TASK_WAITING, "nothing new is placed");
    sim_block(&s, "b", 2, "H100", 8);
    ok(sim_state(&s, other, 0) == TASK_WAITING,
       "nor after its runner came back");
    why_task(s.w, sim_task(&s, other, 0), s.now, &y);
    ok(y.code == WHY_DRAINED && strstr(y.text, "for their health (2)"), "%s",
       y.text);
    ok(sim_twin(&s), "a loaded world has the cordon");
    ok(tell(&s, 1, "brake", "probation", "cordon") == 0 &&
       sim_state(&s, other, 0) == TASK_WAITING, "nor on probation");
    ok(drain(&s, EVENT_NODE_DRAINED) == 0 &&
       tell(&s, 1, "brake", "cleared", "cordon") == 0 &&
       sim_state(&s, other, 0) == TASK_WAITING,
       "when it is cleared the operator's drain stays");
    ok(drain(&s, EVENT_NODE_UNDRAINED) == 0 && device(&s, other) == 1,
       "until that is over, too");
    ok(b->devices[0].remedy == REMEDY_CORDON &&
       b->devices[1].remedy == REMEDY_NONE, "each device for itself");
    close_checked(&s, "cordon");
}

/* The operator's drain of that device, and the cordon: neither undoes the
 * other.
 */
static void test_causes(void)
{
    struct sim s;
    uint64_t id;

    sim_open(&s);
    sim_block(&s, "b", 1, "H100", 8);
    ok(tell(&s, 0, "leak", "raised", "cordon") == 0 &&
       drain(&s, EVENT_DEVICE_DRAINED) == 0, "ill, and drained");
    id = submit(&s, 0);
    ok(tell(&s, 0, "leak", "cleared", "cordon") == 0 &&
       sim_state(&s, id, 0) == TASK_WAITING, "well, and drained still");
    ok(tell(&s, 0, "leak", "raised", "cordon") == 0 &&
       drain(&s, EVENT_DEVICE_UNDRAINED) == 0 &&
       sim_state(&s, id, 0) == TASK_WAITING, "undrained, and ill still");
    ok(tell(&s, 0, "leak", "cleared", "cordon") == 0 &&
       sim_state(&s, id, 0) == TASK_STARTING, "neither: it is used");
    close_checked(&s, "causes");
}

static void test_drain(void)
{
    struct sim s;
    uint64_t id = open_running(&s, true, SIGUSR1);

    ok(tell(&s, 0, "ecc", "raised", "drain") == 0 &&
       is(why(&s, EVENT_PREEMPTING, "how"), "checkpoint") &&
       is(why(&s, EVENT_PREEMPTING, "why"), "health") &&
       is(why(&s, EVENT_PREEMPTING, "rule"), "ecc") &&
       is(why(&s, EVENT_PREEMPTING, "device"), "GPU-b-0") &&
       sim_state(&s, id, 0) == TASK_ENDING, "it is told to save its work");
    sim_end(&s, id, 0, 0, 0);
    ok(device(&s, id) == 1 && sim_task(&s, id, 0)->tries == 0,
       "and goes on elsewhere, uncounted");
    close_checked(&s, "drain");
    id = open_running(&s, true, 0);
    ok(tell(&s, 0, "ecc", "raised", "drain") == 0 &&
       sim_state(&s, id, 0) == TASK_RUNNING &&
       sim_count(&s, EVENT_PREEMPTING) == 0,
       "who has no such contract runs to its end");
    close_checked(&s, "drain without a contract");
}

/* Planned there, and nothing has begun. */
static void test_unclaimed(void)
{
    struct sim s;
    uint64_t id;

    sim_open(&s);
    sim_block(&s, "b", 2, "H100", 8);
    id = submit(&s, 0);
    ok(tell(&s, 0, "ecc", "raised", "drain") == 0 &&
       sim_state(&s, id, 0) == TASK_ENDING, "it gives its place back");
    sim_end_as(&s, id, 0, 0, SPEC_CAUSE_LOST);
    ok(device(&s, id) == 1 && sim_task(&s, id, 0)->gen == 2 &&
       sim_task(&s, id, 0)->tries == 0, "for another");
    close_checked(&s, "unclaimed");
}

static void test_move(void)
{
    struct sim s;
    uint64_t id = open_running(&s, true, 0), other;

    ok(tell(&s, 0, "too-hot", "raised", "move") == 0 &&
       is(why(&s, EVENT_PREEMPTING, "how"), "suspend") &&
       sim_count(&s, EVENT_SUSPENDING) == 1, "it is suspended");
    ok(moved(&s, EVENT_LEASE_SUSPENDED, id) == 0 && device(&s, id) == 1 &&
       sim_state(&s, id, 0) == TASK_RUNNING, "and resumed on the other one");
    ok(moved(&s, EVENT_LEASE_RESUMED, id) == 0 &&
       sim_task(&s, id, 0)->gen == 1, "the same attempt");
    other = submit(&s, 0);
    ok(tell(&s, 0, "too-hot", "probation", "move") == 0 &&
       sim_state(&s, other, 0) == TASK_WAITING &&
       world_block(s.w, "b")->devices[0].remedy == REMEDY_CORDON,
       "on probation: a cordon");
    ok(tell(&s, 0, "too-hot", "cleared", "move") == 0 &&
       device(&s, other) == 0, "cleared: in use again");
    close_checked(&s, "move");
}

/* Nowhere to go: it waits in memory for its device. */
static void test_move_waits(void)
{
    struct sim s;
    struct why y;
    uint64_t id;

    sim_open(&s);
    s.suspends = true;
    sim_block(&s, "b", 1, "H100", 8);
    id = submit(&s, 0);
    (void) sim_claim(&s, id, 0, 0, 1);
    ok(tell(&s, 0, "too-hot", "raised", "move") == 0 &&
       moved(&s, EVENT_LEASE_SUSPENDED, id) == 0, "suspended");
    sim_wait(&s, 10 * MINUTE);
    ok(sim_state(&s, id, 0) == TASK_SUSPENDED, "it is safe in memory");
    why_task(s.w, sim_task(&s, id, 0), s.now, &y);
    ok(strstr(y.suspended, "for the health of GPU-b-0") &&
       y.code == WHY_DRAINED && strstr(y.text, "for their health (1)"),
       "%s %s %s", y.suspended, y.text, y.change);
    ok(tell(&s, 0, "too-hot", "cleared", "move") == 0 &&
       sim_state(&s, id, 0) == TASK_RUNNING, "and back when it is cleared");
    close_checked(&s, "move, one device");
}

/* Who cannot be suspended leaves by its contract, or stays; once is enough. */
static void test_move_kept(void)
{
    struct sim s;
    uint64_t id = open_running(&s, true, SIGUSR1);

    ok(tell(&s, 0, "too-hot", "raised", "move") == 0 &&
       moved(&s, EVENT_LEASE_KEPT, id) == 0 &&
       is(why(&s, EVENT_PREEMPTING, "how"), "checkpoint"),
       "not suspended: by its contract");
    close_checked(&s, "move, kept");
    id = open_running(&s, true, 0);
    ok(tell(&s, 0, "too-hot", "raised", "move") == 0 &&
       moved(&s, EVENT_LEASE_KEPT, id) == 0, "not suspended, no contract");
    sim_wait(&s, 10 * MINUTE);
    ok(sim_state(&s, id, 0) == TASK_RUNNING &&
       sim_count(&s, EVENT_PREEMPTING) == 1, "it stays, and is asked once");
    close_checked(&s, "move, stays");
    id = open_running(&s, false, 0);
    ok(tell(&s, 0, "too-hot", "raised", "move") == 0 &&
       sim_state(&s, id, 0) == TASK_RUNNING &&
       sim_count(&s, EVENT_PREEMPTING) == 0, "a node that cannot suspend");
    close_checked(&s, "move, no suspend");
}

static void test_restart(void)
{
    struct sim s;
    uint64_t id = open_running(&s, true, 0);

    ok(tell(&s, 0, "stopped", "raised", "restart") == 0 &&
       is(json_get_str(sim_last(&s, EVENT_STOPPING), "cause", ""), "lost") &&
       is(why(&s, EVENT_STOPPING, "rule"), "stopped"), "it is ended");
    sim_end(&s, id, 0, 0, -9);
    sim_wait(&s, MINUTE);
    ok(device(&s, id) == 1 && sim_task(&s, id, 0)->gen == 2 &&
       sim_task(&s, id, 0)->tries == 0, "and starts elsewhere, uncounted");
    close_checked(&s, "restart");
}

/* A restart does not wait for a suspend that the device cannot do; one that is
 * on its way to a device that broke is not thrown away.
 */
static void test_escalated(void)
{
    struct sim s;
    uint64_t id;

    (void) open_running(&s, true, 0);
    ok(tell(&s, 0, "too-hot", "raised", "move") == 0 &&
       tell(&s, 0, "lost", "raised", "restart") == 0 &&
       sim_count(&s, EVENT_STOPPING) == 1, "while it leaves: it is ended");
    close_checked(&s, "escalated");
    id = open_running(&s, true, 0);
    ok(tell(&s, 0, "too-hot", "raised", "move") == 0 &&
       moved(&s, EVENT_LEASE_SUSPENDED, id) == 0 && device(&s, id) == 1 &&
       tell(&s, 1, "lost", "raised", "restart") == 0 &&
       sim_count(&s, EVENT_STOPPING) == 0, "while it comes back: it is not");
    ok(moved(&s, EVENT_LEASE_KEPT, id) == 0 &&
       sim_state(&s, id, 0) == TASK_SUSPENDED, "for its memory is safe");
    close_checked(&s, "escalated, coming back");
}

/* In another slot it is as ill, and another device in its place is not. */
static void test_replaced(void)
{
    struct sim s;
    struct event e;
    const struct block *b;

    sim_open(&s);
    sim_block(&s, "b", 2, "H100", 8);
    ok(tell(&s, 0, "rows", "raised", "cordon") == 0, "ill");
    b = world_block(s.w, "b");
    event_init(&e, EVENT_BLOCK_UP);
    (void) snprintf(e.block, sizeof(e.block), "b");
    e.data = json_pack("{s:s,s:s,s:s,s:I,s:I,s:[{s:s,s:I,s:s},{s:s,s:I,s:s}]}",
                       "pool", "local", "engine", "fake", "node", "node-b",
                       "cpus_milli", (json_int_t) 8000, "memory",
                       (json_int_t) 64 << 30, "devices", "model", "H100",
                       "memory", (json_int_t) 80 << 30, "uuid", "GPU-new",
                       "model", "H100", "memory", (json_int_t) 80 << 30,
                       "uuid", "GPU-b-0");
    ok(sim_event(&s, &e) == 0 && b->devices[0].remedy == REMEDY_NONE &&
       b->devices[1].remedy == REMEDY_CORDON, "it went to the other slot");
    ok(device(&s, submit(&s, 0)) == 0 &&
       sim_state(&s, submit(&s, 0), 0) == TASK_WAITING,
       "the new one is given, it is not");
    close_checked(&s, "replaced");
}

static int release(struct sim *s, uint64_t id)
{
    return sim_on_task(s, EVENT_SUSPENDING, id,
                   json_pack("{s:s,s:s,s:I,s:i}", "why", "idle", "kind",
                             "launch", "used_ms", (json_int_t) s->now,
                             "grace_ms", SECOND));
}

/* One that is idle is not told to leave what it has left already; one that
 * could not leave for that is asked for its health.
 */
static void test_idle(void)
{
    struct sim s;
    uint64_t id = open_running(&s, true, 0);

    ok(release(&s, id) == 0 && moved(&s, EVENT_LEASE_SUSPENDED, id) == 0 &&
       tell(&s, 0, "too-hot", "raised", "move") == 0 &&
       sim_count(&s, EVENT_PREEMPTING) == 0 &&
       sim_state(&s, id, 0) == TASK_SUSPENDED, "idle, its device falls ill");
    ok(sim_on_task(&s, EVENT_RECALLED, id,
                   json_pack("{s:s}", "why", "wanted")) == 0 &&
       device(&s, id) == 1 && sim_state(&s, id, 0) == TASK_RUNNING,
       "it wants its device, and gets the other one");
    close_checked(&s, "idle, then ill");
    id = open_running(&s, true, 0);
    ok(release(&s, id) == 0 &&
       tell(&s, 0, "too-hot", "raised", "move") == 0 &&
       sim_count(&s, EVENT_PREEMPTING) == 0, "ill while it leaves");
    ok(moved(&s, EVENT_LEASE_KEPT, id) == 0 &&
       sim_count(&s, EVENT_PREEMPTING) == 1 &&
       is(why(&s, EVENT_PREEMPTING, "how"), "suspend") &&
       moved(&s, EVENT_LEASE_SUSPENDED, id) == 0 && device(&s, id) == 1,
       "idle, it could not leave: it does for its health, and is in line");
    close_checked(&s, "idle, kept, ill");
}

/* A row that was damaged is not read as that of a device that is well. */
static void test_damaged(void)
{
    struct sim s;
    json_t *row = NULL;
    const char *name;
    char *body, *at = NULL;

    sim_open(&s);
    sim_block(&s, "b", 1, "H100", 8);
    (void) tell(&s, 0, "ecc", "raised", "drain");
    json_object_foreach(s.rows, name, row)
        if (strstr(json_get_str(row, "body", ""), "\"health\":{"))
            break;
    body = mem_str(json_get_str(row, "body", ""));
    at = strstr(strstr(body, "\"rules\":["), "\"drain\"");
    ok(at, "it is in the tables");
    at[1] = 'D';
    json_put_str(row, "body", body);
    world_free(sim_load(&s));
    ok(s.faults == 1, "which do not load");
    at[1] = 'd';
    json_put_str(row, "body", body);
    s.faults = 0;
    free(body);
    close_checked(&s, "damaged");
}

int main(void)
{
    test_refused();
    test_weak();
    test_cordon();
    test_causes();
    test_drain();
    test_unclaimed();
    test_move();
    test_move_waits();
    test_move_kept();
    test_restart();
    test_escalated();
    test_replaced();
    test_idle();
    test_damaged();
    return tap_done();
}
