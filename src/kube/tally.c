#include "kube/tally.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct shares {
    uint64_t used, waste, idle_frag, idle_nodemand;
};

struct model {
    char *name;
    int64_t held, idle;                /* now */
    struct shares sum;
};

/* So many since `at_s`, and `sum` up to there. */
struct run {
    int64_t now;
    uint64_t at_s, sum;
};

struct space {
    char *name;
    struct run *held;                  /* by model */
    uint32_t nheld;
    struct run cpus, asked;
};

struct tally {
    struct map *by_model, *by_space;   /* to the number + 1 */
    struct model *models;
    struct space *spaces;
    uint32_t nmodels, nspaces;
    int64_t asked, cpus_held, cpus_idle;
    enum tally_demand devices, cpus;
    uint64_t from_s, now_s;
    struct shares cpu_sum;
    uint64_t asked_sum, starts, start_waits;
};

struct tally *tally_new(void)
{
    struct tally *t = mem_new(sizeof *t);

    t->by_model = map_new();
    t->by_space = map_new();
    return t;
}

void tally_free(struct tally *t)
{
    if (!t)
        return;
    for (uint32_t k = 0; k < t->nmodels; k++)
        free(t->models[k].name);
    for (uint32_t k = 0; k < t->nspaces; k++) {
        free(t->spaces[k].name);
        free(t->spaces[k].held);
    }
    free(t->models);
    free(t->spaces);
    map_free(t->by_model);
    map_free(t->by_space);
    free(t);
}

uint32_t tally_model(struct tally *t, const char *name)
{
    uintptr_t at = (uintptr_t) map_get(t->by_model, name);

    if (at == 0) {
        t->models = mem_more(t->models, t->nmodels, sizeof *t->models);
        t->models[t->nmodels++] = (struct model) { .name = mem_str(name) };
        at = t->nmodels;
        (void) map_set(t->by_model, name, (void *) at);
    }
    return (uint32_t) at - 1;
}

uint32_t tally_space(struct tally *t, const char *name)
{
    uintptr_t at = (uintptr_t) map_get(t->by_space, name);

    if (at == 0) {
        t->spaces = mem_more(t->spaces, t->nspaces, sizeof *t->spaces);
        t->spaces[t->nspaces++] = (struct space) { .name = mem_str(name) };
        at = t->nspaces;
        (void) map_set(t->by_space, name, (void *) at);
    }
    return (uint32_t) at - 1;
}

/* ---- runs ---- */

static uint64_t product(int64_t many, uint64_t seconds)
{
    return many > 0 ? (uint64_t) many * seconds : 0;
}

static uint64_t run_sum(const struct run *r, uint64_t now_s)
{
    return r->sum + product(r->now, now_s - r->at_s);
}

static void run_add(struct run *r, uint64_t now_s, int64_t more)
{
    r->sum = run_sum(r, now_s);
    r->at_s = now_s;
    r->now += more;
}

static void run_clear(struct run *r, uint64_t now_s)
{
    r->sum = 0;
    r->at_s = now_s;
}

/* ---- time ---- */

void tally_begin(struct tally *t, uint64_t at_s)
{
    t->now_s = at_s;
    tally_clear(t);
}

static void count(struct shares *s, int64_t held, int64_t idle,
                  enum tally_demand demand, uint64_t seconds)
{
    uint64_t *to = demand == TALLY_NONE ? &s->idle_nodemand :
                   demand == TALLY_STUCK ? &s->idle_frag : &s->waste;

    s->used += product(held, seconds);
    *to += product(idle, seconds);
}

void tally_advance(struct tally *t, uint64_t at_s)
{
    uint64_t seconds = at_s > t->now_s ? at_s - t->now_s : 0;
    int64_t idle = 0;

    for (uint32_t k = 0; k < t->nmodels; k++) {
        struct model *m = &t->models[k];

        count(&m->sum, m->held, m->idle, t->devices, seconds);
        idle += m->idle;
    }
    count(&t->cpu_sum, t->cpus_held, t->cpus_idle, t->cpus, seconds);
    if (t->devices != TALLY_NONE)
        t->asked_sum += product(idle < t->asked ? idle : t->asked, seconds);
    t->now_s += seconds;
}

/* ---- what changes ---- */

void tally_idle(struct tally *t, uint32_t model, int64_t devices)
{
    t->models[model].idle += devices;
}

void tally_idle_cpus(struct tally *t, int64_t milli)
{
    t->cpus_idle += milli;
}

void tally_held(struct tally *t, uint32_t space, uint32_t model,
                int64_t devices, int64_t cpus_milli)
{
    struct space *s = &t->spaces[space];

    if (model >= s->nheld) {
        s->held = mem_grow(s->held, model + 1, sizeof *s->held);
        while (s->nheld <= model)
            s->held[s->nheld++] = (struct run) { .at_s = t->now_s };
    }
    run_add(&s->held[model], t->now_s, devices);
    run_add(&s->cpus, t->now_s, cpus_milli);
    t->models[model].held += devices;
    t->cpus_held += cpus_milli;
}

void tally_asked(struct tally *t, uint32_t space, int64_t devices)
{
    run_add(&t->spaces[space].asked, t->now_s, devices);
    t->asked += devices;
}

void tally_demand(struct tally *t, enum tally_demand devices,
                  enum tally_demand cpus)
{
    t->devices = devices;
    t->cpus = cpus;
}

void tally_started(struct tally *t, uint64_t wait_s)
{
    t->starts++;
    t->start_waits += wait_s;
}

/* ---- rows ---- */

static void put_shares(json_t *o, const struct shares *s)
{
    json_put_u64(o, "used", s->used);
    json_put_u64(o, "waste", s->waste);
    json_put_u64(o, "idle_frag", s->idle_frag);
    json_put_u64(o, "idle_nodemand", s->idle_nodemand);
}

static json_t *models_json(const struct tally *t)
{
    json_t *list = json_array();

    for (uint32_t k = 0; k < t->nmodels; k++) {
        const struct shares *s = &t->models[k].sum;
        json_t *o;

        if (s->used + s->waste + s->idle_frag + s->idle_nodemand == 0)
            continue;
        o = json_object();
        json_put_str(o, "model", t->models[k].name);
        put_shares(o, s);
        (void) json_array_append_new(list, o);
    }
    return list;
}

/* What it held and waited for, added to what `o` has. */
static void add_space(const struct tally *t, const struct space *s, json_t *o)
{
    json_t *devices = json_object_get(o, "devices");

    for (uint32_t k = 0; k < s->nheld; k++) {
        uint64_t held = run_sum(&s->held[k], t->now_s);
        const char *model = t->models[k].name;

        if (held)
            json_put_u64(devices, model,
                         json_get_u64(devices, model, 0) + held);
    }
    json_put_u64(o, "cpus", json_get_u64(o, "cpus", 0) +
                 run_sum(&s->cpus, t->now_s));
    json_put_u64(o, "waited", json_get_u64(o, "waited", 0) +
                 run_sum(&s->asked, t->now_s));
}

static json_t *space_json(const char *name)
{
    json_t *o = json_object();

    json_put_str(o, "name", name);
    json_put(o, "devices", json_object());
    return o;
}

/* Those that have devices come first, so that they are not among the rest. */
static uint64_t weight(const struct tally *t, const struct space *s)
{
    uint64_t sum = run_sum(&s->asked, t->now_s);

    for (uint32_t k = 0; k < s->nheld; k++)
        sum += run_sum(&s->held[k], t->now_s);
    return sum > UINT64_MAX >> 20 ? UINT64_MAX :
           (sum << 20) + (run_sum(&s->cpus, t->now_s) >> 20);
}

struct weighed {
    const struct space *space;
    uint64_t weight;
};

static int by_weight(const void *va, const void *vb)
{
    const struct weighed *a = va, *b = vb;

    if (a->weight != b->weight)
        return a->weight < b->weight ? 1 : -1;
    return strcmp(a->space->name, b->space->name);
}

static bool is_idle(const struct tally *t, const struct space *s)
{
    return weight(t, s) == 0 && run_sum(&s->cpus, t->now_s) == 0;
}

static json_t *spaces_json(const struct tally *t)
{
    autofree struct weighed *all = mem_array(t->nspaces + 1, sizeof *all);
    json_t *list = json_array(), *rest = NULL;
    size_t n = 0;

    for (uint32_t k = 0; k < t->nspaces; k++)
        if (!is_idle(t, &t->spaces[k]))
            all[n++] = (struct weighed) { &t->spaces[k],
                                          weight(t, &t->spaces[k]) };
    qsort(all, n, sizeof *all, by_weight);
    for (size_t i = 0; i < n; i++) {
        json_t *o = i < TALLY_SPACES ? space_json(all[i].space->name) : rest;

        if (!o)
            o = rest = space_json(TALLY_REST);
        add_space(t, all[i].space, o);
        if (i <= TALLY_SPACES)
            (void) json_array_append_new(list, o);
    }
    return list;
}

static void put_time(json_t *o, const char *key, uint64_t s)
{
    char text[32];

    clock_print(s * 1000, text, sizeof text);
    json_put_str(o, key, text);
}

json_t *tally_row(const struct tally *t)
{
    json_t *o = json_object(), *cpus = json_object();

    put_time(o, "from", t->from_s);
    put_time(o, "to", t->now_s);
    json_put(o, "devices", models_json(t));
    put_shares(cpus, &t->cpu_sum);
    json_put(o, "cpus", cpus);
    json_put_u64(o, "asked", t->asked_sum);
    json_put(o, "namespaces", spaces_json(t));
    json_put_u64(o, "starts", t->starts);
    json_put_u64(o, "start_waits", t->start_waits);
    return o;
}

void tally_clear(struct tally *t)
{
    for (uint32_t k = 0; k < t->nmodels; k++)
        t->models[k].sum = (struct shares) { 0 };
    for (uint32_t k = 0; k < t->nspaces; k++) {
        struct space *s = &t->spaces[k];

        for (uint32_t m = 0; m < s->nheld; m++)
            run_clear(&s->held[m], t->now_s);
        run_clear(&s->cpus, t->now_s);
        run_clear(&s->asked, t->now_s);
    }
    t->cpu_sum = (struct shares) { 0 };
    t->asked_sum = t->starts = t->start_waits = 0;
    t->from_s = t->now_s;
}
