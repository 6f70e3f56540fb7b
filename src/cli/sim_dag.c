#include "cli/verbs.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/print.h"
#include "cli/sim.h"
#include "plan/plan.h"
#include "sim/dag.h"
#include "sim/flow.h"
#include "sim/mixed.h"

#include <string.h>

enum { MS = 1000, MILLI = 1000 };

/* ---- sim dag ---- */

struct dag_opts {
    uint64_t slots;
    const char *learned;
};
enum { SLOTS_MAX = 1000000, FILES_MAX = 1000 };

static int read_dag(const struct cli *c, const char *path, struct flow *ret)
{
    autofree char *text = NULL;
    size_t len = 0;
    struct err err;
    int rc = sim_read(c, path, &text, &len);

    if (rc == 0 && dag_read(sim_name(path), text, len, ret, &err) < 0)
        rc = cli_fail(c, CLI_DOCUMENT, "%s", err.text);
    return rc;
}

/* One workflow, by itself.  What is learned comes from a play of `earlier`, in
 * which nothing is known.
 */
static int play_dag(const struct cli *c, const struct flow *f,
                    const struct flow *earlier, uint64_t slots,
                    struct flow_result *ret)
{
    struct flow_nodes node = { .count = 1, .cpu_milli = slots * MILLI };
    struct flow_options o = { .nodes = &node, .nnodes = 1, .alone = true,
                              .learned = earlier != NULL };
    struct plan *p = flow_plan(&o);
    struct err err;
    int rc = 0;

    if (earlier)
        rc = flow_play(earlier, p, &o, ret, &err);
    if (rc == 0)
        rc = flow_play(f, p, &o, ret, &err);
    plan_free(p);
    return rc < 0 ? cli_fail(c, CLI_BROKEN, "%s", err.text) : 0;
}

static double bound_s(const struct flow_result *r, uint64_t slots)
{
    double work = (double) r->cpu_ms / MILLI / (double) slots;
    double way = (double) r->critical_ms;

    return (work > way ? work : way) / MS;
}

static void add_dag(json_t *list, const char *path, const struct flow *f,
                    const struct dag_opts *o, const struct flow_result *r)
{
    const char *slash = strrchr(path, '/');
    json_t *j = json_object();

    json_put_str(j, "file", slash ? slash + 1 : sim_name(path));
    json_put_u64(j, "tasks", f->count);
    json_put_u64(j, "edges", f->nedges);
    json_put_u64(j, "slots", o->slots);
    json_put(j, "learned", json_boolean(o->learned != NULL));
    json_put(j, "work_s", json_real((double) r->cpu_ms / MILLI / MS));
    json_put(j, "critical_path_s", json_real((double) r->critical_ms / MS));
    json_put(j, "bound_s", json_real(bound_s(r, o->slots)));
    json_put(j, "length_s", json_real((double) r->makespan_ms / MS));
    (void) json_array_append_new(list, j);
}

static const struct table_column dag_columns[] = {
    { .name = "FILE" }, { .name = "TASKS", .right = true },
    { .name = "WORK", .right = true },
    { .name = "CRITICAL PATH", .right = true },
    { .name = "SLOTS", .right = true }, { .name = "LENGTH", .right = true },
    { .name = "OVER THE BOUND", .right = true }, { .name = NULL },
};

static double real_of(const json_t *j, const char *key)
{
    return json_get_number(j, key);
}

static void dag_row(struct table *t, const json_t *j)
{
    char buf[HUMAN_SIZE];
    double length = real_of(j, "length_s");
    double bound = real_of(j, "bound_s");

    table_add(t, STYLE_BOLD, json_get_str(j, "file", ""));
    table_add(t, STYLE_PLAIN, human_count(json_get_u64(j, "tasks", 0), buf));
    table_add(t, STYLE_PLAIN, human_span(
        (uint64_t) (real_of(j, "work_s") * MS), buf));
    table_add(t, STYLE_PLAIN, human_span(
        (uint64_t) (real_of(j, "critical_path_s") * MS), buf));
    table_add(t, STYLE_PLAIN, human_count(json_get_u64(j, "slots", 0), buf));
    table_add(t, STYLE_PLAIN, human_span((uint64_t) (length * MS), buf));
    table_printf(t, STYLE_PLAIN, "%.1f%%",
                 bound > 0 ? 100 * (length / bound - 1) : 0);
}

static int run_one(const struct cli *c, const struct dag_opts *o,
                   const char *path, json_t *list)
{
    struct flow f = { 0 }, earlier = { 0 };
    struct flow_result r;
    bool again = o->learned && strcmp(o->learned, "run") == 0;
    int rc = read_dag(c, path, &f);

    if (rc == 0 && o->learned && !again)
        rc = read_dag(c, o->learned, &earlier);
    if (rc == 0)
        rc = play_dag(c, &f, again ? &f : o->learned ? &earlier : NULL,
                      o->slots, &r);
    if (rc == 0)
        add_dag(list, path, &f, o, &r);
    flow_free(&f);
    flow_free(&earlier);
    return rc;
}

static int run_dag(struct cli *c, const void *opts)
{
    const struct dag_opts *o = opts;
    autojson json_t *all = json_object();
    json_t *list = json_array();
    int rc = 0;

    json_put(all, "items", list);
    if (o->slots == 0 || o->slots > SLOTS_MAX)
        return cli_fail(c, CLI_USAGE, "--slots is needed, 1 to %d",
                        SLOTS_MAX);
    for (unsigned i = 0; rc == 0 && i < c->nargs; i++)
        rc = run_one(c, o, c->args[i], list);
    return rc ? rc : print_items(c, all, dag_columns, dag_row);
}

#define AT(member) offsetof(struct dag_opts, member)
static const struct opt dag_options[] = {
    { "slots", 0, "N", "tasks that can run at once", OPT_COUNT, AT(slots) },
    { "learned-from", 0, "FILE", "run times are not known but learned from "
      "this earlier run; the word 'run': from a first run of the same file",
      OPT_TEXT, AT(learned) },
    { .kind = OPT_END },
};
#undef AT

const struct verb verb_sim_dag = {
    .name = "sim dag",
    .summary = "replay workflows: how long do they take on N slots?",
    .usage = "FILE... --slots N [--learned-from FILE|run]",
    .about = "Each file is one workflow of WfCommons' instances, a task a "
             "line: index, run time, program, number of parents, parents. "
             "Tasks go through the plan that weir up uses, those with the "
             "longest way to the end first. Nothing real is touched.",
    .examples = "weir sim dag blast.txt --slots 8\n"
                "weir sim dag blast.txt --slots 8 --learned-from run",
    .opts = dag_options,
    .size = sizeof(struct dag_opts),
    .min_args = 1,
    .max_args = FILES_MAX,
    .arg = ARG_FILE,
    .run = run_dag,
};

/* ---- sim mixed ---- */

enum { RESUME_S = 60 };                /* as with the traces */

struct mixed_opts {
    uint64_t seed, duty, startup_ms;
    const char *lookahead;
    int64_t lookahead_ms;              /* the same, read */
};

struct mixed {
    struct flow_result weir, hold;
    double duty;
    double best_ms;                    /* of holding, no GPU ever idle */
};

static int play_mixed(const struct mixed_opts *with, const struct flow *f,
                      struct flow_result *ret, struct err *err)
{
    struct flow_options o = { .nodes = mixed_nodes,
                              .nnodes = array_size(mixed_nodes),
                              .learned = true,
                              .suspends = true, .resume_ms = RESUME_S * MS,
                              .startup_ms = with->startup_ms,
                              .lookahead_ms = with->lookahead_ms };
    struct plan *p = flow_plan(&o);
    int rc = flow_play(f, p, &o, ret, err);

    plan_free(p);
    return rc;
}

static int both(const struct mixed_opts *o, struct mixed *ret,
                struct err *err)
{
    struct flow f = { 0 }, hold = { 0 };
    int rc;

    mixed_make(o->seed, (double) o->duty / MILLI, &f);
    mixed_hold(&f, &hold);
    rc = play_mixed(o, &f, &ret->weir, err);
    if (rc == 0)
        rc = play_mixed(o, &hold, &ret->hold, err);
    ret->duty = (double) ret->weir.gpu_ms / (double) ret->hold.gpu_ms;
    ret->best_ms = (double) ret->hold.gpu_ms / (double) ret->hold.gpus;
    flow_free(&f);
    flow_free(&hold);
    return rc;
}

static double idle_share(const struct flow_result *r)
{
    return r->wanted_ms ? (double) r->idle_ms / (double) r->wanted_ms : 0;
}

static void put_side(json_t *j, const char *name, const struct flow_result *r)
{
    json_t *o = json_object();

    json_put(o, "makespan_s", json_real((double) r->makespan_ms / MS));
    json_put(o, "pipelines_per_hour",
             json_real(MIXED_PIPELINES * 3600.0 * MS /
                       (double) r->makespan_ms));
    json_put(o, "avg_completion_s", json_real(r->avg_ms / MS));
    json_put(o, "wr_while_queued", json_real(idle_share(r)));
    json_put(o, "overhead",
             json_real((double) r->resume_ms / (double) r->gpus /
                       (double) r->makespan_ms));
    json_put_u64(o, "preemptions", r->preemptions);
    if (r->staged.ready + r->staged.late + r->staged.cold > 0)
        json_put(o, "starts", sim_staged_json(&r->staged));
    json_put(j, name, o);
}

static int print_mixed(const struct cli *c, const struct mixed_opts *o,
                       const struct mixed *m)
{
    double gain = (double) m->hold.makespan_ms / (double) m->weir.makespan_ms;
    double of_bound = m->best_ms * m->duty / (double) m->weir.makespan_ms;
    char buf[HUMAN_SIZE];
    struct table *t;

    if (c->out == OUT_JSON) {
        autojson json_t *j = json_object();

        json_put_u64(j, "seed", o->seed);
        json_put_u64(j, "pipelines", MIXED_PIPELINES);
        json_put(j, "duty", json_real(m->duty));
        put_side(j, "weir", &m->weir);
        put_side(j, "holding", &m->hold);
        json_put(j, "gain", json_real(gain));
        json_put(j, "bound", json_real(1 / m->duty));
        json_put(j, "of_bound", json_real(of_bound));
        return print_json(c, j);
    }
    t = sheet_new();
    sheet_printf(t, "pipelines", "%d on 64 simulated GPUs", MIXED_PIPELINES);
    sheet_printf(t, "duty", "%.3f of the GPU time a pipeline would hold",
                 m->duty);
    sheet_add(t, "holding", human_span(m->hold.makespan_ms, buf));
    sheet_add(t, "weir", human_span(m->weir.makespan_ms, buf));
    sheet_printf(t, "throughput", "%.3f times that of holding, %.1f %% of the "
                 "bound %.3f", gain, 100 * of_bound, 1 / m->duty);
    sheet_printf(t, "WR", "%.2f %% while some task waits for GPUs",
                 100 * idle_share(&m->weir));
    return print_sheet(c, t);
}

static int run_mixed(struct cli *c, const void *opts)
{
    struct mixed_opts o = *(const struct mixed_opts *) opts;
    struct mixed m = { 0 };
    struct err err;
    int rc;

    if (o.duty == 0)
        o.duty = MILLI / 2;
    if (o.duty < 100 || o.duty > 800)
        return cli_fail(c, CLI_USAGE, "--duty: expected 0.1 to 0.8");
    rc = sim_lookahead(c, o.startup_ms, o.lookahead, &o.lookahead_ms);
    if (rc != 0)
        return rc;
    if (both(&o, &m, &err) < 0)
        return cli_fail(c, CLI_BROKEN, "%s", err.text);
    return print_mixed(c, &o, &m);
}

#define AT(member) offsetof(struct mixed_opts, member)
static const struct opt mixed_options[] = {
    { "seed", 0, "N", "which draw; 0 when not given", OPT_COUNT_0, AT(seed) },
    { "duty", 0, "SHARE", "of the time for which a pipeline would hold its "
      "GPUs, how much it uses them: 0.1 to 0.8; 0.5 when not given", OPT_MILLI,
      AT(duty) },
    { "startup", 0, "TIME", "what a task with GPUs takes once before its work "
      "begins, unless it is staged", OPT_DURATION_0,
      AT(startup_ms) },
    { "lookahead", 0, "TIME", "with --startup, of the policy (1m); 0s: nothing "
      "is staged", OPT_TEXT, AT(lookahead) },
    { .kind = OPT_END },
};
#undef AT

const struct verb verb_sim_mixed = {
    .name = "sim mixed",
    .summary = "pipelines of CPU and GPU stages, against holding the GPUs",
    .usage = "[--duty SHARE] [--seed N] [OPTIONS]",
    .about = "A thousand pipelines of three tenants, drawn from the seed: "
             "preparation, training, evaluation, inference, some of them "
             "gangs. They go through the plan stage by stage, and again with "
             "every pipeline keeping its GPUs from start to end. Nothing real "
             "is touched.",
    .examples = "weir sim mixed --duty 0.3",
    .opts = mixed_options,
    .size = sizeof(struct mixed_opts),
    .run = run_mixed,
};
