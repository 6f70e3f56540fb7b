#include "api/api_int.h"

#include "base/json.h"
#include "base/mem.h"
#include "core/world.h"
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void target_clear(struct target *t)
{
    json_decref(t->row);
    spec_free(t->spec);
    *t = (struct target) { 0 };
}

const char *target_tenant(const struct target *t)
{
    return t->live ? t->live->tenant_name :
           json_get_str(t->row, "tenant", NULL);
}

int target_get(const struct call *c, uint64_t id, bool want_spec,
               struct target *ret, struct err *err)
{
    *ret = (struct target) {
        .id = id, .live = world_workload(api_world(c->api), id),
    };
    if (ret->live)
        return 0;
    return store_workload(api_store(c->api), id, &ret->row,
                          want_spec ? &ret->spec : NULL, err);
}

bool target_find(struct call *c, const char *id, bool want_spec,
                 struct target *ret)
{
    struct target t = { 0 };
    struct err err = { 0 };
    uint64_t n;
    int rc = workload_id_parse(id, &n, NULL);

    if (rc == 0)
        rc = target_get(c, n, want_spec, &t, &err);
    else
        rc = -ENOENT;
    if (rc < 0 && rc != -ENOENT) {
        reply_rc(c, rc, &err);
        return false;
    }
    if (rc == 0 && auth_sees(c->api, &c->who, target_tenant(&t))) {
        *ret = t;
        return true;
    }
    if (rc == 0)
        call_denied(c, 404);
    target_clear(&t);
    reply_absent(c, "workload", id);
    return false;
}

const struct tenant *call_tenant(struct call *c, const char *name)
{
    const struct tenant *t = world_tenant(api_world(c->api), name);

    if (t && auth_sees(c->api, &c->who, name))
        return t;
    if (t)
        call_denied(c, 404);
    reply_absent(c, "tenant", name);
    return NULL;
}

bool call_choose_tenant(struct call *c, const char *name, const char *how,
                        char *ret, size_t size)
{
    if (!name)
        name = auth_own_tenant(c->api, &c->who);
    if (!name) {
        reply_error(c, 400, "you are a member of several tenants: say which "
                    "%s", how);
        return false;
    }
    if (!call_tenant(c, name))
        return false;
    (void) snprintf(ret, size, "%s", name);
    return true;
}

json_t *target_view(const struct target *t)
{
    return t->live ? view_workload(t->live) : json_deep_copy(t->row);
}

static bool find_name(const struct spec *s, const char *name, uint32_t *ret)
{
    for (uint32_t i = 0; i < s->ntasks; i++) {
        if (strcmp(s->tasks[i].name, name) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

bool target_task(struct call *c, const struct target *t, const char *name,
                 uint32_t *ret)
{
    if (t->live) {
        const struct task *task = workload_task(t->live, name);

        if (task) {
            *ret = task->index;
            return true;
        }
    } else if (t->spec && find_name(t->spec, name, ret)) {
        return true;
    }
    reply_absent(c, "task", name);
    return false;
}
