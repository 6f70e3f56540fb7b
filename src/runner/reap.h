#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* reap - ends what a lease left behind. */

/* Kill every child of this process for which `spare` says no; how many.  A
 * subreaper's children are, sooner or later, all its orphaned descendants:
 * repeated until there is none, this leaves nothing.
 */
typedef bool (*reap_spare_f)(pid_t pid, void *arg);
unsigned reap_children(reap_spare_f spare, void *arg);

/* Kill every process, of anybody's, whose environment says that it belongs to
 * this lease ("w12/3.0#2@1"); how many.  For what no living process of ours
 * is the parent of.
 */
unsigned reap_by_lease(const char *lease);
