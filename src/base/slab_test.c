#include "base/slab.h"

#include "base/mem.h"
#include "base/random.h"
#include "base/tap.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { THINGS = 60000, SIZE = 100 };   /* more than a huge page full */

struct thing {
    uint32_t number;
    unsigned char rest[SIZE - sizeof(uint32_t)];
};

static bool is_new(const struct thing *t)
{
    static const struct thing none;

    return memcmp(t, &none, sizeof none) == 0;
}

static struct thing *get(struct slab *s, uint32_t number, uint32_t *wrong)
{
    struct thing *t = slab_get(s);

    *wrong += !is_new(t) || (uintptr_t) t % _Alignof(max_align_t) != 0;
    memset(t, 0xff, sizeof *t);
    t->number = number;
    return t;
}

static void test_many(void)
{
    struct slab s = { .size = sizeof(struct thing) };
    struct thing **things = calloc(THINGS, sizeof *things);
    uint64_t random = 1;
    uint32_t wrong = 0;

    if (!things)
        return;
    for (uint32_t i = 0; i < THINGS; i++)
        things[i] = get(&s, i, &wrong);
    for (uint32_t n = 0; n < 2 * THINGS; n++) {
        uint32_t i = (uint32_t) (random_next(&random) % THINGS);

        wrong += things[i]->number != i;
        slab_put(&s, things[i]);
        things[i] = get(&s, i, &wrong);
    }
    ok(wrong == 0, "each is zeroed, aligned and nobody else's");
    for (uint32_t i = 0; i < THINGS; i++) {
        wrong += things[i]->number != i;
        slab_put(&s, things[i]);
    }
    ok(wrong == 0, "and is left alone");
    slab_free(&s);
    slab_put(&s, get(&s, 1, &wrong));
    ok(wrong == 0, "an empty one is begun again");
    slab_put(&s, NULL);
    slab_free(&s);
    free(things);
}

static void test_again(void)
{
    struct slab s = { .size = 1 };
    void *first = slab_get(&s), *second = slab_get(&s);
    size_t bytes = s.bytes;

    ok(first != second, "things smaller than a link are apart, too");
    for (uint32_t i = 0; i < THINGS; i++) {
        slab_put(&s, second);
        second = slab_get(&s);
    }
    ok(s.bytes == bytes, "what was put back is given out again");
    slab_put(&s, first);
    slab_put(&s, second);
    slab_free(&s);
}

static void test_lines(void)
{
    struct slab s = { .size = 3 * MEM_LINE };
    void **things = calloc(THINGS, sizeof *things);
    uint32_t wrong = 0;

    if (!things)
        return;
    for (uint32_t i = 0; i < THINGS; i++) {
        things[i] = slab_get(&s);
        wrong += (uintptr_t) things[i] % MEM_LINE != 0;
    }
    ok(wrong == 0, "lines of the cache are lines of the cache");
    for (uint32_t i = 0; i < THINGS; i++)
        slab_put(&s, things[i]);
    slab_free(&s);
    free(things);
}

int main(void)
{
    test_many();
    test_lines();
    test_again();
    return tap_done();
}
