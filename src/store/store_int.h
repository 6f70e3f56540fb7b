#pragma once

#include "base/err.h"
#include "store/store.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct batch;
struct loop;
struct sql;
struct watch;
struct writer;

/* What the loop's thread and the writer's share; everything in it is read and
 * changed under the lock.
 */
struct shared {
    pthread_mutex_t lock;
    pthread_cond_t cond;               /* the writer waits; monotonic clock */
    struct batch *first, **end;        /* handed over, not yet taken */
    struct batch *spare;               /* cleared ones, to be used again */
    unsigned nspare;
    bool stop, failed;
    struct err why;                    /* of `failed` */
    uint64_t durable;
    uint64_t trim_before_ms;
    uint32_t trim_left;                /* workloads to forget; 0: not asked */
    uint64_t events, commits, synced_us;
};

struct store {
    char *path, *vfs;
    struct sql *reader;
    struct writer *writer;             /* its thread's; NULL: read-only */
    struct shared *shared;
    struct batch *open;                /* being put together */
    uint64_t last_seq;                 /* the newest event taken */

    struct loop *loop;
    struct watch *watch;
    int wake_fd;                       /* eventfd: the writer has news */
    bool running;                      /* the thread is there */
    pthread_t thread;
    store_durable_f on_durable;
    store_failed_f on_failed;
    void *arg;
    uint64_t told;                     /* the last seq told */
    bool told_failed;

    struct backup *backup;             /* the one under way */
};

/* Write what was handed over in the caller's thread; for a store without a
 * writer thread.
 */
int store_flush(struct store *s, struct err *err);

/* thread.c: a thread that no signal is delivered to; and the writer's. */
int thread_new(pthread_t *ret, const char *name, void *(*run)(void *),
               void *arg, struct err *err);
int thread_start(struct store *s, struct err *err);
void thread_stop(struct store *s);     /* after writing what was handed over */
