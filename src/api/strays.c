#include "api/strays.h"

#include "api/api_int.h"
#include "base/json.h"
#include "base/mem.h"
#include "core/world.h"

#include <string.h>

/* Processes that use devices otherwise than a lease says.  Who may not see a
 * workload does not see what its processes do, and strangers are for those who
 * see everything.
 */
static json_t *stray_view(const json_t *s)
{
    json_t *o = json_copy((json_t *) (uintptr_t) s);

    (void) json_object_del(o, "of");
    return o;
}

static void put_list(json_t *o, json_t *list)
{
    if (json_array_size(list))
        json_put(o, "strays", list);
    else
        json_decref(list);
}

static bool seen(const struct call *c, const json_t *s)
{
    uint64_t id = json_get_u64(json_object_get(s, "of"), "workload", 0);
    const struct workload *wl = id ? world_workload(api_world(c->api), id)
                                   : NULL;

    return auth_sees(c->api, &c->who, wl ? wl->tenant_name : NULL);
}

void put_device_strays(const struct call *c, const struct block *b,
                       const char *uuid, json_t *o)
{
    const json_t *all = c->api->ops->strays(b->id, c->api->arg);
    json_t *list = json_array(), *s;
    const char *what;

    json_object_foreach((json_t *) (uintptr_t) all, what, s)
        if (strcmp(json_get_str(s, "uuid", ""), uuid) == 0 && seen(c, s))
            (void) json_array_append_new(list, stray_view(s));
    put_list(o, list);
}

void put_task_strays(const struct call *c, const struct task *t, json_t *o)
{
    json_t *list = json_array(), *s;
    const struct block *b;
    const char *what;
    size_t pos = 0;

    while ((b = world_next_block(api_world(c->api), &pos))) {
        const json_t *all = c->api->ops->strays(b->id, c->api->arg);

        json_object_foreach((json_t *) (uintptr_t) all, what, s) {
            const json_t *of = json_object_get(s, "of");

            if (json_get_u64(of, "workload", 0) == t->workload->id &&
                json_get_u64(of, "task", UINT64_MAX) == t->index)
                (void) json_array_append_new(list, stray_view(s));
        }
    }
    put_list(o, list);
}
