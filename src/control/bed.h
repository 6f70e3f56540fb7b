#pragma once

#include "control/leases.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/tap.h"
#include "engine/engine.h"
#include "engine/home.h"
#include "spec/doc.h"
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* bed - leases against a runner that is played here: the world, the journal and
 * the store are the real ones, home is not.  For the tests alone.
 */
enum { SAID_MAX = 256, TURNS = 3000, ROOM_ENOUGH = 1000, ALL_RANKS = -1,
       ALONE_MAX = 8 };

static struct {
    const struct home_ops *ops;
    void *arg;
    bool here;                         /* the runner */
    unsigned room;                     /* for so many orders */
    unsigned listens, deaf;            /* so often; fails so often before */
    int long_rank;                     /* whose order is no frame; -2: none's */
    struct wire_msg said[SAID_MAX];    /* without what they own; `block` is to
                                        * whom, `address` where ranks meet */
    unsigned nsaid;
    bool gated;                        /* the last order had a gate */
    int stop_signal;                   /* ... and how it is to end there */
    uint64_t stop_grace_ms;
    char alone[ALONE_MAX][RUNNER_NAME_SIZE];   /* those with one lease, here */
} home;

int home_open(struct loop *l, const char *path, const struct home_ops *ops,
              void *arg, struct home **ret, struct err *err)
{
    (void) l;
    (void) path;
    (void) err;
    home.ops = ops;
    home.arg = arg;
    *ret = (struct home *) &home;
    return 0;
}

void home_close(struct home *h)
{
    (void) h;
}

int home_listen(struct home *h, const char *address, struct tls_end *tls,
                uint16_t *ret_port, struct err *err)
{
    (void) h;
    (void) address;
    (void) tls;
    if (home.deaf > 0) {
        home.deaf--;
        return err_set(err, EADDRINUSE, "somebody else is there");
    }
    home.listens++;
    *ret_port = 7;
    return 0;
}

bool home_connected(const struct home *h, const char *block)
{
    (void) h;
    for (int i = 0; i < ALONE_MAX; i++)
        if (home.alone[i][0] && strcmp(home.alone[i], block) == 0)
            return true;
    return home.here && strcmp(block, CONTROL_BLOCK) == 0;
}

static void note_order(const json_t *task)
{
    const json_t *stop = json_object_get(task, "stop");

    home.gated = json_object_get(task, "gate") != NULL;
    home.stop_signal = (int) json_get_u64(stop, "signal", 0);
    home.stop_grace_ms = json_get_u64(stop, "grace_ms", 0);
}

int home_send(struct home *h, const char *block, const struct wire_msg *m,
              struct err *err)
{
    if (!home_connected(h, block))
        return err_set(err, ENOTCONN, "not here");
    if (m->kind == WIRE_ORDER) {
        if (home.long_rank == ALL_RANKS ||
            home.long_rank == (int) m->key.rank)
            return err_set(err, EMSGSIZE, "a message of too many bytes");
        if (home.room == 0)
            return err_set(err, ENOBUFS, "no room");
        home.room--;
    }
    if (home.nsaid < SAID_MAX) {
        struct wire_msg *to = &home.said[home.nsaid++];

        *to = *m;
        if (m->kind == WIRE_ORDER)
            note_order(m->task);
        (void) snprintf(to->block, sizeof to->block, "%s", block);
        (void) snprintf(to->address, sizeof to->address, "%s",
                        json_get_str(m->task, "rendezvous", ""));
        to->task = NULL;
        to->command = NULL;
    }
    return 0;
}

/* How often this was said to a rank (or ALL_RANKS) of a workload. */
static inline unsigned said(enum wire_kind kind, uint64_t workload, int rank)
{
    unsigned n = 0;

    for (unsigned i = 0; i < home.nsaid; i++) {
        const struct wire_msg *m = &home.said[i];

        n += m->kind == kind && m->key.workload == workload &&
             (rank == ALL_RANKS || (int) m->key.rank == rank);
    }
    return n;
}

/* ---- a control plane without engine and API ---- */

static char dir[] = "/tmp/weir-leases-XXXXXX";
static const struct control_conf conf = { .state_dir = dir, .engine = "fake" };

static struct reached own;             /* its pool, with no engine behind it */
static uint64_t ahead_ms;              /* the control plane's clock is */

/* Everything that was wanted is durable and has had its effect. */
static inline void settle(struct control *c)
{
    (void) loop_turn(c->loop, 0, NULL);
    for (int i = 0; i < TURNS && (c->flush || c->first != c->count); i++)
        (void) loop_turn(c->loop, 10, NULL);
}

static inline void open_control(struct control *c)
{
    autofree char *db = mem_printf("%s/weir.db", dir);
    struct store_conf store = { .path = db };
    struct err err = { 0 };

    *c = (struct control) { .conf = &conf, .lock = -1, .held = map_new(),
                            .blocks = map_new(), .pools = map_new(),
                            .leaving = map_new() };
    own = (struct reached) { .c = c, .name = "local", .ops = &engine_local,
                             .own = true };
    memset(&home, 0, sizeof home);
    home.room = ROOM_ENOUGH;
    home.long_rank = -2;
    c->world = world_new();
    c->wall_base = clock_wall_ms() + ahead_ms;
    c->mono_base = clock_mono_ms();
    if (identity_open(c, &err) < 0 || loop_open(&c->loop, &err) < 0 ||
        store_open(&store, &c->store, &err) < 0 ||
        store_load(c->store, c->world, &err) < 0 ||
        store_attach(c->store, c->loop, journal_durable, journal_failed, c,
                     &err) < 0 ||
        leases_open(c, &err) < 0 || control_begin(c, &err) < 0)
        ok(false, "a control plane: %s", err.text);
    (void) map_set(c->pools, own.name, &own);
    own.engine = (struct engine *) &own;
    pools_begin(c);
    settle(c);
}

static inline void close_control(struct control *c)
{
    observe_close(c);
    journal_close(c);
    watch_remove(c->silent);
    (void) map_del(c->pools, own.name);
    pools_close(c);
    json_decref(c->telemetry);
    json_decref(c->strays);
    leases_close(c);
    store_close(c->store);
    world_free(c->world);
    map_free(c->blocks);
    map_free(c->pools);
    map_free(c->leaving);
    map_free(c->held);
    map_free(c->alone);
    loop_close(c->loop);
}

/* A store of its own for each test. */
static inline void begin(struct control *c)
{
    (void) fs_remove_tree(dir, NULL);
    (void) mkdir(dir, 0700);
    open_control(c);
}

static bool stages, suspends;          /* the blocks below do */

static inline void block_up(struct control *c, unsigned devices)
{
    autojson json_t *j = json_pack("{s:s, s:s, s:s, s:i, s:I, s:b, s:[]}",
        "pool", "local", "engine", "local", "node", "here", "cpus_milli",
        64000, "memory", (json_int_t) 1 << 36, "simulated", 1, "devices");

    for (unsigned i = 0; i < devices; i++)
        json_array_append_new(json_object_get(j, "devices"),
                              json_pack("{s:s, s:I, s:o}", "model", "H100",
                                        "memory", (json_int_t) 1 << 36, "uuid",
                                        json_sprintf("GPU-%u", i)));
    if (stages)
        json_put_bool(j, "stages", true);
    if (suspends)
        json_put_bool(j, "suspends", true);
    blocks_up(CONTROL_BLOCK, "token", j, &own);
    settle(c);
}

static inline void hello(struct control *c)
{
    struct wire_msg m = { .kind = WIRE_HELLO, .v = WIRE_VERSION };

    home.here = true;
    home.ops->message(CONTROL_BLOCK, &m, c);
    settle(c);
}

/* The same, and a block with its runner. */
static inline void begin_up(struct control *c, unsigned devices)
{
    begin(c);
    block_up(c, devices);
    hello(c);
}

static inline uint64_t submit(struct control *c, unsigned ranks, unsigned gpus)
{
    autofree char *text = mem_printf(
        "{weir: 1, kind: job, name: j, run: 'true', cpus: 1, ranks: %u, "
        "gpus: %u}", ranks, gpus);
    struct doc_problems problems = { 0 };
    struct err err = { 0 };
    struct event e;
    uint64_t id = world_next_workload(c->world);

    event_init(&e, EVENT_SUBMITTED);
    e.workload = id;
    (void) snprintf(e.tenant, sizeof e.tenant, "default");
    if (doc_read(text, strlen(text), NULL, 0, 0, &e.spec, &problems) < 0)
        ok(false, "a document: %s", problems.items[0].text);
    if (journal_event(c, &e, NULL, NULL, &err) < 0)
        ok(false, "submitted: %s", err.text);
    doc_problems_free(&problems);
    settle(c);
    return id;
}

static inline void report_soon(struct control *c, enum wire_kind kind,
                               uint64_t workload, unsigned rank,
                               const char *cause)
{
    struct wire_msg m = { .kind = kind, .key = { workload, 0, rank },
                          .gen = 1, .epoch = world_epoch(c->world),
                          .started_ms = 1, .ended_ms = 2 };

    (void) snprintf(m.cause, sizeof m.cause, "%s", cause);
    home.ops->message(CONTROL_BLOCK, &m, c);
}

static inline void report(struct control *c, enum wire_kind kind,
                          uint64_t workload, unsigned rank, const char *cause)
{
    report_soon(c, kind, workload, rank, cause);
    settle(c);
}

/* What the store says of the only task of an ended workload. */
struct told {
    char outcome[16], cause[16];
    int status;
};

static inline int on_task(uint64_t index, const char *body, size_t len,
                          void *arg)
{
    autojson json_t *j = NULL;
    struct told *t = arg;

    (void) index;
    if (json_read(body, len, len, &j, NULL) < 0)
        return -EINVAL;
    (void) snprintf(t->outcome, sizeof t->outcome, "%s",
                    json_get_str(j, "outcome", ""));
    (void) snprintf(t->cause, sizeof t->cause, "%s",
                    json_get_str(j, "cause", ""));
    t->status = (int) json_integer_value(json_object_get(j, "status"));
    return 0;
}

static inline struct told task_of(struct control *c, uint64_t workload)
{
    struct told t = { .outcome = "none" };
    struct err err = { 0 };

    if (store_tasks(c->store, workload, 0, 1, on_task, &t, &err) < 0)
        ok(false, "a task's row: %s", err.text);
    return t;
}

static inline bool no_leases(const struct control *c)
{
    const struct block *b = world_block(c->world, CONTROL_BLOCK);

    return b && !b->leases && b->cpu_free == b->cpu_milli;
}
