#include "core/why.h"

#include "core/world_int.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The reason a task is not running.  For one in line the question is put to
 * the plan's own placement, with one thing after the other made plentiful:
 * what makes it fit is what it lacks.
 */
#define X(name, text) [WHY_##name] = text,
static const char *const code_names[] = { WHY_CODES(X) };
#undef X

const char *why_code_name(enum why_code c)
{
    assert(c < WHY_COUNT);
    return code_names[c];
}

static void __attribute__((format(printf, 3, 4)))
say(struct why *y, enum why_code code, const char *fmt, ...)
{
    va_list ap;
    int n;

    y->code = code;
    va_start(ap, fmt);
    n = vsnprintf(y->text, sizeof(y->text), fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t) n >= sizeof(y->text))
        memcpy(y->text + sizeof(y->text) - 4, "...", 4);
}

static void __attribute__((format(printf, 2, 3)))
change(struct why *y, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(y->change, sizeof(y->change), fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t) n >= sizeof(y->change))
        memcpy(y->change + sizeof(y->change) - 4, "...", 4);
}

struct words {
    char text[32];
};

static struct words milli(uint64_t n)
{
    struct words m = { "" };

    quantity_print_milli(n, m.text, sizeof(m.text));
    return m;
}

static struct words cpus(uint64_t n)
{
    struct words m = milli(n);
    size_t len = strlen(m.text);

    (void) snprintf(m.text + len, sizeof(m.text) - len, " CPU%s",
                    n == 1000 ? "" : "s");
    return m;
}

static struct words bytes(uint64_t n)
{
    struct words m = { "" };

    quantity_print_bytes(n, m.text, sizeof(m.text));
    return m;
}

/* To the minute, or to the second when it is short. */
static struct words duration(uint64_t ms)
{
    uint64_t unit = ms >= 120000 ? 60000 : ms >= 1000 ? 1000 : 1;
    struct words m = { "" };

    quantity_print_duration(ms - ms % unit, m.text, sizeof(m.text));
    return m;
}

/* "2 devices of model H100 or A100 with 40Gi" */
static struct buf wanted(const struct spec_task *s)
{
    struct buf b = BUF_INIT(160);

    buf_printf(&b, "%s device%s", milli(s->gpu_milli).text,
               s->gpu_milli > 1000 ? "s" : "");
    for (uint32_t i = 0; i < s->nmodels; i++)
        buf_printf(&b, "%s%s", i == 0 ? " of model " : " or ", s->models[i]);
    if (s->gpu_memory)
        buf_printf(&b, " with at least %s", bytes(s->gpu_memory).text);
    return b;
}

static void why_needs(const struct task *t, struct why *y)
{
    autobuf struct buf names = BUF_INIT(200);
    uint32_t shown = 0;

    for (uint32_t i = 0; i < t->spec->nneeds; i++) {
        const struct task *need = &t->workload->tasks[t->spec->needs[i]];

        if (need->state == TASK_ENDED)
            continue;
        if (shown++ < 3)
            buf_printf(&names, "%s'%s' (%s)", shown > 1 ? ", " : "",
                       need->spec->name, task_state_name(need->state));
    }
    if (shown > 3)
        buf_printf(&names, " and %u more", shown - 3);
    say(y, WHY_NEEDS, "It waits for %u of the %u tasks it needs: %s.",
        t->needs_left, t->spec->nneeds, buf_text(&names));
}

static void why_begun(const struct task *t, struct why *y)
{
    const char *node = t->leases ? t->leases[0].block->node : "?";

    if (t->state == TASK_STARTING)
        say(y, WHY_STARTING, "It has its place on node '%s' and is about to "
            "start: %u of %u ranks have begun.", node,
            t->spec->ranks - t->unclaimed, t->spec->ranks);
    else if (t->state == TASK_RUNNING)
        say(y, WHY_RUNNING, "It is running on node '%s', attempt %u.", node,
            t->gen);
    else
        say(y, WHY_ENDING, "It was told to stop (%s) and has not ended yet.",
            spec_cause_name((enum spec_cause) t->stop_cause));
    if (t->state == TASK_ENDING && !t->forced)
        change(y, "It has %s to end by itself; abort it with --force to not "
               "wait.", duration(t->spec->stop_grace_ms).text);
}

static void why_ended(const struct task *t, struct why *y)
{
    if (t->cause == SPEC_CAUSE_NONE)
        say(y, WHY_ENDED, "It has ended: %s.",
            outcome_name((enum outcome) t->outcome));
    else if (t->cause == SPEC_CAUSE_TIMEOUT && t->gen == 0)
        say(y, WHY_ENDED, "It has ended: its workload did not start within "
            "its max_wait or before its deadline.");
    else
        say(y, WHY_ENDED, "It has ended: %s (%s, status %d).",
            outcome_name((enum outcome) t->outcome),
            spec_cause_name((enum spec_cause) t->cause), t->status);
}

/* Waiting, but not in line for a reason of its own. */
static bool why_aside(const struct task *t, uint64_t now_ms, struct why *y)
{
    const struct workload *wl = t->workload;
    char at[32];

    if (wl->quarantined) {
        say(y, WHY_QUARANTINED, "Its workload had not ended when the store "
            "was saved that has now been restored, and may have run since.");
        change(y, "An operator releases w%" PRIu64 ": queue it again, or "
               "abort it.", wl->id);
    } else if (wl->paused) {
        say(y, WHY_PAUSED, "Its workload is paused.");
        change(y, "weir unpause w%" PRIu64, wl->id);
    } else if (t->timer.asleep && t->not_before_ms > now_ms) {
        clock_print(t->not_before_ms, at, sizeof(at));
        say(y, WHY_BACKOFF, "Attempt %u ended (%s); it is tried again at %s, "
            "in %s.", t->gen, spec_cause_name((enum spec_cause) t->cause), at,
            duration(t->not_before_ms - now_ms).text);
    } else {
        return false;
    }
    return true;
}

static void why_together(const struct task *t, const struct set *set,
                         struct why *y)
{
    uint32_t asleep = set->waiting - set->shape->tasks.count;

    say(y, WHY_TOGETHER, "It starts together with others: %u of them still "
        "wait for what they need, %u for the time of their next attempt.",
        set->blocked, asleep);
    (void) t;
}

struct supply {
    uint64_t all, of_model, matching;  /* devices */
    uint64_t most, free_milli;
    uint64_t cpus, cpus_free, memory, memory_free;   /* of the largest block */
};

static void supply_block(const struct block *b, const struct spec_task *s,
                         bool open_only, struct supply *ret)
{
    struct spec_task model = *s;

    if (open_only && !block_open(b))
        return;
    model.gpu_memory = 0;
    ret->all += b->ndevices;
    if (b->ndevices > ret->most)
        ret->most = b->ndevices;
    for (uint32_t i = 0; i < b->ndevices; i++) {
        ret->of_model += place_matches(&b->devices[i], &model);
        if (!place_matches(&b->devices[i], s))
            continue;
        ret->matching++;
        ret->free_milli += b->devices[i].free_milli;
    }
    if (b->cpu_milli > ret->cpus)
        ret->cpus = b->cpu_milli;
    if (b->cpu_free > ret->cpus_free)
        ret->cpus_free = b->cpu_free;
    if (b->memory > ret->memory)
        ret->memory = b->memory;
    if (b->memory_free > ret->memory_free)
        ret->memory_free = b->memory_free;
}

static struct supply supply(const struct world *w, const struct spec_task *s,
                            bool open_only)
{
    struct supply all = { 0 };

    for (uint32_t i = 0; i < w->nblocks; i++)
        supply_block(w->blocks[i], s, open_only, &all);
    return all;
}

/* " for each of 4 ranks", or nothing for a task that is alone. */
static struct words per_rank(const struct spec_task *s)
{
    struct words t = { "" };

    if (s->ranks > 1)
        (void) snprintf(t.text, sizeof t.text, " for each of %u ranks",
                        s->ranks);
    return t;
}

static void never_devices(const struct spec_task *s, const struct supply *has,
                          struct why *y)
{
    uint64_t want = s->gpu_milli < 1000 ? 1 : s->gpu_milli / 1000;
    struct buf what = wanted(s);

    if (has->most < want || has->all < want * s->ranks)
        say(y, WHY_NEVER_DEVICES, "It can never start here: it asks for %s%s "
            "on one node, and the largest of the nodes has %" PRIu64 " of %"
            PRIu64 " in all.", buf_text(&what), per_rank(s).text, has->most,
            has->all);
    else if (has->of_model < want)
        say(y, WHY_NEVER_MODEL, "It can never start here: it asks for %s, and "
            "there are %" PRIu64 " devices of such a model.", buf_text(&what),
            has->of_model);
    else if (has->matching < want)
        say(y, WHY_NEVER_GPU_MEMORY, "It can never start here: it asks for "
            "%s, and there are %" PRIu64 " devices with so much memory.",
            buf_text(&what), has->matching);
    else
        say(y, WHY_NEVER_DEVICES, "It can never start here: %s%s do not fit "
            "on the %" PRIu64 " devices there are.", buf_text(&what),
            per_rank(s).text, has->matching);
    change(y, "Ask for fewer devices or another model, or add a node that has "
           "them.");
    buf_free(&what);
}

/* More than all known blocks would hold if they were up and empty. */
static bool why_never(const struct world *w, const struct task *t,
                      struct why *y)
{
    const unsigned all = IF_EMPTY | IF_UNDRAINED | IF_UP;
    const struct spec_task *s = t->spec;
    struct supply has = supply(w, s, false);

    if (shape_fits_if(w, t->queue, all))
        return false;
    if (!shape_fits_if(w, t->queue, all | IF_CPUS | IF_MEMORY)) {
        never_devices(s, &has, y);
    } else if (!shape_fits_if(w, t->queue, all | IF_MEMORY)) {
        say(y, WHY_NEVER_CPUS, "It can never start here: it asks for %s%s, and "
            "the largest node has %s.", cpus(s->cpu_milli).text,
            per_rank(s).text, milli(has.cpus).text);
        change(y, "Ask for fewer CPUs, or add a larger node.");
    } else {
        say(y, WHY_NEVER_MEMORY, "It can never start here: it asks for %s of "
            "memory%s, and the largest node has %s.", bytes(s->memory).text,
            per_rank(s).text, bytes(has.memory).text);
        change(y, "Ask for less memory, or add a larger node.");
    }
    return true;
}

static bool why_closed(const struct world *w, const struct task *t,
                       struct why *y)
{
    uint32_t up = 0, drained = 0;

    if (shape_fits_if(w, t->queue, IF_EMPTY))
        return false;
    for (uint32_t i = 0; i < w->nblocks; i++) {
        up += w->blocks[i]->up;
        drained += w->blocks[i]->up && w->blocks[i]->drained;
    }
    if (shape_fits_if(w, t->queue, IF_EMPTY | IF_UNDRAINED)) {
        say(y, WHY_DRAINED, "The nodes that could run it are drained (%u of "
            "%u).", drained, up);
        change(y, "weir node undrain NODE");
    } else {
        say(y, WHY_NO_BLOCK, "No node that could run it is up: %u of %u are.",
            up, w->nblocks);
        change(y, "It starts when the node is back.");
    }
    return true;
}

static void why_quota(const struct shape *s, struct why *y)
{
    const struct tenant *t = s->tenant;

    say(y, WHY_QUOTA, "Tenant '%s' may hold %s devices at once and holds %s; "
        "this needs %s.", t->name, milli(t->max_gpu_milli).text,
        milli(t->used_gpu_milli).text, milli(shape_gpu_milli(s)).text);
    if (shape_gpu_milli(s) > t->max_gpu_milli)
        change(y, "It needs more than the tenant may ever hold: weir tenant "
               "set %s --max-gpus N", t->name);
    else
        change(y, "It starts when other work of the tenant ends.");
}

static void why_short(const struct world *w, const struct task *t,
                      struct why *y)
{
    const struct spec_task *s = t->spec;
    struct supply has = supply(w, s, true);
    struct buf what = wanted(s);

    if (!shape_fits_if(w, t->queue, IF_CPUS | IF_MEMORY))
        say(y, WHY_DEVICES, "It needs %s%s; of %" PRIu64 " devices that would "
            "do, %s are free in all.", buf_text(&what), per_rank(s).text,
            has.matching, milli(has.free_milli).text);
    else if (!shape_fits_if(w, t->queue, IF_MEMORY))
        say(y, WHY_CPUS, "It needs %s%s; at most %s are free on one node.",
            cpus(s->cpu_milli).text, per_rank(s).text,
            milli(has.cpus_free).text);
    else
        say(y, WHY_MEMORY, "It needs %s of memory%s; at most %s are free on "
            "one node.", bytes(s->memory).text, per_rank(s).text,
            bytes(has.memory_free).text);
    change(y, "It starts when running work ends and leaves enough.");
    buf_free(&what);
}

static void why_order(const struct world *w, const struct task *t,
                      uint64_t now_ms, struct why *y)
{
    const struct task *by = shape_barred_by(&w->plan, t->queue);

    if (!by) {
        say(y, WHY_ORDER, "It would fit, and is about to be given its place.");
        return;
    }
    say(y, WHY_ORDER, "It would fit, but '%s' of w%" PRIu64 " comes before it "
        "and has waited %s for more than is free: nothing may overtake it any "
        "more.", by->spec->name, by->workload->id,
        duration(now_ms > by->since_ms ? now_ms - by->since_ms : 0).text);
    change(y, "It starts after that task, or with a higher priority.");
}

static uint32_t position(const struct world *w, const struct task *t)
{
    uint32_t n = 1;

    for (uint32_t i = 0; i < w->plan.nshapes; i++) {
        const struct heap *line = &w->plan.shapes[i]->tasks;

        for (uint32_t k = 0; k < line->count; k++)
            n += task_before(line->items[k], t);
    }
    return n;
}

static void why_in_line(const struct world *w, const struct task *t,
                        uint64_t now_ms, struct why *y)
{
    y->position = position(w, t);
    if (!shape_ready(t->queue)) {
        why_together(t, t->queue->set, y);
    } else if (w->nblocks == 0) {
        say(y, WHY_NO_BLOCK, "No node has joined yet.");
        change(y, "It starts when a runner reports from one.");
    } else if (why_never(w, t, y) || why_closed(w, t, y)) {
        return;
    } else if (shape_over_quota(t->queue)) {
        why_quota(t->queue, y);
    } else if (shape_fits(w, t->queue)) {
        why_order(w, t, now_ms, y);
    } else {
        why_short(w, t, y);
    }
}

void why_task(const struct world *w, const struct task *t, uint64_t now_ms,
              struct why *ret)
{
    memset(ret, 0, sizeof(*ret));
    switch ((enum task_state) t->state) {
    case TASK_ENDED:
        why_ended(t, ret);
        break;
    case TASK_STARTING:
    case TASK_RUNNING:
    case TASK_ENDING:
        why_begun(t, ret);
        break;
    case TASK_BLOCKED:
        why_needs(t, ret);
        break;
    case TASK_WAITING:
        if (why_aside(t, now_ms, ret))
            break;
        if (t->queue)
            why_in_line(w, t, now_ms, ret);
        else
            say(ret, WHY_ORDER, "It is about to be put in line.");
        break;
    case TASK_STATE_COUNT:
        break;
    }
}

json_t *why_json(const struct why *y)
{
    json_t *j = json_object();

    json_put_str(j, "code", why_code_name(y->code));
    json_put_str(j, "text", y->text);
    if (y->change[0])
        json_put_str(j, "change", y->change);
    if (y->position)
        json_put_u64(j, "position", y->position);
    return j;
}
