#include "cli/verbs.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { POLICY_MAX = 1024 * 1024, TEXT_MAX = 1024 * 1024 };

/* ---- show ---- */

static void add_value(struct buf *b, const json_t *v)
{
    autofree char *text = NULL;

    if (json_is_string(v)) {
        buf_str(b, json_string_value(v));
        return;
    }
    text = json_dumps(v, JSON_ENCODE_ANY | JSON_FORM);
    buf_str(b, text ? text : "?");
}

static void add_rows(struct buf *b, const char *key, const json_t *list)
{
    const char *name;
    json_t *row, *v;
    size_t i;

    if (json_array_size(list) == 0)
        return;
    buf_printf(b, "%s:\n", key);
    json_array_foreach(list, i, row) {
        bool first = true;

        buf_str(b, "- {");
        json_object_foreach(row, name, v) {
            buf_printf(b, "%s%s: ", first ? "" : ", ", name);
            add_value(b, v);
            first = false;
        }
        buf_str(b, "}\n");
    }
}

/* As YAML, which 'weir policy set' takes back. */
static int print_policy(struct cli *c, const json_t *o)
{
    autobuf struct buf b = BUF_INIT(TEXT_MAX);
    uint64_t version = json_get_u64(o, "version", 0);
    json_t *policy = json_object_get(o, "policy"), *v;
    char when[HUMAN_SIZE];
    const char *key;

    if (version)
        buf_printf(&b, "# version %" PRIu64 ", set by %s on %s\n", version,
                   json_get_str(o, "who", "?"), get_clock(o, "set", when));
    else
        buf_str(&b, "# the defaults: no policy was ever set\n");
    json_object_foreach(policy, key, v) {
        if (json_is_array(v)) {
            add_rows(&b, key, v);
            continue;
        }
        buf_printf(&b, "%s: ", key);
        add_value(&b, v);
        buf_char(&b, '\n');
    }
    return print_buf(c, &b);
}

static int run_show(struct cli *c, const void *opts)
{
    autojson json_t *j = NULL;
    int rc = call_get(c, &j, "/v1/policy");

    (void) opts;
    return rc ? rc : print_object(c, j, print_policy);
}

const struct verb verb_policy_show = {
    .name = "policy show",
    .summary = "the policy in force, as a document",
    .usage = "",
    .about = "",
    .examples = "weir policy show > policy.yaml    # to change and set again",
    .opts = no_opts,
    .run = run_show,
};

/* ---- set ---- */

struct set_opts {
    bool dry_run;
};

static const struct opt set_opts[] = {
    { "dry-run", 'n', NULL, "say what would change, and change nothing",
      OPT_FLAG, offsetof(struct set_opts, dry_run) },
    { .kind = OPT_END },
};

static int print_changes(struct cli *c, const json_t *o)
{
    autobuf struct buf b = BUF_INIT(TEXT_MAX);
    const json_t *change;
    size_t i;

    json_array_foreach(json_object_get(o, "changes"), i, change) {
        buf_printf(&b, "%s: ", json_get_str(change, "field", "?"));
        add_value(&b, json_object_get(change, "from"));
        buf_str(&b, " -> ");
        add_value(&b, json_object_get(change, "to"));
        buf_char(&b, '\n');
    }
    if (i == 0)
        buf_str(&b, "nothing changes: this policy is in force\n");
    else if (json_get_bool(o, "dry_run", false))
        buf_str(&b, "nothing was changed yet\n");
    else
        buf_printf(&b, "policy version %" PRIu64 " is in force\n",
                   json_get_u64(o, "version", 0));
    return print_buf(c, &b);
}

static int run_set(struct cli *c, const void *opts)
{
    const struct set_opts *o = opts;
    const char *file = c->args[0];
    autofree char *text = NULL, *path = NULL;
    autojson json_t *reply = NULL;
    size_t len = 0;
    int rc = cli_read(c, file, POLICY_MAX, &text, &len);

    if (rc != 0)
        return rc;
    path = call_path(o->dry_run ? "/v1/policy?dry_run=1&file=%s"
                                : "/v1/policy?file=%s", file);
    rc = call_document(c, "PUT", path, text, len, &reply);
    return rc ? rc : print_object(c, reply, print_changes);
}

const struct verb verb_policy_set = {
    .name = "policy set",
    .summary = "put another policy in force, or try what it would change",
    .usage = "FILE [--dry-run]",
    .about = "A FILE ('-' is standard input) says the whole policy, "
             "weir-policy(5): what it leaves\nout gets its default.  It is in "
             "force at once and journalled; what runs is not\ninterrupted by "
             "the change itself.",
    .examples = "weir policy set policy.yaml --dry-run\n"
                "weir policy set policy.yaml\n"
                "weir policy show | sed 's/^patience: .*/patience: 1h/' | "
                "weir policy set -",
    .opts = set_opts,
    .size = sizeof(struct set_opts),
    .min_args = 1, .max_args = 1,
    .arg = ARG_FILE,
    .run = run_set,
};

/* ---- history ---- */

static const struct table_column columns[] = {
    { .name = "VERSION", .right = true }, { .name = "SET" },
    { .name = "BY" }, { .name = "CHANGES" }, { .name = NULL },
};

static void add_version(struct table *t, const json_t *v)
{
    autobuf struct buf b = BUF_INIT(TEXT_MAX);
    const json_t *change;
    char buf[HUMAN_SIZE];
    size_t i;

    json_array_foreach(json_object_get(v, "changes"), i, change) {
        buf_printf(&b, "%s%s: ", i ? ", " : "",
                   json_get_str(change, "field", "?"));
        add_value(&b, json_object_get(change, "to"));
    }
    table_add(t, STYLE_BOLD, get_number(v, "version", buf));
    table_add(t, STYLE_PLAIN, get_clock(v, "set", buf));
    table_add(t, STYLE_PLAIN, json_get_str(v, "who", ""));
    table_add(t, STYLE_PLAIN, buf_text(&b));
}

static int run_history(struct cli *c, const void *opts)
{
    (void) opts;
    return call_table(c, "/v1/policy/history", columns, add_version);
}

const struct verb verb_policy_history = {
    .name = "policy history",
    .summary = "who set which policy when, and what it changed",
    .usage = "",
    .about = "As far back as the journal is kept.",
    .examples = "weir policy history",
    .opts = no_opts,
    .run = run_history,
};
