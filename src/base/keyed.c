#include "base/keyed.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

enum { FEW = 256 };                    /* that lie in a near cache */

static inline uint32_t *slot_of(const struct keyed *h, void *item)
{
    return (uint32_t *) (void *) ((char *) item + h->slot);
}

static inline bool before(const struct keyed *h, const struct keyed_entry *a,
                          const struct keyed_entry *b)
{
    if (a->key[0] != b->key[0])
        return a->key[0] < b->key[0];
    if (a->key[1] != b->key[1])
        return a->key[1] < b->key[1];
    return h->before && h->before(a->item, b->item);
}

bool keyed_before(const struct keyed *h, const struct keyed_entry *a,
                  const struct keyed_entry *b)
{
    return before(h, a, b);
}

static inline void put(struct keyed *h, uint32_t at,
                       const struct keyed_entry *e)
{
    h->list[at] = *e;
    *slot_of(h, e->item) = at + 1;
}

static void rise(struct keyed *h, uint32_t at, const struct keyed_entry *e)
{
    while (at > 0) {
        uint32_t up = (at - 1) / KEYED_BELOW;

        if (!before(h, e, &h->list[up]))
            break;
        put(h, at, &h->list[up]);
        at = up;
    }
    put(h, at, e);
}

/* What may be compared in the next step but one. */
static inline void fetch_below(const struct keyed *h, uint32_t first)
{
    uint32_t at = first * KEYED_BELOW + 1;

    if (h->count > FEW && at < h->count)
        mem_fetch(&h->list[at],
                  KEYED_BELOW * KEYED_BELOW * sizeof(*h->list));
}

static void sink(struct keyed *h, uint32_t at, const struct keyed_entry *e)
{
    for (;;) {
        uint32_t first = at * KEYED_BELOW + 1, least = first, end;

        if (first >= h->count)
            break;
        fetch_below(h, first);
        end = first + KEYED_BELOW < h->count ? first + KEYED_BELOW : h->count;
        for (uint32_t k = first + 1; k < end; k++)
            if (before(h, &h->list[k], &h->list[least]))
                least = k;
        if (!before(h, &h->list[least], e))
            break;
        put(h, at, &h->list[least]);
        at = least;
    }
    put(h, at, e);
}

/* Into a gap in the midst. */
static void settle(struct keyed *h, uint32_t at, const struct keyed_entry *e)
{
    if (at > 0 && before(h, e, &h->list[(at - 1) / KEYED_BELOW]))
        rise(h, at, e);
    else
        sink(h, at, e);
}

void keyed_set(struct keyed *h, void *item, uint64_t key, uint64_t second)
{
    struct keyed_entry e = { { key, second }, item };
    uint32_t slot = *slot_of(h, item);

    if (slot > 0) {
        assert(slot <= h->count && h->list[slot - 1].item == item);
        settle(h, slot - 1, &e);
        return;
    }
    if (h->count == h->cap) {
        h->cap = h->cap ? h->cap * 2 : 4;
        h->list = mem_grow(h->list, h->cap, sizeof(*h->list));
    }
    rise(h, h->count++, &e);
}

void keyed_remove(struct keyed *h, void *item)
{
    uint32_t slot = *slot_of(h, item);
    struct keyed_entry last;

    if (slot == 0)
        return;
    assert(slot <= h->count && h->list[slot - 1].item == item);
    *slot_of(h, item) = 0;
    last = h->list[--h->count];
    if (last.item != item)
        settle(h, slot - 1, &last);
}

/* Each next one is below one that came before. */
uint32_t keyed_first(const struct keyed *h, void **ret, uint32_t want)
{
    uint32_t edge[KEYED_FIRST * KEYED_BELOW + 1] = { 0 };
    uint32_t n = h->count > 0, found = 0;

    assert(want <= KEYED_FIRST);
    while (n > 0 && found < want) {
        uint32_t least = 0, at;

        for (uint32_t k = 1; k < n; k++)
            if (before(h, &h->list[edge[k]], &h->list[edge[least]]))
                least = k;
        at = edge[least];
        edge[least] = edge[--n];
        ret[found++] = h->list[at].item;
        for (uint32_t k = 1; k <= KEYED_BELOW; k++)
            if (at * KEYED_BELOW + k < h->count)
                edge[n++] = at * KEYED_BELOW + k;
    }
    return found;
}

void keyed_free(struct keyed *h)
{
    free(h->list);
    h->list = NULL;
    h->count = h->cap = 0;
}
