#include "control/apart.h"

#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/utf8.h"
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
 *   active, moving,   nothing              ended, lost
 *     suspended
 *   ending            something            stop (again)
 *   ending            nothing              ended
 *   nothing           new                  grant refused
 *   nothing           claimed, running     stop
 *   nothing           ended                acknowledged: nobody asks for it
 *
 * (For what stands ready before it is planned see staged.c, for what leaves its
 * devices and comes back moving.c.)
 *
 * A generation that a runner was never told about is ended here: no process
 * of it ever was.  Some leases have a runner of their own: apart.c.
 */
enum { NO_SENSE = 126 };               /* as runners say of such an order */

struct held *held_get(const struct control *c, const struct lease_key *k)
{
    char key[64];

    lease_key_print(k, key, sizeof key);
    return map_get(c->held, key);
}

struct held *held_set(struct control *c, const struct lease_key *k,
                      uint32_t gen, uint64_t epoch)
{
    struct held *h = held_get(c, k);
    char key[64];

    if (!h) {
        h = mem_new(sizeof *h);
        lease_key_print(k, key, sizeof key);
        (void) map_set(c->held, key, h);
    }
    if (h->gen != gen) {
        h->said_ms = 0;
        memset(&h->use, 0, sizeof h->use);
    }
    h->gen = gen;
    h->epoch = epoch;
    h->unstarted = false;
    return h;
}

void held_del(struct control *c, const struct lease_key *k)
{
    char key[64];

    lease_key_print(k, key, sizeof key);
    free(map_del(c->held, key));
}

struct lease *leases_find(const struct control *c, const struct lease_key *k,
                          uint32_t gen)
{
    struct workload *wl = world_workload(c->world, k->workload);
    struct task *t;

    if (!wl || k->task >= wl->spec->ntasks)
        return NULL;
    t = &wl->tasks[k->task];
    if (!t->leases || t->gen != gen || k->rank >= t->ranks)
        return NULL;
    return &t->leases[k->rank];
}

bool leases_over(const struct lease *l)
{
    return l->state == LEASE_ENDED || l->state == LEASE_LOST;
}

struct lease_key leases_key(const struct lease *l)
{
    return (struct lease_key) {
        .workload = l->task->workload->id,
        .task = l->task->index,
        .rank = l->rank,
    };
}

/* The copy is for what ends meanwhile, which changes the block's list.  An
 * attempt's leases stay in memory until the last of them has ended, which is
 * then the one at hand.
 */
void leases_each(struct control *c, const char *block, leases_f *f,
                 const void *arg)
{
    const struct block *b = world_block(c->world, block);
    autofree struct lease **list = NULL;
    size_t n = 0;

    for (struct lease *l = b ? b->leases : NULL; l; l = l->next_on_block)
        n++;
    list = mem_array(n + 1, sizeof *list);
    n = 0;
    for (struct lease *l = b ? b->leases : NULL; l; l = l->next_on_block)
        list[n++] = l;
    for (size_t i = 0; i < n; i++)
        f(c, list[i], arg);
}

bool leases_here(const struct control *c, const struct lease *l)
{
    struct lease_key k = leases_key(l);
    char name[RUNNER_NAME_SIZE];

    apart_runner(c, l->block->id, &k, l->gen, apart_epoch(c, l), name);
    return home_connected(c->home, name);
}

void leases_say(struct control *c, const char *block,
                const struct wire_msg *m)
{
    char name[RUNNER_NAME_SIZE];
    struct err err = { 0 };
    int rc;

    apart_runner(c, block, &m->key, m->gen, m->epoch, name);
    rc = home_send(c->home, name, m, &err);
    if (rc < 0 && rc != -ENOTCONN)
        log_say(LOG_WARN, "cannot tell a runner", "block", block, "error",
                err.text, NULL);
}

void leases_say_short(struct control *c, const char *block,
                      enum wire_kind kind, const struct lease_key *k,
                      uint32_t gen, uint64_t epoch, bool yes)
{
    struct wire_msg m = { .kind = kind, .key = *k, .gen = gen, .epoch = epoch,
                          .ok = yes };

    leases_say(c, block, &m);
}

void leases_event(struct event *e, enum event_type type,
                  const struct lease_key *k, uint32_t gen, const char *block)
{
    event_init(e, type);
    e->workload = k->workload;
    e->task = k->task;
    e->rank = k->rank;
    e->gen = gen;
    if (!block)
        return;
    (void) snprintf(e->block, sizeof e->block, "%s", block);
    (void) snprintf(e->who, sizeof e->who, "runner:%s", block);
}

/* Whoever it comes from: a text, and no longer than an event takes. */
static json_t *why_json(const char *why)
{
    autofree char *text = utf8_clean(why, strlen(why));
    json_t *o = json_object();
    size_t n = 0, more;

    while (text[n] && (more = utf8_size(text + n, strlen(text + n))) > 0 &&
           n + more <= REASON_MAX)
        n += more;
    text[n] = '\0';
    json_put_str(o, "why", text);
    return o;
}

void leases_end(struct control *c, const struct lease *l,
                enum spec_cause cause, int status, const char *why)
{
    struct lease_key k = leases_key(l);
    struct err err = { 0 };
    struct event e;

    leases_event(&e, EVENT_LEASE_ENDED, &k, l->gen, NULL);
    e.cause = cause;
    e.status = status;
    e.ended_ms = control_now(c);
    if (why && *why)
        e.data = why_json(why);
    if (journal_event(c, &e, NULL, NULL, &err) < 0)
        log_say(LOG_WARN, "cannot end a lease", "error", err.text, NULL);
}

/* It can never be sent, not by asking again either. */
static void refuse_order(struct control *c, const struct lease *l,
                         const char *why)
{
    struct lease_key k = leases_key(l);
    char key[64];

    lease_key_print(&k, key, sizeof key);
    held_del(c, &k);
    log_say(LOG_ERROR, "a task cannot be ordered and is refused", "lease", key,
            "task", l->task->spec->name, "error", why, NULL);
    leases_end(c, l, SPEC_CAUSE_REFUSED, NO_SENSE, why);
}

static void order_now(struct control *c, struct lease *l)
{
    struct lease_key k = leases_key(l);
    struct wire_msg m = { .kind = WIRE_ORDER, .key = k, .gen = l->gen };
    const struct order_of of = { l->task, &l->grant, l->block, l->task->ranks,
                                 l->rank, l->gen, false,
                                 apart_address(c, &l->task->leases[0]) };
    char name[RUNNER_NAME_SIZE];
    struct err err = { 0 };
    struct held *h;
    int rc;

    if (!leases_here(c, l) || !staged_planned(c, l))
        return;
    h = held_get(c, &k);
    if (!h || h->gen != l->gen)
        h = held_set(c, &k, l->gen, world_epoch(c->world));
    m.epoch = h->epoch;
    m.task = order_json(c, &of);
    apart_runner(c, l->block->id, &k, l->gen, m.epoch, name);
    rc = home_send(c->home, name, &m, &err);
    if (rc == -ENOBUFS)
        held_del(c, &k);               /* not told: leases_drained does */
    else if (rc < 0 && rc != -ENOTCONN)
        refuse_order(c, l, err.text);
    wire_clear(&m);
}

static struct task *task_at(const struct control *c, uint64_t workload,
                            uint32_t task, uint32_t gen)
{
    struct workload *wl = world_workload(c->world, workload);
    struct task *t = wl && task < wl->spec->ntasks ? &wl->tasks[task] : NULL;

    return t && t->leases && t->gen == gen ? t : NULL;
}

/* Of a gang those that were not told yet, or say so.  Ending one may end the
 * attempt, so look it up again each time.
 */
static void order_gang(struct control *c, const struct lease *of)
{
    struct lease_key k = leases_key(of);
    uint32_t gen = of->gen;
    struct task *t;

    if (!apart_gathered(c, of->task))
        return;
    for (k.rank = 0; (t = task_at(c, k.workload, k.task, gen)) &&
         k.rank < t->ranks; k.rank++) {
        const struct held *h = held_get(c, &k);

        if (t->leases[k.rank].state == LEASE_PLANNED &&
            (!h || h->gen != gen || h->unstarted))
            order_now(c, &t->leases[k.rank]);
    }
}

void leases_order(struct control *c, struct lease *l)
{
    if (l->task->ranks > 1 && apart_any(c, l->task))
        order_gang(c, l);
    else
        order_now(c, l);
}

static void say_stop(struct control *c, const struct lease *l,
                     const struct held *h)
{
    const struct spec_task *s = l->task->spec;
    struct wire_msg m = {
        .kind = WIRE_STOP,
        .key = leases_key(l),
        .gen = l->gen,
        .epoch = h->epoch,
        .signal = s->stop_signal,
        .grace_ms = s->stop_grace_ms,
        .command = mem_str(s->stop_command),
        .force = l->task->forced,
    };

    leases_say(c, l->block->id, &m);
    wire_clear(&m);
}

void leases_stop(struct control *c, struct lease *l)
{
    struct lease_key k = leases_key(l);
    struct held *h = held_get(c, &k);
    bool told = h && h->gen == l->gen;

    if (leases_over(l))
        return;
    if (apart_never_began(c, l) || (!told && leases_here(c, l)))
        leases_end(c, l, l->task->stop_cause, 0, NULL);
    else if (told)
        say_stop(c, l, h);
}

static struct task *effect_task(const struct control *c,
                                const struct effect *f)
{
    return task_at(c, f->workload, f->task, f->gen);
}

static void act_planned(struct control *c, const struct effect *f)
{
    struct task *t;

    /* Ending one may end the attempt, so look it up again each time. */
    for (uint32_t i = 0; (t = effect_task(c, f)) && i < t->ranks; i++)
        if (t->leases[i].state == LEASE_PLANNED &&
            !apart_start(c, &t->leases[i]))
            leases_order(c, &t->leases[i]);
}

static void act_stopping(struct control *c, const struct effect *f)
{
    struct task *t;

    for (uint32_t i = 0; (t = effect_task(c, f)) && i < t->ranks; i++)
        leases_stop(c, &t->leases[i]);
}

static void act_moving(struct control *c, const struct effect *f)
{
    const struct task *t = effect_task(c, f);

    if (t)
        moving_act(c, t);
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
        leases_say_short(c, f->block, WIRE_ACK, k, f->gen, h->epoch, true);
    else
        leases_say(c, f->on, &stop);
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
    case EVENT_STAGED:
        staged_order(c, f);
        break;
    case EVENT_STOPPING:
        act_stopping(c, f);
        break;
    case EVENT_SUSPENDING:
    case EVENT_RESUMING:
        act_moving(c, f);
        break;
    case EVENT_CLAIMED:
        h = held_get(c, &k);
        if (h && h->gen == f->gen) {
            h->unstarted = false;
            leases_say_short(c, f->block, WIRE_GRANT, &k, f->gen, h->epoch, true);
            staged_open(c, f->block, &k, f->gen);
        }
        break;
    case EVENT_LEASE_ENDED:
        h = held_get(c, &k);
        if (h && h->gen == f->gen) {
            act_ended(c, f, &k, h);
            held_del(c, &k);
        }
        apart_done(c, f->on, &k, f->gen, f->epoch);
        break;
    default:
        break;
    }
}

void leases_swept(struct control *c)
{
    if (c->home)
        staged_sweep(c);
}

static void order_again(struct control *c, struct lease *l, const void *arg)
{
    struct lease_key k = leases_key(l);

    (void) arg;
    if (l->state == LEASE_PLANNED && !held_get(c, &k) &&
        !journal_pending(c, EVENT_PLANNED, l))
        leases_order(c, l);
}

/* A runner has read what was queued for it: the orders that had no room. */
static void on_drained(const char *name, void *arg)
{
    struct lease *l = apart_lease(arg, name);

    if (l)
        order_again(arg, l, NULL);
    else
        leases_each(arg, name, order_again, NULL);
}

static void forget(struct control *c, struct lease *l, const void *arg)
{
    struct lease_key k = leases_key(l);

    (void) arg;
    held_del(c, &k);
}

/* Who is away has been told nothing; hello tells what it still has. */
static void on_gone(const char *block, void *arg)
{
    if (apart_gone(arg, block))
        return;
    leases_each(arg, block, forget, NULL);
    staged_gone(arg, block);
    log_say(LOG_WARN, "a runner went away", "block", block, NULL);
}

static void on_refused(const char *from, const char *why, unsigned more,
                       void *arg)
{
    char count[16];

    (void) arg;
    (void) snprintf(count, sizeof count, "%u", more);
    log_say(LOG_WARN, "a runner was not let in", "from", from, "why", why,
            more ? "more" : NULL, count, NULL);
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
        .admit = blocks_admit,
        .message = settle_message,
        .gone = on_gone,
        .drained = on_drained,
        .refused = on_refused,
    };
    autofree char *path = mem_printf("%s/home.sock", c->conf->state_dir);

    held_clear(c);
    apart_clear(c);
    staged_clear(c);
    idle_close(c);
    c->stages = map_new();
    return home_open(c->loop, path, &ops, c, &c->home, err);
}

void leases_close(struct control *c)
{
    struct home *h = take(c->home);

    home_close(h);
    moving_clear(c);
    held_clear(c);
    apart_clear(c);
    staged_clear(c);
    idle_close(c);
}
