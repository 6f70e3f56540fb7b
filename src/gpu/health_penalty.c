#include "gpu/health_in.h"

#include "base/mem.h"

/* The marks of health.h. */
enum {
    MAX = 1000, BRAKED = 700, HEAT = 600, ALERTED = 500, POWER = 200,
    HEAT_RANGE = 30,                   /* degrees */
};

static bool told(const struct health_device *d, enum telemetry_field f)
{
    return d->has_sample && d->has >> f & 1;
}

/* 0 at `from` and below, `max` at `to` and above. */
static unsigned between(uint64_t v, uint64_t from, uint64_t to, unsigned max)
{
    if (v <= from)
        return 0;
    return v >= to ? max : (unsigned) ((v - from) * max / (to - from));
}

static unsigned heat(const struct health *h, const struct health_device *d)
{
    unsigned most = 0;

    for (unsigned i = 0; i < h->rules.n; i++) {
        const struct health_rule *r = &h->rules.all[i];
        enum telemetry_field f = health_about(r->when)->of;
        uint64_t from = r->limit > HEAT_RANGE ? r->limit - HEAT_RANGE : 0;
        unsigned v;

        if ((r->when != HEALTH_WHEN_TEMPERATURE &&
             r->when != HEALTH_WHEN_MEMORY_TEMPERATURE) || !told(d, f))
            continue;
        v = between(d->value[f], from, r->limit, HEAT);
        most = v > most ? v : most;
    }
    return most;
}

static unsigned power(const struct health_device *d)
{
    uint64_t limit = d->value[TELEMETRY_POWER_LIMIT];

    if (!told(d, TELEMETRY_POWER) || !told(d, TELEMETRY_POWER_LIMIT))
        return 0;
    return between(d->value[TELEMETRY_POWER], limit - limit / 10, limit,
                   POWER);
}

static bool braked(const struct health_device *d)
{
    static const enum health_when all[] = {
        HEALTH_WHEN_SOFTWARE_THERMAL, HEALTH_WHEN_HARDWARE_THERMAL,
        HEALTH_WHEN_POWER_BRAKE,
    };

    for (size_t i = 0; i < array_size(all); i++)
        if (told(d, TELEMETRY_CLOCK_REASONS) &&
            d->value[TELEMETRY_CLOCK_REASONS] >> health_about(all[i])->of & 1)
            return true;
    return false;
}

unsigned health_penalty(const struct health *h, const char *uuid)
{
    const struct health_device *d = health_find(h, uuid);
    unsigned all[4];
    unsigned max = 0;

    if (!d)
        return 0;
    if (d->action >= HEALTH_CORDON)
        return MAX;
    all[0] = d->action == HEALTH_ALERT ? ALERTED : 0;
    all[1] = braked(d) ? BRAKED : 0;
    all[2] = heat(h, d);
    all[3] = power(d);
    for (size_t i = 0; i < array_size(all); i++)
        max = all[i] > max ? all[i] : max;
    return max;
}
