#include "base/keyed.h"

#include "base/tap.h"
#include "base/thing_test.h"

/* By the first number, by the second where that is not enough, and by the
 * things themselves.
 */
static void fill(struct keyed *h, struct thing *things)
{
    for (uint32_t i = 0; i < THINGS; i++) {
        things[i] = (struct thing) { .value = thing_value(i) };
        keyed_set(h, &things[i], things[i].value / 100,
                  things[i].value / 10 % 10);
    }
}

/* Takes out all; how many were not in order? */
static uint32_t drain(struct keyed *h)
{
    uint32_t wrong = 0, last = 0;

    while (h->count > 0) {
        struct thing *t = keyed_top(h);

        wrong += t->value < last;
        last = t->value;
        keyed_remove(h, t);
        wrong += t->slot != 0;
    }
    return wrong;
}

static void test_order(void)
{
    struct keyed h = {
        .before = thing_before, .slot = offsetof(struct thing, slot),
    };
    struct thing things[THINGS];

    fill(&h, things);
    ok(h.count == THINGS && drain(&h) == 0, "things come out in order");
    ok(!keyed_top(&h), "and then there are none");
    keyed_free(&h);
}

static void test_middle(void)
{
    struct keyed h = {
        .before = thing_before, .slot = offsetof(struct thing, slot),
    };
    struct thing things[THINGS];

    fill(&h, things);
    for (uint32_t i = 0; i < THINGS; i += 2)
        keyed_remove(&h, &things[i]);
    keyed_remove(&h, &things[0]);
    ok(h.count == THINGS / 2, "from the middle, and twice does nothing");
    ok(drain(&h) == 0, "the rest keeps its order");
    keyed_free(&h);
}

static void test_first(void)
{
    struct keyed h = {
        .before = thing_before, .slot = offsetof(struct thing, slot),
    };
    struct thing things[THINGS];
    void *list[KEYED_FIRST];
    uint32_t n, wrong = 0;

    ok(keyed_first(&h, list, KEYED_FIRST) == 0, "the first of none");
    fill(&h, things);
    n = keyed_first(&h, list, KEYED_FIRST);
    for (uint32_t i = 0; i < n; i++) {
        wrong += keyed_top(&h) != list[i];
        keyed_remove(&h, list[i]);
    }
    ok(n == KEYED_FIRST && wrong == 0, "the first come as they come out");
    while (h.count > 2)
        keyed_remove(&h, keyed_top(&h));
    ok(keyed_first(&h, list, KEYED_FIRST) == 2, "no more than there are");
    ok(keyed_first(&h, list, 1) == 1 && list[0] == keyed_top(&h),
       "nor than are wanted");
    ok(h.count == 2, "and they stay");
    keyed_free(&h);
}

static void test_change(void)
{
    struct keyed h = { .slot = offsetof(struct thing, slot) };
    struct thing things[THINGS];

    for (uint32_t i = 0; i < THINGS; i++) {
        things[i] = (struct thing) { .value = thing_value(i) };
        keyed_set(&h, &things[i], THINGS - things[i].value, 0);
    }
    for (uint32_t i = 0; i < THINGS; i++)
        keyed_set(&h, &things[i], 7, things[i].value);
    ok(h.count == THINGS && drain(&h) == 0, "what changes finds its place");
    keyed_free(&h);
}

int main(void)
{
    test_order();
    test_middle();
    test_first();
    test_change();
    return tap_done();
}
