#include "gpu/telemetry.h"

#include "base/json.h"
#include "base/mem.h"

static const char *const fields[TELEMETRY_FIELD_COUNT] = {
#define X(name, text) [TELEMETRY_##name] = text,
    TELEMETRY_FIELDS(X)
#undef X
};

static const char *const reasons[] = {
    "idle", "application-clocks", "software-power-cap", "hardware-slowdown",
    "sync-boost", "software-thermal", "hardware-thermal",
    "hardware-power-brake", "display-clocks",
};

json_t *telemetry_reasons_json(uint64_t mask)
{
    json_t *all = json_array();

    for (size_t i = 0; i < array_size(reasons); i++)
        if (mask >> i & 1)
            (void) json_array_append_new(all, json_string(reasons[i]));
    return all;
}

static json_t *process_json(const struct telemetry_process *p)
{
    json_t *o = json_object();

    json_put_u64(o, "pid", p->pid);
    if (p->has_bytes)
        json_put_u64(o, "memory_bytes", p->bytes);
    if (p->has_use) {
        json_put_u64(o, "utilisation_percent", p->use_percent);
        json_put_u64(o, "memory_utilisation_percent", p->memory_percent);
    }
    if (p->gpu_instance != ~0u) {
        json_put_u64(o, "gpu_instance", p->gpu_instance);
        json_put_u64(o, "compute_instance", p->compute_instance);
    }
    return o;
}

json_t *telemetry_json(const struct telemetry *t)
{
    json_t *o = json_object();
    json_t *all;

    json_put_u64(o, "at_ms", t->at_ms);
    for (unsigned f = 0; f < TELEMETRY_FIELD_COUNT; f++)
        if (telemetry_has(t, f) && t->value[f] <= INT64_MAX)
            json_put_u64(o, fields[f], t->value[f]);
    if (telemetry_has(t, TELEMETRY_CLOCK_REASONS))
        json_put(o, "clock_reasons",
                 telemetry_reasons_json(t->value[TELEMETRY_CLOCK_REASONS]));
    if (!t->has_processes)
        return o;
    json_put_u64(o, "process_count", t->nprocesses);
    if (t->nprocesses > TELEMETRY_PROCESSES)
        return o;
    all = json_array();
    for (unsigned i = 0; i < t->nprocesses; i++)
        (void) json_array_append_new(all, process_json(&t->processes[i]));
    json_put(o, "processes", all);
    return o;
}
