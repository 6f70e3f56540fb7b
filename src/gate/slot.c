#include "gate/slot.h"
#include "gate/driver.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

/* A slot belongs to a process image.  One with our own number that this image
 * did not take was left: by whoever had the number before, or by the image
 * before an exec, whose contexts went with it.
 */
enum { LEAVING = UINT32_MAX };         /* no process has it */

static struct gate_lock lock;
static struct gate_slot *mine;
static struct gate_page *looked_in;

static size_t slots_of(const struct gate_page *p)
{
    return p->version < 3 ? 0 : GATE_SLOTS;
}

static void leave(struct gate_page *p, struct gate_slot *s, uint32_t who)
{
    if (!atomic_compare_exchange_strong(&s->pid, &who, LEAVING))
        return;                        /* somebody else does it */
    p->wanting -= atomic_exchange(&s->wanting, 0);
    p->inside -= atomic_exchange(&s->inside, 0);
    p->stuck -= atomic_exchange(&s->stuck, 0);
    for (int k = 0; k < GATE_DEVICES; k++)
        p->used[k] -= atomic_exchange(&s->used[k], 0);
    s->pid = 0;
}

static void reap(struct gate_page *p)
{
    for (size_t k = 0; k < slots_of(p); k++) {
        uint32_t who = p->slots[k].pid;

        if (who && who != LEAVING && kill((pid_t) who, 0) != 0 &&
            errno == ESRCH)
            leave(p, &p->slots[k], who);
    }
}

static struct gate_slot *find(struct gate_page *p, uint32_t me)
{
    for (size_t k = 0; k < slots_of(p); k++) {
        uint32_t nobody = 0;

        if (p->slots[k].pid == 0 &&
            atomic_compare_exchange_strong(&p->slots[k].pid, &nobody, me))
            return &p->slots[k];
    }
    return NULL;
}

static struct gate_slot *take(struct gate_page *p)
{
    uint32_t me = (uint32_t) getpid();
    struct gate_slot *s;

    for (size_t k = 0; k < slots_of(p); k++) {
        if (p->slots[k].pid == me)
            leave(p, &p->slots[k], me);
    }
    s = find(p, me);
    if (!s) {
        reap(p);
        s = find(p, me);
    }
    return s;
}

struct gate_slot *slot_mine(void)
{
    struct gate_page *p = __atomic_load_n(&gate_page, __ATOMIC_ACQUIRE);
    struct gate_slot *s;
    int saved;

    if (__atomic_load_n(&looked_in, __ATOMIC_ACQUIRE) == p)
        return mine;
    saved = errno;
    gate_take(&lock);
    if (looked_in != p) {
        mine = take(p);
        __atomic_store_n(&looked_in, p, __ATOMIC_RELEASE);
    }
    s = mine;
    gate_drop(&lock);
    errno = saved;
    return s;
}

void slot_reap(void)
{
    int saved = errno;

    reap(gate_page);
    errno = saved;
}

void slot_forked(void)
{
    lock.held = 0;
    mine = NULL;
    looked_in = NULL;
}
