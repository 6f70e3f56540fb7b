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
#include <string.h>

struct events_opts {
    bool follow;
    const char *since, *type;
    uint64_t limit;
};

#define AT(member) offsetof(struct events_opts, member)
static const struct opt events_opts[] = {
    { "follow", 'f', NULL, "go on as they happen", OPT_FLAG, AT(follow) },
    { "since", 0, "EPOCH:N", "after this one", OPT_TEXT, AT(since) },
    { "type", 0, "TYPE", "of this type alone, like task.ended", OPT_TEXT,
      AT(type) },
    { "limit", 'n', "N", "at most N", OPT_COUNT, AT(limit) },
    { .kind = OPT_END },
};
#undef AT

/* What an event is about, after its type: the members that say something to a
 * person, in this order.
 */
static void print_details(const json_t *e)
{
    static const char *const keys[] = {
        "node", "block", "tenant", "token", "gen", "rank", "outcome", "cause",
        "status", "until", "retry_of"
    };

    for (size_t i = 0; i < array_size(keys); i++) {
        const json_t *v = json_object_get(e, keys[i]);

        if (json_is_string(v))
            printf(" %s=%s", keys[i], json_string_value(v));
        else if (json_is_integer(v))
            printf(" %s=%" JSON_INTEGER_FORMAT, keys[i],
                   json_integer_value(v));
    }
}

/* Of a device's health, what follows from it, or of who uses it. */
static void print_device(const json_t *data)
{
    static const char *const keys[] = { "rule", "kind", "state", "action",
                                        "device", "uuid", "how", "text" };

    for (size_t i = 0; i < array_size(keys); i++) {
        const char *v = json_get_str(data, keys[i], NULL);

        if (v && strchr(v, ' '))
            printf(" %s=\"%s\"", keys[i], v);
        else if (v)
            printf(" %s=%s", keys[i], v);
    }
}

static void print_event(struct cli *c, const json_t *e)
{
    const char *workload = json_get_str(e, "workload", "");
    const char *name = json_get_str(e, "task_name", NULL);
    char when[HUMAN_SIZE];

    if (c->out == OUT_JSON) {
        autofree char *text = json_text(e);

        (void) puts(text);
        return;
    }
    printf("%6" PRIu64 "  %s  %-18s %s", json_get_u64(e, "seq", 0),
           get_clock(e, "time", when), json_get_str(e, "type", ""),
           workload[0] ? workload : "-");
    if (name)
        printf("/%s", name);
    else if (json_object_get(e, "task"))
        printf("/#%" PRIu64, json_get_u64(e, "task", 0));
    print_details(e);
    if (strncmp(json_get_str(e, "type", ""), "pool.", 5) == 0)
        printf(" pool=%s", json_get_str(json_object_get(e, "data"), "name",
                                        ""));
    if (json_get_str(json_object_get(e, "data"), "rule", NULL) ||
        strcmp(json_get_str(e, "type", ""), "device.stray") == 0)
        print_device(json_object_get(e, "data"));
    printf(" by %s\n", json_get_str(e, "who", "weir"));
}

/* ---- those that happened ---- */

static int list_events(struct cli *c, const struct events_opts *o,
                       const char *workload)
{
    autofree char *of = workload ? call_path("&workload=%s", workload)
                                 : mem_str("");
    autofree char *type = o->type ? call_path("&type=%s", o->type)
                                  : mem_str("");
    autofree char *path = mem_printf("/v1/events?limit=1000%s%s", of, type);
    autojson json_t *reply = NULL;
    const json_t *e;
    size_t i;
    int rc = call_list(c, path, "since", o->since, o->limit, &reply);

    if (rc != 0)
        return rc;
    if (c->out == OUT_JSON)
        return print_json(c, reply);
    json_array_foreach(json_object_get(reply, "items"), i, e)
        print_event(c, e);
    return 0;
}

/* ---- those that happen ---- */

struct following {
    struct cli *cli;
    const struct events_opts *opts;
    uint64_t seen;
    int code;
    bool full;
};

static void on_ready(void *arg)
{
    (void) arg;
}

static void on_event(const json_t *e, const char *cursor, void *arg)
{
    struct following *f = arg;
    const char *type = f->opts->type;

    (void) cursor;
    if (f->full || (type && strcmp(type, json_get_str(e, "type", "")) != 0))
        return;
    print_event(f->cli, e);
    (void) fflush(stdout);
    f->full = f->opts->limit && ++f->seen >= f->opts->limit;
}

static void on_connected(bool yes, void *arg)
{
    const struct following *f = arg;

    cli_note(f->cli, yes ? "connected again"
                         : "the connection broke; trying again");
}

static void on_over(int code, void *arg)
{
    ((struct following *) arg)->code = code;
}

static const struct feed_ops following_feed = {
    .ready = on_ready,
    .event = on_event,
    .connected = on_connected,
    .over = on_over,
};

static int follow_events(struct cli *c, const struct events_opts *o,
                         const char *workload)
{
    struct following f = { .cli = c, .opts = o };
    struct feed *feed = NULL;
    int rc = feed_open(c, workload, o->since, &following_feed, &f, &feed);

    while (rc == 0 && f.code == 0 && !f.full)
        rc = cli_turn(c);
    feed_close(feed);
    return rc ? rc : f.code;
}

static int run_events(struct cli *c, const void *opts)
{
    const struct events_opts *o = opts;
    autofree char *id = NULL;
    int rc = 0;

    if (c->nargs > 0)
        rc = cli_workload(c, c->args[0], &id);
    if (rc != 0)
        return rc;
    return o->follow ? follow_events(c, o, id) : list_events(c, o, id);
}

const struct verb verb_events = {
    .name = "events",
    .summary = "the journal: everything that ever happened",
    .usage = "[-f] [WORKLOAD] [--since EPOCH:N] [--type TYPE] [-n N]",
    .about = "With -f -o json each event is a line.",
    .examples = "weir events w12\n"
                "weir events -f                    # as it happens\n"
                "weir events --type access.denied  # who was refused",
    .opts = events_opts,
    .size = sizeof(struct events_opts),
    .max_args = 1,
    .arg = ARG_WORKLOAD,
    .run = run_events,
};
