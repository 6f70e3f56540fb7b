#include "engine/fake/fake.h"

#include "base/err.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runners that have one lease each, and what those print.  They live and die
 * with the engine: one whose task may have begun, and is not there, is lost.
 */
static void alone_free(struct runner *r)
{
    (void) map_del(r->engine->alone, r->name);
    runner_free(r);
}

static void on_over(struct watch *w, void *arg)
{
    struct runner *r = arg;
    const struct fake *e = r->engine;
    enum spec_cause cause = r->cause;
    const char *why = r->why;
    autofree char *name = mem_str(r->name);

    (void) w;
    r->over = NULL;
    alone_free(r);
    e->events->lease_over(name, cause, 0, why, e->arg);
}

void runner_over(struct runner *r, enum spec_cause cause, const char *why)
{
    r->cause = cause;
    r->why = why;
    r->given = true;
    runner_hang_up(r);
    if (!r->over)
        r->over = loop_timer(r->engine->loop, 0, on_over, r);
}

int fake_apart_start(struct engine *base, const struct engine_lease *l,
                     struct err *err)
{
    struct fake *e = (struct fake *) base;
    const struct lies *lies = &e->lies;
    struct runner *r = map_get(e->alone, l->runner);

    (void) err;
    if (r)
        return 0;
    r = runner_new(e, l->runner, l->token);
    (void) map_set(e->alone, r->name, r);
    r->number = l->begun ? 0 : ++e->starts;
    r->stays = !l->begun && fake_lies_at(lies->stay, r->number);
    if (l->begun)
        runner_over(r, SPEC_CAUSE_LOST, "its runner is not there any more");
    else if (fake_lies_at(lies->refuse, r->number))
        runner_over(r, SPEC_CAUSE_REFUSED, "a quota has no room for it");
    else if (fake_lies_at(lies->image, r->number))
        runner_over(r, SPEC_CAUSE_IMAGE, "its image cannot be pulled");
    else if (fake_lies_at(lies->taken, r->number))
        runner_over(r, SPEC_CAUSE_TAKEN, "its devices are another's");
    else if (!fake_lies_at(lies->never, r->number))
        runner_dial(r);
    return 0;
}

int fake_apart_stop(struct engine *base, const char *runner, struct err *err)
{
    struct runner *r = map_get(((struct fake *) base)->alone, runner);

    (void) err;
    if (r && r->stays) {
        r->stays = r->given = false;
        runner_hang_up(r);
    } else if (r) {
        alone_free(r);
    }
    return 0;
}

json_t *fake_apart_find(struct engine *base)
{
    const struct fake *e = (struct fake *) base;
    json_t *list = json_array();
    const char *name;
    size_t pos = 0;

    while (map_next(e->alone, &pos, &name))
        (void) json_array_append_new(list, json_string(name));
    return list;
}

/* ---- logs ---- */

struct log {
    uint64_t workload, start, end;
    char *bytes;                       /* from `start` to `end` */
};

static void log_name(const char *key, uint32_t gen, uint64_t epoch, char *buf,
                     size_t size)
{
    (void) snprintf(buf, size, "%s#%" PRIu32 "@%" PRIu64, key, gen, epoch);
}

static void log_free(struct log *l)
{
    free(l->bytes);
    free(l);
}

static struct log *log_get(struct fake *e, const struct engine_output *o)
{
    char key[48], name[96];
    struct log *l;

    lease_key_print(&o->key, key, sizeof key);
    log_name(key, o->gen, o->epoch, name, sizeof name);
    l = map_get(e->logs, name);
    if (!l) {
        l = mem_new(sizeof *l);
        l->workload = o->key.workload;
        (void) map_set(e->logs, name, l);
    }
    return l;
}

/* Of more than there may be, the older half goes. */
static void log_bound(struct log *l, uint64_t most)
{
    uint64_t len = l->end - l->start, cut = len - most / 2;

    if (len <= most)
        return;
    memmove(l->bytes, l->bytes + cut, len - cut);
    l->start += cut;
}

int fake_apart_output(struct engine *base, const struct engine_output *o,
                      uint64_t *ret_end, struct err *err)
{
    struct fake *e = (struct fake *) base;
    struct log *l = log_get(e, o);
    uint64_t end = o->offset + o->len, had;

    (void) err;
    if (o->offset > l->end)            /* what is between is gone */
        l->start = l->end = o->offset;
    had = l->end - l->start;
    if (end > l->end) {
        uint64_t more = end - l->end;

        l->bytes = mem_grow(l->bytes, had + more, 1);
        memcpy(l->bytes + had, (const char *) o->bytes + (o->len - more),
               more);
        l->end = end;
        log_bound(l, e->log_bytes);
    }
    *ret_end = l->end;
    return 0;
}

int fake_apart_log(struct engine *base, const char *block,
                   const char *lease_key, uint32_t gen, uint64_t epoch,
                   uint64_t offset, void *buf, size_t size,
                   struct engine_log *ret, struct err *err)
{
    const struct fake *e = (struct fake *) base;
    const struct log *l;
    char name[96];

    (void) block;
    log_name(lease_key, gen, epoch, name, sizeof name);
    l = map_get(e->logs, name);
    if (!l)
        return err_set(err, ENOENT, "lease %s has no log", lease_key);
    offset = offset < l->start ? l->start : offset > l->end ? l->end : offset;
    *ret = (struct engine_log) { .start = offset, .end = l->end,
                                 .len = l->end - offset };
    if (ret->len > size)
        ret->len = size;
    if (ret->len > 0)
        memcpy(buf, l->bytes + (offset - l->start), ret->len);
    return 0;
}

json_t *fake_apart_log_list(struct engine *base)
{
    const struct fake *e = (struct fake *) base;
    json_t *list = json_array();
    const struct log *l;
    size_t pos = 0;

    while ((l = map_next(e->logs, &pos, NULL)))
        (void) json_array_append_new(list,
                                     json_integer((json_int_t) l->workload));
    return list;
}

int fake_apart_log_drop(struct engine *base, uint64_t workload,
                        struct err *err)
{
    struct fake *e = (struct fake *) base;
    const char *name;
    struct log *l;
    size_t pos = 0;

    (void) err;
    while ((l = map_next(e->logs, &pos, &name)))
        if (l->workload == workload) {
            (void) map_del(e->logs, name);
            log_free(l);
            pos = 0;
        }
    return 0;
}

void fake_apart_close(struct fake *e)
{
    struct runner *r;
    struct log *l;
    size_t pos;

    for (pos = 0; (r = map_next(e->alone, &pos, NULL)); pos = 0)
        alone_free(r);
    for (pos = 0; (l = map_next(e->logs, &pos, NULL));)
        log_free(l);
    map_free(e->alone);
    map_free(e->logs);
}
