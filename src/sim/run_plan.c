#include "sim/run_int.h"

#include "base/err.h"
#include "base/mem.h"
#include "plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* weir: the plan decides, this file carries it out at once.
 *
 * A node of the trace is a node of the plan, a cluster is a pool, a job is an
 * item: up to a node's GPUs one rank, a larger one whole nodes and a rest.
 * The plan is never told a length: it learns from ends, by tenant and size.
 * The cluster of the run mirrors what the plan holds, so that shares of time
 * are counted by the code that counts for every other policy.
 */
struct run_plan {
    struct plan *plan;
    struct plan_node **nodes;
    struct plan_tenant **tenants;
    struct plan_item **items;          /* by number of job */
};

enum { MS = 1000, MILLI = 1000 };

/* The plan's clock: whole milliseconds, from 1. */
static uint64_t to_ms(const struct run *r, double at)
{
    return 1 + (uint64_t) llround((at - r->trace->jobs[0].submit) * MS);
}

static double from_ms(const struct run *r, uint64_t ms)
{
    return r->trace->jobs[0].submit + (double) (ms - 1) / MS;
}

/* ---- what there is ---- */

static void add_nodes(struct run *r)
{
    const struct cluster *c = r->cluster;
    struct plan_device devices[PLAN_DEVICES];

    for (uint32_t i = 0; i < c->nodes; i++) {
        char name[32], pool[32], label[32];
        const char *labels[] = { label };
        struct plan_node_spec spec = {
            .name = name, .pool = pool, .domain = "", .labels = labels,
            .nlabels = 1, .cpu_milli = 1, .memory = UINT32_MAX,
            .devices = devices, .ndevices = c->gpus,
            .suspends = !r->options->stays,
            .roams = !r->options->same_node && !r->options->stays,
            .stages = r->options->startup > 0,
        };

        for (uint32_t d = 0; d < c->gpus; d++)
            devices[d] = (struct plan_device) { .model = cluster_model(c, i),
                                                .memory = 1 };
        (void) snprintf(name, sizeof name, "n%05u", i);
        (void) snprintf(pool, sizeof pool, "c%05u", i / c->each);
        (void) snprintf(label, sizeof label, "cluster=%u", i / c->each);
        r->plan->nodes[i] = plan_node_add(r->plan->plan, &spec, &c->free[i]);
    }
}

/* Without quotas all jobs compete as equals, as under the other policies. */
static void add_tenants(struct run *r)
{
    const struct trace *t = r->trace;
    bool quotas = r->options->quotas;

    for (size_t i = 0; i < t->ntenants; i++) {
        struct plan_tenant_spec spec = {
            .name = quotas ? t->tenants[i].name : "all", .weight = 1,
            .max_milli = PLAN_UNLIMITED,
        };

        if (quotas)
            spec.quota_milli = (uint64_t) t->tenants[i].quota * MILLI;
        r->plan->tenants[i] = plan_tenant_set(r->plan->plan, &spec);
    }
}

static void open_plan(struct run *r)
{
    struct run_plan *p = r->plan = mem_new(sizeof *r->plan);
    struct policy policy;

    p->plan = plan_new();
    policy_init(&policy);
    if (r->options->rules)
        policy = *r->options->rules;
    policy.suspend_cost_s = r->options->resume_cost;
    if (r->options->lookahead_ms >= 0)
        policy.lookahead_ms = (uint64_t) r->options->lookahead_ms;
    plan_set_policy(p->plan, &policy);
    plan_tick(p->plan, to_ms(r, r->now));
    p->nodes = mem_array(r->cluster->nodes, sizeof(*p->nodes));
    p->tenants = mem_array(r->trace->ntenants, sizeof(*p->tenants));
    p->items = mem_array(r->trace->count, sizeof(*p->items));
    add_nodes(r);
    add_tenants(r);
}

static void close_plan(struct run *r, struct run_result *ret)
{
    struct run_plan *p = take(r->plan);

    if (!p)
        return;
    predict_quality(plan_predict(p->plan), &ret->quality);
    for (size_t i = 0; i < r->trace->count; i++)
        if (p->items[i])
            plan_end(p->plan, p->items[i], false);
    plan_free(p->plan);
    free(p->nodes);
    free(p->tenants);
    free(p->items);
    free(p);
}

/* ---- jobs ---- */

static uint64_t key_of(const char *tenant, uint32_t gpus)
{
    return predict_key(tenant, gpus);
}

static void sign(const struct run *r, const struct job *j,
                 struct predict_sig *ret)
{
    const char *tenant = r->trace->tenants[j->t->tenant].name;

    ret->key[0] = key_of(tenant, j->t->gpus);
    ret->key[1] = key_of(tenant, 0);
    ret->key[2] = key_of("", j->t->gpus);
    ret->key[3] = key_of("", 0);
}

/* Whole nodes and a rest, or a part of one node; how many parts. */
static uint32_t cut(uint32_t gpus, uint32_t each, struct plan_part *ret)
{
    uint32_t n = 0;

    if (gpus >= each)
        ret[n++] = (struct plan_part) { .need.gpu_milli = each * MILLI,
                                        .count = gpus / each,
                                        .max = gpus / each };
    if (gpus % each)
        ret[n++] = (struct plan_part) {
            .need.gpu_milli = gpus % each * MILLI, .count = 1, .max = 1 };
    return n;
}

static void submit_item(struct run *r, uint32_t job)
{
    struct job *j = &r->jobs[job];
    struct plan_part parts[2] = { 0 };
    char label[32];
    const char *labels[] = { label };
    struct plan_item_spec spec = {
        .tenant = r->plan->tenants[j->t->tenant], .parts = parts,
        .nparts = cut(j->t->gpus, r->cluster->gpus, parts),
        .one_pool = true,
        .yield = r->options->stays ? YIELD_NEVER : YIELD_SUSPEND,
        .ready_ms = to_ms(r, r->now), .order = job, .bytes = 1, .owner = j,
    };

    if (j->only != CLUSTER_ANY) {
        (void) snprintf(label, sizeof label, "cluster=%d", j->only);
        for (uint32_t i = 0; i < spec.nparts; i++) {
            parts[i].need.labels = labels;
            parts[i].need.nlabels = 1;
        }
    }
    sign(r, j, &spec.sig);
    plan_tick(r->plan->plan, to_ms(r, r->now));
    r->plan->items[job] = plan_add(r->plan->plan, &spec);
}

static void end_item(struct run *r, uint32_t job)
{
    plan_tick(r->plan->plan, to_ms(r, r->now));
    plan_end(r->plan->plan, r->plan->items[job], true);
    r->plan->items[job] = NULL;
}

/* ---- decisions ---- */

static uint32_t number_of(const struct run *r, const struct plan_item *i)
{
    return (uint32_t) ((const struct job *) plan_owner(i) - r->jobs);
}

static void evict(struct run *r, struct plan_item *i,
                  struct plan_item *claimant)
{
    uint32_t job = number_of(r, i);
    struct job *j = &r->jobs[job];

    cluster_give(r->cluster, j->t->gpus, j->nodes);
    run_stop(r, job);
    plan_leaving(r->plan->plan, i, claimant);
    plan_left(r->plan->plan, i, true, 0);
}

/* What it has done of its startup, where it stands ready, if it starts there
 * with all its ranks.
 */
static double ready_for(struct run *r, const struct plan_decision *d)
{
    const struct plan_place *at;
    uint64_t since;
    uint32_t n = plan_stage(d->item, &at, &since);
    bool there = n == d->nplaces;

    for (uint32_t i = 0; i < n && there; i++)
        there = at[i].node == d->places[i].node;
    if (n > 0 && !there)
        r->staged.vain++;
    return n > 0 && there ? r->now - from_ms(r, since) : 0;
}

static void stage(struct run *r, const struct plan_decision *d)
{
    if (d->what == PLAN_UNSTAGE) {
        r->staged.vain++;
        plan_unstaged(r->plan->plan, d->item);
    } else if (plan_staged(r->plan->plan, d->item, d->places, d->nplaces,
                           &r->err) < 0) {
        r->broken = true;
    }
}

/* Ranks of whole nodes come first, as the cluster wants them. */
static void start(struct run *r, const struct plan_decision *d)
{
    uint32_t job = number_of(r, d->item), n = 0;
    struct job *j = &r->jobs[job];

    if (!j->started)
        j->owed = fmax(r->options->startup - ready_for(r, d), 0);
    for (uint32_t part = 0; part < 2; part++)
        for (uint32_t i = 0; i < d->nplaces; i++)
            if (d->places[i].part == part)
                j->nodes[n++] = (uint32_t) (
                    (const uint8_t *) plan_node_owner(d->places[i].node) -
                    r->cluster->free);
    if (plan_start(r->plan->plan, d->item, d->places, d->nplaces,
                   &r->err) < 0) {
        r->broken = true;
        return;
    }
    cluster_take_at(r->cluster, j->t->gpus, j->nodes);
    if (j->started)
        plan_resumed(r->plan->plan, d->item,
                     (uint64_t) llround(r->options->resume_cost * MS));
    run_start(r, job);
}

static void pass_plan(struct run *r)
{
    struct plan_decision d;

    plan_tick(r->plan->plan, to_ms(r, r->now));
    while (!r->broken && plan_next(r->plan->plan, &d)) {
        if (d.what == PLAN_START)
            start(r, &d);
        else if (d.what == PLAN_EVICT)
            evict(r, d.item, d.claimant);
        else
            stage(r, &d);
    }
}

static double wake_plan(const struct run *r)
{
    uint64_t ms = plan_wake_ms(r->plan->plan);

    if (ms == UINT64_MAX ||
        (r->running.count == 0 && r->next == r->trace->count))
        return INFINITY;
    return fmax(from_ms(r, ms), r->now + 1.0 / MS);
}

const struct run_policy run_weir = {
    .name = "weir", .gpus_max = PLAN_DEVICES, .submit = submit_item,
    .pass = pass_plan, .wake = wake_plan, .open = open_plan,
    .end = end_item, .close = close_plan,
};
