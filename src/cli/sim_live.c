#include "cli/verbs.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/print.h"
#include "cli/sim.h"
#include "sim/whatif.h"

#include <string.h>

enum { LEARN_FROM = 200, WORKLOADS_MAX = 10000 };

struct live_opts {
    const char *from, *changes;
};

/* ---- what the control plane says; only GET ---- */

static int add_tasks(struct cli *c, const char *id, bool ended, json_t *list)
{
    autojson json_t *tasks = NULL;
    json_t *t;
    size_t i;
    int rc = call_tasks(c, id, NULL, &tasks);

    if (rc != 0)
        return rc;
    json_array_foreach(json_object_get(tasks, "items"), i, t)
        if (!ended ||
            strcmp(json_get_str(t, "outcome", ""), "succeeded") == 0)
            (void) json_array_append(list, t);
    return 0;
}

static bool is_over(const json_t *workload)
{
    return json_object_get(workload, "ended") != NULL;
}

static int read_workloads(struct cli *c, struct whatif_state *s)
{
    autojson json_t *all = NULL;
    json_t *open = json_array(), *o;
    size_t i, ended = 0;
    int rc = call_list(c, "/v1/workloads?limit=1000", "before", NULL,
                       WORKLOADS_MAX, &all);

    s->workloads = json_object();
    s->tasks = json_array();
    s->ended = json_array();
    s->specs = json_object();
    json_put(s->workloads, "items", open);
    json_array_foreach(json_object_get(all, "items"), i, o) {
        const char *id = json_get_str(o, "id", "");
        json_t *spec = NULL;

        if (rc != 0)
            break;
        if (is_over(o)) {
            if (ended++ < LEARN_FROM)
                rc = add_tasks(c, id, true, s->ended);
            continue;
        }
        (void) json_array_append(open, o);
        rc = add_tasks(c, id, false, s->tasks);
        if (rc == 0)
            rc = call_get(c, &spec, "/v1/workloads/%s/spec", id);
        if (spec)
            json_put(s->specs, id, spec);
    }
    return rc;
}

static int read_state(struct cli *c, struct whatif_state *s)
{
    autojson json_t *policy = NULL;
    int rc = call_get(c, &s->pools, "/v1/pools");

    if (rc == 0)
        rc = call_get(c, &s->tenants, "/v1/tenants");
    if (rc == 0)
        rc = call_get(c, &policy, "/v1/policy");
    if (rc == 0)
        s->policy = json_incref(json_object_get(policy, "policy"));
    s->now_ms = clock_wall_ms();
    return rc ? rc : read_workloads(c, s);
}

/* ---- side by side ---- */

static const struct table_column columns[] = {
    { .name = "WORKLOAD" }, { .name = "NAME" }, { .name = "TENANT" },
    { .name = "STARTS", .right = true }, { .name = "ENDS", .right = true },
    { .name = "THEN STARTS", .right = true },
    { .name = "THEN ENDS", .right = true },
    { .name = "DIFFERENCE", .right = true }, { .name = NULL },
};

/* "in 3m20s", "never". */
static void add_when(struct table *t, const json_t *o, const char *key,
                     uint64_t now)
{
    uint64_t at = json_get_u64(o, key, 0);
    char buf[HUMAN_SIZE];

    if (at == 0)
        table_add(t, STYLE_WAIT, "never");
    else if (at <= now)
        table_add(t, STYLE_PLAIN, "now");
    else
        table_printf(t, STYLE_PLAIN, "in %s", human_span(at - now, buf));
}

static void add_difference(struct table *t, const json_t *before,
                           const json_t *after)
{
    uint64_t a = json_get_u64(before, "end", 0);
    uint64_t b = json_get_u64(after, "end", 0);
    char buf[HUMAN_SIZE];

    if (a == b || a == 0 || b == 0)
        table_add(t, STYLE_PLAIN, a == b ? "none" : a ? "never ends"
                                                      : "ends at all");
    else
        table_printf(t, b < a ? STYLE_GOOD : STYLE_BAD, "%s %s",
                     human_span(b < a ? a - b : b - a, buf),
                     b < a ? "earlier" : "later");
}

static json_t *pair(const json_t *o, const json_t *before,
                    const json_t *after)
{
    json_t *j = json_object();

    json_put_str(j, "workload", json_get_str(o, "id", ""));
    json_put_str(j, "name", json_get_str(o, "name", ""));
    json_put_str(j, "tenant", json_get_str(o, "tenant", ""));
    json_put(j, "now", json_deep_copy(before));
    json_put(j, "then", json_deep_copy(after));
    return j;
}

/* Those that wait for something now. */
static bool is_waiting(const json_t *workload)
{
    const json_t *tasks = json_object_get(workload, "tasks");

    return json_get_u64(tasks, "waiting", 0) +
           json_get_u64(tasks, "blocked", 0) > 0;
}

static int print_both(const struct cli *c, const struct whatif_state *s,
                      const json_t *before, const json_t *after)
{
    autojson json_t *all = json_object();
    json_t *list = json_array(), *o;
    struct table *t = table_new(columns);
    size_t i;

    json_put(all, "items", list);
    json_array_foreach(json_object_get(s->workloads, "items"), i, o) {
        const char *id = json_get_str(o, "id", "");
        const json_t *a = json_object_get(before, id);
        const json_t *b = json_object_get(after, id);

        if (!is_waiting(o))
            continue;
        (void) json_array_append_new(list, pair(o, a, b));
        table_add(t, STYLE_BOLD, id);
        table_add(t, STYLE_PLAIN, json_get_str(o, "name", ""));
        table_add(t, STYLE_PLAIN, json_get_str(o, "tenant", ""));
        add_when(t, a, "start", s->now_ms);
        add_when(t, a, "end", s->now_ms);
        add_when(t, b, "start", s->now_ms);
        add_when(t, b, "end", s->now_ms);
        add_difference(t, a, b);
    }
    if (c->out != OUT_JSON)
        return print_table(c, t);
    table_free(t);
    return print_json(c, all);
}

static int read_changes(const struct cli *c, const char *path,
                        struct whatif_changes **ret)
{
    autofree char *text = NULL;
    size_t len = 0;
    struct err err;
    int rc = sim_read(c, path, &text, &len);

    if (rc == 0 && whatif_read(sim_name(path), text, len, ret, &err) < 0)
        rc = cli_fail(c, CLI_DOCUMENT, "%s", err.text);
    return rc;
}

/* --from-live says where, as --socket or --server would. */
static int find_live(struct cli *c, const char *from)
{
    struct err err;

    if (strcmp(from, "here") == 0)
        return 0;
    where_free(&c->where);
    if (strstr(from, "://"))
        c->where.server_opt = from;
    else
        c->where.socket_opt = from;
    if (where_find_here(&c->where, &err) < 0)
        return cli_fail(c, CLI_USAGE, "--from-live: %s", err.text);
    return 0;
}

static int run_live(struct cli *c, const void *opts)
{
    const struct live_opts *o = opts;
    autojson json_t *before = NULL, *after = NULL;
    struct whatif_changes *changes = NULL;
    struct whatif_state s = { 0 };
    struct err err;
    int rc;

    if (!o->from || !o->changes)
        return cli_fail(c, CLI_USAGE, "--from-live and --what-if are needed; "
                        "'weir sim pack', 'run', 'dag' and 'mixed' replay "
                        "files");
    rc = read_changes(c, o->changes, &changes);
    if (rc == 0)
        rc = find_live(c, o->from);
    if (rc == 0)
        rc = read_state(c, &s);
    if (rc == 0 && (whatif_play(&s, NULL, &before, &err) < 0 ||
                    whatif_play(&s, changes, &after, &err) < 0))
        rc = cli_fail(c, CLI_DOCUMENT, "%s", err.text);
    if (rc == 0)
        rc = print_both(c, &s, before, after);
    whatif_free(&s);
    whatif_changes_free(changes);
    return rc;
}

#define AT(member) offsetof(struct live_opts, member)
static const struct opt live_options[] = {
    { "from-live", 0, "WHERE", "the control plane to ask: a socket, a URL, or "
      "'here' for the usual one", OPT_TEXT, AT(from) },
    { "what-if", 0, "FILE", "what would be different", OPT_TEXT,
      AT(changes) },
    { .kind = OPT_END },
};
#undef AT

const struct verb verb_sim = {
    .name = "sim",
    .summary = "what if there were more nodes, another quota or policy?",
    .usage = "--from-live WHERE --what-if FILE",
    .about = "Reads the state of a running control plane, plays it to its end "
             "as it is and with the changes, and says for every workload that "
             "waits when it starts and ends. Lengths are guesses learned from "
             "what has ended. Nothing is changed.",
    .examples = "weir sim --from-live here --what-if more-nodes.yaml",
    .opts = live_options,
    .size = sizeof(struct live_opts),
    .arg = ARG_FILE,
    .run = run_live,
};
