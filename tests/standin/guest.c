#include "cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A program that uses the driver as it is told, a line at a time, and says what
 * came of it.  Built three times: linked to libcuda (WAY_LINK), with names from
 * dlsym (WAY_DLSYM), and with names from cuGetProcAddress (WAY_ADDRESS).
 */
static struct {
#define ENTRY(base, since, name, params) CUresult (*name) params;
#include "cuda.def"
#undef ENTRY
} cu;

static CUcontext ctx;
static CUdeviceptr last;
static CUmemGenericAllocationHandle handle;
static void *array;
static volatile sig_atomic_t alarms;

#if defined WAY_LINK
static void find(void)
{
#define ENTRY(base, since, fn, params) cu.fn = fn;
#include "cuda.def"
#undef ENTRY
}
#else
#if defined WAY_DLSYM
static void *look(void *lib, const char *base, int since, const char *name)
{
    (void) base;
    (void) since;
    return dlsym(lib, name);
}
#else
static void *look(void *lib, const char *base, int since, const char *name)
{
    static CUresult (*get)(const char *, void **, int, uint64_t, int *);
    void *fn = NULL;
    int status;

    (void) name;
    if (!get) {
        void *p = dlsym(lib, "cuGetProcAddress_v2");

        memcpy(&get, &p, sizeof p);
    }
    (void) get(base, &fn, since, 0, &status);
    return fn;
}
#endif

static void find(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *fn;

#define ENTRY(base, since, name, params) \
    fn = look(lib, #base, since, #name); \
    memcpy(&cu.name, &fn, sizeof fn);
#include "cuda.def"
#undef ENTRY
}
#endif

/* One word, then numbers. */
struct order {
    char word[32];
    unsigned long long a, b;
};

static int use(void)
{
    CUresult rc = cu.cuDevicePrimaryCtxRetain(&ctx, 0);

    return rc ? rc : cu.cuCtxSetCurrent(ctx);
}

static int launch(const char *name)
{
    CUmodule m;
    CUfunction f;
    CUresult rc = cu.cuModuleLoadData(&m, "");

    if (rc == 0)
        rc = cu.cuModuleGetFunction(&f, m, name);
    return rc ? rc : cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL,
                                       NULL);
}

static int describe(const struct order *o)
{
    size_t left = 0, total = 0;
    char name[64] = "";
    CUuuid id = { "" };
    CUdevice dev = -1;
    int n = -1, rc = 0;

    if (strcmp(o->word, "count") == 0) {
        rc = cu.cuDeviceGetCount(&n);
        (void) printf("%d %d\n", rc, n);
    } else if (strcmp(o->word, "device") == 0) {
        rc = cu.cuDeviceGet(&dev, (int) o->a);
        if (rc == 0) {
            (void) cu.cuDeviceGetName(name, sizeof name, dev);
            (void) cu.cuDeviceGetUuid(&id, dev);
            (void) cu.cuDeviceTotalMem_v2(&total, dev);
        }
        (void) printf("%d %s %d %zu\n", rc, name, id.bytes[15], total);
    } else if (strcmp(o->word, "info") == 0) {
        rc = cu.cuMemGetInfo_v2(&left, &total);
        (void) printf("%d %zu %zu\n", rc, left, total);
    } else {
        return -1;
    }
    return 0;
}

static int take(const struct order *o)
{
    struct CUmem_prop prop = { .type = 1, .location = { .type = 1 } };
    struct CUarray_desc flat = { o->a, o->b, 0x20, 4 };
    struct CUarray3d_desc deep = { o->a, o->b, 4, 0x20, 4, 0 };
    CUmemoryPool pool = NULL;
    size_t pitch;

    if (strcmp(o->word, "alloc") == 0)
        return cu.cuMemAlloc_v2(&last, o->a);
    if (strcmp(o->word, "pitch") == 0)
        return cu.cuMemAllocPitch_v2(&last, &pitch, o->a, o->b, 4);
    if (strcmp(o->word, "managed") == 0)
        return cu.cuMemAllocManaged(&last, o->a, 1);
    if (strcmp(o->word, "async") == 0)
        return cu.cuMemAllocAsync(&last, o->a, NULL);
    if (strcmp(o->word, "pool") == 0)
        return cu.cuDeviceGetDefaultMemPool(&pool, 0)
               ? 999 : cu.cuMemAllocFromPoolAsync(&last, o->a, pool, NULL);
    if (strcmp(o->word, "create") == 0)
        return cu.cuMemCreate(&handle, o->a, &prop, 0);
    if (strcmp(o->word, "array") == 0)
        return cu.cuArrayCreate_v2((CUarray *) &array, &flat);
    if (strcmp(o->word, "array3d") == 0)
        return cu.cuArray3DCreate_v2((CUarray *) &array, &deep);
    if (strcmp(o->word, "mipmap") == 0)
        return cu.cuMipmappedArrayCreate((CUmipmappedArray *) &array, &deep,
                                         2);
    return -1;
}

static int give(const struct order *o)
{
    if (strcmp(o->word, "free") == 0)
        return cu.cuMemFree_v2(last);
    if (strcmp(o->word, "freeasync") == 0)
        return cu.cuMemFreeAsync(last, NULL);
    if (strcmp(o->word, "release") == 0)
        return cu.cuMemRelease(handle);
    if (strcmp(o->word, "map") == 0)
        return cu.cuMemAddressReserve(&last, o->a, 0, 0, 0) ||
               cu.cuMemMap(last, o->a, 0, handle, 0);
    if (strcmp(o->word, "unmap") == 0)
        return cu.cuMemUnmap(last, o->a);
    if (strcmp(o->word, "destroy") == 0)
        return cu.cuArrayDestroy(array);
    if (strcmp(o->word, "destroymip") == 0)
        return cu.cuMipmappedArrayDestroy(array);
    if (strcmp(o->word, "drop") == 0)
        return cu.cuDevicePrimaryCtxRelease_v2(0);
    return -1;
}

/* Every thread starts with what the process has not done yet. */
static void *busy(void *arg)
{
    const struct order *o = arg;
    CUdeviceptr p;
    CUcontext c;
    intptr_t bad = cu.cuInit(0);

    bad += cu.cuDevicePrimaryCtxRetain(&c, 0);
    bad += cu.cuCtxSetCurrent(c);
    for (unsigned long long k = 0; k < o->b; k++) {
        bad += cu.cuMemAlloc_v2(&p, 4096);
        bad += cu.cuMemsetD8_v2(p, 1, 4096);
        bad += cu.cuMemFree_v2(p);
    }
    return (void *) bad;
}

static int threads(struct order *o)
{
    pthread_t t[16];
    void *bad = NULL;
    int sum = 0;

    for (size_t k = 0; k < o->a && k < 16; k++)
        (void) pthread_create(&t[k], NULL, busy, o);
    for (size_t k = 0; k < o->a && k < 16; k++) {
        (void) pthread_join(t[k], &bad);
        sum += bad != NULL;
    }
    return sum;
}

static int work(const struct order *o)
{
    struct order copy = *o;

    CUcontext own;

    if (strcmp(o->word, "init") == 0)
        return cu.cuInit(0);
    if (strcmp(o->word, "threads") == 0)
        return threads(&copy);
    if (strcmp(o->word, "use") == 0)
        return use();
    if (strcmp(o->word, "own") == 0)
        return cu.cuCtxCreate_v4(&own, NULL, 0, 0);
    if (strncmp(o->word, "spin_", 5) == 0)
        return launch(o->word);
    if (strcmp(o->word, "sync") == 0)
        return cu.cuCtxSynchronize();
    if (strcmp(o->word, "query") == 0)
        return cu.cuStreamQuery(NULL);
    if (strcmp(o->word, "set") == 0)
        return cu.cuMemsetD32_v2(last, 7, 4);
    if (strcmp(o->word, "alarm") == 0)
        return (int) alarm((unsigned int) o->a);
    if (strcmp(o->word, "alarms") == 0)
        return (int) alarms;
    return -1;
}

/* Whether the names are where a program finds them by itself. */
static int names(const struct order *o)
{
    if (strcmp(o->word, "default") == 0)
        return dlsym(RTLD_DEFAULT, "cuInit") != NULL;
    if (strcmp(o->word, "next") == 0)
        return dlsym(RTLD_NEXT, "strlen") == (void *) strlen;
    if (strcmp(o->word, "missing") == 0)
        return dlsym(RTLD_DEFAULT, "no_such_name") == NULL && dlerror() != NULL;
    return -1;
}

static void obey(const struct order *o)
{
    static int (*const all[])(const struct order *) = {
        take, give, work, names,
    };
    int rc = describe(o) == 0 ? 0 : -1;

    for (size_t k = 0; rc == -1 && k < sizeof all / sizeof *all; k++) {
        errno = ENOTNAM;
        rc = all[k](o);
        if (rc != -1)
            (void) printf("%d%s\n", rc, errno == ENOTNAM ? "" : " errno");
    }
    if (rc == -1)
        (void) printf("?\n");
    (void) fflush(stdout);
}

static void on_alarm(int sig)
{
    (void) sig;
    alarms++;
}

/* "fork" goes on in a child, and after its end in the parent. */
int main(void)
{
    char line[128];
    struct sigaction act = { .sa_handler = on_alarm };

    (void) setvbuf(stdin, NULL, _IONBF, 0);
    (void) sigaction(SIGALRM, &act, NULL);
    find();
    while (fgets(line, sizeof line, stdin)) {
        struct order o = { "", 0, 0 };

        if (sscanf(line, "%31s %llu %llu", o.word, &o.a, &o.b) < 1)
            continue;
        if (strcmp(o.word, "fork") != 0) {
            obey(&o);
        } else if (fork() != 0) {
            (void) wait(NULL);
            (void) printf("parent\n");
            (void) fflush(stdout);
        }
        if (strcmp(o.word, "end") == 0)
            break;
    }
    return 0;
}
