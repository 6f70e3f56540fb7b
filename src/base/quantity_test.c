#include "base/quantity.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

#define KI 1024ull
#define BIG 9223372036854775807ull

typedef int (*read_f)(const char *s, uint64_t *ret, struct err *err);

struct good {
    read_f read;
    const char *text;
    uint64_t value;
};

struct bad {
    read_f read;
    const char *text;
    int code;
};

static const struct good good[] = {
    { quantity_bytes, "0", 0 },
    { quantity_bytes, "512", 512 },
    { quantity_bytes, "512Ki", 512 * KI },
    { quantity_bytes, "512KiB", 512 * KI },
    { quantity_bytes, "3Mi", 3 * KI * KI },
    { quantity_bytes, "40Gi", 40 * KI * KI * KI },
    { quantity_bytes, "40GiB", 40 * KI * KI * KI },
    { quantity_bytes, "40GB", 40000000000 },
    { quantity_bytes, "7kB", 7000 },
    { quantity_bytes, "2MB", 2000000 },
    { quantity_bytes, "2TB", 2000000000000 },
    { quantity_bytes, "2Ti", 2 * KI * KI * KI * KI },
    { quantity_bytes, "2PB", 2000000000000000 },
    { quantity_bytes, "2Pi", 2 * KI * KI * KI * KI * KI },
    { quantity_bytes, "1.5Gi", 3 * KI * KI * KI / 2 },
    { quantity_bytes, "1.500Gi", 3 * KI * KI * KI / 2 },
    { quantity_bytes, "0.001kB", 1 },
    { quantity_bytes, "0.001Ki", 1 },
    { quantity_bytes, "007", 7 },
    { quantity_bytes, "9223372036854775807", BIG },
    { quantity_bytes, "8191.999Pi", 8191 * KI * KI * KI * KI * KI
                                    + 999 * KI * KI * KI * KI * KI / 1000 },
    { quantity_duration, "0", 0 },
    { quantity_duration, "90", 90000 },
    { quantity_duration, "90s", 90000 },
    { quantity_duration, "500ms", 500 },
    { quantity_duration, "5m", 300000 },
    { quantity_duration, "2h", 7200000 },
    { quantity_duration, "1d", 86400000 },
    { quantity_duration, "1w", 604800000 },
    { quantity_duration, "1h30m", 5400000 },
    { quantity_duration, "1w1d1h1m1s1ms", 694861001 },
    { quantity_duration, "1m500ms", 60500 },
    { quantity_duration, "90m", 5400000 },
    { quantity_duration, "9223372036854775807ms", BIG },
    { quantity_count, "0", 0 },
    { quantity_count, "42", 42 },
    { quantity_count, "9223372036854775807", BIG },
    { quantity_milli, "0.25", 250 },
    { quantity_milli, "1", 1000 },
    { quantity_milli, "0", 0 },
    { quantity_milli, "2.5", 2500 },
    { quantity_milli, "0.001", 1 },
    { quantity_milli, "9223372036854775.807", BIG },
};

static const struct bad bad[] = {
    { quantity_bytes, "", EINVAL },
    { quantity_bytes, " 5", EINVAL },
    { quantity_bytes, "5 ", EINVAL },
    { quantity_bytes, "5 Gi", EINVAL },
    { quantity_bytes, "-5", EINVAL },
    { quantity_bytes, "+5", EINVAL },
    { quantity_bytes, "Gi", EINVAL },
    { quantity_bytes, "5G", EINVAL },
    { quantity_bytes, "5g", EINVAL },
    { quantity_bytes, "5gib", EINVAL },
    { quantity_bytes, "5KB", EINVAL },
    { quantity_bytes, "5Gix", EINVAL },
    { quantity_bytes, "1e9", EINVAL },
    { quantity_bytes, "0x10", EINVAL },
    { quantity_bytes, "1.5", EINVAL },
    { quantity_bytes, "1.0", EINVAL },
    { quantity_bytes, "1.", EINVAL },
    { quantity_bytes, ".5Gi", EINVAL },
    { quantity_bytes, "1.Gi", EINVAL },
    { quantity_bytes, "1.2345Gi", EINVAL },
    { quantity_bytes, "1,5Gi", EINVAL },
    { quantity_bytes, "1.5.5Gi", EINVAL },
    { quantity_bytes, "unlimited", EINVAL },
    { quantity_bytes, "9223372036854775808", ERANGE },
    { quantity_bytes, "18446744073709551616", ERANGE },
    { quantity_bytes, "99999999999999999999999999", ERANGE },
    { quantity_bytes, "8192Pi", ERANGE },
    { quantity_bytes, "18014398509481984Ki", ERANGE },
    { quantity_duration, "", EINVAL },
    { quantity_duration, "s", EINVAL },
    { quantity_duration, "1h30", EINVAL },
    { quantity_duration, "30m1h", EINVAL },
    { quantity_duration, "1h1h", EINVAL },
    { quantity_duration, "1.5h", EINVAL },
    { quantity_duration, "1y", EINVAL },
    { quantity_duration, "1M", EINVAL },
    { quantity_duration, "1mss", EINVAL },
    { quantity_duration, "-1s", EINVAL },
    { quantity_duration, "1 h", EINVAL },
    { quantity_duration, "1h ", EINVAL },
    { quantity_duration, "1hm", EINVAL },
    { quantity_duration, "9223372036854775807", ERANGE },
    { quantity_duration, "15250284453w", ERANGE },
    { quantity_duration, "15250284452w6d", ERANGE },
    { quantity_count, "", EINVAL },
    { quantity_count, "1.0", EINVAL },
    { quantity_count, "1k", EINVAL },
    { quantity_count, "-1", EINVAL },
    { quantity_count, "9223372036854775808", ERANGE },
    { quantity_milli, "", EINVAL },
    { quantity_milli, ".5", EINVAL },
    { quantity_milli, "1.", EINVAL },
    { quantity_milli, "0.0001", EINVAL },
    { quantity_milli, "1.5x", EINVAL },
    { quantity_milli, "-0.5", EINVAL },
    { quantity_milli, "9223372036854775.808", ERANGE },
};

static void test_read(void)
{
    for (size_t i = 0; i < array_size(good); i++) {
        struct err err = { 0 };
        uint64_t v = 77;
        int rc = good[i].read(good[i].text, &v, &err);

        ok(rc == 0 && v == good[i].value && !err.text[0], "'%s' is %llu %s",
           good[i].text, (unsigned long long) good[i].value, err.text);
    }
    for (size_t i = 0; i < array_size(bad); i++) {
        struct err err = { 0 };
        uint64_t v = 77;
        int rc = bad[i].read(bad[i].text, &v, &err);

        ok(rc == -bad[i].code && err.code == bad[i].code && v == 77 &&
           strstr(err.text, bad[i].text), "'%s' is refused: %s", bad[i].text,
           err.text);
    }
}

static void test_names_value_cut(void)
{
    struct err err = { 0 };
    char text[1000];
    uint64_t v;

    memset(text, '9', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ok(quantity_bytes(text, &v, &err) == -ERANGE && strlen(err.text) < 100,
       "a very long number is not repeated whole");
}

typedef void (*print_f)(uint64_t v, char *buf, unsigned size);

static const struct {
    print_f print;
    uint64_t value;
    const char *text;
} printed[] = {
    { quantity_print_bytes, 0, "0" },
    { quantity_print_bytes, 1, "1" },
    { quantity_print_bytes, 512, "512" },
    { quantity_print_bytes, 1024, "1Ki" },
    { quantity_print_bytes, 1000, "1kB" },
    { quantity_print_bytes, 1025, "1025" },
    { quantity_print_bytes, 40 * KI * KI * KI, "40Gi" },
    { quantity_print_bytes, 3 * KI * KI * KI / 2, "1.5Gi" },
    { quantity_print_bytes, 1395864371, "1.3Gi" },
    { quantity_print_bytes, 80000000000, "80GB" },
    { quantity_print_bytes, 1234567, "1234567" },
    { quantity_print_bytes, BIG, "9223372036854775807" },
    { quantity_print_duration, 0, "0s" },
    { quantity_print_duration, 1, "1ms" },
    { quantity_print_duration, 500, "500ms" },
    { quantity_print_duration, 90000, "90s" },
    { quantity_print_duration, 60000, "1m" },
    { quantity_print_duration, 3600000, "1h" },
    { quantity_print_duration, 5400000, "90m" },
    { quantity_print_duration, 86400000, "1d" },
    { quantity_print_duration, 604800000, "1w" },
    { quantity_print_duration, 3661001, "61m1s1ms" },
    { quantity_print_milli, 0, "0" },
    { quantity_print_milli, 250, "0.25" },
    { quantity_print_milli, 1000, "1" },
    { quantity_print_milli, 1005, "1.005" },
    { quantity_print_milli, 1050, "1.05" },
    { quantity_print_milli, 1500, "1.5" },
    { quantity_print_milli, BIG, "9223372036854775.807" },
};

static void test_print(void)
{
    char text[32], small[3];

    for (size_t i = 0; i < array_size(printed); i++) {
        printed[i].print(printed[i].value, text, sizeof text);
        ok(strcmp(text, printed[i].text) == 0, "%llu is printed as '%s': '%s'",
           (unsigned long long) printed[i].value, printed[i].text, text);
    }
    quantity_print_bytes(123456, small, sizeof small);
    ok(strcmp(small, "12") == 0, "a small buffer cuts it off");
}

/* Values of every size, from a fixed seed. */
static uint64_t any(uint64_t *seed)
{
    uint64_t v = random_next(seed);

    return (v & INT64_MAX) >> (v >> 57 & 63);
}

static void test_round(const char *what, read_f read, print_f print,
                       uint64_t step)
{
    uint64_t seed = 1, back = 0;
    unsigned wrong = 0;
    char text[32];

    for (int i = 0; i < 20000; i++) {
        uint64_t v = any(&seed);

        if (i % 2)
            v -= v % step;
        print(v, text, sizeof text);
        wrong += read(text, &back, NULL) < 0 || back != v;
    }
    ok(wrong == 0, "20000 values of %s read back as the same", what);
}

int main(void)
{
    test_read();
    test_names_value_cut();
    test_print();
    test_round("bytes", quantity_bytes, quantity_print_bytes, KI * KI);
    test_round("durations", quantity_duration, quantity_print_duration, 60000);
    test_round("thousandths", quantity_milli, quantity_print_milli, 10);
    return tap_done();
}
