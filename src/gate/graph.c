#include "gate/limit.h"

/* Memory that graphs allocate when they run.
 *
 * A node that allocates has nothing until its graph is uploaded or launched.  Then
 * the driver takes memory for it into a pool of its own, and keeps it there for
 * the next time.  How much that is the driver alone knows: it is asked after every
 * launch of a process that has made such a node, and what it says is booked.
 *
 * So a node is refused that is larger than what is left, and a launch when more
 * than the limit is used; the launch that first gets there goes through.
 */
enum { NODE_ALLOCATES = 10,            /* CU_GRAPH_NODE_TYPE_MEM_ALLOC */
       RESERVED_NOW = 2 };             /* CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT */

typedef CUresult (*attribute_fn)(CUdevice, int, void *);
typedef CUresult (*capturing_fn)(CUstream, int *);
typedef CUresult (*dev_fn)(CUdevice *);

static _Atomic uint32_t devices;       /* bit k: nodes allocate on device k */

static void remember(CUdevice dev)
{
    if (dev >= 0 && dev < GATE_DEVICES)
        devices |= 1U << dev;
}

static bool full(void)
{
    for (CUdevice k = 0; k < GATE_DEVICES; k++) {
        if (devices & 1U << k && !limit_fits(k, 0))
            return true;
    }
    return false;
}

static void settle(void)
{
    for (CUdevice k = 0; k < GATE_DEVICES; k++) {
        uint64_t n = 0;

        if (devices & 1U << k &&
            REAL_AS(attribute_fn, cuDeviceGetGraphMemAttribute)(
                k, RESERVED_NOW, &n) == CUDA_SUCCESS)
            limit_graphs(k, n);
    }
}

bool graph_captures(CUstream s, bool per_thread)
{
    capturing_fn ask = per_thread
                       ? REAL_AS(capturing_fn, cuStreamIsCapturing_ptsz)
                       : REAL_AS(capturing_fn, cuStreamIsCapturing);
    CUdevice dev = -1;
    int status = 0;

    if (ask(s, &status) != CUDA_SUCCESS || status != 1)
        return false;
    if (REAL_AS(dev_fn, cuCtxGetDevice)(&dev) == CUDA_SUCCESS)
        remember(dev);
    return true;
}

void graph_forked(void)
{
    devices = 0;
}

/* Whether a node has its place; NULL: the driver will say what is wrong. */
static bool has_room(const struct CUalloc_node *p)
{
    return !p || p->props.location.type != DEVICE_LOCATION ||
           limit_fits(p->props.location.id, p->bytes);
}

static CUresult added(CUresult rc, const struct CUalloc_node *p)
{
    if (rc == CUDA_SUCCESS && p &&
        p->props.location.type == DEVICE_LOCATION)
        remember(p->props.location.id);
    return rc;
}

CUresult cuGraphAddMemAllocNode(void **node, void *graph, const void *after,
                                size_t n, struct CUalloc_node *p)
{
    gate_first();
    gate_count(GATE_OTHER);
    if (!has_room(p))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return added(REAL(cuGraphAddMemAllocNode)(node, graph, after, n, p), p);
}

static const struct CUalloc_node *in_params(const struct CUnode_params *p)
{
    return p && p->type == NODE_ALLOCATES ? &p->alloc : NULL;
}

CUresult cuGraphAddNode(void **node, void *graph, const void *after, size_t n,
                        struct CUnode_params *p)
{
    gate_first();
    gate_count(GATE_OTHER);
    if (!has_room(in_params(p)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return added(REAL(cuGraphAddNode)(node, graph, after, n, p), in_params(p));
}

CUresult cuGraphAddNode_v2(void **node, void *graph, const void *after,
                           const void *edges, size_t n,
                           struct CUnode_params *p)
{
    gate_first();
    gate_count(GATE_OTHER);
    if (!has_room(in_params(p)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return added(REAL(cuGraphAddNode_v2)(node, graph, after, edges, n, p),
                 in_params(p));
}

#define RUN(name, kind) \
    CUresult name(void *exec, CUstream s) \
    { \
        CUresult rc; \
        gate_pass(); \
        gate_count(kind); \
        if (!devices) \
            return REAL(name)(exec, s); \
        if (full()) \
            return CUDA_ERROR_OUT_OF_MEMORY; \
        rc = REAL(name)(exec, s); \
        settle(); \
        return rc; \
    }

RUN(cuGraphLaunch, GATE_LAUNCH)
RUN(cuGraphLaunch_ptsz, GATE_LAUNCH)
RUN(cuGraphUpload, GATE_OTHER)
RUN(cuGraphUpload_ptsz, GATE_OTHER)

CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
    CUresult rc;

    gate_pass();
    gate_count(GATE_OTHER);
    rc = REAL(cuDeviceGraphMemTrim)(dev);
    settle();
    return rc;
}
