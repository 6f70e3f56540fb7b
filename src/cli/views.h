#pragma once

#include "cli/follow.h"

/* views - the ways to show a workload that is being followed. */

/* On a terminal: the tree, redrawn in place at most ten times a second. */
struct view_tree {
    unsigned lines[256];               /* columns of each line drawn */
    unsigned nlines;
    char note[160];
};
extern const struct view_ops view_tree;

/* Elsewhere: a line for each change of state. */
struct view_plain {
    bool greeted;
};
extern const struct view_ops view_plain;

/* Nothing at all, for -o json. */
extern const struct view_ops view_quiet;

/* The logs of all its tasks, as they come.  `solo`: of one command, as if it
 * ran here.  `status` and `cause` are the command's own at the end.
 */
struct view_log {
    bool solo;
    struct view_tail *tails;
    unsigned running;                  /* tails that are not done */
    unsigned width;                    /* of the prefix */
    bool told;                         /* why it waits */
    int status;                        /* of the first task, or -signal */
    char cause[16];                    /* of its end; "": none */
    bool failed;                       /* a log could not be read */
};
extern const struct view_ops view_log;

/* The end of a workload in a line or two, on standard error. */
void view_summary(const struct follow *f);
