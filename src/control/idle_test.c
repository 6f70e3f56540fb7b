#include "control/bed.h"

#include "api/api.h"

/* Devices that are not used, against a runner that is played (bed.h). */
enum { MINUTE = 60 * 1000 };

static uint64_t begin_running(struct control *c, unsigned ranks)
{
    json_t *policy = json_pack("{s:i,s:s,s:s}", "weir", 1, "kind", "policy",
                               "idle_grace", "1m");
    struct err err = { 0 };
    struct event e;
    uint64_t id;

    suspends = true;
    begin_up(c, ranks);
    event_init(&e, EVENT_POLICY_SET);
    e.data = json_pack("{s:i,s:o}", "version", 1, "policy", policy);
    ok(journal_event(c, &e, NULL, NULL, &err) == 0, "a policy %s", err.text);
    id = submit(c, ranks, 1);
    for (unsigned i = 0; i < ranks; i++)
        report(c, WIRE_CLAIM, id, i, "");
    return id;
}

static const struct lease *lease(const struct control *c, uint64_t id,
                                 uint32_t rank)
{
    struct lease_key k = { id, 0, rank };

    return leases_find(c, &k, 1);
}

static bool lease_is(const struct control *c, uint64_t id, uint32_t rank,
                     enum lease_state state)
{
    const struct lease *l = lease(c, id, rank);

    return l && l->state == state;
}

static struct wire_msg word(const struct control *c, enum wire_kind kind,
                            uint64_t id, unsigned rank, const char *gate)
{
    struct wire_msg m = { .kind = kind, .key = { id, 0, rank }, .gen = 1,
                          .epoch = world_epoch(c->world), .ok = true };

    (void) snprintf(m.gate, sizeof m.gate, "%s", gate);
    return m;
}

static void tells(struct control *c, uint64_t id, unsigned rank,
                  uint64_t launches, unsigned wanting)
{
    struct wire_msg m = word(c, WIRE_ACTIVITY, id, rank,
                             wanting ? "suspended" : "active");

    m.launches = launches;
    m.wanting = wanting;
    home.ops->message(CONTROL_BLOCK, &m, c);
    settle(c);
}

static void moved(struct control *c, uint64_t id, unsigned rank, bool yes,
                  const char *gate)
{
    struct wire_msg m = word(c, WIRE_MOVED, id, rank, gate);

    m.ok = yes;
    m.took_ms = 7;
    m.used_bytes = 1 << 20;
    if (!yes)
        (void) snprintf(m.reason, sizeof m.reason, "busy");
    home.ops->message(CONTROL_BLOCK, &m, c);
    settle(c);
}

static void later(struct control *c, uint64_t ms)
{
    c->wall_base += ms;
    ahead_ms += ms;
    idle_look(c);
    settle(c);
}

static bool said_awake(uint64_t id)
{
    for (unsigned i = 0; i < home.nsaid; i++)
        if (home.said[i].kind == WIRE_SUSPEND &&
            home.said[i].key.workload == id)
            return home.said[i].awake;
    return false;
}

static void test_way(void)
{
    struct control c;
    uint64_t id = begin_running(&c, 1);
    autojson json_t *use = NULL;

    later(&c, 10 * MINUTE);
    ok(said(WIRE_SUSPEND, id, 0) == 0 && !idle_find(lease(&c, id, 0)->task, &c),
       "of who has told nothing, nothing is known");
    tells(&c, id, 0, 5, 0);
    later(&c, MINUTE - 5000);
    use = idle_find(lease(&c, id, 0)->task, &c);
    ok(strcmp(json_get_str(use, "kind", ""), "start") == 0 &&
       json_get_number(use, "grace_seconds") == 60 &&
       json_get_number(use, "release_in_seconds") <= 5 &&
       json_get_number(use, "release_in_seconds") > 0, "the countdown is seen");
    tells(&c, id, 0, 6, 0);
    json_decref(use);
    use = idle_find(lease(&c, id, 0)->task, &c);
    ok(strcmp(json_get_str(use, "kind", ""), "launch") == 0 &&
       json_get_number(use, "release_in_seconds") > 55, "a use begins it anew");
    later(&c, MINUTE - 5000);
    tells(&c, id, 0, 6, 0);
    ok(lease_is(&c, id, 0, LEASE_ACTIVE), "it is not over yet");
    later(&c, 5000);
    ok(lease_is(&c, id, 0, LEASE_SUSPENDING) && said_awake(id),
       "it is asked to leave, its threads awake");
    moved(&c, id, 0, true, "suspended");
    later(&c, 10 * MINUTE);
    ok(lease_is(&c, id, 0, LEASE_SUSPENDED) && said(WIRE_RESUME, id, 0) == 0,
       "off as long as it does not want to be back");
    tells(&c, id, 0, 6, 1);
    ok(lease_is(&c, id, 0, LEASE_RESUMING) && said(WIRE_RESUME, id, 0) == 1,
       "a call brings it back");
    moved(&c, id, 0, true, "active");
    tells(&c, id, 0, 6, 0);
    later(&c, MINUTE - 5000);
    ok(lease_is(&c, id, 0, LEASE_ACTIVE), "with all of its grace");
    later(&c, 5000);
    ok(lease_is(&c, id, 0, LEASE_SUSPENDING), "and no more");
    close_control(&c);
}

/* It has begun something long, and waits for that. */
static void test_inside(void)
{
    struct control c;
    uint64_t id = begin_running(&c, 1);
    struct wire_msg m = word(&c, WIRE_ACTIVITY, id, 0, "active");

    m.inside = 1;
    home.ops->message(CONTROL_BLOCK, &m, &c);
    later(&c, 10 * MINUTE);
    ok(said(WIRE_SUSPEND, id, 0) == 0, "a thread waits for work there: in use");
    m.inside = 0;
    home.ops->message(CONTROL_BLOCK, &m, &c);
    later(&c, MINUTE - 5000);
    ok(said(WIRE_SUSPEND, id, 0) == 0, "it was until now");
    later(&c, 5000);
    ok(said(WIRE_SUSPEND, id, 0) == 1, "and then for too long not");
    close_control(&c);
}

static void test_kept(void)
{
    struct control c;
    uint64_t id = begin_running(&c, 1);

    tells(&c, id, 0, 1, 0);
    later(&c, MINUTE);
    moved(&c, id, 0, false, "active");
    ok(lease_is(&c, id, 0, LEASE_ACTIVE), "it could not leave");
    later(&c, 10 * MINUTE);
    ok(said(WIRE_SUSPEND, id, 0) == 1, "and is not asked again");
    tells(&c, id, 0, 2, 0);
    later(&c, MINUTE);
    ok(said(WIRE_SUSPEND, id, 0) == 2, "until it was at work once more");
    close_control(&c);
}

/* Of what came back from a backup an operator decides. */
static void test_quarantined(void)
{
    struct control c;
    uint64_t id = begin_running(&c, 1);

    tells(&c, id, 0, 1, 0);
    world_workload(c.world, id)->quarantined = true;
    later(&c, 10 * MINUTE);
    ok(said(WIRE_SUSPEND, id, 0) == 0, "in quarantine nothing is released");
    world_workload(c.world, id)->quarantined = false;
    later(&c, 1);
    ok(said(WIRE_SUSPEND, id, 0) == 1, "let go, it is");
    close_control(&c);
}

static void test_gang(void)
{
    struct control c;
    uint64_t id = begin_running(&c, 2);

    tells(&c, id, 0, 1, 0);
    later(&c, 10 * MINUTE);
    ok(said(WIRE_SUSPEND, id, ALL_RANKS) == 0, "of one rank nothing is known");
    tells(&c, id, 1, 1, 0);
    later(&c, MINUTE / 2);
    tells(&c, id, 1, 2, 0);
    later(&c, MINUTE / 2);
    ok(said(WIRE_SUSPEND, id, ALL_RANKS) == 0, "one rank is at work");
    later(&c, MINUTE / 2);
    ok(said(WIRE_SUSPEND, id, ALL_RANKS) == 2, "none is");
    tells(&c, id, 1, 2, 3);
    moved(&c, id, 0, true, "suspended");
    moved(&c, id, 1, true, "suspended");
    ok(said(WIRE_RESUME, id, ALL_RANKS) == 2,
       "one called on its way off: both come back at once");
    close_control(&c);
}

/* What was heard is forgotten; what was decided is not. */
static void test_killed(void)
{
    struct control c;
    uint64_t id = begin_running(&c, 1);
    struct wire_lease w = { .key = { id, 0, 0 }, .gen = 1, .state = "running",
                            .gate = "active" };
    struct wire_msg hi = { .kind = WIRE_HELLO, .v = WIRE_VERSION,
                           .leases = &w, .nleases = 1 };

    tells(&c, id, 0, 1, 0);
    later(&c, MINUTE / 2);
    close_control(&c);
    open_control(&c);
    block_up(&c, 1);
    w.epoch = world_epoch(c.world);
    home.here = true;
    home.ops->message(CONTROL_BLOCK, &hi, &c);
    tells(&c, id, 0, 1, 0);
    later(&c, MINUTE / 2);
    ok(lease_is(&c, id, 0, LEASE_ACTIVE), "the countdown begins anew");
    later(&c, MINUTE / 2);
    moved(&c, id, 0, true, "suspended");
    close_control(&c);
    open_control(&c);
    block_up(&c, 1);
    home.here = true;
    home.ops->message(CONTROL_BLOCK, &hi, &c);
    settle(&c);
    ok(said_awake(id), "not off as it should be: asked again, awake");
    tells(&c, id, 0, 1, 1);
    ok(said(WIRE_RESUME, id, 0) == 1, "and it comes back when it wants to");
    close_control(&c);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_way();
    test_inside();
    test_kept();
    test_quarantined();
    test_gang();
    test_killed();
    (void) fs_remove_tree(dir, NULL);
    return tap_done();
}
