#pragma once

#include <jansson.h>
#include <stdint.h>

struct err;

/* observed - what our plan would have done with the pods of a cluster that is
 * looked at: they go through it on a virtual clock (flow.h).
 *
 * Each comes when it was made and runs as long as it did, on any GPUs: it
 * starts on any node that has as many free, and its CPUs.  Who was there before
 * the beginning comes at the beginning; who goes on ends at the end.  No other
 * rule of the cluster counts, nobody is suspended, nothing takes time to start,
 * and lengths are not known but learned from the ends before.
 */
struct observed {
    uint64_t pods, left_out;           /* left_out: fit on no node, or unknown */
    double wait_s, plan_wait_s;        /* on average, of the same pods */
    /* GPU-time that is idle while some of these pods wait, as a share of that
     * of nodes that are open now.
     */
    double wr, plan_wr;
    uint64_t gpus;
};

/* `waste` is an answer of /v1/waste/POOL with its jobs, `pool` one of
 * /v1/pools/POOL.  -ENOENT: no pods, or no nodes, to play.
 */
int observed_play(const json_t *waste, const json_t *pool,
                  struct observed *ret, struct err *err);
