#include "cli/waste.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/html.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/human.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* The page for whoever pays: what it comes to, then when, whose, and why.  It
 * loads nothing, so that it can be mailed around.
 */
enum { WIDTH = 1200, HEIGHT = 280, LEFT = 52, RIGHT = 12, TOP = 10,
       BOTTOM = 26 };
static const double SEAM = 0.5;
enum { DAY = 24 * 60 * 60, MARKS = 9, SPACES = 15 };

static const char STYLE[] =
    ".figures{display:grid;gap:18px;margin:0 0 18px;"
    "grid-template-columns:repeat(auto-fit,minmax(min(250px,100%),1fr))}"
    ".figures .card{margin:0}.big{font-size:34px;font-weight:700;"
    "line-height:1.2;font-variant-numeric:tabular-nums}"
    ".bad{color:var(--waste)}.figures p{margin:4px 0 0}"
    ".say{font-size:16px;color:var(--ink);max-width:75em;margin:0}"
    "td.left,th.left{text-align:left}td.why{white-space:normal;"
    "text-align:left;min-width:18em;color:var(--dim);font-size:13px}"
    "td .bar{display:inline-block;height:9px;border-radius:3px;"
    "background:var(--used);vertical-align:1px;margin-right:8px}"
    "td.barred{text-align:left;width:22%}"
    ".notes{color:var(--dim);font-size:13px}.notes li{margin:3px 0}"
    ".pool{margin-top:34px}h1+p{margin-bottom:20px}";

static const struct {
    const char *key, *color, *name;
} kinds[] = {
    { "used", "--used", "in use" },
    { "waste", "--waste", "wasted: idle, and a pod waited that would have "
      "fitted" },
    { "idle_frag", "--frag", "fragments: idle, and pods waited, but none would "
      "have fitted" },
    { "idle_nodemand", "--free", "not wanted: idle, and no pod waited for "
      "GPUs" },
};

/* ---- words ---- */

/* "Thu 12 Nov, 09:00" in UTC. */
static void put_time(struct buf *b, const char *text)
{
    uint64_t ms = 0;
    struct tm tm;
    char out[48];
    time_t s;

    if (clock_parse(text, &ms, NULL) < 0)
        return;
    s = (time_t) (ms / 1000);
    if (gmtime_r(&s, &tm) && strftime(out, sizeof out, "%a %d %b, %H:%M", &tm))
        (void) buf_str(b, out);
}

static void put_span(struct buf *b, double seconds)
{
    if (seconds < 120)
        (void) buf_printf(b, "%.0f s", seconds);
    else if (seconds < 7200)
        (void) buf_printf(b, "%.0f min", seconds / 60);
    else if (seconds < 2 * DAY)
        (void) buf_printf(b, "%.1f h", seconds / 3600);
    else
        (void) buf_printf(b, "%.1f days", seconds / DAY);
}

static void put_hours(struct buf *b, double seconds)
{
    char text[HUMAN_SIZE];

    (void) buf_str(b, waste_hours(seconds, text));
}

static void put_number(struct buf *b, double v)
{
    char text[HUMAN_SIZE];

    (void) buf_str(b, waste_number(v, text));
}

static void put_share(struct buf *b, double part, double whole)
{
    (void) buf_printf(b, "%.1f %%", whole > 0 ? 100 * part / whole : 0);
}

static double idle_of(const json_t *o)
{
    return json_get_number(o, "waste") + json_get_number(o, "idle_frag");
}

static bool has_prices(const json_t *w)
{
    const json_t *m;
    size_t i;

    json_array_foreach(json_object_get(w, "models"), i, m)
        if (json_get_number(m, "price_hour") > 0)
            return true;
    return false;
}

/* ---- figures ---- */

static void put_figures(struct buf *b, const json_t *w)
{
    const json_t *d = json_object_get(w, "devices");

    (void) buf_str(b, "<div class=\"figures\"><div class=\"card\"><div "
                   "class=\"big bad\">");
    put_hours(b, idle_of(d));
    (void) buf_str(b, "</div><p>GPU-hours stood idle while somebody waited for "
                   "GPUs: ");
    put_share(b, json_get_number(d, "wr"), 1);
    (void) buf_str(b, " of all there were</p></div><div class=\"card\"><div "
                   "class=\"big bad\">");
    if (has_prices(w))
        put_number(b, idle_of(json_object_get(d, "cost")));
    else
        (void) buf_str(b, "no prices");
    (void) buf_printf(b, "</div><p>%s</p></div>", has_prices(w) ?
                      "is what these cost, by the prices of the policy" :
                      "are in the policy, so this page has no money: "
                      "<code>price_hour</code> sets one");
    (void) buf_str(b, "<div class=\"card\"><div class=\"big\">");
    put_share(b, json_get_number(d, "utilisation"), 1);
    (void) buf_str(b, "</div><p>of all GPU-hours were in use</p></div><div "
                   "class=\"card\"><div class=\"big\">");
    put_span(b, json_get_number(w, "average_wait_seconds"));
    (void) buf_printf(b, "</div><p>was the wait of the %.0f pods with GPUs that "
                      "started, on average</p></div></div>",
                      json_get_number(w, "starts"));
}

static void put_summary(struct buf *b, const json_t *w)
{
    const json_t *d = json_object_get(w, "devices");
    double all = json_get_number(d, "total");

    (void) buf_str(b, "<div class=\"card\"><p class=\"say\">Of ");
    put_hours(b, all);
    (void) buf_str(b, " GPU-hours, ");
    put_share(b, json_get_number(d, "used"), all);
    (void) buf_str(b, " were in use. For ");
    put_share(b, json_get_number(d, "waste"), all);
    (void) buf_str(b, " a GPU stood idle although a pod waited that would have "
                   "fitted: that is a matter of scheduling, order or quotas. "
                   "For ");
    put_share(b, json_get_number(d, "idle_frag"), all);
    (void) buf_str(b, " pods waited, but what was free was too small, or in "
                   "the wrong place, for any of them. For ");
    put_share(b, json_get_number(d, "idle_nodemand"), all);
    (void) buf_str(b, " nobody waited. Those who waited asked for at most ");
    put_hours(b, json_get_number(d, "asked"));
    (void) buf_str(b, " of the ");
    put_hours(b, idle_of(d));
    (void) buf_str(b, " GPU-hours that stood idle meanwhile.</p></div>");
}

/* ---- what could be ---- */

static void put_versus(struct buf *b, const char *what, const char *is,
                       const char *would)
{
    (void) buf_printf(b, "<tr><td>%s</td><td>%s</td><td>%s</td></tr>", what,
                      is, would);
}

static void put_plan(struct buf *b, const json_t *w)
{
    const json_t *p = json_object_get(w, "plan");
    autobuf struct buf is = BUF_INIT(64), would = BUF_INIT(64);

    if (!p || json_get_str(p, "why", NULL))
        return;
    (void) buf_printf(b, "<div class=\"card scroll\"><h2>What Weir would have "
                      "done</h2><p>The %.0f pods that had GPUs in this time, "
                      "given to Weir's plan on a virtual clock.</p><table>"
                      "<thead><tr><th></th><th>as it was</th><th>by Weir's "
                      "plan</th></tr></thead><tbody>",
                      json_get_number(p, "pods"));
    put_span(&is, json_get_number(p, "average_wait_seconds"));
    put_span(&would, json_get_number(p, "average_wait_seconds_plan"));
    put_versus(b, "wait of these pods, on average", buf_text(&is),
               buf_text(&would));
    buf_clear(&is);
    buf_clear(&would);
    put_share(&is, json_get_number(p, "wr"), 1);
    put_share(&would, json_get_number(p, "wr_plan"), 1);
    put_versus(b, "GPU-time idle while some of them waited", buf_text(&is),
               buf_text(&would));
    (void) buf_printf(b, "</tbody></table><p class=\"notes\">Each pod comes "
                      "when it was made, and runs as long as it did, on any "
                      "GPUs of a node that has as many free, and its CPUs. So "
                      "what else the cluster had to mind counts for nothing: "
                      "models, labels, taints, gangs, quotas, memory, pods "
                      "without GPUs, and the time that a start takes. Nobody "
                      "is suspended; lengths are not known but learned from "
                      "those that ended before. Pods that never started are in "
                      "neither column, and %.0f were left out, as they fit on "
                      "no node that is open now or were too many to keep. It is "
                      "an estimate, with nodes as they are now.</p></div>",
                      json_get_number(p, "left_out"));
}

/* ---- over time ---- */

struct chart {
    const json_t *series;
    double from, span, most;           /* seconds; GPUs */
};

static double x_of(const struct chart *c, double s)
{
    return LEFT + (s - c->from) / c->span * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct chart *c, double gpus)
{
    return TOP + (1 - gpus / c->most) * (HEIGHT - TOP - BOTTOM);
}

static double time_at(const json_t *o, const char *key)
{
    return (double) human_time(o, key) / 1000;
}

/* A column: its shares on each other, what was not seen hatched.  Each reaches a
 * little over the next, so that no seam shows between them.
 */
static void put_column(struct buf *b, const struct chart *c, const json_t *p)
{
    double seconds = json_get_number(p, "seconds"), low = 0;
    double seen = json_get_number(p, "seen_seconds");
    double left = x_of(c, time_at(p, "from"));
    double right = x_of(c, time_at(p, "from") + seconds);
    double edge = seconds > 0 ? left + (right - left) * seen / seconds : left;

    for (size_t k = 0; k < array_size(kinds) && seen > 0; k++) {
        double v = json_get_number(p, kinds[k].key) / seen;

        if (v > 0)
            (void) buf_printf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" "
                              "height=\"%.2f\" fill=\"var(%s)\"/>", left,
                              y_of(c, low + v), edge - left + SEAM,
                              y_of(c, low) - y_of(c, low + v),
                              kinds[k].color);
        low += v;
    }
    if (seen < seconds)
        (void) buf_printf(b, "<rect x=\"%.1f\" y=\"%d\" width=\"%.2f\" "
                          "height=\"%d\" fill=\"url(#hatch)\"/>", edge, TOP,
                          right - edge, HEIGHT - TOP - BOTTOM);
}

static double most_of(const json_t *series)
{
    const json_t *p;
    double most = 1;
    size_t i;

    json_array_foreach(series, i, p) {
        double seen = json_get_number(p, "seen_seconds"), sum = 0;

        for (size_t k = 0; k < array_size(kinds); k++)
            sum += json_get_number(p, kinds[k].key);
        if (seen > 0)
            most = fmax(most, sum / seen);
    }
    return most;
}

static void put_levels(struct buf *b, const struct chart *c)
{
    for (int k = 0; k <= 4; k++)
        (void) buf_printf(b, "<path d=\"M%d %.1fH%d\" stroke=\"var(--line)\"/>"
                          "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.*f"
                          "</text>", LEFT, y_of(c, c->most * k / 4),
                          WIDTH - RIGHT, LEFT - 6,
                          y_of(c, c->most * k / 4) + 4, c->most < 8,
                          c->most * k / 4);
}

/* Whole days or hours below it, so few that they can be read. */
static void put_marks(struct buf *b, const struct chart *c)
{
    static const time_t steps[] = { 300, 900, 3600, 3 * 3600, 6 * 3600,
                                    12 * 3600, DAY, 2 * DAY, 7 * DAY,
                                    28 * DAY };
    time_t step = steps[0], from = (time_t) c->from, t;

    for (size_t i = 1; i < array_size(steps); i++)
        if (c->span / (double) step > MARKS)
            step = steps[i];
    for (t = (from + step - 1) / step * step;
         (double) t <= c->from + c->span; t += step) {
        struct tm tm;
        char text[32];

        if (!gmtime_r(&t, &tm) ||
            !strftime(text, sizeof text, step < DAY ? "%d %b %H:%M"
                                                    : "%a %d %b", &tm))
            return;
        (void) buf_printf(b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\""
                          ">%s</text>", x_of(c, (double) t), HEIGHT - 7, text);
    }
}

static void put_key(struct buf *b)
{
    (void) buf_str(b, "<div class=\"key\">");
    for (size_t k = 0; k < array_size(kinds); k++)
        (void) buf_printf(b, "<span><i style=\"background:var(%s)\"></i>%s"
                          "</span>", kinds[k].color, kinds[k].name);
    (void) buf_str(b, "<span><i style=\"background:repeating-linear-gradient("
                   "45deg,var(--line) 0 3px,transparent 3px 6px)\"></i>not "
                   "seen</span></div>");
}

static void put_chart(struct buf *b, const json_t *w)
{
    struct chart c = {
        .series = json_object_get(w, "series"), .from = time_at(w, "from"),
        .span = time_at(w, "to") - time_at(w, "from"),
    };
    const json_t *p;
    size_t i;

    if (c.span <= 0)
        return;
    c.most = most_of(c.series);
    (void) buf_printf(b, "<div class=\"card\"><h2>GPUs over time</h2><p>How "
                      "many there were, and what they did. Times are UTC.</p>"
                      "<svg viewBox=\"0 0 %d %d\" role=\"img\" "
                      "aria-label=\""
                      "shares of GPUs over time\"><defs><pattern id=\"hatch\" "
                      "width=\"8\" height=\"8\" patternUnits=\""
                      "userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect "
                      "width=\"3\" height=\"8\" fill=\"var(--line)\"/>"
                      "</pattern></defs>", WIDTH, HEIGHT);
    put_levels(b, &c);
    json_array_foreach(c.series, i, p)
        put_column(b, &c, p);
    put_marks(b, &c);
    (void) buf_str(b, "</svg>");
    put_key(b);
    (void) buf_str(b, "</div>");
}

/* ---- tables ---- */

static void put_models(struct buf *b, const json_t *w)
{
    const json_t *m;
    size_t i;

    (void) buf_str(b, "<div class=\"card scroll\"><h2>By model</h2><table>"
                   "<thead><tr><th>model</th><th>GPU-hours</th><th>in use"
                   "</th><th>wasted</th><th>fragments</th><th>not wanted</th>"
                   "<th>price an hour</th><th>cost of what was wasted and in "
                   "fragments</th></tr></thead><tbody>");
    json_array_foreach(json_object_get(w, "models"), i, m) {
        double all = json_get_number(m, "total");
        const char *name = json_get_str(m, "model", "");

        (void) buf_str(b, "<tr><td>");
        html_text(b, *name ? name : "(no model said)");
        (void) buf_str(b, "</td><td>");
        put_hours(b, all);
        for (size_t k = 0; k < array_size(kinds); k++) {
            (void) buf_str(b, "</td><td>");
            put_share(b, json_get_number(m, kinds[k].key), all);
        }
        (void) buf_printf(b, "</td><td>%.2f</td><td>",
                          json_get_number(m, "price_hour"));
        put_number(b, idle_of(json_object_get(m, "cost")));
        (void) buf_str(b, "</td></tr>");
    }
    (void) buf_str(b, "</tbody></table></div>");
}

static void put_space(struct buf *b, const json_t *s, double most)
{
    double v = json_get_number(s, "device_seconds");

    (void) buf_str(b, "<tr><td>");
    html_text(b, json_get_str(s, "name", ""));
    (void) buf_printf(b, "</td><td class=\"barred\"><span class=\"bar\" "
                      "style=\"width:%.0f%%\"></span></td><td>",
                      most > 0 ? 90 * v / most : 0);
    put_hours(b, v);
    (void) buf_str(b, "</td><td>");
    put_number(b, json_get_number(s, "cost"));
    (void) buf_str(b, "</td><td>");
    put_hours(b, json_get_number(s, "waited_device_seconds"));
    (void) buf_str(b, "</td><td>");
    put_hours(b, json_get_number(s, "cpu_seconds"));
    (void) buf_str(b, "</td></tr>");
}

static void put_spaces(struct buf *b, const json_t *w)
{
    const json_t *list = json_object_get(w, "namespaces"), *s;
    double most = json_get_number(json_array_get(list, 0), "device_seconds");
    size_t i, n = json_array_size(list);

    (void) buf_str(b, "<div class=\"card scroll\"><h2>By namespace</h2><p>Who "
                   "used the GPUs, what that cost, and how many GPU-hours its "
                   "pods waited for.</p><table><thead><tr><th>namespace</th>"
                   "<th></th><th>GPU-hours</th><th>cost</th><th>GPU-hours "
                   "waited for</th><th>CPU-hours</th></tr></thead><tbody>");
    json_array_foreach(list, i, s)
        if (i < SPACES)
            put_space(b, s, most);
    (void) buf_str(b, "</tbody></table>");
    if (n > SPACES)
        (void) buf_printf(b, "<p>and %zu more, which used less</p>",
                          n - SPACES);
    (void) buf_str(b, "</div>");
}

static void put_wait(struct buf *b, const json_t *o)
{
    const char *why = json_get_str(o, "why", "");
    double fits = json_get_number(o, "fits_seconds");

    (void) buf_str(b, "<tr><td>");
    html_text(b, json_get_str(o, "pod", ""));
    (void) buf_printf(b, "</td><td>%.0f</td><td>",
                      json_get_number(o, "devices"));
    put_time(b, json_get_str(o, "since", ""));
    (void) buf_str(b, "</td><td>");
    put_span(b, json_get_number(o, "wait_seconds"));
    (void) buf_printf(b, "%s</td><td%s>",
                      json_get_bool(o, "going", false) ? ", still" : "",
                      fits > 0 ? " class=\"bad\"" : "");
    put_span(b, fits);
    (void) buf_str(b, "</td><td class=\"why\">");
    html_text(b, *why ? why : "the scheduler has not said");
    (void) buf_str(b, "</td></tr>");
}

static void put_waits(struct buf *b, const json_t *w)
{
    const json_t *list = json_object_get(w, "waits"), *o;
    size_t i;

    if (json_array_size(list) == 0)
        return;
    (void) buf_str(b, "<div class=\"card scroll\"><h2>Who waited longest</h2>"
                   "<p>Pods that want GPUs, from when they were made until "
                   "they were bound or deleted.</p><table><thead><tr><th>pod"
                   "</th><th>GPUs</th><th>since (UTC)</th><th>waited</th><th>"
                   "a node had room for</th><th class=\"left\">why, in the "
                   "words of its scheduler</th></tr></thead><tbody>");
    json_array_foreach(list, i, o)
        put_wait(b, o);
    (void) buf_str(b, "</tbody></table></div>");
}

/* ---- notes ---- */

static void put_notes(struct buf *b, const json_t *w)
{
    const json_t *c = json_object_get(w, "cpus");

    (void) buf_str(b, "<div class=\"card notes\"><h2>How this was counted</h2>"
                   "<ul><li>The cluster was watched through its API and not "
                   "touched. A GPU is in use while a pod that asked for it is "
                   "bound to its node, whether the pod's program computes or "
                   "not.</li><li>All GPUs that are idle count as wasted while "
                   "any pod waits that would have fitted on some node, and as "
                   "fragments while pods wait and none would have; so the two "
                   "can be more than was asked for, which is given too.</li>"
                   "<li>Whether a pod would have fitted is told from its "
                   "requests, its node selector, what its node affinity "
                   "requires, and the taints, labels and free room of ready "
                   "nodes. Affinity to other pods, spreading, volumes, quotas "
                   "and devices claimed by other means are not looked at."
                   "</li><li>GPUs of nodes that are cordoned or not ready "
                   "count only while they are in use.</li><li>Money is hours "
                   "times the price that the policy has now for the model."
                   "</li><li>");
    put_span(b, json_get_number(w, "not_seen_seconds"));
    (void) buf_str(b, " of this time the cluster could not be seen; nothing is "
                   "guessed for it.</li><li>CPUs, counted likewise: ");
    put_share(b, json_get_number(c, "utilisation"), 1);
    (void) buf_str(b, " in use; ");
    put_share(b, json_get_number(c, "wr"), 1);
    (void) buf_str(b, " idle while some pod waited.</li></ul></div>");
}

static void put_pool(struct buf *b, const json_t *w)
{
    (void) buf_str(b, "<section class=\"pool\"><h1>What ");
    html_text(b, json_get_str(w, "pool", ""));
    (void) buf_str(b, " wastes</h1><p>");
    put_time(b, json_get_str(w, "from", ""));
    (void) buf_str(b, " to ");
    put_time(b, json_get_str(w, "to", ""));
    (void) buf_str(b, " UTC, seen for ");
    put_share(b, json_get_number(w, "seen_seconds"),
              json_get_number(w, "seen_seconds") +
              json_get_number(w, "not_seen_seconds"));
    (void) buf_str(b, " of that time</p>");
    put_figures(b, w);
    put_summary(b, w);
    put_chart(b, w);
    put_plan(b, w);
    put_models(b, w);
    put_spaces(b, w);
    put_waits(b, w);
    put_notes(b, w);
    (void) buf_str(b, "</section>");
}

void waste_html(const json_t *pools, struct buf *out)
{
    const json_t *w;
    size_t i;

    (void) buf_printf(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta "
                      "charset=\"utf-8\"/><meta name=\"viewport\" content=\""
                      "width=device-width, initial-scale=1\"/><title>weir "
                      "waste</title><style>%s%s</style></head><body><main>",
                      html_style, STYLE);
    json_array_foreach(pools, i, w)
        put_pool(out, w);
    (void) buf_str(out, "</main></body></html>\n");
}
