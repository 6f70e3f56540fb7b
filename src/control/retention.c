#include "control/control_int.h"

#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "store/store.h"

#include <errno.h>

/* Ended workloads older than the policy allows leave the store, and what the
 * store does not know any more leaves the engine's logs.  The store trims
 * between its batches; the logs are looked at a few at a time, so that nobody
 * waits for either.
 */
enum {
    FIRST_MS = 1000,
    TRIM_MS = 60000,
    TRIM_AT_ONCE = 100000,
    SWEEP_MS = 60000,
    STEP_MS = 50,
    LOGS_AT_ONCE = 100,
};

/* A workload from after a backup may have a number that is not given out yet;
 * its logs stay until it is.
 */
static bool log_stale(struct control *c, uint64_t id)
{
    return id < world_next_workload(c->world) &&
           !world_workload(c->world, id) &&
           store_workload(c->store, id, NULL, NULL, NULL) == -ENOENT;
}

static void log_drop(struct control *c, const char *pool, uint64_t id)
{
    const struct reached *r = map_get(c->pools, pool);
    struct err err = { 0 };

    if (r && r->engine && log_stale(c, id) &&
        r->ops->log_drop(r->engine, id, &err) < 0)
        log_say(LOG_WARN, "cannot remove old logs", "pool", pool, "error",
                err.text, NULL);
}

static void logs_list(struct control *c)
{
    const struct reached *r;
    const char *name;
    size_t pos = 0;

    c->logs = json_array();
    while ((r = map_next(c->pools, &pos, &name))) {
        autojson json_t *all = r->engine ? r->ops->log_list(r->engine) : NULL;

        for (size_t i = 0; i < json_array_size(all); i++)
            (void) json_array_append_new(c->logs, json_pack("[s,O]", name,
                                         json_array_get(all, i)));
    }
}

static void logs_step(struct control *c)
{
    size_t left = json_array_size(c->logs);

    for (unsigned n = 0; n < LOGS_AT_ONCE && left > 0; n++) {
        const json_t *last = json_array_get(c->logs, --left);

        log_drop(c, json_string_value(json_array_get(last, 0)), (uint64_t)
                 json_integer_value(json_array_get(last, 1)));
        (void) json_array_remove(c->logs, left);
    }
    if (left == 0) {
        json_decref(c->logs);
        c->logs = NULL;
    }
}

static void on_sweep(struct watch *w, void *arg)
{
    struct control *c = arg;

    (void) w;
    c->sweep = NULL;
    if (c->logs)
        logs_step(c);
    else if (!c->trouble[0])
        logs_list(c);
    c->sweep = loop_timer(c->loop, c->logs ? STEP_MS : SWEEP_MS, on_sweep, c);
}

static void on_trim(struct watch *w, void *arg)
{
    struct control *c = arg;
    uint64_t now = control_now(c);

    (void) w;
    if (c->conf->retention_ms < now && !c->trouble[0])
        store_trim(c->store, now - c->conf->retention_ms, TRIM_AT_ONCE);
    c->trim = loop_timer(c->loop, TRIM_MS, on_trim, c);
}

void retention_start(struct control *c)
{
    c->trim = loop_timer(c->loop, FIRST_MS, on_trim, c);
    c->sweep = loop_timer(c->loop, 2 * FIRST_MS, on_sweep, c);
}

void retention_stop(struct control *c)
{
    watch_remove(c->trim);
    watch_remove(c->sweep);
    c->trim = c->sweep = NULL;
    json_decref(c->logs);
    c->logs = NULL;
}
