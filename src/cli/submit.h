#pragma once

#include <jansson.h>
#include <stddef.h>

struct cli;
struct opt_list;

/* submit - hand a document in, once.
 *
 * Every submission carries an idempotency key.  When the connection breaks
 * before the answer, or the server says "not now", the same is sent again with
 * the same key: what was accepted the first time is not accepted twice, and a
 * lost answer is no lost job.
 */
struct submit {
    const char *text;                  /* the document */
    size_t len;
    const char *file;                  /* its name in messages */
    const struct opt_list *params;     /* "NAME=VALUE" */
    const char *tenant, *priority;     /* NULL: as the document says */
    const char *key;                   /* NULL: a random one */
};

/* 0 and the workload (caller owns), or an exit status after saying why. */
int submit(struct cli *c, const struct submit *s, json_t **ret);
