#pragma once

#include "core/spec.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

/* event - the only way state changes: journalled, numbered, watchable,
 * replayable.
 *
 * Some events are asked for (a user submits, a runner reports), the others
 * are decided by the core itself (world_step) and journalled all the same, so
 * that the journal alone tells everything that ever happened.  The comment on
 * each type says which fields count beside type, time_ms and who.
 */
#define EVENT_TYPES(X) \
    /* asked for: workload (the new id), tenant, user, key, hash, spec, done, retry_of */ \
    X(SUBMITTED, "workload.submitted") \
    /* asked for: workload, task or EVENT_ALL */ \
    X(PAUSED, "workload.paused") \
    X(UNPAUSED, "workload.unpaused") \
    /* asked for: workload, task or EVENT_ALL, priority */ \
    X(PRIORITISED, "workload.prioritised") \
    /* asked for: workload, task or EVENT_ALL, force; or decided, when the \
     * workload is past its limits: workload, cause limit */ \
    X(ABORTING, "workload.aborting") \
    /* decided: workload, outcome */ \
    X(WORKLOAD_ENDED, "workload.ended") \
    /* decided: workload, task, gen, grants[], data {score: of the places, \
     * smaller is better} */ \
    X(PLANNED, "task.planned") \
    /* decided: workload, task, gen (of the attempt it may become), grants[]: \
     * it stands ready on these blocks, with no device */ \
    X(STAGED, "task.staged") \
    /* decided: workload, task, gen: no more.  Goes without saying when it is \
     * planned, leaves the line, or a block of it is lost or changed */ \
    X(UNSTAGED, "task.unstaged") \
    /* decided: workload, task, gen, data {for: "w3", task, why, how}: it \
     * gives way to that one; task.suspending or task.stopping follows.  why \
     * "health": it leaves a device, data {device, rule} instead of for whom */ \
    X(PREEMPTING, "task.preempting") \
    /* asked for, or decided: workload, task, gen, data {why, seconds}: all \
     * its ranks off their devices.  why "asked": an operator wants it off, \
     * for so many seconds or, seconds and until_ms 0, until it is recalled; \
     * "preempted": it gives way; "gang": not all of it came back; "idle", \
     * and {used_ms, kind, grace_ms}: its last use of its devices and of what \
     * kind, and how long ago that may be */ \
    X(SUSPENDING, "task.suspending") \
    /* asked for: workload, task: what was asked for is over; or reported, \
     * data {why: "wanted"}: one that was idle wants its devices */ \
    X(RECALLED, "task.recalled") \
    /* decided: workload, task, gen, grants[] (of the ranks that live, on the \
     * blocks that they are on), data {why: "gang": not all of it left} */ \
    X(RESUMING, "task.resuming") \
    /* decided: workload, task, gen, cause, force: end all its leases; data \
     * {why: "health", device, rule} where a device can keep nothing */ \
    X(STOPPING, "task.stopping") \
    /* decided: workload, task, gen, cause, until_ms: it will be tried again */ \
    X(RETRYING, "task.retrying") \
    /* decided: workload, task, outcome, cause, status */ \
    X(TASK_ENDED, "task.ended") \
    /* reported: workload, task, gen, data {progress: 0..1, metrics: {name: \
     * number}}, one of them at least */ \
    X(PROGRESS, "task.progress") \
    /* reported: workload, task, rank, gen */ \
    X(CLAIMED, "lease.claimed") \
    /* reported: workload, task, rank, gen, data {bytes: in host memory now, \
     * ms: that took} */ \
    X(LEASE_SUSPENDED, "lease.suspended") \
    /* reported: workload, task, rank, gen, data {ms} */ \
    X(LEASE_RESUMED, "lease.resumed") \
    /* reported: workload, task, rank, gen, data {reason, text, ms}: it could \
     * not be suspended, or resumed, and is where it was */ \
    X(LEASE_KEPT, "lease.kept") \
    /* reported: workload, task, rank, gen, cause, status, started_ms, \
     * ended_ms, cpu_ms, rss_bytes; started_ms 0: no process ever was; \
     * data {why}: in words, of an end that no runner told */ \
    X(LEASE_ENDED, "lease.ended") \
    /* reported: block, data {pool, engine, node, cpus_milli, memory, \
     * limits, simulated, stages, suspends, images, whole, devices: [{model, \
     * memory, uuid, lost}], labels: {key: value}, domain} */ \
    X(BLOCK_UP, "block.up") \
    /* reported: block: it is gone and its leases with it */ \
    X(BLOCK_LOST, "block.lost") \
    /* reported: block, data {why}: what it has is not known, or is less than \
     * what is held there; nothing new starts on it until it is up again */ \
    X(BLOCK_SHUT, "block.shut") \
    /* asked for: data {name, engine, conf: {key: text, of the engine}, note, \
     * observe: it is looked at only}: a pool is there, or is so from now on */ \
    X(POOL_SET, "pool.set") \
    /* asked for: data {name}: it is gone, and its blocks, on which nothing is */ \
    X(POOL_REMOVED, "pool.removed") \
    /* asked for: data {name}: nothing new starts there */ \
    X(POOL_DRAINED, "pool.drained") \
    X(POOL_UNDRAINED, "pool.undrained") \
    /* asked for: node */ \
    X(NODE_DRAINED, "node.drained") \
    X(NODE_UNDRAINED, "node.undrained") \
    /* asked for: node, device (its number there) */ \
    X(DEVICE_DRAINED, "device.drained") \
    X(DEVICE_UNDRAINED, "device.undrained") \
    /* reported: block, data {uuid, rule, state: "raised", "probation" or \
     * "cleared", action, text, evidence}: see remedy.c */ \
    X(DEVICE_HEALTH, "device.health") \
    /* asked for: tenant, data {members, max_gpus_milli, weight, note, parent, \
     * quota_gpus_milli, budget: {amount_micro, unit: "gpu_hours" or "money", \
     * period_ms}, idle_grace_ms (0: the policy's), interactive_priority}; \
     * parent "" and null for the budget or the priority take away */ \
    X(TENANT_SET, "tenant.set") \
    X(TENANT_REMOVED, "tenant.removed") \
    /* asked for: token (id), tenant, user, data {name, role, hash, expires_ms} */ \
    X(TOKEN_CREATED, "token.created") \
    X(TOKEN_REVOKED, "token.revoked") \
    /* asked for: data {name, nodes, tenant, from_ms, to_ms}: these nodes are \
     * for that tenant then; without one, for nobody */ \
    X(WINDOW_SET, "window.set") \
    /* asked for, or decided once it is over: data {name} */ \
    X(WINDOW_REMOVED, "window.removed") \
    /* asked for: data {version, policy}: the document, and one more than the \
     * version that it replaces */ \
    X(POLICY_SET, "policy.set") \
    /* the store came back from a backup: epoch; what was not ended there is \
     * quarantined */ \
    X(RESTORED, "store.restored") \
    /* asked for: workload: an operator let go of a quarantined workload; \
     * force: abort it, else queue it again */ \
    X(RELEASED, "workload.released") \
    /* audit only: block, data {kind, state: "found" or "gone", uuid, pid, \
     * comm, bytes, limit, processes, text}; of a task also workload, task, \
     * rank, gen: see control/stray.c */ \
    X(DEVICE_STRAY, "device.stray") \
    /* audit only: data {name, from, to, ...}: what stood idle meanwhile in a \
     * pool that is observed, and who waited; see kube/ledger.h */ \
    X(POOL_SEEN, "pool.seen") \
    /* audit only: data {what, from} */ \
    X(DENIED, "access.denied") \
    /* audit only: a control plane began: data {version} */ \
    X(STARTED, "control.started")

enum event_type {
#define X(name, text) EVENT_##name,
    EVENT_TYPES(X)
#undef X
    EVENT_TYPE_COUNT
};

#define OUTCOMES(X) \
    X(NONE, "none") X(SUCCEEDED, "succeeded") X(FAILED, "failed") \
    X(SKIPPED, "skipped") X(ABORTED, "aborted")
enum outcome {
#define X(name, text) OUTCOME_##name,
    OUTCOMES(X)
#undef X
    OUTCOME_COUNT
};

enum { EVENT_ALL = UINT32_MAX };       /* "task": the whole workload */

/* One rank's place: what a lease gives. */
struct grant {
    uint32_t rank;
    char block[48];
    uint32_t ndevices;
    uint16_t device[16];               /* indexes on the block, ascending */
    uint32_t milli;                    /* of each of them: 1..1000 */
};

/* The submitter, as the way in knows them; tasks run as this user. */
struct event_user {
    char name[64];                     /* "" when unknown to the machine */
    uint32_t uid, gid;
};

struct event {
    uint64_t seq;                      /* 0 until journalled */
    uint64_t time_ms;                  /* wall clock, never before the last one's */
    enum event_type type;
    char who[96];                      /* "uid:1000", "token:ab12", "weir", "runner:local" */
    uint64_t workload;
    uint32_t task, rank, gen;
    enum outcome outcome;
    enum spec_cause cause;
    int status;                        /* exit status, or -signal */
    int priority;
    uint32_t device;
    bool force;
    uint64_t until_ms, started_ms, ended_ms, cpu_ms, rss_bytes;
    uint64_t epoch, retry_of;
    char tenant[SPEC_MAX_NAME + 1];
    char block[48], node[128], token[48];
    char key[129];                     /* idempotency key, "" for none */
    char hash[65];                     /* of the document, for the key */
    struct event_user user;
    struct spec *spec;                 /* owned */
    uint32_t *done;                    /* owned: tasks that count as succeeded already */
    uint32_t ndone;
    struct grant *grants;              /* owned */
    uint32_t ngrants;
    json_t *data;                      /* owned; for the types that say so */
};

const char *event_type_name(enum event_type t);
const char *outcome_name(enum outcome o);

/* Zeroed, typed; what may be about one task is about all. */
void event_init(struct event *e, enum event_type t);
/* About a workload, or one of its tasks? */
bool event_of_some(enum event_type t);
void event_clear(struct event *e);                     /* frees what it owns */

/* The journal's and the watchers' form.  What `to` wrote, `from` reads back;
 * fields that are zero are left out.  Ids show as the API shows them
 * ("workload": "w12"), task as its index plus, where the caller knows it, its
 * name ("task_name" is ignored on reading).  `brief` leaves out the spec (for
 * watchers).
 */
json_t *event_to_json(const struct event *e, bool brief);
int event_from_json(const json_t *j, struct event *ret, struct err *err);

/* "w12" <-> 12. */
void workload_id_print(uint64_t id, char *buf, unsigned size);
int workload_id_parse(const char *s, uint64_t *ret, struct err *err);
