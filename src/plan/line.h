#pragma once

#include "plan/plan_int.h"

/* line - what stands in line: see line.c. */

enum {
    SEARCH_MS = 1000,
    VAIN_MS = 10000,                   /* large pool: after a search in vain */
    SMALL_POOL = 16,                   /* nodes */
};

enum { ROW_LEVELS = 16, WANT_LEVELS = 96 };

enum parked {
    PARKED_NOT,                        /* in its bench */
    PARKED_ROOM,                       /* in its row */
    PARKED_DENIED,                     /* there is room, promised to others */
    PARKED_BOUND,                      /* no room where it is bound to */
    PARKED_TENANT,
};

/* One that waits for a node, or the first of a row; what is asked of all of
 * them stands here.
 */
struct bound {
    struct queue *queue;
    struct plan_tenant *tenant;
    const struct shape *shape;
    uint32_t rank_milli;               /* of this one */
    uint32_t link;                     /* of the queue's */
    int16_t priority;
    uint8_t level;
    uint8_t own;                       /* ... but for its patience */
};

struct queue {
    struct shape *shape;
    struct plan_tenant *tenant;
    const struct plan_item *bound;     /* the only one in it, or NULL */
    uint32_t pool;                     /* they go on there; see pool_of */
    int16_t priority;
    uint8_t level;
    uint8_t parked;
    bool hopes;                        /* they wait for something better */
    bool aged;                         /* they stand by how long they wait */
    struct keyed items;
    struct bench *bench;
    struct row *row;
    uint32_t slot;                     /* in the bench or the row; 0: neither */
    struct queue *next, *prev;         /* of its shape */
    struct queue *twin;                /* the next of its row; bound: none */
    struct queue *sooner;              /* PARKED_DENIED: of its shape */
    union {
        struct queue *later;           /* ... the next */
        uint32_t *links;               /* bound: where, at each node; such a one
                                          is never PARKED_DENIED */
    };
    uint64_t search_ms;                /* no search for room before */
    uint32_t chance;                   /* but on that node: its index + 1, or 0 */
};

struct row {
    struct keyed queues;               /* PARKED_ROOM */
    struct shape *shape;
    struct bench *bench;
    struct row *next, *prev;           /* open ones of the bench, if listed */
    bool listed;
    uint32_t at, of_shape;             /* in the bench's rows, in the shape's */
    uint32_t count;                    /* queues, parked or not */
    struct queue *all[ROW_LEVELS];     /* but those that are bound; by level */
};

struct bench {
    struct plan_tenant *tenant;        /* NULL: of all */
    struct band *band;
    struct keyed queues;                /* not parked */
    struct row **rows, *open;          /* all; those that compete */
    struct bound *first;               /* of each of `rows`; no queue: none */
    const struct shape **shapes;       /* of each of `rows` */
    uint32_t nrows;
    uint32_t count;                    /* queues, parked as well */
    uint64_t wants;                    /* devices, thousandths, of its items */
    uint64_t level_wants[WANT_LEVELS]; /* ... of each level; the last: and on */
};

struct band {
    int16_t priority;
    struct bench **benches;            /* as tenants stood at `sorted` */
    uint32_t count, cap;
    uint64_t sorted;                   /* plan.shares; 0: to be sorted */
};

struct line {
    struct band **bands;               /* highest first */
    uint32_t nbands, cap;
    uint32_t barred;                   /* queues parked for their tenant */
    uint32_t hopers;                   /* items that wait for something better */
    uint64_t second;                   /* of the last look at shares */
};

/* Does it fit nowhere, all being empty?  Kept with the shape. */
bool line_never(const struct plan *p, struct shape *s);

/* The bench of the priority and the tenant, made if it is not there; it goes
 * when it has no queue.
 */
struct bench *line_bench(const struct plan *p, int16_t priority,
                         struct plan_tenant *t);
void line_bench_put(struct line *l, struct bench *bench);
void line_queues(struct keyed *ret);   /* an empty heap of queues, by heads */
/* The benches of the band in order, whose turn is first first. */
void line_sort(const struct plan *p, struct band *band);
/* What stands at the node of its k-th place. */
struct bound line_bound(struct queue *q, uint32_t k);
void line_unpark(struct plan *p, struct queue *q);       /* it looks again */
/* Devices that those before the item in line want, thousandths, at most
 * `enough`: by benches and levels, those of its own level left out.
 */
uint64_t line_ahead(const struct plan *p, const struct plan_item *i,
                    uint64_t enough);
/* Of one whose items wait for something better: all ask whether to start. */
void line_look_again(struct plan *p, struct queue *q);
/* ... the first of each row; and those who hope, if the room is `good` */
void line_open(struct shape *s, bool good);
/* wake.c: who waits for something better looks again, in a small pool. */
void wake_hopers(struct plan *p);
/* ... and who counted on those places, which are promised now. */
void wake_promised(struct plan *p, const struct plan_place *places,
                   uint32_t n);
/* The queue, bound to its nodes, is done with what is free there. */
void wake_next_bound(struct plan *p, struct queue *q);
