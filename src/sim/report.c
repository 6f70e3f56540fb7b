#include "sim/report.h"

#include "base/buf.h"
#include "base/html.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A chart, in its own units. */
struct frame {
    int w, h;
};
static const struct frame WIDE = { 1200, 240 }, SMALL = { 480, 160 };
enum { LEFT = 46, RIGHT = 14, TOP = 8, BOTTOM = 24 };
enum { DAY = 24 * 60 * 60 };

static const char SCRIPT[] =
    "for(const c of document.querySelectorAll('canvas')){"
    "const w=+c.dataset.w,t=c.textContent.trim(),h=t.length/w,"
    "g=c.getContext('2d'),s=getComputedStyle(document.documentElement),"
    "k=4;c.width=w;c.height=h*k;"
    "g.fillStyle=s.getPropertyValue('--free');g.fillRect(0,0,w,h*k);"
    "g.fillStyle=s.getPropertyValue('--used');"
    "for(let i=0;i<t.length;i++){g.globalAlpha=(+t[i])/9;"
    "g.fillRect(i%w,Math.floor(i/w)*k,1,k-1)}}";

static const struct {
    const char *name, *color;
} SHARES[] = {
    { "in use", "--used" }, { "idle, nobody waits", "--free" },
    { "idle, nobody who waits fits", "--frag" },
    { "wasted: somebody who waits would fit", "--waste" },
};

/* Of one run among several. */
static const char *const COLORS[REPORT_RUNS] = {
    "#2f6fd0", "#d4453c", "#2a9d63", "#b565c9", "#e09422", "#18a3b4",
    "#8a6d3b", "#7a8794",
};

/* "42 s", "12.3 min", "3.4 h", "5.6 d". */
static void put_span(struct buf *b, double s)
{
    if (s < 100)
        buf_printf(b, "%.0f s", s);
    else if (s < 6000)
        buf_printf(b, "%.1f min", s / 60);
    else if (s < 2 * DAY)
        buf_printf(b, "%.1f h", s / 3600);
    else
        buf_printf(b, "%.1f d", s / DAY);
}

/* ---- frames ---- */

static void open_chart(struct buf *b, const struct frame *f,
                       const char *what)
{
    buf_printf(b, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">",
               f->w, f->h, what);
}

static double x_of(const struct frame *f, double share)
{
    return LEFT + share * (f->w - LEFT - RIGHT);
}

static double y_of(const struct frame *f, double share)
{
    return TOP + (1 - share) * (f->h - TOP - BOTTOM);
}

/* A line across, and what it stands for. */
static void put_level(struct buf *b, const struct frame *f, double share,
                      double value, const char *unit)
{
    buf_printf(b, "<path d=\"M%d %.1fH%d\" stroke=\"var(--line)\"/><text "
               "x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.0f%s</text>", LEFT,
               y_of(f, share), f->w - RIGHT, LEFT - 6, y_of(f, share) + 4,
               value, unit);
}

static void put_mark(struct buf *b, const struct frame *f, double share,
                     const char *text)
{
    buf_printf(b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s"
               "</text>", x_of(f, share), f->h - 6, text);
}

/* Days or hours below the chart; so few that they can be read. */
static void put_days(struct buf *b, const struct run_log *l)
{
    double span = l->width * RUN_BUCKETS;
    double unit = span < 2 * DAY ? 3600 : DAY, step = unit;
    char text[32];

    while (span / step > 6)
        step *= 2;
    for (int k = 0; span > 0 && k * step <= span; k++) {
        (void) snprintf(text, sizeof text, "%s %.0f",
                        unit < DAY ? "hour" : "day", k * step / unit);
        put_mark(b, &SMALL, k * step / span, text);
    }
}

/* ---- utilisation ---- */

static void put_area(struct buf *b, const double *low, const double *high,
                     const char *color)
{
    buf_printf(b, "<path fill=\"var(%s)\" d=\"M", color);
    for (int i = 0; i < RUN_BUCKETS; i++)
        buf_printf(b, "%.1f %.1f ", x_of(&SMALL, (i + 0.5) / RUN_BUCKETS),
                   y_of(&SMALL, high[i]));
    for (int i = RUN_BUCKETS; i-- > 0;)
        buf_printf(b, "%.1f %.1f ", x_of(&SMALL, (i + 0.5) / RUN_BUCKETS),
                   y_of(&SMALL, low[i]));
    buf_str(b, "Z\"/>");
}

/* Waste and fragments lie on what is in use: where they end, demand does. */
static void put_shares(struct buf *b, const struct run_log *l)
{
    static const int order[] = { 0, 3, 2, 1 };
    double low[RUN_BUCKETS] = { 0 }, high[RUN_BUCKETS] = { 0 };
    double all = l->width * l->gpus;

    open_chart(b, &SMALL, "utilisation");
    for (size_t k = 0; k < array_size(order); k++) {
        for (int i = 0; i < RUN_BUCKETS; i++) {
            low[i] = high[i];
            high[i] += all > 0 ? l->shares[order[k]][i] / all : 0;
        }
        put_area(b, low, high, SHARES[order[k]].color);
    }
    for (int k = 0; k <= 4; k++)
        put_level(b, &SMALL, k / 4.0, k * 25, " %");
    put_days(b, l);
    buf_str(b, "</svg>");
}

static void put_key(struct buf *b)
{
    buf_str(b, "<div class=\"key\">");
    for (size_t k = 0; k < array_size(SHARES); k++)
        buf_printf(b, "<span><i style=\"background:var(%s)\"></i>%s</span>",
                   SHARES[k].color, SHARES[k].name);
    buf_str(b, "</div>");
}

/* ---- queue ---- */

static double longest_queue(const struct report_run *runs, size_t n)
{
    double most = 1;

    for (size_t k = 0; k < n; k++)
        for (int i = 0; i < RUN_BUCKETS && runs[k].log.width > 0; i++)
            most = fmax(most, runs[k].log.queue[i] / runs[k].log.width);
    return most;
}

/* On the scale of the longest of all runs, so that they can be compared. */
static void put_queue(struct buf *b, const struct run_log *l, double most)
{
    double zero[RUN_BUCKETS] = { 0 }, high[RUN_BUCKETS] = { 0 };

    for (int i = 0; i < RUN_BUCKETS && l->width > 0; i++)
        high[i] = l->queue[i] / l->width / most;
    open_chart(b, &SMALL, "waiting jobs");
    put_area(b, zero, high, "--frag");
    for (int k = 0; k <= 2; k++)
        put_level(b, &SMALL, k / 2.0, most * k / 2, "");
    put_days(b, l);
    buf_str(b, "</svg>");
}

/* ---- nodes ---- */

static void put_nodes(struct buf *b, const struct run_log *l)
{
    double full = l->rows ? l->width * l->gpus / l->rows : 0;

    buf_printf(b, "<canvas data-w=\"%d\" role=\"img\" aria-label=\"use of "
               "each node over time\">", RUN_BUCKETS);
    for (size_t i = 0; i < (size_t) l->rows * RUN_BUCKETS; i++) {
        double share = full > 0 ? l->busy[i] / full : 0;

        buf_char(b, (char) ('0' + (int) lround(9 * fmin(share, 1))));
    }
    buf_str(b, "</canvas>");
}

/* ---- waits ---- */

static int by_value(const void *va, const void *vb)
{
    double a = *(const double *) va, b = *(const double *) vb;

    return (a > b) - (a < b);
}

enum { WAIT_LOW = 1, WAIT_DECADES = 7 };           /* 1 s to 1e7 s */

static void put_cdf(struct buf *b, const struct run_log *l, const char *color)
{
    autofree double *sorted = mem_dup(l->waits, l->nwaits * sizeof(double));
    size_t at = 0;

    qsort(sorted, l->nwaits, sizeof *sorted, by_value);
    buf_printf(b, "<path fill=\"none\" stroke-width=\"2\" stroke=\"%s\" "
               "d=\"M", color);
    for (int i = 0; i <= RUN_BUCKETS; i++) {
        double share = (double) i / RUN_BUCKETS;
        double wait = WAIT_LOW * pow(10, share * WAIT_DECADES);

        while (at < l->nwaits && sorted[at] <= wait)
            at++;
        buf_printf(b, "%.1f %.1f ", x_of(&WIDE, share),
                   y_of(&WIDE, (double) at / (double) l->nwaits));
    }
    buf_str(b, "\"/>");
}

static void put_waits(struct buf *b, const struct report_run *runs, size_t n)
{
    static const double marks[] = { 1, 60, 3600, DAY, 7 * DAY };
    static const char *const names[] = { "1 s", "1 min", "1 h", "1 day",
                                         "1 week" };

    buf_str(b, "<div class=\"card\"><h2>How long jobs waited</h2><p>Share of "
            "jobs that waited no longer than this, suspended time "
            "included.</p>");
    open_chart(b, &WIDE, "distribution of waits");
    for (int k = 0; k <= 4; k++)
        put_level(b, &WIDE, k / 4.0, k * 25, " %");
    for (size_t k = 0; k < array_size(marks); k++)
        put_mark(b, &WIDE, log10(marks[k] / WAIT_LOW) / WAIT_DECADES,
                 names[k]);
    for (size_t k = 0; k < n; k++)
        put_cdf(b, &runs[k].log, COLORS[k]);
    buf_str(b, "</svg><div class=\"key\">");
    for (size_t k = 0; k < n; k++) {
        buf_printf(b, "<span><i style=\"background:%s\"></i>", COLORS[k]);
        html_text(b, runs[k].policy);
        buf_str(b, "</span>");
    }
    buf_str(b, "</div></div>");
}

/* ---- numbers ---- */

struct column {
    const char *name;
    size_t offset;                     /* of a double in run_result */
    enum { SPAN, SHARE } kind;
    bool more_is_better;
};
#define AT(member) offsetof(struct run_result, member)
static const struct column COLUMNS[] = {
    { "completion", AT(avg_jct), SPAN, false },
    { "completion p99", AT(p99_jct), SPAN, false },
    { "wait", AT(avg_wait), SPAN, false },
    { "wait p99", AT(p99_wait), SPAN, false },
    { "makespan", AT(makespan), SPAN, false },
    { "in use", AT(util), SHARE, true },
    { "overhead", AT(overhead), SHARE, false },
    { "fragmented", AT(idle_frag), SHARE, false },
    { "wasted", AT(waste), SHARE, false },
};
#undef AT

static double value_of(const struct report_run *r, const struct column *c)
{
    double v;

    memcpy(&v, (const char *) &r->result + c->offset, sizeof v);
    return v;
}

static bool is_best(const struct report_run *runs, size_t n, size_t me,
                    const struct column *c)
{
    double mine = value_of(&runs[me], c);

    if (c->kind == SHARE && !runs[me].result.shares)
        return false;
    for (size_t k = 0; k < n; k++) {
        double v = value_of(&runs[k], c);

        if (c->more_is_better ? v > mine : v < mine)
            return false;
    }
    return n > 1;
}

static void put_row(struct buf *b, const struct report_run *runs, size_t n,
                    size_t me)
{
    buf_str(b, "<tr><td>");
    html_text(b, runs[me].policy);
    buf_str(b, "</td>");
    for (size_t k = 0; k < array_size(COLUMNS); k++) {
        double v = value_of(&runs[me], &COLUMNS[k]);

        buf_printf(b, "<td%s>", is_best(runs, n, me, &COLUMNS[k])
                                ? " class=\"best\"" : "");
        if (COLUMNS[k].kind == SPAN)
            put_span(b, v);
        else if (!runs[me].result.shares)
            buf_str(b, "-");
        else
            buf_printf(b, "%.2f %%", 100 * v);
        buf_str(b, "</td>");
    }
    buf_printf(b, "<td>%llu</td></tr>",
               (unsigned long long) runs[me].result.preemptions);
}

static void put_numbers(struct buf *b, const struct report_run *runs,
                        size_t n)
{
    buf_str(b, "<div class=\"card scroll\"><table><thead><tr><th>policy</th>");
    for (size_t k = 0; k < array_size(COLUMNS); k++)
        buf_printf(b, "<th>%s</th>", COLUMNS[k].name);
    buf_str(b, "<th>suspended</th></tr></thead><tbody>");
    for (size_t k = 0; k < n; k++)
        put_row(b, runs, n, k);
    buf_str(b, "</tbody></table></div>");
}

static void put_run(struct buf *b, const struct report_run *r, double most)
{
    buf_str(b, "<section class=\"card\"><h2>");
    html_text(b, r->policy);
    buf_str(b, "</h2><h3>GPUs over time</h3>");
    put_shares(b, &r->log);
    put_key(b);
    buf_str(b, "<h3>Jobs that wait</h3>");
    put_queue(b, &r->log, most);
    buf_str(b, "<h3>Nodes over time, a row each: the darker, the more of its "
            "GPUs are in use</h3>");
    put_nodes(b, &r->log);
    buf_str(b, "</section>");
}

void report_html(const char *trace, const char *nodes,
                 const struct report_run *runs, size_t n, struct buf *out)
{
    double most = longest_queue(runs, n);

    buf_str(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta "
            "charset=\"utf-8\"/><meta name=\"viewport\" content=\"width="
            "device-width, initial-scale=1\"/><title>weir sim: ");
    html_text(out, trace);
    buf_printf(out, "</title><style>%s</style></head><body><main><h1>",
               html_style);
    html_text(out, trace);
    buf_printf(out, "</h1><p>%zu jobs on %u simulated GPUs (", n ?
               runs[0].result.jobs : 0, n ? runs[0].log.gpus : 0);
    html_text(out, nodes);
    buf_printf(out, "), replayed by weir sim. Shares count from the first "
               "submission to the last%s.</p>", n && runs[0].result.shares
               ? "" : "; all were submitted at once, so there are none");
    put_numbers(out, runs, n);
    put_waits(out, runs, n);
    buf_str(out, "<div class=\"side\">");
    for (size_t k = 0; k < n; k++)
        put_run(out, &runs[k], most);
    buf_printf(out, "</div></main><script>%s</script></body></html>\n",
               SCRIPT);
}
