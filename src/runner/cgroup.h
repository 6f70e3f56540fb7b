#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* cgroup - one group per lease where the machine lets us: limits that hold,
 * and an end that nothing escapes.
 *
 * Three folders, each NULL where it cannot be had: `track` (version 2; holds
 * every process of the lease, also when no controller is ours), `memory` and
 * `cpu` (the same folder on version 2 with controllers, hierarchies of their
 * own on version 1).  A lease's group has the same name in each.
 */
struct cgroup {
    char *track, *memory, *cpu;        /* our base groups */
    char *devices;                     /* version 1; where there is no track */
    bool unified;                      /* memory and cpu are in track */
    const char *limits;                /* "cgroup2", "cgroup1", "rlimits", or
                                        * "container": others have set them */
    bool inside;                       /* so it is: no group is made, and ... */
    char *events;                      /* ... this says whom it has killed; may
                                        * be NULL */
    uint64_t kills;                    /* before there was a lease */
};

/* Tries what works by doing it; never fails, at worst there is nothing. */
void cgroup_open(struct cgroup *c, const char *name);
/* In a container of the lease's own. */
void cgroup_inside(struct cgroup *c);
/* Removes the base groups when they are empty. */
void cgroup_close(struct cgroup *c);

/* Make the groups of a lease and set its limits.  *ret_track is a descriptor
 * for CLONE_INTO_CGROUP, or -1.
 */
int cgroup_make(const struct cgroup *c, const char *lease,
                uint64_t cpus_milli, uint64_t memory, int *ret_track,
                struct err *err);
/* Called in the task itself: enter the groups that clone did not. */
int cgroup_enter(const struct cgroup *c, const char *lease, bool tracked,
                 uint64_t memory);
/* Kill all that is in the group; how many processes were seen there. */
unsigned cgroup_kill(const struct cgroup *c, const char *lease);
uint64_t cgroup_oom_kills(const struct cgroup *c, const char *lease);
void cgroup_remove(const struct cgroup *c, const char *lease);
/* The group of a lease in which device nodes can be closed, made if need be and
 * if `make` says so, else NULL; *ret_two: of version 2.
 */
int cgroup_for_nodes(const struct cgroup *c, const char *lease, bool make,
                     char **ret, bool *ret_two, struct err *err);
