#include "base/clock.h"

#include "base/err.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

static uint64_t read_us(clockid_t id)
{
    struct timespec t;

    (void) clock_gettime(id, &t);        /* cannot fail for these clocks */
    return (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000;
}

uint64_t clock_wall_ms(void)
{
    return read_us(CLOCK_REALTIME) / 1000;
}

uint64_t clock_mono_ms(void)
{
    return read_us(CLOCK_MONOTONIC) / 1000;
}

uint64_t clock_mono_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

void clock_print(uint64_t wall_ms, char *buf, size_t size)
{
    time_t seconds = (time_t) (wall_ms / 1000);
    struct tm t = { 0 };

    (void) gmtime_r(&seconds, &t);
    if (snprintf(buf, size, "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ",
                 t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour,
                 t.tm_min, t.tm_sec, (unsigned) (wall_ms % 1000)) < 0)
        buf[0] = '\0';
}

/* The byte `c`; where it is a capital, its small form will do. */
static bool byte(const char **p, char c)
{
    if (**p != c && **p != (c | 0x20))
        return false;
    (*p)++;
    return true;
}

/* Exactly n digits, then the byte `end` unless that is 0. */
static bool number(const char **p, int n, char end, int *ret)
{
    int value = 0;

    for (; n > 0; n--, (*p)++) {
        if (**p < '0' || **p > '9')
            return false;
        value = value * 10 + (**p - '0');
    }
    *ret = value;
    return !end || byte(p, end);
}

/* Digits after a point, as many as there are; those past the third do not
 * count.
 */
static bool fraction(const char **p, int *ret_ms)
{
    int ms = 0, weight = 100;

    if (**p != '.')
        return true;
    (*p)++;
    if (**p < '0' || **p > '9')
        return false;
    for (; **p >= '0' && **p <= '9'; (*p)++, weight /= 10)
        ms += (**p - '0') * weight;
    *ret_ms = ms;
    return true;
}

/* 'Z' or +HH:MM or -HH:MM, and nothing after it. */
static bool offset(const char *p, int *ret_minutes)
{
    int sign = *p == '-' ? -1 : 1, h, m;

    if (byte(&p, 'Z'))
        return *p == '\0';
    if (*p != '+' && *p != '-')
        return false;
    p++;
    if (!number(&p, 2, ':', &h) || !number(&p, 2, '\0', &m) || *p ||
        h > 23 || m > 59)
        return false;
    *ret_minutes = sign * (h * 60 + m);
    return true;
}

static int month_days(int year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30,
                                31, 31, 30, 31, 30, 31 };
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return month == 2 && leap ? 29 : days[month - 1];
}

int clock_parse(const char *s, uint64_t *ret_wall_ms, struct err *err)
{
    const char *p = s;
    struct tm t = { 0 };
    int ms = 0, east = 0;
    int64_t seconds;

    if (!number(&p, 4, '-', &t.tm_year) || !number(&p, 2, '-', &t.tm_mon) ||
        !number(&p, 2, 'T', &t.tm_mday) ||
        !number(&p, 2, ':', &t.tm_hour) || !number(&p, 2, ':', &t.tm_min) ||
        !number(&p, 2, '\0', &t.tm_sec) || !fraction(&p, &ms) ||
        !offset(p, &east))
        return err_set(err, EINVAL, "'%.64s' is not a time such as "
                       "2026-11-15T19:16:50Z", s);
    if (t.tm_mon < 1 || t.tm_mon > 12 || t.tm_mday < 1 ||
        t.tm_mday > month_days(t.tm_year, t.tm_mon) || t.tm_hour > 23 ||
        t.tm_min > 59 || t.tm_sec > 59)
        return err_set(err, EINVAL, "'%.64s': there is no such time", s);
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    seconds = (int64_t) timegm(&t) - (int64_t) east * 60;
    if (seconds < 0)
        return err_set(err, ERANGE, "'%.64s' is before 1970", s);
    *ret_wall_ms = (uint64_t) seconds * 1000 + (uint64_t) ms;
    return 0;
}
