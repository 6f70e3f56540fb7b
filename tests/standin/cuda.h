#pragma once

#include <stddef.h>
#include <stdint.h>

/* cuda - what of the driver's interface the stand-in has, declared anew: names,
 * numbers and layouts are the interface, nothing else of the vendor's is here.
 */
typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUmemPool_st *CUmemoryPool;
typedef struct CUgraph_st *CUgraph;    /* and CUgraphExec */
typedef struct { char bytes[16]; } CUuuid;
typedef struct { char reserved[64]; } CUipcMemHandle;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_OPERATING_SYSTEM = 304,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_ILLEGAL_STATE = 401,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_UNKNOWN = 999,
};

struct CUarray_desc {                  /* CUDA_ARRAY_DESCRIPTOR */
    size_t width, height;
    int format;
    unsigned int channels;
};

struct CUarray3d_desc {                /* CUDA_ARRAY3D_DESCRIPTOR */
    size_t width, height, depth;
    int format;
    unsigned int channels, flags;
};

struct CUarray_desc_v1 {               /* as before CUDA 3.2 */
    unsigned int width, height;
    int format;
    unsigned int channels;
};

struct CUarray3d_desc_v1 {
    unsigned int width, height, depth;
    int format;
    unsigned int channels, flags;
};

struct CUmem_prop {                    /* CUmemAllocationProp */
    int type, handles;
    struct { int type, id; } location;
    void *win32;
    unsigned char flags[32];
};

struct CUpool_props {                  /* CUmemPoolProps */
    int type, handles;
    struct { int type, id; } location;
    void *security;
    size_t max;
    unsigned char reserved[56];
};

struct CUalloc_node {                  /* CUDA_MEM_ALLOC_NODE_PARAMS */
    struct CUpool_props props;
    const void *access;
    size_t accesses, bytes;
    CUdeviceptr p;
};

struct CUcheckpoint_lock {             /* CUcheckpointLockArgs */
    unsigned int timeout_ms, reserved0;
    uint64_t reserved[7];
};

struct CUcheckpoint_pair { CUuuid from, to; };

struct CUcheckpoint_restore {          /* CUcheckpointRestoreArgs */
    struct CUcheckpoint_pair *pairs;
    unsigned int count;
    char reserved[52 - sizeof(void *)];
    uint64_t reserved1;
};

#define ENTRY(base, since, name, params) CUresult name params;
#include "cuda.def"
#undef ENTRY
