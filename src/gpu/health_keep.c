#include "gpu/health_in.h"

#include "base/json.h"

#include <string.h>

/* Rows that are raised or on probation, with the events that count for them,
 * and what a reset is recognised by: the driver and the energy counted since it
 * was loaded.  A level is not kept: the next look knows it.
 */
static const char *const states[] = {
    [HEALTH_ILL] = "raised", [HEALTH_BACK] = "probation",
};

static json_t *row_json(const struct health_rule *rule,
                        const struct health_row *row)
{
    json_t *o = json_object();
    json_t *late = json_array();

    json_put_str(o, "rule", rule->name);
    json_put_str(o, "state", states[row->state]);
    json_put_u64(o, "events", row->events);
    json_put_u64(o, "relapses", row->relapses);
    if (row->was_reset)
        json_put_bool(o, "was_reset", true);
    for (unsigned i = 0; i < row->nlate; i++) {
        json_t *e = json_object();

        json_put_u64(e, "at_ms", row->late[i].at_ms);
        json_put_u64(e, "xid", row->late[i].xid);
        (void) json_array_append_new(late, e);
    }
    json_put(o, "late", late);
    return o;
}

static json_t *device_rows(const struct health *h,
                           const struct health_device *d)
{
    json_t *all = json_array();

    for (unsigned i = 0; i < h->rules.n; i++)
        if (d->rows[i].state != HEALTH_WELL)
            (void) json_array_append_new(all, row_json(&h->rules.all[i],
                                                       &d->rows[i]));
    return all;
}

json_t *health_save(const struct health *h)
{
    json_t *o = json_object();
    json_t *all = json_array();

    json_put_str(o, "driver", h->driver);
    for (unsigned i = 0; i < DEVICE_MAX; i++) {
        const struct health_device *d = &h->devices[i];
        json_t *one;

        if (!d->uuid[0] || d->action == HEALTH_NONE)
            continue;
        one = json_object();
        json_put_str(one, "uuid", d->uuid);
        json_put_str(one, "state", nvml_state_name(d->state));
        if (d->has_energy && d->energy <= INT64_MAX)
            json_put_u64(one, "energy", d->energy);
        json_put(one, "rules", device_rows(h, d));
        (void) json_array_append_new(all, one);
    }
    json_put(o, "devices", all);
    return o;
}

/* -- back ----------------------------------------------------------------- */

static bool get_text(const json_t *o, const char *key, char *ret, size_t size)
{
    const char *s = json_get_str(o, key, "");
    size_t n = strlen(s);

    if (n == 0 || n >= size)
        return false;
    memcpy(ret, s, n + 1);
    return true;
}

static int rule_of(const struct health *h, const char *name)
{
    for (unsigned i = 0; i < h->rules.n; i++)
        if (!strcmp(h->rules.all[i].name, name))
            return (int) i;
    return -1;
}

/* With `known` unset the next look begins its times anew. */
static void restore_row(const struct health *h, struct health_device *d,
                        const json_t *j)
{
    const char *state = json_get_str(j, "state", "");
    const json_t *late = json_object_get(j, "late");
    int i = rule_of(h, json_get_str(j, "rule", ""));
    struct health_row *row;
    const json_t *e;
    size_t k;

    if (i < 0 || (strcmp(state, states[HEALTH_ILL]) != 0 &&
                  strcmp(state, states[HEALTH_BACK]) != 0))
        return;
    row = &d->rows[i];
    *row = (struct health_row) {
        .state = strcmp(state, states[HEALTH_ILL]) ? HEALTH_BACK : HEALTH_ILL,
        .events = json_get_u64(j, "events", 0),
        .relapses = (unsigned) json_get_u64(j, "relapses", 0),
        .was_reset = json_get_bool(j, "was_reset", false),
    };
    row->holds = row->state == HEALTH_ILL;
    json_array_foreach(late, k, e) {
        uint64_t xid = json_get_u64(e, "xid", 0);

        if (row->nlate < HEALTH_COUNT_MAX && xid <= HEALTH_XID_MAX)
            row->late[row->nlate++] = (struct health_event) {
                json_get_u64(e, "at_ms", 0), (uint16_t) xid,
            };
    }
}

static enum nvml_state state_of(const json_t *j)
{
    for (unsigned s = 0; s < NVML_STATE_COUNT; s++)
        if (!strcmp(json_get_str(j, "state", ""), nvml_state_name(s)))
            return (enum nvml_state) s;
    return NVML_READY;
}

void health_restore(struct health *h, const json_t *j)
{
    const json_t *one, *row;
    size_t i, k;
    unsigned n = 0;

    h->driver_seen = get_text(j, "driver", h->driver, sizeof h->driver);
    json_array_foreach(json_object_get(j, "devices"), i, one) {
        struct health_device *d = &h->devices[n];
        const json_t *energy = json_object_get(one, "energy");
        char uuid[NVML_TEXT];

        if (n == DEVICE_MAX || !get_text(one, "uuid", uuid, sizeof uuid) ||
            health_find(h, uuid))
            continue;
        memcpy(d->uuid, uuid, sizeof d->uuid);
        d->state = state_of(one);
        d->has_energy = json_is_integer(energy);
        d->energy = json_get_u64(one, "energy", 0);
        json_array_foreach(json_object_get(one, "rules"), k, row)
            restore_row(h, d, row);
        d->action = health_in_force(h, d);
        n++;
    }
}
