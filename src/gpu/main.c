#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "gpu/ask.h"
#include "gpu/health_rules.h"
#include "gpu/probe.h"
#include "gpu/serve.h"
#include "net/listen.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    EXIT_USAGE = 2, EXIT_NONE = 4, EXIT_DENIED = 5, EXIT_BUSY = 7,
    EXIT_FAULT = 8,
};

/* The first question to a driver without persistence wakes each device. */
enum { STUCK_MS = 30000, SPARE_BYTES = 1 << 30 };
/* 100 GB take a minute. */
enum { HUNG_MS = 600 * 1000 };

static const char usage[] =
    "Usage: weir-gpud --socket PATH [--mode MODE] [--every DURATION]\n"
    "                 [--stuck DURATION] [--state FOLDER] [--spare SIZE]\n"
    "                 [--hung DURATION]\n"
    "                 [--health FILE]\n"
    "       weir-gpud --once [--stuck DURATION]\n"
    "       weir-gpud --check-health FILE | --print-health\n"
    "\n"
    "Watches the GPUs of this node and answers who asks at the socket; with\n"
    "--once, prints what there is and how it is, as JSON; see weir-gpud(8).\n"
    "--health takes rules of health from FILE, --check-health says what is\n"
    "wrong with it, and --print-health prints the rules that are shipped.\n";

struct conf {
    struct serve_conf serve;
    bool once, print_health;
    const char *health, *check_health; /* files */
};

static const struct option options[] = {
    { "socket", required_argument, NULL, 's' },
    { "mode", required_argument, NULL, 'm' },
    { "every", required_argument, NULL, 'e' },
    { "stuck", required_argument, NULL, 't' },
    { "state", required_argument, NULL, 'd' },
    { "spare", required_argument, NULL, 'r' },
    { "hung", required_argument, NULL, 'g' },
    { "health", required_argument, NULL, 'H' },
    { "check-health", required_argument, NULL, 'C' },
    { "print-health", no_argument, NULL, 'P' },
    { "once", no_argument, NULL, 'o' },
    { "version", no_argument, NULL, 'V' },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

static int say(int status, const char *text)
{
    (void) fprintf(stderr, "weir-gpud: %s\n", text);
    return status;
}

/* "600" or "660": the socket is nobody else's. */
static int read_mode(const char *s, mode_t *ret)
{
    s += *s == '0';
    if (strcmp(s, "600") != 0 && strcmp(s, "660") != 0)
        return say(EXIT_USAGE, "--mode is 0600 or 0660");
    *ret = s[1] == '6' ? 0660 : 0600;
    return -1;
}

static int read_time(const char *s, const char *name, uint64_t *ret)
{
    struct err err = { 0 };
    uint64_t ms = 0;

    if (quantity_duration(s, &ms, &err) == 0 &&
        (ms < ASK_EVERY_MIN_MS || ms > ASK_EVERY_MAX_MS))
        (void) err_set(&err, EINVAL, "is from 100ms to 1h");
    if (err.code) {
        (void) err_prefix(&err, -err.code, "%s", name);
        return say(EXIT_USAGE, err.text);
    }
    *ret = ms;
    return -1;
}

static int read_spare(const char *s, uint64_t *ret)
{
    struct err err = { 0 };

    if (quantity_bytes(s, ret, &err) == 0)
        return -1;
    (void) err_prefix(&err, -err.code, "--spare");
    return say(EXIT_USAGE, err.text);
}

/* -1: go on; else the status to end with. */
static int take_option(int opt, struct conf *c)
{
    switch (opt) {
    case 's':
        c->serve.socket = optarg;
        return -1;
    case 'm':
        return read_mode(optarg, &c->serve.mode);
    case 'e':
        return read_time(optarg, "--every", &c->serve.every_ms);
    case 't':
        return read_time(optarg, "--stuck", &c->serve.stuck_ms);
    case 'd':
        c->serve.state = optarg;
        return -1;
    case 'r':
        return read_spare(optarg, &c->serve.spare);
    case 'g':
        return read_time(optarg, "--hung", &c->serve.hung_ms);
    case 'H':
        c->health = optarg;
        return -1;
    case 'C':
        c->check_health = optarg;
        return -1;
    case 'P':
        c->print_health = true;
        return -1;
    case 'o':
        c->once = true;
        return -1;
    case 'V':
        (void) puts("weir-gpud " WEIR_VERSION);
        return 0;
    case 'h':
        (void) fputs(usage, stdout);
        return 0;
    default:
        (void) fputs(usage, stderr);
        return EXIT_USAGE;
    }
}

static int parse(int argc, char **argv, struct conf *c)
{
    int opt;
    int modes;
    int rc = -1;

    while (rc < 0 && (opt = getopt_long(argc, argv, "", options, NULL)) >= 0)
        rc = take_option(opt, c);
    if (rc >= 0)
        return rc;
    modes = c->once + c->print_health + (c->check_health != NULL) +
            (c->serve.socket != NULL);
    if (optind == argc && modes == 1 && (!c->health || c->serve.socket))
        return -1;
    (void) fputs(usage, stderr);
    return EXIT_USAGE;
}

static int status_of(enum nvml_state s)
{
    switch (s) {
    case NVML_READY:
        return 0;
    case NVML_NO_LIBRARY:
    case NVML_NO_DRIVER:
    case NVML_NO_DEVICE:
        return EXIT_NONE;
    case NVML_DENIED:
        return EXIT_DENIED;
    case NVML_MISMATCH:
    case NVML_LOST:
    case NVML_RESET:
    case NVML_STUCK:
    case NVML_FAULT:
    case NVML_STATE_COUNT:
        break;
    }
    return EXIT_FAULT;
}

static int print(const struct node_report *r)
{
    autojson json_t *o = json_object();
    int rc;

    json_put_str(o, "version", WEIR_VERSION);
    json_put(o, "inventory", device_list_json(&r->list));
    json_put(o, "sample", node_sample_json(r));
    rc = json_dumpf(o, stdout, JSON_INDENT(2) | JSON_FORM);
    if (rc < 0 || putchar('\n') < 0 || fflush(stdout) != 0)
        return say(EXIT_FAULT, "standard output takes no more");
    for (unsigned i = 0; i < r->list.n; i++)
        if (r->list.all[i].state != NVML_READY)
            (void) say(0, r->list.all[i].why);
    return 0;
}

/* The answer of one look, if it comes in time. */
static int once(uint64_t stuck_ms)
{
    autofree struct node_report *r = mem_new(sizeof *r);
    struct probe *p = NULL;
    struct err err = { 0 };
    struct pollfd fd = { .events = POLLIN };
    int status;

    if (probe_open(&p, &err) < 0)
        return say(EXIT_FAULT, err.text);
    fd.fd = probe_fd(p);
    probe_ask(p);
    (void) poll(&fd, 1, (int) stuck_ms);
    if (!probe_take(p, r)) {
        r->list.state = NVML_STUCK;
        (void) snprintf(r->list.why, sizeof r->list.why,
                        "the driver has not answered for %llu ms",
                        (unsigned long long) stuck_ms);
    }
    status = status_of(r->list.state);
    status = status ? say(status, r->list.why) : print(r);
    probe_close(p);
    return status;
}

static int read_health(const char *path, struct health_rules *ret)
{
    autofree char *text = NULL;
    struct err err = { 0 };
    size_t len = 0;
    int rc = fs_read(path, HEALTH_DOC_MAX, &text, &len, &err);

    if (rc < 0)
        return say(EXIT_USAGE, err.text);
    rc = health_rules_read(text, len, ret, &err);
    if (rc < 0) {
        (void) err_prefix(&err, rc, "%s", path);
        return say(EXIT_USAGE, err.text);
    }
    return 0;
}

static int print_health(void)
{
    autofree struct health_rules *rules = mem_new(sizeof *rules);
    autojson json_t *o = NULL;

    health_rules_default(rules);
    o = health_rules_json(rules);
    if (json_dumpf(o, stdout, JSON_INDENT(2) | JSON_FORM) < 0 ||
        putchar('\n') < 0 || fflush(stdout) != 0)
        return say(EXIT_FAULT, "standard output takes no more");
    return 0;
}

struct running {
    struct loop *loop;
    struct serve *serve;               /* NULL: not yet */
};

static void on_signal(int sig, void *arg)
{
    struct running *r = arg;

    (void) sig;
    if (r->serve)
        serve_end(r->serve);
    else
        loop_stop(r->loop);
}

static int serve(const struct serve_conf *conf)
{
    struct running r = { 0 };
    struct err err = { 0 };
    int rc = loop_open(&r.loop, &err);
    int status;
    bool hangs;

    log_open("weir-gpud", LOG_INFO);
    (void) listen_max_files();         /* one for each process of a task */
    if (!rc)
        rc = loop_signal(r.loop, SIGTERM, on_signal, &r, &err);
    if (!rc)
        rc = loop_signal(r.loop, SIGINT, on_signal, &r, &err);
    if (!rc)
        rc = serve_open(r.loop, conf, &r.serve, &err);
    if (!rc)
        rc = loop_run(r.loop, &err);
    hangs = r.serve && serve_hangs(r.serve);
    serve_close(r.serve);
    loop_close(r.loop);
    if (rc)
        log_say(LOG_ERROR, err.text, NULL);
    status = !rc ? 0 : rc == -EADDRINUSE ? EXIT_BUSY : EXIT_FAULT;
    if (hangs)
        _exit(status);                 /* see jobs_hang */
    return status;
}

int main(int argc, char **argv)
{
    struct conf c = {
        .serve = { .mode = 0600, .every_ms = ASK_EVERY_MS,
                   .stuck_ms = STUCK_MS, .hung_ms = HUNG_MS,
                   .spare = SPARE_BYTES },
    };
    autofree struct health_rules *rules = mem_new(sizeof *rules);
    const char *health = NULL;
    int rc = parse(argc, argv, &c);

    if (rc >= 0)
        return rc;
    if (c.print_health)
        return print_health();
    health = c.check_health ? c.check_health : c.health;
    rc = health ? read_health(health, rules) : 0;
    if (rc || c.check_health)
        return rc;
    c.serve.rules = health ? rules : NULL;
    return c.once ? once(c.serve.stuck_ms) : serve(&c.serve);
}
