#include "core/lease.h"

#include "base/err.h"

#include <assert.h>
#include <errno.h>

#define X(name, text) [LEASE_##name] = text,
static const char *const state_names[] = { LEASE_STATES(X) };
#undef X
#define X(name, text) [LEASE_MOVE_##name] = text,
static const char *const move_names[] = { LEASE_MOVES(X) };
#undef X

/* Written as "to + 1", so that a hole in the table reads as 0: refused.  A
 * lease whose stop was asked for before its claim is ending, not ended: its
 * runner may be about to claim and has to say that no process ever was.
 */
#define TO(s) (LEASE_##s + 1)
static const unsigned char arrows[LEASE_STATE_COUNT][LEASE_MOVE_COUNT] = {
    [LEASE_PLANNED]    = { [LEASE_MOVE_STAGE]     = TO(STAGED),
                           [LEASE_MOVE_CLAIM]     = TO(ACTIVE),
                           [LEASE_MOVE_STOP]      = TO(ENDING),
                           [LEASE_MOVE_END]       = TO(ENDED),
                           [LEASE_MOVE_LOSE]      = TO(LOST) },
    [LEASE_STAGED]     = { [LEASE_MOVE_CLAIM]     = TO(ACTIVE),
                           [LEASE_MOVE_STOP]      = TO(ENDING),
                           [LEASE_MOVE_END]       = TO(ENDED),
                           [LEASE_MOVE_LOSE]      = TO(LOST) },
    [LEASE_ACTIVE]     = { [LEASE_MOVE_SUSPEND]   = TO(SUSPENDING),
                           [LEASE_MOVE_STOP]      = TO(ENDING),
                           [LEASE_MOVE_END]       = TO(ENDED),
                           [LEASE_MOVE_LOSE]      = TO(LOST) },
    [LEASE_SUSPENDING] = { [LEASE_MOVE_SUSPENDED] = TO(SUSPENDED),
                           [LEASE_MOVE_KEEP]      = TO(ACTIVE),
                           [LEASE_MOVE_STOP]      = TO(ENDING),
                           [LEASE_MOVE_END]       = TO(ENDED),
                           [LEASE_MOVE_LOSE]      = TO(LOST) },
    [LEASE_SUSPENDED]  = { [LEASE_MOVE_RESUME]    = TO(RESUMING),
                           [LEASE_MOVE_STOP]      = TO(ENDING),
                           [LEASE_MOVE_END]       = TO(ENDED),
                           [LEASE_MOVE_LOSE]      = TO(LOST) },
    [LEASE_RESUMING]   = { [LEASE_MOVE_RESUMED]   = TO(ACTIVE),
                           [LEASE_MOVE_KEEP]      = TO(SUSPENDED),
                           [LEASE_MOVE_STOP]      = TO(ENDING),
                           [LEASE_MOVE_END]       = TO(ENDED),
                           [LEASE_MOVE_LOSE]      = TO(LOST) },
    [LEASE_ENDING]     = { [LEASE_MOVE_END]       = TO(ENDED),
                           [LEASE_MOVE_LOSE]      = TO(LOST) },
};

const char *lease_state_name(enum lease_state s)
{
    assert(s < LEASE_STATE_COUNT);
    return state_names[s];
}

const char *lease_move_name(enum lease_move m)
{
    assert(m < LEASE_MOVE_COUNT);
    return move_names[m];
}

int lease_next(enum lease_state from, enum lease_move move,
               enum lease_state *ret, struct err *err)
{
    assert(from < LEASE_STATE_COUNT);
    assert(move < LEASE_MOVE_COUNT);

    unsigned to = arrows[from][move];

    if (to == 0)
        return err_set(err, ESTALE, "%s is not possible while %s",
                       lease_move_name(move), lease_state_name(from));
    *ret = (enum lease_state) (to - 1);
    return 0;
}
