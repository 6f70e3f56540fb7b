#pragma once

#include "cli/print.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct cli;
struct err;

/* call - questions to the control plane, as a verb asks them.
 *
 * All return 0 or an exit status after saying what went wrong, so that a verb
 * only hands it on.  Connects by itself.
 */

/* `body` may be NULL; *ret may be NULL when the answer does not matter,
 * else it is owned by the caller.
 */
int call_json(struct cli *c, const char *method, const char *path,
              const json_t *body, json_t **ret);
/* The same with a document, YAML or JSON, as its body. */
int call_document(struct cli *c, const char *method, const char *path,
                  const char *text, size_t len, json_t **ret);
/* The media type of a document by how it begins. */
const char *call_type_of(const char *text, size_t len);
/* GET of a path put together as by call_path. */
int call_get(struct cli *c, json_t **ret, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, and nothing is said when it fails. */
int call_try(struct cli *c, json_t **ret, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Every page of a list: {"items": [...]}, at most `most` of them (0: all).
 * `path` has its query begun ("...?limit=1000"); `cursor` is the name of the
 * argument that takes "next", and `from` its first value, or NULL.
 */
int call_list(struct cli *c, const char *path, const char *cursor,
              const char *from, size_t most, json_t **ret);
/* Every task of a workload, with these members ("task,state"; NULL: all). */
int call_tasks(struct cli *c, const char *id, const char *fields,
               json_t **ret);

/* GET a short list, which has one page, and print a row for each item. */
int call_table(struct cli *c, const char *path,
               const struct table_column *columns, print_row_f add_row);
/* One task of a workload. */
int call_task(struct cli *c, const char *id, const char *task, json_t **ret);

/* DELETE what the verb's argument names: a `noun` ("token", at /v1/tokens) by
 * its `key` ("id").  Then say that it is `past` ("revoked").
 */
int call_delete(struct cli *c, const char *noun, const char *key,
                const char *past);

/* A path with its variable parts escaped: each "%s" of `fmt`.  Caller frees. */
char *call_path(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Say that no answer came (rc negative), or that the answer was no; returns
 * the exit status.
 */
int call_lost(const struct cli *c, int rc, const struct err *err);
int call_refused(const struct cli *c, int status, const char *body,
                 size_t len);

/* The exit status of an HTTP status of 400 or more. */
int call_exit(int status);
