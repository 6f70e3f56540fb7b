#include "sim/flow.h"

#include "base/err.h"
#include "base/heap.h"
#include "base/mem.h"
#include "plan/plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MILLI = 1000, MS = 1000, VAIN_MAX = 1000 };
#define NEVER_MS (UINT64_C(1000) * 60 * 60 * 24 * 365 * 100)

/* A task that is played. */
struct act {
    const struct flow_task *t;
    uint32_t slot;                     /* in the heap of those that run */
    uint32_t missing;                  /* parents that have not ended */
    bool started;
    uint64_t left_ms;                  /* of its length, while it waits */
    uint64_t owed_ms;                  /* of its startup, the same */
    uint64_t warm_ms;                  /* until then it resumes or starts up */
    uint64_t end_ms;
    uint64_t way_ms;
    struct plan_item *item;            /* while it is expected, waits or runs */
};

struct play {
    const struct flow *flow;
    const struct flow_options *options;
    struct plan *plan;
    struct act *acts;
    uint32_t *kids, *first_kid;        /* edges turned round; count + 1 */
    struct plan_tenant **tenants;
    struct heap running;
    uint32_t *by_submit;               /* in order of submission */
    uint32_t next;                     /* of these */
    uint64_t from_ms;                  /* the plan's clock at time 0 */
    uint32_t done;
    uint32_t each;                     /* GPUs of the largest node */
    uint64_t gpus, gpus_used;
    uint32_t gpu_waiting;              /* tasks in line that want some */
    uint64_t *workload_end;
    struct flow_result result;
};

void flow_free(struct flow *f)
{
    free(f->tasks);
    free(f->edges);
    *f = (struct flow) { 0 };
}

/* ---- the graph ---- */

/* Who waits for whom, from the parents' side: kids of i are at
 * first[i]..first[i + 1] - 1.
 */
static uint32_t *turn_round(const struct flow *f, uint32_t **ret_first)
{
    uint32_t *first = mem_array((size_t) f->count + 2, sizeof(*first));
    uint32_t *kids = mem_array((size_t) f->nedges + 1, sizeof(*kids));

    for (uint32_t e = 0; e < f->nedges; e++)
        first[f->edges[e] + 2]++;
    for (uint32_t i = 1; i <= f->count; i++)
        first[i + 1] += first[i];
    for (uint32_t i = 0; i < f->count; i++) {
        const struct flow_task *t = &f->tasks[i];

        for (uint32_t e = 0; e < t->nparents; e++)
            kids[first[f->edges[t->first + e] + 1]++] = i;
    }
    *ret_first = first;
    return kids;
}

/* Numbers of tasks, parents before kids; fewer than all when some task waits
 * for itself.
 */
static uint32_t *in_order(const struct flow *f, uint32_t *ret_n)
{
    autofree uint32_t *first = NULL, *kids = turn_round(f, &first);
    autofree uint32_t *missing = mem_array((size_t) f->count + 1,
                                           sizeof(*missing));
    uint32_t *order = mem_array((size_t) f->count + 1, sizeof(*order));
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->count; i++) {
        missing[i] = f->tasks[i].nparents;
        if (missing[i] == 0)
            order[n++] = i;
    }
    for (uint32_t at = 0; at < n; at++)
        for (uint32_t k = first[order[at]]; k < first[order[at] + 1]; k++)
            if (--missing[kids[k]] == 0)
                order[n++] = kids[k];
    *ret_n = n;
    return order;
}

int flow_check(const struct flow *f, struct err *err)
{
    uint32_t n;
    autofree uint32_t *order = in_order(f, &n);
    autofree bool *seen = mem_array((size_t) f->count + 1, sizeof(*seen));
    uint32_t i = 0;

    if (n == f->count)
        return 0;
    for (uint32_t at = 0; at < n; at++)
        seen[order[at]] = true;
    while (seen[i])
        i++;
    return err_set(err, ELOOP, "task %u waits for itself", i);
}

uint64_t *flow_ways(const struct flow *f, const uint64_t *lengths)
{
    uint32_t n;
    autofree uint32_t *order = in_order(f, &n);
    uint64_t *ways = mem_array((size_t) f->count + 1, sizeof(*ways));

    /* From the last to the first: ways[i] is the longest below i so far. */
    while (n-- > 0) {
        uint32_t i = order[n];
        const struct flow_task *t = &f->tasks[i];

        ways[i] += lengths[i];
        for (uint32_t e = t->first; e < t->first + t->nparents; e++)
            if (ways[f->edges[e]] < ways[i])
                ways[f->edges[e]] = ways[i];
    }
    return ways;
}

/* ---- before ---- */

struct plan *flow_plan(const struct flow_options *o)
{
    struct plan *p = plan_new();
    struct plan_device devices[PLAN_DEVICES];
    struct policy policy;
    uint32_t number = 0;

    for (size_t i = 0; i < array_size(devices); i++)
        devices[i] = (struct plan_device) { .model = "simulated",
                                            .memory = 1 };
    policy_init(&policy);
    policy.suspend_cost_s = (double) o->resume_ms / MS;
    if (o->startup_ms > 0 && o->lookahead_ms >= 0)
        policy.lookahead_ms = (uint64_t) o->lookahead_ms;
    if (o->alone) {
        policy.patience_ms = NEVER_MS;
        policy.turns = TURNS_OFF;
    }
    plan_set_policy(p, &policy);
    plan_tick(p, 1);
    for (const struct flow_nodes *k = o->nodes; k < o->nodes + o->nnodes; k++)
        for (uint32_t i = 0; i < k->count; i++, number++) {
            char name[32];
            struct plan_node_spec spec = {
                .name = name, .pool = "simulated", .domain = "",
                .cpu_milli = k->cpu_milli, .memory = UINT32_MAX,
                .devices = devices, .ndevices = k->gpus,
                .suspends = o->suspends, .roams = o->suspends,
                .stages = o->startup_ms > 0,
            };

            (void) snprintf(name, sizeof name, "n%05u", number);
            (void) plan_node_add(p, &spec, NULL);
        }
    return p;
}

static bool ends_before(const void *va, const void *vb)
{
    const struct act *a = va, *b = vb;

    return a->end_ms != b->end_ms ? a->end_ms < b->end_ms : a < b;
}

static uint32_t *slot_of(void *item)
{
    return &((struct act *) item)->slot;
}

static int by_submit(const void *va, const void *vb, void *arg)
{
    const struct flow_task *tasks = arg;
    uint32_t a = *(const uint32_t *) va, b = *(const uint32_t *) vb;

    if (tasks[a].submit_ms != tasks[b].submit_ms)
        return tasks[a].submit_ms < tasks[b].submit_ms ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void find_ways(struct play *y)
{
    const struct flow *f = y->flow;
    autofree uint64_t *lengths = mem_array((size_t) f->count + 1,
                                           sizeof(*lengths));
    autofree uint64_t *ways = NULL;

    for (uint32_t i = 0; i < f->count; i++) {
        struct guess g;

        predict_guess(plan_predict(y->plan), &f->tasks[i].sig, 0, 0, &g);
        lengths[i] = y->options->learned ? g.mid_ms : f->tasks[i].length_ms;
    }
    ways = flow_ways(f, lengths);
    for (uint32_t i = 0; i < f->count; i++)
        y->acts[i].way_ms = ways[i];
}

static void sum_up(struct play *y)
{
    const struct flow *f = y->flow;
    autofree uint64_t *lengths = mem_array((size_t) f->count + 1,
                                           sizeof(*lengths));
    autofree uint64_t *ways = NULL;

    for (uint32_t i = 0; i < f->count; i++) {
        const struct flow_task *t = &f->tasks[i];

        lengths[i] = t->length_ms;
        y->result.cpu_ms += t->length_ms * t->cpu_milli;
        y->result.gpu_ms += t->length_ms * t->gpus;
    }
    ways = flow_ways(f, lengths);
    for (uint32_t i = 0; i < f->count; i++)
        if (ways[i] > y->result.critical_ms)
            y->result.critical_ms = ways[i];
}

static void open_play(struct play *y)
{
    const struct flow *f = y->flow;

    for (size_t k = 0; k < y->options->nnodes; k++) {
        const struct flow_nodes *n = &y->options->nodes[k];

        y->gpus += (uint64_t) n->count * n->gpus;
        if (n->gpus > y->each)
            y->each = n->gpus;
    }
    y->from_ms = plan_now(y->plan) + 1;
    y->running = (struct heap) { .before = ends_before, .slot = slot_of };
    y->acts = mem_array(f->count, sizeof(*y->acts));
    y->by_submit = mem_array(f->count, sizeof(*y->by_submit));
    y->workload_end = mem_array((size_t) f->nworkloads + 1,
                                sizeof(*y->workload_end));
    y->kids = turn_round(f, &y->first_kid);
    for (uint32_t i = 0; i < f->count; i++) {
        y->acts[i].t = &f->tasks[i];
        y->acts[i].left_ms = f->tasks[i].length_ms;
        y->acts[i].missing = f->tasks[i].nparents + 1;  /* its submission */
        y->by_submit[i] = i;
    }
    qsort_r(y->by_submit, f->count, sizeof(*y->by_submit), by_submit,
            f->tasks);
    y->tenants = mem_array((size_t) f->ntenants + 1, sizeof(*y->tenants));
    for (uint32_t i = 0; i < f->ntenants; i++) {
        char name[32];
        struct plan_tenant_spec spec = { .name = name, .weight = 1,
                                         .max_milli = PLAN_UNLIMITED };

        (void) snprintf(name, sizeof name, "t%u", i);
        y->tenants[i] = plan_tenant_set(y->plan, &spec);
    }
    find_ways(y);
    sum_up(y);
}

static void close_play(struct play *y)
{
    for (uint32_t i = 0; i < y->flow->count; i++)
        if (y->acts[i].item)
            plan_end(y->plan, y->acts[i].item, false);
    heap_free(&y->running);
    free(y->acts);
    free(y->by_submit);
    free(y->workload_end);
    free(y->kids);
    free(y->first_kid);
    free(y->tenants);
}

/* ---- the clock ---- */

static void make_item(struct play *y, struct act *a)
{
    const struct flow_task *t = a->t;
    struct plan_part parts[2] = { 0 };
    uint32_t n = 0, each = y->each, rest = t->gpus;
    struct plan_item_spec spec = {
        .tenant = y->tenants[t->tenant], .priority = t->priority,
        .parts = parts, .one_pool = true,
        .yield = y->options->suspends ? YIELD_SUSPEND : YIELD_NEVER,
        .ready_ms = plan_now(y->plan), .bytes = 1,
        .order = (uint64_t) (a - y->acts), .below_ms = a->way_ms,
        .sig = t->sig, .owner = a,
    };

    if (each > 0 && t->gpus > each) {
        parts[0].need.gpu_milli = each * MILLI;
        parts[0].count = parts[0].max = t->gpus / each;
        rest = t->gpus % each;
        n = 1;
    }
    if (n == 0 || rest > 0) {
        parts[n].need.gpu_milli = rest * MILLI;
        parts[n].count = parts[n].max = 1;
        n++;
    }
    for (uint32_t i = 0; i < n; i++)
        parts[i].need.cpu_milli = t->gpus == 0 ? t->cpu_milli :
            t->cpu_milli * parts[i].need.gpu_milli / MILLI / t->gpus;
    spec.nparts = n;
    a->item = plan_add(y->plan, &spec);
}

static void into_line(struct play *y, struct act *a)
{
    if (a->item)
        plan_hold(y->plan, a->item, false);
    else
        make_item(y, a);
    y->gpu_waiting += a->t->gpus > 0;
}

/* Those that wait for the task alone are ready when it ends: as guessed, or
 * (0) nobody knows.
 */
static void expect_kids(struct play *y, const struct act *a, uint64_t end_ms)
{
    uint32_t i = (uint32_t) (a - y->acts);

    for (uint32_t k = y->first_kid[i]; k < y->first_kid[i + 1]; k++) {
        struct act *kid = &y->acts[y->kids[k]];

        if (kid->missing != 1 || kid->t->gpus == 0 ||
            y->options->startup_ms == 0)
            continue;
        if (!kid->item) {
            make_item(y, kid);
            plan_hold(y->plan, kid->item, true);
        }
        plan_expect(y->plan, kid->item, end_ms ? y->from_ms + end_ms : 0);
    }
}

/* The middle of what is known, less what it has done. */
static uint64_t guess_end(const struct play *y, const struct act *a)
{
    uint64_t done = a->t->length_ms - a->left_ms;
    struct guess g;

    predict_guess(plan_predict(y->plan), &a->t->sig, done, 0, &g);
    return a->warm_ms + (g.mid_ms > done ? g.mid_ms - done : 0);
}

static void came_closer(struct play *y, uint32_t task)
{
    if (--y->acts[task].missing == 0)
        into_line(y, &y->acts[task]);
}

static void submit_due(struct play *y, uint64_t now)
{
    const struct flow *f = y->flow;

    while (y->next < f->count &&
           f->tasks[y->by_submit[y->next]].submit_ms <= now)
        came_closer(y, y->by_submit[y->next++]);
}

static void finish(struct play *y, struct act *a)
{
    uint32_t i = (uint32_t) (a - y->acts);

    heap_remove(&y->running, a);
    plan_end(y->plan, a->item, true);
    a->item = NULL;
    y->gpus_used -= a->t->gpus;
    y->done++;
    if (y->workload_end[a->t->workload] < a->end_ms)
        y->workload_end[a->t->workload] = a->end_ms;
    for (uint32_t k = y->first_kid[i]; k < y->first_kid[i + 1]; k++)
        came_closer(y, y->kids[k]);
}

/* What is left of the startup, where it stands ready or elsewhere. */
static uint64_t startup(struct play *y, uint64_t now,
                        const struct plan_decision *d)
{
    const struct act *a = plan_owner(d->item);
    const struct plan_place *at = NULL;
    uint64_t since = 0, all = y->options->startup_ms, done = 0;
    uint32_t n = plan_stage(d->item, &at, &since), same = 0;

    if (all == 0 || a->t->gpus == 0)
        return 0;
    while (same < n && n == d->nplaces &&
           at[same].node == d->places[same].node)
        same++;
    if (n > 0 && same == n)
        done = y->from_ms + now - since;
    y->result.staged.vain += n > 0 && same < n;
    y->result.staged.ready += done >= all;
    y->result.staged.late += done > 0 && done < all;
    y->result.staged.cold += done == 0;
    return done < all ? all - done : 0;
}

static int start(struct play *y, uint64_t now, const struct plan_decision *d,
                 struct err *err)
{
    struct act *a = plan_owner(d->item);
    uint64_t owed = a->started ? a->owed_ms : startup(y, now, d);
    int rc = plan_start(y->plan, d->item, d->places, d->nplaces, err);

    if (rc < 0)
        return rc;
    if (a->started)
        plan_resumed(y->plan, d->item, y->options->resume_ms);
    a->owed_ms = owed;
    a->warm_ms = now + (a->started ? y->options->resume_ms : 0) + owed;
    y->result.resume_ms += (a->warm_ms - now) * a->t->gpus;
    a->end_ms = a->warm_ms + a->left_ms;
    a->started = true;
    y->gpus_used += a->t->gpus;
    y->gpu_waiting -= a->t->gpus > 0;
    heap_add(&y->running, a);
    expect_kids(y, a, guess_end(y, a));
    return 0;
}

static int stage(struct play *y, const struct plan_decision *d,
                 struct err *err)
{
    if (d->what == PLAN_STAGE)
        return plan_staged(y->plan, d->item, d->places, d->nplaces, err);
    y->result.staged.vain++;
    plan_unstaged(y->plan, d->item);
    return 0;
}

/* What it has done of its startup is kept with its state; a resume that is
 * broken off is paid in full the next time.
 */
static void evict(struct play *y, uint64_t now, const struct plan_decision *d)
{
    struct act *a = plan_owner(d->item);
    uint64_t warming = a->warm_ms > now ? a->warm_ms - now : 0;

    heap_remove(&y->running, a);
    y->result.resume_ms -= warming * a->t->gpus;
    if (warming < a->owed_ms)
        a->owed_ms = warming;
    a->left_ms = a->end_ms - now - warming;
    y->gpus_used -= a->t->gpus;
    y->gpu_waiting += a->t->gpus > 0;
    y->result.preemptions++;
    expect_kids(y, a, 0);
    plan_leaving(y->plan, d->item, d->claimant);
    plan_left(y->plan, d->item, true, 0);
}

/* UINT64_MAX: nothing more happens. */
static uint64_t next_ms(const struct play *y)
{
    const struct flow *f = y->flow;
    const struct act *first = heap_top(&y->running);
    uint64_t at = first ? first->end_ms : UINT64_MAX, wake;

    if (y->next < f->count &&
        f->tasks[y->by_submit[y->next]].submit_ms < at)
        at = f->tasks[y->by_submit[y->next]].submit_ms;
    wake = plan_wake_ms(y->plan);
    if (wake != UINT64_MAX && wake - y->from_ms < at && y->done < f->count)
        at = wake - y->from_ms;
    return at;
}

static void account(struct play *y, uint64_t time)
{
    if (y->gpu_waiting == 0)
        return;
    y->result.wanted_ms += y->gpus * time;
    y->result.idle_ms += (y->gpus - y->gpus_used) * time;
}

static int run(struct play *y, struct err *err)
{
    uint64_t now = y->flow->tasks[y->by_submit[0]].submit_ms, at;
    struct plan_decision d;
    uint32_t vain = 0;
    int rc = 0;

    while (rc == 0) {
        struct act *a;

        plan_tick(y->plan, y->from_ms + now);
        while ((a = heap_top(&y->running)) && a->end_ms <= now)
            finish(y, a);
        submit_due(y, now);
        while (rc == 0 && plan_next(y->plan, &d))
            if (d.what == PLAN_START)
                rc = start(y, now, &d, err);
            else if (d.what == PLAN_EVICT)
                evict(y, now, &d);
            else
                rc = stage(y, &d, err);
        at = next_ms(y);
        /* Nothing runs or comes: only the plan itself might go on. */
        vain = heap_top(&y->running) || y->next < y->flow->count ? 0
                                                                 : vain + 1;
        if (at == UINT64_MAX || vain > VAIN_MAX)
            break;
        if (at <= now)
            at = now + 1;
        account(y, at - now);
        now = at;
    }
    return rc;
}

static void fill_result(struct play *y, struct flow_result *ret)
{
    const struct flow *f = y->flow;
    uint64_t first = f->tasks[y->by_submit[0]].submit_ms, last = 0;
    double sum = 0;

    for (uint32_t i = 0; i < f->nworkloads; i++)
        if (y->workload_end[i] > last)
            last = y->workload_end[i];
    for (uint32_t i = 0, seen = UINT32_MAX; i < f->count; i++) {
        uint32_t w = f->tasks[i].workload;

        if (w != seen)
            sum += (double) (y->workload_end[w] - f->tasks[i].submit_ms);
        seen = w;
    }
    *ret = y->result;
    ret->gpus = y->gpus;
    ret->makespan_ms = last - first;
    ret->avg_ms = sum / f->nworkloads;
    predict_quality(plan_predict(y->plan), &ret->quality);
}

int flow_play(const struct flow *f, struct plan *p,
              const struct flow_options *o, struct flow_result *ret,
              struct err *err)
{
    struct play y = { .flow = f, .options = o, .plan = p };
    int rc;

    open_play(&y);
    rc = run(&y, err);
    if (rc == 0 && y.done < f->count)
        rc = err_set(err, EINVAL, "%u of %u tasks never start: they do not "
                     "fit", f->count - y.done, f->count);
    if (rc == 0)
        fill_result(&y, ret);
    close_play(&y);
    return rc;
}
