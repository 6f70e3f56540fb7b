#include "core/world_int.h"

#include "base/err.h"
#include "base/json.h"
#include "plan/policy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Devices that are not used.
 *
 * Who has used its devices when is not the world's to know: it is heard by the
 * moment and not journalled.  The world says how long is too long, and keeps
 * what becomes of it: task.suspending, why "idle", with the evidence.  Such a
 * task is off its devices with its threads running and not in line until
 * task.recalled says that it was "wanted": a thread of it stands at the gate.
 * An operator may recall it, too.
 */
uint64_t task_idle_grace_ms(const struct world *w, const struct task *t)
{
    const struct tenant *tenant = t->workload->tenant;
    uint64_t ms = tenant->idle_grace_ms ? tenant->idle_grace_ms
                                        : world_policy(w)->idle_grace_ms;
    uint64_t own = t->spec->idle_grace_ms;

    if (t->spec->idle_release == SPEC_IDLE_NEVER || !task_suspends(t))
        return 0;
    return own && (own < ms || ms == 0) ? own : ms;
}

int check_idle(const struct event *e, const struct task *t, struct err *err)
{
    const char *kind = json_get_str(e->data, "kind", "");

    if (t->spec->idle_release == SPEC_IDLE_NEVER)
        return err_set(err, EINVAL, "task '%s' does not bear to run on without "
                       "its devices", t->spec->name);
    if (e->until_ms != 0 || json_get_u64(e->data, "grace_ms", 0) == 0 ||
        json_get_u64(e->data, "used_ms", 0) > TIME_MAX ||
        json_get_u64(e->data, "grace_ms", 0) > TIME_MAX ||
        strlen(kind) >= sizeof(t->away->idle_kind))
        return err_set(err, EINVAL, "task '%s': idle without its evidence",
                       t->spec->name);
    return 0;
}

void apply_idle(struct task *t, const struct event *e)
{
    const struct tenant *tenant = t->workload->tenant;
    struct task_away *a = t->away;

    a->idle = a->awake = true;
    a->idle_used_ms = json_get_u64(e->data, "used_ms", 0);
    a->idle_grace_ms = json_get_u64(e->data, "grace_ms", 0);
    (void) snprintf(a->idle_kind, sizeof(a->idle_kind), "%s",
                    json_get_str(e->data, "kind", ""));
    a->urgent = tenant->has_interactive;
    a->priority = tenant->interactive;
}

json_t *idle_view(const struct task_away *a)
{
    json_t *j = json_object();

    view_time(j, "last", a->idle_used_ms);
    json_put_str(j, "kind", a->idle_kind);
    json_put_milli(j, "grace_seconds", a->idle_grace_ms);
    view_flag(j, "wanted", !a->idle);
    if (a->urgent)
        json_put(j, "priority", json_integer(a->priority));
    return j;
}

json_t *idle_hidden(const struct task_away *a)
{
    return json_pack("[I,I,i]", (json_int_t) a->idle_used_ms,
                     (json_int_t) a->idle_grace_ms, (int) a->idle);
}

int idle_load(struct task_away *a, const json_t *row, const json_t *hidden)
{
    const json_t *idle = json_object_get(row, "idle");
    const json_t *priority = json_object_get(idle, "priority");
    const char *kind = json_get_str(idle, "kind", "");
    json_int_t used, grace, level = json_integer_value(priority);
    int waits;

    if (!hidden)
        return 0;
    if (json_unpack((json_t *) (uintptr_t) hidden, "[I,I,i]", &used, &grace,
                    &waits) < 0 ||
        used < 0 || used > (json_int_t) TIME_MAX ||
        grace < 0 || grace > (json_int_t) TIME_MAX ||
        level < -SPEC_MAX_PRIORITY || level > SPEC_MAX_PRIORITY ||
        strlen(kind) >= sizeof(a->idle_kind))
        return -EINVAL;
    a->awake = true;
    a->idle = waits != 0;
    a->idle_used_ms = (uint64_t) used;
    a->idle_grace_ms = (uint64_t) grace;
    (void) snprintf(a->idle_kind, sizeof(a->idle_kind), "%s", kind);
    a->urgent = priority != NULL;
    a->priority = (int16_t) level;
    return 0;
}
