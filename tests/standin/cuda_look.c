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

API CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    (void) id;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
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
