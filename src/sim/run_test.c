#include "sim/run.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/tap.h"
#include "sim/cluster.h"
#include "sim/trace.h"

#include <math.h>
#include <string.h>

static struct err err;

static int play_with(const char *csv, const char *nodes,
                     const struct run_options *o, const char *quotas,
                     struct run_result *ret)
{
    autofree char *text = mem_str(csv);
    autofree char *q = mem_str(quotas);
    struct cluster c = { 0 };
    struct trace t = { 0 };
    int rc = trace_read("t", text, strlen(csv), &t, &err);

    if (rc == 0 && q)
        rc = trace_quotas("q", q, strlen(q), &t, &err);
    if (rc == 0)
        rc = cluster_parse(nodes, &c, &err);
    if (rc == 0)
        rc = run_trace(&t, &c, o, ret, &err);
    trace_free(&t);
    cluster_free(&c);
    return rc;
}

static int play(const char *csv, const char *nodes, const char *policy,
                const char *quotas, double cost, struct run_result *ret)
{
    const struct run_options o = {
        .policy = run_policy_find(policy), .resume_cost = cost,
        .lookahead_ms = -1,
    };

    return play_with(csv, nodes, &o, quotas, ret);
}

static bool near_to(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

/* For one node of 2 GPUs: job 1 needs both and cannot start beside job 0. */
static const char FOUR[] =
    "submit_s,duration_s,gpus\n0,10,1\n1,10,2\n2,2,1\n3,20,1\n";

static void test_lines(void)
{
    struct run_result r = { 0 };

    /* 0 ends at 10, 1 at 20, 2 at 22, 3 at 40. */
    ok(play(FOUR, "1x2", "fifo", NULL, 0, &r) == 0 &&
       near_to(r.avg_jct, (10 + 19 + 20 + 37) / 4.0) &&
       near_to(r.makespan, 40), "fifo: nobody passes the head");
    ok(near_to(r.util, (0 + 3) / 6.0) && near_to(r.idle_nodemand, 1 / 6.0) &&
       near_to(r.idle_frag, 1 / 6.0) && near_to(r.waste, 1 / 6.0),
       "one GPU idle: nobody waits, then nobody fits, then job 2 would");
    /* 2 ends at 4, 3 runs from 4 to 24, 1 from 24 to 34. */
    ok(play(FOUR, "1x2", "fifo-backfill", NULL, 0, &r) == 0 &&
       near_to(r.avg_jct, (10 + 33 + 2 + 21) / 4.0) && near_to(r.waste, 0),
       "fifo-backfill: whoever fits");
    /* 1 is promised 10: 2 ends before, 3 does not. */
    ok(play(FOUR, "1x2", "easy", NULL, 0, &r) == 0 &&
       near_to(r.avg_jct, (10 + 19 + 2 + 37) / 4.0),
       "easy: not at the head's expense");
}

static void test_sjf(void)
{
    struct run_result r = { 0 };

    ok(play("submit_s,duration_s,gpus\n0,5,1\n1,9,1\n2,3,1\n", "1x1", "sjf",
            NULL, 0, &r) == 0 &&
       near_to(r.avg_jct, (5 + 16 + 6) / 3.0), "sjf: the short one first");
    ok(near_to(r.avg_wait, (0 + 7 + 3) / 3.0) && near_to(r.p99_wait, 7),
       "waits are what is not the length");
}

static void test_preempting(void)
{
    static const char two[] = "submit_s,duration_s,gpus\n0,10,2\n4,3,1\n";
    static const char las[] =
        "submit_s,duration_s,gpus\n0,10000,1\n5000,100,1\n";
    struct run_result r = { 0 };

    /* 0 runs to 4 and from 7 to 13. */
    ok(play(two, "1x2", "srtf", NULL, 0, &r) == 0 && r.preemptions == 1 &&
       near_to(r.avg_jct, (13 + 3) / 2.0), "srtf: the long one gives way");
    ok(play(two, "1x2", "srtf", NULL, 5, &r) == 0 &&
       near_to(r.avg_jct, (18 + 3) / 2.0), "a resume costs 5 s");
    /* 2 GPUs x 6 s against 1 x 3 s; at 1 s left it is the other way. */
    ok(play("submit_s,duration_s,gpus\n0,10,2\n9,3,1\n", "1x2", "srsf", NULL,
            0, &r) == 0 && r.preemptions == 0 &&
       near_to(r.avg_jct, (10 + 4) / 2.0), "srsf: time left times GPUs");
    ok(play(las, "1x1", "las", NULL, 0, &r) == 0 && r.preemptions == 1 &&
       near_to(r.avg_jct, (10100 + 100) / 2.0),
       "las: who has had much gives way to who comes new");
}

static void test_quotas(void)
{
    static const char jobs[] = "submit_s,duration_s,gpus,tenant\n"
                               "0,10,1,a\n0,10,1,a\n0,10,1,b\n";
    static const char quotas[] = "tenant,nominal_gpus\na,1\nb,1\n";
    struct run_result r = { 0 };

    ok(play(jobs, "1x3", "quota-strict", quotas, 0, &r) == 0 &&
       near_to(r.avg_jct, (10 + 20 + 10) / 3.0), "within the quota");
    ok(play(jobs, "1x3", "quota-borrow", quotas, 0, &r) == 0 &&
       near_to(r.avg_jct, 10), "and what others leave");
    ok(play("submit_s,duration_s,gpus,tenant\n0,10,2,a\n0,5,1,a\n0,5,1,a\n",
            "2x2", "quota-strict", "tenant,nominal_gpus\na,2\n", 0, &r) == 0 &&
       near_to(r.avg_jct, (10 + 15 + 15) / 3.0), "a full quota blocks");
    ok(play("submit_s,duration_s,gpus,tenant\n0,10,1,a\n1,5,2,a\n2,5,1,a\n",
            "1x3", "quota-strict", "tenant,nominal_gpus\na,2\n", 0, &r) == 0 &&
       near_to(r.avg_jct, (10 + 14 + 18) / 3.0), "nobody passes its head");
    ok(play("submit_s,duration_s,gpus,tenant\n0,10,1,a\n1,5,2,a\n2,5,1,a\n",
            "1x3", "quota-backfill", "tenant,nominal_gpus\na,2\n", 0,
            &r) == 0 && near_to(r.avg_jct, (10 + 14 + 5) / 3.0),
       "unless that is allowed");
}

static void test_impossible(void)
{
    struct run_result r = { .jobs = 7 };

    ok(play("submit_s,duration_s,gpus\n0,1,9\n", "2x4", "fifo", NULL, 0,
            &r) < 0 && r.jobs == 7 && strstr(err.text, "nowhere, ever"),
       "%s", err.text);
    ok(play("submit_s,duration_s,gpus,tenant\n0,1,2,a\n", "2x4",
            "quota-strict", "tenant,nominal_gpus\na,1\n", 0, &r) < 0 &&
       strstr(err.text, "quota of 'a' is 1"), "%s", err.text);
    ok(!run_policy_find("best"), "there is no policy 'best'");
}

/* Any trace: the four shares are all there is, nobody ends before his time,
 * and nothing is lost.
 */
static void test_any(void)
{
    static const char *const names[] = {
        "fifo", "fifo-backfill", "easy", "sjf", "las", "srtf", "srsf",
        "quota-strict", "quota-backfill", "quota-borrow",
    };
    autobuf struct buf csv = BUF_INIT(1 << 20);
    uint64_t seed = 1;

    buf_str(&csv, "submit_s,duration_s,gpus,tenant\n");
    for (int i = 0; i < 2000; i++) {
        uint64_t x = random_next(&seed);

        buf_printf(&csv, "%d,%d,%d,%c\n", 20 * i, (int) (x % 2000),
                   1 << (x >> 32) % 4, (char) ('a' + (x >> 40) % 2));
    }
    for (size_t i = 0; i < array_size(names); i++) {
        struct run_result r = { 0 }, again = { 0 };
        int rc = play(buf_text(&csv), "2x4x8", names[i],
                      "tenant,nominal_gpus\na,32\nb,32\n", 7, &r);

        ok(rc == 0 && r.jobs == 2000 && r.p50_wait >= 0 &&
           fabs(r.util + r.idle_nodemand + r.idle_frag + r.waste - 1) < 1e-9 &&
           r.waste_usable <= r.waste + 1e-12 &&
           (r.overhead > 0) == (r.preemptions > 0) &&
           r.avg_jct - r.avg_wait > 900, "%s: WR %.4f, wait %.0f s",
           names[i], r.waste + r.idle_frag, r.avg_wait);
        (void) play(buf_text(&csv), "2x4x8", names[i],
                    "tenant,nominal_gpus\na,32\nb,32\n", 7, &again);
        ok(near_to(r.avg_jct, again.avg_jct) &&
           near_to(r.p99_wait, again.p99_wait) &&
           near_to(r.util, again.util) && r.preemptions == again.preemptions,
           "%s again: the same", names[i]);
        ok(strstr(run_policy_names(), names[i]), "%s is named", names[i]);
    }
}

/* 400 jobs of ten minutes, give or take one, for 8 GPUs: rather more than they
 * can do, so that they wait.
 */
static char *steady(void)
{
    struct buf b = BUF_INIT(1 << 20);
    uint64_t random = 7;

    buf_str(&b, "submit_s,duration_s,gpus\n");
    for (unsigned k = 0; k < 400; k++)
        buf_printf(&b, "%u,%ju,1\n", k * 70,
                   (uintmax_t) (540 + random_next(&random) % 121));
    return buf_take(&b);
}

static void test_startup(void)
{
    autofree char *csv = steady();
    struct run_options o = { .policy = run_policy_find("fifo"),
                             .startup = 60 };
    struct run_result cold = { 0 }, r = { 0 };

    ok(play_with(FOUR, "1x2", &o, NULL, &r) == 0 &&
       near_to(r.avg_jct, (70 + 139 + 200 + 217) / 4.0) &&
       r.staged.cold == 4, "the startup comes before the work");
    o.policy = run_policy_find("weir");
    o.stays = true;
    ok(play_with(csv, "1x8", &o, NULL, &cold) == 0 &&
       cold.staged.cold == 400 && cold.staged.vain == 0,
       "no look-ahead: nobody is staged");
    o.lookahead_ms = -1;
    ok(play_with(csv, "1x8", &o, NULL, &r) == 0 &&
       r.staged.ready + r.staged.late + r.staged.cold == 400 &&
       r.staged.ready > 200 && r.staged.vain < 100,
       "%ju in time, %ju late, %ju cold, %ju in vain",
       (uintmax_t) r.staged.ready, (uintmax_t) r.staged.late,
       (uintmax_t) r.staged.cold, (uintmax_t) r.staged.vain);
    ok(r.overhead < 0.6 * cold.overhead && r.avg_jct < cold.avg_jct - 60,
       "overhead %.4f and not %.4f, completion %.0f s and not %.0f s",
       r.overhead, cold.overhead, r.avg_jct, cold.avg_jct);
}

/* Who is suspended while it starts up pays what is left when it goes on. */
static void test_startup_kept(void)
{
    static const char *const names[] = { "las", "srtf", "srsf", "weir" };
    static const char two[] = "submit_s,duration_s,gpus\n0,10,2\n4,3,1\n";
    static const char three[] =
        "submit_s,duration_s,gpus\n0,10,2\n4,3,1\n15,1,1\n";
    static const char six[] = "submit_s,duration_s,gpus\n0,90,8\n1,80,8\n"
                              "2,70,8\n3,60,8\n4,50,8\n5,40,8\n";
    struct run_options o = { .policy = run_policy_find("srtf"), .startup = 6,
                             .resume_cost = 5 };
    struct run_result r = { 0 };

    /* 0 starts up to 4, resumes from 13 to 18, starts up to 20. */
    ok(play_with(two, "1x2", &o, NULL, &r) == 0 && r.preemptions == 1 &&
       near_to(r.avg_jct, (30 + 9) / 2.0) && r.staged.cold == 2,
       "four seconds of the startup are kept, two are paid later");
    /* 0 resumes from 13 to 15 and from 22 to 27, starts up to 29. */
    ok(play_with(three, "1x2", &o, NULL, &r) == 0 && r.preemptions == 2 &&
       near_to(r.avg_jct, (39 + 9 + 7) / 3.0),
       "a resume that is broken off is paid again");
    o.startup = 3600;
    for (size_t i = 0; i < array_size(names); i++) {
        o.policy = run_policy_find(names[i]);
        ok(play_with(six, "1x8", &o, NULL, &r) == 0 && r.preemptions > 0 &&
           r.makespan > 6 * 3600 + 390 - 1e-6, "%s: %.0f s for six startups "
           "of an hour, %ju times suspended", names[i], r.makespan,
           (uintmax_t) r.preemptions);
    }
}

/* The head of the line is promised 10; job 2 would end at 9 without its
 * startup, and at 14 with it.
 */
static void test_startup_easy(void)
{
    struct run_options o = { .policy = run_policy_find("easy"),
                             .startup = 5 };
    struct run_result r = { 0 };

    ok(play_with("submit_s,duration_s,gpus\n0,5,1\n1,10,2\n2,7,1\n", "1x2",
                 &o, NULL, &r) == 0 &&
       near_to(r.avg_jct, (10 + 24 + 35) / 3.0),
       "easy: a startup is not at the head's expense either");
}

/* ---- devices of several models ---- */

static const char RULES[] =
    "weir: 1\nkind: policy\nburst_margin: %s\nmodels:\n"
    "- {model: quick, rating: 4}\n";

static int play_rules(const char *csv, const char *nodes, const char *policy,
                      const char *margin, struct run_result *ret)
{
    autofree char *doc = mem_printf(RULES, margin);
    struct policy rules;
    const struct run_options o = {
        .policy = run_policy_find(policy), .rules = &rules, .stays = true,
        .lookahead_ms = -1,
    };
    int rc = run_rules("rules.yaml", doc, strlen(doc), &rules, &err);

    *ret = (struct run_result) { 0 };
    return rc < 0 ? rc : play_with(csv, nodes, &o, NULL, ret);
}

static void test_models(void)
{
    autobuf struct buf jobs = BUF_INIT(65536);
    struct run_result off, on;
    uint64_t seed = 1;

    ok(play_rules("submit_s,duration_s,gpus\n0,40,1\n0,40,1\n", "1x1:quick+"
                  "1x1:slow", "fifo", "0", &on) == 0 &&
       near_to(on.avg_jct, 25) && near_to(on.avg_wait, 0), "a length is that "
       "on a device of rating 1, and no wait is a wait");
    ok(play_rules("submit_s,duration_s,gpus\n0,40,2\n", "1x1:quick+1x1:slow",
                  "weir", "0", &on) == 0 && near_to(on.avg_jct, 40),
       "a gang is as fast as its slowest device");
    /* Ten minutes, give or take one, six at a time, on 4 quick and 4 slow GPUs.
     */
    buf_str(&jobs, "submit_s,duration_s,gpus\n");
    for (unsigned i = 0; i < 400; i++)
        buf_printf(&jobs, "%u,%u,1\n", i / 6 * 240,
                   540 + (unsigned) (random_next(&seed) % 120));
    ok(play_rules(buf_text(&jobs), "1x4:quick+1x4:slow", "weir", "-10",
                  &off) == 0 &&
       play_rules(buf_text(&jobs), "1x4:quick+1x4:slow", "weir", "0",
                  &on) == 0, "400 jobs");
    ok(on.avg_jct < 0.9 * off.avg_jct, "who waits for a quick one ends after "
       "%.0f s and not %.0f; waste %.3f and %.3f", on.avg_jct, off.avg_jct,
       on.waste, off.waste);
    ok(play_rules("submit_s,duration_s,gpus\n0,1,1\n", "1x1", "weir", "much",
                  &on) < 0 && strncmp(err.text, "rules.yaml:3:", 13) == 0,
       "%s", err.text);
}

int main(void)
{
    test_lines();
    test_sjf();
    test_preempting();
    test_quotas();
    test_impossible();
    test_any();
    test_startup();
    test_startup_kept();
    test_startup_easy();
    test_models();
    return tap_done();
}
