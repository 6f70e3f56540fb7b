#include "cli/table.h"

#include "base/mem.h"
#include "base/tap.h"

#include <locale.h>
#include <string.h>

static const struct table_column columns[] = {
    { .name = "ID" }, { .name = "N", .right = true },
    { .name = "MORE", .wide = true }, { .name = "LAST" }, { .name = NULL },
};
static const struct term plain = { .width = 80, .rows = 24, .utf8 = true };

static struct table *example(void)
{
    struct table *t = table_new(columns);

    table_add(t, STYLE_BOLD, "w1");
    table_printf(t, STYLE_PLAIN, "%d", 5);
    table_add(t, STYLE_PLAIN, "x");
    table_add(t, STYLE_PLAIN, "first");
    table_add(t, STYLE_BOLD, "w1234");
    table_add(t, STYLE_PLAIN, "1000");
    table_add(t, STYLE_PLAIN, "yy");
    table_add(t, STYLE_GOOD, "");
    return t;
}

static bool paints(const struct term *term, bool wide, bool header,
                   const char *want)
{
    struct buf out = BUF_INIT(65536);
    struct table *t = example();
    bool same;

    table_paint(t, term, wide, header, &out);
    same = strcmp(buf_text(&out), want) == 0;
    if (!same)
        printf("# got:\n%s", buf_text(&out));
    table_free(t);
    buf_free(&out);
    return same;
}

static void test_tables(void)
{
    struct term narrow = { .tty = true, .width = 14, .rows = 24 };
    struct term colour = { .width = 80, .colour = true };

    ok(paints(&plain, false, true,
              "ID        N  LAST\n"
              "w1        5  first\n"
              "w1234  1000  -\n"), "aligned, numbers to the right");
    ok(paints(&plain, true, true,
              "ID        N  MORE  LAST\n"
              "w1        5  x     first\n"
              "w1234  1000  yy    -\n"), "wide has more columns");
    ok(paints(&plain, false, false,
              "w1        5  first\n"
              "w1234  1000  -\n"), "without heading");
    ok(paints(&narrow, false, true,
              "ID        N  L\n"
              "w1        5  f\n"
              "w1234  1000  -\n"), "cut at the edge of a terminal");
    ok(paints(&colour, false, false,
              "\033[1mw1\033[0m        5  first\n"
              "\033[1mw1234\033[0m  1000  \033[32m-\033[0m\n"),
       "colours take no columns");
}

static void test_empty(void)
{
    struct buf out = BUF_INIT(4096);
    struct table *t = table_new(columns);

    table_paint(t, &plain, false, true, &out);
    ok(strcmp(buf_text(&out), "ID  N  LAST\n") == 0, "an empty table");
    ok(table_rows(t) == 0, "has no rows");
    table_free(t);
    table_free(NULL);
    buf_free(&out);
}

static bool painted(const struct term *term, unsigned limit, const char *text,
                    const char *want)
{
    struct buf out = BUF_INIT(4096);
    struct paint p = { .out = &out, .term = term, .limit = limit };
    bool same;

    paint_add(&p, STYLE_PLAIN, text);
    same = strcmp(buf_text(&out), want) == 0;
    if (!same)
        printf("# got: %s\n", buf_text(&out));
    buf_free(&out);
    return same;
}

static void test_paint(void)
{
    ok(painted(&plain, 0, "a\033[2Jb\r\x7f", "a?[2Jb??"),
       "no text steers the terminal");
    ok(painted(&plain, 0, "a\xc2\x9b" "b", "a?b"),
       "nor by the one-byte forms in UTF-8");
    ok(painted(&plain, 0, "a\xff\xc3", "a??"), "what is no UTF-8 shows as ?");
    ok(painted(&plain, 3, "äöüß", "äöü"), "cut by columns, not by bytes");
    ok(painted(&plain, 3, "日本", "日"), "wide characters take two columns");
    ok(paint_width("日本é") == 5, "and are counted so");
}

static bool bar(const struct term *term, unsigned long part,
                unsigned long mark, unsigned long whole, const char *want)
{
    struct buf out = BUF_INIT(4096);
    struct paint p = { .out = &out, .term = term };
    bool same;

    paint_bar(&p, 10, part, mark, whole);
    same = strcmp(buf_text(&out), want) == 0;
    buf_free(&out);
    return same;
}

static void test_bars(void)
{
    struct term ascii = { .width = 80 };

    ok(bar(&ascii, 0, 0, 0, ".........."), "a bar of nothing");
    ok(bar(&ascii, 5, 2, 10, "#####==..."), "a bar");
    ok(bar(&ascii, 0, 1, 1000, "=........."), "what runs is always seen");
    ok(bar(&ascii, 1000, 0, 1000, "##########"), "a full bar");
    ok(bar(&ascii, 3000, 9, 1000, "##########"), "a bar never runs over");
    ok(bar(&plain, 5, 0, 10, "━━━━━╌╌╌╌╌"), "a bar in UTF-8");
}

int main(void)
{
    (void) setlocale(LC_CTYPE, "C.UTF-8");
    test_tables();
    test_empty();
    test_paint();
    test_bars();
    return tap_done();
}
