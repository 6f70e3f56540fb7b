#pragma once

#include "engine/wire.h"

#include <stdint.h>

struct err;
struct link;
struct loop;

/* link - the way home: dials, and dials again when home is away (50 ms,
 * growing to 2 s).  What is sent in one turn leaves with one write.
 */
struct link_ops {
    void (*up)(void *arg);     /* connected: say hello */
    void (*message)(const struct wire_msg *m, void *arg);
    void (*down)(const char *why, void *arg);   /* was up */
};

struct link *link_open(struct loop *l, const char *socket_path,
                       const struct link_ops *ops, void *arg);
void link_close(struct link *k);                   /* NULL is fine */
/* Dropped while home is away: hello says it all again. */
void link_send(struct link *k, const struct wire_msg *m);
/* Home let us in; until then its answer counts as absence. */
void link_welcome(struct link *k);
/* Milliseconds since home was last there; 0 while it is. */
uint64_t link_away_ms(const struct link *k);
