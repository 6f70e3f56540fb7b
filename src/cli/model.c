#include "cli/model.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "cli/human.h"

#include <stdio.h>
#include <string.h>

static const char *const states[MODEL_STATES] = {
    "blocked", "waiting", "starting", "running", "suspended", "ending",
    "ended"
};
static const char *const outcomes[MODEL_OUTCOMES] = {
    "none", "succeeded", "failed", "skipped", "aborted"
};

const char *model_state_name(enum model_state s)
{
    return states[s];
}

const char *model_outcome_name(enum model_outcome o)
{
    return outcomes[o];
}

const char *model_word(const struct model_task *t)
{
    if (t->state == MODEL_ENDED)
        return outcomes[t->outcome];
    if (t->state == MODEL_WAITING && t->retried)
        return "retrying";
    return states[t->state];
}

void model_cause(const struct model_task *t, char *buf, size_t size)
{
    (void) human_end(t->cause[0] ? t->cause : "none", t->status, buf, size);
    if (strcmp(buf, model_word(t)) == 0)
        buf[0] = '\0';                 /* aborted: aborted */
}

uint64_t model_elapsed(const struct model_task *t, uint64_t now_ms)
{
    if (!t->attempt_ms || now_ms < t->attempt_ms)
        return t->ran_ms;
    return t->ran_ms + (now_ms - t->attempt_ms);
}

static unsigned word_index(const char *const *words, unsigned n,
                           const char *word)
{
    for (unsigned i = 0; i < n; i++) {
        if (strcmp(words[i], word) == 0)
            return i;
    }
    return 0;
}

static void set_cause(struct model_task *t, const char *cause)
{
    if (strcmp(cause, "none") == 0)
        cause = "";
    (void) snprintf(t->cause, sizeof t->cause, "%.15s", cause);
}

/* ---- where a task runs ---- */

static void add_devices(struct buf *b, const json_t *lease, unsigned *count)
{
    const json_t *d;
    size_t i;

    json_array_foreach(json_object_get(lease, "devices"), i, d) {
        if (++*count <= 8)
            buf_printf(b, "%s%" JSON_INTEGER_FORMAT, *count > 1 ? "," : "",
                       json_integer_value(d));
    }
}

/* From the grants of task.planned or the leases of a task object: the one says
 * "milli", the other "share".
 */
static void set_place(struct model_task *t, const json_t *leases)
{
    struct buf list = BUF_INIT(256);
    const json_t *first = json_array_get(leases, 0), *l;
    double share = json_get_number(first, "share");
    uint64_t milli = json_get_u64(first, "milli", 0);
    unsigned count = 0;
    size_t i;

    json_array_foreach(leases, i, l)
        add_devices(&list, l, &count);
    if (milli)
        share = (double) milli / 1000;
    if (count == 0)
        (void) snprintf(t->place, sizeof t->place, "%.80s",
                        json_get_str(first, "block", ""));
    else if (count > 8)
        (void) snprintf(t->place, sizeof t->place, "%u devices", count);
    else if (share > 0 && share < 1)
        (void) snprintf(t->place, sizeof t->place, "%g of device%s %.60s",
                        share, count > 1 ? "s" : "", buf_text(&list));
    else
        (void) snprintf(t->place, sizeof t->place, "device%s %.70s",
                        count > 1 ? "s" : "", buf_text(&list));
    buf_free(&list);
}

/* ---- states and their counts ---- */

static void uncount(struct model *m, const struct model_task *t)
{
    m->count[t->state]--;
    if (t->state == MODEL_ENDED)
        m->outcomes[t->outcome]--;
}

static void count(struct model *m, const struct model_task *t)
{
    m->count[t->state]++;
    if (t->state == MODEL_ENDED)
        m->outcomes[t->outcome]++;
}

static void move(struct model *m, struct model_task *t, enum model_state to,
                 uint64_t when)
{
    uncount(m, t);
    t->state = to;
    t->since_ms = when;
    count(m, t);
    if (to != MODEL_WAITING) {
        free(t->why);
        t->why = NULL;
    }
}

static void unblock_dependents(struct model *m, uint32_t i, uint64_t when)
{
    for (uint32_t k = m->first[i]; k < m->first[i + 1]; k++) {
        struct model_task *d = &m->tasks[m->dependents[k]];

        if (d->needs_left > 0)
            d->needs_left--;
        if (d->needs_left == 0 && d->state == MODEL_BLOCKED)
            move(m, d, MODEL_WAITING, when);
    }
}

/* How far along its attempt a task is; an event must lead further. */
static unsigned stage(const struct model_task *t)
{
    static const unsigned of[MODEL_STATES] = { 0, 0, 1, 2, 3, 5 };

    return t->retried && t->state == MODEL_WAITING ? 4 : of[t->state];
}

static bool further(const struct model_task *t, uint32_t gen, unsigned to)
{
    if (t->state == MODEL_ENDED)
        return false;
    return gen > t->gen || (gen == t->gen && to > stage(t));
}

/* ---- loading ---- */

void model_free(struct model *m)
{
    for (uint32_t i = 0; i < m->ntasks; i++) {
        free(m->tasks[i].name);
        free(m->tasks[i].claimed);
        free(m->tasks[i].needs);
        free(m->tasks[i].why);
    }
    free(m->tasks);
    free(m->name);
    free(m->kind);
    free(m->dependents);
    free(m->first);
    map_free(m->by_name);
    *m = (struct model) { 0 };
}

static void load_workload(struct model *m, const json_t *w)
{
    const char *outcome = json_get_str(w, "outcome", "none");
    const char *state = json_get_str(w, "state", "");

    (void) snprintf(m->id, sizeof m->id, "%.20s", json_get_str(w, "id", ""));
    free(m->name);
    m->name = mem_str(json_get_str(w, "name", ""));
    free(m->kind);
    m->kind = mem_str(json_get_str(w, "kind", ""));
    m->ended = strcmp(state, "ended") == 0;
    m->quarantined = strcmp(state, "quarantined") == 0;
    m->paused = json_get_bool(w, "paused", false);
    m->outcome = word_index(outcomes, MODEL_OUTCOMES, outcome);
    m->submitted_ms = human_time(w, "submitted");
    m->ended_ms = human_time(w, "ended");
}

static void load_leases(struct model_task *t, const json_t *leases)
{
    const json_t *l;
    size_t i;

    json_array_foreach(leases, i, l) {
        uint64_t rank = json_get_u64(l, "rank", 0);

        if (rank < t->ranks && json_object_get(l, "claimed") &&
            !t->claimed[rank]) {
            t->claimed[rank] = 1;
            t->nclaimed++;
        }
    }
    if (json_array_size(leases) > 0)
        set_place(t, leases);
}

static void load_task(struct model_task *t, const json_t *j)
{
    t->name = mem_str(json_get_str(j, "task", ""));
    t->state = word_index(states, MODEL_STATES, json_get_str(j, "state", ""));
    t->outcome = word_index(outcomes, MODEL_OUTCOMES,
                            json_get_str(j, "outcome", "none"));
    set_cause(t, json_get_str(j, "cause", ""));
    t->status = (int) json_integer_value(json_object_get(j, "status"));
    if (json_object_get(j, "signal"))
        t->status = -(int) json_integer_value(json_object_get(j, "signal"));
    t->gen = (uint32_t) json_get_u64(j, "attempt", 0);
    t->ranks = (uint32_t) json_get_u64(j, "ranks", 1);
    t->claimed = mem_new(t->ranks ? t->ranks : 1);
    t->wants_devices = json_get_number(j, "gpus") > 0;
    t->retried = t->state == MODEL_WAITING && t->gen > 0;
    t->since_ms = human_time(j, "since");
    t->started_ms = human_time(j, "started");
    t->ended_ms = human_time(j, "ended");
    t->attempt_ms = human_time(j, "running_since");
    t->ran_ms = human_run_ms(j);
    t->until_ms = human_time(j, "not_before");
    load_leases(t, json_object_get(j, "leases"));
}

static void load_needs(struct model *m, struct model_task *t, const json_t *j)
{
    const json_t *needs = json_object_get(j, "needs"), *n;
    size_t i;

    t->needs = mem_array(json_array_size(needs) + 1, sizeof *t->needs);
    json_array_foreach(needs, i, n) {
        const char *name = json_string_value(n);
        uintptr_t at = name ? (uintptr_t) map_get(m->by_name, name) : 0;

        if (!at)
            continue;
        t->needs[t->nneeds++] = (uint32_t) (at - 1);
        t->needs_left += m->tasks[at - 1].state != MODEL_ENDED;
    }
}

/* The needs turned around, so that an end finds whom it unblocks. */
static void index_dependents(struct model *m)
{
    autofree uint32_t *at = NULL;
    uint32_t n = m->ntasks;

    m->first = mem_array((size_t) n + 2, sizeof *m->first);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < m->tasks[i].nneeds; k++)
            m->first[m->tasks[i].needs[k] + 1]++;
    }
    for (uint32_t i = 0; i < n; i++)
        m->first[i + 1] += m->first[i];
    m->dependents = mem_array((size_t) m->first[n] + 1,
                              sizeof *m->dependents);
    at = mem_dup(m->first, ((size_t) n + 1) * sizeof *at);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < m->tasks[i].nneeds; k++)
            m->dependents[at[m->tasks[i].needs[k]]++] = i;
    }
}

void model_load(struct model *m, const json_t *workload, const json_t *tasks)
{
    bool simulated = m->simulated;
    const json_t *j;
    size_t i;

    model_free(m);
    m->simulated = simulated;
    load_workload(m, workload);
    m->ntasks = (uint32_t) json_array_size(tasks);
    m->tasks = mem_array((size_t) m->ntasks + 1, sizeof *m->tasks);
    m->by_name = map_new();
    json_array_foreach(tasks, i, j) {
        load_task(&m->tasks[i], j);
        (void) map_set(m->by_name, m->tasks[i].name,
                       (void *) (uintptr_t) (i + 1));
    }
    json_array_foreach(tasks, i, j)
        load_needs(m, &m->tasks[i], j);
    index_dependents(m);
    for (i = 0; i < m->ntasks; i++)
        count(m, &m->tasks[i]);
}

/* ---- events ---- */

static void attempt_over(struct model_task *t, uint64_t when)
{
    t->ran_ms = model_elapsed(t, when);
    t->attempt_ms = 0;
}

static bool on_planned(struct model *m, struct model_task *t, const json_t *e,
                       uint32_t gen, uint64_t when)
{
    if (!further(t, gen, 1))
        return false;
    attempt_over(t, when);             /* if its end went unseen */
    t->gen = gen;
    t->retried = false;
    memset(t->claimed, 0, t->ranks ? t->ranks : 1);
    t->nclaimed = 0;
    set_cause(t, "");
    t->status = 0;
    set_place(t, json_object_get(e, "grants"));
    move(m, t, MODEL_STARTING, when);
    return true;
}

static bool on_claimed(struct model *m, struct model_task *t, const json_t *e,
                       uint32_t gen, uint64_t when)
{
    uint64_t rank = json_get_u64(e, "rank", 0);

    if (!further(t, gen, 2) || gen != t->gen || rank >= t->ranks ||
        t->claimed[rank])
        return false;
    t->claimed[rank] = 1;
    t->nclaimed++;
    if (!t->started_ms)
        t->started_ms = when;
    if (!t->attempt_ms)
        t->attempt_ms = when;
    if (t->nclaimed < t->ranks)
        return false;
    move(m, t, MODEL_RUNNING, when);
    return true;
}

/* Counts those of its ranks that are off, or off still. */
static bool rank_off(struct model *m, struct model_task *t, uint64_t when)
{
    if (++t->off < t->ranks || t->state != MODEL_RUNNING)
        return false;
    attempt_over(t, when);
    move(m, t, MODEL_SUSPENDED, when);
    return true;
}

static bool on_leaving(struct model *m, struct model_task *t, const json_t *e,
                       uint32_t gen, uint64_t when)
{
    (void) m;
    (void) e;
    (void) when;
    if (gen == t->gen && t->state == MODEL_RUNNING) {
        t->leaving = true;
        t->off = 0;
    }
    return false;
}

static bool on_off(struct model *m, struct model_task *t, const json_t *e,
                   uint32_t gen, uint64_t when)
{
    (void) e;
    return gen == t->gen && rank_off(m, t, when);
}

static bool on_kept(struct model *m, struct model_task *t, const json_t *e,
                    uint32_t gen, uint64_t when)
{
    (void) e;
    return gen == t->gen && !t->leaving && rank_off(m, t, when);
}

static bool on_back(struct model *m, struct model_task *t, const json_t *e,
                    uint32_t gen, uint64_t when)
{
    if (gen != t->gen)
        return false;
    t->leaving = false;
    t->off = 0;
    if (t->state != MODEL_SUSPENDED)
        return false;
    set_place(t, json_object_get(e, "grants"));
    t->attempt_ms = when;
    move(m, t, MODEL_RUNNING, when);
    return true;
}

static bool on_stopping(struct model *m, struct model_task *t, const json_t *e,
                        uint32_t gen, uint64_t when)
{
    if (!further(t, gen, 3))
        return false;
    set_cause(t, json_get_str(e, "cause", ""));
    move(m, t, MODEL_ENDING, when);
    return true;
}

static bool on_retrying(struct model *m, struct model_task *t, const json_t *e,
                        uint32_t gen, uint64_t when)
{
    if (!further(t, gen, 4))
        return false;
    set_cause(t, json_get_str(e, "cause", ""));
    attempt_over(t, when);
    t->gen = gen;
    t->retried = true;
    t->until_ms = human_time(e, "until");
    t->place[0] = '\0';
    move(m, t, MODEL_WAITING, when);
    return true;
}

static bool on_ended(struct model *m, struct model_task *t, const json_t *e,
                     uint32_t gen, uint64_t when)
{
    (void) gen;
    if (t->state == MODEL_ENDED)
        return false;
    uncount(m, t);
    t->state = MODEL_ENDED;
    t->outcome = word_index(outcomes, MODEL_OUTCOMES,
                            json_get_str(e, "outcome", "none"));
    set_cause(t, json_get_str(e, "cause", ""));
    t->status = (int) json_integer_value(json_object_get(e, "status"));
    t->since_ms = t->ended_ms = when;
    attempt_over(t, when);
    count(m, t);
    unblock_dependents(m, (uint32_t) (t - m->tasks), when);
    return true;
}

static const struct {
    const char *type;
    bool (*apply)(struct model *m, struct model_task *t, const json_t *e,
                  uint32_t gen, uint64_t when);
} handlers[] = {
    { "task.planned", on_planned },
    { "lease.claimed", on_claimed },
    { "task.suspending", on_leaving },
    { "lease.suspended", on_off },
    { "lease.kept", on_kept },
    { "task.resuming", on_back },
    { "task.stopping", on_stopping },
    { "task.retrying", on_retrying },
    { "task.ended", on_ended },
};

static bool on_workload(struct model *m, const char *type, const json_t *e,
                        uint64_t when)
{
    if (strcmp(type, "workload.paused") == 0) {
        m->paused = true;
    } else if (strcmp(type, "workload.unpaused") == 0) {
        m->paused = false;
    } else if (strcmp(type, "workload.ended") == 0) {
        m->ended = true;
        m->ended_ms = when;
        m->outcome = word_index(outcomes, MODEL_OUTCOMES,
                                json_get_str(e, "outcome", "none"));
    } else {
        return false;
    }
    return true;
}

bool model_event(struct model *m, const json_t *e, uint32_t *ret_task)
{
    const char *type = json_get_str(e, "type", "");
    const json_t *task = json_object_get(e, "task");
    uint64_t when = human_time(e, "time");
    uint64_t i = json_get_u64(e, "task", UINT64_MAX);

    if (strcmp(json_get_str(e, "workload", ""), m->id) != 0)
        return false;
    for (size_t h = 0; h < array_size(handlers); h++) {
        if (strcmp(type, handlers[h].type) != 0)
            continue;
        if (!task || i >= m->ntasks)
            return false;
        *ret_task = (uint32_t) i;
        return handlers[h].apply(m, &m->tasks[i], e,
                                 (uint32_t) json_get_u64(e, "gen", 0), when);
    }
    *ret_task = MODEL_NO_TASK;
    return on_workload(m, type, e, when);
}
