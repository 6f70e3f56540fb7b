#pragma once

#include "engine/engine.h"

/* logread - reads the logs that keepers write, while the lease is there and
 * after: DIR/logs/w12/3.0.GEN.EPOCH.log.OFFSET.  See src/runner/logfile.h for
 * who writes them.
 */
int logread_log(const char *dir, const char *lease_key, uint32_t gen,
                uint64_t epoch, uint64_t offset, void *buf, size_t size,
                struct engine_log *ret, struct err *err);
json_t *logread_list(const char *dir);
int logread_drop(const char *dir, uint64_t workload, struct err *err);
