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
 * no device.  Version 1 had "open" alone.
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
#define GATE_SPARES 64

#define GATE_OTHER 0
#define GATE_LAUNCH 1
#define GATE_COPY 2
#define GATE_SYNC 3

#ifndef __ASSEMBLER__

#include <stdatomic.h>
#include <stdint.h>

enum {
    GATE_VERSION = 2,
    GATE_LINE_MAX = 256,
    GATE_DEVICES = 16,
    GATE_SLOTS = 32,
    GATE_PAGE_MAGIC = 0x72696557,      /* "Weir" */
};

enum gate_state { GATE_ACTIVE, GATE_STAGED, GATE_SUSPENDED };

/* One for each lease, made and sized by the runner, zeros but for magic,
 * version and state, and mapped by every process of the task.  Who changes
 * `state` wakes its futex.  A process that uses memory takes a slot; one that
 * was killed leaves it, and whoever finds it takes its bytes off `used`.
 */
struct gate_page {
    uint32_t magic, version;           /* GATE_PAGE_MAGIC, GATE_VERSION */
    _Atomic uint32_t state;            /* enum gate_state; a futex */
    _Atomic uint32_t wanting;          /* threads that wait for the device */
    _Atomic uint32_t inside;           /* threads in a call that waits */
    uint32_t unused[11];
    _Atomic uint64_t count[8];         /* calls, by GATE_OTHER ... */
    _Atomic uint64_t used[GATE_DEVICES];       /* bytes, by the driver's number */
    struct gate_slot {
        _Atomic uint32_t pid;
        uint32_t unused;
        _Atomic uint64_t used[GATE_DEVICES];
    } slots[GATE_SLOTS];
};

/* The one symbol that is no hook. */
extern const int weir_gate_version;

#endif
