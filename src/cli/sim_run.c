#include "cli/verbs.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/print.h"
#include "cli/sim.h"
#include "sim/cluster.h"
#include "sim/run.h"
#include "sim/trace.h"

#include <string.h>

struct run_opts {
    const char *trace, *nodes, *quotas, *policy, *resume;
    uint64_t suspend_ms;
    bool pin, muri;
};

static int read_trace(const struct cli *c, const struct run_opts *o,
                      struct trace *ret)
{
    autofree char *text = NULL, *quotas = NULL;
    size_t len = 0;
    struct err err;
    int rc = sim_read(c, o->trace, &text, &len);

    if (rc != 0)
        return rc;
    if (trace_read(o->trace, text, len, ret, &err) < 0)
        return cli_fail(c, CLI_DOCUMENT, "%s", err.text);
    if (!o->quotas)
        return 0;
    rc = sim_read(c, o->quotas, &quotas, &len);
    if (rc != 0)
        return rc;
    if (trace_quotas(o->quotas, quotas, len, ret, &err) < 0)
        return cli_fail(c, CLI_DOCUMENT, "%s", err.text);
    return 0;
}

/* How good the guesses were: of the ends, how many came below the guessed 10th,
 * 50th and 90th hundredth; and the median of how far the middle was off.
 */
static json_t *quality_json(const struct predict_quality *q)
{
    json_t *j = json_object();

    json_put_u64(j, "ends", q->ends);
    json_put(j, "below_p10", json_real(q->below_low));
    json_put(j, "below_p50", json_real(q->below_mid));
    json_put(j, "below_p90", json_real(q->below_high));
    json_put(j, "median_error", json_real(q->error));
    return j;
}

static json_t *run_json(const struct run_opts *o, const struct run_result *r)
{
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        { "avg_jct_s", r->avg_jct }, { "p50_jct_s", r->p50_jct },
        { "p99_jct_s", r->p99_jct }, { "avg_wait_s", r->avg_wait },
        { "p50_wait_s", r->p50_wait }, { "p90_wait_s", r->p90_wait },
        { "p99_wait_s", r->p99_wait }, { "p999_wait_s", r->p999_wait },
        { "waited_over_60s", r->over_60s }, { "makespan_s", r->makespan },
        { "util", r->util }, { "idle_nodemand", r->idle_nodemand },
        { "idle_frag", r->idle_frag }, { "waste", r->waste },
        { "waste_usable", r->waste_usable }, { "overhead", r->overhead },
        { "wr", r->waste + r->idle_frag },
    };
    /* Muri's rules give times and no shares. */
    size_t n = o->muri ? 10 : array_size(numbers);
    json_t *j = json_object();

    json_put_str(j, "policy", o->policy);
    json_put_str(j, "nodes", o->nodes);
    json_put_u64(j, "jobs", r->jobs);
    for (size_t i = 0; i < n; i++)
        json_put(j, numbers[i].name, json_real(numbers[i].value));
    if (!o->muri)
        json_put_u64(j, "preemptions", r->preemptions);
    if (r->quality.ends > 0)
        json_put(j, "prediction", quality_json(&r->quality));
    return j;
}

static void add_span(struct table *t, const char *what, double mean,
                     double high)
{
    char a[HUMAN_SIZE], b[HUMAN_SIZE];

    sheet_printf(t, what, "%s on average, 99 %% within %s",
                 human_span((uint64_t) (mean * 1000), a),
                 human_span((uint64_t) (high * 1000), b));
}

static int print_run(const struct cli *c, const struct run_opts *o,
                     const struct run_result *r)
{
    char buf[HUMAN_SIZE];
    struct table *t;

    if (c->out == OUT_JSON) {
        autojson json_t *j = run_json(o, r);

        return print_json(c, j);
    }
    t = sheet_new();
    sheet_add(t, "policy", o->policy);
    sheet_add(t, "jobs", human_count(r->jobs, buf));
    add_span(t, "completion", r->avg_jct, r->p99_jct);
    add_span(t, "waiting", r->avg_wait, r->p99_wait);
    sheet_add(t, "makespan", human_span((uint64_t) (r->makespan * 1000), buf));
    if (!o->muri) {
        sheet_printf(t, "in use", "%.2f %%, of that %.2f %% to resume",
                     100 * r->util, 100 * r->overhead);
        sheet_printf(t, "idle", "%.2f %% without demand, %.2f %% fragmented, "
                     "%.2f %% wasted", 100 * r->idle_nodemand,
                     100 * r->idle_frag, 100 * r->waste);
        sheet_add(t, "preemptions", human_count(r->preemptions, buf));
    }
    return print_sheet(c, t);
}

static int play_run(const struct cli *c, const struct run_opts *o,
                    const struct run_options *how)
{
    struct cluster cluster = { 0 };
    struct trace trace = { 0 };
    struct run_result r;
    struct err err;
    int rc;

    if (cluster_parse(o->nodes, &cluster, &err) < 0)
        return cli_fail(c, CLI_USAGE, "--nodes: %s", err.text);
    rc = read_trace(c, o, &trace);
    if (rc == 0 && run_trace(&trace, &cluster, how, &r, &err) < 0)
        rc = cli_fail(c, CLI_DOCUMENT, "%s", err.text);
    else if (rc == 0)
        rc = print_run(c, o, &r);
    trace_free(&trace);
    cluster_free(&cluster);
    return rc;
}

static int run_run(struct cli *c, const void *opts)
{
    const struct run_opts *o = opts;
    struct run_options how = {
        .resume_cost = (double) o->suspend_ms / 1000, .pinned = o->pin,
        .muri = o->muri, .quotas = o->quotas != NULL,
    };

    if (!o->trace || !o->nodes || !o->policy)
        return cli_fail(c, CLI_USAGE, "--trace, --nodes and --policy are "
                        "needed");
    how.policy = run_policy_find(o->policy);
    if (!how.policy)
        return cli_fail(c, CLI_USAGE, "--policy %s: there are %s", o->policy,
                        run_policy_names());
    if (!o->quotas && (o->pin || strncmp(o->policy, "quota-", 6) == 0))
        return cli_fail(c, CLI_USAGE, "%s needs --quotas",
                        o->pin ? "--pin" : o->policy);
    if (o->resume && strcmp(o->resume, "same-node") == 0)
        how.same_node = true;
    else if (o->resume && strcmp(o->resume, "anywhere") != 0)
        return cli_fail(c, CLI_USAGE, "--resume %s: there are anywhere, "
                        "same-node", o->resume);
    if (how.same_node && strcmp(o->policy, "weir") != 0)
        return cli_fail(c, CLI_USAGE, "--resume same-node: only with "
                        "--policy weir");
    return play_run(c, o, &how);
}

#define AT(member) offsetof(struct run_opts, member)
static const struct opt run_options[] = {
    { "trace", 0, "CSV", "jobs: submit_s,duration_s,gpus[,tenant], or a file "
      "of Philly or Muri", OPT_TEXT, AT(trace) },
    { "nodes", 0, "SPEC", "NODESxGPUS, or CLUSTERSxNODESxGPUS", OPT_TEXT,
      AT(nodes) },
    { "policy", 0, "NAME", "fifo, fifo-backfill, easy, sjf, las, srtf, srsf, "
      "quota-strict, quota-backfill, quota-borrow or weir", OPT_TEXT,
      AT(policy) },
    { "quotas", 0, "CSV", "tenant,nominal_gpus[,cluster]", OPT_TEXT,
      AT(quotas) },
    { "pin", 0, NULL, "tenants keep to the cluster of their quota", OPT_FLAG,
      AT(pin) },
    { "suspend-cost", 0, "TIME", "what a suspended job pays when it resumes",
      OPT_DURATION, AT(suspend_ms) },
    { "resume", 0, "WHERE", "weir: anywhere (the default) or same-node",
      OPT_TEXT, AT(resume) },
    { "muri", 0, NULL, "the published rules of Muri's simulator, with its "
      "overheads (srtf, srsf, las)", OPT_FLAG, AT(muri) },
    { .kind = OPT_END },
};
#undef AT

const struct verb verb_sim_run = {
    .name = "sim run",
    .summary = "replay a trace of jobs under a policy",
    .usage = "--trace CSV --nodes SPEC --policy NAME [OPTIONS]",
    .about = "Jobs are gangs of whole GPUs on a virtual clock. Nothing real "
             "is touched.",
    .examples =
        "weir sim run --trace jobs.csv --nodes 64x8 --policy fifo-backfill",
    .opts = run_options,
    .size = sizeof(struct run_opts),
    .arg = ARG_FILE,
    .run = run_run,
};
