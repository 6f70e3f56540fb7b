#pragma once

#include "sim/run.h"

struct buf;

/* report - runs side by side, as one page that needs nothing else.
 *
 * Charts are SVG; the timeline of nodes is drawn by a few lines of script from
 * digits that stand in the page.  The same runs give the same bytes.
 */
enum { REPORT_RUNS = 8 };

struct report_run {
    const char *policy;
    struct run_result result;
    struct run_log log;
};

void report_html(const char *trace, const char *nodes,
                 const struct report_run *runs, size_t n, struct buf *out);
