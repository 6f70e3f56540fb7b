#include "cli/verbs.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "cli/call.h"
#include "cli/print.h"

/* The verbs that do one thing to one workload. */

/* POST it; with -o json the answer is printed, else `said` and the id. */
static int act(struct cli *c, const char *id, const char *what,
               const json_t *body, const char *said)
{
    autofree char *path = call_path("/v1/workloads/%s/%s", id, what);
    autojson json_t *reply = NULL;
    int rc = call_json(c, "POST", path, body, &reply);

    return rc ? rc : print_done(c, reply, "%s %s",
                                json_get_str(reply, "id", id), said);
}

/* What the verb says to the workload of its argument, or to one task. */
static int act_some(struct cli *c, const char *what, json_t *body,
                    const char *said)
{
    autofree char *id = NULL, *task = NULL, *line = NULL;
    int rc = cli_target(c, c->args[0], &id, &task);

    if (rc != 0)
        return rc;
    if (task[0])
        json_put_str(body, "task", task);
    line = task[0] ? mem_printf("(its task %s) %s", task, said)
                   : mem_str(said);
    return act(c, id, what, body, line);
}

/* ---- abort ---- */

struct abort_opts {
    bool force;
};

static const struct opt abort_opts[] = {
    { "force", 'f', NULL, "kill at once: no grace, no checkpoint", OPT_FLAG,
      offsetof(struct abort_opts, force) },
    { .kind = OPT_END },
};

static int run_abort(struct cli *c, const void *opts)
{
    const struct abort_opts *o = opts;
    autojson json_t *body = json_object();

    if (o->force)
        json_put_bool(body, "force", true);
    return act_some(c, "abort", body, "is ending");
}

const struct verb verb_abort = {
    .name = "abort",
    .summary = "end a workload, or one task of it",
    .usage = "WORKLOAD[/TASK] [--force]",
    .about = "Running tasks get their stop signal and their grace first.",
    .examples = "weir abort w12\n"
                "weir abort w12/train      # what needs it is then skipped\n"
                "weir abort w12 --force    # at once",
    .opts = abort_opts,
    .size = sizeof(struct abort_opts),
    .min_args = 1, .max_args = 1,
    .arg = ARG_WORKLOAD,
    .run = run_abort,
};

/* ---- retry ---- */

static int run_retry(struct cli *c, const void *opts)
{
    autofree char *id = NULL;
    autofree char *said = NULL;
    int rc = cli_workload(c, c->args[0], &id);

    (void) opts;
    if (rc != 0)
        return rc;
    said = mem_printf("submitted, as a retry of %s", id);
    return act(c, id, "retry", NULL, said);
}

const struct verb verb_retry = {
    .name = "retry",
    .summary = "submit an ended workload again, keeping what had succeeded",
    .usage = "WORKLOAD",
    .about = "",
    .examples = "weir retry w12",
    .opts = no_opts,
    .min_args = 1, .max_args = 1,
    .arg = ARG_WORKLOAD,
    .run = run_retry,
};

/* ---- pause and unpause ---- */

static int act_here(struct cli *c, const char *what, const char *said)
{
    autojson json_t *body = json_object();

    return act_some(c, what, body, said);
}

static int run_pause(struct cli *c, const void *opts)
{
    (void) opts;
    return act_here(c, "pause", "is paused; what runs goes on, nothing new "
                    "starts");
}

static int run_unpause(struct cli *c, const void *opts)
{
    (void) opts;
    return act_here(c, "unpause", "goes on");
}

const struct verb verb_pause = {
    .name = "pause",
    .summary = "hold a workload, or one task of it, in the queue",
    .usage = "WORKLOAD[/TASK]",
    .about = "What runs goes on; nothing more of it starts.",
    .examples = "weir pause w12\n"
                "weir pause w12/train",
    .opts = no_opts,
    .min_args = 1, .max_args = 1,
    .arg = ARG_WORKLOAD,
    .run = run_pause,
};

const struct verb verb_unpause = {
    .name = "unpause",
    .summary = "let a paused workload, or one task of it, go on",
    .usage = "WORKLOAD[/TASK]",
    .about = "",
    .examples = "weir unpause w12",
    .opts = no_opts,
    .min_args = 1, .max_args = 1,
    .arg = ARG_WORKLOAD,
    .run = run_unpause,
};

/* ---- suspend and resume ---- */

struct suspend_opts {
    uint64_t for_ms;
};

static const struct opt suspend_opts[] = {
    { "for", 0, "TIME", "let it come back after this long, like 2h; unless "
      "said, when it is resumed", OPT_DURATION,
      offsetof(struct suspend_opts, for_ms) },
    { .kind = OPT_END },
};

static int run_suspend(struct cli *c, const void *opts)
{
    const struct suspend_opts *o = opts;
    autojson json_t *body = json_object();

    if (o->for_ms)
        json_put_u64(body, "seconds", (o->for_ms + 999) / 1000);
    return act_some(c, "suspend", body,
                    "is suspended as soon as it is off its devices");
}

static int run_resume(struct cli *c, const void *opts)
{
    (void) opts;
    return act_here(c, "resume", "runs as soon as it is on its devices");
}

const struct verb verb_suspend = {
    .name = "suspend",
    .summary = "take a running task off its devices, with all it has there",
    .usage = "WORKLOAD[/TASK] [--for TIME]",
    .about = "What it has on its devices goes into the memory of its node, and "
             "its devices are\nfree for others; nothing is lost, and nothing "
             "is charged meanwhile.",
    .examples = "weir suspend w12/train\n"
                "weir suspend w12/train --for 2h",
    .opts = suspend_opts,
    .size = sizeof(struct suspend_opts),
    .min_args = 1, .max_args = 1,
    .arg = ARG_WORKLOAD,
    .run = run_suspend,
};

const struct verb verb_resume = {
    .name = "resume",
    .summary = "let a suspended task come back to its devices",
    .usage = "WORKLOAD[/TASK]",
    .about = "It gets in line, and goes on where it was when there is room.",
    .examples = "weir resume w12/train",
    .opts = no_opts,
    .min_args = 1, .max_args = 1,
    .arg = ARG_WORKLOAD,
    .run = run_resume,
};

/* ---- prioritise ---- */

static int run_prioritise(struct cli *c, const void *opts)
{
    autojson json_t *body = json_object();
    autofree char *said = NULL;
    const char *s = c->args[1];
    uint64_t n;

    (void) opts;
    if (quantity_count(s + (*s == '-' || *s == '+'), &n, NULL) < 0 ||
        n > 1000)
        return cli_fail(c, CLI_USAGE, "'%s' is no priority; expected a whole "
                        "number from -1000 to 1000", s);
    json_put(body, "priority", json_integer(*s == '-' ? -(json_int_t) n :
                                            (json_int_t) n));
    said = mem_printf("has priority %s", s);
    return act_some(c, "prioritise", body, said);
}

const struct verb verb_prioritise = {
    .name = "prioritise",
    .summary = "give a workload, or one task of it, another priority",
    .usage = "WORKLOAD[/TASK] PRIORITY",
    .about = "From -1000 to 1000, higher goes first.  A negative one is "
             "written after '--'.",
    .examples = "weir prioritise w12 100\n"
                "weir prioritise w12/eval -- -10    # only this task, later",
    .opts = no_opts,
    .min_args = 2, .max_args = 2,
    .arg = ARG_WORKLOAD,
    .run = run_prioritise,
};

/* ---- release ---- */

struct release_opts {
    bool abort;
};

static const struct opt release_opts[] = {
    { "abort", 0, NULL, "end it instead of queueing it again", OPT_FLAG,
      offsetof(struct release_opts, abort) },
    { .kind = OPT_END },
};

static int run_release(struct cli *c, const void *opts)
{
    const struct release_opts *o = opts;
    autojson json_t *body = json_object();
    autofree char *id = NULL;
    int rc = cli_workload(c, c->args[0], &id);

    if (rc != 0)
        return rc;
    json_put_bool(body, "abort", o->abort);
    return act(c, id, "release", body,
               o->abort ? "is ending" : "is queued again");
}

const struct verb verb_release = {
    .name = "release",
    .summary = "let go of a workload that a restore put in quarantine",
    .usage = "WORKLOAD [--abort]",
    .about = "After a restore from a backup Weir does not know whether what "
             "ran then has\nrun further since; an operator decides.",
    .examples = "weir release w12            # queue it again\n"
                "weir release w12 --abort    # end it",
    .opts = release_opts,
    .size = sizeof(struct release_opts),
    .min_args = 1, .max_args = 1,
    .arg = ARG_WORKLOAD,
    .run = run_release,
};
