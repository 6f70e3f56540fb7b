#pragma once

#include "kube/resources.h"

#include <jansson.h>
#include <stdbool.h>

struct err;

/* pod - of a Pod object, what it takes and where; anybody's pod.
 *
 * What it takes is what Kubernetes' scheduler counts: the sum of its containers
 * and of those init containers that keep running, or what an init container
 * needs at its time, whichever is more; what the pod as a whole asks for counts
 * instead where it says so; and the overhead of its runtime class.
 */
struct kube_pod {
    char *key;                         /* "NAMESPACE/NAME" */
    char *node;                        /* NULL: not bound yet */
    bool ended;                        /* it takes nothing any more */
    struct resources takes;
};

int kube_pod_read(const json_t *object, struct kube_pod **ret, struct err *err);
void kube_pod_free(struct kube_pod *p);     /* NULL is fine */
/* "NAMESPACE/NAME" of any object that has both, caller frees; NULL without. */
char *kube_pod_key(const json_t *object);
