#include "gate/driver.h"
#include "gate/limit.h"
#include "gate/slot.h"

#include <string.h>

/* Devices, contexts, and calls that wait for the device.
 *
 * A process has the devices of its lease under the numbers 0, 1, ... of the
 * grant; the driver's own numbers are behind them.
 */
typedef CUresult (*uuid_fn)(void *, CUdevice);
typedef CUresult (*state_fn)(CUdevice, unsigned int *, int *);

/* The driver's device with that UUID, or -1. */
static int find_device(const uint8_t uuid[16])
{
    int n = 0;

    if (REAL(cuDeviceGetCount)(&n))
        return -1;
    for (int k = 0; k < n; k++) {
        uint8_t have[16];
        CUdevice dev;

        if (REAL(cuDeviceGet)(&dev, k) == CUDA_SUCCESS &&
            REAL_AS(uuid_fn, cuDeviceGetUuid)(have, dev) == CUDA_SUCCESS &&
            memcmp(have, uuid, sizeof have) == 0)
            return k;
    }
    return -1;
}

/* The leased devices that are there, `want` of them; the last one's number. */
static int count_leased(int want, int *number)
{
    uint8_t uuid[16];
    int leased = gate_leased(-1, uuid), n = 0;

    for (int k = 0; k < leased && n < want; k++) {
        (void) gate_leased(k, uuid);
        *number = find_device(uuid);
        n += *number >= 0;
    }
    return n;
}

CUresult cuDeviceGetCount(int *n)
{
    uint8_t uuid[16];
    int number;
    CUresult rc;

    gate_pass();
    rc = REAL(cuDeviceGetCount)(n);
    if (rc == CUDA_SUCCESS && n && gate_leased(-1, uuid) >= 0)
        *n = count_leased(GATE_DEVICES, &number);
    return rc;
}

CUresult cuDeviceGet(CUdevice *dev, int ordinal)
{
    uint8_t uuid[16];
    int number = ordinal, n;

    gate_pass();
    if (gate_leased(-1, uuid) >= 0 && REAL(cuDeviceGetCount)(&n) == 0 &&
        (ordinal < 0 || count_leased(ordinal + 1, &number) != ordinal + 1))
        return CUDA_ERROR_INVALID_DEVICE;
    return REAL(cuDeviceGet)(dev, number);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
    CUresult rc;

    gate_first();
    gate_count(GATE_OTHER);
    rc = REAL(cuDevicePrimaryCtxRetain)(ctx, dev);
    if (rc == CUDA_SUCCESS)
        limit_primary(dev, *ctx);
    return rc;
}

/* A primary context that is no longer active took its memory with it. */
static CUresult left_primary(CUresult rc, CUdevice dev)
{
    unsigned int flags;
    int active = 1;

    if (rc == CUDA_SUCCESS &&
        REAL_AS(state_fn, cuDevicePrimaryCtxGetState)(dev, &flags, &active) ==
            CUDA_SUCCESS && !active)
        limit_lose_primary(dev);
    return rc;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    gate_pass();
    return left_primary(REAL(cuDevicePrimaryCtxRelease)(dev), dev);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    gate_pass();
    return left_primary(REAL(cuDevicePrimaryCtxRelease_v2)(dev), dev);
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    gate_pass();
    return left_primary(REAL(cuDevicePrimaryCtxReset)(dev), dev);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    gate_pass();
    return left_primary(REAL(cuDevicePrimaryCtxReset_v2)(dev), dev);
}

#define CREATE(name, params, args) \
    CUresult name params \
    { \
        gate_first(); \
        gate_count(GATE_OTHER); \
        return REAL(name) args; \
    }

CREATE(cuCtxCreate, (CUcontext *ctx, unsigned int flags, CUdevice dev),
       (ctx, flags, dev))
CREATE(cuCtxCreate_v2, (CUcontext *ctx, unsigned int flags, CUdevice dev),
       (ctx, flags, dev))
CREATE(cuCtxCreate_v3, (CUcontext *ctx, void *params, int n,
                        unsigned int flags, CUdevice dev),
       (ctx, params, n, flags, dev))
CREATE(cuCtxCreate_v4, (CUcontext *ctx, void *params, unsigned int flags,
                        CUdevice dev),
       (ctx, params, flags, dev))
CREATE(cuGLCtxCreate, (CUcontext *ctx, unsigned int flags, CUdevice dev),
       (ctx, flags, dev))
CREATE(cuGLCtxCreate_v2, (CUcontext *ctx, unsigned int flags, CUdevice dev),
       (ctx, flags, dev))
CREATE(cuGreenCtxCreate, (void **ctx, void *desc, CUdevice dev,
                          unsigned int flags),
       (ctx, desc, dev, flags))

#define DESTROY(name) \
    CUresult name(CUcontext ctx) \
    { \
        CUresult rc; \
        gate_pass(); \
        rc = REAL(name)(ctx); \
        if (rc == CUDA_SUCCESS) \
            limit_lose(ctx); \
        return rc; \
    }

DESTROY(cuCtxDestroy)
DESTROY(cuCtxDestroy_v2)

/* A thread in one of these uses the device although it makes no calls. */
#define WAIT(name, params, args) \
    CUresult name params \
    { \
        struct gate_slot *slot; \
        struct gate_page *page; \
        CUresult rc; \
        gate_pass(); \
        slot = slot_mine(); \
        page = gate_page; \
        page->count[GATE_SYNC]++; \
        SLOT_ADD(page, slot, inside, 1); \
        rc = REAL(name) args; \
        SLOT_SUB(page, slot, inside, 1); \
        return rc; \
    }

WAIT(cuCtxSynchronize, (void), ())
WAIT(cuCtxSynchronize_v2, (CUcontext ctx), (ctx))
WAIT(cuStreamSynchronize, (CUstream s), (s))
WAIT(cuStreamSynchronize_ptsz, (CUstream s), (s))
WAIT(cuEventSynchronize, (void *e), (e))
