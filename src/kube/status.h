#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* status - what an answer that says no means, in one line.
 *
 * The API server sends an object of kind Status with a message for people;
 * what stands in front of it, such as a proxy, sends anything.
 */
enum {
    STATUS_TEXT = 400,
    STATUS_WAIT_MAX_MS = 300000,       /* of Retry-After: more is not waited */
};

struct kube_status {
    int http;                          /* 403 */
    int error;                         /* errno value, see status_error */
    uint64_t wait_ms;                  /* not before then again; 0: not said */
    char text[STATUS_TEXT];
};

/*     EKEYREJECTED  401: the credentials are not taken
 *     EACCES        403: known, but not allowed
 *     ENOENT        404
 *     EEXIST        409: there already, or changed meanwhile
 *     ESTALE        410: too old a version was asked for
 *     EINVAL        400, 422: what we sent is wrong
 *     EBUSY         429: later
 *     EREMOTEIO     500 and up: the server's trouble
 *     EPROTO        all others
 */
int status_error(int http);

/* Of an answer with that HTTP status.  `retry_after` is the header's value or
 * NULL; only seconds are understood.
 */
void status_read(int http, const char *retry_after, const char *body,
                 size_t len, struct kube_status *ret);
/* Of a Status object, as a watch sends one. */
void status_of(const json_t *o, struct kube_status *ret);
