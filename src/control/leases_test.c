#include "control/leases.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/tap.h"
#include "engine/home.h"
#include "spec/doc.h"
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Leases against a runner that is played here: the world, the journal and the
 * store are the real ones, home is not.
 */
enum { SAID_MAX = 256, TURNS = 3000, ROOM_ENOUGH = 1000, ALL_RANKS = -1 };

static struct {
    const struct home_ops *ops;
    void *arg;
    bool here;                         /* the runner */
    unsigned room;                     /* for so many orders */
    int long_rank;                     /* whose order is no frame; -2: none's */
    struct wire_msg said[SAID_MAX];    /* without what they own */
    unsigned nsaid;
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

bool home_connected(const struct home *h, const char *block)
{
    (void) h;
    return home.here && strcmp(block, CONTROL_BLOCK) == 0;
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
        home.said[home.nsaid] = *m;
        home.said[home.nsaid].task = NULL;
        home.said[home.nsaid++].command = NULL;
    }
    return 0;
}

/* How often this was said to a rank (or ALL_RANKS) of a workload. */
static unsigned said(enum wire_kind kind, uint64_t workload, int rank)
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

/* Everything that was wanted is durable and has had its effect. */
static void settle(struct control *c)
{
    (void) loop_turn(c->loop, 0, NULL);
    for (int i = 0; i < TURNS && (c->flush || c->first != c->count); i++)
        (void) loop_turn(c->loop, 10, NULL);
}

static void open_control(struct control *c)
{
    autofree char *db = mem_printf("%s/weir.db", dir);
    struct store_conf store = { .path = db };
    struct err err = { 0 };

    *c = (struct control) { .conf = &conf, .lock = -1, .held = map_new(),
                            .tokens = map_new() };
    memset(&home, 0, sizeof home);
    home.room = ROOM_ENOUGH;
    home.long_rank = -2;
    c->world = world_new();
    c->wall_base = clock_wall_ms();
    c->mono_base = clock_mono_ms();
    if (loop_open(&c->loop, &err) < 0 ||
        store_open(&store, &c->store, &err) < 0 ||
        store_load(c->store, c->world, &err) < 0 ||
        store_attach(c->store, c->loop, journal_durable, journal_failed, c,
                     &err) < 0 ||
        leases_open(c, &err) < 0 || control_begin(c, &err) < 0)
        ok(false, "a control plane: %s", err.text);
    world_hold(c->world, true);
    settle(c);
}

static void close_control(struct control *c)
{
    const char *key;
    size_t pos = 0;
    void *v;

    journal_close(c);
    watch_remove(c->again);
    json_decref(c->inventory);
    leases_close(c);
    store_close(c->store);
    world_free(c->world);
    while ((v = map_next(c->tokens, &pos, &key)))
        free(v);
    map_free(c->tokens);
    map_free(c->held);
    loop_close(c->loop);
}

/* A store of its own for each test. */
static void begin(struct control *c)
{
    (void) fs_remove_tree(dir, NULL);
    (void) mkdir(dir, 0700);
    open_control(c);
}

static void block_up(struct control *c, unsigned devices)
{
    autojson json_t *j = json_pack("{s:s, s:s, s:s, s:i, s:I, s:b, s:[]}",
        "pool", "local", "engine", "local", "node", "here", "cpus_milli",
        64000, "memory", (json_int_t) 1 << 36, "simulated", 1, "devices");

    for (unsigned i = 0; i < devices; i++)
        json_array_append_new(json_object_get(j, "devices"),
                              json_pack("{s:s, s:I}", "model", "H100",
                                        "memory", (json_int_t) 1 << 36));
    blocks_up(CONTROL_BLOCK, "token", j, c);
    settle(c);
}

static void hello(struct control *c)
{
    struct wire_msg m = { .kind = WIRE_HELLO, .v = WIRE_VERSION };

    home.here = true;
    home.ops->message(CONTROL_BLOCK, &m, c);
    settle(c);
}

/* The same, and a block with its runner. */
static void begin_up(struct control *c, unsigned devices)
{
    begin(c);
    block_up(c, devices);
    hello(c);
}

static uint64_t submit(struct control *c, unsigned ranks, unsigned gpus)
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

static void report(struct control *c, enum wire_kind kind, uint64_t workload,
                   unsigned rank, const char *cause)
{
    struct wire_msg m = { .kind = kind, .key = { workload, 0, rank },
                          .gen = 1, .epoch = world_epoch(c->world),
                          .started_ms = 1, .ended_ms = 2 };

    (void) snprintf(m.cause, sizeof m.cause, "%s", cause);
    home.ops->message(CONTROL_BLOCK, &m, c);
    settle(c);
}

/* What the store says of the only task of an ended workload. */
struct told {
    char outcome[16], cause[16];
    int status;
};

static int on_task(uint64_t index, const char *body, size_t len, void *arg)
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

static struct told task_of(struct control *c, uint64_t workload)
{
    struct told t = { .outcome = "none" };
    struct err err = { 0 };

    if (store_tasks(c->store, workload, 0, 1, on_task, &t, &err) < 0)
        ok(false, "a task's row: %s", err.text);
    return t;
}

static bool no_leases(const struct control *c)
{
    const struct block *b = world_block(c->world, CONTROL_BLOCK);

    return b && !b->leases && b->cpu_free == b->cpu_milli;
}

/* ---- orders without room ---- */

static void test_room(void)
{
    struct control c;
    uint64_t id;

    begin_up(&c, 0);
    home.room = 2;
    id = submit(&c, 4, 0);
    ok(said(WIRE_ORDER, id, ALL_RANKS) == 2, "room for two of four orders");
    home.room = 1;
    home.ops->drained(CONTROL_BLOCK, &c);
    ok(said(WIRE_ORDER, id, ALL_RANKS) == 3, "drained: room for one more");
    home.room = ROOM_ENOUGH;
    home.ops->drained(CONTROL_BLOCK, &c);
    for (int i = 0; i < 4; i++)
        ok(said(WIRE_ORDER, id, i) == 1, "rank %d is ordered once", i);
    home.ops->drained(CONTROL_BLOCK, &c);
    ok(said(WIRE_ORDER, id, ALL_RANKS) == 4, "drained again: nothing is left");
    for (unsigned i = 0; i < 4; i++)
        report(&c, WIRE_CLAIM, id, i, "");
    ok(said(WIRE_GRANT, id, ALL_RANKS) == 4, "each claim is granted");
    for (unsigned i = 0; i < 4; i++)
        report(&c, WIRE_ENDED, id, i, "none");
    ok(strcmp(task_of(&c, id).outcome, "succeeded") == 0 && no_leases(&c),
       "and the gang ends");
    close_control(&c);
}

/* Aborted before there was room: who was told is told to stop, who was not
 * ends without a word.
 */
static void test_room_abort(void)
{
    struct control c;
    struct err err = { 0 };
    struct event e;
    uint64_t id;

    begin_up(&c, 0);
    home.room = 1;
    id = submit(&c, 3, 0);
    event_init(&e, EVENT_ABORTING);
    e.workload = id;
    e.task = EVENT_ALL;
    ok(journal_event(&c, &e, NULL, NULL, &err) == 0, "aborted %s", err.text);
    settle(&c);
    ok(said(WIRE_STOP, id, 0) == 1 && said(WIRE_STOP, id, ALL_RANKS) == 1,
       "the one that was told is told to stop");
    home.room = ROOM_ENOUGH;
    home.ops->drained(CONTROL_BLOCK, &c);
    ok(said(WIRE_ORDER, id, ALL_RANKS) == 1, "the others are never ordered");
    report(&c, WIRE_ENDED, id, 0, "signalled");
    ok(strcmp(task_of(&c, id).outcome, "aborted") == 0 && no_leases(&c),
       "nothing stays planned");
    close_control(&c);
}

/* ---- orders that can never be sent ---- */

static bool refused(struct control *c, uint64_t id)
{
    struct told t = task_of(c, id);

    return strcmp(t.outcome, "failed") == 0 &&
           strcmp(t.cause, "refused") == 0 && t.status == 126;
}

static void test_long(void)
{
    struct control c;
    uint64_t id;

    begin_up(&c, 0);
    home.long_rank = ALL_RANKS;
    id = submit(&c, 1, 0);
    ok(refused(&c, id) && no_leases(&c), "too long an order: refused");
    id = submit(&c, 5, 0);
    ok(refused(&c, id) && no_leases(&c), "that of each rank of a gang");
    home.long_rank = 1;
    id = submit(&c, 3, 0);
    ok(said(WIRE_STOP, id, 0) == 1 && said(WIRE_STOP, id, 2) == 1 &&
       said(WIRE_STOP, id, 1) == 0, "that of one: the others are stopped");
    report(&c, WIRE_ENDED, id, 0, "signalled");
    report(&c, WIRE_ENDED, id, 2, "signalled");
    ok(refused(&c, id) && no_leases(&c), "and the gang is refused");
    close_control(&c);
}

/* The same while the leases of a block are gone through. */
static void test_long_late(void)
{
    struct control c;
    uint64_t ids[3];

    begin(&c);
    block_up(&c, 0);
    for (int i = 0; i < 3; i++)
        ids[i] = submit(&c, 2, 0);
    home.long_rank = ALL_RANKS;
    hello(&c);
    for (int i = 0; i < 3; i++)
        ok(refused(&c, ids[i]), "found at hello: gang %d is refused", i);
    home.long_rank = -2;
    home.room = 0;
    for (int i = 0; i < 3; i++)
        ids[i] = submit(&c, 2, 0);
    home.long_rank = ALL_RANKS;
    home.ops->drained(CONTROL_BLOCK, &c);
    settle(&c);
    for (int i = 0; i < 3; i++)
        ok(refused(&c, ids[i]), "found when drained: gang %d is refused", i);
    ok(no_leases(&c), "nothing stays planned");
    close_control(&c);
}

/* ---- blocks that come back ---- */

static void test_changed(void)
{
    struct control c;
    const struct block *b;
    uint64_t holds, waits;

    begin_up(&c, 4);
    holds = submit(&c, 1, 4);
    report(&c, WIRE_CLAIM, holds, 0, "");
    b = world_block(c.world, CONTROL_BLOCK);
    block_up(&c, 8);
    ok(b->ndevices == 8 && !c.inventory, "more devices: taken at once");
    waits = submit(&c, 1, 5);
    ok(said(WIRE_ORDER, waits, 0) == 0, "five do not fit beside it");
    block_up(&c, 2);
    ok(b->ndevices == 8 && c.inventory && c.again,
       "fewer than a lease holds: asked again later");
    waits = submit(&c, 1, 1);
    ok(said(WIRE_ORDER, waits, 0) == 0, "nothing starts on what is not there");
    report(&c, WIRE_ENDED, holds, 0, "none");
    ok(said(WIRE_ORDER, waits, 0) == 0 && b->ndevices == 8,
       "nor when that lease has ended, before the block has changed");
    for (int i = 0; i < TURNS && c.inventory; i++)
        (void) loop_turn(c.loop, 10, NULL);
    settle(&c);
    ok(b->ndevices == 2 && !c.again, "then the block has what there is");
    ok(said(WIRE_ORDER, waits, 0) == 1 &&
       said(WIRE_ORDER, waits - 1, 0) == 0, "and what fits into it starts");
    close_control(&c);
}

/* What the store says of the block is what was: nothing is planned on it
 * until the block says what it is.
 */
static void test_held(void)
{
    struct control c;
    uint64_t big, small;

    begin(&c);
    small = submit(&c, 1, 1);
    ok(!world_block(c.world, CONTROL_BLOCK), "no block yet");
    block_up(&c, 1);
    hello(&c);
    ok(said(WIRE_ORDER, small, 0) == 1, "the first block: planned");
    big = submit(&c, 1, 4);
    report(&c, WIRE_CLAIM, small, 0, "");
    block_up(&c, 0);                   /* never accepted: one is held */
    report(&c, WIRE_ENDED, small, 0, "none");
    close_control(&c);

    open_control(&c);
    small = submit(&c, 1, 1);
    hello(&c);
    ok(said(WIRE_ORDER, small, 0) == 0,
       "started again: nothing is planned on the block of before");
    block_up(&c, 0);
    ok(said(WIRE_ORDER, small, 0) == 0 &&
       world_block(c.world, CONTROL_BLOCK)->ndevices == 0,
       "nor on devices that are gone");
    block_up(&c, 4);
    ok(said(WIRE_ORDER, small, 0) + said(WIRE_ORDER, big, 0) == 1,
       "back with devices: planned");
    close_control(&c);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_room();
    test_room_abort();
    test_long();
    test_long_late();
    test_changed();
    test_held();
    (void) fs_remove_tree(dir, NULL);
    return tap_done();
}
