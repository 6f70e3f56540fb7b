#include "api/handlers.h"

#include "api/api_int.h"
#include "api/watch.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "core/world.h"
#include "spec/doc.h"
#include "spec/policy_doc.h"
#include "store/store.h"

#include <string.h>

/* What the service says about itself. */
enum { METRICS_MAX = 8 * 1024 * 1024 };

void get_healthz(struct call *c)
{
    reply_text(c, 200, "text/plain", "ok\n");
}

void get_readyz(struct call *c)
{
    const char *trouble = c->api->ops->trouble(c->api->arg);

    if (*trouble)                      /* not ready, whatever the reason */
        reply_error(c, 503, "%s", trouble);
    else
        reply_text(c, 200, "text/plain", "ok\n");
}

void get_openapi(struct call *c)
{
    reply_text(c, 200, "application/json", api_openapi());
}

void get_schema(struct call *c)
{
    const char *of = call_arg(c, "of");

    reply_text(c, 200, "application/schema+json",
               of && strcmp(of, "policy") == 0 ? policy_doc_schema() :
               doc_schema());
}

void get_version(struct call *c)
{
    json_t *o = json_object();

    json_put_str(o, "version", WEIR_VERSION);
    json_put_u64(o, "api", 1);
    reply_json(c, 200, o);
}

void get_stat(struct call *c)
{
    reply_json(c, 200, c->api->ops->stat(c->api->arg));
}

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

static void add_tasks(const struct world *w, struct buf *b)
{
    uint64_t count[TASK_STATE_COUNT] = { 0 }, workloads = 0;
    const struct workload *wl;
    size_t pos = 0;

    while ((wl = world_next(w, &pos))) {
        workloads++;
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
    add_metric(b, "weir_tasks_ready", "gauge", "Ready tasks that wait",
               world_waiting(w));
}

static void add_meter(const struct call *c, struct buf *b)
{
    struct meter m;
    double total;

    world_meter(api_world(c->api), api_now(c->api), &m);
    total = m.total ? (double) m.total : 1;
    add_metric(b, "weir_wr", "gauge", "Wastage ratio since the beginning",
               (double) (m.waste + m.idle_frag) / total);
    add_family(b, "weir_device_seconds_total", "counter",
               "Device-time since the beginning, by what it was");
    (void) buf_printf(b, "weir_device_seconds_total{kind=\"used\"} %.3f\n"
                      "weir_device_seconds_total{kind=\"waste\"} %.3f\n"
                      "weir_device_seconds_total{kind=\"idle_frag\"} %.3f\n"
                      "weir_device_seconds_total{kind=\"idle_nodemand\"} "
                      "%.3f\n", (double) m.used / 1000,
                      (double) m.waste / 1000, (double) m.idle_frag / 1000,
                      (double) m.idle_nodemand / 1000);
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
    add_tasks(api_world(c->api), &b);
    add_meter(c, &b);
    add_store(c, &b);
    add_http(c, &b);
    reply_text(c, 200, "text/plain; version=0.0.4; charset=utf-8",
               buf_text(&b));
}
