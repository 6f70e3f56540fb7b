#pragma once

#include "net/url.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct loop;

/* http - an HTTP/1.1 server in the loop, on one listening socket.
 *
 * A request is handed over twice: `head` when its head is there and is
 * within the limits, `request` when its body is there too.  It is answered
 * exactly once, by http_reply, http_problem or http_stream, from within those
 * calls or any time later; between `request` and the answer the request stays
 * valid even when the client is gone.  After the answer is sent (or could not
 * be) `done` is called once and the request is no more.
 *
 * What the server refuses by itself (a head too large, a URL that is no URL,
 * a body past the limit, a client that takes too long) never reaches the
 * callbacks.
 */
struct http;
struct http_req;
struct http_stream;

enum {
    HTTP_MAX_HEAD = 16384,             /* bytes of the request's head: 431 */
    HTTP_MAX_HEADERS = 100,
    HTTP_HEAD_MS = 30000,              /* a head, or the next request */
    HTTP_BODY_MS = 120000,             /* the body after it */
    HTTP_STALL_MS = 30000,             /* no byte moved in either direction */
};

/* The other end. */
struct http_peer {
    bool local;                        /* the kernel vouches for uid and gid */
    uint32_t uid, gid;
    char from[64];                     /* "unix", or the address */
    char subject[128];                 /* CN of a client certificate that was
                                          checked; "" for none */
};

struct http_events {
    /* How many bytes of body are wanted.  May answer already: then the body is
     * thrown away and `request` is not called.
     */
    size_t (*head)(struct http_req *r, void *arg);
    void (*request)(struct http_req *r, void *arg);
    void (*done)(struct http_req *r, void *arg);
};

struct http_conf {
    int fd;                            /* listening; taken, also on failure */
    bool local;                        /* a Unix socket */
    unsigned max_connections;
    const char *cert, *key;            /* PEM texts: TLS; NULL: plain */
    const char *client_ca;             /* PEM text or NULL */
};

int http_open(struct loop *l, const struct http_conf *conf,
              const struct http_events *events, void *arg, struct http **ret,
              struct err *err);
/* Ends every stream, answers with 503 what has no answer yet, gives clients a
 * moment to take it, then closes.  `done` is called for each request.
 */
void http_close(struct http *h);       /* NULL is fine */
/* Take no new connections; those that are there are served on, one request
 * each.
 */
void http_drain(struct http *h);

struct http_stat {
    uint64_t answers[6];               /* by the first digit of the status */
    uint64_t connections;              /* open now */
};
void http_stat(const struct http *h, struct http_stat *ret);

/* Of a request; valid until `done`. */
const char *http_method(const struct http_req *r);
const struct url *http_url(const struct http_req *r);
const char *http_target(const struct http_req *r);       /* as it was sent */
const char *http_header(const struct http_req *r, const char *name); /* NULL */
const char *http_body(const struct http_req *r, size_t *ret_len);
const struct http_peer *http_peer(const struct http_req *r);
void http_set_context(struct http_req *r, void *context);
void *http_context(const struct http_req *r);

/* Add a header to the answer, before the answer; both are copied. */
void http_add_header(struct http_req *r, const char *name, const char *value);

/* `body` was allocated and is taken; NULL with len 0: no body. */
void http_reply(struct http_req *r, unsigned status, const char *type,
                char *body, size_t len);
/* application/problem+json; `detail` is for the person who asked. */
void http_problem(struct http_req *r, unsigned status, const char *detail);
json_t *http_problem_json(unsigned status, const char *detail);

/* An answer without a known end.  `pull` is asked for bytes whenever the
 * client has room: more than 0: that many are in buf; 0: none now, ask again
 * after http_stream_wake; negative: the end.  So nothing is queued for a
 * client that does not read, and one that takes no byte for HTTP_STALL_MS
 * while there are some is cut off.  `gone` is called once, when the stream is
 * over for whatever reason; the stream is no more then.
 */
typedef ssize_t (*http_pull_f)(char *buf, size_t max, void *arg);
typedef void (*http_gone_f)(void *arg);
struct http_stream *http_stream(struct http_req *r, unsigned status,
                                const char *type, http_pull_f pull,
                                http_gone_f gone, void *arg);
/* There is something to pull again.  Never calls pull from inside. */
void http_stream_wake(struct http_stream *s);
/* Does it wait for a wake?  When not, it pulls by itself. */
bool http_stream_waits(const struct http_stream *s);
