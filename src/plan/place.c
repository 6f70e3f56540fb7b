#include "plan/pool.h"

#include "base/mem.h"

#include <string.h>

/* Where an item fits now, and the best of these places.
 *
 * Whether a rank fits is exact.  Which of the nodes where it fits are compared
 * is bounded: from the tightest buckets first, a few of each, COMPARED in all;
 * in a small pool every one.  A shape that fitted nowhere asks next time only
 * the nodes where room was made since, and is compared only there as long as
 * that comes to the same.
 */
enum {
    SMALL = 256,                       /* nodes: all are compared */
    COMPARED = 24,                     /* of a family */
    OF_BUCKET = 6,
    RECENT = 64,                       /* times that room was made */
};

static const struct place_opts NO_OPTS;

/* ---- does it fit? ---- */

bool place_family(const struct family *f, const struct part *q)
{
    if (q->devices == 0)
        return true;
    return f->ndevices >= q->devices && q->devices <= PLAN_DEVICES &&
           f->memory >= q->need.gpu_memory &&
           (q->need.nmodels == 0 || (f->models & q->models));
}

/* Devices of the node that would do for a rank, at most `enough`. */
static uint32_t devices_for(const struct plan *p, const struct plan_node *n,
                            const struct part *q, uint32_t enough)
{
    uint32_t count = 0;

    for (uint32_t k = 0; k < n->ndevices && count < enough; k++) {
        const struct device *d = &n->devices[k];

        count += d->open && d->free_milli >= q->milli &&
                 need_matches_device(p, d, q);
    }
    return count;
}

bool place_fits(const struct plan *p, const struct plan_node *n,
                const struct part *q, uint64_t more, bool closed)
{
    if ((!n->open && !closed) || n->cpu_free < q->need.cpu_milli ||
        (q->need.memory > more &&
         n->memory_held + n->parked + q->need.memory > n->memory + more) ||
        n->free_most < q->milli ||
        !need_matches_node(n, q))
        return false;
    if (q->devices == 0)
        return closed || !score_keeps(p, n, q, n->cpu_alone +
                                               q->need.cpu_milli);
    if (!place_family(n->family, q))
        return false;
    if (n->family->uniform)
        return q->milli < 1000 || n->free_whole >= q->devices;
    return devices_for(p, n, q, q->devices) >= q->devices;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* As many as the CPUs of which none is kept for devices do for. */
static uint32_t unkept(const struct plan *p, const struct plan_node *n,
                       const struct part *q, uint32_t ranks)
{
    uint32_t low = 0;

    while (low < ranks) {
        uint32_t mid = ranks - (ranks - low) / 2;

        if (score_keeps(p, n, q, n->cpu_alone + mid * q->need.cpu_milli))
            ranks = mid - 1;
        else
            low = mid;
    }
    return low;
}

uint32_t place_ranks(const struct plan *p, const struct plan_node *n,
                     const struct part *q, uint64_t more, bool closed)
{
    uint64_t ranks = UINT32_MAX, devices = 0;
    uint64_t used = n->memory_held + n->parked;

    if (!place_fits(p, n, q, more, closed) || used > n->memory + more)
        return 0;
    if (q->need.cpu_milli)
        ranks = smaller(ranks, n->cpu_free / q->need.cpu_milli);
    if (q->need.memory)
        ranks = smaller(ranks, (n->memory + more - used) / q->need.memory);
    if (q->devices == 0)
        return closed ? (uint32_t) ranks : unkept(p, n, q, (uint32_t) ranks);
    for (uint32_t k = 0; k < n->ndevices; k++)
        if (n->devices[k].open && need_matches_device(p, &n->devices[k], q))
            devices += n->devices[k].free_milli / q->milli;
    return (uint32_t) smaller(ranks, devices / q->devices);
}

/* A suspended item goes on where its state is, or at another node of its
 * pool to which state can be moved.
 */
static bool may_go(const struct plan_item *i, const struct plan_node *n)
{
    if (!i || i->state != ITEM_SUSPENDED || i->nplaces == 0)
        return true;
    for (uint32_t k = 0; k < i->nplaces; k++)
        if (i->places[k].node == n)
            return true;
    return n->roams && i->places[0].node->roams &&
           n->pool_number == i->places[0].node->pool_number;
}

/* Devices of the node that are not promised to others. */
static bool try_beside(struct search *s, struct plan_node *n,
                       struct plan_place *ret, double *ret_score)
{
    autofree uint16_t *kept = mem_array(n->ndevices + 1u, sizeof(*kept));

    if (s->part->devices == 0 || !promise_keeps(s->p, s->item, n, kept))
        return false;
    *ret_score = score_place(s->p, n, s->part, kept, ret);
    return ret->ndevices == s->part->devices &&
           promise_allows(s->p, s->item, n, s->part, ret);
}

/* Do all its ranks on the node together take no more than they left there? */
static bool takes_what_it_left(const struct plan_item *i,
                               const struct plan_node *n, uint64_t parked)
{
    uint64_t sum = 0;

    for (uint32_t k = 0; k < i->nplaces && sum <= parked; k++)
        if (i->places[k].node == n)
            sum += i->shape->parts[i->places[k].part].need.memory;
    return sum <= parked;
}

/* Room for the rank that it may have, but for what is promised. */
static bool has_room(const struct search *s, const struct plan_node *n)
{
    uint64_t parked = s->item->state == ITEM_SUSPENDED ?
                      item_parked(s->item, n) : 0;

    if (!place_fits(s->p, n, s->part, parked, s->o->ignore_closed) ||
        !may_go(s->item, n))
        return false;
    /* Several ranks have what was parked together, and not each; but a set that
     * left at least what it takes has it, whoever holds the rest.
     */
    return s->shape->simple ||
           (place_bound(s->item) &&
            takes_what_it_left(s->item, n, parked)) ||
           n->memory_held + n->parked + s->part->need.memory <=
           n->memory + parked;
}

static double choose_devices(const struct search *s, struct plan_node *n,
                             struct plan_place *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->part = (uint32_t) (s->part - s->shape->parts);
    return score_place(s->p, n, s->part, NULL, ret);
}

bool place_try(struct search *s, struct plan_node *n, struct plan_place *ret,
               double *ret_score)
{
    if (!has_room(s, n))
        return false;
    *ret_score = choose_devices(s, n, ret);
    return n->promised == 0 || s->o->ignore_promises ||
           promise_allows(s->p, s->item, n, s->part, ret) ||
           try_beside(s, n, ret, ret_score);
}

/* ---- one rank ---- */

static bool better(const struct search *s, double score,
                   const struct plan_node *n)
{
    const struct plan_node *best = s->best.node;

    if (!s->found || score < s->score)
        return true;
    if (score > s->score)
        return false;
    return n->family == best->family && !n->family->stale
           ? n->slot < best->slot : strcmp(n->name, best->name) < 0;
}

/* There is room: true if it may have it, whether or not it is the best so far.
 * Where nothing is promised to anybody the devices do not matter yet: they are
 * chosen on the node that turns out to be the best.
 */
static bool compare(struct search *s, struct plan_node *n)
{
    bool placed = n->promised > 0;
    struct plan_place place = { .node = n };
    double score;

    if (placed && !place_try(s, n, &place, &score))
        return false;
    if (!placed)
        score = scored_place(s->p, n, &s->p->shapes[s->shape->index]->parts[0]);
    s->seen++;
    if (better(s, score, n)) {
        s->best = place;
        s->score = score;
        s->found = true;
        s->placed = placed;
    }
    return true;
}

static bool consider(struct search *s, struct plan_node *n)
{
    return has_room(s, n) && compare(s, n);
}

/* false: enough of this family was compared. */
static bool walk_bucket(struct search *s, const struct family *f,
                        const struct bits *b, bool all)
{
    uint32_t k = bits_next_but(b, s->vain, 0, f->nnodes), fit = 0;

    for (; k != UINT32_MAX;
         k = bits_next_but(b, s->vain, k + 1, f->nnodes)) {
        struct plan_node *n = f->nodes[k];

        if (has_room(s, n))
            fit += compare(s, n);
        else if (s->vain)
            s->vain[k / 64] |= UINT64_C(1) << k % 64;
        if (all)
            continue;
        if (s->seen >= COMPARED)
            return false;
        if (fit >= OF_BUCKET)
            break;
    }
    return true;
}

/* From the fewest CPUs that do to the most; without devices the other way
 * round where there are some, as their CPUs are to be left to them.
 */
static bool walk_row(struct search *s, const struct family *f,
                     const struct bits *row, uint8_t any, bool all)
{
    bool down = s->part->devices == 0 && f->ndevices > 0;
    unsigned left = any & ~0u << pool_cpu_class(s->part->need.cpu_milli);

    while (left) {
        unsigned c = (unsigned) (down ? 31 - __builtin_clz(left)
                                      : __builtin_ctz(left));

        if (!walk_bucket(s, f, &row[c], all))
            return false;
        left &= ~(1u << c);
    }
    return true;
}

static void walk_family(struct search *s, struct family *f, bool all)
{
    const struct part *q = s->part;
    uint32_t from = q->milli < 1000 ? q->devices : smaller(q->devices,
                                                           POOL_WHOLE - 1);

    pool_ready(f);
    if (s->o->ignore_closed) {
        for (uint32_t k = 0; k < f->nnodes; k++)
            (void) consider(s, f->nodes[k]);
        return;
    }
    s->vain = q->devices > 0 || s->item->state == ITEM_SUSPENDED ? NULL :
              vain_of(s->p, s->p->shapes[s->shape->index], f);
    if (q->devices && q->milli < 1000)
        for (unsigned k = q->milli * POOL_PART / 1000; k < POOL_PART; k++)
            if (!walk_row(s, f, f->part[k], f->any_part[k], all))
                return;
    for (uint32_t w = from; w < POOL_WHOLE; w++)
        if (!walk_row(s, f, f->whole[w], f->any_whole[w], all))
            return;
}

/* Where room was made since the shape fitted nowhere is all that fits now: few
 * enough, and a walk compares just these.  false: not known, or too many.
 */
static bool find_recent(struct search *s)
{
    const struct pool *o = s->p->pool;
    uint64_t k = s->shape->nowhere_at;
    uint32_t fit = 0;

    if (!s->shape->simple || k == 0 || o->gave - k > RECENT ||
        s->o->ignore_closed)
        return false;
    while (++k <= o->gave && fit < OF_BUCKET) {
        struct plan_node *n = s->p->nodes[o->ring[k % POOL_RING]];

        fit += n && consider(s, n);
    }
    if (fit < OF_BUCKET)
        return true;
    s->found = false;
    return false;
}

static bool find_one(struct search *s)
{
    struct pool *o = s->p->pool;
    bool all = o->live < SMALL;

    if (s->o->only)
        return consider(s, s->p->nodes[s->o->only->index]);
    if (find_recent(s))
        return s->found;
    for (uint32_t k = 0; k < o->nfamilies; k++) {
        s->seen = 0;
        if (o->families[k]->nnodes && place_family(o->families[k], s->part))
            walk_family(s, o->families[k], all);
    }
    return s->found;
}

/* Where it stands ready it starts at once. */
static bool find_ready(struct search *s)
{
    const struct plan_place *at;
    uint64_t since;

    return !s->o->only && plan_stage(s->item, &at, &since) == 1 &&
           consider(s, at->node);
}

/* ... with all its ranks. */
static bool find_all_ready(struct search *s, struct plan_place **ret,
                           uint32_t *ret_n, double *ret_score)
{
    const struct plan_place *at;
    uint64_t since;
    uint32_t n = plan_stage(s->item, &at, &since);

    if (n == 0 || s->o->only || s->o->ignore_closed || s->o->ignore_promises ||
        !room_has_all(s->p, s->item, at, n))
        return false;
    *ret = mem_dup(at, n * sizeof(*at));
    *ret_n = n;
    *ret_score = 0;
    return true;
}

/* ---- quick answers ---- */

static bool bits_fit(const struct plan *p, const struct family *f,
                     const struct bits *row, uint8_t any,
                     const struct part *q)
{
    unsigned left = any & ~0u << pool_cpu_class(q->need.cpu_milli);

    for (; left; left &= left - 1) {
        unsigned c = (unsigned) __builtin_ctz(left);
        uint32_t k = bits_next(&row[c], 0, f->nnodes);

        for (; k != UINT32_MAX; k = bits_next(&row[c], k + 1, f->nnodes))
            if (place_fits(p, f->nodes[k], q, f->nodes[k]->parked, false))
                return true;
    }
    return false;
}

static bool family_fits(const struct plan *p, struct family *f,
                        const struct part *q)
{
    uint32_t from = (uint32_t) smaller(q->devices, POOL_WHOLE - 1);

    pool_ready(f);
    for (uint32_t w = POOL_WHOLE; w-- > from;)
        if (bits_fit(p, f, f->whole[w], f->any_whole[w], q))
            return true;
    if (q->devices == 0 || q->milli == 1000)
        return false;
    for (unsigned k = q->milli * POOL_PART / 1000; k < POOL_PART; k++)
        if (bits_fit(p, f, f->part[k], f->any_part[k], q))
            return true;
    return false;
}

/* Only nodes where room was made since; false: it is not known any more. */
static bool ask_ring(const struct plan *p, const struct shape *s, bool *ret)
{
    const struct pool *o = p->pool;

    if (s->nowhere_at == 0 || o->gave - s->nowhere_at >= POOL_RING)
        return false;
    *ret = false;
    for (uint64_t k = s->nowhere_at + 1; k <= o->gave && !*ret; k++) {
        const struct plan_node *n = p->nodes[o->ring[k % POOL_RING]];

        *ret = n && place_fits(p, n, &s->parts[0], n->parked, false);
    }
    return true;
}

static bool one_may_fit(const struct plan *p, struct shape *s)
{
    bool fits = false;

    if (s->somewhere_at > 0 && s->somewhere_at == p->pool->stamps)
        return true;                   /* nothing has changed on any node */
    if (!ask_ring(p, s, &fits)) {
        for (uint32_t k = 0; k < p->pool->nfamilies && !fits; k++)
            fits = place_family(p->pool->families[k], &s->parts[0]) &&
                   family_fits(p, p->pool->families[k], &s->parts[0]);
        s->nowhere_at = 0;
    }
    if (!fits)
        s->nowhere_at = p->pool->gave;
    s->somewhere_at = fits ? p->pool->stamps : 0;
    return fits;
}

bool place_may_fit(const struct plan *p, const struct shape *s)
{
    /* What a shape knows about where it fits is a note, not its state. */
    if (s->simple)
        return one_may_fit(p, p->shapes[s->index]);
    return gang_may_fit(p, s);
}

bool place_helps(const struct plan *p, const struct plan_node *n,
                 const struct shape *s)
{
    for (uint32_t k = 0; k < s->nparts; k++)
        if (place_fits(p, n, &s->parts[k], n->parked, false))
            return true;
    return false;
}

/* ---- all ranks ---- */

/* Back to where its state is, rank by rank. */
static bool find_back(struct search *s, struct plan_place **ret,
                      uint32_t *ret_n, double *ret_score)
{
    const struct plan_item *i = s->item;
    struct plan_place *list;
    uint32_t n = 0;
    double sum = 0, score;

    if (tenant_barred(i->tenant, places_milli(s->shape, i->places,
                                              i->nplaces)))
        return false;
    list = mem_array(i->nplaces, sizeof *list);
    while (n < i->nplaces) {
        s->part = &s->shape->parts[i->places[n].part];
        if (!place_try(s, i->places[n].node, &list[n], &score))
            break;
        sum += score;
        pool_take(s->p, s->shape, &list[n++]);
    }
    for (uint32_t k = n; k-- > 0;)
        pool_undo(s->p, s->shape, &list[k]);
    if (n < i->nplaces) {
        free(list);
        return false;
    }
    *ret = list;
    *ret_n = n;
    *ret_score = sum;
    return true;
}

bool place_find(struct plan *p, const struct plan_item *i,
                const struct place_opts *o, struct plan_place **ret,
                uint32_t *ret_n, double *ret_score)
{
    struct search s = {
        .p = p, .item = i, .shape = i->shape, .part = &i->shape->parts[0],
        .o = o ? o : &NO_OPTS,
    };

    if (place_bound(i))
        return find_back(&s, ret, ret_n, ret_score);
    if (!i->shape->simple)
        return find_all_ready(&s, ret, ret_n, ret_score) ||
               gang_find(&s, ret, ret_n, ret_score);
    if (!s.o->ignore_closed && !s.o->only && !place_may_fit(p, i->shape))
        return false;
    if (!find_ready(&s) && !find_one(&s))
        return false;
    if (!s.placed)
        (void) choose_devices(&s, s.best.node, &s.best);
    *ret = mem_dup(&s.best, sizeof s.best);
    *ret_n = 1;
    *ret_score = s.score;
    return true;
}
