#pragma once

#include "control/control_int.h"

/* guests - what others have put into a pool, as workloads of ours.
 *
 * A guest that an engine tells of is submitted as a workload, once for its uid,
 * by nobody's hand: as the user GUEST_USER, whom no machine has.  Those of a
 * gang become one workload, once all are there.
 */
#define GUEST_USER UINT32_MAX

/* What an engine says; `arg` is a struct reached. */
void guests_came(const json_t *guest, void *arg);
void guests_gone(const char *uid, void *arg);
void guests_told(void *arg);
/* The pool is gone: nobody of it waits any more. */
void guests_leave(struct control *c, const struct reached *of);
/* Its engine is another one: it tells all again. */
void guests_forget(struct control *c, const struct reached *of);
/* The world was loaded again. */
void guests_again(struct control *c);
/* An effect is durable. */
void guests_act(struct control *c, const struct effect *f);
void guests_close(struct control *c);
