#include "runner/held.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "runner/link.h"
#include "runner/transient.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Tasks behind the gate: which are, what they are told, and what is seen of
 * them from outside.
 */
enum {
    BEHIND_LOOK_MS = 1000,
    BEHIND_WANTS_MS = 100,             /* a task that asks is looked at again */
};

/* What the page says is the task's word: as much of it as the wire takes. */
static uint64_t within(uint64_t n)
{
    return n < INT64_MAX ? n : INT64_MAX;
}

static void send_activity(struct held *h, const struct gatepage_seen *s)
{
    struct wire_msg m = {
        .kind = WIRE_ACTIVITY, .key = h->id.key, .gen = h->id.gen,
        .epoch = h->id.epoch, .started_ms = clock_wall_ms(),
        .wanting = s->wanting, .inside = s->inside,
        .launches = within(s->launches),
        .copies = within(s->copies), .syncs = within(s->syncs),
        .others = within(s->others), .used_bytes = within(s->used),
    };

    (void) snprintf(m.gate, sizeof m.gate, "%s", gate_state_name(s->state));
    link_send(h->runner->link, &m);
}

static bool same(const struct gatepage_seen *a, const struct gatepage_seen *b)
{
    return a->state == b->state && a->wanting == b->wanting &&
           a->inside == b->inside &&
           a->launches == b->launches && a->copies == b->copies &&
           a->syncs == b->syncs && a->others == b->others &&
           a->used == b->used;
}

/* A page that makes no sense is worth one line. */
static void look(struct held *h)
{
    struct gatepage_seen now;
    struct err err = { 0 };

    if (!h->gate || !h->runner->welcome)
        return;
    h->seen_ms = loop_now(h->runner->loop);
    if (gatepost_look(h->gate, &now, &err) < 0) {
        if (!h->spoilt)
            log_say(LOG_WARN, "no activity is seen", "lease", h->name, "why",
                    err.text, NULL);
        h->spoilt = true;
        return;
    }
    if (h->seen_told && same(&now, &h->seen))
        return;
    h->seen = now;
    h->seen_told = true;
    send_activity(h, &now);
}

static void on_look(struct watch *w, void *arg)
{
    struct runner *r = arg;
    struct held *h;
    size_t pos = 0;

    (void) w;
    r->look = NULL;
    while ((h = map_next(r->held, &pos, NULL))) {
        look(h);
        if (h->gate && !r->look)
            r->look = loop_timer(r->loop, BEHIND_LOOK_MS, on_look, r);
    }
}

/* The page is written before the line is sent.  Whoever says it all the time
 * is heard with the others, once a second.
 */
static void on_wants(void *owner)
{
    struct held *h = owner;

    if (loop_now(h->runner->loop) - h->seen_ms >= BEHIND_WANTS_MS)
        look(h);
}

/* Where tasks of others find it: as root not below our own folder, which is
 * closed to them.
 */
void behind_init(struct runner *r)
{
    const char *dir = r->conf->gate_dir;

    r->gates.loop = r->loop;
    r->gates.wants = on_wants;
    if (!dir && geteuid() == 0)
        dir = "/run/weir-gate";
    r->gate_dir = dir ? mem_printf("%s/%s", dir, r->mark)
                      : mem_printf("%s/gate", r->conf->dir);
    r->gates.above = dir;
    r->gates.dir = r->gate_dir;
}

void behind_clear(struct runner *r)
{
    watch_remove(take(r->look));
    if (r->gate_dir)
        (void) rmdir(r->gate_dir);     /* when nothing is in it */
    free(take(r->gate_dir));
}

static bool wanted(const struct runner *r, const struct order *o)
{
    return o->gate.given && o->ndevices > 0 && !r->alone &&
           (!o->simulated || r->conf->gate_simulated);
}

/* "GPU-...,GPU-..."; NULL: the order does not name them. */
static char *names_of(const struct order_gate *g)
{
    char *all = g->nuuids ? mem_str(g->uuid[0]) : NULL;

    for (uint32_t i = 1; i < g->nuuids; i++) {
        char *more = mem_printf("%s,%s", all, g->uuid[i]);

        free(all);
        all = more;
    }
    return all;
}

int behind_open(struct held *h, const struct order *o,
                const struct account *a, bool found, struct err *err)
{
    struct runner *r = h->runner;
    struct gatepost_conf conf = {
        .id = &h->id, .lease = h->name, .grant = &o->gate, .uid = a->uid,
        .gid = a->gid, .found = found, .shut = h->where != MOVE_ON,
        .owner = h,
    };
    int rc;

    /* Which nodes there are in a container its runtime has said. */
    h->nodes = r->alone ? ORDER_NODES_OPEN : o->nodes;
    if (h->gate)
        return 0;
    if (!wanted(r, o))
        return o->gate.state == GATE_ACTIVE
             ? 0 : err_set(err, EINVAL, "it is to wait for a device, and has "
                           "none that a gate stands in front of");
    h->behind = true;
    if (!r->conf->gate_lib)
        return err_set(err, EINVAL,
                       "there is no libweir-gate.so to wait for the device");
    if (!h->devices)
        h->devices = names_of(&o->gate);
    h->device_memory = o->gate.memory;
    h->context = o->gate.context;
    rc = gatepost_open(&r->gates, &conf, &h->gate, err);
    if (rc == 0 && !r->look)
        r->look = loop_timer(r->loop, BEHIND_LOOK_MS, on_look, r);
    return rc;
}

static void on_find(struct watch *w, void *arg)
{
    struct held *h = arg;
    autojson json_t *task = NULL;
    struct err err = { 0 };
    int rc = record_read_order(&h->runner->records, &h->id, &task, &err);

    (void) w;
    h->find = NULL;
    if (rc == 0)
        behind_find(h, task);
    else if (transient(rc))
        h->find = loop_timer(h->runner->loop, transient_wait(&h->find_ms),
                             on_find, h);
    else
        log_say(LOG_ERROR, "its gate is not taken up", "lease", h->name,
                "why", err.text, NULL);
}

/* After a kill the task is there already: without its post it waits, and is no
 * worse off than without us.  What the machine cannot do now is tried again.
 */
void behind_find(struct held *h, json_t *task)
{
    struct err err = { 0 };
    struct order o = { 0 };
    int rc = task ? order_read(task, &o, &err) : 0;

    if (rc == 0 && task)
        rc = behind_open(h, &o, held_account(h->runner, &o), true, &err);
    if (rc < 0 && !h->find_ms)
        log_say(LOG_ERROR, "its gate is not taken up", "lease", h->name,
                "why", err.text, NULL);
    if (rc < 0 && transient(rc))
        h->find = loop_timer(h->runner->loop, transient_wait(&h->find_ms),
                             on_find, h);
    else if (h->gate)
        behind_look(h);
    h->nodes_late = true;              /* as they are, until more is known */
    order_clear(&o);
}

/* Its last word comes before its end. */
void behind_close(struct held *h)
{
    watch_remove(take(h->find));
    if (h->gate)
        look(h);
    gatepost_close(take(h->gate));
}

void behind_set(struct held *h, const char *state)
{
    struct err err = { 0 };
    enum gate_state s;
    int rc = gate_state_parse(state, &s)
           ? 0 : err_set(&err, EINVAL, "'%s' is no state of a gate", state);

    if (rc == 0 && s == GATE_ACTIVE)
        reach_open(h, NULL);
    if (rc == 0 && h->gate)
        rc = gatepost_set(h->gate, s, &err);
    reach_settle(h);
    h->turn++;
    if (rc < 0)
        log_say(LOG_ERROR, "its gate is not set", "lease", h->name, "why",
                err.text, NULL);
    behind_look(h);
}

void behind_look(struct held *h)
{
    h->seen_told = false;
    look(h);
}

/* What we know, never what the task has written into its page. */
const char *behind_state(const struct held *h)
{
    if (h->where != MOVE_ON)
        return gate_state_name(GATE_SUSPENDED);
    return h->gate ? gate_state_name(gatepost_state(h->gate)) : "";
}
