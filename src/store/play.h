#pragma once

#include "base/err.h"
#include "core/event.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct store;
struct world;

/* play - a control plane in small, for tests and benchmarks of the store: a
 * world whose events go through a store, driven by hand or at random.
 */
struct play {
    const char *path;                  /* of the store; set these two first */
    const char *vfs;
    struct loop *loop;
    struct store *store;
    struct world *world;
    uint64_t rng;
    uint64_t now_ms;
    uint64_t durable;                  /* the last number that was told */
    unsigned told;                     /* how often */
    unsigned failures;
    struct err why;                    /* of the last failure */
    void (*then)(struct play *p);      /* after each telling; may be NULL */
    void *then_arg;
};

/* Open the store, load the world and attach; on failure nothing is open. */
int play_open(struct play *p, struct err *err);
void play_close(struct play *p);
/* After a failure: what the owner of a store does. */
int play_recover(struct play *p, struct err *err);

uint64_t play_draw(struct play *p, uint64_t below);

/* Number, check, journal and apply; the event is cleared. */
int play_event(struct play *p, struct event *e, struct err *err);
/* A job or pipeline of `ntasks` tasks; the key may be "". */
int play_submit(struct play *p, const char *tenant, const char *key,
                uint32_t ntasks, uint64_t *ret_id, struct err *err);
int play_tenant(struct play *p, const char *name, struct err *err);
int play_block(struct play *p, const char *id, struct err *err);
int play_simple(struct play *p, enum event_type type, uint64_t workload,
                struct err *err);
/* What the world wants, then hand everything over. */
int play_commit(struct play *p, struct err *err);
/* One thing that could happen, drawn at random (what the world refuses does
 * not happen), and the commit.
 */
int play_random(struct play *p, struct err *err);
/* One report of a runner, if any lease waits for one: false when none. */
bool play_runner(struct play *p, struct err *err);

/* Turn the loop until everything that was handed over is durable: 0, or -EIO
 * when the store failed, -ETIMEDOUT after half a minute.
 */
int play_wait(struct play *p, struct err *err);

/* Replay the journal from its first event and compare every row with the
 * tables, as they are on disk.  The number of events goes to *ret (may be
 * NULL).  -EILSEQ: they differ, and the text says where.
 */
int play_compare(struct play *p, uint64_t *ret, struct err *err);
/* ... whose last rows were given at now_ms, and not at the last event. */
int play_compare_at(struct play *p, uint64_t now_ms, uint64_t *ret,
                    struct err *err);
