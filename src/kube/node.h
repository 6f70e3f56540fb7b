#pragma once

#include "kube/resources.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

/* node - of a Node object, what is used of it and nothing else. */
struct kube_node {
    char *name;
    struct resources has;              /* allocatable */
    char *product;                     /* "NVIDIA-H100-80GB-HBM3"; or NULL */
    uint64_t device_memory;            /* bytes of each; 0: not said */
    char *domain;                      /* the zone; or NULL */
    /* Why nothing new should go there: "cordoned", "not ready",
     * "taint KEY=VALUE:NoSchedule"; NULL when nothing speaks against it.
     */
    char *closed;
};

int kube_node_read(const json_t *object, struct kube_node **ret,
                   struct err *err);
void kube_node_free(struct kube_node *n);   /* NULL is fine */
