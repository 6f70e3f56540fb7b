#include "core/testing.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <string.h>

/* Ports of gangs.  After each event world_verify sees that none is had twice. */
enum { WORKLOADS = 20, TASKS = 20, PORTS_FROM = 20000, PORTS_TO = 30000 };

static struct spec *gangs(uint32_t n)
{
    struct spec *spec = sim_spec(n);

    for (uint32_t i = 0; i < n; i++)
        spec->tasks[i].ranks = 2;
    return spec;
}

static void claim(struct sim *s, uint64_t id)
{
    sim_claim(s, id, 0, 0, 1);
    sim_claim(s, id, 0, 1, 1);
}

static uint32_t with_port(const struct sim *s, uint64_t id)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < TASKS; i++) {
        uint16_t port = sim_task(s, id, i)->port;

        n += port >= PORTS_FROM && port < PORTS_TO;
    }
    return n;
}

/* By their numbers alone some of so many would meet at one port. */
static void test_many(void)
{
    struct sim s;
    uint64_t id = 0;
    uint32_t n = 0;
    uint16_t was;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 2 * WORKLOADS * TASKS);
    for (unsigned k = 0; k < WORKLOADS; k++) {
        id = sim_submit(&s, gangs(TASKS));
        n += with_port(&s, id);
    }
    ok(n == WORKLOADS * TASKS, "%u gangs have a port of their own", n);
    was = sim_task(&s, id, 0)->port;
    ok(was == task_port(sim_task(&s, id, 0), 1), "which is told");
    claim(&s, id);
    ok(sim_task(&s, id, 0)->port == was, "and is theirs until the end");
    sim_end(&s, id, 0, 0, 0);
    ok(sim_task(&s, id, 0)->port == was, "of the last one");
    sim_end(&s, id, 0, 1, 0);
    ok(sim_task(&s, id, 0)->port == 0, "then it is free");
    close_checked(&s, "many");
}

static void test_alone(void)
{
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 4);
    ok(sim_task(&s, sim_submit(&s, sim_spec(1)), 0)->port == 0,
       "one rank meets nobody");
    close_checked(&s, "alone");
}

/* What was started early was told the port. */
static void test_staged(void)
{
    struct spec *spec = gangs(1);
    struct sim s;
    struct event e;
    uint64_t first, id;
    uint16_t port;

    sim_open(&s);
    s.stages = true;
    sim_block(&s, "b", 2, "H100", 8);
    spec->tasks[0].gpu_milli = 1000;
    first = sim_submit(&s, spec);
    claim(&s, first);
    spec = gangs(1);
    spec->tasks[0].gpu_milli = 1000;
    id = sim_submit(&s, spec);
    event_init(&e, EVENT_STAGED);
    e.workload = id;
    e.gen = 1;
    e.ngrants = 2;
    e.grants = mem_array(2, sizeof(*e.grants));
    for (uint32_t i = 0; i < 2; i++) {
        e.grants[i] = (struct grant) { .rank = i, .ndevices = 1,
                                       .device[0] = (uint16_t) i,
                                       .milli = 1000 };
        memcpy(e.grants[i].block, "b", 2);
    }
    ok(sim_event(&s, &e) == 0, "it stands ready");
    port = sim_task(&s, id, 0)->port;
    ok(port > 0 && port != sim_task(&s, first, 0)->port, "with a port");
    sim_end(&s, first, 0, 0, 0);
    sim_end(&s, first, 0, 1, 0);
    ok(sim_state(&s, id, 0) == TASK_STARTING &&
       sim_task(&s, id, 0)->gen == 1 && sim_task(&s, id, 0)->port == port,
       "that it has when it starts");
    close_checked(&s, "staged");
}

/* A row with a port that another one has. */
static void test_damaged(void)
{
    struct sim s;
    uint16_t port;
    json_t *row;
    const char *name;

    sim_open(&s);
    sim_block(&s, "b", 0, "", 8);
    port = sim_task(&s, sim_submit(&s, gangs(2)), 0)->port;
    json_object_foreach(s.rows, name, row) {
        char *body = mem_str(json_get_str(row, "body", ""));
        char *at = strstr(body, "\"port\":");

        if (at) {
            autofree char *text = mem_printf("%u", port);

            memcpy(at + strlen("\"port\":"), text, 5);
            json_put_str(row, "body", body);
        }
        free(body);
    }
    world_free(sim_load(&s));
    ok(s.faults == 1, "such tables do not load");
    sim_close(&s);
}

int main(void)
{
    test_many();
    test_alone();
    test_staged();
    test_damaged();
    return tap_done();
}
