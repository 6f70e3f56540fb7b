#include "core/world_int.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What a task says about itself: how far it is, and numbers with names.  The
 * newest of each is kept, and a history.  When that is full every second point
 * of it goes, so it covers the whole attempt, however long it gets.
 */
enum { METRICS_MAX = 32, METRIC_NAME = 64, HISTORY_MAX = 64 };

static int check_metrics(const json_t *metrics, struct err *err)
{
    const char *name;
    json_t *value;

    if (metrics && !json_is_object(metrics))
        return err_set(err, EINVAL, "metrics are not {name: number}");
    if (json_object_size(metrics) > METRICS_MAX)
        return err_set(err, EINVAL, "more than %d metrics", METRICS_MAX);
    json_object_foreach((json_t *) (uintptr_t) metrics, name, value) {
        if (!name[0] || strlen(name) > METRIC_NAME)
            return err_set(err, EINVAL, "the name of a metric has 1 to %d "
                           "bytes", METRIC_NAME);
        if (!json_is_number(value))
            return err_set(err, EINVAL, "the metric '%s' is no number", name);
    }
    return 0;
}

int check_report(const struct task *t, const struct event *e, struct err *err)
{
    const json_t *progress = json_object_get(e->data, "progress");
    const json_t *metrics = json_object_get(e->data, "metrics");
    double value = json_number_value(progress);

    if (!t->leases || e->gen != t->gen)
        return err_set(err, ESTALE, "task '%s': generation %u does not run",
                       t->spec->name, e->gen);
    if (!progress && json_object_size(metrics) == 0)
        return err_set(err, EINVAL, "neither progress nor a metric");
    if (progress && (!json_is_number(progress) || !(value >= 0 && value <= 1)))
        return err_set(err, EINVAL, "progress is not a number from 0 to 1");
    return check_metrics(metrics, err);
}

static struct progress *progress_new(void)
{
    struct progress *g = mem_new(sizeof(*g));

    g->value = -1;
    g->metrics = json_object();
    g->history = json_array();
    return g;
}

void progress_free(struct progress *g)
{
    if (!g)
        return;
    json_decref(g->metrics);
    json_decref(g->history);
    free(g);
}

static void thin(json_t *history)
{
    for (size_t i = json_array_size(history); i-- > 0;)
        if (i % 2 == 1)
            json_array_remove(history, i);
}

/* As the journal writes it: a world that is replayed compares the same. */
static double rounded(double v)
{
    char text[40];

    (void) snprintf(text, sizeof(text), "%.15g", v);
    return strtod(text, NULL);
}

/* Has the metric of stop_when moved? */
static void look_still(const struct spec_task *s, struct progress *g,
                       const json_t *metrics, uint64_t now_ms)
{
    const json_t *m = s->still_metric ? json_object_get(metrics,
                                                        s->still_metric)
                                      : NULL;
    double v = rounded(json_number_value(m));

    if (!m || (g->still_ms && fabs(v - g->still) <=
                              fabs(g->still) * s->still_milli / 1000))
        return;
    g->still = v;
    g->still_ms = now_ms;
}

static json_t *point(const json_t *data, uint64_t now_ms)
{
    json_t *progress = json_object_get(data, "progress");
    json_t *metrics = json_object_get(data, "metrics");
    json_t *p = json_array();

    json_array_append_new(p, json_integer((json_int_t) now_ms));
    json_array_append_new(p, progress ? json_incref(progress) : json_null());
    json_array_append_new(p, metrics ? json_deep_copy(metrics)
                                     : json_object());
    return p;
}

void task_report(struct task *t, const json_t *data, uint64_t now_ms)
{
    const json_t *progress = json_object_get(data, "progress");
    json_t *metrics = json_object_get(data, "metrics");
    struct progress *g = t->progress;

    if (!g)
        g = t->progress = progress_new();
    if (progress)
        g->value = json_number_value(progress);
    if (metrics)
        json_object_update(g->metrics, metrics);
    look_still(t->spec, g, metrics, now_ms);
    if (json_array_size(g->history) == HISTORY_MAX)
        thin(g->history);
    json_array_append_new(g->history, point(data, now_ms));
}

json_t *progress_row(const struct progress *g)
{
    json_t *row = json_object();

    if (g->value >= 0)
        json_put(row, "value", json_real(g->value));
    json_put(row, "metrics", json_deep_copy(g->metrics));
    json_put(row, "history", json_deep_copy(g->history));
    if (g->still_ms) {
        json_put(row, "still", json_real(g->still));
        json_put_u64(row, "still_ms", g->still_ms);
    }
    return row;
}

int progress_load(struct task *t, const json_t *row)
{
    json_t *value = json_object_get(row, "value");
    json_t *metrics = json_object_get(row, "metrics");
    json_t *history = json_object_get(row, "history");

    if (!row)
        return 0;
    if (!json_is_object(metrics) || !json_is_array(history) ||
        (value && !json_is_number(value)))
        return -EINVAL;
    t->progress = progress_new();
    if (value)
        t->progress->value = json_number_value(value);
    json_object_update(t->progress->metrics, metrics);
    json_array_extend(t->progress->history, history);
    t->progress->still = json_get_number(row, "still");
    t->progress->still_ms = json_get_u64(row, "still_ms", 0);
    return 0;
}
