#include "control/apart.h"

#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/home.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Leases that have a runner of their own.
 *
 * The block of such a lease has no runner.  Once task.planned is durable the
 * engine is asked to make one come for each rank; it dials home under the
 * lease's name, and is ordered when those of all ranks are here.  From then on
 * it is like any other, with one lease; when that has ended, and that is
 * durable, the runner is told to quit and the engine to stop it.
 *
 * All that is asked of the engine is repeatable and is asked again after a
 * start.  Whose task may have begun, by a claim, is never made a second time:
 * the engine finds it or says that it is over.
 *
 *   the world says        the runner is          then
 *   planned, not claimed  here, all ranks' are   order
 *   ending, not claimed   anything               ended, and stopped
 *   ending, claimed       away                   waits for it, or the engine
 *   ended, or nothing     here, or found         quit and stopped
 */
struct reached *apart_pool(const struct control *c, const char *block)
{
    struct reached *r = pools_of(c, block);

    return r && r->ops && r->ops->apart ? r : NULL;
}

void apart_runner(const struct control *c, const char *block,
                  const struct lease_key *k, uint32_t gen, uint64_t epoch,
                  char *ret)
{
    struct runner_name n = { .alone = apart_pool(c, block) != NULL,
                             .key = *k, .gen = gen, .epoch = epoch };

    (void) snprintf(n.block, sizeof n.block, "%s", block);
    runner_name_print(&n, ret, RUNNER_NAME_SIZE);
}

uint64_t apart_epoch(const struct control *c, const struct lease *l)
{
    struct lease_key k = leases_key(l);
    const struct held *h = held_get(c, &k);

    return h && h->gen == l->gen ? h->epoch
                                 : serve_epoch_at(c, l->planned_ms);
}

static void runner_of(const struct control *c, const struct lease *l,
                      char *ret)
{
    struct lease_key k = leases_key(l);

    apart_runner(c, l->block->id, &k, l->gen, apart_epoch(c, l), ret);
}

static bool any_pool(const struct control *c)
{
    const struct reached *r;
    size_t pos = 0;

    while ((r = map_next(c->pools, &pos, NULL)))
        if (r->ops && r->ops->apart)
            return true;
    return false;
}

bool apart_any(const struct control *c, const struct task *t)
{
    const struct block *last = NULL;

    if (!any_pool(c))
        return false;
    for (uint32_t i = 0; i < t->ranks; i++) {
        if (t->leases[i].block == last)
            continue;
        last = t->leases[i].block;
        if (apart_pool(c, last->id))
            return true;
    }
    return false;
}

/* One that was claimed is proof that all were here, and may be away for now;
 * the others still have to be told where the first one is.  They tend to come
 * in order, so the last one is looked at first.
 */
bool apart_gathered(const struct control *c, const struct task *t)
{
    bool begun = false;

    for (uint32_t i = 0; i < t->ranks; i++)
        begun = begun || t->leases[i].claimed_ms != 0;
    for (uint32_t i = begun ? 1 : t->ranks; i-- > 0;)
        if (!leases_over(&t->leases[i]) && !leases_here(c, &t->leases[i]))
            return false;
    return true;
}

const char *apart_address(const struct control *c, const struct lease *l)
{
    char name[RUNNER_NAME_SIZE];

    runner_of(c, l, name);
    return map_get(c->alone, name);
}

/* After a restore, nobody knows what was claimed since the backup. */
static bool may_have_begun(const struct control *c, const struct lease *l)
{
    return l->claimed_ms != 0 || lease_of_old(l) ||
           apart_epoch(c, l) != world_epoch(c->world);
}

bool apart_never_began(const struct control *c, const struct lease *l)
{
    return !may_have_begun(c, l) && apart_pool(c, l->block->id);
}

/* Until there are holders, nothing there outlives its lease. */
void apart_inventory(json_t *inventory)
{
    (void) json_object_del(inventory, "stages");
    (void) json_object_del(inventory, "suspends");
}

/* ---- what the engine is asked for ---- */

static int ask_start(struct control *c, const struct reached *r,
                     const struct lease *l, struct err *err)
{
    const struct workload *wl = l->task->workload;
    const struct spec_task *s = l->task->spec;
    char name[RUNNER_NAME_SIZE], token[IDENTITY_TOKEN_SIZE];
    struct engine_lease lease = {
        .runner = name, .token = token, .block = l->block->id,
        .key = leases_key(l), .gen = l->gen, .epoch = apart_epoch(c, l),
        .begun = may_have_begun(c, l), .task = s->name,
        .tenant = wl->tenant_name, .image = s->image,
        .cpus_milli = s->cpu_milli, .memory = s->memory,
        .gpus = l->grant.ndevices, .uid = wl->user.uid, .gid = wl->user.gid,
        .guest = s->guest_uid,
    };

    runner_of(c, l, name);
    identity_token(c, name, token);
    return r->ops->start(r->engine, &lease, err);
}

bool apart_start(struct control *c, struct lease *l)
{
    const struct reached *r = apart_pool(c, l->block->id);
    struct err err = { 0 };

    if (!r || !r->engine || ask_start(c, r, l, &err) == 0)
        return false;
    log_say(LOG_WARN, "a runner cannot be made to come", "block",
            l->block->id, "error", err.text, NULL);
    leases_end(c, l, err.code == EINVAL ? SPEC_CAUSE_REFUSED
                                        : SPEC_CAUSE_LOST, 0, err.text);
    return true;
}

static void start_again(struct control *c, struct lease *l, const void *arg)
{
    (void) arg;
    if (leases_over(l) || journal_pending(c, EVENT_PLANNED, l) ||
        journal_pending(c, EVENT_STOPPING, l))
        return;
    if (l->state == LEASE_ENDING && !l->task->spec->guest_uid &&
        apart_never_began(c, l))
        leases_stop(c, l);
    else if (!apart_start(c, l) && l->state == LEASE_ENDING)
        (void) apart_let_go(c, l);
}

void apart_again(struct reached *r)
{
    struct control *c = r->c;
    struct block *b;
    size_t pos = 0;

    if (!r->ops || !r->ops->apart || !r->engine)
        return;
    while ((b = world_next_block(c->world, &pos)))
        if (apart_pool(c, b->id) == r)
            leases_each(c, b->id, start_again, NULL);
}

static void ask_stop(struct reached *r, const char *name)
{
    struct err err = { 0 };

    if (r->engine && r->ops->stop(r->engine, name, &err) < 0)
        log_say(LOG_WARN, "a runner cannot be stopped", "runner", name,
                "error", err.text, NULL);
}

bool apart_let_go(struct control *c, const struct lease *l)
{
    struct reached *r = apart_pool(c, l->block->id);
    char name[RUNNER_NAME_SIZE];

    if (!r || !l->task->spec->guest_uid)
        return false;
    runner_of(c, l, name);
    ask_stop(r, name);
    return true;
}

void apart_done(struct control *c, const char *block,
                const struct lease_key *k, uint32_t gen, uint64_t epoch)
{
    struct reached *r = apart_pool(c, block);
    struct wire_msg quit = { .kind = WIRE_QUIT, .key = *k, .gen = gen,
                             .epoch = epoch };
    char name[RUNNER_NAME_SIZE];

    if (!r)
        return;
    apart_runner(c, block, k, gen, epoch, name);
    leases_say(c, block, &quit);
    ask_stop(r, name);
}

/* ---- who is wanted ---- */

static struct lease *wanted(const struct control *c,
                            const struct runner_name *n)
{
    struct lease *l = leases_find(c, &n->key, n->gen);

    return l && !leases_over(l) && strcmp(l->block->id, n->block) == 0 &&
           apart_epoch(c, l) == n->epoch ? l : NULL;
}

/* Is its end on the way to the disk?  Then apart_done follows. */
static bool is_ending(const struct control *c, const struct runner_name *n)
{
    for (size_t i = c->first; i < c->count; i++) {
        const struct effect *f = &c->effects[i];

        if (f->type == EVENT_LEASE_ENDED && f->workload == n->key.workload &&
            f->task == n->key.task && f->rank == n->key.rank &&
            f->gen == n->gen)
            return true;
    }
    return false;
}

struct lease *apart_lease(const struct control *c, const char *name)
{
    struct runner_name n;

    return runner_name_parse(name, &n, NULL) == 0 && n.alone ? wanted(c, &n)
                                                             : NULL;
}

void apart_sweep(struct reached *r)
{
    autojson json_t *names = NULL;

    if (!r->ops || !r->ops->apart || !r->engine || r->c->trouble[0])
        return;
    names = r->ops->find(r->engine);
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        struct runner_name n;

        if (name && runner_name_parse(name, &n, NULL) == 0 && n.alone &&
            apart_pool(r->c, n.block) == r && !wanted(r->c, &n) &&
            !is_ending(r->c, &n))
            ask_stop(r, name);
    }
}

/* ---- what runners say ---- */

static bool is_same(const struct runner_name *n, const struct lease_key *k,
                    uint32_t gen, uint64_t epoch)
{
    return gen == n->gen && epoch == n->epoch &&
           k->workload == n->key.workload && k->task == n->key.task &&
           k->rank == n->key.rank;
}

static void on_hello(struct control *c, const struct runner_name *n,
                     const struct wire_msg *m)
{
    struct wire_msg welcome = { .kind = WIRE_WELCOME, .v = WIRE_VERSION,
                                .epoch = world_epoch(c->world) };
    struct lease *l = wanted(c, n);

    free(map_set(c->alone, m->block, mem_str(m->address)));
    (void) home_send(c->home, m->block, &welcome, NULL);
    if (!l && is_ending(c, n))
        return;
    for (uint32_t i = 0; i < m->nleases; i++) {
        const struct wire_lease *w = &m->leases[i];

        if (is_same(n, &w->key, w->gen, w->epoch))
            settle_told(c, n->block, w);
    }
    if (l)
        settle_lease(c, l, m);
    else
        apart_done(c, n->block, &n->key, n->gen, n->epoch);
    journal_soon(c);
}

static void on_output(struct control *c, const struct runner_name *n,
                      const struct wire_msg *m)
{
    struct reached *r = apart_pool(c, n->block);
    struct wire_msg heard = { .kind = WIRE_HEARD, .key = n->key,
                              .gen = n->gen, .epoch = n->epoch };
    struct engine_output o = { .key = n->key, .gen = n->gen,
                               .epoch = n->epoch, .offset = m->offset,
                               .bytes = m->bytes, .len = m->nbytes };
    struct err err = { 0 };

    if (!r || !r->engine || !wanted(c, n))
        return;
    if (r->ops->output(r->engine, &o, &heard.offset, &err) == 0) {
        r->full = false;
        leases_say(c, n->block, &heard);
        return;
    }
    if (!r->full)
        log_say(LOG_WARN, "what tasks print cannot be kept", "pool", r->name,
                "error", err.text, NULL);
    r->full = true;
}

static void lies(struct control *c, const struct runner_name *n)
{
    struct heard *t = map_get(c->blocks, n->block);

    if (t && !t->lied)
        log_say(LOG_WARN, "a runner speaks of another's lease", "block",
                n->block, NULL);
    if (t)
        t->lied = true;
}

bool apart_message(struct control *c, const struct runner_name *n,
                   const struct wire_msg *m)
{
    switch ((int) m->kind) {
    case WIRE_HELLO:
        on_hello(c, n, m);
        return true;
    case WIRE_TELEMETRY:
    case WIRE_HEALTH:                  /* of the node: not its to tell */
        return true;
    case WIRE_ERROR:
    case WIRE_PONG:
        return false;
    default:
        break;
    }
    if (!is_same(n, &m->key, m->gen, m->epoch)) {
        lies(c, n);
        return true;
    }
    if (m->kind == WIRE_OUTPUT)
        on_output(c, n, m);
    return m->kind == WIRE_OUTPUT;
}

bool apart_gone(struct control *c, const char *name)
{
    struct runner_name n;
    const struct held *h;

    if (runner_name_parse(name, &n, NULL) < 0 || !n.alone)
        return false;
    free(map_del(c->alone, name));
    h = held_get(c, &n.key);
    if (h && h->gen == n.gen && h->epoch == n.epoch)
        held_del(c, &n.key);
    if (wanted(c, &n))
        log_say(LOG_WARN, "a runner went away", "runner", name, NULL);
    return true;
}

void apart_clear(struct control *c)
{
    size_t pos = 0;
    void *v;

    while (c->alone && (v = map_next(c->alone, &pos, NULL)))
        free(v);
    map_free(c->alone);
    c->alone = map_new();
}

/* ---- what the engine says ---- */

/* The lease that an engine speaks of; NULL: nobody wants it. */
static struct lease *spoken_of(const struct reached *r, const char *runner)
{
    struct runner_name n;

    if (runner_name_parse(runner, &n, NULL) == 0 && n.alone &&
        apart_pool(r->c, n.block) == r)
        return wanted(r->c, &n);
    log_say(LOG_ERROR, "an engine tells of a lease that is not its own",
            "pool", r->name, "runner", runner, NULL);
    return NULL;
}

/* As a claim: what runs is on disk. */
void apart_begun(const char *runner, void *arg)
{
    const struct reached *r = arg;
    const struct lease *l = spoken_of(r, runner);
    struct lease_key k;
    struct err err = { 0 };
    struct event e;

    if (!l || l->state != LEASE_PLANNED)
        return;
    k = leases_key(l);
    leases_event(&e, EVENT_CLAIMED, &k, l->gen, l->block->id);
    if (journal_event(r->c, &e, NULL, NULL, &err) < 0)
        log_say(LOG_WARN, "what runs cannot be claimed", "runner", runner,
                "error", err.text, NULL);
}

void apart_over(const char *runner, enum spec_cause cause, int status,
                const char *why, void *arg)
{
    const struct reached *r = arg;
    struct control *c = r->c;
    const struct lease *l = spoken_of(r, runner);

    if (!l)
        return;
    if (cause != SPEC_CAUSE_NONE)
        log_say(LOG_INFO, "a lease is over", "runner", runner, "cause",
                spec_cause_name(cause), "why", why, NULL);
    if (cause == SPEC_CAUSE_NONE && !l->task->spec->guest_uid)
        cause = SPEC_CAUSE_LOST;       /* its runner did not say that */
    leases_end(c, l, cause, status, why);
}
