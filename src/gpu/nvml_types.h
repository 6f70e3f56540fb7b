#pragma once

/* nvml_types - what libnvidia-ml.so.1 passes, declared here: nothing of the
 * vendor's is needed to build.  Names are ours, layouts and numbers are those
 * of its documentation.
 */
struct nvml_device;                    /* opaque: a device or a MIG instance */
struct nvml_events;                    /* opaque: a set of events */

enum nvml_rc {
    NVML_RC_OK = 0,
    NVML_RC_UNINITIALIZED = 1,
    NVML_RC_INVALID = 2,
    NVML_RC_NOT_SUPPORTED = 3,
    NVML_RC_NO_PERMISSION = 4,
    NVML_RC_NOT_FOUND = 6,
    NVML_RC_SIZE = 7,
    NVML_RC_DRIVER_NOT_LOADED = 9,
    NVML_RC_TIMEOUT = 10,
    NVML_RC_NO_FUNCTION = 13,
    NVML_RC_LOST = 15,
    NVML_RC_RESET_REQUIRED = 16,
    NVML_RC_MISMATCH = 18,
    NVML_RC_UNKNOWN = 999,
};

enum {
    NVML_TEXT = 96,                    /* room for any name it gives */
    NVML_LINKS = 18,                   /* NVLinks of one device */
    NVML_MIGS = 8,                     /* MIG instances of one device */
    NVML_EVENT_XID = 8,
    NVML_FIELD_MEMORY_TEMPERATURE = 82,
    NVML_CLOCK_SM = 1,
    NVML_CLOCK_MEMORY = 2,
    NVML_ECC_CORRECTED = 0,
    NVML_ECC_UNCORRECTED = 1,
    NVML_ECC_VOLATILE = 0,             /* since the driver was loaded */
    NVML_ECC_AGGREGATE = 1,            /* of its life */
};

/* A process whose memory is not told. */
#define NVML_NO_VALUE (~0ull)

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_memory_v2 {
    unsigned version;                  /* NVML_MEMORY_V2, set by the caller */
    unsigned long long total, reserved, free, used;
};
#define NVML_MEMORY_V2 ((unsigned) sizeof(struct nvml_memory_v2) | 2u << 24)

struct nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];                     /* "00000000:1B:00.0" */
};

struct nvml_utilization {
    unsigned device, memory;           /* percent of the last period */
};

struct nvml_field {
    unsigned id, scope;
    long long at_us, latency_us;
    unsigned type;                     /* which of the union */
    int rc;
    union {
        double real;
        unsigned u32;
        unsigned long ul;
        unsigned long long ull;
        long long s64;
        int s32;
    } value;
};
enum nvml_field_type {
    NVML_TYPE_DOUBLE, NVML_TYPE_U32, NVML_TYPE_ULONG, NVML_TYPE_U64,
    NVML_TYPE_S64, NVML_TYPE_S32,
};

struct nvml_process {
    unsigned pid;
    unsigned long long bytes;          /* or NVML_NO_VALUE */
    unsigned gpu_instance, compute_instance;   /* ~0u: no MIG */
};

struct nvml_process_use {
    unsigned pid;
    unsigned long long at_us;
    unsigned device, memory, encoder, decoder;     /* percent */
};

struct nvml_event {
    struct nvml_device *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

/* The sizes the library has been compiled with (64 bits). */
_Static_assert(sizeof(struct nvml_memory) == 24, "memory");
_Static_assert(sizeof(struct nvml_memory_v2) == 40, "memory, version 2");
_Static_assert(sizeof(struct nvml_pci) == 68, "PCI");
_Static_assert(sizeof(struct nvml_field) == 40, "field");
_Static_assert(sizeof(struct nvml_process) == 24, "process");
_Static_assert(sizeof(struct nvml_process_use) == 32, "use by process");
_Static_assert(sizeof(struct nvml_event) == 32, "event");
