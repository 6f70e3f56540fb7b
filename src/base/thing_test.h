#pragma once

#include <stdbool.h>
#include <stdint.h>

/* thing - what the tests of heap and keyed put in and take out. */
enum { THINGS = 500 };

struct thing {
    uint32_t value, slot;
};

/* All values are different, and in no order. */
static inline uint32_t thing_value(uint32_t i)
{
    return i * 7919 % THINGS;
}

static inline bool thing_before(const void *a, const void *b)
{
    return ((const struct thing *) a)->value <
           ((const struct thing *) b)->value;
}

static inline uint32_t *thing_slot(void *item)
{
    return &((struct thing *) item)->slot;
}
