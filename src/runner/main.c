#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "engine/gpuask.h"
#include "runner/alone.h"
#include "runner/place.h"
#include "runner/runlog.h"
#include "runner/runner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, EXIT_BUSY = 75 };
enum { LOCK_TRIES = 50, LOCK_PAUSE_MS = 20 };

static const char usage[] =
    "Usage: weir-runner --block ID --home SOCKET --dir DIR --token-file FILE\n"
    "                   [--home-ca FILE]  (with --home tls://HOST:PORT)\n"
    "                   [--log-bytes SIZE] [--idle DURATION]\n"
    "                   [--gate FILE] [--gate-dir FOLDER] [--gate-simulated]\n"
    "                   [--gpud SOCKET] [--devices-file FILE]\n"
    "       weir-runner --alone --block BLOCK#LEASE#GEN@EPOCH ...\n"
    "                   [--address IP]\n"
    "       weir-runner --place RUN SECRET HOME\n"
    "\n"
    "Supervises one block: starts, watches and ends its leases.  Started by\n"
    "an engine of 'weir up'; see weir-runner(8).  With --alone it has one lease,\n"
    "in a container of that lease's own, and ends as its task did.\n";

static const struct option options[] = {
    { "block", required_argument, NULL, 'b' },
    { "home", required_argument, NULL, 's' },
    { "home-ca", required_argument, NULL, 'c' },
    { "dir", required_argument, NULL, 'd' },
    { "token-file", required_argument, NULL, 't' },
    { "log-bytes", required_argument, NULL, 'l' },
    { "idle", required_argument, NULL, 'i' },
    { "gate", required_argument, NULL, 'g' },
    { "gate-dir", required_argument, NULL, 'G' },
    { "gate-simulated", no_argument, NULL, 'S' },
    { "gpud", required_argument, NULL, 'u' },
    { "devices-file", required_argument, NULL, 'D' },
    { "alone", no_argument, NULL, 'a' },
    { "address", required_argument, NULL, 'A' },
    { "version", no_argument, NULL, 'V' },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

static int bad(const struct err *err)
{
    (void) fprintf(stderr, "weir-runner: %s\n", err->text);
    return EXIT_USAGE;
}

static int check(const struct runner_conf *c, struct err *err)
{
    struct in6_addr at;
    struct runner_name n;
    int rc = dial_check(&c->home, err);

    if (rc == 0)
        rc = runner_name_parse(c->block, &n, err);
    if (rc == 0 && n.alone != c->alone)
        rc = err_set(err, EINVAL, c->alone ? "--alone: '%s' names no lease"
                     : "'%s' names one lease: --alone is needed", c->block);
    if (rc == 0 && c->address && inet_pton(AF_INET, c->address, &at) != 1 &&
        inet_pton(AF_INET6, c->address, &at) != 1)
        rc = err_set(err, EINVAL, "--address: '%s' is no address", c->address);
    return rc;
}

/* -1: go on; else the status to end with. */
static int parse(int argc, char **argv, struct runner_conf *c)
{
    struct err err = { 0 };
    int opt;

    while ((opt = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        switch (opt) {
        case 'b':
            c->block = optarg;
            break;
        case 's':
            c->home.home = optarg;
            break;
        case 'c':
            c->home.ca = optarg;
            break;
        case 'd':
            c->dir = optarg;
            break;
        case 't':
            c->token_file = optarg;
            break;
        case 'l':
            if (quantity_bytes(optarg, &c->log_bytes, &err) < 0)
                return bad(&err);
            break;
        case 'i':
            if (quantity_duration(optarg, &c->idle_ms, &err) < 0)
                return bad(&err);
            break;
        case 'g':
            c->gate_lib = optarg;
            break;
        case 'G':
            c->gate_dir = optarg;
            break;
        case 'S':
            c->gate_simulated = true;
            break;
        case 'u':
            c->gpud = optarg;
            break;
        case 'D':
            c->devices_file = optarg;
            break;
        case 'a':
            c->alone = true;
            break;
        case 'A':
            c->address = optarg;
            break;
        case 'V':
            (void) puts("weir-runner " WEIR_VERSION);
            return 0;
        case 'h':
            (void) fputs(usage, stdout);
            return 0;
        default:
            (void) fputs(usage, stderr);
            return EXIT_USAGE;
        }
    }
    if (optind < argc || !c->block || !c->home.home || !c->dir ||
        !c->token_file) {
        (void) fputs(usage, stderr);
        return EXIT_USAGE;
    }
    return check(c, &err) < 0 ? bad(&err) : -1;
}

/* Beside this program, or where it was installed; NULL: nowhere. */
static char *find_gate(void)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    const char *slash;
    char *beside;

    exe[n > 0 ? n : 0] = '\0';
    slash = strrchr(exe, '/');
    beside = mem_printf("%.*s/libweir-gate.so",
                        slash ? (int) (slash - exe) : 0, exe);
    if (access(beside, R_OK) == 0)
        return beside;
    free(beside);
    return access(WEIR_GATE, R_OK) == 0 ? mem_str(WEIR_GATE) : NULL;
}

/* A session, a folder and descriptors of our own. */
static int detach(const char *dir, struct err *err)
{
    autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int rc = runlog_open(dir, err);

    if (rc < 0)
        return rc;
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(null, STDOUT_FILENO) < 0)
        return err_set(err, errno, "/dev/null: %s", strerror(errno));
    (void) setsid();                   /* fails when it is one already */
    if (chdir("/") < 0)
        return err_set(err, errno, "chdir /: %s", strerror(errno));
    return 0;
}

/* A lease's keeper is forked from here: what was open would live on in it. */
static void close_inherited(void)
{
    if (close_range(3, ~0u, 0) < 0)
        for (int fd = 3; fd < 65536; fd++)
            (void) close(fd);
}

/* A keeper has the lock, too, until it has closed what it was forked with: of a
 * runner that was killed just then the lock lives on for a moment.
 */
static int lock_block(const char *dir, int *ret_fd, struct err *err)
{
    autofree char *path = mem_printf("%s/runner.lock", dir);
    int rc = fs_lock(path, ret_fd, err);

    for (int i = 0; rc == -EWOULDBLOCK && i < LOCK_TRIES; i++) {
        (void) poll(NULL, 0, LOCK_PAUSE_MS);
        rc = fs_lock(path, ret_fd, err);
    }
    return rc;
}

/* What one that is alone has in its memory. */
struct own {
    char *folder, *token, *ca;
};

static void own_clear(struct own *o)
{
    free(o->folder);
    free(o->token);
    free(o->ca);
}

/* What is the container's, before it is left: its folder and standard output. */
static int keep_own(struct runner_conf *c, struct own *ret, struct err *err)
{
    int rc = fs_mkdir(c->dir, 0700, err);

    if (rc < 0)
        return rc;
    ret->folder = getcwd(NULL, 0);
    if (!ret->folder)
        return err_set(err, errno, "the folder it was started in: %s",
                       strerror(errno));
    rc = alone_secrets(c, &ret->token, &ret->ca, err);
    if (rc < 0)
        return rc;
    c->folder = ret->folder;
    c->token = ret->token;
    c->home.ca_text = ret->ca;
    c->out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return 0;
}

static int place_there(char **argv)
{
    struct err err = { 0 };

    if (place(argv[2], argv[3], argv[4], &err) == 0)
        return 0;
    (void) fprintf(stderr, "weir-runner: %s\n", err.text);
    return 1;
}

int main(int argc, char **argv)
{
    struct runner_conf conf = { .log_bytes = 1024 * 1024, .idle_ms = 30000,
                                .gpud = GPUASK_SOCKET,
                                .devices_file = "/proc/devices", .out = -1 };
    struct own own cleanup(own_clear) = { 0 };
    autofree char *gate = NULL;
    autoclose int lock = -1;
    struct err err = { 0 };
    int rc, status = 0;

    if (argc == 5 && strcmp(argv[1], "--place") == 0)
        return place_there(argv);
    rc = parse(argc, argv, &conf);
    if (rc >= 0)
        return rc;
    gate = conf.alone ? NULL : find_gate();
    if (!conf.gate_lib)
        conf.gate_lib = gate;
    close_inherited();
    log_open("weir-runner", LOG_INFO);
    rc = conf.alone ? keep_own(&conf, &own, &err) : 0;
    if (rc == 0)
        rc = lock_block(conf.dir, &lock, &err);
    if (rc == 0)
        rc = detach(conf.dir, &err);
    if (rc == 0)
        rc = runner_run(&conf, &status, &err);
    if (rc == 0)
        return status;
    log_say(LOG_ERROR, err.text, "block", conf.block, NULL);
    return rc == -EWOULDBLOCK ? EXIT_BUSY : 1;
}
