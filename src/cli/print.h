#pragma once

#include "cli/human.h"
#include "cli/table.h"

#include <jansson.h>
#include <stdint.h>

struct buf;
struct cli;

/* print - answers of the API on standard output.
 *
 * What prints returns 0, or an exit status after saying why it could not.
 */

/* For jq, or a person: indented. */
int print_json(const struct cli *c, const json_t *j);
/* What was painted. */
int print_buf(const struct cli *c, const struct buf *b);
/* A text and the end of its line. */
int print_text(const struct cli *c, const char *text);
/* What was done: the answer with -o json, else the line. */
int print_done(const struct cli *c, const json_t *answer, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* An object: as it came with -o json, else by `print`. */
typedef int (*print_f)(struct cli *c, const json_t *o);
int print_object(struct cli *c, const json_t *o, print_f print);
/* The "items" of a list: as they came with -o json, else a row each. */
typedef void (*print_row_f)(struct table *t, const json_t *item);
int print_items(struct cli *c, const json_t *list,
                const struct table_column *columns, print_row_f add_row);

int print_table(const struct cli *c, struct table *t);      /* taken */

/* A sheet is a table of two columns without heading: what, and its value.
 * Empty values are left out.
 */
struct table *sheet_new(void);
void sheet_add(struct table *t, const char *what, const char *value);
void sheet_printf(struct table *t, const char *what, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Labels as "a=1 b=2". */
void sheet_labels(struct table *t, const json_t *labels);
int print_sheet(const struct cli *c, struct table *t);      /* taken */

/* The age of a time member, "" when absent. */
const char *get_age(const json_t *o, const char *key, char *buf);
/* A number as it was sent: "2", "0.25". */
const char *get_number(const json_t *o, const char *key, char *buf);
/* The action of a device's health where that keeps new tasks off it; else "". */
const char *get_closed(const json_t *device);
/* "Sun 15 Nov 19:30:02" in local time, "" when absent. */
const char *get_clock(const json_t *o, const char *key, char *buf);
/* What a workload or task is in one word, and how it is painted.  A workload
 * that runs, but of which everything left waits, is waiting.
 */
const char *state_word(const json_t *o);
enum style state_style(const char *word);
/* "exit status 3", "signal 9", "timeout" of a task that ended badly, or "". */
const char *end_text(const json_t *task, char *buf, size_t size);
/* A list of texts as "a, b"; caller frees. */
char *list_text(const json_t *list);
