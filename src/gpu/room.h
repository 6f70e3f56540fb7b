#pragma once

#include "gpu/procs.h"

#include <stdint.h>

struct err;

/* room - whether host memory takes what is on a device.
 *
 * The driver puts a process' device memory into that process' own memory: it
 * counts against its cgroup and against the node.  What would not fit gets
 * somebody killed, so it is asked first.
 */
struct room_need {
    char cgroup[PROCS_CGROUP];         /* as procs_cgroup has it */
    uint64_t bytes;
};

/* `taken` is what other operations have been promised and may not have used yet,
 * which counts in the cgroups it is in, too; `spare` is what is to stay free on
 * the node.  -ENOMEM: it does not fit.
 */
int room_check(const struct room_need *all, unsigned n,
               const struct room_need *taken, unsigned ntaken, uint64_t spare,
               struct err *err);
