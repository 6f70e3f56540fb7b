#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct cli;
struct run_staged;

/* sim - what the verbs of the simulator share. */

enum { SIM_COST_MAX_MS = 24 * 60 * 60 * 1000 };    /* as a policy has it */

/* The whole file; "-" is standard input, for one of them.  0, or an exit status
 * after saying why.
 */
int sim_read(const struct cli *c, const char *path, char **ret,
             size_t *ret_len);
const char *sim_name(const char *path);            /* for messages */
/* --startup and --lookahead, which a policy bounds: the look-ahead, or -1 where
 * none is said.  0, or an exit status after saying why.
 */
int sim_lookahead(const struct cli *c, uint64_t startup_ms, const char *text,
                  int64_t *ret_ms);
json_t *sim_staged_json(const struct run_staged *s);
