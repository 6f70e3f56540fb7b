#pragma once

#include "cli/paint.h"

#include <stdbool.h>
#include <stddef.h>

/* table - rows under a heading, aligned.
 *
 * Columns are as wide as their widest cell; the last one is not padded.  On a
 * terminal lines are cut at its edge.  An empty cell shows as "-".
 */
struct table;

struct table_column {
    const char *name;
    bool right;                        /* numbers */
    bool wide;                         /* only with -o wide */
};

/* `columns` ends with a name of NULL and is borrowed. */
struct table *table_new(const struct table_column *columns);
void table_free(struct table *t);      /* NULL is fine */
/* The next cell, in order of the columns, row after row; copied. */
void table_add(struct table *t, enum style s, const char *text);
void table_printf(struct table *t, enum style s, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
size_t table_rows(const struct table *t);
void table_paint(const struct table *t, const struct term *term, bool wide,
                 bool header, struct buf *out);
