#include "cli/verbs.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/print.h"
#include "sim/cluster.h"
#include "sim/openb.h"
#include "sim/pack.h"
#include "sim/run.h"
#include "sim/trace.h"

#include <errno.h>
#include <string.h>

enum { FILE_MAX = 1024 * 1024 * 1024 };

/* 0, or an exit status after saying why. */
static int read_file(const struct cli *c, const char *path, char **ret,
                     size_t *ret_len)
{
    struct err err;
    int rc = fs_read(path, FILE_MAX, ret, ret_len, &err);

    if (rc < 0)
        return cli_fail(c, rc == -ENOENT ? CLI_MISSING : CLI_BROKEN, "%s",
                        err.text);
    return 0;
}

/* ---- sim pack ---- */

struct pack_opts {
    const char *nodes, *pods, *order, *policy;
    uint64_t seed;
};

static int read_list(const struct cli *c, const struct pack_opts *o,
                     struct pack_list *ret)
{
    autofree char *nodes = NULL, *pods = NULL;
    size_t nodes_len = 0, pods_len = 0;
    struct err err;
    int rc = read_file(c, o->nodes, &nodes, &nodes_len);

    if (rc == 0)
        rc = read_file(c, o->pods, &pods, &pods_len);
    if (rc != 0)
        return rc;
    if (openb_read(o->nodes, nodes, nodes_len, o->pods, pods, pods_len, ret,
                   &err) < 0)
        return cli_fail(c, CLI_DOCUMENT, "%s", err.text);
    return 0;
}

enum { INFLATE = 130 };                /* percent of the GPUs, as published */

static int read_order(const struct cli *c, const struct pack_opts *o,
                      const struct pack_list *l, struct pack_order *ret)
{
    autofree char *text = NULL;
    size_t len = 0;
    struct err err;
    int rc;

    if (!o->order) {
        pack_order_draw(l, o->seed, INFLATE, ret);
        return 0;
    }
    rc = read_file(c, o->order, &text, &len);
    if (rc != 0)
        return rc;
    rc = openb_order(o->order, text, len, o->seed, l, ret, &err);
    if (rc < 0)
        return cli_fail(c, rc == -ENOENT ? CLI_MISSING : CLI_DOCUMENT, "%s",
                        err.text);
    return 0;
}

static int print_pack(const struct cli *c, const struct pack_opts *o,
                      const struct pack_result *r)
{
    double share = r->capacity_milli ? (double) r->allocated_milli /
                                       (double) r->capacity_milli : 0;
    struct table *t;
    char buf[HUMAN_SIZE];

    if (c->out == OUT_JSON) {
        autojson json_t *j = json_object();

        json_put_str(j, "policy", o->policy);
        json_put_u64(j, "seed", o->seed);
        json_put_u64(j, "arrived_pods", r->arrived);
        json_put_u64(j, "failed_pods", r->failed);
        json_put_u64(j, "arrived_milli_gpu", r->arrived_milli);
        json_put_u64(j, "allocated_milli_gpu", r->allocated_milli);
        json_put_u64(j, "capacity_milli_gpu", r->capacity_milli);
        json_put(j, "frag_milli_gpu", json_real(r->frag_milli));
        json_put(j, "allocated", json_real(share));
        return print_json(c, j);
    }
    t = sheet_new();
    sheet_add(t, "policy", o->policy);
    sheet_printf(t, "pods", "%s came", human_count(r->arrived, buf));
    sheet_printf(t, "dropped", "%s", human_count(r->failed, buf));
    sheet_printf(t, "allocated", "%.2f of %.0f GPUs, %.2f %%",
                 (double) r->allocated_milli / PACK_WHOLE,
                 (double) r->capacity_milli / PACK_WHOLE, 100 * share);
    sheet_printf(t, "fragmented", "%.2f GPUs", r->frag_milli / PACK_WHOLE);
    return print_sheet(c, t);
}

static int run_pack(struct cli *c, const void *opts)
{
    struct pack_opts o = *(const struct pack_opts *) opts;
    const struct pack_policy *policy;
    struct pack_list l = { 0 };
    struct pack_order order = { 0 };
    struct pack_result r;
    int rc;

    if (!o.nodes || !o.pods)
        return cli_fail(c, CLI_USAGE, "--nodes and --pods are needed");
    if (!o.policy)
        o.policy = "weir";
    policy = pack_policy_find(o.policy);
    if (!policy)
        return cli_fail(c, CLI_USAGE, "--policy %s: there are %s", o.policy,
                        pack_policy_names());
    rc = read_list(c, &o, &l);
    if (rc == 0)
        rc = read_order(c, &o, &l, &order);
    if (rc == 0) {
        pack_replay(&l, &order, policy, o.seed, &r);
        rc = print_pack(c, &o, &r);
    }
    pack_list_free(&l);
    pack_order_free(&order);
    return rc;
}

#define AT(member) offsetof(struct pack_opts, member)
static const struct opt pack_options[] = {
    { "nodes", 0, "CSV", "the cluster, one node a row", OPT_TEXT, AT(nodes) },
    { "pods", 0, "CSV", "the list of pods", OPT_TEXT, AT(pods) },
    { "order", 0, "FILE", "in which order pods arrive, for each seed; without "
      "it Weir draws one", OPT_TEXT, AT(order) },
    { "seed", 0, "N", "which order; 0 when not given", OPT_COUNT, AT(seed) },
    { "policy", 0, "NAME", "random, dotprod, clustering, packing, bestfit, "
      "fgd or weir (the default)", OPT_TEXT, AT(policy) },
    { .kind = OPT_END },
};
#undef AT

const struct verb verb_sim_pack = {
    .name = "sim pack",
    .summary = "replay arriving pods: how full do the GPUs get?",
    .usage = "--nodes CSV --pods CSV [--order FILE] [--seed N] "
             "[--policy NAME]",
    .about = "Pods arrive one by one and never leave; one that fits nowhere "
             "is dropped. The files are those of Alibaba's "
             "cluster-trace-gpu-v2023. Nothing real is touched.",
    .examples = "weir sim pack --nodes nodes.csv --pods pods.csv --seed 42",
    .opts = pack_options,
    .size = sizeof(struct pack_opts),
    .arg = ARG_FILE,
    .run = run_pack,
};

/* ---- sim run ---- */

struct run_opts {
    const char *trace, *nodes, *quotas, *policy;
    uint64_t suspend_ms;
    bool pin, muri;
};

static int read_trace(const struct cli *c, const struct run_opts *o,
                      struct trace *ret)
{
    autofree char *text = NULL, *quotas = NULL;
    size_t len = 0;
    struct err err;
    int rc = read_file(c, o->trace, &text, &len);

    if (rc != 0)
        return rc;
    if (trace_read(o->trace, text, len, ret, &err) < 0)
        return cli_fail(c, CLI_DOCUMENT, "%s", err.text);
    if (!o->quotas)
        return 0;
    rc = read_file(c, o->quotas, &quotas, &len);
    if (rc != 0)
        return rc;
    if (trace_quotas(o->quotas, quotas, len, ret, &err) < 0)
        return cli_fail(c, CLI_DOCUMENT, "%s", err.text);
    return 0;
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
        .muri = o->muri,
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
    return play_run(c, o, &how);
}

#define AT(member) offsetof(struct run_opts, member)
static const struct opt run_options[] = {
    { "trace", 0, "CSV", "jobs: submit_s,duration_s,gpus[,tenant], or a file "
      "of Philly or Muri", OPT_TEXT, AT(trace) },
    { "nodes", 0, "SPEC", "NODESxGPUS, or CLUSTERSxNODESxGPUS", OPT_TEXT,
      AT(nodes) },
    { "policy", 0, "NAME", "fifo, fifo-backfill, easy, sjf, las, srtf, srsf, "
      "quota-strict, quota-backfill or quota-borrow", OPT_TEXT, AT(policy) },
    { "quotas", 0, "CSV", "tenant,nominal_gpus[,cluster]", OPT_TEXT,
      AT(quotas) },
    { "pin", 0, NULL, "tenants keep to the cluster of their quota", OPT_FLAG,
      AT(pin) },
    { "suspend-cost", 0, "TIME", "what a suspended job pays when it resumes",
      OPT_DURATION, AT(suspend_ms) },
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
