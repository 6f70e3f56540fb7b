#include "base/heap.h"

#include "base/mem.h"

#include <assert.h>

static void put(struct heap *h, uint32_t i, void *item)
{
    h->items[i] = item;
    *h->slot(item) = i + 1;
}

static void rise(struct heap *h, uint32_t i, void *item)
{
    while (i > 0) {
        uint32_t up = (i - 1) / 2;

        if (!h->before(item, h->items[up]))
            break;
        put(h, i, h->items[up]);
        i = up;
    }
    put(h, i, item);
}

static void sink(struct heap *h, uint32_t i, void *item)
{
    for (;;) {
        uint32_t down = 2 * i + 1;

        if (down >= h->count)
            break;
        if (down + 1 < h->count &&
            h->before(h->items[down + 1], h->items[down]))
            down++;
        if (!h->before(h->items[down], item))
            break;
        put(h, i, h->items[down]);
        i = down;
    }
    put(h, i, item);
}

void heap_add(struct heap *h, void *item)
{
    assert(*h->slot(item) == 0);
    if (h->count == h->cap) {
        h->cap = h->cap ? h->cap * 2 : 16;
        h->items = mem_grow(h->items, h->cap, sizeof(*h->items));
    }
    rise(h, h->count++, item);
}

void heap_remove(struct heap *h, void *item)
{
    uint32_t i = *h->slot(item);
    void *last;

    if (i == 0)
        return;
    i--;
    assert(i < h->count && h->items[i] == item);
    *h->slot(item) = 0;
    last = h->items[--h->count];
    if (last == item)
        return;
    if (i > 0 && h->before(last, h->items[(i - 1) / 2]))
        rise(h, i, last);
    else
        sink(h, i, last);
}

void *heap_top(const struct heap *h)
{
    return h->count ? h->items[0] : NULL;
}

void heap_free(struct heap *h)
{
    free(h->items);
    h->items = NULL;
    h->count = h->cap = 0;
}
