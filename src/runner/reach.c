#include "runner/held.h"

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "runner/nodes.h"

#include <string.h>

/* Which device nodes a task can open, where its group can say so: none without
 * a lease on a device, else those of its devices, and with "active" none while
 * it stands at its gate or is suspended.  It is the runner that says it: before
 * the task starts, before its gate opens, before it is brought back.  What it
 * has open when they are closed stays open.
 *
 * The numbers of devices are weir-gpud's to tell.  Until it has, those of all
 * devices are open to who has one.
 */
static bool add_minors(const struct runner *r, const char *devices,
                       struct nodes_rule *rule)
{
    for (const char *p = devices; p && *p; p += *p == ',') {
        size_t len = strcspn(p, ",");
        autofree char *uuid = mem_strn(p, len);
        const json_t *minor = json_object_get(r->minors, uuid);

        if (!minor || rule->n == ORDER_DEVICES_MAX)
            return false;
        rule->minor[rule->n++] = (uint32_t) json_integer_value(minor);
        p += len;
    }
    return true;
}

/* The group of one that has started is its keeper's, who removes it. */
static int set(const struct held *h, const struct nodes_rule *rule,
               struct err *err)
{
    const struct runner *r = h->runner;
    autofree char *group = NULL;
    struct nodes all;
    bool two = false;
    int rc = nodes_read(r->conf->devices_file, &all, err);

    if (rc < 0 || all.n == 0)
        return rc;
    rc = cgroup_for_nodes(&r->cgroup, h->name, h->state == HELD_NEW, &group,
                          &two, err);
    if (rc < 0 || !group)
        return rc;
    return two ? nodes_set2(&all, group, rule, err)
               : nodes_set1(&all, group, rule, err);
}

static void say(struct held *h, bool open, const char *more)
{
    struct runner *r = h->runner;
    struct nodes_rule rule = { .closed = !open || !h->devices };
    struct err err = { 0 };

    if (h->nodes == ORDER_NODES_OPEN || h->state == HELD_ENDED)
        return;
    h->nodes_late = !rule.closed && (!add_minors(r, h->devices, &rule) ||
                                     !add_minors(r, more, &rule));
    rule.open = h->nodes_late;
    if (set(h, &rule, &err) == 0 || r->nodes_told)
        return;
    log_say(LOG_WARN, "device nodes are not closed to tasks", "why", err.text,
            NULL);
    r->nodes_told = true;
}

void reach_open(struct held *h, const char *more)
{
    say(h, true, more);
}

/* Of one that is on its way move.c has the word. */
void reach_settle(struct held *h)
{
    const char *state = behind_state(h);
    bool waits = strcmp(state, "staged") == 0 ||
                 strcmp(state, "suspended") == 0;

    if (!h->move)
        say(h, h->nodes != ORDER_NODES_ACTIVE || !waits, NULL);
}

void reach_learn(struct runner *r, const json_t *devices)
{
    const json_t *d;
    struct held *h;
    size_t i, pos = 0;

    if (!r->minors)
        r->minors = json_object();
    json_array_foreach(devices, i, d) {
        const char *uuid = json_get_str(d, "uuid", "");
        json_t *minor = json_object_get(d, "minor");

        if (*uuid && json_is_integer(minor) && json_integer_value(minor) >= 0)
            (void) json_object_set(r->minors, uuid, minor);
    }
    while ((h = map_next(r->held, &pos, NULL)))
        if (h->nodes_late)
            reach_settle(h);
}
