#pragma once

#include "plan/plan_int.h"

/* pool - the nodes, and indexes over what is free on them.
 *
 * A family holds the nodes of one pool with equal devices.  Its open nodes
 * stand in buckets by the number of wholly free devices and by free CPUs, and
 * those with a partly used device also in buckets by the largest share that is
 * left on such a one.  A bucket is a set of bits in the order of names: looking
 * for the first few nodes that fit is a walk over few words, whatever the size
 * of the pool, and what it finds depends on the state and not on its history.
 *
 * `gave` counts the times that room was made; the nodes where it was made last
 * stand in a ring, so that who fitted nowhere before asks only those.
 */
enum {
    POOL_WHOLE = 17,                   /* 0..15 free devices; 16 and more */
    POOL_PART = 8,                     /* eighths of a device */
    POOL_CPU = 8,                      /* under 1 CPU, 1, 2-3, 4-7, ... 64- */
    POOL_RING = 4096,
};

struct bits {
    uint64_t *words;                   /* NULL: none was ever set */
    uint64_t *groups;                  /* bit k: words[k] is not 0 */
    uint32_t count;
};

struct family {
    char *key;
    struct pool *pool;                 /* of all families */
    uint32_t ndevices;
    uint64_t models;                   /* bit k: some device is of model k */
    uint64_t memory;                   /* of the largest device */
    bool uniform;                      /* all devices are alike */
    bool stale;                        /* order and buckets are to be made */
    struct plan_node **nodes;          /* by name, once made */
    uint32_t nnodes, cap;
    uint32_t first_word;               /* vain.c: of its nodes' bits */
    uint8_t any_whole[POOL_WHOLE];     /* bit c: bucket c of the row has some */
    uint8_t any_part[POOL_PART];
    struct bits whole[POOL_WHOLE][POOL_CPU];
    struct bits part[POOL_PART][POOL_CPU];
    struct soon *soon;                 /* burst.c: what ends there, or NULL */
};

/* How many nodes are of a kind, and one without a name that is: open, empty,
 * with its own copies of devices and labels.
 */
struct node_kind {
    struct plan_node like;
    char *key;
    uint32_t count, index;
};

struct pool_sum {                      /* of all nodes of one pool */
    uint32_t nodes;
    uint64_t owed;                     /* to the suspended that roam in it */
};

struct pool {
    struct family **families;
    uint32_t nfamilies, families_cap;
    struct map *families_by_key;
    struct node_kind **kinds;
    uint32_t nkinds, kinds_cap;
    struct map *kinds_by_key;
    char **pools, **domains;           /* numbered */
    uint32_t npools, ndomains;
    struct pool_sum *sums;             /* by number of the pool */
    uint32_t live, roaming;            /* nodes; those that roam */
    uint64_t changes;                  /* nodes came or went; from 1 */
    uint64_t stamps;                   /* of nodes, so far; one more for each
                                          that went */
    uint64_t words_at;                 /* vain.c: when `changes` was this ... */
    uint32_t words;                    /* ... all families' nodes had so many */
    struct plan_node **sorted;         /* see pool_sorted */
    uint64_t sorted_at;                /* when `changes` was this */
    uint64_t gave;
    uint32_t ring[POOL_RING];          /* where, in plan.nodes */
};

/* Sort and fill again when nodes came or went. */
void pool_ready(struct family *f);
/* Of pointers to nodes: by pool, so that those of one stand together, then by
 * name.
 */
int pool_order(const void *va, const void *vb);
/* All nodes, `live` of them, in that order: whoever looks at them one
 * by one finds the same, in whatever order they came.
 */
struct plan_node *const *pool_sorted(struct plan *p);
static inline unsigned pool_cpu_class(uint64_t cpu_milli)
{
    uint64_t cpus = cpu_milli / 1000;
    unsigned class;

    if (cpus == 0)
        return 0;
    class = 64 - (unsigned) __builtin_clzll(cpus);
    return class < POOL_CPU ? class : POOL_CPU - 1;
}

/* One with several ranks on the node stands there several times: was the m-th
 * of its items met before?
 */
bool pool_met(const struct plan_node *n, uint32_t m);
/* The first node at or after `from` in the bucket, or UINT32_MAX. */
static inline uint32_t bits_next(const struct bits *b, uint32_t from, uint32_t size)
{
    uint32_t word = from / 64, groups = (size / 64 + 1) / 64 + 1;
    uint64_t left;

    if (b->count == 0 || from >= size)
        return UINT32_MAX;
    left = b->words[word] & ~UINT64_C(0) << from % 64;
    if (left)
        return word * 64 + (uint32_t) __builtin_ctzll(left);
    word++;
    for (uint32_t g = word / 64; g < groups; g++) {
        left = b->groups[g];
        if (g == word / 64)
            left &= ~UINT64_C(0) << word % 64;
        if (left) {
            word = g * 64 + (uint32_t) __builtin_ctzll(left);
            return word * 64 + (uint32_t) __builtin_ctzll(b->words[word]);
        }
    }
    return UINT32_MAX;
}

/* ... of those whose bit is not set in `but`; NULL: all. */
static inline uint32_t bits_next_but(const struct bits *b, const uint64_t *but,
                                     uint32_t from, uint32_t size)
{
    uint32_t k = bits_next(b, from, size);

    while (but && k != UINT32_MAX) {
        uint64_t left = b->words[k / 64] & ~but[k / 64] &
                        ~UINT64_C(0) << k % 64;

        if (left)
            return k / 64 * 64 + (uint32_t) __builtin_ctzll(left);
        k = bits_next(b, (k / 64 + 1) * 64, size);
    }
    return k;
}

void pool_gave(struct plan *p, const struct plan_node *n);
/* Take back what was only tried: nobody got room by it. */
void pool_undo(struct plan *p, const struct shape *s,
               const struct plan_place *place);

/* Thousandths of devices that those had who wait to go on there: where they
 * roam, the node's share of what its pool owes.
 */
double pool_owed(const struct plan *p, const struct plan_node *n);

/* Parked memory that is only tried without: nobody got room by it. */
void pool_lend(struct plan_node *n, int64_t bytes);

/* ---- place.c, for gang.c ---- */

/* One rank looks for its place. */
struct search {
    struct plan *p;
    const struct plan_item *item;
    const struct shape *shape;
    const struct part *part;
    const struct place_opts *o;
    uint32_t seen;                     /* places compared so far */
    uint64_t *vain;                    /* see vain_of; or NULL */
    bool found;
    bool placed;                       /* devices of the best are chosen */
    struct plan_place best;
    double score;
};

/* Could a device of the family do?  Always, when none is wanted. */
bool place_family(const struct family *f, const struct part *q);
/* vain.c: the nodes of the family, which is ready, where a rank of the simple
 * shape found no room and none was made since; a bit for each slot, to be set.
 */
uint64_t *vain_of(struct plan *p, struct shape *s, const struct family *f);
/* Has the node room for one rank now?  `more`: memory that would come free. */
bool place_fits(const struct plan *p, const struct plan_node *n,
                const struct part *q, uint64_t more, bool closed);
/* ... for how many? */
uint32_t place_ranks(const struct plan *p, const struct plan_node *n,
                     const struct part *q, uint64_t more, bool closed);
/* Fits, is open to the item and not promised away: its place and score. */
bool place_try(struct search *s, struct plan_node *n, struct plan_place *ret,
               double *ret_score);
bool gang_find(struct search *s, struct plan_place **ret, uint32_t *ret_n,
               double *ret_score);
bool gang_may_fit(const struct plan *p, const struct shape *s);
