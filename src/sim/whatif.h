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
 * What is unknown, of another type, out of its range or there twice is refused
 * with file, line, column and field; `name` is the file's.
 */
struct whatif_changes;
int whatif_read(const char *name, const char *text, size_t len,
                struct whatif_changes **ret, struct err *err);
void whatif_changes_free(struct whatif_changes *c);      /* NULL is fine */

/* Predicted times of every unfinished workload, in milliseconds:
 * {ID: {"start": MS, "end": MS}}; a member is absent where that never comes.
 * `changes` may be NULL.
 */
int whatif_play(const struct whatif_state *s,
                const struct whatif_changes *changes, json_t **ret,
                struct err *err);
