#pragma once

#include <stddef.h>

/* name - what things of ours are called in a cluster, and its nodes with us.
 *
 * What does not fit is cut, with a hash of the whole behind it, so that two
 * long names that begin alike stay two.
 */
enum {
    NAME_POD = 64,                     /* with its NUL, as all of these */
    NAME_BLOCK = 48,
    NAME_NODE = 128,
    NAME_LABEL = 64,
    NAME_POOL_MAX = 30,                /* bytes, so that nodes have room */
};

/* Of a lease's pod and its Secret.  `runner` is the name of its runner, which
 * no other attempt has; `key` is for whoever reads it there.  Two control planes
 * differ in `instance`, two pools of one in `pool`.
 */
void name_pod(const char *instance, const char *pool, const char *runner,
              const char *key, char out[NAME_POD]);
/* "POOL/NODE".  `pool` has NAME_POOL_MAX bytes at most. */
void name_block(const char *pool, const char *node, char out[NAME_BLOCK]);
void name_node(const char *node, char out[NAME_NODE]);
/* As the value of a label: what cannot be in one is '_'. */
void name_label(const char *text, char out[NAME_LABEL]);
