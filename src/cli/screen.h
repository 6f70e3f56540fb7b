#pragma once

#include "cli/paint.h"

#include <jansson.h>
#include <stdint.h>

/* screen - what `weir top` shows: devices as bars, WR, the queue.
 *
 * The same answers of the API give the same lines.
 */
struct screen {
    const json_t *pools;               /* GET /v1/pools */
    const json_t *waste;               /* GET /v1/waste */
    const json_t *before;              /* the same, earlier; NULL: none yet */
    const json_t *workloads;           /* an array, with a "reason" if known */
    uint64_t now_ms;
};

void screen_paint(const struct screen *s, const struct term *t,
                  unsigned rows, struct buf *out);

/* The wastage ratio between two answers; negative: no device-time passed. */
double screen_wr_between(const json_t *before, const json_t *after);
