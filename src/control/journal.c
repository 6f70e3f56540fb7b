#include "control/apart.h"

#include "api/api.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "control/outside.h"
#include "store/store.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

/* The way of an event: checked against the world, numbered, put into the
 * store's batch, applied; its effect waits in a queue until the store says
 * that everything up to its number is on disk.
 *
 * When the store cannot write, the world is ahead of the disk.  Then the world
 * is thrown away and loaded again from the tables, as after a crash: nothing
 * that was not durable has left this process, so nobody can tell the
 * difference.  Runners are cut off and settle when they dial in again.
 */
enum {
    PROBE_MS = 500,
    PROBE_BYTES = 1024 * 1024,
    STEPS_MAX = 1000,                  /* decisions in one turn of the loop */
    LARGE_TASKS = 5000,
};

static void effect_add(struct control *c, const struct effect *f)
{
    if (c->first == c->count)
        c->first = c->count = 0;
    if (c->count == c->room) {
        c->room = c->room ? 2 * c->room : 256;
        c->effects = mem_grow(c->effects, c->room, sizeof *c->effects);
    }
    c->effects[c->count++] = *f;
}

static const char *event_tenant(const struct control *c, const struct event *e)
{
    const struct workload *wl;

    if (e->tenant[0])
        return e->tenant;
    wl = e->workload ? world_workload(c->world, e->workload) : NULL;
    return wl ? wl->tenant_name : NULL;
}

/* What is gone by the time it acts. */
static void effect_about(const struct control *c, const struct event *e,
                         struct effect *f)
{
    struct lease_key k = { e->workload, e->task, e->rank };
    const struct lease *l;

    if (e->type == EVENT_POOL_SET || e->type == EVENT_POOL_REMOVED) {
        (void) snprintf(f->pool, sizeof f->pool, "%s",
                        json_get_str(e->data, "name", ""));
    } else if (e->type == EVENT_LEASE_ENDED) {
        l = leases_find(c, &k, e->gen);
        if (l) {
            memcpy(f->on, l->block->id, sizeof f->on);
            f->epoch = apart_epoch(c, l);
        }
    }
}

int journal_event(struct control *c, struct event *e, service_done_f done,
                  void *arg, struct err *err)
{
    struct effect f = { .done = done, .arg = arg };
    int rc;

    if (c->trouble[0]) {
        rc = err_set(err, ENOSPC, "%s", c->trouble);
        goto out;
    }
    e->seq = world_seq(c->world) + 1;
    e->time_ms = control_now(c);
    if (!e->who[0])
        (void) snprintf(e->who, sizeof e->who, "weir");
    rc = world_check(c->world, e, err);
    if (rc < 0)
        goto out;
    f.seq = e->seq;
    f.type = e->type;
    f.workload = e->workload;
    f.task = e->task;
    f.rank = e->rank;
    f.gen = e->gen;
    (void) snprintf(f.block, sizeof f.block, "%s", e->block);
    effect_about(c, e, &f);
    store_event(c->store, e, event_tenant(c, e));
    rc = world_apply(c->world, e, err);
    if (rc < 0) {      /* checked just now: a defect; nothing of it is on disk */
        log_say(LOG_ERROR, "an event was accepted and then refused", "type",
                event_type_name(e->type), "error", err ? err->text : "", NULL);
        abort();
    }
    effect_add(c, &f);
    journal_soon(c);
out:
    event_clear(e);
    return rc;
}

static void on_wake(struct watch *w, void *arg)
{
    struct control *c = arg;

    (void) w;
    c->wake = NULL;
    journal_soon(c);
}

/* Ask the world again when it wants to be asked; at once if `more`. */
static void wake_set(struct control *c, bool more)
{
    uint64_t at = world_wake_ms(c->world), now = control_now(c);

    watch_remove(c->wake);
    c->wake = NULL;
    if (more)
        c->wake = loop_timer(c->loop, 0, on_wake, c);
    else if (at != UINT64_MAX)
        c->wake = loop_timer(c->loop, at > now ? at - now : 1, on_wake, c);
}

/* What the world wants goes into the same batch.  True when it may want more:
 * a large workload's end is many decisions, and others wait for their turn.
 */
static bool decide(struct control *c)
{
    struct err err = { 0 };
    struct event e;

    for (unsigned n = 0; n < STEPS_MAX || world_midway(c->world); n++) {
        if (world_step(c->world, control_now(c), &e) <= 0)
            return false;
        if (journal_event(c, &e, NULL, NULL, &err) < 0) {
            log_say(LOG_ERROR, "a decision was refused", "error", err.text,
                    NULL);
            return false;
        }
    }
    return true;
}

/* The end of a turn. */
static void on_flush(struct watch *w, void *arg)
{
    struct control *c = arg;
    struct err err = { 0 };
    bool more;

    (void) w;
    c->flush = NULL;
    if (c->trouble[0])
        return;
    more = decide(c);
    if (c->flush) {                    /* the decisions above asked for it */
        watch_remove(c->flush);
        c->flush = NULL;
    }
    if (store_commit(c->store, c->world, &err) < 0)
        log_say(LOG_ERROR, "the journal refuses", "error", err.text, NULL);
    wake_set(c, more);
}

void journal_soon(struct control *c)
{
    if (!c->flush && !c->trouble[0])
        c->flush = loop_soon(c->loop, on_flush, c);
}

bool journal_pending(const struct control *c, enum event_type type,
                     const struct lease *l)
{
    for (size_t i = c->first; i < c->count; i++) {
        const struct effect *f = &c->effects[i];

        if (f->type == type && f->workload == l->task->workload->id &&
            f->task == l->task->index && f->gen == l->gen &&
            (type != EVENT_CLAIMED || f->rank == l->rank))
            return true;
    }
    return false;
}

/* Reading a large document takes several times the memory that its workload
 * keeps; the allocator would sit on the difference.
 */
static void give_back(struct control *c, const struct effect *f)
{
    const struct workload *wl = world_workload(c->world, f->workload);

    if (wl && wl->spec->ntasks >= LARGE_TASKS)
        (void) malloc_trim(0);
}

void journal_durable(uint64_t seq, void *arg)
{
    struct control *c = arg;

    while (c->first < c->count && c->effects[c->first].seq <= seq) {
        struct effect f = c->effects[c->first++];

        if (f.done)
            f.done(0, f.seq, f.workload, NULL, f.arg);
        leases_act(c, &f);
        if (f.pool[0])
            pools_act(c, f.pool, f.type == EVENT_POOL_REMOVED);
        if (f.type == EVENT_SUBMITTED)
            give_back(c, &f);
    }
    leases_swept(c);
    if (c->api)
        api_durable(c->api, seq);
}

static void effects_fail(struct control *c, const struct err *err)
{
    struct effect *list = take(c->effects);
    size_t first = c->first, count = c->count;

    c->first = c->count = c->room = 0;
    for (size_t i = first; i < count; i++)
        if (list[i].done)
            list[i].done(-err->code, 0, 0, err, list[i].arg);
    free(list);
}

/* Is there room again?  Found out by writing, as the next batch would. */
static bool room_again(const struct control *c, struct err *err)
{
    autofree char *path = mem_printf("%s/room", c->conf->state_dir);
    autofree char *bytes = mem_new(PROBE_BYTES);
    int rc = fs_write(path, bytes, PROBE_BYTES, 0600, true, err);

    (void) unlink(path);
    return rc == 0;
}

/* The first words of a start may be among what was not written. */
static int begin_again(struct control *c, struct err *err)
{
    int rc = leases_open(c, err);

    if (rc == 0)
        outside_again(c);
    if (rc == 0)
        rc = control_begin(c, err);
    return rc < 0 ? rc : pools_again(c, err);
}

static void on_probe(struct watch *w, void *arg)
{
    struct control *c = arg;
    struct err err = { 0 };
    struct world *fresh;

    (void) w;
    c->probe = NULL;
    if (c->draining)
        return;
    if (!room_again(c, &err)) {
        c->probe = loop_timer(c->loop, PROBE_MS, on_probe, c);
        return;
    }
    fresh = world_new();
    if (store_load(c->store, fresh, &err) < 0) {
        log_say(LOG_ERROR, "cannot load the store again", "error", err.text,
                NULL);
        world_free(fresh);
        c->probe = loop_timer(c->loop, PROBE_MS, on_probe, c);
        return;
    }
    world_free(c->world);
    c->world = fresh;
    store_resume(c->store);
    c->trouble[0] = '\0';
    log_say(LOG_INFO, "writing again", NULL);
    if (begin_again(c, &err) < 0)
        control_fail(c, -err.code, &err);
}

void journal_failed(const struct err *err, void *arg)
{
    struct control *c = arg;
    struct world *fresh = world_new();
    struct err why = *err, load = { 0 };

    (void) snprintf(c->trouble, sizeof c->trouble, "%s", err->text);
    log_say(LOG_ERROR, "writes are refused for now", "error", err->text, NULL);
    watch_remove(c->wake);
    c->wake = NULL;
    leases_close(c);
    /* What can be read goes on being shown: the last durable state. */
    if (store_load(c->store, fresh, &load) == 0) {
        world_free(c->world);
        c->world = fresh;
    } else {
        log_say(LOG_ERROR, "cannot load the store", "error", load.text, NULL);
        world_free(fresh);
    }
    effects_fail(c, &why);
    if (c->api)
        api_failed(c->api);
    watch_remove(c->probe);
    c->probe = loop_timer(c->loop, PROBE_MS, on_probe, c);
}

void journal_close(struct control *c)
{
    struct err err = { .code = ESHUTDOWN,
                       .text = "the control plane is stopping" };

    effects_fail(c, &err);
    watch_remove(c->flush);
    watch_remove(c->wake);
    watch_remove(c->probe);
    c->flush = c->wake = c->probe = NULL;
}
