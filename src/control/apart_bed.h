#pragma once

#include "control/bed.h"

#include "control/apart.h"

/* apart_bed - an engine that is apart, and is played here: of any pool that is
 * added this is the engine, in the place of engines.c.  For the tests alone.
 */
enum { NOTED = 64 };

struct asked {
    char runner[RUNNER_NAME_SIZE], token[IDENTITY_TOKEN_SIZE], block[48];
    char image[64], task[64];
    bool begun;
    uint32_t gpus;
};

static struct {
    struct engine base;
    const struct engine_events *events;
    struct reached *of;
    char instance[32];
    struct asked started[NOTED];
    unsigned nstarted;
    char stopped[NOTED][RUNNER_NAME_SIZE];
    unsigned nstopped;
    int refuses;                       /* with which `start` does, or 0 */
    bool full;                         /* output is not kept */
    uint64_t end;
    json_t *finds;
    char guest[NOTED][40];             /* of those that were started */
    char told[NOTED][400], told_of[NOTED][40];     /* words; "" to drop it */
    unsigned ntold;
} stub;

static int stub_check(const json_t *words, bool observe, struct err *err)
{
    (void) observe;
    (void) words;
    (void) err;
    return 0;
}

static int stub_open(struct loop *l, const struct engine_conf *of,
                     const struct engine_events *events, void *arg,
                     struct engine **ret, struct err *err);

static void stub_close(struct engine *e)
{
    (void) e;
}

static json_t *stub_inventory(struct engine *e)
{
    (void) e;
    return json_pack("{s:[{s:s}]}", "nodes", "block", "lab/n1");
}

static int stub_get(struct engine *e, const char *block, struct err *err)
{
    (void) e;
    (void) block;
    (void) err;
    return 0;
}

static int stub_start(struct engine *e, const struct engine_lease *l,
                      struct err *err)
{
    struct asked *a = &stub.started[stub.nstarted % NOTED];

    (void) e;
    if (stub.refuses)
        return err_set(err, stub.refuses, "it cannot be had");
    (void) snprintf(stub.guest[stub.nstarted % NOTED], sizeof stub.guest[0],
                    "%s", l->guest ? l->guest : "");
    stub.nstarted++;
    *a = (struct asked) { .begun = l->begun, .gpus = l->gpus };
    (void) snprintf(a->runner, sizeof a->runner, "%s", l->runner);
    (void) snprintf(a->token, sizeof a->token, "%s", l->token);
    (void) snprintf(a->block, sizeof a->block, "%s", l->block);
    (void) snprintf(a->image, sizeof a->image, "%s", l->image ? l->image : "");
    (void) snprintf(a->task, sizeof a->task, "%s", l->task);
    return 0;
}

static int stub_stop(struct engine *e, const char *runner, struct err *err)
{
    (void) e;
    (void) err;
    (void) snprintf(stub.stopped[stub.nstopped++ % NOTED],
                    sizeof stub.stopped[0], "%s", runner);
    return 0;
}

static int stub_output(struct engine *e, const struct engine_output *o,
                       uint64_t *ret_end, struct err *err)
{
    (void) e;
    if (stub.full)
        return err_set(err, ENOSPC, "no room");
    stub.end = o->offset + o->len;
    *ret_end = stub.end;
    return 0;
}

static int stub_tell(struct engine *e, const char *uid,
                     const struct engine_word *w, struct err *err)
{
    unsigned i = stub.ntold++ % NOTED;

    (void) e;
    (void) err;
    (void) snprintf(stub.told_of[i], sizeof stub.told_of[0], "%s", uid);
    (void) snprintf(stub.told[i], sizeof stub.told[0], "%s", w->text);
    return 0;
}

static json_t *stub_find(struct engine *e)
{
    (void) e;
    return stub.finds ? json_incref(stub.finds) : json_array();
}

static int stub_log(struct engine *e, const char *block,
                    const char *lease_key, uint32_t gen, uint64_t epoch,
                    uint64_t offset, void *buf, size_t size,
                    struct engine_log *ret, struct err *err)
{
    (void) e;
    (void) block;
    (void) gen;
    (void) epoch;
    (void) offset;
    (void) buf;
    (void) size;
    (void) ret;
    return err_set(err, ENOENT, "%s: no log", lease_key);
}

static json_t *stub_log_list(struct engine *e)
{
    (void) e;
    return json_array();
}

static int stub_log_drop(struct engine *e, uint64_t workload, struct err *err)
{
    (void) e;
    (void) workload;
    (void) err;
    return 0;
}

static json_t *stub_history(struct engine *e, enum engine_history what)
{
    (void) e;
    (void) what;
    return NULL;
}

static const struct engine_ops stub_ops = {
    .name = "stub", .grain = ENGINE_GRAIN_NODE, .apart = true,
    .check = stub_check, .open = stub_open, .close = stub_close,
    .inventory = stub_inventory, .history = stub_history,
    .get = stub_get, .give = stub_stop,
    .start = stub_start, .stop = stub_stop, .output = stub_output,
    .tell = stub_tell,
    .find = stub_find, .log = stub_log, .log_list = stub_log_list,
    .log_drop = stub_log_drop,
};

static int stub_open(struct loop *l, const struct engine_conf *of,
                     const struct engine_events *events, void *arg,
                     struct engine **ret, struct err *err)
{
    (void) l;
    (void) err;
    stub.base.ops = &stub_ops;
    stub.events = events;
    stub.of = arg;
    (void) snprintf(stub.instance, sizeof stub.instance, "%s", of->instance);
    *ret = &stub.base;
    return 0;
}

const struct engine_ops *engine_find(const char *name)
{
    (void) name;
    return &stub_ops;
}

int engine_choose(const char *name, const struct engine_ops **ret,
                  struct err *err)
{
    (void) name;
    (void) err;
    *ret = &stub_ops;
    return 0;
}

int engine_conf_keys(const json_t *words, const char *const *known,
                     struct err *err)
{
    (void) known;
    return stub_check(words, false, err);
}

int engine_no_start(struct engine *e, const struct engine_lease *l,
                    struct err *err)
{
    return stub_start(e, l, err);
}

int engine_no_stop(struct engine *e, const char *runner, struct err *err)
{
    return stub_stop(e, runner, err);
}

int engine_no_output(struct engine *e, const struct engine_output *o,
                     uint64_t *ret_end, struct err *err)
{
    return stub_output(e, o, ret_end, err);
}

int engine_no_tell(struct engine *e, const char *uid,
                   const struct engine_word *w, struct err *err)
{
    return stub_tell(e, uid, w, err);
}

json_t *engine_no_history(struct engine *e, enum engine_history what)
{
    return stub_history(e, what);
}

/* ---- a control plane with it ---- */

/* The pool "lab" can be reached, and all is told of it. */
static void lab_comes(struct control *c)
{
    autojson json_t *j = json_pack(
        "{s:s, s:I, s:I, s:b, s:b, s:b, s:[{s:s,s:I},{s:s,s:I}]}",
        "node", "n1", "cpus_milli", (json_int_t) 64000, "memory",
        (json_int_t) 1 << 36, "images", 1, "whole", 1, "stages", 1, "devices",
        "model", "H100", "memory", (json_int_t) 1 << 36,
        "model", "H100", "memory", (json_int_t) 1 << 36);

    stub.events->state(true, "", stub.of);
    stub.events->guests_told(stub.of);
    stub.events->block_up("lab/n1", "", j, stub.of);
    settle(c);
}

static void again(struct control *c)
{
    memset(&stub, 0, sizeof stub);
    open_control(c);
}

static void begin_lab(struct control *c)
{
    struct err err = { 0 };
    struct event e;

    (void) fs_remove_tree(dir, NULL);
    (void) mkdir(dir, 0700);
    again(c);
    event_init(&e, EVENT_POOL_SET);
    e.data = json_pack("{s:s,s:s,s:{}}", "name", "lab", "engine", "stub",
                       "conf");
    if (journal_event(c, &e, NULL, NULL, &err) < 0)
        ok(false, "a pool: %s", err.text);
    settle(c);
    lab_comes(c);
}

/* After a kill: nothing that was asked or said is known any more, and the
 * engine has told nothing yet.
 */
static void kill_and_start(struct control *c)
{
    close_control(c);
    again(c);
}
