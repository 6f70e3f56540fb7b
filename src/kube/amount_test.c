#include "kube/amount.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

#define GI (1024ull * 1024 * 1024)
#define BIG 9223372036854775807ull

static const struct {
    const char *text;
    uint64_t whole, milli;
} good[] = {
    { "0", 0, 0 },
    { "-0", 0, 0 },
    { "1", 1, 1000 },
    { "+1", 1, 1000 },
    { "1500m", 2, 1500 },
    { "1m", 1, 1 },
    { "100u", 1, 1 },
    { "1n", 1, 1 },
    { "1000000n", 1, 1 },
    { "1000001n", 1, 2 },
    { "0.5", 1, 500 },
    { ".5", 1, 500 },
    { "5.", 5, 5000 },
    { "0.0001", 1, 1 },
    { ".5k", 500, 500000 },
    { "2Ki", 2048, 2048000 },
    { "1.5Gi", 3 * GI / 2, 1500 * GI },
    { "0.1Ki", 103, 102400 },
    { "64Gi", 64 * GI, 64000 * GI },
    { "1e3", 1000, 1000000 },
    { "1E3", 1000, 1000000 },
    { "1e+3", 1000, 1000000 },
    { "1500e-3", 2, 1500 },
    { "1E", 1000000000000000000ull, BIG },
    { "12e6", 12000000, 12000000000ull },
    { "5M", 5000000, 5000000000ull },
    { "7G", 7000000000ull, 7000000000000ull },
    { "3T", 3000000000000ull, 3000000000000000ull },
    { "3P", 3000000000000000ull, 3000000000000000000ull },
    { "1Mi", 1048576, 1048576000 },
    { "1Ti", 1024 * GI, 1024000 * GI },
    { "1Pi", 1048576 * GI, 1048576 * GI * 1000 },
    { "4Ei", 4 * GI * GI, BIG },
    { "9223372036854775807", BIG, BIG },
    { "9223372036854775808", BIG, BIG },
    { "99999999999999999999999999", BIG, BIG },
    { "99999999999999999999999999Ei", BIG, BIG },
    { "1e999999999999", BIG, BIG },
    { "1e-999999999999", 1, 1 },
    { "0e999", 0, 0 },
    { "0.00000000000000000000000000001", 1, 1 },
    { "0.00000000000000000000000000000", 0, 0 },
    { "3.000000000000000000000000000001", 4, 3001 },
    { "16777216Ki", 16 * GI, 16000 * GI },
    { "007", 7, 7000 },
};

static const struct {
    const char *text;
    int code;
} bad[] = {
    { "", EINVAL }, { "m", EINVAL }, { ".", EINVAL }, { "Ki", EINVAL },
    { "1 ", EINVAL }, { " 1", EINVAL }, { "1K", EINVAL }, { "1KI", EINVAL },
    { "1ki", EINVAL }, { "1mi", EINVAL }, { "1e", EINVAL }, { "1e+", EINVAL },
    { "1e1.5", EINVAL }, { "1e3k", EINVAL }, { "1.2.3", EINVAL },
    { "--1", EINVAL }, { "0x10", EINVAL }, { "1,5", EINVAL }, { "nan", EINVAL },
    { "1Gib", EINVAL }, { "1GB", EINVAL }, { "-1", ERANGE },
    { "-0.0000000001", ERANGE }, { "-1Gi", ERANGE },
};

int main(void)
{
    for (size_t i = 0; i < array_size(good); i++) {
        uint64_t whole = 99, milli = 99;
        struct err err = { 0 };

        ok(amount_whole(good[i].text, &whole, &err) == 0 &&
           amount_milli(good[i].text, &milli, &err) == 0 &&
           whole == good[i].whole && milli == good[i].milli,
           "'%s' is %llu, in thousandths %llu", good[i].text,
           (unsigned long long) whole, (unsigned long long) milli);
    }
    for (size_t i = 0; i < array_size(bad); i++) {
        uint64_t got = 99;
        struct err err = { 0 };

        ok(amount_whole(bad[i].text, &got, &err) == -bad[i].code && got == 99 &&
           strstr(err.text, bad[i].text), "'%s': %s", bad[i].text, err.text);
    }
    return tap_done();
}
