#pragma once

#include "gate/gate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* driver - what of the driver's interface the gate has to know, and what its
 * files share.  Names, numbers and layouts are the interface; nothing here
 * comes from the vendor's headers.
 */
typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUhandle;   /* CUmemGenericAllocationHandle */
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_STUB_LIBRARY = 34,
    CUDA_ERROR_INVALID_DEVICE = 101,
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

/* Before CUDA 3.2 sizes had 32 bits; these functions are there still. */
struct CUarray_desc_v1 {
    uint32_t width, height;
    int format;
    unsigned int channels;
};

struct CUarray3d_desc_v1 {
    uint32_t width, height, depth;
    int format;
    unsigned int channels, flags;
};

/* The beginning of CUmemAllocationProp, and of CUmemPoolProps. */
struct CUmem_prop {
    int type, handles;
    struct { int type, id; } location;
};

enum { DEVICE_LOCATION = 1 };          /* CU_MEM_LOCATION_TYPE_DEVICE */

struct CUalloc_node {                  /* CUDA_MEM_ALLOC_NODE_PARAMS */
    struct CUmem_prop props;
    char more_props[72];
    const void *access;
    size_t accesses, bytes;
    CUdeviceptr p;
};

struct CUnode_params {                 /* CUgraphNodeParams */
    int type, reserved[3];
    struct CUalloc_node alloc;         /* of a node that allocates */
};

/* The numbers of the names, in the order of the list. */
enum {
#define HOOK(name, params) ID_##name,
#define PASS(name, kind) ID_##name,
#include "gate/hooks.def"
#undef HOOK
#undef PASS
    ID_COUNT
};

#pragma GCC visibility push(default)
#define HOOK(name, params) CUresult name params;
#define PASS(name, kind)
#include "gate/hooks.def"
#undef HOOK
#undef PASS
#pragma GCC visibility pop

/* lookup.c: the driver's own function, looked for at the first call; one that
 * returns CUDA_ERROR_STUB_LIBRARY where there is none.
 */
void *gate_real_of(int id);
extern void *gate_real[];              /* by number; NULL: not looked for yet */
/* The same for a function without a hook of ours. */
#define REAL_AS(type, name) \
    ((type) (gate_real[ID_##name] ? gate_real[ID_##name] \
                                  : gate_real_of(ID_##name)))
#define REAL(name) REAL_AS(__typeof__(&name), name)

/* gate.c.  gate_pass stands at the top of every hook: it waits while the lease
 * is suspended.  gate_first waits until it is active.  All keep errno.
 */
extern struct gate_page *gate_page;
extern struct gate_page gate_alone;    /* the page of who has no runner */
void gate_wait(void);
static inline void gate_pass(void)
{
    if (gate_page->state == GATE_SUSPENDED)
        gate_wait();
}
void gate_first(void);
void gate_ready(void);                 /* the grant is read */
uint64_t gate_limit(void);             /* UINT64_MAX: none */
/* How many devices, -1: all there are; and the k-th one's. */
int gate_leased(int k, uint8_t uuid[16]);
static inline void gate_count(int kind)
{
    gate_page->count[kind]++;
}

/* A lock that is short, but for who reads the grant. */
struct gate_lock { int held; };
void gate_take(struct gate_lock *l);
bool gate_try(struct gate_lock *l);    /* false: somebody has it */
void gate_drop(struct gate_lock *l);
