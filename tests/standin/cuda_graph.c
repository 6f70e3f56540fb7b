#include "cuda_in.h"

#include <stdlib.h>

/* Graphs of nodes that allocate, and nothing else.  Their memory is in a pool
 * for each device, which grows to what one graph needs and stays so until it is
 * trimmed.
 */
struct CUgraph_st { uint64_t bytes; CUdevice dev; };

static struct { CUdeviceptr at; uint64_t size; } pools[STANDIN_DEVICES];
static CUgraph captured;               /* what a stream captures into */
static CUstream capturing;

API CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    CALL;
    (void) flags;
    *graph = calloc(1, sizeof **graph);
    return *graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API CUresult cuGraphDestroy(CUgraph graph)
{
    CALL;
    free(graph);
    return CUDA_SUCCESS;
}

API CUresult cuGraphAddMemAllocNode(void **node, CUgraph graph,
                                    const void *after, size_t n,
                                    struct CUalloc_node *p)
{
    CALL;
    (void) after;
    (void) n;
    if (!graph || !p || p->props.location.id >= STANDIN_DEVICES)
        return CUDA_ERROR_INVALID_VALUE;
    graph->bytes += p->bytes;
    graph->dev = p->props.location.id;
    *node = graph;
    return CUDA_SUCCESS;
}

API CUresult cuGraphInstantiateWithFlags(CUgraph *exec, CUgraph graph,
                                         unsigned long long flags)
{
    CUresult rc = cuGraphCreate(exec, 0);

    (void) flags;
    if (rc == CUDA_SUCCESS)
        **exec = *graph;
    return rc;
}

API CUresult cuGraphLaunch(CUgraph exec, CUstream s)
{
    CUresult rc;

    (void) s;
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    if (exec->bytes <= pools[exec->dev].size)
        return CUDA_SUCCESS;
    rc = cuDeviceGraphMemTrim(exec->dev);
    if (rc == CUDA_SUCCESS)
        rc = cuMemAlloc_v2(&pools[exec->dev].at, exec->bytes);
    if (rc == CUDA_SUCCESS)
        pools[exec->dev].size = exec->bytes;
    return rc;
}

API CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
    CUresult rc;

    if (dev < 0 || dev >= STANDIN_DEVICES)
        return CUDA_ERROR_INVALID_DEVICE;
    if (pools[dev].size == 0)
        return CUDA_SUCCESS;
    rc = cuMemFree_v2(pools[dev].at);
    if (rc == CUDA_SUCCESS)
        pools[dev].size = 0;
    return rc;
}

API CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, int attr, void *value)
{
    CALL;
    if (dev < 0 || dev >= STANDIN_DEVICES || attr != 2)
        return CUDA_ERROR_INVALID_VALUE;
    *(uint64_t *) value = pools[dev].size;
    return CUDA_SUCCESS;
}

API CUresult cuStreamBeginCapture_v2(CUstream s, int mode)
{
    (void) mode;
    capturing = s;
    return cuGraphCreate(&captured, 0);
}

API CUresult cuStreamIsCapturing(CUstream s, int *status)
{
    CALL;
    *status = captured && s == capturing;
    return CUDA_SUCCESS;
}

API CUresult cuStreamEndCapture(CUstream s, CUgraph *graph)
{
    CALL;
    if (!captured || s != capturing)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = captured;
    captured = NULL;
    return CUDA_SUCCESS;
}

bool standin_captures(CUdeviceptr *p, size_t n, CUstream s)
{
    if (!captured || s != capturing)
        return false;
    captured->bytes += n;
    captured->dev = standin_current();
    *p = (CUdeviceptr) 1 << 40;        /* nobody can use it before a launch */
    return true;
}
