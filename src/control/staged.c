#include "control/leases.h"

#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "engine/home.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Tasks that stand ready: ordered before they have a lease, with the generation
 * that their attempt will have, to wait at the gate.
 *
 * The event task.staged is durable before the order leaves, and only the block
 * that it names can ever start this generation: so the runner's claim is granted
 * without another event, and asked again is granted again.  When the task is
 * planned there, the lease is claimed in the runner's name and the gate opens
 * when that is durable.  What ends meanwhile is not acknowledged: its runner
 * keeps the report, and says it again when there is a lease that it can be the
 * end of.
 *
 * A task is staged no more for many reasons and most have no event; whoever is
 * neither staged nor planned with its generation is stopped when all that is
 * known is on disk.  One that has stood there for STAND_MS is taken back: what
 * it holds is lent for the moment before a device is free.
 */
enum { STAND_MS = 15 * 60 * 1000, LOOK_MS = 30 * 1000 };

struct staged {
    struct lease_key key;
    uint32_t gen;
    uint64_t epoch;
    char block[48];
    struct grant grant;                /* what it was started with */
    bool granted;
};

static struct staged *staged_get(const struct control *c,
                                 const struct lease_key *k, uint32_t gen)
{
    struct staged *s;
    char key[64];

    lease_key_print(k, key, sizeof key);
    s = map_get(c->stages, key);
    return s && s->gen == gen ? s : NULL;
}

static void on_age(struct watch *w, void *arg);

static void age_later(struct control *c)
{
    if (!c->aging)
        c->aging = loop_timer(c->loop, LOOK_MS, on_age, c);
}

static struct staged *staged_set(struct control *c, const struct lease_key *k,
                                 uint32_t gen, uint64_t epoch,
                                 const struct grant *g)
{
    struct staged *s = mem_new(sizeof *s);
    char key[64];

    lease_key_print(k, key, sizeof key);
    *s = (struct staged) { .key = *k, .gen = gen, .epoch = epoch,
                           .grant = *g };
    memcpy(s->block, g->block, sizeof s->block);
    free(map_del(c->stages, key));
    (void) map_set(c->stages, key, s);
    age_later(c);
    return s;
}

static void staged_del(struct control *c, const struct lease_key *k)
{
    char key[64];

    lease_key_print(k, key, sizeof key);
    free(map_del(c->stages, key));
}

/* What the world wants to stand ready, by that name; or NULL. */
static const struct grant *wanted(const struct control *c,
                                  const struct lease_key *k, uint32_t gen)
{
    const struct workload *wl = world_workload(c->world, k->workload);
    const struct task_stage *s = wl && k->task < wl->spec->ntasks
                               ? wl->tasks[k->task].staged : NULL;

    return s && s->gen == gen && k->rank < s->ngrants ? &s->grants[k->rank]
                                                      : NULL;
}

static void take_back(struct control *c, const struct staged *s)
{
    struct err err = { 0 };
    struct event e;

    event_init(&e, EVENT_UNSTAGED);
    e.workload = s->key.workload;
    e.task = s->key.task;
    e.gen = s->gen;
    if (journal_event(c, &e, NULL, NULL, &err) < 0)
        log_say(LOG_WARN, "what stands ready is not taken back", "error",
                err.text, NULL);
}

void staged_age(struct control *c)
{
    uint64_t now = control_now(c);
    const struct staged *s;
    size_t pos = 0;

    while ((s = map_next(c->stages, &pos, NULL))) {
        const struct workload *wl = world_workload(c->world, s->key.workload);

        if (wanted(c, &s->key, s->gen) &&
            now >= wl->tasks[s->key.task].staged->since_ms + STAND_MS)
            take_back(c, s);
    }
}

static void on_age(struct watch *w, void *arg)
{
    struct control *c = arg;

    (void) w;
    c->aging = NULL;
    staged_age(c);
    if (map_count(c->stages) > 0)
        age_later(c);
}

static void order_rank(struct control *c, const struct task *t, uint32_t rank)
{
    const struct task_stage *s = t->staged;
    const struct order_of of = { t, &s->grants[rank], s->blocks[rank],
                                 s->ngrants, rank, s->gen, true, NULL };
    struct wire_msg m = {
        .kind = WIRE_ORDER, .gen = s->gen, .epoch = world_epoch(c->world),
        .key = { t->workload->id, t->index, rank },
    };
    struct err err = { 0 };

    /* What has no device has nothing to wait for. */
    if (!of.grant->ndevices || staged_get(c, &m.key, s->gen) ||
        !home_connected(c->home, of.block->id))
        return;
    m.task = order_json(c, &of);
    if (home_send(c->home, of.block->id, &m, &err) == 0)
        (void) staged_set(c, &m.key, s->gen, m.epoch, of.grant);
    wire_clear(&m);
}

void staged_order(struct control *c, const struct effect *f)
{
    const struct workload *wl = world_workload(c->world, f->workload);
    const struct task *t = wl && f->task < wl->spec->ntasks
                         ? &wl->tasks[f->task] : NULL;

    if (t && t->staged && t->staged->gen == f->gen)
        for (uint32_t i = 0; i < t->staged->ngrants; i++)
            order_rank(c, t, i);
}

bool staged_claim(struct control *c, const char *block,
                  const struct wire_msg *m)
{
    struct staged *s = staged_get(c, &m->key, m->gen);

    if (!s || s->epoch != m->epoch || strcmp(s->block, block) != 0 ||
        !wanted(c, &m->key, m->gen))
        return false;
    s->granted = true;
    leases_say_short(c, block, WIRE_GRANT, &m->key, m->gen, m->epoch, true);
    return true;
}

/* Until it has been ordered for its lease, or swept: before, what became of it
 * may not be on disk, and a forgotten end would be started again.
 */
bool staged_ended(const struct control *c, const struct wire_msg *m)
{
    const struct staged *s = staged_get(c, &m->key, m->gen);
    const struct held *h = held_get(c, &m->key);

    return s && s->epoch == m->epoch && !(h && h->gen == m->gen);
}

static bool same_devices(const struct grant *a, const struct grant *b)
{
    return a->ndevices == b->ndevices && a->milli == b->milli &&
           memcmp(a->device, b->device,
                  a->ndevices * sizeof a->device[0]) == 0;
}

static int claim(struct control *c, const struct lease *l)
{
    struct lease_key k = leases_key(l);
    struct err err = { 0 };
    struct event e;
    int rc;

    leases_event(&e, EVENT_CLAIMED, &k, l->gen, l->block->id);
    rc = journal_event(c, &e, NULL, NULL, &err);
    if (rc < 0)
        log_say(LOG_WARN, "what stood ready is not claimed", "error",
                err.text, NULL);
    return rc;
}

/* The process knows its devices from its start: with others it is none of this
 * attempt's, and the generation can have no other.
 */
bool staged_planned(struct control *c, struct lease *l)
{
    struct lease_key k = leases_key(l);
    const struct staged *s = staged_get(c, &k, l->gen);

    if (!s)
        return true;
    if (!same_devices(&s->grant, &l->grant)) {
        leases_end(c, l, SPEC_CAUSE_LOST, 0, NULL);
        return false;
    }
    (void) held_set(c, &k, l->gen, s->epoch);
    return !s->granted || claim(c, l) == 0;
}

void staged_open(struct control *c, const char *block,
                 const struct lease_key *k, uint32_t gen)
{
    const struct staged *s = staged_get(c, k, gen);
    struct wire_msg m = { .kind = WIRE_GATE, .key = *k, .gen = gen,
                          .gate = "active" };

    if (!s)
        return;
    m.epoch = s->epoch;
    leases_say(c, block, &m);
    staged_del(c, k);
}

/* An end that nobody wants while something is not on disk: perhaps that it is
 * not wanted.  Kept, and said again when it is swept.
 */
static bool keep_end(struct control *c, const char *block,
                     const struct wire_lease *w)
{
    const struct block *b = world_block(c->world, block);
    struct grant none = { 0 };

    if (!b || !b->stages || c->first == c->count ||
        strcmp(w->state, "ended") != 0)
        return false;
    memcpy(none.block, b->id, sizeof none.block);
    (void) staged_set(c, &w->key, w->gen, w->epoch, &none);
    return true;
}

bool staged_hello(struct control *c, const char *block,
                  const struct wire_lease *w, const struct lease *l)
{
    const struct grant *g = l ? &l->grant : wanted(c, &w->key, w->gen);
    struct staged *s;

    if (!g && keep_end(c, block, w))
        return true;
    if (!g || w->epoch != world_epoch(c->world) ||
        strcmp(l ? l->block->id : g->block, block) != 0)
        return false;
    if (l && l->state != LEASE_PLANNED)
        return false;
    s = staged_set(c, &w->key, w->gen, w->epoch, g);
    memcpy(s->block, block, strlen(block) + 1);
    s->granted = strcmp(w->state, "new") != 0;
    if (!l && !s->granted) {
        s->granted = true;
        leases_say_short(c, block, WIRE_GRANT, &w->key, w->gen, w->epoch,
                         true);
    }
    return true;
}

/* Not on disk yet: then its effect orders it. */
static bool pending(const struct control *c, const struct task *t)
{
    for (size_t i = c->first; i < c->count; i++) {
        const struct effect *f = &c->effects[i];

        if (f->type == EVENT_STAGED && f->workload == t->workload->id &&
            f->task == t->index && f->gen == t->staged->gen)
            return true;
    }
    return false;
}

void staged_settle(struct control *c, const char *block)
{
    const struct block *b = world_block(c->world, block);
    const struct task *t;

    for (uint32_t k = 0; b && (t = block_staged(b, k)); k++)
        for (uint32_t i = 0; i < t->staged->ngrants; i++)
            if (t->staged->blocks[i] == b && !pending(c, t))
                order_rank(c, t, i);
}

void staged_gone(struct control *c, const char *block)
{
    struct staged *s;
    size_t pos = 0;

    while ((s = map_next(c->stages, &pos, NULL)))
        if (strcmp(s->block, block) == 0) {
            staged_del(c, &s->key);
            pos = 0;
        }
}

/* Nothing of the user's is lost by ending it: it never had its device. */
static void stop(struct control *c, const struct staged *s)
{
    struct wire_msg m = { .kind = WIRE_STOP, .key = s->key, .gen = s->gen,
                          .epoch = s->epoch, .signal = SIGKILL,
                          .force = true };

    leases_say(c, s->block, &m);
}

void staged_sweep(struct control *c)
{
    struct staged *s;
    size_t pos = 0;

    if (map_count(c->stages) == 0 || c->first < c->count)
        return;
    while ((s = map_next(c->stages, &pos, NULL))) {
        const struct lease *l = leases_find(c, &s->key, s->gen);

        if (wanted(c, &s->key, s->gen) || (l && !leases_over(l)))
            continue;
        stop(c, s);
        staged_del(c, &s->key);
        pos = 0;
    }
}

void staged_clear(struct control *c)
{
    struct staged *s;
    size_t pos = 0;

    watch_remove(take(c->aging));
    while (c->stages && (s = map_next(c->stages, &pos, NULL)))
        free(s);
    map_free(take(c->stages));
}
