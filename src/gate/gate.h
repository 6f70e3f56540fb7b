#pragma once

/* gate - what the preloaded library and the runner say to each other.
 *
 * The task's environment has WEIR_GATE_SOCKET, the path of a Unix stream
 * socket, and WEIR_LEASE.  The gate connects once and says one line,
 *
 *     weir-gate VERSION LEASE\n
 *
 * and waits until the other side says a line:
 *
 *     open\n
 *
 * Lines are at most GATE_LINE_MAX bytes with their end.  Versions one apart
 * work together: words after those above are passed over.
 */
enum { GATE_VERSION = 1, GATE_LINE_MAX = 256, GATE_WAIT_MS = 10 * 1000 };

#define GATE_SOCKET_VAR "WEIR_GATE_SOCKET"
#define GATE_LEASE_VAR "WEIR_LEASE"
/* Milliseconds to wait for "open"; GATE_WAIT_MS when unset. */
#define GATE_WAIT_VAR "WEIR_GATE_WAIT_MS"

/* The one symbol that the library shows. */
extern const int weir_gate_version;
