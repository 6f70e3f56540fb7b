#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* whatif - the state of a live control plane, played to its end: when does
 * whoever waits start and end, and when if something were different?
 *
 * All of it is as the API tells it.  Nothing is asked and nothing is changed
 * here.  Lengths are guesses, learned from the tasks that have ended; a task
 * nobody has seen before is guessed as the plan guesses it.
 */
struct whatif_state {
    json_t *pools, *tenants;           /* lists, {"items": [...]} */
    json_t *policy;                    /* the document in force */
    json_t *workloads;                 /* those that are not over */
    json_t *tasks;                     /* an array: all of theirs */
    json_t *specs;                     /* their specs by id; may lack some */
    json_t *ended;                     /* an array of tasks to learn from */
    uint64_t now_ms;
};
void whatif_free(struct whatif_state *s);

/* What is to be different, YAML or JSON:
 *
 *     nodes: [{like: NODE, count: 2}]         # so many more of these
 *     without: [NODE]                         # these go
 *     tenants: [{name: T, quota: 8, weight: 2, max_gpus: 16}]
 *     policy: {patience: 1h}                  # fields of the policy
 *
 * *ret is owned by the caller.
 */
int whatif_read(const char *name, const char *text, size_t len, json_t **ret,
                struct err *err);

/* Predicted times of every unfinished workload, in milliseconds:
 * {ID: {"start": MS, "end": MS}}; a member is absent where that never comes.
 * `changes` may be NULL.
 */
int whatif_play(const struct whatif_state *s, const json_t *changes,
                json_t **ret, struct err *err);
