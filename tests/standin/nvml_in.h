#pragma once

#include "gpu/nvml_types.h"
#include "nvml_text.h"
#include "standin.h"

/* nvml_in - what the files of the stand-in for libnvidia-ml.so.1 share. */
#define EXPORT __attribute__((visibility("default")))

struct nvml_device {
    unsigned index;
    int mig;                           /* -1: the whole device */
};

struct nvml_events {
    bool used, watched[STANDIN_DEVICES];
    char xid[STANDIN_DEVICES][32];
};

#define NVML(need, res, name, params) EXPORT res name params;
#include "gpu/nvml.def"
#undef NVML

/* One user at a time, as who asks promises. */
struct nvml_lib {
    bool begun, dead;
    char version[NVML_TEXT];
    struct nvml_device devices[STANDIN_DEVICES];
    struct nvml_device migs[STANDIN_DEVICES][NVML_MIGS];
    struct nvml_events events;
};
extern struct nvml_lib nvml_lib;

/* Does the driver, the device answer?  *t is what its file says. */
int nvml_driver(struct nvml_text *t);
int nvml_device(const struct nvml_device *d, struct nvml_text *t);
/* A value that the device's file has, or "not supported". */
int nvml_number(const struct nvml_device *d, const char *key,
                unsigned long long *ret);
int nvml_small(const struct nvml_device *d, const char *key, unsigned *ret);
/* Part 0 to 3 of a MIG instance's line, UUID:GI:CI:BYTES. */
bool nvml_mig_part(const struct nvml_device *d, const struct nvml_text *t,
                   int part, char *buf, size_t size);
