#pragma once

struct err;

/* lease - the life of a lease, as one table of arrows.
 *
 * planned -> staged -> active -> (suspending -> suspended -> resuming ->
 * active)* -> ending -> ended, and lost.  A missing arrow is an error.  Whoever
 * cannot be moved stays where it was: that is `keep`.  `staged` is there for
 * engines that stage with a lease in hand.
 */
#define LEASE_STATES(X) \
    X(PLANNED, "planned") X(STAGED, "staged") X(ACTIVE, "active") \
    X(SUSPENDING, "suspending") X(SUSPENDED, "suspended") \
    X(RESUMING, "resuming") X(ENDING, "ending") X(ENDED, "ended") \
    X(LOST, "lost")
#define LEASE_MOVES(X) \
    X(STAGE, "stage") X(CLAIM, "claim") X(SUSPEND, "suspend") \
    X(SUSPENDED, "suspended") X(RESUME, "resume") X(RESUMED, "resumed") \
    X(KEEP, "keep") \
    X(STOP, "stop") X(END, "end") X(LOSE, "lose")

enum lease_state {
#define X(name, text) LEASE_##name,
    LEASE_STATES(X)
#undef X
    LEASE_STATE_COUNT
};
enum lease_move {
#define X(name, text) LEASE_MOVE_##name,
    LEASE_MOVES(X)
#undef X
    LEASE_MOVE_COUNT
};

const char *lease_state_name(enum lease_state s);
const char *lease_move_name(enum lease_move m);
int lease_next(enum lease_state from, enum lease_move move,
               enum lease_state *ret, struct err *err);
