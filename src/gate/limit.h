#pragma once

#include "gate/driver.h"

/* limit - the lease's memory, counted on every way to get some. */

void limit_forked(void);               /* in a child: nothing is ours */

/* What a context that ended had is free again. */
void limit_primary(CUdevice dev, CUcontext ctx);
void limit_lose_primary(CUdevice dev);
void limit_lose(CUcontext ctx);

/* Books `n` bytes on a device (LIMIT_HERE: the current one, LIMIT_HOST: on none)
 * before they are asked for: CUDA_SUCCESS or CUDA_ERROR_OUT_OF_MEMORY.  Whoever
 * booked settles, with the driver's answer.
 */
struct limit_book {
    CUdevice dev;
    CUcontext ctx;
    uint64_t n;
};
enum limit_kind { LIMIT_NONE, LIMIT_POINTER, LIMIT_HANDLE, LIMIT_MAP,
                  LIMIT_ARRAY, LIMIT_POOL };

CUresult limit_take(struct limit_book *b, CUdevice dev, uint64_t n);
CUresult limit_settle(struct limit_book *b, CUresult rc, enum limit_kind kind,
                      uint64_t key);

/* Takes an entry out before it is freed; false: it is not known here.  Puts it
 * back when the driver did not free it, or gives its bytes back.
 */
struct limit_entry {
    uint64_t key, n, of;
    CUcontext ctx;
    CUdevice dev;
    uint32_t refs;
    enum limit_kind kind;
};
bool limit_out(struct limit_entry *e, enum limit_kind kind, uint64_t key);
CUresult limit_after(struct limit_entry *e, bool known, CUresult rc);

/* References to a cuMemCreate handle, and where it is mapped. */
void limit_hold(CUhandle h);
void limit_let_go(CUhandle h);
void limit_mapped(CUdeviceptr p, uint64_t n, CUhandle h);
void limit_unmapped(CUdeviceptr p, uint64_t n);

/* The device whose memory a pool gives: LIMIT_HERE when it is not known, the
 * current one; LIMIT_HOST: none.
 */
enum { LIMIT_HERE = -1, LIMIT_HOST = -2 };
void limit_pool(void *pool, CUdevice dev);
void limit_no_pool(void *pool);
CUdevice limit_pool_device(void *pool);

uint64_t limit_used(CUdevice dev);     /* by the lease */
bool limit_fits(CUdevice dev, uint64_t n);     /* so many more */
/* What the graphs of this process have, all of them together. */
void limit_graphs(CUdevice dev, uint64_t n);

/* graph.c: whether what is allocated on a stream becomes a node of a graph. */
bool graph_captures(CUstream s, bool per_thread);
void graph_forked(void);
