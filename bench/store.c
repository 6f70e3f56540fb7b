#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "core/world.h"
#include "store/play.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* bench-store - what the journal costs: one JSON object a line.
 *
 *   fsync     write 4096 bytes and fdatasync, one after the other: what the
 *             folder's disk does at most
 *   submit    durable submissions per second; each client has one under way
 *             and makes the next when that one is durable
 *   pipeline  one pipeline of 10,000 tasks, until it is durable
 *   open      start-up on a long history: check, load, ready
 *
 * The path is the control plane's: world, journal, rows, writer thread, loop.
 */
enum { FSYNC_PAGES = 4096 };           /* then from the beginning */

struct conf {
    const char *dir;
    uint64_t seconds, clients, events;
};

struct client {
    uint64_t seq;                      /* of what is under way */
    uint64_t began_us;
};

struct crowd {
    struct client *clients;
    uint64_t nclients, until_us;
    uint32_t *took_us;
    size_t ntook, cap;
    bool stopped;
    struct err err;
};

static int measure_fsync(const char *dir, uint64_t ms, double *ret,
                         struct err *err)
{
    autofree char *path = mem_printf("%s/fsync", dir);
    autoclose int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    static const char page[4096] = "x";
    uint64_t began = clock_mono_us(), n = 0, took;

    if (fd < 0)
        return err_set(err, errno, "open '%s': %s", path, strerror(errno));
    do {
        int rc = fs_write_all(fd, page, sizeof page, err);

        if (rc < 0)
            return rc;
        if (fdatasync(fd) < 0)
            return err_set(err, errno, "fdatasync: %s", strerror(errno));
        if (++n % FSYNC_PAGES == 0)
            (void) lseek(fd, 0, SEEK_SET);
        took = clock_mono_us() - began;
    } while (took < ms * 1000);
    (void) unlink(path);
    *ret = (double) n * 1e6 / (double) took;
    return 0;
}

static void crowd_note(struct crowd *c, uint64_t us)
{
    if (c->ntook == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 65536;
        c->took_us = mem_grow(c->took_us, c->cap, sizeof *c->took_us);
    }
    c->took_us[c->ntook++] = (uint32_t) us;
}

static int client_submit(struct play *p, struct client *client,
                         struct err *err)
{
    int rc;

    client->began_us = clock_mono_us();
    rc = play_submit(p, "lab", "", 1, NULL, err);
    client->seq = world_seq(p->world);
    return rc;
}

/* Something is durable: those who waited for it make their next submission,
 * until the time is over.
 */
static void crowd_next(struct play *p)
{
    struct crowd *c = p->then_arg;
    uint64_t now = clock_mono_us();
    int rc = 0;

    for (uint64_t i = 0; i < c->nclients && rc == 0; i++) {
        if (c->clients[i].seq > p->durable)
            continue;
        crowd_note(c, now - c->clients[i].began_us);
        if (now < c->until_us)
            rc = client_submit(p, &c->clients[i], &c->err);
        else
            c->stopped = true;
    }
    if (rc == 0 && !c->stopped)
        rc = play_commit(p, &c->err);
    if (rc < 0)
        c->stopped = true;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

    return (x > y) - (x < y);
}

static double quantile_ms(const struct crowd *c, double q)
{
    return c->ntook ? c->took_us[(size_t) (q * (double) (c->ntook - 1))] / 1e3
                    : 0;
}

static void print_submit(struct play *p, struct crowd *c, uint64_t took_us,
                         double fsyncs)
{
    double rate = (double) c->ntook * 1e6 / (double) took_us;
    struct store_stat st;

    store_stat(p->store, &st);
    qsort(c->took_us, c->ntook, sizeof *c->took_us, by_value);
    printf("{\"bench\":\"store\",\"what\":\"submit\",\"clients\":%" PRIu64
           ",\"submissions\":%zu,\"seconds\":%.2f,\"per_second\":%.0f,"
           "\"commits_per_second\":%.0f,\"p50_ms\":%.2f,\"p99_ms\":%.2f,"
           "\"fsync_per_second\":%.0f,\"submissions_per_fsync\":%.2f}\n",
           c->nclients, c->ntook, (double) took_us / 1e6, rate,
           (double) st.commits * 1e6 / (double) took_us, quantile_ms(c, 0.5),
           quantile_ms(c, 0.99), fsyncs, rate / fsyncs);
    (void) fflush(stdout);
}

static int run_submit(struct play *p, const struct conf *conf, double fsyncs,
                      struct err *err)
{
    struct crowd c = { .nclients = conf->clients };
    uint64_t began = clock_mono_us();
    int rc = 0;

    c.clients = mem_array(c.nclients, sizeof *c.clients);
    c.until_us = began + conf->seconds * 1000000;
    p->then = crowd_next;
    p->then_arg = &c;
    for (uint64_t i = 0; i < c.nclients && rc == 0; i++)
        rc = client_submit(p, &c.clients[i], err);
    if (rc == 0)
        rc = play_commit(p, err);
    while (rc >= 0 && !c.stopped && !p->failures)
        rc = loop_turn(p->loop, 100, err);
    p->then = NULL;
    p->then_arg = NULL;
    if (rc >= 0 && p->failures)
        rc = err_set(err, EIO, "%s", p->why.text);
    else if (rc >= 0 && c.err.code)
        rc = err_set(err, c.err.code, "%s", c.err.text);
    if (rc >= 0)
        print_submit(p, &c, clock_mono_us() - began, fsyncs);
    free(c.clients);
    free(c.took_us);
    return rc < 0 ? rc : 0;
}

static int open_play(struct play *p, const char *path, struct err *err)
{
    int rc;

    *p = (struct play) { .path = path, .rng = 1,
                         .now_ms = clock_wall_ms() };
    rc = play_open(p, err);
    if (rc == 0 && !world_tenant(p->world, "lab"))
        rc = play_tenant(p, "lab", err);
    if (rc == 0)
        rc = play_commit(p, err);
    return rc < 0 ? rc : play_wait(p, err);
}

static int bench_submit(const struct conf *conf, double fsyncs,
                        struct err *err)
{
    autofree char *path = mem_printf("%s/submit.db", conf->dir);
    struct play p;
    int rc = open_play(&p, path, err);

    if (rc == 0)
        rc = run_submit(&p, conf, fsyncs, err);
    play_close(&p);
    return rc;
}

static int bench_pipeline(const struct conf *conf, struct err *err)
{
    autofree char *path = mem_printf("%s/pipeline.db", conf->dir);
    struct play p;
    uint64_t began;
    int rc = open_play(&p, path, err);

    began = clock_mono_us();
    if (rc == 0)
        rc = play_submit(&p, "lab", "", 10000, NULL, err);
    if (rc == 0)
        rc = play_commit(&p, err);
    if (rc == 0)
        rc = play_wait(&p, err);
    if (rc == 0)
        printf("{\"bench\":\"store\",\"what\":\"pipeline\",\"tasks\":10000,"
               "\"durable_ms\":%.1f}\n",
               (double) (clock_mono_us() - began) / 1e3);
    play_close(&p);
    (void) fflush(stdout);
    return rc;
}

/* Jobs that begin and end until there are so many events; the newest ones
 * are left waiting.
 */
static int make_history(struct play *p, uint64_t events, struct err *err)
{
    int rc = play_block(p, "b1", err);

    while (rc == 0 && world_seq(p->world) < events) {
        for (int i = 0; i < 16 && rc == 0; i++)
            rc = play_submit(p, "lab", "", 1, NULL, err);
        p->now_ms += 10;
        if (rc == 0)
            rc = play_commit(p, err);
        while (rc == 0 && world_waiting(p->world) + 16 > 200 &&
               play_runner(p, err))
            rc = play_commit(p, err);
        if (rc == 0 && play_draw(p, 64) == 0)
            rc = play_wait(p, err);
    }
    return rc < 0 ? rc : play_wait(p, err);
}

static int open_once(const char *path, bool full, uint64_t events,
                     struct err *err)
{
    struct store_conf conf = { .path = path, .check_full = full };
    struct world *w = world_new();
    struct store *s = NULL;
    struct store_stat st;
    uint64_t began = clock_mono_us(), opened = 0;
    int rc = store_open(&conf, &s, err);

    opened = clock_mono_us();
    if (rc == 0)
        rc = store_load(s, w, err);
    if (rc == 0) {
        store_stat(s, &st);
        printf("{\"bench\":\"store\",\"what\":\"open\",\"check\":\"%s\","
               "\"events\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"open_ms\":%.1f,"
               "\"load_ms\":%.1f,\"total_ms\":%.1f}\n",
               full ? "full" : "start", events, st.bytes,
               (double) (opened - began) / 1e3,
               (double) (clock_mono_us() - opened) / 1e3,
               (double) (clock_mono_us() - began) / 1e3);
    }
    (void) fflush(stdout);
    store_close(s);
    world_free(w);
    return rc;
}

static int bench_open(const struct conf *conf, struct err *err)
{
    autofree char *path = mem_printf("%s/open.db", conf->dir);
    struct play p;
    uint64_t events = 0;
    int rc = open_play(&p, path, err);

    if (rc == 0)
        rc = make_history(&p, conf->events, err);
    if (rc == 0)
        events = world_seq(p.world);
    play_close(&p);
    if (rc == 0)
        rc = open_once(path, false, events, err);
    return rc < 0 ? rc : open_once(path, true, events, err);
}

static int bench_all(const struct conf *conf, struct err *err)
{
    double fsyncs = 1;
    int rc = measure_fsync(conf->dir, 1000, &fsyncs, err);

    if (rc < 0)
        return rc;
    printf("{\"bench\":\"store\",\"what\":\"fsync\",\"per_second\":%.0f}\n",
           fsyncs);
    (void) fflush(stdout);
    rc = bench_submit(conf, fsyncs, err);
    if (rc == 0)
        rc = bench_pipeline(conf, err);
    if (rc == 0 && conf->events)
        rc = bench_open(conf, err);
    return rc;
}

static int usage(FILE *to)
{
    (void) fprintf(to, "usage: bench-store [--dir DIR] [--seconds N] "
                   "[--clients N] [--events N]\n"
                   "The folder must be on the disk to be measured; --events 0 "
                   "leaves out the long history.\n");
    return to == stdout ? 0 : 2;
}

static int parse(int argc, char **argv, struct conf *conf)
{
    static const struct option options[] = {
        { "dir", required_argument, NULL, 'd' },
        { "seconds", required_argument, NULL, 's' },
        { "clients", required_argument, NULL, 'c' },
        { "events", required_argument, NULL, 'e' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    int c, rc = 0;

    while (rc == 0 && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'd')
            conf->dir = optarg;
        else if (c == 's')
            rc = quantity_count(optarg, &conf->seconds, NULL);
        else if (c == 'c')
            rc = quantity_count(optarg, &conf->clients, NULL);
        else if (c == 'e')
            rc = quantity_count(optarg, &conf->events, NULL);
        else
            exit(usage(c == 'h' ? stdout : stderr));
    }
    return rc < 0 || optind < argc || conf->clients == 0 ? -EINVAL : 0;
}

/* In a process of its own: whatever ends it, the folder is removed. */
static _Noreturn void work(const struct conf *conf, const sigset_t *mask)
{
    struct err err = { 0 };
    int rc;

    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void) sigprocmask(SIG_SETMASK, mask, NULL);
    rc = bench_all(conf, &err);
    if (rc < 0)
        (void) fprintf(stderr, "bench-store: %s\n", err.text);
    exit(rc < 0);
}

/* The status of the worker, or a signal's as a shell says it: of the one that
 * ended it, or that came for us and was handed on.
 */
static int wait_for(pid_t worker, const sigset_t *signals)
{
    int status = 0, sig = 0;

    while (waitpid(worker, &status, WNOHANG) == 0) {
        int got = sigwaitinfo(signals, NULL);

        if (got > 0 && got != SIGCHLD) {
            sig = got;
            (void) kill(worker, SIGKILL);
        }
    }
    if (!sig && WIFSIGNALED(status))
        sig = WTERMSIG(status);
    return sig ? 128 + sig : WEXITSTATUS(status);
}

static int run(const struct conf *conf)
{
    static const int sigs[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP };
    sigset_t signals, mask;
    pid_t worker;

    (void) sigemptyset(&signals);
    for (size_t i = 0; i < array_size(sigs); i++)
        (void) sigaddset(&signals, sigs[i]);
    (void) sigprocmask(SIG_BLOCK, &signals, &mask);
    worker = fork();
    if (worker == 0)
        work(conf, &mask);
    if (worker < 0) {
        (void) fprintf(stderr, "bench-store: fork: %s\n", strerror(errno));
        return 1;
    }
    return wait_for(worker, &signals);
}

int main(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR");
    struct conf conf = { .dir = tmp ? tmp : "/var/tmp", .seconds = 5,
                         .clients = 16, .events = 1000000 };
    autofree char *dir = NULL;
    struct err err = { 0 };
    int rc;

    if (parse(argc, argv, &conf) < 0)
        return usage(stderr);
    dir = mem_printf("%s/weir-bench-XXXXXX", conf.dir);
    if (!mkdtemp(dir)) {
        (void) fprintf(stderr, "bench-store: '%s': %s\n", dir,
                       strerror(errno));
        return 1;
    }
    conf.dir = dir;
    rc = run(&conf);
    if (fs_remove_tree(dir, &err) < 0) {
        (void) fprintf(stderr, "bench-store: %s\n", err.text);
        return rc ? rc : 1;
    }
    return rc;
}
