#include "base/heap.h"

#include "base/tap.h"
#include "base/thing_test.h"

static void fill(struct heap *h, struct thing *things)
{
    for (uint32_t i = 0; i < THINGS; i++) {
        things[i] = (struct thing) { .value = thing_value(i) };
        heap_add(h, &things[i]);
    }
}

static void test_order(void)
{
    struct heap h = { .before = thing_before, .slot = thing_slot };
    struct thing things[THINGS];
    uint32_t wrong = 0;

    fill(&h, things);
    for (uint32_t want = 0; want < THINGS; want++) {
        struct thing *t = heap_top(&h);

        wrong += t->value != want;
        heap_remove(&h, t);
        wrong += t->slot != 0;
    }
    ok(wrong == 0, "things come out in order");
    ok(h.count == 0 && !heap_top(&h), "and then there are none");
    heap_free(&h);
}

static void test_middle(void)
{
    struct heap h = { .before = thing_before, .slot = thing_slot };
    struct thing things[THINGS];
    uint32_t wrong = 0;

    fill(&h, things);
    for (uint32_t i = 0; i < THINGS; i += 2)
        heap_remove(&h, &things[i]);
    heap_remove(&h, &things[0]);
    ok(h.count == THINGS / 2, "from the middle, and twice does nothing");
    for (uint32_t last = 0; h.count; ) {
        struct thing *t = heap_top(&h);

        wrong += t->value < last;
        last = t->value;
        heap_remove(&h, t);
    }
    ok(wrong == 0, "the rest keeps its order");
    heap_free(&h);
}

int main(void)
{
    test_order();
    test_middle();
    return tap_done();
}
