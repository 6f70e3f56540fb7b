#pragma once

#include "cli/model.h"
#include "cli/paint.h"

/* tree - a workload as lines: its progress, and its tasks as a tree by needs.
 *
 * Up to TREE_MAX tasks are all shown if there are rows for them, each below
 * the deepest task it needs.  Beyond that the list is short: what failed and
 * what runs first, then what is next in line, and a count of the rest.
 *
 * The same model, time and terminal give the same lines.
 */
enum { TREE_MAX = 30 };

struct tree_conf {
    const struct term *term;
    unsigned rows;                     /* lines at most; 0: no limit */
    uint64_t now_ms;
};

void tree_paint(const struct model *m, const struct tree_conf *conf,
                struct buf *out);
/* The tasks whose reason for waiting the picture shows, at most n of them;
 * how many.
 */
uint32_t tree_waiting(const struct model *m, const struct tree_conf *conf,
                      uint32_t *ret, uint32_t n);
