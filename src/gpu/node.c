#include "gpu/node.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* A device that was seen once stays in the report: who looks for it finds it as
 * lost, also when the driver has struck it off its own list.  A device is its
 * UUID, never its index, which changes from one start of the driver to the
 * next.
 *
 * A handle is kept when its device is lost: the event that says why may still
 * come with it.
 */
struct node {
    struct nvml nvml;
    struct nvml_events *events;        /* NULL: none to be had */
    struct nvml_device *handles[DEVICE_MAX];
    struct device_list seen;           /* the last list that had devices */
    uint64_t pause_ms, again_ms;       /* of opening it anew */
    bool ailing;                       /* something is to be opened anew */
    struct node_report now;
};

struct node *node_new(void)
{
    struct node *n = mem_new(sizeof *n);

    n->now.list.state = NVML_NO_DRIVER;
    return n;
}

static void shut(struct node *n)
{
    if (n->events)
        (void) nvml_ask(&n->nvml, nvmlEventSetFree, n->events);
    n->events = NULL;
    memset(n->handles, 0, sizeof n->handles);
    nvml_close(&n->nvml);
}

void node_free(struct node *n)
{
    if (!n)
        return;
    shut(n);
    free(n);
}

const struct node_report *node_report(const struct node *n)
{
    return &n->now;
}

static void ail(struct node *n, uint64_t mono_ms)
{
    if (n->ailing)
        return;
    n->ailing = true;
    n->again_ms = mono_ms + (n->pause_ms ? n->pause_ms : NODE_PAUSE_MS);
    n->pause_ms = n->pause_ms ? n->pause_ms * 2 : (uint64_t) NODE_PAUSE_MS * 2;
    if (n->pause_ms > NODE_PAUSE_MAX_MS)
        n->pause_ms = NODE_PAUSE_MAX_MS;
}

static void driver_gone(struct node *n, enum nvml_state state,
                        const struct err *err, uint64_t mono_ms)
{
    struct device_list *l = &n->now.list;

    shut(n);
    l->n = 0;
    l->state = state;
    l->driver[0] = '\0';
    l->cuda = 0;
    (void) snprintf(l->why, sizeof l->why, "%.*s",
                    (int) sizeof l->why - 1, err->text);
    ail(n, mono_ms);
}

static struct device *by_uuid(struct device_list *l, const char *uuid)
{
    for (unsigned i = 0; i < l->n; i++)
        if (uuid[0] && !strcmp(l->all[i].uuid, uuid))
            return &l->all[i];
    return NULL;
}

/* A device without a name gets that of the one that was in its place, if that
 * is nowhere else now.
 */
static void name_nameless(struct device_list *l, struct device_list *seen)
{
    for (unsigned i = 0; i < l->n && i < seen->n; i++) {
        struct device *d = &l->all[i];
        const struct device *old = &seen->all[i];

        if (d->uuid[0] || by_uuid(l, old->uuid))
            continue;
        memcpy(d->uuid, old->uuid, sizeof d->uuid);
        memcpy(d->model, old->model, sizeof d->model);
        memcpy(d->pci, old->pci, sizeof d->pci);
        d->memory_bytes = old->memory_bytes;
        d->minor = old->minor;
        d->numa = old->numa;
    }
}

static void keep_missing(struct device_list *l, const struct device_list *seen)
{
    for (unsigned i = 0; i < seen->n && l->n < DEVICE_MAX; i++) {
        const struct device *old = &seen->all[i];
        struct device *d = &l->all[l->n];

        if (!old->uuid[0] || by_uuid(l, old->uuid))
            continue;
        *d = *old;
        d->index = l->n++;
        d->state = NVML_LOST;
        d->nmigs = d->nvlinks = 0;
        memset(d->links, 0, sizeof d->links);
        for (unsigned k = 0; k < DEVICE_MAX; k++)
            d->near[k] = DEVICE_NEAR_UNKNOWN;
        (void) snprintf(d->why, sizeof d->why,
                        "%s: the driver lists it no more", old->uuid);
    }
}

/* Without events XIDs are not told, and the inventory says so; everything else
 * goes on.
 */
static void watch_events(struct node *n)
{
    if (nvml_ask(&n->nvml, nvmlEventSetCreate, &n->events)) {
        n->events = NULL;
        return;
    }
    for (unsigned i = 0; i < n->now.list.n; i++)
        n->now.list.all[i].xids = n->handles[i] &&
            nvml_ask(&n->nvml, nvmlDeviceRegisterEvents, n->handles[i],
                     NVML_EVENT_XID, n->events) == NVML_RC_OK;
}

static bool all_ready(const struct device_list *l)
{
    for (unsigned i = 0; i < l->n; i++)
        if (l->all[i].state != NVML_READY)
            return false;
    return l->n > 0;
}

static void begin(struct node *n, uint64_t mono_ms)
{
    struct device_list *l = &n->now.list;
    enum nvml_state state = NVML_FAULT;
    struct err err = { 0 };

    n->ailing = false;
    if (nvml_open(&n->nvml, &state, &err) < 0) {
        driver_gone(n, state, &err, mono_ms);
        return;
    }
    if (device_list_read(&n->nvml, l, n->handles, &err) < 0) {
        driver_gone(n, l->state, &err, mono_ms);
        return;
    }
    name_nameless(l, &n->seen);
    keep_missing(l, &n->seen);
    n->seen = *l;
    memset(n->now.samples, 0, sizeof n->now.samples);
    watch_events(n);
    if (all_ready(l))
        n->pause_ms = 0;
    else
        ail(n, mono_ms);
}

static void device_gone(struct node *n, unsigned i, int rc, uint64_t mono_ms)
{
    struct device *d = &n->now.list.all[i];
    struct err err = { 0 };

    (void) nvml_fail(&n->nvml, rc, d->uuid, &err);
    d->state = nvml_state_of(rc);
    (void) snprintf(d->why, sizeof d->why, "%.*s", (int) sizeof d->why - 1,
                    err.text);
    ail(n, mono_ms);
}

static void sample(struct node *n, uint64_t mono_ms, uint64_t wall_ms)
{
    struct node_report *r = &n->now;

    for (unsigned i = 0; i < r->list.n; i++) {
        struct err err = { 0 };
        enum nvml_state s;
        int rc;

        if (r->list.all[i].state != NVML_READY)
            continue;
        rc = telemetry_read(&n->nvml, n->handles[i], wall_ms,
                            &r->samples[i]);
        s = nvml_state_of(rc);
        if (nvml_state_is_driver(s)) {
            (void) nvml_fail(&n->nvml, rc, NULL, &err);
            driver_gone(n, s, &err, mono_ms);
            memset(r->sampled, 0, sizeof r->sampled);
            return;
        }
        r->sampled[i] = rc == NVML_RC_OK;
        if (rc)
            device_gone(n, i, rc, mono_ms);
    }
}

static void note_xid(struct node *n, const struct nvml_event *e,
                     uint64_t wall_ms)
{
    struct node_xid *x = &n->now.xids[n->now.nxids++];

    *x = (struct node_xid) {
        .at_ms = wall_ms, .xid = e->data, .gpu_instance = e->gpu_instance,
        .compute_instance = e->compute_instance,
    };
    for (unsigned i = 0; i < n->now.list.n; i++)
        if (n->handles[i] == e->device)
            memcpy(x->uuid, n->now.list.all[i].uuid, sizeof x->uuid);
}

/* What is left when there is no more room waits in the driver. */
static void collect(struct node *n, uint64_t wall_ms)
{
    struct nvml_event e;

    while (n->events && n->now.nxids < NODE_XIDS &&
           nvml_ask(&n->nvml, nvmlEventSetWait_v2, n->events, &e, 0) ==
           NVML_RC_OK)
        if (e.type == NVML_EVENT_XID)
            note_xid(n, &e, wall_ms);
}

void node_look(struct node *n, uint64_t mono_ms, uint64_t wall_ms)
{
    n->now.nxids = 0;
    memset(n->now.sampled, 0, sizeof n->now.sampled);
    collect(n, wall_ms);
    if (n->ailing && mono_ms >= n->again_ms)
        shut(n);
    if (!n->nvml.lib && (!n->ailing || mono_ms >= n->again_ms))
        begin(n, mono_ms);
    if (n->nvml.lib)
        sample(n, mono_ms, wall_ms);
}

json_t *node_sample_json(const struct node_report *r)
{
    json_t *o = json_object();
    json_t *all = json_array();

    json_put_str(o, "state", nvml_state_name(r->list.state));
    json_put_str(o, "why", r->list.why[0] ? r->list.why : NULL);
    for (unsigned i = 0; i < r->list.n; i++) {
        const struct device *d = &r->list.all[i];
        json_t *one = r->sampled[i] ? telemetry_json(&r->samples[i]) :
                      json_object();

        json_put_u64(one, "index", d->index);
        json_put_str(one, "uuid", d->uuid[0] ? d->uuid : NULL);
        if (d->minor >= 0)
            json_put_u64(one, "minor", (uint64_t) d->minor);
        json_put_str(one, "state", nvml_state_name(d->state));
        json_put_str(one, "why", d->why[0] ? d->why : NULL);
        (void) json_array_append_new(all, one);
    }
    json_put(o, "devices", all);
    return o;
}

json_t *node_xid_json(const struct node_xid *x)
{
    json_t *o = json_object();

    json_put_u64(o, "at_ms", x->at_ms);
    json_put_str(o, "uuid", x->uuid[0] ? x->uuid : NULL);
    json_put_u64(o, "xid", x->xid);
    if (x->gpu_instance != ~0u) {
        json_put_u64(o, "gpu_instance", x->gpu_instance);
        json_put_u64(o, "compute_instance", x->compute_instance);
    }
    return o;
}
