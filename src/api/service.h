#pragma once

#include "core/event.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct store;
struct task;
struct world;

/* service - what the API needs of the control plane behind it.
 *
 * The API decides who may do what and puts events together; the service makes
 * them happen: it stamps time and number, checks (world_check), journals,
 * applies, and calls `done` from the loop, never from inside the call, once
 * the event is durable (rc 0, with its number) or refused (-errno and a text).
 * Exactly one call of done per propose.  The event is taken.
 */
typedef void (*service_done_f)(int rc, uint64_t seq, uint64_t workload,
                               const struct err *err, void *arg);

/* A piece of a log. */
struct service_log {
    uint64_t start;                    /* offset of the first byte given: later
                                          than asked when that is gone */
    size_t len;
    uint64_t end;                      /* bytes written so far */
};

/* What is known of a pool now, beside what the world has; borrowed until the
 * loop goes on.
 */
struct service_pool {
    const char *engine;
    bool own;                          /* the control plane's own machine */
    bool known;                        /* its engine has said whether it is ... */
    bool reachable;
    const char *why;                   /* else why not */
};

struct service_ops {
    const struct world *(*world)(void *arg);
    struct store *(*store)(void *arg);
    /* For EVENT_SUBMITTED the service sets the workload's id and tells it. */
    void (*propose)(struct event *e, service_done_f done, void *done_arg,
                    void *arg);
    /* Bytes of a lease's log from `offset` on, whichever block it was on;
     * -ENOENT: no such log (yet).
     */
    int (*log)(uint64_t workload, uint32_t task, uint32_t rank, uint32_t gen,
               uint64_t offset, void *buf, size_t size,
               struct service_log *ret, struct err *err, void *arg);
    /* Start an online backup into a file of the control plane's machine. */
    void (*backup)(const char *file, service_done_f done, void *done_arg,
                   void *arg);
    /* "" when all is well; else why writes are refused right now. */
    const char *(*trouble)(void *arg);
    /* Version, uptime, store, engines; caller owns. */
    json_t *(*stat)(void *arg);
    /* Started without root: serves its own user alone. */
    bool (*single_user)(void *arg);
    /* Of a device of a block, what was heard of it last: {uuid, name: number,
     * ...}, borrowed until the loop goes on; NULL: nothing, or not of late.
     */
    const json_t *(*telemetry)(const char *block, const char *uuid, void *arg);
    /* Processes on devices of a block that use them otherwise than a lease
     * says: {what: {kind, uuid, pid, ..., text}}, borrowed until the loop goes
     * on; NULL: none is known.
     */
    const json_t *(*strays)(const char *block, void *arg);
    /* When a task last used its devices: {last, kind, wanting, grace_seconds?,
     * release_in_seconds?}; caller owns.  NULL: nothing is known.
     */
    json_t *(*use)(const struct task *t, void *arg);
    /* May a pool of this name and engine be added, with this {key: text} for
     * it?  -EEXIST: the name is the control plane's own; -EINVAL.
     */
    int (*pool_check)(const char *name, const char *engine, const json_t *conf,
                      bool observe, struct err *err, void *arg);
    /* false: no engine is there for it. */
    bool (*pool)(const char *name, struct service_pool *ret, void *arg);
    /* What is seen of a pool that is observed (engine/engine.h has the form);
     * caller owns.  NULL: it is not, or its engine sees nothing.
     */
    json_t *(*pool_seen)(const char *name, void *arg);
    /* What stood idle there of late, as in an event pool.seen, oldest first: what
     * is not in the store yet, and what goes on (`going`); caller owns the array.  With
     * `jobs` also of each pod that goes on.
     */
    json_t *(*pool_rows)(const char *name, bool jobs, void *arg);
    /* The same since this control plane began, added up: {seen, models: {MODEL:
     * {used, waste, idle_frag, idle_nodemand}}}, in seconds; caller owns.
     * NULL: nothing.
     */
    json_t *(*pool_totals)(const char *name, void *arg);
};

/* The backup of a service that has a store: 0 when it is under way and `done`
 * will be called, else nothing happens any more.
 */
int service_backup(struct store *s, const char *file, service_done_f done,
                   void *done_arg, struct err *err);

struct service {
    const struct service_ops *ops;
    void *arg;
};
