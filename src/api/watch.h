#pragma once

#include <stdint.h>

struct api;

/* watch - server-sent events to everybody who watches.
 *
 * Each watcher has a cursor and nothing is queued for it.  New events are read
 * from the store once for all, into a ring; a watcher whose cursor has fallen
 * out of the ring reads the store in pages.  The work done in one turn of the
 * loop is bounded, whatever the number of watchers.
 */
struct watchers *watchers_new(struct api *a);
/* When all streams are over; NULL is fine. */
void watchers_free(struct watchers *ws);
void watchers_durable(struct watchers *ws, uint64_t seq);
unsigned watchers_count(const struct watchers *ws);
