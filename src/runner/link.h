#pragma once

#include "engine/wire.h"

#include <stdint.h>

struct dial_to;
struct link;
struct loop;

/* link - the way home: dials, and dials again when home is away (50 ms,
 * growing to 2 s; of that half is up to chance, so that many runners do not come
 * at once).  What is sent in one turn leaves with one write.
 *
 * Home pings whom it reaches through a network: there a minute without a byte
 * counts as a connection that is lost.
 */
struct link_ops {
    void (*up)(void *arg);     /* connected: say hello */
    void (*message)(const struct wire_msg *m, void *arg);
    /* It was up, or an attempt failed. */
    void (*down)(const char *why, void *arg);
};

/* `to` is borrowed until link_close. */
struct link *link_open(struct loop *l, const struct dial_to *to,
                       const struct link_ops *ops, void *arg);
void link_close(struct link *k);                   /* NULL is fine */
/* Dropped while home is away: hello says it all again. */
void link_send(struct link *k, const struct wire_msg *m);
/* Home let us in; until then its answer counts as absence. */
void link_welcome(struct link *k);
/* Milliseconds since home was last there; 0 while it is. */
uint64_t link_away_ms(const struct link *k);
