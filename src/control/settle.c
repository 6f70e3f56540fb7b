#include "control/apart.h"

#include "base/log.h"
#include "base/map.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

/* What runners say: claims, ends, and the hello after which both sides agree
 * again, by the table at the top of leases.c.
 */

/* A block speaks for its own leases; one that does not is told of once. */
static bool of_another(struct control *c, const char *block,
                       const struct lease *l)
{
    struct heard *t = map_get(c->blocks, block);

    if (!l || leases_over(l) || strcmp(l->block->id, block) == 0)
        return false;
    if (t && !t->lied)
        log_say(LOG_WARN, "a runner speaks of another block's lease", "block",
                block, "of", l->block->id, NULL);
    if (t)
        t->lied = true;
    return true;
}

static void on_claim(struct control *c, const char *block,
                     const struct wire_msg *m)
{
    struct held *h = held_get(c, &m->key);
    struct lease *l = leases_find(c, &m->key, m->gen);
    struct err err = { 0 };
    struct event e;

    if (staged_claim(c, block, m))
        return;
    if (!h || h->gen != m->gen || h->epoch != m->epoch || !l ||
        strcmp(l->block->id, block) != 0) {
        leases_say_short(c, block, WIRE_GRANT, &m->key, m->gen, m->epoch, false);
        return;
    }
    if (l->state == LEASE_ACTIVE && h->unstarted) {
        h->unstarted = false;          /* its claim is durable, the grant got lost */
        leases_say_short(c, block, WIRE_GRANT, &m->key, m->gen, m->epoch, true);
        return;
    }
    leases_event(&e, EVENT_CLAIMED, &m->key, m->gen, block);
    if (journal_event(c, &e, NULL, NULL, &err) < 0)
        leases_say_short(c, block, WIRE_GRANT, &m->key, m->gen, m->epoch, false);
}

/* Does this generation of the runner's belong to that lease?  Leases from
 * before a restore keep the epoch they were planned in, also while they are
 * being ended after a release; anything else of an older epoch was planned
 * after the backup was made, for a workload that the world has never heard of.
 */
static bool settle_same(const struct control *c, const struct lease *l,
                        uint64_t epoch)
{
    return epoch == world_epoch(c->world) || lease_of_old(l);
}

/* Is this the end of an attempt that lives?  Should it have been forgotten that
 * its runner was told of it, it is known again.
 */
static bool ends(struct control *c, const struct lease *l,
                 const struct wire_msg *m)
{
    const struct held *h = held_get(c, &m->key);

    if (!l || leases_over(l))
        return false;
    if (h && h->gen == m->gen)
        return h->epoch == m->epoch;
    if (!settle_same(c, l, m->epoch))
        return false;
    (void) held_set(c, &m->key, m->gen, m->epoch);
    return true;
}

static void on_ended(struct control *c, const char *block,
                     const struct wire_msg *m)
{
    const struct lease *l = leases_find(c, &m->key, m->gen);
    struct err err = { 0 };
    struct event e;
    int rc;

    if (of_another(c, block, l) || staged_ended(c, m))
        return;
    if (!ends(c, l, m)) {
        /* Journalled already, or of nobody's: the runner need not keep it. */
        leases_say_short(c, block, WIRE_ACK, &m->key, m->gen, m->epoch, true);
        return;
    }
    leases_event(&e, EVENT_LEASE_ENDED, &m->key, m->gen, block);
    if (spec_cause_parse(m->cause, &e.cause) < 0)
        e.cause = strcmp(m->cause, "none") == 0 ? SPEC_CAUSE_NONE
                                                : SPEC_CAUSE_FAILED;
    e.status = m->status;
    e.started_ms = m->started_ms;
    e.ended_ms = m->ended_ms;
    e.cpu_ms = m->cpu_ms;
    e.rss_bytes = m->rss_bytes;
    rc = journal_event(c, &e, NULL, NULL, &err);
    if (rc == -ESTALE || rc == -ENOENT)
        leases_say_short(c, block, WIRE_ACK, &m->key, m->gen, m->epoch, true);
    else if (rc < 0)
        log_say(LOG_WARN, "a report was refused", "error", err.text, NULL);
}

/* What a task says about itself; of a gang, its first rank speaks.  A word that
 * is told again, or too late, is nothing new.
 */
static void on_progress(struct control *c, const char *block,
                        const struct wire_msg *m)
{
    struct held *h = held_get(c, &m->key);
    const struct lease *l = leases_find(c, &m->key, m->gen);
    struct err err = { 0 };
    struct event e;
    int rc;

    if (!h || h->gen != m->gen || h->epoch != m->epoch || !l ||
        leases_over(l) || of_another(c, block, l) || m->key.rank != 0 ||
        m->started_ms <= h->said_ms)
        return;
    h->said_ms = m->started_ms;
    leases_event(&e, EVENT_PROGRESS, &m->key, m->gen, block);
    e.data = json_deep_copy(m->said);
    rc = journal_event(c, &e, NULL, NULL, &err);
    if (rc < 0 && rc != -ESTALE)
        log_say(LOG_WARN, "a task's progress was refused", "error", err.text,
                NULL);
}

static const struct wire_lease *hello_find(const struct wire_msg *m,
                                           const struct lease_key *k,
                                           const struct held *h)
{
    for (uint32_t i = 0; h && i < m->nleases; i++) {
        const struct wire_lease *w = &m->leases[i];

        if (w->key.workload == k->workload && w->key.task == k->task &&
            w->key.rank == k->rank && w->gen == h->gen &&
            w->epoch == h->epoch)
            return w;
    }
    return NULL;
}

/* What the runner has and the world does not want. */
static void settle_stranger(struct control *c, const char *block,
                            const struct wire_lease *w)
{
    struct wire_msg stop = { .kind = WIRE_STOP, .key = w->key, .gen = w->gen,
                             .epoch = w->epoch, .signal = SIGTERM,
                             .grace_ms = 10000 };

    if (strcmp(w->state, "new") == 0)
        leases_say_short(c, block, WIRE_GRANT, &w->key, w->gen, w->epoch, false);
    else if (strcmp(w->state, "ended") == 0)
        leases_say_short(c, block, WIRE_ACK, &w->key, w->gen, w->epoch, true);
    else
        leases_say(c, block, &stop);
}

/* It has its device, and its gate does not know. */
static void say_open(struct control *c, const char *block,
                     const struct lease_key *k, uint32_t gen, uint64_t epoch)
{
    struct wire_msg m = { .kind = WIRE_GATE, .key = *k, .gen = gen,
                          .epoch = epoch, .gate = "active" };

    leases_say(c, block, &m);
}

/* Information, but for a gate that is not as it should be: one that was not
 * there yet when it was told.  What is not used is idle.c's.
 */
static void on_activity(struct control *c, const char *block,
                        const struct wire_msg *m)
{
    const struct lease *l = leases_find(c, &m->key, m->gen);

    if (!l || strcmp(l->block->id, block) != 0)
        return;
    idle_heard(c, l, m);
    if (l->state == LEASE_ACTIVE && strcmp(m->gate, "staged") == 0 &&
        !journal_pending(c, EVENT_CLAIMED, l))
        say_open(c, block, &m->key, m->gen, m->epoch);
}

/* Claimed, and not told to end. */
static void settle_begun(struct control *c, const struct lease *l,
                         const struct wire_lease *w)
{
    struct lease_key k = leases_key(l);
    bool claiming = journal_pending(c, EVENT_CLAIMED, l);

    if (!w) {
        leases_end(c, l, SPEC_CAUSE_LOST, 0, NULL);
        return;
    }
    if (strcmp(w->state, "new") == 0 && !claiming)
        leases_say_short(c, l->block->id, WIRE_GRANT, &k, l->gen, w->epoch,
                         true);
    if (strcmp(w->gate, "staged") == 0 && !claiming)
        say_open(c, l->block->id, &k, w->gen, w->epoch);
    moving_settle(c, l, w);
}

void settle_lease(struct control *c, struct lease *l, const void *hello)
{
    struct lease_key k = leases_key(l);
    const struct wire_lease *w = hello_find(hello, &k, held_get(c, &k));

    if (l->state == LEASE_PLANNED) {
        if (!journal_pending(c, EVENT_PLANNED, l))
            leases_order(c, l);
    } else if (l->state == LEASE_ENDING) {
        if (!journal_pending(c, EVENT_STOPPING, l))
            leases_stop(c, l);
    } else if (!leases_over(l)) {
        settle_begun(c, l, w);
    }
}

void settle_told(struct control *c, const char *block,
                 const struct wire_lease *w)
{
    struct lease *l = leases_find(c, &w->key, w->gen);

    if (l && !leases_over(l) && strcmp(l->block->id, block) == 0 &&
        settle_same(c, l, w->epoch)) {
        held_set(c, &w->key, w->gen, w->epoch)->unstarted =
            strcmp(w->state, "new") == 0;
        if (w->gate[0])
            (void) staged_hello(c, block, w, l);
    } else if (l || !staged_hello(c, block, w, NULL)) {
        settle_stranger(c, block, w);
    }
}

static void on_hello(struct control *c, const char *block,
                     const struct wire_msg *m)
{
    struct wire_msg welcome = { .kind = WIRE_WELCOME, .v = WIRE_VERSION,
                                .epoch = world_epoch(c->world) };

    leases_say(c, block, &welcome);
    for (uint32_t i = 0; i < m->nleases; i++)
        settle_told(c, block, &m->leases[i]);
    leases_each(c, block, settle_lease, m);
    staged_settle(c, block);
    log_say(LOG_INFO, "a runner is here", "block", block, NULL);
    journal_soon(c);
}

static void take_message(struct control *c, const char *block,
                         const struct wire_msg *m)
{
    switch ((int) m->kind) {
    case WIRE_HELLO:
        on_hello(c, block, m);
        break;
    case WIRE_CLAIM:
        on_claim(c, block, m);
        break;
    case WIRE_PROGRESS:
        on_progress(c, block, m);
        break;
    case WIRE_ACTIVITY:
        on_activity(c, block, m);
        break;
    case WIRE_TELEMETRY:
        telemetry_take(c, block, m);
        stray_take(c, block, m);
        break;
    case WIRE_HEALTH:
        health_take(c, block, m);
        break;
    case WIRE_MOVED:
        moving_moved(c, block, m);
        break;
    case WIRE_ENDED:
        on_ended(c, block, m);
        break;
    case WIRE_ERROR:
        log_say(LOG_WARN, "a runner complains", "block", block, "text",
                m->text, NULL);
        break;
    default:                           /* started, pong: nothing to keep */
        break;
    }
}

void settle_message(const char *name, const struct wire_msg *m, void *arg)
{
    struct runner_name n;

    if (runner_name_parse(name, &n, NULL) == 0 &&   /* it was admitted by it */
        (!n.alone || !apart_message(arg, &n, m)))
        take_message(arg, n.block, m);
}
