#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct blocks;
struct err;
struct inventory;
struct kube_node;
struct loop;
struct resources;

/* blocks - the nodes of a cluster, told as blocks of the world.
 *
 * A block has what its node can allocate, less what pods of others take.  Where
 * nothing new may go (cordoned, not ready, a taint that is not tolerated) it
 * has nothing while pods of ours are there, so that the world shuts it and what
 * runs goes on, and is lost when there are none.
 *
 * A change is told BLOCKS_SETTLE_MS after it, and with it all that came since.
 */
enum { BLOCKS_SETTLE_MS = 1000 };

struct blocks_conf {
    const char *pool;                  /* borrowed, as all here */
    const char *tolerate;              /* keys of taints, or NULL */
    void (*up)(const char *block, const char *token, const json_t *inventory,
               void *arg);
    void (*lost)(const char *block, const char *why, void *arg);
    /* Is anything of ours on this node, or on its way there? */
    bool (*busy)(const char *node, void *arg);
    void *arg;
};

struct blocks *blocks_new(struct loop *l, const struct inventory *v,
                          const struct blocks_conf *conf);
void blocks_free(struct blocks *b);    /* NULL is fine */

/* The cluster is another one than it was; while it is not known whole nothing
 * is told.
 */
void blocks_changed(struct blocks *b, bool whole);
/* {nodes: [{block}]}: those that are open; caller owns. */
json_t *blocks_list(const struct blocks *b);
/* Tell of it, now and from now on; and of all nodes that come later. */
void blocks_get(struct blocks *b, const char *block);
void blocks_give(struct blocks *b, const char *block);
/* The name of its node; NULL: there is no such block. */
const char *blocks_node(const struct blocks *b, const char *block);

/* What such a block has, in the form of block.up; for tests. */
json_t *blocks_json(const char *pool, const struct kube_node *n,
                    const struct resources *taken,
                    const struct resources *own, const char *closed);
