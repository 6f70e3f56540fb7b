#include "sim/dag.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"

#include <string.h>

static struct err err;

static int read_text(const char *s, struct flow *ret)
{
    autofree char *text = mem_str(s);

    err.text[0] = '\0';
    return dag_read("d", text, strlen(s), ret, &err);
}

/* It is refused with these words, and *ret is as before. */
static bool refused(const char *s, const char *words)
{
    struct flow f = { .count = 77 };

    if (read_text(s, &f) >= 0) {
        flow_free(&f);
        return false;
    }
    if (!strstr(err.text, words))
        printf("# %s\n", err.text);
    return strstr(err.text, words) && f.count == 77 && !f.tasks;
}

static void test_plain(void)
{
    struct flow f = { 0 };

    ok(read_text("# heading\n0 0.054 split 0 \n1 9.5 blast 1 0\r\n\n"
                 "2 3 cat 2 0 1", &f) == 0 && f.count == 3 && f.nedges == 3,
       "three tasks, three edges");
    ok(f.tasks[0].length_ms == 54 && f.tasks[1].length_ms == 9500 &&
       f.tasks[2].length_ms == 3000, "run times in milliseconds");
    ok(f.tasks[0].nparents == 0 && f.tasks[1].nparents == 1 &&
       f.edges[f.tasks[1].first] == 0 && f.edges[f.tasks[2].first + 1] == 1,
       "parents are where they belong");
    ok(f.tasks[0].cpu_milli == 1000 && f.tasks[0].gpus == 0, "a slot each");
    flow_free(&f);
}

static void test_long_programs(void)
{
    struct flow f = { 0 };

    ok(read_text("0 1 sh_\\\n__a_0\n\n#!_END 0 \n1 1 cat 1 0\n", &f) == 0 &&
       f.count == 2, "a program of several lines, one of them empty, one with "
       "a #");
    flow_free(&f);
    ok(read_text("0 1 sh\n# 1 1\n1 2 x 0\n", &f) == 0 && f.count == 2 &&
       f.tasks[0].nparents == 1 && f.edges[0] == 1,
       "within a program # is no comment; a parent may stand behind");
    flow_free(&f);
}

static void test_signatures(void)
{
    struct flow f = { 0 };
    const struct predict_sig *a, *b, *c, *d;

    ok(read_text("0 1 fit_7 0\n1 1 fit_7 0\n2 1 fit_23 0\n3 1 fit_x 0\n",
                 &f) == 0, "four tasks");
    a = &f.tasks[0].sig;
    b = &f.tasks[1].sig;
    c = &f.tasks[2].sig;
    d = &f.tasks[3].sig;
    ok(a->key[0] != b->key[0] && a->key[1] == b->key[1],
       "the same program at another place: known by the program");
    ok(a->key[1] != c->key[1] && a->key[2] == c->key[2],
       "other digits: known by the shape");
    ok(a->key[2] != d->key[2] && a->key[3] == d->key[3],
       "other words: known by the first");
    flow_free(&f);
}

static void test_faults(void)
{
    ok(refused("", "no task"), "nothing in it");
    ok(refused("1 1 a 0\n", "d:1: index 1, expected 0"), "a wrong index");
    ok(refused("x 1 a 0\n", "index 'x'"), "no index");
    ok(refused("0 -1 a 0\n", "run time '-1'"), "no run time");
    ok(refused("0 99999999999 a 0\n", "run time"), "a run time of centuries");
    ok(refused("0 1\n", "no program"), "no program");
    ok(refused("0 1 a\n", "no number of parents"), "it ends in a program");
    ok(refused("0 1 a 2 0\n", "parent ''"), "a parent is missing");
    ok(refused("0 1 a 0 7\n", "'7' after 0 parents"), "a parent too many");
    ok(refused("0 1 a 1 5\n", "parent 5, there are 1"), "no such parent");
    ok(refused("0 1 a 1 0\n", "task 0 waits for itself"), "its own parent");
    ok(refused("0 1 a 0\n1 1 a 1 2\n2 1 a 1 1\n", "task 1 waits"),
       "two that wait for each other");
}

int main(void)
{
    test_plain();
    test_long_programs();
    test_signatures();
    test_faults();
    return tap_done();
}
