#pragma once

#include <jansson.h>
#include <stdbool.h>

struct cli;

/* feed - the events of the control plane as they happen, across lost
 * connections and restarts.
 *
 * A feed remembers the cursor of the last event and goes on from there.  Where
 * that is not possible (the first time without `since`, or the events are
 * gone) it says `ready` once it is connected: what happened before has to be
 * fetched then, and everything after comes as events.
 *
 * Callbacks come from the loop.  After `over` nothing more comes.
 */
struct feed;

struct feed_ops {
    void (*ready)(void *arg);
    void (*event)(const json_t *event, const char *cursor, void *arg);
    /* false: the connection broke, and is tried again; true: it is back. */
    void (*connected)(bool yes, void *arg);
    /* It was refused, or nobody answered for too long; said already. */
    void (*over)(int code, void *arg);
};

/* `workload` and `since` may be NULL.  0, or an exit status after saying why.
 */
int feed_open(struct cli *c, const char *workload, const char *since,
              const struct feed_ops *ops, void *arg, struct feed **ret);
void feed_close(struct feed *f);       /* NULL is fine */
