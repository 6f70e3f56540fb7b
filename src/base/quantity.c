#include "base/quantity.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t size;
};

/* Where two texts are equally short, the earlier unit is printed. */
static const struct unit byte_units[] = {
    { "",    1 },
    { "Ki",  1ull << 10 },
    { "Mi",  1ull << 20 },
    { "Gi",  1ull << 30 },
    { "Ti",  1ull << 40 },
    { "Pi",  1ull << 50 },
    { "kB",  1000ull },
    { "MB",  1000000ull },
    { "GB",  1000000000ull },
    { "TB",  1000000000000ull },
    { "PB",  1000000000000000ull },
    /* The rest is read, never printed. */
    { "KiB", 1ull << 10 },
    { "MiB", 1ull << 20 },
    { "GiB", 1ull << 30 },
    { "TiB", 1ull << 40 },
    { "PiB", 1ull << 50 },
};
enum { BYTE_UNITS_PRINTED = 11 };

/* From large to small, which is the order a sum has. */
static const struct unit time_units[] = {
    { "w",  7ull * 24 * 3600 * 1000 },
    { "d",  24ull * 3600 * 1000 },
    { "h",  3600ull * 1000 },
    { "m",  60ull * 1000 },
    { "s",  1000ull },
    { "ms", 1ull },
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int too_large(struct err *err, const char *s)
{
    return err_set(err, ERANGE, "'%.64s' is too large", s);
}

/* n * by + plus, or false past INT64_MAX. */
static bool scale(uint64_t n, uint64_t by, uint64_t plus, uint64_t *ret)
{
    uint64_t v;

    if (__builtin_mul_overflow(n, by, &v) ||
        __builtin_add_overflow(v, plus, &v) || v > INT64_MAX)
        return false;
    *ret = v;
    return true;
}

static int read_whole(const char *s, const char **p, uint64_t *ret,
                      struct err *err)
{
    uint64_t n = 0;

    if (!is_digit(**p))
        return err_set(err, EINVAL, *p == s
                       ? "'%.64s' does not start with a digit"
                       : "'%.64s': a digit is missing", s);
    for (; is_digit(**p); (*p)++)
        if (!scale(n, 10, (uint64_t) (**p - '0'), &n))
            return too_large(err, s);
    *ret = n;
    return 0;
}

/* The places after a point, in thousandths; 0 when there is none. */
static int read_thousandths(const char *s, const char **p, uint64_t *ret,
                            struct err *err)
{
    uint64_t n = 0, weight = 100;

    if (**p != '.') {
        *ret = 0;
        return 0;
    }
    (*p)++;
    if (!is_digit(**p))
        return err_set(err, EINVAL, "'%.64s': a digit is missing after the "
                       "point", s);
    for (; is_digit(**p); (*p)++, weight /= 10) {
        if (weight == 0)
            return err_set(err, EINVAL, "'%.64s' has more than 3 places after "
                           "the point", s);
        n += (uint64_t) (**p - '0') * weight;
    }
    *ret = n;
    return 0;
}

int quantity_bytes(const char *s, uint64_t *ret, struct err *err)
{
    const struct unit *u = NULL;
    const char *p = s;
    uint64_t whole = 0, part = 0;
    int rc = read_whole(s, &p, &whole, err);
    bool point;

    if (rc < 0)
        return rc;
    point = *p == '.';
    rc = read_thousandths(s, &p, &part, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < array_size(byte_units); i++)
        if (strcmp(p, byte_units[i].name) == 0)
            u = &byte_units[i];
    if (!u)
        return err_set(err, EINVAL, "'%.64s': unknown unit '%.32s', expected "
                       "Ki Mi Gi Ti Pi or kB MB GB TB PB", s, p);
    if (point && u->size == 1)
        return err_set(err, EINVAL, "'%.64s' is not a whole number of bytes",
                       s);
    if (!scale(whole, u->size, part * u->size / 1000, ret))
        return too_large(err, s);
    return 0;
}

/* The unit at *p, which must stand after the `from`th place of the table. */
static const struct unit *time_unit(const char **p, size_t from)
{
    size_t len = 0;

    while ((*p)[len] && !is_digit((*p)[len]))
        len++;
    for (size_t i = from; i < array_size(time_units); i++)
        if (strlen(time_units[i].name) == len &&
            strncmp(*p, time_units[i].name, len) == 0) {
            *p += len;
            return &time_units[i];
        }
    return NULL;
}

int quantity_duration(const char *s, uint64_t *ret_ms, struct err *err)
{
    const char *p = s;
    uint64_t sum = 0, n = 0;
    size_t from = 0;

    do {
        const struct unit *u;
        int rc = read_whole(s, &p, &n, err);

        if (rc < 0)
            return rc;
        if (!*p && from == 0)            /* bare: seconds */
            return scale(n, 1000, 0, ret_ms) ? 0 : too_large(err, s);
        u = time_unit(&p, from);
        if (!u)
            return err_set(err, EINVAL, "'%.64s': expected a unit at '%.32s', "
                           "w d h m s ms from large to small", s, p);
        from = (size_t) (u - time_units) + 1;
        if (!scale(n, u->size, sum, &sum))
            return too_large(err, s);
    } while (*p);
    *ret_ms = sum;
    return 0;
}

int quantity_count(const char *s, uint64_t *ret, struct err *err)
{
    const char *p = s;
    uint64_t n = 0;
    int rc = read_whole(s, &p, &n, err);

    if (rc < 0)
        return rc;
    if (*p)
        return err_set(err, EINVAL, "'%.64s' is not a plain number", s);
    *ret = n;
    return 0;
}

int quantity_milli(const char *s, uint64_t *ret, struct err *err)
{
    const char *p = s;
    uint64_t whole = 0, part = 0;
    int rc = read_whole(s, &p, &whole, err);

    if (rc < 0)
        return rc;
    rc = read_thousandths(s, &p, &part, err);
    if (rc < 0)
        return rc;
    if (*p)
        return err_set(err, EINVAL, "'%.64s' is not a number", s);
    return scale(whole, 1000, part, ret) ? 0 : too_large(err, s);
}

/* whole.part without zeros at the end. */
static void print_decimal(uint64_t whole, uint64_t part, const char *unit,
                          char *buf, size_t size)
{
    int places = part % 10 ? 3 : part % 100 ? 2 : 1;

    while (part && part % 10 == 0)
        part /= 10;
    if (part)
        (void) snprintf(buf, size, "%llu.%0*llu%s", (unsigned long long) whole,
                        places, (unsigned long long) part, unit);
    else
        (void) snprintf(buf, size, "%llu%s", (unsigned long long) whole, unit);
}

void quantity_print_bytes(uint64_t bytes, char *buf, unsigned size)
{
    char best[32] = "", text[32];

    for (size_t i = 0; i < BYTE_UNITS_PRINTED; i++) {
        const struct unit *u = &byte_units[i];
        uint64_t whole = bytes / u->size, rest = bytes % u->size;
        /* Reading cuts to a whole byte, so this rounds up. */
        uint64_t part = (rest * 1000 + u->size - 1) / u->size;

        if (part > 999 || part * u->size / 1000 != rest)
            continue;
        print_decimal(whole, part, u->name, text, sizeof text);
        if (!best[0] || strlen(text) < strlen(best))
            memcpy(best, text, sizeof best);
    }
    (void) snprintf(buf, size, "%s", best);
}

/* As a sum of the units whose bit is set; "" when they do not suffice. */
static void print_sum(uint64_t ms, unsigned units, char *buf, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < array_size(time_units); i++) {
        const struct unit *u = &time_units[i];
        int n;

        if (!(units & 1u << i) || ms < u->size)
            continue;
        n = snprintf(buf + used, size - used, "%llu%s",
                     (unsigned long long) (ms / u->size), u->name);
        used += (size_t) n;
        ms %= u->size;
    }
    if (ms || !used)
        buf[0] = '\0';
}

void quantity_print_duration(uint64_t ms, char *buf, unsigned size)
{
    char best[64] = "", text[64];

    for (unsigned units = 1; units < 1u << array_size(time_units); units++) {
        print_sum(ms, units, text, sizeof text);
        /* Of two as short, the later has the larger units. */
        if (text[0] && (!best[0] || strlen(text) <= strlen(best)))
            memcpy(best, text, sizeof best);
    }
    (void) snprintf(buf, size, "%s", best[0] ? best : "0s");
}

void quantity_print_milli(uint64_t milli, char *buf, unsigned size)
{
    print_decimal(milli / 1000, milli % 1000, "", buf, size);
}
