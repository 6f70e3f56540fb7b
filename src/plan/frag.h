#pragma once

#include <stddef.h>
#include <stdint.h>

/* frag - how much of a node's free devices the work to come could use.
 *
 * FGD (Weng et al., USENIX ATC'23) asks whether typical work fits on a node,
 * and counts all devices that it could lie on as usable then.  Near the end
 * that is wrong where it costs most: on a node with 8 free devices and CPUs
 * for one more task, 7 are as good as gone.  So for each typical kind of work
 * two amounts are worked out, and the smaller one counts as usable:
 *
 *  - what is free on devices where it fits, as in FGD;
 *  - what the node's CPUs can feed.  A node is filled by a mix and not by one
 *    kind, so the CPUs that a device costs are taken between those of this
 *    kind and the mean (FRAG_OWN), with some slack, as work with few CPUs will
 *    come as well (FRAG_SLACK).
 *
 * The second is what makes a CPU dear on a node whose devices wait for it and
 * free of charge elsewhere: who needs many CPUs, or CPUs alone, goes where
 * there are plenty, and who needs few goes where few are left.
 */
enum { FRAG_WHOLE = 1000, FRAG_SIZES = FRAG_WHOLE + 1 };

struct frag_type {
    int64_t cpu;
    uint64_t models;                   /* bit k: model k will do */
    double weight;                     /* its share of the work */
    uint16_t size;                     /* place of its share in `sizes` */
    uint8_t gpus;
};

/* Types share few sizes of device shares, so that a node is measured once for
 * each size.
 */
struct frag_types {
    struct frag_type *items;
    size_t count;
    uint16_t sizes[FRAG_SIZES];        /* thousandths of a device */
    size_t nsizes;
    double cpu_per_milli;              /* of all work that needs devices */
};

struct frag_node {
    const uint16_t *left;              /* of each device, thousandths */
    unsigned gpus;
    uint64_t models;                   /* bit k: it has some of model k */
    int64_t cpu;                       /* free */
};

/* The place of the size among those of the types; a new one is added. */
uint16_t frag_size(struct frag_types *t, uint16_t milli);
/* Thousandths of devices that typical work could use, in expectation. */
double frag_usable(const struct frag_types *t, const struct frag_node *n);
