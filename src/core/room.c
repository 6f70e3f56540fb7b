#include "core/world_int.h"

#include "base/mem.h"

/* What leases take from blocks and give back, with the sums that the meter
 * needs kept beside: idle is what open blocks have free, used is what leases
 * hold, wherever.
 */
bool block_open(const struct block *b)
{
    return b->up && !b->drained;
}

uint64_t block_free_milli(const struct block *b)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < b->ndevices; i++)
        sum += b->devices[i].free_milli;
    return sum;
}

void block_set_open(struct world *w, struct block *b, bool up, bool drained)
{
    if (block_open(b)) {
        w->idle_milli -= block_free_milli(b);
        w->cpu_idle -= b->cpu_free;
    }
    b->up = up;
    b->drained = drained;
    b->dirty = true;
    if (block_open(b)) {
        w->idle_milli += block_free_milli(b);
        w->cpu_idle += b->cpu_free;
    }
    plan_wake(w);
}

static void link_lease(struct block *b, struct lease *l)
{
    l->next_on_block = b->leases;
    l->prev_on_block = NULL;
    if (b->leases)
        b->leases->prev_on_block = l;
    b->leases = l;
}

static void unlink_lease(struct block *b, struct lease *l)
{
    if (l->next_on_block)
        l->next_on_block->prev_on_block = l->prev_on_block;
    if (l->prev_on_block)
        l->prev_on_block->next_on_block = l->next_on_block;
    else
        b->leases = l->next_on_block;
    l->next_on_block = l->prev_on_block = NULL;
}

void lease_open(struct world *w, struct task *t, uint32_t rank,
                struct block *b, const struct grant *g)
{
    struct lease *l = &t->leases[rank];
    uint32_t milli = t->spec->gpu_milli;

    l->task = t;
    l->block = b;
    l->rank = rank;
    l->grant = *g;
    place_take(b, t->spec, g);
    link_lease(b, l);
    t->leases_left++;
    t->workload->tenant->used_gpu_milli += milli;
    t->workload->tenant->dirty = true;
    w->used_milli += milli;
    w->cpu_used += t->spec->cpu_milli;
    if (block_open(b)) {
        w->idle_milli -= milli;
        w->cpu_idle -= t->spec->cpu_milli;
    }
    b->dirty = true;
    plan_took(w);
}

/* The lease itself stays, ended, until the whole attempt is over. */
void lease_close(struct world *w, struct lease *l)
{
    struct task *t = l->task;
    struct block *b = l->block;
    uint32_t milli = t->spec->gpu_milli;

    place_give(b, t->spec, &l->grant);
    unlink_lease(b, l);
    t->leases_left--;
    t->workload->tenant->used_gpu_milli -= milli;
    t->workload->tenant->dirty = true;
    w->used_milli -= milli;
    w->cpu_used -= t->spec->cpu_milli;
    if (block_open(b)) {
        w->idle_milli += milli;
        w->cpu_idle += t->spec->cpu_milli;
    }
    b->dirty = true;
    plan_wake(w);
}
