#include "core/world_int.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <strings.h>

/* What leases take from blocks and give back. */
bool block_open(const struct block *b)
{
    return b->up && !b->drained && !b->shut && !b->barred;
}

void block_set_open(struct world *w, struct block *b, bool up, bool drained)
{
    b->up = up;
    b->drained = drained;
    b->dirty = true;
    bridge_open(w, b);
}

bool device_open(const struct device *d)
{
    return !d->drained && !d->lost && d->remedy < REMEDY_CORDON;
}

bool grant_open(const struct block *b, const struct grant *g)
{
    for (uint32_t i = 0; i < g->ndevices && i < array_size(g->device); i++)
        if (g->device[i] < b->ndevices &&
            !device_open(&b->devices[g->device[i]]))
            return false;
    return block_open(b);
}

bool device_matches(const struct device *d, const struct spec_task *s)
{
    if (d->memory < s->gpu_memory)
        return false;
    for (uint32_t i = 0; i < s->nmodels; i++)
        if (strcasecmp(d->model, s->models[i]) == 0)
            return true;
    return s->nmodels == 0;
}

void room_take(struct block *b, const struct spec_task *s,
               const struct grant *g)
{
    for (uint32_t i = 0; i < g->ndevices; i++)
        b->devices[g->device[i]].free_milli -= g->milli;
    b->cpu_free -= s->cpu_milli;
    b->memory_free -= s->memory;
}

void room_give(struct block *b, const struct spec_task *s,
               const struct grant *g)
{
    for (uint32_t i = 0; i < g->ndevices; i++)
        b->devices[g->device[i]].free_milli += g->milli;
    b->cpu_free += s->cpu_milli;
    b->memory_free += s->memory;
}

uint64_t block_memory_left(const struct block *b)
{
    return b->memory_free > b->parked ? b->memory_free - b->parked : 0;
}

static uint32_t devices_wanted(const struct spec_task *s)
{
    return s->gpu_milli >= 1000 ? s->gpu_milli / 1000 : s->gpu_milli > 0;
}

static int check_device(const struct block *b, const struct spec_task *s,
                        const struct grant *g, uint32_t i, struct err *err)
{
    const struct device *d;

    if (g->device[i] >= b->ndevices ||
        (i > 0 && g->device[i] <= g->device[i - 1]))
        return err_set(err, EINVAL, "rank %u: block '%s' has no such devices",
                       g->rank, b->id);
    d = &b->devices[g->device[i]];
    if (!device_matches(d, s))
        return err_set(err, EINVAL, "rank %u: device %u of block '%s' is not "
                       "what the task asks for", g->rank, g->device[i], b->id);
    return 0;
}

int room_size(const struct block *b, const struct spec_task *s,
               const struct grant *g, struct err *err)
{
    uint32_t milli = s->gpu_milli < 1000 ? s->gpu_milli : 1000;
    int rc = 0;

    if (g->ndevices != devices_wanted(s) || g->ndevices > DEVICES_PER_RANK ||
        (g->ndevices && g->milli != milli))
        return err_set(err, EINVAL, "rank %u: the grant is not of the size "
                       "that the task asks for", g->rank);
    for (uint32_t i = 0; i < g->ndevices && rc == 0; i++)
        rc = check_device(b, s, g, i, err);
    return rc;
}

int room_back(const struct block *b, const struct spec_task *s,
              const struct grant *g, struct err *err)
{
    int rc = room_size(b, s, g, err);

    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < g->ndevices; i++)
        if (b->devices[g->device[i]].free_milli < g->milli)
            return err_set(err, EBUSY, "rank %u: device %u of block '%s' has "
                           "no room", g->rank, g->device[i], b->id);
    if (b->cpu_free < s->cpu_milli)
        return err_set(err, EBUSY, "rank %u: block '%s' has no CPUs left",
                       g->rank, b->id);
    return 0;
}

int room_check(const struct block *b, const struct spec_task *s,
               const struct grant *g, struct err *err)
{
    int rc = room_back(b, s, g, err);

    if (rc == 0 && block_memory_left(b) < s->memory)
        return err_set(err, EBUSY, "rank %u: block '%s' has no memory left",
                       g->rank, b->id);
    return rc;
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

void lease_take(struct world *w, struct lease *l)
{
    const struct spec_task *s = l->task->spec;
    struct tenant *tn = l->task->workload->tenant;

    l->off = false;
    room_take(l->block, s, &l->grant);
    tn->used_gpu_milli += s->gpu_milli;
    tenant_hold(w, tn, s->gpu_milli, (int64_t) l->price_micro);
    l->block->dirty = true;
}

void lease_give(struct world *w, struct lease *l)
{
    const struct spec_task *s = l->task->spec;
    struct tenant *tn = l->task->workload->tenant;

    l->off = true;
    room_give(l->block, s, &l->grant);
    tn->used_gpu_milli -= s->gpu_milli;
    tenant_hold(w, tn, -(int64_t) s->gpu_milli, -(int64_t) l->price_micro);
    l->block->dirty = true;
}

void lease_open(struct world *w, struct task *t, uint32_t rank,
                struct block *b, const struct grant *g)
{
    struct lease *l = &t->leases[rank];

    l->task = t;
    l->block = b;
    l->rank = rank;
    l->grant = *g;
    link_lease(b, l);
    t->leases_left++;
    if (!l->off)
        lease_take(w, l);
}

/* The lease itself stays, ended, until the whole attempt is over. */
void lease_close(struct world *w, struct lease *l)
{
    if (l->off) {
        l->block->parked -= l->task->away->bytes;
        l->block->dirty = true;
    } else {
        lease_give(w, l);
    }
    unlink_lease(l->block, l);
    l->task->leases_left--;
}
