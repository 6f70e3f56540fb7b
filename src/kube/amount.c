#include "kube/amount.h"

#include "base/err.h"
#include "base/mem.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* digits * 10^ten * 2^two, rounded up.  Digits past what fits are dropped and
 * counted in `ten`; whether one of them was not zero is in `more`.
 */
struct number {
    uint64_t digits;
    int ten, two;
    bool more;
};

enum { EXPONENT_MAX = 1000 };          /* far past what fits */

static void add_digit(struct number *n, char c, bool behind_point)
{
    unsigned v = (unsigned) (c - '0');

    if (n->digits > (UINT64_MAX - 9) / 10) {
        n->more = n->more || v;
        n->ten += behind_point ? 0 : n->ten < EXPONENT_MAX;
        return;
    }
    n->digits = n->digits * 10 + v;
    n->ten -= behind_point;
}

/* False when there is no digit. */
static bool read_digits(const char **p, struct number *n)
{
    bool any = false, point = false;

    for (;; (*p)++) {
        if (**p == '.' && !point) {
            point = true;
        } else if (isdigit((unsigned char) **p)) {
            any = true;
            add_digit(n, **p, point);
        } else {
            return any;
        }
    }
}

static bool read_exponent(const char *p, struct number *n)
{
    int sign = *p == '-' ? -1 : 1, v = 0;

    p += *p == '-' || *p == '+';
    if (!*p)
        return false;
    for (; isdigit((unsigned char) *p); p++)
        v = v < EXPONENT_MAX ? v * 10 + (*p - '0') : v;
    n->ten += sign * v;
    return *p == '\0';
}

static bool read_suffix(const char *p, struct number *n)
{
    static const struct {
        const char *name;
        int ten, two;
    } units[] = {
        { "", 0, 0 }, { "n", -9, 0 }, { "u", -6, 0 }, { "m", -3, 0 },
        { "k", 3, 0 }, { "M", 6, 0 }, { "G", 9, 0 }, { "T", 12, 0 },
        { "P", 15, 0 }, { "E", 18, 0 }, { "Ki", 0, 10 }, { "Mi", 0, 20 },
        { "Gi", 0, 30 }, { "Ti", 0, 40 }, { "Pi", 0, 50 }, { "Ei", 0, 60 },
    };

    for (size_t i = 0; i < array_size(units); i++) {
        if (strcmp(p, units[i].name) == 0) {
            n->ten += units[i].ten;
            n->two += units[i].two;
            return true;
        }
    }
    return (*p == 'e' || *p == 'E') && read_exponent(p + 1, n);
}

/* Powers of two first while there is room, so that a fraction of a Gi is not
 * cut before it is multiplied.  128 bits hold 20 digits times 2^60.
 */
static uint64_t round_up(const struct number *n)
{
    unsigned __int128 v = (unsigned __int128) n->digits << n->two;
    bool more = n->more;

    if (n->digits == 0)
        return more ? 1 : 0;
    for (int ten = n->ten; ten > 0; ten--) {
        if (v > INT64_MAX)
            return INT64_MAX;
        v *= 10;
    }
    for (int ten = n->ten; ten < 0 && v > 0; ten++) {
        more = more || v % 10;
        v /= 10;
    }
    v += more;
    return v > INT64_MAX ? INT64_MAX : (uint64_t) v;
}

static int amount_read(const char *s, int ten, uint64_t *ret, struct err *err)
{
    struct number n = { .ten = ten };
    const char *p = s;
    bool minus = *p == '-';

    p += *p == '-' || *p == '+';
    if (!read_digits(&p, &n) || !read_suffix(p, &n))
        return err_set(err, EINVAL, "'%.64s' is not a quantity such as 1500m, "
                       "2Gi or 1e3", s);
    if (minus && (n.digits || n.more))
        return err_set(err, ERANGE, "'%.64s' is less than nothing", s);
    *ret = round_up(&n);
    return 0;
}

int amount_whole(const char *s, uint64_t *ret, struct err *err)
{
    return amount_read(s, 0, ret, err);
}

int amount_milli(const char *s, uint64_t *ret, struct err *err)
{
    return amount_read(s, 3, ret, err);
}
