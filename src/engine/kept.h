#pragma once

#include "engine/engine.h"

/* kept - keeps the logs of leases whose runners send what their tasks print: in
 * DIR/logs, as the keepers of this machine write theirs, for logread.h.
 *
 * Bytes have their offsets, so what comes again is passed over, also after a
 * restart: where a log ends is seen from its files.  Where bytes were let go
 * before they came here a new segment begins.
 */
struct kept;

enum { KEPT_FILES = 64 };              /* open at a time, at most */

/* Makes the folder.  log_bytes are kept of each log, 8 KiB at least. */
int kept_open(const char *dir, uint64_t log_bytes, struct kept **ret,
              struct err *err);
void kept_close(struct kept *k);       /* NULL is fine; the logs stay */
/* *ret_end: all before is there.  After a failure as much of it is there as
 * there was room for, and it is to be added again.
 */
int kept_add(struct kept *k, const struct engine_output *o, uint64_t *ret_end,
             struct err *err);
/* Forget the logs of a workload; repeatable. */
int kept_drop(struct kept *k, uint64_t workload, struct err *err);
