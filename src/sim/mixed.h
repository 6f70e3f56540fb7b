#pragma once

#include "sim/flow.h"

/* mixed - a scenario drawn from a seed: pipelines that need GPUs only part of
 * the time.
 *
 * Each is four tasks in a row: preparation on CPUs, training on 1 to 16 GPUs
 * (a gang of several nodes when more than 8), evaluation on CPUs, inference on
 * a quarter of the GPUs.  `duty` is the share of GPU time in use of what a
 * pipeline would hold if it kept its GPUs from its start to its end; each
 * pipeline's own is within a tenth of it.  Lengths are about half an hour.
 * Three tenants of equal weight hand in all at once, and none has a priority.
 */
enum { MIXED_PIPELINES = 1000, MIXED_STAGES = 4, MIXED_TENANTS = 3 };

/* 64 GPUs on 8 nodes, and two nodes of CPUs alone. */
extern const struct flow_nodes mixed_nodes[2];

void mixed_make(uint64_t seed, double duty, struct flow *ret);
/* The same, where each pipeline is one task that holds its GPUs. */
void mixed_hold(const struct flow *f, struct flow *ret);
