#pragma once

#include "cuda.h"
#include "standin.h"

#include <stdbool.h>

/* cuda_in - between the files of the stand-in for libcuda. */
#define API __attribute__((visibility("default")))

extern struct standin_proc *standin_me;        /* NULL before a context */

bool standin_path(char *path, size_t size, const char *name);
bool standin_key(const char *file, const char *key, char *value, size_t size);
uint64_t standin_number(const char *file, const char *key, uint64_t other);
uint64_t standin_now_ns(void);
void standin_sleep_until(uint64_t ns);

/* The process's file, mapped: of this process made, of another NULL when it has
 * none or is no more.
 */
int standin_make_me(void);
struct standin_proc *standin_map(int pid);
void standin_unmap(struct standin_proc *p);
void standin_each(void (*see)(struct standin_proc *p, void *arg), void *arg);

/* Carry out p->ask, in the driver's own thread of this process. */
int standin_carry_out(struct standin_proc *p);
/* Wait until *word is no longer `was`, or wake who does. */
void standin_wait(_Atomic uint32_t *word, uint32_t was);
void standin_wake(_Atomic uint32_t *word);

/* At the beginning of every call: waits while the process is locked.  At its
 * end, errno is what it was.
 */
struct standin_call {
    struct standin_proc *in;           /* NULL: no context yet */
    int saved_errno;
};
struct standin_call standin_enter(void);
void standin_left(const struct standin_call *c);

/* Stands at the top of every call into the driver. */
#define CALL \
    __attribute__((cleanup(standin_left))) struct standin_call call_ = \
        standin_enter(); \
    (void) call_

/* Whether an allocation becomes a node of the graph that a stream captures. */
bool standin_captures(CUdeviceptr *p, size_t n, CUstream s);

extern _Thread_local bool standin_low;         /* addresses of 32 bits */

/* The device as files say it is. */
int standin_devices(void);
bool standin_device_file(char *name, size_t size, CUdevice dev);
uint64_t standin_total(CUdevice dev);
bool standin_uuid(CUdevice dev, CUuuid *id);
uint64_t standin_used(CUdevice dev);           /* by all processes */
CUdevice standin_current(void);                /* -1: no context */
