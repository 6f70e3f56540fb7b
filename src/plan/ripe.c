#include "plan/line.h"
#include "plan/victim.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

/* Who runs and may be asked to leave, as far as time is concerned: by priority,
 * level and tenant, and node by node.
 */

/* Whose go first: the lowest priority, then the latest level. */
static int set_order(const struct running_set *s, const struct plan_item *i,
                     uint8_t level)
{
    if (s->priority != i->priority)
        return s->priority < i->priority ? -1 : 1;
    if (s->level != level)
        return s->level > level ? -1 : 1;
    return s->tenant == i->tenant ? 0 : strcmp(s->tenant->name,
                                               i->tenant->name);
}

/* Where the set is, or is to be. */
static uint32_t find_set(const struct rooms *r, const struct plan_item *i,
                         uint8_t level, bool *ret)
{
    uint32_t low = 0, high = r->nsets;

    while (low < high) {
        uint32_t mid = (low + high) / 2;
        int c = set_order(&r->sets[mid], i, level);

        if (c == 0) {
            *ret = true;
            return mid;
        }
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    *ret = false;
    return low;
}

static void ripe_add(const struct plan_item *i)
{
    for (uint32_t k = 0; k < i->nplaces; k++) {
        const struct part *q = &i->shape->parts[i->places[k].part];
        struct plan_node *n = i->places[k].node;

        if (n->nripe == n->ripe_cap) {
            n->ripe_cap = n->ripe_cap ? 2 * n->ripe_cap : 4;
            n->ripe = mem_grow(n->ripe, n->ripe_cap, sizeof(*n->ripe));
        }
        n->ripe[n->nripe++] = (struct ripe) {
            .item = i, .tenant = i->tenant, .cpu_milli = q->need.cpu_milli,
            .gpu_milli = q->need.gpu_milli, .priority = i->priority,
            .level = i->level, .lend = victim_lend(i),
        };
    }
}

static void ripe_remove(const struct plan_item *i)
{
    for (uint32_t k = 0; k < i->nplaces; k++) {
        struct plan_node *n = i->places[k].node;
        uint32_t at = 0;

        while (at < n->nripe && n->ripe[at].item != i)
            at++;
        assert(at < n->nripe);
        n->ripe[at] = n->ripe[--n->nripe];
    }
}

static void ripe_moved(const struct plan_item *i)
{
    for (uint32_t k = 0; k < i->nplaces; k++) {
        const struct plan_node *n = i->places[k].node;

        for (uint32_t at = 0; at < n->nripe; at++)
            if (n->ripe[at].item == i)
                n->ripe[at].level = i->level;
    }
}

static void set_add(struct plan *p, struct plan_item *i, uint8_t level)
{
    struct rooms *r = p->rooms;
    bool there;
    uint32_t at = find_set(r, i, level, &there);

    if (!there) {
        if (r->nsets == r->sets_cap) {
            r->sets_cap = r->sets_cap ? 2 * r->sets_cap : 16;
            r->sets = mem_grow(r->sets, r->sets_cap, sizeof(*r->sets));
        }
        memmove(&r->sets[at + 1], &r->sets[at],
                (r->nsets++ - at) * sizeof(*r->sets));
        r->sets[at] = (struct running_set) {
            .priority = i->priority, .level = level, .tenant = i->tenant,
            .items = { .slot = offsetof(struct plan_item, room_slot) },
        };
    }
    keyed_set(&r->sets[at].items, i, UINT64_MAX - i->since_ms,
              UINT64_MAX - i->order);
    r->sets[at].milli += i->held_milli;
}

static void set_remove(struct plan *p, struct plan_item *i, uint8_t level)
{
    struct rooms *r = p->rooms;
    bool there;
    uint32_t at = find_set(r, i, level, &there);

    assert(there);
    keyed_remove(&r->sets[at].items, i);
    r->sets[at].milli -= i->held_milli;
    if (r->sets[at].items.count > 0)
        return;
    keyed_free(&r->sets[at].items);
    memmove(&r->sets[at], &r->sets[at + 1],
            (--r->nsets - at) * sizeof(*r->sets));
}

void room_fetch(const struct plan_node *n)
{
    mem_fetch(n->ripe, n->nripe * sizeof(*n->ripe));
    mem_fetch(n->bound, n->nbound * sizeof(*n->bound));
}

/* It stands in a set from when it has run for long enough. */
void room_running(struct plan *p, struct plan_item *i, bool runs)
{
    if (runs && i->room_slot == 0 && i->yield != YIELD_NEVER &&
        item_ripe_ms(p, i) <= p->now_ms) {
        set_add(p, i, i->level);
        ripe_add(i);
    } else if (!runs && i->room_slot > 0) {
        set_remove(p, i, i->level);
        ripe_remove(i);
    }
}

void room_moved(struct plan *p, struct plan_item *i, uint8_t was)
{
    if (i->room_slot > 0) {
        set_remove(p, i, was);
        set_add(p, i, i->level);
        ripe_moved(i);
    }
}
