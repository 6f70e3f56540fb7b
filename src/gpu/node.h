#pragma once

#include "gpu/device.h"
#include "gpu/telemetry.h"

/* node - the devices of this node over time.
 *
 * node_look is called again and again: it opens the driver when there is one,
 * asks every device how it is, collects what happened, and comes back to a
 * driver or a device that was gone, each time after twice the pause.  It never
 * fails: what is the matter is in the report.
 */
enum { NODE_XIDS = 32, NODE_PAUSE_MS = 1000, NODE_PAUSE_MAX_MS = 60000 };

struct node_xid {
    uint64_t at_ms;                    /* wall clock, when it was seen */
    char uuid[NVML_TEXT];
    uint64_t xid;
    unsigned gpu_instance, compute_instance;   /* ~0u: no MIG */
};

struct node_report {
    struct device_list list;
    bool sampled[DEVICE_MAX];          /* samples[i] is of this look */
    struct telemetry samples[DEVICE_MAX];
    unsigned nxids;                    /* since the last look; more are told by
                                        * the next one */
    struct node_xid xids[NODE_XIDS];
};

struct node;
struct node *node_new(void);
void node_free(struct node *n);                    /* NULL is fine */
void node_look(struct node *n, uint64_t mono_ms, uint64_t wall_ms);
const struct node_report *node_report(const struct node *n);

/* Caller owns.  {devices: [{index, uuid, state, ...}]} and {uuid, xid, ...}. */
json_t *node_sample_json(const struct node_report *r);
json_t *node_xid_json(const struct node_xid *x);
