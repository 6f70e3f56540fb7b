#pragma once

#include "gpu/nvml_types.h"

#include <stdbool.h>

struct err;

/* nvml - the driver's library, loaded when it is there.
 *
 * Nothing here is linked to the vendor: the library is opened by name at run
 * time, and a node without it is a state with a sentence like any other.
 * Calls may take as long as the driver takes; one thread at a time.
 */
#define NVML_STATES(X) \
    X(READY, "ready", 0) \
    X(NO_LIBRARY, "no-library", ENOENT) \
    X(NO_DRIVER, "no-driver", ENXIO) \
    X(MISMATCH, "mismatch", ELIBBAD) \
    X(DENIED, "denied", EACCES) \
    X(NO_DEVICE, "no-device", ENODEV) \
    X(LOST, "lost", EIO) \
    X(RESET, "reset-required", EIO) \
    X(STUCK, "stuck", ETIMEDOUT) \
    X(FAULT, "fault", EIO)
enum nvml_state {                      /* of the node, and of one device */
#define X(name, text, code) NVML_##name,
    NVML_STATES(X)
#undef X
    NVML_STATE_COUNT
};
const char *nvml_state_name(enum nvml_state s);

struct nvml {
    void *lib;                         /* NULL: not open */
#define NVML(need, res, name, params) res (*name) params;
#include "gpu/nvml.def"
#undef NVML
};

/* Call what a library may not have: the answer is then the same as that of a
 * device that cannot do it.
 */
#define nvml_ask(n, fn, ...) \
    ((n)->fn ? (n)->fn(__VA_ARGS__) : NVML_RC_NOT_SUPPORTED)

/* Load the library and begin.  On failure nothing is open, *ret_state says
 * what is the matter and *err says it in a sentence.
 */
int nvml_open(struct nvml *ret, enum nvml_state *ret_state, struct err *err);
/* End and unload, so that the next nvml_open finds the library of a driver that
 * was replaced meanwhile.
 */
void nvml_close(struct nvml *n);

/* What a code means for who got it. */
enum nvml_state nvml_state_of(int rc);
/* The sentence for a code that `what`, or with NULL the driver, answered. */
int nvml_fail(const struct nvml *n, int rc, const char *what, struct err *err);
/* Is the whole driver gone, and not one device? */
bool nvml_state_is_driver(enum nvml_state s);
