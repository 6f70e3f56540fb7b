#pragma once

#include "cli/human.h"
#include "cli/table.h"

#include <jansson.h>
#include <stdint.h>

struct cli;

/* print - objects of the API as cells and tables. */

int print_table(const struct cli *c, const struct table *t);

/* A sheet is a table of two columns without heading: what, and its value.
 * Empty values are left out.
 */
struct table *sheet_new(void);
void sheet_add(struct table *t, const char *what, const char *value);
void sheet_printf(struct table *t, const char *what, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int print_sheet(const struct cli *c, const struct table *t);

/* The age of a time member, "" when absent. */
const char *get_age(const json_t *o, const char *key, char *buf);
/* A number as it was sent: "2", "0.25". */
const char *get_number(const json_t *o, const char *key, char *buf);
/* "Sun 15 Nov 19:30:02" in local time, "" when absent. */
const char *get_clock(const json_t *o, const char *key, char *buf);
/* What a workload or task is in one word, and how it is painted. */
const char *state_word(const json_t *o);
enum style state_style(const char *word);
/* "exit status 3", "signal 9", "timeout" of a task that ended badly, or "". */
const char *end_text(const json_t *task, char *buf, size_t size);
/* A list of texts as "a, b"; caller frees. */
char *list_text(const json_t *list);
