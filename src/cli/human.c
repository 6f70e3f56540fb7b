#include "cli/human.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/quantity.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SECOND UINT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

const char *human_age(uint64_t ms, char *buf)
{
    uint64_t n = ms / DAY;
    char unit = 'd';

    if (ms < 2 * MINUTE) {
        n = ms / SECOND;
        unit = 's';
    } else if (ms < 2 * HOUR) {
        n = ms / MINUTE;
        unit = 'm';
    } else if (ms < 2 * DAY) {
        n = ms / HOUR;
        unit = 'h';
    }
    (void) snprintf(buf, HUMAN_SIZE, "%" PRIu64 "%c", n, unit);
    return buf;
}

/* Two units that follow each other. */
static const char *two(char *buf, uint64_t ms, uint64_t large, char large_unit,
                       uint64_t small, char small_unit)
{
    (void) snprintf(buf, HUMAN_SIZE, "%" PRIu64 "%c%02" PRIu64 "%c",
                    ms / large, large_unit, ms % large / small, small_unit);
    return buf;
}

const char *human_span(uint64_t ms, char *buf)
{
    if (ms >= DAY)
        return two(buf, ms, DAY, 'd', HOUR, 'h');
    if (ms >= HOUR)
        return two(buf, ms, HOUR, 'h', MINUTE, 'm');
    if (ms >= MINUTE)
        return two(buf, ms, MINUTE, 'm', SECOND, 's');
    (void) snprintf(buf, HUMAN_SIZE, "%" PRIu64 ".%" PRIu64 "s", ms / SECOND,
                    ms % SECOND / 100);
    return buf;
}

const char *human_clock(uint64_t ms, uint64_t now_ms, char *buf)
{
    time_t s = (time_t) (ms / SECOND), n = (time_t) (now_ms / SECOND);
    struct tm tm, now;
    bool same;

    buf[0] = '\0';
    if (ms == 0 || !localtime_r(&s, &tm) || !localtime_r(&n, &now))
        return buf;
    same = tm.tm_year == now.tm_year;
    if (strftime(buf, HUMAN_SIZE, same ? "%a %d %b %H:%M:%S"
                                       : "%a %d %b %Y %H:%M:%S", &tm) == 0)
        buf[0] = '\0';
    return buf;
}

char *human_spark(const double *v, size_t n, size_t width, bool utf8)
{
    static const char *const bars[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇",
                                        "█" };
    static const char plain[] = "_.-=*#%@";
    struct buf b = BUF_INIT(4096);
    double low = INFINITY, high = -INFINITY;

    if (n > width) {
        v += n - width;
        n = width;
    }
    for (size_t i = 0; i < n; i++) {
        low = v[i] < low ? v[i] : low;
        high = v[i] > high ? v[i] : high;
    }
    for (size_t i = 0; i < n; i++) {
        unsigned at = high > low ? (unsigned) ((v[i] - low) / (high - low) *
                                               7.999) : 0;

        if (utf8)
            buf_str(&b, bars[at]);
        else
            buf_char(&b, plain[at]);
    }
    return buf_take(&b);
}

const char *human_count(uint64_t n, char *buf)
{
    char plain[24];
    size_t len = (size_t) snprintf(plain, sizeof plain, "%" PRIu64, n);
    size_t at = 0;

    for (size_t i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            buf[at++] = ',';
        buf[at++] = plain[i];
    }
    buf[at] = '\0';
    return buf;
}

const char *human_share(double share, char *buf)
{
    (void) snprintf(buf, HUMAN_SIZE, "%.1f%%", share * 100);
    return buf;
}

const char *human_bytes(uint64_t bytes, char *buf)
{
    static const char *const units[] = { "", "Ki", "Mi", "Gi", "Ti", "Pi" };
    double v = (double) bytes;
    size_t u = 0;

    quantity_print_bytes(bytes, buf, HUMAN_SIZE);
    if (strlen(buf) <= 5 && (bytes < 1024 || strpbrk(buf, "iB")))
        return buf;                    /* round already, perhaps in GB */
    while (v >= 1024 && u < 5) {
        v /= 1024;
        u++;
    }
    (void) snprintf(buf, HUMAN_SIZE, "%.*f%s",
                    v < 10 && u > 0 && v != (double) (int) v ? 1 : 0, v,
                    units[u]);
    return buf;
}

const char *human_end(const char *cause, int status, char *buf, size_t size)
{
    bool own = strcmp(cause, "failed") == 0 ||
               strcmp(cause, "signalled") == 0;

    buf[0] = '\0';
    if (strcmp(cause, "none") == 0)
        return buf;
    if (own && status < 0)
        (void) snprintf(buf, size, "signal %d (%s)", -status,
                        strsignal(-status));
    else if (own && status > 0)
        (void) snprintf(buf, size, "exit status %d", status);
    else
        (void) snprintf(buf, size, "%s", cause);
    return buf;
}

uint64_t human_time(const json_t *o, const char *key)
{
    const char *s = json_get_str(o, key, NULL);
    uint64_t ms = 0;

    if (s && clock_parse(s, &ms, NULL) < 0)
        return 0;
    return ms;
}

uint64_t human_run_ms(const json_t *task)
{
    uint64_t from = human_time(task, "started"), to = human_time(task, "ended");
    double s = json_get_number(task, "run_seconds");

    if (s > 0)
        return (uint64_t) llround(s * 1000);
    return from && to > from ? to - from : 0;      /* of an older store */
}
