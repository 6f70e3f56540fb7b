#include "control/leases.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>

/* Devices that are not used.
 *
 * A runner tells how many calls a task has made and how many of its threads
 * wait at the gate, whenever that has changed.  When it last was a use, and of
 * which kind, is kept here, in memory alone: after a start the countdown of
 * each begins anew with the runner's first word.  A task without a word, as it
 * is not behind the gate, has no countdown.
 *
 *   all its ranks are unused for the grace    task.suspending, why "idle"
 *   a thread of such a one waits              task.recalled, why "wanted"
 *
 * One that could not leave is asked again only after it has used its devices
 * once more.
 */
enum { LOOK_MS = 1000 };

static const char *const kinds[] = {
    [USE_START] = "start", [USE_LAUNCH] = "launch", [USE_COPY] = "copy",
    [USE_SYNC] = "sync", [USE_MEMORY] = "memory", [USE_RESUME] = "resume",
};

/* What the rank of a living attempt has told, or NULL. */
static struct use *use_of(const struct control *c, const struct lease *l)
{
    struct lease_key k = leases_key(l);
    struct held *h = held_get(c, &k);

    return h && h->gen == l->gen && h->use.last_ms ? &h->use : NULL;
}

/* Of a whole task. */
struct sum {
    uint64_t last_ms;
    enum use_kind kind;
    uint32_t wanting;
    bool known, asked, active;         /* of all ranks; of one; of all */
};

static struct sum sum_of(struct control *c, const struct task *t)
{
    struct sum s = { .known = true, .active = true };

    for (uint32_t i = 0; t->leases && i < t->ranks; i++) {
        const struct lease *l = &t->leases[i];
        const struct use *u = use_of(c, l);

        if (leases_over(l))
            continue;
        s.known &= u != NULL;
        s.active &= l->state == LEASE_ACTIVE;
        if (!u)
            continue;
        s.wanting += u->wanting;
        s.asked |= u->asked;
        if (u->inside > 0) {
            s.last_ms = control_now(c);
            s.kind = USE_SYNC;
        } else if (u->last_ms > s.last_ms) {
            s.last_ms = u->last_ms;
            s.kind = u->kind;
        }
    }
    s.known &= s.last_ms != 0;
    return s;
}

static int propose(struct control *c, const struct task *t,
                   enum event_type type, json_t *data)
{
    struct err err = { 0 };
    struct event e;
    int rc;

    event_init(&e, type);
    e.workload = t->workload->id;
    e.task = t->index;
    e.gen = t->gen;
    e.data = data;
    rc = journal_event(c, &e, NULL, NULL, &err);
    if (rc < 0 && rc != -ESTALE && rc != -EBUSY)
        log_say(LOG_WARN, "an idle task cannot be moved", "error", err.text,
                NULL);
    return rc;
}

static void release(struct control *c, const struct task *t,
                    const struct sum *s, uint64_t grace_ms)
{
    json_t *data = json_object();

    json_put_str(data, "why", "idle");
    json_put_u64(data, "used_ms", s->last_ms);
    json_put_str(data, "kind", kinds[s->kind]);
    json_put_u64(data, "grace_ms", grace_ms);
    if (propose(c, t, EVENT_SUSPENDING, data) < 0)
        return;                        /* not now: it is looked at again */
    for (uint32_t i = 0; i < t->ranks; i++) {
        struct use *u = use_of(c, &t->leases[i]);

        if (u)
            u->asked = true;
    }
}

static void look_task(struct control *c, const struct task *t)
{
    struct sum s = sum_of(c, t);
    uint64_t grace_ms = task_idle_grace_ms(c->world, t);
    json_t *data;

    if (t->stopping || t->workload->quarantined || c->trouble[0])
        return;
    if (t->away && t->away->idle && s.wanting > 0) {
        data = json_object();
        json_put_str(data, "why", "wanted");
        (void) propose(c, t, EVENT_RECALLED, data);
    } else if (grace_ms && s.known && s.active && !s.asked &&
               s.wanting == 0 && t->state == TASK_RUNNING &&
               control_now(c) >= s.last_ms + grace_ms) {
        release(c, t, &s, grace_ms);
    }
}

/* A task is looked at once: by the first of its ranks that lives. */
static bool is_first(const struct lease *l)
{
    uint32_t first = 0;

    while (first < l->rank && leases_over(&l->task->leases[first]))
        first++;
    return first == l->rank;
}

static void on_look(struct watch *w, void *arg)
{
    struct control *c = arg;

    (void) w;
    c->idling = NULL;
    idle_look(c);
}

static void look_later(struct control *c)
{
    if (!c->idling)
        c->idling = loop_timer(c->loop, LOOK_MS, on_look, c);
}

void idle_look(struct control *c)
{
    const struct block *b;
    size_t pos = 0;

    while ((b = world_next_block(c->world, &pos)))
        for (const struct lease *l = b->leases; l; l = l->next_on_block) {
            if (!use_of(c, l))
                continue;
            look_later(c);
            if (is_first(l))
                look_task(c, l->task);
        }
}

static bool used(struct use *u, const struct wire_msg *m)
{
    enum use_kind kind = m->launches != u->launches ? USE_LAUNCH :
                         m->copies != u->copies ? USE_COPY :
                         m->syncs != u->syncs ||
                         m->inside != u->inside ? USE_SYNC :
                         m->used_bytes != u->bytes ? USE_MEMORY : USE_START;

    u->launches = m->launches;
    u->copies = m->copies;
    u->syncs = m->syncs;
    u->inside = m->inside;
    u->bytes = m->used_bytes;
    if (u->last_ms && kind == USE_START)
        return false;
    u->kind = u->last_ms ? kind : USE_START;
    return true;
}

void idle_heard(struct control *c, const struct lease *l,
                const struct wire_msg *m)
{
    struct held *h = held_get(c, &m->key);

    if (!h || h->gen != m->gen || h->epoch != m->epoch)
        return;
    h->use.wanting = m->wanting;
    if (used(&h->use, m)) {
        h->use.last_ms = control_now(c);
        h->use.asked = false;
    }
    if (h->use.wanting > 0)
        look_task(c, l->task);
    look_later(c);
}

void idle_back(struct control *c, const struct lease_key *k)
{
    struct held *h = held_get(c, k);

    if (!h || !h->use.last_ms)
        return;
    h->use.last_ms = control_now(c);
    h->use.kind = USE_RESUME;
    h->use.asked = false;
}

static void put_time(json_t *o, const char *key, uint64_t ms)
{
    char text[32];

    clock_print(ms, text, sizeof text);
    json_put_str(o, key, text);
}

json_t *idle_find(const struct task *t, void *arg)
{
    struct control *c = arg;
    struct sum s = sum_of(c, t);
    uint64_t grace = task_idle_grace_ms(c->world, t), now = control_now(c);
    json_t *o;

    if (!s.known)
        return NULL;
    o = json_object();
    put_time(o, "last", s.last_ms);
    json_put_str(o, "kind", kinds[s.kind]);
    json_put_u64(o, "wanting", s.wanting);
    if (grace)
        json_put_milli(o, "grace_seconds", grace);
    if (grace && s.active && !s.asked && t->state == TASK_RUNNING)
        json_put_milli(o, "release_in_seconds",
                       s.last_ms + grace > now ? s.last_ms + grace - now : 0);
    return o;
}

void idle_close(struct control *c)
{
    watch_remove(take(c->idling));
}
