#include "runner/held.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "engine/gpuask.h"
#include "runner/link.h"

#include <string.h>

/* What is the matter with the node's devices, from weir-gpud to home: each
 * change as it comes, and now and then all there is, over one connection, so
 * that they come in the order in which they were said.  What happens while
 * there is no way home is in what is told after the next welcome.  Where there
 * is no weir-gpud nothing is told, and home keeps what it has heard.
 */
enum { WHOLE_MS = 30000, AGAIN_MS = 2000, SAMPLES_MS = 3600 * 1000 };

static void on_time(struct watch *w, void *arg);

static json_t *question(const char *kind)
{
    json_t *q = json_object();

    json_put_str(q, "t", kind);
    return q;
}

static void ask_whole(struct runner *r)
{
    gpuask_more(r->changes, question("health"));
    r->health_asked = true;
}

/* One rule as home has it; `state` is the caller's word for it. */
static json_t *rule_json(const json_t *from, const char *state)
{
    json_t *o = json_object(), *evidence = json_object_get(from, "evidence");

    json_put_str(o, "rule", json_get_str(from, "rule", ""));
    json_put_str(o, "state", state);
    json_put_str(o, "action", json_get_str(from, "action", ""));
    json_put_str(o, "text", json_get_str(from, "text", ""));
    if (evidence)
        json_put(o, "evidence", json_incref(evidence));
    return o;
}

static json_t *device_json(const json_t *from, bool whole, json_t *rules)
{
    json_t *o = json_object();

    json_put_str(o, "uuid", json_get_str(from, "uuid", ""));
    if (whole)
        json_put_bool(o, "whole", true);
    json_put(o, "rules", rules);
    return o;
}

/* What home would not read would cost the connection: it is not sent. */
static bool readable(const struct wire_msg *m)
{
    autojson json_t *j = wire_write(m);
    autofree char *text = json_text(j);
    struct wire_msg read = { 0 };
    struct err err = { 0 };

    if (wire_read(text, strlen(text), &read, &err) < 0) {
        log_say(LOG_WARN, "what weir-gpud says of health makes no sense",
                "why", err.text, NULL);
        return false;
    }
    wire_clear(&read);
    return true;
}

static void send(struct runner *r, json_t *devices)
{
    struct wire_msg m = { .kind = WIRE_HEALTH, .started_ms = clock_wall_ms(),
                          .health = devices };

    if (r->welcome && json_array_size(devices) > 0 && readable(&m))
        link_send(r->link, &m);
    json_decref(devices);
}

/* What is only about to be raised is nothing yet. */
static void tell_whole(struct runner *r, const json_t *answer)
{
    json_t *all = json_array();
    const json_t *d, *rule;
    size_t i, k;

    json_array_foreach(json_object_get(answer, "devices"), i, d) {
        json_t *rules = json_array();

        json_array_foreach(json_object_get(d, "rules"), k, rule) {
            const char *state = json_get_str(rule, "state", "");

            if (strcmp(state, "pending") != 0)
                (void) json_array_append_new(rules, rule_json(rule, state));
        }
        (void) json_array_append_new(all, device_json(d, true, rules));
    }
    send(r, all);
}

static void tell_change(struct runner *r, const json_t *change)
{
    json_t *all = json_array(), *rules = json_array();
    const char *what = json_get_str(change, "change", "");
    const char *state = strcmp(what, "escalated") == 0 ? "raised" : what;

    (void) json_array_append_new(rules, rule_json(change, state));
    (void) json_array_append_new(all, device_json(change, false, rules));
    send(r, all);
    if (json_object_get(change, "missed"))
        ask_whole(r);
}

static void on_told(const json_t *answer, const char *why, void *arg)
{
    struct runner *r = arg;
    const char *kind = json_get_str(answer, "t", "");

    (void) why;
    if (!answer) {                     /* it is gone */
        gpuask_close(take(r->changes));
        r->health_asked = false;
        watch_remove(r->health);
        r->health = loop_timer(r->loop, AGAIN_MS, on_time, r);
    } else if (strcmp(kind, "health") == 0) {
        r->health_asked = false;
        tell_whole(r, answer);
    } else if (strcmp(kind, "health-change") == 0) {
        tell_change(r, answer);
    }
}

static bool dial(struct runner *r)
{
    json_t *q = question("watch");

    json_put_u64(q, "every_ms", SAMPLES_MS);
    return gpuask_watch(r->loop, r->conf->gpud, q, on_told, r, &r->changes,
                        NULL) == 0;
}

static void on_time(struct watch *w, void *arg)
{
    struct runner *r = arg;
    bool there;

    (void) w;
    if (r->health_asked)               /* and not answered: as good as gone */
        gpuask_close(take(r->changes));
    r->health_asked = false;
    there = r->changes || dial(r);
    r->health = loop_timer(r->loop, there ? WHOLE_MS : AGAIN_MS, on_time, r);
    if (there)
        ask_whole(r);
}

/* Home is there: it hears of all there is. */
void health_start(struct runner *r)
{
    watch_remove(r->health);
    r->health = loop_timer(r->loop, 0, on_time, r);
}

void health_stop(struct runner *r)
{
    watch_remove(take(r->health));
    gpuask_close(take(r->changes));
}
