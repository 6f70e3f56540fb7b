#include "cli/verbs.h"

#include "base/json.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/print.h"

#include <stdio.h>

/* ---- ls ---- */

static const struct table_column pool_columns[] = {
    { .name = "POOL" }, { .name = "ENGINE" },
    { .name = "NODES", .right = true },
    { .name = "DEVICES", .right = true }, { .name = "FREE", .right = true },
    { .name = "CPUS", .right = true }, { .name = "FREE", .right = true },
    { .name = "MEMORY", .right = true }, { .name = "FREE", .right = true },
    { .name = "" }, { .name = NULL },
};

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
    table_add(t, STYLE_BOLD, json_get_str(p, "name", ""));
    table_add(t, STYLE_PLAIN, json_get_str(p, "engine", ""));
    table_printf(t, STYLE_PLAIN, "%zu",
                 json_array_size(json_object_get(p, "nodes")));
    add_pair(t, p, "devices");
    add_pair(t, p, "cpus");
    add_memory(t, p);
    table_add(t, STYLE_WAIT,
              json_get_bool(p, "simulated", false) ? "simulated" : "");
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
        bool drained = json_get_bool(d, "drained", false);
        char buf[HUMAN_SIZE];

        table_add(t, STYLE_PLAIN, json_get_str(node, "name", ""));
        table_add(t, STYLE_BOLD, get_number(d, "index", buf));
        table_printf(t, drained ? STYLE_WAIT : STYLE_PLAIN, "%s%s",
                     json_get_str(d, "model", "?"),
                     simulated && drained ? " (simulated, drained)" :
                     simulated ? " (simulated)" : drained ? " (drained)" :
                     "");
        table_add(t, STYLE_PLAIN, human_bytes(json_get_u64(d, "memory", 0),
                                              buf));
        table_add(t, STYLE_PLAIN, get_number(d, "free", buf));
        table_add(t, STYLE_PLAIN, held);
    }
}

static int print_node(struct cli *c, const json_t *n)
{
    const json_t *cpus = json_object_get(n, "cpus");
    const json_t *memory = json_object_get(n, "memory");
    struct table *t = sheet_new();
    char a[HUMAN_SIZE], b[HUMAN_SIZE];

    sheet_printf(t, "node", "%s%s%s", json_get_str(n, "name", ""),
                 json_get_bool(n, "up", true) ? "" : ", down",
                 json_get_bool(n, "drained", false) ? ", drained" : "");
    sheet_add(t, "block", json_get_str(n, "block", ""));
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

static int print_pool(struct cli *c, const json_t *p)
{
    struct table *t = table_new(device_columns);
    const json_t *n;
    size_t i;
    int rc = 0;

    printf("pool %s (%s%s)\n", json_get_str(p, "name", ""),
           json_get_str(p, "engine", ""),
           json_get_bool(p, "simulated", false) ? ", devices simulated" : "");
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

static int run_show(struct cli *c, const void *opts)
{
    autojson json_t *p = NULL;
    int rc = call_get(c, &p, "/v1/pools/%s", c->args[0]);

    (void) opts;
    return rc ? rc : print_object(c, p, print_pool);
}

const struct verb verb_pool_show = {
    .name = "pool show",
    .summary = "a pool's nodes and devices, and who holds them",
    .usage = "POOL",
    .about = "Says also how limits on memory and CPUs are kept on each node.",
    .examples = "weir pool show local",
    .opts = no_opts,
    .min_args = 1, .max_args = 1,
    .arg = ARG_POOL,
    .run = run_show,
};
