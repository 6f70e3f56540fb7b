#include "cli/verbs.h"

#include "base/err.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/feed.h"
#include "cli/print.h"

#include <inttypes.h>
#include <stdio.h>

struct ps_opts {
    bool all, watch;
    const char *tenant;
    uint64_t limit;
};

#define AT(member) offsetof(struct ps_opts, member)
static const struct opt ps_opts[] = {
    { "all", 'a', NULL, "ended ones too", OPT_FLAG, AT(all) },
    { "tenant", 0, "NAME", "of this tenant alone", OPT_TEXT, AT(tenant) },
    { "limit", 'n', "N", "the newest N (with -a: 50)", OPT_COUNT, AT(limit) },
    { "watch", 'w', NULL, "show again whenever something changes", OPT_FLAG,
      AT(watch) },
    { .kind = OPT_END },
};
#undef AT

static const struct table_column columns[] = {
    { .name = "ID" }, { .name = "NAME" }, { .name = "TENANT" },
    { .name = "STATE" }, { .name = "TASKS", .right = true },
    { .name = "FAILED", .right = true },
    { .name = "AGE", .right = true },
    { .name = "USER", .wide = true }, { .name = "KIND", .wide = true },
    { .name = "PRIO", .right = true, .wide = true },
    { .name = "GPU-S", .right = true, .wide = true },
    { .name = "SUBMITTED", .wide = true }, { .name = NULL },
};

static void add_row(struct table *t, const json_t *w)
{
    const json_t *tasks = json_object_get(w, "tasks");
    const char *word = state_word(w);
    uint64_t failed = json_get_u64(tasks, "failed", 0);
    char buf[HUMAN_SIZE];

    table_add(t, STYLE_BOLD, json_get_str(w, "id", ""));
    table_add(t, STYLE_PLAIN, json_get_str(w, "name", ""));
    table_add(t, STYLE_PLAIN, json_get_str(w, "tenant", ""));
    table_add(t, state_style(word), word);
    table_printf(t, STYLE_PLAIN, "%" PRIu64 "/%" PRIu64,
                 json_get_u64(tasks, "ended", 0),
                 json_get_u64(tasks, "total", 0));
    table_printf(t, failed ? STYLE_BAD : STYLE_DIM, "%" PRIu64, failed);
    table_add(t, STYLE_PLAIN, get_age(w, "submitted", buf));
    table_add(t, STYLE_PLAIN, json_get_str(w, "user", ""));
    table_add(t, STYLE_PLAIN, json_get_str(w, "kind", ""));
    table_add(t, STYLE_PLAIN, get_number(w, "priority", buf));
    table_add(t, STYLE_PLAIN, get_number(w, "gpu_seconds", buf));
    table_add(t, STYLE_PLAIN, get_clock(w, "submitted", buf));
}

static int list_workloads(struct cli *c, const struct ps_opts *o)
{
    autofree char *tenant = o->tenant ? call_path("&tenant=%s", o->tenant)
                                      : mem_str("");
    size_t most = o->limit ? o->limit : o->all ? 50 : 0;
    autofree char *path = mem_printf("/v1/workloads?limit=%zu%s%s",
                                     most && most < 1000 ? most : 1000,
                                     o->all ? "" : "&state=live", tenant);
    autojson json_t *reply = NULL;
    int rc = call_list(c, path, "before", NULL, most, &reply);

    if (rc == 0)
        rc = print_items(c, reply, columns, add_row);
    if (rc == 0 && c->term.tty && c->out != OUT_JSON &&
        json_array_size(json_object_get(reply, "items")) == 0)
        cli_note(c, "nothing %s", o->all ? "was submitted yet"
                                         : "is under way; -a shows what ended");
    return rc;
}

/* ---- again and again ---- */

struct watching {
    bool changed;
    int code;
};

static void on_ready(void *arg)
{
    ((struct watching *) arg)->changed = true;
}

static void on_event(const json_t *e, const char *cursor, void *arg)
{
    (void) e;
    (void) cursor;
    ((struct watching *) arg)->changed = true;
}

static void on_connected(bool yes, void *arg)
{
    (void) yes;
    ((struct watching *) arg)->changed = true;
}

static void on_over(int code, void *arg)
{
    ((struct watching *) arg)->code = code;
}

static const struct feed_ops watch_feed = {
    .ready = on_ready,
    .event = on_event,
    .connected = on_connected,
    .over = on_over,
};

static void on_timer(struct watch *w, void *arg)
{
    (void) w;
    *(bool *) arg = true;
}

/* At most twice a second, however much happens. */
static int watch_list(struct cli *c, const struct ps_opts *o)
{
    struct watching w = { 0 };
    struct feed *feed = NULL;
    bool due = true;
    int rc = feed_open(c, NULL, NULL, &watch_feed, &w, &feed);

    while (rc == 0 && w.code == 0) {
        rc = cli_turn(c);
        if (rc != 0 || !w.changed || !due)
            continue;
        w.changed = due = false;
        (void) loop_timer(c->loop, 500, on_timer, &due);
        if (c->term.tty)
            (void) fputs("\033[H\033[2J", stdout);
        rc = list_workloads(c, o);
        if (!c->term.tty && c->out != OUT_JSON)
            (void) putchar('\n');
        (void) fflush(stdout);
        if (rc == CLI_UNREACHABLE)
            rc = 0;                    /* the feed knows when to give up */
    }
    feed_close(feed);
    return rc ? rc : w.code;
}

static int run_ps(struct cli *c, const void *opts)
{
    const struct ps_opts *o = opts;

    return o->watch ? watch_list(c, o) : list_workloads(c, o);
}

const struct verb verb_ps = {
    .name = "ps",
    .summary = "list workloads",
    .usage = "[-a] [-w] [--tenant NAME]",
    .about = "Those under way, newest first; with -a also those that ended.  "
             "Of a workload that\nis 'waiting' something has run and nothing "
             "runs now: it gave way, is tried again, or\nits next task is in "
             "line.  'queued' is one of which nothing has run yet.",
    .examples = "weir ps                 # what is under way\n"
                "weir ps -a -n 10        # the last ten\n"
                "weir ps -o json | jq -r '.items[].id'",
    .opts = ps_opts,
    .size = sizeof(struct ps_opts),
    .run = run_ps,
};
