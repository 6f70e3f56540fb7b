#pragma once

#include "cli/model.h"

#include <stdbool.h>

struct cli;

/* follow - stay with one workload until its end, and show it in some view.
 *
 * Keeps a model up to date from the feed, asks for reasons of those that wait,
 * and deals with Ctrl-C for the one who submitted: once detaches (after a
 * second, in which a second one aborts the workload; a third kills it).
 */
struct follow {
    struct cli *cli;
    const char *id;
    struct model model;
    const struct view_ops *view;
    void *arg;
    uint64_t now_ms;                   /* wall clock of this turn */
    bool aborting;                     /* asked to, by Ctrl-C */
};

/* A view; `f->model` is there from `loaded` on.  `loaded`, `changed` and `tick`
 * come between turns of the loop and may ask the server; the others may not.
 */
struct view_ops {
    /* The model was fetched, for the first time or again. */
    void (*loaded)(struct follow *f, void *arg);
    /* A task, or MODEL_NO_TASK: the workload, changed by an event. */
    void (*changed)(struct follow *f, uint32_t task, void *arg);
    /* Every 100 ms, and soon after changes. */
    void (*tick)(struct follow *f, void *arg);
    /* Something to tell the person. */
    void (*note)(struct follow *f, const char *text, void *arg);
    /* The workload has ended: is everything shown? */
    bool (*settled)(struct follow *f, void *arg);
    /* Last call; the view leaves the terminal in order. */
    void (*close)(struct follow *f, void *arg);
};

/* Until the end of the workload: its outcome as an exit status (0, CLI_FAILED,
 * CLI_INTERRUPTED for aborted), CLI_INTERRUPTED when detached, or another one
 * after saying why.  With `own`, Ctrl-C is dealt with as above.
 */
int follow_run(struct cli *c, const char *id, bool own,
               const struct view_ops *view, void *arg);

/* Ask why a task waits, and keep the answer in the model. */
void follow_ask_why(struct follow *f, uint32_t task);
