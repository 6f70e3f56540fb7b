#pragma once

#include "gate/gate.h"

/* stuck - threads that are inside the driver, found by their stacks.
 *
 * A call that began before its lease was suspended, or that came by a way which
 * the gate does not see, waits in a locked driver, and nobody is told.  Nothing
 * marks it: the calls of a program are too many to pay for that.  What the kernel
 * says of a thread that waits is enough: the innermost function on its stack that
 * is not libc's is the driver's, and somebody outside the driver called it.  The
 * driver's own threads were called by nobody.
 *
 * It is a guess, since words on a stack can be left over; who acts on it looks
 * twice, and asks that the same thread stands at the same place.
 */
struct stuck {
    int tid;
    uint64_t sp;                       /* where its stack ends */
    char in[GATE_NAME_MAX];            /* the driver's function, or "?" */
};

/* Looks at the threads of a process (0: this one) but `except`.  At most
 * `max` are put into `found`; returns how many there are, or -errno when the
 * process cannot be looked at.  Uses no heap, and is not for two threads at a
 * time.
 */
int stuck_find(int pid, int except, struct stuck *found, int max);
