#include "cli/waste.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "cli/call.h"
#include "cli/print.h"
#include "cli/verbs.h"
#include "sim/observed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { OUT_MAX = 64 * 1024 * 1024, ROWS = 10 };

struct waste_opts {
    const char *since;
    bool plan;
};

static const struct opt waste_opts[] = {
    { "since", 0, "TIME", "from then on: a date, or so long ago (7d)",
      OPT_TEXT, offsetof(struct waste_opts, since) },
    { "plan", 0, NULL, "and what Weir's plan would have done with the same "
      "pods", OPT_FLAG, offsetof(struct waste_opts, plan) },
    { .kind = OPT_END },
};

const char *waste_number(double v, char *buf)
{
    if (fabs(v) < 99.95)
        (void) snprintf(buf, HUMAN_SIZE, "%.1f", v);
    else
        (void) human_count((uint64_t) llround(v), buf);
    return buf;
}

const char *waste_hours(double seconds, char *buf)
{
    return waste_number(seconds / 3600, buf);
}

/* ---- table ---- */

static const struct table_column share_columns[] = {
    { .name = "GPUS" }, { .name = "HOURS", .right = true },
    { .name = "SHARE", .right = true }, { .name = "COST", .right = true },
    { .name = "WHAT IT IS" }, { .name = NULL },
};

static const struct {
    const char *key, *name, *what;
    enum style style;
} kinds[] = {
    { "used", "in use", "held by a pod", STYLE_GOOD },
    { "waste", "wasted", "idle while a pod waited that would have fitted",
      STYLE_BAD },
    { "idle_frag", "fragments", "idle while pods waited and none would have "
      "fitted", STYLE_WAIT },
    { "idle_nodemand", "not wanted", "idle while no pod waited for GPUs",
      STYLE_DIM },
};

static void add_share(struct table *t, const json_t *d, size_t k)
{
    double all = json_get_number(d, "total");
    double v = json_get_number(d, kinds[k].key);
    char buf[HUMAN_SIZE];

    table_add(t, kinds[k].style, kinds[k].name);
    table_add(t, STYLE_PLAIN, waste_hours(v, buf));
    table_add(t, STYLE_PLAIN, human_share(all > 0 ? v / all : 0, buf));
    table_add(t, STYLE_PLAIN, waste_number(json_get_number(
              json_object_get(d, "cost"), kinds[k].key), buf));
    table_add(t, STYLE_DIM, kinds[k].what);
}

static int print_shares(struct cli *c, const json_t *w)
{
    struct table *t = table_new(share_columns);

    for (size_t k = 0; k < array_size(kinds); k++)
        add_share(t, json_object_get(w, "devices"), k);
    return print_table(c, t);
}

static const struct table_column space_columns[] = {
    { .name = "NAMESPACE" }, { .name = "GPU-HOURS", .right = true },
    { .name = "COST", .right = true },
    { .name = "WAITED FOR", .right = true },
    { .name = "CPU-HOURS", .right = true }, { .name = NULL },
};

static int print_spaces(struct cli *c, const json_t *w)
{
    const json_t *list = json_object_get(w, "namespaces"), *o;
    struct table *t = table_new(space_columns);
    char buf[HUMAN_SIZE];
    size_t i;

    json_array_foreach(list, i, o) {
        if (i == ROWS && c->out != OUT_WIDE)
            break;
        table_add(t, STYLE_BOLD, json_get_str(o, "name", ""));
        table_add(t, STYLE_PLAIN, waste_hours(json_get_number(o,
                  "device_seconds"), buf));
        table_add(t, STYLE_PLAIN, waste_number(json_get_number(o, "cost"),
                                               buf));
        table_add(t, STYLE_PLAIN, waste_hours(json_get_number(o,
                  "waited_device_seconds"), buf));
        table_add(t, STYLE_PLAIN, waste_hours(json_get_number(o,
                  "cpu_seconds"), buf));
    }
    return print_table(c, t);
}

static const struct table_column wait_columns[] = {
    { .name = "POD" }, { .name = "GPUS", .right = true },
    { .name = "WAITED", .right = true },
    { .name = "A NODE HAD ROOM", .right = true }, { .name = "NOW" },
    { .name = "WHY" }, { .name = NULL },
};

static int print_waits(struct cli *c, const json_t *w)
{
    struct table *t = table_new(wait_columns);
    char buf[HUMAN_SIZE];
    const json_t *o;
    size_t i;

    json_array_foreach(json_object_get(w, "waits"), i, o) {
        if (i == ROWS && c->out != OUT_WIDE)
            break;
        table_add(t, STYLE_BOLD, json_get_str(o, "pod", ""));
        table_printf(t, STYLE_PLAIN, "%.0f", json_get_number(o, "devices"));
        table_add(t, STYLE_PLAIN, human_span(json_get_u64(o, "wait_seconds",
                                                          0) * 1000, buf));
        table_add(t, STYLE_PLAIN, human_span(json_get_u64(o, "fits_seconds",
                                                          0) * 1000, buf));
        table_add(t, json_get_bool(o, "going", false) ? STYLE_WAIT
                                                      : STYLE_DIM,
                  json_get_bool(o, "going", false) ? "waits" : "over");
        table_add(t, STYLE_PLAIN, json_get_str(o, "why", ""));
    }
    return print_table(c, t);
}

/* What it comes to, in words. */
static void print_head(const json_t *w)
{
    const json_t *d = json_object_get(w, "devices");
    const json_t *cost = json_object_get(d, "cost");
    double idle = json_get_number(d, "waste") + json_get_number(d,
                                                                "idle_frag");
    double seen = json_get_number(w, "seen_seconds");
    double all = seen + json_get_number(w, "not_seen_seconds");
    char a[HUMAN_SIZE], b[HUMAN_SIZE];

    printf("pool %s, %s to ", json_get_str(w, "pool", ""),
           get_clock(w, "from", a));
    printf("%s, seen for %s of it\n\n", get_clock(w, "to", a),
           human_share(all > 0 ? seen / all : 0, b));
    printf("%s GPU-hours stood idle while somebody waited for GPUs: %s of "
           "all.\n", waste_hours(idle, a),
           human_share(json_get_number(d, "wr"), b));
    printf("They cost %s; those who waited asked for at most %s of them.\n",
           waste_number(json_get_number(cost, "waste") +
                        json_get_number(cost, "idle_frag"), a),
           waste_hours(json_get_number(d, "asked"), b));
    printf("%.0f pods with GPUs started, after %s on average.\n\n",
           json_get_number(w, "starts"),
           human_span((uint64_t) (json_get_number(w, "average_wait_seconds") *
                                  1000), a));
}

static void print_plan(const json_t *w)
{
    const json_t *p = json_object_get(w, "plan");
    char a[HUMAN_SIZE], b[HUMAN_SIZE];

    if (!p)
        return;
    if (json_get_str(p, "why", NULL)) {
        printf("\nWhat Weir's plan would have done is not known: %s.\n",
               json_get_str(p, "why", ""));
        return;
    }
    printf("\nWith the same %.0f pods, Weir's plan on a virtual clock has them "
           "wait %s on\naverage, and not ", json_get_number(p, "pods"),
           human_span((uint64_t) (1000 * json_get_number(p,
                      "average_wait_seconds_plan")), a));
    printf("%s; ", human_span((uint64_t) (1000 * json_get_number(p,
                              "average_wait_seconds")), a));
    printf("their wastage %s, and not %s.  Lengths, CPUs and GPUs are\nas seen; "
           "models, labels, taints and gangs count for nothing there; pods "
           "that never\nstarted, and %.0f others, are left out.\n",
           human_share(json_get_number(p, "wr_plan"), a),
           human_share(json_get_number(p, "wr"), b),
           json_get_number(p, "left_out"));
}

static int print_waste(struct cli *c, const json_t *w)
{
    int rc;

    print_head(w);
    rc = print_shares(c, w);
    print_plan(w);
    if (rc == 0 && json_array_size(json_object_get(w, "namespaces"))) {
        (void) putchar('\n');
        rc = print_spaces(c, w);
    }
    if (rc == 0 && json_array_size(json_object_get(w, "waits"))) {
        (void) putchar('\n');
        rc = print_waits(c, w);
    }
    return rc;
}

/* ---- csv ---- */

void waste_csv(const json_t *pools, struct buf *out)
{
    const json_t *w, *p;
    size_t i, k;

    (void) buf_str(out, "pool,from,seconds,seen_seconds,used,waste,idle_frag,"
                   "idle_nodemand\n");
    json_array_foreach(pools, i, w)
        json_array_foreach(json_object_get(w, "series"), k, p)
            (void) buf_printf(out, "%s,%s,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f\n",
                              json_get_str(w, "pool", ""),
                              json_get_str(p, "from", ""),
                              json_get_number(p, "seconds"),
                              json_get_number(p, "seen_seconds"),
                              json_get_number(p, "used"),
                              json_get_number(p, "waste"),
                              json_get_number(p, "idle_frag"),
                              json_get_number(p, "idle_nodemand"));
}

/* ---- what is asked ---- */

/* What our plan would have done with its jobs, in their place. */
static int add_plan(struct cli *c, const char *pool, json_t *w)
{
    autojson json_t *nodes = NULL;
    struct err err = { 0 };
    struct observed o;
    int rc = call_get(c, &nodes, "/v1/pools/%s", pool);

    if (rc)
        return rc;
    if (observed_play(w, nodes, &o, &err) < 0)
        json_put(w, "plan", json_pack("{s:s}", "why", err.text));
    else
        json_put(w, "plan", json_pack(
            "{s:I,s:I,s:f,s:f,s:f,s:f}", "pods", (json_int_t) o.pods,
            "left_out", (json_int_t) o.left_out, "average_wait_seconds",
            o.wait_s, "average_wait_seconds_plan", o.plan_wait_s, "wr", o.wr,
            "wr_plan", o.plan_wr));
    (void) json_object_del(w, "jobs");
    return 0;
}

static int ask(struct cli *c, const char *pool, const struct waste_opts *o,
               json_t *list)
{
    autofree char *from = call_path("%s", o->since ? o->since : "7d");
    autofree char *name = call_path("%s", pool);
    autofree char *path = mem_printf("/v1/waste/%s?since=%s%s", name, from,
                                     o->plan ? "&jobs=1" : "");
    json_t *w = NULL;
    int rc = call_json(c, "GET", path, NULL, &w);

    if (rc)
        return rc;
    (void) json_array_append_new(list, w);
    return o->plan ? add_plan(c, pool, w) : 0;
}

/* Those that were named, or all that are observed. */
static int ask_all(struct cli *c, const struct waste_opts *o, json_t *list)
{
    autojson json_t *pools = NULL;
    const json_t *p;
    size_t i;
    int rc = 0;

    for (unsigned k = 0; k < c->nargs && rc == 0; k++)
        rc = ask(c, c->args[k], o, list);
    if (c->nargs || rc)
        return rc;
    rc = call_get(c, &pools, "/v1/pools");
    json_array_foreach(json_object_get(pools, "items"), i, p)
        if (rc == 0 && json_get_bool(p, "observe", false))
            rc = ask(c, json_get_str(p, "name", ""), o, list);
    if (rc == 0 && json_array_size(list) == 0)
        return cli_fail(c, CLI_MISSING, "no pool is looked at only; 'weir "
                        "pool add NAME --engine kubernetes --observe' adds "
                        "one, and 'weir top' has our own waste");
    return rc;
}

static int print_report(const struct cli *c, const json_t *list)
{
    autobuf struct buf b = BUF_INIT(OUT_MAX);

    if (c->out == OUT_HTML)
        waste_html(list, &b);
    else
        waste_csv(list, &b);
    if (b.over)
        return cli_fail(c, CLI_BROKEN, "the report is longer than %d bytes",
                        OUT_MAX);
    return print_buf(c, &b);
}

static int run_waste(struct cli *c, const void *opts)
{
    const struct waste_opts *o = opts;
    autojson json_t *list = json_array();
    autojson json_t *items = NULL;
    uint64_t ms;
    int rc;

    if (o->since && quantity_duration(o->since, &ms, NULL) < 0 &&
        clock_parse(o->since, &ms, NULL) < 0)
        return cli_fail(c, CLI_USAGE, "--since: expected a date such as "
                        "2030-01-31T18:00:00Z, or so long ago such as 7d, "
                        "got '%s'", o->since);
    rc = ask_all(c, o, list);
    if (rc)
        return rc;
    if (c->out == OUT_HTML || c->out == OUT_CSV)
        return print_report(c, list);
    if (c->out == OUT_JSON) {
        items = json_pack("{s:O}", "items", list);
        return print_json(c, items);
    }
    for (size_t i = 0; i < json_array_size(list) && rc == 0; i++) {
        if (i)
            (void) putchar('\n');
        rc = print_waste(c, json_array_get(list, i));
    }
    return rc;
}

const struct verb verb_waste = {
    .name = "waste",
    .summary = "what stands idle in clusters that are looked at, and for whom",
    .usage = "[POOL...] [--since TIME] [--plan]",
    .about = "Of pools added with --observe, all of them unless named.  WASTED "
             "is what stood idle\nwhile a pod waited that would have fitted, "
             "FRAGMENTS while pods waited and none\nwould have; both together "
             "are the wastage.  COST is by the prices of the policy.\nA NODE "
             "HAD ROOM is how long of its wait a pod would have fitted.  "
             "-o html makes a\npage to show around, -o csv has the shares "
             "over time.",
    .examples = "weir waste\n"
                "weir waste lab --since 24h\n"
                "weir waste --since 7d --plan -o html > waste.html",
    .opts = waste_opts,
    .size = sizeof(struct waste_opts),
    .max_args = 16,
    .arg = ARG_POOL,
    .reports = true,
    .run = run_waste,
};
