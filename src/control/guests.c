#include "control/guests_int.h"

#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "control/leases.h"
#include "engine/engine.h"
#include "store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Guests and their workloads.
 *
 *   the engine says   the world has        then
 *   it waits          nothing of it        submit it (of a gang: once all wait)
 *   it waits          a task that ended    it is not to run any more: drop it
 *   it is gone        a task that waits    abort that
 *   (nothing)         a task that waits    abort that, once all were told
 *
 * What was submitted says so itself (its task has the uid) and by the key
 * "pod:POOL:UID", also when it has ended: a relist or a restart submits nothing
 * a second time.  What is refused for now is tried again every AGAIN_MS.
 */
enum { AGAIN_MS = 5000, NAME_CUT = 100 };

static struct guests *guests_of(struct control *c)
{
    if (!c->guests) {
        c->guests = mem_new(sizeof *c->guests);
        c->guests->c = c;
        c->guests->all = map_new();
        c->guests->tasks = map_new();
        c->guests->gangs = map_new();
        guests_again(c);
    }
    return c->guests;
}

static uint64_t task_id(uint64_t workload, uint32_t task)
{
    return workload << 17 | task;      /* SPEC_MAX_TASKS is less than that */
}

/* ---- those that there are ---- */

static struct guest *guest_get(struct guests *all, const char *uid)
{
    struct guest *g = map_get(all->all, uid);

    if (g)
        return g;
    g = mem_new(sizeof *g);
    g->uid = mem_str(uid);
    (void) map_set(all->all, g->uid, g);
    return g;
}

static void gang_leave(struct guests *all, struct guest *g)
{
    struct gang *of = take(g->gang);
    uint32_t i = 0;

    if (!of)
        return;
    while (of->list[i] != g)
        i++;
    memmove(&of->list[i], &of->list[i + 1],
            (of->count - i - 1) * sizeof(*of->list));
    if (--of->count > 0)
        return;
    (void) map_del(all->gangs, of->name);
    free(of->name);
    free(of->list);
    free(of);
}

static void set_stuck(struct guests *all, struct guest *g, bool stuck)
{
    if (g->stuck != stuck)
        all->stuck += stuck ? 1 : SIZE_MAX;
    g->stuck = stuck;
}

static void guest_free(struct guests *all, struct guest *g)
{
    gang_leave(all, g);
    set_stuck(all, g, false);
    guest_look_not(all, g);
    if (g->workload)
        (void) map_del_id(all->tasks, task_id(g->workload, g->task));
    (void) map_del(all->all, g->uid);
    json_decref(g->told);
    free(g->uid);
    free(g);
}

static void guest_join(struct guests *all, struct guest *g, uint64_t workload,
                       uint32_t task)
{
    gang_leave(all, g);
    set_stuck(all, g, false);
    g->workload = workload;
    g->task = task;
    (void) map_set_id(all->tasks, task_id(workload, task), g);
}

static struct task *task_of(const struct guests *all, const struct guest *g)
{
    struct workload *wl = g->workload ? world_workload(all->c->world,
                                                       g->workload) : NULL;

    return wl && g->task < wl->spec->ntasks ? &wl->tasks[g->task] : NULL;
}

/* ---- submit ---- */

static const char *text_in(struct spec *s, const char *text)
{
    return text ? spec_str(s, text, strlen(text)) : NULL;
}

static void set_nodes(struct spec *s, struct spec_task *t, json_t *nodes)
{
    struct spec_pair *list = spec_alloc(s, (json_object_size(nodes) + 1) *
                                           sizeof *list);
    json_t *value;
    const char *key;

    json_object_foreach(nodes, key, value) {
        list[t->nnodes].key = text_in(s, key);
        list[t->nnodes++].value = text_in(s, json_string_value(value));
    }
    t->nodes = list;
}

static void set_task(struct spec *s, struct spec_task *t,
                     const struct guest *g)
{
    const json_t *o = g->told;
    const char *name = json_get_str(o, "name", "");
    uint64_t cpus = json_get_u64(o, "cpus_milli", 0);
    autofree char *pod = mem_printf("%s/%s", json_get_str(o, "namespace", ""),
                                    name);
    autofree char *cut = mem_printf("%.*s", NAME_CUT, name);

    spec_task_init(t);
    t->name = text_in(s, cut);
    t->guest_pool = text_in(s, g->of->name);
    t->guest_pod = text_in(s, pod);
    t->guest_uid = text_in(s, g->uid);
    t->cpu_milli = cpus > UINT32_MAX ? UINT32_MAX : cpus ? (uint32_t) cpus : 1;
    t->memory = json_get_u64(o, "memory", 0);
    t->gpu_milli = (uint32_t) json_get_u64(o, "gpus", 0) * 1000;
    t->stop_grace_ms = json_get_u64(o, "grace_ms", SPEC_GRACE_MS);
    set_nodes(s, t, json_object_get(o, "nodes"));
}

/* Names of two pods may be the same once they are cut. */
static void number_names(struct spec *s)
{
    for (uint32_t i = 0; s->ntasks > 1 && i < s->ntasks; i++) {
        autofree char *name = mem_printf("%s-%" PRIu32, s->tasks[i].name, i);

        s->tasks[i].name = text_in(s, name);
        s->tasks[i].together = 1;
    }
}

static struct spec *spec_of(struct guest *const *list, uint32_t n)
{
    const json_t *o = list[0]->told;
    autofree char *name = mem_printf("%.*s", NAME_CUT, json_get_str(
        o, "workload", json_get_str(o, "gang", json_get_str(o, "of", ""))));
    struct spec *s = spec_new();

    s->kind = n == 1 ? SPEC_JOB : SPEC_PIPELINE;
    s->name = text_in(s, name);
    s->priority = (int) json_integer_value(json_object_get(o, "priority"));
    s->tasks = spec_alloc(s, n * sizeof *s->tasks);
    s->ntasks = n;
    for (uint32_t i = 0; i < n; i++)
        set_task(s, &s->tasks[i], list[i]);
    number_names(s);
    return s;
}

static void event_of(struct control *c, struct event *e,
                     struct guest *const *list, uint32_t n)
{
    const struct guest *g = list[0];

    event_init(e, EVENT_SUBMITTED);
    e->workload = world_next_workload(c->world);
    (void) snprintf(e->who, sizeof e->who, "pool:%s", g->of->name);
    (void) snprintf(e->tenant, sizeof e->tenant, "%s",
                    json_get_str(g->told, "tenant", "default"));
    (void) snprintf(e->key, sizeof e->key, "pod:%s:%s", g->of->name, g->uid);
    (void) snprintf(e->user.name, sizeof e->user.name, "%s",
                    json_get_str(g->told, "namespace", ""));
    e->user.uid = e->user.gid = GUEST_USER;
    e->spec = spec_of(list, n);
}

static void on_again(struct watch *w, void *arg);

static void refuse(struct guests *all, struct guest *const *list, uint32_t n,
                   const char *why)
{
    autofree char *text = mem_printf("Weir does not take it: %s.", why);

    for (uint32_t i = 0; i < n; i++) {
        set_stuck(all, list[i], true);
        guest_say(all, list[i], "refused", text, true);
    }
    if (!all->again)
        all->again = loop_timer(all->c->loop, AGAIN_MS, on_again, all);
}

/* Was it, and is it over?  Then it is not to run, whatever came between. */
static bool has_ended(const struct guests *all, const struct guest *g)
{
    autofree char *who = mem_printf("pool:%s", g->of->name);
    autofree char *key = mem_printf("pod:%s:%s", g->of->name, g->uid);
    char hash[65];
    uint64_t id;

    return store_find_key(all->c->store, who, key, &id, hash, NULL) == 0 &&
           !world_workload(all->c->world, id);
}

static int submit(struct guests *all, struct guest *const *list, uint32_t n,
                  struct err *err)
{
    struct control *c = all->c;
    struct event e;
    uint64_t id;
    int rc;

    event_of(c, &e, list, n);
    id = e.workload;
    rc = spec_check(e.spec, err);
    if (rc < 0)
        event_clear(&e);
    else
        rc = journal_event(c, &e, NULL, NULL, err);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        guest_join(all, list[i], id, i);
        guest_look(all, list[i]);
    }
    return rc;
}

static void try(struct guests *all, struct guest *const *list, uint32_t n)
{
    autofree struct guest **own = mem_array(n, sizeof(*own));
    struct err err = { 0 };

    memcpy(own, list, n * sizeof(*own));           /* a gang is let go by it */
    if (has_ended(all, own[0])) {
        for (uint32_t i = 0; i < n; i++)
            guest_drop(own[i]);
        return;
    }
    if (submit(all, own, n, &err) < 0)
        refuse(all, own, n, err.text);
}

/* ---- gangs ---- */

static int by_uid(const void *a, const void *b)
{
    const struct guest *const *x = a, *const *y = b;

    return strcmp((*x)->uid, (*y)->uid);
}

static void gang_look(struct guests *all, const struct gang *of)
{
    if (of->count != of->size)
        return;
    qsort(of->list, of->count, sizeof(*of->list), by_uid);
    try(all, of->list, of->count);
}

static void gang_join(struct guests *all, struct guest *g)
{
    uint32_t size = (uint32_t) json_get_u64(g->told, "gang-size", 1);
    autofree char *name = mem_printf("%s/%s/%s/%" PRIu32, g->of->name,
                                     json_get_str(g->told, "namespace", ""),
                                     json_get_str(g->told, "gang", ""), size);
    struct gang *of = map_get(all->gangs, name);

    if (of && of->count == of->size)   /* refused, and tried again by itself */
        return;
    if (!of) {
        of = mem_new(sizeof *of);
        of->name = take(name);
        of->size = size;
        (void) map_set(all->gangs, of->name, of);
    }
    of->list = mem_grow(of->list, of->count + 1, sizeof(*of->list));
    of->list[of->count++] = g;
    g->gang = of;
    guest_look(all, g);
    gang_look(all, of);
}

static void consider(struct guests *all, struct guest *g)
{
    if (g->workload || g->gone || !g->told || !g->of)
        return;
    if (g->gang)
        gang_look(all, g->gang);
    else if (json_object_get(g->told, "gang"))
        gang_join(all, g);
    else
        try(all, &g, 1);
}

static void on_again(struct watch *w, void *arg)
{
    struct guests *all = arg;
    autofree struct guest **list = mem_array(all->stuck + 1, sizeof(*list));
    struct guest *g;
    size_t n = 0, pos = 0;

    (void) w;
    all->again = NULL;
    while ((g = map_next(all->all, &pos, NULL)))
        if (g->stuck)
            list[n++] = g;
    for (size_t i = 0; i < n; i++)     /* a gang's first one tries for all */
        if (list[i]->stuck && (!list[i]->gang ||
                               list[i]->gang->list[0] == list[i]))
            consider(all, list[i]);
    if (all->stuck && !all->again)
        all->again = loop_timer(all->c->loop, AGAIN_MS, on_again, all);
}

/* ---- what engines say ---- */

void guests_came(const json_t *guest, void *arg)
{
    struct reached *r = arg;
    struct guests *all = guests_of(r->c);
    struct guest *g;

    if (r->close)
        return;
    g = guest_get(all, json_get_str(guest, "uid", ""));
    if (g->told)
        return;
    g->of = r;
    g->told = json_deep_copy(guest);
    g->gone = false;
    if (task_of(all, g))
        guest_look(all, g);
    else
        consider(all, g);
}

/* The pod is gone, and its task waits for a place: nobody is there to have it. */
static void abandon(struct guests *all, const struct guest *g)
{
    const struct task *t = task_of(all, g);
    struct err err = { 0 };
    struct event e;

    if (!t || t->state != TASK_WAITING || t->aborting || t->workload->aborting)
        return;
    event_init(&e, EVENT_ABORTING);
    e.workload = g->workload;
    e.task = g->task;
    if (journal_event(all->c, &e, NULL, NULL, &err) < 0)
        log_say(LOG_WARN, "a pod is gone, and its task cannot be ended",
                "error", err.text, NULL);
}

void guests_gone(const char *uid, void *arg)
{
    struct reached *r = arg;
    struct guests *all = guests_of(r->c);
    struct guest *g = map_get(all->all, uid);

    if (!g)
        return;
    g->gone = true;
    gang_leave(all, g);
    set_stuck(all, g, false);
    guest_look_not(all, g);
    if (task_of(all, g))
        abandon(all, g);
    else
        guest_free(all, g);
}

void guests_told(void *arg)
{
    struct reached *r = arg;
    struct guests *all = guests_of(r->c);
    const struct guest *g;
    const char *uid;
    size_t pos = 0;

    while ((g = map_next(all->all, &pos, &uid))) {
        const struct task *t = g->told ? NULL : task_of(all, g);

        if (t && strcmp(t->spec->guest_pool, r->name) == 0)
            abandon(all, g);
    }
}

/* ---- what follows in the world ---- */

void guests_act(struct control *c, const struct effect *f)
{
    struct guests *all = c->guests;
    struct guest *g = all ? map_get_id(all->tasks, task_id(f->workload,
                                                           f->task)) : NULL;

    if (!g)
        return;
    if (f->type == EVENT_RETRYING && (g->gone || !g->told)) {
        abandon(all, g);
    } else if (f->type == EVENT_RETRYING) {
        guest_look(all, g);
    } else if (f->type == EVENT_PLANNED) {
        guest_look_not(all, g);
    } else if (f->type == EVENT_TASK_ENDED) {
        guest_look_not(all, g);
        if (g->told && !g->gone)
            guest_drop(g);
        (void) map_del_id(all->tasks, task_id(f->workload, f->task));
        if (g->gone || !g->told) {
            g->workload = 0;
            guest_free(all, g);
        }
    }
}

static void find_tasks(struct guests *all, const struct workload *wl)
{
    for (uint32_t i = 0; i < wl->spec->ntasks; i++)
        if (wl->spec->tasks[i].guest_uid &&
            wl->tasks[i].state != TASK_ENDED)
            guest_join(all, guest_get(all, wl->spec->tasks[i].guest_uid),
                       wl->id, i);
}

/* What was not durable was never submitted. */
void guests_again(struct control *c)
{
    struct guests *all = c->guests;
    const struct workload *wl;
    autofree struct guest **list = NULL;
    struct guest *g;
    size_t pos = 0, n = 0;

    if (!all)
        return;
    map_free(all->tasks);
    all->tasks = map_new();
    list = mem_array(map_count(all->all) + 1, sizeof(*list));
    while ((g = map_next(all->all, &pos, NULL))) {
        g->workload = 0;
        list[n++] = g;
    }
    for (pos = 0; (wl = world_next(c->world, &pos));)
        find_tasks(all, wl);
    for (size_t i = 0; i < n; i++)
        if (list[i]->workload == 0 && list[i]->gone)
            guest_free(all, list[i]);
        else if (!list[i]->gang)
            consider(all, list[i]);
}

void guests_leave(struct control *c, const struct reached *of)
{
    const struct guest *g;
    size_t pos = 0;

    while (c->guests && (g = map_next(c->guests->all, &pos, NULL)))
        if (g->of == of)
            abandon(c->guests, g);
}

void guests_forget(struct control *c, const struct reached *of)
{
    struct guests *all = c->guests;
    autofree struct guest **list = NULL;
    struct guest *g;
    size_t pos = 0, n = 0;

    if (!all)
        return;
    list = mem_array(map_count(all->all) + 1, sizeof(*list));
    while ((g = map_next(all->all, &pos, NULL)))
        if (g->of == of)
            list[n++] = g;
    for (size_t i = 0; i < n; i++) {
        g = list[i];
        gang_leave(all, g);
        set_stuck(all, g, false);
        guest_look_not(all, g);
        json_decref(take(g->told));
        g->of = NULL;
        if (!task_of(all, g))
            guest_free(all, g);
    }
}

void guests_close(struct control *c)
{
    struct guests *all = c->guests;
    struct guest *g;
    size_t pos = 0;

    if (!all)
        return;
    for (; (g = map_next(all->all, &pos, NULL)); pos = 0)
        guest_free(all, g);
    map_free(all->all);
    map_free(all->tasks);
    map_free(all->gangs);
    watch_remove(all->look);
    watch_remove(all->again);
    free(take(c->guests));
}
