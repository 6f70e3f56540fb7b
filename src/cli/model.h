#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct map;

/* model - one workload as a watcher sees it: fetched once, then kept up to date
 * from events.
 *
 * Pure: no I/O and no clock.  Events may come twice, or be older than what was
 * fetched: an event counts only when it leads further than what is known, by
 * attempt first and then by the way of a task (waiting, starting, running,
 * ending, over).
 */
enum model_state {
    MODEL_BLOCKED, MODEL_WAITING, MODEL_STARTING, MODEL_RUNNING,
    MODEL_SUSPENDED, MODEL_ENDING, MODEL_ENDED, MODEL_STATES
};
enum model_outcome {
    MODEL_NONE, MODEL_SUCCEEDED, MODEL_FAILED, MODEL_SKIPPED, MODEL_ABORTED,
    MODEL_OUTCOMES
};

struct model_task {
    char *name;
    enum model_state state;
    enum model_outcome outcome;
    char cause[16];                    /* "" for none */
    int status;                        /* exit status, or -signal */
    uint32_t gen;                      /* attempt; 0: none yet */
    bool retried;                      /* `gen` is over, another comes */
    uint32_t ranks, nclaimed;
    uint32_t off;                      /* ranks off their devices, and */
    bool leaving;                      /* whether they were asked to be */
    unsigned char *claimed;            /* one for each rank */
    uint32_t *needs, nneeds, needs_left;
    bool wants_devices;
    uint64_t since_ms, started_ms, ended_ms, until_ms;
    uint64_t attempt_ms;               /* the stretch under way; 0: none */
    uint64_t ran_ms;                   /* attempts that are over */
    char place[96];                    /* "device 0", "" while nowhere */
    char *why;                         /* set by the owner; may be NULL */
    uint64_t why_ms;                   /* when that was asked */
};

struct model {
    char id[24];
    char *name;
    char *kind;
    enum model_outcome outcome;
    bool ended, paused, quarantined, simulated;
    uint64_t submitted_ms, ended_ms;
    struct model_task *tasks;
    uint32_t ntasks;
    uint32_t count[MODEL_STATES], outcomes[MODEL_OUTCOMES];
    struct map *by_name;               /* to index + 1 */
    /* Who needs task i: dependents[first[i]] up to before first[i + 1]. */
    uint32_t *dependents, *first;
};

void model_free(struct model *m);      /* empty and usable again */
/* From a workload object and the items of its task list. */
void model_load(struct model *m, const json_t *workload, const json_t *tasks);

enum { MODEL_NO_TASK = UINT32_MAX };
/* Apply an event.  true when something changed; *ret_task is the task it
 * changed, or MODEL_NO_TASK for the workload as a whole.
 */
bool model_event(struct model *m, const json_t *event, uint32_t *ret_task);

const char *model_state_name(enum model_state s);
const char *model_outcome_name(enum model_outcome o);
/* What a task is, in one word: its outcome once it has one. */
const char *model_word(const struct model_task *t);
/* "exit status 3", "signal 9 (Killed)", "timeout"; "" when it ended well, or
 * when model_word says it already.
 */
void model_cause(const struct model_task *t, char *buf, size_t size);
/* How long the task ran so far, without the time between its attempts. */
uint64_t model_elapsed(const struct model_task *t, uint64_t now_ms);
