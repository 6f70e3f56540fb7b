#include "core/world_int.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

/* Where a rank fits, by best fit: the place that leaves the least behind.  A
 * fraction goes to the device with the smallest free share that still holds
 * it; whole devices to the block with the fewest free ones; work without
 * devices to blocks without devices.  Ties go to the smaller block id, so the
 * answer depends on nothing but the blocks.
 */
bool place_matches(const struct device *d, const struct spec_task *s)
{
    if (d->memory < s->gpu_memory)
        return false;
    for (uint32_t i = 0; i < s->nmodels; i++)
        if (strcasecmp(d->model, s->models[i]) == 0)
            return true;
    return s->nmodels == 0;
}

static bool whole(const struct spec_task *s)
{
    return s->gpu_milli >= 1000;
}

/* Devices of the block that could serve now; *ret_least: the smallest free
 * share among them, for fractions.
 */
static uint32_t devices_free(const struct block *b, const struct spec_task *s,
                             uint32_t *ret_least)
{
    uint32_t want = whole(s) ? 1000 : s->gpu_milli, n = 0;

    *ret_least = UINT32_MAX;
    for (uint32_t i = 0; i < b->ndevices; i++) {
        const struct device *d = &b->devices[i];

        if (d->free_milli < want || !place_matches(d, s))
            continue;
        if (d->free_milli < *ret_least)
            *ret_least = d->free_milli;
        n++;
    }
    return n;
}

static uint32_t devices_wanted(const struct spec_task *s)
{
    return whole(s) ? s->gpu_milli / 1000 : s->gpu_milli > 0;
}

/* Smaller is better; UINT64_MAX: it does not fit. */
static uint64_t score(const struct block *b, const struct spec_task *s)
{
    uint32_t want = devices_wanted(s), least, n;

    if (!block_open(b) || b->cpu_free < s->cpu_milli ||
        b->memory_free < s->memory || want > DEVICES_PER_RANK)
        return UINT64_MAX;
    if (want == 0) {
        uint64_t left = b->cpu_free < UINT32_MAX ? b->cpu_free : UINT32_MAX;

        return (b->ndevices ? UINT64_C(1) << 32 : 0) + left;
    }
    n = devices_free(b, s, &least);
    if (n < want)
        return UINT64_MAX;
    return whole(s) ? n : ((uint64_t) least << 32) + n;
}

static void choose_devices(const struct block *b, const struct spec_task *s,
                           struct grant *g)
{
    uint32_t want = devices_wanted(s), share, least;

    g->ndevices = 0;
    g->milli = want == 0 ? 0 : whole(s) ? 1000 : s->gpu_milli;
    (void) devices_free(b, s, &least);
    share = whole(s) ? 1000 : least;
    for (uint32_t i = 0; i < b->ndevices && g->ndevices < want; i++)
        if (b->devices[i].free_milli == share &&
            place_matches(&b->devices[i], s))
            g->device[g->ndevices++] = (uint16_t) i;
}

bool place_rank(struct block *const *blocks, uint32_t n,
                const struct spec_task *s, struct block **ret_block,
                struct grant *ret)
{
    uint64_t best = UINT64_MAX;
    struct block *b = NULL;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t this = score(blocks[i], s);

        if (this < best) {
            best = this;
            b = blocks[i];
        }
    }
    if (!b)
        return false;
    memset(ret, 0, sizeof(*ret));
    memcpy(ret->block, b->id, sizeof(ret->block));
    choose_devices(b, s, ret);
    *ret_block = b;
    return true;
}

void place_take(struct block *b, const struct spec_task *s,
                const struct grant *g)
{
    for (uint32_t i = 0; i < g->ndevices; i++)
        b->devices[g->device[i]].free_milli -= g->milli;
    b->cpu_free -= s->cpu_milli;
    b->memory_free -= s->memory;
}

void place_give(struct block *b, const struct spec_task *s,
                const struct grant *g)
{
    for (uint32_t i = 0; i < g->ndevices; i++)
        b->devices[g->device[i]].free_milli += g->milli;
    b->cpu_free += s->cpu_milli;
    b->memory_free += s->memory;
}

/* A grant from outside: of the size asked for, and within what is free. */
int place_check(const struct block *b, const struct spec_task *s,
                const struct grant *g, struct err *err)
{
    uint32_t milli = s->gpu_milli == 0 ? 0 : whole(s) ? 1000 : s->gpu_milli;

    if (g->ndevices != devices_wanted(s) || g->ndevices > DEVICES_PER_RANK ||
        (g->ndevices && g->milli != milli))
        return err_set(err, EINVAL, "rank %u: the grant is not of the size "
                       "that the task asks for", g->rank);
    for (uint32_t i = 0; i < g->ndevices; i++) {
        if (g->device[i] >= b->ndevices ||
            (i > 0 && g->device[i] <= g->device[i - 1]))
            return err_set(err, EINVAL, "rank %u: block '%s' has no such "
                           "devices", g->rank, b->id);
        if (b->devices[g->device[i]].free_milli < g->milli)
            return err_set(err, EBUSY, "rank %u: device %u of block '%s' has "
                           "no room", g->rank, g->device[i], b->id);
    }
    if (b->cpu_free < s->cpu_milli || b->memory_free < s->memory)
        return err_set(err, EBUSY, "rank %u: block '%s' has no CPUs or memory "
                       "left", g->rank, b->id);
    return 0;
}

static void give_all(const struct task *t, struct block **held,
                     const struct grant *grants, uint32_t n)
{
    while (n-- > 0)
        place_give(held[n], t->spec, &grants[n]);
}

static bool place_task(struct block *const *blocks, uint32_t n,
                       const struct task *t, struct block **held,
                       struct grant *grants)
{
    for (uint32_t rank = 0; rank < t->spec->ranks; rank++) {
        if (!place_rank(blocks, n, t->spec, &held[rank], &grants[rank])) {
            give_all(t, held, grants, rank);
            return false;
        }
        grants[rank].rank = rank;
        place_take(held[rank], t->spec, &grants[rank]);
    }
    return true;
}

/* Each is placed with those before it in place, so that together they fit;
 * then everything is given back, for nothing is promised yet.
 */
bool place_all(struct block *const *blocks, uint32_t n,
               struct task *const *tasks, uint32_t ntasks,
               struct grant **ret_grants)
{
    autofree struct block ***held = mem_array(ntasks, sizeof(*held));
    uint32_t done = 0;
    bool fits;

    for (; done < ntasks; done++) {
        uint32_t ranks = tasks[done]->spec->ranks;

        ret_grants[done] = mem_array(ranks, sizeof(**ret_grants));
        held[done] = mem_array(ranks, sizeof(**held));
        if (!place_task(blocks, n, tasks[done], held[done], ret_grants[done])) {
            free(held[done]);
            free(take(ret_grants[done]));
            break;
        }
    }
    fits = done == ntasks;
    while (done-- > 0) {
        give_all(tasks[done], held[done], ret_grants[done],
                 tasks[done]->spec->ranks);
        free(held[done]);
        if (!fits)
            free(take(ret_grants[done]));
    }
    return fits;
}
