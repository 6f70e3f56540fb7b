#pragma once

#include "spec/field.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map;
struct node;
struct reader;

/* task - the tasks of a document, unfolded: defaults put in, one task for each
 * combination of a matrix.
 */

/* Where a task stands, for problems that are found later. */
struct place {
    const struct node *at;
    const char *key;                   /* NULL: by index */
    uint32_t index;
};

/* What one task says about others, until all are known. */
struct link {
    const struct place *place;
    struct needs *needs;
    const char *together;
};

/* What a name under `needs` stands for: one task, or all of a matrix. */
struct span {
    uint32_t first, count;
    uint32_t line;
};

struct late {
    const struct field *field;
    const struct node *node;
    bool from_defaults;
};

struct tasks {
    struct reader *r;
    struct draft base;                 /* the defaults without "{{" */
    struct late late[32];              /* and those with */
    size_t nlate;
    uint32_t total, next;              /* room for, and made so far */
    struct link *links;                /* one for each task */
    struct map *names;                 /* to struct span */
    uint64_t text, weight;             /* unfolded so far, see the limits */
    bool full;                         /* past a limit: stop */
};

/* Read all tasks of a pipeline into r->spec, `defaults` may be NULL; then let
 * go what was needed for it.
 */
void tasks_read(struct reader *r, const struct node *defaults,
                const struct node *tasks);
/* The one task of a job, whose fields stand among those of the document. */
void tasks_read_job(struct reader *r, const struct node *root);

/* Needs to indexes, sets that start together to numbers, cycles refused. */
void link_tasks(struct tasks *ts);
