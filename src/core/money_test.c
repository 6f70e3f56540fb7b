#include "core/testing.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

/* Prices, costs, limits of cost, budgets. */
enum { HOUR = 60 * 60 * 1000 };

static json_t *priced(double hour)
{
    return json_pack("{s:i,s:s,s:[{s:s,s:f}]}", "weir", 1, "kind", "policy",
                     "models", "model", "H100", "price", hour);
}

static json_t *budget(const char *unit, uint64_t micro, uint64_t period_ms)
{
    return json_pack("{s:{s:I,s:s,s:I}}", "budget", "amount_micro",
                     (json_int_t) micro, "unit", unit, "period_ms",
                     (json_int_t) period_ms);
}

static uint64_t submit(struct sim *s, const char *tenant, uint32_t milli,
                       uint64_t limit_micro)
{
    struct spec *spec = sim_spec(1);

    spec->tasks[0].gpu_milli = milli;
    spec->tasks[0].limit_cost_micro = limit_micro;
    return sim_submit_as(s, tenant, spec);
}

static void test_cost(void)
{
    struct sim s;

    sim_open(&s);
    ok(sim_policy(&s, 1, priced(2.5)) == 0, "a price: %s", s.err.text);
    sim_block(&s, "b", 4, "H100", 8);
    (void) submit(&s, "t", 2000, 0);
    sim_claim(&s, 1, 0, 0, 1);
    sim_wait(&s, HOUR / 2);
    sim_end(&s, 1, 0, 0, 0);
    ok(world_tenant(s.w, "t")->used_cost_micro == 2500000,
       "two devices for half an hour at 2.5 cost 2.5");
    (void) submit(&s, "t", 500, 0);
    sim_claim(&s, 2, 0, 0, 1);
    sim_wait(&s, HOUR);
    sim_end(&s, 2, 0, 0, 0);
    ok(world_tenant(s.w, "t")->used_cost_micro == 3750000,
       "half a device costs half");
    (void) submit(&s, "t", 0, 0);
    sim_claim(&s, 3, 0, 0, 1);
    sim_wait(&s, HOUR);
    sim_end(&s, 3, 0, 0, 0);
    ok(world_tenant(s.w, "t")->used_cost_micro == 3750000, "CPUs are free");
    close_checked(&s, "cost");
}

/* A price that changes changes nothing for what has begun. */
static void test_limit(void)
{
    struct sim s;

    sim_open(&s);
    sim_policy(&s, 1, priced(3.6));
    sim_block(&s, "b", 1, "H100", 8);
    (void) submit(&s, "t", 1000, 10000);           /* 0.01: ten seconds */
    sim_policy(&s, 2, priced(36));
    sim_claim(&s, 1, 0, 0, 1);
    sim_wait(&s, 9999);
    ok(sim_state(&s, 1, 0) == TASK_RUNNING, "within its limit");
    sim_wait(&s, 2);
    ok(sim_state(&s, 1, 0) == TASK_ENDING, "past it");
    sim_end_as(&s, 1, 0, 0, SPEC_CAUSE_LIMIT);
    ok(is(sim_row(&s, "1 1/0", "cause"), "limit"), "for that reason");
    close_checked(&s, "limit of cost");
}

static void test_budget(void)
{
    struct sim s;

    sim_open(&s);                      /* at a whole hour */
    sim_block(&s, "b", 4, "H100", 8);
    ok(sim_tenant(&s, "t", budget("gpu_hours", 1000000, 2 * HOUR)) == 0,
       "a GPU-hour in two hours");
    (void) submit(&s, "t", 2000, 0);
    sim_claim(&s, 1, 0, 0, 1);
    sim_wait(&s, HOUR / 2 - 1);
    (void) submit(&s, "t", 1000, 0);
    ok(sim_state(&s, 2, 0) == TASK_STARTING, "not used up yet");
    sim_wait(&s, 2);
    (void) submit(&s, "t", 1000, 0);
    ok(sim_state(&s, 3, 0) == TASK_WAITING &&
       world_tenant(s.w, "t")->budget.over, "used up: nothing new starts");
    ok(sim_state(&s, 1, 0) == TASK_RUNNING, "what runs goes on");
    ok(world_wake_ms(s.w) <= s.now + HOUR + HOUR / 2, "it will be looked at");
    sim_end(&s, 1, 0, 0, 0);
    sim_run(&s, 2, 0);
    sim_wait(&s, HOUR + HOUR / 2);
    ok(sim_state(&s, 3, 0) == TASK_STARTING, "the next period begins");
    ok(sim_tenant(&s, "t", json_pack("{s:n}", "budget")) == 0 &&
       world_tenant(s.w, "t")->budget.period_ms == 0, "taken away again");
    close_checked(&s, "budget");
}

/* What those below spend counts above; and money is another unit. */
static void test_tree(void)
{
    struct sim s;

    sim_open(&s);
    sim_policy(&s, 1, priced(10));
    sim_block(&s, "b", 4, "H100", 8);
    ok(sim_tenant(&s, "lab", budget("money", 5000000, 24 * HOUR)) == 0 &&
       sim_tenant(&s, "one", json_pack("{s:s}", "parent", "lab")) == 0 &&
       sim_tenant(&s, "two", json_pack("{s:s}", "parent", "lab")) == 0,
       "a tree: %s", s.err.text);
    (void) submit(&s, "one", 1000, 0);
    sim_claim(&s, 1, 0, 0, 1);
    sim_wait(&s, HOUR / 2 + 1000);
    ok(world_tenant(s.w, "lab")->budget.over, "five in half an hour");
    (void) submit(&s, "two", 1000, 0);
    ok(sim_state(&s, 2, 0) == TASK_WAITING, "the other one waits as well");
    sim_tenant(&s, "two", json_pack("{s:s}", "parent", ""));
    ok(sim_state(&s, 2, 0) == TASK_STARTING, "until it is on its own");
    ok(sim_tenant(&s, "lab", json_pack("{s:s}", "parent", "one")) == -EINVAL,
       "%s", s.err.text);
    ok(sim_tenant(&s, "one", json_pack("{s:s}", "parent", "x")) == -ENOENT,
       "%s", s.err.text);
    close_checked(&s, "tree");
}

static void test_refused(void)
{
    struct sim s;

    sim_open(&s);
    ok(sim_tenant(&s, "t", budget("beer", 1, HOUR)) == -EINVAL, "%s",
       s.err.text);
    ok(sim_tenant(&s, "t", budget("money", 0, HOUR)) == -EINVAL, "%s",
       s.err.text);
    ok(sim_tenant(&s, "t", budget("money", 1, 1000)) == -EINVAL, "%s",
       s.err.text);
    ok(sim_tenant(&s, "t", json_pack("{s:s}", "quota_gpus_milli", "x")) ==
       -EINVAL, "%s", s.err.text);
    close_checked(&s, "refused");
}

static void test_view(void)
{
    autojson json_t *j = NULL;
    struct sim s;

    sim_open(&s);
    sim_policy(&s, 1, priced(1));
    sim_block(&s, "b", 1, "H100", 8);
    (void) submit(&s, "t", 1000, 0);
    sim_claim(&s, 1, 0, 0, 1);
    sim_wait(&s, 90 * 60 * 1000);
    sim_end(&s, 1, 0, 0, 0);
    j = view_cost(s.w, s.now);
    ok(json_real_value(json_object_get(j, "gpu_hours")) > 1.4999 &&
       json_real_value(json_object_get(j, "cost")) > 1.4999 &&
       json_real_value(json_object_get(j, "cost")) < 1.5001 &&
       json_array_size(json_object_get(j, "tenants")) == 1, "as JSON");
    sim_close(&s);
}

int main(void)
{
    test_cost();
    test_limit();
    test_budget();
    test_tree();
    test_refused();
    test_view();
    return tap_done();
}
