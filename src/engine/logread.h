#pragma once

#include "engine/engine.h"

/* logread - reads logs that are kept in DIR/logs (segments.h), while the lease
 * is there and after: those that keepers write (runner/logfile.h), and those
 * that came here by the wire (kept.h).
 */
int logread_log(const char *dir, const char *lease_key, uint32_t gen,
                uint64_t epoch, uint64_t offset, void *buf, size_t size,
                struct engine_log *ret, struct err *err);
json_t *logread_list(const char *dir);
int logread_drop(const char *dir, uint64_t workload, struct err *err);
