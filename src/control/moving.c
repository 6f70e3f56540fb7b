#include "control/leases.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>

/* Leases that leave their devices and come back.
 *
 * task.suspending and task.resuming are durable before the runner is asked.
 * Its answer, `moved`, is an event of the lease, and what follows from all of
 * them is the world's to say (core/away.c).  Both questions are repeatable and
 * answered if it is so already: so whatever was cut off is asked again when
 * the runner says hello.
 *
 *   the world says    the runner's gate says    then
 *   suspending        anything                  suspend (again)
 *   resuming          anything                  resume (again)
 *   suspended         not suspended             suspend: its device is another's
 *   active            suspended                 resume: nobody wants it off
 *
 * Two answers do not fit: "not suspended, and suspended" (nobody knows where it
 * is) is asked again after a while, each time after twice as long; "not resumed,
 * and active" means that it is back.
 */
enum {
    GRACE_MS = 10 * 1000,              /* for the work that is under way */
    AGAIN_MIN_MS = 1000,
    AGAIN_MAX_MS = 60 * 1000,
};

/* The devices of its grant by name; NULL: those of a simulated block have
 * none, and are all the same to it.
 */
static char *devices_of(const struct lease *l)
{
    autobuf struct buf b = BUF_INIT(1024);

    for (uint32_t i = 0; i < l->grant.ndevices; i++) {
        const char *uuid = l->block->devices[l->grant.device[i]].uuid;

        if (!uuid[0])
            return NULL;
        buf_printf(&b, "%s%s", i > 0 ? "," : "", uuid);
    }
    return mem_str(buf_text(&b));
}

static void ask(struct control *c, const struct lease *l, enum wire_kind kind)
{
    struct lease_key k = leases_key(l);
    const struct held *h = held_get(c, &k);
    struct wire_msg m = { .kind = kind, .key = k, .gen = l->gen };

    if (!h || h->gen != l->gen)
        return;                        /* it settles when it says hello */
    m.epoch = h->epoch;
    if (kind == WIRE_SUSPEND) {
        m.grace_ms = GRACE_MS;
        m.awake = l->task->away && l->task->away->awake;
    } else {
        m.devices = devices_of(l);
    }
    leases_say(c, l->block->id, &m);
    wire_clear(&m);
}

static void ask_as_is(struct control *c, const struct lease *l)
{
    if (l->state == LEASE_SUSPENDING)
        ask(c, l, WIRE_SUSPEND);
    else if (l->state == LEASE_RESUMING)
        ask(c, l, WIRE_RESUME);
}

void moving_act(struct control *c, const struct task *t)
{
    for (uint32_t i = 0; i < t->ranks; i++)
        ask_as_is(c, &t->leases[i]);
}

static bool pending(const struct control *c, const struct lease *l)
{
    return journal_pending(c, EVENT_SUSPENDING, l) ||
           journal_pending(c, EVENT_RESUMING, l);
}

void moving_settle(struct control *c, const struct lease *l,
                   const struct wire_lease *w)
{
    bool off = strcmp(w->gate, "suspended") == 0;

    if (strcmp(w->state, "ended") == 0 || pending(c, l))
        return;
    if (l->state == LEASE_SUSPENDED && !off)
        ask(c, l, WIRE_SUSPEND);
    else if (l->task->workload->quarantined)
        return;                        /* its devices may be another's by now */
    else if (l->state == LEASE_ACTIVE && off)
        ask(c, l, WIRE_RESUME);
    else
        ask_as_is(c, l);
}

static void tell(struct control *c, const struct lease *l,
                 enum event_type type, const struct wire_msg *m)
{
    struct err err = { 0 };
    struct event e;
    int rc;

    leases_event(&e, type, &m->key, m->gen, l->block->id);
    e.data = json_object();
    json_put_u64(e.data, "ms", m->took_ms);
    if (type == EVENT_LEASE_SUSPENDED)
        json_put_u64(e.data, "bytes", m->used_bytes);
    if (type == EVENT_LEASE_KEPT) {
        json_put_str(e.data, "reason", m->reason);
        json_put_str(e.data, "text", m->text);
    }
    if (type == EVENT_LEASE_RESUMED)
        idle_back(c, &m->key);
    rc = journal_event(c, &e, NULL, NULL, &err);
    if (rc < 0 && rc != -ESTALE)
        log_say(LOG_WARN, "a move was refused", "error", err.text, NULL);
}

/* Who is due is asked; the others are looked at a second later. */
static void on_again(struct watch *w, void *arg)
{
    struct control *c = arg;
    uint64_t now = loop_now(c->loop);
    const char *name;
    struct held *h;
    size_t pos = 0;

    (void) w;
    c->moving = NULL;
    while ((h = map_next(c->held, &pos, &name))) {
        struct lease_key k;
        const struct lease *l;

        if (!h->again_at_ms || lease_key_parse(name, &k, NULL) < 0)
            continue;
        l = leases_find(c, &k, h->gen);
        if (!l || l->state != LEASE_SUSPENDING) {
            h->again_at_ms = 0;        /* what else it was told is asked */
        } else if (h->again_at_ms <= now) {
            h->again_at_ms = 0;
            ask(c, l, WIRE_SUSPEND);
        } else if (!c->moving) {
            c->moving = loop_timer(c->loop, AGAIN_MIN_MS, on_again, c);
        }
    }
}

static void ask_later(struct control *c, struct held *h)
{
    h->again_ms = h->again_ms ? h->again_ms * 2 : AGAIN_MIN_MS;
    if (h->again_ms > AGAIN_MAX_MS)
        h->again_ms = AGAIN_MAX_MS;
    h->again_at_ms = loop_now(c->loop) + h->again_ms;
    if (!c->moving)
        c->moving = loop_timer(c->loop, AGAIN_MIN_MS, on_again, c);
}

void moving_clear(struct control *c)
{
    watch_remove(take(c->moving));
}

void moving_moved(struct control *c, const char *block,
                  const struct wire_msg *m)
{
    struct held *h = held_get(c, &m->key);
    const struct lease *l = leases_find(c, &m->key, m->gen);
    bool off = strcmp(m->gate, "suspended") == 0;

    if (!h || h->gen != m->gen || h->epoch != m->epoch || !l ||
        strcmp(l->block->id, block) != 0 || pending(c, l))
        return;
    if (l->state == LEASE_SUSPENDING) {
        if (off && !m->ok) {
            log_say(LOG_WARN, "suspended, and could not be: asked again later",
                    "reason", m->reason, "text", m->text, NULL);
            ask_later(c, h);
        } else if (off || !m->ok) {    /* else: of a question before */
            h->again_ms = 0;
            tell(c, l, off ? EVENT_LEASE_SUSPENDED : EVENT_LEASE_KEPT, m);
        }
    } else if (l->state == LEASE_RESUMING) {
        if (!off || !m->ok)
            tell(c, l, off ? EVENT_LEASE_KEPT : EVENT_LEASE_RESUMED, m);
    }
}
