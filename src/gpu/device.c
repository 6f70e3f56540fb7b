#include "gpu/device.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void say(char why[DEVICE_WHY], const struct err *err)
{
    size_t n = strnlen(err->text, DEVICE_WHY - 1);

    memcpy(why, err->text, n);
    why[n] = '\0';
}

/* A code that makes the device useless, not one that means "cannot tell". */
static bool is_grave(int rc)
{
    return rc != NVML_RC_OK && rc != NVML_RC_NOT_SUPPORTED &&
           rc != NVML_RC_NO_FUNCTION && rc != NVML_RC_NOT_FOUND &&
           rc != NVML_RC_INVALID && rc != NVML_RC_SIZE;
}

static int read_names(const struct nvml *n, struct nvml_device *h,
                      struct device *d)
{
    struct nvml_memory m = { 0 };
    struct nvml_memory_v2 m2 = { .version = NVML_MEMORY_V2 };
    struct nvml_pci pci = { 0 };
    int rc = n->nvmlDeviceGetUUID(h, d->uuid, sizeof d->uuid);

    if (!rc)
        rc = n->nvmlDeviceGetName(h, d->model, sizeof d->model);
    if (rc)
        return rc;
    if (nvml_ask(n, nvmlDeviceGetMemoryInfo_v2, h, &m2) == NVML_RC_OK)
        d->memory_bytes = m2.total;
    else if (n->nvmlDeviceGetMemoryInfo(h, &m) == NVML_RC_OK)
        d->memory_bytes = m.total;
    rc = nvml_ask(n, nvmlDeviceGetPciInfo_v3, h, &pci);
    if (!rc)
        (void) snprintf(d->pci, sizeof d->pci, "%.*s",
                        (int) sizeof pci.text - 1, pci.text);
    return is_grave(rc) ? rc : 0;
}

/* The first NUMA node whose memory is near the device. */
static int read_numa(const struct nvml *n, struct nvml_device *h)
{
    unsigned long nodes[16] = { 0 };

    if (nvml_ask(n, nvmlDeviceGetMemoryAffinity, h, array_size(nodes), nodes,
                 0) != NVML_RC_OK)
        return -1;
    for (unsigned i = 0; i < array_size(nodes); i++)
        if (nodes[i])
            return (int) (i * 8 * sizeof nodes[0]) + __builtin_ctzl(nodes[i]);
    return -1;
}

static void read_migs(const struct nvml *n, struct nvml_device *h,
                      struct device *d)
{
    unsigned count = 0;

    if (d->mig_mode != 1 ||
        nvml_ask(n, nvmlDeviceGetMaxMigDeviceCount, h, &count) != NVML_RC_OK)
        return;
    for (unsigned i = 0; i < count && d->nmigs < NVML_MIGS; i++) {
        struct device_mig m = { .memory_bytes = 0 };
        struct nvml_memory memory = { 0 };
        struct nvml_device *mig = NULL;

        if (nvml_ask(n, nvmlDeviceGetMigDeviceHandleByIndex, h, i, &mig) ||
            n->nvmlDeviceGetUUID(mig, m.uuid, sizeof m.uuid) ||
            nvml_ask(n, nvmlDeviceGetGpuInstanceId, mig, &m.gpu_instance) ||
            nvml_ask(n, nvmlDeviceGetComputeInstanceId, mig,
                     &m.compute_instance))
            continue;                  /* a place without an instance */
        if (n->nvmlDeviceGetMemoryInfo(mig, &memory) == NVML_RC_OK)
            m.memory_bytes = memory.total;
        d->migs[d->nmigs++] = m;
    }
}

static int read_rest(const struct nvml *n, struct nvml_device *h,
                     struct device *d)
{
    unsigned now = 0;
    unsigned pending = 0;
    unsigned minor = 0;
    int rc = nvml_ask(n, nvmlDeviceGetCudaComputeCapability, h, &d->cc_major,
                      &d->cc_minor);

    if (is_grave(rc))
        return rc;
    if (nvml_ask(n, nvmlDeviceGetMinorNumber, h, &minor) == NVML_RC_OK)
        d->minor = (int) minor;
    d->numa = read_numa(n, h);
    rc = nvml_ask(n, nvmlDeviceGetMigMode, h, &now, &pending);
    if (is_grave(rc))
        return rc;
    if (rc == NVML_RC_OK)
        d->mig_mode = now ? 1 : 0;
    read_migs(n, h, d);
    return 0;
}

static void fail(const struct nvml *n, struct device *d, int rc)
{
    struct err err = { 0 };
    char name[32];

    (void) snprintf(name, sizeof name, "device %u", d->index);
    (void) nvml_fail(n, rc, d->uuid[0] ? d->uuid : name, &err);
    d->state = nvml_state_of(rc);
    say(d->why, &err);
}

static int read_one(const struct nvml *n, unsigned i, struct device *d,
                    struct nvml_device **ret)
{
    struct nvml_device *h = NULL;
    int rc;

    *d = (struct device) { .index = i, .minor = -1, .numa = -1,
                           .mig_mode = -1 };
    for (unsigned k = 0; k < DEVICE_MAX; k++)
        d->near[k] = DEVICE_NEAR_UNKNOWN;
    rc = n->nvmlDeviceGetHandleByIndex_v2(i, &h);
    if (!rc)
        rc = read_names(n, h, d);
    if (!rc)
        rc = read_rest(n, h, d);
    *ret = rc ? NULL : h;
    if (rc)
        fail(n, d, rc);
    return rc;
}

static void read_near(const struct nvml *n, struct device_list *l,
                      struct nvml_device *const handles[])
{
    for (unsigned i = 0; i < l->n; i++)
        for (unsigned k = 0; k < l->n; k++) {
            int level;

            if (i != k && handles[i] && handles[k] &&
                nvml_ask(n, nvmlDeviceGetTopologyCommonAncestor, handles[i],
                         handles[k], &level) == NVML_RC_OK)
                l->all[i].near[k] = level;
        }
}

static void read_link(const struct nvml *n, struct device_list *l, unsigned i,
                      struct nvml_device *h, unsigned link)
{
    struct nvml_pci pci = { 0 };
    unsigned active = 0;

    if (nvml_ask(n, nvmlDeviceGetNvLinkState, h, link, &active) || !active)
        return;
    l->all[i].nvlinks++;
    if (nvml_ask(n, nvmlDeviceGetNvLinkRemotePciInfo_v2, h, link, &pci))
        return;
    pci.text[sizeof pci.text - 1] = '\0';
    for (unsigned k = 0; k < l->n; k++)
        if (k != i && l->all[k].pci[0] && !strcmp(l->all[k].pci, pci.text))
            l->all[i].links[k]++;
}

static int read_driver(const struct nvml *n, struct device_list *l,
                       unsigned *ret_count, struct err *err)
{
    int rc = n->nvmlSystemGetDriverVersion(l->driver, sizeof l->driver);

    if (!rc)
        rc = n->nvmlDeviceGetCount_v2(ret_count);
    if (rc) {
        l->state = nvml_state_of(rc);
        return nvml_fail(n, rc, NULL, err);
    }
    l->scrub = scrub_read(SCRUB_PARAMS);
    if (nvml_ask(n, nvmlSystemGetCudaDriverVersion_v2, &l->cuda))
        l->cuda = 0;
    if (*ret_count == 0) {
        l->state = NVML_NO_DEVICE;
        return err_set(err, ENODEV, "driver %s is loaded and finds no device",
                       l->driver);
    }
    return 0;
}

int device_list_read(const struct nvml *n, struct device_list *ret,
                     struct nvml_device *handles[DEVICE_MAX], struct err *err)
{
    struct err own = { 0 };
    unsigned count = 0;
    int rc;

    memset(ret, 0, sizeof *ret);
    memset(handles, 0, DEVICE_MAX * sizeof(handles[0]));
    rc = read_driver(n, ret, &count, &own);
    for (unsigned i = 0; rc == 0 && i < count && i < DEVICE_MAX; i++) {
        int code = read_one(n, i, &ret->all[i], &handles[i]);

        ret->n = i + 1;
        if (code && nvml_state_is_driver(nvml_state_of(code))) {
            ret->state = nvml_state_of(code);
            rc = nvml_fail(n, code, NULL, &own);
        }
    }
    if (rc < 0) {
        ret->n = 0;
        say(ret->why, &own);
        if (err)
            *err = own;
        return rc;
    }
    read_near(n, ret, handles);
    for (unsigned i = 0; i < ret->n; i++)
        for (unsigned link = 0; handles[i] && link < NVML_LINKS; link++)
            read_link(n, ret, i, handles[i], link);
    return 0;
}
