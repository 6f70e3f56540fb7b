#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* spec - what a user asked for: read, checked and unfolded.
 *
 * A document becomes a spec in src/spec; a spec is never changed afterwards.
 * Everything in it lives in one arena that spec_free lets go, so that 100,000
 * tasks cost no 100,000 allocations.  Matrices and parameters are unfolded
 * already; ranks are not: a gang is one task with `ranks` > 1.
 *
 * spec_to_json and spec_from_json are the one stable form that the journal
 * keeps: what spec_to_json wrote, spec_from_json reads back to an equal spec.
 * Fields at their default are left out, so that the form stays small.
 */
enum spec_limit {
    SPEC_MAX_BYTES = 8 * 1024 * 1024,
    SPEC_MAX_TASKS = 100000,
    SPEC_MAX_RANKS = 4096,
    SPEC_MAX_TOGETHER = SPEC_MAX_TASKS, /* ranks of tasks that start together */
    SPEC_MAX_NEEDS = 1000000,          /* edges in all */
    SPEC_MAX_NAME = 128,
    SPEC_MAX_TEXT = 65536,             /* one run: or one argument */
    SPEC_MAX_LIST = 4096,              /* entries of argv, env, mounts, ... */
    SPEC_MAX_GPUS = 1024,              /* per rank */
    SPEC_MAX_CPUS = 65536,             /* per rank */
    SPEC_MAX_RETRIES = 1000,
    SPEC_MAX_PRIORITY = 1000,          /* and -1000 */
    SPEC_MAX_TASK_TEXT = 1024 * 1024,  /* all texts of one task: it must fit
                                          execve(2) and one runner message */
    SPEC_MAX_ALL_TEXT = 64 * 1024 * 1024, /* and of all tasks, unfolded */
};
#define SPEC_MAX_MS    UINT64_C(3155760000000)     /* 100 years */
/* Bytes, and millionths of cost. */
#define SPEC_MAX_AMOUNT (UINT64_C(1) << 60)

/* What a task has where the document says nothing. */
enum { SPEC_CPU_MILLI = 1000, SPEC_BACKOFF_MS = 1000, SPEC_GRACE_MS = 10000,
       SPEC_STILL_MILLI = 1 };
#define SPEC_RETRY_ON \
    (1u << SPEC_CAUSE_FAILED | 1u << SPEC_CAUSE_SIGNALLED | \
     1u << SPEC_CAUSE_TIMEOUT | 1u << SPEC_CAUSE_MEMORY)

enum spec_kind { SPEC_JOB, SPEC_PIPELINE };
enum spec_when { SPEC_ON_SUCCESS, SPEC_ON_FAILURE, SPEC_ALWAYS };
/* How close the ranks of a gang (of a set) wish to be to each other. */
enum spec_near { SPEC_NEAR_ANY, SPEC_NEAR_DOMAIN, SPEC_NEAR_NODE };
/* May it be taken off devices that it does not use, its threads running on? */
enum spec_idle { SPEC_IDLE_MAY, SPEC_IDLE_NEVER };

/* Why an attempt ended; the causes a task may name under retries.on. */
#define SPEC_CAUSES(X) \
    X(FAILED, "failed")        /* ended with a status other than 0 */ \
    X(SIGNALLED, "signalled")  /* ended by a signal that was not ours */ \
    X(TIMEOUT, "timeout")      /* past its timeout */ \
    X(MEMORY, "memory")        /* past its memory */ \
    X(LOST, "lost")            /* its runner or block went away */ \
    X(LIMIT, "limit")          /* past its usage limit */ \
    X(ABORTED, "aborted")      /* somebody said so */ \
    X(REFUSED, "refused")      /* no such program, user or folder */ \
    X(GANG, "gang")            /* another rank failed */ \
    X(PREEMPTED, "preempted")  /* it gave way; never counted as a try */ \
    X(STILL, "still")          /* its metric stood still: it is done */ \
    X(STRAY, "stray")          /* used a device that is not its own */ \
    X(EVICTED, "evicted")      /* what has its place took it away */ \
    X(NODE, "node")            /* the machine under it is lost */ \
    X(DELETED, "deleted")      /* by somebody else, not by Weir */ \
    X(TAKEN, "taken")          /* its place had become another's */ \
    X(IMAGE, "image")          /* its image cannot be had */

enum spec_cause {
    SPEC_CAUSE_NONE,
#define X(name, text) SPEC_CAUSE_##name,
    SPEC_CAUSES(X)
#undef X
    SPEC_CAUSE_COUNT
};
const char *spec_cause_name(enum spec_cause c);          /* "none" for NONE */
int spec_cause_parse(const char *s, enum spec_cause *ret); /* -EINVAL */
/* Its place went away and not the work: tried again without being counted. */
bool spec_cause_of_place(enum spec_cause c);
const char *spec_when_name(enum spec_when w);
const char *spec_near_name(enum spec_near n);      /* "any", "domain", "node" */
int spec_near_parse(const char *s, enum spec_near *ret); /* -EINVAL */

/* The signals a task may ask for under checkpoint.signal. */
#define SPEC_SIGNALS(X) \
    X(HUP) X(INT) X(QUIT) X(USR1) X(USR2) X(ALRM) X(TERM) X(CONT) X(WINCH)
const char *spec_signal_name(int sig);             /* "USR1"; NULL: not one */
/* "USR1" or "SIGUSR1"; else -EINVAL. */
int spec_signal_parse(const char *s, int *ret);

struct spec_pair {
    const char *key, *value;
};

struct spec_task {
    const char *name;
    const char *run;                   /* shell text, or NULL */
    const char *const *argv;           /* or this, ended by NULL; never both */
    const char *image;                 /* for engines that have images */
    const struct spec_pair *mounts;    /* source, target */
    const struct spec_pair *env;
    const char *dir;                   /* NULL: the submitter's home or / */
    const uint32_t *needs;             /* indexes of tasks */
    const char *const *models;         /* acceptable device models */
    const char *const *inputs, *const *outputs;
    const struct spec_pair *nodes;     /* labels its nodes must have */
    uint32_t nmounts, nenv, nneeds, nmodels, ninputs, noutputs, nnodes;
    enum spec_near near;
    enum spec_when when;
    uint32_t together;                 /* 0: alone; equal ones start together */
    uint32_t ranks;                    /* the least; 1: no gang */
    uint32_t ranks_max;                /* elastic up to; 0: just `ranks` */
    uint32_t gpu_milli;                /* per rank: 0, 1..999, or n*1000 */
    uint32_t cpu_milli;                /* per rank; default 1000 */
    uint64_t gpu_memory;               /* least bytes of a device; 0: any */
    uint64_t memory;                   /* bytes per rank; 0: no limit or plan */
    uint32_t retry_count;
    uint32_t retry_on;                 /* bits 1u << SPEC_CAUSE_x */
    uint64_t retry_backoff_ms;         /* doubles each time */
    uint64_t timeout_ms;               /* 0: none */
    uint64_t limit_gpu_ms;             /* device-milliseconds; 0: none */
    uint64_t limit_wall_ms;            /* over all attempts; 0: none */
    uint64_t limit_cost_micro;         /* millionths of a unit; 0: none */
    const char *still_metric;          /* stop_when.metric, or NULL */
    uint64_t still_ms;                 /* stop_when.still_for */
    uint32_t still_milli;              /* moves by less than so many thousandths
                                          of it are none; default 1 */
    uint64_t idle_grace_ms;            /* idle.grace; 0: as the policy says */
    enum spec_idle idle_release;
    int stop_signal;                   /* checkpoint.signal, default SIGTERM */
    const char *stop_command;          /* checkpoint.command, or NULL */
    uint64_t stop_grace_ms;            /* before SIGKILL; default 10 s */
};

struct spec {
    enum spec_kind kind;
    const char *name;
    const char *tenant;                /* NULL: the submitter's own */
    int priority;                      /* -1000..1000, default 0 */
    uint64_t deadline_ms;              /* wall clock; 0: none */
    uint64_t max_wait_ms;              /* 0: none */
    /* What its tasks may use up between them; wall from the first start on.
     * 0: no limit. */
    uint64_t limit_gpu_ms, limit_wall_ms, limit_cost_micro;
    const struct spec_pair *labels;
    uint32_t nlabels;
    uint32_t ntasks;
    struct spec_task *tasks;
    struct spec_arena *arena;          /* owns all of the above */
};

struct spec *spec_new(void);
void spec_free(struct spec *s);                    /* NULL is fine */

/* Memory of the spec's arena: zeroed; freed with the spec. */
void *spec_alloc(struct spec *s, size_t bytes);
const char *spec_str(struct spec *s, const char *text, size_t len);
/* The defaults above, with neither name nor command. */
void spec_task_init(struct spec_task *t);

/* The arena by itself, for what a reader needs only while it reads. */
struct spec_arena *spec_arena_new(void);
void spec_arena_free(struct spec_arena *a);        /* NULL is fine */
void *spec_arena_alloc(struct spec_arena *a, size_t bytes);

/* The caller owns the result.  Tasks that share a text or a list share its
 * JSON value too: to be read, not changed.
 */
json_t *spec_to_json(const struct spec *s);
/* The same as compact text, task by task: 100,000 of them are never in memory
 * as JSON at once.  0, or what `put` said when it was not 0.
 */
int spec_dump(const struct spec *s, json_dump_callback_t put, void *arg);
/* Strict, this being our own form: an unknown key is -EINVAL.  A task whose
 * text or list equals that of the task before shares it.
 */
int spec_from_json(const json_t *j, struct spec **ret, struct err *err);

/* What is true of every spec, whoever made it: names unique and well formed,
 * needs within range and without a cycle, limits kept.  spec_from_json calls
 * it; a document reader reports the same things with line and column first.
 */
int spec_check(const struct spec *s, struct err *err);
/* [A-Za-z0-9] then [A-Za-z0-9_.-], at most SPEC_MAX_NAME. */
bool spec_name_valid(const char *name);
/* [A-Za-z_] then [A-Za-z0-9_], and not a name that Weir itself sets: WEIR_x,
 * CUDA_VISIBLE_DEVICES.
 */
bool spec_env_valid(const char *name);
/* Does it ask for a part of a device? */
bool spec_task_shares(const struct spec_task *t);
/* Bytes of all texts of one task. */
size_t spec_task_text(const struct spec_task *t);

/* Call back for each cycle found, at most `max`, with a task on it and its
 * words, "a -> b -> a".  Tasks that start together count as one: none of them
 * may wait for another, not even by way of a third.  Time is linear in tasks
 * and needs.  Returns how many were found.
 */
typedef void (*spec_cycle_f)(uint32_t task, const char *words, void *arg);
size_t spec_cycles(const struct spec *s, size_t max, spec_cycle_f cb,
                   void *arg);
