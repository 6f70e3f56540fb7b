#include "engine/local/gpus.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/frame.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/tap.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whom gpus asks, and what it makes of the answers.  The usual weir-gpud is a
 * child that says what is in DIR/say, and nothing if that is not there; our own
 * is a script that leaves DIR/started.
 */
enum { PATIENCE = 600, SOON = 300, LATER = 20000 };

static char dir[] = "/tmp/weir-gpus-XXXXXX";
static char usual[64], own[64], program[64];
static struct loop *loop;
static struct gpus *gpus;
static pid_t server;
static char said[256];
static unsigned changes;

static void put(const char *name, const char *text)
{
    autofree char *path = mem_printf("%s/%s", dir, name);

    if (fs_write(path, text, strlen(text), 0700, false, NULL) < 0)
        ok(false, "write %s", path);
}

static bool there(const char *name)
{
    autofree char *path = mem_printf("%s/%s", dir, name);

    return access(path, F_OK) == 0;
}

static void drop(const char *name)
{
    autofree char *path = mem_printf("%s/%s", dir, name);

    (void) remove(path);
}

static void answer(int fd)
{
    autofree char *path = mem_printf("%s/say", dir), *text = NULL;
    autobuf struct buf out = BUF_INIT(4096);
    char in[256];
    size_t len = 0;

    if (read(fd, in, sizeof in) <= 0 ||
        fs_read(path, sizeof in, &text, &len, NULL) < 0)
        return;
    frame_add(&out, text, len);
    (void) fs_write_all(fd, buf_text(&out), out.len, NULL);
}

static void serve(void)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void) snprintf(at.sun_path, sizeof at.sun_path, "%s", usual);
    (void) unlink(usual);
    if (bind(fd, (struct sockaddr *) &at, sizeof at) < 0 || listen(fd, 8) < 0)
        ok(false, "a socket");
    server = fork();
    while (server == 0) {
        int conn = accept(fd, NULL, NULL);

        if (conn >= 0)
            answer(conn);              /* and stays connected */
    }
    (void) close(fd);
}

static void serve_end(void)
{
    (void) kill(server, SIGKILL);
    (void) waitpid(server, NULL, 0);
    (void) unlink(usual);
}

static void on_changed(void *arg)
{
    (void) arg;
    changes++;
}

static void on_trouble(const char *text, void *arg)
{
    (void) arg;
    (void) snprintf(said, sizeof said, "%s", text);
}

static void begin(void)
{
    const struct gpus_conf conf = {
        .dir = dir, .program = program, .socket = usual,
        .patience_ms = PATIENCE, .changed = on_changed,
        .trouble = on_trouble,
    };

    said[0] = '\0';
    changes = 0;
    drop("started");
    gpus = gpus_open(loop, &conf);
}

static void turn(uint64_t ms)
{
    uint64_t end = clock_mono_ms() + ms;

    while (clock_mono_ms() < end)
        (void) loop_turn(loop, 20, NULL);
}

static bool listed(unsigned n)
{
    uint64_t end = clock_mono_ms() + LATER;

    while (json_array_size(gpus_list(gpus)) != n && clock_mono_ms() < end)
        (void) loop_turn(loop, 20, NULL);
    return gpus_list(gpus) && json_array_size(gpus_list(gpus)) == n;
}

static bool hears(const char *text)
{
    uint64_t end = clock_mono_ms() + LATER;

    while (!strstr(said, text) && clock_mono_ms() < end)
        (void) loop_turn(loop, 20, NULL);
    return strstr(said, text);
}

static bool first_lost(void)
{
    return json_get_bool(json_array_get(gpus_list(gpus), 0), "lost", false);
}

static bool link_is(const char *socket)
{
    char at[128];
    ssize_t n = readlink(gpus_socket(gpus), at, sizeof at - 1);

    at[n > 0 ? n : 0] = '\0';
    return strcmp(at, socket) == 0;
}

static void say_one(void)
{
    put("say", "{\"t\": \"inventory\", \"state\": \"ready\", \"devices\": "
        "[{\"uuid\": \"GPU-1\", \"model\": \"X\", \"state\": \"ready\"}]}");
}

static void test_answers(void)
{
    autofree char *devices = mem_printf("%s/devices", dir);

    serve();
    begin();
    turn(PATIENCE + SOON);
    ok(!gpus_list(gpus) && strstr(said, "not answer"), "silence: %s", said);
    put("say", "{\"t\": \"error\", \"text\": \"no such thing\"}");
    turn(2000);
    ok(!gpus_list(gpus) && strcmp(said, "no such thing") == 0,
       "an answer of another kind is no list: %s", said);
    (void) mkdir(devices, 0700);
    say_one();
    turn(4000);
    ok(!gpus_list(gpus) && changes == 0 && strstr(said, devices),
       "places that cannot be read are not given anew: %s", said);
    (void) rmdir(devices);
    ok(listed(1) && changes == 1, "when they can, there is a list");
    gpus_close(gpus);
    serve_end();
}

/* What the node is used for all the same, and somebody should know. */
static void test_told(void)
{
    serve();
    begin();
    put("say", "{\"t\": \"inventory\", \"state\": \"ready\", \"scrubs\": "
        "false, \"devices\": [{\"uuid\": \"GPU-1\", \"model\": \"X\", "
        "\"state\": \"ready\"}]}");
    ok(hears("RMDisableScrubOnFree") && listed(1), "%s", said);
    put("say", "{\"t\": \"inventory\", \"state\": \"ready\", \"scrubs\": "
        "true, \"devices\": [{\"uuid\": \"GPU-1\", \"model\": \"X\", "
        "\"state\": \"ready\"}, {\"uuid\": \"GPU-2\", \"model\": \"X\", "
        "\"state\": \"ready\", \"mig\": true, \"mig_instances\": "
        "[{\"uuid\": \"MIG-a\"}, {\"uuid\": \"MIG-b\"}]}]}");
    ok(hears("GPU-2 is in MIG mode, with 2 instances") && listed(1) &&
       !first_lost(), "%s", said);
    put("say", "{\"t\": \"inventory\", \"state\": \"ready\", \"devices\": "
        "[{\"uuid\": \"GPU-1\", \"model\": \"X\", \"state\": \"ready\", "
        "\"mig\": true}]}");
    ok(hears("GPU-1 is in MIG mode, with 0 instances") && listed(1) &&
       first_lost(), "one that had a number keeps it, and is lost");
    gpus_close(gpus);
    serve_end();
    say_one();
}

static void test_who(void)
{
    serve();
    begin();
    ok(listed(1) && link_is(usual), "one that listens is used");
    gpus_close(gpus);
    serve_end();
    begin();
    turn(SOON);
    ok(!there("started") && link_is(usual), "it is away: waited for");
    serve();
    ok(listed(1) && !there("started"), "it comes back");
    gpus_close(gpus);
    serve_end();
    begin();
    turn(PATIENCE + SOON);
    ok(there("started"), "it does not: our own is started");
    gpus_close(gpus);
}

static void test_kept_to(void)
{
    autofree char *link = mem_printf("%s/gpud", dir);
    autofree char *state = mem_printf("%s/gpud.d", dir);

    (void) unlink(link);
    ok(symlink(own, link) == 0 && mkdir(state, 0700) == 0, "our own is used");
    put("gpud.d/health", "{}");
    put("gpud.d/w1.json", "{}");
    serve();
    begin();
    turn(PATIENCE + SOON);
    ok(there("started") && link_is(own) && !gpus_list(gpus),
       "our own has suspended a task: it is kept to");
    drop("gpud.d/w1.json");
    ok(listed(1) && link_is(usual), "it has none any more: the usual one");
    gpus_close(gpus);
    serve_end();
}

int main(void)
{
    struct err err = { 0 };

    if (!mkdtemp(dir) || loop_open(&loop, &err) < 0)
        return 1;
    (void) snprintf(usual, sizeof usual, "%s/usual", dir);
    (void) snprintf(own, sizeof own, "%s/gpud.sock", dir);
    (void) snprintf(program, sizeof program, "%s/program", dir);
    put("program", "#!/bin/sh\n: > \"${0%/*}/started\"\nexec sleep 60\n");
    test_answers();
    test_told();
    test_who();
    test_kept_to();
    loop_close(loop);
    (void) fs_remove_tree(dir, NULL);
    return tap_done();
}
