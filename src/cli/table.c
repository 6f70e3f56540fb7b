#include "cli/table.h"

#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

struct cell {
    char *text;
    enum style style;
};

struct table {
    const struct table_column *columns;
    size_t ncolumns;
    struct cell *cells;
    size_t ncells, cap;
};

struct table *table_new(const struct table_column *columns)
{
    struct table *t = mem_new(sizeof *t);

    t->columns = columns;
    while (columns[t->ncolumns].name)
        t->ncolumns++;
    assert(t->ncolumns > 0);
    return t;
}

void table_free(struct table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->ncells; i++)
        free(t->cells[i].text);
    free(t->cells);
    free(t);
}

static void table_take(struct table *t, enum style s, char *text)
{
    if (t->ncells == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 64;
        t->cells = mem_grow(t->cells, t->cap, sizeof *t->cells);
    }
    t->cells[t->ncells++] = (struct cell) { .text = text, .style = s };
}

void table_add(struct table *t, enum style s, const char *text)
{
    table_take(t, s, mem_str(text && text[0] ? text : "-"));
}

void table_printf(struct table *t, enum style s, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, fmt);
    text = mem_vprintf(fmt, ap);
    va_end(ap);
    table_take(t, s, text);
}

size_t table_rows(const struct table *t)
{
    return t->ncells / t->ncolumns;
}

static unsigned column_width(const struct table *t, size_t col, bool header)
{
    unsigned most = header ? paint_width(t->columns[col].name) : 0;

    for (size_t i = col; i < t->ncells; i += t->ncolumns) {
        unsigned w = paint_width(t->cells[i].text);

        if (w > most)
            most = w;
    }
    return most;
}

/* One line: the heading when `cells` is NULL. */
static void paint_row(const struct table *t, const struct cell *cells,
                      const unsigned *widths, bool wide, struct paint *p)
{
    unsigned at = 0;

    for (size_t i = 0; i < t->ncolumns; i++) {
        const struct table_column *c = &t->columns[i];
        const char *text = cells ? cells[i].text : c->name;

        if (c->wide && !wide)
            continue;
        paint_to(p, at);
        if (c->right)
            paint_to(p, at + widths[i] - paint_width(text));
        paint_add(p, cells ? cells[i].style : STYLE_DIM, text);
        at += widths[i] + 2;
    }
    paint_end(p);
}

void table_paint(const struct table *t, const struct term *term, bool wide,
                 bool header, struct buf *out)
{
    autofree unsigned *widths = mem_array(t->ncolumns, sizeof *widths);
    struct paint p = { .out = out, .term = term };

    assert(t->ncells % t->ncolumns == 0);
    if (term->tty && !wide)
        p.limit = term->width;
    for (size_t i = 0; i < t->ncolumns; i++)
        widths[i] = column_width(t, i, header);
    if (header)
        paint_row(t, NULL, widths, wide, &p);
    for (size_t i = 0; i + t->ncolumns <= t->ncells; i += t->ncolumns)
        paint_row(t, &t->cells[i], widths, wide, &p);
}
