#include "gpu/telemetry.h"

#include "base/mem.h"

#include <string.h>

/* Each reader asks one question and puts what it was told; what cannot be told
 * is left out.  Only a code that is about the whole device ends the sample.
 */
enum { USE_FIRST_MS = 1000 };          /* what the first sample looks back */

typedef int (*read_f)(const struct nvml *n, struct nvml_device *h,
                      struct telemetry *t);

static void put(struct telemetry *t, enum telemetry_field f, uint64_t v)
{
    t->has |= 1ull << f;
    t->value[f] = v;
}

static int put_if(int rc, struct telemetry *t, enum telemetry_field f,
                  uint64_t v)
{
    if (rc == NVML_RC_OK)
        put(t, f, v);
    return rc;
}

static int read_use(const struct nvml *n, struct nvml_device *h,
                    struct telemetry *t)
{
    struct nvml_utilization u = { 0 };
    int rc = nvml_ask(n, nvmlDeviceGetUtilizationRates, h, &u);

    (void) put_if(rc, t, TELEMETRY_UTILISATION, u.device);
    return put_if(rc, t, TELEMETRY_MEMORY_UTILISATION, u.memory);
}

/* The first version counts what the driver keeps for itself as used. */
static int read_memory(const struct nvml *n, struct nvml_device *h,
                       struct telemetry *t)
{
    struct nvml_memory_v2 m = { .version = NVML_MEMORY_V2 };
    struct nvml_memory old = { 0 };
    int rc = nvml_ask(n, nvmlDeviceGetMemoryInfo_v2, h, &m);

    if (rc == NVML_RC_OK) {
        put(t, TELEMETRY_MEMORY_USED, m.used);
        put(t, TELEMETRY_MEMORY_FREE, m.free);
        put(t, TELEMETRY_MEMORY_RESERVED, m.reserved);
        return rc;
    }
    rc = n->nvmlDeviceGetMemoryInfo(h, &old);
    (void) put_if(rc, t, TELEMETRY_MEMORY_USED, old.used);
    return put_if(rc, t, TELEMETRY_MEMORY_FREE, old.free);
}

static int read_temperature(const struct nvml *n, struct nvml_device *h,
                            struct telemetry *t)
{
    unsigned v = 0;
    int rc = nvml_ask(n, nvmlDeviceGetTemperature, h, 0, &v);

    return put_if(rc, t, TELEMETRY_TEMPERATURE, v);
}

static int read_memory_temperature(const struct nvml *n,
                                   struct nvml_device *h, struct telemetry *t)
{
    struct nvml_field f = { .id = NVML_FIELD_MEMORY_TEMPERATURE };
    int rc = nvml_ask(n, nvmlDeviceGetFieldValues, h, 1, &f);

    if (rc == NVML_RC_OK)
        rc = f.rc;
    if (rc == NVML_RC_OK && f.type != NVML_TYPE_U32)
        rc = NVML_RC_NOT_SUPPORTED;
    return put_if(rc, t, TELEMETRY_MEMORY_TEMPERATURE, f.value.u32);
}

static int read_power(const struct nvml *n, struct nvml_device *h,
                      struct telemetry *t)
{
    unsigned v = 0;
    int rc = nvml_ask(n, nvmlDeviceGetPowerUsage, h, &v);

    return put_if(rc, t, TELEMETRY_POWER, v);
}

static int read_power_limit(const struct nvml *n, struct nvml_device *h,
                            struct telemetry *t)
{
    unsigned v = 0;
    int rc = nvml_ask(n, nvmlDeviceGetEnforcedPowerLimit, h, &v);

    return put_if(rc, t, TELEMETRY_POWER_LIMIT, v);
}

static int read_energy(const struct nvml *n, struct nvml_device *h,
                       struct telemetry *t)
{
    unsigned long long v = 0;
    int rc = nvml_ask(n, nvmlDeviceGetTotalEnergyConsumption, h, &v);

    return put_if(rc, t, TELEMETRY_ENERGY, v);
}

static int read_sm_clock(const struct nvml *n, struct nvml_device *h,
                         struct telemetry *t)
{
    unsigned v = 0;
    int rc = nvml_ask(n, nvmlDeviceGetClockInfo, h, NVML_CLOCK_SM, &v);

    return put_if(rc, t, TELEMETRY_SM_CLOCK, v);
}

static int read_memory_clock(const struct nvml *n, struct nvml_device *h,
                             struct telemetry *t)
{
    unsigned v = 0;
    int rc = nvml_ask(n, nvmlDeviceGetClockInfo, h, NVML_CLOCK_MEMORY, &v);

    return put_if(rc, t, TELEMETRY_MEMORY_CLOCK, v);
}

static int read_reasons(const struct nvml *n, struct nvml_device *h,
                        struct telemetry *t)
{
    unsigned long long v = 0;
    int rc = n->nvmlDeviceGetCurrentClocksEventReasons
           ? n->nvmlDeviceGetCurrentClocksEventReasons(h, &v)
           : nvml_ask(n, nvmlDeviceGetCurrentClocksThrottleReasons, h, &v);

    return put_if(rc, t, TELEMETRY_CLOCK_REASONS, v);
}

static int read_ecc(const struct nvml *n, struct nvml_device *h,
                    struct telemetry *t)
{
    static const struct {
        enum telemetry_field field;
        int kind, counter;
    } counters[] = {
        { TELEMETRY_ECC_CORRECTED, NVML_ECC_CORRECTED, NVML_ECC_VOLATILE },
        { TELEMETRY_ECC_UNCORRECTED, NVML_ECC_UNCORRECTED,
          NVML_ECC_VOLATILE },
        { TELEMETRY_ECC_CORRECTED_LIFE, NVML_ECC_CORRECTED,
          NVML_ECC_AGGREGATE },
        { TELEMETRY_ECC_UNCORRECTED_LIFE, NVML_ECC_UNCORRECTED,
          NVML_ECC_AGGREGATE },
    };
    int rc = NVML_RC_OK;

    for (size_t i = 0; i < array_size(counters); i++) {
        unsigned long long v = 0;

        rc = nvml_ask(n, nvmlDeviceGetTotalEccErrors, h, counters[i].kind,
                      counters[i].counter, &v);
        (void) put_if(rc, t, counters[i].field, v);
    }
    return rc;
}

static int read_rows(const struct nvml *n, struct nvml_device *h,
                     struct telemetry *t)
{
    unsigned v[4] = { 0 };
    int rc = nvml_ask(n, nvmlDeviceGetRemappedRows, h, &v[0], &v[1], &v[2],
                      &v[3]);

    (void) put_if(rc, t, TELEMETRY_REMAPPED_CORRECTED, v[0]);
    (void) put_if(rc, t, TELEMETRY_REMAPPED_UNCORRECTED, v[1]);
    (void) put_if(rc, t, TELEMETRY_REMAPPED_PENDING, v[2]);
    return put_if(rc, t, TELEMETRY_REMAPPED_FAILED, v[3]);
}

static int read_replays(const struct nvml *n, struct nvml_device *h,
                        struct telemetry *t)
{
    unsigned v = 0;
    int rc = nvml_ask(n, nvmlDeviceGetPcieReplayCounter, h, &v);

    return put_if(rc, t, TELEMETRY_REPLAYS, v);
}

/* A list that is too short comes back with how many there are, and nothing of
 * use in it: the count is told alone then.
 */
static int read_processes(const struct nvml *n, struct nvml_device *h,
                          struct telemetry *t)
{
    struct nvml_process list[TELEMETRY_PROCESSES] = { { .pid = 0 } };
    unsigned count = array_size(list);
    int rc = nvml_ask(n, nvmlDeviceGetComputeRunningProcesses_v3, h, &count,
                      list);

    t->has_processes = rc == NVML_RC_OK || rc == NVML_RC_SIZE;
    t->nprocesses = t->has_processes ? count : 0;
    if (rc != NVML_RC_OK)
        return rc;
    for (unsigned i = 0; i < count; i++)
        t->processes[i] = (struct telemetry_process) {
            .pid = list[i].pid,
            .has_bytes = list[i].bytes != NVML_NO_VALUE,
            .bytes = list[i].bytes,
            .gpu_instance = list[i].gpu_instance,
            .compute_instance = list[i].compute_instance,
        };
    return rc;
}

static struct telemetry_process *process_find(struct telemetry *t,
                                              unsigned pid)
{
    unsigned n = t->nprocesses;

    for (unsigned i = 0; i < n && i < TELEMETRY_PROCESSES; i++)
        if (t->processes[i].pid == pid)
            return &t->processes[i];
    return NULL;
}

/* A client of MPS is in one list or in both, as the driver's version has it. */
static int read_mps(const struct nvml *n, struct nvml_device *h,
                    struct telemetry *t)
{
    struct nvml_process list[TELEMETRY_PROCESSES] = { { .pid = 0 } };
    unsigned count = array_size(list);
    int rc = nvml_ask(n, nvmlDeviceGetMPSComputeRunningProcesses_v3, h, &count,
                      list);

    for (unsigned i = 0; rc == NVML_RC_OK && i < count; i++) {
        struct telemetry_process *p = process_find(t, list[i].pid);

        if (!p && t->nprocesses < TELEMETRY_PROCESSES) {
            p = &t->processes[t->nprocesses++];
            *p = (struct telemetry_process) {
                .pid = list[i].pid,
                .has_bytes = list[i].bytes != NVML_NO_VALUE,
                .bytes = list[i].bytes,
                .gpu_instance = list[i].gpu_instance,
                .compute_instance = list[i].compute_instance,
            };
        }
        if (p)
            p->mps = true;
    }
    return rc;
}

/* The driver keeps samples of each process; the last of this period counts. */
static int read_process_use(const struct nvml *n, struct nvml_device *h,
                            struct telemetry *t)
{
    struct nvml_process_use list[TELEMETRY_PROCESSES] = { { .pid = 0 } };
    unsigned count = array_size(list);
    unsigned long long last[TELEMETRY_PROCESSES] = { 0 };
    int rc = nvml_ask(n, nvmlDeviceGetProcessUtilization, h, list, &count,
                      t->use_since_us);

    if (rc == NVML_RC_SIZE)
        t->use_since_us = t->at_ms * 1000;     /* too many: those to come */
    if (rc != NVML_RC_OK)
        return rc;
    for (unsigned i = 0; i < count && i < array_size(list); i++) {
        struct telemetry_process *p = process_find(t, list[i].pid);

        if (list[i].at_us > t->use_since_us)
            t->use_since_us = list[i].at_us;
        if (!p || list[i].at_us < last[p - t->processes])
            continue;
        last[p - t->processes] = list[i].at_us;
        p->has_use = true;
        p->use_percent = list[i].device;
        p->memory_percent = list[i].memory;
    }
    return rc;
}

static const read_f readers[] = {
    read_use, read_memory, read_temperature, read_memory_temperature,
    read_power, read_power_limit, read_energy, read_sm_clock,
    read_memory_clock, read_reasons, read_ecc, read_rows, read_replays,
    read_processes, read_mps, read_process_use,
};

/* About the device as a whole, and not about one question. */
static bool is_end(int rc)
{
    enum nvml_state s = nvml_state_of(rc);

    return s == NVML_LOST || s == NVML_RESET || nvml_state_is_driver(s);
}

int telemetry_read(const struct nvml *n, struct nvml_device *h,
                   uint64_t now_ms, struct telemetry *t)
{
    struct telemetry next;

    memset(&next, 0, sizeof next);
    next.at_ms = now_ms;
    next.use_since_us = t->use_since_us ? t->use_since_us :
                        (now_ms - USE_FIRST_MS) * 1000;
    for (size_t i = 0; i < array_size(readers); i++) {
        int rc = readers[i](n, h, &next);

        if (is_end(rc))
            return rc;
    }
    *t = next;
    return NVML_RC_OK;
}
