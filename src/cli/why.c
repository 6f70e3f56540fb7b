#include "cli/verbs.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct why_opts {
    uint64_t limit;
};

static const struct opt why_opts[] = {
    { "limit", 'n', "N", "of a workload: the first N that wait (20)",
      OPT_COUNT, offsetof(struct why_opts, limit) },
    { .kind = OPT_END },
};

/* "in 12m, between 5m and 2h from now", as predicted. */
static void add_start(struct table *t, const json_t *start)
{
    static const char *const keys[] = { "low", "mid", "high" };
    char text[3][HUMAN_SIZE];
    uint64_t now = clock_wall_ms();

    if (!human_time(start, "mid"))
        return;
    for (size_t i = 0; i < array_size(keys); i++) {
        uint64_t at = human_time(start, keys[i]);

        (void) human_age(at > now ? at - now : 0, text[i]);
    }
    sheet_printf(t, "starts", "in about %s, between %s and %s from now, as "
                 "predicted", text[1], text[0], text[2]);
}

static int print_why(struct cli *c, const json_t *task)
{
    const json_t *why = json_object_get(task, "why");
    const char *change = json_get_str(why, "change", "");
    uint64_t position = json_get_u64(why, "position", 0);
    struct table *t = sheet_new();
    char buf[HUMAN_SIZE];

    sheet_printf(t, "task", "%s/%s (%s)", json_get_str(task, "workload", ""),
                 json_get_str(task, "task", ""), state_word(task));
    sheet_add(t, "why", json_get_str(why, "text", "?"));
    sheet_add(t, "would help", change);
    sheet_add(t, "too late", json_get_str(why, "late", ""));
    sheet_add(t, "staged", json_get_str(why, "staged", ""));
    sheet_add(t, "suspended", json_get_str(why, "suspended", ""));
    if (position)
        sheet_printf(t, "in line", "%" PRIu64, position);
    add_start(t, json_object_get(why, "start"));
    if (strcmp(state_word(task), "waiting") == 0)
        sheet_add(t, "since", get_age(task, "since", buf));
    return print_sheet(c, t);
}

/* Those of a workload that wait for room, or, when none does, for others. */
static int find_waiting(struct cli *c, const char *id, uint64_t most,
                        json_t **ret)
{
    autojson json_t *reply = NULL;
    autojson json_t *found = json_array();
    const json_t *t;
    size_t i;
    int rc = call_tasks(c, id, "task,state", &reply);

    if (rc != 0)
        return rc;
    json_array_foreach(json_object_get(reply, "items"), i, t) {
        autojson json_t *whole = NULL;
        const char *state = json_get_str(t, "state", "");

        if (json_array_size(found) >= most)
            break;
        if (strcmp(state, "waiting") != 0 && strcmp(state, "blocked") != 0 &&
            strcmp(state, "suspended") != 0)
            continue;
        rc = call_task(c, id, json_get_str(t, "task", ""), &whole);
        if (rc != 0)
            return rc;
        (void) json_array_append(found, whole);
    }
    *ret = json_object();
    json_put(*ret, "items", take(found));
    return 0;
}

static int why_workload(struct cli *c, const char *id, uint64_t most)
{
    autojson json_t *reply = NULL;
    const json_t *items, *t;
    size_t i;
    int rc = find_waiting(c, id, most, &reply);

    if (rc != 0)
        return rc;
    if (c->out == OUT_JSON)
        return print_json(c, reply);
    items = json_object_get(reply, "items");
    json_array_foreach(items, i, t) {
        if (i)
            (void) putchar('\n');
        rc = print_why(c, t);
        if (rc != 0)
            return rc;
    }
    return i ? 0 : print_done(c, reply, "nothing of %s waits", id);
}

static int run_why(struct cli *c, const void *opts)
{
    const struct why_opts *o = opts;
    autofree char *id = NULL;
    autofree char *task = NULL;
    autojson json_t *j = NULL;
    int rc = cli_target(c, c->args[0], &id, &task);

    if (rc != 0)
        return rc;
    if (!task[0])
        return why_workload(c, id, o->limit ? o->limit : 20);
    rc = call_task(c, id, task, &j);
    return rc ? rc : print_object(c, j, print_why);
}

const struct verb verb_why = {
    .name = "why",
    .summary = "why a task is not running, and what would help",
    .usage = "WORKLOAD[/TASK]",
    .about = "",
    .examples = "weir why w12/train\n"
                "weir why w12            # everything of it that waits",
    .opts = why_opts,
    .size = sizeof(struct why_opts),
    .min_args = 1, .max_args = 1,
    .arg = ARG_WORKLOAD,
    .run = run_why,
};
