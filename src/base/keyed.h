#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* keyed - a heap of items that are mostly told apart by two numbers.
 *
 * As heap.h, but what comes first by the numbers stands beside the item: of the
 * items only those that move are touched, and those whose numbers are equal.
 * With a million of them that is most of what it costs.
 */
struct keyed_entry {
    uint64_t key[2];                   /* the smaller first */
    void *item;
};

struct keyed {
    size_t slot;                       /* where in an item its place stands, a
                                          uint32_t, from 1; 0: in none */
    /* Where both numbers are equal: a strict order.  NULL: they never are. */
    bool (*before)(const void *a, const void *b);
    struct keyed_entry *list;          /* KEYED_BELOW under each */
    uint32_t count, cap;
};

enum { KEYED_BELOW = 4 };              /* of k: from KEYED_BELOW * k + 1 on */

/* It comes in, or has other numbers now. */
void keyed_set(struct keyed *h, void *item, uint64_t key, uint64_t second);
void keyed_remove(struct keyed *h, void *item);    /* in none: nothing */
bool keyed_before(const struct keyed *h, const struct keyed_entry *a,
                  const struct keyed_entry *b);
/* The first `want` in order, KEYED_FIRST at most, without taking them out: in
 * want^2 steps, however many there are.  Returns how many.
 */
enum { KEYED_FIRST = 16 };
uint32_t keyed_first(const struct keyed *h, void **ret, uint32_t want);
void keyed_free(struct keyed *h);                  /* but not the items */

/* NULL when empty. */
static inline void *keyed_top(const struct keyed *h)
{
    return h->count ? h->list[0].item : NULL;
}
