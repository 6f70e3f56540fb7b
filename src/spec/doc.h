#pragma once

#include "base/buf.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct spec;

/* doc - turns a native document (YAML, or the same in JSON) into a spec.
 *
 * All complaints are found in one go, in order of line, and each names file,
 * line, column, field, what was expected and the nearest valid word:
 *
 *     train.yaml:7:5: tasks[1].gpu: unknown key 'modle'; did you mean 'model'?
 *
 * Aliases and anchors are accepted within bounds (nodes after expansion and
 * depth are limited), so a document cannot unfold into more than it may.
 */
struct doc_param {
    const char *name, *value;          /* weir run -p name=value */
};

struct doc_problem {
    unsigned line, column;             /* from 1; 0: of the whole document */
    char *field;                       /* "tasks[1].gpu", may be "" */
    char *text;                        /* what is wrong, expected, nearest */
};

struct doc_problems {
    struct doc_problem *items;
    size_t count;                      /* at most 100 kept */
    size_t more;                       /* found beyond those */
};
void doc_problems_free(struct doc_problems *p);
/* One line each, "FILE:LINE:COL: FIELD: TEXT\n". */
void doc_problems_print(const struct doc_problems *p, const char *file,
                        struct buf *out);
/* The first of them in `err`, for those who have one line to say it in; returns
 * -code.
 */
int doc_problems_err(const struct doc_problems *p, const char *file, int code,
                     struct err *err);
/* A list of {file, line, column, field, text}; `more` is not in it. */
json_t *doc_problems_json(const struct doc_problems *p, const char *file);

/* Read `len` bytes.  0 and *ret (caller frees with spec_free), or -EINVAL with
 * `problems` filled (empty before; caller frees), or -E2BIG for a document
 * past SPEC_MAX_BYTES (also named in problems).  now_ms (wall clock) is what
 * relative deadlines ("deadline: 2h") count from.
 */
int doc_read(const char *text, size_t len, const struct doc_param *params,
             size_t nparams, uint64_t now_ms, struct spec **ret,
             struct doc_problems *problems);

/* The JSON Schema (draft 2020-12) of the document, as text; static. */
const char *doc_schema(void);
