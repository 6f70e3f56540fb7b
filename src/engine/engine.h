#pragma once

#include "core/spec.h"
#include "engine/wire.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct err;
struct loop;

/* engine - a way to get resources somewhere.  One table of functions, all of
 * them set, filled by name; the list of them is in engines.c.
 *
 * Calls start things and return; results come through the callbacks, from the
 * loop and never from inside the call.  get and give are keyed by block id and
 * repeatable: after a crash the owner simply asks again.
 */
enum engine_grain { ENGINE_GRAIN_DEVICE, ENGINE_GRAIN_NODE, ENGINE_GRAIN_POOL };

struct engine_conf {
    const char *pool;                  /* name of the pool */
    const char *block;                 /* id of its only block; of many: what
                                        * stands before "/" and the node */
    const char *state_dir;             /* a folder of this engine's own, which
                                        * it makes */
    const char *home;                  /* socket that runners dial */
    const char *runner;                /* path of weir-runner */
    const json_t *conf;                /* {key: text} that `check` has accepted;
                                        * borrowed for the call */
    bool observe;                      /* nothing is to be got: only look */
    uint64_t log_bytes;                /* kept per lease */
    /* For engines whose runners are not on this machine: what those dial, and
     * the file of the authority that they verify it by; NULL: they cannot.
     */
    const char *runners_url;           /* "tls://HOST:PORT" */
    const char *runners_ca;
    /* What is made elsewhere bears this name of the control plane's state: 16
     * letters and digits, never another.  NULL: it has none.
     */
    const char *instance;
};

/* A lease that has a runner of its own, where `apart` says that all have. */
struct engine_lease {
    const char *runner;                /* its name (runner_name_print), and ... */
    const char *token;                 /* ... what home admits it by */
    const char *block;
    struct lease_key key;
    uint32_t gen;
    uint64_t epoch;
    bool begun;                        /* its task may have been started: what
                                        * is not there is not made again */
    const char *task, *tenant;         /* names, for whoever looks at it there */
    const char *image;                 /* NULL: the engine's own choice */
    uint64_t cpus_milli, memory;       /* memory 0: no limit */
    uint32_t gpus;                     /* whole devices */
    uint32_t uid, gid;                 /* whose task it is */
    /* The uid of the guest that is to get the place: no runner comes, and what
     * happens to it is told by lease_begun and lease_over.  NULL: it is none.
     */
    const char *guest;
};

/* What is said of a guest to whoever looks at it there. */
struct engine_word {
    const char *code;                  /* one word: "devices" */
    const char *text;                  /* a sentence or two */
    bool drop;                         /* it is not to run any more: what has
                                        * not ended is deleted; no text then */
};

/* Bytes of a lease's log. */
struct engine_output {
    struct lease_key key;
    uint32_t gen;
    uint64_t epoch, offset;
    const void *bytes;
    size_t len;
};

struct engine_events {
    /* A block is there (again): its id, its token, and its inventory in the
     * form of the event block.up: {pool, engine, node, cpus_milli, memory,
     * limits, simulated, devices: [{model, memory, uuid?, lost?}]}.
     */
    void (*block_up)(const char *block, const char *token,
                     const json_t *inventory, void *arg);
    void (*block_lost)(const char *block, const char *why, void *arg);
    /* The inventory is another one: there is more to get, or to be found. */
    void (*changed)(void *arg);
    /* Can what is behind it be reached?  Else why not, in one sentence.  Said
     * once it is known, and again when it changes.  Blocks that are up stay so.
     */
    void (*state)(bool reachable, const char *why, void *arg);
    void (*trouble)(const char *text, void *arg);  /* for the log */
    /* Of an engine that is apart: nothing of this lease runs there, and what
     * was asked for will not come.  Why, in one sentence, and as a cause.  For
     * what `stop` was said of, or was never started, it is not told.
     */
    void (*lease_over)(const char *runner, enum spec_cause cause, int status,
                       const char *why, void *arg);
    /* A guest is there and waits for a place: something that others have put
     * into what is behind the engine, to be planned like our own.  {uid,
     * namespace, name, of: what made it, cpus_milli, memory, gpus, nodes:
     * {label: value}, models?: [..], tenant?, workload?, gang?, gang-size?,
     * priority?, grace_ms?}.  Told once for each.
     */
    void (*guest)(const json_t *guest, void *arg);
    /* It does not wait any more, and nothing of it runs or will. */
    void (*guest_gone)(const char *uid, void *arg);
    /* All that are there were told; perhaps again. */
    void (*guests_told)(void *arg);
    /* A guest's lease has begun to run.  Of its lease, lease_over with the
     * cause `lost` says that it never had the place, and still waits; with none
     * that it ended with that status.
     */
    void (*lease_begun)(const char *runner, void *arg);
};

/* `start` is later than asked when older bytes are gone. */
struct engine_log {
    uint64_t start;                    /* offset of the first byte given */
    size_t len;
    uint64_t end;                      /* bytes written so far */
};

/* Rows of history: those that are over, given once; these, and the one under
 * way as it is now ended; or the one under way, which goes on, without or with
 * all jobs that do.
 */
enum engine_history { ENGINE_OVER, ENGINE_END, ENGINE_UNDER_WAY, ENGINE_GOING };

struct engine_ops {
    const char *name;                  /* "local", "fake" */
    enum engine_grain grain;
    bool own;                          /* the control plane's own machine: not
                                        * for a pool that is added */
    bool observed;                     /* of pools that are only looked at it
                                        * says more than what is to be got */
    bool apart;                        /* each lease has a runner of its own,
                                        * which `start` makes come */
    /* Makes the conf sense?  Its words alone, nothing behind them is asked: no
     * file, no net.  -EINVAL, with a text that names the key.
     */
    int (*check)(const json_t *conf, bool observe, struct err *err);
    int (*open)(struct loop *l, const struct engine_conf *conf,
                const struct engine_events *events, void *arg,
                struct engine **ret, struct err *err);
    /* No callback afterwards.  Blocks and what runs in them stay. */
    void (*close)(struct engine *e);
    /* What there is to get: {nodes: [{block, ...}]}, as far as it is known;
     * caller owns.  Of a pool that is observed instead what is there, and who
     * ever uses it: {nodes: [{name, cpus_milli, memory, devices: {total,
     * free}, model?, device_memory?, domain?, others?: {NAME: {total, free}},
     * closed?: why, pods}], pods, waiting: of them}.
     */
    json_t *(*inventory)(struct engine *e);
    /* Of a pool that is observed: what stood idle there, and who waited, in
     * rows {from, to, ...} (kube/ledger.h has their form), oldest first; caller
     * owns, NULL: none.
     */
    json_t *(*history)(struct engine *e, enum engine_history what);
    /* Make the block be there; block_up follows, now and whenever its runner
     * had to be started again.
     */
    int (*get)(struct engine *e, const char *block, struct err *err);
    /* Let go of the block: its runner ends when nothing runs in it.  What
     * this needs of the engine may take until `close`, which comes some seconds
     * later at the earliest when a pool is removed; its runner ends by itself
     * once home does not know it any more.
     */
    int (*give)(struct engine *e, const char *block, struct err *err);
    /* Of engines that are apart, else never called.  Make the runner of this
     * lease come; it dials home and is ordered there.  Repeatable: who is there
     * already is the same one, and after a start of the control plane it is
     * asked for every lease that is not over.  What cannot be is told by
     * lease_over.
     */
    int (*start)(struct engine *e, const struct engine_lease *l,
                 struct err *err);
    /* Nothing of it is wanted any more, once it has had the time to end by
     * itself; repeatable.
     */
    int (*stop)(struct engine *e, const char *runner, struct err *err);
    /* Of engines that are apart, else never called: what the runner of a lease
     * says that its task has printed, from that offset on, told again perhaps.
     * It is kept, as much of it as log_bytes says, and given by `log`.
     * *ret_end: all before is there, and need not be told again.
     */
    int (*output)(struct engine *e, const struct engine_output *o,
                  uint64_t *ret_end, struct err *err);
    /* Of engines that are apart, else never called.  To a guest; one of that uid
     * that is not there is passed over.
     */
    int (*tell)(struct engine *e, const char *uid, const struct engine_word *w,
                struct err *err);
    /* Blocks of ours that exist there, as after a crash: JSON array of ids. */
    json_t *(*find)(struct engine *e);
    /* Bytes of a lease's log from `offset` on; also of leases and blocks that
     * are gone.  `block` NULL: whichever it was.  -ENOENT: no such log (yet).
     */
    int (*log)(struct engine *e, const char *block, const char *lease_key,
               uint32_t gen, uint64_t epoch, uint64_t offset, void *buf,
               size_t size, struct engine_log *ret, struct err *err);
    /* The workloads that logs are kept of: an array of numbers, caller owns. */
    json_t *(*log_list)(struct engine *e);
    /* Forget the logs of a workload; repeatable. */
    int (*log_drop)(struct engine *e, uint64_t workload, struct err *err);
};

struct engine {
    const struct engine_ops *ops;      /* first member of every engine */
};

extern const struct engine_ops engine_local;
extern const struct engine_ops engine_fake;
extern const struct engine_ops engine_fake_apart;
extern const struct engine_ops engine_kubernetes;

/* `start`, `stop`, `output` and `tell` of engines that are not apart. */
int engine_no_start(struct engine *e, const struct engine_lease *l,
                    struct err *err);
int engine_no_stop(struct engine *e, const char *runner, struct err *err);
int engine_no_output(struct engine *e, const struct engine_output *o,
                     uint64_t *ret_end, struct err *err);

int engine_no_tell(struct engine *e, const char *uid,
                   const struct engine_word *w, struct err *err);
/* `history` of engines that observe nothing. */
json_t *engine_no_history(struct engine *e, enum engine_history what);

/* NULL: there is none of this name. */
const struct engine_ops *engine_find(const char *name);
/* The one of this name, for a pool that is added.  -EINVAL, with a text that
 * names those that there are.
 */
int engine_choose(const char *name, const struct engine_ops **ret,
                  struct err *err);
/* Are all keys of the conf among these (the last is NULL), all values texts? */
int engine_conf_keys(const json_t *conf, const char *const *known,
                     struct err *err);
