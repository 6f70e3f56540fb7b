#pragma once

#include <jansson.h>
#include <stdbool.h>

struct err;

/* guestspec - what a Pod that somebody else made asks for, if Weir can give it.
 *
 * What a scheduler has to look after, and Weir does not, makes it a pod that is
 * not planned: it is told so, and never bound to where it may not be.
 */
#define GUEST_SCHEDULER "weir"         /* spec.schedulerName, by default */
#define GUEST_RUNNER "weir.dev/runner" /* annotations of one that was bound: */
#define GUEST_INSTANCE "weir.dev/instance"         /* for which lease of whom */
#define GUEST_TENANT "weir.dev/tenant"             /* labels of its maker's */
#define GUEST_WORKLOAD "weir.dev/workload"
#define GUEST_GANG "weir.dev/gang"
#define GUEST_GANG_SIZE "weir.dev/gang-size"       /* or an annotation */
#define GUEST_PRIORITY "weir.dev/priority"         /* likewise */

/* Whose is it to schedule?  `scheduler` is our name. */
bool guestspec_is_for(const json_t *pod, const char *scheduler);
/* As the engine's event `guest` says it, caller owns.  -ENOTSUP: it is not to be
 * planned, and why.  `tolerate`: keys of taints (commas, or NULL) that the nodes
 * of this pool may have; `tenant`: whose it is when it does not say so, or NULL.
 */
int guestspec_read(const json_t *pod, const char *tolerate, const char *tenant,
                   json_t **ret, struct err *err);
/* The Binding of one to a node, by which it says for which lease. */
json_t *guestspec_binding(const char *space, const char *name, const char *uid,
                          const char *node, const char *runner,
                          const char *instance);
