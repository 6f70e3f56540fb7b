#include "api/handlers.h"

#include "api/api_int.h"
#include "base/json.h"
#include "base/mem.h"
#include "core/world.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Writes to what is there: workloads and nodes. */

static void reply_target(struct call *c, unsigned status)
{
    autotarget struct target t = { 0 };

    if (target_find(c, c->param[0], false, &t))
        reply_json(c, status, show(c, target_view(&t)));
}

static void changed(struct call *c, uint64_t seq, uint64_t workload,
                    void *arg)
{
    (void) seq;
    (void) workload;
    (void) arg;
    reply_target(c, c->route->status);
}

/* The workload of the path, which has to be live; false: answered. */
static bool find_live(struct call *c, struct target *t)
{
    if (!target_find(c, c->param[0], false, t))
        return false;
    if (t->live)
        return true;
    reply_error(c, 409, "%s has ended", c->param[0]);
    return false;
}

/* An event on the live workload of the path and the task of the body, or all
 * of them; false: answered.
 */
static bool begin(struct call *c, enum event_type type, struct target *t,
                  struct event *e)
{
    const char *task = json_get_str(c->body, "task", NULL);

    call_event(c, e, type);
    if (!find_live(c, t) || (task && !target_task(c, t, task, &e->task)))
        return false;
    e->workload = t->id;
    return true;
}

/* Asked for again, perhaps because the first answer was lost: it is so. */
static void set_paused(struct call *c, bool paused)
{
    autotarget struct target t = { 0 };
    struct event e;

    if (!begin(c, paused ? EVENT_PAUSED : EVENT_UNPAUSED, &t, &e))
        return;
    if ((e.task == EVENT_ALL ? t.live->paused
                             : t.live->tasks[e.task].paused) == paused)
        reply_target(c, c->route->status);
    else
        call_propose(c, &e, changed, NULL);
}

void post_prioritise(struct call *c)
{
    autotarget struct target t = { 0 };
    struct event e;

    if (!begin(c, EVENT_PRIORITISED, &t, &e))
        return;
    e.priority = (int) json_integer_value(json_object_get(c->body,
                                                          "priority"));
    call_propose(c, &e, changed, NULL);
}

void post_pause(struct call *c)
{
    set_paused(c, true);
}

void post_unpause(struct call *c)
{
    set_paused(c, false);
}

/* The task that the body names, or the only one; false: answered. */
static bool begin_one(struct call *c, enum event_type type, struct target *t,
                      struct event *e)
{
    if (!begin(c, type, t, e))
        return false;
    if (e->task == EVENT_ALL && t->live->spec->ntasks > 1) {
        reply_error(c, 400, "%s has %u tasks: say which one", c->param[0],
                    t->live->spec->ntasks);
        return false;
    }
    if (e->task == EVENT_ALL)
        e->task = 0;
    e->gen = t->live->tasks[e->task].gen;
    return true;
}

void post_suspend(struct call *c)
{
    uint64_t seconds = json_get_u64(c->body, "seconds", 0);
    autotarget struct target t = { 0 };
    const struct task_away *a;
    struct event e;

    if (!begin_one(c, EVENT_SUSPENDING, &t, &e))
        return;
    a = t.live->tasks[e.task].away;
    if (a && a->held && seconds == 0) {
        reply_target(c, c->route->status);
        return;
    }
    e.data = json_object();
    json_put_str(e.data, "why", "asked");
    if (seconds)
        json_put_u64(e.data, "seconds", seconds);
    call_propose(c, &e, changed, NULL);
}

void post_resume(struct call *c)
{
    autotarget struct target t = { 0 };
    const struct task *task;
    struct event e;

    if (!begin_one(c, EVENT_RECALLED, &t, &e))
        return;
    task = &t.live->tasks[e.task];
    if (task->state == TASK_RUNNING && !(task->away && task->away->leaving))
        reply_target(c, c->route->status);
    else
        call_propose(c, &e, changed, NULL);
}

void post_abort(struct call *c)
{
    autotarget struct target t = { 0 };
    struct event e;

    if (!begin(c, EVENT_ABORTING, &t, &e))
        return;
    e.force = json_get_bool(c->body, "force", false);
    call_propose(c, &e, changed, NULL);
}

void post_release(struct call *c)
{
    autotarget struct target t = { 0 };
    struct event e;

    if (!find_live(c, &t))
        return;
    call_event(c, &e, EVENT_RELEASED);
    e.workload = t.id;
    e.force = json_get_bool(c->body, "abort", false);
    call_propose(c, &e, changed, NULL);
}

/* The device of the body; -1: the whole node. */
static int64_t device_of(const struct call *c)
{
    const json_t *v = json_object_get(c->body, "device");

    return v ? json_integer_value(v) : -1;
}

static void reply_node(struct call *c)
{
    json_t *o = json_object();

    json_put_str(o, "node", c->param[0]);
    if (device_of(c) >= 0)
        json_put_u64(o, "device", (uint64_t) device_of(c));
    json_put_bool(o, "drained", c->route->handle == post_drain);
    reply_json(c, 200, o);
}

static void node_changed(struct call *c, uint64_t seq, uint64_t workload,
                         void *arg)
{
    (void) seq;
    (void) workload;
    (void) arg;
    reply_node(c);
}

/* Devices of a node are counted over its blocks, as the world does. */
static int device_left(const struct call *c, uint32_t device, bool drained)
{
    const struct block *b;
    size_t pos = 0;

    while ((b = world_next_block(api_world(c->api), &pos))) {
        if (strcmp(b->node, c->param[0]) != 0)
            continue;
        if (device < b->ndevices)
            return b->devices[device].drained != drained;
        device -= b->ndevices;
    }
    return -ENOENT;
}

/* Blocks on the node that are not as wanted; -ENOENT: no such node. */
static int blocks_left(const struct call *c, bool drained)
{
    const struct block *b;
    size_t pos = 0;
    int rc = -ENOENT;

    while ((b = world_next_block(api_world(c->api), &pos))) {
        if (strcmp(b->node, c->param[0]) == 0)
            rc = (rc < 0 ? 0 : rc) + (b->drained != drained);
    }
    return rc;
}

static enum event_type drain_type(bool device, bool drained)
{
    if (device)
        return drained ? EVENT_DEVICE_DRAINED : EVENT_DEVICE_UNDRAINED;
    return drained ? EVENT_NODE_DRAINED : EVENT_NODE_UNDRAINED;
}

static void set_drained(struct call *c, bool drained)
{
    int64_t device = device_of(c);
    int left = blocks_left(c, drained);
    struct event e;

    if (left < 0) {
        reply_absent(c, "node", c->param[0]);
        return;
    }
    if (device >= 0)
        left = device_left(c, (uint32_t) device, drained);
    if (left < 0) {
        reply_error(c, 404, "node '%.200s' has no device %lld", c->param[0],
                    (long long) device);
    } else if (left == 0) {
        reply_node(c);
    } else {
        call_event(c, &e, drain_type(device >= 0, drained));
        (void) snprintf(e.node, sizeof e.node, "%s", c->param[0]);
        e.device = device >= 0 ? (uint32_t) device : 0;
        call_propose(c, &e, node_changed, NULL);
    }
}

void post_drain(struct call *c)
{
    set_drained(c, true);
}

void post_undrain(struct call *c)
{
    set_drained(c, false);
}

static void backed_up(struct call *c, uint64_t seq, uint64_t workload,
                      void *arg)
{
    json_t *o = json_object();

    (void) seq;
    (void) workload;
    (void) arg;
    json_put_str(o, "file", json_get_str(c->body, "file", ""));
    reply_json(c, 200, o);
}

void post_backup(struct call *c)
{
    call_backup(c, json_get_str(c->body, "file", ""), backed_up);
}
