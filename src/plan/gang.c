#include "plan/pool.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

/* Several ranks: whole or not at all, on few nodes, near each other.
 *
 * Scopes are tried from near to far: one node, the nodes of one domain, all;
 * within one pool where that is a must.  A scope is filled for real, rank by
 * rank, and taken back: so that what the first ranks take is seen by the next
 * ones, by the scores and by what is promised.  In a scope a part goes to the
 * node that takes most of its ranks, or, when one takes all that are left, to
 * the one with least to spare.
 */
enum { SINGLES = 8 };                  /* nodes tried for all ranks at once */

struct stand {
    struct plan_node *node;
    uint32_t ranks;                    /* of the part that most ask for */
};

struct gang {
    struct search *s;
    struct stand *stands;
    uint32_t nstands, cap;
    struct plan_place *places;
    uint32_t nplaces, places_cap;
    double score;
};

/* A limit of where ranks may go; UINT32_MAX: none. */
struct scope {
    uint32_t pool, domain;
    const struct plan_node *node;
};

/* ---- nodes that take some rank ---- */

static void add_stand(struct gang *g, struct plan_node *n)
{
    const struct search *s = g->s;
    uint64_t parked = item_parked(s->item, n);
    uint32_t most = 0;

    for (uint32_t k = 0; k < s->shape->nparts; k++) {
        uint32_t ranks = place_ranks(s->p, n, &s->shape->parts[k],
                                     parked, s->o->ignore_closed);

        if (ranks > most)
            most = ranks;
    }
    if (most == 0)
        return;
    if (g->nstands == g->cap) {
        g->cap = g->cap ? 2 * g->cap : 64;
        g->stands = mem_grow(g->stands, g->cap, sizeof(*g->stands));
    }
    g->stands[g->nstands++] = (struct stand) { .node = n, .ranks = most };
}

/* The fewest free devices on a node that help any part. */
static uint32_t least_devices(const struct shape *s)
{
    uint32_t least = POOL_WHOLE - 1;

    for (uint32_t k = 0; k < s->nparts; k++) {
        const struct part *q = &s->parts[k];
        uint32_t whole = q->milli < 1000 ? 0 : q->devices;

        if (whole < least)
            least = whole;
    }
    return least;
}

static void collect_family(struct gang *g, struct family *f)
{
    uint32_t from = least_devices(g->s->shape);

    pool_ready(f);
    if (g->s->o->ignore_closed)
        from = 0;
    for (uint32_t k = 0; from == 0 && k < f->nnodes; k++)
        add_stand(g, f->nodes[k]);
    for (uint32_t w = from; from > 0 && w < POOL_WHOLE; w++) {
        for (unsigned c = 0; c < POOL_CPU; c++) {
            const struct bits *b = &f->whole[w][c];
            uint32_t k = bits_next(b, 0, f->nnodes);

            for (; k != UINT32_MAX; k = bits_next(b, k + 1, f->nnodes))
                add_stand(g, f->nodes[k]);
        }
    }
}

static bool family_helps(const struct family *f, const struct shape *s)
{
    for (uint32_t k = 0; k < s->nparts; k++)
        if (place_family(f, &s->parts[k]))
            return true;
    return false;
}

/* Who takes fewer ranks first, then by name. */
static int by_ranks(const void *va, const void *vb)
{
    const struct stand *a = va, *b = vb;

    if (a->ranks != b->ranks)
        return a->ranks < b->ranks ? -1 : 1;
    return strcmp(a->node->name, b->node->name);
}

static void collect(struct gang *g)
{
    const struct search *s = g->s;
    struct pool *o = s->p->pool;

    if (s->o->only)
        add_stand(g, s->p->nodes[s->o->only->index]);
    for (uint32_t k = 0; !s->o->only && k < o->nfamilies; k++)
        if (o->families[k]->nnodes && family_helps(o->families[k], s->shape))
            collect_family(g, o->families[k]);
    if (g->nstands)
        qsort(g->stands, g->nstands, sizeof(*g->stands), by_ranks);
}

/* ---- fill a scope ---- */

static bool within(const struct scope *c, const struct plan_node *n)
{
    return (!c->node || c->node == n) &&
           (c->pool == UINT32_MAX || c->pool == n->pool_number) &&
           (c->domain == UINT32_MAX || c->domain == n->domain_number);
}

/* Ranks of a part to a node, until `want` or until no more fit. */
static uint32_t fill_node(struct gang *g, struct plan_node *n, uint32_t part,
                          uint32_t want)
{
    struct search *s = g->s;
    uint32_t done = 0;
    double score;

    s->part = &s->shape->parts[part];
    while (done < want) {
        if (g->nplaces == g->places_cap) {
            g->places_cap = g->places_cap ? 2 * g->places_cap : 16;
            g->places = mem_grow(g->places, g->places_cap,
                                 sizeof(*g->places));
        }
        if (!place_try(s, n, &g->places[g->nplaces], &score))
            break;
        pool_take(s->p, s->shape, &g->places[g->nplaces++]);
        g->score += score;
        done++;
    }
    return done;
}

/* How many ranks of the part each node of the scope takes now, sorted. */
static uint32_t stands_for(const struct gang *g, const struct scope *c,
                           uint32_t part, struct stand *ret)
{
    const struct search *s = g->s;
    uint32_t n = 0;

    for (uint32_t k = 0; k < g->nstands; k++) {
        struct plan_node *node = g->stands[k].node;
        uint32_t ranks;

        if (!within(c, node))
            continue;
        ranks = place_ranks(s->p, node, &s->shape->parts[part],
                            item_parked(s->item, node), s->o->ignore_closed);
        if (ranks)
            ret[n++] = (struct stand) { .node = node, .ranks = ranks };
    }
    if (n)
        qsort(ret, n, sizeof *ret, by_ranks);
    return n;
}

/* The first of the sorted that takes that many, or n. */
static uint32_t first_with(const struct stand *list, uint32_t n,
                           uint32_t ranks)
{
    uint32_t low = 0, high = n;

    while (low < high) {
        uint32_t mid = (low + high) / 2;

        if (list[mid].ranks >= ranks)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* The one with least to spare for all that are left, or the largest one. */
static uint32_t pick(const struct stand *list, uint32_t n, uint32_t left)
{
    uint32_t most = list[n - 1].ranks;

    return first_with(list, n, left < most ? left : most);
}

static uint32_t fill_part(struct gang *g, const struct scope *c,
                          uint32_t part, uint32_t want)
{
    autofree struct stand *list = mem_array(g->nstands + 1, sizeof *list);
    uint32_t n = stands_for(g, c, part, list), done = 0;

    while (n > 0 && done < want) {
        uint32_t at = pick(list, n, want - done);

        done += fill_node(g, list[at].node, part, want - done);
        n--;
        memmove(&list[at], &list[at + 1], (n - at) * sizeof *list);
    }
    return done;
}

static void empty(struct gang *g)
{
    while (g->nplaces > 0)
        pool_undo(g->s->p, g->s->shape, &g->places[--g->nplaces]);
    g->score = 0;
}

/* How many more ranks of the part the tenant and those above may hold. */
static uint32_t allowed(const struct gang *g, const struct part *q)
{
    uint32_t more = q->max - q->count;
    uint64_t held = 0;

    for (uint32_t k = 0; k < g->nplaces; k++)
        held += g->s->shape->parts[g->places[k].part].need.gpu_milli;
    while (more > 0 && q->devices > 0 &&
           tenant_barred(g->s->item->tenant,
                         held + (uint64_t) more * q->need.gpu_milli))
        more--;
    return more;
}

/* All parts at their least number, then more of the elastic ones. */
static bool fill(struct gang *g, const struct scope *c)
{
    const struct shape *s = g->s->shape;

    for (uint32_t k = 0; k < s->nparts; k++) {
        uint32_t part = s->by_size[k], count = s->parts[part].count;

        if (fill_part(g, c, part, count) == count)
            continue;
        empty(g);
        return false;
    }
    for (uint32_t k = 0; k < s->nparts; k++)
        if (s->parts[k].max > s->parts[k].count)
            (void) fill_part(g, c, k, allowed(g, &s->parts[k]));
    return true;
}

/* ---- scopes ---- */

/* All ranks on one node: those with least to spare first. */
static bool fill_single(struct gang *g, struct scope c)
{
    uint32_t ranks = g->s->shape->nparts == 1 ? g->s->shape->ranks : 1;
    uint32_t at = first_with(g->stands, g->nstands, ranks), tried = 0;

    for (; at < g->nstands && tried < SINGLES; at++) {
        c.node = g->stands[at].node;
        if (c.pool != UINT32_MAX && c.pool != c.node->pool_number)
            continue;
        tried++;
        if (fill(g, &c))
            return true;
    }
    return false;
}

/* Ranks that the nodes of each domain take, as far as the pool is right. */
static uint64_t *domain_sums(const struct gang *g, uint32_t pool)
{
    uint64_t *sums = mem_array(g->s->p->pool->ndomains + 1, sizeof *sums);

    for (uint32_t k = 0; k < g->nstands; k++) {
        const struct plan_node *n = g->stands[k].node;

        if (n->domain[0] &&
            (pool == UINT32_MAX || pool == n->pool_number))
            sums[n->domain_number] += g->stands[k].ranks;
    }
    return sums;
}

/* One domain: the one with least to spare first, then by name. */
static bool fill_domain(struct gang *g, struct scope c)
{
    const struct pool *o = g->s->p->pool;
    autofree uint64_t *sums = domain_sums(g, c.pool);

    for (;;) {
        uint32_t best = UINT32_MAX;

        for (uint32_t d = 0; d < o->ndomains; d++) {
            if (sums[d] < g->s->shape->ranks)
                continue;
            if (best == UINT32_MAX || sums[d] < sums[best] ||
                (sums[d] == sums[best] &&
                 strcmp(o->domains[d], o->domains[best]) < 0))
                best = d;
        }
        if (best == UINT32_MAX)
            return false;
        c.domain = best;
        if (fill(g, &c))
            return true;
        sums[best] = 0;
    }
}

static bool fill_near(struct gang *g, uint32_t pool)
{
    struct scope c = { .pool = pool, .domain = UINT32_MAX };

    return fill_single(g, c) || fill_domain(g, c) || fill(g, &c);
}

/* The pool with the smallest name that takes all. */
static bool fill_pool(struct gang *g)
{
    const struct pool *o = g->s->p->pool;
    autofree bool *tried = mem_array(o->npools + 1, sizeof *tried);

    for (uint32_t n = 0; n < o->npools; n++) {
        uint32_t first = UINT32_MAX;

        for (uint32_t k = 0; k < o->npools; k++)
            if (!tried[k] && (first == UINT32_MAX ||
                              strcmp(o->pools[k], o->pools[first]) < 0))
                first = k;
        tried[first] = true;
        if (fill_near(g, first))
            return true;
    }
    return false;
}

/* Do the nodes, each by itself, take as many ranks? */
static bool enough(const struct gang *g)
{
    uint64_t ranks = 0;

    if (g->s->shape->nparts > 1)
        return true;
    for (uint32_t k = 0; k < g->nstands; k++)
        ranks += g->stands[k].ranks;
    return ranks >= g->s->shape->ranks;
}

bool gang_find(struct search *s, struct plan_place **ret, uint32_t *ret_n,
               double *ret_score)
{
    struct gang g = { .s = s };
    bool found = false;

    if (!s->o->ignore_closed && !s->o->only && !gang_may_fit(s->p, s->shape))
        return false;
    collect(&g);
    if (enough(&g))
        found = s->shape->one_pool ? fill_pool(&g)
                                   : fill_near(&g, UINT32_MAX);
    free(g.stands);
    if (found) {
        *ret_n = g.nplaces;
        *ret_score = g.score;
        for (uint32_t k = g.nplaces; k-- > 0;)
            pool_undo(s->p, s->shape, &g.places[k]);
        *ret = g.places;
    } else
        free(g.places);
    return found;
}

/* ---- quick: are there devices enough? ---- */

static uint64_t family_ranks(const struct family *f, const struct part *q)
{
    unsigned cpus = pool_cpu_class(q->need.cpu_milli);
    uint64_t ranks = 0;

    for (uint32_t w = q->devices; w < POOL_WHOLE && w <= f->ndevices; w++) {
        uint64_t count = 0;

        for (unsigned c = cpus; c < POOL_CPU; c++)
            count += f->whole[w][c].count;
        /* The last bucket holds nodes with that many and more. */
        if (w == POOL_WHOLE - 1 && count > 0)
            return UINT32_MAX;
        ranks += count * (w / q->devices);
    }
    return ranks;
}

bool gang_may_fit(const struct plan *p, const struct shape *s)
{
    for (uint32_t k = 0; k < s->nparts; k++) {
        const struct part *q = &s->parts[k];
        uint64_t ranks = 0;

        if (q->devices == 0 || q->milli < 1000)
            continue;
        for (uint32_t n = 0; n < p->pool->nfamilies; n++) {
            struct family *f = p->pool->families[n];

            if (!place_family(f, q))
                continue;
            pool_ready(f);
            ranks += family_ranks(f, q);
        }
        if (ranks < q->count)
            return false;
    }
    return true;
}
