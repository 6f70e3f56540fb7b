#include "cli/tree.h"

#include "base/mem.h"
#include "cli/human.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The prefix of a line has two columns for each level. */
enum { MAX_DEPTH = 12, STATE_COLUMNS = 9, SPAN_COLUMNS = 7 };

struct glyph {
    const char *utf8, *ascii;
    enum style style;
};

static struct glyph glyph_of(const struct model_task *t)
{
    static const struct glyph running[MODEL_STATES] = {
        [MODEL_BLOCKED] = { "·", ".", STYLE_DIM },
        [MODEL_WAITING] = { "○", "o", STYLE_WAIT },
        [MODEL_STARTING] = { "◌", "*", STYLE_BUSY },
        [MODEL_RUNNING] = { "●", "*", STYLE_BUSY },
        [MODEL_SUSPENDED] = { "◎", "-", STYLE_WAIT },
        [MODEL_ENDING] = { "◍", "~", STYLE_WAIT },
    };
    static const struct glyph ended[MODEL_OUTCOMES] = {
        [MODEL_NONE] = { "?", "?", STYLE_DIM },
        [MODEL_SUCCEEDED] = { "✔", "+", STYLE_GOOD },
        [MODEL_FAILED] = { "✘", "x", STYLE_BAD },
        [MODEL_SKIPPED] = { "-", "-", STYLE_DIM },
        [MODEL_ABORTED] = { "⊘", "!", STYLE_BAD },
    };

    return t->state == MODEL_ENDED ? ended[t->outcome] : running[t->state];
}

/* ---- the workload's line ---- */

/* Has anything of it started, or ended? */
static bool has_begun(const struct model *m)
{
    for (uint32_t i = 0; i < m->ntasks; i++)
        if (m->tasks[i].gen > 0)
            return true;
    return m->count[MODEL_ENDED] > 0;
}

/* As state_word (print.h) has it. */
static const char *word_of(const struct model *m)
{
    if (m->ended)
        return model_outcome_name(m->outcome);
    if (m->quarantined)
        return "quarantined";
    if (m->paused)
        return "paused";
    if (m->count[MODEL_RUNNING] + m->count[MODEL_STARTING] +
        m->count[MODEL_ENDING] > 0)
        return "running";
    if (!has_begun(m))
        return "queued";
    if (m->count[MODEL_SUSPENDED] > 0)
        return "suspended";
    return m->count[MODEL_WAITING] > 0 ? "waiting" : "running";
}

static enum style style_of(const struct model *m)
{
    if (!m->ended)
        return m->paused || m->quarantined ? STYLE_WAIT : STYLE_BUSY;
    return m->outcome == MODEL_SUCCEEDED ? STYLE_GOOD : STYLE_BAD;
}

/* The workload's line. */
static void paint_head(const struct model *m, const struct tree_conf *conf,
                       struct buf *out)
{
    struct paint p = { .out = out, .term = conf->term,
                       .limit = conf->term->width };
    uint64_t to = m->ended ? m->ended_ms : conf->now_ms;
    uint32_t busy = m->count[MODEL_RUNNING] + m->count[MODEL_STARTING] +
                    m->count[MODEL_ENDING];
    char a[HUMAN_SIZE], b[HUMAN_SIZE];

    paint_add(&p, STYLE_BOLD, m->id);
    paint_printf(&p, STYLE_PLAIN, " %s ", m->name);
    paint_add(&p, style_of(m), word_of(m));
    paint_add(&p, STYLE_PLAIN, "  ");
    paint_bar(&p, 20, m->count[MODEL_ENDED], busy, m->ntasks);
    paint_printf(&p, STYLE_PLAIN, "  %s/%s",
                 human_count(m->count[MODEL_ENDED], a),
                 human_count(m->ntasks, b));
    if (m->outcomes[MODEL_FAILED])
        paint_printf(&p, STYLE_BAD, "  %s failed",
                     human_count(m->outcomes[MODEL_FAILED], a));
    paint_printf(&p, STYLE_DIM, "  %s",
                 human_span(to > m->submitted_ms ? to - m->submitted_ms : 0,
                            a));
    paint_end(&p);
}

/* ---- a task's line ---- */

struct shape {
    uint32_t parent[TREE_MAX];         /* MODEL_NO_TASK: a root */
    unsigned depth[TREE_MAX];
};

struct drawing {
    const struct model *m;
    const struct tree_conf *conf;
    struct shape shape;
    struct paint paint;
    unsigned column;                   /* where names end */
    const char *said;                  /* the reason given last */
};

/* The same reason line after line is said once. */
static void paint_why(struct drawing *d, const char *why)
{
    if (!d->said || strcmp(d->said, why) != 0)
        paint_add(&d->paint, STYLE_WAIT, why);
    d->said = why;
}

static void paint_detail(struct drawing *d, const struct model_task *t)
{
    uint64_t now_ms = d->conf->now_ms;
    struct paint *p = &d->paint;
    char text[64], span[HUMAN_SIZE];

    if (t->state == MODEL_WAITING && t->retried && t->until_ms > now_ms) {
        model_cause(t, text, sizeof text);
        paint_printf(p, STYLE_WAIT, "%s; again in %s", text,
                     human_span(t->until_ms - now_ms, span));
    } else if (t->state == MODEL_WAITING && t->why) {
        paint_why(d, t->why);
    } else if (t->state == MODEL_ENDED || t->state == MODEL_ENDING) {
        model_cause(t, text, sizeof text);
        paint_add(p, STYLE_BAD, text);
    } else if (t->state >= MODEL_STARTING && t->place[0]) {
        paint_add(p, STYLE_DIM, t->place);
        if (d->m->simulated && t->wants_devices)
            paint_add(p, STYLE_DIM, " (simulated)");
        if (t->gen > 1 && t->gen < 1000)
            paint_printf(p, STYLE_WAIT, "  attempt %u", t->gen);
    }
}

/* What a task needs besides the one above it, which the tree cannot show; ""
 * for nothing.
 */
static void other_needs(const struct model *m, const struct model_task *t,
                        uint32_t above, char *buf, size_t size)
{
    const char *other = "";

    buf[0] = '\0';
    if (above == MODEL_NO_TASK || t->nneeds < 2)
        return;
    for (uint32_t k = 0; k < t->nneeds; k++) {
        if (t->needs[k] != above)
            other = m->tasks[t->needs[k]].name;
    }
    if (t->nneeds == 2)
        (void) snprintf(buf, size, " (and %.40s)", other);
    else
        (void) snprintf(buf, size, " (and %" PRIu32 " more)", t->nneeds - 1);
}

static void paint_task(struct drawing *d, uint32_t i, uint32_t above,
                       const char *lead)
{
    const struct model_task *t = &d->m->tasks[i];
    struct paint *p = &d->paint;
    unsigned at;
    char others[64];
    struct glyph g = glyph_of(t);
    char span[HUMAN_SIZE] = "";

    paint_add(p, STYLE_DIM, lead);
    paint_add(p, g.style, p->term->utf8 ? g.utf8 : g.ascii);
    paint_printf(p, STYLE_PLAIN, " %s", t->name);
    other_needs(d->m, t, above, others, sizeof others);
    paint_add(p, STYLE_DIM, others);
    paint_to(p, d->column);
    paint_to(p, p->used + 2);
    at = p->used + STATE_COLUMNS + 1 + SPAN_COLUMNS;
    paint_add(p, g.style, model_word(t));
    if (t->started_ms)
        (void) human_span(model_elapsed(t, d->conf->now_ms), span);
    paint_to(p, at - paint_width(span));
    paint_add(p, STYLE_PLAIN, span);
    paint_to(p, at + 2);
    paint_detail(d, t);
    paint_end(p);
}

/* ---- the tree ---- */

/* A need comes before what needs it, though not in order of index: go round
 * until nothing moves.  There is no cycle, so at most ntasks rounds.
 */
static void find_shape(const struct model *m, struct shape *s)
{
    bool moved = true;

    for (uint32_t i = 0; i < m->ntasks; i++) {
        s->depth[i] = 0;
        s->parent[i] = MODEL_NO_TASK;
    }
    for (uint32_t round = 0; moved && round <= m->ntasks; round++) {
        moved = false;
        for (uint32_t i = 0; i < m->ntasks; i++) {
            for (uint32_t k = 0; k < m->tasks[i].nneeds; k++) {
                uint32_t need = m->tasks[i].needs[k];

                if (s->depth[need] + 1 > s->depth[i]) {
                    s->depth[i] = s->depth[need] + 1;
                    s->parent[i] = need;
                    moved = true;
                }
            }
        }
    }
}

static unsigned name_column(const struct model *m, const struct shape *s,
                            unsigned width)
{
    unsigned most = 8, cap = width / 2;

    for (uint32_t i = 0; i < m->ntasks; i++) {
        unsigned d = s->depth[i] < MAX_DEPTH ? s->depth[i] : MAX_DEPTH;
        unsigned w = paint_width(m->tasks[i].name) + 4 + 2 * d;
        char others[64];

        other_needs(m, &m->tasks[i], s->parent[i], others, sizeof others);
        w += paint_width(others);
        if (w > most)
            most = w;
    }
    return most < cap ? most : cap;
}

/* The tasks below `parent`, each with what is below it. */
static void paint_below(struct drawing *d, uint32_t parent, const char *lead)
{
    bool utf8 = d->conf->term->utf8;
    uint32_t last = MODEL_NO_TASK;

    for (uint32_t i = 0; i < d->m->ntasks; i++) {
        if (d->shape.parent[i] == parent)
            last = i;
    }
    for (uint32_t i = 0; i < d->m->ntasks; i++) {
        const char *branch = "", *trunk = "";
        autofree char *own = NULL, *below = NULL;

        if (d->shape.parent[i] != parent)
            continue;
        if (parent != MODEL_NO_TASK && d->shape.depth[i] <= MAX_DEPTH) {
            branch = utf8 ? (i == last ? "└─" : "├─")
                          : (i == last ? "`-" : "|-");
            trunk = i == last ? "  " : utf8 ? "│ " : "| ";
        }
        own = mem_printf("%s%s", lead, branch);
        below = mem_printf("%s%s", lead, trunk);
        paint_task(d, i, parent, own);
        paint_below(d, i, below);
    }
}

static bool fits(const struct model *m, const struct tree_conf *conf)
{
    return m->ntasks <= TREE_MAX &&
           (conf->rows == 0 || m->ntasks + 1 <= conf->rows);
}

/* ---- the short list ---- */

enum { SECTIONS = 4 };

/* In order of interest; tasks in none of them are only counted. */
static unsigned section_of(const struct model_task *t)
{
    if (t->state == MODEL_ENDED)
        return t->outcome == MODEL_FAILED || t->outcome == MODEL_ABORTED
                   ? 0 : SECTIONS;
    if (t->state >= MODEL_STARTING)
        return 1;
    return t->state == MODEL_WAITING ? 2 : 3;
}

/* How many of each section get a line, of `room`: failures up to a third,
 * then what runs, then a few that wait.
 */
static void share_room(const struct model *m, unsigned room, uint32_t *ret)
{
    uint32_t have[SECTIONS] = { 0 };
    unsigned most[SECTIONS] = { room / 3, room, 5, 0 };

    for (uint32_t i = 0; i < m->ntasks; i++) {
        unsigned s = section_of(&m->tasks[i]);

        if (s < SECTIONS)
            have[s]++;
    }
    for (unsigned s = 0; s < SECTIONS; s++) {
        ret[s] = have[s] < most[s] ? have[s] : most[s];
        if (ret[s] > room)
            ret[s] = room;
        room -= ret[s];
    }
}

/* The tasks that get a line, by section; how many. */
static uint32_t pick(const struct model *m, unsigned room, uint32_t *ret,
                     uint32_t most)
{
    uint32_t share[SECTIONS], n = 0;

    share_room(m, room, share);
    for (unsigned s = 0; s < SECTIONS; s++) {
        uint32_t left = share[s];

        for (uint32_t i = 0; left > 0 && n < most && i < m->ntasks; i++) {
            if (section_of(&m->tasks[i]) == s) {
                ret[n++] = i;
                left--;
            }
        }
    }
    return n;
}

static unsigned room_of(const struct tree_conf *conf)
{
    unsigned rows = conf->rows ? conf->rows : TREE_MAX;

    /* The head and a line of counts. */
    rows = rows > 4 ? rows - 2 : 2;
    return rows < TREE_MAX ? rows : TREE_MAX;
}

static void paint_rest(struct paint *p, const struct model *m,
                       const uint32_t *shown, uint32_t n)
{
    uint32_t left[MODEL_STATES], gone[MODEL_OUTCOMES];
    const char *gap = p->term->utf8 ? "  … " : "  ... ";
    char num[HUMAN_SIZE];

    memcpy(left, m->count, sizeof left);
    memcpy(gone, m->outcomes, sizeof gone);
    for (uint32_t i = 0; i < n; i++) {
        const struct model_task *t = &m->tasks[shown[i]];

        left[t->state]--;
        if (t->state == MODEL_ENDED)
            gone[t->outcome]--;
    }
    for (unsigned s = 0; s < MODEL_ENDED; s++) {
        if (left[s] == 0)
            continue;
        paint_printf(p, STYLE_DIM, "%s%s more %s", gap,
                     human_count(left[s], num), model_state_name(s));
        gap = ", ";
    }
    for (unsigned o = 1; o < MODEL_OUTCOMES; o++) {
        if (gone[o] == 0)
            continue;
        paint_printf(p, STYLE_DIM, "%s%s %s", gap, human_count(gone[o], num),
                     model_outcome_name(o));
        gap = ", ";
    }
    if (p->used)
        paint_end(p);
}

static void paint_short(struct drawing *d)
{
    uint32_t shown[TREE_MAX];
    uint32_t n = pick(d->m, room_of(d->conf), shown, TREE_MAX);
    unsigned cap = d->conf->term->width / 2;

    d->column = 8;
    for (uint32_t i = 0; i < n; i++) {
        unsigned w = paint_width(d->m->tasks[shown[i]].name) + 4;

        if (w > d->column)
            d->column = w < cap ? w : cap;
    }
    for (uint32_t i = 0; i < n; i++)
        paint_task(d, shown[i], MODEL_NO_TASK, "  ");
    paint_rest(&d->paint, d->m, shown, n);
}

void tree_paint(const struct model *m, const struct tree_conf *conf,
                struct buf *out)
{
    struct drawing d = {
        .m = m, .conf = conf,
        .paint = { .out = out, .term = conf->term,
                   .limit = conf->term->width },
    };

    paint_head(m, conf, out);
    if (!fits(m, conf)) {
        paint_short(&d);
        return;
    }
    find_shape(m, &d.shape);
    d.column = name_column(m, &d.shape, conf->term->width);
    paint_below(&d, MODEL_NO_TASK, "  ");
}

uint32_t tree_waiting(const struct model *m, const struct tree_conf *conf,
                      uint32_t *ret, uint32_t n)
{
    uint32_t shown[TREE_MAX], count = 0, all;

    if (fits(m, conf)) {
        all = m->ntasks;
        for (uint32_t i = 0; i < all; i++)
            shown[i] = i;
    } else {
        all = pick(m, room_of(conf), shown, TREE_MAX);
    }
    for (uint32_t i = 0; i < all && count < n; i++) {
        if (m->tasks[shown[i]].state == MODEL_WAITING)
            ret[count++] = shown[i];
    }
    return count;
}
