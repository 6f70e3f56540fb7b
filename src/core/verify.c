#include "core/world_int.h"

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* The invariants of world.h, worked out from the leases and tasks alone and
 * compared with what the world keeps beside.
 */
static int wrong(struct err *err, const char *what, const char *name,
                 uint64_t id)
{
    return err_set(err, EUCLEAN, "world: %s (%s, %" PRIu64 ")", what, name, id);
}

/* 1: what the leases on a block hold and what is free make the whole. */
static int verify_block(const struct block *b, struct err *err)
{
    autofree uint32_t *held = mem_array(b->ndevices + 1u, sizeof(*held));
    uint64_t cpus = 0, memory = 0, parked = 0;
    const struct lease *l;

    for (l = b->leases; l; l = l->next_on_block) {
        if (l->block != b || l->state == LEASE_ENDED)
            return wrong(err, "a lease that is not the block's", b->id,
                         l->rank);
        if (l->off) {
            parked += l->task->away->bytes;
            continue;
        }
        cpus += l->task->spec->cpu_milli;
        memory += l->task->spec->memory;
        for (uint32_t i = 0; i < l->grant.ndevices; i++) {
            if (l->grant.device[i] >= b->ndevices)
                return wrong(err, "a lease on no device", b->id, l->rank);
            held[l->grant.device[i]] += l->grant.milli;
        }
    }
    for (uint32_t i = 0; i < b->ndevices; i++)
        if (held[i] > 1000 || held[i] + b->devices[i].free_milli != 1000)
            return wrong(err, "1: a device is promised beyond what it has",
                         b->id, i);
    if (parked != b->parked)
        return wrong(err, "1: what is suspended is not counted right", b->id,
                     parked);
    if (cpus > b->cpu_milli || cpus + b->cpu_free != b->cpu_milli)
        return wrong(err, "1: CPUs are promised beyond what there is", b->id,
                     cpus);
    if (memory > b->memory || memory + b->memory_free != b->memory)
        return wrong(err, "1: memory is promised beyond what there is", b->id,
                     memory);
    return 0;
}

/* 2, 3, 4: leases of all ranks or none, as the state says, all of one
 * generation that is the newest.
 */
static int verify_leases(const struct task *t, struct err *err)
{
    uint32_t live = 0, planned = 0;
    bool lives = t->state == TASK_STARTING || t->state == TASK_RUNNING ||
                 t->state == TASK_SUSPENDED || t->state == TASK_ENDING;

    if (!t->leases)
        return t->leases_left == 0 ? 0
             : wrong(err, "2: leases are missing", t->spec->name,
                     t->workload->id);
    if (t->ranks < t->spec->ranks)
        return wrong(err, "2: a gang that is not whole", t->spec->name,
                     t->workload->id);
    if (!lives)
        return wrong(err, "3: it holds leases but has no attempt",
                     t->spec->name, t->workload->id);
    for (uint32_t i = 0; i < t->ranks; i++) {
        const struct lease *l = &t->leases[i];

        if (l->task != t || l->rank != i || l->gen != t->gen || l->gen == 0)
            return wrong(err, "4: a lease of another generation",
                         t->spec->name, l->gen);
        live += l->state != LEASE_ENDED;
        if (l->state != LEASE_ENDED && l->off != away_off(t))
            return wrong(err, "2: a gang that is suspended in part",
                         t->spec->name, t->workload->id);
        planned += l->state == LEASE_PLANNED;
    }
    if (live != t->leases_left || live == 0 || planned != t->unclaimed)
        return wrong(err, "5: ends are not counted right", t->spec->name,
                     t->workload->id);
    return 0;
}

/* The plan knows it as it is: in line, on its places or not at all. */
static int verify_item(const struct task *t, struct err *err)
{
    const struct plan_place *places;
    uint32_t n = 0;

    if (t->item && plan_owner(t->item) != t)
        return wrong(err, "an item of another task", t->spec->name,
                     t->workload->id);
    if (t->leases_left > 0 && t->item)
        n = plan_places(t->item, &places);
    if (away_off(t) && t->state != TASK_SUSPENDED &&
        plan_state(t->item) != ITEM_HELD)
        return wrong(err, "the plan would bring back what is stopped",
                     t->spec->name, t->workload->id);
    if (n != t->leases_left)
        return wrong(err, "the plan has other places", t->spec->name, n);
    if (t->leases_left == 0 &&
        (t->item != NULL) != (t->in_line && !t->spec->together))
        return wrong(err, "the plan has it in line and the world not, or the "
                     "other way", t->spec->name, t->workload->id);
    if (!stage_right(t))
        return wrong(err, "it is staged elsewhere than the plan has it",
                     t->spec->name, t->workload->id);
    return verify_leases(t, err);
}

static int verify_task(const struct task *t, struct err *err)
{
    const struct workload *wl = t->workload;
    uint32_t left = 0;

    for (uint32_t i = 0; i < t->spec->nneeds; i++)
        left += wl->tasks[t->spec->needs[i]].state != TASK_ENDED;
    if (left != t->needs_left)
        return wrong(err, "needs are not counted right", t->spec->name, wl->id);
    if (t->state != TASK_BLOCKED && t->state != TASK_ENDED && left > 0)
        return wrong(err, "it goes on before its needs ended", t->spec->name,
                     wl->id);
    if ((t->state == TASK_ENDED) != (t->outcome != OUTCOME_NONE))
        return wrong(err, "5: an end without an outcome, or the other way",
                     t->spec->name, wl->id);
    if (task_wants(t) != t->in_line)
        return wrong(err, "6: it should be in line and is not, or the other "
                     "way", t->spec->name, wl->id);
    return verify_item(t, err);
}

static uint64_t claimed_milli(const struct task *t)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; t->leases && i < t->ranks; i++)
        if (t->leases[i].claimed_ms && t->leases[i].state != LEASE_ENDED &&
            !t->leases[i].off)
            sum += t->spec->gpu_milli;
    return sum;
}

static int verify_workload(const struct workload *wl, struct err *err)
{
    uint32_t count[TASK_STATE_COUNT] = { 0 };
    uint64_t claimed = 0;
    int rc = 0;

    for (uint32_t i = 0; i < wl->spec->ntasks && rc == 0; i++) {
        count[wl->tasks[i].state]++;
        claimed += claimed_milli(&wl->tasks[i]);
        rc = verify_task(&wl->tasks[i], err);
    }
    if (rc == 0 && memcmp(count, wl->count, sizeof(count)) != 0)
        rc = wrong(err, "states are not counted right", wl->spec->name, wl->id);
    if (rc == 0 && claimed != wl->claims.milli)
        rc = wrong(err, "what is claimed is not counted right", wl->spec->name,
                   wl->id);
    return rc;
}

static uint64_t held_by(const struct world *w, const struct tenant *t)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < w->nblocks; i++)
        for (const struct lease *l = w->blocks[i]->leases; l;
             l = l->next_on_block)
            if (l->task->workload->tenant == t && !l->off)
                sum += l->task->spec->gpu_milli;
    return sum;
}

/* Of the tenant and all below it. */
static uint64_t held_below(const struct world *w, const struct tenant *t)
{
    uint64_t sum = held_by(w, t);
    const struct tenant *other;
    size_t pos = 0;

    while ((other = map_next(w->tenants, &pos, NULL)))
        if (other->parent == t)
            sum += held_below(w, other);
    return sum;
}

static int verify_tenant(const struct world *w, const struct tenant *t,
                         struct err *err)
{
    if (t->used_gpu_milli != held_by(w, t) ||
        t->sum_milli != held_below(w, t))
        return wrong(err, "a tenant's devices are not counted right", t->name,
                     t->used_gpu_milli);
    if (t->removed != (t->plan_tenant == NULL))
        return wrong(err, "the plan has a tenant and the world not, or the "
                     "other way", t->name, t->live);
    return 0;
}

/* Each of those that have a port has one of its own. */
static int verify_ports(const struct world *w, struct err *err)
{
    const struct workload *wl;
    uint32_t taken = 0;
    size_t pos = 0;

    for (uint32_t i = 0; i < array_size(w->ports); i++)
        taken += (uint32_t) __builtin_popcountll(w->ports[i]);
    while ((wl = map_next(w->workloads, &pos, NULL)))
        for (uint32_t i = 0; i < wl->spec->ntasks; i++) {
            const struct task *t = &wl->tasks[i];

            if (!port_right(w, t))
                return wrong(err, "a port that is not its own", t->spec->name,
                             t->port);
            taken -= t->port > 0;
        }
    return taken == 0 ? 0 : wrong(err, "ports are not counted right", "world",
                                  taken);
}

int world_verify(const struct world *w, struct err *err)
{
    const struct workload *wl;
    const struct tenant *t;
    uint32_t in_line = 0;
    size_t pos = 0;
    int rc = 0;

    for (uint32_t i = 0; i < w->nblocks && rc == 0; i++)
        rc = w->blocks[i]->barred != pool_bars(w, w->blocks[i]->pool)
           ? wrong(err, "a block that is not as its pool says",
                   w->blocks[i]->id, w->blocks[i]->barred)
           : verify_block(w->blocks[i], err);
    while (rc == 0 && (wl = map_next(w->workloads, &pos, NULL))) {
        rc = verify_workload(wl, err);
        for (uint32_t i = 0; i < wl->spec->ntasks; i++)
            in_line += wl->tasks[i].in_line;
    }
    pos = 0;
    while (rc == 0 && (t = map_next(w->tenants, &pos, NULL)))
        rc = verify_tenant(w, t, err);
    if (rc == 0 && in_line != w->waiting)
        rc = wrong(err, "those in line are not counted right", "world",
                   in_line);
    if (rc == 0)
        rc = verify_ports(w, err);
    return rc < 0 ? rc : plan_check(w->plan, err);
}
