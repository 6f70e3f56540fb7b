#pragma once

#include "core/spec.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct engine_lease;
struct err;
struct kube;
struct pods;
struct podspec;

/* pods - the pods of leases: they are made, watched, and taken away.
 *
 * A pod has the name of its lease's attempt, so that making it again is finding
 * it.  What was begun is never made again.  Before the cluster has said which
 * there are (pods_listed), and the nodes are known (pods_ready), nothing is
 * made and nothing missed.
 */
enum {
    /* A container ended by itself: its runner has that long to tell home. */
    PODS_TELL_MS = 5000,
    /* An image that cannot be had is tried that long, and what keeps a pod from
     * starting is waited for so long.
     */
    PODS_HELD_MS = 60000,
    PODS_COMING_MS = 30 * 60 * 1000,
    /* A kubelet that says nothing past the time a pod had to leave. */
    PODS_SILENT_MS = 15000,
    /* A place that one of ours is leaving is waited for, and one that another
     * of ours may be told to leave any moment.
     */
    PODS_PLACE_MS = 60000,
    PODS_SOON_MS = 3000,
    PODS_CLEAR_MS = 2000,              /* a kubelet clears up after a pod */
    PODS_DROP_GRACE_S = 30,
};

struct pods_conf {
    const struct podspec *spec;        /* borrowed */
    /* As lease_over of the engine. */
    void (*over)(const char *runner, enum spec_cause cause, int status,
                 const char *why, void *arg);
    void (*moved)(void *arg);          /* what runs where is another */
    void (*late)(void *arg);           /* there is one that nobody asked for */
    const char *(*node_of)(const char *block, void *arg);  /* or NULL */
    /* By what is seen of the node: is there room for it?  Is it heard of? */
    bool (*room)(const char *node, const struct engine_lease *l, void *arg);
    bool (*alive)(const char *node, void *arg);
    void *arg;
};

struct pods *pods_open(struct kube *k, const struct pods_conf *conf);
void pods_close(struct pods *all);       /* what runs there stays; NULL is fine */

/* What the watch says: a list as in track.h, of pods that are ours alone. */
void pods_list(struct pods *all);
void pods_listed(struct pods *all);
void pods_ready(struct pods *all);
void pods_put(struct pods *all, const json_t *pod);
void pods_gone(struct pods *all, const json_t *pod);

int pods_start(struct pods *all, const struct engine_lease *l, struct err *err);
int pods_stop(struct pods *all, const char *runner, struct err *err);
json_t *pods_find(const struct pods *all);           /* caller owns */
/* Is one on that node that has not ended? */
bool pods_busy(const struct pods *all, const char *node);
