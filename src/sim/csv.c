#include "sim/csv.h"

#include "base/err.h"
#include "base/quantity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The next line that is not empty, terminated; NULL at the end. */
static char *next_line(struct csv *c)
{
    while (c->at < c->end) {
        char *line = c->at;
        char *stop = memchr(line, '\n', (size_t) (c->end - line));

        if (!stop)
            stop = c->end;
        c->at = stop < c->end ? stop + 1 : c->end;
        c->line++;
        *stop = '\0';
        if (stop > line && stop[-1] == '\r')
            *--stop = '\0';
        if (stop > line)
            return line;
    }
    return NULL;
}

static int split(const struct csv *c, char *line, char **values, size_t *ret,
                 struct err *err)
{
    size_t n = 0;

    if (strchr(line, '"'))
        return err_set(err, EINVAL, "%s:%zu: quoted values are not read here",
                       c->name, c->line);
    while (n < CSV_COLUMNS) {
        values[n++] = line;
        line = strchr(line, ',');
        if (!line)
            break;
        *line++ = '\0';
    }
    if (line)
        return err_set(err, E2BIG, "%s:%zu: more than %d columns", c->name,
                       c->line, CSV_COLUMNS);
    *ret = n;
    return 0;
}

static int check_heading(const struct csv *c, struct err *err)
{
    for (size_t i = 0; i < c->columns; i++)
        if (c->heading[i][0] && csv_find(c, c->heading[i]) != (int) i)
            return err_set(err, EINVAL, "%s:%zu: two columns '%.40s'; "
                           "expected one", c->name, c->line, c->heading[i]);
    return 0;
}

int csv_open(struct csv *c, const char *name, char *text, size_t len,
             struct err *err)
{
    static const char mark[] = "\xef\xbb\xbf";
    char *line;
    int rc;

    *c = (struct csv) { .name = name, .at = text, .end = text + len };
    if (len >= 3 && memcmp(text, mark, 3) == 0)
        c->at += 3;
    if (len >= 2 && text[0] == '\x1f' && text[1] == '\x8b')
        return err_set(err, EINVAL, "%s is compressed; 'gunzip' it first",
                       name);
    if (memchr(text, '\0', len))
        return err_set(err, EINVAL, "%s is not text", name);
    line = next_line(c);
    if (!line)
        return err_set(err, EINVAL, "%s is empty", name);
    rc = split(c, line, c->heading, &c->columns, err);
    return rc < 0 ? rc : check_heading(c, err);
}

int csv_next(struct csv *c, struct err *err)
{
    char *line = next_line(c);
    size_t n = 0;
    int rc;

    if (!line)
        return 0;
    rc = split(c, line, c->value, &n, err);
    if (rc < 0)
        return rc;
    if (n != c->columns)
        return err_set(err, EINVAL, "%s:%zu: %zu values under %zu headings",
                       c->name, c->line, n, c->columns);
    return 1;
}

int csv_find(const struct csv *c, const char *column)
{
    for (size_t i = 0; i < c->columns; i++)
        if (strcmp(c->heading[i], column) == 0)
            return (int) i;
    return -1;
}

int csv_need(const struct csv *c, const char *column, int *ret,
             struct err *err)
{
    int at = csv_find(c, column);

    if (at < 0)
        return err_set(err, EINVAL, "%s has no column '%s'", c->name, column);
    *ret = at;
    return 0;
}

static int refuse(const struct csv *c, int column, const char *why,
                  struct err *err)
{
    return err_set(err, EINVAL, "%s:%zu: %s '%.40s': %s", c->name, c->line,
                   c->heading[column], c->value[column], why);
}

int csv_count(const struct csv *c, int column, uint64_t max, uint64_t *ret,
              struct err *err)
{
    struct err why;
    uint64_t v;

    if (quantity_count(c->value[column], &v, &why) < 0)
        return refuse(c, column, why.text, err);
    if (v > max)
        return refuse(c, column, "too large", err);
    *ret = v;
    return 0;
}

int csv_number(const struct csv *c, int column, double max, double *ret,
               struct err *err)
{
    const char *s = c->value[column];
    size_t digits = strspn(s, "0123456789");
    size_t places = s[digits] == '.' ? strspn(s + digits + 1, "0123456789")
                                     : 0;
    double v;

    /* strtod also reads "inf", "0x1p4" and "1e9"; a trace has none. */
    if (digits == 0 || digits + places > 40 ||
        s[digits + (places ? places + 1 : 0)])
        return refuse(c, column, "not a decimal number", err);
    v = strtod(s, NULL);
    if (v > max)
        return refuse(c, column, "too large", err);
    *ret = v;
    return 0;
}
