#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* wire - what runner and home say to each other: frames (base/frame.h) that
 * hold one JSON object with "t", the kind of message.  Between versions one
 * apart unknown members are ignored and unknown kinds answered with "error";
 * the version is in hello and welcome.
 *
 *   runner -> home
 *     hello    {v, block, token, pid, address?, leases: [{key, gen, epoch, state,
 *                gate?}]}
 *                 block: the runner's name, see runner_name; address: where
 *                 others reach its tasks, if that is another than home's;
 *                 state: "new" (ordered, not started here), "claimed",
 *                 "running", "ended" (report kept).  `leases` comes last: of
 *                 a hello of more than 16 KiB home looks at what is before it,
 *                 and at the rest when that has the right token
 *     claim    {key, gen, epoch}            may I start it?  asked once over a
 *                 connection
 *     started  {key, gen, epoch, pid, at}   information; not journalled
 *     progress {key, gen, epoch, at, said: {progress?, metrics?: {..}}}
 *                 what the task says about itself: 0 to 1, and numbers by
 *                 name; information, the newest counts
 *     activity {key, gen, epoch, at, gate, wanting?, inside?, launches?,
 *               copies?, syncs?, others?, used?}
 *                 of a task behind the gate: its state there, threads that wait
 *                 for the device, threads in a call that waits for work there,
 *                 calls since its start, bytes on its devices;
 *                 information, told when it has changed, the newest counts
 *     moved    {key, gen, epoch, ok, gate, ms, used?, reason?, text?}
 *                 answer to suspend and resume when it is over: where the task
 *                 is now, how long it took, the bytes that were moved; not ok:
 *                 it is where it was, and why
 *     telemetry {at, sample: [{uuid, name: number, ...}], strays?: [{kind,
 *                uuid, pid, comm, bytes, limit?, processes?, key?, gen?}]}
 *                 of the node's devices, as weir-gpud tells (docs/gpu.md has
 *                 the names); information, the newest counts.  strays: all
 *                 processes that use one otherwise than a lease says, seen in
 *                 two looks running (runner/stray.c has the kinds)
 *     health   {at, health: [{uuid, whole?, rules: [{rule, state, action,
 *               text?, evidence?}]}]}
 *                 what weir-gpud says is the matter with the node's devices
 *                 (docs/health.md); state: "raised", "probation" or "cleared".
 *                 whole: of that device it is all there is, and what home has
 *                 beside it is over.  Said as it changes, and whole after a
 *                 welcome and now and then
 *     ended    {key, gen, epoch, cause, status, started, ended, cpu_ms, rss}
 *                 kept on disk and sent again until acknowledged
 *     output   {key, gen, epoch, offset, data}
 *                 what a task has printed, from that byte of its log on, in
 *                 base64: of runners whose logs nobody else can read.  All of
 *                 it before its end is told; kept until `heard`, and told
 *                 again from there after a welcome
 *     pong     {}
 *   home -> runner
 *     welcome  {v, epoch}
 *     order    {key, gen, epoch, task: {...}}   start this once claimed;
 *                 repeatable
 *     grant    {key, gen, epoch, ok}        answer to claim, or to "new" in a
 *                 hello; ok false: forget it, never start it
 *     stop     {key, gen, epoch, signal, grace_ms, command, force}
 *                 repeatable
 *     gate     {key, gen, epoch, gate}      "staged" (the task waits at its
 *                 first context), "active" or "suspended" (at its next call);
 *                 answered by activity; repeatable, and said again after a
 *                 hello whose lease has another state
 *     suspend  {key, gen, epoch, grace_ms?, awake?}
 *                 off its devices, its memory there into host memory;
 *                 grace_ms: for the work that is under way there; awake: its
 *                 threads run on until they call the driver, and are then seen
 *                 in `wanting`, else its processes stand still; answered by
 *                 moved, also if it is so already
 *     resume   {key, gen, epoch, devices?}  back on its devices, or on these
 *                 ("GPU-...,GPU-...", in the order in which it sees them);
 *                 answered by moved, also if it is so already.  Of suspend and
 *                 resume the last one counts, and alone is answered; after a
 *                 hello home says again what it wants
 *     ack      {key, gen, epoch}            the end is journalled: the report
 *                 may go, the log stays
 *     drop     {key}                        forget key's logs for good
 *                 (retention)
 *     heard    {key, gen, epoch, offset}    of its log home has all before that
 *                 byte
 *     ping     {}
 *     quit     {}                           end when nothing runs
 *
 * A lease's key is "w12/3.0": workload, task index, rank.  Times are wall
 * clock milliseconds.  `task` of an order:
 *   {name, workload, tenant, run | argv, env: {..}, dir,
 *    user: {name, uid, gid}, cpus_milli, memory, ranks, rank,
 *    devices: [0, 1], share_milli, simulated, model, rendezvous, log_bytes,
 *    attempt, gate: {state, memory, lost: "wait" | "go", devices: ["GPU-..."]},
 *    stop: {signal, grace_ms, command}}
 * all of which `gate` may leave out: active, no limit, wait, as the driver
 * counts them.  An order without it is run without the gate.  stop: as in the
 * message, for a runner whose container is to end; without it SIGTERM and 30 s.
 */
enum {
    WIRE_VERSION = 1,
    WIRE_OUTPUT_MAX = 256 * 1024,      /* bytes of one output */
    WIRE_STRAYS = 64,                  /* in one telemetry */
    WIRE_COMM = 15,                    /* bytes of a process' name */
};

#define WIRE_KINDS(X) \
    X(HELLO, "hello") X(CLAIM, "claim") X(STARTED, "started") \
    X(PROGRESS, "progress") X(ACTIVITY, "activity") X(MOVED, "moved") \
    X(OUTPUT, "output") X(HEARD, "heard") \
    X(TELEMETRY, "telemetry") X(HEALTH, "health") X(ENDED, "ended") \
    X(PONG, "pong") X(WELCOME, "welcome") \
    X(ORDER, "order") X(GRANT, "grant") X(STOP, "stop") X(GATE, "gate") \
    X(SUSPEND, "suspend") X(RESUME, "resume") X(ACK, "ack") \
    X(DROP, "drop") X(PING, "ping") X(QUIT, "quit") X(ERROR, "error")
enum wire_kind {
#define X(name, text) WIRE_##name,
    WIRE_KINDS(X)
#undef X
    WIRE_KIND_COUNT
};

struct lease_key {
    uint64_t workload;
    uint32_t task, rank;
};
void lease_key_print(const struct lease_key *k, char *buf, size_t size);
int lease_key_parse(const char *s, struct lease_key *ret, struct err *err);

/* A runner is called as its block, or, where it has one lease alone, after both:
 * "lab/n1#w12/3.0#2@1", with the lease's generation and epoch.
 */
struct runner_name {
    char block[48];
    bool alone;                        /* it has this lease and no other: */
    struct lease_key key;
    uint32_t gen;
    uint64_t epoch;
};
enum { RUNNER_NAME_SIZE = 160 };
void runner_name_print(const struct runner_name *n, char *buf, size_t size);
int runner_name_parse(const char *s, struct runner_name *ret, struct err *err);

/* One message, read and checked: every member has its type and range, texts
 * their limits.
 */
struct wire_lease {
    struct lease_key key;
    uint32_t gen;
    uint64_t epoch;
    char state[12];
    char gate[12];                     /* "": it is not behind the gate */
};
struct wire_msg {
    enum wire_kind kind;
    struct lease_key key;
    uint32_t gen;
    uint64_t epoch;
    uint32_t v;
    char block[RUNNER_NAME_SIZE];      /* the runner's name */
    char token[65];
    int64_t pid;
    struct wire_lease *leases;         /* owned */
    uint32_t nleases;
    bool ok, force, awake;
    char cause[16];                    /* spec_cause_name */
    int status;                        /* exit status or -signal */
    uint64_t started_ms, ended_ms, cpu_ms, rss_bytes;
    char gate[12];                     /* gate_state_name */
    uint32_t wanting, inside;
    uint64_t launches, copies, syncs, others, used_bytes;
    uint64_t took_ms;
    char reason[16];                   /* of moved; gpu/suspend.h has them */
    char *devices;                     /* owned; of resume */
    int signal;
    uint64_t grace_ms;
    char *command;                     /* owned */
    uint64_t offset;
    char address[64];                  /* of hello; "": home's own */
    char *bytes;                       /* owned; of output: not a text */
    size_t nbytes;
    char text[256];                    /* of error */
    json_t *task;                      /* owned; of order */
    json_t *said;                      /* owned; of progress */
    json_t *sample;                    /* owned; of telemetry */
    json_t *strays;                    /* owned; of telemetry; or NULL */
    json_t *health;                    /* owned; of health */
};
int wire_read(const char *body, size_t len, struct wire_msg *ret,
              struct err *err);
/* A hello without its leases, from what stands before them: they are its last
 * member, as it is written here.  Takes little memory however long it is.
 */
int wire_read_head(const char *body, size_t len, struct wire_msg *ret,
                   struct err *err);
json_t *wire_write(const struct wire_msg *m);      /* caller owns */
void wire_clear(struct wire_msg *m);
/* An error with as much of the text as there is room for; owns nothing. */
struct wire_msg wire_error(const char *text);
