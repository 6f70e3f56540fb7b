#pragma once

#include "gpu/nvml.h"
#include "gpu/scrub.h"

#include <jansson.h>
#include <stdint.h>

/* device - what a device is, and who its neighbours are.
 *
 * A device that does not answer is still in the inventory, with its state and a
 * sentence: what was known of it before is then the caller's to keep.
 */
enum { DEVICE_MAX = 32, DEVICE_WHY = 256 };

struct device_mig {
    char uuid[NVML_TEXT];
    unsigned gpu_instance, compute_instance;
    uint64_t memory_bytes;
};

/* How far from one device to another: the vendor's levels. */
enum device_near {
    DEVICE_NEAR_UNKNOWN = -1,
    DEVICE_NEAR_BOARD = 0,
    DEVICE_NEAR_SWITCH = 10,
    DEVICE_NEAR_SWITCHES = 20,
    DEVICE_NEAR_BRIDGE = 30,
    DEVICE_NEAR_NODE = 40,
    DEVICE_NEAR_SYSTEM = 50,
};
const char *device_near_name(int level);           /* NULL: not told */

struct device {
    enum nvml_state state;
    char why[DEVICE_WHY];              /* of a state that is not ready */
    unsigned index;
    char uuid[NVML_TEXT];              /* "": not told, as the texts below */
    char model[NVML_TEXT];
    char pci[32];
    uint64_t memory_bytes;             /* 0: not told */
    int minor;                         /* N of /dev/nvidiaN; -1: not told */
    int cc_major, cc_minor;            /* compute capability; 0: not told */
    int numa;                          /* -1: not told */
    int mig_mode;                      /* 0 off, 1 on, -1: it has none */
    unsigned nmigs;
    struct device_mig migs[NVML_MIGS];
    bool xids;                         /* the driver tells of its XIDs */
    unsigned nvlinks;                  /* links that are up */
    int near[DEVICE_MAX];              /* to the device of that index */
    unsigned char links[DEVICE_MAX];   /* NVLinks to the device of that index,
                                        * without those to a switch */
};

struct device_list {
    enum nvml_state state;             /* of the driver */
    char why[DEVICE_WHY];
    char driver[NVML_TEXT];            /* "580.159.04" */
    enum scrub scrub;                  /* memory that was freed, by it */
    int cuda;                          /* 13000 is 13.0; 0: not told */
    unsigned n;
    struct device all[DEVICE_MAX];
};

/* Look at all of them.  handles[i] is NULL where device i does not answer.
 * Fails when the driver itself is the matter: *ret has the state and the
 * sentence and no devices then.
 */
int device_list_read(const struct nvml *n, struct device_list *ret,
                     struct nvml_device *handles[DEVICE_MAX], struct err *err);

json_t *device_json(const struct device_list *l, unsigned i);
/* {state, why?, driver, cuda, devices: [...]}; caller owns. */
json_t *device_list_json(const struct device_list *l);
