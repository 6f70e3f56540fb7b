#include "gpu/cuda.h"

#include "base/err.h"
#include "base/mem.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char library[] = "libcuda.so.1";

static const struct {
    const char *name;
    size_t at;                         /* of the pointer, in struct cuda */
    bool must;
} functions[] = {
#define MUST true
#define MAY false
#define CUDA(need, res, fn, params) { #fn, offsetof(struct cuda, fn), need },
#include "gpu/cuda.def"
#undef CUDA
#undef MUST
#undef MAY
};

const char *cuda_rc_text(const struct cuda *c, int rc, char *text, size_t size)
{
    const char *name = NULL;

    if (!c->cuGetErrorName || c->cuGetErrorName(rc, &name) != CUDA_RC_OK)
        name = NULL;
    (void) snprintf(text, size, "%d (%s)", rc, name ? name : "no name");
    return text;
}

static int find_functions(struct cuda *c, struct err *err)
{
    for (size_t i = 0; i < array_size(functions); i++) {
        void *p = dlsym(c->lib, functions[i].name);

        if (!p && functions[i].must)
            return err_set(err, ELIBBAD, "%s has no %s", library,
                           functions[i].name);
        memcpy((char *) c + functions[i].at, &p, sizeof p);
    }
    if (!c->cuCheckpointProcessGetState || !c->cuCheckpointProcessLock ||
        !c->cuCheckpointProcessCheckpoint || !c->cuCheckpointProcessRestore ||
        !c->cuCheckpointProcessUnlock)
        return err_set(err, ENOSYS, "the driver is too old to suspend a task:"
                       " its %s has no cuCheckpointProcessLock and the like"
                       " (570 has)", library);
    return 0;
}

int cuda_open(struct cuda *ret, struct err *err)
{
    struct cuda c = { .lib = dlopen(library, RTLD_NOW | RTLD_LOCAL) };
    char text[96];
    int rc;

    if (!c.lib) {
        const char *why = dlerror();

        return err_set(err, ENOENT, "no task can be suspended on this node:"
                       " %s", why ? why : library);
    }
    rc = find_functions(&c, err);
    if (rc < 0)
        return rc;
    /* A restore needs it, unless the driver is kept awake by other means. */
    rc = c.cuInit(0);
    if (rc != CUDA_RC_OK)
        return err_set(err, rc == CUDA_RC_NO_DEVICE ? ENODEV : EIO,
                       "the driver does not begin: cuInit answers %s",
                       cuda_rc_text(&c, rc, text, sizeof text));
    *ret = c;
    return 0;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char) tolower((unsigned char) c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool cuda_uuid_read(const char *text, struct cuda_uuid *ret)
{
    static const char form[] = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    struct cuda_uuid id = { { 0 } };
    unsigned n = 0;

    if (strlen(text) != sizeof form - 1)
        return false;
    for (size_t i = 0; i < sizeof form - 1; i++) {
        int d = digit(text[i]);

        if (form[i] != 'x') {
            if (text[i] != form[i])
                return false;
            continue;
        }
        if (d < 0)
            return false;
        id.bytes[n / 2] = (unsigned char) (id.bytes[n / 2] << 4 | d);
        n++;
    }
    *ret = id;
    return true;
}
