#pragma once

#include "core/why.h"

#include "core/world_int.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/quantity.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* why_int - how the files of why.h put numbers into sentences. */
static inline void __attribute__((format(printf, 3, 4)))
say(struct why *y, enum why_code code, const char *fmt, ...)
{
    va_list ap;
    int n;

    y->code = code;
    va_start(ap, fmt);
    n = vsnprintf(y->text, sizeof(y->text), fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t) n >= sizeof(y->text))
        memcpy(y->text + sizeof(y->text) - 4, "...", 4);
}

static inline void __attribute__((format(printf, 2, 3)))
change(struct why *y, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(y->change, sizeof(y->change), fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t) n >= sizeof(y->change))
        memcpy(y->change + sizeof(y->change) - 4, "...", 4);
}

struct words {
    char text[32];
};

static inline struct words milli(uint64_t n)
{
    struct words m = { "" };

    quantity_print_milli(n, m.text, sizeof(m.text));
    return m;
}

static inline struct words cpus(uint64_t n)
{
    struct words m = milli(n);
    size_t len = strlen(m.text);

    (void) snprintf(m.text + len, sizeof(m.text) - len, " CPU%s",
                    n == 1000 ? "" : "s");
    return m;
}

/* Exact where that is short, else a tenth of its largest unit less at most. */
static inline struct words bytes(uint64_t n)
{
    static const char units[] = "KMGTPE";
    struct words m = { "" };
    unsigned unit = 0;

    quantity_print_bytes(n, m.text, sizeof(m.text));
    if (strlen(m.text) <= 6)
        return m;
    while (n >> (10 * (unit + 2)))
        unit++;
    n = (n >> (10 * unit)) * 10 / 1024;
    (void) snprintf(m.text, sizeof(m.text), "%" PRIu64 ".%" PRIu64 "%ci",
                    n / 10, n % 10, units[unit]);
    return m;
}

/* To the minute, or to the second when it is short. */
static inline struct words duration(uint64_t ms)
{
    uint64_t unit = ms >= 120000 ? 60000 : ms >= 1000 ? 1000 : 1;
    struct words m = { "" };

    quantity_print_duration(ms - ms % unit, m.text, sizeof(m.text));
    return m;
}

/* "2 devices of model H100 or A100 with 40Gi" */
static inline struct buf wanted(const struct spec_task *s)
{
    struct buf b = BUF_INIT(160);

    buf_printf(&b, "%s device%s", milli(s->gpu_milli).text,
               s->gpu_milli > 1000 ? "s" : "");
    for (uint32_t i = 0; i < s->nmodels; i++)
        buf_printf(&b, "%s%s", i == 0 ? " of model " : " or ", s->models[i]);
    if (s->gpu_memory)
        buf_printf(&b, " with at least %s", bytes(s->gpu_memory).text);
    return b;
}

/* " for each of 4 ranks", or nothing for a task that is alone. */
static inline struct words per_rank(const struct spec_task *s)
{
    struct words t = { "" };

    if (s->ranks > 1)
        (void) snprintf(t.text, sizeof t.text, " for each of %u ranks",
                        s->ranks);
    return t;
}

/* What of all there is would do for the task. */
struct supply {
    uint64_t all, of_model, matching;  /* devices */
    uint64_t closed;                   /* such, but drained, lost or ill */
    uint64_t most, free_milli;
    uint64_t cpus, cpus_free, memory, memory_free;   /* of the largest block */
};

/* why_never.c */
struct supply why_supply(const struct world *w, const struct spec_task *s,
                         bool open_only);
void why_never(const struct world *w, const struct task *t,
               enum plan_reason_code code, struct why *y);
