#pragma once

#include "control/leases.h"

/* apart - leases that have a runner of their own, in pools whose engine says
 * so.  For all others each of these answers "no", and does nothing.
 */

/* The pool of a block, where it is apart; else NULL. */
struct reached *apart_pool(const struct control *c, const char *block);
/* The name of the runner that a lease of a block has: into RUNNER_NAME_SIZE
 * bytes.
 */
void apart_runner(const struct control *c, const char *block,
                  const struct lease_key *k, uint32_t gen, uint64_t epoch,
                  char *ret);
/* The epoch that it was planned in, whatever was restored since. */
uint64_t apart_epoch(const struct control *c, const struct lease *l);
/* Is any rank of it apart? */
bool apart_any(const struct control *c, const struct task *t);
/* Of such a gang: may its ranks be ordered? */
bool apart_gathered(const struct control *c, const struct task *t);
/* Where others reach what this lease runs; NULL or "": it was not said. */
const char *apart_address(const struct control *c, const struct lease *l);
/* Is it apart and nothing of it ever ran, nor can? */
bool apart_never_began(const struct control *c, const struct lease *l);
/* What blocks of such pools cannot do is taken out of what they say. */
void apart_inventory(json_t *inventory);

/* Make its runner come.  True: it could not, and the lease is ended; it may be
 * gone.
 */
bool apart_start(struct control *c, struct lease *l);
/* The engine is another one, or the world: of all leases there. */
void apart_again(struct reached *r);
/* Its end is on disk: the runner may go. */
void apart_done(struct control *c, const char *block,
                const struct lease_key *k, uint32_t gen, uint64_t epoch);
/* The pool can be reached: what is there and not wanted is stopped. */
void apart_sweep(struct reached *r);

/* The lease that a runner of this name is for; NULL: it has none of its own, or
 * there is none.
 */
struct lease *apart_lease(const struct control *c, const char *name);
/* What such a runner says.  False: it is taken as any other's. */
bool apart_message(struct control *c, const struct runner_name *n,
                   const struct wire_msg *m);
/* One went away.  False: it is none of these. */
bool apart_gone(struct control *c, const char *name);
void apart_clear(struct control *c);
/* What an engine says; `arg` is a struct reached. */
void apart_over(const char *runner, enum spec_cause cause, int status,
                const char *why, void *arg);
