#include "gpu/health_in.h"

#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* A look goes over each device twice: first every rule takes its step, then,
 * when it is known what is in force, the steps are told.
 *
 * Events are a condition like any other: it holds while there are enough of
 * them in the rule's window.  One that lasts until a reset holds on until the
 * device or the driver was seen to begin anew: it was lost or wanted a reset
 * and answers again, the driver was away or is another, or the energy it counts
 * since the driver was loaded is less than it was.
 */
enum verdict { UNKNOWN, NO, YES };
enum step { STAYS, RAISES, RESTS, ENDS };

static const char *const kinds[HEALTH_KIND_COUNT] = {
#define X(name, text) [HEALTH_##name] = text,
    HEALTH_CHANGES(X)
#undef X
};

const char *health_kind_name(enum health_kind k)
{
    assert(k < HEALTH_KIND_COUNT);
    return kinds[k];
}

struct health *health_new(const struct health_rules *rules, uint64_t gap_ms)
{
    struct health *h = mem_new(sizeof *h);

    h->rules = *rules;
    h->gap_ms = gap_ms;
    for (unsigned i = 0; i < DEVICE_MAX; i++)
        h->devices[i].rows = mem_array(rules->n + 1,
                                       sizeof(struct health_row));
    return h;
}

void health_free(struct health *h)
{
    if (!h)
        return;
    for (unsigned i = 0; i < DEVICE_MAX; i++)
        free(h->devices[i].rows);
    free(h);
}

/* -- devices -------------------------------------------------------------- */

const struct health_device *health_find(const struct health *h,
                                        const char *uuid)
{
    for (unsigned i = 0; i < DEVICE_MAX; i++)
        if (uuid[0] && !strcmp(h->devices[i].uuid, uuid))
            return &h->devices[i];
    return NULL;
}

static int index_in(const struct device_list *l, const char *uuid)
{
    for (unsigned i = 0; i < l->n; i++)
        if (!strcmp(l->all[i].uuid, uuid))
            return (int) i;
    return -1;
}

/* A place for each device of the report: when all are taken, that of one which
 * is not in it.
 */
static void make_room(struct health *h, const struct device_list *l)
{
    for (unsigned i = 0; i < l->n; i++) {
        const struct device *d = &l->all[i];
        struct health_device *place = NULL;

        if (!d->uuid[0] || health_find(h, d->uuid))
            continue;
        for (unsigned k = 0; k < DEVICE_MAX; k++) {
            struct health_device *p = &h->devices[k];

            if (!p->uuid[0] || (!place && index_in(l, p->uuid) < 0))
                place = p;
            if (!p->uuid[0])
                break;
        }
        if (!place)
            continue;                  /* as many devices without a place */
        memset(place->rows, 0, h->rules.n * sizeof *place->rows);
        *place = (struct health_device) { .state = d->state,
                                          .rows = place->rows };
        memcpy(place->uuid, d->uuid, sizeof place->uuid);
    }
}

/* Was the driver loaded anew since the last look? */
static bool reloaded(struct health *h, const struct device_list *l)
{
    bool anew = false;

    if (l->state == NVML_NO_DRIVER || l->state == NVML_MISMATCH)
        h->driver_gone = h->driver_seen;
    if (l->state != NVML_READY)
        return false;
    anew = h->driver_gone ||
           (h->driver_seen && strcmp(h->driver, l->driver) != 0);
    h->driver_seen = true;
    h->driver_gone = false;
    memcpy(h->driver, l->driver, sizeof h->driver);
    return anew;
}

/* Did the device begin anew?  Remembers how it is for the next time. */
static bool begun_anew(struct health_device *d, const struct device *now,
                       const struct telemetry *t)
{
    bool was_off = d->state == NVML_LOST || d->state == NVML_RESET;
    bool anew = was_off && now->state == NVML_READY;

    d->state = now->state;
    if (t && telemetry_has(t, TELEMETRY_ENERGY)) {
        uint64_t energy = t->value[TELEMETRY_ENERGY];

        anew = anew || (d->has_energy && energy < d->energy);
        d->has_energy = true;
        d->energy = energy;
    }
    return anew;
}

/* -- events --------------------------------------------------------------- */

static void note_event(struct health_row *row, uint64_t now_ms, uint16_t xid)
{
    if (row->nlate == HEALTH_COUNT_MAX) {
        memmove(row->late, row->late + 1,
                (HEALTH_COUNT_MAX - 1) * sizeof row->late[0]);
        row->nlate--;
    }
    row->late[row->nlate++] = (struct health_event) { now_ms, xid };
    row->events++;
}

static bool lists_xid(const struct health_rule *rule, uint64_t xid)
{
    for (unsigned i = 0; i < rule->nxids; i++)
        if (rule->xids[i] == xid)
            return true;
    return false;
}

static void note_xids(const struct health_rule *rule, struct health_row *row,
                      const char *uuid, const struct node_report *r,
                      uint64_t now_ms)
{
    for (unsigned i = 0; i < r->nxids; i++)
        if (!strcmp(r->xids[i].uuid, uuid) &&
            lists_xid(rule, r->xids[i].xid))
            note_event(row, now_ms, (uint16_t) r->xids[i].xid);
}

/* As many events as it grew by, of which the last are enough. */
static void note_growth(struct health_row *row, uint64_t v, uint64_t now_ms)
{
    uint64_t grew = row->has_last && v > row->last ? v - row->last : 0;
    unsigned n = grew < HEALTH_COUNT_MAX ? (unsigned) grew : HEALTH_COUNT_MAX;

    for (unsigned i = 0; i < n; i++)
        note_event(row, now_ms, 0);
    row->events += grew - n;
    row->has_last = true;
    row->last = v;
}

static void note_reset(struct health_row *row)
{
    row->was_reset = true;
    row->nlate = 0;
}

static unsigned in_window(const struct health_rule *rule,
                          const struct health_row *row, uint64_t now_ms)
{
    unsigned n = 0;

    for (unsigned i = 0; i < row->nlate; i++)
        n += health_since(now_ms, row->late[i].at_ms) < rule->within_ms;
    return n;
}

/* -- does it hold? -------------------------------------------------------- */

struct look {
    const struct node_report *report;
    const struct device *device;       /* NULL: it is not in the report */
    const struct telemetry *t;         /* NULL: it told nothing */
    bool reloaded, anew;
    uint64_t now_ms;
};

static enum verdict say(bool holds)
{
    return holds ? YES : NO;
}

static enum verdict judge_level(const struct health_rule *rule,
                                struct health_row *row, uint64_t v)
{
    row->has_value = true;
    row->value = v;
    return say(v >= (row->holds ? rule->clear : rule->limit));
}

static enum verdict judge_events(const struct health_rule *rule,
                                 struct health_row *row, const struct look *k)
{
    row->has_value = true;
    row->value = in_window(rule, row, k->now_ms);
    if (row->state == HEALTH_WELL && row->value == 0)
        row->events = 0;
    if (rule->until_reset && row->state == HEALTH_ILL)
        return say(!row->was_reset);
    return say(row->value >= rule->count);
}

/* A device that answers no question at all is as good as one with a fault. */
static bool is_mute(const struct telemetry *t)
{
    return t && !t->has && !t->has_processes;
}

/* What the driver tells of one device, with the driver there. */
static enum verdict judge_told(const struct health_rule *rule,
                               struct health_row *row, const struct look *k)
{
    const struct health_about *a = health_about(rule->when);
    const struct telemetry *t = k->t;

    switch (a->sort) {
    case HEALTH_VALUE:
        if (!t || !telemetry_has(t, a->of))
            return UNKNOWN;
        return judge_level(rule, row, t->value[a->of]);
    case HEALTH_CLOCKS:
        if (!t || !telemetry_has(t, TELEMETRY_CLOCK_REASONS))
            return UNKNOWN;
        return say(t->value[TELEMETRY_CLOCK_REASONS] >> a->of & 1);
    case HEALTH_STATE:
        return say(k->device->state == (enum nvml_state) a->of ||
                   (a->of == NVML_FAULT && is_mute(t)));
    case HEALTH_LEAK:
        if (!t || !t->has_processes || !telemetry_has(t, a->of))
            return UNKNOWN;
        return judge_level(rule, row, t->nprocesses ? 0 : t->value[a->of]);
    case HEALTH_GROWTH:
        if (t && telemetry_has(t, a->of))
            note_growth(row, t->value[a->of], k->now_ms);
        return judge_events(rule, row, k);
    case HEALTH_XID:
    case HEALTH_RELOAD:
        return judge_events(rule, row, k);
    case HEALTH_DRIVER:
        break;
    }
    return UNKNOWN;
}

static enum verdict judge(const struct health_rule *rule,
                          struct health_row *row, const char *uuid,
                          const struct look *k)
{
    enum health_sort sort = health_about(rule->when)->sort;
    bool ready = k->report->list.state == NVML_READY;

    if (rule->until_reset && k->anew)
        note_reset(row);
    if (sort == HEALTH_XID)
        note_xids(rule, row, uuid, k->report, k->now_ms);
    if (sort == HEALTH_RELOAD && k->reloaded)
        note_event(row, k->now_ms, 0);
    if (sort == HEALTH_DRIVER)
        return say(!ready);
    return ready && k->device ? judge_told(rule, row, k) : UNKNOWN;
}

/* -- one step ------------------------------------------------------------- */

/* Take in a verdict.  Returns for how long it has been the same. */
static uint64_t hold(struct health_row *row, bool holds, uint64_t gap_ms,
                     uint64_t now_ms)
{
    uint64_t apart = health_since(now_ms, row->known_ms);

    if (row->known && apart > gap_ms)
        row->since_ms += apart;
    if (row->since_ms > now_ms)
        row->since_ms = now_ms;        /* the clock went back */
    if (!row->known || row->holds != holds) {
        row->since_ms = now_ms;
        row->relapses += holds && row->state == HEALTH_BACK;
    }
    row->known = true;
    row->holds = holds;
    row->known_ms = now_ms;
    return health_since(now_ms, row->since_ms);
}

static void end(struct health_row *row)
{
    row->state = HEALTH_WELL;
    row->was_reset = false;
}

static enum step step(const struct health_rule *rule, struct health_row *row,
                      enum verdict v, uint64_t gap_ms, uint64_t now_ms)
{
    uint64_t held_ms;

    if (v == UNKNOWN)
        return STAYS;
    held_ms = hold(row, v == YES, gap_ms, now_ms);
    if (v == YES) {
        if (row->state == HEALTH_ILL || held_ms < rule->for_ms)
            return STAYS;
        row->state = HEALTH_ILL;
        row->was_reset = false;
        return RAISES;
    }
    if (row->state == HEALTH_ILL && rule->probation_ms) {
        row->state = HEALTH_BACK;
        return RESTS;
    }
    if (row->state == HEALTH_WELL || held_ms < rule->probation_ms)
        return STAYS;
    end(row);
    return ENDS;
}

/* -- what is in force ----------------------------------------------------- */

static enum health_action row_action(const struct health_rule *rule,
                                     const struct health_row *row)
{
    if (row->state == HEALTH_WELL)
        return HEALTH_NONE;
    if (row->state == HEALTH_BACK && rule->action > HEALTH_CORDON)
        return HEALTH_CORDON;
    return rule->action;
}

enum health_action health_in_force(const struct health *h,
                                   const struct health_device *d)
{
    enum health_action max = HEALTH_NONE;

    for (unsigned i = 0; i < h->rules.n; i++) {
        enum health_action a = row_action(&h->rules.all[i], &d->rows[i]);

        max = a > max ? a : max;
    }
    return max;
}

static enum health_kind kind_of(enum step s, enum health_action was,
                                enum health_action asked)
{
    if (s == RESTS)
        return HEALTH_PROBATION;
    if (s == ENDS)
        return HEALTH_CLEARED;
    return was != HEALTH_NONE && asked > was ? HEALTH_ESCALATED :
           HEALTH_RAISED;
}

static void tell(const struct health *h, struct health_device *d,
                 const enum step steps[], const struct look *k,
                 health_change_f on_change, void *arg)
{
    enum health_action was = d->action;

    d->action = health_in_force(h, d);
    for (unsigned i = 0; i < h->rules.n; i++) {
        struct health_change c = { .rule = &h->rules.all[i],
                                   .device = d->action };
        struct health_row *row = &d->rows[i];

        if (steps[i] == STAYS)
            continue;
        c.kind = kind_of(steps[i], was, c.rule->action);
        memcpy(c.uuid, d->uuid, sizeof c.uuid);
        health_evidence(c.rule, row, k->now_ms, &c.evidence);
        health_say(&c);
        if (steps[i] == ENDS)
            row->events = row->relapses = 0;
        on_change(&c, arg);
    }
}

static void look_at(const struct health *h, struct health_device *d,
                    struct look *k, health_change_f on_change, void *arg)
{
    enum step steps[HEALTH_RULES];
    int i = index_in(&k->report->list, d->uuid);

    k->device = i < 0 ? NULL : &k->report->list.all[i];
    k->t = i >= 0 && k->report->sampled[i] ? &k->report->samples[i] : NULL;
    k->anew = k->reloaded;
    if (k->device && begun_anew(d, k->device, k->t))
        k->anew = true;
    d->has_sample = k->t != NULL;
    if (k->t) {
        d->has = k->t->has;
        memcpy(d->value, k->t->value, sizeof d->value);
    }
    for (unsigned n = 0; n < h->rules.n; n++) {
        const struct health_rule *rule = &h->rules.all[n];
        struct health_row *row = &d->rows[n];

        steps[n] = step(rule, row, judge(rule, row, d->uuid, k), h->gap_ms,
                        k->now_ms);
    }
    tell(h, d, steps, k, on_change, arg);
}

void health_look(struct health *h, const struct node_report *r,
                 uint64_t now_ms, health_change_f on_change, void *arg)
{
    struct look k = { .report = r, .now_ms = now_ms };

    make_room(h, &r->list);
    k.reloaded = reloaded(h, &r->list);
    for (unsigned i = 0; i < DEVICE_MAX; i++)
        if (h->devices[i].uuid[0])
            look_at(h, &h->devices[i], &k, on_change, arg);
}

unsigned health_was_reset(struct health *h, const char *uuid)
{
    unsigned n = 0;

    for (unsigned i = 0; i < DEVICE_MAX * h->rules.n; i++) {
        struct health_device *d = &h->devices[i / h->rules.n];
        struct health_row *row = &d->rows[i % h->rules.n];

        if (strcmp(d->uuid, uuid) != 0 || row->state != HEALTH_ILL ||
            !h->rules.all[i % h->rules.n].until_reset)
            continue;
        note_reset(row);
        n++;
    }
    return n;
}

enum health_action health_action(const struct health *h, const char *uuid)
{
    const struct health_device *d = health_find(h, uuid);

    return d ? d->action : HEALTH_NONE;
}
