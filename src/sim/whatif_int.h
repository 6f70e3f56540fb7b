#pragma once

#include "base/err.h"
#include "base/heap.h"
#include "plan/plan.h"
#include "sim/whatif.h"

struct map;
struct spec_arena;

/* whatif_int - what the files of whatif share. */

struct whatif_more {                   /* nodes, empty copies of one */
    const char *like;
    uint32_t count;
};

struct whatif_amount {
    bool said;
    uint64_t milli;
};

struct whatif_tenant {
    const char *name;
    struct whatif_amount quota, max;
    uint32_t weight;                   /* 0: as it is */
};

struct whatif_changes {
    struct spec_arena *arena;          /* owns all but the policy */
    struct whatif_more *more;
    const char **without;
    struct whatif_tenant *tenants;     /* each once */
    uint32_t nmore, nwithout, ntenants;
    json_t *policy;                    /* some fields, or NULL */
};
/* NULL: it is as it was.  No changes (NULL) are none. */
const struct whatif_tenant *whatif_tenant_find(const struct whatif_changes *c,
                                               const char *name);

struct act {                           /* a task that is played */
    const json_t *task;
    const char *workload;
    bool over, runs;                   /* ... when it began */
    uint32_t slot;
    uint32_t missing;                  /* parents that are not over */
    struct act **kids;
    uint32_t nkids;
    uint64_t ready_ms, started_ms, end_ms;         /* 0: not yet */
    uint64_t left_ms;                  /* of its length, while it waits */
    struct predict_sig sig;
    struct plan_item *item;
};

struct whatif {
    const struct whatif_state *state;
    const struct whatif_changes *changes;          /* or NULL */
    struct plan *plan;
    json_t *names;                     /* of workloads, by id */
    struct map *nodes;                 /* of the plan, by name */
    struct map *by_name;               /* acts, by "ID/TASK" */
    struct act *acts;
    size_t nacts;
    struct heap running;
    bool broken;
    struct err err;
};

/* whatif_build.c: policy, nodes and tenants, with the changes. */
int whatif_build(struct whatif *w, struct err *err);
/* The tenant as the state and the changes have it; else as `spec` says. */
struct plan_tenant *whatif_set_tenant(struct whatif *w,
                                      const struct plan_tenant_spec *spec);
const json_t *whatif_workload(const struct whatif *w, const char *id);
/* A member that is a time, in milliseconds; 0: absent. */
uint64_t whatif_time(const json_t *o, const char *key);
