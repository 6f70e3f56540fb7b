#include "cli/verbs.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/near.h"
#include "cli/print.h"
#include "cli/sim.h"
#include "sim/cluster.h"
#include "sim/report.h"
#include "sim/run.h"
#include "sim/trace.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { OUT_LIMIT = 64 * 1024 * 1024 };

struct run_opts {
    const char *trace, *nodes, *quotas, *policy, *rules, *resume, *lookahead;
    uint64_t suspend_ms, startup_ms;
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
    if (trace_read(sim_name(o->trace), text, len, ret, &err) < 0)
        return cli_fail(c, CLI_DOCUMENT, "%s", err.text);
    if (!o->quotas)
        return 0;
    rc = sim_read(c, o->quotas, &quotas, &len);
    if (rc != 0)
        return rc;
    if (trace_quotas(sim_name(o->quotas), quotas, len, ret, &err) < 0)
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

json_t *sim_staged_json(const struct run_staged *s)
{
    json_t *j = json_object();

    json_put_u64(j, "staged_in_time", s->ready);
    json_put_u64(j, "staged_late", s->late);
    json_put_u64(j, "cold", s->cold);
    json_put_u64(j, "staged_in_vain", s->vain);
    return j;
}

struct number {
    const char *name;
    double value;
};
enum { NUMBERS = 17, TIMES = 10 };     /* times come first, then shares */

static void numbers_of(const struct run_result *r, struct number *ret)
{
    const struct number list[NUMBERS] = {
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

    memcpy(ret, list, sizeof list);
}

static size_t numbers_in(const struct run_result *r)
{
    return r->shares ? NUMBERS : TIMES;
}

static json_t *run_json(const struct run_opts *o, const struct report_run *run)
{
    const struct run_result *r = &run->result;
    struct number numbers[NUMBERS];
    json_t *j = json_object();

    numbers_of(r, numbers);
    json_put_str(j, "policy", run->policy);
    json_put_str(j, "nodes", o->nodes);
    json_put_u64(j, "jobs", r->jobs);
    for (size_t i = 0; i < numbers_in(r); i++)
        json_put(j, numbers[i].name, json_real(numbers[i].value));
    if (!o->muri)
        json_put_u64(j, "preemptions", r->preemptions);
    if (o->startup_ms > 0)
        json_put(j, "starts", sim_staged_json(&r->staged));
    if (r->quality.ends > 0)
        json_put(j, "prediction", quality_json(&r->quality));
    return j;
}

/* ---- on standard output ---- */

static int print_jsons(const struct cli *c, const struct run_opts *o,
                       const struct report_run *runs, size_t n)
{
    autojson json_t *all = n == 1 ? run_json(o, runs) : json_object();
    json_t *list;

    if (n > 1) {
        list = json_array();
        json_put(all, "items", list);
        for (size_t i = 0; i < n; i++)
            (void) json_array_append_new(list, run_json(o, &runs[i]));
    }
    return print_json(c, all);
}

static int print_csv(const struct cli *c, const struct run_opts *o,
                     const struct report_run *runs, size_t n)
{
    autobuf struct buf b = BUF_INIT(OUT_LIMIT);
    struct number numbers[NUMBERS];
    size_t count = numbers_in(&runs[0].result);

    for (size_t i = 0; i < n; i++) {
        numbers_of(&runs[i].result, numbers);
        if (i == 0) {
            buf_str(&b, "policy,nodes,jobs");
            for (size_t k = 0; k < count; k++)
                buf_printf(&b, ",%s", numbers[k].name);
            buf_str(&b, o->muri ? "\n" : ",preemptions\n");
        }
        buf_printf(&b, "%s,%s,%zu", runs[i].policy, o->nodes,
                   runs[i].result.jobs);
        for (size_t k = 0; k < count; k++)
            buf_printf(&b, ",%.6f", numbers[k].value);
        if (!o->muri)
            buf_printf(&b, ",%llu",
                       (unsigned long long) runs[i].result.preemptions);
        buf_str(&b, "\n");
    }
    return print_buf(c, &b);
}

static int print_html(const struct cli *c, const struct run_opts *o,
                      const struct report_run *runs, size_t n)
{
    autobuf struct buf b = BUF_INIT(OUT_LIMIT);
    const char *name = sim_name(o->trace), *slash = strrchr(name, '/');

    report_html(slash ? slash + 1 : name, o->nodes, runs, n, &b);
    if (b.over)
        return cli_fail(c, CLI_BROKEN, "the report is longer than %d bytes",
                        OUT_LIMIT);
    return print_buf(c, &b);
}

static void add_span(struct table *t, const char *what, double mean,
                     double high)
{
    char a[HUMAN_SIZE], b[HUMAN_SIZE];

    sheet_printf(t, what, "%s on average, 99 %% within %s",
                 human_span((uint64_t) (mean * 1000), a),
                 human_span((uint64_t) (high * 1000), b));
}

static void add_shares(struct table *t, const struct run_opts *o,
                       const struct run_result *r)
{
    if (!r->shares) {
        sheet_add(t, "in use", "no shares: all jobs were submitted at once");
        return;
    }
    sheet_printf(t, "in use", "%.2f %%: %.2f %% to work, %.2f %% to %s",
                 100 * r->util, 100 * (r->util - r->overhead),
                 100 * r->overhead,
                 o->startup_ms > 0 ? "start up and resume" : "resume");
    sheet_printf(t, "idle", "%.2f %% without demand, %.2f %% fragmented, "
                 "%.2f %% wasted", 100 * r->idle_nodemand,
                 100 * r->idle_frag, 100 * r->waste);
}

static int print_one(const struct cli *c, const struct run_opts *o,
                     const struct report_run *run)
{
    const struct run_result *r = &run->result;
    char buf[HUMAN_SIZE];
    struct table *t = sheet_new();

    sheet_add(t, "policy", run->policy);
    sheet_add(t, "jobs", human_count(r->jobs, buf));
    add_span(t, "completion", r->avg_jct, r->p99_jct);
    add_span(t, "waiting", r->avg_wait, r->p99_wait);
    sheet_add(t, "makespan", human_span((uint64_t) (r->makespan * 1000), buf));
    if (!o->muri) {
        add_shares(t, o, r);
        sheet_add(t, "preemptions", human_count(r->preemptions, buf));
    }
    if (o->startup_ms > 0)
        sheet_printf(t, "first starts", "%ju staged in time, %ju late, %ju "
                     "cold; %ju staged in vain", (uintmax_t) r->staged.ready,
                     (uintmax_t) r->staged.late, (uintmax_t) r->staged.cold,
                     (uintmax_t) r->staged.vain);
    return print_sheet(c, t);
}

static const struct table_column run_columns[] = {
    { .name = "POLICY" }, { .name = "COMPLETION", .right = true },
    { .name = "WAIT", .right = true }, { .name = "WAIT P99", .right = true },
    { .name = "IN USE", .right = true }, { .name = "WR", .right = true },
    { .name = "PREEMPTIONS", .right = true }, { .name = NULL },
};

/* What was not worked out is no 0. */
static int print_several(const struct cli *c, const struct run_opts *o,
                         const struct report_run *runs, size_t n)
{
    struct table *t = table_new(run_columns);

    for (size_t i = 0; i < n; i++) {
        const struct run_result *r = &runs[i].result;
        const double spans[] = { r->avg_jct, r->avg_wait, r->p99_wait };
        const double shares[] = { r->util, r->waste + r->idle_frag };
        char buf[HUMAN_SIZE];

        table_add(t, STYLE_BOLD, runs[i].policy);
        for (size_t k = 0; k < array_size(spans); k++)
            table_add(t, STYLE_PLAIN,
                      human_span((uint64_t) (spans[k] * 1000), buf));
        for (size_t k = 0; k < array_size(shares); k++)
            if (r->shares)
                table_printf(t, STYLE_PLAIN, "%.2f%%", 100 * shares[k]);
            else
                table_add(t, STYLE_PLAIN, "");
        table_add(t, STYLE_PLAIN,
                  o->muri ? "" : human_count(r->preemptions, buf));
    }
    return print_table(c, t);
}

static int print_runs(const struct cli *c, const struct run_opts *o,
                      const struct report_run *runs, size_t n)
{
    switch (c->out) {
    case OUT_JSON:
        return print_jsons(c, o, runs, n);
    case OUT_CSV:
        return print_csv(c, o, runs, n);
    case OUT_HTML:
        return print_html(c, o, runs, n);
    case OUT_TABLE:
    case OUT_WIDE:
        break;
    }
    return n == 1 ? print_one(c, o, runs) : print_several(c, o, runs, n);
}

/* ---- the run ---- */

static void show_progress(double done, void *arg)
{
    const struct report_run *run = arg;
    char bar[31] = { 0 };

    memset(bar, '.', sizeof bar - 1);
    memset(bar, '#', (size_t) (done * (double) (sizeof bar - 1)));
    (void) fprintf(stderr, "\r%-16s [%s] %3.0f %%", run->policy, bar,
                   100 * done);
}

static void end_progress(void)
{
    (void) fprintf(stderr, "\r\033[K");
}

/* A model without a row is rated 1; one that is misspelled has none. */
static void note_models(const struct cli *c, const struct run_opts *o,
                        const struct policy *rules, const struct cluster *k)
{
    for (unsigned m = 0; rules && m < k->nmodels; m++) {
        const char *name = k->models[m].name;
        struct near near;
        uint32_t i = 0;

        near_init(&near, name);
        while (i < rules->nmodels &&
               strcasecmp(rules->models[i].model, name) != 0)
            near_try(&near, rules->models[i++].model);
        if (i < rules->nmodels || !strchr(o->nodes, ':'))
            continue;
        cli_note(c, "--nodes: the rules have no model '%s', it is rated 1%s%s"
                 "%s", name, near.best ? "; did you mean '" : "",
                 near.best ? near.best : "", near.best ? "'?" : "");
    }
}

static int make_cluster(const struct cli *c, const struct run_opts *o,
                        const struct run_options *how,
                        const struct report_run *runs, size_t n,
                        struct cluster *ret)
{
    struct err err;

    if (cluster_parse(o->nodes, ret, &err) < 0)
        return cli_fail(c, CLI_USAGE, "--nodes: %s", err.text);
    for (size_t i = 0; i < n; i++) {
        unsigned most = run_gpus_max(run_policy_find(runs[i].policy));

        if (ret->gpus > most)
            return cli_fail(c, CLI_USAGE, "--nodes: '%.40s': at most %u GPUs "
                            "on a node with %s", o->nodes, most,
                            runs[i].policy);
    }
    note_models(c, o, how->rules, ret);
    return 0;
}

static int play_all(const struct cli *c, const struct run_opts *o,
                    struct run_options *how, struct report_run *runs,
                    size_t n)
{
    struct cluster cluster = { 0 };
    struct trace trace = { 0 };
    bool bar = isatty(STDERR_FILENO) == 1;
    struct err err;
    int rc = make_cluster(c, o, how, runs, n, &cluster);

    if (rc == 0)
        rc = read_trace(c, o, &trace);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        how->policy = run_policy_find(runs[i].policy);
        how->log = c->out == OUT_HTML ? &runs[i].log : NULL;
        how->progress = bar ? show_progress : NULL;
        how->arg = &runs[i];
        rc = run_trace(&trace, &cluster, how, &runs[i].result, &err);
        if (bar)
            end_progress();
        if (rc < 0)
            rc = cli_fail(c, CLI_DOCUMENT, "%s", err.text);
    }
    trace_free(&trace);
    cluster_free(&cluster);
    return rc;
}

/* "a,b,c", cut up, into runs. */
static int split_policies(const struct cli *c, const struct run_opts *o,
                          char *names, struct report_run *runs, size_t *ret_n)
{
    size_t n = 0;

    for (char *at = names; at; n++) {
        char *name = strsep(&at, ",");

        if (n == REPORT_RUNS)
            return cli_fail(c, CLI_USAGE, "--policy: at most %d at once",
                            REPORT_RUNS);
        if (!run_policy_find(name))
            return cli_fail(c, CLI_USAGE, "--policy '%s': there are %s", name,
                            run_policy_names());
        if (!o->quotas && strncmp(name, "quota-", 6) == 0)
            return cli_fail(c, CLI_USAGE, "%s needs --quotas", name);
        runs[n].policy = name;
    }
    *ret_n = n;
    return 0;
}

static int check_resume(const struct cli *c, const struct run_opts *o,
                        struct run_options *how)
{
    if (o->suspend_ms > SIM_COST_MAX_MS)
        return cli_fail(c, CLI_USAGE, "--suspend-cost: at most 1d");
    if (o->resume && strcmp(o->resume, "same-node") == 0)
        how->same_node = true;
    else if (o->resume && strcmp(o->resume, "never") == 0)
        how->stays = true;
    else if (o->resume && strcmp(o->resume, "anywhere") != 0)
        return cli_fail(c, CLI_USAGE, "--resume '%s': there are anywhere, "
                        "same-node, never", o->resume);
    if ((how->same_node || how->stays) && strcmp(o->policy, "weir") != 0)
        return cli_fail(c, CLI_USAGE, "--resume %s: only with --policy weir",
                        o->resume);
    if (o->pin && !o->quotas)
        return cli_fail(c, CLI_USAGE, "--pin needs --quotas");
    return 0;
}

static bool has_policy(const struct report_run *runs, size_t n,
                       const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(runs[i].policy, name) == 0)
            return true;
    return false;
}

static int check_startup(const struct cli *c, const struct run_opts *o,
                         const struct report_run *runs, size_t n,
                         struct run_options *how)
{
    how->startup = (double) o->startup_ms / 1000;
    if (o->lookahead && !has_policy(runs, n, "weir"))
        return cli_fail(c, CLI_USAGE, "--lookahead: only weir looks ahead, "
                        "not %s", o->policy);
    return sim_lookahead(c, o->startup_ms, o->lookahead, &how->lookahead_ms);
}

/* Muri's rules leave nothing to choose. */
static int check_muri(const struct cli *c, const struct run_opts *o,
                      const struct report_run *runs, size_t n)
{
    for (size_t i = 0; o->muri && i < n; i++)
        if (!run_muri_has(run_policy_find(runs[i].policy)))
            return cli_fail(c, CLI_USAGE, "--muri is for srtf, srsf and las, "
                            "not for %s", runs[i].policy);
    if (o->muri && o->startup_ms > 0)
        return cli_fail(c, CLI_USAGE, "--muri has a startup of its own");
    if (o->muri && o->suspend_ms > 0)
        return cli_fail(c, CLI_USAGE, "--muri has a suspend cost of its own");
    if (o->muri && o->rules)
        return cli_fail(c, CLI_USAGE, "--muri has rules of its own");
    if (o->muri && o->pin)
        return cli_fail(c, CLI_USAGE, "--muri keeps no tenant to a cluster; "
                        "leave --pin out");
    if (o->muri && c->out == OUT_HTML)
        return cli_fail(c, CLI_USAGE, "--muri gives times only, no report");
    return 0;
}

static int read_rules(const struct cli *c, const struct run_opts *o,
                      struct policy *ret, struct run_options *how)
{
    autofree char *text = NULL;
    size_t len = 0;
    struct err err;
    int rc;

    if (!o->rules)
        return 0;
    rc = sim_read(c, o->rules, &text, &len);
    if (rc != 0)
        return rc;
    if (run_rules(sim_name(o->rules), text, len, ret, &err) < 0)
        return cli_fail(c, CLI_DOCUMENT, "%s", err.text);
    how->rules = ret;
    return 0;
}

static int run_run(struct cli *c, const void *opts)
{
    const struct run_opts *o = opts;
    struct run_options how = {
        .resume_cost = (double) o->suspend_ms / 1000, .pinned = o->pin,
        .muri = o->muri, .quotas = o->quotas != NULL,
    };
    autofree char *names = mem_str(o->policy);
    autofree struct report_run *runs = mem_array(REPORT_RUNS, sizeof *runs);
    struct policy rules;
    size_t n = 0;
    int rc;

    if (!o->trace || !o->nodes || !o->policy)
        return cli_fail(c, CLI_USAGE, "--trace, --nodes and --policy are "
                        "needed");
    rc = split_policies(c, o, names, runs, &n);
    if (rc == 0)
        rc = check_muri(c, o, runs, n);
    if (rc == 0)
        rc = check_resume(c, o, &how);
    if (rc == 0)
        rc = check_startup(c, o, runs, n, &how);
    if (rc == 0)
        rc = read_rules(c, o, &rules, &how);
    if (rc == 0)
        rc = play_all(c, o, &how, runs, n);
    if (rc == 0)
        rc = print_runs(c, o, runs, n);
    for (size_t i = 0; i < n; i++)
        run_log_free(&runs[i].log);
    return rc;
}

#define AT(member) offsetof(struct run_opts, member)
static const struct opt run_options[] = {
    { "trace", 0, "CSV", "jobs: submit_s,duration_s,gpus[,tenant], or a file "
      "of Philly or Muri; - is standard input", OPT_TEXT, AT(trace) },
    { "nodes", 0, "SPEC", "NODESxGPUS, CLUSTERSxNODESxGPUS, or of several "
      "models 32x8:H200+32x8:A10; at most 65536 nodes of 64 GPUs, with weir "
      "of 16", OPT_TEXT, AT(nodes) },
    { "policy", 0, "NAMES", "one or several, \"a,b\": fifo, fifo-backfill, "
      "easy, sjf, las, srtf, srsf, "
      "quota-strict, quota-backfill, quota-borrow or weir", OPT_TEXT,
      AT(policy) },
    { "rules", 0, "FILE", "a policy document: how fast models are, and what "
      "weir goes by", OPT_TEXT, AT(rules) },
    { "quotas", 0, "CSV", "tenant,nominal_gpus[,cluster]", OPT_TEXT,
      AT(quotas) },
    { "pin", 0, NULL, "tenants keep to the cluster of their quota", OPT_FLAG,
      AT(pin) },
    { "suspend-cost", 0, "TIME", "what a suspended job pays when it resumes",
      OPT_DURATION_0, AT(suspend_ms) },
    { "startup", 0, "TIME", "what a job takes once before its work begins, "
      "unless weir stages it", OPT_DURATION_0, AT(startup_ms) },
    { "lookahead", 0, "TIME", "weir: with --startup, of the policy (1m); 0s: "
      "nothing is staged", OPT_TEXT, AT(lookahead) },
    { "resume", 0, "WHERE", "weir: anywhere (the default), same-node, or never: "
      "nothing is suspended",
      OPT_TEXT, AT(resume) },
    { "muri", 0, NULL, "the published rules of Muri's simulator, with its "
      "overheads (srtf, srsf, las)", OPT_FLAG, AT(muri) },
    { .kind = OPT_END },
};
#undef AT

const struct verb verb_sim_run = {
    .name = "sim run",
    .summary = "replay a trace of jobs under a policy",
    .usage = "--trace CSV --nodes SPEC --policy NAMES [OPTIONS]",
    .about = "Jobs are gangs of whole GPUs on a virtual clock. Nothing real "
             "is touched. With -o html the answer is a page of charts that "
             "needs nothing else, with -o csv a row for each policy.",
    .examples =
        "weir sim run --trace jobs.csv --nodes 64x8 --policy weir\n"
        "weir sim run --trace jobs.csv --nodes 64x8 --policy "
        "fifo,easy,weir -o html > report.html",
    .opts = run_options,
    .size = sizeof(struct run_opts),
    .arg = ARG_FILE,
    .reports = true,
    .run = run_run,
};
