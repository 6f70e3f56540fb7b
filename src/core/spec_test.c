#include "core/spec.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/tap.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

/* -- random specs ---------------------------------------------------------- */

static uint64_t seed = 1;

static uint32_t draw(uint32_t below)
{
    return (uint32_t) (random_next(&seed) >> 32) % below;
}

static const char *some_text(struct spec *s)
{
    static const char *const texts[] = {
        "", "true", "a b", "line\nline\n", "\"quoted\" \\", "grüß 水 😀",
        "\t\x01\x7f", "{{ x }}", "-1", "null",
    };
    const char *t = texts[draw(array_size(texts))];

    return spec_str(s, t, strlen(t));
}

static const char *some_name(struct spec *s, const char *stem, uint32_t i)
{
    autofree char *n = mem_printf("%s%u.x_-", stem, i);

    return spec_str(s, n, strlen(n));
}

static const char *const *some_texts(struct spec *s, uint32_t *n)
{
    const char **v;

    *n = draw(4);
    v = spec_alloc(s, (*n + 1) * sizeof(*v));
    for (uint32_t i = 0; i < *n; i++)
        v[i] = some_text(s);
    return *n ? v : NULL;
}

static const struct spec_pair *some_pairs(struct spec *s, const char *stem,
                                          uint32_t *n)
{
    struct spec_pair *v;

    *n = draw(4);
    v = spec_alloc(s, *n * sizeof(*v));
    for (uint32_t i = 0; i < *n; i++) {
        autofree char *key = mem_printf("%s%u", stem, i);

        v[i].key = spec_str(s, key, strlen(key));
        v[i].value = stem[0] == '/' ? v[i].key : some_text(s);
    }
    return *n ? v : NULL;
}

static void some_command(struct spec *s, struct spec_task *t)
{
    static const char *const argv[] = { "echo", "", "x y", NULL };

    if (draw(2))
        t->run = spec_str(s, "echo hi\n", 8);
    else
        t->argv = argv;
}

static void some_numbers(struct spec_task *t)
{
    static const int sigs[] = { SIGTERM, SIGUSR1, SIGHUP, SIGINT };

    t->when = draw(3);
    t->ranks = draw(2) ? 1 : 1 + draw(SPEC_MAX_RANKS);
    t->ranks_max = draw(2) ? 0 : t->ranks + draw(SPEC_MAX_RANKS - t->ranks + 1);
    t->near = draw(3);
    t->gpu_milli = draw(2) ? draw(1000) : draw(SPEC_MAX_GPUS) * 1000;
    t->cpu_milli = draw(2) ? 1000 : 1 + draw(4000);
    t->gpu_memory = draw(2) ? 0 : (uint64_t) draw(UINT32_MAX) << 20;
    t->memory = draw(2) ? 0 : draw(UINT32_MAX);
    t->retry_count = draw(4);
    t->retry_on = draw(2) ? SPEC_RETRY_ON : draw(1u << SPEC_CAUSE_COUNT) & ~1u;
    t->retry_backoff_ms = draw(3000);
    t->timeout_ms = draw(2) * SPEC_MAX_MS;
    t->limit_gpu_ms = draw(5);
    t->limit_wall_ms = draw(5);
    t->limit_cost_micro = draw(2) * SPEC_MAX_AMOUNT;
    t->stop_signal = sigs[draw(4)];
    t->stop_grace_ms = draw(2) ? SPEC_GRACE_MS : draw(100);
}

static void some_needs(struct spec *s, struct spec_task *t, uint32_t i)
{
    uint32_t n = i ? draw(3) : 0;
    uint32_t *needs = spec_alloc(s, n * sizeof(*needs));

    for (uint32_t k = 0; k < n; k++)
        needs[k] = draw(i);
    t->nneeds = n;
    t->needs = n ? needs : NULL;
}

static struct spec *some_spec(void)
{
    struct spec *s = spec_new();

    s->ntasks = 1 + draw(12);
    s->kind = s->ntasks == 1 && draw(2) ? SPEC_JOB : SPEC_PIPELINE;
    s->name = some_name(s, "W", draw(9));
    s->tenant = draw(2) ? some_name(s, "t", 1) : NULL;
    s->priority = (int) draw(2001) - 1000;
    s->deadline_ms = draw(2) * (uint64_t) INT64_MAX;
    s->max_wait_ms = draw(100);
    s->limit_gpu_ms = draw(2) * draw(100000);
    s->limit_wall_ms = draw(2) * draw(100000);
    s->limit_cost_micro = draw(2) * draw(100000);
    s->labels = some_pairs(s, "label", &s->nlabels);
    s->tasks = spec_alloc(s, s->ntasks * sizeof(*s->tasks));
    for (uint32_t i = 0; i < s->ntasks; i++) {
        struct spec_task *t = &s->tasks[i];

        spec_task_init(t);
        some_command(s, t);
        some_numbers(t);
        some_needs(s, t, i);
        t->nodes = some_pairs(s, "zone", &t->nnodes);
        t->name = some_name(s, "t", i);
        t->image = draw(2) ? some_text(s) : NULL;
        t->dir = draw(2) ? "/tmp" : NULL;
        t->stop_command = draw(2) ? some_text(s) : NULL;
        t->still_metric = draw(2) ? some_text(s) : NULL;
        t->still_ms = t->still_metric ? 1 + draw(1000) : 0;
        t->idle_grace_ms = draw(2) ? draw(1000) : 0;
        t->idle_release = draw(2) ? SPEC_IDLE_NEVER : SPEC_IDLE_MAY;
        t->still_milli = draw(1001);
        t->mounts = some_pairs(s, "/m", &t->nmounts);
        t->env = some_pairs(s, "E", &t->nenv);
        t->models = some_texts(s, &t->nmodels);
        t->inputs = some_texts(s, &t->ninputs);
        t->outputs = some_texts(s, &t->noutputs);
        if (i && draw(3) == 0) {       /* as from shared defaults */
            t->run = s->tasks[i - 1].run;
            t->argv = s->tasks[i - 1].argv;
            t->env = s->tasks[i - 1].env;
            t->nenv = s->tasks[i - 1].nenv;
        }
    }
    return s;
}

static char *spec_words(const struct spec *s)
{
    autojson json_t *j = spec_to_json(s);

    return json_text(j);
}

static int add(const char *p, size_t n, void *arg)
{
    return buf_add(arg, p, n) ? 0 : -1;
}

/* Piece by piece it is the same text, and whoever stops it hears of it. */
static bool dumps(const struct spec *s, const char *text)
{
    autobuf struct buf b = BUF_INIT(1 << 24);
    uint32_t len = (uint32_t) strlen(text);
    autobuf struct buf little = BUF_INIT(len ? draw(len) : 0);

    return spec_dump(s, add, &b) == 0 && strcmp(buf_text(&b), text) == 0 &&
           spec_dump(s, add, &little) == -1;
}

static void test_round_trip(void)
{
    unsigned wrong = 0, rounds = 2000;

    for (unsigned i = 0; i < rounds; i++) {
        struct spec *a = some_spec(), *b = NULL;
        autofree char *first = spec_words(a), *second = NULL;
        autojson json_t *j = NULL;
        struct err err = { 0 };

        if (json_read(first, strlen(first), 1 << 24, &j, &err) < 0 ||
            spec_from_json(j, &b, &err) < 0) {
            wrong++;
            printf("# %s\n# %s\n", err.text, first);
        } else {
            second = spec_words(b);
            wrong += strcmp(first, second) != 0 || !dumps(a, first);
        }
        spec_free(a);
        spec_free(b);
    }
    ok(wrong == 0, "%u random specs: JSON and back is the same", rounds);
}

/* Each member by itself survives, so that no row is missing from the form. */
static void test_form(void)
{
    static const char want[] =
        "{\"kind\":\"pipeline\",\"name\":\"w\",\"priority\":-3,"
        "\"labels\":{\"a\":\"1\"},\"tasks\":["
        "{\"name\":\"a\",\"run\":\"true\",\"env\":{\"X\":\"1\"},"
        "\"ranks\":2,\"gpu_milli\":250,\"models\":[\"H100\"],"
        "\"stop_signal\":\"USR1\"},"
        "{\"name\":\"b\",\"argv\":[\"x\",\"\"],"
        "\"mounts\":[{\"source\":\"v\",\"target\":\"/v\"}],"
        "\"needs\":[0],\"when\":\"failure\",\"retry_count\":2,"
        "\"retry_on\":[\"failed\",\"lost\"]}]}";
    struct spec *s = NULL;
    struct err err = { 0 };
    autojson json_t *j = NULL;
    autofree char *back = NULL;

    ok(json_read(want, strlen(want), 1 << 20, &j, &err) == 0 &&
       spec_from_json(j, &s, &err) == 0, "the form reads (%s)", err.text);
    if (!s)
        return;
    back = spec_words(s);
    ok(strcmp(back, want) == 0, "and is written the same");
    ok(s->tasks[0].cpu_milli == 1000 && s->tasks[0].stop_grace_ms == 10000 &&
       s->tasks[0].retry_on == SPEC_RETRY_ON, "defaults are filled in");
    ok(s->tasks[0].stop_signal == SIGUSR1 && s->tasks[1].nneeds == 1 &&
       s->tasks[1].needs[0] == 0 && s->tasks[1].when == SPEC_ON_FAILURE &&
       s->tasks[1].argv[2] == NULL && s->priority == -3, "values are there");
    spec_free(s);
}

static void test_sharing(void)
{
    static const char text[] =
        "{\"kind\":\"pipeline\",\"name\":\"w\",\"tasks\":["
        "{\"name\":\"a\",\"run\":\"long\",\"env\":{\"X\":\"1\"}},"
        "{\"name\":\"b\",\"run\":\"long\",\"env\":{\"X\":\"1\"}},"
        "{\"name\":\"c\",\"run\":\"other\",\"env\":{\"X\":\"2\"}}]}";
    struct spec *s = NULL;
    struct err err = { 0 };
    autojson json_t *j = NULL;

    ok(json_read(text, strlen(text), 1 << 20, &j, &err) == 0 &&
       spec_from_json(j, &s, &err) == 0, "three tasks read (%s)", err.text);
    if (!s)
        return;
    ok(s->tasks[0].run == s->tasks[1].run && s->tasks[0].env == s->tasks[1].env,
       "equal text and list are shared");
    ok(strcmp(s->tasks[2].run, "other") == 0 &&
       strcmp(s->tasks[2].env[0].value, "2") == 0, "others are not");
    spec_free(s);
}

/* -- refused --------------------------------------------------------------- */

#define TASK "{\"name\":\"a\",\"run\":\"x\"}"
#define WRAP(t) "{\"kind\":\"pipeline\",\"name\":\"w\",\"tasks\":[" t "]}"
#define WITH(m) WRAP("{\"name\":\"a\",\"run\":\"x\"," m "}")

static const struct {
    const char *json, *text;
} bad[] = {
    { "[]", "spec: no kind or no tasks" },
    { "{\"kind\":\"job\",\"name\":\"w\"}", "spec: no kind or no tasks" },
    { "{\"kind\":\"x\",\"name\":\"w\",\"tasks\":[" TASK "]}",
      "spec: invalid 'kind'" },
    { "{\"kind\":\"job\",\"tasks\":[" TASK "]}", "spec: invalid name ''" },
    { "{\"kind\":\"job\",\"name\":\"w\",\"extra\":1,\"tasks\":[" TASK "]}",
      "spec: invalid 'extra'" },
    { "{\"kind\":\"job\",\"name\":\"w\",\"priority\":1001,\"tasks\":[" TASK
      "]}", "spec: invalid 'priority'" },
    { "{\"kind\":\"job\",\"name\":\"w\",\"tenant\":\"/\",\"tasks\":[" TASK
      "]}", "spec: invalid tenant '/'" },
    { "{\"kind\":\"job\",\"name\":\"w\",\"labels\":{\"a b\":\"\"},\"tasks\":["
      TASK "]}", "spec: labels: invalid name 'a b'" },
    { "{\"kind\":\"job\",\"name\":\"w\",\"tasks\":[" TASK
      ",{\"name\":\"b\",\"run\":\"x\"}]}",
      "spec: a job has one task, not 2" },
    { WRAP(""), "spec: 0 tasks; expected 1 to 100000" },
    { WRAP(TASK "," TASK), "spec: two tasks 'a'" },
    { WRAP("1"), "spec: task 0: unknown keys" },
    { WITH("\"gpus\":1"), "spec: task 0: unknown keys" },
    { WRAP("{\"name\":\"a\"}"), "spec: task 'a': has no command" },
    { WITH("\"argv\":[\"x\"]"), "spec: task 'a': has both run and argv" },
    { WRAP("{\"name\":\"a\",\"argv\":[]}"),
      "spec: task 'a': argv: no program, or too many arguments" },
    { WRAP("{\"name\":\"-a\",\"run\":\"x\"}"),
      "spec: task 0: invalid name '-a'" },
    { WITH("\"needs\":[1]"), "spec: task 'a': needs: no task 1" },
    { WITH("\"needs\":[-1]"), "spec: task 0: invalid 'needs'" },
    { WITH("\"needs\":[0]"), "spec: needs form a cycle: a -> a" },
    { WITH("\"ranks\":0"),
      "spec: task 'a': ranks: 0 is not within 1..4096" },
    { WITH("\"ranks\":4097"),
      "spec: task 'a': ranks: 4097 is not within 1..4096" },
    { WITH("\"ranks\":1.5"), "spec: task 0: invalid 'ranks'" },
    { WITH("\"ranks\":4,\"ranks_max\":3"),
      "spec: task 'a': ranks.max: 3 is not within 4..4096" },
    { WITH("\"near\":\"far\""), "spec: task 0: invalid 'near'" },
    { WITH("\"nodes\":{\"\":\"x\"}"),
      "spec: task 'a': nodes: invalid name ''" },
    { WITH("\"gpu_milli\":1500"), "spec: task 'a': gpus: 1500 thousandths is "
      "neither a fraction of one device nor whole devices" },
    { WITH("\"cpu_milli\":0"),
      "spec: task 'a': cpus: 0 is not within 1..65536000" },
    { WITH("\"retry_on\":[\"none\"]"), "spec: task 0: invalid 'retry_on'" },
    { WITH("\"when\":\"never\""), "spec: task 0: invalid 'when'" },
    { WITH("\"stop_signal\":\"KILL\""),
      "spec: task 0: invalid 'stop_signal'" },
    { WITH("\"together\":2"), "spec: task 'a': together: 2" },
    { WITH("\"dir\":\"x\""), "spec: task 'a': dir: 'x' is not absolute" },
    { WITH("\"env\":{\"WEIR_RANK\":\"0\"}"),
      "spec: task 'a': env: invalid name 'WEIR_RANK'" },
    { WITH("\"env\":{\"A\":1}"), "spec: task 0: invalid 'env'" },
    { WITH("\"mounts\":[{\"source\":\"a\"}]"),
      "spec: task 0: invalid 'mounts'" },
    { WITH("\"mounts\":[{\"source\":\"a\",\"target\":\"b\"}]"),
      "spec: task 'a': mounts: 'a' to 'b'" },
};

static void test_refused(void)
{
    for (size_t i = 0; i < array_size(bad); i++) {
        struct spec *s = NULL;
        struct err err = { 0 };
        autojson json_t *j = json_loads(bad[i].json, 0, NULL);
        int rc = spec_from_json(j, &s, &err);

        ok(j && rc == -EINVAL && !s && strcmp(err.text, bad[i].text) == 0,
           "refused: %s (%s)", bad[i].text, err.text);
    }
}

/* Tasks of 4096 ranks that start together: 24 may, 25 are too many. */
static void test_together(void)
{
    for (unsigned n = 24; n <= 25; n++) {
        autojson json_t *tasks = json_array(), *j = NULL;
        struct spec *s = NULL;
        struct err err = { 0 };
        int rc;

        for (unsigned i = 0; i < n; i++)
            json_array_append_new(tasks, json_pack("{s:o,s:s,s:i,s:i}",
                "name", json_sprintf("t%u", i), "run", "x", "ranks", 4096,
                "together", 1));
        j = json_pack("{s:s,s:s,s:O}", "kind", "pipeline", "name", "p",
                      "tasks", tasks);
        rc = spec_from_json(j, &s, &err);
        ok(n == 24 ? rc == 0 : rc == -EINVAL && strcmp(err.text, "spec: task "
           "'t24' and those that start together with it have more than 100000 "
           "ranks") == 0, "%u tasks: %s", n, err.text);
        spec_free(s);
    }
}

/* -- cycles ---------------------------------------------------------------- */

struct graph {
    struct spec spec;
    struct spec_task tasks[8];
    uint32_t needs[8][8];
};

/* "ab" is an edge from task a to task b; "+ab" puts both together. */
static void graph_make(struct graph *g, const char *const *edges)
{
    static const char *const names[] = {
        "a", "b", "c", "d", "e", "f", "g", "h",
    };

    *g = (struct graph) { .spec = { .ntasks = 8, .tasks = g->tasks } };
    for (unsigned i = 0; i < 8; i++) {
        g->tasks[i].name = names[i];
        g->tasks[i].needs = g->needs[i];
    }
    for (; *edges; edges++) {
        const char *e = *edges;

        if (e[0] == '+') {
            for (e++; *e; e++)
                g->tasks[*e - 'a'].together =
                    1 + (uint32_t) ((*edges)[1] - 'a');
            continue;
        }
        g->needs[e[0] - 'a'][g->tasks[e[0] - 'a'].nneeds++] =
            (uint32_t) (e[1] - 'a');
    }
}

static void keep_words(uint32_t task, const char *words, void *arg)
{
    struct err *err = arg;
    struct err old = *err;

    (void) task;
    err_set(err, EINVAL, "%s%s%s", old.text, old.text[0] ? "; " : "", words);
}

static void test_cycles(void)
{
    static const struct {
        const char *edges[9];
        const char *words;
    } rows[] = {
        { { "ab", "bc", "ac", "dc" }, "" },
        { { "aa" }, "a -> a" },
        { { "ab", "ba" }, "a -> b -> a" },
        { { "ab", "bc", "cd", "db" }, "b -> c -> d -> b" },
        { { "ab", "ba", "cd", "de", "ec" },
          "a -> b -> a; c -> d -> e -> c" },
        { { "+ab", "ac", "bc" }, "" },
        { { "+ab", "ab" }, "a -> b (together with a)" },
        { { "+ab", "bc", "ca" }, "b -> c -> a (together with b)" },
        { { "+ab", "+cd", "ac", "db" },
          "a -> c (together with d) -> b (together with a)" },
        { { "+ab", "+cd", "ac", "bd", "ec", "fe" }, "" },
    };
    struct graph g;

    for (size_t i = 0; i < array_size(rows); i++) {
        struct err got = { 0 };

        graph_make(&g, rows[i].edges);
        (void) spec_cycles(&g.spec, 9, keep_words, &got);
        ok(strcmp(got.text, rows[i].words) == 0, "cycle '%s' (%s)",
           rows[i].words, got.text);
    }
}

static void test_long_cycle(void)
{
    struct spec *s = spec_new();
    struct err got = { 0 };
    uint32_t n = SPEC_MAX_TASKS;

    s->ntasks = n;
    s->tasks = spec_alloc(s, n * sizeof(*s->tasks));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *need = spec_alloc(s, sizeof(*need));
        autofree char *name = mem_printf("t%u", i);

        *need = (i + 1) % n;
        s->tasks[i].needs = need;
        s->tasks[i].nneeds = 1;
        s->tasks[i].name = spec_str(s, name, strlen(name));
    }
    ok(spec_cycles(s, 5, keep_words, &got) == 1 &&
       strcmp(got.text, "t0 -> t1 -> t2 -> t3 -> t4 -> t5 -> (99988 more) -> "
              "t99994 -> t99995 -> t99996 -> t99997 -> t99998 -> t99999 -> t0")
           == 0, "a cycle of 100,000 is found and cut (%s)", got.text);
    spec_free(s);
}

static void test_words(void)
{
    unsigned wrong = 0;
    int sig = 0;
    enum spec_cause c = SPEC_CAUSE_NONE;

    for (unsigned i = 1; i < SPEC_CAUSE_COUNT; i++)
        wrong += spec_cause_parse(spec_cause_name(i), &c) != 0 || c != i;
    ok(wrong == 0, "causes read back");
    ok(spec_cause_parse("none", &c) == -EINVAL &&
       strcmp(spec_cause_name(SPEC_CAUSE_NONE), "none") == 0,
       "none is not a cause to name");
    ok(spec_signal_parse("SIGUSR2", &sig) == 0 && sig == SIGUSR2 &&
       spec_signal_parse("USR2", &sig) == 0 &&
       spec_signal_parse("KILL", &sig) == -EINVAL &&
       spec_signal_parse("sigterm", &sig) == -EINVAL, "signals by name");
}

static void test_names(void)
{
    char longest[SPEC_MAX_NAME + 2];

    memset(longest, 'x', sizeof(longest));
    longest[SPEC_MAX_NAME] = '\0';
    ok(spec_name_valid("a") && spec_name_valid("0.a_B-") &&
       spec_name_valid(longest), "names that are valid");
    longest[SPEC_MAX_NAME] = 'x';
    longest[SPEC_MAX_NAME + 1] = '\0';
    ok(!spec_name_valid("") && !spec_name_valid(".a") &&
       !spec_name_valid("a/b") && !spec_name_valid("a b") &&
       !spec_name_valid("ä") && !spec_name_valid(longest),
       "names that are not");
    ok(spec_env_valid("_A1") && !spec_env_valid("1A") && !spec_env_valid("") &&
       !spec_env_valid("A=B") && !spec_env_valid("WEIR_X") &&
       !spec_env_valid("CUDA_VISIBLE_DEVICES"), "environment names");
}

int main(void)
{
    test_round_trip();
    test_form();
    test_sharing();
    test_refused();
    test_together();
    test_cycles();
    test_long_cycle();
    test_words();
    test_names();
    spec_free(NULL);
    spec_arena_free(NULL);
    return tap_done();
}
