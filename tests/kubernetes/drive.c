/* drive - the engine of Kubernetes alone, told what to do line by line.
 *
 *     drive FOLDER CONF          CONF is {key: text}, as a pool has it
 *
 * One JSON object a line goes out for each thing that the engine says: {"up":
 * BLOCK, "has": {...}}, {"lost": BLOCK}, {"changed": true}, {"state": BOOL,
 * "why": TEXT}, {"trouble": TEXT}, {"over": RUNNER, "cause": TEXT, "status": N,
 * "why": TEXT}.  Lines that come in: {"get": BLOCK}, {"start": RUNNER, ...},
 * {"stop": RUNNER}, {"find": true}, {"list": true}.  Ends with its input.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "engine/engine.h"

#include <stdio.h>
#include <string.h>

struct drive {
    struct loop *loop;
    struct engine *engine;
    struct buf in;
};

static void say(json_t *o)
{
    autofree char *text = json_text(o);

    printf("%s\n", text);
    (void) fflush(stdout);
    json_decref(o);
}

static void on_up(const char *block, const char *token, const json_t *has,
                  void *arg)
{
    (void) token;
    (void) arg;
    say(json_pack("{s:s,s:o}", "up", block, "has", json_deep_copy(has)));
}

static void on_lost(const char *block, const char *why, void *arg)
{
    (void) arg;
    say(json_pack("{s:s,s:s}", "lost", block, "why", why));
}

static void on_changed(void *arg)
{
    (void) arg;
    say(json_pack("{s:b}", "changed", 1));
}

static void on_state(bool reachable, const char *why, void *arg)
{
    (void) arg;
    say(json_pack("{s:b,s:s}", "state", reachable, "why", why));
}

static void on_trouble(const char *text, void *arg)
{
    (void) arg;
    say(json_pack("{s:s}", "trouble", text));
}

static void on_over(const char *runner, enum spec_cause cause, int status,
                    const char *why, void *arg)
{
    (void) arg;
    say(json_pack("{s:s,s:s,s:i,s:s}", "over", runner, "cause",
                  spec_cause_name(cause), "status", status, "why", why));
}

static void on_guest(const json_t *guest, void *arg)
{
    (void) arg;
    say(json_pack("{s:O}", "guest", guest));
}

static void on_guest_gone(const char *uid, void *arg)
{
    (void) arg;
    say(json_pack("{s:s}", "gone", uid));
}

static void on_guests_told(void *arg)
{
    (void) arg;
}

static void on_begun(const char *runner, void *arg)
{
    (void) arg;
    say(json_pack("{s:s}", "begun", runner));
}

static const struct engine_events events = {
    .block_up = on_up, .block_lost = on_lost, .changed = on_changed,
    .state = on_state, .trouble = on_trouble, .lease_over = on_over,
    .guest = on_guest, .guest_gone = on_guest_gone,
    .guests_told = on_guests_told, .lease_begun = on_begun,
};

static int start(struct drive *d, const json_t *o, struct err *err)
{
    struct runner_name name;
    struct engine_lease l = {
        .runner = json_get_str(o, "start", ""), .token = "token",
        .block = name.block, .begun = json_get_bool(o, "begun", false),
        .task = "task", .tenant = "tenant",
        .image = json_get_str(o, "image", NULL),
        .cpus_milli = json_get_u64(o, "cpus_milli", 100),
        .memory = json_get_u64(o, "memory", 0),
        .gpus = (uint32_t) json_get_u64(o, "gpus", 0),
        .uid = (uint32_t) json_get_u64(o, "uid", 0),
        .gid = (uint32_t) json_get_u64(o, "uid", 0),
    };
    int rc = runner_name_parse(l.runner, &name, err);

    if (rc < 0)
        return rc;
    l.key = name.key;
    l.gen = name.gen;
    l.epoch = name.epoch;
    return d->engine->ops->start(d->engine, &l, err);
}

static int obey(struct drive *d, const json_t *o, struct err *err)
{
    const struct engine_ops *ops = d->engine->ops;

    if (json_object_get(o, "get"))
        return ops->get(d->engine, json_get_str(o, "get", ""), err);
    if (json_object_get(o, "start"))
        return start(d, o, err);
    if (json_object_get(o, "stop"))
        return ops->stop(d->engine, json_get_str(o, "stop", ""), err);
    if (json_object_get(o, "find"))
        say(json_pack("{s:o}", "find", ops->find(d->engine)));
    else
        say(json_pack("{s:o}", "list", ops->inventory(d->engine)));
    return 0;
}

static void on_line(struct drive *d, const char *line, size_t len)
{
    autojson json_t *o = NULL;
    struct err err = { 0 };
    int rc = json_read(line, len, 65536, &o, &err);

    if (rc == 0)
        rc = obey(d, o, &err);
    if (rc < 0)
        say(json_pack("{s:s}", "failed", err.text));
}

static void on_input(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct drive *d = arg;
    char bytes[4096];
    ssize_t n = read(fd, bytes, sizeof bytes);
    const char *end;

    (void) w;
    (void) ready;
    if (n <= 0) {
        loop_stop(d->loop);
        return;
    }
    (void) buf_add(&d->in, bytes, (size_t) n);
    while ((end = memchr(d->in.data, '\n', d->in.len))) {
        size_t len = (size_t) (end - d->in.data);

        on_line(d, d->in.data, len);
        buf_drop(&d->in, len + 1);
    }
}

static int run(struct drive *d, const char *folder, const char *text,
               struct err *err)
{
    autofree char *state = mem_printf("%s/engine", folder);
    autofree char *ca = mem_printf("%s/authority", folder);
    autojson json_t *conf = NULL;
    struct watch *input = NULL;
    struct engine_conf c = {
        .pool = "lab", .block = "lab", .state_dir = state,
        .log_bytes = 65536, .runners_url = "tls://10.0.0.1:1",
        .runners_ca = ca, .instance = "0123456789abcdef",
    };
    int rc = json_read(text, strlen(text), 65536, &conf, err);

    c.conf = conf;
    if (rc == 0)
        rc = engine_kubernetes.check(conf, false, err);
    if (rc == 0)
        rc = engine_kubernetes.open(d->loop, &c, &events, d, &d->engine, err);
    if (rc == 0)
        rc = loop_fd(d->loop, STDIN_FILENO, LOOP_READ, on_input, d, &input,
                     err);
    if (rc == 0)
        rc = loop_run(d->loop, err);
    watch_remove(input);
    engine_kubernetes.close(d->engine);
    return rc;
}

int main(int argc, char **argv)
{
    struct drive d = { .in = BUF_INIT(1024 * 1024) };
    struct err err = { 0 };
    int rc;

    if (argc != 3) {
        (void) fprintf(stderr, "usage: drive FOLDER CONF\n");
        return 2;
    }
    rc = loop_open(&d.loop, &err);
    if (rc == 0)
        rc = run(&d, argv[1], argv[2], &err);
    if (rc < 0)
        say(json_pack("{s:s}", "failed", err.text));
    loop_close(d.loop);
    buf_free(&d.in);
    return rc < 0;
}
