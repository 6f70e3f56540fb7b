#include "kube/ledger_int.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "kube/tally.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- nodes ---- */

void facts_free(struct facts *f)
{
    if (!f || --f->refs > 0)
        return;
    fit_node_clear(&f->at);
    resources_clear(&f->has);
    free(f->model);
    free(f);
}

void place_free(struct place *p)
{
    facts_free(p->facts);
    resources_clear(&p->taken);
    free(p->holds);
    free(p->name);
    free(p);
}

static struct place *place_get(struct ledger *l, const char *name)
{
    struct place *p = map_get(l->places, name);

    if (p)
        return p;
    p = mem_new(sizeof *p);
    p->name = mem_str(name);
    (void) map_set(l->places, name, p);
    return p;
}

static void place_settle(struct ledger *l, struct place *p)
{
    if (p->facts || p->pods)
        return;
    place_forget(l, p);
    (void) map_del(l->places, p->name);
    place_free(p);
}

static int64_t left(uint64_t has, uint64_t taken)
{
    return has > taken ? (int64_t) (has - taken) : 0;
}

/* What is idle there is told to the tally. */
static void place_count(struct ledger *l, struct place *p)
{
    const struct facts *f = p->facts;
    bool open = f && f->open;
    int64_t idle = open ? left(f->gpus, p->gpus_taken) : 0;
    int64_t cpus = open ? left(f->has.cpu_milli, p->taken.cpu_milli) : 0;

    if (f)
        tally_idle(l->tally, p->model, idle - p->idle);
    tally_idle_cpus(l->tally, cpus - p->cpus_idle);
    p->idle = idle;
    p->cpus_idle = cpus;
    place_stir(l, p);
}

/* What is held there counts (1), or not any more (-1). */
static void holds_count(struct ledger *l, const struct place *p, int sign)
{
    for (uint32_t i = 0; p->facts && i < p->nholds; i++)
        tally_held(l->tally, p->holds[i].space, p->model,
                   sign * p->holds[i].gpus, sign * p->holds[i].cpus_milli);
}

void node_step(struct ledger *l, const char *name, struct facts *facts)
{
    struct place *p = place_get(l, name);

    holds_count(l, p, -1);
    if (p->facts)
        tally_idle(l->tally, p->model, -p->idle);
    p->idle = 0;
    facts_free(p->facts);
    p->facts = facts;
    if (facts)
        p->model = tally_model(l->tally, facts->model ? facts->model : "");
    holds_count(l, p, 1);
    place_count(l, p);
    place_settle(l, p);
}

static void hold_add(struct place *p, const struct pod *pod, int sign)
{
    uint32_t i = 0;

    while (i < p->nholds && p->holds[i].space != pod->space)
        i++;
    if (i == p->nholds) {
        p->holds = mem_more(p->holds, p->nholds, sizeof *p->holds);
        p->holds[p->nholds++] = (struct hold) { .space = pod->space };
    }
    p->holds[i].pods += sign;
    p->holds[i].gpus += sign * (int64_t) pod->gpus;
    p->holds[i].cpus_milli += sign * (int64_t) pod->takes.cpu_milli;
    if (p->holds[i].pods == 0)
        p->holds[i] = p->holds[--p->nholds];
}

static void pod_count(struct ledger *l, struct place *p,
                      const struct pod *pod, int sign)
{
    hold_add(p, pod, sign);
    if (sign > 0) {
        resources_add(&p->taken, &pod->takes);
        p->gpus_taken += pod->gpus;
        p->pods++;
    } else {
        resources_sub(&p->taken, &pod->takes);
        p->gpus_taken -= pod->gpus;
        p->pods--;
    }
    if (p->facts)
        tally_held(l->tally, pod->space, p->model,
                   sign * (int64_t) pod->gpus,
                   sign * (int64_t) pod->takes.cpu_milli);
    if (p->pods == 0) {
        free(take(p->holds));
        p->nholds = 0;
    }
    place_count(l, p);
    place_settle(l, p);
}

/* ---- shapes ---- */

static char *shape_text(const json_t *fit, const struct resources *takes)
{
    autofree char *rules = json_dumps(fit, JSON_COMPACT | JSON_SORT_KEYS);
    autojson json_t *kinds = json_object();
    autofree char *amounts = NULL;

    for (size_t i = 0; i < takes->n; i++)
        json_put_u64(kinds, takes->list[i].name, takes->list[i].count);
    amounts = json_dumps(kinds, JSON_COMPACT | JSON_SORT_KEYS);
    return mem_printf("%llu %llu %s %s",
                      (unsigned long long) takes->cpu_milli,
                      (unsigned long long) takes->memory,
                      amounts ? amounts : "", rules ? rules : "");
}

struct shape *shape_join(struct ledger *l, const json_t *object,
                         const struct pod *p)
{
    autojson json_t *fit = fit_read(object);
    autofree char *text = shape_text(fit, &p->takes);
    struct shape *s = map_get(l->shapes, text);

    if (!s) {
        s = mem_new(sizeof *s);
        s->fit = json_incref(fit);
        resources_add(&s->takes, &p->takes);
        s->gpus = p->gpus;
        s->text = take(text);
        (void) map_set(l->shapes, s->text, s);
    }
    s->pods++;
    return s;
}

static void shape_free(struct shape *s)
{
    json_decref(s->fit);
    resources_clear(&s->takes);
    free(s->text);
    free(s);
}

void shape_leave(struct ledger *l, struct pod *p)
{
    struct shape *s = take(p->shape);

    if (!s || --s->pods > 0)
        return;
    (void) map_del(l->shapes, s->text);
    shape_free(s);
}

/* ---- waits ---- */

static void put_time(json_t *o, const char *key, uint64_t s)
{
    char text[32];

    clock_print(s * 1000, text, sizeof text);
    json_put_str(o, key, text);
}

static uint64_t wait_of(const struct pod *p, uint64_t at_s)
{
    return at_s > p->created_s ? at_s - p->created_s : 0;
}

void wait_offer(json_t *waits, const struct pod *p, uint64_t at_s)
{
    uint64_t wait = wait_of(p, at_s);
    size_t n = json_array_size(waits), at = n;
    json_t *o;

    while (at > 0 && json_get_u64(json_array_get(waits, at - 1), "wait", 0) <
           wait)
        at--;
    if (at == LEDGER_WAITS || wait == 0)
        return;
    o = json_object();
    json_put_str(o, "pod", p->key);
    json_put_u64(o, "devices", p->gpus);
    put_time(o, "since", p->created_s);
    json_put_u64(o, "wait", wait);
    json_put_u64(o, "fits", p->shape->fitted_s - p->fitted_s);
    if (p->is == STAGE_WAITING && p->told == STAGE_WAITING)
        json_put_bool(o, "going", true);
    json_put_str(o, "why", p->why);
    (void) json_array_insert_new(waits, at, o);
    if (n == LEDGER_WAITS)
        (void) json_array_remove(waits, n);
}

/* ---- pods ---- */

static void wait_begin(struct ledger *l, struct pod *p)
{
    struct shape *s = p->shape;

    if (s->waiting++ == 0) {
        s->at = NULL;
        s->fresh = true;
    }
    p->fitted_s = s->fitted_s;
    tally_asked(l->tally, p->space, (int64_t) p->gpus);
    l->stirred = true;
}

static void wait_end(struct ledger *l, struct pod *p, bool starts,
                     uint64_t at_s)
{
    p->shape->waiting--;
    tally_asked(l->tally, p->space, -(int64_t) p->gpus);
    l->stirred = true;
    if (p->gpus && l->seeing) {
        wait_offer(l->waits, p, at_s);
        if (starts)
            tally_started(l->tally, wait_of(p, at_s));
    }
}

bool job_add(struct buf *jobs, const struct pod *p, uint64_t ended_s)
{
    size_t space = strspn(p->key, "abcdefghijklmnopqrstuvwxyz0123456789-.");

    return p->key[space] == '/' &&
           buf_printf(jobs, "%.*s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                      " %" PRIu64 "\n", (int) space, p->key, p->gpus,
                      p->takes.cpu_milli, p->created_s, p->held_s, ended_s);
}

static void hold_end(struct ledger *l, struct pod *p, uint64_t at_s)
{
    bool counts = p->gpus && l->seeing && at_s > l->begun_s;

    if (counts && l->njobs < LEDGER_JOBS && job_add(&l->jobs, p, at_s))
        l->njobs++;
    else if (counts)
        l->left_out++;
    pod_count(l, take(p->place), p, -1);
}

void ledger_pod_step(struct ledger *l, struct pod *p, enum stage to,
                     uint64_t at_s)
{
    if (to <= p->is)
        return;
    if (p->is == STAGE_WAITING)
        wait_end(l, p, to == STAGE_HELD, at_s);
    else if (p->is == STAGE_HELD)
        hold_end(l, p, at_s);
    p->is = to;
    if (to == STAGE_WAITING) {
        wait_begin(l, p);
        return;
    }
    shape_leave(l, p);
    if (to == STAGE_HELD) {
        p->held_s = at_s;
        p->place = place_get(l, p->node);
        pod_count(l, p->place, p, 1);
    } else {
        resources_clear(&p->takes);
    }
}

void pod_free(struct ledger *l, struct pod *p)
{
    shape_leave(l, p);
    resources_clear(&p->takes);
    free(p->id);
    free(p->key);
    free(p->node);
    free(p->why);
    free(p);
}
