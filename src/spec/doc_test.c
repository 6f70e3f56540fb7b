#include "spec/doc.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"
#include "core/spec.h"

#include <errno.h>
#include <string.h>

/* The cases stand in doc_test.txt:
 *
 *     === what it shows
 *     -p name=value              (as often as needed)
 *     the document
 *     ---
 *     the problems as printed, or the spec as JSON
 *
 * With a second argument the program prints the file with what it found, for
 * a reader to compare.
 */
enum { NOW_MS = 1000000, MAX_PARAMS = 8 };

static const char *read_line(const char **p, const char *end, size_t *ret_len)
{
    const char *line = *p, *nl = memchr(line, '\n', (size_t) (end - line));

    *p = nl ? nl + 1 : end;
    *ret_len = (size_t) (*p - line);
    return line;
}

static bool starts(const char *line, size_t len, const char *word)
{
    return len >= strlen(word) && memcmp(line, word, strlen(word)) == 0;
}

struct one {
    char *title;
    struct buf text, want;
    struct doc_param params[MAX_PARAMS];
    size_t nparams;
};

static void one_free(struct one *c)
{
    for (size_t i = 0; i < c->nparams; i++)
        free((void *) (uintptr_t) c->params[i].name);
    free(c->title);
    buf_free(&c->text);
    buf_free(&c->want);
}

static void one_param(struct one *c, const char *line, size_t len)
{
    char *name = mem_strn(line + 3, len - 4), *value = strchr(name, '=');

    if (!value || c->nparams == MAX_PARAMS) {
        free(name);
        return;
    }
    *value = '\0';
    c->params[c->nparams++] = (struct doc_param) { name, value + 1 };
}

/* The next case; false at the end of the file. */
static bool one_next(const char **p, const char *end, struct one *ret)
{
    struct one c = { .text = BUF_INIT(1 << 20), .want = BUF_INIT(1 << 20) };
    struct buf *into = &c.text;
    const char *line;
    size_t len;

    if (*p == end)
        return false;
    line = read_line(p, end, &len);
    c.title = mem_strn(line + 4, len - 5);
    while (*p < end && !starts(*p, (size_t) (end - *p), "=== ")) {
        line = read_line(p, end, &len);
        if (into == &c.text && starts(line, len, "-p "))
            one_param(&c, line, len);
        else if (len == 4 && starts(line, len, "---\n"))
            into = &c.want;
        else
            buf_add(into, line, len);
    }
    *ret = c;
    return true;
}

/* What the reader makes of it, as text. */
static char *outcome(const char *text, size_t len,
                     const struct doc_param *params, size_t nparams,
                     int *ret_rc)
{
    struct spec *s = NULL;
    struct doc_problems problems = { .items = NULL };
    autobuf struct buf out = BUF_INIT(1 << 20);

    *ret_rc = doc_read(text, len, params, nparams, NOW_MS, &s, &problems);
    if (*ret_rc == 0) {
        autojson json_t *j = spec_to_json(s);
        autofree char *words = json_text(j);

        buf_printf(&out, "%s\n", words);
    }
    doc_problems_print(&problems, "doc.yaml", &out);
    doc_problems_free(&problems);
    spec_free(s);
    return buf_take(&out);
}

static void say(const char *what, const char *text)
{
    const char *p = text, *end = text + strlen(text);

    while (p < end) {
        size_t len;
        const char *line = read_line(&p, end, &len);

        printf("# %s %.*s", what, (int) len, line);
    }
}

static void test_file(const char *path, bool show)
{
    autofree char *file = NULL;
    const char *p, *end;
    struct err err = { 0 };
    struct one c;
    size_t len;

    if (fs_read(path, 1 << 22, &file, &len, &err) < 0) {
        ok(false, "read '%s': %s", path, err.text);
        return;
    }
    for (p = file, end = file + len; one_next(&p, end, &c); one_free(&c)) {
        int rc;
        autofree char *got = outcome(buf_text(&c.text), c.text.len, c.params,
                                     c.nparams, &rc);
        bool same = strcmp(got, buf_text(&c.want)) == 0;

        if (show) {
            printf("=== %s\n", c.title);
            for (size_t i = 0; i < c.nparams; i++)
                printf("-p %s=%s\n", c.params[i].name, c.params[i].value);
            printf("%s---\n%s", buf_text(&c.text), got);
            continue;
        }
        ok(same && rc == (got[0] == '{' ? 0 : -EINVAL), "%s", c.title);
        if (!same) {
            say("want", buf_text(&c.want));
            say("got ", got);
        }
    }
}

/* -- what a file cannot show ---------------------------------------------- */

static void expect(const char *text, size_t len, const char *want,
                   const char *title)
{
    int rc;
    autofree char *got = outcome(text, len, NULL, 0, &rc);

    ok(rc == -EINVAL && strcmp(got, want) == 0, "%s", title);
    if (strcmp(got, want) != 0)
        say("got ", got);
}

static void test_bytes(void)
{
    static const char nul[] = "weir: 1\nkind: job\nrun: \"a\\0b\"\n";
    static const char raw[] = "weir: 1\nkind: job\nrun: a\0b\n";
    static const char latin[] = "weir: 1\nkind: job\nname: a\nrun: caf\xe9\n";
    static const char utf16[] = "\xff\xfew\0e\0i\0r\0";
    static const char bom[] = "\xef\xbb\xbfweir: 1\nkind: job\nrun: x\n";
    static const char json[] = "{\"weir\": 1, \"kind\": \"job\",\n"
                               "\t\"run\": \"\\ud83d\\ude00 \\\\ud83d\"}";
    int rc;
    autofree char *with_bom = outcome(bom, strlen(bom), NULL, 0, &rc);
    autofree char *joined = outcome(json, strlen(json), NULL, 0, &rc);

    expect(nul, strlen(nul), "doc.yaml:3:6: a text may not hold a NUL\n",
           "an escaped NUL is refused");
    expect(raw, sizeof(raw) - 1, "doc.yaml:3:7: not valid YAML: control "
           "characters are not allowed\n", "a NUL is refused");
    expect(latin, strlen(latin), "doc.yaml:4:9: not valid YAML: incomplete "
           "UTF-8 octet sequence\n", "what is not UTF-8 is refused");
    expect(utf16, sizeof(utf16) - 1, "doc.yaml:1:1: not valid YAML: invalid "
           "leading UTF-8 octet\n", "UTF-16 is refused");
    expect("", 0, "doc.yaml:1:1: the document is empty\n", "an empty one");
    ok(with_bom[0] == '{', "a byte order mark is skipped");
    ok(strstr(joined, "\"run\":\"\xf0\x9f\x98\x80 \\\\ud83d\""),
       "JSON's pairs of escapes are joined, a plain backslash is not");
    if (with_bom[0] != '{')
        say("got ", with_bom);
    if (joined[0] != '{')
        say("got ", joined);
}

static void test_too_large(void)
{
    size_t len = SPEC_MAX_BYTES + 1;
    autofree char *text = mem_new(len);
    autofree char *got = NULL;
    int rc;

    memset(text, ' ', len);
    got = outcome(text, len, NULL, 0, &rc);
    ok(rc == -E2BIG && strcmp(got, "doc.yaml: 8388609 bytes; a document has "
                              "at most 8388608\n") == 0,
       "8 MiB and one byte is refused unread");
}

static void test_deep(void)
{
    autobuf struct buf b = BUF_INIT(1 << 20);

    for (int i = 0; i < 500000; i++)
        buf_char(&b, '[');
    expect(b.data, b.len, "doc.yaml:1:33: nested more than 32 deep\n",
           "half a million brackets");
}

/* Ten levels of ten aliases each: 10^10 nodes if it were written out. */
static void test_bomb(void)
{
    autobuf struct buf b = BUF_INIT(1 << 20);

    buf_str(&b, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 10; i++) {
        buf_printf(&b, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            buf_printf(&b, "%s*a%d", k ? ", " : "", i - 1);
        buf_str(&b, "]\n");
    }
    expect(b.data, b.len, "doc.yaml:7:10: the document unfolds into more than "
           "2000000 values\n", "a bomb of aliases");
}

static void add_axis(struct buf *b, const char *name, unsigned n)
{
    buf_printf(b, "%s: [", name);
    for (unsigned i = 0; i < n; i++)
        buf_printf(b, "%s%u", i ? "," : "", i);
    buf_str(b, "]");
}

static void test_matrix_bombs(void)
{
    autobuf struct buf many = BUF_INIT(1 << 22), edges = BUF_INIT(1 << 22);
    autobuf struct buf text = BUF_INIT(1 << 22), args = BUF_INIT(1 << 22);
    autobuf struct buf ranks = BUF_INIT(1 << 20);

    buf_str(&many, "weir: 1\nkind: pipeline\ntasks:\n  a: {run: x, matrix: {");
    add_axis(&many, "x", 1000);
    buf_str(&many, ", ");
    add_axis(&many, "y", 101);
    buf_str(&many, "}}\n");
    expect(many.data, many.len, "doc.yaml:4:3: tasks: unfolds into more than "
           "100000 tasks\n", "a matrix of too many tasks");

    buf_str(&edges, "weir: 1\nkind: pipeline\ntasks:\n  a: {run: x, matrix: {");
    add_axis(&edges, "x", 1001);
    buf_str(&edges, "}}\n  b: {run: x, needs: a, matrix: {");
    add_axis(&edges, "x", 1000);
    buf_str(&edges, "}}\n");
    expect(edges.data, edges.len, "doc.yaml:5:3: tasks.b.needs: the tasks "
           "need each other more than 1000000 times up to this one\n",
           "a matrix of too many needs");

    buf_str(&ranks, "weir: 1\nkind: pipeline\ntasks:\n  a: {run: x, ranks: "
            "4096, together: s, matrix: {");
    add_axis(&ranks, "x", 25);
    buf_str(&ranks, "}}\n");
    expect(ranks.data, ranks.len, "doc.yaml:4:3: tasks.a.together: those "
           "that start together have more than 100000 ranks up to this one\n",
           "a matrix of too many ranks at once");

    buf_str(&text, "weir: 1\nkind: pipeline\ndefaults: {run: ");
    for (int i = 0; i < 60000; i++)
        buf_char(&text, 'x');
    buf_str(&text, "}\ntasks:\n  a: {matrix: {");
    add_axis(&text, "x", 20000);
    buf_str(&text, "}}\n");
    expect(text.data, text.len, "doc.yaml:5:3: tasks.a: the texts of all "
           "tasks make more than 67108864 bytes up to this one\n",
           "a matrix of too much text");

    buf_str(&args, "weir: 1\nkind: pipeline\ntasks:\n  a: {argv: [\"{{ x }}\"");
    for (int i = 0; i < 100; i++)
        buf_str(&args, ",x");
    buf_str(&args, "], matrix: {");
    add_axis(&args, "x", 30000);
    buf_str(&args, "}}\n");
    expect(args.data, args.len, "doc.yaml:4:3: tasks.a: the tasks unfold into "
           "more than 2000000 values up to this one\n",
           "a matrix of too many values");
}

/* 100,000 tasks in a chain, in the order that is worst for a walk. */
static void test_many(void)
{
    autobuf struct buf b = BUF_INIT(SPEC_MAX_BYTES);
    struct spec *s = NULL;
    struct doc_problems p = { .items = NULL };

    buf_str(&b, "weir: 1\nkind: pipeline\ndefaults: {run: echo hello}\n"
            "tasks:\n");
    for (unsigned i = 0; i < SPEC_MAX_TASKS; i++)
        buf_printf(&b, "  t%05u: {needs: [%s%05u], gpus: 1}\n", i,
                   i + 1 < SPEC_MAX_TASKS ? "t" : "u", i + 1);
    ok(!b.over && doc_read(b.data, b.len, NULL, 0, 0, &s, &p) == -EINVAL &&
       p.count == 1 && p.more == 0 &&
       strcmp(p.items[0].text,
              "no task 'u100000'; did you mean 't00000'?") == 0,
       "100,000 tasks: the one wrong need is found");
    if (p.count)
        printf("# %s\n", p.items[0].text);
    doc_problems_free(&p);
    b.len -= strlen("  t99999: {needs: [u100000], gpus: 1}\n");
    buf_str(&b, "  t99999: {}\n");
    ok(doc_read(b.data, b.len, NULL, 0, 0, &s, &p) == 0 &&
       s->ntasks == SPEC_MAX_TASKS && s->tasks[0].needs[0] == 1,
       "100,000 tasks are read");
    ok(s && s->tasks[0].run == s->tasks[99999].run,
       "and share the text of the defaults");
    spec_free(s);
    doc_problems_free(&p);
}

static void test_hundred(void)
{
    autobuf struct buf b = BUF_INIT(1 << 20), out = BUF_INIT(1 << 20);
    struct spec *s = NULL;
    struct doc_problems p = { .items = NULL };

    buf_str(&b, "weir: 1\nkind: job\nrun: x\n");
    for (int i = 0; i < 250; i++)
        buf_printf(&b, "zz%d: 1\n", i);
    ok(doc_read(b.data, b.len, NULL, 0, 0, &s, &p) == -EINVAL &&
       p.count == 100 && p.more == 150, "100 problems are kept, 150 counted");
    doc_problems_print(&p, "f", &out);
    ok(strstr(buf_text(&out), "\nf: and 150 more\n"), "and said");
    doc_problems_free(&p);
    ok(p.count == 0 && !p.items, "problems are let go");
}

/* A value is only ever text: it cannot become a key, a list or a template. */
static void test_injection(void)
{
    static const char text[] =
        "weir: 1\nkind: pipeline\nparameters: {p: x}\ntasks:\n"
        "  a: {argv: [echo, \"{{ p }}\"], env: {A: \"{{ p }}\"}}\n";
    static const char *const values[] = {
        "a]\n  b: {run: evil}", "\"", "'", "{{ p }}", "{{{{", "&a *a", "- x",
        "# no", "}}", "\n", "",
    };

    for (size_t i = 0; i < array_size(values); i++) {
        struct doc_param param = { "p", values[i] };
        struct doc_problems p = { .items = NULL };
        struct spec *s = NULL;
        int rc = doc_read(text, strlen(text), &param, 1, 0, &s, &p);

        ok(rc == 0 && s->ntasks == 1 &&
           strcmp(s->tasks[0].argv[1], values[i]) == 0 &&
           strcmp(s->tasks[0].env[0].value, values[i]) == 0,
           "value %zu stays text", i);
        spec_free(s);
        doc_problems_free(&p);
    }
}

static void test_bad_param(void)
{
    static const char text[] = "weir: 1\nkind: job\nparameters: {p: x}\n"
                               "run: \"{{ p }}\"\n";
    struct doc_param param = { "p", "\xff" };
    autofree char *longer = mem_new(SPEC_MAX_TEXT + 2);
    autofree char *one = NULL, *two = NULL;
    int rc;

    one = outcome(text, strlen(text), &param, 1, &rc);
    ok(strcmp(one, "doc.yaml: parameters: the value of parameter 'p' is not "
              "UTF-8\n") == 0, "a value that is not UTF-8");
    memset(longer, 'x', SPEC_MAX_TEXT + 1);
    param.value = longer;
    two = outcome(text, strlen(text), &param, 1, &rc);
    ok(strcmp(two, "doc.yaml: parameters: the value of parameter 'p' is longer "
              "than 65536 bytes\n") == 0, "a value that is too long");
}

static void test_problem_json(void)
{
    static const char text[] = "weir: 1\nkind: job\nrunn: x\n";
    struct doc_problems p = { .items = NULL };
    struct spec *s = NULL;
    autojson json_t *j = NULL;
    autofree char *words = NULL;

    (void) doc_read(text, strlen(text), NULL, 0, 0, &s, &p);
    j = doc_problems_json(&p, "f.yaml");
    words = json_text(j);
    ok(strcmp(words, "[{\"file\":\"f.yaml\",\"line\":1,\"column\":1,"
              "\"field\":\"\",\"text\":\"has no command; expected 'run' or "
              "'argv'\"},{\"file\":\"f.yaml\",\"line\":3,\"column\":1,"
              "\"field\":\"\",\"text\":\"unknown key 'runn'; did you mean "
              "'run'?\"}]") == 0, "problems as JSON (%s)", words);
    doc_problems_free(&p);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void) fprintf(stderr, "usage: doc_test CASES [show]\n");
        return 2;
    }
    test_file(argv[1], argc > 2);
    if (argc > 2)
        return 0;
    test_bytes();
    test_too_large();
    test_deep();
    test_bomb();
    test_matrix_bombs();
    test_many();
    test_hundred();
    test_injection();
    test_bad_param();
    test_problem_json();
    return tap_done();
}
