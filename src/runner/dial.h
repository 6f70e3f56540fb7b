#pragma once

#include <stddef.h>

struct err;
struct loop;
struct stream;

/* dial - one attempt at a connection to home: to its Unix socket, or to each
 * address of its name in turn until one is home, with TLS.
 */
struct dial_to {
    const char *home;                  /* a path, or "tls://HOST:PORT" */
    const char *ca;                    /* file of the authority, read each time;
                                        * for tls:// alone; or ... */
    const char *ca_text;               /* ... as it was read; NULL: it was not */
};
/* Do the two make sense?  */
int dial_check(const struct dial_to *to, struct err *err);

struct dial;
/* From the loop, once: a stream on which messages may go, which is taken, or
 * NULL and why in one line.
 */
typedef void (*dial_f)(struct stream *s, const struct err *err, void *arg);

/* `to` is borrowed until the callback. */
struct dial *dial_start(struct loop *l, const struct dial_to *to, dial_f cb,
                        void *arg);
void dial_cancel(struct dial *d);                  /* no callback; NULL is fine */
