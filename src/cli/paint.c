#include "cli/paint.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <langinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

enum { LINE_MAX_BYTES = 64 * 1024 };

void term_size(struct term *t)
{
    struct winsize ws = { 0 };

    t->width = 80;
    t->rows = 24;
    if (!t->tty || ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) < 0)
        return;
    if (ws.ws_col >= 20)
        t->width = ws.ws_col;
    if (ws.ws_row >= 5)
        t->rows = ws.ws_row;
}

void term_find(struct term *t)
{
    const char *no = getenv("NO_COLOR");
    const char *kind = getenv("TERM");
    bool dumb = !kind || strcmp(kind, "dumb") == 0;

    t->tty = isatty(STDOUT_FILENO) && !dumb;
    t->colour = t->tty && !(no && no[0]);
    t->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    term_size(t);
}

/* The character at `s`: its bytes and its columns.  What is no character, or
 * steers the terminal, is one byte and shown as '?' in one column.
 */
static size_t next_char(const char *s, unsigned *ret_width, bool *ret_odd)
{
    size_t n = utf8_size(s, strnlen(s, 4));
    unsigned char c = (unsigned char) s[0];
    wchar_t wide = 0;
    int w;

    *ret_width = 1;
    *ret_odd = n == 0 || (n == 1 && (c < 0x20 || c == 0x7f));
    if (*ret_odd || n == 1)
        return n ? n : 1;
    wide = c & (0xff >> (n + 1));
    for (size_t i = 1; i < n; i++)
        wide = (wide << 6) | (s[i] & 0x3f);
    *ret_odd = wide >= 0x80 && wide < 0xa0;
    /* Without a locale that knows it, one column is the best guess. */
    w = wcwidth(wide);
    if (w >= 0)
        *ret_width = (unsigned) w;
    return n;
}

unsigned paint_width(const char *text)
{
    unsigned sum = 0, w;
    bool odd;

    while (*text) {
        text += next_char(text, &w, &odd);
        sum += w;
    }
    return sum;
}

static const char *style_on(enum style s)
{
    switch (s) {
    case STYLE_BOLD: return "\033[1m";
    case STYLE_DIM:  return "\033[2m";
    case STYLE_GOOD: return "\033[32m";
    case STYLE_BAD:  return "\033[1;31m";
    case STYLE_BUSY: return "\033[36m";
    case STYLE_WAIT: return "\033[33m";
    case STYLE_PLAIN: break;
    }
    return "";
}

/* Blanks leave only when something follows them. */
static void add_blanks(struct paint *p)
{
    for (; p->blanks > 0; p->blanks--)
        buf_char(p->out, ' ');
}

/* As much of the text as there is room for. */
static void add_text(struct paint *p, const char *text)
{
    while (*text) {
        unsigned w;
        bool odd;
        size_t n = next_char(text, &w, &odd);

        if (p->limit && p->used + w > p->limit) {
            p->used = p->limit;        /* nothing more on this line */
            return;
        }
        if (odd)
            buf_char(p->out, '?');
        else
            buf_add(p->out, text, n);
        p->used += w;
        text += n;
    }
}

void paint_add(struct paint *p, enum style s, const char *text)
{
    bool styled = p->term->colour && s != STYLE_PLAIN;

    if (!*text || (p->limit && p->used >= p->limit))
        return;
    add_blanks(p);
    if (styled)
        buf_str(p->out, style_on(s));
    add_text(p, text);
    if (styled)
        buf_str(p->out, "\033[0m");
}

void paint_printf(struct paint *p, enum style s, const char *fmt, ...)
{
    autofree char *text = NULL;
    va_list ap;

    va_start(ap, fmt);
    text = mem_vprintf(fmt, ap);
    va_end(ap);
    paint_add(p, s, text);
}

void paint_to(struct paint *p, unsigned column)
{
    if (p->limit && column > p->limit)
        column = p->limit;
    if (column > p->used) {
        p->blanks += column - p->used;
        p->used = column;
    }
}

void paint_end(struct paint *p)
{
    buf_char(p->out, '\n');
    p->used = p->blanks = 0;
}

static void paint_run(struct paint *p, enum style s, const char *piece,
                      unsigned n)
{
    struct buf run = BUF_INIT(LINE_MAX_BYTES);

    for (unsigned i = 0; i < n; i++)
        buf_str(&run, piece);
    paint_add(p, s, buf_text(&run));
    buf_free(&run);
}

void paint_bar(struct paint *p, unsigned width, unsigned long part,
               unsigned long mark, unsigned long whole)
{
    unsigned a = whole ? (unsigned) (part * width / whole) : 0;
    unsigned b = whole ? (unsigned) ((part + mark) * width / whole) : 0;

    if (a > width)
        a = width;
    if (b > width)
        b = width;
    if (b == a && mark && b < width)
        b = a + 1;                     /* what runs is always seen */
    paint_run(p, STYLE_GOOD, p->term->utf8 ? "━" : "#", a);
    paint_run(p, STYLE_BUSY, p->term->utf8 ? "━" : "=", b - a);
    paint_run(p, STYLE_DIM, p->term->utf8 ? "╌" : ".", width - b);
}
