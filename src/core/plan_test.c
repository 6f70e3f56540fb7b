#include "core/testing.h"

#include "base/json.h"
#include "base/tap.h"
#include "plan/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Order, placement, patience; and where device-time goes. */

enum { MINUTE = 60 * 1000 };

static uint64_t submit_gpu(struct sim *s, uint32_t milli, int priority)
{
    struct spec *spec = sim_spec(1);

    spec->tasks[0].gpu_milli = milli;
    spec->priority = priority;
    return sim_submit(s, spec);
}

static const struct grant *grant(const struct sim *s, uint64_t id)
{
    static const struct grant none;
    const struct task *t = sim_task(s, id, 0);

    return t && t->leases ? &t->leases[0].grant : &none;
}

static void test_order(void)
{
    struct sim s;
    uint64_t first;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 1);
    first = sim_submit(&s, sim_spec(1));
    (void) sim_submit(&s, sim_spec(2));
    for (int i = 0; i < 2; i++) {
        struct spec *spec = sim_spec(1);

        spec->priority = 10 * i;
        (void) sim_submit(&s, spec);
    }
    sim_run(&s, first, 0);
    ok(sim_state(&s, 4, 0) == TASK_STARTING, "priority first");
    sim_run(&s, 4, 0);
    ok(sim_state(&s, 2, 0) == TASK_STARTING, "then who came first");
    sim_run(&s, 2, 0);
    ok(sim_state(&s, 2, 1) == TASK_STARTING, "task by task");
    sim_run(&s, 2, 1);
    ok(sim_state(&s, 3, 0) == TASK_STARTING, "then the next");
    close_checked(&s, "order");
}

static void test_fractions(void)
{
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 2, "H100", 16);
    (void) submit_gpu(&s, 500, 0);
    (void) submit_gpu(&s, 700, 0);
    ok(grant(&s, 1)->device[0] == 0 && grant(&s, 2)->device[0] == 1,
       "a fraction never spans devices");
    (void) submit_gpu(&s, 300, 0);
    ok(grant(&s, 3)->device[0] == 1, "it goes where the least is left");
    (void) submit_gpu(&s, 500, 0);
    ok(grant(&s, 4)->device[0] == 0, "and fills a device to the brim");
    (void) submit_gpu(&s, 1, 0);
    ok(sim_state(&s, 5, 0) == TASK_WAITING, "not a thousandth more");
    sim_run(&s, 3, 0);
    ok(sim_state(&s, 5, 0) == TASK_STARTING, "until there is room");
    (void) submit_gpu(&s, 1000, 0);
    ok(sim_state(&s, 6, 0) == TASK_WAITING, "a whole device is a whole one");
    close_checked(&s, "fractions");
}

static void test_places(void)
{
    struct spec *spec;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "big", 8, "H100", 16);
    sim_block(&s, "cpu", 0, "", 16);
    sim_block(&s, "small", 2, "A100", 16);
    (void) sim_submit(&s, sim_spec(1));
    ok(strcmp(grant(&s, 1)->block, "cpu") == 0, "work without devices goes to "
       "blocks without");
    for (int i = 0; i < 2; i++) {
        spec = sim_spec(1);
        spec->tasks[0].gpu_milli = 2000;
        sim_model(spec, 0, i ? "A100" : "a100");
        (void) sim_submit(&s, spec);
    }
    ok(strcmp(grant(&s, 2)->block, "small") == 0, "a model is asked for by "
       "name, whatever its case");
    ok(sim_state(&s, 3, 0) == TASK_WAITING, "another one will not do");
    sim_run(&s, 2, 0);
    ok(strcmp(grant(&s, 3)->block, "small") == 0 &&
       grant(&s, 3)->ndevices == 2, "but is worth waiting for");
    (void) submit_gpu(&s, 8000, 0);
    ok(strcmp(grant(&s, 4)->block, "big") == 0 &&
       grant(&s, 4)->ndevices == 8 && grant(&s, 4)->device[7] == 7,
       "all devices of a block, in order");
    spec = sim_spec(1);
    spec->tasks[0].gpu_milli = 1000;
    spec->tasks[0].gpu_memory = UINT64_C(81) << 30;
    (void) sim_submit(&s, spec);
    ok(sim_state(&s, 5, 0) == TASK_WAITING, "memory of a device counts");
    spec = sim_spec(1);
    spec->tasks[0].memory = UINT64_C(65) << 30;
    (void) sim_submit(&s, spec);
    ok(sim_state(&s, 6, 0) == TASK_WAITING, "so does that of a node");
    close_checked(&s, "places");
}

static void test_overtake(void)
{
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 4, "H100", 16);
    (void) submit_gpu(&s, 2000, 0);
    (void) submit_gpu(&s, 4000, 0);
    (void) submit_gpu(&s, 1000, 0);
    ok(sim_state(&s, 2, 0) == TASK_WAITING, "four do not fit");
    ok(sim_state(&s, 3, 0) == TASK_STARTING, "one may overtake");
    sim_wait(&s, 10 * MINUTE - 1);
    (void) submit_gpu(&s, 300, 0);
    ok(sim_state(&s, 4, 0) == TASK_STARTING, "for as long as patience lasts");
    sim_wait(&s, 1);
    (void) submit_gpu(&s, 300, 0);
    ok(sim_state(&s, 5, 0) == TASK_WAITING, "then it waits behind");
    (void) sim_submit(&s, sim_spec(1));
    ok(sim_state(&s, 6, 0) == TASK_STARTING, "CPUs are another kind");
    (void) submit_gpu(&s, 300, 1);
    ok(sim_state(&s, 7, 0) == TASK_STARTING, "a higher priority is before it");
    ok(sim_on_workload(&s, EVENT_ABORTING, 2, false) == 0 &&
       sim_state(&s, 5, 0) == TASK_STARTING, "when it goes, the way is free");
    close_checked(&s, "overtake");
}

static void test_never_in_the_way(void)
{
    struct spec *spec;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 4, "H100", 2);
    (void) submit_gpu(&s, 5000, 0);
    sim_wait(&s, 20 * MINUTE);
    (void) submit_gpu(&s, 1000, 0);
    ok(sim_state(&s, 2, 0) == TASK_STARTING, "what can never run stands in "
       "nobody's way");
    spec = sim_spec(1);
    spec->tasks[0].gpu_milli = 1000;
    spec->tasks[0].cpu_milli = 2000;
    (void) sim_submit(&s, spec);
    sim_wait(&s, 10 * MINUTE);
    (void) sim_submit(&s, sim_spec(1));
    ok(sim_state(&s, 4, 0) == TASK_WAITING, "who lacks CPUs holds back who "
       "would take them");
    sim_on_node(&s, EVENT_NODE_DRAINED, "node-b");
    sim_block(&s, "c", 0, "", 1);
    ok(sim_state(&s, 4, 0) == TASK_STARTING, "but not once drained");
    close_checked(&s, "never");
}

/* Of devices, in device-milliseconds. */
static struct plan_shares meter(const struct sim *s)
{
    struct plan_meter m;

    world_meter(s->w, s->now, &m);
    return (struct plan_shares) {
        .used = m.devices.used / 1000,
        .idle_nodemand = m.devices.idle_nodemand / 1000,
        .idle_frag = m.devices.idle_frag / 1000,
        .waste = m.devices.waste / 1000,
    };
}

/* One block of 4: 2 used while one task wants 4 (frag), then held back what
 * would fit (waste), then nobody wants anything.
 */
static void test_meter(void)
{
    struct plan_shares m;
    struct sim s;

    sim_open(&s);
    sim_wait(&s, 1000);
    sim_block(&s, "b", 4, "H100", 16);
    sim_wait(&s, 1000);
    (void) submit_gpu(&s, 2000, 0);
    sim_wait(&s, 1000);
    (void) submit_gpu(&s, 4000, 0);
    sim_wait(&s, 10 * MINUTE);
    m = meter(&s);
    ok(m.idle_nodemand == 4000 + 2000 && m.used == 2 * (1000 + 10 * MINUTE) &&
       m.idle_frag == 2 * 10 * MINUTE && m.waste == 0,
       "idle in the wrong pieces is idle_frag");
    (void) submit_gpu(&s, 1000, 0);
    sim_wait(&s, 500);
    m = meter(&s);
    ok(m.waste == 1000, "what would fit and is held back is waste");
    (void) sim_on_workload(&s, EVENT_PAUSED, 2, false);
    ok(sim_state(&s, 3, 0) == TASK_STARTING, "a paused one holds nobody back");
    sim_wait(&s, 100);
    m = meter(&s);
    ok(m.waste == 1000 && m.idle_nodemand == 6000 + 100, "nor is it demand");
    sim_on_node(&s, EVENT_NODE_DRAINED, "node-b");
    sim_wait(&s, 100);
    m = meter(&s);
    ok(m.idle_nodemand == 6100 && m.idle_frag == 2 * 10 * MINUTE &&
       m.waste == 1000, "a drained node's idle part is no capacity");
    close_checked(&s, "meter");
}

static void test_meter_quota(void)
{
    struct plan_shares m;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 4, "H100", 16);
    sim_quota(&s, 1000);
    (void) submit_gpu(&s, 2000, 0);
    sim_wait(&s, 1000);
    m = meter(&s);
    ok(m.idle_nodemand == 4000, "what is over its quota is no demand");
    sim_quota(&s, 0);
    (void) submit_gpu(&s, 1, 0);
    ok(sim_state(&s, 2, 0) == TASK_WAITING, "a quota of nothing is nothing");
    close_checked(&s, "meter and quota");
}

static void test_meter_backoff(void)
{
    struct spec *spec = sim_spec(1);
    struct plan_shares m, then;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 4, "H100", 16);
    (void) submit_gpu(&s, 1000, 0);
    spec->tasks[0].gpu_milli = 3000;
    spec->tasks[0].retry_count = 1;
    spec->tasks[0].retry_on = 1u << SPEC_CAUSE_FAILED;
    spec->tasks[0].retry_backoff_ms = 1000;
    (void) sim_submit(&s, spec);
    sim_claim(&s, 2, 0, 0, 1);
    sim_end(&s, 2, 0, 0, 1);
    (void) submit_gpu(&s, 2000, 0);
    sim_wait(&s, 1500);
    m = meter(&s);
    ok(m.idle_nodemand == 1000 && m.idle_frag == 500, "one that backs off is "
       "demand from the moment it is in line");
    s.now += 1000;
    (void) submit_gpu(&s, 1, 0);
    then = meter(&s);
    ok(then.idle_frag == 1500, "however often one looks");
    close_checked(&s, "meter and back-off");
}

/* A large workload costs little for each task. */
static void test_many(void)
{
    enum { N = 20000 };
    struct spec *spec = sim_spec(N);
    struct world *w = world_new();
    struct event e;
    uint32_t planned = 0;

    event_init(&e, EVENT_TENANT_SET);
    memcpy(e.tenant, "t", 2);
    e.data = json_object();
    ok(world_apply(w, &e, NULL) == 0, "a tenant");
    event_clear(&e);
    event_init(&e, EVENT_BLOCK_UP);
    memcpy(e.block, "b", 2);
    e.data = json_pack("{s:i}", "cpus_milli", 64000);
    ok(world_apply(w, &e, NULL) == 0, "a block");
    event_clear(&e);
    event_init(&e, EVENT_SUBMITTED);
    e.workload = 1;
    memcpy(e.tenant, "t", 2);
    e.spec = spec;
    ok(world_apply(w, &e, NULL) == 0 && !e.spec, "%d tasks, the spec taken", N);
    event_clear(&e);
    for (; world_step(w, 0, &e); planned++) {
        ok(e.type == EVENT_PLANNED && world_apply(w, &e, NULL) == 0,
           "planned %u", planned);
        event_clear(&e);
    }
    ok(planned == 64 && world_waiting(w) == N - 64, "as many as fit");
    ok(sizeof(struct task) <= 256, "a task costs %zu bytes",
       sizeof(struct task));
    world_free(w);
}

int main(void)
{
    test_order();
    test_fractions();
    test_places();
    test_overtake();
    test_never_in_the_way();
    test_meter();
    test_meter_quota();
    test_meter_backoff();
    test_many();
    return tap_done();
}
