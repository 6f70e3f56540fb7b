#include "cli/verbs.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "control/control.h"

#include <errno.h>
#include <string.h>

#define LOG_BYTES    (UINT64_C(16) << 20)
#define RETENTION_MS (UINT64_C(30) * 24 * 3600 * 1000)

struct up_opts {
    const char *state, *devices, *gpud, *pool, *engine, *runner;
    const char *runners, *runners_url;
    const char *listen, *tls_cert, *tls_key, *tls_client_ca;
    const char *log_format, *log_level, *domain;
    struct opt_list labels;
    uint64_t log_bytes, retention_ms;
    bool check;
};

#define AT(member) offsetof(struct up_opts, member)
static const struct opt up_opts[] = {
    { "state", 0, "DIR", "where to keep everything", OPT_TEXT, AT(state) },
    { "devices", 0, "SPEC", "auto: this machine's GPUs (where it has a "
      "driver); none; or simulated ones: sim:2xH100-80GB,2xA10-24GB", OPT_TEXT,
      AT(devices) },
    { "gpud", 0, "SOCKET", "of the weir-gpud to ask for them "
      "(/run/weir/gpud.sock, or one of its own)", OPT_TEXT, AT(gpud) },
    { "pool", 0, "NAME", "what to call this machine's pool (local)", OPT_TEXT,
      AT(pool) },
    { "label", 0, "KEY=VALUE", "of this machine, for documents that ask for "
      "it under 'nodes'; repeatable", OPT_LIST, AT(labels) },
    { "domain", 0, "NAME", "its part of the network, for gangs that wish to "
      "be near", OPT_TEXT, AT(domain) },
    { "runners", 0, "ADDR:PORT", "where runners on other machines dial in, by "
      "TLS with certificates of Weir's own", OPT_TEXT, AT(runners) },
    { "runners-url", 0, "URL", "what they are told to dial, tls://HOST:PORT, "
      "where it is not that address", OPT_TEXT, AT(runners_url) },
    { "listen", 0, "ADDR:PORT", "serve TLS there as well; wants --tls-cert "
      "and --tls-key", OPT_TEXT, AT(listen) },
    { "tls-cert", 0, "FILE", "certificate chain, PEM", OPT_TEXT,
      AT(tls_cert) },
    { "tls-key", 0, "FILE", "its key, PEM", OPT_TEXT, AT(tls_key) },
    { "tls-client-ca", 0, "FILE", "accept clients with certificates of this "
      "authority", OPT_TEXT, AT(tls_client_ca) },
    { "log-format", 0, "FORMAT", "text or json (text on a terminal)",
      OPT_TEXT, AT(log_format) },
    { "log-level", 0, "LEVEL", "error, warn, info or debug (info)", OPT_TEXT,
      AT(log_level) },
    { "log-bytes", 0, "SIZE", "kept of each task's output (16Mi)", OPT_BYTES,
      AT(log_bytes) },
    { "retention", 0, "TIME", "forget ended workloads after this (30d)",
      OPT_DURATION, AT(retention_ms) },
    { "check", 0, NULL, "check the whole store first, however long it takes",
      OPT_FLAG, AT(check) },
    { "runner", 0, "PATH", "the weir-runner program (beside this one)",
      OPT_TEXT, AT(runner) },
    { "engine", 0, "NAME", "local; none: this machine is no pool; fake for "
      "tests (local)", OPT_TEXT, AT(engine) },
    { .kind = OPT_END },
};
#undef AT

static int set_log(struct cli *c, const struct up_opts *o)
{
    enum log_level level = LOG_INFO;

    if (o->log_level && log_level_parse(o->log_level, &level) < 0)
        return cli_fail(c, CLI_USAGE, "--log-level: unknown level '%s'; "
                        "expected error, warn, info or debug", o->log_level);
    if (o->log_format && strcmp(o->log_format, "text") != 0 &&
        strcmp(o->log_format, "json") != 0)
        return cli_fail(c, CLI_USAGE, "--log-format: unknown format '%s'; "
                        "expected text or json", o->log_format);
    log_open("weir", level);
    if (o->log_format)
        log_format(o->log_format);
    return 0;
}

static int check_labels(struct cli *c, const struct opt_list *labels)
{
    for (size_t i = 0; i < labels->count; i++) {
        const char *eq = strchr(labels->items[i], '=');

        if (!eq || eq == labels->items[i])
            return cli_fail(c, CLI_USAGE, "--label: expected KEY=VALUE, got "
                            "'%s'", labels->items[i]);
    }
    return 0;
}

static int check_listen(struct cli *c, const struct up_opts *o)
{
    if (o->listen && (!o->tls_cert || !o->tls_key))
        return cli_fail(c, CLI_USAGE, "--listen wants --tls-cert and "
                        "--tls-key: nothing is served in the open");
    if (!o->listen && (o->tls_cert || o->tls_key || o->tls_client_ca))
        return cli_fail(c, CLI_USAGE, "--tls-* mean nothing without --listen");
    if (o->runners_url && !o->runners)
        return cli_fail(c, CLI_USAGE, "--runners-url means nothing without "
                        "--runners");
    return 0;
}

/* The socket's folder is ours to make; the state folder is control's. */
static int make_folder(struct cli *c, const char *socket, const char *state)
{
    const char *slash = strrchr(socket, '/');
    autofree char *folder = NULL;
    struct err err;

    if (!slash || slash == socket)
        return 0;
    folder = mem_strn(socket, (size_t) (slash - socket));
    if (strcmp(folder, state) == 0 || access(folder, F_OK) == 0)
        return 0;
    if (fs_mkdir(folder, 0755, &err) < 0)
        return cli_fail(c, CLI_BROKEN, "%s", err.text);
    return 0;
}

static int up_exit(int rc)
{
    switch (rc) {
    case -EBUSY:
    case -EWOULDBLOCK:
    case -EADDRINUSE:
        return CLI_REFUSED;
    case -EINVAL:
        return CLI_USAGE;
    case -EACCES:
    case -EPERM:
        return CLI_DENIED;
    default:
        return CLI_BROKEN;
    }
}

static const char *or(const char *a, const char *b)
{
    return a ? a : b;
}

/* Where there is no driver nobody is to hear of it. */
static const char *default_devices(const struct up_opts *o)
{
    bool local = !o->engine || strcmp(o->engine, "local") == 0;

    return local && access("/dev/nvidiactl", F_OK) == 0 ? "auto" : "none";
}

static int run_up(struct cli *c, const void *opts)
{
    const struct up_opts *o = opts;
    struct where named = { .socket_opt = c->where.socket_opt,
                           .state_opt = o->state };
    struct control_conf conf = {
        .pool = or(o->pool, "local"), .engine = or(o->engine, "local"),
        .devices = or(o->devices, default_devices(o)), .gpud = o->gpud,
        .runner = o->runner, .runners = o->runners,
        .runners_url = o->runners_url,
        .listen = o->listen, .tls_cert = o->tls_cert, .tls_key = o->tls_key,
        .tls_client_ca = o->tls_client_ca,
        .log_bytes = o->log_bytes ? o->log_bytes : LOG_BYTES,
        .retention_ms = o->retention_ms ? o->retention_ms : RETENTION_MS,
        .check_full = o->check, .labels = o->labels.items,
        .nlabels = o->labels.count, .domain = o->domain,
    };
    struct err err = { 0 };
    int rc = set_log(c, o);

    if (rc == 0)
        rc = check_listen(c, o);
    if (rc == 0)
        rc = check_labels(c, &o->labels);
    if (rc != 0)
        return rc;
    if (where_find_here(&named, &err) < 0)
        return cli_fail(c, CLI_USAGE, "%s", err.text);
    conf.state_dir = named.state;
    conf.socket = named.socket;
    rc = make_folder(c, named.socket, named.state);
    if (rc == 0) {
        rc = control_run(&conf, &err);
        if (rc < 0)
            rc = cli_fail(c, up_exit(rc), "%s", err.text);
    }
    where_free(&named);
    return rc;
}

const struct verb verb_up = {
    .name = "up",
    .summary = "start the control plane and this machine's pool",
    .usage = "[--devices SPEC] [--state DIR] [--socket PATH] [OPTIONS]",
    .about =
        "Stays in the foreground until SIGTERM or Ctrl-C; what runs then goes "
        "on running\n"
        "and is found again by the next 'weir up' on the same state folder.",
    .examples =
        "weir up                             # CPUs, memory and GPUs of this "
        "machine\n"
        "weir up --devices sim:4xH100-80GB   # with four simulated devices\n"
        "weir up --devices sim:2xH100-80GB,2xA10-24GB    # of two kinds\n"
        "weir up --listen 0.0.0.0:8443 --tls-cert c.pem --tls-key k.pem",
    .opts = up_opts,
    .size = sizeof(struct up_opts),
    .run = run_up,
};
