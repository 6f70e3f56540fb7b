#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* pack - pods arrive one by one, each goes to a node or is dropped, none ever
 * leaves: what share of the GPUs is in use at the end?
 *
 * This is the experiment of FGD (USENIX ATC'23) on the openb lists, with the
 * policies compared there and with Weir's.  The rules of each policy are those
 * of the published program to the last digit: integer scores, ties and the
 * order in which doubles are added included.
 *
 * A fraction of a GPU is in thousandths ("milli") and lies on one GPU; more
 * than one GPU are whole GPUs.
 */
enum {
    PACK_GPUS = 16,                    /* of a node */
    PACK_MODELS = 64,                  /* one bit each */
    PACK_WHOLE = 1000,
    PACK_NODES = 1000000,              /* more are refused */
    PACK_PODS = 10000000,
    PACK_PODS_PER_NODE = 1001,
};

struct pack_node {
    int64_t cpu, memory;               /* left: milli-CPUs, MiB */
    int32_t free;                      /* left over all GPUs, milli */
    uint16_t left[PACK_GPUS];          /* of each GPU */
    uint8_t gpus, model;
    uint16_t pods;
    uint32_t classes;                  /* bit k: a pod of k GPUs; 0: a share */
};

/* What pods have in common for a score. */
struct pack_shape {
    int64_t cpu;
    uint16_t milli;                    /* of each GPU; 0: needs none */
    uint8_t gpus;
    uint64_t models;                   /* that it may run on */
    char *spec;                        /* the same as it was written */
    size_t count;                      /* pods of the list */
};

struct pack_pod {
    int64_t memory;
    uint32_t shape;
};

struct pack_list {
    struct pack_node *nodes;           /* empty ones */
    size_t nnodes;
    char *models[PACK_MODELS];
    size_t nmodels;
    struct pack_pod *pods;
    size_t npods;
    struct pack_shape *shapes;
    size_t nshapes;
};

/* In which order the pods come (places in the list; a pod may come again), and
 * which node goes first among equals (smaller first).
 */
struct pack_order {
    uint32_t *pods;
    size_t npods;
    uint32_t *first;                   /* of each node */
};

struct pack_result {
    uint64_t arrived, failed;          /* pods */
    uint64_t arrived_milli, allocated_milli, capacity_milli;
    double frag_milli;                 /* free, but of no use to typical pods */
};

void pack_list_free(struct pack_list *l);          /* zeroed one is fine */
void pack_order_free(struct pack_order *o);

/* An order of our own for a seed: every pod once, shuffled, and then further
 * pods until `percent` of the GPUs have been asked for.
 */
void pack_order_draw(const struct pack_list *l, uint64_t seed,
                     unsigned percent, struct pack_order *ret);

/* "random", "dotprod", ...; NULL when there is no such policy. */
struct pack_policy;
const struct pack_policy *pack_policy_find(const char *name);
const char *pack_policy_names(void);               /* "a, b, c" */

/* Time: for each arrival one look at every node, and a score for each node
 * that changed since a pod of this shape came last.
 */
void pack_replay(const struct pack_list *l, const struct pack_order *o,
                 const struct pack_policy *p, uint64_t seed,
                 struct pack_result *ret);
