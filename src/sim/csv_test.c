#include "sim/csv.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"

#include <string.h>

static struct err err;

static int open_text(struct csv *c, const char *text, char **keep)
{
    *keep = mem_str(text);
    return csv_open(c, "t.csv", *keep, strlen(text), &err);
}

static void test_rows(void)
{
    autofree char *keep = NULL;
    struct csv c;
    uint64_t n = 0;
    double d = 0;
    int at = -1;

    ok(open_text(&c, "a,b,c\r\n1,2.5,x\n\n3,4,\n", &keep) == 0 &&
       c.columns == 3, "the heading is read");
    ok(csv_find(&c, "b") == 1 && csv_find(&c, "d") == -1, "columns by name");
    ok(csv_need(&c, "d", &at, &err) < 0 && at == -1 &&
       strcmp(err.text, "t.csv has no column 'd'") == 0,
       "a missing column is named");
    ok(csv_next(&c, &err) == 1 && csv_count(&c, 0, 9, &n, &err) == 0 &&
       n == 1 && csv_number(&c, 1, 9, &d, &err) == 0 && d > 2.49 && d < 2.51,
       "counts and numbers");
    ok(strcmp(c.value[2], "x") == 0, "CR LF ends a line");
    ok(csv_next(&c, &err) == 1 && c.line == 4 && c.value[2][0] == '\0',
       "an empty line is passed over, an empty value is a value");
    ok(csv_next(&c, &err) == 0 && csv_next(&c, &err) == 0, "the end stays");
}

static void test_mark(void)
{
    static const char only[] = "\xef\xbb\xbf";
    autofree char *keep = NULL;
    struct csv c;

    ok(open_text(&c, "\xef\xbb\xbf" "a,b\r\n1,2\r\n", &keep) == 0 &&
       csv_find(&c, "a") == 0 && csv_next(&c, &err) == 1 && c.line == 2,
       "a mark of UTF-8 in front is no part of the first column");
    free(take(keep));
    ok(open_text(&c, only, &keep) < 0 &&
       strcmp(err.text, "t.csv is empty") == 0, "and alone it is nothing");
}

static void test_refused(void)
{
    static const char *const rows[] = { "1", "1,2,3", "\"1\",2" };
    autofree char *keep = NULL;
    struct csv c;
    char gz[] = "\x1f\x8b\x08";

    ok(open_text(&c, "", &keep) < 0 && strcmp(err.text, "t.csv is empty") == 0,
       "an empty file");
    free(take(keep));
    ok(open_text(&c, "a,b,a\n1,2,3\n", &keep) < 0 &&
       strcmp(err.text, "t.csv:1: two columns 'a'; expected one") == 0,
       "two columns of one name");
    free(take(keep));
    ok(open_text(&c, "a,,\n1,2,3\n", &keep) == 0 && c.columns == 3,
       "columns without a name are passed over");
    ok(csv_open(&c, "t.csv", gz, 3, &err) < 0 && strstr(err.text, "gunzip"),
       "a compressed file is not taken for text");
    for (size_t i = 0; i < array_size(rows); i++) {
        autofree char *text = mem_printf("a,b\n%s", rows[i]);
        autofree char *cut = NULL;

        ok(open_text(&c, text, &cut) == 0 && csv_next(&c, &err) < 0 &&
           strncmp(err.text, "t.csv:2: ", 9) == 0, "refused: %s (%s)",
           rows[i], err.text);
    }
}

static void test_numbers(void)
{
    static const char *const bad[] = {
        "", "-1", "1e3", "0x10", "inf", "nan", ".5", "1.", "1.2.3", "1 ", "99",
    };
    struct csv c;

    for (size_t i = 0; i < array_size(bad); i++) {
        autofree char *text = mem_printf("a,b\n%s,", bad[i]);
        autofree char *cut = NULL;
        double d = 7;

        ok(open_text(&c, text, &cut) == 0 && csv_next(&c, &err) == 1 &&
           csv_number(&c, 0, 98, &d, &err) < 0 && d > 6.9 && d < 7.1,
           "no number: '%s' (%s)", bad[i], err.text);
    }
}

int main(void)
{
    test_rows();
    test_mark();
    test_refused();
    test_numbers();
    return tap_done();
}
