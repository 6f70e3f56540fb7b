#include "core/lease.h"

#include "base/err.h"
#include "base/tap.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* The table is walked whole: no state without a way to an end, no way out of
 * an end, nothing that cannot be reached.
 */
static bool leads(enum lease_state from, enum lease_state to)
{
    enum lease_state next;

    for (unsigned m = 0; m < LEASE_MOVE_COUNT; m++)
        if (lease_next(from, (enum lease_move) m, &next, NULL) == 0 &&
            next == to)
            return true;
    return false;
}

static bool reaches(enum lease_state from, enum lease_state to)
{
    bool seen[LEASE_STATE_COUNT] = { false };

    seen[from] = true;
    for (bool more = true; more;) {
        more = false;
        for (unsigned a = 0; a < LEASE_STATE_COUNT; a++) {
            for (unsigned b = 0; b < LEASE_STATE_COUNT; b++) {
                if (!seen[a] || seen[b] ||
                    !leads((enum lease_state) a, (enum lease_state) b))
                    continue;
                seen[b] = more = true;
            }
        }
    }
    return seen[to];
}

static bool is_end(enum lease_state s)
{
    return s == LEASE_ENDED || s == LEASE_LOST;
}

static void test_walk(void)
{
    for (unsigned i = 0; i < LEASE_STATE_COUNT; i++) {
        enum lease_state s = (enum lease_state) i;
        const char *name = lease_state_name(s);

        ok(reaches(LEASE_PLANNED, s), "%s can be reached", name);
        if (is_end(s)) {
            bool out = false;

            for (unsigned k = 0; k < LEASE_STATE_COUNT; k++)
                out = out || leads(s, (enum lease_state) k);
            ok(!out, "%s has no way out", name);
        } else {
            ok(leads(s, LEASE_LOST), "%s can be lost at once", name);
            ok(reaches(s, LEASE_ENDED), "%s can reach its end", name);
        }
    }
}

static void test_line(void)
{
    static const struct {
        enum lease_move move;
        enum lease_state to;
    } line[] = {
        { LEASE_MOVE_STAGE, LEASE_STAGED },
        { LEASE_MOVE_CLAIM, LEASE_ACTIVE },
        { LEASE_MOVE_SUSPEND, LEASE_SUSPENDING },
        { LEASE_MOVE_SUSPENDED, LEASE_SUSPENDED },
        { LEASE_MOVE_RESUME, LEASE_RESUMING },
        { LEASE_MOVE_RESUMED, LEASE_ACTIVE },
        { LEASE_MOVE_STOP, LEASE_ENDING },
        { LEASE_MOVE_END, LEASE_ENDED },
    };
    enum lease_state s = LEASE_PLANNED;

    for (size_t i = 0; i < sizeof(line) / sizeof(line[0]); i++)
        ok(lease_next(s, line[i].move, &s, NULL) == 0 && s == line[i].to,
           "%s leads to %s", lease_move_name(line[i].move),
           lease_state_name(line[i].to));
}

static void test_refused(void)
{
    enum lease_state s = LEASE_SUSPENDED;
    struct err err = { 0 };

    ok(lease_next(LEASE_ACTIVE, LEASE_MOVE_CLAIM, &s, &err) == -ESTALE,
       "a second claim is refused");
    ok(strcmp(err.text, "claim is not possible while active") == 0, "%s",
       err.text);
    ok(s == LEASE_SUSPENDED, "and nothing is written");
    ok(lease_next(LEASE_ENDING, LEASE_MOVE_CLAIM, &s, NULL) == -ESTALE,
       "so is a claim while ending");
}

int main(void)
{
    test_walk();
    test_line();
    test_refused();
    return tap_done();
}
