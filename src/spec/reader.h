#pragma once

#include "base/buf.h"
#include "spec/doc.h"
#include "spec/node.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map;
struct near;
struct spec;
struct spec_arena;

/* reader - what all readers of parts of a document share: where they are,
 * what they found wrong, and the values that "{{ name }}" stands for.
 */
enum { READER_DEPTH = NODE_MAX_DEPTH + 4, READER_MATRIX = 16 };

/* The values of a matrix task, and the one of each that holds now. */
struct matrix {
    uint32_t naxes;
    struct axis {
        const char *name;
        const char **values;
        uint32_t count, now;
    } axes[READER_MATRIX];
};

struct step {
    const char *key;                   /* NULL: an index */
    uint32_t index;
};

struct reader {
    struct spec *spec;                 /* what is made */
    struct spec_arena *scratch;        /* until the reading is over */
    struct doc_problems *problems;
    size_t found;                      /* problems, also those kept already */
    struct map *params;                /* from name to value, a text */
    const struct matrix *matrix;       /* of the task that is read, or NULL */
    struct buf text;                   /* the last text with values put in */
    struct step path[READER_DEPTH];
    unsigned depth;
    uint64_t now_ms;
};

void reader_push(struct reader *r, const char *key);     /* borrowed */
void reader_push_index(struct reader *r, uint32_t index);
void reader_pop(struct reader *r);

/* A problem with the thing at `n` (NULL: the whole document), in the field
 * that the path names.  The same problem at the same place is kept once.
 */
void reader_problem(struct reader *r, const struct node *n,
                    const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void reader_problem_at(struct reader *r, unsigned line, unsigned column,
                       const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same, with "did you mean" when a word is near; else with `otherwise`. */
void reader_problem_near(struct reader *r, const struct node *n,
                         const struct near *near, const char *otherwise,
                         const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* "expected a size such as 40Gi, got a list" */
void reader_expected(struct reader *r, const struct node *n,
                     const char *expected);
/* How many were noted so far: when it has not grown, all went well. */
size_t reader_problems(const struct reader *r);
/* In order of their places, for the end. */
void reader_sort(struct reader *r);
/* No more are kept, only counted: looking for near words is not worth it. */
bool reader_full(const struct reader *r);

/* The text of a scalar with values put in; NULL after a problem was noted: a
 * collection, nothing at all, or an unknown name.  Lasts until the next call.
 */
const char *reader_text(struct reader *r, const struct node *n,
                        const char *expected);

/* That text for as long as the reading lasts. */
const char *reader_keep(struct reader *r, const struct node *n,
                        const char *text);

/* The value of a parameter, or NULL. */
const char *reader_param(const struct reader *r, const char *name);

/* True for a mapping whose keys are all different; notes what is wrong. */
bool reader_mapping(struct reader *r, const struct node *n,
                    const char *expected);

/* A word of the user's for a message: cut, and without control characters. */
struct quoted {
    char s[80];
};
struct quoted quoted(const char *text);
