#include "cli/cli.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/near.h"
#include "cli/help.h"
#include "cli/opt.h"
#include "cli/print.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

enum { HELP_MAX = 1024 * 1024 };

static const struct verb *find_verb(const char *noun, const char *word)
{
    for (size_t i = 0; cli_verbs[i]; i++) {
        const char *name = cli_verbs[i]->name;
        size_t n = strlen(noun);

        if (strcmp(name, noun) == 0)
            return cli_verbs[i];
        if (word && strncmp(name, noun, n) == 0 && name[n] == ' ' &&
            strcmp(name + n + 1, word) == 0)
            return cli_verbs[i];
    }
    return NULL;
}

static int print_help(const struct cli *c, struct buf *out)
{
    int rc = print_buf(c, out);

    buf_free(out);
    return rc;
}

static int unknown_verb(const struct cli *c, const char *noun,
                        const char *word)
{
    struct buf out = BUF_INIT(HELP_MAX);
    struct near n;

    if (help_noun(noun, &out)) {
        if (word)
            (void) cli_fail(c, CLI_USAGE, "'%s %s' is no verb; there are:",
                            noun, word);
        else
            (void) cli_fail(c, CLI_USAGE, "'%s' wants a verb:", noun);
        fputs(buf_text(&out), stderr);
        buf_free(&out);
        return CLI_USAGE;
    }
    near_init(&n, noun);
    for (size_t i = 0; cli_verbs[i]; i++)
        near_try(&n, cli_verbs[i]->name);
    if (n.best)
        return cli_fail(c, CLI_USAGE, "'%s' is no verb; did you mean '%s'?",
                        noun, n.best);
    return cli_fail(c, CLI_USAGE, "'%s' is no verb; 'weir --help' lists them",
                    noun);
}

/* Common options may stand before the verb: they are moved behind it.  Gives
 * the place of the verb, argc when there is none.
 */
static int skip_options(int argc, char **argv)
{
    int i = 1;

    while (i < argc && argv[i][0] == '-' && argv[i][1]) {
        const struct opt *o = cli_common;
        size_t n = strcspn(argv[i], "=");

        for (; o->kind != OPT_END; o++) {
            bool is_long = strncmp(argv[i], "--", 2) == 0 &&
                           strlen(o->name) == n - 2 &&
                           strncmp(argv[i] + 2, o->name, n - 2) == 0;
            bool is_short = argv[i][1] == o->letter && !argv[i][2];

            if (o->arg && !argv[i][n] && (is_long || is_short)) {
                i++;
                break;
            }
        }
        i++;
    }
    return i < argc ? i : argc;
}

static int run_verb(struct cli *c, const struct verb *v, int argc,
                    char **argv)
{
    autofree void *opts = mem_new(v->size ? v->size : 1);
    struct buf out = BUF_INIT(HELP_MAX);
    struct err err;
    int rc = opt_parse(c, v, argc, argv, opts);

    if (rc == OPT_HELP) {
        help_verb(v, &out);
        rc = print_help(c, &out);
    } else if (rc == 0 && where_find_here(&c->where, &err) < 0) {
        rc = cli_fail(c, CLI_USAGE, "%s", err.text);
    } else if (rc == 0) {
        rc = v->run(c, opts);
    }
    opt_free(v, opts);
    return rc;
}

/* The verb's own argv: its name, the options before it, what comes after. */
static int dispatch(struct cli *c, int argc, char **argv, int at)
{
    const struct verb *v = find_verb(argv[at], argv[at + 1]);
    autofree char **own = mem_array((size_t) argc + 1, sizeof *own);
    int words, n = 0;

    if (!v)
        return unknown_verb(c, argv[at], argv[at + 1]);
    words = strchr(v->name, ' ') ? 2 : 1;
    own[n++] = argv[at];
    for (int i = 1; i < at; i++)
        own[n++] = argv[i];
    for (int i = at + words; i < argc; i++)
        own[n++] = argv[i];
    return run_verb(c, v, n, own);
}

static int help(struct cli *c, int argc, char **argv)
{
    struct buf out = BUF_INIT(HELP_MAX);
    const struct verb *v = NULL;

    if (argc > 2) {
        v = find_verb(argv[2], argc > 3 ? argv[3] : NULL);
        if (v)
            help_verb(v, &out);
        else if (!help_noun(argv[2], &out))
            return unknown_verb(c, argv[2], argc > 3 ? argv[3] : NULL);
        return print_help(c, &out);
    }
    help_all(&out);
    return print_help(c, &out);
}

static int start(struct cli *c, int argc, char **argv)
{
    int at = skip_options(argc, argv);

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 ||
                     strcmp(argv[1], "-h") == 0 ||
                     strcmp(argv[1], "help") == 0))
        return help(c, argc, argv);
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        puts("weir " WEIR_VERSION);
        return 0;
    }
    if (at == argc)
        return cli_fail(c, CLI_USAGE, "what to do? 'weir --help' lists the "
                        "verbs");
    return dispatch(c, argc, argv, at);
}

int main(int argc, char **argv)
{
    struct cli c = { 0 };
    int rc;

    (void) setlocale(LC_CTYPE, "");
    term_find(&c.term);
    rc = start(&c, argc, argv);
    if (fflush(stdout) != 0 && rc == 0)
        rc = cli_fail(&c, CLI_BROKEN, "standard output: %s", strerror(errno));
    cli_close(&c);
    return rc;
}
