#include "plan/pool.h"

#include "base/mem.h"

/* Could it ever start on what there is, all open and empty?  Asked of each
 * kind of node and not of each node.  "Never" is certain; whether the parts of a
 * set fit beside each other is not looked into, but that all there is would do
 * for them is.
 */

/* How far a rank gets on an empty node of the kind. */
static enum plan_reason_code part_never(const struct plan *p,
                                        const struct plan_node *like,
                                        const struct part *q)
{
    uint32_t model = 0, memory = 0;

    if (!need_matches_node(like, q))
        return REASON_NEVER_LABEL;
    for (uint32_t d = 0; d < like->ndevices; d++) {
        struct device any = like->devices[d];

        any.memory = UINT64_MAX;
        model += need_matches_device(p, &any, q);
        memory += need_matches_device(p, &like->devices[d], q);
    }
    if (q->devices > 0 && model == 0)
        return q->need.nmodels ? REASON_NEVER_MODEL : REASON_NEVER_DEVICES;
    if (q->devices > 0 && memory == 0)
        return REASON_NEVER_GPU_MEMORY;
    if (memory < q->devices || q->devices > PLAN_DEVICES)
        return REASON_NEVER_DEVICES;
    if (like->cpu_milli < q->need.cpu_milli)
        return REASON_NEVER_CPUS;
    if (like->memory < q->need.memory)
        return REASON_NEVER_MEMORY;
    return REASON_NONE;
}

/* The further it got, the nearer the reason is to the truth. */
static unsigned depth(enum plan_reason_code c)
{
    static const uint8_t depths[REASON_COUNT] = {
        [REASON_NEVER_LABEL] = 1, [REASON_NEVER_MODEL] = 2,
        [REASON_NEVER_GPU_MEMORY] = 3, [REASON_NEVER_DEVICES] = 4,
        [REASON_NEVER_CPUS] = 5, [REASON_NEVER_MEMORY] = 6,
        [REASON_NONE] = 7,
    };

    return depths[c];
}

/* Ranks that all nodes of a pool take; *ret: the best that one was told. */
static uint64_t pool_ranks(const struct plan *p, const struct part *q,
                           uint32_t pool, enum plan_reason_code *ret)
{
    uint64_t ranks = 0;

    for (uint32_t k = 0; k < p->pool->nkinds; k++) {
        const struct node_kind *kind = p->pool->kinds[k];
        enum plan_reason_code c;

        if (pool != UINT32_MAX && kind->like.pool_number != pool)
            continue;
        c = part_never(p, &kind->like, q);
        if (depth(c) > depth(*ret))
            *ret = c;
        if (c == REASON_NONE)
            ranks += (uint64_t) kind->count *
                     place_ranks(p, &kind->like, q, 0, true);
    }
    return ranks;
}

/* Have the nodes of the pool, or (UINT32_MAX) all, devices and CPUs for all? */
static bool has_all(const struct plan *p, const struct shape *s, uint32_t pool)
{
    double gpus = 0, cpus = 0;

    for (uint32_t k = 0; k < p->pool->nkinds; k++) {
        const struct node_kind *kind = p->pool->kinds[k];

        if (pool != UINT32_MAX && kind->like.pool_number != pool)
            continue;
        gpus += 1000.0 * kind->count * kind->like.ndevices;
        cpus += (double) kind->count * (double) kind->like.cpu_milli;
    }
    return gpus >= (double) s->gpu_milli && cpus >= (double) s->cpu_milli;
}

static enum plan_reason_code pool_never(const struct plan *p,
                                         const struct shape *s, uint32_t pool)
{
    for (uint32_t k = 0; k < s->nparts; k++) {
        enum plan_reason_code c = REASON_NO_NODE;
        uint64_t ranks;

        if (s->parts[k].count == 0)
            continue;
        ranks = pool_ranks(p, &s->parts[k], pool, &c);
        if (c != REASON_NONE)
            return c;
        if (ranks < s->parts[k].count)
            return REASON_NEVER_GANG;
    }
    return s->nparts > 1 && !has_all(p, s, pool) ? REASON_NEVER_GANG
                                                 : REASON_NONE;
}

enum plan_reason_code never_shape(const struct plan *p, const struct shape *s)
{
    enum plan_reason_code c = pool_never(p, s, UINT32_MAX);
    bool one = false;

    if (c != REASON_NONE || !s->one_pool)
        return c;
    for (uint32_t k = 0; k < p->pool->npools && !one; k++)
        one = pool_never(p, s, k) == REASON_NONE;
    return one ? REASON_NONE : REASON_NEVER_GANG;
}

enum plan_reason_code plan_never(const struct plan *p,
                                 const struct plan_item *i)
{
    enum plan_reason_code c = never_shape(p, i->shape);

    for (const struct plan_tenant *t = i->tenant; t; t = t->parent)
        if (c == REASON_NONE && t->max_milli < i->shape->gpu_milli)
            return REASON_NEVER_QUOTA;
    return c;
}
