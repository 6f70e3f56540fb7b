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
 *     hello    {v, block, token, pid, leases: [{key, gen, epoch, state}]}
 *                 state: "new" (ordered, not started here), "claimed",
 *                 "running", "ended" (report kept)
 *     claim    {key, gen, epoch}            may I start it?  asked once over a
 *                 connection
 *     started  {key, gen, epoch, pid, at}   information; not journalled
 *     progress {key, gen, epoch, at, said: {progress?, metrics?: {..}}}
 *                 what the task says about itself: 0 to 1, and numbers by
 *                 name; information, the newest counts
 *     ended    {key, gen, epoch, cause, status, started, ended, cpu_ms, rss}
 *                 kept on disk and sent again until acknowledged
 *     pong     {}
 *   home -> runner
 *     welcome  {v, epoch}
 *     order    {key, gen, epoch, task: {...}}   start this once claimed;
 *                 repeatable
 *     grant    {key, gen, epoch, ok}        answer to claim, or to "new" in a
 *                 hello; ok false: forget it, never start it
 *     stop     {key, gen, epoch, signal, grace_ms, command, force}
 *                 repeatable
 *     ack      {key, gen, epoch}            the end is journalled: the report
 *                 may go, the log stays
 *     drop     {key}                        forget key's logs for good
 *                 (retention)
 *     ping     {}
 *     quit     {}                           end when nothing runs
 *
 * A lease's key is "w12/3.0": workload, task index, rank.  Times are wall
 * clock milliseconds.  `task` of an order:
 *   {name, workload, tenant, run | argv, env: {..}, dir,
 *    user: {name, uid, gid}, cpus_milli, memory, ranks, rank,
 *    devices: [0, 1], share_milli, simulated, model, rendezvous, log_bytes,
 *    attempt}
 */
enum { WIRE_VERSION = 1 };

#define WIRE_KINDS(X) \
    X(HELLO, "hello") X(CLAIM, "claim") X(STARTED, "started") \
    X(PROGRESS, "progress") X(ENDED, "ended") X(PONG, "pong") X(WELCOME, "welcome") \
    X(ORDER, "order") X(GRANT, "grant") X(STOP, "stop") X(ACK, "ack") \
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

/* One message, read and checked: every member has its type and range, texts
 * their limits.
 */
struct wire_lease {
    struct lease_key key;
    uint32_t gen;
    uint64_t epoch;
    char state[12];
};
struct wire_msg {
    enum wire_kind kind;
    struct lease_key key;
    uint32_t gen;
    uint64_t epoch;
    uint32_t v;
    char block[48], token[65];
    int64_t pid;
    struct wire_lease *leases;         /* owned */
    uint32_t nleases;
    bool ok, force;
    char cause[16];                    /* spec_cause_name */
    int status;                        /* exit status or -signal */
    uint64_t started_ms, ended_ms, cpu_ms, rss_bytes;
    int signal;
    uint64_t grace_ms;
    char *command;                     /* owned */
    char text[256];                    /* of error */
    json_t *task;                      /* owned; of order */
    json_t *said;                      /* owned; of progress */
};
int wire_read(const char *body, size_t len, struct wire_msg *ret,
              struct err *err);
json_t *wire_write(const struct wire_msg *m);      /* caller owns */
void wire_clear(struct wire_msg *m);
/* An error with as much of the text as there is room for; owns nothing. */
struct wire_msg wire_error(const char *text);
