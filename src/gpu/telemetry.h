#pragma once

#include "gpu/nvml.h"

#include <jansson.h>
#include <stdint.h>

/* telemetry - how a device is at one moment.
 *
 * What a device or a driver does not tell is absent, never zero.  A sample
 * allocates nothing.
 */
#define TELEMETRY_FIELDS(X) \
    X(UTILISATION, "utilisation_percent") \
    X(MEMORY_UTILISATION, "memory_utilisation_percent") \
    X(MEMORY_USED, "memory_used_bytes") \
    X(MEMORY_FREE, "memory_free_bytes") \
    X(MEMORY_RESERVED, "memory_reserved_bytes") \
    X(TEMPERATURE, "temperature_celsius") \
    X(MEMORY_TEMPERATURE, "memory_temperature_celsius") \
    X(POWER, "power_milliwatts") \
    X(POWER_LIMIT, "power_limit_milliwatts") \
    X(ENERGY, "energy_millijoules") \
    X(SM_CLOCK, "sm_clock_mhz") \
    X(MEMORY_CLOCK, "memory_clock_mhz") \
    X(CLOCK_REASONS, "clock_reasons_mask") \
    X(ECC_CORRECTED, "ecc_corrected") \
    X(ECC_UNCORRECTED, "ecc_uncorrected") \
    X(ECC_CORRECTED_LIFE, "ecc_corrected_life") \
    X(ECC_UNCORRECTED_LIFE, "ecc_uncorrected_life") \
    X(REMAPPED_CORRECTED, "remapped_rows_corrected") \
    X(REMAPPED_UNCORRECTED, "remapped_rows_uncorrected") \
    X(REMAPPED_PENDING, "remapped_rows_pending") \
    X(REMAPPED_FAILED, "remapped_rows_failed") \
    X(REPLAYS, "pcie_replays")
enum telemetry_field {
#define X(name, text) TELEMETRY_##name,
    TELEMETRY_FIELDS(X)
#undef X
    TELEMETRY_FIELD_COUNT
};

enum { TELEMETRY_PROCESSES = 128 };

struct telemetry_process {
    unsigned pid;
    bool has_bytes, has_use;
    bool mps;                          /* it is a client of MPS */
    uint64_t bytes;
    unsigned use_percent, memory_percent;
    unsigned gpu_instance, compute_instance;   /* ~0u: no MIG */
};

struct telemetry {
    uint64_t at_ms;                    /* wall clock */
    uint64_t has;                      /* bit f: value[f] was told */
    uint64_t value[TELEMETRY_FIELD_COUNT];
    bool has_processes;
    unsigned nprocesses;               /* there are, at most so many below */
    struct telemetry_process processes[TELEMETRY_PROCESSES];
    /* Where the next sample's utilisation by process begins, microseconds. */
    unsigned long long use_since_us;
};

static inline bool telemetry_has(const struct telemetry *t,
                                 enum telemetry_field f)
{
    return t->has >> f & 1;
}

/* A new sample over the last one of the same device.  0, or the code of the
 * call that says that device or driver are of no more use: *t is then as it
 * was.
 */
int telemetry_read(const struct nvml *n, struct nvml_device *h,
                   uint64_t now_ms, struct telemetry *t);
/* The members of a sample; caller owns. */
json_t *telemetry_json(const struct telemetry *t);
/* The names in a mask of clock reasons; caller owns. */
json_t *telemetry_reasons_json(uint64_t mask);
