#include "sim/observed.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { T0 = 1800000000 };

static json_t *stamp(uint64_t s)
{
    char text[32];

    clock_print((T0 + s) * 1000, text, sizeof text);
    return json_string(text);
}

/* An hour, and the pods of it: {gpus, made, bound, ended} each. */
static json_t *hour(const uint64_t jobs[][4], size_t n)
{
    json_t *w = json_pack("{s:o,s:o,s:[],s:i}", "from", stamp(0), "to",
                          stamp(3600), "jobs", "jobs_left_out", 3);

    for (size_t i = 0; i < n; i++) {
        json_t *j = json_pack("{s:s,s:I,s:i,s:o,s:o}", "namespace", "x",
                              "devices", (json_int_t) jobs[i][0], "cpus", 1,
                              "made", stamp(jobs[i][1]), "bound",
                              stamp(jobs[i][2]));

        if (jobs[i][3])
            json_put(j, "ended", stamp(jobs[i][3]));
        (void) json_array_append_new(json_object_get(w, "jobs"), j);
    }
    return w;
}

static json_t *node(int gpus, const char *closed)
{
    json_t *n = json_pack("{s:{s:i},s:{s:i}}", "device_count", "total", gpus,
                          "cpus", "total", 64);

    json_put_str(n, "closed", closed);
    return n;
}

static int play(const uint64_t jobs[][4], size_t n, json_t *nodes,
                struct observed *ret)
{
    json_t *w = hour(jobs, n), *pool = json_pack("{s:o}", "nodes", nodes);
    struct err err = { 0 };
    int rc = observed_play(w, pool, ret, &err);

    if (rc < 0)
        printf("# %s\n", err.text);
    json_decref(w);
    json_decref(pool);
    return rc;
}

static bool about(double a, double b)
{
    printf("# %.3f and %.3f\n", a, b);
    return fabs(a - b) < 0.1;
}

static void test_waits(void)
{
    /* The second waited for 600 s beside 4 free GPUs; the third for both. */
    static const uint64_t jobs[][4] = {
        { 4, 0, 0, 1200 }, { 4, 0, 600, 1800 }, { 8, 300, 1800, 2400 },
    };
    json_t *nodes = json_pack("[o,o,o]", node(8, NULL), node(8, "cordoned"),
                              node(8, "not ready"));
    struct observed o;

    ok(play(jobs, 3, nodes, &o) == 0 && o.pods == 3 && o.left_out == 3 &&
       o.gpus == 8, "all of them, on the node that is open");
    ok(about(o.wait_s, (600 + 1500) / 3.0), "as long as they waited");
    ok(about(o.plan_wait_s, 900 / 3.0), "without the wait for nothing");
    /* 4 idle from 0 to 600, and from 1200 to 1800. */
    ok(about(o.wr * 8 * 3600, 4 * 1200) && o.plan_wr < 0.001,
       "and no GPU is idle meanwhile");
}

static void test_edges(void)
{
    /* Before the beginning, beyond the end, over before it, and too large. */
    static const uint64_t jobs[][4] = {
        { 8, (uint64_t) -7200, (uint64_t) -3600, 1800 },
        { 8, 900, 1800, 0 }, { 1, (uint64_t) -900, (uint64_t) -800,
                               (uint64_t) -100 }, { 16, 0, 60, 120 },
    };
    struct observed o;

    ok(play(jobs, 4, json_pack("[o]", node(8, "taint gpu:NoSchedule")), &o) ==
       0 && o.pods == 2 && o.left_out == 4, "what was in this time, on a node "
       "with a taint");
    ok(about(o.wait_s, 450) && about(o.plan_wait_s, 450),
       "cut at both ends, there was nothing to gain");
}

static void test_nothing(void)
{
    static const uint64_t jobs[][4] = { { 1, 0, 0, 60 } };
    struct observed o;

    ok(play(jobs, 1, json_array(), &o) == -ENOENT, "no nodes");
    ok(play(jobs, 0, json_pack("[o]", node(8, NULL)), &o) == -ENOENT,
       "no pods");
}

int main(void)
{
    test_waits();
    test_edges();
    test_nothing();
    return tap_done();
}
