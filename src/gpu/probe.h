#pragma once

#include "gpu/node.h"

/* probe - asks the driver in a thread of its own.
 *
 * A driver that hangs, hangs the thread that asked it: the loop stays free,
 * sees that no answer came in time, and says so.  One question at a time.
 */
struct probe;
int probe_open(struct probe **ret, struct err *err);
/* Waits a moment for a thread that is in the driver, then leaves it behind with
 * all it uses; NULL is fine.
 */
void probe_close(struct probe *p);

int probe_fd(const struct probe *p);               /* readable: an answer */
void probe_ask(struct probe *p);                   /* none under way */
/* The answer, over *ret; false when there is none yet. */
bool probe_take(struct probe *p, struct node_report *ret);
