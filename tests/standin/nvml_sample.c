#include "nvml_in.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How devices are, who uses them and what happens to them. */

/* Calls `each` for every process that lives and has a context on the device. */
static void processes(const struct nvml_device *d,
                      void (*each)(unsigned pid, const struct standin_proc *p,
                                   void *arg), void *arg)
{
    const char *dir = getenv(STANDIN_VAR);
    char path[512];
    DIR *all;
    const struct dirent *e;

    (void) snprintf(path, sizeof path, "%s/proc", dir ? dir : "");
    all = opendir(path);
    while (all && (e = readdir(all))) {
        struct standin_proc p;
        unsigned pid = (unsigned) strtoul(e->d_name, NULL, 10);
        int fd;
        ssize_t n;

        if (!pid || (kill((pid_t) pid, 0) < 0 && errno == ESRCH))
            continue;
        fd = openat(dirfd(all), e->d_name, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, &p, sizeof p);
        if (fd >= 0)
            (void) close(fd);
        if (n == (ssize_t) sizeof p && p.version == STANDIN_VERSION &&
            p.contexts & 1u << d->index)
            each(pid, &p, arg);
    }
    if (all)
        (void) closedir(all);
}

struct sum {
    unsigned device, count, max;
    unsigned long long used;
    bool busy;
    struct nvml_process *list;
    struct nvml_process_use *uses;
    unsigned long long now_us;
};

static bool is_busy(const struct standin_proc *p)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return p->busy_until_ns > (uint64_t) t.tv_sec * 1000000000u +
                              (uint64_t) t.tv_nsec;
}

static void add(unsigned pid, const struct standin_proc *p, void *arg)
{
    struct sum *s = arg;

    s->used += p->used[s->device];
    s->busy = s->busy || is_busy(p);
    if (s->list && s->count < s->max)
        s->list[s->count] = (struct nvml_process) {
            pid, p->used[s->device], ~0u, ~0u,
        };
    if (s->uses && s->count < s->max)
        s->uses[s->count] = (struct nvml_process_use) {
            .pid = pid, .at_us = s->now_us, .device = is_busy(p) ? 100 : 0,
        };
    s->count++;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(struct nvml_device *d,
                                      struct nvml_memory_v2 *m)
{
    struct sum s = { 0 };
    struct nvml_text t;
    char mig[32];
    int rc = nvml_device(d, &t);

    if (rc)
        return rc;
    if (m->version != NVML_MEMORY_V2)
        return NVML_RC_INVALID;
    m->total = nvml_text_number(&t, "memory", 0);
    m->reserved = nvml_text_number(&t, "reserved", 0);
    if (d->mig >= 0) {
        if (!nvml_mig_part(d, &t, 3, mig, sizeof mig))
            return NVML_RC_NOT_FOUND;
        m->total = strtoull(mig, NULL, 10);
        m->reserved = 0;
        m->used = 0;
    } else {
        s.device = d->index;
        processes(d, add, &s);
        m->used = s.used + nvml_text_number(&t, "used", 0);
    }
    m->free = m->used + m->reserved < m->total
            ? m->total - m->used - m->reserved : 0;
    return NVML_RC_OK;
}

EXPORT int nvmlDeviceGetMemoryInfo(struct nvml_device *d,
                                   struct nvml_memory *m)
{
    struct nvml_memory_v2 v2 = { .version = NVML_MEMORY_V2 };
    int rc = nvmlDeviceGetMemoryInfo_v2(d, &v2);

    if (!rc)
        *m = (struct nvml_memory) { v2.total, v2.free, v2.used + v2.reserved };
    return rc;
}

EXPORT int nvmlDeviceGetUtilizationRates(struct nvml_device *d,
                                         struct nvml_utilization *rates)
{
    struct sum s = { 0 };
    struct nvml_text t;
    int rc = nvml_device(d, &t);

    if (rc)
        return rc;
    if (d->mig >= 0 || nvml_text_number(&t, "mig", 0))
        return NVML_RC_NOT_SUPPORTED;
    s.device = d->index;
    processes(d, add, &s);
    rates->device = (unsigned) nvml_text_number(&t, "utilisation",
                                                s.busy ? 100 : 0);
    rates->memory = (unsigned) nvml_text_number(&t, "memory_utilisation", 0);
    return NVML_RC_OK;
}

EXPORT int nvmlDeviceGetTemperature(struct nvml_device *d, int sensor,
                                    unsigned *celsius)
{
    return sensor ? NVML_RC_INVALID : nvml_small(d, "temperature", celsius);
}

EXPORT int nvmlDeviceGetFieldValues(struct nvml_device *d, int count,
                                    struct nvml_field *fields)
{
    struct nvml_text t;
    int rc = nvml_device(d, &t);

    for (int i = 0; !rc && i < count; i++) {
        fields[i].rc = NVML_RC_NOT_SUPPORTED;
        if (fields[i].id == NVML_FIELD_MEMORY_TEMPERATURE)
            fields[i].rc = nvml_small(d, "memory_temperature",
                                 &fields[i].value.u32);
        fields[i].type = NVML_TYPE_U32;
    }
    return rc;
}

EXPORT int nvmlDeviceGetPowerUsage(struct nvml_device *d, unsigned *mw)
{
    return nvml_small(d, "power", mw);
}

EXPORT int nvmlDeviceGetEnforcedPowerLimit(struct nvml_device *d, unsigned *mw)
{
    return nvml_small(d, "power_limit", mw);
}

EXPORT int nvmlDeviceGetTotalEnergyConsumption(struct nvml_device *d,
                                               unsigned long long *mj)
{
    return nvml_number(d, "energy", mj);
}

EXPORT int nvmlDeviceGetClockInfo(struct nvml_device *d, int clock,
                                  unsigned *mhz)
{
    return nvml_small(d, clock == NVML_CLOCK_SM ? "sm_clock" : "memory_clock",
                      mhz);
}

EXPORT int nvmlDeviceGetCurrentClocksEventReasons(struct nvml_device *d,
                                                  unsigned long long *reasons)
{
    return nvml_number(d, "reasons", reasons);
}

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(
    struct nvml_device *d, unsigned long long *reasons)
{
    return nvml_number(d, "reasons", reasons);
}

EXPORT int nvmlDeviceGetTotalEccErrors(struct nvml_device *d, int kind,
                                       int counter, unsigned long long *count)
{
    static const char *const keys[2][2] = {
        { "ecc_corrected", "ecc_corrected_life" },
        { "ecc_uncorrected", "ecc_uncorrected_life" },
    };

    if (kind < 0 || kind > 1 || counter < 0 || counter > 1)
        return NVML_RC_INVALID;
    return nvml_number(d, keys[kind][counter], count);
}

EXPORT int nvmlDeviceGetRemappedRows(struct nvml_device *d,
                                     unsigned *corrected,
                                     unsigned *uncorrected, unsigned *pending,
                                     unsigned *failed)
{
    struct nvml_text t;
    char text[64];
    int rc = nvml_device(d, &t);

    if (rc)
        return rc;
    if (!nvml_text_get(&t, "remapped", text, sizeof text))
        return NVML_RC_NOT_SUPPORTED;
    return sscanf(text, "%u,%u,%u,%u", corrected, uncorrected,    // NOLINT
                  pending, failed) == 4 ? NVML_RC_OK : NVML_RC_UNKNOWN;
}

EXPORT int nvmlDeviceGetPcieReplayCounter(struct nvml_device *d,
                                          unsigned *count)
{
    return nvml_small(d, "replays", count);
}

/* All processes of a device are clients of MPS, or none is. */
static int list_processes(struct nvml_device *d, bool mps, unsigned *count,
                          struct nvml_process *list)
{
    struct sum s = { .max = *count, .list = list };
    struct nvml_text t;
    int rc = nvml_device(d, &t);

    if (rc)
        return rc;
    s.device = d->index;
    if (mps == (nvml_text_number(&t, "mps", 0) != 0))
        processes(d, add, &s);
    *count = s.count;
    return s.count > s.max ? NVML_RC_SIZE : NVML_RC_OK;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *d,
                                                   unsigned *count,
                                                   struct nvml_process *list)
{
    return list_processes(d, false, count, list);
}

EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct nvml_device *d,
                                                      unsigned *count,
                                                      struct nvml_process *list)
{
    return list_processes(d, true, count, list);
}

EXPORT int nvmlDeviceGetProcessUtilization(struct nvml_device *d,
                                           struct nvml_process_use *list,
                                           unsigned *count,
                                           unsigned long long since_us)
{
    struct sum s = { .max = list ? *count : 0, .uses = list };
    struct nvml_text t;
    struct timespec now;
    int rc = nvml_device(d, &t);

    if (rc)
        return rc;
    (void) clock_gettime(CLOCK_REALTIME, &now);
    s.now_us = (unsigned long long) now.tv_sec * 1000000 +
               (unsigned long long) now.tv_nsec / 1000;
    s.device = d->index;
    if (s.now_us > since_us)
        processes(d, add, &s);
    *count = s.count;
    if (s.count > s.max)
        return NVML_RC_SIZE;
    return s.count ? NVML_RC_OK : NVML_RC_NOT_FOUND;
}

EXPORT int nvmlEventSetCreate(struct nvml_events **set)
{
    struct nvml_text t;
    int rc = nvml_driver(&t);

    if (rc)
        return rc;
    if (nvml_lib.events.used)
        return NVML_RC_UNKNOWN;        /* one is enough for who uses this */
    memset(&nvml_lib.events, 0, sizeof nvml_lib.events);
    nvml_lib.events.used = true;
    *set = &nvml_lib.events;
    return NVML_RC_OK;
}

/* What happened before is not told. */
EXPORT int nvmlDeviceRegisterEvents(struct nvml_device *d,
                                    unsigned long long types,
                                    struct nvml_events *set)
{
    struct nvml_text t;
    int rc = nvml_device(d, &t);

    if (rc)
        return rc;
    if (!set->used || types & ~(unsigned long long) NVML_EVENT_XID)
        return NVML_RC_INVALID;
    if (nvml_text_number(&t, "no_events", 0))
        return NVML_RC_NOT_SUPPORTED;
    set->watched[d->index] = true;
    (void) nvml_text_get(&t, "xid", set->xid[d->index],
                         sizeof set->xid[d->index]);
    return NVML_RC_OK;
}

static bool event_of(struct nvml_events *set, unsigned index,
                     struct nvml_event *event)
{
    struct nvml_text t;
    char name[16];
    char now[32];

    (void) snprintf(name, sizeof name, "gpu%u", index);
    if (!set->watched[index] || !nvml_text_read(name, &t))
        return false;
    (void) nvml_text_get(&t, "xid", now, sizeof now);
    if (!strcmp(now, set->xid[index]))
        return false;
    memcpy(set->xid[index], now, sizeof now);
    if (!now[0])
        return false;
    *event = (struct nvml_event) {
        .device = &nvml_lib.devices[index], .type = NVML_EVENT_XID,
        .data = strtoull(now, NULL, 10),
        .gpu_instance = ~0u, .compute_instance = ~0u,
    };
    return true;
}

EXPORT int nvmlEventSetWait_v2(struct nvml_events *set,
                               struct nvml_event *event, unsigned wait_ms)
{
    struct nvml_text t;
    int rc = nvml_driver(&t);

    while (!rc) {
        for (unsigned i = 0; i < STANDIN_DEVICES; i++)
            if (event_of(set, i, event))
                return NVML_RC_OK;
        if (!wait_ms)
            return NVML_RC_TIMEOUT;
        (void) usleep(1000);
        wait_ms--;
        rc = nvml_driver(&t);
    }
    return rc;
}

EXPORT int nvmlEventSetFree(struct nvml_events *set)
{
    set->used = false;
    return NVML_RC_OK;
}
