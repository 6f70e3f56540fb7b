#include "gate/watch.h"
#include "gate/driver.h"
#include "gate/slot.h"
#include "gate/stuck.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 64 };

static struct gate_lock looking;
static struct stuck before[THREADS], now[THREADS];
static int before_n;
static uint32_t shown;                 /* threads, in the page */

static bool stood_here(const struct stuck *s)
{
    for (int k = 0; k < before_n; k++) {
        if (before[k].tid == s->tid && before[k].sp == s->sp)
            return true;
    }
    return false;
}

static void show(uint32_t n)
{
    struct gate_slot *slot = slot_mine();

    if (n > shown)
        SLOT_ADD(gate_page, slot, stuck, n - shown);
    else if (n < shown)
        SLOT_SUB(gate_page, slot, stuck, shown - n);
    shown = n;
}

/* A thread counts that stands where it stood at the look before. */
static void look(void)
{
    int n = stuck_find(0, (int) syscall(SYS_gettid), now, THREADS);
    uint32_t stand = 0;

    n = n < 0 ? 0 : n < THREADS ? n : THREADS;
    for (int k = 0; k < n; k++) {
        if (!stood_here(&now[k]))
            continue;
        if (stand++ == 0)
            memcpy(gate_page->stuck_in, now[k].in, GATE_NAME_MAX);
    }
    show(stand);
    memcpy(before, now, (size_t) n * sizeof *now);
    before_n = n;
}

void watch_look(void)
{
    if (!gate_try(&looking))
        return;                        /* somebody else does */
    look();
    gate_drop(&looking);
}

void watch_end(void)
{
    if (!gate_try(&looking))
        return;                        /* who looks leaves, too */
    show(0);
    before_n = 0;
    gate_drop(&looking);
}

void watch_forked(void)
{
    looking.held = 0;
    before_n = 0;
    shown = 0;
}
