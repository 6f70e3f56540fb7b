#pragma once

#include <jansson.h>
#include <stddef.h>

struct cli;
struct run_staged;

/* sim - what the verbs of the simulator share. */

/* The whole file; 0, or an exit status after saying why. */
int sim_read(const struct cli *c, const char *path, char **ret,
             size_t *ret_len);
json_t *sim_staged_json(const struct run_staged *s);
