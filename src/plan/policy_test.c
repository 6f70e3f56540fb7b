#include "plan/policy.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

static json_t *parse(const char *text)
{
    json_t *j = NULL;
    struct err err;

    if (json_read(text, strlen(text), 1 << 20, &j, &err) < 0)
        printf("# %s\n", err.text);
    return j;
}

/* What reading this says, "" when nothing. */
static const char *faults(const char *text)
{
    static struct err err;
    autojson json_t *j = parse(text);
    struct policy p;

    err = (struct err) { 0 };
    return policy_from_json(j, &p, &err) == 0 ? "" : err.text;
}

#define HEAD "{\"weir\":1,\"kind\":\"policy\""

static void check_fault(const char *members, const char *want)
{
    autofree char *text = mem_printf(HEAD ",%s}", members);
    const char *got = faults(text);

    ok(strcmp(got, want) == 0, "%s", members);
    if (strcmp(got, want) != 0)
        printf("# got  %s\n# want %s\n", got, want);
}

static void test_faults(void)
{
    check_fault("\"half_live\":\"7d\"",
                "half_live: unknown key 'half_live'; did you mean "
                "'half_life'?");
    check_fault("\"half_life\":\"soon\"",
                "half_life: expected a time such as 90s, 10m or 7d, from 1m "
                "to 36500d, got 'soon'");
    check_fault("\"half_life\":0",
                "half_life: expected a time such as 90s, 10m or 7d, from 1m "
                "to 36500d, got '0'");
    check_fault("\"quantile\":1",
                "quantile: expected a number from 0.5 to 0.99, got '1'");
    check_fault("\"reservations\":1.5", "reservations: expected a whole "
                "number from 0 to 1000, got '1.5'");
    check_fault("\"turns\":\"suspendd\"", "turns: expected off, suspend or "
                "checkpoint, got 'suspendd'; did you mean 'suspend'?");
    check_fault("\"kill\":\"yes\"", "kill: expected true or false, got 'yes'");
    check_fault("\"models\":{}", "models: expected a list of {model, rating, "
                "price}, got '{}'");
    check_fault("\"models\":[7]", "models[0]: expected a mapping such as "
                "{model: H100, rating: 2.5, price: 3.2}, got '7'");
    check_fault("\"models\":[{\"rating\":2}]",
                "models[0]: missing key 'model'");
    check_fault("\"models\":[{\"model\":\"A\"},{\"model\":\"a\"}]",
                "models[1].model: 'a' has a row already");
    check_fault("\"models\":[{\"model\":\"A\",\"rating\":0}]",
                "models[0].rating: expected a number from 0.001 to 1000, got "
                "'0'");
    check_fault("\"models\":[{\"model\":\"A\",\"ratign\":1}]",
                "models[0].ratign: unknown key 'ratign'; did you mean "
                "'rating'?");
    check_fault("\"models\":[{\"model\":\"x\\u0007\"}]",
                "models[0].model: expected a model of device, at most 31 "
                "bytes, got 'x?'");
    check_fault("\"kill\":1,\"quantile\":2",
                "kill: expected true or false, got '1'\n"
                "quantile: expected a number from 0.5 to 0.99, got '2'");
}

static void test_head(void)
{
    ok(strcmp(faults("{}"), "missing key 'weir'; a document starts with "
              "'weir: 1'\nmissing key 'kind'; expected 'kind: policy'") == 0,
       "the head is missed");
    ok(strcmp(faults("{\"weir\":2,\"kind\":\"job\"}"),
              "weir: expected 1, the version of this form, got '2'\n"
              "kind: expected policy, got 'job'") == 0,
       "another version and another kind are refused");
    ok(strcmp(faults("[]"), "expected a mapping that starts with 'weir: 1'")
       == 0, "a list is no policy");
    ok(strcmp(faults(HEAD "}"), "") == 0, "nothing beyond the head is fine");
}

static bool same(const struct policy *a, const struct policy *b)
{
    autojson json_t *x = policy_to_json(a), *y = policy_to_json(b);

    return json_equal(x, y);
}

static void test_round(void)
{
    autojson json_t *j = NULL, *given = parse(
        HEAD ",\"half_life\":\"2d\",\"patience\":90,\"quantile\":0.75,"
        "\"tolerance\":0.25,\"reservations\":9,\"turns\":\"checkpoint\","
        "\"min_run\":\"1h30m\",\"slice\":\"30s\",\"suspend_cost\":\"2500ms\","
        "\"reclaim\":false,\"kill\":true,\"move\":false,\"lookahead\":\"5m\","
        "\"idle_grace\":\"15m\",\"stray\":\"stop\",\"context_mib\":600,"
        "\"nodes\":\"leased\","
        "\"burst_margin\":0.5,\"price_hour\":1.25,\"models\":["
        "{\"model\":\"H100\",\"rating\":2.5,\"price\":3.2},"
        "{\"model\":\"T4\"}]}");
    struct policy p, back, fresh, kept;

    policy_init(&fresh);
    j = policy_to_json(&fresh);
    ok(policy_from_json(j, &back, NULL) == 0 && same(&fresh, &back),
       "the defaults, written, are the defaults");
    json_decref(j);
    ok(policy_from_json(given, &p, NULL) == 0, "every field is read");
    ok(p.half_life_ms == 172800000 && p.patience_ms == 90000 &&
       p.quantile == 0.75 && p.tolerance == 0.25 && p.reservations == 9 &&
       p.turns == TURNS_CHECKPOINT && p.min_run_ms == 5400000 &&
       p.slice_ms == 30000 && p.suspend_cost_s == 2.5 && !p.reclaim &&
       p.kill && !p.move && p.lookahead_ms == 300000 &&
       p.idle_grace_ms == 900000 && p.stray == STRAY_STOP &&
       p.context_mib == 600 && p.nodes == NODES_LEASED &&
       p.burst_margin == 0.5 && p.price_hour == 1.25 && p.nmodels == 2,
       "to where it belongs");
    j = policy_to_json(&p);
    ok(policy_from_json(j, &back, NULL) == 0 && same(&p, &back) &&
       !same(&p, &fresh), "and written back to the same");
    ok(policy_rating(&p, "h100") == 2.5 && policy_price(&p, "H100") == 3.2 &&
       policy_rating(&p, "T4") == 1 && policy_price(&p, "T4") == 1.25 &&
       policy_rating(&p, "A100") == 1 && policy_price(&p, "A100") == 1.25,
       "models have their own rating and price, others the general one");
    kept = p;
    json_put_str(given, "turns", "never");
    ok(policy_from_json(given, &p, NULL) == -EINVAL &&
       same(&kept, &p), "a fault leaves the policy alone");
}

static void test_many(void)
{
    autobuf struct buf b = BUF_INIT(65536);
    struct policy p;
    struct err err;

    buf_str(&b, HEAD ",\"models\":[");
    for (int i = 0; i <= POLICY_MODELS; i++)
        buf_printf(&b, "%s{\"model\":\"m%d\"}", i ? "," : "", i);
    buf_str(&b, "]}");
    {
        autojson json_t *j = parse(buf_text(&b));

        ok(policy_from_json(j, &p, &err) == -EINVAL &&
           strcmp(err.text, "models: 65 rows; at most 64 are allowed") == 0,
           "too many models are refused");
        (void) json_array_remove(json_object_get(j, "models"), 0);
        ok(policy_from_json(j, &p, &err) == 0 && p.nmodels == POLICY_MODELS,
           "as many as there is room for are read");
    }
}

int main(void)
{
    test_head();
    test_faults();
    test_round();
    test_many();
    return tap_done();
}
