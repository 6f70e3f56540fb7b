#include "gpu/nvml.h"

#include "base/err.h"
#include "base/mem.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

static const char library[] = "libnvidia-ml.so.1";

static const struct {
    const char *name;
    int code;
} states[NVML_STATE_COUNT] = {
#define X(name, text, code) [NVML_##name] = { text, code },
    NVML_STATES(X)
#undef X
};

/* What a person can do about it. */
static const char *const sentences[NVML_STATE_COUNT] = {
    [NVML_NO_DRIVER] = "the NVIDIA driver is not loaded: load its kernel"
                       " module ('modprobe nvidia')",
    [NVML_MISMATCH] = "libnvidia-ml.so.1 and the loaded kernel module are of"
                      " different versions: restart the node or load the new"
                      " module",
    [NVML_DENIED] = "no permission: this user cannot open the device nodes"
                    " /dev/nvidia*",
    [NVML_NO_DEVICE] = "the driver is loaded and finds no device",
    [NVML_LOST] = "the device fell off the bus: reset it or restart the node",
    [NVML_RESET] = "the device must be reset before it works again"
                   " ('nvidia-smi --gpu-reset')",
};

static const struct {
    const char *name;
    size_t at;                         /* of the pointer, in struct nvml */
    bool must;
} functions[] = {
#define MUST true
#define MAY false
#define NVML(need, res, fn, params) { #fn, offsetof(struct nvml, fn), need },
#include "gpu/nvml.def"
#undef NVML
#undef MUST
#undef MAY
};

const char *nvml_state_name(enum nvml_state s)
{
    assert(s < NVML_STATE_COUNT);
    return states[s].name;
}

enum nvml_state nvml_state_of(int rc)
{
    switch (rc) {
    case NVML_RC_OK:
        return NVML_READY;
    case NVML_RC_UNINITIALIZED:
    case NVML_RC_DRIVER_NOT_LOADED:
        return NVML_NO_DRIVER;
    case NVML_RC_MISMATCH:
        return NVML_MISMATCH;
    case NVML_RC_NO_PERMISSION:
        return NVML_DENIED;
    case NVML_RC_LOST:
        return NVML_LOST;
    case NVML_RC_RESET_REQUIRED:
        return NVML_RESET;
    default:
        return NVML_FAULT;
    }
}

bool nvml_state_is_driver(enum nvml_state s)
{
    return s == NVML_NO_LIBRARY || s == NVML_NO_DRIVER || s == NVML_MISMATCH ||
           s == NVML_NO_DEVICE;
}

int nvml_fail(const struct nvml *n, int rc, const char *what, struct err *err)
{
    enum nvml_state s = nvml_state_of(rc);
    const char *text = NULL;

    assert(rc != NVML_RC_OK);
    if (n->nvmlErrorString)
        text = n->nvmlErrorString(rc);
    if (sentences[s])
        (void) err_set(err, states[s].code, "%s", sentences[s]);
    else
        (void) err_set(err, states[s].code, "the driver answers %d (%s)", rc,
                       text ? text : "no text");
    return what ? err_prefix(err, -states[s].code, "%s", what) :
           -states[s].code;
}

static int find_functions(struct nvml *n, struct err *err)
{
    for (size_t i = 0; i < array_size(functions); i++) {
        void *p = dlsym(n->lib, functions[i].name);

        if (!p && functions[i].must)
            return err_set(err, ELIBBAD, "%s is too old: it has no %s",
                           library, functions[i].name);
        memcpy((char *) n + functions[i].at, &p, sizeof p);
    }
    return 0;
}

static void unload(struct nvml *n)
{
    if (n->lib)
        (void) dlclose(n->lib);
    memset(n, 0, sizeof *n);
}

int nvml_open(struct nvml *ret, enum nvml_state *ret_state, struct err *err)
{
    struct nvml n = { .lib = dlopen(library, RTLD_NOW | RTLD_LOCAL) };
    int rc;

    if (!n.lib) {
        const char *why = dlerror();

        *ret_state = NVML_NO_LIBRARY;
        return err_set(err, ENOENT, "no NVIDIA driver on this node: %s",
                       why ? why : library);
    }
    rc = find_functions(&n, err);
    if (rc < 0) {
        *ret_state = NVML_FAULT;
        unload(&n);
        return rc;
    }
    rc = n.nvmlInit_v2();
    if (rc != NVML_RC_OK) {
        *ret_state = nvml_state_of(rc);
        rc = nvml_fail(&n, rc, NULL, err);
        unload(&n);
        return rc;
    }
    *ret_state = NVML_READY;
    *ret = n;
    return 0;
}

void nvml_close(struct nvml *n)
{
    if (n->lib)
        (void) n->nvmlShutdown();
    unload(n);
}
