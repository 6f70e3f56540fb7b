#pragma once

#include "gate/gate.h"

#include <stdbool.h>
#include <sys/types.h>

struct err;

/* gatepage - the file behind a lease's page, the runner's side of it.
 *
 * The task can write to it and cut it short, so it is read and written here and
 * never looked at through a mapping, where that would be a SIGBUS.
 */
struct gatepage_seen {
    enum gate_state state;
    uint32_t wanting, inside;          /* threads */
    uint64_t launches, copies, syncs, others;
    uint64_t used;                     /* bytes on all devices */
};

/* A new page at `path`, in the place of any that is there, for that user to map
 * and nobody else.  *ret: the caller's descriptor.
 */
int gatepage_make(const char *path, uid_t uid, gid_t gid,
                  enum gate_state state, int *ret, struct err *err);
/* One that is there.  -EBADMSG: that is no page. */
int gatepage_open(const char *path, int *ret, struct err *err);
/* Sets the state and wakes who waits for it. */
int gatepage_set(int fd, enum gate_state state, struct err *err);
int gatepage_read(int fd, struct gatepage_seen *ret, struct err *err);

const char *gate_state_name(enum gate_state s);
bool gate_state_parse(const char *s, enum gate_state *ret);
