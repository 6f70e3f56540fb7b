#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* paint - lines for a terminal, cut to its width.
 *
 * A line is put together from pieces with a style each.  Widths are counted in
 * columns, not bytes; control characters, which a name from elsewhere could
 * bring along, become '?', so that no text can steer the terminal.
 */
struct term {
    bool tty;                          /* standard output is a terminal */
    bool colour, utf8;
    unsigned width, rows;              /* 80 and 24 when unknown */
};

/* What standard output is: isatty, NO_COLOR, TERM, the locale, the size. */
void term_find(struct term *t);
void term_size(struct term *t);        /* again, after SIGWINCH */

enum style {
    STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GOOD, STYLE_BAD, STYLE_BUSY,
    STYLE_WAIT
};

struct paint {
    struct buf *out;
    const struct term *term;
    unsigned limit;                    /* columns; 0: no limit */
    unsigned used;                     /* in this line */
    unsigned blanks;                   /* of these, last and not written */
};

void paint_add(struct paint *p, enum style s, const char *text);
void paint_printf(struct paint *p, enum style s, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Blanks up to there, unless nothing follows. */
void paint_to(struct paint *p, unsigned column);
void paint_end(struct paint *p);                   /* the line's end */
/* A bar of `width` columns, `part` of `whole` filled, `mark` of it in another
 * style behind that (running work behind finished work).
 */
void paint_bar(struct paint *p, unsigned width, unsigned long part,
               unsigned long mark, unsigned long whole);

/* Columns that a text takes. */
unsigned paint_width(const char *text);
