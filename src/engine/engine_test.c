#include "engine/engine.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/tap.h"
#include "engine/home.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* The same script for every engine: get a block, run leases through home, see
 * what comes back.  Usage: engine_test WEIR_RUNNER
 */
enum { PATIENCE_MS = 60 * 1000, LEASES = 12 };

struct script {
    struct loop *loop;
    struct home *home;
    struct engine *engine;
    char token[80], limits[32];
    unsigned ups, hellos, gone, troubles, changes, away, reached;
    unsigned claims, ended, lost, twice, failed;
    bool seen[LEASES];
    int64_t pid;               /* of the runner */
    bool late;
};

static void on_up(const char *block, const char *token, const json_t *j,
                  void *arg)
{
    struct script *s = arg;

    s->ups++;
    (void) snprintf(s->token, sizeof s->token, "%s", token);
    (void) snprintf(s->limits, sizeof s->limits, "%s",
                    json_get_str(j, "limits", ""));
    ok(json_get_bool(j, "simulated", false) &&
       json_array_size(json_object_get(j, "devices")) == 2 &&
       json_get_u64(j, "cpus_milli", 0) >= 1000 &&
       json_get_u64(j, "memory", 0) > 0 &&
       strcmp(json_get_str(j, "pool", ""), "here") == 0,
       "block %s is up with its inventory", block);
}

static void on_lost(const char *block, const char *why, void *arg)
{
    (void) arg;
    ok(false, "block %s is lost: %s", block, why);
}

static void on_trouble(const char *text, void *arg)
{
    struct script *s = arg;

    s->troubles++;
    printf("# %s\n", text);
}

static void on_changed(void *arg)
{
    ((struct script *) arg)->changes++;
}

static void on_state(bool reachable, const char *why, void *arg)
{
    struct script *s = arg;

    ok(reachable == !why[0], "it can%s be reached %s", reachable ? "" : "not",
       why);
    s->reached += reachable;
    s->away += !reachable;
}

static const struct engine_events events = {
    .block_up = on_up, .block_lost = on_lost, .changed = on_changed,
    .state = on_state, .trouble = on_trouble,
};

static bool admit(const char *block, const char *token, void *arg)
{
    struct script *s = arg;

    (void) block;
    return strcmp(token, s->token) == 0;
}

static void reply(struct script *s, const char *block, enum wire_kind kind,
                  const struct wire_msg *to)
{
    struct wire_msg m = { .kind = kind, .key = to->key, .gen = to->gen,
                          .epoch = to->epoch, .ok = true };

    (void) home_send(s->home, block, &m, NULL);
}

static void on_message(const char *block, const struct wire_msg *m, void *arg)
{
    struct script *s = arg;
    struct wire_msg welcome = { .kind = WIRE_WELCOME, .v = 1, .epoch = 1 };

    if (m->kind == WIRE_HELLO) {
        s->hellos++;
        s->pid = m->pid;
        (void) home_send(s->home, block, &welcome, NULL);
    } else if (m->kind == WIRE_CLAIM) {
        s->claims++;
        reply(s, block, WIRE_GRANT, m);
    } else if (m->kind == WIRE_ENDED) {
        s->twice += s->seen[m->key.task];
        s->ended += !s->seen[m->key.task];
        s->lost += strcmp(m->cause, "lost") == 0;
        s->failed += !s->seen[m->key.task] && m->status == 3;
        s->seen[m->key.task] = true;
        reply(s, block, WIRE_ACK, m);
    }
}

static void on_gone(const char *block, void *arg)
{
    struct script *s = arg;

    (void) block;
    s->gone++;
}

static const struct home_ops home_ops = {
    .admit = admit, .message = on_message, .gone = on_gone,
};

static void on_late(struct watch *w, void *arg)
{
    struct script *s = arg;

    (void) w;
    s->late = true;
}

/* Turn until the counter is there. */
static void wait_for(struct script *s, const unsigned *count, unsigned want,
                     const char *what)
{
    struct watch *w = loop_timer(s->loop, PATIENCE_MS, on_late, s);

    while (*count < want && !s->late)
        if (loop_turn(s->loop, 1000, NULL) < 0)
            break;
    if (!s->late)
        watch_remove(w);
    ok(*count >= want, "%s (%u)", what, *count);
}

static void order(struct script *s, const char *block, uint32_t n,
                  const char *run)
{
    struct wire_msg m = { .kind = WIRE_ORDER, .key = { 1, n, 0 }, .gen = 1,
                          .epoch = 1, .task = json_object() };

    json_put_str(m.task, "run", run);
    ok(home_send(s->home, block, &m, NULL) == 0, "order %u", n);
    wire_clear(&m);
}

static void test_log(struct script *s)
{
    struct engine_log got = { 0 };
    struct err err = { 0 };
    char text[32] = "";
    const struct engine_ops *ops = s->engine->ops;
    autojson json_t *list = NULL;

    ok(ops->log(s->engine, "local", "w1/0.0", 1, 1, 0, text, 4, &got,
                &err) == 0 && got.start == 0 && got.len == 4 &&
       got.end == 6 && memcmp(text, "hell", 4) == 0, "a log's beginning");
    ok(ops->log(s->engine, "local", "w1/0.0", 1, 1, 4, text, sizeof text,
                &got, &err) == 0 && got.start == 4 && got.len == 2,
       "and the rest");
    ok(ops->log(s->engine, "local", "w1/0.0", 1, 1, 99, text, sizeof text,
                &got, &err) == 0 && got.start == 6 && got.len == 0,
       "and nothing past its end");
    ok(ops->log(s->engine, "local", "w1/0.0", 2, 1, 0, text, sizeof text,
                &got, &err) == -ENOENT, "none of another generation");
    ok(ops->log(s->engine, "local", "../x", 1, 1, 0, text, sizeof text,
                &got, &err) == -EPROTO, "%s", err.text);
    list = ops->log_list(s->engine);
    ok(json_array_size(list) == 1 &&
       json_integer_value(json_array_get(list, 0)) == 1, "w1 has a log");
    ok(ops->log_drop(s->engine, 1, NULL) == 0 &&
       ops->log(s->engine, "local", "w1/0.0", 1, 1, 0, text, sizeof text,
                &got, &err) == -ENOENT, "dropped");
    ok(ops->log_drop(s->engine, 1, NULL) == 0, "dropping is repeatable");
}

/* The runner is killed: it is started again; the engine is closed and opened:
 * the same runner is found.
 */
static void test_local_again(struct script *s, const struct engine_conf *conf)
{
    autojson json_t *found = NULL;
    int64_t pid = s->pid;
    unsigned hellos = s->hellos;

    (void) kill((pid_t) s->pid, SIGKILL);
    wait_for(s, &s->hellos, hellos + 1, "a killed runner is started again");
    wait_for(s, &s->ups, 2, "and its block is up again");
    ok(s->pid != pid && s->troubles > 0, "another one, and it was said");
    pid = s->pid;
    s->engine->ops->close(s->engine);
    ok(engine_local.open(s->loop, conf, &events, s, &s->engine, NULL) == 0 &&
       s->engine->ops->get(s->engine, "local", NULL) == 0, "opened again");
    wait_for(s, &s->ups, 3, "the block is up");
    ok(s->hellos == hellos + 1 && kill((pid_t) pid, 0) == 0,
       "with the runner that was there");
    found = s->engine->ops->find(s->engine);
    ok(json_array_size(found) == 1, "it is found");
    ok(s->engine->ops->get(s->engine, "moon", NULL) == -ENOENT,
       "there is no other block");
}

static void quit(struct script *s, const char *block)
{
    struct wire_msg m = { .kind = WIRE_QUIT };
    unsigned gone = s->gone;

    ok(s->engine->ops->give(s->engine, block, NULL) == 0, "given back");
    (void) home_send(s->home, block, &m, NULL);
    wait_for(s, &s->gone, gone + 1, "its runner ended");
}

static void test_engine(const struct engine_ops *ops,
                        const struct engine_conf *conf, const char *block,
                        const char *run)
{
    struct script s = { 0 };
    struct err err = { 0 };
    bool local = ops == &engine_local;

    ok(loop_open(&s.loop, NULL) == 0 &&
       home_open(s.loop, conf->home, &home_ops, &s, &s.home, NULL) == 0,
       "%s: home", ops->name);
    ok(ops->open(s.loop, conf, &events, &s, &s.engine, &err) == 0,
       "open %s", err.text);
    ok(ops->get(s.engine, block, &err) == 0 && s.ups == 0,
       "get answers later");
    wait_for(&s, &s.hellos, 1, "the runner says hello");
    for (uint32_t i = 0; i < LEASES; i++)
        order(&s, block, i, i == 5 ? "exit 3" : run);
    wait_for(&s, &s.ended, LEASES, "all end");
    ok(s.failed == 1, "one with its status");
    if (local) {
        ok(s.limits[0] && s.twice == 0 && s.lost == 0, "once each");
        test_log(&s);
        test_local_again(&s, conf);
        quit(&s, block);
    } else {
        wait_for(&s, &s.twice, 1, "some are told twice");
        ok(s.lost >= 2, "some are lost");
        ok(s.hellos > 1, "the connection broke at times");
    }
    s.engine->ops->close(s.engine);
    home_close(s.home);
    loop_close(s.loop);
}

static void test_bad_conf(const struct engine_ops *ops,
                          struct engine_conf conf, const char *key,
                          const char *text)
{
    autojson json_t *j = json_pack("{s:s}", key, text);
    struct engine *e = NULL;
    struct err err = { 0 };

    conf.conf = j;
    ok(ops->check(j, false, &err) == -EINVAL, "%s", err.text);
    ok(ops->open(NULL, &conf, &events, NULL, &e, &err) == -EINVAL && !e,
       "nor is it opened with that");
}

/* Several blocks, and one that is away at first. */
static void test_nodes(struct engine_conf conf)
{
    autojson json_t *j = json_pack("{s:s,s:s}", "devices",
                                   "fake:2xH100-80GB;away=20", "nodes", "2");
    autojson json_t *none = NULL, *two = NULL;
    struct script s = { 0 };

    conf.conf = j;
    (void) loop_open(&s.loop, NULL);
    ok(engine_fake.check(j, false, NULL) == 0 &&
       engine_fake.open(s.loop, &conf, &events, &s, &s.engine, NULL) == 0,
       "a fake one that is away");
    ok(engine_fake.get(s.engine, "here/here-1", NULL) == 0, "a block is asked "
       "for");
    none = engine_fake.inventory(s.engine);
    ok(json_array_size(json_object_get(none, "nodes")) == 0, "it has nothing");
    wait_for(&s, &s.away, 1, "it says so");
    ok(s.ups == 0, "nor is a block up");
    wait_for(&s, &s.ups, 1, "until it is there");
    two = engine_fake.inventory(s.engine);
    ok(json_array_size(json_object_get(two, "nodes")) == 2 && s.reached == 1 &&
       s.changes == 2, "and has two");
    engine_fake.close(s.engine);
    loop_close(s.loop);
}

static void test_choose(void)
{
    const struct engine_ops *ops = NULL;
    struct err err = { 0 };

    ok(engine_choose("fake", &ops, &err) == 0 && ops == &engine_fake, "fake");
    ok(engine_choose("local", &ops, &err) == -EINVAL &&
       strstr(err.text, "this machine's own"), "%s", err.text);
    ok(engine_choose("moon", &ops, &err) == -EINVAL &&
       strstr(err.text, "there is no 'moon'; there is"), "%s", err.text);
    ok(engine_find("local") == &engine_local && !engine_find("moon"), "found "
       "by name");
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/weir-engine-XXXXXX";
    autojson json_t *fake = NULL, *local = NULL;
    autofree char *home = NULL;
    struct engine_conf conf = {
        .pool = "here", .block = "here", .state_dir = dir, .runner = argc > 1 ? argv[1] : "",
        .log_bytes = 65536,
    };

    ok(argc == 2 && mkdtemp(dir), "set up");
    home = mem_printf("%s/home", dir);
    conf.home = home;
    fake = json_pack("{s:s}", "devices",
                     "fake:2xH100-80GB;slow=1;lose=5;double=3;drop=7");
    conf.conf = fake;
    test_engine(&engine_fake, &conf, "fake-1", "true");
    local = json_pack("{s:s}", "devices", "sim:2xH100-80GB");
    conf.conf = local;
    test_engine(&engine_local, &conf, "local", "echo hello");
    test_bad_conf(&engine_fake, conf, "devices", "fake:1xH100-80GB;fly=1");
    test_bad_conf(&engine_fake, conf, "nodes", "0");
    test_bad_conf(&engine_fake, conf, "node", "1");
    test_bad_conf(&engine_local, conf, "devices", "sim:many");
    test_nodes(conf);
    test_choose();
    ok(fs_remove_tree(dir, NULL) == 0, "clean up");
    return tap_done();
}
