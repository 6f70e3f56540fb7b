#include "base/map.h"

#include "base/mem.h"
#include "base/random.h"
#include "base/tap.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int value[200000];

static void test_one(void)
{
    struct map *m = map_new();
    size_t pos = 0;
    char key[] = "key";

    ok(map_count(m) == 0 && !map_get(m, "key") && !map_del(m, "key") &&
       !map_next(m, &pos, NULL), "an empty map has nothing");
    ok(map_set(m, key, &value[1]) == NULL && map_get(m, "key") == &value[1],
       "what is set can be got");
    key[0] = 'K';
    ok(map_get(m, "key") == &value[1] && !map_get(m, "Key"),
       "the key was copied");
    ok(map_set(m, "key", &value[2]) == &value[1] && map_count(m) == 1 &&
       map_get(m, "key") == &value[2], "setting again gives what was there");
    ok(map_del(m, "key") == &value[2] && !map_get(m, "key") &&
       map_count(m) == 0, "so does deleting");
    ok(map_set(m, "", &value[3]) == NULL && map_get(m, "") == &value[3],
       "the empty text is a key");
    map_free(m);
    map_free(NULL);
}

static void test_kinds(void)
{
    struct map *m = map_new();
    const char *key = "unset";
    size_t pos = 0;

    (void) map_set_id(m, 0, &value[1]);
    (void) map_set_id(m, UINT64_MAX, &value[2]);
    (void) map_set(m, "\0\0\0\0\0\0\0\0", &value[3]);
    ok(map_get_id(m, 0) == &value[1] &&
       map_get_id(m, UINT64_MAX) == &value[2] && map_get(m, "") == &value[3] &&
       map_count(m) == 3,
       "a number and a text are never the same key");
    ok(map_next(m, &pos, &key) == &value[1] && key == NULL,
       "the key of a number is shown as NULL");
    ok(map_del_id(m, 0) == &value[1] && !map_get_id(m, 0), "and deleted");
    map_free(m);
}

static size_t lost_keys(const struct map *m, int from, int to, int step)
{
    size_t lost = 0;
    char key[32];

    for (int i = from; i < to; i += step) {
        (void) snprintf(key, sizeof key, "task-%d", i);
        lost += map_get(m, key) != &value[i];
    }
    return lost;
}

static void test_many(void)
{
    enum { N = 100000 };
    struct map *m = map_new();
    size_t pos = 0, wrong = 0;
    const char *name;
    char key[32];
    int *v, last = -1;

    for (int i = 0; i < N; i++) {
        (void) snprintf(key, sizeof key, "task-%d", i);
        (void) map_set(m, key, &value[i]);
    }
    ok(map_count(m) == N && lost_keys(m, 0, N, 1) == 0, "%d keys", N);
    for (int i = 0; i < N; i += 2) {
        (void) snprintf(key, sizeof key, "task-%d", i);
        wrong += map_del(m, key) != &value[i];
    }
    ok(wrong == 0 && map_count(m) == N / 2 && lost_keys(m, 1, N, 2) == 0,
       "half of them deleted");
    while ((v = map_next(m, &pos, &name)) != NULL) {
        int i = (int) (v - value);

        (void) snprintf(key, sizeof key, "task-%d", i);
        wrong += i <= last || i % 2 != 1 || strcmp(name, key) != 0;
        last = i;
    }
    ok(wrong == 0 && last == N - 1, "the rest comes in order of insertion");
    map_free(m);
}

/* Random sets and deletes against a plain array. */
static void test_model(void)
{
    enum { KEYS = 500 };
    struct map *m = map_new();
    int *model[KEYS] = { NULL };
    uint64_t seed = 1;
    size_t wrong = 0, live = 0;

    for (int i = 0; i < 200000; i++) {
        uint64_t x = random_next(&seed);
        unsigned k = (unsigned) (x % KEYS);

        if (x >> 40 & 1) {
            live += model[k] == NULL;
            wrong += map_set_id(m, k, &value[i]) != model[k];
            model[k] = &value[i];
        } else {
            live -= model[k] != NULL;
            wrong += map_del_id(m, k) != model[k];
            model[k] = NULL;
        }
        wrong += map_count(m) != live;
    }
    for (unsigned k = 0; k < KEYS; k++)
        wrong += map_get_id(m, k) != model[k];
    ok(wrong == 0, "200000 random changes agree with a plain array");
    map_free(m);
}

static void test_order(void)
{
    static const char *const names[] = { "a", "b", "c", "d", "e" };
    struct map *m = map_new();
    const char *key = NULL;
    char seen[16] = "";
    size_t pos = 0;

    for (size_t i = 0; i < array_size(names); i++)
        (void) map_set(m, names[i], &value[i]);
    (void) map_del(m, "b");
    (void) map_set(m, "a", &value[9]);
    (void) map_set(m, "f", &value[5]);
    (void) map_set(m, "b", &value[6]);
    while (map_next(m, &pos, &key))
        (void) strncat(seen, key, 1);
    ok(strcmp(seen, "acdefb") == 0, "a value set anew keeps its place, a key "
       "that was deleted goes last: %s", seen);
    ok(!map_next(m, &pos, NULL), "the end stays the end");
    map_free(m);
}

/* A queue: in at the end, out at the front.  Were a step to walk over all the
 * dead, this would take 10^10 of them.
 */
static void test_queue(void)
{
    enum { N = 200000 };
    struct map *m = map_new();
    size_t wrong = 0;

    for (int i = 0; i < N; i++)
        (void) map_set_id(m, (uint64_t) i, &value[i]);
    for (int i = 0; i < N; i++) {
        size_t pos = 0;

        wrong += map_next(m, &pos, NULL) != &value[i];
        wrong += map_del_id(m, (uint64_t) i) != &value[i];
    }
    ok(wrong == 0 && map_count(m) == 0, "a map can serve as a queue");
    map_free(m);
}

int main(void)
{
    test_one();
    test_kinds();
    test_many();
    test_model();
    test_order();
    test_queue();
    return tap_done();
}
