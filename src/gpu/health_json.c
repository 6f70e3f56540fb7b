#include "gpu/health_in.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"

#include <stdio.h>
#include <string.h>

/* -- evidence ------------------------------------------------------------- */

static void add_xid(struct health_evidence *e, uint16_t xid)
{
    for (unsigned i = 0; i < e->nxids; i++)
        if (e->xids[i] == xid)
            return;
    if (xid && e->nxids < HEALTH_SHOWN_XIDS)
        e->xids[e->nxids++] = xid;
}

void health_evidence(const struct health_rule *rule,
                     const struct health_row *row, uint64_t now_ms,
                     struct health_evidence *ret)
{
    *ret = (struct health_evidence) {
        .has_value = row->has_value, .value = row->value,
        .limit = rule->within_ms ? rule->count : rule->limit,
        .held_ms = health_since(now_ms, row->since_ms),
        .events = row->events, .relapses = row->relapses,
    };
    for (unsigned i = row->nlate; i-- > 0;)
        add_xid(ret, row->late[i].xid);
}

/* -- sentences ------------------------------------------------------------ */

struct words {
    char s[64];
};

static struct words time_words(uint64_t ms)
{
    struct words w = { "" };

    quantity_print_duration(ms >= 1000 ? ms / 1000 * 1000 : ms, w.s,
                            sizeof w.s);
    return w;
}

static struct words xid_words(const struct health_evidence *e)
{
    struct words w = { "" };
    size_t at = 0;

    for (unsigned i = 0; i < e->nxids && at < sizeof w.s; i++)
        at += (size_t) snprintf(w.s + at, sizeof w.s - at, "%s%u",
                                i ? ", " : "XID ", e->xids[i]);
    return w;
}

/* "temperature 91 C, limit 85 C, for 1m" */
static void say_what(const struct health_change *c, char *buf, size_t size)
{
    const struct health_about *a = health_about(c->rule->when);
    const struct health_evidence *e = &c->evidence;
    unsigned long long v = e->value;
    unsigned long long limit = e->limit;

    switch (a->sort) {
    case HEALTH_VALUE:
    case HEALTH_LEAK:
        (void) snprintf(buf, size, "%s: %llu%s, limit %llu%s, for %s",
                        a->words, v, a->unit, limit, a->unit,
                        time_words(e->held_ms).s);
        return;
    case HEALTH_CLOCKS:
    case HEALTH_STATE:
    case HEALTH_DRIVER:
        (void) snprintf(buf, size, "%s, for %s", a->words,
                        time_words(e->held_ms).s);
        return;
    case HEALTH_XID:
    case HEALTH_GROWTH:
    case HEALTH_RELOAD:
        break;
    }
    (void) snprintf(buf, size, "%s: %llu within %s",
                    e->nxids ? xid_words(e).s : a->words, v,
                    time_words(c->rule->within_ms).s);
}

void health_say(struct health_change *c)
{
    char what[HEALTH_TEXT - 128];

    switch (c->kind) {
    case HEALTH_RAISED:
    case HEALTH_ESCALATED:
        say_what(c, what, sizeof what);
        (void) snprintf(c->text, sizeof c->text, "%.64s: %s: %s", c->uuid,
                        what, health_action_name(c->rule->action));
        return;
    case HEALTH_PROBATION:
        (void) snprintf(c->text, sizeof c->text, "%.64s: %s is over; on"
                        " probation for %s", c->uuid, c->rule->name,
                        time_words(c->rule->probation_ms).s);
        return;
    case HEALTH_CLEARED:
    case HEALTH_KIND_COUNT:
        break;
    }
    (void) snprintf(c->text, sizeof c->text, "%.64s: %s is cleared; %s in"
                    " force", c->uuid, c->rule->name,
                    c->device ? health_action_name(c->device) : "nothing");
}

/* -- JSON ----------------------------------------------------------------- */

static json_t *evidence_json(const struct health_rule *rule,
                             const struct health_evidence *e)
{
    json_t *o = json_object();
    json_t *xids = json_array();

    if (e->has_value && e->value <= INT64_MAX)
        json_put_u64(o, "value", e->value);
    if (e->limit)
        json_put_u64(o, "limit", e->limit);
    if (rule->within_ms) {
        json_put_u64(o, "within_ms", rule->within_ms);
        json_put_u64(o, "count", e->events);
    }
    json_put_u64(o, "for_ms", e->held_ms);
    if (e->relapses)
        json_put_u64(o, "relapses", e->relapses);
    for (unsigned i = 0; i < e->nxids; i++)
        (void) json_array_append_new(xids, json_integer(e->xids[i]));
    if (e->nxids)
        json_put(o, "xids", xids);
    else
        json_decref(xids);
    return o;
}

json_t *health_change_json(const struct health_change *c)
{
    json_t *o = json_object();
    bool up = c->kind == HEALTH_RAISED || c->kind == HEALTH_ESCALATED;

    json_put_u64(o, "at_ms", c->at_ms);
    json_put_str(o, "uuid", c->uuid);
    json_put_str(o, "change", health_kind_name(c->kind));
    json_put_str(o, "rule", c->rule->name);
    json_put_str(o, "when", health_about(c->rule->when)->name);
    json_put_str(o, "action", health_action_name(c->rule->action));
    json_put_str(o, "in_force", health_action_name(c->device));
    json_put_str(o, "text", c->text);
    if (up && c->at_ms >= c->evidence.held_ms)
        json_put_u64(o, "since_ms", c->at_ms - c->evidence.held_ms);
    json_put(o, "evidence", evidence_json(c->rule, &c->evidence));
    return o;
}

static const char *state_name(const struct health_row *row)
{
    static const char *const names[] = {
        [HEALTH_WELL] = "pending", [HEALTH_ILL] = "raised",
        [HEALTH_BACK] = "probation",
    };

    return names[row->state];
}

/* What is left of a time, when that alone is waited for. */
static void put_left(json_t *o, const struct health_rule *rule,
                     const struct health_row *row, uint64_t now_ms)
{
    uint64_t held_ms = health_since(now_ms, row->since_ms);
    uint64_t wanted_ms = row->holds ? rule->for_ms : rule->probation_ms;

    if (row->state != HEALTH_ILL)
        json_put_u64(o, "left_ms", health_since(wanted_ms, held_ms));
}

/* The sentence of the change that led here. */
static void put_text(json_t *o, const struct health_rule *rule,
                     const struct health_device *d,
                     const struct health_evidence *e, bool raised)
{
    struct health_change c = {
        .kind = raised ? HEALTH_RAISED : HEALTH_PROBATION, .rule = rule,
        .device = d->action, .evidence = *e,
    };

    (void) snprintf(c.uuid, sizeof c.uuid, "%s", d->uuid);
    health_say(&c);
    json_put_str(o, "text", c.text);
}

static json_t *rows_json(const struct health *h,
                         const struct health_device *d, uint64_t now_ms)
{
    json_t *all = json_array();

    for (unsigned i = 0; i < h->rules.n; i++) {
        const struct health_rule *rule = &h->rules.all[i];
        const struct health_row *row = &d->rows[i];
        struct health_evidence e;
        json_t *o;

        if (row->state == HEALTH_WELL && !row->holds)
            continue;
        health_evidence(rule, row, now_ms, &e);
        o = json_object();
        json_put_str(o, "rule", rule->name);
        json_put_str(o, "state", state_name(row));
        json_put_str(o, "action", health_action_name(rule->action));
        put_left(o, rule, row, now_ms);
        if (rule->until_reset)
            json_put_str(o, "until", "reset");
        if (row->state != HEALTH_WELL)
            put_text(o, rule, d, &e, row->state == HEALTH_ILL);
        json_put(o, "evidence", evidence_json(rule, &e));
        (void) json_array_append_new(all, o);
    }
    return all;
}

json_t *health_json(const struct health *h, uint64_t now_ms)
{
    json_t *o = json_object();
    json_t *all = json_array();

    for (unsigned i = 0; i < DEVICE_MAX; i++) {
        const struct health_device *d = &h->devices[i];
        json_t *one;

        if (!d->uuid[0])
            continue;
        one = json_object();
        json_put_str(one, "uuid", d->uuid);
        json_put_str(one, "action", health_action_name(d->action));
        json_put_u64(one, "penalty", health_penalty(h, d->uuid));
        json_put(one, "rules", rows_json(h, d, now_ms));
        (void) json_array_append_new(all, one);
    }
    json_put(o, "devices", all);
    return o;
}
