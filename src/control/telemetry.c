#include "control/control_int.h"

#include "base/json.h"

#include <string.h>

/* How devices are, as runners told last.  In memory alone: after a start it is
 * told anew, and what is old is not shown.
 */
enum { FRESH_MS = 30000 };

void telemetry_take(struct control *c, const char *block,
                    const struct wire_msg *m)
{
    json_t *o = json_object();

    json_put_u64(o, "at", control_now(c));
    json_put(o, "devices", json_incref(m->sample));
    if (!c->telemetry)
        c->telemetry = json_object();
    json_put(c->telemetry, block, o);
}

const json_t *telemetry_find(const char *block, const char *uuid, void *arg)
{
    struct control *c = arg;
    const json_t *o = json_object_get(c->telemetry, block), *d;
    size_t i;

    if (!o || control_now(c) > json_get_u64(o, "at", 0) + FRESH_MS)
        return NULL;
    json_array_foreach(json_object_get(o, "devices"), i, d)
        if (strcmp(json_get_str(d, "uuid", ""), uuid) == 0)
            return d;
    return NULL;
}
