#include "control/control_int.h"

#include "base/json.h"

#include <stdio.h>

/* What a runner needs to start one rank; see engine/wire.h. */

enum { PORT_FIRST = 20000, PORT_SPAN = 10000 };

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

static void put_devices(json_t *o, const struct lease *l)
{
    const struct grant *g = &l->grant;
    json_t *a = json_array();

    for (uint32_t i = 0; i < g->ndevices; i++)
        json_array_append_new(a, json_integer(g->device[i]));
    json_put(o, "devices", a);
    json_put_u64(o, "share_milli", g->milli);
    if (g->ndevices && l->block) {
        const struct device *d = &l->block->devices[g->device[0]];

        json_put_bool(o, "simulated", d->simulated || l->block->simulated);
        json_put_str(o, "model", d->model);
    }
}

/* Ranks of one attempt meet here; another attempt gets another port. */
static void put_rendezvous(json_t *o, const struct lease *l)
{
    const struct task *t = l->task;
    uint64_t mix = t->workload->id * 7919 + t->index * 31 + l->gen;
    char text[64];

    (void) snprintf(text, sizeof text, "127.0.0.1:%u",
                    PORT_FIRST + (unsigned) (mix % PORT_SPAN));
    json_put_str(o, "rendezvous", text);
}

json_t *order_json(const struct control *c, const struct lease *l)
{
    const struct task *t = l->task;
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
    json_put_u64(o, "ranks", t->ranks);
    json_put_u64(o, "rank", l->rank);
    put_devices(o, l);
    if (t->ranks > 1)
        put_rendezvous(o, l);
    json_put_u64(o, "log_bytes", c->conf->log_bytes);
    json_put_u64(o, "attempt", l->gen);
    return o;
}
