#include "api/handlers.h"

#include "api/api_int.h"
#include "api/watch.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "core/world.h"
#include "plan/plan.h"
#include "plan/predict.h"
#include "store/store.h"

/* Everything there is to count, in the format of Prometheus. */
enum { METRICS_MAX = 8 * 1024 * 1024 };

static void add_family(struct buf *b, const char *name, const char *type,
                       const char *help)
{
    (void) buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
                      type);
}

static void add_metric(struct buf *b, const char *name, const char *type,
                       const char *help, double value)
{
    add_family(b, name, type, help);
    (void) buf_printf(b, "%s %.17g\n", name, value);
}

/* A label's value: what it may not contain is escaped. */
static void add_label(struct buf *b, const char *s)
{
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            (void) buf_char(b, '\\');
        (void) buf_char(b, *s);
    }
}

static void add_devices(const struct world *w, struct buf *b)
{
    const struct block *k;
    size_t pos = 0;

    add_family(b, "weir_device_free", "gauge",
               "Share of the device that is free (0 when its block is down)");
    while ((k = world_next_block(w, &pos))) {
        for (uint32_t i = 0; i < k->ndevices; i++) {
            (void) buf_str(b, "weir_device_free{pool=\"");
            add_label(b, k->pool);
            (void) buf_str(b, "\",node=\"");
            add_label(b, k->node);
            (void) buf_printf(b, "\",device=\"%u\",model=\"", i);
            add_label(b, k->devices[i].model);
            (void) buf_printf(b, "\",simulated=\"%s\"} %.17g\n",
                              k->devices[i].simulated ? "true" : "false",
                              k->up ? k->devices[i].free_milli / 1000.0 : 0);
        }
    }
}

static void add_pool(const struct call *c, struct buf *b, const char *name)
{
    struct service_pool p;

    if (!c->api->ops->pool(name, &p, c->api->arg))
        return;
    (void) buf_str(b, "weir_pool_reachable{pool=\"");
    add_label(b, name);
    (void) buf_printf(b, "\",engine=\"%s\"} %d\n", p.engine,
                      p.known && p.reachable);
}

/* Our own is known by its block, and has just one. */
static void add_pools(const struct call *c, struct buf *b)
{
    const struct world *w = api_world(c->api);
    const struct block *k;
    const struct pool *p;
    size_t pos = 0;

    add_family(b, "weir_pool_reachable", "gauge",
               "Can what is behind its engine be reached?");
    while ((p = world_next_pool(w, &pos)))
        if (p->set)
            add_pool(c, b, p->name);
    pos = 0;
    while ((k = world_next_block(w, &pos))) {
        p = world_pool(w, k->pool);
        if (!p || !p->set)
            add_pool(c, b, k->pool);
    }
}

/* Numbers of weir-gpud by the names of NVIDIA's DCGM exporter, in its units. */
static const struct {
    const char *field, *name, *type, *help;
    double by;
} gpu_metrics[] = {
#define GAUGE(field, name, by, help) \
    { field, "DCGM_FI_DEV_" name, "gauge", help, by }
#define COUNTER(field, name, by, help) \
    { field, "DCGM_FI_DEV_" name, "counter", help, by }
    GAUGE("utilisation_percent", "GPU_UTIL", 1, "GPU utilization (in %)"),
    GAUGE("memory_utilisation_percent", "MEM_COPY_UTIL", 1,
          "Memory utilization (in %)"),
    GAUGE("memory_used_bytes", "FB_USED", 1.0 / (1 << 20),
          "Memory used (in MiB)"),
    GAUGE("memory_free_bytes", "FB_FREE", 1.0 / (1 << 20),
          "Memory free (in MiB)"),
    GAUGE("memory_reserved_bytes", "FB_RESERVED", 1.0 / (1 << 20),
          "Memory reserved (in MiB)"),
    GAUGE("temperature_celsius", "GPU_TEMP", 1, "GPU temperature (in C)"),
    GAUGE("memory_temperature_celsius", "MEMORY_TEMP", 1,
          "Memory temperature (in C)"),
    GAUGE("power_milliwatts", "POWER_USAGE", 1e-3, "Power draw (in W)"),
    GAUGE("power_limit_milliwatts", "ENFORCED_POWER_LIMIT", 1e-3,
          "Power limit (in W)"),
    COUNTER("energy_millijoules", "TOTAL_ENERGY_CONSUMPTION", 1,
            "Energy since the driver was loaded (in mJ)"),
    GAUGE("sm_clock_mhz", "SM_CLOCK", 1, "SM clock (in MHz)"),
    GAUGE("memory_clock_mhz", "MEM_CLOCK", 1, "Memory clock (in MHz)"),
    GAUGE("clock_reasons_mask", "CLOCKS_EVENT_REASONS", 1,
          "Why clocks are as they are, a mask"),
    COUNTER("ecc_corrected", "ECC_SBE_VOL_TOTAL", 1,
            "Corrected ECC errors since the driver was loaded"),
    COUNTER("ecc_uncorrected", "ECC_DBE_VOL_TOTAL", 1,
            "Uncorrected ECC errors since the driver was loaded"),
    COUNTER("ecc_corrected_life", "ECC_SBE_AGG_TOTAL", 1,
            "Corrected ECC errors ever"),
    COUNTER("ecc_uncorrected_life", "ECC_DBE_AGG_TOTAL", 1,
            "Uncorrected ECC errors ever"),
    COUNTER("remapped_rows_corrected", "CORRECTABLE_REMAPPED_ROWS", 1,
            "Rows remapped for correctable errors"),
    COUNTER("remapped_rows_uncorrected", "UNCORRECTABLE_REMAPPED_ROWS", 1,
            "Rows remapped for uncorrectable errors"),
    GAUGE("remapped_rows_pending", "ROW_REMAP_PENDING", 1,
          "Is a row to be remapped at the next reset?"),
    GAUGE("remapped_rows_failed", "ROW_REMAP_FAILURE", 1,
          "Has remapping a row failed?"),
    COUNTER("pcie_replays", "PCIE_REPLAY_COUNTER", 1, "PCIe replays"),
    GAUGE("xid", "XID_ERRORS", 1, "The last XID"),
#undef GAUGE
#undef COUNTER
};

static void add_gpu(struct buf *b, const struct block *k, uint32_t i,
                    const char *name, double value)
{
    const struct device *d = &k->devices[i];

    (void) buf_printf(b, "%s{gpu=\"%u\",UUID=\"", name, i);
    add_label(b, d->uuid);
    (void) buf_str(b, "\",modelName=\"");
    add_label(b, d->model);
    (void) buf_str(b, "\",Hostname=\"");
    add_label(b, k->node);
    (void) buf_str(b, "\",pool=\"");
    add_label(b, k->pool);
    (void) buf_printf(b, "\",simulated=\"%s\"} %.17g\n",
                      d->simulated ? "true" : "false", value);
}

/* A number that is not told is left out. */
static void add_gpus(const struct call *c, struct buf *b, size_t m)
{
    const struct world *w = api_world(c->api);
    const struct block *k;
    bool any = false;
    size_t pos = 0;

    while ((k = world_next_block(w, &pos)))
        for (uint32_t i = 0; i < k->ndevices; i++) {
            const char *uuid = k->devices[i].uuid;
            const json_t *t = uuid[0] ? c->api->ops->telemetry(k->id, uuid,
                                                        c->api->arg) : NULL;

            if (!json_object_get(t, gpu_metrics[m].field))
                continue;
            if (!any)
                add_family(b, gpu_metrics[m].name, gpu_metrics[m].type,
                           gpu_metrics[m].help);
            any = true;
            add_gpu(b, k, i, gpu_metrics[m].name, gpu_metrics[m].by *
                    (double) json_get_u64(t, gpu_metrics[m].field, 0));
        }
}

/* Of those that weir-gpud can name. */
static void add_health(const struct world *w, struct buf *b)
{
    const struct block *k;
    bool any = false;
    size_t pos = 0;

    while ((k = world_next_block(w, &pos)))
        for (uint32_t i = 0; i < k->ndevices; i++) {
            if (!k->devices[i].uuid[0])
                continue;
            if (!any)
                add_family(b, "weir_device_health", "gauge", "What its health "
                           "asks for: 0 nothing, 1 note, 2 alert, 3 cordon, "
                           "4 drain, 5 move, 6 restart");
            any = true;
            add_gpu(b, k, i, "weir_device_health", k->devices[i].remedy);
        }
}

/* Those that are off devices which they did not use, and do not want yet. */
static uint64_t idle_of(const struct workload *wl)
{
    uint64_t n = 0;

    if (wl->count[TASK_SUSPENDED] == 0)
        return 0;
    for (uint32_t i = 0; i < wl->spec->ntasks; i++)
        n += wl->tasks[i].state == TASK_SUSPENDED && wl->tasks[i].away->idle;
    return n;
}

static void add_tasks(const struct world *w, struct buf *b)
{
    uint64_t count[TASK_STATE_COUNT] = { 0 }, workloads = 0, idle = 0;
    const struct workload *wl;
    size_t pos = 0;

    while ((wl = world_next(w, &pos))) {
        workloads++;
        idle += idle_of(wl);
        for (int i = 0; i < TASK_STATE_COUNT; i++)
            count[i] += wl->count[i];
    }
    add_metric(b, "weir_workloads", "gauge", "Workloads that have not ended",
               (double) workloads);
    add_family(b, "weir_tasks", "gauge", "Tasks of those workloads, by state");
    for (int i = 0; i < TASK_STATE_COUNT; i++)
        (void) buf_printf(b, "weir_tasks{state=\"%s\"} %llu\n",
                          task_state_name((enum task_state) i),
                          (unsigned long long) count[i]);
    add_metric(b, "weir_tasks_idle", "gauge", "Suspended tasks that did not "
               "use their devices, and have not wanted them since",
               (double) idle);
    add_metric(b, "weir_tasks_ready", "gauge", "Ready tasks that wait",
               world_waiting(w));
}

/* Shares of time, which are in milliseconds times 1000. */
static void add_shares(struct buf *b, const char *name, const char *help,
                       const struct plan_shares *s)
{
    const struct { const char *kind; uint64_t milli_ms; } kinds[] = {
        { "used", s->used }, { "waste", s->waste },
        { "idle_frag", s->idle_frag },
        { "idle_nodemand", s->idle_nodemand },
    };

    add_family(b, name, "counter", help);
    for (size_t i = 0; i < array_size(kinds); i++)
        (void) buf_printf(b, "%s{kind=\"%s\"} %.3f\n", name, kinds[i].kind,
                          (double) kinds[i].milli_ms / 1e6);
}

/* The same device-time by pool and model. */
static void add_parts(const struct world *w, struct buf *b)
{
    static const char *const kinds[] = { "used", "waste", "idle_frag",
                                         "idle_nodemand" };
    autojson json_t *parts = view_meter_parts(w);
    const json_t *p;
    size_t i;

    add_family(b, "weir_pool_device_seconds_total", "counter",
               "Device-time of each pool and model, by what it was");
    json_array_foreach(parts, i, p) {
        for (size_t k = 0; k < array_size(kinds); k++) {
            (void) buf_str(b, "weir_pool_device_seconds_total{pool=\"");
            add_label(b, json_get_str(p, "pool", ""));
            (void) buf_str(b, "\",model=\"");
            add_label(b, json_get_str(p, "model", ""));
            (void) buf_printf(b, "\",kind=\"%s\"} %.3f\n", kinds[k],
                              json_get_number(p, kinds[k]));
        }
    }
}

static void add_seen(struct buf *b, const char *pool, const json_t *total)
{
    static const char *const kinds[] = { "used", "waste", "idle_frag",
                                         "idle_nodemand" };
    const char *model;
    json_t *m;

    json_object_foreach(json_object_get(total, "models"), model, m) {
        for (size_t k = 0; k < array_size(kinds); k++) {
            (void) buf_str(b, "weir_observed_device_seconds_total{pool=\"");
            add_label(b, pool);
            (void) buf_str(b, "\",model=\"");
            add_label(b, model);
            (void) buf_printf(b, "\",kind=\"%s\"} %.0f\n", kinds[k],
                              json_get_number(m, kinds[k]));
        }
    }
}

/* Of pools that are looked at only: those of others are not in our meter. */
static void add_observed(const struct call *c, struct buf *b)
{
    const struct world *w = api_world(c->api);
    autojson json_t *totals = json_object();
    const struct pool *p;
    const char *pool;
    size_t pos = 0;
    json_t *total;

    while ((p = world_next_pool(w, &pos))) {
        total = c->api->ops->pool_totals(p->name, c->api->arg);
        if (total)
            json_put(totals, p->name, total);
    }
    if (json_object_size(totals) == 0)
        return;
    add_family(b, "weir_observed_device_seconds_total", "counter",
               "Device-time of pools that are looked at only, by what it was, "
               "as far as this control plane has seen it");
    json_object_foreach(totals, pool, total)
        add_seen(b, pool, total);
    add_family(b, "weir_observed_seconds_total", "counter",
               "Time for which such a pool was seen");
    json_object_foreach(totals, pool, total) {
        (void) buf_str(b, "weir_observed_seconds_total{pool=\"");
        add_label(b, pool);
        (void) buf_printf(b, "\"} %.0f\n", json_get_number(total, "seen"));
    }
}

static void add_tenant_value(struct buf *b, const char *name,
                             const struct tenant *t, double value)
{
    (void) buf_printf(b, "%s{tenant=\"", name);
    add_label(b, t->name);
    (void) buf_printf(b, "\"} %.17g\n", value);
}

/* Of the tenants that the caller may see. */
static void add_tenants(const struct call *c, struct buf *b)
{
    static const struct { const char *name, *type, *help; } families[] = {
        { "weir_tenant_devices", "gauge", "Devices held right now" },
        { "weir_tenant_device_seconds_total", "counter",
          "Device-time that was used" },
        { "weir_tenant_cost_total", "counter",
          "What it costs by the prices of the policy" },
        { "weir_tenant_over_budget", "gauge",
          "1 while nothing new starts for lack of budget" },
        { "weir_tenant_idle_device_seconds_total", "counter",
          "Device-time that stood idle while it waited for devices" },
    };
    const struct tenant *t;

    for (size_t i = 0; i < array_size(families); i++) {
        size_t pos = 0;

        add_family(b, families[i].name, families[i].type, families[i].help);
        while ((t = world_next_tenant(api_world(c->api), &pos))) {
            const double values[] = {
                t->used_gpu_milli / 1000.0, (double) t->used_gpu_ms / 1000,
                (double) t->used_cost_micro / 1e6, t->budget.over,
                (double) tenant_idle_ms(api_world(c->api), t,
                                        api_now(c->api)) / 1000,
            };

            if (!t->removed && auth_sees(c->api, &c->who, t->name))
                add_tenant_value(b, families[i].name, t, values[i]);
        }
    }
}

/* How good predictions are: the share of ends below each quantile. */
static void add_prediction(const struct world *w, struct buf *b)
{
    struct predict_quality q;

    predict_quality(world_predict(w), &q);
    add_metric(b, "weir_prediction_ends_total", "counter",
               "Ends that a prediction was compared with", (double) q.ends);
    add_family(b, "weir_prediction_below", "gauge", "Share of ends before the "
               "predicted quantile; best: the quantile");
    (void) buf_printf(b, "weir_prediction_below{quantile=\"0.1\"} %.17g\n"
                      "weir_prediction_below{quantile=\"0.5\"} %.17g\n"
                      "weir_prediction_below{quantile=\"0.9\"} %.17g\n",
                      q.below_low, q.below_mid, q.below_high);
    add_metric(b, "weir_prediction_error", "gauge",
               "Median of how far the predicted time is off, as a share of it",
               q.error);
    add_metric(b, "weir_policy_version", "gauge",
               "Version of the policy in force",
               (double) world_policy_version(w));
}

static void add_meter(const struct call *c, struct buf *b)
{
    const struct plan_shares *d;
    struct plan_meter m;
    uint64_t total;

    api_meter(c->api, &m);
    d = &m.devices;
    total = plan_shares_total(d);
    add_metric(b, "weir_wr", "gauge", "Wastage ratio since the beginning",
               total ? (double) (d->waste + d->idle_frag) / (double) total
                     : 0);
    add_shares(b, "weir_device_seconds_total",
               "Device-time since the beginning, by what it was", d);
    add_shares(b, "weir_cpu_seconds_total",
               "CPU-time since the beginning, by what it was", &m.cpus);
    add_parts(api_world(c->api), b);
}

static void add_store(const struct call *c, struct buf *b)
{
    struct store_stat s;

    store_stat(api_store(c->api), &s);
    add_metric(b, "weir_events_total", "counter", "Number of the newest event",
               (double) world_seq(api_world(c->api)));
    add_metric(b, "weir_store_commits_total", "counter", "Transactions written",
               (double) s.commits);
    add_metric(b, "weir_store_commit_seconds_total", "counter",
               "Time spent writing them", (double) s.synced_ms / 1000);
    add_metric(b, "weir_store_bytes", "gauge", "Size of the store",
               (double) s.bytes);
    add_metric(b, "weir_store_refusing", "gauge", "1 while writes are refused",
               c->api->ops->trouble(c->api->arg)[0] ? 1 : 0);
}

static void add_http(const struct call *c, struct buf *b)
{
    struct http_stat sum = { 0 };

    for (size_t i = 0; i < array_size(c->api->http); i++) {
        struct http_stat s = { 0 };

        if (c->api->http[i])
            http_stat(c->api->http[i], &s);
        sum.connections += s.connections;
        for (size_t k = 0; k < array_size(s.answers); k++)
            sum.answers[k] += s.answers[k];
    }
    add_family(b, "weir_http_answers_total", "counter", "Answers, by status");
    for (size_t k = 1; k < array_size(sum.answers); k++)
        (void) buf_printf(b, "weir_http_answers_total{code=\"%zuxx\"} %llu\n",
                          k, (unsigned long long) sum.answers[k]);
    add_metric(b, "weir_http_connections", "gauge", "Open connections",
               (double) sum.connections);
    add_metric(b, "weir_watchers", "gauge", "Streams of events",
               watchers_count(c->api->watchers));
}

void get_metrics(struct call *c)
{
    autobuf struct buf b = BUF_INIT(METRICS_MAX);

    add_family(&b, "weir_info", "gauge", "Version");
    (void) buf_printf(&b, "weir_info{version=\"%s\"} 1\n", WEIR_VERSION);
    add_metric(&b, "weir_uptime_seconds", "gauge", "Time since the start",
               (double) (clock_wall_ms() - c->api->started_ms) / 1000);
    add_devices(api_world(c->api), &b);
    add_pools(c, &b);
    for (size_t m = 0; m < array_size(gpu_metrics); m++)
        add_gpus(c, &b, m);
    add_health(api_world(c->api), &b);
    add_tasks(api_world(c->api), &b);
    add_meter(c, &b);
    add_observed(c, &b);
    add_tenants(c, &b);
    add_prediction(api_world(c->api), &b);
    add_store(c, &b);
    add_http(c, &b);
    reply_text(c, 200, "text/plain; version=0.0.4; charset=utf-8",
               buf_text(&b));
}
