#include "cli/verbs.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/command.h"
#include "cli/print.h"
#include "cli/submit.h"
#include "cli/views.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DOCUMENT_MAX = 8 * 1024 * 1024 };

struct run_opts {
    struct opt_list params, env;
    bool detach;
    const char *tenant, *priority, *key, *name, *dir;
    uint64_t gpu_milli, cpu_milli, memory, ranks, retries, timeout_ms;
};

#define AT(member) offsetof(struct run_opts, member)
static const struct opt run_opts[] = {
    { "param", 'p', "NAME=VALUE", "give a parameter of the document its value",
      OPT_LIST, AT(params) },
    { "detach", 'd', NULL, "submit, print the id, do not wait", OPT_FLAG,
      AT(detach) },
    { "tenant", 0, "NAME", "for which tenant", OPT_TEXT, AT(tenant) },
    { "priority", 0, "N", "-1000 to 1000, higher goes first", OPT_TEXT,
      AT(priority) },
    { "key", 0, "KEY", "submitting twice with the same key is "
      "submitting once", OPT_TEXT, AT(key) },
    { "gpus", 0, "N", "devices for the command, whole or a fraction",
      OPT_MILLI_0, AT(gpu_milli) },
    { "cpus", 0, "N", "CPUs for the command", OPT_MILLI, AT(cpu_milli) },
    { "memory", 0, "SIZE", "host memory for the command, like 4Gi",
      OPT_BYTES, AT(memory) },
    { "name", 0, "NAME", "what to call it", OPT_TEXT, AT(name) },
    { "ranks", 0, "N", "run N of it together, as a gang", OPT_COUNT,
      AT(ranks) },
    { "timeout", 0, "TIME", "end it after this long, like 2h", OPT_DURATION,
      AT(timeout_ms) },
    { "retries", 0, "N", "try again this often", OPT_COUNT_0, AT(retries) },
    { "env", 'e', "NAME[=VALUE]", "set a variable, or hand on your own",
      OPT_LIST, AT(env) },
    { "dir", 0, "PATH", "where the command runs (here)", OPT_TEXT, AT(dir) },
    { .kind = OPT_END },
};
#undef AT

/* ---- the document ---- */

/* What looks like a program was perhaps meant as one. */
static int no_file(struct cli *c, const char *file)
{
    if (strchr(file, '.'))
        return cli_fail(c, CLI_USAGE, "there is no file '%s' here", file);
    return cli_fail(c, CLI_USAGE, "there is no file '%s'; for a command write "
                    "'weir run -- %s ...'", file, file);
}

static int read_document(struct cli *c, const char *file, char **ret,
                         size_t *ret_len)
{
    struct err err;
    int rc;

    if (strcmp(file, "-") == 0) {
        rc = cli_stdin(c, DOCUMENT_MAX, ret, ret_len);
        if (rc != 0)
            return rc;
    } else {
        rc = fs_read(file, DOCUMENT_MAX, ret, ret_len, &err);
        if (rc == -ENOENT)
            return no_file(c, file);
        if (rc < 0 && rc != -EFBIG)
            return cli_fail(c, CLI_USAGE, "%s", err.text);
        if (rc == -EFBIG)
            *ret_len = DOCUMENT_MAX + 1;
    }
    if (*ret_len > DOCUMENT_MAX) {
        free(*ret);
        *ret = NULL;
        return cli_fail(c, CLI_DOCUMENT, "%s: larger than 8 MiB, the most a "
                        "document may have", file);
    }
    return 0;
}

static int make_document(struct cli *c, const struct run_opts *o, char **ret,
                         size_t *ret_len)
{
    autofree char *here = o->dir ? mem_str(o->dir) : getcwd(NULL, 0);
    struct command cmd = {
        .argv = c->command, .name = o->name, .dir = here,
        .gpu_milli = o->gpu_milli, .cpu_milli = o->cpu_milli,
        .memory = o->memory, .ranks = o->ranks, .retries = o->retries,
        .timeout_ms = o->timeout_ms, .env = o->env.items,
        .nenv = o->env.count,
    };
    autojson json_t *doc = NULL;
    struct err err;

    if (!c->command[0])
        return cli_fail(c, CLI_USAGE, "no command after '--'");
    if (!here)
        return cli_fail(c, CLI_USAGE, "the current folder: %s",
                        strerror(errno));
    doc = command_document(&cmd, &err);
    if (!doc)
        return cli_fail(c, CLI_USAGE, "%s", err.text);
    *ret = json_text(doc);
    *ret_len = strlen(*ret);
    return 0;
}

/* Options of a command mean nothing beside a file: better said than
 * overlooked.
 */
static int check_opts(struct cli *c, const struct run_opts *o)
{
    bool of_command = o->gpu_milli || o->cpu_milli || o->memory || o->ranks ||
                      o->retries || o->timeout_ms || o->env.count || o->name ||
                      o->dir;

    if (c->command && c->nargs > 0)
        return cli_fail(c, CLI_USAGE, "either a FILE or '-- COMMAND', not "
                        "both ('%s')", c->args[0]);
    if (!c->command && c->nargs == 0)
        return cli_fail(c, CLI_USAGE, "what to run? 'weir run FILE' or 'weir "
                        "run -- COMMAND'");
    if (!c->command && of_command)
        return cli_fail(c, CLI_USAGE, "--gpus, --cpus, --memory, --ranks, "
                        "--retries, --timeout, --env, --dir and --name are "
                        "for a command; in a document say it there");
    for (size_t i = 0; i < o->params.count; i++) {
        const char *p = o->params.items[i];

        if (p[0] == '=' || !strchr(p, '='))
            return cli_fail(c, CLI_USAGE, "-p '%s': expected NAME=VALUE", p);
    }
    return 0;
}

/* ---- staying with it ---- */

/* Why Weir ended it; "" when it ended by itself. */
static const char *ended_for(const char *cause)
{
    static const struct { const char *cause, *text; } rows[] = {
        { "timeout", " ran past its timeout:" },
        { "memory", " used more memory than it may:" },
    };

    for (size_t i = 0; i < array_size(rows); i++) {
        if (strcmp(rows[i].cause, cause) == 0)
            return rows[i].text;
    }
    return "";
}

/* As a shell would tell it, as far as it does not collide with our own. */
static int command_exit(struct cli *c, const char *id, int code,
                        const struct view_log *log)
{
    const char *why = ended_for(log->cause);
    int status = log->status;
    bool own = status > 0 && status <= 125;

    if (code != CLI_FAILED)
        return code;
    if (own && !why[0])
        return status;
    if (status < 0)
        cli_note(c, "%s%s ended by signal %d (%s)", id, why, -status,
                 strsignal(-status));
    else if (status > 0 || why[0])
        cli_note(c, "%s%s ended with exit status %d", id, why, status);
    else
        cli_note(c, "%s failed; see 'weir show %s'", id, id);
    return own ? status : CLI_FAILED;
}

static int stay(struct cli *c, const char *id)
{
    struct view_tree tree = { 0 };
    struct view_plain plain = { 0 };
    struct view_log log = { .solo = true };
    autojson json_t *w = NULL;
    int rc, shown;

    if (c->out == OUT_JSON) {
        rc = follow_run(c, id, true, &view_quiet, NULL);
        shown = call_get(c, &w, "/v1/workloads/%s", id);
        if (shown == 0)
            shown = print_json(c, w);
        return shown ? shown : rc;
    }
    if (c->command) {
        rc = follow_run(c, id, true, &view_log, &log);
        if (rc == 0 && log.failed)
            return CLI_BROKEN;         /* said already */
        return command_exit(c, id, rc, &log);
    }
    if (c->term.tty)
        return follow_run(c, id, true, &view_tree, &tree);
    return follow_run(c, id, true, &view_plain, &plain);
}

static int run_run(struct cli *c, const void *opts)
{
    const struct run_opts *o = opts;
    struct submit s = {
        .params = &o->params, .tenant = o->tenant, .priority = o->priority,
        .key = o->key,
    };
    autofree char *text = NULL;
    autojson json_t *w = NULL;
    const char *id;
    int rc = check_opts(c, o);

    if (rc == 0 && c->command)
        rc = make_document(c, o, &text, &s.len);
    else if (rc == 0)
        rc = read_document(c, c->args[0], &text, &s.len);
    if (rc != 0)
        return rc;
    s.text = text;
    s.file = c->command ? "command" : c->args[0];
    rc = submit(c, &s, &w);
    if (rc != 0)
        return rc;
    id = json_get_str(w, "id", "");
    if (!o->detach)
        return stay(c, id);
    return print_done(c, w, "%s", id);
}

const struct verb verb_run = {
    .name = "run",
    .summary = "submit a document or a command, and stay with it to its end",
    .usage = "FILE [-p NAME=VALUE]... [OPTIONS]\n"
             "[OPTIONS] -- COMMAND [ARGUMENT]...",
    .about =
        "A FILE ('-' is standard input) is a document, weir-document(5).  On a "
        "terminal\n"
        "its tasks show as a live tree; elsewhere each change is a line.  A "
        "COMMAND runs\n"
        "in the current folder; its output comes out here, and its exit "
        "status (up to\n"
        "125) becomes ours.\n"
        "\n"
        "Ctrl-C detaches after a second: the workload goes on.  A second "
        "Ctrl-C within\n"
        "that second aborts it, a third kills it.",
    .examples =
        "weir run pipeline.yaml                  # submit and watch\n"
        "weir run sweep.yaml -p lr=0.1 --detach  # submit, print the id\n"
        "weir run --gpus 1 -- python train.py    # one command on one device\n"
        "weir run --ranks 4 --gpus 1 -- ./gang   # four of it, together",
    .opts = run_opts,
    .size = sizeof(struct run_opts),
    .max_args = 1,
    .arg = ARG_FILE,
    .command = true,
    .run = run_run,
};
