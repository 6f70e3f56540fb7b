#include "sim/whatif.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/heap.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "plan/plan.h"
#include "sim/whatif_int.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MILLI = 1000, LEAST_LEFT_MS = 1000, VAIN_MAX = 1000 };

void whatif_free(struct whatif_state *s)
{
    json_decref(s->pools);
    json_decref(s->tenants);
    json_decref(s->policy);
    json_decref(s->workloads);
    json_decref(s->tasks);
    json_decref(s->specs);
    json_decref(s->ended);
    *s = (struct whatif_state) { 0 };
}

/* ---- lengths ---- */

static void sign(const json_t *task, const json_t *names,
                 struct predict_sig *ret)
{
    const char *id = json_get_str(task, "workload", "");
    const char *workload = json_get_str(names, id, id);
    const char *name = json_get_str(task, "task", "");
    uint64_t gpus = (uint64_t) (MILLI * json_number_value(
        json_object_get(task, "gpus")));

    *ret = (struct predict_sig) {
        .key = { predict_key(name, predict_key(workload, gpus)),
                 predict_key(name, gpus), predict_key("", gpus) },
    };
}

static void learn(struct whatif *w)
{
    json_t *task;
    size_t i;

    json_array_foreach(w->state->ended, i, task) {
        uint64_t from = whatif_time(task, "started");
        uint64_t to = whatif_time(task, "ended");
        double gpus = json_get_number(task, "gpus");
        struct predict_sig sig;

        if (from == 0 || to < from)
            continue;
        sign(task, w->names, &sig);
        predict_learn(plan_predict(w->plan), &sig, to - from,
                      (uint64_t) ((double) (to - from) * gpus), to);
    }
}

/* ---- tasks ---- */

static bool goes_before(const void *va, const void *vb)
{
    const struct act *a = va, *b = vb;

    return a->end_ms != b->end_ms ? a->end_ms < b->end_ms : a < b;
}

static uint32_t *slot_of(void *item)
{
    return &((struct act *) item)->slot;
}

static struct act *find_act(const struct whatif *w, const char *workload,
                            const char *task)
{
    autofree char *key = mem_printf("%s/%s", workload, task);

    return map_get(w->by_name, key);
}

static uint64_t guess_ms(const struct whatif *w, const struct act *a,
                         uint64_t age_ms)
{
    struct guess g;

    predict_guess(plan_predict(w->plan), &a->sig, age_ms, 0, &g);
    return g.mid_ms > age_ms + LEAST_LEFT_MS ? g.mid_ms - age_ms
                                             : LEAST_LEFT_MS;
}

static void add_act(struct whatif *w, const json_t *task)
{
    struct act *a = &w->acts[w->nacts++];
    const char *id = json_get_str(task, "workload", "");
    const char *name = json_get_str(task, "task", "");
    const char *state = json_get_str(task, "state", "");
    autofree char *key = mem_printf("%s/%s", id, name);

    a->task = task;
    a->workload = id;
    a->over = strcmp(state, "ended") == 0;
    a->runs = json_array_size(json_object_get(task, "leases")) > 0 &&
              !a->over;
    a->started_ms = whatif_time(task, "started");
    sign(task, w->names, &a->sig);
    (void) map_set(w->by_name, key, a);
}

static void link_acts(struct whatif *w)
{
    for (size_t i = 0; i < w->nacts; i++) {
        struct act *a = &w->acts[i];
        json_t *need;
        size_t k;

        json_array_foreach(json_object_get(a->task, "needs"), k, need) {
            const char *name = json_is_string(need)
                ? json_string_value(need) : json_get_str(need, "task", "");
            struct act *parent = find_act(w, a->workload, name);

            if (!parent || parent->over)
                continue;
            a->missing++;
            parent->kids = mem_grow(parent->kids, parent->nkids + 1,
                                    sizeof(struct act *));
            parent->kids[parent->nkids++] = a;
        }
    }
}

static void read_tasks(struct whatif *w)
{
    size_t n = json_array_size(w->state->tasks), i;
    json_t *task;

    w->by_name = map_new();
    w->acts = mem_array(n + 1, sizeof(*w->acts));
    w->running = (struct heap) { .before = goes_before, .slot = slot_of };
    json_array_foreach(w->state->tasks, i, task)
        add_act(w, task);
    link_acts(w);
}

/* ---- into the plan ---- */

static struct plan_tenant *tenant_of(struct whatif *w, const char *workload)
{
    struct plan_tenant_spec spec = { .weight = 1,
                                     .max_milli = PLAN_UNLIMITED };
    json_t *o;
    size_t i;

    spec.name = "default";
    json_array_foreach(json_object_get(w->state->workloads, "items"), i, o)
        if (strcmp(json_get_str(o, "id", ""), workload) == 0)
            spec.name = json_get_str(o, "tenant", "default");
    return whatif_set_tenant(w, &spec);
}

static const json_t *spec_of(const struct whatif *w, const struct act *a)
{
    const json_t *spec = json_object_get(w->state->specs, a->workload);
    const char *name = json_get_str(a->task, "task", "");
    json_t *t;
    size_t i;

    json_array_foreach(json_object_get(spec, "tasks"), i, t)
        if (strcmp(json_get_str(t, "name", ""), name) == 0)
            return t;
    return NULL;
}

static void into_line(struct whatif *w, struct act *a)
{
    const json_t *spec = spec_of(w, a);
    const json_t *models = json_object_get(spec, "models");
    uint32_t ranks = (uint32_t) json_get_u64(a->task, "ranks", 1);
    autofree const char **list = mem_array(json_array_size(models) + 1,
                                           sizeof(*list));
    struct plan_part part = { .count = ranks ? ranks : 1 };
    struct plan_item_spec item = {
        .tenant = tenant_of(w, a->workload), .parts = &part, .nparts = 1,
        .one_pool = true, .yield = YIELD_SUSPEND, .sig = a->sig, .owner = a,
        .ready_ms = plan_now(w->plan), .order = (uint64_t) (a - w->acts),
        .priority = (int) json_get_number(whatif_workload(w, a->workload),
                                    "priority"),
    };

    if (a->ready_ms && a->ready_ms < item.ready_ms)
        item.ready_ms = a->ready_ms;
    part.max = part.count;
    part.need.gpu_milli = (uint32_t) lround(MILLI * json_get_number(a->task,
                                                              "gpus"));
    part.need.cpu_milli = (uint64_t) llround(MILLI * json_get_number(a->task,
                                                               "cpus"));
    part.need.memory = json_get_u64(a->task, "memory", 0);
    part.need.gpu_memory = json_get_u64(spec, "gpu_memory", 0);
    for (size_t i = 0; i < json_array_size(models); i++)
        list[part.need.nmodels++] =
            json_string_value(json_array_get(models, i));
    part.need.models = list;
    a->item = plan_add(w->plan, &item);
    a->left_ms = guess_ms(w, a, 0);
}

/* What runs keeps its place; where that is gone with a change, it waits. */
static void put_running(struct whatif *w, struct act *a)
{
    const json_t *leases = json_object_get(a->task, "leases");
    size_t n = json_array_size(leases), i;
    autofree struct plan_place *places = mem_array(n, sizeof(*places));
    uint64_t age = a->started_ms && a->started_ms < w->state->now_ms
                   ? w->state->now_ms - a->started_ms : 0;
    json_t *lease;

    into_line(w, a);
    json_array_foreach(leases, i, lease) {
        const json_t *devices = json_object_get(lease, "devices");

        places[i].node = map_get(w->nodes, json_get_str(lease, "node", ""));
        if (!places[i].node)
            return;
        for (size_t d = 0; d < json_array_size(devices) && d < PLAN_DEVICES;
             d++)
            places[i].device[places[i].ndevices++] = (uint16_t)
                json_integer_value(json_array_get(devices, d));
    }
    if (plan_start(w->plan, a->item, places, (uint32_t) n, NULL) < 0)
        return;
    a->end_ms = plan_now(w->plan) + guess_ms(w, a, age);
    heap_add(&w->running, a);
}

static void fill_line(struct whatif *w)
{
    for (size_t i = 0; i < w->nacts; i++) {
        struct act *a = &w->acts[i];

        a->ready_ms = whatif_time(a->task, "ready");
        if (a->runs)
            put_running(w, a);
    }
    for (size_t i = 0; i < w->nacts; i++)
        if (!w->acts[i].runs && !w->acts[i].over && w->acts[i].missing == 0)
            into_line(w, &w->acts[i]);
}

/* ---- the clock ---- */

static void finish(struct whatif *w, struct act *a)
{
    heap_remove(&w->running, a);
    plan_end(w->plan, a->item, false);
    a->item = NULL;
    a->over = true;
    for (uint32_t k = 0; k < a->nkids; k++)
        if (--a->kids[k]->missing == 0)
            into_line(w, a->kids[k]);
}

static void carry_out(struct whatif *w, const struct plan_decision *d)
{
    struct act *a = plan_owner(d->item);
    uint64_t now = plan_now(w->plan);

    if (d->what == PLAN_EVICT) {
        heap_remove(&w->running, a);
        if (d->how != YIELD_KILL)
            a->left_ms = a->end_ms - now;
        plan_leaving(w->plan, d->item, d->claimant);
        plan_left(w->plan, d->item, d->how == YIELD_SUSPEND, 0);
    } else if (d->what == PLAN_START &&
               plan_start(w->plan, d->item, d->places, d->nplaces,
                          &w->err) < 0) {
        w->broken = true;
    } else if (d->what == PLAN_START) {
        if (a->started_ms == 0)
            a->started_ms = now;
        a->end_ms = now + a->left_ms;
        heap_add(&w->running, a);
    }
}

static int play(struct whatif *w, struct err *err)
{
    uint32_t vain = 0;

    for (;;) {
        struct plan_decision d;
        struct act *a;
        uint64_t at;

        while ((a = heap_top(&w->running)) &&
               a->end_ms <= plan_now(w->plan))
            finish(w, a);
        while (!w->broken && plan_next(w->plan, &d))
            carry_out(w, &d);
        if (w->broken)
            return err_set(err, EIO, "%s", w->err.text);
        a = heap_top(&w->running);
        at = plan_wake_ms(w->plan);
        if (a && a->end_ms < at)
            at = a->end_ms;
        vain = a ? 0 : vain + 1;
        if (at == UINT64_MAX || plan_waiting(w->plan) + !!a == 0 ||
            vain > VAIN_MAX)
            return 0;
        plan_tick(w->plan, at > plan_now(w->plan) ? at
                                                  : plan_now(w->plan) + 1);
    }
}

/* ---- the answer ---- */

/* The first start and the last end; an end only when all have one. */
static json_t *answer(const struct whatif *w)
{
    json_t *all = json_object(), *o;

    for (size_t i = 0; i < w->nacts; i++) {
        const struct act *a = &w->acts[i];
        uint64_t start, end, ended = whatif_time(a->task, "ended");

        o = json_object_get(all, a->workload);
        if (!o) {
            o = json_object();
            json_put(all, a->workload, o);
        }
        start = json_get_u64(o, "start", UINT64_MAX);
        end = json_get_u64(o, "end", 0);
        if (a->started_ms && a->started_ms < start)
            json_put_u64(o, "start", a->started_ms);
        if (!a->over)
            json_put(o, "open", json_true());
        if (a->over && (ended ? ended : a->end_ms) > end)
            json_put_u64(o, "end", ended ? ended : a->end_ms);
    }
    return all;
}

static void drop_open(json_t *all)
{
    const char *id;
    json_t *o;

    json_object_foreach(all, id, o)
        if (json_object_get(o, "open")) {
            (void) json_object_del(o, "open");
            (void) json_object_del(o, "end");
        }
}

static json_t *names_of(const struct whatif_state *s)
{
    json_t *names = json_object(), *o;
    size_t i;

    json_array_foreach(json_object_get(s->workloads, "items"), i, o)
        json_put_str(names, json_get_str(o, "id", "?"),
                     json_get_str(o, "name", ""));
    return names;
}

static void close_all(struct whatif *w)
{
    for (size_t i = 0; i < w->nacts; i++) {
        if (w->acts[i].item)
            plan_end(w->plan, w->acts[i].item, false);
        free(w->acts[i].kids);
    }
    heap_free(&w->running);
    free(w->acts);
    map_free(w->by_name);
    map_free(w->nodes);
    json_decref(w->names);
    plan_free(w->plan);
}

int whatif_play(const struct whatif_state *s,
                const struct whatif_changes *changes, json_t **ret,
                struct err *err)
{
    struct whatif w = { .state = s, .changes = changes, .plan = plan_new(),
                        .names = names_of(s), .nodes = map_new() };
    int rc;

    plan_tick(w.plan, s->now_ms);
    rc = whatif_build(&w, err);
    if (rc == 0) {
        learn(&w);
        read_tasks(&w);
        fill_line(&w);
        rc = play(&w, err);
    }
    if (rc == 0) {
        *ret = answer(&w);
        drop_open(*ret);
    }
    close_all(&w);
    return rc;
}
