#include "control/leases.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "plan/policy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Processes that use devices otherwise than a lease says, as runners tell (see
 * runner/stray.c).  Each that comes and each that goes is an event.  By policy
 * a task that has one is ended; a process that is nobody's never is.
 *
 * In memory alone: after a start they are told, and journalled, anew.  Devices
 * that the block does not have are not ours to judge.  A task that only stands
 * ready has no lease to end: of that one it is noted alone.
 */
struct stray {
    const char *block;
    const json_t *told;                /* of the wire */
    const char *kind, *uuid;
    struct lease_key key;
    uint32_t gen;
    const struct task *task;           /* NULL: nobody's */
};

static bool has_device(const struct block *b, const char *uuid)
{
    for (uint32_t i = 0; b && i < b->ndevices; i++)
        if (strcmp(b->devices[i].uuid, uuid) == 0)
            return true;
    return false;
}

/* False: it is none that counts here. */
static bool stray_read(const struct control *c, const char *block,
                       const json_t *told, struct stray *ret)
{
    const char *key = json_get_str(told, "key", "");
    const struct workload *wl;

    *ret = (struct stray) {
        .block = block, .told = told, .kind = json_get_str(told, "kind", ""),
        .uuid = json_get_str(told, "uuid", ""),
        .gen = (uint32_t) json_get_u64(told, "gen", 0),
    };
    if (!has_device(world_block(c->world, block), ret->uuid))
        return false;
    if (!*key)
        return strcmp(ret->kind, "stranger") == 0;
    if (lease_key_parse(key, &ret->key, NULL) < 0)
        return false;
    wl = world_workload(c->world, ret->key.workload);
    if (!wl || ret->key.task >= wl->spec->ntasks)
        return false;
    ret->task = &wl->tasks[ret->key.task];
    return true;
}

static char *name_of(const struct stray *s)
{
    bool together = strcmp(s->kind, "memory") == 0;

    return mem_printf("%s %s#%" PRIu32 " %s %" PRIu64, s->kind,
                      json_get_str(s->told, "key", ""), s->gen, s->uuid,
                      together ? 0 : json_get_u64(s->told, "pid", 0));
}

static const char *meaning(const char *kind)
{
    static const struct { const char *kind, *text; } all[] = {
        { "device", "a device that its lease has not" },
        { "staged", "its device, and only stands ready for it" },
        { "suspended", "its device, and is suspended" },
        { "memory", "its device, which is beyond its limit" },
        { "stranger", "a device, and is no task's" },
    };

    for (size_t i = 0; i < array_size(all); i++)
        if (strcmp(all[i].kind, kind) == 0)
            return all[i].text;
    return "a device, as it should not";
}

/* "process 12 (python) has 512 MiB on a device that its lease has not". */
static json_t *evidence(const struct stray *s)
{
    static const char *const kept[] = { "kind", "uuid", "pid", "comm", "bytes",
                                        "limit", "processes" };
    uint64_t n = json_get_u64(s->told, "processes", 1);
    json_t *o = json_object();
    char more[48] = "";

    for (size_t i = 0; i < array_size(kept); i++) {
        json_t *v = json_object_get(s->told, kept[i]);

        if (v)
            (void) json_object_set(o, kept[i], v);
    }
    if (n > 1)
        (void) snprintf(more, sizeof more, " and %" PRIu64 " others", n - 1);
    json_put(o, "text", json_sprintf(
        "process %" JSON_INTEGER_FORMAT " (%s)%s: %" PRIu64 " MiB on %s",
        json_integer_value(json_object_get(s->told, "pid")),
        json_get_str(s->told, "comm", "?"), more,
        json_get_u64(s->told, "bytes", 0) >> 20, meaning(s->kind)));
    return o;
}

/* `data` is borrowed. */
static bool tell(struct control *c, const char *block, const json_t *data,
                 const char *state)
{
    const json_t *of = json_object_get(data, "of");
    struct err err = { 0 };
    struct event e;
    int rc;

    event_init(&e, EVENT_DEVICE_STRAY);
    (void) snprintf(e.block, sizeof e.block, "%s", block);
    (void) snprintf(e.who, sizeof e.who, "runner:%s", block);
    e.workload = json_get_u64(of, "workload", 0);
    e.task = (uint32_t) json_get_u64(of, "task", 0);
    e.rank = (uint32_t) json_get_u64(of, "rank", 0);
    e.gen = (uint32_t) json_get_u64(of, "gen", 0);
    e.data = json_deep_copy(data);
    (void) json_object_del(e.data, "of");
    json_put_str(e.data, "state", state);
    rc = journal_event(c, &e, NULL, NULL, &err);
    if (rc < 0)
        log_say(LOG_WARN, "a stray process is not journalled", "block", block,
                "error", err.text, NULL);
    return rc == 0;
}

static json_t *of_task(const struct stray *s)
{
    json_t *o = json_object();

    json_put_u64(o, "workload", s->key.workload);
    json_put_u64(o, "task", s->key.task);
    json_put_u64(o, "rank", s->key.rank);
    json_put_u64(o, "gen", s->gen);
    return o;
}

/* What it has changes all the time: that is no event, and is shown. */
static void found(struct control *c, const struct stray *s, json_t *all,
                  const char *name)
{
    const json_t *had = json_object_get(all, name);
    autojson json_t *data = evidence(s);
    char since[32];

    clock_print(control_now(c), since, sizeof since);
    json_put_str(data, "since", json_get_str(had, "since", since));
    if (s->task)
        json_put(data, "of", of_task(s));
    if (had || tell(c, s->block, data, "found"))
        (void) json_object_set(all, name, data);
}

static void stop(struct control *c, const struct stray *s)
{
    const struct lease *l = leases_find(c, &s->key, s->gen);
    struct err err = { 0 };
    struct event e;

    if (world_policy(c->world)->stray != STRAY_STOP || !l || leases_over(l) ||
        l->task->stopping || l->task->workload->quarantined ||
        strcmp(l->block->id, s->block) != 0)
        return;
    event_init(&e, EVENT_STOPPING);
    e.workload = s->key.workload;
    e.task = s->key.task;
    e.gen = s->gen;
    e.cause = SPEC_CAUSE_STRAY;
    if (journal_event(c, &e, NULL, NULL, &err) < 0)
        log_say(LOG_WARN, "a task that strays is not stopped", "error",
                err.text, NULL);
}

static json_t *block_strays(struct control *c, const char *block)
{
    json_t *all = json_object_get(c->strays, block);

    if (all)
        return all;
    if (!c->strays)
        c->strays = json_object();
    all = json_object();
    json_put(c->strays, block, all);
    return all;
}

void stray_take(struct control *c, const char *block,
                const struct wire_msg *m)
{
    json_t *all, *had, *told;
    autojson json_t *now = json_object();
    const char *name;
    struct stray s;
    void *next;
    size_t i;

    if (!m->strays || c->trouble[0])   /* they are told again */
        return;
    all = block_strays(c, block);
    json_array_foreach(m->strays, i, told) {
        autofree char *of = NULL;

        if (!stray_read(c, block, told, &s))
            continue;
        of = name_of(&s);
        json_put_bool(now, of, true);
        found(c, &s, all, of);
        if (s.task)
            stop(c, &s);
    }
    json_object_foreach_safe(all, next, name, had)
        if (!json_object_get(now, name) && tell(c, block, had, "gone"))
            (void) json_object_del(all, name);
}

const json_t *stray_find(const char *block, void *arg)
{
    const struct control *c = arg;

    return json_object_get(c->strays, block);
}
