#include "gate/driver.h"
#include "gate/elf.h"
#include "gate/gate.h"
#include "gate/lookup.h"

#include <dlfcn.h>
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
#define NOWHERE ((void *) -1L)         /* for trampoline.S: answer NULL */

typedef void *(*dlsym_fn)(void *, const char *);
typedef void *(*dlvsym_fn)(void *, const char *, const char *);
typedef void *(*dlopen_fn)(const char *, int);
typedef int (*dladdr_fn)(const void *, Dl_info *);

/* Shared with trampoline.S. */
extern void *const gate_ours[];
extern char gate_spares[];
extern char own_dlsym[] __asm__("dlsym"), own_dlvsym[] __asm__("dlvsym");
void *gate_real[ID_COUNT + GATE_SPARES];
dlsym_fn gate_dlsym_real;
dlvsym_fn gate_dlvsym_real;
void *gate_dlsym(void *handle, const char *name, const void *unused,
                 const void *caller);
void *gate_dlvsym(void *handle, const char *name, const char *version,
                  const void *caller);
void *gate_slow(int id);

static _Atomic int spares_taken;
static void *driver_handle;

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

/* What is looked for: as dlsym has it, or with a version as dlvsym. */
struct question {
    void *handle;
    const char *name, *version;
    const void *caller;
    int id;                            /* -1: no name of hooks.def */
};

static void *ask(void *handle, const struct question *q)
{
    return q->version ? gate_dlvsym_real(handle, q->name, q->version)
                      : gate_dlsym_real(handle, q->name);
}

/* What the driver has by that name, or NULL. */
static void *in_driver(const char *name)
{
    static dlopen_fn open_lib;

    if (!open_lib)
        open_lib = (dlopen_fn) elf_find("dlopen", NULL);
    if (!driver_handle && open_lib)
        driver_handle = open_lib("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!have_dlsym())
        return NULL;
    return gate_dlsym_real(driver_handle ? driver_handle : RTLD_NEXT, name);
}

/* Whether an address is in some libcuda, also in one that dlmopen loaded, which
 * no list of ours has.
 */
static bool in_some_driver(const void *p)
{
    static dladdr_fn tell;
    Dl_info info = { .dli_fname = NULL };
    const char *base;

    if (!tell)
        tell = (dladdr_fn) elf_find("dladdr", NULL);
    if (!tell || !tell(p, &info) || !info.dli_fname)
        return false;
    base = strrchr(info.dli_fname, '/');
    return strncmp(base ? base + 1 : info.dli_fname, "libcuda.so", 10) == 0;
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
    int k, n = spares_taken;

    for (k = 0; k < n && k < GATE_SPARES; k++) {
        if (gate_real[ID_COUNT + k] == p)
            return gate_spares + ((size_t) k << GATE_SPARE_SHIFT);
    }
    do {
        if (n >= GATE_SPARES) {
            gate_page->unhooked++;
            return p;
        }
    } while (!atomic_compare_exchange_weak(&spares_taken, &n, n + 1));
    gate_real[ID_COUNT + n] = p;
    return gate_spares + ((size_t) n << GATE_SPARE_SHIFT);
}

/* A driver that our own scope does not have is the driver when there is no
 * other, and else one more: its functions wait, and nothing is counted.
 */
static void *by_handle(const struct question *q)
{
    void *p = ask(q->handle, q);

    if (!p)
        return NULL;                   /* the real one says so again */
    if (q->id >= 0 && p == gate_ours[q->id])
        return known(q->id) ? p : NOWHERE;
    if (!in_driver("cuInit") && in_some_driver(p))
        driver_handle = q->handle;
    if (q->id >= 0 && p == known(q->id))
        return gate_ours[q->id];
    return in_some_driver(p) ? spare(p) : p;
}

static bool same_object(const void *p, const void *q)
{
    struct elf_part a, b;

    return elf_part_of(p, &a) && elf_part_of(q, &b) && a.object == b.object;
}

/* Our own name is in the global scope whether there is a driver or not.  Who
 * wraps the driver too and asks what comes next is not given itself.
 */
static void *by_scope(const struct question *q)
{
    void *p = ask(RTLD_NEXT, q);

    if (!p)
        return NOWHERE;
    if (q->id < 0)
        return in_some_driver(p) ? spare(p) : p;
    if (q->handle == RTLD_NEXT && same_object(p, q->caller))
        return known(q->id) ? gate_ours[q->id] : NULL;
    return p == known(q->id) ? gate_ours[q->id] : p;
}

/* Ours, NOWHERE, or NULL: ask the real one. */
static void *answer(struct question *q)
{
    const char *s = q->name;

    if (!s || s[0] != 'c' || s[1] != 'u' || s[2] < 'A' || s[2] > 'Z')
        return NULL;
    q->id = find_name(s);
    return q->handle == RTLD_NEXT || q->handle == RTLD_DEFAULT ? by_scope(q)
                                                     : by_handle(q);
}

void *gate_dlsym(void *handle, const char *name, const void *unused,
                 const void *caller)
{
    struct question q = { handle, name, NULL, caller, -1 };
    int saved = errno;
    void *p = have_dlsym() ? answer(&q) : NOWHERE;

    (void) unused;
    errno = saved;
    return p;
}

void *gate_dlvsym(void *handle, const char *name, const char *version,
                  const void *caller)
{
    struct question q = { handle, name, version, caller, -1 };
    int saved = errno;
    void *p;

    if (!gate_dlvsym_real)
        gate_dlvsym_real = (dlvsym_fn) elf_find("dlvsym", own_dlvsym);
    p = gate_dlvsym_real && have_dlsym() ? answer(&q) : NOWHERE;
    errno = saved;
    return p;
}

/* The driver answers with the addresses that it exports. */
void *gate_wrap(void *p)
{
    for (int k = 0; k < ID_COUNT; k++) {
        if (known(k) == p || gate_ours[k] == p)
            return gate_ours[k];
    }
    return spare(p);
}

CUresult cuGetProcAddress(const char *name, void **fn, int version,
                          uint64_t flags)
{
    CUresult rc = REAL(cuGetProcAddress)(name, fn, version, flags);

    if (rc == CUDA_SUCCESS && fn && *fn)
        *fn = gate_wrap(*fn);
    return rc;
}

CUresult cuGetProcAddress_v2(const char *name, void **fn, int version,
                             uint64_t flags, int *status)
{
    CUresult rc = REAL(cuGetProcAddress_v2)(name, fn, version, flags, status);

    if (rc == CUDA_SUCCESS && fn && *fn)
        *fn = gate_wrap(*fn);
    return rc;
}
