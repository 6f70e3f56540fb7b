#include "gpu/device.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>

static const struct {
    int level;
    const char *name;
} nears[] = {
    { DEVICE_NEAR_BOARD, "board" },
    { DEVICE_NEAR_SWITCH, "switch" },
    { DEVICE_NEAR_SWITCHES, "switches" },
    { DEVICE_NEAR_BRIDGE, "bridge" },
    { DEVICE_NEAR_NODE, "node" },
    { DEVICE_NEAR_SYSTEM, "system" },
};

const char *device_near_name(int level)
{
    for (size_t i = 0; i < array_size(nears); i++)
        if (nears[i].level == level)
            return nears[i].name;
    return NULL;
}

static void put_text(json_t *o, const char *key, const char *text)
{
    if (text[0])
        json_put_str(o, key, text);
}

static json_t *mig_json(const struct device *d)
{
    json_t *all = json_array();

    for (unsigned i = 0; i < d->nmigs; i++) {
        const struct device_mig *m = &d->migs[i];
        json_t *o = json_object();

        json_put_str(o, "uuid", m->uuid);
        json_put_u64(o, "gpu_instance", m->gpu_instance);
        json_put_u64(o, "compute_instance", m->compute_instance);
        if (m->memory_bytes)
            json_put_u64(o, "memory_bytes", m->memory_bytes);
        (void) json_array_append_new(all, o);
    }
    return all;
}

static json_t *near_json(const struct device_list *l, const struct device *d)
{
    json_t *all = json_array();

    for (unsigned k = 0; k < l->n; k++) {
        const char *level = device_near_name(d->near[k]);
        json_t *o;

        if (!level && !d->links[k])
            continue;
        o = json_object();
        json_put_u64(o, "index", k);
        json_put_str(o, "pcie", level);
        if (d->links[k])
            json_put_u64(o, "nvlinks", d->links[k]);
        (void) json_array_append_new(all, o);
    }
    return all;
}

json_t *device_json(const struct device_list *l, unsigned i)
{
    const struct device *d = &l->all[i];
    json_t *o = json_object();
    char cc[32];

    json_put_u64(o, "index", d->index);
    json_put_str(o, "state", nvml_state_name(d->state));
    put_text(o, "why", d->why);
    put_text(o, "uuid", d->uuid);
    put_text(o, "model", d->model);
    if (d->memory_bytes)
        json_put_u64(o, "memory_bytes", d->memory_bytes);
    if (d->cc_major) {
        (void) snprintf(cc, sizeof cc, "%d.%d", d->cc_major, d->cc_minor);
        json_put_str(o, "compute_capability", cc);
    }
    put_text(o, "pci", d->pci);
    if (d->minor >= 0)
        json_put_u64(o, "minor", (uint64_t) d->minor);
    if (d->numa >= 0)
        json_put_u64(o, "numa", (uint64_t) d->numa);
    if (d->mig_mode >= 0)
        json_put_bool(o, "mig", d->mig_mode == 1);
    if (d->nmigs)
        json_put(o, "mig_instances", mig_json(d));
    if (d->state == NVML_READY)
        json_put_bool(o, "xids", d->xids);
    if (d->nvlinks)
        json_put_u64(o, "nvlinks", d->nvlinks);
    if (l->n > 1)
        json_put(o, "near", near_json(l, d));
    return o;
}

json_t *device_list_json(const struct device_list *l)
{
    json_t *o = json_object();
    json_t *all = json_array();
    char cuda[32];

    json_put_str(o, "state", nvml_state_name(l->state));
    put_text(o, "why", l->why);
    put_text(o, "driver", l->driver);
    if (l->cuda) {
        (void) snprintf(cuda, sizeof cuda, "%d.%d", l->cuda / 1000,
                        l->cuda % 1000 / 10);
        json_put_str(o, "cuda", cuda);
    }
    if (l->scrub != SCRUB_UNKNOWN)
        json_put_bool(o, "scrubs", l->scrub == SCRUB_ON);
    for (unsigned i = 0; i < l->n; i++)
        (void) json_array_append_new(all, device_json(l, i));
    json_put(o, "devices", all);
    return o;
}
