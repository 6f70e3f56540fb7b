#pragma once

#include <stdbool.h>
#include <stdint.h>

/* heap - which of many comes first; adding and removing any is O(log n).
 *
 * An item keeps its own place (`slot`, from 1; 0: in no heap), so that it can
 * be taken out from the middle.  `before` must be a strict order over all
 * items: then the same items give the same first one, in whatever order they
 * came.
 */
struct heap {
    bool (*before)(const void *a, const void *b);
    uint32_t *(*slot)(void *item);
    void **items;
    uint32_t count, cap;
};

void heap_add(struct heap *h, void *item);         /* must be in no heap */
void heap_remove(struct heap *h, void *item);      /* in none: nothing */
void *heap_top(const struct heap *h);              /* NULL when empty */
void heap_free(struct heap *h);                    /* but not the items */
