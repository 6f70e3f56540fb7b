#include "gate/gate.h"
#include "gate/limit.h"

/* The hooks of everything that gets or gives back device memory.
 *
 * Memory that another process made (IPC, imported handles) is counted there and
 * not here.  Host memory is not counted.
 */
typedef CUresult (*dev_fn)(CUdevice *);

/* A call that gets `bytes`, put at `*out`, on a device. */
#define TAKE_ON(dev, name, params, args, kind, bytes, out) \
    CUresult name params \
    { \
        struct limit_book b; \
        CUresult rc; \
        gate_first(); \
        gate_count(GATE_OTHER); \
        rc = limit_take(&b, dev, bytes); \
        if (rc) \
            return rc; \
        rc = REAL(name) args; \
        return limit_settle(&b, rc, kind, rc ? 0 : (uint64_t) (*(out))); \
    }

#define TAKE(name, params, args, kind, bytes, out) \
    TAKE_ON(LIMIT_HERE, name, params, args, kind, bytes, out)

#define GIVE(name, params, args, kind_, key_) \
    CUresult name params \
    { \
        struct limit_entry e; \
        bool known; \
        gate_pass(); \
        gate_count(GATE_OTHER); \
        known = limit_out(&e, kind_, (uint64_t) (key_)); \
        return limit_after(&e, known, REAL(name) args); \
    }

TAKE(cuMemAlloc_v2, (CUdeviceptr *p, size_t n), (p, n), LIMIT_POINTER, n, p)
TAKE(cuMemAllocManaged, (CUdeviceptr *p, size_t n, unsigned int flags),
     (p, n, flags), LIMIT_POINTER, n, p)
TAKE_ON(graph_captures(s, false) ? LIMIT_HOST : LIMIT_HERE,
        cuMemAllocAsync, (CUdeviceptr *p, size_t n, CUstream s),
        (p, n, s), LIMIT_POINTER, n, p)
TAKE_ON(graph_captures(s, true) ? LIMIT_HOST : LIMIT_HERE,
        cuMemAllocAsync_ptsz, (CUdeviceptr *p, size_t n, CUstream s),
        (p, n, s), LIMIT_POINTER, n, p)
TAKE_ON(graph_captures(s, false) ? LIMIT_HOST : limit_pool_device(pool),
        cuMemAllocFromPoolAsync,
        (CUdeviceptr *p, size_t n, void *pool, CUstream s), (p, n, pool, s),
        LIMIT_POINTER, n, p)
TAKE_ON(graph_captures(s, true) ? LIMIT_HOST : limit_pool_device(pool),
        cuMemAllocFromPoolAsync_ptsz,
        (CUdeviceptr *p, size_t n, void *pool, CUstream s), (p, n, pool, s),
        LIMIT_POINTER, n, p)

/* More than there is, where a product has no place in 64 bits. */
static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t n;

    return __builtin_mul_overflow(a, b, &n) ? UINT64_MAX : n;
}

/* What the driver makes of the pitch is known afterwards: a row is at most 512
 * bytes wider than asked for.
 */
static uint64_t pitched(uint64_t width, uint64_t height)
{
    return times(times(width / 512 + (width % 512 != 0), 512), height);
}

TAKE(cuMemAllocPitch_v2,
     (CUdeviceptr *p, size_t *pitch, size_t width, size_t height,
      unsigned int element), (p, pitch, width, height, element),
     LIMIT_POINTER, pitched(width, height), p)
TAKE(cuMemAlloc, (uint32_t *p, uint32_t n), (p, n), LIMIT_POINTER, n, p)
TAKE(cuMemAllocPitch,
     (uint32_t *p, uint32_t *pitch, uint32_t width, uint32_t height,
      unsigned int element), (p, pitch, width, height, element),
     LIMIT_POINTER, pitched(width, height), p)

GIVE(cuMemFree_v2, (CUdeviceptr p), (p), LIMIT_POINTER, p)
GIVE(cuMemFree, (uint32_t p), (p), LIMIT_POINTER, p)
GIVE(cuMemFreeAsync, (CUdeviceptr p, CUstream s), (p, s), LIMIT_POINTER, p)
GIVE(cuMemFreeAsync_ptsz, (CUdeviceptr p, CUstream s), (p, s), LIMIT_POINTER,
     p)

/* Bytes of a texel; formats of blocks have less. */
static uint64_t texel(int format, unsigned int channels)
{
    switch (format) {
    case 0x01: case 0x08:
        return channels;
    case 0x02: case 0x09: case 0x10:
        return 2ULL * channels;
    default:
        return 4ULL * channels;
    }
}

static uint64_t at_least(uint64_t n)
{
    return n ? n : 1;
}

static uint64_t bytes_2d(uint64_t width, uint64_t height, uint64_t bytes)
{
    return times(times(width, at_least(height)), bytes);
}

/* Flags of an array: layers are not halved from level to level; what is mapped
 * later is counted where its memory is made.
 */
enum { LAYERED = 0x01, CUBEMAP = 0x04, SPARSE = 0x40, MAPPED_LATER = 0x80 };

/* Levels beyond the first halve each side: 0 and 1 are one level. */
static uint64_t bytes_3d(const struct CUarray3d_desc *d, unsigned int levels)
{
    uint64_t w, h, depth, n = 0;

    if (!d || d->flags & (SPARSE | MAPPED_LATER))
        return 0;
    w = d->width;
    h = at_least(d->height);
    depth = at_least(d->depth);
    for (unsigned int k = 0; k < at_least(levels) && k < 64; k++) {
        uint64_t level = times(times(w, h), depth);

        n = level > UINT64_MAX - n ? UINT64_MAX : n + level;
        w = at_least(w / 2);
        h = at_least(h / 2);
        if (!(d->flags & (LAYERED | CUBEMAP)))
            depth = at_least(depth / 2);
    }
    return times(n, texel(d->format, d->channels));
}

static uint64_t bytes_3d_v1(const struct CUarray3d_desc_v1 *d)
{
    struct CUarray3d_desc wide = { 0, 0, 0, 0, 0, 0 };

    if (d)
        wide = (struct CUarray3d_desc) { d->width, d->height, d->depth,
                                         d->format, d->channels, d->flags };
    return bytes_3d(&wide, 1);
}

TAKE(cuArrayCreate_v2, (void **a, const struct CUarray_desc *desc), (a, desc),
     LIMIT_ARRAY,
     desc ? bytes_2d(desc->width, desc->height,
                     texel(desc->format, desc->channels)) : 0,
     (uintptr_t *) a)
TAKE(cuArrayCreate, (void **a, const struct CUarray_desc_v1 *desc), (a, desc),
     LIMIT_ARRAY,
     desc ? bytes_2d(desc->width, desc->height,
                     texel(desc->format, desc->channels)) : 0,
     (uintptr_t *) a)
TAKE(cuArray3DCreate, (void **a, const struct CUarray3d_desc_v1 *desc),
     (a, desc), LIMIT_ARRAY, bytes_3d_v1(desc), (uintptr_t *) a)
TAKE(cuArray3DCreate_v2, (void **a, const struct CUarray3d_desc *desc),
     (a, desc), LIMIT_ARRAY, bytes_3d(desc, 1), (uintptr_t *) a)
TAKE(cuMipmappedArrayCreate,
     (void **a, const struct CUarray3d_desc *desc, unsigned int levels),
     (a, desc, levels), LIMIT_ARRAY, bytes_3d(desc, levels), (uintptr_t *) a)
GIVE(cuArrayDestroy, (void *a), (a), LIMIT_ARRAY, (uintptr_t) a)
GIVE(cuMipmappedArrayDestroy, (void *a), (a), LIMIT_ARRAY, (uintptr_t) a)

CUresult cuMemCreate(CUhandle *h, size_t n, const struct CUmem_prop *prop,
                     unsigned long long flags)
{
    bool here = prop && prop->location.type == DEVICE_LOCATION;
    struct limit_book b;
    CUresult rc;

    gate_first();
    gate_count(GATE_OTHER);
    if (!here)
        return REAL(cuMemCreate)(h, n, prop, flags);
    rc = limit_take(&b, prop->location.id, n);
    if (rc)
        return rc;
    rc = REAL(cuMemCreate)(h, n, prop, flags);
    return limit_settle(&b, rc, LIMIT_HANDLE, rc ? 0 : *h);
}

/* The memory goes with the last of its handles and mappings. */
CUresult cuMemRelease(CUhandle h)
{
    CUresult rc;

    gate_pass();
    gate_count(GATE_OTHER);
    rc = REAL(cuMemRelease)(h);
    if (rc == CUDA_SUCCESS)
        limit_let_go(h);
    return rc;
}

CUresult cuMemRetainAllocationHandle(CUhandle *h, void *p)
{
    CUresult rc;

    gate_pass();
    gate_count(GATE_OTHER);
    rc = REAL(cuMemRetainAllocationHandle)(h, p);
    if (rc == CUDA_SUCCESS)
        limit_hold(*h);
    return rc;
}

CUresult cuMemMap(CUdeviceptr p, size_t n, size_t offset, CUhandle h,
                  unsigned long long flags)
{
    CUresult rc;

    gate_pass();
    gate_count(GATE_OTHER);
    rc = REAL(cuMemMap)(p, n, offset, h, flags);
    if (rc == CUDA_SUCCESS)
        limit_mapped(p, n, h);
    return rc;
}

CUresult cuMemUnmap(CUdeviceptr p, size_t n)
{
    CUresult rc;

    gate_pass();
    gate_count(GATE_OTHER);
    rc = REAL(cuMemUnmap)(p, n);
    if (rc == CUDA_SUCCESS)
        limit_unmapped(p, n);
    return rc;
}

CUresult cuMemGetInfo_v2(size_t *left, size_t *total)
{
    uint64_t limit, used;
    CUdevice dev = -1;
    CUresult rc;

    gate_pass();
    gate_count(GATE_OTHER);
    rc = REAL(cuMemGetInfo_v2)(left, total);
    limit = gate_limit();
    if (rc || limit == UINT64_MAX || REAL_AS(dev_fn, cuCtxGetDevice)(&dev))
        return rc;
    used = limit_used(dev);
    used = used < limit ? used : limit;
    if (*total > limit)
        *total = limit;
    if (*left > limit - used)
        *left = limit - used;
    return rc;
}

CUresult cuDeviceTotalMem_v2(size_t *n, CUdevice dev)
{
    CUresult rc;

    gate_pass();
    gate_ready();
    rc = REAL(cuDeviceTotalMem_v2)(n, dev);
    if (rc == CUDA_SUCCESS && *n > gate_limit())
        *n = gate_limit();
    return rc;
}

/* As many as 32 bits can say. */
CUresult cuMemGetInfo(uint32_t *left, uint32_t *total)
{
    size_t n[2] = { 0, 0 };
    CUresult rc = left && total ? cuMemGetInfo_v2(&n[0], &n[1])
                                : CUDA_ERROR_INVALID_VALUE;

    if (rc == CUDA_SUCCESS) {
        *left = n[0] < UINT32_MAX ? (uint32_t) n[0] : UINT32_MAX;
        *total = n[1] < UINT32_MAX ? (uint32_t) n[1] : UINT32_MAX;
    }
    return rc;
}

CUresult cuDeviceTotalMem(uint32_t *n, CUdevice dev)
{
    size_t all = 0;
    CUresult rc = n ? cuDeviceTotalMem_v2(&all, dev)
                    : CUDA_ERROR_INVALID_VALUE;

    if (rc == CUDA_SUCCESS)
        *n = all < UINT32_MAX ? (uint32_t) all : UINT32_MAX;
    return rc;
}

CUresult cuMemPoolCreate(void **pool, const struct CUmem_prop *props)
{
    CUresult rc;

    gate_first();
    gate_count(GATE_OTHER);
    rc = REAL(cuMemPoolCreate)(pool, props);
    if (rc == CUDA_SUCCESS)
        limit_pool(*pool, props->location.type == DEVICE_LOCATION
                          ? props->location.id : LIMIT_HOST);
    return rc;
}

CUresult cuMemPoolDestroy(void *pool)
{
    CUresult rc;

    gate_pass();
    gate_count(GATE_OTHER);
    rc = REAL(cuMemPoolDestroy)(pool);
    if (rc == CUDA_SUCCESS)
        limit_no_pool(pool);
    return rc;
}

#define POOL_OF(name) \
    CUresult name(void **pool, CUdevice dev) \
    { \
        CUresult rc; \
        gate_pass(); \
        gate_count(GATE_OTHER); \
        rc = REAL(name)(pool, dev); \
        if (rc == CUDA_SUCCESS) \
            limit_pool(*pool, dev); \
        return rc; \
    }

POOL_OF(cuDeviceGetDefaultMemPool)
POOL_OF(cuDeviceGetMemPool)
