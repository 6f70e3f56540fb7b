#include "cli/verbs.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "cli/call.h"
#include "cli/print.h"

#include <string.h>

/* Windows: nodes that are kept for a tenant, or for nobody, for some time. */

struct reserve_opts {
    const char *nodes, *from, *to, *tenant;
};

#define AT(member) offsetof(struct reserve_opts, member)
static const struct opt reserve_opts[] = {
    { "nodes", 0, "NODE,...", "which nodes, whole", OPT_TEXT, AT(nodes) },
    { "from", 0, "TIME", "a date, or a time from now such as 2h (now)",
      OPT_TEXT, AT(from) },
    { "to", 0, "TIME", "its end, likewise", OPT_TEXT, AT(to) },
    { "tenant", 0, "NAME", "for whom; nobody at all unless said", OPT_TEXT,
      AT(tenant) },
    { .kind = OPT_END },
};
#undef AT

/* "2h" from now, or a date as it is. */
static int put_time(struct cli *c, json_t *body, const char *key,
                    const char *text)
{
    uint64_t ms;
    char date[40];

    if (quantity_duration(text, &ms, NULL) == 0) {
        clock_print(clock_wall_ms() + ms, date, sizeof date);
        json_put_str(body, key, date);
        return 0;
    }
    if (clock_parse(text, &ms, NULL) < 0)
        return cli_fail(c, CLI_USAGE, "--%s: expected a date such as "
                        "2030-01-31T18:00:00Z, or a time from now such as "
                        "2h, got '%s'", key, text);
    json_put_str(body, key, text);
    return 0;
}

static void put_nodes(json_t *body, const char *names)
{
    autofree char *copy = mem_str(names);
    json_t *list = json_array();
    char *rest = copy, *name;

    while ((name = strsep(&rest, ",")))
        if (*name)
            (void) json_array_append_new(list, json_string(name));
    json_put(body, "nodes", list);
}

static int run_set(struct cli *c, const void *opts)
{
    const struct reserve_opts *o = opts;
    autofree char *path = call_path("/v1/windows/%s", c->args[0]);
    autojson json_t *body = json_object(), *reply = NULL;
    char from[HUMAN_SIZE], to[HUMAN_SIZE];
    int rc;

    if (!o->nodes || !o->to)
        return cli_fail(c, CLI_USAGE, "--nodes and --to are needed");
    put_nodes(body, o->nodes);
    rc = put_time(c, body, "from", o->from ? o->from : "0s");
    if (rc == 0)
        rc = put_time(c, body, "to", o->to);
    json_put_str(body, "tenant", o->tenant);
    if (rc == 0)
        rc = call_json(c, "PUT", path, body, &reply);
    return rc ? rc : print_done(c, reply, "%s: %s %s from %s to %s",
                                c->args[0], o->nodes, o->tenant ?
                                "is reserved" : "takes nothing new",
                                get_clock(reply, "from", from),
                                get_clock(reply, "to", to));
}

const struct verb verb_reserve_set = {
    .name = "reserve set",
    .summary = "keep nodes for a tenant, or for nobody, for some time",
    .usage = "NAME --nodes NODE,... --to TIME [--from TIME] [--tenant NAME]",
    .about = "Nothing starts there that is not predicted to have ended by "
             "then, except what\nthe tenant starts in its own time.  Without "
             "a tenant nothing runs there: for\nmaintenance.",
    .examples = "weir reserve set demo --nodes n1,n2 --tenant vision "
                "--from 2h --to 6h\n"
                "weir reserve set repair --nodes n7 --to 2030-01-31T18:00:00Z",
    .opts = reserve_opts,
    .size = sizeof(struct reserve_opts),
    .min_args = 1, .max_args = 1,
    .run = run_set,
};

static const struct table_column columns[] = {
    { .name = "NAME" }, { .name = "TENANT" }, { .name = "FROM" },
    { .name = "TO" }, { .name = "NODES" }, { .name = NULL },
};

static void add_window(struct table *t, const json_t *w)
{
    autofree char *nodes = list_text(json_object_get(w, "nodes"));
    char buf[HUMAN_SIZE];

    table_add(t, STYLE_BOLD, json_get_str(w, "name", ""));
    table_add(t, STYLE_PLAIN, json_get_str(w, "tenant", "nobody"));
    table_add(t, STYLE_PLAIN, get_clock(w, "from", buf));
    table_add(t, STYLE_PLAIN, get_clock(w, "to", buf));
    table_add(t, STYLE_PLAIN, nodes);
}

static int run_ls(struct cli *c, const void *opts)
{
    (void) opts;
    return call_table(c, "/v1/windows", columns, add_window);
}

const struct verb verb_reserve_ls = {
    .name = "reserve ls",
    .summary = "list what is reserved, for whom and when",
    .usage = "",
    .about = "",
    .examples = "weir reserve ls",
    .opts = no_opts,
    .run = run_ls,
};

static int run_remove(struct cli *c, const void *opts)
{
    (void) opts;
    return call_delete(c, "window", "name", "removed");
}

const struct verb verb_reserve_remove = {
    .name = "reserve remove",
    .summary = "let go of what is reserved",
    .usage = "NAME",
    .about = "",
    .examples = "weir reserve remove demo",
    .opts = no_opts,
    .min_args = 1, .max_args = 1,
    .run = run_remove,
};
