#include "cli/human.h"

#include "base/mem.h"
#include "base/tap.h"

#include <string.h>

static char buf[HUMAN_SIZE];

static void test_ages(void)
{
    static const struct { uint64_t ms; const char *want; } rows[] = {
        { 0, "0s" }, { 999, "0s" }, { 61000, "61s" }, { 119999, "119s" },
        { 120000, "2m" }, { 7199999, "119m" }, { 7200000, "2h" },
        { 172799999, "47h" }, { 172800000, "2d" },
        { UINT64_C(31536000000), "365d" },
    };

    for (size_t i = 0; i < array_size(rows); i++)
        ok(strcmp(human_age(rows[i].ms, buf), rows[i].want) == 0,
           "age %s", rows[i].want);
}

static void test_spans(void)
{
    static const struct { uint64_t ms; const char *want; } rows[] = {
        { 0, "0.0s" }, { 449, "0.4s" }, { 59999, "59.9s" },
        { 60000, "1m00s" }, { 62000, "1m02s" }, { 3599999, "59m59s" },
        { 3600000, "1h00m" }, { 11100000, "3h05m" }, { 86400000, "1d00h" },
        { 187200000, "2d04h" },
    };

    for (size_t i = 0; i < array_size(rows); i++)
        ok(strcmp(human_span(rows[i].ms, buf), rows[i].want) == 0,
           "span %s", rows[i].want);
}

static void test_counts(void)
{
    ok(strcmp(human_count(0, buf), "0") == 0, "count 0");
    ok(strcmp(human_count(999, buf), "999") == 0, "count 999");
    ok(strcmp(human_count(4312, buf), "4,312") == 0, "count 4,312");
    ok(strcmp(human_count(1000000, buf), "1,000,000") == 0, "a million");
    ok(strcmp(human_count(UINT64_MAX, buf), "18,446,744,073,709,551,615") == 0,
       "the largest count fits");
    ok(strcmp(human_share(0.125, buf), "12.5%") == 0, "a share");
}

static void test_spark(void)
{
    static const double v[] = { 9, 0, 1, 2, 3.5, 7 }, same[] = { 2, 2 };
    autofree char *bars = human_spark(v, 6, 5, true);
    autofree char *plain = human_spark(v, 6, 100, false);
    autofree char *flat = human_spark(same, 2, 10, true);
    autofree char *none = human_spark(v, 0, 10, true);

    ok(strcmp(bars, "▁▂▃▄█") == 0, "the last few numbers as bars (%s)", bars);
    ok(strcmp(plain, "@__.=%") == 0, "and without UTF-8 (%s)", plain);
    ok(strcmp(flat, "▁▁") == 0 && none[0] == '\0',
       "what does not move is flat, nothing is nothing");
}

static void test_bytes(void)
{
    static const struct { uint64_t bytes; const char *want; } rows[] = {
        { 0, "0" }, { 512, "512" }, { UINT64_C(80000000000), "80GB" },
        { UINT64_C(40) << 30, "40Gi" }, { 1536, "1.5Ki" },
        { UINT64_C(25163567104), "23Gi" }, { 1234567, "1.2Mi" },
    };

    for (size_t i = 0; i < array_size(rows); i++)
        ok(strcmp(human_bytes(rows[i].bytes, buf), rows[i].want) == 0,
           "%s of memory (%s)", rows[i].want, buf);
}

static void test_ends(void)
{
    char end[64];

    ok(strcmp(human_end("none", 3, end, sizeof end), "") == 0, "no cause");
    ok(strcmp(human_end("failed", 3, end, sizeof end), "exit status 3") == 0,
       "an exit status");
    ok(strcmp(human_end("signalled", -9, end, sizeof end),
              "signal 9 (Killed)") == 0, "a signal");
    ok(strcmp(human_end("timeout", -15, end, sizeof end), "timeout") == 0,
       "a cause of ours is said by its name, not by the signal it took");
}

static void test_times(void)
{
    json_t *j = json_pack("{s:s,s:s,s:i}", "at", "1970-01-01T00:00:02.500Z",
                          "bad", "yesterday", "number", 5);

    ok(human_time(j, "at") == 2500, "a time");
    ok(human_time(j, "bad") == 0 && human_time(j, "number") == 0 &&
       human_time(j, "absent") == 0, "what is no time is 0");
    json_decref(j);
}

static void test_clock(void)
{
    const uint64_t now = UINT64_C(1790000000000);    /* 21 September 2026 */
    const uint64_t year = UINT64_C(366) * 24 * 3600 * 1000;

    ok(strcmp(human_clock(0, now, buf), "") == 0, "no time is no text");
    ok(strstr(human_clock(now, now, buf), " Sep ") && !strstr(buf, "2026"),
       "this year goes without saying: %s", buf);
    ok(strstr(human_clock(now + year, now, buf), " 2027 ") &&
       strstr(human_clock(now - year, now, buf), " 2025 "),
       "another year does not: %s", buf);
}

int main(void)
{
    test_ages();
    test_spans();
    test_counts();
    test_spark();
    test_bytes();
    test_ends();
    test_times();
    test_clock();
    return tap_done();
}
