#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"
#include "plan/predict_int.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE };

/* ---- seeded numbers ---- */

static double uniform(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) +
            UINT64_C(1442695040888963407);
    return ((double) (*seed >> 11) + 0.5) / (double) (UINT64_C(1) << 53);
}

static uint64_t exponential(uint64_t *seed, double mean)
{
    return (uint64_t) (-mean * log(uniform(seed)));
}

static uint64_t pareto(uint64_t *seed, double least, double shape)
{
    return (uint64_t) (least / pow(uniform(seed), 1 / shape));
}

static struct predict_sig sig_of(const char *fine, const char *coarse)
{
    struct predict_sig sig = { { 0 } };

    if (fine)
        sig.key[0] = predict_key(fine, 0);
    if (coarse)
        sig.key[1] = predict_key(coarse, 1);
    return sig;
}

static void learn(struct predict *pr, const struct predict_sig *sig,
                  uint64_t run_ms, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        predict_learn(pr, sig, run_ms, run_ms, 0);
}

static bool near(double a, double b, double share)
{
    return fabs(a - b) <= share * b;
}

/* ---- sketches ---- */

static void test_buckets(void)
{
    bool inside = true, rising = true;
    uint64_t seed = 1;

    for (unsigned i = 0; i < 100000; i++) {
        uint64_t v = (uint64_t) exp(uniform(&seed) * 31);
        uint32_t b = sketch_bucket(v);

        inside &= sketch_low(b) <= v && v < sketch_low(b + 1);
    }
    for (uint32_t b = 1; b < SKETCH_BUCKETS; b++)
        rising &= sketch_low(b) > sketch_low(b - 1) &&
                  sketch_bucket(sketch_low(b)) == b &&
                  sketch_bucket(sketch_low(b) - 1) == b - 1;
    ok(inside, "a value lies in its bucket");
    ok(rising, "each bucket begins where the one before it ends");
    ok(sketch_bucket(UINT64_MAX) == SKETCH_BUCKETS - 1,
       "the largest number has the last bucket");
}

static void test_mix(void)
{
    struct sketch s = { 0 };
    struct mix m = { 0 };

    for (unsigned i = 0; i < 1000; i++)
        sketch_add(&s, (i + 1) * SECOND, 1e6F);
    mix_add(&m, &s, 1);
    mix_sum(&m);
    ok(near((double) mix_quantile(&m, 0, 0.5), 500 * SECOND, 0.05) &&
       near((double) mix_quantile(&m, 0, 0.9), 900 * SECOND, 0.05),
       "quantiles of an even spread");
    ok(near((double) mix_quantile(&m, 800 * SECOND, 0.5), 900 * SECOND, 0.05),
       "and of its upper part");
    ok(near(mix_above(&m, 750 * SECOND), 0.25, 0.1), "the share above a value");
    ok(mix_quantile(&m, UINT64_C(1) << 40, 0.5) == UINT64_C(1) << 41,
       "past everything known, as much again");
}

static void test_fade(void)
{
    struct sketch s = { 0 };
    struct mix m = { 0 };

    for (unsigned i = 0; i < 1000; i++)
        sketch_add(&s, HOUR, 64);
    for (unsigned i = 0; i < 64; i++)
        sketch_add(&s, MINUTE, 64);
    mix_add(&m, &s, 1);
    mix_sum(&m);
    ok(near((double) mix_quantile(&m, 0, 0.5), MINUTE, 0.2),
       "what came late outweighs what came long before");
    ok(s.total <= 64, "the weight of all is bounded: %g", (double) s.total);
}

/* ---- guesses ---- */

static void test_unknown(void)
{
    struct predict *pr = predict_new();
    struct predict_sig sig = sig_of("never seen", NULL);
    struct guess g;

    predict_guess(pr, &sig, 0, 0, &g);
    ok(g.seen == 0, "nothing is known");
    ok(g.low_ms < MINUTE && g.mid_ms > MINUTE && g.mid_ms < 3 * HOUR &&
       g.high_ms > 24 * HOUR, "and the range says so");
    predict_guess(pr, &sig, 30 * 24 * (uint64_t) HOUR, 0, &g);
    ok(g.low_ms >= 30 * 24 * (uint64_t) HOUR && g.mid_ms > g.low_ms &&
       g.high_ms > g.mid_ms, "also about one that has run for a month");
    predict_free(pr);
}

/* Of many ends, as many as the quantile says lie below it. */
static void test_calibration(void)
{
    static const double want[] = { 0.1, 0.5, 0.9 };
    struct predict *pr = predict_new();
    struct predict_sig sig = sig_of("train", NULL);
    struct predict_quality q;
    uint64_t seed = 7;
    double got[3];

    for (unsigned i = 0; i < 5000; i++)
        predict_learn(pr, &sig, exponential(&seed, HOUR), 0, i);
    predict_quality(pr, &q);
    got[0] = q.below_low;
    got[1] = q.below_mid;
    got[2] = q.below_high;
    for (unsigned i = 0; i < 3; i++)
        ok(fabs(got[i] - want[i]) < 0.05, "below quantile %.1f: %.3f of the "
           "ends", want[i], got[i]);
    ok(q.ends == 4999, "all but the first end could be compared");
    ok(q.error > 0.3 && q.error < 1, "the error is that of a spread: %.2f",
       q.error);
    predict_free(pr);
}

static void test_back_off(void)
{
    struct predict *pr = predict_new();
    struct predict_sig shrt = sig_of("prep --fast", "prep");
    struct predict_sig other = sig_of("prep --slow", "prep");
    struct predict_sig alien = sig_of("else", "else");
    struct guess g;

    learn(pr, &shrt, MINUTE, 50);
    predict_guess(pr, &other, 0, 0, &g);
    ok(g.seen == 50 && near((double) g.mid_ms, MINUTE, 0.2),
       "an unseen key leans on the coarser one");
    predict_guess(pr, &alien, 0, 0, &g);
    ok(near((double) g.mid_ms, MINUTE, 0.2), "and last on anything at all");
    learn(pr, &other, 10 * HOUR, 1);
    predict_guess(pr, &other, 0, 0, &g);
    ok(g.seen == 1 && g.low_ms < 2 * MINUTE && g.high_ms > 9 * HOUR,
       "one end of its own counts, and does not hide the rest");
    learn(pr, &other, 10 * HOUR, 30);
    predict_guess(pr, &other, 0, 0, &g);
    ok(g.low_ms > 8 * HOUR, "many do");
    predict_guess(pr, &shrt, 0, 0, &g);
    ok(near((double) g.mid_ms, MINUTE, 0.2), "the other key stays as it was");
    predict_free(pr);
}

static void test_age(void)
{
    struct predict *pr = predict_new();
    struct predict_sig sig = sig_of("both", NULL);
    struct guess g;

    for (unsigned i = 0; i < 60; i++)
        learn(pr, &sig, i % 3 ? MINUTE : 5 * HOUR, 1);
    predict_guess(pr, &sig, 0, 0, &g);
    ok(near((double) g.mid_ms, MINUTE, 0.2), "most are short");
    predict_guess(pr, &sig, 10 * MINUTE, 0, &g);
    ok(near((double) g.mid_ms, 5 * HOUR, 0.2), "one that has run for ten "
       "minutes is one of the long");
    predict_guess(pr, &sig, 100 * (uint64_t) HOUR, 0, &g);
    ok(g.mid_ms > 100 * (uint64_t) HOUR, "never less than it has run already");
    predict_free(pr);
}

static void test_progress(void)
{
    struct predict *pr = predict_new();
    struct predict_sig sig = sig_of("train", NULL);
    struct guess none, some, most;
    uint64_t seed = 3;

    for (unsigned i = 0; i < 200; i++)
        learn(pr, &sig, pareto(&seed, MINUTE, 1), 1);
    predict_guess(pr, &sig, HOUR, 0, &none);
    predict_guess(pr, &sig, HOUR, 0.2, &some);
    predict_guess(pr, &sig, HOUR, 0.8, &most);
    ok(some.high_ms - some.low_ms < none.high_ms - none.low_ms &&
       most.high_ms - most.low_ms < some.high_ms - some.low_ms,
       "what it says of itself narrows the range");
    ok(near((double) most.mid_ms, 1.25 * HOUR, 0.02),
       "and is believed in the end: %.2f h", (double) most.mid_ms / HOUR);
    ok(predict_quantile(pr, &sig, HOUR, 1, 0.9) == HOUR, "done is done");
    predict_free(pr);
}

/* ---- levels ---- */

static void test_level_tail(void)
{
    struct predict *pr = predict_new();
    struct predict_sig sig = sig_of(NULL, NULL);
    uint64_t seed = 5, until = 0;
    uint32_t most = 0, changes = 0;
    bool falls = false;

    for (unsigned i = 0; i < 2000; i++)
        learn(pr, &sig, pareto(&seed, MINUTE, 0.8), 1);
    for (uint64_t work = 0; until != UINT64_MAX && changes < 100;
         work = until, changes++) {
        uint32_t level = predict_level(pr, &sig, work, &until);

        falls |= level + PREDICT_GIVE_WAY <= most || until <= work;
        most = level > most ? level : most;
    }
    ok(changes < 100 && !falls, "a heavy tail: who has had more does not "
       "come sooner by a turn");
    ok(most > predict_level(pr, &sig, 0, NULL) + 2 * PREDICT_GIVE_WAY,
       "and comes much later in the end");
    predict_free(pr);
}

static void test_level_regular(void)
{
    struct predict *pr = predict_new();
    struct predict_sig quick = sig_of("quick", NULL);
    struct predict_sig slow = sig_of("slow", NULL);
    uint64_t until;

    for (unsigned i = 0; i < 50; i++) {
        learn(pr, &quick, MINUTE, 1);
        learn(pr, &slow, 20 * HOUR, 1);
    }
    ok(predict_level(pr, &quick, 0, NULL) < predict_level(pr, &slow, 0, NULL),
       "a sort that is quick goes before one that is slow");
    ok(predict_level(pr, &slow, 19 * HOUR, NULL) + PREDICT_GIVE_WAY <=
       predict_level(pr, &slow, HOUR, NULL),
       "one near its end comes before one at its beginning");
    ok(predict_level(pr, &quick, 10 * HOUR, NULL) >
       predict_level(pr, &quick, 0, &until),
       "one that has outlived its kind falls back");
    ok(until != UINT64_MAX, "and it is said when");
    predict_free(pr);
}

static void test_level_unknown(void)
{
    struct predict *pr = predict_new();
    struct predict_sig sig = sig_of("any", NULL);
    uint64_t until;

    ok(predict_level(pr, &sig, 0, &until) == 0 && until < UINT64_MAX,
       "who knows nothing begins in front");
    ok(predict_level(pr, &sig, HOUR, NULL) > predict_level(pr, &sig, MINUTE,
                                                           NULL),
       "and falls back by what he had");
    predict_free(pr);
}

/* ---- rows ---- */

struct rows {
    char key[3 * PREDICT_KEYS_KEPT][20];
    json_t *body[3 * PREDICT_KEYS_KEPT];
    size_t count, fail_at;
};

static int keep_row(const char *key, const json_t *body, void *arg)
{
    struct rows *r = arg;

    if (r->fail_at && r->count + 1 == r->fail_at)
        return -EIO;
    (void) snprintf(r->key[r->count], sizeof r->key[0], "%s", key);
    r->body[r->count++] = body ? json_deep_copy(body) : NULL;
    return 0;
}

static void rows_free(struct rows *r)
{
    for (size_t i = 0; i < r->count; i++)
        json_decref(r->body[i]);
    free(r);
}

/* As the store does: what was written is text in between. */
static int load_row(struct predict *pr, const char *key, const json_t *body)
{
    autofree char *text = json_text(body);
    autojson json_t *read = NULL;
    struct err err = { 0 };
    int rc = json_read(text, strlen(text), 1 << 20, &read, &err);

    return rc < 0 ? rc : predict_load(pr, key, read, &err);
}

static bool equal(double a, double b)
{
    return a >= b && a <= b;
}

static bool sketch_equal(const struct sketch *a, const struct sketch *b)
{
    bool same = a->first == b->first && a->end == b->end;

    for (uint32_t i = 0; i < SKETCH_BUCKETS; i++)
        same &= equal((double) a->weight[i], (double) b->weight[i]);
    return same;
}

static bool known_equal(const struct known *a, const struct known *b)
{
    return a && b && a->key == b->key && a->turn == b->turn &&
           a->seen == b->seen && a->ranked <= a->seen &&
           sketch_equal(&a->run, &b->run) &&
           sketch_equal(&a->work, &b->work) &&
           memcmp(a->level, b->level, sizeof a->level) == 0;
}

static struct predict *learned(unsigned ends, uint64_t seed)
{
    struct predict *pr = predict_new();
    char name[32];

    for (unsigned i = 0; i < ends; i++) {
        uint64_t run = pareto(&seed, SECOND, 0.7);
        struct predict_sig sig;

        (void) snprintf(name, sizeof name, "task %u",
                        (unsigned) (uniform(&seed) * 20));
        sig = sig_of(name, "all tasks");
        predict_learn(pr, &sig, run, 4 * run, i * 1000);
    }
    return pr;
}

static void test_rows(void)
{
    struct predict *pr = learned(777, 11), *copy = predict_new();
    struct rows *r = mem_new(sizeof *r), *again = mem_new(sizeof *again);
    struct predict_sig sig = sig_of("task 3", "all tasks");
    struct predict_quality a, b;
    bool same = true;
    int rc = 0;

    ok(predict_rows(pr, keep_row, r) == 0 && r->count == 23,
       "a row for each of 20 keys, the coarse one, all, and quality: %zu",
       r->count);
    ok(predict_rows(pr, keep_row, again) == 0 && again->count == 0,
       "nothing changed, nothing to write");
    for (size_t i = r->count; i-- > 0;)
        rc |= load_row(copy, r->key[i], r->body[i]);
    ok(rc == 0, "they can be read, in any order");
    for (size_t i = 0; i < r->count; i++) {
        uint64_t key = strtoull(r->key[i], NULL, 16);

        if (key && strcmp(r->key[i], "quality") != 0)
            same &= known_equal(predict_find(pr, key),
                                predict_find(copy, key));
    }
    ok(same && known_equal(&pr->all, &copy->all), "and are the same, bit by "
       "bit");
    predict_quality(pr, &a);
    predict_quality(copy, &b);
    ok(a.ends == b.ends && equal(a.below_low, b.below_low) &&
       equal(a.below_mid, b.below_mid) && equal(a.below_high, b.below_high) &&
       equal(a.error, b.error), "the quality, too");
    learn(pr, &sig, MINUTE, 20);
    learn(copy, &sig, MINUTE, 20);
    ok(known_equal(&pr->all, &copy->all), "what is learned then is the same");
    rows_free(r);
    rows_free(again);
    predict_free(pr);
    predict_free(copy);
}

static void test_rows_fail(void)
{
    struct predict *pr = learned(100, 2);
    struct rows *r = mem_new(sizeof *r);
    size_t first;

    r->fail_at = 5;
    ok(predict_rows(pr, keep_row, r) == -EIO, "a store that fails is heard");
    first = r->count;
    r->fail_at = 0;
    ok(predict_rows(pr, keep_row, r) == 0 && first == 4 && r->count == 23,
       "and gets the others later, each once");
    rows_free(r);
    predict_free(pr);
}

static void test_bounds(void)
{
    struct predict *pr = predict_new();
    struct rows *r = mem_new(sizeof *r);
    struct predict_sig kept = sig_of("kept", NULL);
    struct predict_sig lost = sig_of("lost", NULL);
    size_t gone = 0;

    learn(pr, &lost, MINUTE, 1);
    learn(pr, &kept, MINUTE, 1);
    ok(predict_rows(pr, keep_row, r) == 0, "written");
    for (unsigned i = 0; i < PREDICT_KEYS_KEPT + 100; i++) {
        struct predict_sig sig = { { i + 1 } };

        learn(pr, &sig, MINUTE, 1);
        if (i % 1000 == 0)
            learn(pr, &kept, MINUTE, 1);
    }
    ok(predict_find(pr, kept.key[0]) && !predict_find(pr, lost.key[0]),
       "the key unseen for longest goes first");
    ok(pr->oldest.count == PREDICT_KEYS_KEPT, "no more than so many stay");
    for (size_t i = 0; i < r->count; i++)
        json_decref(r->body[i]);
    r->count = 0;
    ok(predict_rows(pr, keep_row, r) == 0, "written again");
    for (size_t i = 0; i < r->count; i++)
        gone += !r->body[i];
    ok(gone == 1, "one row is deleted: those that were never written need not "
       "be");
    rows_free(r);
    predict_free(pr);
}

static void test_load_bad(void)
{
    static const struct {
        const char *key, *body, *says;
    } bad[] = {
        { "xyz", "{}", "16 hexadecimal digits" },
        { "0000000000000001", "{}", "run" },
        { "0000000000000001", "[]", "run" },
        { "0000000000000001", "{\"run\":[1]}", "run" },
        { "0000000000000001", "{\"run\":[160,1],\"work\":[]}",
          "bucket" },
        { "0000000000000001", "{\"run\":[1,-1],\"work\":[]}",
          "weight" },
        { "0000000000000001", "{\"run\":[],\"work\":[],"
          "\"seen\":1}", "seen" },
        { "0000000000000001", "{\"run\":[1,1],\"work\":[],"
          "\"seen\":1,\"level\":[99,160]}", "level" },
        { "0000000000000001", "{\"run\":[1,1],\"work\":[],"
          "\"seen\":1,\"level\":[1,159]}", "level" },
        { "0000000000000001", "{\"run\":[1,1],\"work\":[],"
          "\"seen\":1,\"turn\":9223372036854775807}", "turn" },
        { "quality", "{\"weight\":1,\"low\":1,\"mid\":1,\"high\":1,"
          "\"ends\":2,\"error\":[]}", "error" },
    };

    for (size_t i = 0; i < array_size(bad); i++) {
        struct predict *pr = predict_new();
        autojson json_t *body = json_loads(bad[i].body, 0, NULL);
        struct err err = { 0 };
        int rc = predict_load(pr, bad[i].key, body, &err);

        ok(rc == -EINVAL && strstr(err.text, bad[i].says) &&
           pr->oldest.count == 0, "refused: %s", err.text);
        predict_free(pr);
    }
}

static void test_same(void)
{
    struct predict *a = learned(500, 4), *b = learned(500, 4);

    ok(known_equal(&a->all, &b->all), "the same ends teach the same");
    ok(predict_key("a", 0) != predict_key("b", 0) &&
       predict_key("a", 0) != predict_key("a", 1) && predict_key("", 0) != 0,
       "keys differ by text and seed");
    predict_free(a);
    predict_free(b);
}

int main(void)
{
    test_buckets();
    test_mix();
    test_fade();
    test_unknown();
    test_calibration();
    test_back_off();
    test_age();
    test_progress();
    test_level_tail();
    test_level_regular();
    test_level_unknown();
    test_rows();
    test_rows_fail();
    test_bounds();
    test_load_bad();
    test_same();
    return tap_done();
}
