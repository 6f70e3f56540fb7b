#include "cli/verbs.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct show_opts {
    bool spec;
};

static const struct opt show_opts[] = {
    { "spec", 0, NULL, "the document as Weir understood it, as JSON",
      OPT_FLAG, offsetof(struct show_opts, spec) },
    { .kind = OPT_END },
};

static const struct table_column task_columns[] = {
    { .name = "TASK" }, { .name = "STATE" },
    { .name = "ATTEMPT", .right = true }, { .name = "GPUS", .right = true },
    { .name = "TIME", .right = true }, { .name = "WHERE" },
    { .name = "END" }, { .name = "NEEDS", .wide = true }, { .name = NULL },
};

/* How long it has run, over all attempts and without the time between them. */
static const char *span_of(const json_t *t, char *buf)
{
    uint64_t now = clock_wall_ms(), from = human_time(t, "running_since");
    uint64_t ms = human_run_ms(t);

    buf[0] = '\0';
    if (!human_time(t, "started"))
        return buf;
    if (human_time(t, "ended"))
        return human_span(ms, buf);
    return human_age(ms + (from && now > from ? now - from : 0), buf);
}

/* "local 0,1": the block and its devices, of the first few ranks. */
static char *where_of(const json_t *task)
{
    struct buf b = BUF_INIT(256);
    const json_t *leases = json_object_get(task, "leases"), *l, *d;
    size_t i, k;

    json_array_foreach(leases, i, l) {
        if (i == 4) {
            buf_printf(&b, " and %zu more", json_array_size(leases) - 4);
            break;
        }
        buf_printf(&b, "%s%s", i ? "; " : "", json_get_str(l, "block", "?"));
        json_array_foreach(json_object_get(l, "devices"), k, d)
            buf_printf(&b, "%s%" JSON_INTEGER_FORMAT, k ? "," : " device ",
                       json_integer_value(d));
    }
    return buf_take(&b);
}

static void add_task(struct table *t, const json_t *task)
{
    const char *word = state_word(task);
    autofree char *needs = list_text(json_object_get(task, "needs"));
    autofree char *where = where_of(task);
    char buf[HUMAN_SIZE], end[64];

    table_add(t, STYLE_BOLD, json_get_str(task, "task", ""));
    table_add(t, state_style(word), word);
    table_add(t, STYLE_PLAIN, get_number(task, "attempt", buf));
    table_add(t, STYLE_PLAIN, get_number(task, "gpus", buf));
    table_add(t, STYLE_PLAIN, span_of(task, buf));
    table_add(t, STYLE_PLAIN, where);
    table_add(t, STYLE_PLAIN, end_text(task, end, sizeof end));
    table_add(t, STYLE_PLAIN, needs);
}

static void add_counts(struct table *t, const json_t *tasks)
{
    static const char *const words[] = {
        "blocked", "waiting", "starting", "running", "suspended", "ending",
        "succeeded", "failed", "skipped", "aborted"
    };
    autobuf struct buf b = BUF_INIT(512);

    buf_printf(&b, "%" PRIu64, json_get_u64(tasks, "total", 0));
    for (size_t i = 0; i < array_size(words); i++) {
        uint64_t n = json_get_u64(tasks, words[i], 0);

        if (n)
            buf_printf(&b, ", %" PRIu64 " %s", n, words[i]);
    }
    sheet_add(t, "tasks", buf_text(&b));
}

/* What is used, and of how much where there is a limit. */
static void add_used(struct table *t, const char *name, const json_t *w,
                     const char *key)
{
    const json_t *limits = json_object_get(w, "limits");
    char used[HUMAN_SIZE], most[HUMAN_SIZE];

    if (json_object_get(limits, key))
        sheet_printf(t, name, "%s of %s", get_number(w, key, used),
                     get_number(limits, key, most));
    else
        sheet_add(t, name, get_number(w, key, used));
}

static int print_workload(struct cli *c, const json_t *w)
{
    struct table *t = sheet_new();
    char buf[HUMAN_SIZE];

    sheet_printf(t, "workload", "%s %s", json_get_str(w, "id", ""),
                 json_get_str(w, "name", ""));
    sheet_printf(t, "state", "%s%s", state_word(w),
                 json_get_bool(w, "paused", false) ? " (paused)" : "");
    sheet_add(t, "kind", json_get_str(w, "kind", ""));
    sheet_add(t, "tenant", json_get_str(w, "tenant", ""));
    sheet_add(t, "user", json_get_str(w, "user", ""));
    sheet_add(t, "priority", get_number(w, "priority", buf));
    sheet_labels(t, json_object_get(w, "labels"));
    sheet_add(t, "submitted", get_clock(w, "submitted", buf));
    sheet_add(t, "ended", get_clock(w, "ended", buf));
    add_counts(t, json_object_get(w, "tasks"));
    add_used(t, "gpu-seconds", w, "gpu_seconds");
    add_used(t, "cost", w, "cost");
    sheet_add(t, "retry of", json_get_str(w, "retry_of", ""));
    return print_sheet(c, t);
}

static int show_workload(struct cli *c, const char *id)
{
    autojson json_t *w = NULL;
    autojson json_t *tasks = NULL;
    int rc = call_get(c, &w, "/v1/workloads/%s", id);

    if (rc == 0)
        rc = call_tasks(c, id, NULL, &tasks);
    if (rc != 0)
        return rc;
    if (c->out == OUT_JSON) {
        json_put(w, "items", json_incref(json_object_get(tasks, "items")));
        return print_json(c, w);
    }
    rc = print_workload(c, w);
    (void) putchar('\n');
    return rc ? rc : print_items(c, tasks, task_columns, add_task);
}

/* How a metric went, as bars: of points [ms, progress, {metrics}]. */
static void add_metric(const struct cli *c, struct table *t, const char *name,
                       const json_t *now, const json_t *history)
{
    enum { BARS = 40 };
    autofree double *v = mem_array(json_array_size(history) + 1, sizeof *v);
    autofree char *bars = NULL;
    const json_t *p;
    size_t i, n = 0;

    json_array_foreach(history, i, p) {
        const json_t *m = json_object_get(json_array_get(p, 2), name);

        if (json_is_number(m))
            v[n++] = json_number_value(m);
    }
    bars = human_spark(v, n, BARS, c->term.utf8);
    sheet_printf(t, name, "%-10.6g %s", json_number_value(now), bars);
}

static void add_progress(const struct cli *c, struct table *t,
                         const json_t *progress)
{
    const json_t *value = json_object_get(progress, "value");
    const char *name;
    char buf[HUMAN_SIZE];
    json_t *m;

    if (value)
        sheet_add(t, "progress", human_share(json_number_value(value), buf));
    json_object_foreach(json_object_get(progress, "metrics"), name, m)
        add_metric(c, t, name, m, json_object_get(progress, "history"));
}

/* "launch 12s ago; suspended in 48s unless it is used" */
static void add_use(struct table *t, const json_t *use)
{
    const json_t *in = json_object_get(use, "release_in_seconds");
    uint64_t last = human_time(use, "last"), now = clock_wall_ms();
    char age[HUMAN_SIZE], left[HUMAN_SIZE], wait[64] = "", end[80] = "";

    if (!use)
        return;
    if (json_get_u64(use, "wanting", 0))
        (void) snprintf(wait, sizeof wait, "; %" PRIu64 " threads wait for it",
                        json_get_u64(use, "wanting", 0));
    if (in)
        (void) snprintf(end, sizeof end, "; suspended in %s unless it is used",
                        human_age((uint64_t) (json_number_value(in) * 1000),
                                  left));
    sheet_printf(t, "device used", "%s ago (%s)%s%s",
                 human_age(now > last ? now - last : 0, age),
                 json_get_str(use, "kind", ""), wait, end);
}

static void add_strays(struct table *t, const json_t *strays)
{
    const json_t *s;
    size_t i;

    json_array_foreach(strays, i, s)
        sheet_printf(t, "stray", "%s (%s)", json_get_str(s, "text", ""),
                     json_get_str(s, "uuid", ""));
}

static int print_task(struct cli *c, const json_t *j)
{
    const json_t *why = json_object_get(j, "why");
    autofree char *needs = list_text(json_object_get(j, "needs"));
    autofree char *where = where_of(j);
    struct table *t = sheet_new();
    char buf[HUMAN_SIZE], end[64];

    sheet_printf(t, "task", "%s/%s", json_get_str(j, "workload", ""),
                 json_get_str(j, "task", ""));
    sheet_add(t, "state", state_word(j));
    sheet_add(t, "end", end_text(j, end, sizeof end));
    sheet_add(t, "reason", json_get_str(j, "reason", ""));
    sheet_add(t, "why", json_get_str(why, "text", ""));
    sheet_add(t, "what would help", json_get_str(why, "change", ""));
    sheet_add(t, "staged", json_get_str(why, "staged", ""));
    sheet_add(t, "suspended", json_get_str(why, "suspended", ""));
    sheet_add(t, "not moved", json_get_str(json_object_get(j, "suspend"),
                                           "text", ""));
    add_use(t, json_object_get(j, "use"));
    add_strays(t, json_object_get(j, "strays"));
    sheet_add(t, "attempt", get_number(j, "attempt", buf));
    sheet_add(t, "gpus", get_number(j, "gpus", buf));
    sheet_add(t, "cpus", get_number(j, "cpus", buf));
    sheet_add(t, "ranks", get_number(j, "ranks", buf));
    sheet_add(t, "needs", needs);
    sheet_add(t, "where", where);
    sheet_add(t, "ready", get_clock(j, "ready", buf));
    sheet_add(t, "started", get_clock(j, "started", buf));
    sheet_add(t, "ended", get_clock(j, "ended", buf));
    sheet_add(t, "time", span_of(j, buf));
    sheet_add(t, "gpu-seconds", get_number(j, "gpu_seconds", buf));
    sheet_add(t, "of these lost", get_number(j, "gpu_seconds_lost", buf));
    sheet_add(t, "cost", get_number(j, "cost", buf));
    add_progress(c, t, json_object_get(j, "progress"));
    return print_sheet(c, t);
}

static int run_show(struct cli *c, const void *opts)
{
    const struct show_opts *o = opts;
    autofree char *id = NULL;
    autofree char *task = NULL;
    autojson json_t *j = NULL;
    int rc = cli_target(c, c->args[0], &id, &task);

    if (rc != 0)
        return rc;
    if (o->spec) {
        rc = call_get(c, &j, "/v1/workloads/%s/spec", id);
        return rc ? rc : print_json(c, j);
    }
    if (!task[0])
        return show_workload(c, id);
    rc = call_task(c, id, task, &j);
    return rc ? rc : print_object(c, j, print_task);
}

const struct verb verb_show = {
    .name = "show",
    .summary = "a workload with its tasks, or one task",
    .usage = "WORKLOAD[/TASK] [--spec]",
    .about = "TIME is how long a task has run, all its attempts together; the "
             "time that it waited\nbetween them does not count.",
    .examples = "weir show w12\n"
                "weir show w12/train\n"
                "weir show w12 --spec    # what was submitted, unfolded",
    .opts = show_opts,
    .size = sizeof(struct show_opts),
    .min_args = 1, .max_args = 1,
    .arg = ARG_WORKLOAD,
    .run = run_show,
};
