#include "runner/held.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "engine/gpuask.h"
#include "runner/link.h"

#include <string.h>

/* How the node's devices are, and who uses them that should not, from weir-gpud
 * to home.  Where there is none nothing is told: that it is missing is seen by
 * whoever needs it.
 */
enum { TELEMETRY_MS = 5000, TELEMETRY_PATIENCE_MS = 30000 };

static void on_time(struct watch *w, void *arg);

/* The numbers of a device: home has no use for the rest. */
static json_t *numbers(const json_t *device)
{
    json_t *o = json_object(), *value;
    const char *name;

    json_put_str(o, "uuid", json_get_str(device, "uuid", ""));
    json_object_foreach((json_t *) (uintptr_t) device, name, value)
        if (json_is_integer(value))
            (void) json_object_set(o, name, value);
    return o;
}

static void on_sample(const json_t *answer, const char *why, void *arg)
{
    struct runner *r = arg;
    struct wire_msg m = { .kind = WIRE_TELEMETRY,
                          .started_ms = clock_wall_ms() };
    const json_t *d;
    size_t i;

    (void) why;
    gpuask_close(take(r->sample));
    if (!r->welcome || strcmp(json_get_str(answer, "t", ""), "sample") != 0)
        return;
    m.sample = json_array();
    json_array_foreach(json_object_get(answer, "devices"), i, d)
        if (*json_get_str(d, "uuid", ""))
            (void) json_array_append_new(m.sample, numbers(d));
    reach_learn(r, json_object_get(answer, "devices"));
    m.strays = stray_look(r, json_object_get(answer, "devices"));
    link_send(r->link, &m);
    json_decref(m.sample);
    json_decref(m.strays);
}

static void on_time(struct watch *w, void *arg)
{
    struct runner *r = arg;
    json_t *q;

    (void) w;
    r->telemetry = loop_timer(r->loop, TELEMETRY_MS, on_time, r);
    if (r->sample && loop_now(r->loop) - r->sample_ms > TELEMETRY_PATIENCE_MS)
        gpuask_close(take(r->sample)); /* that one does not answer any more */
    if (!r->welcome || r->sample)
        return;
    r->sample_ms = loop_now(r->loop);
    q = json_object();
    json_put_str(q, "t", "sample");
    (void) gpuask_open(r->loop, r->conf->gpud, q, on_sample, r, &r->sample,
                       NULL);
}

/* Home is there: it hears of them at once. */
void telemetry_start(struct runner *r)
{
    watch_remove(r->telemetry);
    r->telemetry = loop_timer(r->loop, 0, on_time, r);
}

void telemetry_stop(struct runner *r)
{
    watch_remove(take(r->telemetry));
    gpuask_close(take(r->sample));
    json_decref(take(r->strays));
    json_decref(take(r->minors));
}
