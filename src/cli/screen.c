#include "cli/screen.h"

#include "base/json.h"
#include "base/mem.h"
#include "cli/human.h"
#include "cli/print.h"
#include "cli/table.h"

#include <inttypes.h>
#include <string.h>

enum { BAR = 10, DEVICES_SHOWN = 32 };

double screen_wr_between(const json_t *before, const json_t *after)
{
    double from = json_get_number(before, "total_device_seconds");
    double to = json_get_number(after, "total_device_seconds");

    if (!before || to <= from)
        return -1;
    return (json_get_number(after, "wr") * to -
            json_get_number(before, "wr") * from) / (to - from);
}

/* ---- the head ---- */

static void paint_head(const struct screen *s, struct paint *p)
{
    double now = screen_wr_between(s->before, s->waste);
    char a[HUMAN_SIZE];

    paint_add(p, STYLE_BOLD, "weir top");
    paint_printf(p, STYLE_PLAIN, "   WR %s", human_share(
                 json_get_number(s->waste, "wr"), a));
    paint_printf(p, STYLE_DIM, " (waste %s",
                 human_share(json_get_number(s->waste, "waste"), a));
    paint_printf(p, STYLE_DIM, ", fragments %s)",
                 human_share(json_get_number(s->waste, "idle_frag"), a));
    if (now >= 0)
        paint_printf(p, now > 0.005 ? STYLE_BAD : STYLE_GOOD, "   now %s",
                     human_share(now, a));
    paint_printf(p, STYLE_PLAIN, "   used %s",
                 human_share(json_get_number(s->waste, "used"), a));
    paint_printf(p, STYLE_PLAIN, "   idle %s",
                 human_share(json_get_number(s->waste, "idle_nodemand"), a));
    paint_printf(p, STYLE_PLAIN, "   %s waiting",
                 human_count(json_get_u64(s->waste, "waiting", 0), a));
    paint_end(p);
}

/* Where the device-time of each pool and model went, when there are several. */
static void paint_parts(const struct screen *s, struct paint *p)
{
    const json_t *parts = json_object_get(s->waste, "parts"), *part;
    char a[HUMAN_SIZE];
    size_t i;

    if (json_array_size(parts) < 2)
        return;
    json_array_foreach(parts, i, part) {
        paint_printf(p, STYLE_PLAIN, "  %-10s %-12s",
                     json_get_str(part, "pool", ""),
                     json_get_str(part, "model", ""));
        paint_printf(p, STYLE_PLAIN, "  WR %6s",
                     human_share(json_get_number(part, "wr"), a));
        paint_printf(p, STYLE_PLAIN, "   used %6s",
                     human_share(json_get_number(part, "utilisation"), a));
        paint_end(p);
    }
}

/* ---- pools ---- */

static void paint_holders(struct paint *p, const json_t *device)
{
    const char *last = "";
    const json_t *l;
    size_t i;

    json_array_foreach(json_object_get(device, "leases"), i, l) {
        const char *id = json_get_str(l, "workload", NULL);
        const char *tenant = json_get_str(l, "tenant", "");

        if (i)
            paint_add(p, STYLE_DIM, ", ");
        if (!id) {
            paint_add(p, STYLE_DIM, "another tenant");
            continue;
        }
        if (strcmp(tenant, last) != 0)
            paint_printf(p, STYLE_BOLD, "%s ", tenant);
        paint_printf(p, STYLE_PLAIN, "%s/%s", id,
                     json_get_str(l, "task", ""));
        last = tenant;
    }
}

/* How it is, where somebody tells. */
static void paint_telemetry(struct paint *p, const json_t *t)
{
    if (json_object_get(t, "utilisation_percent"))
        paint_printf(p, STYLE_DIM, "busy %" PRIu64 "%% ",
                     json_get_u64(t, "utilisation_percent", 0));
    if (json_object_get(t, "temperature_celsius"))
        paint_printf(p, STYLE_DIM, "%" PRIu64 " C ",
                     json_get_u64(t, "temperature_celsius", 0));
    if (json_object_get(t, "power_milliwatts"))
        paint_printf(p, STYLE_DIM, "%" PRIu64 " W ",
                     json_get_u64(t, "power_milliwatts", 0) / 1000);
}

/* What its health asks for. */
static void paint_health(struct paint *p, const json_t *d)
{
    const char *action = json_get_str(json_object_get(d, "health"), "action",
                                      NULL);

    if (action)
        paint_printf(p, *get_closed(d) ? STYLE_BAD : STYLE_WAIT, "%s ",
                     action);
}

static void paint_device(struct paint *p, const json_t *d)
{
    double used = 1 - json_get_number(d, "free");

    paint_printf(p, STYLE_PLAIN, "  %3" PRIu64 " %-12s ",
                 json_get_u64(d, "index", 0), json_get_str(d, "model", "?"));
    paint_bar(p, BAR, 0, (unsigned long) (used * 1000 + 0.5), 1000);
    paint_printf(p, STYLE_PLAIN, " %3.0f%% ", used * 100);
    if (json_get_bool(d, "lost", false))
        paint_add(p, STYLE_BAD, "lost ");
    paint_health(p, d);
    paint_telemetry(p, json_object_get(d, "telemetry"));
    paint_holders(p, d);
    paint_end(p);
}

static void paint_devices(struct paint *p, const json_t *node, unsigned *room)
{
    const json_t *devices = json_object_get(node, "devices"), *d;
    size_t i;

    json_array_foreach(devices, i, d) {
        if (*room == 0) {
            paint_printf(p, STYLE_DIM, "  %s %zu more devices",
                         p->term->utf8 ? "…" : "...",
                         json_array_size(devices) - i);
            paint_end(p);
            return;
        }
        paint_device(p, d);
        --*room;
    }
}

static void paint_pool(struct paint *p, const json_t *pool, unsigned *room)
{
    const json_t *devices = json_object_get(pool, "devices");
    const json_t *cpus = json_object_get(pool, "cpus"), *node;
    size_t i;

    paint_printf(p, STYLE_BOLD, "%s", json_get_str(pool, "name", ""));
    paint_printf(p, STYLE_DIM, " %s", json_get_str(pool, "engine", ""));
    paint_printf(p, STYLE_PLAIN, "   devices %g of %g",
                 json_get_number(devices, "total") -
                 json_get_number(devices, "free"),
                 json_get_number(devices, "total"));
    if (json_get_bool(pool, "simulated", false))
        paint_add(p, STYLE_WAIT, " (simulated)");
    paint_printf(p, STYLE_PLAIN, "   CPUs %g of %g",
                 json_get_number(cpus, "total") - json_get_number(cpus, "free"),
                 json_get_number(cpus, "total"));
    paint_end(p);
    json_array_foreach(json_object_get(pool, "nodes"), i, node) {
        if (json_get_bool(node, "drained", false)) {
            paint_printf(p, STYLE_WAIT, "  %s is drained",
                         json_get_str(node, "name", ""));
            paint_end(p);
        }
        paint_devices(p, node, room);
    }
}

/* ---- the queue ---- */

static const struct table_column columns[] = {
    { .name = "ID" }, { .name = "NAME" }, { .name = "TENANT" },
    { .name = "STATE" }, { .name = "RUN", .right = true },
    { .name = "WAIT", .right = true }, { .name = "DONE", .right = true },
    { .name = "AGE", .right = true }, { .name = "WHY IT WAITS" },
    { .name = NULL },
};

static void add_row(struct table *t, const struct screen *s, const json_t *w)
{
    const json_t *tasks = json_object_get(w, "tasks");
    const char *word = state_word(w);
    uint64_t at = human_time(w, "submitted");
    char buf[HUMAN_SIZE];

    table_add(t, STYLE_BOLD, json_get_str(w, "id", ""));
    table_add(t, STYLE_PLAIN, json_get_str(w, "name", ""));
    table_add(t, STYLE_PLAIN, json_get_str(w, "tenant", ""));
    table_add(t, state_style(word), word);
    table_printf(t, STYLE_PLAIN, "%" PRIu64,
                 json_get_u64(tasks, "running", 0) +
                 json_get_u64(tasks, "starting", 0) +
                 json_get_u64(tasks, "ending", 0));
    table_printf(t, STYLE_PLAIN, "%" PRIu64,
                 json_get_u64(tasks, "waiting", 0) +
                 json_get_u64(tasks, "suspended", 0));
    table_printf(t, STYLE_PLAIN, "%" PRIu64 "/%" PRIu64,
                 json_get_u64(tasks, "ended", 0),
                 json_get_u64(tasks, "total", 0));
    table_add(t, STYLE_PLAIN,
              human_age(s->now_ms > at ? s->now_ms - at : 0, buf));
    table_add(t, STYLE_WAIT, json_get_str(w, "reason", ""));
}

static void paint_queue(const struct screen *s, const struct term *term,
                        unsigned room, struct buf *out)
{
    size_t n = json_array_size(s->workloads), shown = n;
    struct paint p = { .out = out, .term = term, .limit = term->width };
    struct table *t = table_new(columns);

    if (room && n + 1 > room)
        shown = room > 2 ? room - 2 : 0;
    for (size_t i = 0; i < shown; i++)
        add_row(t, s, json_array_get(s->workloads, i));
    if (n == 0) {
        paint_add(&p, STYLE_DIM, "nothing is under way");
        paint_end(&p);
    } else {
        table_paint(t, term, false, true, out);
    }
    if (shown < n) {
        paint_printf(&p, STYLE_DIM, "%s %zu more", term->utf8 ? "…" : "...",
                     n - shown);
        paint_end(&p);
    }
    table_free(t);
}

static unsigned count_lines(const struct buf *b)
{
    unsigned n = 0;

    for (size_t i = 0; i < b->len; i++)
        n += b->data[i] == '\n';
    return n;
}

void screen_paint(const struct screen *s, const struct term *t,
                  unsigned rows, struct buf *out)
{
    struct paint p = { .out = out, .term = t,
                       .limit = t->tty ? t->width : 0 };
    unsigned room = rows ? rows / 2 : DEVICES_SHOWN, used;
    const json_t *pool;
    size_t i;

    paint_head(s, &p);
    paint_parts(s, &p);
    paint_end(&p);
    json_array_foreach(json_object_get(s->pools, "items"), i, pool)
        paint_pool(&p, pool, &room);
    paint_end(&p);
    used = count_lines(out);
    paint_queue(s, t, rows > used ? rows - used : rows ? 2 : 0, out);
}
