#pragma once

#include "plan/frag.h"
#include "sim/pack.h"

/* pack_int - what the policies of a replay share. */

struct pack_cell {
    double score;
    uint32_t turn;                     /* of its node when it was worked out */
};

struct pack {
    const struct pack_list *list;
    const struct pack_policy *policy;
    struct pack_node *nodes;
    uint32_t *turns;                   /* how often each node changed, + 1 */
    double *frag;                      /* of each node */
    struct pack_cell *cells;           /* shapes x nodes */
    struct frag_types types;
    uint64_t random;
    /* Of Weir's own policy: the shapes as counted so far. */
    struct pack_shape *seen;
    struct frag_types learned;
    size_t arrived, learn_at;
};

struct pack_policy {
    const char *name;
    bool by_lot;                       /* any node with room, any device */
    /* Told of every pod before it is placed. */
    void (*arrives)(struct pack *p, const struct pack_pod *pod);
    /* Of a node that has room; more is better. */
    double (*score)(const struct pack *p, const struct pack_shape *s,
                    size_t node);
    /* The GPU that a fraction goes to. */
    unsigned (*device)(struct pack *p, const struct pack_shape *s,
                       size_t node);
    /* How good it is to have the pod on this GPU; of the two policies whose
     * score and device are those of the best GPU.
     */
    double (*after)(const struct pack *p, const struct pack_shape *s,
                    size_t node, unsigned gpu);
};

/* Take what the pod needs; the whole GPUs of lowest index, or `gpu`. */
void pack_take(struct pack_node *n, const struct pack_shape *s, unsigned gpu);

/* ---- fragmentation, as FGD has it ---- */

/* The most frequent kinds of pods, which make up this much of the list. */
void pack_types_of(const struct pack_list *l, unsigned percent,
                   struct frag_types *ret);
double pack_frag(const struct pack_node *n, const struct frag_types *t);

/* ---- the policies' scores ---- */

double pack_score_bestfit(const struct pack *p, const struct pack_shape *s,
                          size_t node);
double pack_score_dotprod(const struct pack *p, const struct pack_shape *s,
                          size_t node);
double pack_score_packing(const struct pack *p, const struct pack_shape *s,
                          size_t node);
double pack_score_clustering(const struct pack *p, const struct pack_shape *s,
                             size_t node);
double pack_score_after(const struct pack *p, const struct pack_shape *s,
                        size_t node);
unsigned pack_device_tight(struct pack *p, const struct pack_shape *s,
                           size_t node);
unsigned pack_device_by_lot(struct pack *p, const struct pack_shape *s,
                            size_t node);
unsigned pack_device_after(struct pack *p, const struct pack_shape *s,
                           size_t node);
double pack_after_fgd(const struct pack *p, const struct pack_shape *s,
                      size_t node, unsigned gpu);
double pack_after_weir(const struct pack *p, const struct pack_shape *s,
                       size_t node, unsigned gpu);
void pack_weir_arrives(struct pack *p, const struct pack_pod *pod);
