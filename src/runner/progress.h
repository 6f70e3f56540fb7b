#pragma once

#include "runner/order.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* progress - what a task says about itself, a line at a time:
 *
 *     0.4 loss=0.31 accuracy=0.8
 *
 * How far it is (0 to 1; may be left out), then its own metrics, of which each
 * keeps the value said last.  The task writes to the descriptor
 * WEIR_PROGRESS_FD, the keeper reads, and puts what is new into a file that
 * the runner watches: DIR/progress/NAME, always whole.  So neither the runner
 * nor home need be there, and only the last value is kept for them.
 */
enum {
    PROGRESS_FD = 3,
    PROGRESS_LINE = 1024,              /* bytes, at most */
    PROGRESS_METRICS = 16,
    PROGRESS_NAME = 32,                /* of a metric, with its end */
    PROGRESS_EVERY_MS = 1000,          /* the file is not written more often */
};

struct progress {
    bool has_done;
    double done;
    unsigned n;
    struct {
        char name[PROGRESS_NAME];
        double value;
    } metrics[PROGRESS_METRICS];
    uint64_t at_ms;                    /* 0: nothing said */
    uint64_t written_ms;               /* `at_ms` in the file; 0: none */
};

/* Take one line, without its end.  -EINVAL names what is wrong with it, and
 * nothing has changed.
 */
int progress_line(struct progress *p, const char *line, uint64_t now_ms,
                  struct err *err);
/* {at, progress?, metrics?: {name: number}} */
json_t *progress_json(const struct progress *p);

/* The file of a lease.  Reading gives -ENOENT when there is none.  Who reads it
 * knows what is new by its time, so that moves on with every writing, however
 * soon it comes and wherever the clock goes.
 */
int progress_write(const char *dir, const struct lease_id *id,
                   struct progress *p, struct err *err);
int progress_read(const char *dir, const struct lease_id *id, json_t **ret,
                  struct err *err);
void progress_drop(const char *dir, const struct lease_id *id);
