#pragma once

#include "base/buf.h"
#include "net/http.h"

#include <microhttpd.h>

struct err;

/* http_int - what http.c and http_answer.c share. */
enum http_phase {
    HTTP_NEW,                          /* the target is known, the head not */
    HTTP_BODY,                         /* the body comes in */
    HTTP_ASKED,                        /* the owner has it */
    HTTP_ANSWERED,                     /* the answer is queued */
};

struct http_extra {
    char *name, *value;
};

struct http_req {
    struct http *http;
    struct MHD_Connection *mhd;
    struct http_conn *conn;
    struct http_req *next, *prev;
    enum http_phase phase;
    char method[16];
    char *target;                      /* NULL: too long */
    struct url url;
    struct buf body;
    uint64_t body_bytes;               /* that came, kept or not */
    bool too_much;                     /* past what was wanted */
    bool suspended;
    void *context;
    struct MHD_Response *answer;       /* until it is queued */
    unsigned status;
    struct http_extra extra[8];
    size_t nextra;
};

/* One per connection. */
struct http_conn {
    struct http_conn *next, *prev;
    int fd;
    bool busy;                         /* with a request: no deadline */
    bool checked;                      /* its certificate was looked at */
    uint64_t deadline_ms;
    struct http_peer peer;
};

struct http {
    struct loop *loop;
    struct MHD_Daemon *mhd;
    struct watch *watch, *timer, *sweep, *kick;
    struct http_events events;
    void *arg;
    bool local, tls, draining, closing;
    struct http_req *reqs;
    struct http_conn *conns;
    struct http_stream *streams;
    struct http_stat stat;
};

/* Is the head one that may be answered?  0 (and r->url is read), or the status
 * of the refusal.
 */
unsigned http_head_check(struct http_req *r, const char *version,
                         struct err *err);
/* The CN of the client's certificate when it was given and is good; else "". */
void http_tls_subject(struct MHD_Connection *c, char *ret, size_t size);
/* Go on with a suspended connection: MHD looks at it at the end of this turn,
 * once for all that were resumed in it.
 */
void http_resume(struct http *h, struct MHD_Connection *c);
/* Ends all streams at their next pull, and wakes them for it. */
void http_streams_end(struct http *h);
void http_answer_clear(struct http_req *r);
