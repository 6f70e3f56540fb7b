#pragma once

#include "base/loop.h"
#include "engine/wire.h"

#include <stdbool.h>

struct err;
struct held;
struct output;
struct runner;
struct runner_conf;
struct watch;

/* alone - a runner that has one lease and no other, in a container of that
 * lease's own: it comes with it, stops it when the container is to end, and
 * ends as its task did.  What the container has is the task's: environment,
 * folder, limits, and all but the way home.
 */
struct alone {
    struct runner *runner;
    struct runner_name name;
    struct output *output;
    bool ended;                        /* the lease has, and ... */
    int status;                        /* ... what we end with, as a shell
                                        * would say it; before, 1 */
    bool deleted;                      /* not home ends it: the container is
                                        * told to end */
    bool end_told;                     /* over this connection */
    struct watch *patience;            /* what is left may take so long */
    bool over;                         /* and no longer */
};

/* What is in the files of token and authority, and no file left of them; nobody
 * but root can look into this process any more.  Caller owns; *ret_ca is NULL
 * without one.
 */
int alone_secrets(const struct runner_conf *c, char **ret_token, char **ret_ca,
                  struct err *err);

/* Sets r->alone. */
int alone_open(struct runner *r, struct err *err);
void alone_close(struct runner *r);                /* without one is fine */

/* Is it about our lease?  Else home is told that it is not. */
bool alone_takes(struct runner *r, const struct wire_msg *m);
void alone_welcome(struct runner *r);
/* All that may say so, but SIGTERM, which says it to any runner. */
int alone_signals(struct runner *r, loop_signal_f cb, struct err *err);
/* The container is to end: stop the task as its order says. */
void alone_term(struct runner *r);
/* The lease has ended. */
void alone_ended(struct held *h);
/* May its end be told: all that it printed was? */
bool alone_may_tell(struct runner *r);
/* Called when that changes. */
void alone_told(struct runner *r);
/* It may have said how far it is. */
void alone_said(struct runner *r);
/* Is nothing left to be done?  runner_end_if_done is called when that changes. */
bool alone_may_end(struct runner *r);
/* To its standard output, where nothing else ever came. */
void alone_farewell(struct runner *r);
