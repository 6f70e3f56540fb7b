#include "cli/tree.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <locale.h>
#include <string.h>

static const struct term ascii = { .width = 80, .rows = 24 };
static const struct term utf8 = { .width = 80, .rows = 24, .utf8 = true };

static void add(json_t *tasks, const char *name, const char *state,
                const char *outcome, const char *needs)
{
    json_t *t = json_object(), *list = json_array();

    json_put_str(t, "task", name);
    json_put_str(t, "state", state);
    json_put_str(t, "outcome", outcome);
    json_put_u64(t, "ranks", 1);
    json_put_u64(t, "attempt", strcmp(state, "blocked") != 0 &&
                               strcmp(state, "waiting") != 0);
    while (needs && *needs) {
        size_t n = strcspn(needs, " ");

        (void) json_array_append_new(list, json_stringn(needs, n));
        needs += n + (needs[n] == ' ');
    }
    json_put(t, "needs", list);
    (void) json_array_append_new(tasks, t);
}

static void load(struct model *m, json_t *tasks)
{
    json_t *w = json_pack("{s:s,s:s,s:s,s:s}", "id", "w7", "name", "demo",
                          "state", "running", "submitted",
                          "1970-01-01T00:00:01Z");

    model_load(m, w, tasks);
    json_decref(w);
    json_decref(tasks);
}

static bool paints(const struct model *m, const struct term *t, unsigned rows,
                   const char *want)
{
    struct tree_conf conf = { .term = t, .rows = rows, .now_ms = 13300 };
    autobuf struct buf out = BUF_INIT(1 << 20);

    tree_paint(m, &conf, &out);
    if (strcmp(buf_text(&out), want) == 0)
        return true;
    printf("# got:\n%s", buf_text(&out));
    return false;
}

static struct model diamond(void)
{
    struct model m = { 0 };
    json_t *t = json_array();

    /* The order of the document is not the order of the needs. */
    add(t, "join", "blocked", NULL, "left right");
    add(t, "fetch", "ended", "succeeded", NULL);
    add(t, "left", "running", NULL, "fetch");
    add(t, "right", "waiting", NULL, "fetch");
    add(t, "other", "ended", "failed", NULL);
    load(&m, t);
    m.simulated = true;
    m.tasks[1].started_ms = 1000;
    m.tasks[1].ended_ms = 3100;
    m.tasks[1].ran_ms = 2100;
    m.tasks[2].started_ms = m.tasks[2].attempt_ms = 1300;
    m.tasks[2].wants_devices = true;
    (void) snprintf(m.tasks[2].place, sizeof m.tasks[2].place, "device 0");
    m.tasks[3].why = mem_str("It needs 2 devices; 1 is free.");
    m.tasks[4].status = 3;
    (void) snprintf(m.tasks[4].cause, sizeof m.tasks[4].cause, "failed");
    return m;
}

static void test_tree(void)
{
    struct model m = diamond();

    ok(paints(&m, &ascii, 0,
        "w7 demo running  ########====........  2/5  1 failed  12.3s\n"
        "  + fetch                 succeeded    2.1s\n"
        "  |-* left                running     12.0s  device 0 (simulated)\n"
        "  | `-. join (and right)  blocked\n"
        "  `-o right               waiting            "
        "It needs 2 devices; 1 is free.\n"
        "  x other                 failed             exit status 3\n"),
       "a diamond, without UTF-8");
    ok(paints(&m, &utf8, 24,
        "w7 demo running  ━━━━━━━━━━━━╌╌╌╌╌╌╌╌  2/5  1 failed  12.3s\n"
        "  ✔ fetch                 succeeded    2.1s\n"
        "  ├─● left                running     12.0s  device 0 (simulated)\n"
        "  │ └─· join (and right)  blocked\n"
        "  └─○ right               waiting            "
        "It needs 2 devices; 1 is free.\n"
        "  ✘ other                 failed             exit status 3\n"),
       "a diamond, with it");
    model_free(&m);
}

static void test_narrow(void)
{
    struct term narrow = { .width = 31, .rows = 24 };
    struct model m = diamond();

    ok(paints(&m, &narrow, 0,
        "w7 demo running  ########====..\n"
        "  + fetch        succeeded    2\n"
        "  |-* left       running     12\n"
        "  | `-. join (and right)  block\n"
        "  `-o right      waiting\n"
        "  x other        failed\n"),
       "every line is cut to the terminal");
    model_free(&m);
}

static void test_ends(void)
{
    struct model m = diamond();

    m.ended = true;
    m.outcome = MODEL_ABORTED;
    m.ended_ms = 61000;
    ok(paints(&m, &ascii, 3,
        "w7 demo aborted  ########====........  2/5  1 failed  1m00s\n"
        "  * left   running     12.0s  device 0 (simulated)\n"
        "  o right  waiting            It needs 2 devices; 1 is free.\n"
        "  ... 1 more blocked, 1 succeeded, 1 failed\n"),
       "the time stands still; a low screen gets the short list");
    model_free(&m);
}

static void test_waits(void)
{
    struct model m = { 0 };
    json_t *t = json_array();

    add(t, "a", "ended", "succeeded", NULL);
    add(t, "b", "waiting", NULL, "a");
    load(&m, t);
    m.tasks[1].gen = 1;
    m.tasks[1].retried = true;
    m.tasks[1].started_ms = 1300;
    m.tasks[1].ran_ms = 2000;
    ok(paints(&m, &ascii, 0,
        "w7 demo waiting  ##########..........  1/2  12.3s\n"
        "  + a     succeeded\n"
        "  `-o b   retrying     2.0s\n"),
       "nothing of it runs: it waits, and no time is counted");
    model_free(&m);
}

static struct model many(void)
{
    struct model m = { 0 };
    json_t *t = json_array();
    char name[32];

    for (unsigned i = 0; i < 5000; i++) {
        (void) snprintf(name, sizeof name, "t%u", i);
        add(t, name, i < 40 ? "ended" : i < 43 ? "running" : "waiting",
            i == 17 ? "failed" : i < 40 ? "succeeded" : NULL, NULL);
    }
    add(t, "join", "blocked", NULL, "t1 t2 t4999");
    load(&m, t);
    return m;
}

static void test_many(void)
{
    struct model m = many();
    struct tree_conf conf = { .term = &ascii, .rows = 22 };
    uint32_t waiting[4];

    m.tasks[43].why = mem_str("no room");
    m.tasks[44].why = mem_str("no room");
    ok(paints(&m, &ascii, 22,
        "w7 demo running  =...................  40/5,001  1 failed  12.3s\n"
        "  x t17   failed\n"
        "  * t40   running\n"
        "  * t41   running\n"
        "  * t42   running\n"
        "  o t43   waiting            no room\n"
        "  o t44   waiting\n"
        "  o t45   waiting\n"
        "  o t46   waiting\n"
        "  o t47   waiting\n"
        "  ... 1 more blocked, 4,952 more waiting, 39 succeeded\n"),
       "of many: what failed, what runs, what is next, a count of the rest");
    ok(tree_waiting(&m, &conf, waiting, 4) == 4 && waiting[0] == 43 &&
       waiting[3] == 46, "reasons are asked for what is shown alone");
    model_free(&m);
}

static void test_rows(void)
{
    struct model m = many();
    bool fits = true;

    for (unsigned rows = 3; rows < 60; rows++) {
        struct tree_conf conf = { .term = &ascii, .rows = rows };
        autobuf struct buf out = BUF_INIT(1 << 20);
        unsigned lines = 0;

        tree_paint(&m, &conf, &out);
        for (size_t i = 0; i < out.len; i++)
            lines += out.data[i] == '\n';
        if (lines > (rows < 4 ? 4 : rows)) {
            printf("# %u lines in %u rows\n", lines, rows);
            fits = false;
        }
    }
    ok(fits, "never more lines than rows, from 4 on");
    model_free(&m);
}

int main(void)
{
    (void) setlocale(LC_CTYPE, "C.UTF-8");
    test_tree();
    test_narrow();
    test_ends();
    test_waits();
    test_many();
    test_rows();
    return tap_done();
}
