#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct err;
struct loop;

/* client - HTTP/1.1 requests over a Unix socket or TLS, on the loop.
 *
 * Plain text over TCP is refused: a token would travel in the open.  Every
 * reply is bounded: CLIENT_BODY_MAX for a whole one, nothing for a stream,
 * whose bytes are handed on as they come.
 *
 * Failures to get an answer, as opposed to answers that say no:
 *     -ENOENT, -ECONNREFUSED   nobody is there: nothing was sent
 *     -EACCES                  the socket is there and not for us
 *     -ECONNRESET              the connection broke: it may have been received
 *     -ETIMEDOUT               likewise
 *     -EPROTO                  TLS or HTTP went wrong
 */
enum { CLIENT_BODY_MAX = 256 * 1024 * 1024 };

struct client;
struct transfer;

struct client_conf {
    const char *socket;                /* path; or NULL: url */
    const char *url;                   /* "https://host:port" */
    const char *token;                 /* may be NULL */
    const char *ca;                    /* PEM file; NULL: the system's */
    const char *cert, *key;            /* PEM files of a client; both or none */
    /* The same as texts in PEM form, which count before the files. */
    const char *ca_text, *cert_text, *key_text;
    /* What the server's certificate has to name; NULL: the URL's host. */
    const char *server_name;
};

int client_open(struct loop *l, const struct client_conf *conf,
                struct client **ret, struct err *err);
void client_close(struct client *c);   /* cancels all; NULL is fine */
const char *client_name(const struct client *c);   /* the socket or the URL */

struct client_request {
    const char *method;
    const char *path;                  /* "/v1/...", escaped, with its query */
    const char *type;                  /* of the body; NULL: no body */
    const void *body;                  /* borrowed until the end of the call */
    size_t len;
    const char *const *headers;        /* "Name: value", then NULL; or NULL */
    unsigned timeout_ms;               /* for all of it; 0: without end */
    bool repeats;                      /* it may arrive twice: a connection that
                                        * is there will do, as for GET */
    /* A client's certificate for this one, PEM texts that count before the
     * client's own; both or none.
     */
    const char *cert_text, *key_text;
};

/* Called from the loop.  `head` comes once, when status and headers are there
 * and before any bytes, also when there are none for now.  `bytes` may return
 * a negative number, which ends the transfer with it.  `done` is the last thing
 * heard of a transfer, which is gone after it; rc 0 says that the whole answer
 * was received.
 */
struct transfer_ops {
    void (*head)(struct transfer *t, void *arg);
    int (*bytes)(struct transfer *t, const char *p, size_t n, void *arg);
    void (*done)(struct transfer *t, int rc, const struct err *err, void *arg);
};

/* Starts it and returns.  Callbacks come from the loop, never from within. */
int client_start(struct client *c, const struct client_request *q,
                 const struct transfer_ops *ops, void *arg,
                 struct transfer **ret, struct err *err);
void transfer_cancel(struct transfer *t);          /* no `done`; NULL is fine */
int transfer_status(const struct transfer *t);     /* 0 before the head */
/* The value of a header of the answer, good until the next call; NULL when
 * absent.  `name` in any case.
 */
const char *transfer_header(struct transfer *t, const char *name);

struct client_reply {
    int status;
    char type[96];                     /* Content-Type, without parameters */
    struct buf body;
};
void client_reply_free(struct client_reply *r);

/* The same, waiting: turns the loop until the answer is there.  Not to be
 * called from a callback.
 */
int client_call(struct client *c, const struct client_request *q,
                struct client_reply *ret, struct err *err);

/* Add `s` with everything but letters, digits and "-._~" as %XX. */
void client_escape(struct buf *b, const char *s);
