#include "cli/opt.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/near.h"
#include "base/quantity.h"
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

/* Long options are numbered from FIRST on, in the order of the verb's rows and
 * then of the common rows; a letter leads to the same row.
 */
enum { FIRST = 256, MAX_OPTS = 64 };

const struct opt cli_common[] = {
    { "output", 'o', "FORMAT", OPT_FORMATS, OPT_TEXT, 0 },
    { "no-header", 0, NULL, "leave out the heading of tables", OPT_FLAG, 0 },
    { "socket", 0, "PATH", "the control plane's Unix socket", OPT_TEXT, 0 },
    { "server", 0, "URL", "a control plane elsewhere, https://HOST:PORT",
      OPT_TEXT, 0 },
    { "token-file", 0, "FILE", "token for --server (or $WEIR_TOKEN)",
      OPT_TEXT, 0 },
    { "ca", 0, "FILE", "certificates that --server is checked against",
      OPT_TEXT, 0 },
    { "cert", 0, "FILE", "client certificate for --server", OPT_TEXT, 0 },
    { "cert-key", 0, "FILE", "its key", OPT_TEXT, 0 },
    { "help", 'h', NULL, "show this help", OPT_FLAG, 0 },
    { .kind = OPT_END },
};

struct getopts {
    struct option longs[MAX_OPTS + 1];
    char shorts[2 * MAX_OPTS + 4];
    const struct opt *rows[MAX_OPTS];
    size_t count, nshort;
};

static void add_rows(struct getopts *g, const struct opt *rows)
{
    for (; rows->kind != OPT_END && g->count < MAX_OPTS; rows++) {
        g->longs[g->count] = (struct option) {
            .name = rows->name,
            .has_arg = rows->arg ? required_argument : no_argument,
            .val = FIRST + (int) g->count,
        };
        g->rows[g->count++] = rows;
        if (rows->letter) {
            g->shorts[g->nshort++] = rows->letter;
            if (rows->arg)
                g->shorts[g->nshort++] = ':';
        }
    }
}

static const struct opt *find_row(const struct getopts *g, int val)
{
    if (val >= FIRST)
        return g->rows[val - FIRST];
    for (size_t i = 0; i < g->count; i++) {
        if (g->rows[i]->letter == (char) val)
            return g->rows[i];
    }
    return NULL;
}

/* ---- values ---- */

static int read_number(const struct opt *o, const char *s, uint64_t *ret,
                       struct err *err)
{
    switch (o->kind) {
    case OPT_COUNT:
    case OPT_COUNT_0:
        return quantity_count(s, ret, err);
    case OPT_MILLI:
    case OPT_MILLI_0:
        return quantity_milli(s, ret, err);
    case OPT_BYTES:
        return quantity_bytes(s, ret, err);
    case OPT_DURATION:
    case OPT_DURATION_0:
        return quantity_duration(s, ret, err);
    case OPT_FLAG:
    case OPT_TEXT:
    case OPT_LIST:
    case OPT_END:
        break;
    }
    return err_set(err, EINVAL, "no number");
}

static void list_add(struct opt_list *l, const char *s)
{
    l->items = mem_grow(l->items, l->count + 1, sizeof *l->items);
    l->items[l->count++] = s;
}

static int set_own(struct cli *c, const struct opt *o, const char *value,
                   void *opts)
{
    char *at = (char *) opts + o->offset;
    struct err err;
    uint64_t n;

    if (o->kind == OPT_FLAG) {
        *(bool *) (void *) at = true;
        return 0;
    }
    if (o->kind == OPT_TEXT) {
        *(const char **) (void *) at = value;
        return 0;
    }
    if (o->kind == OPT_LIST) {
        list_add((struct opt_list *) (void *) at, value);
        return 0;
    }
    if (read_number(o, value, &n, &err) < 0)
        return cli_fail(c, CLI_USAGE, "--%s: %s", o->name, err.text);
    if (n == 0 && o->kind < OPT_COUNT_0)
        return cli_fail(c, CLI_USAGE, "--%s: expected more than 0", o->name);
    *(uint64_t *) (void *) at = n;
    return 0;
}

static int set_output(struct cli *c, const char *value)
{
    static const char *const names[] = { "table", "wide", "json", "csv",
                                         "html" };
    bool reports = c->verb && c->verb->reports;
    size_t n = reports ? array_size(names) : OUT_JSON + 1;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(value, names[i]) == 0) {
            c->out = (enum cli_out) i;
            return 0;
        }
    }
    return cli_fail(c, CLI_USAGE,
                    "--output: unknown format '%s'; expected %s", value,
                    reports ? OPT_REPORTS : OPT_FORMATS);
}

static int set_common(struct cli *c, const struct opt *o, const char *value)
{
    const struct { const char *name; const char **place; } texts[] = {
        { "socket", &c->where.socket_opt },
        { "server", &c->where.server_opt },
        { "token-file", &c->where.token_file },
        { "ca", &c->where.ca_opt },
        { "cert", &c->where.cert_opt },
        { "cert-key", &c->where.key_opt },
    };

    if (strcmp(o->name, "help") == 0)
        return OPT_HELP;
    if (strcmp(o->name, "output") == 0)
        return set_output(c, value);
    if (strcmp(o->name, "no-header") == 0) {
        c->no_header = true;
        return 0;
    }
    for (size_t i = 0; i < array_size(texts); i++) {
        if (strcmp(o->name, texts[i].name) == 0)
            *texts[i].place = value;
    }
    return 0;
}

/* ---- what is wrong ---- */

static int bad_option(struct cli *c, const struct getopts *g, int val,
                      char *const *argv)
{
    const char *word = argv[optind - 1];
    struct near n;

    if (val == ':')
        return cli_fail(c, CLI_USAGE, "option '%s' wants a value; see 'weir "
                        "%s --help'", word, c->verb->name);
    if (optopt >= '0' && optopt <= '9')
        return cli_fail(c, CLI_USAGE, "unknown option '-%c'; a negative "
                        "number is written after '--'", optopt);
    if (optopt && optopt < FIRST)
        return cli_fail(c, CLI_USAGE, "unknown option '-%c'; see 'weir %s "
                        "--help'", optopt, c->verb->name);
    if (optopt)
        return cli_fail(c, CLI_USAGE, "option '%s' takes no value", word);
    near_init(&n, word + 2);
    for (size_t i = 0; i < g->count; i++)
        near_try(&n, g->longs[i].name);
    if (n.best)
        return cli_fail(c, CLI_USAGE, "unknown option '%s'; did you mean "
                        "'--%s'?", word, n.best);
    return cli_fail(c, CLI_USAGE, "unknown option '%s'; see 'weir %s --help'",
                    word, c->verb->name);
}

static int check_args(struct cli *c, const struct verb *v)
{
    autofree char *usage = mem_strn(v->usage, strcspn(v->usage, "\n"));

    for (unsigned i = 0; i < c->nargs; i++) {
        if (!c->args[i][0])
            return cli_fail(c, CLI_USAGE,
                            "an argument is empty; usage: weir %s %s", v->name,
                            usage);
    }
    if (c->nargs >= v->min_args && c->nargs <= v->max_args)
        return 0;
    if (c->nargs > v->max_args && v->max_args == 0)
        return cli_fail(c, CLI_USAGE, "takes no argument, got '%s'",
                        c->args[0]);
    if (c->nargs > v->max_args)
        return cli_fail(c, CLI_USAGE,
                        "one argument too many, '%s'; usage: weir %s %s",
                        c->args[v->max_args], v->name, usage);
    return cli_fail(c, CLI_USAGE, "an argument is missing; usage: weir %s %s",
                    v->name, usage);
}

/* A command after "--" is cut off first: its options are its own. */
static int cut_command(struct cli *c, const struct verb *v, int argc,
                       char **argv)
{
    for (int i = 1; v->command && i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            c->command = argv + i + 1;
            return i;
        }
    }
    return argc;
}

int opt_parse(struct cli *c, const struct verb *v, int argc, char **argv,
              void *opts)
{
    struct getopts g = { .shorts = ":", .nshort = 1 };
    int val, rc = 0;
    size_t own;

    c->verb = v;
    add_rows(&g, v->opts);
    own = g.count;
    add_rows(&g, cli_common);
    argc = cut_command(c, v, argc, argv);
    opterr = 0;
    optind = 0;                        /* start anew, glibc's way */
    while (rc == 0 &&
           (val = getopt_long(argc, argv, g.shorts, g.longs, NULL)) != -1) {
        const struct opt *o;

        o = val == '?' || val == ':' ? NULL : find_row(&g, val);
        if (!o)
            return bad_option(c, &g, val, argv);
        if (o >= cli_common && o < cli_common + (g.count - own))
            rc = set_common(c, o, optarg);
        else
            rc = set_own(c, o, optarg, opts);
    }
    if (rc != 0)
        return rc;
    c->args = argv + optind;
    c->nargs = (unsigned) (argc - optind);
    return check_args(c, v);
}

void opt_free(const struct verb *v, void *opts)
{
    for (const struct opt *o = v->opts; o->kind != OPT_END; o++) {
        if (o->kind == OPT_LIST)
            free(((struct opt_list *) (void *) ((char *) opts + o->offset))
                     ->items);
    }
}
