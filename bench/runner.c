#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "engine/home.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* bench/runner - tasks a second through one runner, from order to end, with a
 * home that grants and acknowledges at once and journals nothing: what the
 * runner alone costs.  The same program started by fork and exec, as many at
 * once, stands beside it.
 *
 *     bench_runner WEIR_RUNNER [TASKS [AT_ONCE]]
 */
static const char token[] = "0123456789abcdef";

struct bench {
    struct loop *loop;
    struct home *home;
    uint64_t total, at_once;
    uint64_t ordered, ended, failed;
    uint64_t first_us, last_us;
};

static struct wire_msg message(enum wire_kind kind, const struct wire_msg *m)
{
    return (struct wire_msg) { .kind = kind, .key = m->key, .gen = m->gen,
                               .epoch = m->epoch, .ok = true };
}

static void order_one(struct bench *b)
{
    struct wire_msg m = {
        .kind = WIRE_ORDER, .gen = 1, .epoch = 1,
        .key = { 1, (uint32_t) b->ordered, 0 },
    };

    if (b->ordered == b->total)
        return;
    m.task = json_pack("{s:s, s:s, s:s, s:i, s:[s]}", "name", "t",
                       "workload", "w1", "tenant", "bench", "cpus_milli",
                       1000, "argv", "/bin/true");
    (void) home_send(b->home, "local", &m, NULL);
    wire_clear(&m);
    b->ordered++;
}

static void on_hello(struct bench *b)
{
    struct wire_msg m = { .kind = WIRE_WELCOME, .v = WIRE_VERSION,
                          .epoch = 1 };

    (void) home_send(b->home, "local", &m, NULL);
    b->first_us = clock_mono_us();
    for (uint64_t i = 0; i < b->at_once; i++)
        order_one(b);
}

static void on_ended(struct bench *b, const struct wire_msg *m)
{
    struct wire_msg ack = message(WIRE_ACK, m);
    struct wire_msg quit = { .kind = WIRE_QUIT };

    b->ended++;
    b->failed += m->status != 0;
    (void) home_send(b->home, "local", &ack, NULL);
    order_one(b);
    if (b->ended < b->total)
        return;
    b->last_us = clock_mono_us();
    (void) home_send(b->home, "local", &quit, NULL);
}

static void on_message(const char *block, const struct wire_msg *m, void *arg)
{
    struct bench *b = arg;
    struct wire_msg grant;

    (void) block;
    if (m->kind == WIRE_HELLO) {
        on_hello(b);
    } else if (m->kind == WIRE_CLAIM) {
        grant = message(WIRE_GRANT, m);
        (void) home_send(b->home, "local", &grant, NULL);
    } else if (m->kind == WIRE_ENDED) {
        on_ended(b, m);
    }
}

static bool admit(const char *block, const char *given, void *arg)
{
    (void) block;
    (void) arg;
    return strcmp(given, token) == 0;
}

static void gone(const char *block, void *arg)
{
    struct bench *b = arg;

    (void) block;
    loop_stop(b->loop);
}

static pid_t start_runner(const char *path, const char *dir)
{
    autofree char *home = mem_printf("%s/home", dir);
    autofree char *state = mem_printf("%s/state", dir);
    autofree char *file = mem_printf("%s/token", dir);
    const char *const argv[] = { path, "--block", "local", "--home", home,
                                 "--dir", state, "--token-file", file, NULL };
    pid_t pid = 0;

    if (fs_mkdir(state, 0700, NULL) < 0 ||
        fs_write(file, token, strlen(token), 0600, false, NULL) < 0 ||
        posix_spawn(&pid, path, NULL, NULL,
                    (char *const *) (uintptr_t) argv, environ) != 0)
        return 0;
    return pid;
}

/* The bare machine: fork, exec, wait. */
static double bare_rate(uint64_t total, uint64_t at_once)
{
    char *const argv[] = { mem_str("true"), NULL };
    uint64_t begin = clock_mono_us();
    uint64_t started = 0, running = 0;

    while (started < total || running > 0) {
        pid_t pid;

        if (started < total && running < at_once &&
            posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ) == 0) {
            started++;
            running++;
        } else if (wait(NULL) > 0) {
            running--;
        }
    }
    free(argv[0]);
    return (double) total * 1e6 / (double) (clock_mono_us() - begin);
}

static int run(const char *runner, struct bench *b, struct err *err)
{
    static const struct home_ops ops = {
        .admit = admit, .message = on_message, .gone = gone,
    };
    char dir[] = "/tmp/weir-bench-XXXXXX";
    autofree char *socket_path = NULL;
    pid_t pid = 0;
    int rc;

    if (!mkdtemp(dir))
        return err_set(err, errno, "%s: %s", dir, strerror(errno));
    socket_path = mem_printf("%s/home", dir);
    rc = loop_open(&b->loop, err);
    if (rc == 0)
        rc = home_open(b->loop, socket_path, &ops, b, &b->home, err);
    if (rc == 0)
        pid = start_runner(runner, dir);
    if (rc == 0 && pid == 0)
        rc = err_set(err, ECHILD, "cannot start '%s'", runner);
    if (rc == 0)
        rc = loop_run(b->loop, err);
    if (pid)
        (void) waitpid(pid, NULL, 0);
    home_close(b->home);
    loop_close(b->loop);
    (void) fs_remove_tree(dir, NULL);
    return rc;
}

int main(int argc, char **argv)
{
    struct bench b = { .total = 2000, .at_once = 8 };
    struct err err = { 0 };
    double rate, bare;

    if (argc < 2 || argc > 4 ||
        (argc > 2 && quantity_count(argv[2], &b.total, &err) < 0) ||
        (argc > 3 && quantity_count(argv[3], &b.at_once, &err) < 0)) {
        (void) fprintf(stderr, "usage: bench_runner WEIR_RUNNER "
                       "[TASKS [AT_ONCE]]\n");
        return 2;
    }
    bare = bare_rate(b.total, b.at_once);
    if (run(argv[1], &b, &err) < 0) {
        (void) fprintf(stderr, "bench_runner: %s\n", err.text);
        return 1;
    }
    rate = (double) b.total * 1e6 / (double) (b.last_us - b.first_us);
    (void) printf("{\"bench\":\"runner\",\"tasks\":%llu,\"at_once\":%llu,"
                  "\"failed\":%llu,\"per_s\":%.0f,\"bare_per_s\":%.0f,"
                  "\"ratio\":%.2f}\n", (unsigned long long) b.total,
                  (unsigned long long) b.at_once,
                  (unsigned long long) b.failed, rate, bare, rate / bare);
    return b.failed ? 1 : 0;
}
