#include "plan/bed.h"

#include "base/random.h"

/* Timers of many items are set, moved and taken away at random; the first one
 * is what a look at all of them says.
 */
enum { ITEMS = 300, STEPS = 20000 };

struct set {
    struct plan_item items[ITEMS];
    uint64_t at_ms[ITEMS];             /* UINT64_MAX: none */
};

static const struct plan_item *first_of(const struct set *s)
{
    uint32_t best = 0;

    for (uint32_t k = 1; k < ITEMS; k++)
        if (s->at_ms[k] < s->at_ms[best] ||
            (s->at_ms[k] == s->at_ms[best] &&
             s->items[k].order < s->items[best].order))
            best = k;
    return s->at_ms[best] == UINT64_MAX ? NULL : &s->items[best];
}

static void set_one(struct plan *p, struct set *s, uint32_t k, uint64_t at_ms)
{
    timetable_set(p, &s->items[k], at_ms);
    s->at_ms[k] = at_ms;
}

/* Mostly as they come: after a patience, in order of time; now and then long
 * before or after that, or none, and one that runs.
 */
static void step(struct plan *p, struct set *s, uint64_t *random)
{
    uint32_t k = (uint32_t) (random_next(random) % ITEMS);
    uint64_t patience = p->policy.patience_ms, at_ms = p->now_ms + patience;
    uint64_t what = random_next(random) % 16;

    p->now_ms += random_next(random) % 3;
    if (what == 0)
        at_ms = UINT64_MAX;
    else if (what == 1)
        at_ms += random_next(random) % (10 * patience);
    else if (what == 2)
        at_ms -= random_next(random) % patience;
    else if (what == 3) {
        set_one(p, s, k, UINT64_MAX);
        s->items[k].state ^= ITEM_WAITING ^ ITEM_RUNNING;
    }
    set_one(p, s, k, at_ms);
}

static bool is_first(const struct plan *p, const struct set *s)
{
    const struct keyed_entry *e = timetable_first(&p->timetable);
    const struct plan_item *first = first_of(s);

    return e ? e->item == first &&
               e->key[0] == timetable_ms(&p->timetable, first)
             : !first;
}

/* Of those due then it says as many as it may, and no other. */
static bool says_due(const struct plan *p, const struct set *s, uint64_t now_ms)
{
    struct plan_item *list[TIMETABLE_DUE];
    uint32_t n = timetable_due(&p->timetable, now_ms, list), due = 0;
    bool right = true;

    for (uint32_t k = 0; k < ITEMS; k++)
        due += s->at_ms[k] <= now_ms;
    for (uint32_t k = 0; k < n; k++) {
        right &= s->at_ms[list[k] - s->items] <= now_ms;
        for (uint32_t m = 0; m < k; m++)
            right &= list[m] != list[k];
    }
    return right && n == (due < TIMETABLE_DUE ? due : TIMETABLE_DUE);
}

static void test_random(void)
{
    struct plan *p = plan_new();
    struct set *s = mem_new(sizeof(*s));
    uint64_t random = 7;
    uint32_t wrong = 0, listed = 0, due = 0, unsaid = 0;

    p->now_ms = UINT64_C(1) << 40;
    for (uint32_t k = 0; k < ITEMS; k++) {
        s->items[k].order = ITEMS - k;
        s->items[k].state = ITEM_WAITING;
        s->at_ms[k] = UINT64_MAX;
    }
    for (uint32_t n = 0; n < STEPS; n++) {
        step(p, s, &random);
        wrong += !is_first(p, s);
        listed += p->timetable.live > ITEMS / 8;
        unsaid += !says_due(p, s, p->now_ms + n % p->policy.patience_ms) ||
                  !says_due(p, s, p->now_ms + 2 * p->policy.patience_ms);
    }
    ok(wrong == 0, "the first is the first of all");
    ok(unsaid == 0, "and those due are said, as many as are asked for");
    ok(listed > STEPS / 2, "most stand in the list");
    ok(p->timetable.cap <= 4 * ITEMS, "which is not longer than it must be");
    for (const struct plan_item *i; (i = first_of(s)); due++) {
        wrong += !is_first(p, s);
        set_one(p, s, (uint32_t) (i - s->items), UINT64_MAX);
    }
    ok(wrong == 0 && due > ITEMS / 2 && !timetable_first(&p->timetable),
       "and all come out in order");
    plan_free(p);
    free(s);
}

static void test_apart(void)
{
    struct plan *p = plan_new();
    struct plan_item far = { .order = 1, .state = ITEM_WAITING };
    struct plan_item near = { .order = 2, .state = ITEM_WAITING };

    timetable_set(p, &far, p->now_ms + 2 * p->policy.patience_ms);
    timetable_set(p, &near, p->now_ms + p->policy.patience_ms);
    ok(far.timer_of == TIMER_WAITING && near.timer_of == TIMER_IN_ORDER,
       "one that is far off does not keep others out of the list");
    timetable_set(p, &near, p->now_ms + 1);
    ok(timetable_ms(&p->timetable, &near) == p->now_ms + 1 &&
       timetable_first(&p->timetable)->item == &near,
       "a timer moves");
    timetable_set(p, &near, UINT64_MAX);
    timetable_set(p, &near, UINT64_MAX);
    ok(timetable_ms(&p->timetable, &near) == UINT64_MAX &&
       timetable_first(&p->timetable)->item == &far, "or is taken away");
    timetable_set(p, &far, UINT64_MAX);
    plan_free(p);
}

int main(void)
{
    test_random();
    test_apart();
    return tap_done();
}
