#pragma once

#include "engine/engine.h"

#include "base/buf.h"

/* fake - what its files share; see fake.c. */
struct fake;
struct map;
struct watch;

/* Lies by number are of every Nth; 0: of none. */
struct lies {
    uint64_t slow_ms, lose, twice, drop, cpus, away_ms;
    /* Of runners that have one lease: */
    uint64_t refuse, image, taken, never, early;   /* none starts its task */
    uint64_t late, evicted, node, deleted;         /* none ends it */
    uint64_t echo, gap, stay;
};

struct fake {
    struct engine base;
    struct loop *loop;
    const struct engine_events *events;
    void *arg;
    char *pool, *home;
    json_t *devices;
    char *block;
    struct watch *state;
    bool away, said;
    uint64_t nodes, log_bytes;
    struct lies lies;
    uint64_t leases, ends, starts;     /* so far */
    struct map *blocks;                /* id -> struct block, of fake.c */
    struct map *alone;                 /* name -> struct runner, of apart.c */
    struct map *logs;                  /* "KEY#GEN@EPOCH" -> struct log */
};

/* A runner: of a block, or of one lease. */
struct runner {
    struct fake *engine;
    char name[RUNNER_NAME_SIZE], token[65];
    struct runner_name of;
    uint64_t number;                   /* of one lease: which one it is */
    int fd;
    struct watch *watch, *dial, *over;
    struct buf in;
    struct map *leases;                /* text of key, gen and epoch -> lease */
    bool given;                        /* it does not come again */
    bool stays;                        /* when it is stopped at first */
    enum spec_cause cause;             /* of its end, once `over` is due */
    const char *why;
    char *printed;
    uint64_t heard;
};

/* fake.c */
bool fake_lies_at(uint64_t every, uint64_t n);

/* runner.c */
struct runner *runner_new(struct fake *e, const char *name, const char *token);
void runner_free(struct runner *r);    /* NULL is fine */
void runner_dial(struct runner *r);    /* once it is not here */
/* It goes away without a word, and tells of its own end by the engine. */
void runner_over(struct runner *r, enum spec_cause cause, const char *why);
void runner_hang_up(struct runner *r);

/* apart.c */
int fake_apart_start(struct engine *base, const struct engine_lease *l,
                     struct err *err);
int fake_apart_stop(struct engine *base, const char *runner, struct err *err);
int fake_apart_output(struct engine *base, const struct engine_output *o,
                      uint64_t *ret_end, struct err *err);
json_t *fake_apart_find(struct engine *base);
int fake_apart_log(struct engine *base, const char *block,
                   const char *lease_key, uint32_t gen, uint64_t epoch,
                   uint64_t offset, void *buf, size_t size,
                   struct engine_log *ret, struct err *err);
json_t *fake_apart_log_list(struct engine *base);
int fake_apart_log_drop(struct engine *base, uint64_t workload,
                        struct err *err);
void fake_apart_close(struct fake *e);
