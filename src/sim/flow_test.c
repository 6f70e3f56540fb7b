#include "sim/flow.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/tap.h"
#include "plan/plan.h"
#include "sim/dag.h"
#include "sim/mixed.h"

#include <string.h>

static struct err err;

static void read_text(const char *s, struct flow *ret)
{
    autofree char *text = mem_str(s);

    if (dag_read("d", text, strlen(s), ret, &err) < 0)
        printf("Bail out! %s\n", err.text);
}

/* 0 has a long way below it, 1 and 2 are short and alone. */
static const char FORK[] =
    "0 1 a 0\n1 2 b 0\n2 2 b 0\n3 6 c 1 0\n4 1 d 2 3 2\n";

static void test_ways(void)
{
    static const uint64_t lengths[] = { 1, 2, 2, 6, 1 };
    static const uint64_t want[] = { 8, 2, 3, 7, 1 };
    struct flow f = { 0 };
    autofree uint64_t *ways = NULL;

    read_text(FORK, &f);
    ways = flow_ways(&f, lengths);
    ok(memcmp(ways, want, sizeof want) == 0,
       "the longest way to the end, one's own length included");
    flow_free(&f);
}

static uint64_t play(const struct flow *f, uint64_t slots, bool learned)
{
    struct flow_nodes node = { .count = 1, .cpu_milli = slots * 1000 };
    struct flow_options o = { .nodes = &node, .nnodes = 1,
                              .learned = learned };
    struct plan *p = flow_plan(&o);
    struct flow_result r = { 0 };
    int rc = 0;

    if (learned)
        rc = flow_play(f, p, &o, &r, &err);
    if (rc == 0)
        rc = flow_play(f, p, &o, &r, &err);
    if (rc < 0)
        printf("# %s\n", err.text);
    plan_free(p);
    return rc < 0 ? 0 : r.makespan_ms;
}

static void test_play(void)
{
    struct flow f = { 0 };
    struct flow_nodes node = { .count = 1, .cpu_milli = 500 };
    struct flow_options o = { .nodes = &node, .nnodes = 1 };
    struct plan *p = flow_plan(&o);
    struct flow_result r;

    read_text(FORK, &f);
    ok(play(&f, 1, false) == 12000, "one slot: one after the other");
    ok(play(&f, 2, false) == 8000, "two slots: as long as the longest way");
    ok(play(&f, 2, false) == 8000, "again: the same");
    ok(play(&f, 2, true) == 8000, "learned from a first run: the same");
    err.text[0] = '\0';
    ok(flow_play(&f, p, &o, &r, &err) < 0 &&
       strstr(err.text, "5 of 5 tasks never start"), "half a slot: never");
    plan_free(p);
    flow_free(&f);
}

/* Without the order by ways the long one comes last. */
static void test_order(void)
{
    struct flow f = { 0 };

    read_text("0 1 a 0\n1 1 b 0\n2 1 c 0\n3 1 d 0\n4 4 e 0\n", &f);
    ok(play(&f, 2, false) == 4000, "the longest first");
    ok(play(&f, 2, true) == 4000, "... by what was learned, too");
    flow_free(&f);
}

/* ---- the scenario ---- */

static void test_mixed(void)
{
    struct flow a = { 0 }, b = { 0 }, hold = { 0 };
    uint32_t gangs = 0, tenants = 0;
    double used = 0, held = 0;

    mixed_make(7, 0.5, &a);
    mixed_make(7, 0.5, &b);
    ok(a.count == 4 * MIXED_PIPELINES &&
       memcmp(a.tasks, b.tasks, a.count * sizeof *a.tasks) == 0,
       "the same seed, the same pipelines");
    flow_free(&b);
    mixed_make(8, 0.5, &b);
    ok(memcmp(a.tasks, b.tasks, a.count * sizeof *a.tasks) != 0,
       "another seed, others");
    mixed_hold(&a, &hold);
    for (uint32_t i = 0; i < a.count; i++) {
        used += (double) a.tasks[i].gpus * (double) a.tasks[i].length_ms;
        gangs += a.tasks[i].gpus > 8;
        tenants |= 1u << a.tasks[i].tenant;
    }
    for (uint32_t i = 0; i < hold.count; i++)
        held += (double) hold.tasks[i].gpus *
                (double) hold.tasks[i].length_ms;
    ok(used / held > 0.47 && used / held < 0.53, "duty %.3f", used / held);
    ok(gangs > 20 && tenants == 7, "%u gangs of several nodes, three tenants",
       gangs);
    ok(flow_check(&a, &err) == 0, "no pipeline waits for itself");
    flow_free(&a);
    flow_free(&b);
    flow_free(&hold);
}

/* ---- look-ahead ---- */

enum { CHAINS = 60, SECOND = 1000 };

/* Ten minutes on CPUs, give or take half of one, and five on a GPU; the next
 * comes when all is over, so that nobody ever waits in line.
 */
static void make_chains(struct flow *ret)
{
    struct flow f = { .count = 2 * CHAINS, .nedges = CHAINS, .ntenants = 1,
                      .nworkloads = CHAINS };
    uint64_t random = 5;

    f.tasks = mem_array(f.count, sizeof *f.tasks);
    f.edges = mem_array(f.nedges, sizeof *f.edges);
    for (uint32_t w = 0; w < CHAINS; w++) {
        struct flow_task *t = &f.tasks[2 * w];

        t[0] = (struct flow_task) {
            .submit_ms = w * UINT64_C(1800) * SECOND, .workload = w,
            .length_ms = (570 + random_next(&random) % 61) * SECOND,
            .cpu_milli = 1000, .sig.key = { predict_key("prepare", 0) },
        };
        t[1] = (struct flow_task) {
            .submit_ms = t[0].submit_ms, .workload = w,
            .length_ms = 300 * SECOND, .gpus = 1, .cpu_milli = 1000,
            .first = w, .nparents = 1, .sig.key = { predict_key("train", 0) },
        };
        f.edges[w] = 2 * w;
    }
    *ret = f;
}

static void play_chains(int64_t lookahead_ms, struct flow_result *ret)
{
    struct flow_nodes node = { .count = 2, .gpus = 2, .cpu_milli = 8000 };
    struct flow_options o = { .nodes = &node, .nnodes = 1, .learned = true,
                              .startup_ms = 60 * SECOND,
                              .lookahead_ms = lookahead_ms };
    struct plan *p = flow_plan(&o);
    struct flow f = { 0 };

    make_chains(&f);
    if (flow_play(&f, p, &o, ret, &err) < 0)
        printf("# %s\n", err.text);
    plan_free(p);
    flow_free(&f);
}

static void test_expected(void)
{
    struct flow_result cold = { 0 }, r = { 0 };

    play_chains(0, &cold);
    play_chains(-1, &r);
    ok(cold.staged.cold == CHAINS && cold.staged.vain == 0,
       "without look-ahead every start is cold");
    ok(r.staged.ready > CHAINS / 2 && r.staged.vain < CHAINS / 4,
       "the next of a pipeline is staged before it is ready: %ju in time, "
       "%ju late, %ju cold, %ju in vain", (uintmax_t) r.staged.ready,
       (uintmax_t) r.staged.late, (uintmax_t) r.staged.cold,
       (uintmax_t) r.staged.vain);
    ok(r.avg_ms < cold.avg_ms - 40 * SECOND, "and done after %.0f s instead "
       "of %.0f s", r.avg_ms / SECOND, cold.avg_ms / SECOND);
}

/* One GPU, an hour to start up, and turns after the twenty minutes that a
 * minute to resume is worth: all are suspended while they start up.
 */
static void test_startup_kept(void)
{
    enum { TASKS = 4, STARTUP = 3600 * SECOND, LENGTH = 60 * SECOND };
    struct flow_nodes node = { .count = 1, .gpus = 1, .cpu_milli = 8000 };
    struct flow_options o = { .nodes = &node, .nnodes = 1, .suspends = true,
                              .resume_ms = 60 * SECOND,
                              .startup_ms = STARTUP };
    struct plan *p = flow_plan(&o);
    struct flow f = { .count = TASKS, .ntenants = 1, .nworkloads = TASKS };
    struct flow_result r = { 0 };

    f.tasks = mem_array(TASKS, sizeof *f.tasks);
    for (uint32_t w = 0; w < TASKS; w++)
        f.tasks[w] = (struct flow_task) {
            .submit_ms = w * SECOND, .length_ms = LENGTH, .gpus = 1,
            .cpu_milli = 1000, .workload = w,
            .sig.key = { predict_key("train", 0) },
        };
    ok(flow_play(&f, p, &o, &r, &err) == 0 && r.preemptions > 0 &&
       r.makespan_ms >= TASKS * (STARTUP + LENGTH) &&
       r.resume_ms >= TASKS * STARTUP, "%ju times suspended, and every startup "
       "is paid: %ju s in all", (uintmax_t) r.preemptions,
       (uintmax_t) r.makespan_ms / SECOND);
    plan_free(p);
    flow_free(&f);
}

int main(void)
{
    test_ways();
    test_play();
    test_order();
    test_mixed();
    test_expected();
    test_startup_kept();
    return tap_done();
}
