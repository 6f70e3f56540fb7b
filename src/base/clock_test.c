#include "base/clock.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

static const struct {
    const char *text;
    uint64_t ms;
} good[] = {
    { "1970-01-01T00:00:00Z",          0 },
    { "1970-01-01T00:00:00.001Z",      1 },
    { "2026-11-15T19:16:50.123Z",      1794770210123 },
    { "2026-11-15t19:16:50.123z",      1794770210123 },
    { "2026-11-15T20:16:50.123+01:00", 1794770210123 },
    { "2026-11-15T13:46:50.123-05:30", 1794770210123 },
    { "2026-11-15T19:16:50.1239999Z",  1794770210123 },
    { "2026-11-15T19:16:50.1Z",        1794770210100 },
    { "2024-02-29T00:00:00Z",          1709164800000 },
    { "2000-02-29T00:00:00Z",          951782400000 },
    { "1969-12-31T23:30:00-01:00",     1800000 },
    { "9999-12-31T23:59:59Z",          253402300799000 },
};

static const struct {
    const char *text;
    int code;
} bad[] = {
    { "", EINVAL },
    { "now", EINVAL },
    { "2026-11-15", EINVAL },
    { "2026-11-15T19:16Z", EINVAL },
    { "2026-11-15T19:16:50", EINVAL },
    { "2026-11-15 19:16:50Z", EINVAL },
    { "2026-11-15T19:16:50Z ", EINVAL },
    { " 2026-11-15T19:16:50Z", EINVAL },
    { "2026-11-15T19:16:50.Z", EINVAL },
    { "2026-11-15T19:16:50+0100", EINVAL },
    { "2026-11-15T19:16:50+01:0", EINVAL },
    { "2026-11-15T19:16:50+24:00", EINVAL },
    { "2026-11-15T19:16:50+00:60", EINVAL },
    { "2026-00-15T19:16:50Z", EINVAL },
    { "2026-13-15T19:16:50Z", EINVAL },
    { "2026-11-00T19:16:50Z", EINVAL },
    { "2026-11-31T19:16:50Z", EINVAL },
    { "2023-02-29T19:16:50Z", EINVAL },
    { "2100-02-29T19:16:50Z", EINVAL },
    { "2026-11-15T24:00:00Z", EINVAL },
    { "2026-11-15T19:60:00Z", EINVAL },
    { "2026-11-15T19:16:60Z", EINVAL },
    { "-026-11-15T19:16:50Z", EINVAL },
    { "1969-12-31T23:59:59Z", ERANGE },
    { "1970-01-01T00:00:00+00:01", ERANGE },
};

static void test_parse(void)
{
    for (size_t i = 0; i < array_size(good); i++) {
        uint64_t ms = 7;

        ok(clock_parse(good[i].text, &ms, NULL) == 0 && ms == good[i].ms,
           "'%s' is %llu", good[i].text, (unsigned long long) good[i].ms);
    }
    for (size_t i = 0; i < array_size(bad); i++) {
        struct err err = { 0 };
        uint64_t ms = 7;
        int rc = clock_parse(bad[i].text, &ms, &err);

        ok(rc == -bad[i].code && ms == 7 && strstr(err.text, bad[i].text),
           "'%s' is refused: %s", bad[i].text, err.text);
    }
}

static void test_print(void)
{
    char text[32], small[5];
    uint64_t ms = 0;
    unsigned wrong = 0;

    clock_print(1794770210123, text, sizeof text);
    ok(strcmp(text, "2026-11-15T19:16:50.123Z") == 0, "%s is printed", text);
    clock_print(1794770210123, small, sizeof small);
    ok(strcmp(small, "2026") == 0, "a small buffer cuts it off");
    for (uint64_t t = 0; t < 253402300800000; t += 86399999ull * 97) {
        clock_print(t, text, sizeof text);
        wrong += clock_parse(text, &ms, NULL) < 0 || ms != t;
    }
    ok(wrong == 0, "every day reads back as the same time");
    clock_print(UINT64_MAX, text, sizeof text);
    ok(strlen(text) < sizeof text, "the end of time does no harm");
}

static void test_clocks(void)
{
    uint64_t ms = clock_mono_ms(), us = clock_mono_us();

    ok(us / 1000 >= ms, "the two monotonic clocks are one");
    ok(clock_mono_us() >= us, "which does not go back");
    ok(clock_wall_ms() > 1700000000000, "the wall clock counts from 1970");
}

int main(void)
{
    test_parse();
    test_print();
    test_clocks();
    return tap_done();
}
