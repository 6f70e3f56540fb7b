#pragma once

#include "api/auth.h"

#include <stddef.h>
#include <stdint.h>

struct call;
struct err;
struct url;

/* route - one row for each method and path: who may, what it takes, what it
 * gives, what does it.  Dispatch, the checks of arguments and bodies, and the
 * OpenAPI document are all made from these rows.
 */
enum { ROUTE_MAX_PARAMS = 2, ROUTE_MAX_ARGS = 8 };

enum arg_kind {
    ARG_NONE,                          /* the end of a list */
    ARG_TEXT,                          /* at most max bytes */
    ARG_COUNT,                         /* min to max */
    ARG_NUMBER,                        /* like it, with a sign: -max to max */
    ARG_FLAG,                          /* 1, true, 0, false */
    ARG_WORD,                          /* one of `words`, blank between */
    ARG_CURSOR,                        /* EPOCH:N */
    ARG_WORKLOAD,                      /* w12 */
    ARG_FIELDS,                        /* members of a schema, commas between */
    ARG_PARAM,                         /* NAME=VALUE, repeatable */
};

struct arg {
    const char *name;
    enum arg_kind kind;
    uint64_t min, max;
    const char *words;                 /* ARG_WORD; ARG_FIELDS: the schema */
    const char *help;
};

enum body_kind {
    BODY_NONE,
    BODY_JSON,                         /* an object; {} when left out */
    BODY_DOCUMENT,                     /* YAML or JSON, as src/spec reads it */
};

struct route {
    const char *method, *path;         /* "/v1/workloads/{id}" */
    enum role role;
    void (*handle)(struct call *c);
    const char *id, *summary;          /* for the OpenAPI document */
    struct arg args[ROUTE_MAX_ARGS];
    enum body_kind body;
    const char *body_schema;           /* of BODY_JSON */
    unsigned status;                   /* when all is well */
    const char *type;                  /* of the answer; NULL: no body */
    const char *schema;                /* of a JSON answer */
    const char *errors;                /* other statuses, blank between */
};

extern const struct route routes[];
extern const size_t routes_count;

/* The row for a request, its path's parameters in `param`; NULL: none.  Then
 * `allow` (of at least 64) lists the methods that the path has; "" when there
 * is no such path.  HEAD is found as GET.
 */
const struct route *route_find(const char *method, const struct url *u,
                               const char *param[ROUTE_MAX_PARAMS],
                               char *allow, size_t size);
/* The query against the row: every name known, at most once unless
 * repeatable, every value of its kind.  -EINVAL.
 */
int route_check_args(const struct route *r, const struct url *u,
                     struct err *err);
