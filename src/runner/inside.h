#pragma once

#include <stdint.h>

/* inside - the control group that a container puts us in: whoever made it has set
 * its limits, and we can look at it and no more.
 */

/* The file in which its kernel counts whom it has killed for want of memory,
 * from the texts of /proc/self/mountinfo and /proc/self/cgroup; version 1 where
 * that has the memory.  NULL: there is none to be seen.  Caller owns.
 */
char *inside_file(const char *mounts, const char *groups);
/* The same of this process, or NULL. */
char *inside_find(void);
/* How many so far; 0 without a file. */
uint64_t inside_kills(const char *file);
