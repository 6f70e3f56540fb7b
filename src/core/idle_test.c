#include "core/testing.h"
#include "core/why.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

/* Tasks that leave devices which they do not use, and want them again. */
enum { SECOND = 1000, MINUTE = 60 * SECOND };
#define GIB (UINT64_C(1) << 30)

static uint64_t submit(struct sim *s, uint64_t grace_ms, enum spec_idle how)
{
    struct spec *spec = sim_spec(1);

    spec->tasks[0].gpu_milli = 1000;
    spec->tasks[0].idle_grace_ms = grace_ms;
    spec->tasks[0].idle_release = how;
    return sim_submit(s, spec);
}

static uint64_t open_running(struct sim *s, uint64_t grace_ms)
{
    uint64_t id;

    sim_open(s);
    s->suspends = true;
    sim_block(s, "b", 1, "H100", 8);
    id = submit(s, grace_ms, SPEC_IDLE_MAY);
    (void) sim_claim(s, id, 0, 0, 1);
    return id;
}

static int release(struct sim *s, uint64_t id)
{
    return sim_on_task(s, EVENT_SUSPENDING, id,
                   json_pack("{s:s,s:s,s:I,s:I}", "why", "idle", "kind",
                             "launch", "used_ms",
                             (json_int_t) (s->now - MINUTE), "grace_ms",
                             (json_int_t) MINUTE));
}

static int wanted(struct sim *s, uint64_t id)
{
    return sim_on_task(s, EVENT_RECALLED, id,
                       json_pack("{s:s}", "why", "wanted"));
}

static int moved(struct sim *s, enum event_type type, uint64_t id)
{
    return sim_on_task(s, type, id, json_pack("{s:I,s:i,s:s,s:s}", "bytes",
                   (json_int_t) GIB, "ms", 500, "reason", "busy", "text",
                   "its kernels do not end"));
}

static enum lease_state lease(const struct sim *s, uint64_t id)
{
    return sim_task(s, id, 0)->leases[0].state;
}

/* The policy's, the tenant's before it, the document's where it is shorter. */
static void test_grace(void)
{
    struct sim s;
    uint64_t id = open_running(&s, 0);
    const struct task *t = sim_task(&s, id, 0);

    ok(task_idle_grace_ms(s.w, t) == 0, "nobody is released unless said");
    sim_policy(&s, 1, json_pack("{s:i,s:s,s:s}", "weir", 1, "kind", "policy",
                                "idle_grace", "10m"));
    ok(task_idle_grace_ms(s.w, t) == 10 * MINUTE, "the policy's");
    (void) sim_tenant(&s, "t", json_pack("{s:i}", "idle_grace_ms",
                                         20 * MINUTE));
    ok(task_idle_grace_ms(s.w, t) == 20 * MINUTE && sim_twin(&s),
       "the tenant's before it");
    ok(sim_tenant(&s, "t", json_pack("{s:s}", "idle_grace_ms", "x")) ==
       -EINVAL, "%s", s.err.text);
    sim_end(&s, id, 0, 0, 0);
    id = submit(&s, 5 * MINUTE, SPEC_IDLE_MAY);
    (void) sim_claim(&s, id, 0, 0, 1);
    ok(task_idle_grace_ms(s.w, sim_task(&s, id, 0)) == 5 * MINUTE,
       "its own is shorter");
    sim_end(&s, id, 0, 0, 0);
    id = submit(&s, 60 * MINUTE, SPEC_IDLE_MAY);
    (void) sim_claim(&s, id, 0, 0, 1);
    ok(task_idle_grace_ms(s.w, sim_task(&s, id, 0)) == 20 * MINUTE,
       "and cannot be longer");
    sim_end(&s, id, 0, 0, 0);
    id = submit(&s, 5 * MINUTE, SPEC_IDLE_NEVER);
    (void) sim_claim(&s, id, 0, 0, 1);
    ok(task_idle_grace_ms(s.w, sim_task(&s, id, 0)) == 0 &&
       release(&s, id) == -EINVAL && strstr(s.err.text, "does not bear"),
       "%s", s.err.text);
    close_checked(&s, "grace");
}

static void test_way(void)
{
    struct sim s;
    uint64_t id = open_running(&s, MINUTE), other;
    const struct task *t = sim_task(&s, id, 0);
    struct why y;

    sim_wait(&s, 2 * MINUTE);
    ok(wanted(&s, id) == -ESTALE, "%s", s.err.text);
    ok(release(&s, id) == 0 && lease(&s, id) == LEASE_SUSPENDING &&
       t->away->awake, "it leaves, with its threads running");
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id);
    sim_wait(&s, 10 * MINUTE);
    ok(t->state == TASK_SUSPENDED && !t->in_line && sim_twin(&s),
       "it does not come back while it does not want to");
    why_task(s.w, t, s.now, &y);
    ok(y.code == WHY_SUSPENDED && strstr(y.text, "did not use its devices") &&
       strstr(y.text, "(launch)") && strstr(y.suspended, "it was idle"),
       "%s %s", y.text, y.suspended);
    other = submit(&s, 0, SPEC_IDLE_MAY);
    (void) sim_claim(&s, other, 0, 0, 1);
    ok(sim_state(&s, other, 0) == TASK_RUNNING, "another has its device");
    ok(wanted(&s, id) == 0 && t->in_line && t->state == TASK_SUSPENDED,
       "it wants it back, and is in line");
    ok(wanted(&s, id) == -ESTALE, "%s", s.err.text);
    why_task(s.w, t, s.now, &y);
    ok(y.position == 1 && y.code != WHY_SUSPENDED && sim_twin(&s), "%s",
       y.text);
    sim_end(&s, other, 0, 0, 0);
    ok(lease(&s, id) == LEASE_RESUMING, "its turn comes");
    (void) moved(&s, EVENT_LEASE_RESUMED, id);
    ok(t->state == TASK_RUNNING && t->gen == 1, "and it runs on");
    sim_end(&s, id, 0, 0, 0);
    close_checked(&s, "way");
}

/* It calls the driver while it is being suspended. */
static void test_race(void)
{
    struct sim s;
    uint64_t id = open_running(&s, MINUTE);

    (void) release(&s, id);
    ok(wanted(&s, id) == 0 && lease(&s, id) == LEASE_SUSPENDING,
       "wanted on its way off");
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id);
    ok(lease(&s, id) == LEASE_RESUMING, "it comes back at once");
    (void) moved(&s, EVENT_LEASE_RESUMED, id);
    close_checked(&s, "race");
}

/* An operator keeps off what was idle; or brings it back. */
static void test_operator(void)
{
    struct sim s;
    uint64_t id = open_running(&s, MINUTE);
    const struct task *t = sim_task(&s, id, 0);

    (void) release(&s, id);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id);
    ok(sim_on_task(&s, EVENT_SUSPENDING, id,
                   json_pack("{s:s}", "why", "asked")) == 0 &&
       t->away->held && t->away->awake, "kept off");
    ok(wanted(&s, id) == 0 && !t->in_line && sim_twin(&s),
       "it wants its device, in vain");
    world_free(take(s.twin));
    ok(sim_on_task(&s, EVENT_RECALLED, id, NULL) == 0 &&
       lease(&s, id) == LEASE_RESUMING, "until it is let go");
    (void) moved(&s, EVENT_LEASE_RESUMED, id);
    (void) release(&s, id);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id);
    ok(sim_on_task(&s, EVENT_RECALLED, id, NULL) == 0 &&
       lease(&s, id) == LEASE_RESUMING, "brought back, wanted or not");
    close_checked(&s, "operator");
}

/* That it could not leave says nothing of what the plan may ask. */
static void test_kept(void)
{
    struct sim s;
    uint64_t id = open_running(&s, MINUTE);
    const struct task *t = sim_task(&s, id, 0);

    (void) release(&s, id);
    ok(moved(&s, EVENT_LEASE_KEPT, id) == 0 && t->state == TASK_RUNNING &&
       t->away->kept == 0 && !t->away->idle && is(t->away->reason, "busy"),
       "it could not leave, and runs on");
    ok(sim_twin(&s), "a loaded world has it so");
    close_checked(&s, "kept");
}

/* In line before others, by what its tenant says of interactive work. */
static void test_priority(void)
{
    struct sim s;
    uint64_t id = open_running(&s, MINUTE), holder, waits;
    const struct task *t = sim_task(&s, id, 0);

    ok(sim_tenant(&s, "t", json_pack("{s:i}", "interactive_priority", 5000)) ==
       -EINVAL, "%s", s.err.text);
    (void) sim_tenant(&s, "t", json_pack("{s:i}", "interactive_priority", 50));
    (void) release(&s, id);
    (void) moved(&s, EVENT_LEASE_SUSPENDED, id);
    holder = submit(&s, 0, SPEC_IDLE_NEVER);
    (void) sim_claim(&s, holder, 0, 0, 1);
    waits = submit(&s, 0, SPEC_IDLE_MAY);
    (void) wanted(&s, id);
    ok(t->in_line && sim_task(&s, waits, 0)->in_line && sim_twin(&s),
       "two wait");
    world_free(take(s.twin));
    sim_end(&s, holder, 0, 0, 0);
    ok(lease(&s, id) == LEASE_RESUMING && sim_task(&s, waits, 0)->in_line,
       "it goes before what was there before it");
    (void) sim_tenant(&s, "t", json_pack("{s:n}", "interactive_priority"));
    ok(!world_tenant(s.w, "t")->has_interactive, "and then not any more");
    close_checked(&s, "priority");
}

/* A priority that nobody can have is not cut down to one that somebody may. */
static void test_damaged(void)
{
    struct sim s;
    uint64_t id = open_running(&s, MINUTE);
    autofree char *body = NULL, *bad = NULL;
    const char *name, *at;
    json_t *row = NULL;

    (void) sim_tenant(&s, "t", json_pack("{s:i}", "interactive_priority", 50));
    (void) release(&s, id);
    json_object_foreach(s.rows, name, row)
        if (strstr(json_get_str(row, "body", ""), "\"grace_seconds\":"))
            break;
    body = mem_str(json_get_str(row, "body", ""));
    at = strstr(body, "\"priority\":50");
    ok(at, "it is in the tables");
    bad = mem_printf("%.*s\"priority\":65586%s", (int) (at - body), body,
                     at + strlen("\"priority\":50"));
    json_put_str(row, "body", bad);
    world_free(sim_load(&s));
    ok(s.faults == 1, "damaged, it does not load");
    json_put_str(row, "body", body);
    s.faults = 0;
    close_checked(&s, "damaged");
}

int main(void)
{
    test_grace();
    test_way();
    test_race();
    test_operator();
    test_kept();
    test_priority();
    test_damaged();
    return tap_done();
}
