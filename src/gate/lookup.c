#include "gate/driver.h"
#include "gate/elf.h"
#include "gate/gate.h"

#include <errno.h>
#include <string.h>

/* How programs come by the driver's functions, and how the gate does.
 *
 * A program that links libcuda binds to the exported names here, because the
 * library is preloaded.  One that looks names up by dlsym or cuGetProcAddress
 * gets ours where the answer is the driver's own: an answer of somebody else is
 * left alone.  The driver is never loaded from here; a process that has none
 * gets CUDA_ERROR_STUB_LIBRARY from whatever it calls.
 *
 * The loader's functions moved from libdl to libc in glibc 2.34, and a program
 * may load libdl late: they are looked for when they are needed.
 */
#define NEXT ((void *) -1L)            /* RTLD_NEXT */
#define DEFAULT ((void *) 0)           /* RTLD_DEFAULT */
#define NOWHERE ((void *) -1L)         /* for trampoline.S: answer NULL */
enum { LAZY = 1, NOLOAD = 4 };         /* RTLD_LAZY | RTLD_NOLOAD */

typedef void *(*dlsym_fn)(void *, const char *);
typedef void *(*dlopen_fn)(const char *, int);

/* Shared with trampoline.S. */
extern void *const gate_ours[];
extern char gate_spares[];
extern char own_dlsym[] __asm__("dlsym");
void *gate_real[ID_COUNT + GATE_SPARES];
dlsym_fn gate_dlsym_real;
void *gate_dlsym(void *handle, const char *name);
void *gate_slow(int id);

static _Atomic int spares_taken;

static const char *const names[ID_COUNT] = {
#define HOOK(name, params) #name,
#define PASS(name, kind) #name,
#include "gate/hooks.def"
#undef HOOK
#undef PASS
};

enum { GATE_FREE = GATE_OTHER };
static const uint8_t kinds[ID_COUNT] = {
#define HOOK(name, params) GATE_OTHER,
#define PASS(name, kind) GATE_##kind,
#include "gate/hooks.def"
#undef HOOK
#undef PASS
};

static CUresult no_driver(void)
{
    return CUDA_ERROR_STUB_LIBRARY;
}

static bool have_dlsym(void)
{
    if (!gate_dlsym_real)
        gate_dlsym_real = (dlsym_fn) elf_find("dlsym", own_dlsym);
    return gate_dlsym_real != NULL;
}

static void *ask(void *handle, const char *name)
{
    return have_dlsym() ? gate_dlsym_real(handle, name) : NULL;
}

/* What the driver has by that name, or NULL. */
static void *in_driver(const char *name)
{
    static void *handle;
    static dlopen_fn open_lib;

    if (!open_lib)
        open_lib = (dlopen_fn) elf_find("dlopen", NULL);
    if (!handle && open_lib)
        handle = open_lib("libcuda.so.1", LAZY | NOLOAD);
    return ask(handle ? handle : NEXT, name);
}

static int find_name(const char *name)
{
    for (int k = 0; k < ID_COUNT; k++) {
        if (strcmp(names[k], name) == 0)
            return k;
    }
    return -1;
}

static void *known(int id)
{
    if (!gate_real[id])
        gate_real[id] = in_driver(names[id]);
    return gate_real[id];
}

void *gate_real_of(int id)
{
    int saved = errno;
    void *p = gate_real[id];

    if (!p && id < ID_COUNT)
        p = known(id);
    errno = saved;
    return p ? p : (void *) no_driver;
}

void *gate_slow(int id)
{
    gate_pass();
    gate_count(id < ID_COUNT ? kinds[id] : GATE_OTHER);
    return gate_real_of(id);
}

/* The way to a function of the driver that has no name here.  When the spares
 * are used up it has no way through the gate, and goes without.
 */
static void *spare(void *p)
{
    int k;

    for (k = 0; k < GATE_SPARES && k < spares_taken; k++) {
        if (gate_real[ID_COUNT + k] == p)
            return gate_spares + (size_t) k * 64;
    }
    k = spares_taken++;
    if (k >= GATE_SPARES) {
        spares_taken = GATE_SPARES;
        return p;
    }
    gate_real[ID_COUNT + k] = p;
    return gate_spares + (size_t) k * 64;
}

static void *by_handle(void *handle, const char *name, int id)
{
    void *p = ask(handle, name);

    if (!p)
        return NULL;                   /* the real one says so again */
    if (id < 0)
        return p == in_driver(name) ? spare(p) : p;
    if (p == gate_ours[id])
        return known(id) ? p : NOWHERE;
    return p == known(id) ? gate_ours[id] : p;
}

/* Our own name is in the global scope whether there is a driver or not. */
static void *by_scope(const char *name, int id)
{
    void *p = ask(NEXT, name);

    if (!p)
        return NOWHERE;
    if (id < 0)
        return p == in_driver(name) ? spare(p) : p;
    return p == known(id) ? gate_ours[id] : p;
}

/* Ours, NOWHERE, or NULL: ask the real one. */
void *gate_dlsym(void *handle, const char *name)
{
    int saved = errno;
    void *p = NULL;

    if (!have_dlsym())
        p = NOWHERE;
    else if (name && name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' &&
        name[2] <= 'Z') {
        int id = find_name(name);

        p = handle == NEXT || handle == DEFAULT ? by_scope(name, id)
                                                : by_handle(handle, name, id);
    }
    errno = saved;
    return p;
}

/* The driver answers with the addresses that it exports. */
static void *wrap(void *p)
{
    for (int k = 0; k < ID_COUNT; k++) {
        if (known(k) == p)
            return gate_ours[k];
    }
    return spare(p);
}

CUresult cuGetProcAddress(const char *name, void **fn, int version,
                          uint64_t flags)
{
    CUresult rc = REAL(cuGetProcAddress)(name, fn, version, flags);

    if (rc == CUDA_SUCCESS && fn && *fn)
        *fn = wrap(*fn);
    return rc;
}

CUresult cuGetProcAddress_v2(const char *name, void **fn, int version,
                             uint64_t flags, int *status)
{
    CUresult rc = REAL(cuGetProcAddress_v2)(name, fn, version, flags, status);

    if (rc == CUDA_SUCCESS && fn && *fn)
        *fn = wrap(*fn);
    return rc;
}
