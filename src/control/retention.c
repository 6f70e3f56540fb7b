#include "control/control_int.h"

#include "base/log.h"
#include "base/loop.h"
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

static void logs_step(struct control *c)
{
    size_t left = json_array_size(c->logs);
    struct err err = { 0 };

    for (unsigned n = 0; n < LOGS_AT_ONCE && left > 0; n++) {
        json_t *last = json_array_get(c->logs, --left);
        uint64_t id = (uint64_t) json_integer_value(last);

        if (log_stale(c, id) &&
            c->engine->ops->log_drop(c->engine, id, &err) < 0)
            log_say(LOG_WARN, "cannot remove old logs", "error", err.text,
                    NULL);
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
    if (!c->engine)
        return;
    if (c->logs)
        logs_step(c);
    else if (!c->trouble[0])
        c->logs = c->engine->ops->log_list(c->engine);
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
