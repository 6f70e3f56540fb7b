#pragma once

#include <stdbool.h>
#include <stdint.h>

/* fault_vfs - a disk that fails, stalls and loses power on command, for tests.
 *
 * A SQLite VFS named "fault" around the default one.  Writes, truncations,
 * syncs and deletions of files are counted.  What was written since a file's
 * last sync is remembered with what it replaced: a power cut takes it back,
 * wholly or (what real disks do) sector by sector at random.  Making and
 * deleting a file count as durable at once.
 *
 * Real syncs are left out: the tests ask what SQLite asked for.
 */
#define FAULT_VFS "fault"

void fault_register(void);             /* again is fine */
/* No faults, nothing unsynced, the count at 0. */
void fault_reset(void);
uint64_t fault_count(void);            /* operations since fault_reset */
uint64_t fault_syncs(void);

/* From the nth operation from now on (the next one is 1), `times` of them fail
 * with ENOSPC or EIO; a write that fails has written its first half.
 */
void fault_fail(uint64_t nth, unsigned times, int code);

/* Power goes at the nth operation from now: it and all after it fail, until
 * fault_reboot.
 */
void fault_cut(uint64_t nth);
bool fault_is_cut(void);
/* Power is back.  Every file is as it was at its last sync (seed 0), or has
 * some sectors of what was written after it as well.  All connections must be
 * closed.
 */
void fault_reboot(uint64_t seed);

/* While held, syncs do not return. */
void fault_hold(bool hold);
unsigned fault_held(void);             /* syncs that wait right now */
