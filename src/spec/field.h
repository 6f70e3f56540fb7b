#pragma once

#include "core/spec.h"

#include <stddef.h>
#include <stdint.h>

struct matrix;
struct node;
struct reader;
struct field;
struct table;

/* field - the one list of what a document may say.
 *
 * A row is a key: where it may stand, how it is read and to where, and its
 * help.  The reader, the "did you mean" texts and the JSON Schema all come
 * from these rows, and a test holds docs/document.md to them.
 */
enum field_use {
    USE_PIPELINE = 1,                  /* at the top of a pipeline */
    USE_JOB = 2,                       /* at the top of a job */
    USE_TASK = 4,                      /* in a task of a pipeline */
    USE_DEFAULTS = 8,
    USE_PART = 16,                     /* in a mapping below one of these */
};

/* How a value is read, and its JSON Schema as text.  Where the schema needs
 * the field's own words or table it is NULL, and src/spec/schema.c makes it.
 */
struct type {
    const char *expected;              /* "a size such as 40Gi" */
    /* Read `n` into the member of `base` that the field names.  What is wrong
     * is noted with the reader, and the member keeps what it had.
     */
    void (*read)(struct reader *r, const struct field *f,
                 const struct node *n, void *base);
    const char *schema;
};

struct field {
    const char *name;
    const struct type *type;           /* NULL read: src/spec/doc.c reads it */
    unsigned use;                      /* enum field_use */
    size_t at, size;                   /* the member */
    size_t count_at;                   /* its count, 0: none */
    const struct table *table;         /* of a mapping with known keys */
    const char *const *words;          /* of a choice, ended by NULL */
    const char *help;
};

struct table {
    const char *what;                  /* "a task" */
    const struct field *fields;
    size_t count;
};

extern const struct table table_document;          /* base: struct spec */
extern const struct table table_task;              /* base: struct draft */

/* A task while it is read. */
struct draft {
    struct spec_task task;
    const char *together;
    struct needs *needs;
    struct matrix *matrix;
};

/* The names under `needs`; tasks of one matrix may share them. */
struct needs {
    uint32_t count;
    const char **names;
    const struct node **at;
    const uint32_t *resolved;          /* NULL: not yet */
    uint32_t nresolved;
};

/* The row of this name that may be used here, or NULL. */
const struct field *field_find(const struct table *t, const char *name,
                               unsigned use);
/* Note that there is no such key here, and what was probably meant.  `more`
 * is a second table whose keys may stand here too, or NULL.
 */
void field_unknown(struct reader *r, const struct node *key,
                   const struct table *t, const struct table *more,
                   unsigned use);
/* Read one value, with the field's name on the path. */
void field_read(struct reader *r, const struct field *f, const struct node *n,
                void *base);
/* Read a mapping with known keys. */
void field_read_table(struct reader *r, const struct table *t,
                      const struct node *n, void *base);
/* The member of `base` that the field names. */
static inline void *field_member(const struct field *f, void *base)
{
    return (char *) base + f->at;
}

/* Back to what it is in `init`. */
void field_reset(const struct field *f, void *base, const void *init);
