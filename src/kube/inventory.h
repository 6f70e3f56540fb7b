#pragma once

#include "kube/resources.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct inventory;
struct kube_node;

/* inventory - what a cluster has and what anybody's pods take of it.
 *
 * Fed with Node and Pod objects as they come, in any order: a pod may be known
 * before its node.  Each costs as much as it has kinds of resources.  At most
 * INVENTORY_NODES nodes and INVENTORY_PODS pods; more is an error, since a free
 * device that is not free is worse than none.
 */
enum { INVENTORY_NODES = 100000, INVENTORY_PODS = RESOURCES_HOLDERS };

enum inventory_kind { INVENTORY_NODE, INVENTORY_POD };

struct inventory *inventory_new(void);
/* Which pods are our own; before the first one is put. */
void inventory_own(struct inventory *v,
                   bool (*is_own)(const json_t *pod, void *arg), void *arg);
void inventory_free(struct inventory *v);          /* NULL is fine */

/* An object is there, anew or again; or it is gone. */
int inventory_put(struct inventory *v, enum inventory_kind kind,
                  const json_t *object, struct err *err);
int inventory_drop(struct inventory *v, enum inventory_kind kind,
                   const json_t *object, struct err *err);
/* A list begins, and ends: what was not put in between is gone. */
void inventory_list(struct inventory *v, enum inventory_kind kind);
void inventory_listed(struct inventory *v, enum inventory_kind kind);

struct inventory_sum {
    size_t nodes, closed;              /* closed: of the nodes */
    size_t pods, waiting;              /* that have not ended; not bound */
    struct resources has, taken;       /* of all nodes, open or not */
};
/* All there is; caller clears `has` and `taken`.  O(nodes). */
void inventory_total(const struct inventory *v, struct inventory_sum *ret);

/* One node after the other, in the order they came; *pos from 0, NULL at the
 * end.  What is taken may be more than the node has.
 */
const struct kube_node *inventory_next(const struct inventory *v, size_t *pos,
                                       const struct resources **ret_taken,
                                       size_t *ret_pods);
/* One node, NULL when there is none of this name; of what is taken, by how much
 * our own pods do it.
 */
const struct kube_node *inventory_node(const struct inventory *v,
                                       const char *name,
                                       const struct resources **ret_taken,
                                       const struct resources **ret_own);
