#pragma once

#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"
#include "plan/plan_int.h"

#include <stdio.h>
#include <string.h>

/* bed - a plan with little in it, for tests of order, room and promises. */

static const uint64_t MINUTE = 60 * 1000;

struct bed {
    struct plan *p;
    struct plan_tenant *t;
    uint64_t order;
};

struct bed_item {
    struct plan_tenant *t;             /* NULL: the bed's */
    int priority;
    uint32_t milli, ranks;
    uint64_t cpus, memory, below_ms, deadline_ms, had_work, had_ms;
    bool unmeasured;                   /* what it leaves when suspended */
    enum plan_yield yield;
    uint32_t beside;                   /* of one rank more, another part */
    bool one_pool;
    const char *like;                  /* its signature */
};

static inline struct plan_tenant *bed_tenant(struct bed *b, const char *name,
                                             uint32_t weight, uint64_t quota,
                                             uint64_t max)
{
    return plan_tenant_set(b->p, &(struct plan_tenant_spec) {
        .name = name, .weight = weight, .quota_milli = quota,
        .max_milli = max ? max : PLAN_UNLIMITED,
    });
}

static inline struct plan_node *bed_node_in(struct bed *b, const char *pool,
                                            const char *name,
                                            uint32_t devices, bool suspends,
                                            bool roams)
{
    struct plan_device list[8];

    for (uint32_t k = 0; k < 8; k++)
        list[k] = (struct plan_device) { "simulated", 1 };
    return plan_node_add(b->p, &(struct plan_node_spec) {
        .name = name, .pool = pool, .domain = "", .cpu_milli = 64000,
        .memory = 1024, .devices = list, .ndevices = devices,
        .suspends = suspends, .roams = roams,
    }, NULL);
}

static inline struct plan_node *bed_node(struct bed *b, const char *name,
                                         uint32_t devices, bool suspends,
                                         bool roams)
{
    return bed_node_in(b, "pool", name, devices, suspends, roams);
}

static inline void bed_open(struct bed *b)
{
    *b = (struct bed) { .p = plan_new() };
    plan_tick(b->p, 1);
    b->t = bed_tenant(b, "t", 0, 0, 0);
}

static inline struct plan_item *bed_add(struct bed *b, struct bed_item i)
{
    struct plan_part parts[] = {
        { .need = { .gpu_milli = i.milli, .cpu_milli = i.cpus * 1000,
                    .memory = i.memory },
          .count = i.ranks ? i.ranks : 1, .max = i.ranks ? i.ranks : 1 },
        { .need.gpu_milli = i.beside, .count = 1, .max = 1 },
    };

    return plan_add(b->p, &(struct plan_item_spec) {
        .tenant = i.t ? i.t : b->t, .priority = i.priority, .parts = parts,
        .nparts = i.beside ? 2 : 1, .one_pool = i.one_pool,
        .yield = i.yield, .ready_ms = plan_now(b->p),
        .order = ++b->order, .below_ms = i.below_ms, .bytes = !i.unmeasured,
        .deadline_ms = i.deadline_ms, .had_work = i.had_work,
        .had_ms = i.had_ms,
        .sig.key = { i.like ? predict_key(i.like, 0) : 0 },
    });
}
#define BED(...) bed_add(b, (struct bed_item) { __VA_ARGS__ })

/* Some that are over teach how long the like of them run. */
static inline void bed_teach(struct bed *b, const char *like, uint64_t run_ms,
                             uint64_t devices)
{
    struct predict_sig sig = { .key = { predict_key(like, 0) } };

    for (unsigned k = 0; k < 200; k++)
        predict_learn(plan_predict(b->p), &sig, run_ms, run_ms * devices,
                      plan_now(b->p));
}

/* Carries out what the plan says, as far as it goes; evictions at once. */
static inline bool bed_quiet(struct bed *b)
{
    struct plan_decision d;
    struct err err = { .text = "" };

    for (unsigned k = 0; k < 1000 && plan_next(b->p, &d); k++) {
        if (d.what == PLAN_START &&
            plan_start(b->p, d.item, d.places, d.nplaces, &err) < 0)
            break;
        if (d.what == PLAN_EVICT) {
            plan_leaving(b->p, d.item, d.claimant);
            plan_left(b->p, d.item, d.how == YIELD_SUSPEND, 0);
        }
        if (d.what == PLAN_STAGE &&
            plan_staged(b->p, d.item, d.places, d.nplaces, &err) < 0)
            break;
        if (d.what == PLAN_UNSTAGE)
            plan_unstaged(b->p, d.item);
    }
    if (err.text[0] == '\0' && plan_check(b->p, &err) == 0)
        return true;
    printf("# %s\n", err.text);
    return false;
}

static inline void bed_run(struct bed *b)
{
    ok(bed_quiet(b), "all is well");
}

static inline void bed_wait(struct bed *b, uint64_t ms)
{
    plan_tick(b->p, plan_now(b->p) + ms);
    bed_run(b);
}

static inline bool bed_runs(const struct plan_item *i)
{
    return plan_state(i) == ITEM_RUNNING;
}
