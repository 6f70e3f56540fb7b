#include "control/bed.h"

#include "control/outside.h"

/* Leases against a runner that is played (bed.h). */

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

/* What the block said last was refused, and is proposed again. */
static bool asked_again(const struct control *c)
{
    const struct heard *h = map_get(c->blocks, CONTROL_BLOCK);

    return h && h->inventory && h->again;
}

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
    ok(b->ndevices == 8 && !asked_again(&c), "more devices: taken at once");
    waits = submit(&c, 1, 5);
    ok(said(WIRE_ORDER, waits, 0) == 0, "five do not fit beside it");
    block_up(&c, 2);
    ok(b->ndevices == 8 && asked_again(&c) && b->shut,
       "fewer than a lease holds: asked again later");
    waits = submit(&c, 1, 1);
    ok(said(WIRE_ORDER, waits, 0) == 0, "nothing starts on what is not there");
    report(&c, WIRE_ENDED, holds, 0, "none");
    ok(said(WIRE_ORDER, waits, 0) == 0 && b->ndevices == 8,
       "nor when that lease has ended, before the block has changed");
    for (int i = 0; i < TURNS && asked_again(&c); i++)
        (void) loop_turn(c.loop, 10, NULL);
    settle(&c);
    ok(b->ndevices == 2 && !b->shut, "then the block has what there is");
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

/* ---- what stands ready ---- */

static const struct wire_msg *last_said(enum wire_kind kind, uint64_t workload)
{
    for (unsigned i = home.nsaid; i-- > 0;)
        if (home.said[i].kind == kind &&
            home.said[i].key.workload == workload)
            return &home.said[i];
    return NULL;
}

static const struct lease *lease_of(const struct control *c, uint64_t workload)
{
    return leases_find(c, &(struct lease_key) { workload, 0, 0 }, 1);
}

/* As the plan would decide; on device 0.  Durable once settled. */
static void stage_soon(struct control *c, uint64_t workload)
{
    struct err err = { 0 };
    struct event e;

    event_init(&e, EVENT_STAGED);
    e.workload = workload;
    e.gen = 1;
    e.ngrants = 1;
    e.grants = mem_new(sizeof *e.grants);
    *e.grants = (struct grant) { .block = CONTROL_BLOCK, .ndevices = 1,
                                 .milli = 1000 };
    if (journal_event(c, &e, NULL, NULL, &err) < 0)
        ok(false, "staged: %s", err.text);
}

/* One holds the devices, the next stands ready; returns the latter. */
static uint64_t begin_staged(struct control *c, unsigned devices)
{
    uint64_t id = 0;

    stages = true;
    begin_up(c, devices);
    for (unsigned i = 0; i < devices; i++) {
        id = submit(c, 1, 1);
        report(c, WIRE_CLAIM, id, 0, "");
    }
    id = submit(c, 1, 1);
    stage_soon(c, id);
    settle(c);
    return id;
}

static void test_staged(void)
{
    struct control c;
    uint64_t id = begin_staged(&c, 1);

    ok(said(WIRE_ORDER, id, 0) == 1 && !lease_of(&c, id),
       "ordered before it has a lease");
    report(&c, WIRE_CLAIM, id, 0, "");
    ok(last_said(WIRE_GRANT, id)->ok && !lease_of(&c, id), "and granted");
    report(&c, WIRE_ENDED, id, 0, "none");
    ok(said(WIRE_ACK, id, 0) == 0, "an end waits for the lease");
    report(&c, WIRE_ENDED, id - 1, 0, "none");
    ok(lease_of(&c, id) && lease_of(&c, id)->state == LEASE_ACTIVE &&
       said(WIRE_ORDER, id, 0) == 2, "planned: claimed in its name");
    ok(said(WIRE_GATE, id, 0) == 1 &&
       !strcmp(last_said(WIRE_GATE, id)->gate, "active"), "its gate opens");
    report(&c, WIRE_ENDED, id, 0, "none");
    ok(said(WIRE_ACK, id, 0) == 1 &&
       !strcmp(task_of(&c, id).outcome, "succeeded"), "and it ends");
    close_control(&c);

    id = begin_staged(&c, 1);
    report(&c, WIRE_ENDED, id - 1, 0, "none");
    ok(lease_of(&c, id)->state == LEASE_PLANNED && said(WIRE_GATE, id, 0) == 0,
       "planned before it has claimed: it claims as ever");
    ok(said(WIRE_ORDER, id, 0) == 2, "and is ordered again");
    report(&c, WIRE_CLAIM, id, 0, "");
    ok(lease_of(&c, id)->state == LEASE_ACTIVE && said(WIRE_GATE, id, 0) == 1,
       "and its gate opens");
    close_control(&c);

    id = begin_staged(&c, 1);
    report(&c, WIRE_ENDED, id - 1, 0, "none");
    report(&c, WIRE_ENDED, id, 0, "refused");
    ok(said(WIRE_ACK, id, 0) == 1 && !lease_of(&c, id),
       "planned and never started: an end like any other");
    close_control(&c);
}

static void unstage_soon(struct control *c, uint64_t workload)
{
    struct err err = { 0 };
    struct event e;

    event_init(&e, EVENT_UNSTAGED);
    e.workload = workload;
    e.gen = 1;
    if (journal_event(c, &e, NULL, NULL, &err) < 0)
        ok(false, "unstaged: %s", err.text);
}

static void test_unstaged(void)
{
    struct control c;
    uint64_t id = begin_staged(&c, 1);

    report(&c, WIRE_CLAIM, id, 0, "");
    unstage_soon(&c, id);
    report_soon(&c, WIRE_ENDED, id, 0, "none");
    ok(said(WIRE_ACK, id, 0) == 0 && said(WIRE_STOP, id, 0) == 0,
       "its end is kept until that is on disk");
    settle(&c);
    ok(said(WIRE_STOP, id, 0) == 1 && last_said(WIRE_STOP, id)->force,
       "not wanted any more: stopped");
    report(&c, WIRE_ENDED, id, 0, "signalled");
    ok(said(WIRE_ACK, id, 0) == 1, "and its end is nobody's");
    report(&c, WIRE_CLAIM, id, 0, "");
    ok(!last_said(WIRE_GRANT, id)->ok, "its generation is never granted again");
    report(&c, WIRE_ENDED, id - 1, 0, "none");
    ok(last_said(WIRE_ORDER, id)->gen == 2, "its attempt is another");
    close_control(&c);

    id = begin_staged(&c, 1);
    report(&c, WIRE_CLAIM, id, 0, "");
    c.wall_base += 14 * 60 * 1000;
    staged_age(&c);
    settle(&c);
    ok(said(WIRE_STOP, id, 0) == 0, "it may stand there for a while");
    c.wall_base += 2 * 60 * 1000;
    staged_age(&c);
    settle(&c);
    ok(said(WIRE_STOP, id, 0) == 1, "and not for ever");
    close_control(&c);

    id = begin_staged(&c, 2);
    report(&c, WIRE_CLAIM, id, 0, "");
    report(&c, WIRE_ENDED, id - 1, 0, "none");
    ok(said(WIRE_STOP, id, 0) == 1 && said(WIRE_GATE, id, 0) == 0,
       "planned with another device: stopped");
    for (int i = 0; i < TURNS && said(WIRE_ORDER, id, 0) < 2; i++)
        (void) loop_turn(c.loop, 10, NULL);
    ok(last_said(WIRE_ORDER, id)->gen == 2, "and started anew");
    close_control(&c);
}

static void say_hello(struct control *c, uint64_t id, const char *state,
                      const char *gate)
{
    struct wire_lease l[2] = {
        { .key = { id - 1, 0, 0 }, .gen = 1, .epoch = world_epoch(c->world),
          .state = "running" },
        { .key = { id, 0, 0 }, .gen = 1, .epoch = world_epoch(c->world) },
    };
    struct wire_msg m = { .kind = WIRE_HELLO, .v = WIRE_VERSION,
                          .leases = l, .nleases = state ? 2 : 1 };

    (void) snprintf(l[1].state, sizeof l[1].state, "%s", state ? state : "");
    (void) snprintf(l[1].gate, sizeof l[1].gate, "%s", gate);
    home.nsaid = 0;
    home.here = true;
    home.ops->message(CONTROL_BLOCK, &m, c);
}

static void hello_with(struct control *c, uint64_t id, const char *state,
                       const char *gate)
{
    home.here = false;
    home.ops->gone(CONTROL_BLOCK, c);
    say_hello(c, id, state, gate);
    settle(c);
}

static void test_staged_hello(void)
{
    struct wire_msg seen = { .kind = WIRE_ACTIVITY, .gen = 1,
                             .gate = "staged" };
    struct control c;
    uint64_t id;

    stages = true;
    begin_up(&c, 1);
    report(&c, WIRE_CLAIM, submit(&c, 1, 1), 0, "");
    id = submit(&c, 1, 1);
    home.here = false;
    home.ops->gone(CONTROL_BLOCK, &c);
    stage_soon(&c, id);
    say_hello(&c, id, NULL, "");
    ok(said(WIRE_ORDER, id, 0) == 0, "not on disk: nobody is told");
    settle(&c);
    ok(said(WIRE_ORDER, id, 0) == 1, "then it is ordered, once");
    hello_with(&c, id, NULL, "");
    ok(said(WIRE_ORDER, id, 0) == 1, "a runner that was not told is told");
    hello_with(&c, id, "new", "");
    ok(said(WIRE_GRANT, id, 0) == 1 && last_said(WIRE_GRANT, id)->ok &&
       said(WIRE_ORDER, id, 0) == 0, "one that has not started it may");
    hello_with(&c, id, "ended", "");
    ok(said(WIRE_ACK, id, 0) == 0 && said(WIRE_STOP, id, 0) == 0,
       "the end of one is kept");
    hello_with(&c, id, "running", "staged");
    ok(said(WIRE_STOP, id, 0) == 0 && said(WIRE_ORDER, id, 0) == 0,
       "one that stands there is left alone");
    home.here = false;
    home.ops->gone(CONTROL_BLOCK, &c);
    report(&c, WIRE_ENDED, id - 1, 0, "none");
    hello_with(&c, id, "running", "staged");
    report(&c, WIRE_ENDED, id - 1, 0, "none");
    ok(lease_of(&c, id)->state == LEASE_ACTIVE && said(WIRE_GATE, id, 0) == 1,
       "and its gate opens when it is planned");
    hello_with(&c, id, "running", "staged");
    ok(said(WIRE_GATE, id, 0) == 1, "it is said again to a gate that is shut");
    hello_with(&c, id, "running", "active");
    ok(said(WIRE_GATE, id, 0) == 0, "and to no other");
    seen.key.workload = id;
    seen.epoch = world_epoch(c.world);
    home.ops->message(CONTROL_BLOCK, &seen, &c);
    ok(said(WIRE_GATE, id, 0) == 1, "nor one that shows later");
    close_control(&c);
}

static void test_end_hello(void)
{
    struct control c;
    uint64_t id = begin_staged(&c, 1);

    report(&c, WIRE_CLAIM, id, 0, "");
    home.here = false;
    home.ops->gone(CONTROL_BLOCK, &c);
    unstage_soon(&c, id);
    say_hello(&c, id, "ended", "");
    ok(said(WIRE_ACK, id, 0) == 0, "an end in a hello is kept as well");
    settle(&c);
    ok(said(WIRE_STOP, id, 0) == 1, "asked for when that is on disk");
    report(&c, WIRE_ENDED, id, 0, "none");
    ok(said(WIRE_ACK, id, 0) == 1, "and forgotten then");
    close_control(&c);
}

/* ---- who speaks ---- */

static void other_says(struct control *c, enum wire_kind kind, uint64_t id,
                       uint64_t epoch)
{
    struct wire_msg m = { .kind = kind, .key = { id, 0, 0 }, .gen = 1,
                          .epoch = epoch, .cause = "none", .started_ms = 1,
                          .ended_ms = 2 };

    if (kind == WIRE_PROGRESS)
        m.said = json_pack("{s:f}", "progress", 0.5);
    home.ops->message("local/other", &m, c);
    settle(c);
    json_decref(m.said);
}

/* A runner ends its own leases, and no other's. */
static void test_other(void)
{
    struct control c;
    uint64_t id, seq;

    begin_up(&c, 0);
    id = submit(&c, 1, 0);
    report(&c, WIRE_CLAIM, id, 0, "");
    seq = world_seq(c.world);
    other_says(&c, WIRE_ENDED, id, world_epoch(c.world));
    other_says(&c, WIRE_ENDED, id, world_epoch(c.world) + 1);
    other_says(&c, WIRE_PROGRESS, id, world_epoch(c.world));
    ok(lease_of(&c, id) && lease_of(&c, id)->state == LEASE_ACTIVE &&
       world_seq(c.world) == seq && said(WIRE_ACK, id, 0) == 0,
       "what another block says of a lease is nothing");
    report(&c, WIRE_ENDED, id, 0, "none");
    ok(strcmp(task_of(&c, id).outcome, "succeeded") == 0 &&
       said(WIRE_ACK, id, 0) == 1, "its own ends it");
    close_control(&c);
}

/* An end is never lost: if it is not known any more that the runner was told,
 * the lease is there all the same.
 */
static void test_forgotten(void)
{
    struct control c;
    uint64_t id;

    begin_up(&c, 0);
    id = submit(&c, 1, 0);
    report(&c, WIRE_CLAIM, id, 0, "");
    home.ops->gone(CONTROL_BLOCK, &c);
    report_soon(&c, WIRE_ENDED, id, 0, "none");
    ok(said(WIRE_ACK, id, 0) == 0, "an end is not acknowledged at once");
    settle(&c);
    ok(strcmp(task_of(&c, id).outcome, "succeeded") == 0 &&
       said(WIRE_ACK, id, 0) == 1, "but when it is on disk");
    close_control(&c);
}

/* ---- on the network ---- */

/* The disk was full, and meanwhile somebody else took the port. */
static void test_port_taken(void)
{
    static const struct err full = { ENOSPC, "the disk is full" };
    struct control_conf far = conf;
    struct control c;

    far.runners = "127.0.0.1:7";
    begin(&c);
    c.conf = &far;
    own.engine = NULL;
    ok(outside_open(&c, NULL) == 0 && outside_listen(&c, NULL) == 0 &&
       home.listens == 1, "runners may dial in");
    home.deaf = 2;
    journal_failed(&full, &c);
    for (int i = 0; i < TURNS && home.deaf == 2; i++)
        (void) loop_turn(c.loop, 10, NULL);
    ok(home.deaf == 1 && !c.trouble[0] && c.rc == 0,
       "the port is another's: it goes on without");
    for (int i = 0; i < TURNS && home.listens == 1; i++)
        (void) loop_turn(c.loop, 10, NULL);
    ok(home.listens == 2 && c.rc == 0, "and has it when it is free");
    outside_close(&c);
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
    test_staged();
    test_unstaged();
    test_staged_hello();
    test_end_hello();
    test_other();
    test_forgotten();
    test_port_taken();
    (void) fs_remove_tree(dir, NULL);
    return tap_done();
}
