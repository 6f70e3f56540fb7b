#include "cli/verbs.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "cli/call.h"
#include "cli/print.h"

#include <stdio.h>

struct cost_opts {
    const char *tenant, *since, *by;
};

#define AT(member) offsetof(struct cost_opts, member)
static const struct opt cost_opts[] = {
    { "tenant", 0, "NAME", "of this tenant alone", OPT_TEXT, AT(tenant) },
    { "since", 0, "TIME", "of workloads submitted since: a date, or so long "
      "ago, like 7d", OPT_TEXT, AT(since) },
    { "by", 0, "WHAT", "a row for each 'tenant' or 'workload'", OPT_TEXT,
      AT(by) },
    { .kind = OPT_END },
};
#undef AT

static void add_amount(struct table *t, double v, int places)
{
    table_printf(t, STYLE_PLAIN, "%.*f", places, v);
}

/* "12.5 of 100 gpu_hours", of this period. */
static void add_budget(struct table *t, const json_t *b)
{
    char spent[HUMAN_SIZE], amount[HUMAN_SIZE];

    if (!b) {
        table_add(t, STYLE_PLAIN, "");
        return;
    }
    table_printf(t, json_get_bool(b, "over", false) ? STYLE_BAD : STYLE_PLAIN,
                 "%s of %s %s", get_number(b, "spent", spent),
                 get_number(b, "amount", amount),
                 json_get_str(b, "unit", ""));
}

static const struct table_column columns[] = {
    { .name = "TENANT" }, { .name = "WORKLOAD" }, { .name = "NAME" },
    { .name = "GPU-HOURS", .right = true },
    { .name = "LOST", .right = true }, { .name = "COST", .right = true },
    { .name = "BUDGET" }, { .name = NULL },
};

static void add_row(struct table *t, const json_t *o)
{
    table_add(t, STYLE_BOLD, json_get_str(o, "tenant", ""));
    table_add(t, STYLE_PLAIN, json_get_str(o, "workload", ""));
    table_add(t, STYLE_PLAIN, json_get_str(o, "name", ""));
    add_amount(t, json_get_number(o, "gpu_hours"), 3);
    add_amount(t, json_get_number(o, "gpu_seconds_lost") / 3600, 3);
    add_amount(t, json_get_number(o, "cost"), 2);
    add_budget(t, json_object_get(o, "budget"));
}

static const struct table_column task_columns[] = {
    { .name = "TASK" }, { .name = "STATE" },
    { .name = "GPU-HOURS", .right = true },
    { .name = "LOST", .right = true }, { .name = "COST", .right = true },
    { .name = NULL },
};

static void add_task(struct table *t, const json_t *o)
{
    const char *word = state_word(o);

    table_add(t, STYLE_BOLD, json_get_str(o, "task", ""));
    table_add(t, state_style(word), word);
    add_amount(t, json_get_number(o, "gpu_seconds") / 3600, 3);
    add_amount(t, json_get_number(o, "gpu_seconds_lost") / 3600, 3);
    add_amount(t, json_get_number(o, "cost"), 2);
}

static int cost_of_tasks(struct cli *c, const char *name)
{
    autojson json_t *reply = NULL;
    autofree char *id = NULL;
    int rc = cli_workload(c, name, &id);

    if (rc == 0)
        rc = call_tasks(c, id, "task,state,outcome,gpu_seconds,"
                        "gpu_seconds_lost,cost", &reply);
    return rc ? rc : print_items(c, reply, task_columns, add_task);
}

static void add_arg(struct buf *path, const char *name, const char *value)
{
    autofree char *escaped = value ? call_path("%s", value) : NULL;

    if (escaped)
        buf_printf(path, "&%s=%s", name, escaped);
}

static int run_cost(struct cli *c, const void *opts)
{
    const struct cost_opts *o = opts;
    autobuf struct buf path = BUF_INIT(65536);
    autojson json_t *reply = NULL;
    uint64_t ms;
    int rc;

    if (c->nargs && (o->by || o->tenant || o->since))
        return cli_fail(c, CLI_USAGE, "of one workload it is by task: --by, "
                        "--tenant and --since go without one");
    if (c->nargs)
        return cost_of_tasks(c, c->args[0]);
    if (o->since && quantity_duration(o->since, &ms, NULL) < 0 &&
        clock_parse(o->since, &ms, NULL) < 0)
        return cli_fail(c, CLI_USAGE, "--since: expected a date such as "
                        "2030-01-31T18:00:00Z, or so long ago such as 7d, "
                        "got '%s'", o->since);
    buf_str(&path, "/v1/cost?limit=1000");
    add_arg(&path, "by", o->by);
    add_arg(&path, "tenant", o->tenant);
    add_arg(&path, "since", o->since);
    rc = call_list(c, buf_text(&path), "before", NULL, 0, &reply);
    return rc ? rc : print_items(c, reply, columns, add_row);
}

const struct verb verb_cost = {
    .name = "cost",
    .summary = "GPU-hours and money: of tenants, workloads, or tasks of one",
    .usage = "[WORKLOAD] [--by tenant|workload] [--tenant NAME] [--since TIME]",
    .about = "Prices come from the policy.  LOST is what had to be done again "
             "because a task\ngave way.  COST is of what has ended, from its "
             "start to its end.  BUDGET is of this\nperiod, counts devices "
             "from when a task got them, and has what is held now and what\n"
             "tenants below spent.",
    .examples = "weir cost\n"
                "weir cost --by workload --tenant vision --since 7d\n"
                "weir cost w12    # its tasks",
    .opts = cost_opts,
    .size = sizeof(struct cost_opts),
    .max_args = 1,
    .arg = ARG_WORKLOAD,
    .run = run_cost,
};
