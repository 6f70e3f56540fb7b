#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* csv - rows of plain values under a heading.
 *
 * Values have no quotes, commas or line ends inside; a quote is refused rather
 * than misread.  Every row has as many values as the heading.  A file may end
 * with or without a line end, and its lines may end in CR LF.  Empty lines are
 * passed over, and so is the mark of UTF-8 that some programs put in front.
 * Two columns of one name are refused: nobody knows which is meant.
 *
 *     struct csv c;
 *
 *     rc = csv_open(&c, "nodes.csv", text, len, err);
 *     while (rc == 0 && (rc = csv_next(&c, err)) > 0)
 *         rc = csv_count(&c, column, MAX, &value, err);
 */
enum { CSV_COLUMNS = 32 };

struct csv {
    const char *name;                  /* of the file, for messages; borrowed */
    char *at, *end;                    /* what is not read yet */
    size_t line;                       /* of the row, the heading being 1 */
    size_t columns;
    char *heading[CSV_COLUMNS];
    char *value[CSV_COLUMNS];          /* of the row; never NULL */
};

/* `text` is borrowed until the last row is read, and is cut into values;
 * text[len] is writable.
 */
int csv_open(struct csv *c, const char *name, char *text, size_t len,
             struct err *err);
/* 1: a row; 0: no more. */
int csv_next(struct csv *c, struct err *err);

/* The place of a column, -1 when there is none. */
int csv_find(const struct csv *c, const char *column);
/* The same, where there must be one. */
int csv_need(const struct csv *c, const char *column, int *ret,
             struct err *err);

/* A value of the row, whole: a count of at most `max`; a decimal number of at
 * least 0 and at most `max`, without exponent.
 */
int csv_count(const struct csv *c, int column, uint64_t max, uint64_t *ret,
              struct err *err);
int csv_number(const struct csv *c, int column, double max, double *ret,
               struct err *err);
