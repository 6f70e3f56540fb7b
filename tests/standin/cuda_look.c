#include "cuda_in.h"

#include <string.h>

/* Which function a program gets for a name and a version. */
struct entry {
    const char *base;
    int since;
    void *fn;
};

static const struct entry entries[] = {
#define ENTRY(base, since, name, params) { #base, since, (void *) name },
#include "cuda.def"
#undef ENTRY
};

static void *look_up(const char *name, int version, int *status)
{
    void *fn = NULL;

    *status = 1;                       /* there is no such name */
    for (size_t k = 0; k < sizeof entries / sizeof *entries; k++) {
        if (strcmp(entries[k].base, name) != 0)
            continue;
        if (entries[k].since <= version)
            fn = entries[k].fn;
        else if (!fn)
            *status = 2;               /* not in that version */
    }
    if (fn)
        *status = 0;
    return fn;
}

API CUresult cuGetProcAddress_v2(const char *name, void **fn, int version,
                                 uint64_t flags, int *status)
{
    int unused;

    (void) flags;
    if (!name || !fn)
        return CUDA_ERROR_INVALID_VALUE;
    *fn = look_up(name, version, status ? status : &unused);
    return *fn || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

API CUresult cuGetProcAddress(const char *name, void **fn, int version,
                              uint64_t flags)
{
    return cuGetProcAddress_v2(name, fn, version, flags, NULL);
}

/* Tables as the driver has them, with names of our own: one that begins with its
 * size, one that begins with a function, and one that is like neither.
 */
static CUresult sum(int a, int b, int c, int d, int e, int f, int g, int h)
{
    CALL;
    return a + b + c + d + e + f + g + h;
}

static CUresult twice(double x)
{
    CALL;
    return (CUresult) (2 * x);
}

static const void *const sized[] = {
    (void *) (5 * sizeof(void *)), (void *) sum, NULL, (void *) 7,
    (void *) twice, (void *) sum,
};
static const void *const bare[] = {
    (void *) sum, (void *) twice, NULL, (void *) 24, (void *) sum,
};
static const void *const odd[] = { (void *) 3, (void *) sum };

/* The last two are the driver's own: the runtime compares their addresses. */
static const struct { const char *id; const void *table; } tables[] = {
    { "weir-table-sized", sized },
    { "weir-table--bare", bare },
    { "weir-table---odd", odd },
    { "\xd4\x08\x20\x55\xbd\xe6\x70\x4b\x8d\x34\xba\x12\x3c\x66\xe1\xf2",
      sized },
    { "\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9",
      sized },
};

API CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    *table = NULL;
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) {
        if (memcmp(tables[k].id, id, sizeof *id) == 0)
            *table = tables[k].table;
    }
    return *table ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static const struct { CUresult rc; const char *name, *text; } errors[] = {
    { CUDA_SUCCESS, "CUDA_SUCCESS", "no error" },
    { CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE",
      "invalid argument" },
    { CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
    { CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
    { CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED",
      "operation not supported" },
};

static CUresult describe(CUresult rc, const char **s, bool text)
{
    *s = NULL;
    for (size_t k = 0; k < sizeof errors / sizeof *errors; k++) {
        if (errors[k].rc == rc)
            *s = text ? errors[k].text : errors[k].name;
    }
    return *s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuGetErrorName(CUresult rc, const char **s)
{
    return describe(rc, s, false);
}

API CUresult cuGetErrorString(CUresult rc, const char **s)
{
    return describe(rc, s, true);
}
