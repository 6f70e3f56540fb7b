#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* cluster - whole GPUs on like nodes, given to gangs.
 *
 * A gang that fits on one node lies on one node; a larger one has nodes of its
 * own and the rest of its GPUs together on one more.  No gang spans clusters:
 * it goes to the one with most idle GPUs that has room for it.  Nodes are
 * found by how many GPUs they have free, so that a place costs a few words to
 * look at and not a walk over the nodes.
 */
enum { CLUSTER_GPUS = 64, CLUSTER_NODES = 65536, CLUSTER_MODELS = 8 };

struct cluster_model {
    char name[32];
    unsigned until;                    /* node that is the first of the next */
};

struct cluster {
    unsigned clusters, nodes, gpus;    /* nodes in all; GPUs of each */
    unsigned each;                     /* nodes of a cluster */
    struct cluster_model models[CLUSTER_MODELS];   /* in order of nodes */
    unsigned nmodels;
    bool first_fit;                    /* else: least free that fits */
    unsigned idle;                     /* GPUs */
    unsigned *idle_of;                 /* of each cluster */
    uint8_t *free;                     /* of each node */
    uint64_t *level;                   /* bits of nodes with so many free */
    size_t words;                      /* of a level */
};

/* Which cluster a gang may use. */
enum { CLUSTER_ANY = -1 };

/* "64x8": nodes and their GPUs; "4x16x8": so many clusters of these;
 * "32x8:H200+32x8:A10": nodes of several models in one cluster.
 */
int cluster_parse(const char *spec, struct cluster *ret, struct err *err);
void cluster_free(struct cluster *c);
void cluster_clear(struct cluster *c);             /* nothing is in use */
/* `to` was made by cluster_parse of the same text, or is zeroed. */
void cluster_copy(struct cluster *to, const struct cluster *from);

/* Of the node's GPUs; "simulated" unless said. */
const char *cluster_model(const struct cluster *c, unsigned node);
/* The number of nodes that a gang may lie on at most. */
size_t cluster_span(const struct cluster *c, unsigned gpus);
bool cluster_fits(const struct cluster *c, unsigned gpus, int only);
/* Take room; false when there is none.  `nodes` has room for the span; the
 * last of them has what does not fill a node.
 */
bool cluster_take(struct cluster *c, unsigned gpus, int only,
                  uint32_t *nodes);
void cluster_give(struct cluster *c, unsigned gpus, const uint32_t *nodes);
bool cluster_fits_at(const struct cluster *c, unsigned gpus,
                     const uint32_t *nodes);
/* Take just these; they must be free. */
void cluster_take_at(struct cluster *c, unsigned gpus, const uint32_t *nodes);
