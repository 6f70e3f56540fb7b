#include "plan/paper.h"
#include "plan/pool.h"

#include "base/mem.h"

#include <assert.h>

struct paper_node *paper_find(const struct paper *pa,
                              const struct plan_node *n)
{
    return n->on_paper ? &pa->nodes[n->on_paper - 1] : NULL;
}

static void change(struct paper *pa, const struct shape *s,
                   const struct plan_place *place, bool take)
{
    struct paper_node *at = paper_find(pa, place->node);
    const struct part *part = &s->parts[place->part];

    if (!at)
        return;
    at->stale = true;
    if (take) {
        at->cpu -= (int64_t) part->need.cpu_milli;
        at->memory -= (int64_t) part->need.memory;
    } else {
        at->cpu += (int64_t) part->need.cpu_milli;
        at->memory += (int64_t) part->need.memory;
    }
    if (part->devices == 0)
        at->alone += take ? part->need.cpu_milli : 0 - part->need.cpu_milli;
    for (uint32_t d = 0; d < place->ndevices; d++)
        at->left[place->device[d]] += take ? 0 - part->milli : part->milli;
}

void paper_take(struct paper *pa, const struct shape *s,
                const struct plan_place *place)
{
    change(pa, s, place, true);
}

void paper_give(struct paper *pa, const struct shape *s,
                const struct plan_place *place)
{
    change(pa, s, place, false);
}

void paper_take_item(struct paper *pa, const struct plan_item *i)
{
    for (uint32_t k = 0; k < i->nplaces; k++)
        change(pa, i->shape, &i->places[k], true);
}

void paper_give_item(struct paper *pa, const struct plan_item *i)
{
    for (uint32_t k = 0; k < i->nplaces; k++)
        change(pa, i->shape, &i->places[k], false);
}

void paper_park(struct paper *pa, const struct plan_item *i, bool on)
{
    for (uint32_t k = 0; k < i->nplaces; k++) {
        struct paper_node *at = paper_find(pa, i->places[k].node);
        int64_t bytes = (int64_t) item_bytes(i, &i->places[k]);

        if (at)
            at->memory -= on ? bytes : -bytes;
    }
}

static void set_node(struct paper_node *at, struct plan_node *n,
                     uint32_t *left)
{
    at->node = n;
    at->cpu = (int64_t) n->cpu_free;
    at->alone = n->cpu_alone;
    at->memory = (int64_t) n->memory - (int64_t) (n->memory_held + n->parked);
    at->left = left;
    at->stale = true;
    for (uint32_t d = 0; d < n->ndevices; d++)
        left[d] = n->devices[d].free_milli;
}

/* Of the nodes on the paper, is it the first that the item is on? */
static bool is_first(const struct paper *pa, const struct plan_item *i,
                     const struct plan_node *n)
{
    uint32_t k = 0;

    while (!paper_find(pa, i->places[k].node))
        k++;
    return i->places[k].node == n;
}

static void take_off_leaving(struct paper *pa, const struct plan_item *i)
{
    for (uint32_t k = 0; k < pa->count; k++) {
        const struct plan_node *n = pa->nodes[k].node;

        for (uint32_t m = 0; n->leaving > 0 && m < n->nitems; m++) {
            const struct plan_item *o = n->items[m];

            /* One with several ranks is met several times. */
            if (o->state == ITEM_LEAVING && room_left_to(o, i) &&
                !pool_met(n, m) && is_first(pa, o, n)) {
                paper_give_item(pa, o);
                if (o->yield == YIELD_SUSPEND && n->suspends)
                    paper_park(pa, o, true);
            }
        }
    }
}

void paper_blank(struct paper *pa, struct plan *p,
                 struct plan_node *const *nodes, uint32_t n)
{
    uint32_t *left, devices = 0;

    for (uint32_t k = 0; k < n; k++)
        devices += nodes[k]->ndevices;
    *pa = (struct paper) { .plan = p, .count = n };
    pa->nodes = mem_array(n + 1, sizeof(*pa->nodes));
    pa->devices = left = mem_array(devices + 1, sizeof(*left));
    for (uint32_t k = 0; k < n; k++) {
        set_node(&pa->nodes[k], nodes[k], left);
        assert(nodes[k]->on_paper == 0);
        nodes[k]->on_paper = k + 1;
        left += nodes[k]->ndevices;
    }
}

void paper_init(struct paper *pa, struct plan *p, const struct plan_item *i,
                struct plan_node *const *nodes, uint32_t n)
{
    paper_blank(pa, p, nodes, n);
    take_off_leaving(pa, i);
    room_on_paper(p, i, pa);
    if (i->state == ITEM_SUSPENDED)
        paper_park(pa, i, false);
    for (uint32_t k = 0; k < n; k++)
        pa->nodes[k].barred = nodes[k]->promised > 0 &&
                              promise_bars(p, i, nodes[k]);
}

/* Below 0 by more than it may ever be given. */
void paper_hide(struct paper_node *at, uint32_t device)
{
    at->left[device] -= UINT32_C(1) << 31;
}

void paper_free(struct paper *pa)
{
    for (uint32_t k = 0; k < pa->count; k++)
        pa->nodes[k].node->on_paper = 0;
    free(pa->nodes);
    free(pa->devices);
}

/* Of devices that will do, those with least left: the first of them. */
static bool choose(const struct paper *pa, const struct paper_node *at,
                   const struct part *part, struct plan_place *ret)
{
    const struct plan_node *n = at->node;
    uint32_t best = UINT32_MAX;

    ret->ndevices = 0;
    for (uint32_t d = 0; d < n->ndevices; d++) {
        const struct device *dev = &n->devices[d];

        if (!dev->open || at->left[d] < part->milli ||
            at->left[d] > 1000 ||
            !need_matches_device(pa->plan, dev, part))
            continue;
        if (part->milli == 1000) {
            ret->device[ret->ndevices++] = (uint16_t) d;
            if (ret->ndevices == part->devices)
                return true;
        } else if (best == UINT32_MAX || at->left[d] < at->left[best]) {
            best = d;
        }
    }
    if (best == UINT32_MAX)
        return false;
    ret->device[ret->ndevices++] = (uint16_t) best;
    return true;
}

bool paper_fits(const struct paper *pa, const struct paper_node *at,
                const struct shape *s, uint32_t part, struct plan_place *ret)
{
    const struct part *need = &s->parts[part];

    if (!at->node->open || (int64_t) at->cpu < (int64_t) need->need.cpu_milli ||
        (int64_t) at->memory < (int64_t) need->need.memory ||
        !need_matches_node(at->node, need))
        return false;
    ret->node = at->node;
    ret->part = part;
    ret->ndevices = 0;
    if (need->devices == 0)
        return !score_keeps(pa->plan, at->node, need,
                            at->alone + need->need.cpu_milli);
    return need->devices <= PLAN_DEVICES && choose(pa, at, need, ret);
}

void paper_take_any(struct paper *pa, const struct shape *s,
                    const struct plan_place *place)
{
    struct paper_node *at = paper_find(pa, place->node);
    const struct part *part = &s->parts[place->part];
    struct plan_place other = *place;
    bool left = true;

    if (!at)
        return;
    for (uint32_t d = 0; d < place->ndevices; d++)
        left &= at->left[place->device[d]] >= part->milli;
    if (left || choose(pa, at, part, &other))
        change(pa, s, &other, true);
}
