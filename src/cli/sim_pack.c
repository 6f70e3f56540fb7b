#include "cli/verbs.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/print.h"
#include "cli/sim.h"
#include "sim/openb.h"
#include "sim/pack.h"

#include <errno.h>

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
    int rc = sim_read(c, o->nodes, &nodes, &nodes_len);

    if (rc == 0)
        rc = sim_read(c, o->pods, &pods, &pods_len);
    if (rc != 0)
        return rc;
    if (openb_read(sim_name(o->nodes), nodes, nodes_len, sim_name(o->pods),
                   pods, pods_len, ret, &err) < 0)
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
    rc = sim_read(c, o->order, &text, &len);
    if (rc != 0)
        return rc;
    rc = openb_order(sim_name(o->order), text, len, o->seed, l, ret, &err);
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
    { "seed", 0, "N", "which order; 0 when not given", OPT_COUNT_0, AT(seed) },
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
