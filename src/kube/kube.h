#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct err;
struct loop;

/* kube - requests to one API server.
 *
 * At most KUBE_IN_FLIGHT are under way at once, streams aside; the rest waits
 * in line, KUBE_QUEUE of them at most.  When the server asks for patience
 * (Retry-After) nothing leaves before then.  The server is always verified.
 */
enum {
    KUBE_IN_FLIGHT = 16,
    KUBE_QUEUE = 65536,
    KUBE_BODY_MAX = 256 * 1024 * 1024,
    KUBE_ANSWER_MS = 60000,            /* for a whole answer */
};

struct kube;
struct kube_call;

struct kube_request {
    const char *method;
    const char *path;                  /* "/api/v1/nodes?limit=500", escaped */
    const char *type;                  /* of the body; NULL: no body */
    const void *body;                  /* copied */
    size_t len;
    bool stream;                       /* bytes are handed on as they come */
    bool repeats;                      /* it may arrive twice; a new connection
                                        * for each that may not is dear */
    unsigned timeout_ms;               /* 0: KUBE_ANSWER_MS; a stream: none */
};

/* rc is 0 for an answer of 2xx, received whole.  Otherwise `text` says in one
 * line what is wrong; rc as in net/client.h where there was no answer, and as
 * in kube/status.h where it said no.
 */
struct kube_answer {
    int rc;
    int http;                          /* 0: none */
    const char *text;
    uint64_t wait_ms;                  /* not before then again; 0: not said */
    const char *body;                  /* of 2xx and no stream; NUL-terminated */
    size_t len;
};

struct kube_ops {
    /* A stream was answered with 2xx: it runs.  NULL, as is `bytes`, where
     * none is asked for.
     */
    void (*head)(void *arg);
    /* Of such a stream; negative ends it with that. */
    int (*bytes)(const char *p, size_t n, void *arg, struct err *err);
    /* The last thing heard of it. */
    void (*done)(const struct kube_answer *a, void *arg);
};

/* `conf` is borrowed and outlives it. */
int kube_open(struct loop *l, const struct config *conf, struct kube **ret,
              struct err *err);
void kube_close(struct kube *k);       /* calls nobody; NULL is fine */
const char *kube_name(const struct kube *k);       /* for messages */
struct loop *kube_loop(const struct kube *k);

/* Callbacks come from the loop, never from within.  A callback may start and
 * cancel any, but not close the whole.  Fails when the line is full (-EAGAIN).
 */
int kube_start(struct kube *k, const struct kube_request *q,
               const struct kube_ops *ops, void *arg, struct kube_call **ret,
               struct err *err);
void kube_cancel(struct kube_call *c); /* no `done`; NULL is fine */

/* How many requests have left so far. */
uint64_t kube_sent(const struct kube *k);
