#include "control/apart_bed.h"

/* Leases that have a runner of their own, against an engine (apart_bed.h) and
 * runners that are played.
 */

static void name_of(uint64_t id, unsigned rank, unsigned gen, char *buf)
{
    struct runner_name n = { .block = "lab/n1", .alone = true,
                             .key = { id, 0, rank }, .gen = gen };

    runner_name_print(&n, buf, RUNNER_NAME_SIZE);
}

/* It dials in, and has the lease in that state (NULL: it has not). */
static void comes_as(struct control *c, uint64_t id, unsigned rank,
                     unsigned gen, const char *state)
{
    struct wire_lease l = { .key = { id, 0, rank }, .gen = gen };
    struct wire_msg m = { .kind = WIRE_HELLO, .v = WIRE_VERSION,
                          .leases = &l, .nleases = state ? 1 : 0 };
    int i = 0;

    name_of(id, rank, gen, m.block);
    (void) snprintf(l.state, sizeof l.state, "%s", state ? state : "");
    (void) snprintf(m.address, sizeof m.address, "10.0.0.%u", rank + 1);
    while (home.alone[i][0] && strcmp(home.alone[i], m.block) != 0)
        i++;
    memcpy(home.alone[i], m.block, sizeof m.block);
    home.ops->message(m.block, &m, c);
    settle(c);
}

static void comes_here(struct control *c, uint64_t id, unsigned rank)
{
    comes_as(c, id, rank, 1, NULL);
}

static void goes(struct control *c, uint64_t id, unsigned rank)
{
    char name[RUNNER_NAME_SIZE];

    name_of(id, rank, 1, name);
    for (int i = 0; i < ALONE_MAX; i++)
        if (strcmp(home.alone[i], name) == 0)
            home.alone[i][0] = '\0';
    home.ops->gone(name, c);
}

static void says(struct control *c, enum wire_kind kind, uint64_t id,
                 unsigned rank, const char *cause)
{
    struct wire_msg m = { .kind = kind, .key = { id, 0, rank }, .gen = 1,
                          .started_ms = 1, .ended_ms = 2 };
    char name[RUNNER_NAME_SIZE];

    name_of(id, rank, 1, name);
    (void) snprintf(m.cause, sizeof m.cause, "%s", cause);
    home.ops->message(name, &m, c);
    settle(c);
}

/* How often it was said to the very runner of that lease. */
static unsigned told(enum wire_kind kind, uint64_t id, unsigned rank)
{
    char name[RUNNER_NAME_SIZE];
    unsigned n = 0;

    name_of(id, rank, 1, name);
    for (unsigned i = 0; i < home.nsaid; i++)
        n += home.said[i].kind == kind &&
             strcmp(home.said[i].block, name) == 0;
    return n;
}

static unsigned stops(uint64_t id, unsigned rank, unsigned gen)
{
    char name[RUNNER_NAME_SIZE];
    unsigned n = 0;

    name_of(id, rank, gen, name);
    for (unsigned i = 0; i < stub.nstopped; i++)
        n += strcmp(stub.stopped[i], name) == 0;
    return n;
}

/* What was asked for that runner last; of nothing, when it was not. */
static const struct asked *asked_of(uint64_t id, unsigned rank, unsigned gen)
{
    static const struct asked none;
    char name[RUNNER_NAME_SIZE];

    name_of(id, rank, gen, name);
    for (unsigned i = stub.nstarted; i-- > 0;)
        if (strcmp(stub.started[i].runner, name) == 0)
            return &stub.started[i];
    return &none;
}

static bool is_asked(uint64_t id, unsigned rank, unsigned gen)
{
    return asked_of(id, rank, gen)->runner[0] != '\0';
}

static const struct task *task_in(const struct control *c, uint64_t id)
{
    const struct workload *w = world_workload(c->world, id);

    return w ? &w->tasks[0] : NULL;
}

static void abort_all(struct control *c, uint64_t id)
{
    struct err err = { 0 };
    struct event e;

    event_init(&e, EVENT_ABORTING);
    e.workload = id;
    e.task = EVENT_ALL;
    if (journal_event(c, &e, NULL, NULL, &err) < 0)
        ok(false, "aborted: %s", err.text);
    settle(c);
}

static void over(struct control *c, uint64_t id, unsigned rank, unsigned gen,
                 enum spec_cause cause, const char *why)
{
    char name[RUNNER_NAME_SIZE];

    name_of(id, rank, gen, name);
    stub.events->lease_over(name, cause, 0, why, stub.of);
    settle(c);
}

static bool ended(struct control *c, uint64_t id, const char *outcome)
{
    return strcmp(task_of(c, id).outcome, outcome) == 0;
}

/* ---- a life ---- */

static void test_life(void)
{
    const struct asked *a;
    struct control c;
    uint64_t id;

    begin_lab(&c);
    ok(strlen(stub.instance) == 16, "the engine knows whose it is: %s",
       stub.instance);
    ok(!world_block(c.world, "lab/n1")->stages, "nothing stands ready there");
    id = submit(&c, 1, 1);
    a = asked_of(id, 0, 1);
    ok(stub.nstarted == 1 && !a->begun && a->gpus == 1 &&
       strcmp(a->block, "lab/n1") == 0 && strcmp(a->task, "j") == 0,
       "planned: its runner is asked for");
    ok(said(WIRE_ORDER, id, ALL_RANKS) == 0, "and nobody is ordered yet");
    comes_here(&c, id, 0);
    ok(told(WIRE_WELCOME, id, 0) == 1 && told(WIRE_ORDER, id, 0) == 1,
       "it comes, and is ordered");
    ok(!home.gated, "without a gate");
    ok(home.stop_signal == task_in(&c, id)->spec->stop_signal &&
       home.stop_signal > 0 &&
       home.stop_grace_ms == task_in(&c, id)->spec->stop_grace_ms,
       "with how it is to end when it is told to there: signal %d, %u ms",
       home.stop_signal, (unsigned) home.stop_grace_ms);
    says(&c, WIRE_CLAIM, id, 0, "");
    ok(told(WIRE_GRANT, id, 0) == 1 &&
       task_in(&c, id)->state == TASK_RUNNING, "claimed and granted");
    ok(stub.nstopped == 0, "it is not stopped");
    says(&c, WIRE_ENDED, id, 0, "none");
    ok(told(WIRE_ACK, id, 0) == 1 && told(WIRE_QUIT, id, 0) == 1 &&
       stops(id, 0, 1) == 1, "ended: acknowledged, and let go");
    ok(ended(&c, id, "succeeded"), "and that is all");
    says(&c, WIRE_ENDED, id, 0, "none");
    ok(told(WIRE_ACK, id, 0) == 2, "an end told again is acknowledged");
    goes(&c, id, 0);
    comes_as(&c, id, 0, 1, "ended");
    ok(told(WIRE_ACK, id, 0) == 3 && told(WIRE_QUIT, id, 0) == 2 &&
       stops(id, 0, 1) == 2, "so is one that comes back with it");
    close_control(&c);
}

static void test_admit(void)
{
    char name[RUNNER_NAME_SIZE], again_token[IDENTITY_TOKEN_SIZE];
    const struct asked *a;
    struct control c;
    uint64_t id;

    begin_lab(&c);
    id = submit(&c, 1, 1);
    a = asked_of(id, 0, 1);
    name_of(id, 0, 1, name);
    ok(strlen(a->token) == 64 && blocks_admit(name, a->token, &c),
       "a runner is known by its token");
    ok(!blocks_admit(name, "", &c) && !blocks_admit("lab/n1", "", &c) &&
       !blocks_admit("lab/n1", a->token, &c), "and by no other; its block has "
       "no runner");
    name_of(id, 0, 2, name);
    ok(!blocks_admit(name, a->token, &c), "nor is it another attempt's");
    ok(!blocks_admit("local#w1/0.0#1@0", a->token, &c),
       "where leases are not apart none has its own");
    identity_token(&c, "local#w1/0.0#1@0", again_token);
    ok(!blocks_admit("local#w1/0.0#1@0", again_token, &c),
       "whatever its token");
    name_of(99, 0, 1, name);
    identity_token(&c, name, again_token);
    ok(blocks_admit(name, again_token, &c), "of a lease that nobody knows: let "
       "in, to be told");
    comes_as(&c, 99, 0, 1, "running");
    ok(said(WIRE_STOP, 99, 0) == 1 && said(WIRE_QUIT, 99, 0) == 1 &&
       stops(99, 0, 1) == 1, "that nobody wants it");
    name_of(id, 0, 1, name);
    identity_token(&c, name, again_token);
    kill_and_start(&c);
    ok(strcmp(asked_of(id, 0, 1)->token, again_token) == 0,
       "the token is the same after a kill");
    close_control(&c);
}

/* ---- gangs ---- */

static void test_gang(void)
{
    struct control c;
    uint64_t id;

    begin_lab(&c);
    id = submit(&c, 2, 1);
    ok(stub.nstarted == 2, "a runner for each rank");
    comes_here(&c, id, 1);
    ok(said(WIRE_ORDER, id, ALL_RANKS) == 0, "one is here: it waits");
    goes(&c, id, 1);
    comes_here(&c, id, 0);
    ok(said(WIRE_ORDER, id, ALL_RANKS) == 0, "it went, the other came: still");
    comes_here(&c, id, 1);
    ok(told(WIRE_ORDER, id, 0) == 1 && told(WIRE_ORDER, id, 1) == 1,
       "both are here: each is ordered, once");
    for (unsigned i = 0; i < home.nsaid; i++)
        if (home.said[i].kind == WIRE_ORDER)
            ok(strncmp(home.said[i].address, "10.0.0.1:", 9) == 0,
               "they meet where the first one is: %s", home.said[i].address);
    says(&c, WIRE_CLAIM, id, 0, "");
    goes(&c, id, 0);
    goes(&c, id, 1);
    comes_here(&c, id, 1);
    ok(told(WIRE_ORDER, id, 1) == 1, "begun, and nobody knows where to meet: "
       "it waits");
    comes_as(&c, id, 0, 1, "running");
    comes_as(&c, id, 1, 1, "new");
    ok(told(WIRE_ORDER, id, 1) == 2 && told(WIRE_ORDER, id, 0) == 1,
       "then the other is ordered again");
    says(&c, WIRE_CLAIM, id, 1, "");
    says(&c, WIRE_ENDED, id, 0, "none");
    says(&c, WIRE_ENDED, id, 1, "none");
    ok(ended(&c, id, "succeeded") && stops(id, 0, 1) == 1 &&
       stops(id, 1, 1) == 1, "and the gang ends");
    close_control(&c);
}

/* One rank is lost before the others were ordered. */
static void test_gang_lost(void)
{
    struct control c;
    uint64_t id;

    begin_lab(&c);
    id = submit(&c, 2, 1);
    comes_here(&c, id, 0);
    over(&c, id, 1, 1, SPEC_CAUSE_TAKEN, "another has its place");
    ok(said(WIRE_ORDER, id, ALL_RANKS) == 0 && stops(id, 0, 1) == 1,
       "the other is never ordered, and let go");
    for (int i = 0; i < TURNS && !is_asked(id, 0, 2); i++)
        (void) loop_turn(c.loop, 10, NULL);
    ok(is_asked(id, 0, 2) && is_asked(id, 1, 2),
       "and both are asked for again, as another attempt");
    close_control(&c);
}

static void test_room(void)
{
    char name[RUNNER_NAME_SIZE];
    struct control c;
    uint64_t id;

    begin_lab(&c);
    home.room = 1;
    id = submit(&c, 2, 1);
    comes_here(&c, id, 0);
    comes_here(&c, id, 1);
    ok(said(WIRE_ORDER, id, ALL_RANKS) == 1, "room for one order");
    home.room = ROOM_ENOUGH;
    name_of(id, 1, 1, name);
    home.ops->drained(name, &c);
    ok(told(WIRE_ORDER, id, 0) == 1 && told(WIRE_ORDER, id, 1) == 1,
       "drained: the other");
    close_control(&c);
}

/* ---- stops ---- */

static void test_stop(void)
{
    struct control c;
    uint64_t id;

    begin_lab(&c);
    id = submit(&c, 1, 1);
    abort_all(&c, id);
    ok(ended(&c, id, "aborted") && stops(id, 0, 1) == 1,
       "told to stop before it came: ended at once");
    comes_here(&c, id, 0);
    ok(told(WIRE_ORDER, id, 0) == 0 && told(WIRE_QUIT, id, 0) == 1 &&
       stops(id, 0, 1) == 2, "and when it comes it may go");

    id = submit(&c, 1, 1);
    comes_here(&c, id, 0);
    abort_all(&c, id);
    ok(ended(&c, id, "aborted") && stops(id, 0, 1) == 1,
       "ordered and not claimed: the same");
    says(&c, WIRE_CLAIM, id, 0, "");
    ok(told(WIRE_GRANT, id, 0) == 1 && !home.said[home.nsaid - 1].ok,
       "a claim is refused");

    id = submit(&c, 1, 1);
    comes_here(&c, id, 0);
    says(&c, WIRE_CLAIM, id, 0, "");
    goes(&c, id, 0);
    abort_all(&c, id);
    ok(task_in(&c, id)->state == TASK_ENDING && stops(id, 0, 1) == 0,
       "claimed and away: waited for");
    comes_as(&c, id, 0, 1, "running");
    ok(told(WIRE_STOP, id, 0) == 1, "back: told to stop");
    says(&c, WIRE_ENDED, id, 0, "signalled");
    ok(ended(&c, id, "aborted") && stops(id, 0, 1) == 1, "and it ends");

    id = submit(&c, 1, 1);
    comes_here(&c, id, 0);
    says(&c, WIRE_CLAIM, id, 0, "");
    goes(&c, id, 0);
    abort_all(&c, id);
    over(&c, id, 0, 1, SPEC_CAUSE_DELETED, "somebody deleted it");
    ok(ended(&c, id, "aborted"), "or its engine says that it is over");

    id = submit(&c, 1, 1);
    comes_here(&c, id, 0);
    says(&c, WIRE_CLAIM, id, 0, "");
    goes(&c, id, 0);
    abort_all(&c, id);
    comes_as(&c, id, 0, 1, NULL);
    ok(ended(&c, id, "aborted"), "or its runner comes without it");
    close_control(&c);
}

/* ---- what engines say ---- */

static void test_over(void)
{
    struct control c;
    uint64_t id;

    begin_lab(&c);
    id = submit(&c, 1, 1);
    over(&c, id, 0, 2, SPEC_CAUSE_LOST, "another attempt");
    over(&c, id, 1, 1, SPEC_CAUSE_LOST, "another rank");
    over(&c, id + 1, 0, 1, SPEC_CAUSE_LOST, "another workload");
    stub.events->lease_over("lab/n1", SPEC_CAUSE_LOST, 0, "", stub.of);
    stub.events->lease_over("what?", SPEC_CAUSE_LOST, 0, "", stub.of);
    stub.events->lease_over("local#w1/0.0#1@0", SPEC_CAUSE_LOST, 0, "",
                            stub.of);
    settle(&c);
    ok(task_in(&c, id)->state == TASK_STARTING, "what is none of it changes "
       "nothing");
    over(&c, id, 0, 1, SPEC_CAUSE_EVICTED, "the node was low on \xff memory");
    ok(task_in(&c, id)->cause == SPEC_CAUSE_EVICTED &&
       task_in(&c, id)->tries == 0, "evicted: it will be tried again");
    ok(strcmp(task_reason(task_in(&c, id)),
              "the node was low on \xef\xbf\xbd memory") == 0,
       "why is kept: %s", task_reason(task_in(&c, id)));
    ok(stops(id, 0, 1) == 1, "what is left of it is stopped");
    over(&c, id, 0, 1, SPEC_CAUSE_LOST, "told again");
    ok(task_in(&c, id)->cause == SPEC_CAUSE_EVICTED, "the first word counts");
    for (int i = 0; i < TURNS && !is_asked(id, 0, 2); i++)
        (void) loop_turn(c.loop, 10, NULL);
    comes_as(&c, id, 0, 1, "running");
    ok(told(WIRE_STOP, id, 0) == 1 && told(WIRE_QUIT, id, 0) == 1 &&
       stops(id, 0, 1) == 2 && stops(id, 0, 2) == 0,
       "a runner of the attempt before goes, this one's stays");
    over(&c, id, 0, 2, SPEC_CAUSE_NONE, "it is said to be well");
    ok(task_in(&c, id)->cause == SPEC_CAUSE_LOST, "without its runner's word "
       "nothing ended well");
    abort_all(&c, id);

    id = submit(&c, 1, 1);
    over(&c, id, 0, 1, SPEC_CAUSE_REFUSED, "a quota");
    ok(ended(&c, id, "failed") &&
       strcmp(task_of(&c, id).cause, "refused") == 0, "refused is the end");
    stub.refuses = EINVAL;
    id = submit(&c, 1, 1);
    ok(ended(&c, id, "failed") &&
       strcmp(task_of(&c, id).cause, "refused") == 0, "so is what cannot even "
       "be asked for");
    stub.refuses = EIO;
    id = submit(&c, 2, 1);
    ok(task_in(&c, id)->cause == SPEC_CAUSE_LOST, "what could not be asked for "
       "now is tried again");
    close_control(&c);
}

/* The first word of the runner counts as well. */
static void test_both(void)
{
    struct control c;
    uint64_t id;

    begin_lab(&c);
    id = submit(&c, 1, 1);
    comes_here(&c, id, 0);
    says(&c, WIRE_CLAIM, id, 0, "");
    says(&c, WIRE_ENDED, id, 0, "none");
    over(&c, id, 0, 1, SPEC_CAUSE_LOST, "it is gone");
    ok(ended(&c, id, "succeeded"), "an end is not undone by its pod's");
    close_control(&c);
}

static void test_find(void)
{
    char living[RUNNER_NAME_SIZE];
    struct control c;
    uint64_t id;

    begin_lab(&c);
    id = submit(&c, 1, 1);
    name_of(id, 0, 1, living);
    stub.finds = json_pack("[s,s,s,s,s]", living, "lab/n1#w77/0.0#1@0",
                           "lab/n2#w1/0.0#1@0", "far/n1#w1/0.0#1@0", "lab/n1");
    stub.events->state(false, "it does not answer", stub.of);
    stub.events->state(true, "", stub.of);
    ok(stops(77, 0, 1) == 1 && stub.nstopped == 2, "what is there and not "
       "wanted is stopped, and nothing else");
    ok(stops(id, 0, 1) == 0, "what is wanted is not");
    json_decref(take(stub.finds));
    stub.finds = json_pack("[s,s]", living, "lab/n1#w78/0.0#1@0");
    stub.events->changed(stub.of);
    ok(stops(78, 0, 1) == 1 && stub.nstopped == 3, "so is what is found later");
    json_decref(take(stub.finds));
    close_control(&c);
}

/* ---- kills ---- */

static void test_again(void)
{
    uint64_t planned, claimed;
    struct control c;

    begin_lab(&c);
    claimed = submit(&c, 1, 1);
    comes_here(&c, claimed, 0);
    says(&c, WIRE_CLAIM, claimed, 0, "");
    planned = submit(&c, 1, 1);
    comes_here(&c, planned, 0);
    kill_and_start(&c);
    ok(stub.nstarted == 2 && asked_of(claimed, 0, 1)->begun &&
       !asked_of(planned, 0, 1)->begun, "started again: asked for, and which "
       "may have begun");
    lab_comes(&c);
    comes_as(&c, claimed, 0, 1, "running");
    ok(told(WIRE_ORDER, claimed, 0) == 0 && told(WIRE_STOP, claimed, 0) == 0,
       "what runs is left alone");
    comes_as(&c, planned, 0, 1, "new");
    ok(told(WIRE_ORDER, planned, 0) == 1, "what was ordered is ordered again");
    says(&c, WIRE_CLAIM, planned, 0, "");
    says(&c, WIRE_ENDED, planned, 0, "none");
    ok(ended(&c, planned, "succeeded"), "and ends");
    says(&c, WIRE_ENDED, claimed, 0, "none");
    ok(ended(&c, claimed, "succeeded"), "as does the other");

    claimed = submit(&c, 1, 1);
    comes_here(&c, claimed, 0);
    says(&c, WIRE_CLAIM, claimed, 0, "");
    kill_and_start(&c);
    lab_comes(&c);
    over(&c, claimed, 0, 1, SPEC_CAUSE_LOST, "it is not there any more");
    ok(task_in(&c, claimed)->cause == SPEC_CAUSE_LOST &&
       task_in(&c, claimed)->gen == 1, "what is gone is lost, and is not begun "
       "again under its number");
    close_control(&c);
}

/* Whoever only looks can stop nothing. */
static void test_observe(void)
{
    autojson json_t *words = json_object();
    struct err err = { 0 };
    struct control c;
    uint64_t id;

    begin_lab(&c);
    ok(pools_check("lab", "stub", words, true, &err, &c) == 0,
       "a pool where nothing runs may become one that is looked at");
    id = submit(&c, 1, 1);
    ok(pools_check("lab", "stub", words, true, &err, &c) == -EBUSY &&
       strstr(err.text, "has 1 lease that"), "not so where something does: %s",
       err.text);
    ok(pools_check("lab", "stub", words, false, &err, &c) == 0,
       "but it may be told something else");
    comes_here(&c, id, 0);
    says(&c, WIRE_CLAIM, id, 0, "");
    says(&c, WIRE_ENDED, id, 0, "none");
    ok(pools_check("lab", "stub", words, true, &err, &c) == 0,
       "and when it has ended");
    close_control(&c);
}

/* After a restore nobody knows what was claimed since. */
static void test_restored(void)
{
    struct err err = { 0 };
    struct control c;
    struct event e;
    uint64_t id;

    begin_lab(&c);
    id = submit(&c, 1, 1);
    c.wall_base += 1000;
    event_init(&e, EVENT_RESTORED);
    e.epoch = 5;
    ok(journal_event(&c, &e, NULL, NULL, &err) == 0, "restored %s", err.text);
    settle(&c);
    ok(serve_epochs(&c, &err) == 0 && c.nepochs == 2, "two epochs %s",
       err.text);
    stub.nstarted = 0;
    apart_again(stub.of);
    ok(stub.nstarted == 1 && stub.started[0].begun, "planned before: it may "
       "have begun");
    comes_as(&c, id, 0, 1, "running");
    event_init(&e, EVENT_RELEASED);
    e.workload = id;
    e.force = true;
    ok(journal_event(&c, &e, NULL, NULL, &err) == 0, "released %s", err.text);
    settle(&c);
    ok(told(WIRE_STOP, id, 0) == 1 && task_in(&c, id), "and is told to stop, "
       "under its old name");
    says(&c, WIRE_ENDED, id, 0, "signalled");
    ok(stops(id, 0, 1) == 1 && !task_in(&c, id), "until it has ended");
    free(c.epochs);
    close_control(&c);
}

/* A restored store gives numbers again that were given before. */
static void test_namesake(void)
{
    char name[RUNNER_NAME_SIZE];
    struct runner_name old = { .block = "lab/n1", .alone = true, .gen = 1,
                               .epoch = 7 };
    struct control c;
    uint64_t id;

    begin_lab(&c);
    id = submit(&c, 1, 1);
    comes_here(&c, id, 0);
    says(&c, WIRE_CLAIM, id, 0, "");
    old.key = (struct lease_key) { id, 0, 0 };
    runner_name_print(&old, name, sizeof name);
    home.ops->gone(name, &c);
    abort_all(&c, id);
    ok(told(WIRE_STOP, id, 0) == 1 && task_in(&c, id), "a namesake of another "
       "epoch that goes takes nothing along: it is told to stop");
    says(&c, WIRE_ENDED, id, 0, "signalled");
    ok(!task_in(&c, id), "and has ended when it says so");
    close_control(&c);
}

/* ---- what they print, and what they may not say ---- */

static void prints(struct control *c, uint64_t id, uint64_t of)
{
    char bytes[] = "hello", name[RUNNER_NAME_SIZE];
    struct wire_msg m = { .kind = WIRE_OUTPUT, .key = { of, 0, 0 }, .gen = 1,
                          .offset = 7, .bytes = bytes, .nbytes = 5 };

    name_of(id, 0, 1, name);
    home.ops->message(name, &m, c);
}

static void test_says(void)
{
    struct control c;
    uint64_t id, other;

    begin_lab(&c);
    id = submit(&c, 1, 1);
    other = submit(&c, 1, 1);
    comes_here(&c, id, 0);
    comes_here(&c, other, 0);
    says(&c, WIRE_CLAIM, id, 0, "");
    prints(&c, id, id);
    ok(told(WIRE_HEARD, id, 0) == 1 &&
       home.said[home.nsaid - 1].offset == 12, "what it prints is kept");
    stub.full = true;
    prints(&c, id, id);
    ok(told(WIRE_HEARD, id, 0) == 1, "without room it is not heard");
    stub.full = false;
    prints(&c, id, other);
    ok(told(WIRE_HEARD, id, 0) == 1 && told(WIRE_HEARD, other, 0) == 0,
       "nor is what it prints for another");
    {
        struct wire_msg m = { .kind = WIRE_ENDED, .key = { other, 0, 0 },
                              .gen = 1, .cause = "none", .ended_ms = 2 };
        char name[RUNNER_NAME_SIZE];

        name_of(id, 0, 1, name);
        home.ops->message(name, &m, &c);
        settle(&c);
    }
    ok(task_in(&c, other)->leases_left == 1, "nobody ends another's lease");
    says(&c, WIRE_ENDED, id, 0, "none");
    prints(&c, id, id);
    ok(told(WIRE_HEARD, id, 0) == 1, "nor prints after its end");
    close_control(&c);
}

static void test_key(void)
{
    autofree char *path = mem_printf("%s/runners.key", dir);
    struct err err = { 0 };
    struct control c;
    struct stat st;

    begin_lab(&c);
    ok(stat(path, &st) == 0 && st.st_size == 32 && (st.st_mode & 0777) == 0600,
       "a key, for nobody else");
    (void) fs_write(path, "short", 5, 0600, false, NULL);
    ok(identity_open(&c, &err) == -EBADMSG && strstr(err.text, "runners.key"),
       "what is no key is refused: %s", err.text);
    close_control(&c);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_life();
    test_admit();
    test_gang();
    test_gang_lost();
    test_room();
    test_stop();
    test_over();
    test_both();
    test_find();
    test_again();
    test_observe();
    test_restored();
    test_namesake();
    test_says();
    test_key();
    (void) fs_remove_tree(dir, NULL);
    return tap_done();
}
