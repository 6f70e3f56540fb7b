#pragma once

#include "base/buf.h"
#include "gpu/suspend.h"

#include <stddef.h>
#include <stdint.h>

struct err;

/* ask - what weir-gpud may be asked: frames (base/frame.h) that hold one JSON
 * object with "t", the kind of request.  Unknown members are ignored.
 *
 *     hello      {v?}            who are you?
 *     inventory  {}              which devices are there?
 *     sample     {}              how are they?
 *     health     {}              what is the matter with them?
 *     was-reset  {uuid}          a device was, whatever it looks like
 *     watch      {every_ms?}     samples from now on, and XIDs and changes of
 *                                health as they come
 *     suspend    {task, pid | cgroup, hold?, lock_ms?}
 *                                take the task off its devices
 *     resume     {task, devices?: {UUID: UUID, ...}}
 *                                bring it back, to the other device of a pair
 *
 * Each is answered by a message of the same kind or by error {reason?, text};
 * a watcher also gets sample, xid and health-change unasked.
 */
enum {
    ASK_VERSION = 1,
    ASK_MAX = 4096,                    /* bytes of a request */
    ASK_EVERY_MS = 1000,
    ASK_EVERY_MIN_MS = 100,
    ASK_EVERY_MAX_MS = 3600 * 1000,
};

#define ASK_KINDS(X) \
    X(HELLO, "hello") X(INVENTORY, "inventory") X(SAMPLE, "sample") \
    X(HEALTH, "health") X(WAS_RESET, "was-reset") \
    X(WATCH, "watch") X(SUSPEND, "suspend") X(RESUME, "resume")
enum ask_kind {
#define X(name, text) ASK_##name,
    ASK_KINDS(X)
#undef X
    ASK_KIND_COUNT
};
const char *ask_kind_name(enum ask_kind kind);

struct ask {
    enum ask_kind kind;
    uint64_t v;                        /* of hello */
    uint64_t every_ms;                 /* of watch */
    char uuid[NVML_TEXT];              /* of was-reset */
    struct suspend_ask suspend;        /* of suspend and resume; without who
                                        * asks */
};

/* Of a buffer that is read into: one whole request. */
#define ASK_IN_INIT BUF_INIT(ASK_MAX + 4)

/* Take the next request out of `in`.  1: *ret is it; 0: more is needed;
 * -EBADMSG: one that cannot be answered was passed over; else the stream is
 * beyond use.
 */
int ask_next(struct buf *in, struct ask *ret, struct err *err);
