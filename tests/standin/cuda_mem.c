#include "cuda_in.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Device memory: a sparse file for each piece, mapped where the device pointer
 * says, so that contents can be looked at and other processes can map it too.
 *
 * A piece is counted from its making until it is freed; one that another
 * process made is not counted here.
 */
enum { PITCH = 512, GRANULE = 2 << 20 };

struct piece {
    struct piece *next;
    char path[256];                    /* "": reserved addresses alone */
    uint64_t at, size;                 /* at: 0 while it is not mapped */
    CUdevice dev;
    int refs;                          /* handles and mappings */
    bool foreign, unfit;
};

_Thread_local bool standin_low;

static struct piece *all;
static unsigned int made;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void sum(struct standin_proc *p, void *arg)
{
    uint64_t *total = arg;

    total[1] += p->used[total[0]];
}

uint64_t standin_used(CUdevice dev)
{
    uint64_t total[2] = { (uint64_t) dev, 0 };

    standin_each(sum, total);
    return total[1];
}

/* Device `dev` as the process knows it may be another one since a restore. */
static _Atomic uint64_t *used(CUdevice dev)
{
    uint32_t at = standin_me->at[dev];

    return &standin_me->used[at ? at - 1 : (uint32_t) dev];
}

/* With the fault `left`, of a driver that does not clear what is freed: what a
 * process that has ended had becomes the piece, with all that is in it.
 */
static void take_left(const char *folder, const char *path)
{
    DIR *d = standin_number("faults", "left", 0) ? opendir(folder) : NULL;
    const struct dirent *e;
    char was[512];
    bool done = false;

    while (d && !done && (e = readdir(d))) {
        pid_t pid = (pid_t) strtol(e->d_name, NULL, 10);

        if (pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH)
            continue;
        (void) snprintf(was, sizeof was, "%s/%s", folder, e->d_name);
        done = rename(was, path) == 0;
    }
    if (d)
        (void) closedir(d);
}

/* An image before an exec, or another process of that number, may have left a
 * file.
 */
static int make_file(struct piece *p)
{
    char name[64], folder[256];
    int fd;

    if (!standin_path(folder, sizeof folder, "mem"))
        return -1;
    (void) mkdir(folder, 0777);
    do {
        (void) snprintf(name, sizeof name, "mem/%d.%u", (int) getpid(),
                        made++);
        if (!standin_path(p->path, sizeof p->path, name))
            return -1;
        fd = open(p->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    } while (fd < 0 && errno == EEXIST);
    if (fd >= 0)
        take_left(folder, p->path);
    if (fd >= 0 && truncate(p->path, (off_t) p->size)) {
        (void) close(fd);
        fd = -1;
    }
    return fd;
}

static uint64_t map(const struct piece *p, uint64_t at, uint64_t size,
                    uint64_t offset)
{
    int fd = open(p->path, O_RDWR | O_CLOEXEC);
    void *m = MAP_FAILED;

    if (fd >= 0)
        m = mmap((void *) (uintptr_t) at, size, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_NORESERVE | (at ? MAP_FIXED : 0) |
                     (standin_low ? MAP_32BIT : 0), fd,
                 (off_t) offset);
    if (fd >= 0)
        (void) close(fd);
    return m == MAP_FAILED ? 0 : (uint64_t) (uintptr_t) m;
}

static void add(struct piece *p)
{
    p->next = all;
    all = p;
}

static void drop(struct piece *p)
{
    struct piece **at = &all;

    while (*at && *at != p)
        at = &(*at)->next;
    if (*at)
        *at = p->next;
    if (!p->foreign && p->path[0]) {
        (void) unlink(p->path);
        *used(p->dev) -= p->size;
    }
    if (p->unfit)
        standin_me->unfit--;
    free(p);
}

static struct piece *find(uint64_t at)
{
    struct piece *p = all;

    while (p && !(p->at && at >= p->at && at < p->at + p->size))
        p = p->next;
    return p;
}

/* Counts before it makes, so that two at once do not both fit. */
static int make(struct piece **out, uint64_t size, CUdevice dev)
{
    struct piece *p;
    int rc = (int) standin_number("faults", "alloc", 0), fd;

    if (rc)
        return rc;
    if (dev < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (size > standin_total(dev) ||
        standin_used(dev) > standin_total(dev) - size)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p = calloc(1, sizeof *p);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->size = size;
    p->dev = dev;
    p->refs = 1;
    fd = make_file(p);
    if (fd < 0) {
        free(p);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    (void) close(fd);
    *used(dev) += size;
    add(p);
    *out = p;
    return CUDA_SUCCESS;
}

static int make_mapped(CUdeviceptr *at, uint64_t size, CUdevice dev,
                       bool unfit)
{
    struct piece *p = NULL;
    int rc;

    if (!at)
        return CUDA_ERROR_INVALID_VALUE;
    (void) pthread_mutex_lock(&lock);
    rc = make(&p, size, dev);
    if (rc == CUDA_SUCCESS) {
        p->at = map(p, 0, size, 0);
        p->unfit = unfit;
        standin_me->unfit += unfit;
        *at = p->at;
        if (!p->at) {
            drop(p);
            rc = CUDA_ERROR_OPERATING_SYSTEM;
        }
    }
    (void) pthread_mutex_unlock(&lock);
    return rc;
}

static int unmake(uint64_t at)
{
    struct piece *p;
    int rc = CUDA_ERROR_INVALID_VALUE;

    if (!at)
        return CUDA_SUCCESS;
    (void) pthread_mutex_lock(&lock);
    p = find(at);
    if (p && p->at == at && p->path[0]) {
        (void) munmap((void *) (uintptr_t) at, p->size);
        drop(p);
        rc = CUDA_SUCCESS;
    }
    (void) pthread_mutex_unlock(&lock);
    return rc;
}

API CUresult cuMemGetInfo_v2(size_t *left, size_t *total)
{
    CUdevice dev = standin_current();

    CALL;
    if (dev < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *total = standin_total(dev);
    *left = *total - standin_used(dev);
    return CUDA_SUCCESS;
}

API CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n)
{
    CALL;
    return make_mapped(p, n, standin_current(), false);
}

API CUresult cuMemAllocPitch_v2(CUdeviceptr *p, size_t *pitch, size_t width,
                                size_t height, unsigned int element)
{
    CALL;
    if (element != 4 && element != 8 && element != 16)
        return CUDA_ERROR_INVALID_VALUE;
    *pitch = (width + PITCH - 1) / PITCH * PITCH;
    return make_mapped(p, *pitch * height, standin_current(), false);
}

API CUresult cuMemAllocManaged(CUdeviceptr *p, size_t n, unsigned int flags)
{
    CALL;
    if (flags != 1 && flags != 2)
        return CUDA_ERROR_INVALID_VALUE;
    return make_mapped(p, n, standin_current(), true);
}

API CUresult cuMemAllocAsync(CUdeviceptr *p, size_t n, CUstream s)
{
    CALL;
    if (p && standin_captures(p, n, s))
        return CUDA_SUCCESS;
    return make_mapped(p, n, standin_current(), false);
}

/* A pool is its device, counted from one. */
static CUdevice pool_device(CUmemoryPool pool)
{
    return (CUdevice) (uintptr_t) pool - 1;
}

API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *p, size_t n,
                                     CUmemoryPool pool, CUstream s)
{
    CALL;
    (void) s;
    return make_mapped(p, n, pool_device(pool), false);
}

API CUresult cuMemFree_v2(CUdeviceptr p)
{
    CALL;
    return unmake(p);
}

API CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s)
{
    CALL;
    (void) s;
    return unmake(p);
}

API CUresult cuMemAllocHost_v2(void **p, size_t n)
{
    CALL;
    *p = malloc(n);
    return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API CUresult cuMemHostAlloc(void **p, size_t n, unsigned int flags)
{
    CALL;
    (void) flags;
    *p = malloc(n);
    return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API CUresult cuMemFreeHost(void *p)
{
    CALL;
    free(p);
    return CUDA_SUCCESS;
}

API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *n,
                                     CUdeviceptr at)
{
    const struct piece *p;
    int rc = CUDA_ERROR_NOT_FOUND;

    CALL;
    (void) pthread_mutex_lock(&lock);
    p = find(at);
    if (p) {
        if (base)
            *base = p->at;
        if (n)
            *n = p->size;
        rc = CUDA_SUCCESS;
    }
    (void) pthread_mutex_unlock(&lock);
    return rc;
}

API CUresult cuMemGetAllocationGranularity(size_t *n,
                                           const struct CUmem_prop *prop,
                                           int option)
{
    CALL;
    (void) prop;
    (void) option;
    *n = GRANULE;
    return CUDA_SUCCESS;
}

API CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t n,
                         const struct CUmem_prop *prop,
                         unsigned long long flags)
{
    struct piece *p = NULL;
    int rc;

    CALL;
    if (!prop || flags || n % GRANULE || !standin_me)
        return CUDA_ERROR_INVALID_VALUE;
    (void) pthread_mutex_lock(&lock);
    rc = make(&p, n, prop->location.id);
    if (rc == CUDA_SUCCESS)
        *h = (uintptr_t) p;
    (void) pthread_mutex_unlock(&lock);
    return rc;
}

static struct piece *of_handle(CUmemGenericAllocationHandle h)
{
    struct piece *p = all;

    while (p && (uintptr_t) p != h)
        p = p->next;
    return p;
}

static int put(struct piece *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (--p->refs == 0)
        drop(p);
    return CUDA_SUCCESS;
}

API CUresult cuMemRelease(CUmemGenericAllocationHandle h)
{
    int rc;

    CALL;
    (void) pthread_mutex_lock(&lock);
    rc = put(of_handle(h));
    (void) pthread_mutex_unlock(&lock);
    return rc;
}

API CUresult cuMemAddressReserve(CUdeviceptr *p, size_t n, size_t align,
                                 CUdeviceptr at, unsigned long long flags)
{
    void *m;

    CALL;
    (void) align;
    (void) at;
    if (flags || n == 0)
        return CUDA_ERROR_INVALID_VALUE;
    m = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
             -1, 0);
    *p = (uintptr_t) m;
    return m == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

API CUresult cuMemAddressFree(CUdeviceptr p, size_t n)
{
    CALL;
    return munmap((void *) (uintptr_t) p, n) ? CUDA_ERROR_INVALID_VALUE
                                             : CUDA_SUCCESS;
}

API CUresult cuMemMap(CUdeviceptr at, size_t n, size_t offset,
                      CUmemGenericAllocationHandle h, unsigned long long flags)
{
    struct piece *p;
    int rc = CUDA_ERROR_INVALID_VALUE;

    CALL;
    (void) pthread_mutex_lock(&lock);
    p = of_handle(h);
    if (p && !flags && !p->at && offset + n <= p->size &&
        map(p, at, n, offset) == at) {
        p->at = at;
        p->refs++;
        rc = CUDA_SUCCESS;
    }
    (void) pthread_mutex_unlock(&lock);
    return rc;
}

API CUresult cuMemUnmap(CUdeviceptr at, size_t n)
{
    struct piece *p;
    int rc = CUDA_ERROR_INVALID_VALUE;

    CALL;
    (void) pthread_mutex_lock(&lock);
    p = find(at);
    if (p && p->at == at &&
        mmap((void *) (uintptr_t) at, n, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) != MAP_FAILED) {
        p->at = 0;
        rc = put(p);
    }
    (void) pthread_mutex_unlock(&lock);
    return rc;
}

API CUresult cuMemSetAccess(CUdeviceptr p, size_t n, const void *desc,
                            size_t count)
{
    CALL;
    return p && n && desc && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *h,
                                         void *at)
{
    struct piece *p;

    CALL;
    (void) pthread_mutex_lock(&lock);
    p = find((uintptr_t) at);
    if (p) {
        p->refs++;
        *h = (uintptr_t) p;
    }
    (void) pthread_mutex_unlock(&lock);
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuMemExportToShareableHandle(void *out,
                                          CUmemGenericAllocationHandle h,
                                          int type, unsigned long long flags)
{
    const struct piece *p;
    int fd = -1;

    CALL;
    (void) pthread_mutex_lock(&lock);
    p = of_handle(h);
    if (p && type == 1 && !flags)
        fd = open(p->path, O_RDWR | O_CLOEXEC);
    (void) pthread_mutex_unlock(&lock);
    memcpy(out, &fd, sizeof fd);
    return fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static struct piece *foreign(const char *path, CUdevice dev)
{
    struct piece *p = calloc(1, sizeof *p);
    struct stat st;

    if (!p || stat(path, &st)) {
        free(p);
        return NULL;
    }
    (void) snprintf(p->path, sizeof p->path, "%s", path);
    p->size = (uint64_t) st.st_size;
    p->dev = dev;
    p->refs = 1;
    p->foreign = p->unfit = true;
    standin_me->unfit++;
    add(p);
    return p;
}

API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *h,
                                            void *in, int type)
{
    char link[64], path[256];
    struct piece *p = NULL;
    ssize_t n;

    CALL;
    if (type != 1 || standin_current() < 0)
        return CUDA_ERROR_INVALID_VALUE;
    (void) snprintf(link, sizeof link, "/proc/self/fd/%d",
                    (int) (intptr_t) in);
    n = readlink(link, path, sizeof path - 1);
    if (n > 0) {
        path[n] = '\0';
        (void) pthread_mutex_lock(&lock);
        p = foreign(path, standin_current());
        (void) pthread_mutex_unlock(&lock);
    }
    *h = (uintptr_t) p;
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
{
    CALL;
    if (dev < 0 || dev >= standin_devices())
        return CUDA_ERROR_INVALID_DEVICE;
    *pool = (CUmemoryPool) (uintptr_t) (dev + 1);
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    return cuDeviceGetDefaultMemPool(pool, dev);
}

API CUresult cuMemPoolCreate(CUmemoryPool *pool,
                             const struct CUpool_props *props)
{
    return cuDeviceGetDefaultMemPool(pool, props ? props->location.id : -1);
}

API CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    CALL;
    return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t n)
{
    CALL;
    (void) n;
    return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static size_t texel(int format, unsigned int channels)
{
    size_t bytes = format == 1 || format == 8 ? 1
                   : format == 2 || format == 9 || format == 16 ? 2 : 4;

    return bytes * channels;
}

static int make_array(struct piece **out, size_t texels, size_t bytes)
{
    int rc;

    (void) pthread_mutex_lock(&lock);
    rc = make(out, texels * bytes, standin_current());
    (void) pthread_mutex_unlock(&lock);
    return rc;
}

static size_t at_least(size_t n)
{
    return n ? n : 1;
}

API CUresult cuArrayCreate_v2(CUarray *a, const struct CUarray_desc *desc)
{
    CALL;
    return make_array((struct piece **) a, desc->width * at_least(desc->height),
                      texel(desc->format, desc->channels));
}

API CUresult cuArray3DCreate_v2(CUarray *a, const struct CUarray3d_desc *desc)
{
    CALL;
    return make_array((struct piece **) a,
                      desc->width * at_least(desc->height) *
                          at_least(desc->depth),
                      texel(desc->format, desc->channels));
}

API CUresult cuMipmappedArrayCreate(CUmipmappedArray *a,
                                    const struct CUarray3d_desc *desc,
                                    unsigned int levels)
{
    size_t w = desc->width, h = at_least(desc->height);
    size_t d = at_least(desc->depth), n = 0;

    CALL;
    for (unsigned int k = 0; k < levels; k++) {
        n += w * h * d;
        w = at_least(w / 2);
        h = at_least(h / 2);
        if (!(desc->flags & 5))        /* layers, or the sides of a cube */
            d = at_least(d / 2);
    }
    return make_array((struct piece **) a, n,
                      texel(desc->format, desc->channels));
}

API CUresult cuArrayDestroy(CUarray a)
{
    return cuMemRelease((uintptr_t) a);
}

API CUresult cuMipmappedArrayDestroy(CUmipmappedArray a)
{
    return cuMemRelease((uintptr_t) a);
}

/* The handle is the name of the file after the last slash. */
API CUresult cuIpcGetMemHandle(CUipcMemHandle *h, CUdeviceptr at)
{
    struct piece *p;

    CALL;
    (void) pthread_mutex_lock(&lock);
    p = find(at);
    if (p) {
        memset(h, 0, sizeof *h);
        (void) snprintf(h->reserved, sizeof h->reserved, "%s",
                        strrchr(p->path, '/') + 1);
        standin_me->unfit += !p->unfit;
        p->unfit = true;
    }
    (void) pthread_mutex_unlock(&lock);
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *at, CUipcMemHandle h,
                                   unsigned int flags)
{
    char name[80], path[256];
    struct piece *p = NULL;

    CALL;
    (void) flags;
    h.reserved[sizeof h.reserved - 1] = '\0';
    (void) snprintf(name, sizeof name, "mem/%s", h.reserved);
    if (standin_current() < 0 || !standin_path(path, sizeof path, name))
        return CUDA_ERROR_INVALID_VALUE;
    (void) pthread_mutex_lock(&lock);
    p = foreign(path, standin_current());
    if (p)
        *at = p->at = map(p, 0, p->size, 0);
    (void) pthread_mutex_unlock(&lock);
    return p && p->at ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuIpcCloseMemHandle(CUdeviceptr p)
{
    CALL;
    return unmake(p);
}

__attribute__((destructor))
static void gone(void)
{
    char own[32];
    int n = snprintf(own, sizeof own, "/%d.", (int) getpid());

    for (struct piece *p = all; p; p = p->next) {
        const char *file = p->path[0] ? strrchr(p->path, '/') : NULL;

        if (file && !p->foreign && strncmp(file, own, (size_t) n) == 0)
            (void) unlink(p->path);
    }
}
