#pragma once

#include <stddef.h>

struct cli;

/* sim - what the verbs of the simulator share. */

/* The whole file; 0, or an exit status after saying why. */
int sim_read(const struct cli *c, const char *path, char **ret,
             size_t *ret_len);
