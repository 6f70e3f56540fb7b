#include "cli/verbs.h"

#include "base/json.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/print.h"

#include <stdio.h>
#include <string.h>

/* ---- ls ---- */

static const struct table_column pool_columns[] = {
    { .name = "POOL" }, { .name = "ENGINE" },
    { .name = "NODES", .right = true },
    { .name = "DEVICES", .right = true }, { .name = "FREE", .right = true },
    { .name = "CPUS", .right = true }, { .name = "FREE", .right = true },
    { .name = "MEMORY", .right = true }, { .name = "FREE", .right = true },
    { .name = "" }, { .name = "NOTE", .wide = true }, { .name = NULL },
};

/* "simulated, drained, unreachable: no route to host"; caller frees. */
static char *pool_state(const json_t *p)
{
    const char *state = json_get_str(p, "state", "ready");
    bool ready = strcmp(state, "ready") == 0;
    const char *why = json_get_str(p, "why", "");
    const struct { bool is; const char *word; } words[] = {
        { json_get_bool(p, "simulated", false), "simulated" },
        { json_get_bool(p, "observe", false), "observed" },
        { json_get_bool(p, "drained", false), "drained" },
        { !ready, state },
    };
    struct buf b = BUF_INIT(4096);

    for (size_t i = 0; i < array_size(words); i++)
        if (words[i].is)
            (void) buf_printf(&b, "%s%s", b.len ? ", " : "", words[i].word);
    if (!ready && *why)
        (void) buf_printf(&b, ": %s", why);
    return buf_take(&b);
}

static void add_pair(struct table *t, const json_t *o, const char *key)
{
    const json_t *pair = json_object_get(o, key);
    char buf[HUMAN_SIZE];

    table_add(t, STYLE_PLAIN, get_number(pair, "total", buf));
    table_add(t, STYLE_PLAIN, get_number(pair, "free", buf));
}

static void add_memory(struct table *t, const json_t *o)
{
    const json_t *pair = json_object_get(o, "memory");
    char buf[HUMAN_SIZE];

    table_add(t, STYLE_PLAIN, human_bytes(json_get_u64(pair, "total", 0),
                                          buf));
    table_add(t, STYLE_PLAIN, human_bytes(json_get_u64(pair, "free", 0),
                                          buf));
}

static void add_pool(struct table *t, const json_t *p)
{
    autofree char *state = pool_state(p);

    table_add(t, STYLE_BOLD, json_get_str(p, "name", ""));
    table_add(t, STYLE_PLAIN, json_get_str(p, "engine", ""));
    table_printf(t, STYLE_PLAIN, "%zu",
                 json_array_size(json_object_get(p, "nodes")));
    add_pair(t, p, "devices");
    add_pair(t, p, "cpus");
    add_memory(t, p);
    table_add(t, strcmp(json_get_str(p, "state", ""), "unreachable") == 0 ?
              STYLE_BAD : STYLE_WAIT, state);
    table_add(t, STYLE_PLAIN, json_get_str(p, "note", ""));
}

static int run_ls(struct cli *c, const void *opts)
{
    (void) opts;
    return call_table(c, "/v1/pools", pool_columns, add_pool);
}

const struct verb verb_pool_ls = {
    .name = "pool ls",
    .summary = "list pools: what there is and what is free",
    .usage = "",
    .about = "",
    .examples = "weir pool ls",
    .opts = no_opts,
    .run = run_ls,
};

/* ---- show ---- */

static const struct table_column device_columns[] = {
    { .name = "NODE" }, { .name = "DEVICE", .right = true },
    { .name = "MODEL" }, { .name = "MEMORY", .right = true },
    { .name = "FREE", .right = true }, { .name = "HELD BY" },
    { .name = NULL },
};

/* "w12/train, w13/eval (0.5)"; of others' leases only the share is known. */
static char *holders(const json_t *device)
{
    struct buf b = BUF_INIT(4096);
    const json_t *l;
    char share[HUMAN_SIZE];
    size_t i;

    json_array_foreach(json_object_get(device, "leases"), i, l) {
        const char *id = json_get_str(l, "workload", NULL);

        buf_str(&b, i ? ", " : "");
        if (id)
            buf_printf(&b, "%s/%s", id, json_get_str(l, "task", ""));
        else
            buf_str(&b, "another tenant");
        if (json_get_number(l, "share") < 1)
            buf_printf(&b, " (%s)", get_number(l, "share", share));
    }
    return buf_take(&b);
}

static void add_devices(struct table *t, const json_t *node)
{
    const json_t *d;
    size_t i;

    json_array_foreach(json_object_get(node, "devices"), i, d) {
        autofree char *held = holders(d);
        bool simulated = json_get_bool(d, "simulated", false);
        bool lost = json_get_bool(d, "lost", false);
        bool drained = json_get_bool(d, "drained", false);
        const char *more = lost ? "lost" : drained ? "drained" :
                           get_closed(d);
        char buf[HUMAN_SIZE];

        table_add(t, STYLE_PLAIN, json_get_str(node, "name", ""));
        table_add(t, STYLE_BOLD, get_number(d, "index", buf));
        table_printf(t, lost ? STYLE_BAD : *more ? STYLE_WAIT : STYLE_PLAIN,
                     "%s%s%s%s%s%s", json_get_str(d, "model", "?"),
                     simulated || *more ? " (" : "",
                     simulated ? "simulated" : "",
                     simulated && *more ? ", " : "", more,
                     simulated || *more ? ")" : "");
        table_add(t, STYLE_PLAIN, human_bytes(json_get_u64(d, "memory", 0),
                                              buf));
        table_add(t, STYLE_PLAIN, get_number(d, "free", buf));
        table_add(t, STYLE_PLAIN, held);
    }
}

/* "8 of H100, 2 free": of a node that is only looked at. */
static void sheet_counts(struct table *t, const json_t *n)
{
    const json_t *pair = json_object_get(n, "device_count");
    const char *model = json_get_str(n, "model", "");
    const char *name;
    json_t *other;

    if (json_get_u64(pair, "total", 0))
        sheet_printf(t, "devices", "%llu%s%s, %llu free", (unsigned long long)
                     json_get_u64(pair, "total", 0), *model ? " of " : "",
                     model, (unsigned long long) json_get_u64(pair, "free", 0));
    json_object_foreach(json_object_get(n, "others"), name, other)
        sheet_printf(t, name, "%llu, %llu free", (unsigned long long)
                     json_get_u64(other, "total", 0), (unsigned long long)
                     json_get_u64(other, "free", 0));
    if (json_object_get(n, "pods"))
        sheet_printf(t, "pods", "%llu", (unsigned long long)
                     json_get_u64(n, "pods", 0));
}

static int print_node(struct cli *c, const json_t *n)
{
    const json_t *cpus = json_object_get(n, "cpus");
    const json_t *memory = json_object_get(n, "memory");
    struct table *t = sheet_new();
    char a[HUMAN_SIZE], b[HUMAN_SIZE];

    sheet_printf(t, "node", "%s%s%s%s", json_get_str(n, "name", ""),
                 json_get_bool(n, "up", true) ? "" : ", down",
                 json_get_bool(n, "shut", false) ? ", shut" : "",
                 json_get_bool(n, "drained", false) ? ", drained" : "");
    sheet_add(t, "closed", json_get_str(n, "closed", ""));
    sheet_add(t, "block", json_get_str(n, "block", ""));
    sheet_counts(t, n);
    sheet_printf(t, "cpus", "%s, %s free", get_number(cpus, "total", a),
                 get_number(cpus, "free", b));
    sheet_printf(t, "memory", "%s, %s free",
                 human_bytes(json_get_u64(memory, "total", 0), a),
                 human_bytes(json_get_u64(memory, "free", 0), b));
    sheet_add(t, "domain", json_get_str(n, "domain", ""));
    sheet_labels(t, json_object_get(n, "labels"));
    sheet_add(t, "limits kept by", json_get_str(n, "limits", ""));
    return print_sheet(c, t);
}

/* ---- show --devices ---- */

static const struct table_column telemetry_columns[] = {
    { .name = "NODE" }, { .name = "DEVICE", .right = true },
    { .name = "MODEL" }, { .name = "UUID" }, { .name = "BUSY", .right = true },
    { .name = "MEMORY USED", .right = true }, { .name = "TEMP", .right = true },
    { .name = "POWER", .right = true }, { .name = "XID", .right = true },
    { .name = "HEALTH" }, { .name = "" }, { .name = NULL },
};

/* A number that nobody tells is "-". */
static void add_told(struct table *t, const json_t *from, const char *key,
                     uint64_t by, const char *unit)
{
    if (json_object_get(from, key))
        table_printf(t, STYLE_PLAIN, "%llu%s", (unsigned long long)
                     (json_get_u64(from, key, 0) / by), unit);
    else
        table_add(t, STYLE_DIM, "-");
}

/* "too-hot (move), leak on probation". */
static void add_health(struct table *t, const json_t *d)
{
    const json_t *health = json_object_get(d, "health"), *r;
    struct buf b = BUF_INIT(4096);
    autofree char *text = NULL;
    size_t i;

    json_array_foreach(json_object_get(health, "rules"), i, r) {
        const char *state = json_get_str(r, "state", "");
        bool raised = strcmp(state, "raised") == 0;

        (void) buf_printf(&b, "%s%s %s%s%s", i ? ", " : "",
                          json_get_str(r, "rule", ""), raised ? "(" : "on ",
                          raised ? json_get_str(r, "action", "") : state,
                          raised ? ")" : "");
    }
    text = buf_take(&b);
    table_add(t, !i ? STYLE_DIM : *get_closed(d) ? STYLE_BAD : STYLE_WAIT,
              i ? text : "ok");
}

static void add_telemetry(struct table *t, const json_t *node,
                          const json_t *d)
{
    const json_t *told = json_object_get(d, "telemetry");
    bool lost = json_get_bool(d, "lost", false);
    char buf[HUMAN_SIZE];

    table_add(t, STYLE_PLAIN, json_get_str(node, "name", ""));
    table_add(t, STYLE_BOLD, get_number(d, "index", buf));
    table_add(t, STYLE_PLAIN, json_get_str(d, "model", "?"));
    table_add(t, STYLE_PLAIN, json_get_str(d, "uuid", "-"));
    add_told(t, told, "utilisation_percent", 1, "%");
    add_told(t, told, "memory_used_bytes", 1 << 20, " MiB");
    add_told(t, told, "temperature_celsius", 1, " C");
    add_told(t, told, "power_milliwatts", 1000, " W");
    add_told(t, told, "xid", 1, "");
    add_health(t, d);
    table_add(t, lost ? STYLE_BAD : STYLE_WAIT, lost ? "lost" :
              json_get_bool(d, "simulated", false) ? "simulated" : "");
}

static int print_devices(struct cli *c, const json_t *p)
{
    struct table *t = table_new(telemetry_columns);
    const json_t *n, *d;
    size_t i, k;

    json_array_foreach(json_object_get(p, "nodes"), i, n)
        json_array_foreach(json_object_get(n, "devices"), k, d)
            add_telemetry(t, n, d);
    return print_table(c, t);
}

/* What was said about it, if anything was. */
static int print_said(struct cli *c, const json_t *p)
{
    autofree char *state = pool_state(p);
    struct table *t = sheet_new();
    const char *key;
    json_t *value;

    sheet_add(t, "state", *state ? state : "ready");
    sheet_add(t, "note", json_get_str(p, "note", ""));
    if (json_object_get(p, "pods"))
        sheet_printf(t, "pods", "%llu, %llu of them wait for a node",
                     (unsigned long long) json_get_u64(p, "pods", 0),
                     (unsigned long long) json_get_u64(p, "pods_waiting", 0));
    json_object_foreach(json_object_get(p, "conf"), key, value)
        sheet_printf(t, "conf", "%s=%s", key, json_string_value(value));
    return print_sheet(c, t);
}

static int print_pool(struct cli *c, const json_t *p)
{
    struct table *t = table_new(device_columns);
    const json_t *n;
    size_t i;
    int rc;

    printf("pool %s (%s%s)\n", json_get_str(p, "name", ""),
           json_get_str(p, "engine", ""),
           json_get_bool(p, "simulated", false) ? ", devices simulated" : "");
    rc = print_said(c, p);
    json_array_foreach(json_object_get(p, "nodes"), i, n) {
        (void) putchar('\n');
        rc = rc ? rc : print_node(c, n);
        add_devices(t, n);
    }
    if (rc == 0 && table_rows(t) > 0) {
        (void) putchar('\n');
        return print_table(c, t);
    }
    table_free(t);
    return rc;
}

struct show_opts {
    bool devices;
};

static const struct opt show_opts[] = {
    { "devices", 0, NULL, "its devices and how they are", OPT_FLAG,
      offsetof(struct show_opts, devices) },
    { .kind = OPT_END },
};

static int run_show(struct cli *c, const void *opts)
{
    autojson json_t *p = NULL;
    const struct show_opts *o = opts;
    int rc = call_get(c, &p, "/v1/pools/%s", c->args[0]);

    return rc ? rc : print_object(c, p, o->devices ? print_devices
                                                   : print_pool);
}

const struct verb verb_pool_show = {
    .name = "pool show",
    .summary = "a pool's nodes and devices, and who holds them",
    .usage = "POOL [--devices]",
    .about = "Says also how limits on memory and CPUs are kept on each node.",
    .examples = "weir pool show local\n"
                "weir pool show local --devices      # busy, memory, "
                "temperature, power",
    .opts = show_opts,
    .size = sizeof(struct show_opts),
    .min_args = 1, .max_args = 1,
    .arg = ARG_POOL,
    .run = run_show,
};
