#include "control/control_int.h"

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What runners say is the matter with devices.  Each change is an event; what
 * is told again is none.  core/remedy.c says what follows.
 */
static void tell(struct control *c, const char *block, const char *uuid,
                 json_t *rule)
{
    struct err err = { 0 };
    struct event e;
    int rc;

    event_init(&e, EVENT_DEVICE_HEALTH);
    (void) snprintf(e.block, sizeof e.block, "%s", block);
    (void) snprintf(e.who, sizeof e.who, "runner:%s", block);
    e.data = rule;
    json_put_str(e.data, "uuid", uuid);
    rc = journal_event(c, &e, NULL, NULL, &err);
    if (rc < 0 && rc != -ESTALE && rc != -ENOENT)
        log_say(LOG_WARN, "a device's health was refused", "block", block,
                "device", uuid, "error", err.text, NULL);
}

static bool listed(const json_t *rules, const char *name)
{
    const json_t *r;
    size_t i;

    json_array_foreach(rules, i, r)
        if (strcmp(json_get_str(r, "rule", ""), name) == 0)
            return true;
    return false;
}

static const struct device *find(const struct control *c, const char *block,
                                 const char *uuid)
{
    const struct block *b = world_block(c->world, block);

    for (uint32_t i = 0; b && i < b->ndevices; i++)
        if (strcmp(b->devices[i].uuid, uuid) == 0)
            return &b->devices[i];
    return NULL;
}

static json_t *cleared(const char *uuid, const json_t *rule)
{
    const char *name = json_get_str(rule, "rule", "");
    json_t *o = json_object();

    json_put_str(o, "rule", name);
    json_put_str(o, "state", "cleared");
    json_put_str(o, "action", json_get_str(rule, "action", ""));
    json_put(o, "text", json_sprintf("%s: %s is cleared: weir-gpud has it no "
                                     "more", uuid, name));
    return o;
}

/* What home has and weir-gpud has not is over. */
static void clear_others(struct control *c, const char *block,
                         const char *uuid, const json_t *rules)
{
    const struct device *d = find(c, block, uuid);
    autojson json_t *had = d ? view_health(d) : NULL;
    const json_t *rule;
    size_t i;

    json_array_foreach(json_object_get(had, "rules"), i, rule)
        if (!listed(rules, json_get_str(rule, "rule", "")))
            tell(c, block, uuid, cleared(uuid, rule));
}

void health_take(struct control *c, const char *block,
                 const struct wire_msg *m)
{
    const json_t *d, *rule;
    size_t i, k;

    json_array_foreach(m->health, i, d) {
        const char *uuid = json_get_str(d, "uuid", "");
        const json_t *rules = json_object_get(d, "rules");

        json_array_foreach(rules, k, rule)
            tell(c, block, uuid, json_deep_copy(rule));
        if (json_get_bool(d, "whole", false))
            clear_others(c, block, uuid, rules);
    }
}
