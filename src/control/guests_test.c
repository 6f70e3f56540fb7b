#include "control/apart_bed.h"

#include "control/guests.h"

/* Pods of others as workloads, against an engine that is played (apart_bed.h).
 *
 * Pods: "NAME GPUS [KEY=VALUE]..." with numbers where they are digits alone.
 */
static void comes(struct control *c, const char *words)
{
    autofree char *text = mem_str(words);
    autojson json_t *o = json_object();
    char *rest = text;
    const char *name = strsep(&rest, " "), *word;

    json_put_str(o, "uid", name);
    json_put_str(o, "namespace", "ns");
    json_put_str(o, "name", name);
    json_put_str(o, "of", "maker");
    json_put_u64(o, "cpus_milli", 100);
    json_put_u64(o, "gpus", strtoul(strsep(&rest, " "), NULL, 10));
    while ((word = strsep(&rest, " "))) {
        autofree char *key = mem_str(word);
        char *value = strchr(key, '=');

        *value++ = '\0';
        if (value[strspn(value, "0123456789")])
            json_put_str(o, key, value);
        else
            json_put_u64(o, key, strtoul(value, NULL, 10));
    }
    stub.events->guest(o, stub.of);
    settle(c);
}

static void leaves(struct control *c, const char *uid)
{
    stub.events->guest_gone(uid, stub.of);
    settle(c);
}

/* The runner that was asked for it last, or "". */
static const char *runner_of(const char *uid)
{
    for (unsigned i = stub.nstarted; i-- > 0;)
        if (strcmp(stub.guest[i], uid) == 0)
            return stub.started[i].runner;
    return "";
}

static unsigned starts(const char *uid)
{
    unsigned n = 0;

    for (unsigned i = 0; i < stub.nstarted; i++)
        n += strcmp(stub.guest[i], uid) == 0;
    return n;
}

static const char *last_word(const char *uid)
{
    for (unsigned i = stub.ntold; i-- > 0;)
        if (strcmp(stub.told_of[i], uid) == 0)
            return stub.told[i];
    return "(nothing)";
}

static bool is_stopped(const char *runner)
{
    for (unsigned i = 0; i < stub.nstopped; i++)
        if (strcmp(stub.stopped[i], runner) == 0)
            return true;
    return false;
}

static void begun(struct control *c, const char *uid)
{
    stub.events->lease_begun(runner_of(uid), stub.of);
    settle(c);
}

static void over(struct control *c, const char *uid, enum spec_cause cause,
                 int status)
{
    stub.events->lease_over(runner_of(uid), cause, status, "so it is",
                            stub.of);
    settle(c);
}

static struct workload *living(const struct control *c, uint64_t id)
{
    return world_workload(c->world, id);
}

static bool ended(struct control *c, uint64_t id, const char *outcome,
                  const char *cause)
{
    struct told t = task_of(c, id);

    return !living(c, id) && strcmp(t.outcome, outcome) == 0 &&
           strcmp(t.cause, cause) == 0;
}

static void turn_later(struct control *c, unsigned ms)
{
    uint64_t end = clock_mono_ms() + ms;

    while (clock_mono_ms() < end)
        (void) loop_turn(c->loop, 20, NULL);
    settle(c);
}

/* ---- a life ---- */

static void test_life(void)
{
    const struct workload *wl;
    struct control c;

    begin_lab(&c);
    comes(&c, "p1 1");
    wl = living(&c, 1);
    ok(wl && wl->user.uid == GUEST_USER && strcmp(wl->who, "pool:lab") == 0 &&
       strcmp(wl->tenant_name, "default") == 0 &&
       strcmp(wl->spec->tasks[0].guest_pod, "ns/p1") == 0,
       "a pod is a workload");
    ok(starts("p1") == 1 && stub.started[0].gpus == 1, "it has its place");
    comes(&c, "p1 1");
    ok(!living(&c, 2), "told again, it is the same one");
    ok(wl && wl->tasks[0].state == TASK_STARTING, "it starts");
    begun(&c, "p1");
    ok(wl && wl->tasks[0].state == TASK_RUNNING, "it runs");
    begun(&c, "p1");
    over(&c, "p1", SPEC_CAUSE_NONE, 0);
    ok(ended(&c, 1, "succeeded", ""), "it ends well");
    ok(is_stopped(runner_of("p1")), "and its lease is let go");
    leaves(&c, "p1");
    comes(&c, "p1 1");
    ok(!living(&c, 2) && strcmp(last_word("p1"), "") == 0,
       "one that has ended is not submitted again, but dropped");
    close_control(&c);
}

static void test_ends(void)
{
    static const struct {
        enum spec_cause cause;
        int status;
        const char *name;
    } ends[] = {
        { SPEC_CAUSE_FAILED, 3, "failed" }, { SPEC_CAUSE_MEMORY, 137, "memory" },
        { SPEC_CAUSE_TAKEN, 0, "taken" }, { SPEC_CAUSE_NODE, 0, "node" },
        { SPEC_CAUSE_EVICTED, 0, "evicted" },
        { SPEC_CAUSE_DELETED, 0, "deleted" },
    };
    struct control c;

    begin_lab(&c);
    for (uint64_t i = 0; i < array_size(ends); i++) {
        autofree char *pod = mem_printf("p%d 1", (int) i);
        autofree char *uid = mem_printf("p%d", (int) i);

        comes(&c, pod);
        begun(&c, uid);
        over(&c, uid, ends[i].cause, ends[i].status);
        ok(ended(&c, i + 1, "failed", ends[i].name) && starts(uid) == 1,
           "%s: it is over for good", ends[i].name);
    }
    close_control(&c);
}

static void test_waits(void)
{
    struct control c;

    begin_lab(&c);
    comes(&c, "p1 2");
    comes(&c, "p2 1");
    ok(living(&c, 2)->tasks[0].state == TASK_WAITING, "one waits");
    turn_later(&c, 2500);
    ok(strstr(last_word("p2"), "devices") && strstr(last_word("p2"), "w2"),
       "and is told why: %s", last_word("p2"));
    leaves(&c, "p2");
    ok(ended(&c, 2, "aborted", "aborted"), "deleted, it is aborted");
    over(&c, "p1", SPEC_CAUSE_LOST, 0);
    ok(living(&c, 1) && living(&c, 1)->tasks[0].state == TASK_WAITING,
       "one that lost its place before it began waits again");
    comes(&c, "p3 9");
    turn_later(&c, 2500);
    ok(strstr(last_word("p3"), "never"), "what can never start says so: %s",
       last_word("p3"));
    comes(&c, "p4 1 tenant=nobody");
    ok(strstr(last_word("p4"), "nobody") && !living(&c, 4),
       "an unknown tenant is said: %s", last_word("p4"));
    close_control(&c);
}

static void abort_all(struct control *c, uint64_t id)
{
    struct err err = { 0 };
    struct event e;

    event_init(&e, EVENT_ABORTING);
    e.workload = id;
    if (journal_event(c, &e, NULL, NULL, &err) < 0)
        ok(false, "aborted: %s", err.text);
    settle(c);
}

static void test_abort(void)
{
    struct control c;

    begin_lab(&c);
    comes(&c, "p1 2");
    comes(&c, "p2 2");
    abort_all(&c, 2);
    ok(ended(&c, 2, "aborted", "aborted") && strcmp(last_word("p2"), "") == 0,
       "one that waits is dropped");
    begun(&c, "p1");
    abort_all(&c, 1);
    ok(living(&c, 1) && is_stopped(runner_of("p1")), "one that runs is "
       "stopped, and its end is waited for");
    over(&c, "p1", SPEC_CAUSE_DELETED, 0);
    ok(ended(&c, 1, "aborted", "aborted"), "then it is over");
    comes(&c, "p3 1");
    abort_all(&c, 3);
    ok(living(&c, 3) != NULL, "one that was not bound, too");
    over(&c, "p3", SPEC_CAUSE_LOST, 0);
    ok(ended(&c, 3, "aborted", "aborted") && strcmp(last_word("p3"), "") == 0,
       "and is dropped");
    close_control(&c);
}

static void test_gang(void)
{
    struct control c;

    begin_lab(&c);
    comes(&c, "p0 1");
    comes(&c, "p1 1 gang=g gang-size=2");
    turn_later(&c, 2500);
    ok(!living(&c, 2) && strstr(last_word("p1"), "1 of its 2"),
       "a gang is waited for: %s", last_word("p1"));
    comes(&c, "p2 1 gang=g gang-size=2");
    ok(living(&c, 2) && living(&c, 2)->spec->ntasks == 2,
       "all are there: one workload");
    ok(starts("p1") == 0 && starts("p2") == 0, "for which there is no room");
    begun(&c, "p0");
    over(&c, "p0", SPEC_CAUSE_NONE, 0);
    ok(starts("p1") == 1 && starts("p2") == 1, "it starts together");
    comes(&c, "p3 1 gang=g gang-size=2");
    leaves(&c, "p3");
    comes(&c, "p4 1 gang=g gang-size=2");
    ok(!living(&c, 3), "one that left does not count");
    close_control(&c);
}

/* ---- starts ---- */

static void test_killed(void)
{
    char runner[RUNNER_NAME_SIZE];
    struct control c;

    begin_lab(&c);
    comes(&c, "p1 1");
    comes(&c, "p2 2");
    (void) snprintf(runner, sizeof runner, "%s", runner_of("p1"));
    kill_and_start(&c);
    ok(starts("p1") == 1 && strcmp(runner_of("p1"), runner) == 0 &&
       !stub.started[0].begun, "after a kill it is asked for as before");
    comes(&c, "p2 2");
    lab_comes(&c);
    ok(living(&c, 1) && living(&c, 2) && !living(&c, 3),
       "and nothing is submitted again");
    begun(&c, "p1");
    kill_and_start(&c);
    ok(starts("p1") == 1 && stub.started[0].begun, "what has begun has begun");
    lab_comes(&c);
    ok(ended(&c, 2, "aborted", "aborted"),
       "what is not there any more does not wait");
    over(&c, "p1", SPEC_CAUSE_NONE, 0);
    ok(ended(&c, 1, "succeeded", ""), "and it ends");
    close_control(&c);
}

static void test_pool(void)
{
    struct err err = { 0 };
    struct control c;
    struct event e;

    begin_lab(&c);
    comes(&c, "p1 1");
    comes(&c, "p2 2");
    begun(&c, "p1");
    over(&c, "p1", SPEC_CAUSE_NONE, 0);
    over(&c, "p2", SPEC_CAUSE_LOST, 0);
    ok(living(&c, 2)->tasks[0].state == TASK_WAITING, "one waits");
    event_init(&e, EVENT_POOL_REMOVED);
    e.data = json_pack("{s:s}", "name", "lab");
    ok(journal_event(&c, &e, NULL, NULL, &err) == 0, "its pool is removed: %s",
       err.text);
    settle(&c);
    ok(ended(&c, 2, "aborted", "aborted"), "so it waits no more");
    close_control(&c);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_life();
    test_ends();
    test_waits();
    test_abort();
    test_gang();
    test_killed();
    test_pool();
    (void) fs_remove_tree(dir, NULL);
    return tap_done();
}
