#pragma once

#include "base/buf.h"
#include "base/heap.h"
#include "kube/fit.h"
#include "kube/ledger.h"
#include "kube/resources.h"

#include <stdbool.h>
#include <stddef.h>

/* ledger_int - the parts of the ledger: what is told (ledger.c) becomes changes
 * at their times; a change that is due changes the state (ledger_state.c); the
 * state says who fits where (ledger_fits.c).
 */
struct tally;

enum stage { STAGE_NONE, STAGE_WAITING, STAGE_HELD, STAGE_GONE };

/* What is used of a Node object; shared, and freed with the last who has it. */
struct facts {
    unsigned refs;
    struct fit_node at;
    struct resources has;
    uint64_t gpus, pods;               /* pods: at most so many; 0: not said */
    char *model;
    bool open;                         /* not cordoned, and ready */
};

/* Held on a node by pods of one namespace. */
struct hold {
    uint32_t space;
    int64_t pods, gpus, cpus_milli;
};

/* There for as long as it has facts or pods. */
struct place {
    char *name;
    struct facts *facts;               /* NULL: no such node, or not yet */
    struct resources taken;
    uint64_t gpus_taken, pods;
    struct hold *holds;
    uint32_t nholds, model;            /* model: of the tally, with facts */
    int64_t idle, cpus_idle;           /* as told to the tally */
    bool dirty;
};

/* Pods that wait and want the same. */
struct shape {
    char *text;
    json_t *fit;
    struct resources takes;
    uint64_t gpus, pods;               /* pods: that are told to wait */
    uint64_t waiting;                  /* of these, by now */
    uint64_t fitted_s;                 /* so long did one fit so far */
    struct place *at;                  /* would take one; NULL: none would */
    bool fresh;                        /* all nodes are to be looked at */
};

struct pod {
    char *id, *key, *node, *why;
    uint32_t space, seen, changes;     /* changes: that are not due */
    struct resources takes;
    uint64_t gpus, created_s, last_s;  /* last_s: its last change's time */
    uint64_t held_s;                   /* since then, once it is held */
    struct shape *shape;               /* while it waits, or is about to */
    struct place *place;
    uint64_t fitted_s;                 /* its shape's when it began to wait */
    enum stage told, is;
    bool gated, gone, leaving;         /* leaving: deleted, with some grace */
};

/* Of a pod, or of the node `name`. */
struct change {
    uint64_t at_s, number;
    uint32_t slot;
    struct pod *pod;
    enum stage to;
    char *name;
    struct facts *facts;               /* NULL: the node is gone */
};

/* The last told of a node. */
struct told {
    struct facts *facts;
    bool ready;
    uint32_t seen;
};

struct ledger {
    struct map *pods, *told, *places, *shapes;
    struct heap changes;
    struct tally *tally;
    struct place **dirty;
    size_t ndirty, room;
    uint64_t now_s, number, row_s;     /* row_s: of the row under way */
    uint64_t begun_s;                  /* since then it is seen */
    uint32_t lists[2];
    bool listing[2], seeing, stirred;  /* stirred: who fits is to be found out */
    json_t *rows, *waits;
    struct buf jobs;                   /* lines, so many: */
    uint64_t njobs, left_out;
};

/* ledger_state.c */
void facts_free(struct facts *f);                  /* NULL is fine */
void pod_free(struct ledger *l, struct pod *p);
void ledger_pod_step(struct ledger *l, struct pod *p, enum stage to,
                     uint64_t at_s);
void node_step(struct ledger *l, const char *name, struct facts *facts);
void place_free(struct place *p);
/* A pod is told to wait; it keeps its shape until shape_leave. */
struct shape *shape_join(struct ledger *l, const json_t *object,
                         const struct pod *p);
void shape_leave(struct ledger *l, struct pod *p);
/* One that waits, or has waited until `at_s`, in the form of ledger.h. */
void wait_offer(json_t *waits, const struct pod *p, uint64_t at_s);

/* One that is held, or was until `ended_s`; false: its namespace is no name. */
bool job_add(struct buf *jobs, const struct pod *p, uint64_t ended_s);

/* ledger_fits.c */
void place_stir(struct ledger *l, struct place *p);
void place_forget(struct ledger *l, struct place *p);
void fits_find(struct ledger *l);
/* So long it was as found. */
void fits_pass(struct ledger *l, uint64_t seconds);
