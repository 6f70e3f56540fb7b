#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* cuda - what of the driver's libcuda.so.1 takes processes off their devices.
 *
 * Loaded by name at run time like nvml.h's; names are ours, layouts and numbers
 * are those of its documentation.  The calls concern other processes, by their
 * pid; weir-gpud itself never has a context.
 */
enum cuda_rc {
    CUDA_RC_OK = 0,
    CUDA_RC_INVALID = 1,
    CUDA_RC_MEMORY = 2,
    CUDA_RC_NOT_INITIALIZED = 3,
    CUDA_RC_UNAVAILABLE = 46,
    CUDA_RC_NO_DEVICE = 100,
    CUDA_RC_INVALID_DEVICE = 101,
    CUDA_RC_NOT_PERMITTED = 800,
    CUDA_RC_ILLEGAL_STATE = 401,
    CUDA_RC_NOT_READY = 600,
    CUDA_RC_NOT_SUPPORTED = 801,
};

enum cuda_state { CUDA_RUNNING, CUDA_LOCKED, CUDA_TAKEN, CUDA_FAILED };

struct cuda_uuid { unsigned char bytes[16]; };
struct cuda_pair { struct cuda_uuid from, to; };

struct cuda_lock_args {
    unsigned timeout_ms, reserved0;    /* 0: for ever */
    uint64_t reserved[7];
};
struct cuda_restore_args {
    struct cuda_pair *pairs;           /* every device that was used, or none */
    unsigned count;
    char reserved[64 - sizeof(void *) - sizeof(unsigned)];
};
_Static_assert(sizeof(struct cuda_lock_args) == 64, "lock");
_Static_assert(sizeof(struct cuda_restore_args) == 64, "restore");
_Static_assert(sizeof(struct cuda_pair) == 32, "pair");

struct cuda {
    void *lib;                         /* NULL: not open */
#define CUDA(need, res, name, params) res (*name) params;
#include "gpu/cuda.def"
#undef CUDA
};

/* Load the library and begin: the first time takes the driver seconds.  -ENOENT:
 * there is none; -ENOSYS: it is too old to take a process off its device.  It is
 * never unloaded: libcuda leaves threads behind.
 */
int cuda_open(struct cuda *ret, struct err *err);

/* "600 (CUDA_ERROR_NOT_READY)", into `text`. */
const char *cuda_rc_text(const struct cuda *c, int rc, char *text, size_t size);
/* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"; false: it is not such a text. */
bool cuda_uuid_read(const char *text, struct cuda_uuid *ret);
