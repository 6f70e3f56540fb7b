#include "nvml_in.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A libnvidia-ml.so.1 without a GPU.  standin.h says where it looks; these are
 * the keys it knows.
 *
 *   driver   version=580.159.04   cuda=13000
 *            nvml=570.1           the library's own version: another than the
 *                                 driver's is a mismatch
 *            denied=1             nvmlInit has no permission
 *   gpuN     uuid= model= memory= (bytes) cc=9.0 pci=00000000:1B:00.0 minor=
 *            numa=                none: not told
 *            switch=0             PCIe switch it hangs on: same switch, near
 *            nvlinks=N:PCI,...    N links to the device at that address
 *            mig=1 mig0=UUID:GI:CI:BYTES ...
 *            utilisation= memory_utilisation= (percent; without the first, 100
 *            while a process' kernels run) used= (bytes beside the processes')
 *            reserved= temperature= memory_temperature= power= power_limit=
 *            energy= sm_clock= memory_clock= reasons= ecc_corrected=
 *            ecc_uncorrected= ecc_corrected_life= ecc_uncorrected_life=
 *            remapped=CORRECTED,UNCORRECTED,PENDING,FAILED replays=
 *                                 none: not supported
 *            xid=79               an event when it becomes another text than it
 *                                 was; 79/2 is another than 79/1
 *            no_events=1          it tells of none
 *            mps=1                its processes are clients of MPS
 *            lost=1 reset=1 denied=1 fault=1
 *            slow_ms=             how long each question about it takes
 */
struct nvml_lib nvml_lib;

/* A driver that went away or was replaced takes the library with it: only a
 * new start finds the next one.
 */
int nvml_driver(struct nvml_text *t)
{
    char version[NVML_TEXT];

    if (!nvml_lib.begun)
        return NVML_RC_UNINITIALIZED;
    if (nvml_lib.dead || !nvml_text_read("driver", t)) {
        nvml_lib.dead = true;
        return NVML_RC_DRIVER_NOT_LOADED;
    }
    (void) nvml_text_get(t, "version", version, sizeof version);
    return strcmp(version, nvml_lib.version) ? NVML_RC_MISMATCH : NVML_RC_OK;
}

int nvml_device(const struct nvml_device *d, struct nvml_text *t)
{
    char name[16];
    int rc = nvml_driver(t);
    unsigned long long slow;

    if (rc)
        return rc;
    if (!d)
        return NVML_RC_INVALID;
    (void) snprintf(name, sizeof name, "gpu%u", d->index);
    if (!nvml_text_read(name, t) || nvml_text_number(t, "lost", 0))
        return NVML_RC_LOST;
    slow = nvml_text_number(t, "slow_ms", 0);
    if (slow)
        (void) usleep((useconds_t) slow * 1000);
    if (nvml_text_number(t, "reset", 0))
        return NVML_RC_RESET_REQUIRED;
    if (nvml_text_number(t, "fault", 0))
        return NVML_RC_UNKNOWN;
    return nvml_text_number(t, "denied", 0) ? NVML_RC_NO_PERMISSION :
           NVML_RC_OK;
}

static int give(const char *value, char *text, unsigned size)
{
    if (strlen(value) >= size)
        return NVML_RC_SIZE;
    memcpy(text, value, strlen(value) + 1);
    return NVML_RC_OK;
}

int nvml_number(const struct nvml_device *d, const char *key,
                unsigned long long *ret)
{
    struct nvml_text t;
    char text[32];
    int rc = nvml_device(d, &t);

    if (rc)
        return rc;
    if (d->mig >= 0 || !nvml_text_get(&t, key, text, sizeof text))
        return NVML_RC_NOT_SUPPORTED;
    *ret = strtoull(text, NULL, 0);
    return NVML_RC_OK;
}

int nvml_small(const struct nvml_device *d, const char *key, unsigned *ret)
{
    unsigned long long v = 0;
    int rc = nvml_number(d, key, &v);

    if (!rc)
        *ret = (unsigned) v;
    return rc;
}

EXPORT int nvmlInit_v2(void)
{
    struct nvml_text t;
    char own[NVML_TEXT];

    if (!nvml_text_read("driver", &t))
        return NVML_RC_DRIVER_NOT_LOADED;
    if (nvml_text_number(&t, "denied", 0))
        return NVML_RC_NO_PERMISSION;
    (void) nvml_text_get(&t, "version", nvml_lib.version,
                         sizeof nvml_lib.version);
    if (nvml_text_get(&t, "nvml", own, sizeof own) &&
        strcmp(own, nvml_lib.version) != 0)
        return NVML_RC_MISMATCH;
    for (unsigned i = 0; i < STANDIN_DEVICES; i++) {
        nvml_lib.devices[i] = (struct nvml_device) { i, -1 };
        for (int k = 0; k < NVML_MIGS; k++)
            nvml_lib.migs[i][k] = (struct nvml_device) { i, k };
    }
    nvml_lib.begun = true;
    nvml_lib.dead = false;
    return NVML_RC_OK;
}

EXPORT int nvmlShutdown(void)
{
    if (!nvml_lib.begun)
        return NVML_RC_UNINITIALIZED;
    memset(&nvml_lib, 0, sizeof nvml_lib);
    return NVML_RC_OK;
}

EXPORT const char *nvmlErrorString(int rc)
{
    switch (rc) {
    case NVML_RC_OK:
        return "Success";
    case NVML_RC_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_RC_NO_PERMISSION:
        return "Insufficient Permissions";
    case NVML_RC_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    case NVML_RC_LOST:
        return "GPU is lost";
    case NVML_RC_MISMATCH:
        return "Driver/library version mismatch";
    default:
        return "Unknown Error";
    }
}

EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    struct nvml_text t;
    int rc = nvml_driver(&t);

    return rc ? rc : give(nvml_lib.version, text, size);
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    struct nvml_text t;
    int rc = nvml_driver(&t);

    if (!rc)
        *version = (int) nvml_text_number(&t, "cuda", 13000);
    return rc;
}

/* A device that fell off the bus is still counted. */
EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
    struct nvml_text t;
    char name[16];
    unsigned n = 0;
    int rc = nvml_driver(&t);

    if (rc)
        return rc;
    do
        (void) snprintf(name, sizeof name, "gpu%u", n);
    while (n < STANDIN_DEVICES && nvml_text_read(name, &t) && ++n);
    *count = n;
    return NVML_RC_OK;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index,
                                         struct nvml_device **ret)
{
    struct nvml_text t;
    unsigned count;
    int rc = nvmlDeviceGetCount_v2(&count);

    if (rc)
        return rc;
    if (index >= count)
        return NVML_RC_INVALID;
    rc = nvml_device(&nvml_lib.devices[index], &t);
    if (!rc)
        *ret = &nvml_lib.devices[index];
    return rc;
}

bool nvml_mig_part(const struct nvml_device *d, const struct nvml_text *t,
                   int part, char *buf, size_t size)
{
    char key[16];
    char line[160];
    char *p = line;

    (void) snprintf(key, sizeof key, "mig%d", d->mig);
    if (!nvml_text_get(t, key, line, sizeof line))
        return false;
    for (int i = 0; i < part; i++) {
        p += strcspn(p, ":");
        p += *p == ':';
    }
    p[strcspn(p, ":")] = '\0';
    return give(p, buf, (unsigned) size) == NVML_RC_OK;
}

EXPORT int nvmlDeviceGetUUID(struct nvml_device *d, char *text, unsigned size)
{
    struct nvml_text t;
    char value[NVML_TEXT];
    int rc = nvml_device(d, &t);

    if (rc)
        return rc;
    if (d->mig >= 0 ? !nvml_mig_part(d, &t, 0, value, sizeof value) :
        !nvml_text_get(&t, "uuid", value, sizeof value))
        return NVML_RC_NOT_FOUND;
    return give(value, text, size);
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid,
                                     struct nvml_device **ret)
{
    unsigned count = 0;
    int rc = nvmlDeviceGetCount_v2(&count);

    for (unsigned i = 0; !rc && i < count; i++) {
        char text[NVML_TEXT];

        if (!nvmlDeviceGetUUID(&nvml_lib.devices[i], text, sizeof text) &&
            !strcmp(text, uuid)) {
            *ret = &nvml_lib.devices[i];
            return NVML_RC_OK;
        }
    }
    return rc ? rc : NVML_RC_NOT_FOUND;
}

EXPORT int nvmlDeviceGetName(struct nvml_device *d, char *text, unsigned size)
{
    static const char end[] = " (simulated)";
    struct nvml_text t;
    char model[NVML_TEXT - sizeof end];
    char value[NVML_TEXT];
    int rc = nvml_device(d, &t);

    if (rc)
        return rc;
    (void) nvml_text_get(&t, "model", model, sizeof model);
    (void) snprintf(value, sizeof value, "%s%s", model, end);
    return give(value, text, size);
}

static int pci_read(const char *text, struct nvml_pci *pci)
{
    memset(pci, 0, sizeof *pci);
    if (sscanf(text, "%8x:%2x:%2x", &pci->domain, &pci->bus,  // NOLINT
               &pci->device) != 3)
        return NVML_RC_UNKNOWN;
    return give(text, pci->text, sizeof pci->text);
}

EXPORT int nvmlDeviceGetPciInfo_v3(struct nvml_device *d, struct nvml_pci *pci)
{
    struct nvml_text t;
    char text[32];
    int rc = nvml_device(d, &t);

    if (rc)
        return rc;
    return nvml_text_get(&t, "pci", text, sizeof text) ? pci_read(text, pci) :
           NVML_RC_NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetMinorNumber(struct nvml_device *d, unsigned *minor)
{
    struct nvml_text t;
    int rc = nvml_device(d, &t);

    if (!rc)
        *minor = (unsigned) nvml_text_number(&t, "minor", d->index);
    return rc;
}

EXPORT int nvmlDeviceGetCudaComputeCapability(struct nvml_device *d,
                                              int *major, int *minor)
{
    struct nvml_text t;
    char text[16];
    char *end = text;
    int rc = nvml_device(d, &t);

    if (rc)
        return rc;
    if (!nvml_text_get(&t, "cc", text, sizeof text))
        return NVML_RC_NOT_SUPPORTED;
    *major = (int) strtol(text, &end, 10);
    *minor = *end == '.' ? (int) strtol(end + 1, NULL, 10) : 0;
    return NVML_RC_OK;
}

EXPORT int nvmlDeviceGetMemoryAffinity(struct nvml_device *d, unsigned words,
                                       unsigned long *nodes, unsigned scope)
{
    unsigned long long node = 0;
    int rc = nvml_number(d, "numa", &node);

    (void) scope;
    if (rc)
        return rc;
    if (node / (8 * sizeof *nodes) >= words)
        return NVML_RC_SIZE;
    memset(nodes, 0, words * sizeof *nodes);
    nodes[node / (8 * sizeof *nodes)] |= 1ul << node % (8 * sizeof *nodes);
    return NVML_RC_OK;
}

EXPORT int nvmlDeviceGetTopologyCommonAncestor(struct nvml_device *one,
                                               struct nvml_device *other,
                                               int *level)
{
    struct nvml_text a;
    struct nvml_text b;
    int rc = nvml_device(one, &a);

    if (!rc)
        rc = nvml_device(other, &b);
    if (rc)
        return rc;
    if (nvml_text_number(&a, "switch", 900) ==
        nvml_text_number(&b, "switch", 901))
        *level = 10;
    else if (nvml_text_number(&a, "numa", 0) ==
             nvml_text_number(&b, "numa", 0))
        *level = 40;
    else
        *level = 50;
    return NVML_RC_OK;
}

/* nvlinks=N:PCI,...: who is at the end of that link? */
static bool link_end(const struct nvml_text *t, unsigned link, char *buf,
                     size_t size)
{
    char text[512];
    char *p = text;

    (void) nvml_text_get(t, "nvlinks", text, sizeof text);
    while (*p) {
        unsigned n = (unsigned) strtoul(p, &p, 10);
        size_t len = strcspn(p, ",");

        if (link < n && len > 1) {
            (void) snprintf(buf, size, "%.*s", (int) len - 1, p + 1);
            return true;
        }
        link -= n;
        p += len;
        p += *p == ',';
    }
    return false;
}

EXPORT int nvmlDeviceGetNvLinkState(struct nvml_device *d, unsigned link,
                                    unsigned *active)
{
    struct nvml_text t;
    char text[64];
    int rc = nvml_device(d, &t);

    if (rc)
        return rc;
    if (!nvml_text_get(&t, "nvlinks", text, sizeof text))
        return NVML_RC_NOT_SUPPORTED;
    *active = link_end(&t, link, text, sizeof text);
    return NVML_RC_OK;
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct nvml_device *d,
                                               unsigned link,
                                               struct nvml_pci *pci)
{
    struct nvml_text t;
    char text[64];
    int rc = nvml_device(d, &t);

    if (rc)
        return rc;
    return link_end(&t, link, text, sizeof text) ? pci_read(text, pci) :
           NVML_RC_NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetMigMode(struct nvml_device *d, unsigned *now,
                                unsigned *pending)
{
    int rc = nvml_small(d, "mig", now);

    if (!rc)
        *pending = *now;
    return rc;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(struct nvml_device *d,
                                          unsigned *count)
{
    unsigned on = 0;
    int rc = nvml_small(d, "mig", &on);

    if (!rc)
        *count = on ? NVML_MIGS - 1 : 0;
    return rc;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(struct nvml_device *d,
                                               unsigned index,
                                               struct nvml_device **mig)
{
    struct nvml_text t;
    char text[NVML_TEXT];
    int rc = nvml_device(d, &t);

    if (rc)
        return rc;
    if (index >= NVML_MIGS)
        return NVML_RC_INVALID;
    if (!nvml_mig_part(&nvml_lib.migs[d->index][index], &t, 0, text,
                       sizeof text))
        return NVML_RC_NOT_FOUND;
    *mig = &nvml_lib.migs[d->index][index];
    return NVML_RC_OK;
}

static int mig_number(const struct nvml_device *d, int part, unsigned *ret)
{
    struct nvml_text t;
    char text[32];
    int rc = nvml_device(d, &t);

    if (rc)
        return rc;
    if (d->mig < 0 || !nvml_mig_part(d, &t, part, text, sizeof text))
        return NVML_RC_NOT_SUPPORTED;
    *ret = (unsigned) strtoul(text, NULL, 10);
    return NVML_RC_OK;
}

EXPORT int nvmlDeviceGetGpuInstanceId(struct nvml_device *d, unsigned *id)
{
    return mig_number(d, 1, id);
}

EXPORT int nvmlDeviceGetComputeInstanceId(struct nvml_device *d, unsigned *id)
{
    return mig_number(d, 2, id);
}
