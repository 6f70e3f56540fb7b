#pragma once

#include "kube/resources.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

/* node - of a Node object, what is used of it and nothing else. */
struct kube_taint {
    char *key;
    char *text;                        /* "taint KEY=VALUE:NoSchedule" */
};

enum { KUBE_NODE_TAINTS = 64, KUBE_NODE_LABELS = 64 };

struct kube_node {
    char *name;
    uint64_t stamp;                    /* of an inventory: another number each
                                        * time that it is put; never 0 */
    struct resources has;              /* allocatable */
    char *product;                     /* "NVIDIA-H100-80GB-HBM3"; or NULL */
    uint64_t device_memory;            /* bytes of each; 0: not said */
    char *domain;                      /* the zone; or NULL */
    /* Why nothing new should go there: "cordoned", "not ready",
     * "taint KEY=VALUE:NoSchedule"; NULL when nothing speaks against it.
     */
    char *closed;
    bool cordoned, ready;
    bool simulated;                    /* its devices are: weir.dev/gpus */
    struct kube_taint *taints;         /* those that keep new work away */
    size_t ntaints;
    json_t *labels;                    /* {key: value} of those that people
                                        * choose nodes by */
};

int kube_node_read(const json_t *object, struct kube_node **ret,
                   struct err *err);
void kube_node_free(struct kube_node *n);   /* NULL is fine */
/* `closed`, for one who tolerates taints with these keys (commas between them,
 * or NULL); good as long as the node is.
 */
const char *kube_node_closed(const struct kube_node *n, const char *tolerate);
