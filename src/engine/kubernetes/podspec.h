#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct engine_lease;

/* podspec - the objects that are made for one lease: its Pod, and the Secret
 * with which its runner comes home.
 *
 * The Pod has two containers.  The first (init) has our own image and copies
 * the static runner, the token and the authority into volumes of the Pod; it
 * alone sees the Secret.  The second has the task's image and begins with that
 * runner, so that any image will do.  Both run as the lease's user, without
 * privileges.  It is bound to its node when it is made: no scheduler sees it.
 */
#define PODSPEC_CONTAINER "task"       /* whose end is the lease's */
#define PODSPEC_RUNNER "weir.dev/runner"           /* annotation */
#define PODSPEC_INSTANCE "weir.dev/instance"       /* labels ... */
#define PODSPEC_POOL "weir.dev/pool"

enum {
    /* A pod that is told to end may take that long.  The runner ends earlier,
     * by the task's own grace; this is for one that does not.
     */
    PODSPEC_GRACE_S = 600,
    /* A node that is not heard of for that long, after the cluster has noticed,
     * is given up with what runs there.
     */
    PODSPEC_AWAY_S = 60,
    /* A runner keeps what it has to tell when home is away. */
    PODSPEC_IDLE_S = 3600,
};

struct podspec {
    const char *instance, *pool;       /* whose it is */
    const char *space;                 /* namespace */
    const char *image;                 /* has PODSPEC_PROGRAM */
    const char *task_image;            /* of tasks that name none */
    const char *service_account, *runtime_class, *priority_class;  /* or NULL */
    const char *tolerate;              /* keys of taints, commas; or NULL */
    const char *home;                  /* "tls://HOST:PORT" */
    const char *authority;             /* PEM */
    uint64_t log_bytes;
};
#define PODSPEC_PROGRAM "/usr/bin/weir-runner"

/* What one asks for that runs as long as the lease; caller owns.  `node` is
 * the name of the node as the cluster has it.
 */
json_t *podspec_pod(const struct podspec *s, const struct engine_lease *l,
                    const char *name, const char *node);
/* It is gone with the Pod, whose `uid` that is. */
json_t *podspec_secret(const struct podspec *s, const struct engine_lease *l,
                       const char *name, const char *uid);
/* Is this Pod of ours? */
bool podspec_is_ours(const struct podspec *s, const json_t *pod);
