#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event;
struct world_row;

/* batch - what one store_commit hands to the writer: events and the rows they
 * changed, as texts that belong to the batch, in one piece of memory.
 *
 * Made in the loop's thread, written and freed in the writer's.
 */
#define BATCH_OPS(X) \
    X(EVENT)       /* seq, time_ms, workload, type, tenant, body */ \
    X(SUBMIT)      /* workload, tenant, who, key, hash: a workload begins */ \
    X(END)         /* workload, time_ms: it ended */ \
    X(WORKLOAD)    /* workload, live, tenant, body, spec */ \
    X(TASK)        /* workload, task, body */ \
    X(BLOCK)       /* key, body */ \
    X(TENANT)      /* key, body */ \
    X(TOKEN)       /* key, body */ \
    X(META)        /* key, body */
enum batch_op {
#define X(name) BATCH_##name,
    BATCH_OPS(X)
#undef X
    BATCH_OP_COUNT
};

struct span {
    size_t at, len;
    bool there;
};

struct op {
    enum batch_op kind;
    bool live;
    uint32_t task;
    uint64_t seq, time_ms, workload;
    struct span key, tenant, type, who, hash, body, spec;
};

struct batch {
    struct batch *next;
    struct op *ops;
    size_t nops, cap;
    struct buf text;
    uint64_t seq, time_ms;   /* of the newest event; 0: none in here */
};

struct batch *batch_new(void);
void batch_free(struct batch *b);                  /* NULL is fine */
void batch_free_all(struct batch *list);
void batch_clear(struct batch *b);     /* keeps its memory, unless large */
bool batch_empty(const struct batch *b);
/* False once a text did not fit (BATCH_MAX): the batch is not whole. */
bool batch_whole(const struct batch *b);

void batch_event(struct batch *b, const struct event *e, const char *tenant);
void batch_row(struct batch *b, const struct world_row *row);

size_t batch_bytes(const struct batch *list);      /* of text, all of them */
/* Give memory that was freed back to the system.  A large submission passes
 * through as JSON several times its size, in small pieces, which would stay
 * with the process for good.
 */
void batch_slim(void);

/* NULL for null. */
const char *batch_text(const struct batch *b, struct span s);
