#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* reap - ends what a lease left behind. */

/* Kill every child of this process for which `spare` says no; how many, and
 * not none when it could not be seen.  A subreaper's children are, sooner or
 * later, all its orphaned descendants: repeated until there is none, this
 * leaves nothing.
 */
typedef bool (*reap_spare_f)(pid_t pid, void *arg);
unsigned reap_children(reap_spare_f spare, void *arg);

/* 0: it has none that we see, or is not there; -errno: could not look. */
pid_t reap_parent(pid_t pid);

/* Kill every process, of anybody's, whose environment says that it belongs to
 * this block (task.h) and to a lease ("w12/3.0#2@1") for which `match` says
 * yes; one walk over all processes.  For what no living process of ours is the
 * parent of.  False when some process could not be looked at, for want of a
 * descriptor or memory.
 */
typedef bool (*reap_match_f)(const char *lease, void *arg);
bool reap_by_lease(const char *block, reap_match_f match, void *arg);
