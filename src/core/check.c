#include "core/world_int.h"

#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* May this event happen now?  One function per event type, in one table; none
 * changes anything.  What gets through here, apply.c can do.
 */
static int want_workload(const struct world *w, const struct event *e,
                         struct workload **ret, struct err *err)
{
    *ret = world_workload(w, e->workload);
    if (!*ret)
        return err_set(err, ENOENT, "there is no workload w%" PRIu64
                       " that has not ended", e->workload);
    return 0;
}

static int want_task(const struct world *w, const struct event *e,
                     struct task **ret, struct err *err)
{
    struct workload *wl;
    int rc = want_workload(w, e, &wl, err);

    if (rc < 0)
        return rc;
    if (e->task >= wl->spec->ntasks)
        return err_set(err, ENOENT, "w%" PRIu64 " has no task %u", wl->id,
                       e->task);
    *ret = &wl->tasks[e->task];
    return 0;
}

static int want_data(const struct event *e, struct err *err)
{
    if (!json_is_object(e->data))
        return err_set(err, EINVAL, "%s: it has no data",
                       event_type_name(e->type));
    return 0;
}

static int check_done(const struct event *e, struct err *err)
{
    for (uint32_t i = 0; i < e->ndone; i++)
        if (e->done[i] >= e->spec->ntasks ||
            (i > 0 && e->done[i] <= e->done[i - 1]))
            return err_set(err, EINVAL, "done: task %u is out of order or out "
                           "of range", e->done[i]);
    return 0;
}

static int check_submitted(const struct world *w, const struct event *e,
                           struct err *err)
{
    const struct tenant *t = tenant_find(w, e->tenant);

    if (!e->spec)
        return err_set(err, EINVAL, "nothing was submitted");
    if (e->workload < w->next_workload || e->workload >= INT64_MAX)
        return err_set(err, EEXIST, "the id w%" PRIu64 " has been given "
                       "already; w%" PRIu64 " is next", e->workload,
                       w->next_workload);
    if (!t || t->removed)
        return err_set(err, ENOENT, "there is no tenant '%s'", e->tenant);
    if (e->key[0] && world_by_key(w, e->who, e->key))
        return err_set(err, EEXIST, "the key '%s' is in use", e->key);
    return check_done(e, err);
}

static int check_paused(const struct world *w, const struct event *e,
                        struct err *err)
{
    bool pause = e->type == EVENT_PAUSED;
    struct workload *wl;
    int rc = want_workload(w, e, &wl, err);

    if (rc == 0 && wl->paused == pause)
        return err_set(err, ESTALE, "w%" PRIu64 " is %s already", wl->id,
                       pause ? "paused" : "not paused");
    return rc;
}

static int check_aborting(const struct world *w, const struct event *e,
                          struct err *err)
{
    struct workload *wl;
    struct task *t;
    int rc = want_workload(w, e, &wl, err);

    if (rc < 0)
        return rc;
    if (e->task == EVENT_ALL) {
        if (wl->aborting && (wl->force || !e->force))
            return err_set(err, ESTALE, "w%" PRIu64 " is being aborted already",
                           wl->id);
        return 0;
    }
    rc = want_task(w, e, &t, err);
    if (rc < 0)
        return rc;
    if (t->state == TASK_ENDED)
        return err_set(err, ESTALE, "task '%s' has ended", t->spec->name);
    if (task_aborting(t) && (task_force(t) || !e->force))
        return err_set(err, ESTALE, "task '%s' is being aborted already",
                       t->spec->name);
    return 0;
}

static int check_workload_ended(const struct world *w, const struct event *e,
                                struct err *err)
{
    struct workload *wl;
    int rc = want_workload(w, e, &wl, err);

    if (rc < 0)
        return rc;
    if (wl->count[TASK_ENDED] != wl->spec->ntasks)
        return err_set(err, EBUSY, "w%" PRIu64 " has tasks that have not ended",
                       wl->id);
    if (e->outcome == OUTCOME_NONE || e->outcome >= OUTCOME_COUNT)
        return err_set(err, EINVAL, "an end without an outcome");
    return 0;
}

/* The grants take from the blocks one after the other, so that they are right
 * together, and give everything back.
 */
static int check_grants(const struct world *w, const struct task *t,
                        const struct event *e, struct err *err)
{
    autofree struct block **held = mem_array(e->ngrants, sizeof(*held));
    uint32_t n;
    int rc = 0;

    for (n = 0; n < e->ngrants; n++) {
        const struct grant *g = &e->grants[n];

        held[n] = world_block(w, g->block);
        if (g->rank != n)
            rc = err_set(err, EINVAL, "grant %u is not for rank %u", n, n);
        else if (!held[n])
            rc = err_set(err, ENOENT, "there is no block '%s'", g->block);
        else if (!block_open(held[n]))
            rc = err_set(err, EBUSY, "block '%s' takes nothing new", g->block);
        else
            rc = place_check(held[n], t->spec, g, err);
        if (rc < 0)
            break;
        place_take(held[n], t->spec, g);
    }
    while (n-- > 0)
        place_give(held[n], t->spec, &e->grants[n]);
    return rc;
}

static int check_planned(const struct world *w, const struct event *e,
                         struct err *err)
{
    struct task *t;
    int rc = want_task(w, e, &t, err);

    if (rc < 0)
        return rc;
    if (t->state != TASK_WAITING)
        return err_set(err, EBUSY, "task '%s' is %s, not waiting",
                       t->spec->name, task_state_name(t->state));
    if (e->gen != task_next_gen(t) || e->gen == 0)
        return err_set(err, ESTALE, "task '%s': generation %u is not %u, the "
                       "next", t->spec->name, e->gen, task_next_gen(t));
    if (e->ngrants != t->spec->ranks)
        return err_set(err, EINVAL, "task '%s' has %u ranks, not %u",
                       t->spec->name, t->spec->ranks, e->ngrants);
    return check_grants(w, t, e, err);
}

static int check_stopping(const struct world *w, const struct event *e,
                          struct err *err)
{
    struct task *t;
    int rc = want_task(w, e, &t, err);

    if (rc < 0)
        return rc;
    if (t->leases_left == 0 || e->gen != t->gen)
        return err_set(err, ESTALE, "task '%s' has nothing to stop",
                       t->spec->name);
    if (e->cause == SPEC_CAUSE_NONE || e->cause >= SPEC_CAUSE_COUNT)
        return err_set(err, EINVAL, "a stop without a cause");
    if (t->stopping && t->stop_cause == e->cause && (t->forced || !e->force))
        return err_set(err, ESTALE, "task '%s' is being stopped already",
                       t->spec->name);
    return 0;
}

/* Between the end of the last lease and what follows from it. */
static bool attempt_over(const struct task *t)
{
    return t->leases_left == 0 &&
           (t->state == TASK_STARTING || t->state == TASK_RUNNING ||
            t->state == TASK_ENDING);
}

static int check_retrying(const struct world *w, const struct event *e,
                          struct err *err)
{
    struct task *t;
    int rc = want_task(w, e, &t, err);

    if (rc < 0)
        return rc;
    if (!attempt_over(t))
        return err_set(err, EBUSY, "task '%s' has no attempt that is over",
                       t->spec->name);
    if (e->cause == SPEC_CAUSE_NONE || e->cause >= SPEC_CAUSE_COUNT ||
        e->until_ms > TIME_MAX)
        return err_set(err, EINVAL, "a retry without a cause or a time");
    return 0;
}

static int check_task_ended(const struct world *w, const struct event *e,
                            struct err *err)
{
    struct task *t;
    int rc = want_task(w, e, &t, err);

    if (rc < 0)
        return rc;
    if (t->state == TASK_ENDED)
        return err_set(err, ESTALE, "task '%s' has ended already",
                       t->spec->name);
    if (t->leases_left > 0)
        return err_set(err, EBUSY, "task '%s' has leases that have not ended",
                       t->spec->name);
    if (e->outcome == OUTCOME_NONE || e->outcome >= OUTCOME_COUNT ||
        e->cause >= SPEC_CAUSE_COUNT)
        return err_set(err, EINVAL, "an end without an outcome");
    return 0;
}

static int want_lease(const struct world *w, const struct event *e,
                      struct lease **ret, struct err *err)
{
    struct task *t;
    int rc = want_task(w, e, &t, err);

    if (rc < 0)
        return rc;
    if (e->rank >= t->spec->ranks)
        return err_set(err, ENOENT, "task '%s' has no rank %u", t->spec->name,
                       e->rank);
    if (!t->leases || t->leases[e->rank].gen != e->gen ||
        t->leases[e->rank].state == LEASE_ENDED)
        return err_set(err, ESTALE, "w%" PRIu64 ", task '%s', rank %u: "
                       "generation %u is over", e->workload, t->spec->name,
                       e->rank, e->gen);
    *ret = &t->leases[e->rank];
    return 0;
}

static int check_claimed(const struct world *w, const struct event *e,
                         struct err *err)
{
    enum lease_state next;
    struct lease *l;
    int rc = want_lease(w, e, &l, err);

    if (rc < 0)
        return rc;
    if (l->task->workload->quarantined)
        return err_set(err, ESTALE, "w%" PRIu64 " is quarantined", e->workload);
    return lease_next(l->state, LEASE_MOVE_CLAIM, &next, err);
}

static int check_lease_ended(const struct world *w, const struct event *e,
                             struct err *err)
{
    struct lease *l;
    int rc = want_lease(w, e, &l, err);

    if (rc < 0)
        return rc;
    if (e->cause >= SPEC_CAUSE_COUNT || e->started_ms > TIME_MAX ||
        e->ended_ms > TIME_MAX)
        return err_set(err, EINVAL, "an end with times or a cause that cannot "
                       "be");
    return 0;
}

static int check_device(const json_t *d, struct err *err)
{
    const char *model = json_get_str(d, "model", "");

    if (!model[0] || strlen(model) >= sizeof(((struct device *) NULL)->model))
        return err_set(err, EINVAL, "a device without a model, or one with a "
                       "model of more than 31 bytes");
    return 0;
}

/* What a block's leases hold has to fit into its new inventory. */
static int check_inventory(const struct block *b, const struct event *e,
                           struct err *err)
{
    const json_t *devices = json_object_get(e->data, "devices");
    uint64_t cpus = json_get_u64(e->data, "cpus_milli", 0);
    uint64_t memory = json_get_u64(e->data, "memory", 0);
    const struct lease *l;

    if (b->cpu_milli - b->cpu_free > cpus ||
        b->memory - b->memory_free > memory)
        return err_set(err, EBUSY, "block '%s' has leases that hold more CPUs "
                       "or memory than it has now", b->id);
    for (l = b->leases; l; l = l->next_on_block)
        for (uint32_t i = 0; i < l->grant.ndevices; i++)
            if (l->grant.device[i] >= json_array_size(devices))
                return err_set(err, EBUSY, "block '%s' has a lease on device "
                               "%u, which it no longer has", b->id,
                               l->grant.device[i]);
    return 0;
}

static int check_block_up(const struct world *w, const struct event *e,
                          struct err *err)
{
    static const struct { const char *name; size_t max; } texts[] = {
        { "pool", sizeof(((struct block *) NULL)->pool) },
        { "engine", sizeof(((struct block *) NULL)->engine) },
        { "node", sizeof(((struct block *) NULL)->node) },
        { "limits", sizeof(((struct block *) NULL)->limits) },
    };
    const struct block *b = world_block(w, e->block);
    const json_t *devices;
    int rc = want_data(e, err);

    if (rc < 0)
        return rc;
    if (!e->block[0])
        return err_set(err, EINVAL, "a block without an id");
    for (size_t i = 0; i < array_size(texts); i++)
        if (strlen(json_get_str(e->data, texts[i].name, "")) >= texts[i].max)
            return err_set(err, EINVAL, "block '%s': '%s' has more than %zu "
                           "bytes", e->block, texts[i].name, texts[i].max - 1);
    devices = json_object_get(e->data, "devices");
    if ((devices && !json_is_array(devices)) ||
        json_array_size(devices) > UINT16_MAX)
        return err_set(err, EINVAL, "block '%s': 'devices' is not a list, or "
                       "is longer than can be", e->block);
    for (size_t i = 0; i < json_array_size(devices) && rc == 0; i++)
        rc = check_device(json_array_get(devices, i), err);
    if (rc == 0 && b)
        rc = check_inventory(b, e, err);
    return rc;
}

static int check_block_lost(const struct world *w, const struct event *e,
                            struct err *err)
{
    const struct block *b = world_block(w, e->block);

    if (!b)
        return err_set(err, ENOENT, "there is no block '%s'", e->block);
    if (!b->up)
        return err_set(err, ESTALE, "block '%s' is down already", e->block);
    return 0;
}

static int check_drain(const struct world *w, const struct event *e,
                       struct err *err)
{
    bool drain = e->type == EVENT_NODE_DRAINED, known = false, news = false;

    for (uint32_t i = 0; i < w->nblocks; i++) {
        if (strcmp(w->blocks[i]->node, e->node) != 0)
            continue;
        known = true;
        news = news || w->blocks[i]->drained != drain;
    }
    if (!known)
        return err_set(err, ENOENT, "there is no node '%s'", e->node);
    if (!news)
        return err_set(err, ESTALE, "node '%s' is %s already", e->node,
                       drain ? "drained" : "not drained");
    return 0;
}

static int check_members(const json_t *members, struct err *err)
{
    if (members && !json_is_array(members))
        return err_set(err, EINVAL, "members is not a list");
    for (size_t i = 0; i < json_array_size(members); i++)
        if (!json_is_string(json_array_get(members, i)))
            return err_set(err, EINVAL, "a member is not a text");
    return 0;
}

static int check_tenant_set(const struct world *w, const struct event *e,
                            struct err *err)
{
    const json_t *max = json_object_get(e->data, "max_gpus_milli");
    int rc = want_data(e, err);

    (void) w;
    if (rc < 0)
        return rc;
    if (!spec_name_valid(e->tenant))
        return err_set(err, EINVAL, "'%s' cannot be the name of a tenant",
                       e->tenant);
    if (max && !(json_is_string(max) &&
                 strcmp(json_string_value(max), "unlimited") == 0) &&
        !(json_is_integer(max) && json_integer_value(max) >= 0 &&
          json_integer_value(max) < UINT32_MAX))
        return err_set(err, EINVAL, "tenant '%s': max_gpus_milli is neither a "
                       "number nor 'unlimited'", e->tenant);
    if (json_get_u64(e->data, "weight", 1) < 1 ||
        json_get_u64(e->data, "weight", 1) > 1000000)
        return err_set(err, EINVAL, "tenant '%s': weight is not from 1 to "
                       "1000000", e->tenant);
    return check_members(json_object_get(e->data, "members"), err);
}

static int check_tenant_removed(const struct world *w, const struct event *e,
                                struct err *err)
{
    const struct tenant *t = world_tenant(w, e->tenant);

    if (!t)
        return err_set(err, ENOENT, "there is no tenant '%s'", e->tenant);
    if (t->live > 0)
        return err_set(err, EBUSY, "tenant '%s' has %u workloads that have not "
                       "ended", e->tenant, t->live);
    return 0;
}

static int check_token_created(const struct world *w, const struct event *e,
                               struct err *err)
{
    static const char *const roles[] = { "viewer", "user", "operator",
                                         "admin" };
    const char *role = json_get_str(e->data, "role", "");
    size_t i = 0;
    int rc = want_data(e, err);

    if (rc < 0)
        return rc;
    while (i < array_size(roles) && strcmp(role, roles[i]) != 0)
        i++;
    if (i == array_size(roles))
        return err_set(err, EINVAL, "there is no role '%.40s'", role);
    if (!e->token[0] ||
        strlen(json_get_str(e->data, "name", "")) >=
            sizeof(((struct token *) NULL)->name) ||
        strlen(json_get_str(e->data, "hash", "")) >=
            sizeof(((struct token *) NULL)->hash) ||
        json_get_u64(e->data, "expires_ms", 0) > TIME_MAX)
        return err_set(err, EINVAL, "a token without an id, or with a name, "
                       "hash or time that is too long");
    if (world_token(w, e->token))
        return err_set(err, EEXIST, "the token '%s' is there already",
                       e->token);
    if (e->tenant[0] && !world_tenant(w, e->tenant))
        return err_set(err, ENOENT, "there is no tenant '%s'", e->tenant);
    return 0;
}

static int check_token_revoked(const struct world *w, const struct event *e,
                               struct err *err)
{
    const struct token *t = world_token(w, e->token);

    if (!t)
        return err_set(err, ENOENT, "there is no token '%s'", e->token);
    if (t->revoked)
        return err_set(err, ESTALE, "token '%s' is revoked already", e->token);
    return 0;
}

static int check_restored(const struct world *w, const struct event *e,
                          struct err *err)
{
    if (e->epoch <= w->epoch || e->epoch > INT64_MAX)
        return err_set(err, ESTALE, "epoch %" PRIu64 " does not follow "
                       "%" PRIu64, e->epoch, w->epoch);
    return 0;
}

static int check_released(const struct world *w, const struct event *e,
                          struct err *err)
{
    struct workload *wl;
    int rc = want_workload(w, e, &wl, err);

    if (rc == 0 && !wl->quarantined)
        return err_set(err, ESTALE, "w%" PRIu64 " is not quarantined", wl->id);
    return rc;
}

static int check_nothing(const struct world *w, const struct event *e,
                         struct err *err)
{
    (void) w;
    (void) e;
    (void) err;
    return 0;
}

typedef int (*check_f)(const struct world *w, const struct event *e,
                       struct err *err);

static const check_f checks[EVENT_TYPE_COUNT] = {
    [EVENT_SUBMITTED] = check_submitted,
    [EVENT_PAUSED] = check_paused,
    [EVENT_UNPAUSED] = check_paused,
    [EVENT_ABORTING] = check_aborting,
    [EVENT_WORKLOAD_ENDED] = check_workload_ended,
    [EVENT_PLANNED] = check_planned,
    [EVENT_STOPPING] = check_stopping,
    [EVENT_RETRYING] = check_retrying,
    [EVENT_TASK_ENDED] = check_task_ended,
    [EVENT_CLAIMED] = check_claimed,
    [EVENT_LEASE_ENDED] = check_lease_ended,
    [EVENT_BLOCK_UP] = check_block_up,
    [EVENT_BLOCK_LOST] = check_block_lost,
    [EVENT_NODE_DRAINED] = check_drain,
    [EVENT_NODE_UNDRAINED] = check_drain,
    [EVENT_TENANT_SET] = check_tenant_set,
    [EVENT_TENANT_REMOVED] = check_tenant_removed,
    [EVENT_TOKEN_CREATED] = check_token_created,
    [EVENT_TOKEN_REVOKED] = check_token_revoked,
    [EVENT_RESTORED] = check_restored,
    [EVENT_RELEASED] = check_released,
    [EVENT_DENIED] = check_nothing,
    [EVENT_STARTED] = check_nothing,
};

int world_check(const struct world *w, const struct event *e, struct err *err)
{
    if (e->type >= EVENT_TYPE_COUNT)
        return err_set(err, EINVAL, "there is no such event");
    if (e->time_ms < w->time_ms || e->time_ms > TIME_MAX)
        return err_set(err, EINVAL, "%s: its time is before that of the event "
                       "before, or past all times", event_type_name(e->type));
    if (e->seq != 0 && e->seq <= w->seq)
        return err_set(err, EINVAL, "%s: number %" PRIu64 " does not follow "
                       "%" PRIu64, event_type_name(e->type), e->seq, w->seq);
    return checks[e->type](w, e, err);
}
