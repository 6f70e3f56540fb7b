#include "control/bed.h"

#include "api/api.h"

/* Leases that leave their devices, against a runner that is played (bed.h). */
enum { BYTES = 1 << 20 };

static struct control *begin_running(struct control *c, unsigned ranks,
                                     uint64_t *ret)
{
    suspends = true;
    begin_up(c, 2);
    *ret = submit(c, ranks, 1);
    for (unsigned i = 0; i < ranks; i++)
        report(c, WIRE_CLAIM, *ret, i, "");
    return c;
}

static const struct lease *lease(struct control *c, uint64_t id, uint32_t rank)
{
    struct lease_key k = { id, 0, rank };

    return leases_find(c, &k, 1);
}

static bool lease_is(struct control *c, uint64_t id, uint32_t rank,
                     enum lease_state state)
{
    const struct lease *l = lease(c, id, rank);

    return l && l->state == state;
}

static void ask_soon(struct control *c, enum event_type type, uint64_t id)
{
    struct err err = { 0 };
    struct event e;

    event_init(&e, type);
    e.workload = id;
    e.task = 0;
    e.gen = 1;
    if (type == EVENT_SUSPENDING)
        e.data = json_pack("{s:s}", "why", "asked");
    ok(journal_event(c, &e, NULL, NULL, &err) == 0, "%s %s",
       event_type_name(type), err.text);
}

static void moved(struct control *c, uint64_t id, unsigned rank, bool yes,
                  const char *gate)
{
    struct wire_msg m = { .kind = WIRE_MOVED, .key = { id, 0, rank }, .gen = 1,
                          .epoch = world_epoch(c->world), .ok = yes,
                          .took_ms = 7, .used_bytes = BYTES };

    (void) snprintf(m.gate, sizeof m.gate, "%s", gate);
    if (!yes)
        (void) snprintf(m.reason, sizeof m.reason, "busy");
    home.ops->message(CONTROL_BLOCK, &m, c);
    settle(c);
}

/* The runner is back, and says where its one lease is. */
static void says(struct control *c, uint64_t id, const char *state,
                 const char *gate)
{
    struct wire_lease w = { .key = { id, 0, 0 }, .gen = 1,
                            .epoch = world_epoch(c->world) };
    struct wire_msg m = { .kind = WIRE_HELLO, .v = WIRE_VERSION, .leases = &w,
                          .nleases = 1 };

    (void) snprintf(w.state, sizeof w.state, "%s", state);
    (void) snprintf(w.gate, sizeof w.gate, "%s", gate);
    home.here = true;
    home.nsaid = 0;
    home.ops->message(CONTROL_BLOCK, &m, c);
    settle(c);
}

/* Killed, and started again; then the runner dials in. */
static void killed(struct control *c, uint64_t id, const char *gate)
{
    close_control(c);
    open_control(c);
    block_up(c, 2);
    says(c, id, "running", gate);
}

static void test_way(void)
{
    struct control c;
    uint64_t id;

    begin_running(&c, 1, &id);
    ask_soon(&c, EVENT_SUSPENDING, id);
    ok(said(WIRE_SUSPEND, id, 0) == 0, "nothing leaves before it is on disk");
    settle(&c);
    ok(said(WIRE_SUSPEND, id, 0) == 1 &&
       lease_is(&c, id, 0, LEASE_SUSPENDING), "then the runner is asked");
    moved(&c, id, 0, true, "active");
    ok(lease_is(&c, id, 0, LEASE_SUSPENDING), "what was asked before is no "
       "answer");
    moved(&c, id, 0, true, "suspended");
    ok(lease_is(&c, id, 0, LEASE_SUSPENDED) &&
       lease(&c, id, 0)->task->away->bytes == BYTES, "it has left");
    moved(&c, id, 0, true, "suspended");
    ask_soon(&c, EVENT_RECALLED, id);
    settle(&c);
    ok(said(WIRE_RESUME, id, 0) == 1 && lease_is(&c, id, 0, LEASE_RESUMING),
       "asked to come back");
    moved(&c, id, 0, false, "suspended");
    ok(lease_is(&c, id, 0, LEASE_SUSPENDED), "which may fail");
    ask_soon(&c, EVENT_RECALLED, id);
    settle(&c);
    moved(&c, id, 0, true, "active");
    ok(lease_is(&c, id, 0, LEASE_ACTIVE), "it is back");
    report(&c, WIRE_ENDED, id, 0, "none");
    ok(strcmp(task_of(&c, id).outcome, "succeeded") == 0 && no_leases(&c),
       "and ends");
    close_control(&c);
}

static void test_kept(void)
{
    struct control c;
    uint64_t id;

    begin_running(&c, 2, &id);
    ask_soon(&c, EVENT_SUSPENDING, id);
    settle(&c);
    ok(said(WIRE_SUSPEND, id, ALL_RANKS) == 2, "both ranks are asked");
    moved(&c, id, 0, true, "suspended");
    moved(&c, id, 1, false, "active");
    ok(said(WIRE_RESUME, id, 0) == 1 && said(WIRE_RESUME, id, 1) == 0 &&
       lease_is(&c, id, 1, LEASE_ACTIVE),
       "one cannot: the other is brought back");
    moved(&c, id, 0, true, "active");
    ok(lease_is(&c, id, 0, LEASE_ACTIVE), "and both go on");
    close_control(&c);
}

/* Killed at each step; what was asked for is asked for again. */
static void test_killed(void)
{
    struct control c;
    uint64_t id;

    begin_running(&c, 1, &id);
    ask_soon(&c, EVENT_SUSPENDING, id);
    settle(&c);
    killed(&c, id, "active");
    ok(said(WIRE_SUSPEND, id, 0) == 1 &&
       lease_is(&c, id, 0, LEASE_SUSPENDING), "before it had left");
    killed(&c, id, "suspended");
    ok(said(WIRE_SUSPEND, id, 0) == 1, "after it had left");
    moved(&c, id, 0, true, "suspended");
    killed(&c, id, "suspended");
    ok(said(WIRE_SUSPEND, id, 0) == 0 && said(WIRE_RESUME, id, 0) == 0 &&
       lease_is(&c, id, 0, LEASE_SUSPENDED), "while it is off");
    killed(&c, id, "active");
    ok(said(WIRE_SUSPEND, id, 0) == 1, "not off as it should be");
    ask_soon(&c, EVENT_RECALLED, id);
    settle(&c);
    killed(&c, id, "suspended");
    ok(said(WIRE_RESUME, id, 0) == 1 && lease_is(&c, id, 0, LEASE_RESUMING),
       "before it was back");
    killed(&c, id, "active");
    ok(said(WIRE_RESUME, id, 0) == 1, "after it was back");
    moved(&c, id, 0, true, "active");
    ok(lease_is(&c, id, 0, LEASE_ACTIVE), "it is back");
    killed(&c, id, "suspended");
    ok(said(WIRE_RESUME, id, 0) == 1 && lease_is(&c, id, 0, LEASE_ACTIVE),
       "off, and nobody wants that");
    close_control(&c);
}

static void test_gone(void)
{
    struct control c;
    uint64_t id;

    begin_running(&c, 1, &id);
    ask_soon(&c, EVENT_SUSPENDING, id);
    settle(&c);
    moved(&c, id, 0, true, "suspended");
    home.here = false;
    home.ops->gone(CONTROL_BLOCK, &c);
    hello(&c);
    ok(!lease(&c, id, 0) || lease(&c, id, 0)->gen == 2,
       "a runner that has it no more: it is lost, and tried again");
    close_control(&c);
    begin_running(&c, 1, &id);
    ask_soon(&c, EVENT_SUSPENDING, id);
    settle(&c);
    moved(&c, id, 0, true, "suspended");
    ask_soon(&c, EVENT_ABORTING, id);
    settle(&c);
    ok(said(WIRE_STOP, id, 0) == 1 && lease_is(&c, id, 0, LEASE_ENDING),
       "told to stop while it is off");
    report(&c, WIRE_ENDED, id, 0, "signalled");
    ok(strcmp(task_of(&c, id).outcome, "aborted") == 0 && no_leases(&c),
       "and ends");
    close_control(&c);
}

static void turn_ms(struct control *c, uint64_t ms)
{
    uint64_t end = clock_mono_ms() + ms;

    while (clock_mono_ms() < end)
        (void) loop_turn(c->loop, 50, NULL);
}

/* "Suspended, and could not be", at once and as often as it is asked. */
static void test_unsure(void)
{
    struct control c;
    uint64_t id;

    begin_running(&c, 1, &id);
    ask_soon(&c, EVENT_SUSPENDING, id);
    settle(&c);
    moved(&c, id, 0, false, "suspended");
    turn_ms(&c, 300);
    ok(said(WIRE_SUSPEND, id, 0) == 1 && lease_is(&c, id, 0, LEASE_SUSPENDING),
       "nobody knows where it is: not asked again at once");
    turn_ms(&c, 1900);
    ok(said(WIRE_SUSPEND, id, 0) == 2, "but after a second");
    moved(&c, id, 0, false, "suspended");
    turn_ms(&c, 1500);
    ok(said(WIRE_SUSPEND, id, 0) == 2, "and then after more");
    turn_ms(&c, 2000);
    ok(said(WIRE_SUSPEND, id, 0) == 3, "and again");
    moved(&c, id, 0, true, "suspended");
    turn_ms(&c, 1500);
    ok(said(WIRE_SUSPEND, id, 0) == 3 && lease_is(&c, id, 0, LEASE_SUSPENDED)
       && !c.moving, "until it is known");
    close_control(&c);
}

/* Its devices may be another's since the backup was made. */
static void test_quarantine(void)
{
    struct control c;
    uint64_t id;

    begin_running(&c, 1, &id);
    says(&c, id, "running", "suspended");
    ok(said(WIRE_RESUME, id, 0) == 1, "off, and should be on: told to resume");
    world_workload(c.world, id)->quarantined = true;
    says(&c, id, "running", "suspended");
    ok(said(WIRE_RESUME, id, 0) == 0, "in quarantine it stays where it is");
    close_control(&c);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_way();
    test_kept();
    test_killed();
    test_gone();
    test_unsure();
    test_quarantine();
    (void) fs_remove_tree(dir, NULL);
    return tap_done();
}
