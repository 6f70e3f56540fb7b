#include "core/world_int.h"

/* Ports at which the ranks of a gang meet, one for each attempt that is staged
 * or lives, so that two gangs of one machine never have the same.  It is looked
 * for from a place that the attempt has by its numbers, and so is another one
 * after each try: a port that a stranger has is not met again.
 */
enum { WORD = 64 };

static bool is_taken(const struct world *w, uint32_t k)
{
    return w->ports[k / WORD] >> k % WORD & 1;
}

static void flip(struct world *w, uint32_t k)
{
    w->ports[k / WORD] ^= UINT64_C(1) << k % WORD;
}

static uint64_t place_of(const struct task *t, uint32_t gen)
{
    return t->workload->id * 7919 + t->index * 31 + gen;
}

uint16_t task_port(const struct task *t, uint32_t gen)
{
    return t->port ? t->port
                   : (uint16_t) (PORT_FIRST + place_of(t, gen) % PORTS);
}

void port_take(struct world *w, struct task *t, uint32_t gen, uint32_t ranks)
{
    uint64_t mix = place_of(t, gen);

    if (ranks < 2)
        return;
    for (uint32_t n = 0; n < PORTS && t->port == 0; n++) {
        uint32_t k = (uint32_t) ((mix + n) % PORTS);

        if (is_taken(w, k))
            continue;
        flip(w, k);
        t->port = (uint16_t) (PORT_FIRST + k);
    }
}

void port_give(struct world *w, struct task *t)
{
    if (t->port > 0)
        flip(w, t->port - PORT_FIRST);
    t->port = 0;
}

bool port_load(struct world *w, struct task *t, uint64_t port)
{
    if (port == 0)
        return true;
    if (port < PORT_FIRST || port >= PORT_FIRST + PORTS ||
        is_taken(w, (uint32_t) port - PORT_FIRST))
        return false;
    flip(w, (uint32_t) port - PORT_FIRST);
    t->port = (uint16_t) port;
    return true;
}

bool port_right(const struct world *w, const struct task *t)
{
    uint32_t ranks = t->leases ? t->ranks : t->staged ? t->staged->ngrants : 0;

    if (t->port > 0 && !is_taken(w, t->port - PORT_FIRST))
        return false;
    return t->port == 0 || ranks > 1;
}
