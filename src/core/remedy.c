#include "core/world_int.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* What is the matter with devices, as their nodes tell it, and what is done
 * about it.
 *
 *   device.health    a rule was raised on a device, is on probation, or is
 *                    cleared.  The strongest action of its rules is in force;
 *                    one on probation asks for no more than a cordon
 *   from cordon on   nothing new is placed there.  It is a cause of its own:
 *                    what an operator drained stays drained when it is over
 *   drain            who has said how to save its work is told to, and goes on
 *                    elsewhere; the others run to their end
 *   move             who can be suspended is, and comes back on another device
 *                    of its block; who cannot, as with drain
 *   restart          ends, and starts anew elsewhere, as work that was lost:
 *                    it is not counted as a try
 *
 * Whose processes have not begun yet gives its place back from drain on: that
 * costs nothing.  Tasks that run together with others are torn apart by no more
 * than a restart.
 */
enum { RULES_MAX = 64, RULE_NAME = 31, TEXT_MAX = 511 };

static const char *const names[REMEDY_COUNT] = {
#define X(name, text) [REMEDY_##name] = text,
    REMEDIES(X)
#undef X
};

const char *remedy_name(enum remedy r)
{
    return names[r];
}

/* REMEDY_COUNT: there is no such action. */
static enum remedy remedy_parse(const char *text)
{
    enum remedy r = REMEDY_NONE;

    while (r < REMEDY_COUNT && strcmp(text, names[r]) != 0)
        r++;
    return r;
}

static bool is_state(const char *state)
{
    return strcmp(state, "raised") == 0 || strcmp(state, "probation") == 0 ||
           strcmp(state, "cleared") == 0;
}

static enum remedy rule_asks(const json_t *rule)
{
    enum remedy r = remedy_parse(json_get_str(rule, "action", ""));

    if (strcmp(json_get_str(rule, "state", ""), "probation") == 0 &&
        r > REMEDY_CORDON)
        return REMEDY_CORDON;
    return r;
}

static void in_force(struct device *d)
{
    const char *name;
    json_t *rule;

    d->remedy = REMEDY_NONE;
    json_object_foreach(d->rules, name, rule)
        if (rule_asks(rule) > d->remedy)
            d->remedy = rule_asks(rule);
}

/* ---- may it be? ---- */

static struct device *device_of(const struct world *w, const struct event *e,
                                struct block **ret)
{
    const char *uuid = json_get_str(e->data, "uuid", "");
    struct block *b = world_block(w, e->block);

    for (uint32_t i = 0; b && *uuid && i < b->ndevices; i++)
        if (strcmp(b->devices[i].uuid, uuid) == 0) {
            *ret = b;
            return &b->devices[i];
        }
    return NULL;
}

static int check_rule(const json_t *data, struct err *err)
{
    const char *rule = json_get_str(data, "rule", "");
    const char *state = json_get_str(data, "state", "");
    const char *action = json_get_str(data, "action", "");
    enum remedy r = remedy_parse(action);

    if (!*rule || strlen(rule) > RULE_NAME)
        return err_set(err, EINVAL, "a rule of health without a name, or with "
                       "one of more than %d bytes", RULE_NAME);
    if (!is_state(state))
        return err_set(err, EINVAL, "rule '%s' is '%.20s', not raised, on "
                       "probation or cleared", rule, state);
    if (r == REMEDY_NONE || r == REMEDY_COUNT)
        return err_set(err, EINVAL, "rule '%s': there is no action '%.20s'",
                       rule, action);
    if (strlen(json_get_str(data, "text", "")) > TEXT_MAX)
        return err_set(err, EINVAL, "rule '%s': its text has more than %d "
                       "bytes", rule, TEXT_MAX);
    return 0;
}

static const json_t *rules_of(const json_t *device)
{
    return json_object_get(json_object_get(device, "health"), "rules");
}

int check_health(const json_t *device, struct err *err)
{
    const json_t *rule;
    int rc = 0;
    size_t i;

    json_array_foreach(rules_of(device), i, rule) {
        rc = check_rule(rule, err);
        if (rc < 0)
            break;
    }
    return rc;
}

/* Is it as the device has it already? */
static bool known(const struct device *d, const json_t *data)
{
    const json_t *had = json_object_get(d->rules,
                                        json_get_str(data, "rule", ""));
    const char *state = json_get_str(data, "state", "");

    if (!had)
        return strcmp(state, "cleared") == 0;
    return strcmp(json_get_str(had, "state", ""), state) == 0 &&
           strcmp(json_get_str(had, "action", ""),
                  json_get_str(data, "action", "")) == 0;
}

int check_device_health(const struct world *w, const struct event *e,
                        struct err *err)
{
    struct block *b = NULL;
    const struct device *d;
    const char *rule;
    int rc = want_data(e, err);

    if (rc == 0)
        rc = check_rule(e->data, err);
    if (rc < 0)
        return rc;
    rule = json_get_str(e->data, "rule", "");
    d = device_of(w, e, &b);
    if (!d)
        return err_set(err, ENOENT, "block '%s' has no device '%.47s'",
                       e->block, json_get_str(e->data, "uuid", ""));
    if (known(d, e->data))
        return err_set(err, ESTALE, "rule '%s' is %s on device '%s' already",
                       rule, json_get_str(e->data, "state", ""), d->uuid);
    if (json_object_size(d->rules) >= RULES_MAX &&
        !json_object_get(d->rules, rule))
        return err_set(err, EINVAL, "device '%s' has %d rules raised already",
                       d->uuid, RULES_MAX);
    return 0;
}

/* ---- what it changes ---- */

static void rule_set(struct device *d, const json_t *from, const char *since)
{
    static const char *const kept[] = { "rule", "state", "action", "text" };
    const char *rule = json_get_str(from, "rule", "");
    json_t *o = json_object();

    for (size_t i = 0; i < array_size(kept); i++)
        json_put_str(o, kept[i], json_get_str(from, kept[i], ""));
    if (since)
        json_put_str(o, "since", since);
    if (!d->rules)
        d->rules = json_object();
    json_put(d->rules, rule, o);
}

/* Who holds something of an ill device is looked at again. */
void remedy_look(struct world *w, const struct block *b)
{
    for (struct lease *l = b->leases; l; l = l->next_on_block)
        if (task_remedy(l->task) >= REMEDY_DRAIN)
            todo_add(w, l->task);
}

void apply_device_health(struct world *w, struct event *e)
{
    struct block *b = NULL;
    struct device *d = device_of(w, e, &b);
    const char *rule = json_get_str(e->data, "rule", "");
    autojson json_t *since = json_object();

    assert(b && d);                    /* check_device_health has looked */
    if (strcmp(json_get_str(e->data, "state", ""), "cleared") == 0) {
        (void) json_object_del(d->rules, rule);
    } else {
        view_time(since, "since", e->time_ms);
        rule_set(d, e->data, json_get_str(since, "since", NULL));
    }
    in_force(d);
    b->dirty = true;
    plan_device_open(w->plan, b->plan_node, (uint32_t) (d - b->devices),
                     device_open(d));
    remedy_look(w, b);
}

void remedy_free(struct device *d)
{
    json_decref(d->rules);
    d->rules = NULL;
}

/* The device goes by its UUID: in another slot it is as ill as before. */
void remedy_keep(struct device *d, const struct block *b, const json_t *row)
{
    const json_t *rule;
    size_t i;

    for (uint32_t k = 0; *d->uuid && k < b->ndevices; k++)
        if (strcmp(b->devices[k].uuid, d->uuid) == 0)
            d->rules = json_incref(b->devices[k].rules);
    if (b->ndevices == 0)
        json_array_foreach(rules_of(row), i, rule)
            rule_set(d, rule, json_get_str(rule, "since", NULL));
    in_force(d);
}

json_t *view_health(const struct device *d)
{
    json_t *j, *all;
    const char *name;
    json_t *rule;

    if (json_object_size(d->rules) == 0)
        return NULL;
    j = json_object();
    all = json_array();
    json_put_str(j, "action", remedy_name(d->remedy));
    json_object_foreach(d->rules, name, rule)
        (void) json_array_append_new(all, json_deep_copy(rule));
    json_put(j, "rules", all);
    return j;
}

/* ---- what is done about it ---- */

const struct device *task_illest(const struct task *t)
{
    const struct device *worst = NULL;

    for (uint32_t i = 0; t->leases && i < t->ranks; i++) {
        const struct lease *l = &t->leases[i];

        if (l->off || l->state == LEASE_ENDED)
            continue;
        for (uint32_t k = 0; k < l->grant.ndevices; k++) {
            const struct device *d = &l->block->devices[l->grant.device[k]];

            if (!worst || d->remedy > worst->remedy)
                worst = d;
        }
    }
    return worst;
}

enum remedy task_remedy(const struct task *t)
{
    const struct device *d = task_illest(t);

    return d ? d->remedy : REMEDY_NONE;
}

static void put_cause(struct event *e, const struct device *d)
{
    const char *name;
    json_t *rule;

    json_put_str(e->data, "why", "health");
    json_put_str(e->data, "device", d->uuid);
    json_object_foreach(d->rules, name, rule)
        if (rule_asks(rule) == d->remedy) {
            json_put_str(e->data, "rule", name);
            return;
        }
}

static void want(struct event *e, enum event_type type, const struct task *t,
                 const struct device *d)
{
    event_init(e, type);
    e->workload = t->workload->id;
    e->task = t->index;
    e->gen = t->gen;
    e->data = json_object();
    put_cause(e, d);
}

/* How it leaves, or NULL: it stays to its end. */
static const char *way_out(const struct task *t, enum remedy r)
{
    bool begun = t->attempt_ms != 0;

    if (t->spec->together)
        return NULL;
    if (!begun)
        return "kill";
    if (t->unclaimed > 0)              /* looked at again when all are there */
        return NULL;
    if (r >= REMEDY_MOVE && task_suspends(t) && !(t->away && t->away->kept))
        return "suspend";
    return task_has_contract(t) ? "checkpoint" : NULL;
}

bool remedy_next(const struct task *t, struct event *ret)
{
    const struct device *d = task_illest(t);
    const char *how;

    if (!d || d->remedy < REMEDY_DRAIN || t->stopping ||
        t->workload->quarantined || away_resumes(t))
        return false;
    if (d->remedy == REMEDY_RESTART) {
        want(ret, EVENT_STOPPING, t, d);
        ret->cause = SPEC_CAUSE_LOST;
        return true;
    }
    if (t->preempting || away_moves(t) || away_under_way(t))
        return false;
    how = way_out(t, d->remedy);
    if (!how)
        return false;
    want(ret, EVENT_PREEMPTING, t, d);
    json_put_str(ret->data, "how", how);
    return true;
}
