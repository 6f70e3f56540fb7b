#include "control/control_int.h"

#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/home.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Leases between the world and the runners.
 *
 * The world says what should be; `held` says what a runner was told or told
 * us, by lease key.  Every message is repeatable, so that whatever was cut off
 * is settled in one round when a runner says hello:
 *
 *   the world says    the runner says      then
 *   planned           anything or nothing  order (again)
 *   active            new                  grant (again): it never started it
 *   active            nothing              ended, lost
 *   ending            something            stop (again)
 *   ending            nothing              ended
 *   nothing           new                  grant refused
 *   nothing           claimed, running     stop
 *   nothing           ended                acknowledged: nobody asks for it
 *
 * A generation that a runner was never told about is ended here: no process
 * of it ever was.
 */
enum { AGAIN_MS = 500 };

static void on_again(struct watch *w, void *arg);

struct held {
    uint32_t gen;
    uint64_t epoch;
    bool unstarted;                    /* the last hello said: ordered, not claimed */
};

static struct held *held_get(const struct control *c, const struct lease_key *k)
{
    char key[64];

    lease_key_print(k, key, sizeof key);
    return map_get(c->held, key);
}

static struct held *held_set(struct control *c, const struct lease_key *k,
                             uint32_t gen, uint64_t epoch)
{
    struct held *h = held_get(c, k);
    char key[64];

    if (!h) {
        h = mem_new(sizeof *h);
        lease_key_print(k, key, sizeof key);
        (void) map_set(c->held, key, h);
    }
    h->gen = gen;
    h->epoch = epoch;
    h->unstarted = false;
    return h;
}

static void held_del(struct control *c, const struct lease_key *k)
{
    char key[64];

    lease_key_print(k, key, sizeof key);
    free(map_del(c->held, key));
}

static struct lease *lease_find(const struct control *c,
                                const struct lease_key *k, uint32_t gen)
{
    struct workload *wl = world_workload(c->world, k->workload);
    struct task *t;

    if (!wl || k->task >= wl->spec->ntasks)
        return NULL;
    t = &wl->tasks[k->task];
    if (!t->leases || t->gen != gen || k->rank >= t->spec->ranks)
        return NULL;
    return &t->leases[k->rank];
}

static bool lease_over(const struct lease *l)
{
    return l->state == LEASE_ENDED || l->state == LEASE_LOST;
}

static struct lease_key lease_key_of(const struct lease *l)
{
    return (struct lease_key) {
        .workload = l->task->workload->id,
        .task = l->task->index,
        .rank = l->rank,
    };
}

/* A runner that is away settles when it says hello; anything else is worth a
 * line.
 */
static void say(struct control *c, const char *block, const struct wire_msg *m)
{
    struct err err = { 0 };
    int rc = home_send(c->home, block, m, &err);

    if (rc < 0 && rc != -ENOTCONN)
        log_say(LOG_WARN, "cannot tell a runner", "block", block, "error",
                err.text, NULL);
}

static void say_short(struct control *c, const char *block,
                      enum wire_kind kind, const struct lease_key *k,
                      uint32_t gen, uint64_t epoch, bool yes)
{
    struct wire_msg m = { .kind = kind, .key = *k, .gen = gen, .epoch = epoch,
                          .ok = yes };

    say(c, block, &m);
}

static void say_order(struct control *c, struct lease *l)
{
    struct lease_key k = lease_key_of(l);
    struct wire_msg m = { .kind = WIRE_ORDER, .key = k, .gen = l->gen };
    struct err err = { 0 };
    struct held *h;
    int rc;

    if (!home_connected(c->home, l->block->id))
        return;
    h = held_get(c, &k);
    if (!h || h->gen != l->gen)
        h = held_set(c, &k, l->gen, world_epoch(c->world));
    m.epoch = h->epoch;
    m.task = order_json(c, l);
    rc = home_send(c->home, l->block->id, &m, &err);
    if (rc == -ENOBUFS)
        held_del(c, &k);               /* not told: leases_drained does */
    else if (rc < 0 && rc != -ENOTCONN)
        log_say(LOG_ERROR, "cannot order a task", "error", err.text, NULL);
    wire_clear(&m);
}

static void say_stop(struct control *c, const struct lease *l,
                     const struct held *h)
{
    const struct spec_task *s = l->task->spec;
    struct wire_msg m = {
        .kind = WIRE_STOP,
        .key = lease_key_of(l),
        .gen = l->gen,
        .epoch = h->epoch,
        .signal = s->stop_signal,
        .grace_ms = s->stop_grace_ms,
        .command = mem_str(s->stop_command),
        .force = l->task->forced,
    };

    say(c, l->block->id, &m);
    wire_clear(&m);
}

/* An end that no runner reports: nothing of it runs. */
static void end_here(struct control *c, const struct lease *l,
                     enum spec_cause cause)
{
    struct err err = { 0 };
    struct event e;

    event_init(&e, EVENT_LEASE_ENDED);
    e.workload = l->task->workload->id;
    e.task = l->task->index;
    e.rank = l->rank;
    e.gen = l->gen;
    e.cause = cause;
    e.ended_ms = control_now(c);
    if (journal_event(c, &e, NULL, NULL, &err) < 0)
        log_say(LOG_WARN, "cannot end a lease", "error", err.text, NULL);
}

static void stop_one(struct control *c, struct lease *l)
{
    struct lease_key k = lease_key_of(l);
    struct held *h = held_get(c, &k);

    if (lease_over(l))
        return;
    if (h && h->gen == l->gen)
        say_stop(c, l, h);
    else if (home_connected(c->home, l->block->id))
        end_here(c, l, l->task->stop_cause);
}

static struct task *effect_task(const struct control *c,
                                const struct effect *f)
{
    struct workload *wl = world_workload(c->world, f->workload);
    struct task *t = wl && f->task < wl->spec->ntasks ? &wl->tasks[f->task]
                                                      : NULL;

    return t && t->leases && t->gen == f->gen ? t : NULL;
}

static void act_planned(struct control *c, const struct effect *f)
{
    struct task *t = effect_task(c, f);

    for (uint32_t i = 0; t && i < t->spec->ranks; i++)
        if (t->leases[i].state == LEASE_PLANNED)
            say_order(c, &t->leases[i]);
}

static void act_stopping(struct control *c, const struct effect *f)
{
    struct task *t = effect_task(c, f);
    uint32_t n = t ? t->spec->ranks : 0;

    /* Ending one here may end the attempt, so look it up again each time. */
    for (uint32_t i = 0; i < n && (t = effect_task(c, f)); i++)
        stop_one(c, &t->leases[i]);
}

/* A report is acknowledged.  An end that the world decided by itself (a
 * released workload's, a lost block's) leaves a runner with something that
 * nobody wants any more.
 */
static void act_ended(struct control *c, const struct effect *f,
                      const struct lease_key *k, const struct held *h)
{
    struct wire_msg stop = { .kind = WIRE_STOP, .key = *k, .gen = f->gen,
                             .epoch = h->epoch, .signal = SIGKILL,
                             .force = true };

    if (f->block[0])
        say_short(c, f->block, WIRE_ACK, k, f->gen, h->epoch, true);
    else
        say(c, CONTROL_BLOCK, &stop);
}

void leases_act(struct control *c, const struct effect *f)
{
    struct lease_key k = { f->workload, f->task, f->rank };
    struct held *h;

    if (!c->home)
        return;
    switch ((int) f->type) {
    case EVENT_PLANNED:
        act_planned(c, f);
        break;
    case EVENT_STOPPING:
        act_stopping(c, f);
        break;
    case EVENT_CLAIMED:
        h = held_get(c, &k);
        if (h && h->gen == f->gen) {
            h->unstarted = false;
            say_short(c, f->block, WIRE_GRANT, &k, f->gen, h->epoch, true);
        }
        break;
    case EVENT_LEASE_ENDED:
        h = held_get(c, &k);
        if (h && h->gen == f->gen) {
            act_ended(c, f, &k, h);
            held_del(c, &k);
        }
        break;
    default:
        break;
    }
}

/* ---- what runners say ---- */

static void on_claim(struct control *c, const char *block,
                     const struct wire_msg *m)
{
    struct held *h = held_get(c, &m->key);
    struct lease *l = lease_find(c, &m->key, m->gen);
    struct err err = { 0 };
    struct event e;

    if (!h || h->gen != m->gen || h->epoch != m->epoch || !l ||
        strcmp(l->block->id, block) != 0) {
        say_short(c, block, WIRE_GRANT, &m->key, m->gen, m->epoch, false);
        return;
    }
    if (l->state == LEASE_ACTIVE && h->unstarted) {
        h->unstarted = false;          /* its claim is durable, the grant got lost */
        say_short(c, block, WIRE_GRANT, &m->key, m->gen, m->epoch, true);
        return;
    }
    event_init(&e, EVENT_CLAIMED);
    e.workload = m->key.workload;
    e.task = m->key.task;
    e.rank = m->key.rank;
    e.gen = m->gen;
    (void) snprintf(e.block, sizeof e.block, "%s", block);
    (void) snprintf(e.who, sizeof e.who, "runner:%s", block);
    if (journal_event(c, &e, NULL, NULL, &err) < 0)
        say_short(c, block, WIRE_GRANT, &m->key, m->gen, m->epoch, false);
}

static void on_ended(struct control *c, const char *block,
                     const struct wire_msg *m)
{
    struct held *h = held_get(c, &m->key);
    struct lease *l = lease_find(c, &m->key, m->gen);
    struct err err = { 0 };
    struct event e;
    int rc;

    if (!h || h->gen != m->gen || h->epoch != m->epoch || !l ||
        lease_over(l)) {
        /* Journalled already, or of nobody's: the runner need not keep it. */
        say_short(c, block, WIRE_ACK, &m->key, m->gen, m->epoch, true);
        return;
    }
    event_init(&e, EVENT_LEASE_ENDED);
    e.workload = m->key.workload;
    e.task = m->key.task;
    e.rank = m->key.rank;
    e.gen = m->gen;
    if (spec_cause_parse(m->cause, &e.cause) < 0)
        e.cause = strcmp(m->cause, "none") == 0 ? SPEC_CAUSE_NONE
                                                : SPEC_CAUSE_FAILED;
    e.status = m->status;
    e.started_ms = m->started_ms;
    e.ended_ms = m->ended_ms;
    e.cpu_ms = m->cpu_ms;
    e.rss_bytes = m->rss_bytes;
    (void) snprintf(e.block, sizeof e.block, "%s", block);
    (void) snprintf(e.who, sizeof e.who, "runner:%s", block);
    rc = journal_event(c, &e, NULL, NULL, &err);
    if (rc == -ESTALE || rc == -ENOENT)
        say_short(c, block, WIRE_ACK, &m->key, m->gen, m->epoch, true);
    else if (rc < 0)
        log_say(LOG_WARN, "a report was refused", "error", err.text, NULL);
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
        say_short(c, block, WIRE_GRANT, &w->key, w->gen, w->epoch, false);
    else if (strcmp(w->state, "ended") == 0)
        say_short(c, block, WIRE_ACK, &w->key, w->gen, w->epoch, true);
    else
        say(c, block, &stop);
}

/* Does this generation of the runner's belong to that lease?  Leases from
 * before a restore keep the epoch they were planned in, also while they are
 * being ended after a release; anything else of an older epoch was planned
 * after the backup was made, for a workload that the world has never heard of.
 */
static bool settle_same(const struct control *c, const struct lease *l,
                        const struct wire_lease *w)
{
    return w->epoch == world_epoch(c->world) || lease_of_old(l);
}

static void settle_lease(struct control *c, struct lease *l,
                         const struct wire_lease *w)
{
    struct lease_key k = lease_key_of(l);

    if (l->state == LEASE_PLANNED) {
        if (!journal_pending(c, EVENT_PLANNED, l))
            say_order(c, l);
    } else if (l->state == LEASE_ACTIVE) {
        if (!w)
            end_here(c, l, SPEC_CAUSE_LOST);
        else if (strcmp(w->state, "new") == 0 &&
                 !journal_pending(c, EVENT_CLAIMED, l))
            say_short(c, l->block->id, WIRE_GRANT, &k, l->gen, w->epoch, true);
    } else if (l->state == LEASE_ENDING) {
        if (!journal_pending(c, EVENT_STOPPING, l))
            stop_one(c, l);
    }
}

static void on_hello(struct control *c, const char *block,
                     const struct wire_msg *m)
{
    struct block *b = world_block(c->world, block);
    struct wire_msg welcome = { .kind = WIRE_WELCOME, .v = WIRE_VERSION,
                                .epoch = world_epoch(c->world) };
    struct lease **list = NULL;
    size_t n = 0;

    say(c, block, &welcome);
    for (uint32_t i = 0; i < m->nleases; i++) {
        const struct wire_lease *w = &m->leases[i];
        struct lease *l = lease_find(c, &w->key, w->gen);

        if (l && !lease_over(l) && strcmp(l->block->id, block) == 0 &&
            settle_same(c, l, w))
            held_set(c, &w->key, w->gen, w->epoch)->unstarted =
                strcmp(w->state, "new") == 0;
        else
            settle_stranger(c, block, w);
    }
    for (struct lease *l = b ? b->leases : NULL; l; l = l->next_on_block)
        n++;
    list = mem_array(n + 1, sizeof *list);
    n = 0;
    for (struct lease *l = b ? b->leases : NULL; l; l = l->next_on_block)
        list[n++] = l;
    /* Ending a lease changes the block's list, hence the copy; an attempt's
     * leases stay in memory until the last of them has ended, which is then
     * the one at hand.
     */
    for (size_t i = 0; i < n; i++) {
        struct lease_key k = lease_key_of(list[i]);

        settle_lease(c, list[i], hello_find(m, &k, held_get(c, &k)));
    }
    free(list);
    log_say(LOG_INFO, "a runner is here", "block", block, NULL);
    journal_soon(c);
}

void leases_message(const char *block, const struct wire_msg *m, void *arg)
{
    struct control *c = arg;

    switch ((int) m->kind) {
    case WIRE_HELLO:
        on_hello(c, block, m);
        break;
    case WIRE_CLAIM:
        on_claim(c, block, m);
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

/* A runner has read what was queued for it: the orders that had no room. */
void leases_drained(const char *block, void *arg)
{
    struct control *c = arg;
    struct block *b = world_block(c->world, block);

    for (struct lease *l = b ? b->leases : NULL; l; l = l->next_on_block) {
        struct lease_key k = lease_key_of(l);

        if (l->state == LEASE_PLANNED && !held_get(c, &k) &&
            !journal_pending(c, EVENT_PLANNED, l))
            say_order(c, l);
    }
}

/* Who is away has been told nothing; hello tells what it still has. */
void leases_gone(const char *block, void *arg)
{
    struct control *c = arg;
    struct block *b = world_block(c->world, block);

    for (struct lease *l = b ? b->leases : NULL; l; l = l->next_on_block) {
        struct lease_key k = lease_key_of(l);

        held_del(c, &k);
    }
    log_say(LOG_WARN, "a runner went away", "block", block, NULL);
}

bool leases_admit(const char *block, const char *token, void *arg)
{
    struct control *c = arg;
    const char *want = map_get(c->tokens, block);
    size_t n = want ? strlen(want) : 0;
    unsigned char diff = 0;

    if (!want || strlen(token) != n || !world_block(c->world, block))
        return false;
    for (size_t i = 0; i < n; i++)     /* the same time for every wrong one */
        diff |= (unsigned char) (want[i] ^ token[i]);
    return diff == 0;
}

/* What is there now may be less than what runs there holds, after a start
 * with other devices.  Then nothing new starts until enough of it has ended.
 */
static void block_up(struct control *c, const char *block, bool first)
{
    struct err err = { 0 };
    struct event e;
    int rc;

    event_init(&e, EVENT_BLOCK_UP);
    (void) snprintf(e.block, sizeof e.block, "%s", block);
    e.data = json_deep_copy(c->inventory);
    rc = journal_event(c, &e, NULL, NULL, &err);
    if (rc == 0) {
        json_decref(c->inventory);
        c->inventory = NULL;
        world_hold(c->world, false);
    } else if (rc == -EBUSY) {
        if (first)
            log_say(LOG_WARN, "nothing new starts: what runs holds what is "
                    "not there any more", "block", block, "error", err.text,
                    NULL);
        c->again = loop_timer(c->loop, AGAIN_MS, on_again, c);
    } else if (rc != -ENOSPC) {        /* a full disk: asked again by then */
        control_fail(c, rc, &err);
    }
}

static void on_again(struct watch *w, void *arg)
{
    struct control *c = arg;

    (void) w;
    c->again = NULL;
    block_up(c, CONTROL_BLOCK, false);
}

void leases_block_up(const char *block, const char *token,
                     const json_t *inventory, void *arg)
{
    struct control *c = arg;

    free(map_set(c->tokens, block, mem_str(token)));
    json_decref(c->inventory);
    c->inventory = json_deep_copy(inventory);
    watch_remove(c->again);
    c->again = NULL;
    block_up(c, block, true);
}

void leases_block_lost(const char *block, const char *why, void *arg)
{
    struct control *c = arg;
    struct err err = { 0 };
    struct event e;

    log_say(LOG_WARN, "a block is lost", "block", block, "why", why, NULL);
    event_init(&e, EVENT_BLOCK_LOST);
    (void) snprintf(e.block, sizeof e.block, "%s", block);
    if (journal_event(c, &e, NULL, NULL, &err) < 0)
        log_say(LOG_WARN, "cannot let go of a block", "error", err.text, NULL);
}

static void held_clear(struct control *c)
{
    const char *key;
    void *v;
    size_t pos = 0;

    while ((v = map_next(c->held, &pos, &key)))
        free(v);
    map_free(c->held);
    c->held = map_new();
}

int leases_open(struct control *c, struct err *err)
{
    static const struct home_ops ops = {
        .admit = leases_admit,
        .message = leases_message,
        .gone = leases_gone,
        .drained = leases_drained,
    };
    autofree char *path = mem_printf("%s/home.sock", c->conf->state_dir);

    held_clear(c);
    return home_open(c->loop, path, &ops, c, &c->home, err);
}

void leases_close(struct control *c)
{
    struct home *h = take(c->home);

    home_close(h);
    held_clear(c);
}
