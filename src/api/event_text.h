#pragma once

#include <stdbool.h>
#include <stdint.h>

struct call;
struct store_event;

/* event_text - what list and watch of events share. */

/* The event's JSON as it may be shown: without a token's hash.  Caller
 * frees.
 */
char *event_text(const struct store_event *e);
/* A cursor to go on from; false: answered with 400, or 410 when what comes
 * after it is gone or has never been.
 */
bool since_read(struct call *c, const char *since, uint64_t *ret_seq);
/* The argument `workload`, 0 when absent; false: answered with 404. */
bool workload_arg_read(struct call *c, uint64_t *ret);
