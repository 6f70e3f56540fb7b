#include "cli/help.h"
#include "cli/opt.h"

#include "base/mem.h"
#include "base/tap.h"

#include <stdint.h>
#include <string.h>

/* Every row of the table is whole, and its options read as they are written. */

static size_t count(const struct opt *o)
{
    size_t n = 0;

    while (o[n].kind != OPT_END)
        n++;
    return n;
}

/* No long name and no letter twice, the common ones included. */
static bool unique(const struct verb *v)
{
    const struct opt *all[128];
    size_t n = 0;

    for (size_t i = 0; i < count(v->opts); i++)
        all[n++] = &v->opts[i];
    for (size_t i = 0; i < count(cli_common); i++)
        all[n++] = &cli_common[i];
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(all[i]->name, all[k]->name) == 0 ||
                (all[i]->letter && all[i]->letter == all[k]->letter)) {
                printf("# %s: --%s and --%s\n", v->name, all[i]->name,
                       all[k]->name);
                return false;
            }
        }
    }
    return n < 64;
}

static bool within(const struct verb *v)
{
    for (const struct opt *o = v->opts; o->kind != OPT_END; o++) {
        if (!o->name || !o->help || (o->kind == OPT_FLAG) != !o->arg ||
            o->offset >= v->size)
            return false;
    }
    return true;
}

/* Each example is a line of its own, as it stands in the row. */
static bool shows_examples(const struct verb *v, const char *help)
{
    const char *e = v->examples;

    if (!strstr(e, "weir "))
        return false;
    while (*e) {
        autofree char *line = mem_printf("\n  %.*s\n",
                                         (int) strcspn(e, "\n"), e);

        if (!strstr(help, line))
            return false;
        e += strcspn(e, "\n");
        e += *e == '\n';
    }
    return true;
}

static void test_rows(void)
{
    for (size_t i = 0; cli_verbs[i]; i++) {
        const struct verb *v = cli_verbs[i];
        autobuf struct buf out = BUF_INIT(1 << 20);

        help_verb(v, &out);
        ok(v->name && v->summary && v->usage && v->about && v->run &&
           v->min_args <= v->max_args && within(v) && unique(v) &&
           shows_examples(v, buf_text(&out)),
           "%s: its row is whole and its help shows examples", v->name);
    }
}

/* The formats that a verb takes are the ones that its help has. */
static void test_formats(void)
{
    unsigned reports = 0;

    for (size_t i = 0; cli_verbs[i]; i++) {
        const struct verb *v = cli_verbs[i];
        autobuf struct buf out = BUF_INIT(1 << 20);

        reports += v->reports;
        help_verb(v, &out);
        if (!strstr(buf_text(&out), OPT_FORMATS) == !v->reports ||
            !strstr(buf_text(&out), OPT_REPORTS) == v->reports)
            ok(false, "%s: its help has its formats", v->name);
    }
    ok(reports > 0, "help has the formats that each verb takes");
}

/* ---- options ---- */

struct opts {
    bool flag;
    const char *text;
    struct opt_list list;
    uint64_t count, any, milli, bytes, ms;
};

#define AT(member) offsetof(struct opts, member)
static const struct opt rows[] = {
    { "flag", 'f', NULL, "", OPT_FLAG, AT(flag) },
    { "text", 't', "T", "", OPT_TEXT, AT(text) },
    { "list", 'l', "L", "", OPT_LIST, AT(list) },
    { "count", 0, "N", "", OPT_COUNT, AT(count) },
    { "any", 0, "N", "", OPT_COUNT_0, AT(any) },
    { "milli", 0, "N", "", OPT_MILLI, AT(milli) },
    { "bytes", 0, "N", "", OPT_BYTES, AT(bytes) },
    { "time", 0, "N", "", OPT_DURATION, AT(ms) },
    { .kind = OPT_END },
};
static const struct verb verb = {
    .name = "test", .usage = "A [B]", .opts = rows,
    .size = sizeof(struct opts), .min_args = 1, .max_args = 2,
    .command = true,
};

static int parse(struct cli *c, struct opts *o, const char *line)
{
    static char text[512];
    static char *argv[32];
    int argc = 0;

    (void) snprintf(text, sizeof text, "%s", line);
    *c = (struct cli) { .muted = true };
    *o = (struct opts) { 0 };
    for (char *p = text; *p && argc < 31;) {
        argv[argc++] = p;
        p += strcspn(p, " ");
        if (*p)
            *p++ = '\0';
    }
    argv[argc] = NULL;
    return opt_parse(c, &verb, argc, argv, o);
}

static void test_values(void)
{
    struct opts o;
    struct cli c;

    ok(parse(&c, &o, "test x -f --text=a -l 1 y --list 2 --count 7 "
             "--milli 0.25 --bytes 4Ki --time 2m -o json") == 0 &&
       o.flag && strcmp(o.text, "a") == 0 && o.list.count == 2 &&
       strcmp(o.list.items[1], "2") == 0 && o.count == 7 &&
       o.milli == 250 && o.bytes == 4096 &&
       o.ms == 120000 && c.out == OUT_JSON, "options of every kind");
    ok(c.nargs == 2 && strcmp(c.args[0], "x") == 0 &&
       strcmp(c.args[1], "y") == 0 && !c.command, "arguments in between");
    opt_free(&verb, &o);
    ok(parse(&c, &o, "test x --any 3 --any 0") == 0 && o.any == 0,
       "one that may be 0");
    ok(parse(&c, &o, "test x -- cmd -f --text") == 0 && !o.flag && !o.text &&
       c.nargs == 1 && strcmp(c.command[1], "-f") == 0,
       "what stands after -- is the command's own");
    ok(parse(&c, &o, "test x --socket /s --server https://h --ca f") == 0 &&
       strcmp(c.where.socket_opt, "/s") == 0 &&
       strcmp(c.where.server_opt, "https://h") == 0 &&
       strcmp(c.where.ca_opt, "f") == 0, "the way to the server");
    ok(parse(&c, &o, "test --help") == OPT_HELP, "help needs no arguments");
}

static void test_refusals(void)
{
    static const char *const bad[] = {
        "test", "test a b c", "test a --count", "test a --count x",
        "test a --count -5", "test a --bytes 4Qi", "test a --time 5y",
        "test a --milli 0.12345", "test a --nope", "test a -z",
        "test a --flag=1", "test a -o yaml", "test a --count 0",
        "test a --milli 0", "test a --bytes 0", "test a --time 0s",
        "test a -5", "test  ",
    };
    struct opts o;
    struct cli c;

    for (size_t i = 0; i < array_size(bad); i++)
        ok(parse(&c, &o, bad[i]) == CLI_USAGE, "refused: %s", bad[i]);
}

static void test_targets(void)
{
    static const char *const bad[] = { "", "w", "12", "w1x", "x12", "w12/",
                                       "/a", "w123456789012345678901" };
    struct cli c = { .muted = true };
    char *id = NULL, *task = NULL;

    ok(cli_target(&c, "w12/a/b", &id, &task) == 0 &&
       strcmp(id, "w12") == 0 && strcmp(task, "a/b") == 0, "w12/a/b");
    free(id);
    free(task);
    ok(cli_target(&c, "w12", &id, &task) == 0 && task[0] == '\0', "w12");
    free(id);
    free(task);
    for (size_t i = 0; i < array_size(bad); i++)
        ok(cli_target(&c, bad[i], &id, &task) == CLI_USAGE, "refused: '%s'",
           bad[i]);
    ok(cli_workload(&c, "w12/a", &id) == CLI_USAGE,
       "a task where a workload is meant");
}

int main(void)
{
    test_rows();
    test_formats();
    test_values();
    test_refusals();
    test_targets();
    return tap_done();
}
