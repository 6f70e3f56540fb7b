#pragma once

struct err;

/* runlog - what the runner itself says: standard error is DIR/runner.log.
 * When it has grown past 1 MiB it becomes runner.log.1 and a new one begins.
 */
int runlog_open(const char *dir, struct err *err);
/* Call now and then. */
int runlog_trim(const char *dir, struct err *err);
