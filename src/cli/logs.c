#include "cli/verbs.h"

#include "base/json.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/tail.h"
#include "cli/views.h"

#include <inttypes.h>

struct logs_opts {
    bool follow;
    uint64_t rank, attempt;
};

#define AT(member) offsetof(struct logs_opts, member)
static const struct opt logs_opts[] = {
    { "follow", 'f', NULL, "go on until it ends", OPT_FLAG, AT(follow) },
    { "rank", 0, "N", "of this rank of a gang (0)", OPT_COUNT_0,
      AT(rank) },
    { "attempt", 0, "N", "of this attempt (the newest)", OPT_COUNT,
      AT(attempt) },
    { .kind = OPT_END },
};
#undef AT

/* All tasks that began, one after the other, each line with its task. */
static int print_all(struct cli *c, const struct logs_opts *o, const char *id,
                     const json_t *tasks)
{
    unsigned width = 0, shown = 0;
    const json_t *t;
    size_t i;
    int rc = 0;

    json_array_foreach(tasks, i, t) {
        unsigned w = paint_width(json_get_str(t, "task", ""));

        if (w > width)
            width = w < 24 ? w : 24;
    }
    json_array_foreach(tasks, i, t) {
        const char *name = json_get_str(t, "task", "");
        autofree char *prefix = mem_printf("%-*s | ", (int) width, name);
        struct tail_conf conf = {
            .workload = id, .task = name, .rank = (uint32_t) o->rank,
            .prefix = prefix,
        };
        int one;

        if (json_get_u64(t, "attempt", 0) == 0)
            continue;
        one = tail_all(c, &conf);
        shown += one == 0;
        if (one != 0)
            rc = one;
    }
    return shown ? 0 : rc;
}

static int logs_workload(struct cli *c, const struct logs_opts *o,
                         const char *id)
{
    autojson json_t *reply = NULL;
    const json_t *tasks;
    int rc = call_tasks(c, id, "task,attempt", &reply);

    if (rc != 0)
        return rc;
    tasks = json_object_get(reply, "items");
    if (json_array_size(tasks) == 1) {
        struct tail_conf conf = {
            .workload = id, .rank = (uint32_t) o->rank, .prefix = "",
            .attempt = (uint32_t) o->attempt, .follow = o->follow,
            .task = json_get_str(json_array_get(tasks, 0), "task", ""),
        };

        return tail_all(c, &conf);
    }
    if (o->attempt)
        return cli_fail(c, CLI_USAGE, "--attempt is for one task: say %s/TASK",
                        id);
    return print_all(c, o, id, tasks);
}

static int run_logs(struct cli *c, const void *opts)
{
    const struct logs_opts *o = opts;
    struct view_log log = { 0 };
    autofree char *id = NULL;
    autofree char *task = NULL;
    struct tail_conf conf = {
        .rank = (uint32_t) o->rank, .attempt = (uint32_t) o->attempt,
        .follow = o->follow, .prefix = "",
    };
    int rc = cli_target(c, c->args[0], &id, &task);

    if (rc != 0)
        return rc;
    if (o->rank > UINT32_MAX || o->attempt > UINT32_MAX)
        return cli_fail(c, CLI_USAGE, "--rank and --attempt are small numbers");
    conf.workload = id;
    conf.task = task;
    if (task[0])
        return tail_all(c, &conf);
    if (!o->follow)
        return logs_workload(c, o, id);
    rc = follow_run(c, id, false, &view_log, &log);
    /* How the workload ended is not what was asked for. */
    if (rc == CLI_FAILED || rc == CLI_INTERRUPTED)
        rc = 0;
    return log.failed && rc == 0 ? CLI_BROKEN : rc;
}

const struct verb verb_logs = {
    .name = "logs",
    .summary = "what tasks wrote",
    .usage = "[-f] WORKLOAD[/TASK] [--rank N] [--attempt N]",
    .about = "Of a workload with several tasks, each line is led by its "
             "task's name.",
    .examples = "weir logs w12/train\n"
                "weir logs -f w12              # all tasks, as they write\n"
                "weir logs w12/train --attempt 1 --rank 3",
    .opts = logs_opts,
    .size = sizeof(struct logs_opts),
    .min_args = 1, .max_args = 1,
    .arg = ARG_WORKLOAD,
    .run = run_logs,
};
