#include "cli/verbs.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "cli/call.h"
#include "cli/print.h"
#include "control/control.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- node drain, undrain ---- */

struct drain_opts {
    const char *device;                /* NULL: the whole node */
};

static const struct opt drain_opts[] = {
    { "device", 0, "N", "one device of it, by its index", OPT_TEXT,
      offsetof(struct drain_opts, device) },
    { .kind = OPT_END },
};

static int act_node(struct cli *c, const struct drain_opts *o,
                    const char *what, const char *said)
{
    autofree char *path = call_path("/v1/nodes/%s/%s", c->args[0], what);
    autojson json_t *body = json_object(), *reply = NULL;
    struct err err;
    uint64_t device;
    int rc;

    if (o->device && quantity_count(o->device, &device, &err) < 0)
        return cli_fail(c, CLI_USAGE, "--device: %s", err.text);
    if (o->device)
        json_put_u64(body, "device", device);
    rc = call_json(c, "POST", path, body, &reply);
    if (rc == 0 && o->device)
        return print_done(c, reply, "device %s of %s %s", o->device,
                          c->args[0], said);
    return rc ? rc : print_done(c, reply, "%s %s", c->args[0], said);
}

static int run_drain(struct cli *c, const void *opts)
{
    return act_node(c, opts, "drain", "is drained: nothing new starts there");
}

static int run_undrain(struct cli *c, const void *opts)
{
    return act_node(c, opts, "undrain", "is in use again");
}

const struct verb verb_node_drain = {
    .name = "node drain",
    .summary = "start nothing new on a node; what runs there goes on",
    .usage = "NODE [--device N]",
    .about = "",
    .examples = "weir node drain gpu07    # 'weir pool show' names the nodes\n"
                "weir node drain gpu07 --device 3",
    .opts = drain_opts,
    .size = sizeof(struct drain_opts),
    .min_args = 1, .max_args = 1,
    .arg = ARG_NODE,
    .run = run_drain,
};

const struct verb verb_node_undrain = {
    .name = "node undrain",
    .summary = "use a drained node again",
    .usage = "NODE [--device N]",
    .about = "",
    .examples = "weir node undrain gpu07",
    .opts = drain_opts,
    .size = sizeof(struct drain_opts),
    .min_args = 1, .max_args = 1,
    .arg = ARG_NODE,
    .run = run_undrain,
};

/* ---- backup ---- */

/* The control plane writes the file, so the path must mean the same there. */
static char *absolute(const char *path)
{
    autofree char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);

    return here ? mem_printf("%s/%s", here, path) : mem_str(path);
}

static int run_backup(struct cli *c, const void *opts)
{
    autofree char *file = absolute(c->args[0]);
    autojson json_t *body = json_object();
    autojson json_t *reply = NULL;
    int rc;

    (void) opts;
    json_put_str(body, "file", file);
    rc = call_json(c, "POST", "/v1/backup", body, &reply);
    return rc ? rc : print_done(c, reply, "backed up to %s", file);
}

const struct verb verb_backup = {
    .name = "backup",
    .summary = "copy the store into a new file, while everything goes on",
    .usage = "FILE",
    .about = "The control plane writes FILE, on its own machine, as its own "
             "user.",
    .examples = "weir backup /backup/weir-$(date +%F).db",
    .opts = no_opts,
    .min_args = 1, .max_args = 1,
    .arg = ARG_FILE,
    .run = run_backup,
};

/* ---- restore ---- */

struct restore_opts {
    const char *state;
};

static const struct opt restore_opts[] = {
    { "state", 0, "DIR", "the state folder", OPT_TEXT,
      offsetof(struct restore_opts, state) },
    { .kind = OPT_END },
};

static int restore_exit(int rc)
{
    switch (rc) {
    case -ENOENT:                      /* the state folder is made */
        return CLI_USAGE;
    case -EBUSY:
    case -EWOULDBLOCK:
        return CLI_REFUSED;
    case -EACCES:
    case -EPERM:
        return CLI_DENIED;
    default:
        return CLI_BROKEN;
    }
}

static int run_restore(struct cli *c, const void *opts)
{
    const struct restore_opts *o = opts;
    const char *state = o->state ? o->state : c->where.state;
    autojson json_t *j = json_object();
    struct err err = { 0 };
    int rc = control_restore(state, c->args[0], &err);

    if (rc < 0)
        return cli_fail(c, restore_exit(rc), "%s", err.text);
    json_put_str(j, "state", state);
    json_put_str(j, "file", c->args[0]);
    return print_done(c, j, "%s is in the place of the store in %s\n"
                      "next: 'weir up', then 'weir ps' for what is in "
                      "quarantine and 'weir release' for each", c->args[0],
                      state);
}

const struct verb verb_restore = {
    .name = "restore",
    .summary = "put a backup in the place of the store, while nothing runs",
    .usage = "FILE [--state DIR]",
    .about = "Refused while a control plane uses the state folder.  The old "
             "store is kept\nbeside it.  What the backup does not show as "
             "ended comes back in quarantine.",
    .examples = "weir restore /backup/weir-2026-11-15.db",
    .opts = restore_opts,
    .size = sizeof(struct restore_opts),
    .min_args = 1, .max_args = 1,
    .arg = ARG_FILE,
    .run = run_restore,
};

/* ---- schema ---- */

static int run_schema(struct cli *c, const void *opts)
{
    const char *of = c->nargs ? c->args[0] : "document";

    (void) opts;
    if (strcmp(of, "document") != 0 && strcmp(of, "policy") != 0)
        return cli_fail(c, CLI_USAGE, "'%s' has no schema; expected document "
                        "or policy", of);
    return print_text(c, strcmp(of, "policy") == 0 ? control_policy_schema()
                                                   : control_schema());
}

const struct verb verb_schema = {
    .name = "schema",
    .summary = "print the JSON Schema of the document, or of a policy",
    .usage = "[document|policy]",
    .about = "For editors that complete and check YAML.",
    .examples = "weir schema > weir.schema.json\n"
                "weir schema policy",
    .max_args = 1,
    .opts = no_opts,
    .run = run_schema,
};

/* ---- ready ---- */

struct ready_opts {
    bool live;
};

static const struct opt ready_opts[] = {
    { "live", 0, NULL, "only whether it answers, also while it refuses writes",
      OPT_FLAG, offsetof(struct ready_opts, live) },
    { .kind = OPT_END },
};

static int run_ready(struct cli *c, const void *opts)
{
    const struct ready_opts *o = opts;
    autojson json_t *j = NULL;
    int rc = call_json(c, "GET", o->live ? "/healthz" : "/readyz", NULL, NULL);

    if (rc != 0)
        return rc;
    j = json_object();
    json_put_bool(j, "ready", true);
    return print_done(c, j, "ok");
}

const struct verb verb_ready = {
    .name = "ready",
    .summary = "say whether the control plane takes work",
    .usage = "[--live]",
    .about = "For probes: the exit status is 0 when it does, 6 when nobody "
             "answers and 7\nwhile it refuses writes, as with a full disk.",
    .examples = "weir ready\n"
                "weir ready --live",
    .opts = ready_opts,
    .size = sizeof(struct ready_opts),
    .run = run_ready,
};

/* ---- version ---- */

/* Ours, and the server's when there is one. */
static int run_version(struct cli *c, const void *opts)
{
    autojson json_t *server = NULL;
    autojson json_t *j = json_object();

    (void) opts;
    json_put_str(j, "version", WEIR_VERSION);
    if (call_try(c, &server, "/v1/version") != 0)
        return print_done(c, j, "weir %s", WEIR_VERSION);
    json_put(j, "server", json_incref(server));
    return print_done(c, j, "weir %s\nserver %s", WEIR_VERSION,
                      json_get_str(server, "version", "?"));
}

const struct verb verb_version = {
    .name = "version",
    .summary = "print the version of this program and of the control plane",
    .usage = "",
    .about = "",
    .examples = "weir version",
    .opts = no_opts,
    .run = run_version,
};
