#include "cli/help.h"

#include "base/mem.h"
#include "cli/opt.h"

#include <stdio.h>
#include <string.h>

enum { COLUMN = 26 };

static void add_pair(struct buf *out, const char *left, const char *right)
{
    size_t n = strlen(left);

    if (n + 3 > COLUMN)
        buf_printf(out, "  %s\n%*s%s\n", left, COLUMN, "", right);
    else
        buf_printf(out, "  %-*s%s\n", COLUMN - 2, left, right);
}

/* `reports`: of a verb whose answer can also be a report. */
static void add_options(struct buf *out, const struct opt *o, bool reports)
{
    for (; o->kind != OPT_END; o++) {
        bool formats = reports && strcmp(o->name, "output") == 0;
        char letter[8] = "";
        autofree char *left = NULL;

        if (o->letter)
            (void) snprintf(letter, sizeof letter, "-%c, ", o->letter);
        left = mem_printf("%s--%s%s%s", letter, o->name, o->arg ? " " : "",
                          o->arg ? o->arg : "");
        add_pair(out, left, formats ? OPT_REPORTS : o->help);
    }
}

/* Each line of `text` behind `first`, then behind as many blanks. */
static void add_lines(struct buf *out, const char *first, const char *text)
{
    const char *lead = first;

    while (*text) {
        size_t n = strcspn(text, "\n");

        buf_printf(out, "%*s%.*s\n", (int) strlen(first), lead, (int) n,
                   text);
        lead = "";
        text += n + (text[n] == '\n');
    }
}

void help_verb(const struct verb *v, struct buf *out)
{
    const char *usage = v->usage;

    buf_printf(out, "weir %s - %s\n\n", v->name, v->summary);
    if (!usage[0])
        buf_printf(out, "usage: weir %s\n", v->name);
    for (size_t i = 0; *usage; i++) {
        size_t n = strcspn(usage, "\n");

        buf_printf(out, "%s weir %s %.*s\n", i ? "      " : "usage:", v->name,
                   (int) n, usage);
        usage += n + (usage[n] == '\n');
    }
    if (v->about[0])
        buf_printf(out, "\n%s\n", v->about);
    if (v->opts->kind != OPT_END) {
        buf_str(out, "\noptions:\n");
        add_options(out, v->opts, false);
    }
    buf_str(out, "\ncommon options:\n");
    add_options(out, cli_common, v->reports);
    buf_str(out, "\nexamples:\n");
    add_lines(out, "  ", v->examples);
}

void help_all(struct buf *out)
{
    buf_str(out,
            "weir - every GPU you can reach as one pool\n\n"
            "usage: weir VERB [ARGUMENTS] [OPTIONS]\n\n");
    for (size_t i = 0; cli_verbs[i]; i++)
        add_pair(out, cli_verbs[i]->name, cli_verbs[i]->summary);
    buf_str(out,
            "\n'weir VERB --help' shows options and examples; see also "
            "weir(1).\n"
            "Start with:\n"
            "  weir up --devices sim:4xH100-80GB\n"
            "  weir run examples/pipeline.yaml\n");
}

bool help_noun(const char *noun, struct buf *out)
{
    size_t n = strlen(noun);
    bool any = false;

    for (size_t i = 0; cli_verbs[i]; i++) {
        const char *name = cli_verbs[i]->name;

        if (strncmp(name, noun, n) != 0 || name[n] != ' ')
            continue;
        any = true;
        add_pair(out, name, cli_verbs[i]->summary);
    }
    return any;
}
