#include "cuda_in.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kernels, streams, events and copies.
 *
 * A kernel is a name: WHAT_Nms runs for N milliseconds.  WHAT is spin, which
 * does nothing, or incr, which adds one to each of the `n` words at `p`
 * (arguments: CUdeviceptr p, unsigned int n).  What it does is done when it is
 * launched; that it runs shows in the time its stream takes.
 */
enum { NAME_MAX_LEN = 64 };

struct CUmod_st { int unused; };

struct CUfunc_st {
    struct CUfunc_st *next;
    char name[NAME_MAX_LEN];
    bool incr;
    uint64_t ns;
};

struct CUstream_st { _Atomic uint64_t until_ns; };

struct CUevent_st { _Atomic uint64_t at_ns; };

static struct CUmod_st module_one;
static struct CUstream_st stream_zero;

/* 0 is the default one, 1 and 2 are its other names. */
static CUstream real_stream(CUstream s)
{
    return (uintptr_t) s <= 2 ? &stream_zero : s;
}

static void raise_to(_Atomic uint64_t *at, uint64_t ns)
{
    uint64_t old = *at;

    while (old < ns && !atomic_compare_exchange_weak(at, &old, ns))
        continue;
}

API CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    CALL;
    if (standin_current() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!image)
        return CUDA_ERROR_INVALID_VALUE;
    *module = &module_one;
    return CUDA_SUCCESS;
}

API CUresult cuModuleUnload(CUmodule module)
{
    CALL;
    return module == &module_one ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Functions live as long as the process: a module has no list of them. */
API CUresult cuModuleGetFunction(CUfunction *fn, CUmodule module,
                                 const char *name)
{
    static _Atomic(CUfunction) all;
    bool incr = name && strncmp(name, "incr_", 5) == 0;
    unsigned int ms;
    CUfunction f;

    CALL;
    (void) module;
    if (!name || (!incr && strncmp(name, "spin_", 5) != 0) ||
        sscanf(name + 5, "%ums", &ms) != 1)
        return CUDA_ERROR_NOT_FOUND;
    f = calloc(1, sizeof *f);
    if (!f)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (void) snprintf(f->name, sizeof f->name, "%s", name);
    f->incr = incr;
    f->ns = (uint64_t) ms * 1000000U;
    f->next = atomic_exchange(&all, f);
    *fn = f;
    return CUDA_SUCCESS;
}

static void incr(void **args)
{
    CUdeviceptr p;
    unsigned int n;
    unsigned int *word;

    memcpy(&p, args[0], sizeof p);
    memcpy(&n, args[1], sizeof n);
    word = (unsigned int *) (uintptr_t) p;
    for (unsigned int k = 0; k < n; k++)
        word[k]++;
}

API CUresult cuLaunchKernel(CUfunction fn, unsigned int gx, unsigned int gy,
                            unsigned int gz, unsigned int bx, unsigned int by,
                            unsigned int bz, unsigned int shared, CUstream s,
                            void **args, void **extra)
{
    CUstream on = real_stream(s);
    uint64_t now;

    CALL;
    (void) shared;
    (void) extra;
    if (standin_current() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!fn || !gx || !gy || !gz || !bx || !by || !bz || (fn->incr && !args))
        return CUDA_ERROR_INVALID_VALUE;
    if (fn->incr)
        incr(args);
    now = standin_now_ns();
    raise_to(&on->until_ns, now);
    on->until_ns += fn->ns;
    raise_to(&standin_me->busy_until_ns, on->until_ns);
    return CUDA_SUCCESS;
}

API CUresult cuCtxSynchronize(void)
{
    CALL;
    if (standin_current() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    standin_sleep_until(standin_me->busy_until_ns);
    return CUDA_SUCCESS;
}

API CUresult cuStreamCreate(CUstream *s, unsigned int flags)
{
    CALL;
    (void) flags;
    if (standin_current() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *s = calloc(1, sizeof **s);
    return *s ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API CUresult cuStreamDestroy_v2(CUstream s)
{
    CALL;
    if ((uintptr_t) s <= 2)
        return CUDA_ERROR_INVALID_HANDLE;
    free(s);
    return CUDA_SUCCESS;
}

API CUresult cuStreamSynchronize(CUstream s)
{
    CALL;
    standin_sleep_until(real_stream(s)->until_ns);
    return CUDA_SUCCESS;
}

API CUresult cuStreamQuery(CUstream s)
{
    CALL;
    return real_stream(s)->until_ns <= standin_now_ns() ? CUDA_SUCCESS
                                                        : CUDA_ERROR_NOT_READY;
}

API CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned int flags)
{
    CALL;
    (void) flags;
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    raise_to(&real_stream(s)->until_ns, e->at_ns);
    return CUDA_SUCCESS;
}

API CUresult cuEventCreate(CUevent *e, unsigned int flags)
{
    CALL;
    (void) flags;
    *e = calloc(1, sizeof **e);
    return *e ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API CUresult cuEventDestroy_v2(CUevent e)
{
    CALL;
    free(e);
    return CUDA_SUCCESS;
}

API CUresult cuEventRecord(CUevent e, CUstream s)
{
    CALL;
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    e->at_ns = real_stream(s)->until_ns;
    return CUDA_SUCCESS;
}

API CUresult cuEventQuery(CUevent e)
{
    CALL;
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    return e->at_ns <= standin_now_ns() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

API CUresult cuEventSynchronize(CUevent e)
{
    CALL;
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    standin_sleep_until(e->at_ns);
    return CUDA_SUCCESS;
}

/* Device memory is mapped here, so that one copy serves all kinds. */
static int copy(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
    if (standin_current() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!to || !from)
        return CUDA_ERROR_INVALID_VALUE;
    standin_sleep_until(real_stream(s)->until_ns);
    memmove((void *) (uintptr_t) to, (const void *) (uintptr_t) from, n);
    return CUDA_SUCCESS;
}

API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n)
{
    CALL;
    return copy(to, (uintptr_t) from, n, NULL);
}

API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n)
{
    CALL;
    return copy((uintptr_t) to, from, n, NULL);
}

API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n)
{
    CALL;
    return copy(to, from, n, NULL);
}

API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n,
                                  CUstream s)
{
    CALL;
    return copy(to, (uintptr_t) from, n, s);
}

API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n,
                                  CUstream s)
{
    CALL;
    return copy((uintptr_t) to, from, n, s);
}

API CUresult cuMemsetD8_v2(CUdeviceptr p, unsigned char v, size_t n)
{
    CALL;
    if (!p || standin_current() < 0)
        return CUDA_ERROR_INVALID_VALUE;
    memset((void *) (uintptr_t) p, v, n);
    return CUDA_SUCCESS;
}

API CUresult cuMemsetD32_v2(CUdeviceptr p, unsigned int v, size_t n)
{
    CALL;
    if (!p || standin_current() < 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < n; k++)
        ((unsigned int *) (uintptr_t) p)[k] = v;
    return CUDA_SUCCESS;
}
