#include "base/near.h"

#include "base/mem.h"
#include "base/tap.h"

#include <string.h>

static const char *const verbs[] = {
    "up", "run", "ps", "show", "logs", "why", "abort", "retry", "pause",
    "unpause", "events", "timeout",
};

static const struct {
    const char *word;
    const char *best;        /* NULL: none is near */
} cases[] = {
    { "run", "run" },
    { "rnu", "run" },
    { "rn", "run" },
    { "runs", "run" },
    { "ran", "run" },
    { "RUN", "run" },
    { "abrot", "abort" },
    { "log", "logs" },
    { "paus", "pause" },
    { "unpuase", "unpause" },
    { "timeuot", "timeout" },
    { "time-out", "timeout" },
    { "tmot", NULL },
    { "xyz", NULL },
    { "z", NULL },
    { "", NULL },
    { "completely-else", NULL },
};

static const char *nearest(const char *word)
{
    struct near n;

    near_init(&n, word);
    for (size_t i = 0; i < array_size(verbs); i++)
        near_try(&n, verbs[i]);
    return n.best;
}

static void test_long(void)
{
    char word[200];
    struct near n;

    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    near_init(&n, word);
    near_try(&n, word);
    ok(!n.best, "words beyond reason are not compared");
    word[64] = '\0';
    near_init(&n, word);
    near_try(&n, word);
    ok(n.best && n.distance == 0, "the longest that is");
    near_try(&n, word + 1);
    ok(n.best == word, "a worse one does not replace a better one");
}

int main(void)
{
    for (size_t i = 0; i < array_size(cases); i++) {
        const char *best = nearest(cases[i].word);
        const char *want = cases[i].best ? cases[i].best : "(none)";

        ok(strcmp(best ? best : "(none)", want) == 0, "'%s': %s",
           cases[i].word, want);
    }
    test_long();
    return tap_done();
}
