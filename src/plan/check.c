#include "plan/line.h"
#include "plan/pool.h"
#include "plan/reserve.h"
#include "plan/room.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>

/* Everything that is kept beside what the items hold, worked out from nothing:
 * what is free, the buckets, the counts.  A difference is a fault of ours, and
 * the text says where.
 */

/* What the items hold of a node. */
struct held {
    uint64_t cpu, cpu_alone, memory, parked, owed, roamed;
    uint32_t items, ripe, leaving, promised;
    uint32_t *device;                  /* thousandths of each */
};

struct check {
    const struct plan *p;
    struct held *held;                 /* by plan_node.index */
    uint32_t *refs, *kept, *waiting;   /* by shape.index */
    uint64_t *milli;                   /* by plan_tenant.index */
    uint32_t *items, *wanting;
    uint64_t leaving_milli;
    size_t nwaiting, nitems, nrunning, ntimers;
    struct err *err;
};

/* ---- items ---- */

static int add_places(struct check *c, const struct plan_item *i)
{
    for (uint32_t k = 0; k < i->nplaces; k++) {
        const struct plan_place *at = &i->places[k];
        const struct part *q = &i->shape->parts[at->part];
        struct held *h = &c->held[at->node->index];

        if (c->p->nodes[at->node->index] != at->node)
            return err_set(c->err, EPROTO,
                           "item %ju: its node is not there",
                           (uintmax_t) i->order);
        h->cpu += q->need.cpu_milli;
        h->cpu_alone += q->devices ? 0 : q->need.cpu_milli;
        h->memory += q->need.memory;
        h->items++;
        h->ripe += i->room_slot > 0;
        h->leaving += i->state == ITEM_LEAVING;
        if (at->ndevices != q->devices)
            return err_set(c->err, EPROTO, "item %ju: %u devices and not %u",
                           (uintmax_t) i->order, at->ndevices, q->devices);
        for (uint32_t d = 0; d < at->ndevices; d++)
            h->device[at->device[d]] += q->milli;
    }
    return 0;
}

/* No part has more ranks than it may; that one has fewer than it must is
 * possible only when ranks ended early.
 */
static int check_ranks(struct check *c, const struct plan_item *i)
{
    for (uint32_t k = 0; k < i->shape->nparts; k++) {
        uint32_t ranks = 0;

        for (uint32_t n = 0; n < i->nplaces; n++)
            ranks += i->places[n].part == k;
        if (ranks > i->shape->parts[k].max)
            return err_set(c->err, EPROTO, "item %ju: %u ranks of part %u",
                           (uintmax_t) i->order, ranks, k);
    }
    return 0;
}

static int check_runner(struct check *c, const struct plan_item *i)
{
    int rc = check_ranks(c, i);
    uint64_t milli = 0;

    if (rc < 0)
        return rc;
    if (i->run_slot >= c->p->nrunning || c->p->running[i->run_slot] != i)
        return err_set(c->err, EPROTO, "item %ju: not among the running",
                       (uintmax_t) i->order);
    for (uint32_t k = 0; k < i->nplaces; k++)
        milli += i->shape->parts[i->places[k].part].need.gpu_milli;
    if (milli != i->held_milli)
        return err_set(c->err, EPROTO, "item %ju: holds %ju and not %ju",
                       (uintmax_t) i->order, (uintmax_t) milli,
                       (uintmax_t) i->held_milli);
    for (const struct plan_tenant *t = i->tenant; t; t = t->parent)
        c->milli[t->index] += milli;
    c->nrunning++;
    if (i->state == ITEM_LEAVING && !i->claimant)
        c->leaving_milli += milli;
    return add_places(c, i);
}

static bool is_tied(const struct plan_item *i)
{
    for (uint32_t k = 0; k < i->nplaces; k++)
        if (!i->places[k].node->roams)
            return true;
    return false;
}

static int check_item(struct check *c, const struct plan_item *i)
{
    if (i->nplaces > 0 && i->tied != is_tied(i))
        return err_set(c->err, EPROTO, "item %ju: tied is %d",
                       (uintmax_t) i->order, i->tied);
    c->nitems++;
    c->ntimers += i->timer_slot > 0;
    c->refs[i->shape->index]++;
    if (i->whole)
        c->kept[i->whole->index]++;
    c->items[i->tenant->index]++;
    if (item_waits(i)) {
        c->nwaiting++;
        if (i->shape->gpu_milli > 0)
            for (const struct plan_tenant *t = i->tenant; t; t = t->parent)
                c->wanting[t->index]++;
        c->waiting[i->shape->index]++;
        if (!i->queue)
            return err_set(c->err, EPROTO, "item %ju: waits in no queue",
                           (uintmax_t) i->order);
    } else if (i->queue)
        return err_set(c->err, EPROTO, "item %ju: in a queue while %d",
                       (uintmax_t) i->order, i->state);
    if (item_runs(i))
        return check_runner(c, i);
    for (uint32_t k = 0; k < i->nplaces; k++) {
        const struct plan_place *at = &i->places[k];
        struct held *h = &c->held[at->node->index];

        h->parked += item_bytes(i, at);
        *(at->node->roams ? &h->roamed : &h->owed) +=
            i->shape->parts[at->part].need.gpu_milli;
    }
    return 0;
}

static int check_items(struct check *c)
{
    const struct plan *p = c->p;
    const struct timetable *t = &p->timetable;

    for (const struct plan_item *i = p->all; i; i = i->next) {
        int rc = check_item(c, i);

        if (rc < 0)
            return rc;
    }
    if (c->nitems != p->items || c->nwaiting != p->waiting ||
        c->nrunning != p->nrunning)
        return err_set(c->err, EPROTO, "%zu items, %zu wait, %zu run; "
                       "kept are %zu, %zu, %u", c->nitems, c->nwaiting,
                       c->nrunning, p->items, p->waiting, p->nrunning);
    if (c->leaving_milli != p->rooms->leaving_milli)
        return err_set(c->err, EPROTO, "%ju leave for nobody, kept are %ju",
                       (uintmax_t) c->leaving_milli,
                       (uintmax_t) p->rooms->leaving_milli);
    if (c->ntimers != (size_t) t->waiting.count + t->running.count + t->live)
        return err_set(c->err, EPROTO, "%zu items have a timer, kept are %u, "
                       "%u and %u", c->ntimers, t->waiting.count,
                       t->running.count, t->live);
    return 0;
}

/* ---- nodes ---- */

static int node_err(struct check *c, const struct plan_node *n,
                    const char *what, uint64_t is, uint64_t should)
{
    return err_set(c->err, EPROTO, "node %s: %s is %ju and not %ju", n->name,
                   what, (uintmax_t) is, (uintmax_t) should);
}

static void promised_at(struct check *c, const struct plan_place *places,
                        uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        c->held[places[k].node->index].promised++;
}

/* By reservations, windows and claims; a claim also wants memory for the state
 * of those who are suspended for it, wherever they are.
 */
static void add_promises(struct check *c)
{
    const struct plan *p = c->p;

    for (uint32_t k = 0; k < p->promises->count; k++)
        promised_at(c, p->promises->list[k]->places,
                    p->promises->list[k]->nplaces);
    for (const struct window *w = p->promises->windows; w; w = w->next)
        for (uint32_t k = 0; k < w->nnodes; k++)
            c->held[w->nodes[k]->index].promised++;
    for (const struct plan_claim *r = p->rooms->claims; r; r = r->next) {
        promised_at(c, r->places, r->nplaces);
        for (uint32_t k = 0; k < r->nvictims; k++)
            if (r->victims[k].how == YIELD_SUSPEND)
                promised_at(c, r->victims[k].item->places,
                            r->victims[k].item->nplaces);
    }
}

#define NODE_IS(what, should) do { \
        if (n->what != (should)) \
            return node_err(c, n, #what, n->what, (should)); \
    } while (0)

static int check_devices(struct check *c, const struct plan_node *n,
                         const struct held *h)
{
    uint32_t whole = 0, most = 0, part = 0;
    uint64_t milli = 0;

    for (uint32_t d = 0; d < n->ndevices; d++) {
        uint32_t left = n->devices[d].free_milli;

        if (h->device[d] > 1000 || left != 1000 - h->device[d])
            return node_err(c, n, "a device's free share", left,
                            1000 - h->device[d]);
        if (!n->devices[d].open)
            continue;
        milli += left;
        whole += left == 1000;
        most = left > most ? left : most;
        part = left < 1000 && left > part ? left : part;
    }
    NODE_IS(free_milli, milli);
    NODE_IS(free_whole, whole);
    NODE_IS(free_most, most);
    NODE_IS(free_part, part);
    return 0;
}

static int check_ripe(struct check *c, const struct plan_node *n)
{
    for (uint32_t k = 0; k < n->nripe; k++) {
        const struct ripe *r = &n->ripe[k];

        if (r->item->room_slot == 0 || r->level != r->item->level ||
            r->priority != r->item->priority || r->tenant != r->item->tenant)
            return err_set(c->err, EPROTO, "node %s: item %ju is not as it is "
                           "kept there", n->name, (uintmax_t) r->item->order);
    }
    return 0;
}

static int check_node(struct check *c, const struct plan_node *n)
{
    const struct held *h = &c->held[n->index];

    if (h->cpu > n->cpu_milli || h->memory > n->memory)
        return err_set(c->err, EPROTO, "node %s: more is promised than it has",
                       n->name);
    NODE_IS(cpu_free, n->cpu_milli - h->cpu);
    NODE_IS(cpu_alone, h->cpu_alone);
    NODE_IS(memory_held, h->memory);
    NODE_IS(parked, h->parked);
    NODE_IS(owed, h->owed);
    NODE_IS(memory_free, h->memory + h->parked < n->memory ?
                         n->memory - h->memory - h->parked : 0);
    NODE_IS(nitems, h->items);
    NODE_IS(nripe, h->ripe);
    NODE_IS(leaving, h->leaving);
    NODE_IS(promised, h->promised);
    return check_ripe(c, n) < 0 ? -EPROTO : check_devices(c, n, h);
}

static int check_nodes(struct check *c)
{
    uint32_t live = 0, roaming = 0;

    for (uint32_t k = 0; k < c->p->nnodes; k++) {
        int rc;

        if (!c->p->nodes[k])
            continue;
        live++;
        roaming += c->p->nodes[k]->roams;
        rc = check_node(c, c->p->nodes[k]);
        if (rc < 0)
            return rc;
    }
    if (live != c->p->pool->live || roaming != c->p->pool->roaming)
        return err_set(c->err, EPROTO, "%u nodes, %u roam; kept are %u, %u",
                       live, roaming, c->p->pool->live, c->p->pool->roaming);
    return 0;
}

static int check_pools(struct check *c)
{
    const struct pool *o = c->p->pool;

    for (uint32_t k = 0; k < o->npools; k++) {
        struct pool_sum sum = { 0 };

        for (uint32_t at = 0; at < c->p->nnodes; at++) {
            const struct plan_node *n = c->p->nodes[at];

            if (!n || n->pool_number != k)
                continue;
            sum.nodes++;
            sum.owed += c->held[at].roamed;
        }
        if (sum.nodes != o->sums[k].nodes || sum.owed != o->sums[k].owed)
            return err_set(c->err, EPROTO, "pool %s: what its %u nodes owe is "
                           "not as it is kept", o->pools[k], sum.nodes);
    }
    return 0;
}

/* ---- buckets ---- */

static bool has_bit(const struct bits *b, uint32_t at)
{
    return b->words && (b->words[at / 64] >> at % 64 & 1) &&
           (b->groups[at / 4096] >> at / 64 % 64 & 1);
}

static int check_bits(struct check *c, const struct family *f, uint32_t row,
                      uint32_t cpu, bool whole)
{
    const struct bits *b = whole ? &f->whole[row][cpu] : &f->part[row][cpu];
    uint8_t any = whole ? f->any_whole[row] : f->any_part[row];
    uint32_t count = 0;

    for (uint32_t k = 0; k < f->nnodes; k++) {
        const struct plan_node *n = f->nodes[k];
        uint32_t free = n->free_whole < POOL_WHOLE - 1 ? n->free_whole :
                                                         POOL_WHOLE - 1;
        bool in = n->open && pool_cpu_class(n->cpu_free) == cpu;

        if (whole)
            in &= free == row;
        else
            in &= n->free_part > 0 && n->free_part * POOL_PART / 1000 == row;
        count += in;
        if (in != has_bit(b, k) || n->slot != k)
            return err_set(c->err, EPROTO, "node %s: bucket %s %u, %u",
                           n->name, whole ? "whole" : "part", row, cpu);
    }
    if (count != b->count || (any >> cpu & 1) != (count > 0))
        return err_set(c->err, EPROTO, "bucket %u, %u has %u and not %u", row,
                       cpu, b->count, count);
    return 0;
}

static int check_families(struct check *c)
{
    const struct pool *o = c->p->pool;
    int rc = 0;

    for (uint32_t k = 0; k < o->nfamilies; k++) {
        const struct family *f = o->families[k];

        for (uint32_t cpu = 0; !f->stale && cpu < POOL_CPU; cpu++) {
            for (uint32_t w = 0; w < POOL_WHOLE && rc == 0; w++)
                rc = check_bits(c, f, w, cpu, true);
            for (uint32_t q = 0; q < POOL_PART && rc == 0; q++)
                rc = check_bits(c, f, q, cpu, false);
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- shapes and tenants ---- */

/* Who is said to fit somewhere, on nodes as they are, does. */
static int check_somewhere(struct check *c, const struct shape *s)
{
    if (s->somewhere_at == 0 || s->somewhere_at != c->p->pool->stamps)
        return 0;
    for (uint32_t k = 0; k < c->p->nnodes; k++) {
        const struct plan_node *n = c->p->nodes[k];

        if (n && place_fits(c->p, n, &s->parts[0], n->parked, false))
            return 0;
    }
    return err_set(c->err, EPROTO, "shape %u fits nowhere", s->index);
}

/* Who is said to fit nowhere fits at most where room was made since. */
static int check_nowhere(struct check *c, const struct shape *s)
{
    const struct pool *o = c->p->pool;

    if (!s->simple || s->nowhere_at == 0 ||
        o->gave - s->nowhere_at >= POOL_RING)
        return 0;
    for (uint32_t k = 0; k < c->p->nnodes; k++) {
        const struct plan_node *n = c->p->nodes[k];
        bool since = false;

        if (!n || !place_fits(c->p, n, &s->parts[0], 0, false))
            continue;
        for (uint64_t g = s->nowhere_at + 1; g <= o->gave; g++)
            since |= o->ring[g % POOL_RING] == k;
        if (!since)
            return err_set(c->err, EPROTO,
                           "node %s has room for a shape that fits nowhere",
                           n->name);
    }
    return 0;
}

static int check_shapes(struct check *c)
{
    for (uint32_t k = 0; k < c->p->nshapes; k++) {
        const struct shape *s = c->p->shapes[k];

        if (s->index != k || s->refs != c->refs[k] ||
            s->kept != c->kept[k] ||
            s->waiting != c->waiting[k])
            return err_set(c->err, EPROTO, "shape %u: %u items, %u wait; "
                           "kept are %u, %u", k, c->refs[k], c->waiting[k],
                           s->refs, s->waiting);
        if (check_nowhere(c, s) < 0 || check_somewhere(c, s) < 0)
            return -EPROTO;
    }
    return 0;
}

static int check_tenants(struct check *c)
{
    for (uint32_t k = 0; k < c->p->ntenants; k++) {
        const struct plan_tenant *t = c->p->tenants[k];

        if (t && t->wanting != c->wanting[k])
            return err_set(c->err, EPROTO, "tenant %s: %u want devices and "
                           "not %u", t->name, t->wanting, c->wanting[k]);
        if (t && (t->held_milli != c->milli[k] || t->items != c->items[k]))
            return err_set(c->err, EPROTO, "tenant %s: holds %ju and not %ju",
                           t->name, (uintmax_t) t->held_milli,
                           (uintmax_t) c->milli[k]);
    }
    return 0;
}

/* What stands beside each row is what its first queue and the head of that say;
 * and of those that wait for a node likewise.
 */
static bool is_said(const struct bound *b)
{
    const struct plan_item *head = keyed_top(&b->queue->items);

    return head && b->own == head->level && b->level == b->queue->level &&
           b->priority == head->priority && b->tenant == head->tenant &&
           b->shape == head->shape;
}

/* Devices that those of the bench want, of one level or (WANT_LEVELS) all. */
static uint64_t wanted_by(const struct plan *p, const struct bench *b,
                          uint32_t level)
{
    uint64_t sum = 0;

    for (uint32_t k = 0; k < p->nshapes; k++)
        for (const struct queue *q = p->shapes[k]->queues; q; q = q->next)
            if (q->bench == b &&
                (level == WANT_LEVELS || q->level == level ||
                 (level == WANT_LEVELS - 1 && q->level > level)))
                sum += q->items.count * q->shape->gpu_milli;
    return sum;
}

static int check_bench(struct check *c, const struct bench *b)
{
    bool same = b->wants == wanted_by(c->p, b, WANT_LEVELS);

    for (uint32_t k = 0; k < WANT_LEVELS; k++)
        same &= b->level_wants[k] == wanted_by(c->p, b, k);
    if (!same)
        return err_set(c->err, EPROTO, "a bench wants %ju devices and not %ju",
                       (uintmax_t) b->wants / 1000,
                       (uintmax_t) wanted_by(c->p, b, WANT_LEVELS) / 1000);
    for (uint32_t k = 0; k < b->nrows; k++)
        if (b->first[k].queue != keyed_top(&b->rows[k]->queues) ||
            (b->first[k].queue && !is_said(&b->first[k])))
            return err_set(c->err, EPROTO, "row %u: not what its first queue "
                           "says", k);
    return 0;
}

static uint32_t count_denials(const struct shape *s)
{
    const struct queue *before = NULL;
    uint32_t count = 0;

    for (const struct queue *q = s->denials; q; before = q, q = q->later)
        count += q->shape == s && q->parked == PARKED_DENIED &&
                 q->sooner == before;
    return count;
}

/* Of the shape's queues, and of all: those kept from room, and those who hope. */
static int check_queues(struct check *c)
{
    uint32_t barred = 0, hopers = 0;

    for (uint32_t k = 0; k < c->p->nshapes; k++) {
        const struct shape *s = c->p->shapes[k];
        uint32_t denied = 0, hoping = 0;

        for (const struct queue *q = s->queues; q; q = q->next) {
            *(q->hopes ? &hoping : &denied) += q->parked == PARKED_DENIED;
            barred += q->parked == PARKED_TENANT;
            hopers += q->hopes ? q->items.count : 0;
            for (uint32_t n = 0; n < q->items.count; n++) {
                const struct plan_item *i = q->items.list[n].item;

                if (i->queue != q || (i->look_ms > 0) != q->hopes)
                    return err_set(c->err, EPROTO, "item %ju: in the wrong "
                                   "queue", (uintmax_t) i->order);
            }
        }
        if (denied != s->denied || hoping != s->hoping ||
            count_denials(s) != denied + hoping)
            return err_set(c->err, EPROTO, "shape %u: %u queues are denied "
                           "room and %u hope; kept are %u, %u", k, denied,
                           hoping, s->denied, s->hoping);
    }
    if (barred != c->p->line->barred || hopers != c->p->line->hopers)
        return err_set(c->err, EPROTO, "%u queues are barred and %u items "
                       "hope; kept are %u, %u", barred, hopers,
                       c->p->line->barred, c->p->line->hopers);
    return 0;
}

static int check_line(struct check *c)
{
    const struct line *l = c->p->line;

    if (check_queues(c) < 0)
        return -EPROTO;
    for (uint32_t k = 0; k < l->nbands; k++)
        for (uint32_t n = 0; n < l->bands[k]->count; n++)
            if (check_bench(c, l->bands[k]->benches[n]) < 0)
                return -EPROTO;
    for (uint32_t k = 0; k < c->p->nnodes; k++)
        for (uint32_t n = 0; c->p->nodes[k] && n < c->p->nodes[k]->nbound; n++)
            if (!is_said(&c->p->nodes[k]->bound[n]))
                return err_set(c->err, EPROTO, "%s: one waits for it, and not "
                               "as it is said", c->p->nodes[k]->name);
    return 0;
}

static int check_all(struct check *c)
{
    int rc = check_items(c);

    if (rc < 0)
        return rc;
    add_promises(c);
    rc = check_nodes(c);
    if (rc == 0)
        rc = check_pools(c);
    if (rc == 0)
        rc = check_families(c);
    if (rc == 0)
        rc = check_shapes(c);
    if (rc == 0)
        rc = check_tenants(c);
    if (rc == 0)
        rc = check_line(c);
    if (rc == 0)
        rc = meter_check(c->p, c->err);
    if (rc == 0)
        rc = stage_check(c->p, c->err);
    if (rc == 0)
        rc = vain_check(c->p, c->err);
    if (rc == 0)
        rc = scored_check(c->p, c->err);
    return rc;
}

int plan_check(const struct plan *p, struct err *err)
{
    struct check c = { .p = p, .err = err };
    size_t devices = 0;
    uint32_t *device;
    int rc;

    for (uint32_t k = 0; k < p->nnodes; k++)
        devices += p->nodes[k] ? p->nodes[k]->ndevices : 0;
    c.held = mem_array(p->nnodes + 1, sizeof *c.held);
    device = mem_array(devices + 1, sizeof *device);
    devices = 0;
    for (uint32_t k = 0; k < p->nnodes; k++) {
        c.held[k].device = device + devices;
        devices += p->nodes[k] ? p->nodes[k]->ndevices : 0;
    }
    c.refs = mem_array(p->nshapes + 1, sizeof *c.refs);
    c.kept = mem_array(p->nshapes + 1, sizeof *c.kept);
    c.waiting = mem_array(p->nshapes + 1, sizeof *c.waiting);
    c.milli = mem_array(p->ntenants + 1, sizeof *c.milli);
    c.items = mem_array(p->ntenants + 1, sizeof *c.items);
    c.wanting = mem_array(p->ntenants + 1, sizeof *c.wanting);
    rc = check_all(&c);
    free(c.held);
    free(device);
    free(c.refs);
    free(c.kept);
    free(c.waiting);
    free(c.milli);
    free(c.items);
    free(c.wanting);
    return rc;
}
