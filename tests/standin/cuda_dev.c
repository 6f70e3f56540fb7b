#include "cuda_in.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Devices as the files gpu0, gpu1, ... have them, and contexts on them. */
enum { STACK_MAX = 16, SHORT_TOTAL_GIB = 80 };

struct CUctx_st {
    CUdevice dev;
    bool primary;
    int refs;
};

static pid_t init_pid;                 /* who called cuInit */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st primary[STANDIN_DEVICES];
static int on_device[STANDIN_DEVICES]; /* contexts */
static __thread CUcontext stack[STACK_MAX];
static __thread int depth;

bool standin_device_file(char *name, size_t size, CUdevice dev)
{
    char path[512];

    (void) snprintf(name, size, "gpu%d", dev);
    return dev >= 0 && dev < STANDIN_DEVICES &&
           standin_path(path, sizeof path, name) && access(path, R_OK) == 0;
}

int standin_devices(void)
{
    char name[32];
    int n = 0;

    while (standin_device_file(name, sizeof name, n))
        n++;
    return n;
}

static int look(char *name, size_t size, CUdevice dev)
{
    if (init_pid != getpid())
        return CUDA_ERROR_NOT_INITIALIZED;
    return standin_device_file(name, size, dev) ? CUDA_SUCCESS
                                                : CUDA_ERROR_INVALID_DEVICE;
}

uint64_t standin_total(CUdevice dev)
{
    char name[32];

    (void) snprintf(name, sizeof name, "gpu%d", dev);
    return standin_number(name, "memory", (uint64_t) SHORT_TOTAL_GIB << 30);
}

/* Takes GPU-xxxxxxxx-...; a device without one has its number. */
bool standin_uuid(CUdevice dev, CUuuid *id)
{
    char name[32], text[128], hex[3] = "";
    const char *s = text;
    size_t k = 0;

    memset(id, 0, sizeof *id);
    id->bytes[15] = (char) dev;
    (void) snprintf(name, sizeof name, "gpu%d", dev);
    if (!standin_key(name, "uuid", text, sizeof text))
        return false;
    if (strncmp(s, "GPU-", 4) == 0)
        s += 4;
    for (; *s && k < sizeof id->bytes; s++) {
        if (!isxdigit((unsigned char) s[0]) || !isxdigit((unsigned char) s[1]))
            continue;
        memcpy(hex, s++, 2);
        id->bytes[k++] = (char) strtoul(hex, NULL, 16);
    }
    return k == sizeof id->bytes;
}

API CUresult cuInit(unsigned int flags)
{
    CALL;
    int rc = (int) standin_number("faults", "init", 0);

    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc)
        return rc;
    if (standin_number("driver", "cuda", 0) == 0 || standin_devices() == 0)
        return CUDA_ERROR_NO_DEVICE;
    if (init_pid && init_pid != getpid())
        return CUDA_ERROR_NOT_INITIALIZED;     /* a child of who had one */
    init_pid = getpid();
    return CUDA_SUCCESS;
}

API CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = (int) standin_number("driver", "cuda", 13000);
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetCount(int *n)
{
    CALL;
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    *n = standin_devices();
    return init_pid == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

API CUresult cuDeviceGet(CUdevice *dev, int ordinal)
{
    CALL;
    char name[32];
    int rc = look(name, sizeof name, ordinal);

    if (rc == CUDA_SUCCESS)
        *dev = ordinal;
    return rc;
}

API CUresult cuDeviceGetName(char *s, int n, CUdevice dev)
{
    CALL;
    char name[32], model[128] = "GPU";
    int rc = look(name, sizeof name, dev);

    if (rc)
        return rc;
    (void) standin_key(name, "model", model, sizeof model);
    (void) snprintf(s, (size_t) n, "%s (simulated)", model);
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetUuid(CUuuid *id, CUdevice dev)
{
    CALL;
    char name[32];
    int rc = look(name, sizeof name, dev);

    if (rc == CUDA_SUCCESS)
        (void) standin_uuid(dev, id);
    return rc;
}

API CUresult cuDeviceGetUuid_v2(CUuuid *id, CUdevice dev)
{
    return cuDeviceGetUuid(id, dev);
}

API CUresult cuDeviceTotalMem_v2(size_t *n, CUdevice dev)
{
    CALL;
    char name[32];
    int rc = look(name, sizeof name, dev);

    if (rc == CUDA_SUCCESS)
        *n = standin_total(dev);
    return rc;
}

API CUresult cuDeviceGetAttribute(int *v, int attr, CUdevice dev)
{
    static const struct { int attr, value; } known[] = {
        { 1, 1024 }, { 10, 32 }, { 16, 132 }, { 75, 9 }, { 76, 0 },
        { 41, 1 }, { 83, 1 }, { 102, 1 }, { 115, 1 },
    };
    CALL;
    char name[32];
    int rc = look(name, sizeof name, dev);

    if (rc)
        return rc;
    *v = 0;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        if (known[k].attr == attr)
            *v = known[k].value;
    }
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetPCIBusId(char *s, int n, CUdevice dev)
{
    CALL;
    char name[32];
    int rc = look(name, sizeof name, dev);

    if (rc == CUDA_SUCCESS)
        (void) snprintf(s, (size_t) n, "0000:%02x:00.0",
                        (unsigned int) dev + 1);
    return rc;
}

static int begin(CUdevice dev)
{
    char name[32];
    int rc = look(name, sizeof name, dev);

    if (rc == CUDA_SUCCESS)
        rc = (int) standin_number("faults", "retain", 0);
    if (rc == CUDA_SUCCESS && standin_number(name, "lost", 0))
        rc = CUDA_ERROR_UNKNOWN;
    if (rc == CUDA_SUCCESS)
        rc = standin_make_me();
    if (rc)
        return rc;
    on_device[dev]++;
    standin_me->contexts |= 1U << dev;
    return CUDA_SUCCESS;
}

static void end(CUdevice dev)
{
    if (--on_device[dev] == 0 && standin_me)
        standin_me->contexts &= ~(1U << dev);
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
    int rc = CUDA_SUCCESS;

    CALL;
    (void) pthread_mutex_lock(&lock);
    if (dev < 0 || dev >= STANDIN_DEVICES)
        rc = CUDA_ERROR_INVALID_DEVICE;
    else if (primary[dev].refs == 0)
        rc = begin(dev);
    if (rc == CUDA_SUCCESS) {
        primary[dev].dev = dev;
        primary[dev].primary = true;
        primary[dev].refs++;
        *ctx = &primary[dev];
    }
    (void) pthread_mutex_unlock(&lock);
    return rc;
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    int rc = CUDA_ERROR_INVALID_CONTEXT;

    CALL;
    (void) pthread_mutex_lock(&lock);
    if (dev >= 0 && dev < STANDIN_DEVICES && primary[dev].refs > 0) {
        if (--primary[dev].refs == 0)
            end(dev);
        rc = CUDA_SUCCESS;
    }
    (void) pthread_mutex_unlock(&lock);
    return rc;
}

API CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    CALL;
    return dev >= 0 && dev < standin_devices() ? CUDA_SUCCESS
                                               : CUDA_ERROR_INVALID_DEVICE;
}

API CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags,
                                        int *active)
{
    CALL;
    char name[32];
    int rc = look(name, sizeof name, dev);

    if (rc)
        return rc;
    *flags = 0;
    *active = primary[dev].refs > 0;
    return CUDA_SUCCESS;
}

static int create(CUcontext *ctx, CUdevice dev)
{
    CUcontext c;
    int rc;

    (void) pthread_mutex_lock(&lock);
    rc = begin(dev);
    (void) pthread_mutex_unlock(&lock);
    if (rc)
        return rc;
    c = calloc(1, sizeof *c);
    if (!c || depth == STACK_MAX) {
        free(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    c->dev = dev;
    c->refs = 1;
    stack[depth++] = c;
    *ctx = c;
    return CUDA_SUCCESS;
}

API CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice dev)
{
    CALL;
    (void) flags;
    return create(ctx, dev);
}

API CUresult cuCtxCreate_v3(CUcontext *ctx, void *params, int n,
                            unsigned int flags, CUdevice dev)
{
    CALL;
    (void) params;
    (void) n;
    (void) flags;
    return create(ctx, dev);
}

API CUresult cuCtxCreate_v4(CUcontext *ctx, void *params, unsigned int flags,
                            CUdevice dev)
{
    CALL;
    (void) params;
    (void) flags;
    return create(ctx, dev);
}

API CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    CALL;
    if (!ctx || ctx->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth && stack[depth - 1] == ctx)
        depth--;
    (void) pthread_mutex_lock(&lock);
    end(ctx->dev);
    (void) pthread_mutex_unlock(&lock);
    free(ctx);
    return CUDA_SUCCESS;
}

API CUresult cuCtxSetCurrent(CUcontext ctx)
{
    CALL;
    if (depth == 0)
        depth = 1;
    stack[depth - 1] = ctx;
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetCurrent(CUcontext *ctx)
{
    CALL;
    *ctx = depth ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

API CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    CALL;
    if (!ctx || depth == STACK_MAX)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = ctx;
    return CUDA_SUCCESS;
}

API CUresult cuCtxPopCurrent_v2(CUcontext *ctx)
{
    CALL;
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (ctx)
        *ctx = stack[depth];
    return CUDA_SUCCESS;
}

CUdevice standin_current(void)
{
    return depth && stack[depth - 1] && standin_me ? stack[depth - 1]->dev
                                                   : -1;
}

API CUresult cuCtxGetDevice(CUdevice *dev)
{
    CALL;
    *dev = standin_current();
    return *dev < 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}
