#include "control/apart.h"

#include "base/json.h"
#include "plan/policy.h"

#include <stdio.h>
#include <string.h>

/* What a runner needs to start one rank; see engine/wire.h. */

static json_t *pairs_json(const struct spec_pair *p, uint32_t n)
{
    json_t *o = json_object();

    for (uint32_t i = 0; i < n; i++)
        json_put_str(o, p[i].key, p[i].value);
    return o;
}

static json_t *argv_json(const char *const *argv)
{
    json_t *a = json_array();

    for (; *argv; argv++)
        json_array_append_new(a, json_string(*argv));
    return a;
}

static json_t *user_json(const struct event_user *u)
{
    json_t *o = json_object();

    json_put_str(o, "name", u->name);
    json_put_u64(o, "uid", u->uid);
    json_put_u64(o, "gid", u->gid);
    return o;
}

static json_t *uuids_json(const struct order_of *f)
{
    json_t *a = json_array();

    for (uint32_t i = 0; i < f->grant->ndevices; i++) {
        const char *uuid = f->block->devices[f->grant->device[i]].uuid;

        if (uuid[0])
            (void) json_array_append_new(a, json_string(uuid));
    }
    return a;
}

/* Real devices have a gate in front of them, and whatever is on a block that
 * stages; but none where a lease is apart, which has its devices to itself.  A
 * share of a device is a share of its memory.
 */
static void put_gate(json_t *o, const struct control *c,
                     const struct order_of *f, const struct device *d)
{
    json_t *gate, *uuids;

    if (((d->simulated || f->block->simulated) && !f->block->stages) ||
        apart_pool(c, f->block->id))
        return;
    gate = json_object();
    if (f->staged)
        json_put_str(gate, "state", "staged");
    if (f->grant->milli < 1000)
        json_put_u64(gate, "memory", d->memory / 1000 * f->grant->milli);
    json_put_u64(gate, "context",
                 (uint64_t) world_policy(c->world)->context_mib << 20);
    uuids = uuids_json(f);
    if (json_array_size(uuids) == f->grant->ndevices)
        json_put(gate, "devices", uuids);
    else
        json_decref(uuids);
    json_put(o, "gate", gate);
}

static void put_devices(json_t *o, const struct control *c,
                        const struct order_of *f)
{
    const struct grant *g = f->grant;
    json_t *a = json_array();

    for (uint32_t i = 0; i < g->ndevices; i++)
        json_array_append_new(a, json_integer(g->device[i]));
    json_put(o, "devices", a);
    json_put_u64(o, "share_milli", g->milli);
    if (g->ndevices && f->block) {
        const struct device *d = &f->block->devices[g->device[0]];

        json_put_bool(o, "simulated", d->simulated || f->block->simulated);
        json_put_str(o, "model", d->model);
        put_gate(o, c, f, d);
    }
}

/* Ranks of one attempt meet here; another attempt gets another port. */
static void put_rendezvous(json_t *o, const struct order_of *f)
{
    const char *at = f->meet && *f->meet ? f->meet : "127.0.0.1";
    char text[96];

    (void) snprintf(text, sizeof text, strchr(at, ':') ? "[%s]:%u" : "%s:%u",
                    at, task_port(f->task, f->gen));
    json_put_str(o, "rendezvous", text);
}

/* Of tasks that have no device, too.  Whoever gives a lease that is apart its
 * devices sees to what it can open.
 */
static void put_nodes(json_t *o, const struct control *c,
                      const struct order_of *f)
{
    enum policy_nodes nodes = world_policy(c->world)->nodes;

    if (nodes != NODES_OPEN && !apart_pool(c, f->block->id))
        json_put_str(o, "nodes", nodes == NODES_ACTIVE ? "active" : "leased");
}

/* A lease that is apart may be told to end by others than home, as in a pod that
 * somebody deletes: by the same contract.
 */
static void put_stop(json_t *o, const struct control *c,
                     const struct order_of *f)
{
    const struct spec_task *s = f->task->spec;
    json_t *stop;

    if (!apart_pool(c, f->block->id))
        return;
    stop = json_object();
    json_put_u64(stop, "signal", (uint64_t) s->stop_signal);
    json_put_u64(stop, "grace_ms", s->stop_grace_ms);
    json_put_str(stop, "command", s->stop_command);
    json_put(o, "stop", stop);
}

json_t *order_json(const struct control *c, const struct order_of *f)
{
    const struct task *t = f->task;
    const struct spec_task *s = t->spec;
    json_t *o = json_object();
    char id[32];

    workload_id_print(t->workload->id, id, sizeof id);
    json_put_str(o, "name", s->name);
    json_put_str(o, "workload", id);
    json_put_str(o, "tenant", t->workload->tenant_name);
    if (s->argv)
        json_put(o, "argv", argv_json(s->argv));
    else
        json_put_str(o, "run", s->run);
    json_put(o, "env", pairs_json(s->env, s->nenv));
    json_put_str(o, "dir", s->dir);
    json_put_str(o, "image", s->image);
    json_put(o, "user", user_json(&t->workload->user));
    json_put_u64(o, "cpus_milli", s->cpu_milli);
    json_put_u64(o, "memory", s->memory);
    json_put_u64(o, "ranks", f->ranks);
    json_put_u64(o, "rank", f->rank);
    put_devices(o, c, f);
    put_nodes(o, c, f);
    put_stop(o, c, f);
    if (f->ranks > 1)
        put_rendezvous(o, f);
    json_put_u64(o, "log_bytes", c->conf->log_bytes);
    json_put_u64(o, "attempt", f->gen);
    return o;
}
