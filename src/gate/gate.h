#pragma once

/* gate - what the preloaded library and the runner say to each other.
 *
 * The task's environment has WEIR_GATE_SOCKET, the path of a Unix stream
 * socket, and WEIR_LEASE.  A process that asks the driver for its devices or
 * for a context connects and says one line,
 *
 *     weir-gate VERSION LEASE PID\n
 *
 * and is told its grant, in lines:
 *
 *     page PATH\n        the shared page, see below
 *     memory BYTES\n     the limit on each device; none: no limit
 *     device UUID\n      GPU-..., one a line, in the order the task sees them;
 *                        none: all that the driver shows
 *     lost wait\n        the runner goes away: wait for it (as without the line)
 *     lost go\n          or go on
 *     ready\n            the grant is whole: devices may be asked for
 *     open\n             the lease is active; also means ready
 *
 * With a page, the page alone says whether the lease is active, and the gate
 * hangs up after "ready".  Without one it stays connected until "open".
 *
 * Lines are at most GATE_LINE_MAX bytes with their end, and a line whose first
 * word is not known is passed over, as are words after those above: versions one
 * apart work together.  A limit or a device that makes no sense is no memory and
 * no device.  Version 1 had "open" alone; a page of version 2 ends where the slots
 * begin, as far as a gate is concerned, and processes that are killed leave what
 * they had.
 *
 * When the lease is suspended, a process that wants its device connects again,
 * says
 *
 *     wants LEASE PID\n
 *
 * and waits for the page's state with the connection open; it hangs up when it
 * goes on.  The runner has gone when that connection breaks.
 */
#define GATE_SOCKET_VAR "WEIR_GATE_SOCKET"
#define GATE_LEASE_VAR "WEIR_LEASE"
/* Milliseconds to wait at the gate; unset: for ever, "0": not at all. */
#define GATE_WAIT_VAR "WEIR_GATE_WAIT_MS"

/* What trampoline.S has to know of the page. */
#define GATE_AT_STATE 8
#define GATE_AT_COUNT 64
#define GATE_SPARES 1024
#define GATE_SPARE_SHIFT 4

#define GATE_OTHER 0
#define GATE_LAUNCH 1
#define GATE_COPY 2
#define GATE_SYNC 3

#ifndef __ASSEMBLER__

#include <stdatomic.h>
#include <stdint.h>

enum {
    GATE_VERSION = 3,
    GATE_LINE_MAX = 256,
    GATE_DEVICES = 16,
    GATE_SLOTS = 256,
    GATE_NAME_MAX = 36,
    GATE_PAGE_MAGIC = 0x72696557,      /* "Weir" */
};

enum gate_state { GATE_ACTIVE, GATE_STAGED, GATE_SUSPENDED };

/* One for each lease, made and sized by the runner, zeros but for magic,
 * version and state, and mapped by every process of the task.  Who changes
 * `state` wakes its futex.
 *
 * A process that has a context or waits for one takes a slot; one that was
 * killed leaves it, and whoever finds it takes what is in it off the sums.
 *
 * The device was used since the last look when a launch, a copy or a
 * synchronisation was counted, or a thread is inside; which of them says what
 * it was.  Other calls ask something, and use nothing.
 */
struct gate_page {
    uint32_t magic, version;           /* GATE_PAGE_MAGIC, GATE_VERSION */
    _Atomic uint32_t state;            /* enum gate_state; a futex */
    _Atomic uint32_t wanting;          /* threads that wait for the device */
    _Atomic uint32_t inside;           /* threads in a call that waits */
    _Atomic uint32_t stuck;            /* threads in a locked driver */
    _Atomic uint32_t unhooked;         /* ways past the gate handed out */
    char stuck_in[GATE_NAME_MAX];      /* the function one of them is in */
    _Atomic uint64_t count[8];         /* calls, by GATE_OTHER ... */
    _Atomic uint64_t used[GATE_DEVICES];       /* bytes, by the driver's number */
    struct gate_slot {
        _Atomic uint32_t pid, wanting, inside, stuck;
        _Atomic uint64_t used[GATE_DEVICES];
    } slots[GATE_SLOTS];
};

/* The one symbol that is no hook. */
extern const int weir_gate_version;

#endif
