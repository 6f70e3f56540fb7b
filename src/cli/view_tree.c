#include "cli/views.h"

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "cli/tree.h"

#include <stdio.h>
#include <string.h>

/* The picture is drawn over the one before: up as many lines as that took,
 * then each line anew.  A terminal that became narrower has broken the old
 * lines, so what they take is counted with its width of now.
 */
enum { PICTURE_MAX = 1024 * 1024, WHY_MS = 3000, WHY_TASKS = 4 };

static void erase(struct view_tree *v, const struct term *t, struct buf *out)
{
    unsigned up = 0;

    for (unsigned i = 0; i < v->nlines; i++)
        up += v->lines[i] > t->width
                  ? (v->lines[i] + t->width - 1) / t->width : 1;
    if (up > 0)
        buf_printf(out, "\r\033[%uA\033[J", up);
    v->nlines = 0;
}

/* Columns of a line, without what only sets its style. */
static unsigned line_width(const char *p, size_t n)
{
    autofree char *plain = mem_new(n + 1);
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\033') {
            while (i < n && p[i] != 'm')
                i++;
            continue;
        }
        plain[len++] = p[i];
    }
    return paint_width(plain);
}

static void remember(struct view_tree *v, const char *p)
{
    while (*p && v->nlines < array_size(v->lines)) {
        size_t n = strcspn(p, "\n");

        v->lines[v->nlines++] = line_width(p, n);
        p += n + (p[n] == '\n');
    }
}

static void draw(struct follow *f, struct view_tree *v)
{
    struct term *t = &f->cli->term;
    struct buf out = BUF_INIT(PICTURE_MAX), picture = BUF_INIT(PICTURE_MAX);
    struct tree_conf conf = { .term = t, .now_ms = f->now_ms };

    term_size(t);
    conf.rows = t->rows - 2;
    if (conf.rows > array_size(v->lines) - 1)
        conf.rows = array_size(v->lines) - 1;
    erase(v, t, &out);
    tree_paint(&f->model, &conf, &picture);
    if (v->note[0]) {
        struct paint p = { .out = &picture, .term = t, .limit = t->width };

        paint_add(&p, STYLE_BOLD, v->note);
        paint_end(&p);
    }
    remember(v, buf_text(&picture));
    buf_add(&out, buf_text(&picture), picture.len);
    (void) print_buf(f->cli, &out);
    (void) fflush(stdout);
    buf_free(&out);
    buf_free(&picture);
}

/* One question a tick: reasons are for reading, not for racing. */
static void ask_reasons(struct follow *f)
{
    struct tree_conf conf = { .term = &f->cli->term,
                              .rows = f->cli->term.rows - 2 };
    uint32_t tasks[WHY_TASKS];
    uint32_t n = tree_waiting(&f->model, &conf, tasks, WHY_TASKS);

    for (uint32_t i = 0; i < n; i++) {
        const struct model_task *t = &f->model.tasks[tasks[i]];

        if (f->now_ms - t->since_ms > 300 && f->now_ms - t->why_ms > WHY_MS) {
            follow_ask_why(f, tasks[i]);
            return;
        }
    }
}

static void tree_loaded(struct follow *f, void *arg)
{
    draw(f, arg);
}

static void tree_changed(struct follow *f, uint32_t task, void *arg)
{
    (void) f;
    (void) task;
    (void) arg;                        /* the next tick shows it */
}

static void tree_tick(struct follow *f, void *arg)
{
    if (!f->model.ended)
        ask_reasons(f);
    draw(f, arg);
}

static void tree_note(struct follow *f, const char *text, void *arg)
{
    struct view_tree *v = arg;

    (void) f;
    (void) snprintf(v->note, sizeof v->note, "%s", text);
}

static bool tree_settled(struct follow *f, void *arg)
{
    (void) f;
    (void) arg;
    return true;
}

static void tree_close(struct follow *f, void *arg)
{
    struct view_tree *v = arg;

    if (!f->model.tasks)
        return;
    if (f->model.ended)
        v->note[0] = '\0';
    draw(f, v);
    if (f->model.ended)
        view_summary(f);
}

const struct view_ops view_tree = {
    .loaded = tree_loaded,
    .changed = tree_changed,
    .tick = tree_tick,
    .note = tree_note,
    .settled = tree_settled,
    .close = tree_close,
};

/* ---- the end in words ---- */

static const struct model_task *first_failed(const struct model *m)
{
    for (uint32_t i = 0; i < m->ntasks; i++) {
        const struct model_task *t = &m->tasks[i];

        if (t->state == MODEL_ENDED && t->outcome == MODEL_FAILED)
            return t;
    }
    return NULL;
}

void view_summary(const struct follow *f)
{
    const struct model *m = &f->model;
    const struct model_task *t = first_failed(m);
    char span[HUMAN_SIZE], n[HUMAN_SIZE], cause[64];
    uint64_t took = m->ended_ms > m->submitted_ms
                        ? m->ended_ms - m->submitted_ms : 0;

    (void) fflush(stdout);
    fprintf(stderr, "%s %s in %s: %s task%s", m->id,
            model_outcome_name(m->outcome), human_span(took, span),
            human_count(m->ntasks, n), m->ntasks == 1 ? "" : "s");
    for (unsigned o = 1; o < MODEL_OUTCOMES; o++) {
        if (m->outcomes[o] && m->outcomes[o] != m->ntasks)
            fprintf(stderr, ", %s %s", human_count(m->outcomes[o], n),
                    model_outcome_name(o));
    }
    fputc('\n', stderr);
    if (!t)
        return;
    model_cause(t, cause, sizeof cause);
    fprintf(stderr, "%s failed (%s); see 'weir logs %s/%s'\n", t->name, cause,
            m->id, t->name);
}
