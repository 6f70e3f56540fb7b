#pragma once

#include "kube/inventory.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

/* ledger - what stood idle in a cluster while whose pods waited, over time.
 *
 * Fed with Node and Pod objects as they come, like the inventory, with the time
 * at which they came.  What happened when is as the API says where it says so:
 * when a pod was made, bound, deleted without grace and its containers ended,
 * when a node was made and became ready; else it is when it was heard of.  All in
 * whole seconds.  As word of something comes after it, the ledger stays
 * LEDGER_LAG_S behind; what is heard of even later counts from there on.
 *
 * What it adds up is in rows (kube/tally.h has their form), each without a gap
 * in it and within one LEDGER_ROW_S of the clock.  A row has `waits` as well,
 * the longest of pods that want devices, LEDGER_WAITS at most, longest first:
 *
 *     {pod, devices, since, wait, fits, going, why}
 *
 * wait: so far, in seconds; fits: of that, while a node would have taken it;
 * going: it still waits; why: as the cluster's scheduler says it.
 *
 * And `jobs`, LEDGER_JOBS at most, of pods with devices that ended after they
 * were bound, a line of one text each, as this is what makes rows long:
 *
 *     NAMESPACE DEVICES CPUS MADE BOUND ENDED
 *
 * CPUs in thousandths, times in seconds since 1970.  `jobs_left_out` says how
 * many more there were.
 *
 *   1. Nothing is counted while the cluster is not seen, nor where the clock
 *      goes by more than LEDGER_JUMP_S at once, as of a machine that slept.
 *   2. In each row and for each model: used, waste, idle_frag and idle_nodemand
 *      are what open nodes have, and what pods hold on any node.
 *   3. The same objects at the same times make the same rows.
 */
enum {
    LEDGER_LAG_S = 30,
    LEDGER_ROW_S = 900,
    LEDGER_JUMP_S = 24 * 60 * 60,
    LEDGER_WAITS = 8,
    LEDGER_JOBS = 500,
};

struct ledger;

struct ledger *ledger_new(void);
void ledger_free(struct ledger *l);                /* NULL is fine */

/* As in kube/inventory.h.  An object that the inventory refuses is no good
 * here.
 */
int ledger_put(struct ledger *l, enum inventory_kind kind,
               const json_t *object, uint64_t now_ms, struct err *err);
void ledger_drop(struct ledger *l, enum inventory_kind kind,
                 const json_t *object, uint64_t now_ms);
/* From the beginning of a list to its end nothing is seen. */
void ledger_list(struct ledger *l, enum inventory_kind kind, uint64_t now_ms);
void ledger_listed(struct ledger *l, enum inventory_kind kind,
                   uint64_t now_ms);

/* From now on all changes are heard of, or not any more; repeatable. */
void ledger_seen(struct ledger *l, bool seen, uint64_t now_ms);
/* Rows that are over, which are given once; NULL: none.  Caller owns the
 * array.  `end`: the one under way ends now, with no more word to wait for.
 */
json_t *ledger_take(struct ledger *l, bool end, uint64_t now_ms);
/* The row under way, which may be of no time yet; NULL: nothing is seen.  With
 * `going` its jobs have those that go on as well, ended 0: that costs as much as
 * there are pods.
 */
json_t *ledger_row(struct ledger *l, bool going, uint64_t now_ms);
