#pragma once

#include <stdbool.h>
#include <stdint.h>

/* transient - what the machine cannot do now and can do later: no room on the
 * disk, no process, descriptor or memory to be had.  That is no fault of the
 * task's and no reason to give it up.
 */
bool transient(int rc);                            /* rc: -errno */

/* How long to wait before the next attempt: 200 ms, growing to 5 s; *ms is 0
 * before the first.
 */
uint64_t transient_wait(uint64_t *ms);
