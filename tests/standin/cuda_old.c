#include "cuda_in.h"

/* The calls of before CUDA 3.2, with 32 bits for an address and a size.
 */
static unsigned int narrow(size_t n)
{
    return n < UINT32_MAX ? (unsigned int) n : UINT32_MAX;
}

API CUresult cuDeviceTotalMem(unsigned int *n, CUdevice dev)
{
    size_t all = 0;
    CUresult rc = cuDeviceTotalMem_v2(&all, dev);

    *n = narrow(all);
    return rc;
}

API CUresult cuMemGetInfo(unsigned int *left, unsigned int *total)
{
    size_t a = 0, b = 0;
    CUresult rc = cuMemGetInfo_v2(&a, &b);

    *left = narrow(a);
    *total = narrow(b);
    return rc;
}

API CUresult cuMemAlloc(unsigned int *p, unsigned int n)
{
    CUdeviceptr at = 0;
    CUresult rc;

    standin_low = true;
    rc = cuMemAlloc_v2(&at, n);
    standin_low = false;
    *p = (unsigned int) at;
    return rc;
}

API CUresult cuMemAllocPitch(unsigned int *p, unsigned int *pitch,
                             unsigned int width, unsigned int height,
                             unsigned int element)
{
    CUdeviceptr at = 0;
    size_t row = 0;
    CUresult rc;

    standin_low = true;
    rc = cuMemAllocPitch_v2(&at, &row, width, height, element);
    standin_low = false;
    *p = (unsigned int) at;
    *pitch = narrow(row);
    return rc;
}

API CUresult cuMemFree(unsigned int p)
{
    return cuMemFree_v2(p);
}

API CUresult cuArrayCreate(CUarray *a, const struct CUarray_desc_v1 *desc)
{
    struct CUarray_desc wide = { desc->width, desc->height, desc->format,
                                 desc->channels };

    return cuArrayCreate_v2(a, &wide);
}

API CUresult cuArray3DCreate(CUarray *a, const struct CUarray3d_desc_v1 *desc)
{
    struct CUarray3d_desc wide = { desc->width, desc->height, desc->depth,
                                   desc->format, desc->channels,
                                   desc->flags };

    return cuArray3DCreate_v2(a, &wide);
}
