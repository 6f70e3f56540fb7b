#include "engine/engine.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "kube/config.h"
#include "kube/inventory.h"
#include "kube/kube.h"
#include "kube/ledger.h"
#include "kube/node.h"
#include "kube/track.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* kubernetes - a cluster, through its API.
 *
 * Its nodes and everybody's pods are listed and watched, and what the nodes have
 * less what pods take is what is free; requests that only look, and none that
 * writes.  Nothing is got there yet, so it is for pools that are observed.
 *
 * The pool is reachable once both lists are there, and until one of them can be
 * neither gone on with nor made anew.  What was known then is still shown.
 */
static const char *const known[] = { "kubeconfig", "context", "namespace",
                                     NULL };
static const char GPU[] = "nvidia.com/gpu";

struct side {
    struct kubernetes *of;
    enum inventory_kind kind;
    struct track *track;
    bool listed;
    char trouble[512];                 /* "": all is well */
};

struct kubernetes {
    struct engine base;
    struct engine_events events;
    void *arg;
    struct config *conf;
    struct kube *kube;
    struct inventory *inventory;
    struct ledger *ledger;             /* what stood idle over time */
    struct side sides[2];
};

static int kubernetes_check(const json_t *conf, struct err *err)
{
    const char *file = json_get_str(conf, "kubeconfig", NULL);
    int rc = engine_conf_keys(conf, known, err);

    if (rc < 0)
        return rc;
    if (file && file[0] != '/')
        return err_set(err, EINVAL, "conf: kubeconfig: '%.200s' is not a whole "
                       "path, as /etc/weir/cluster.kubeconfig is one", file);
    if (!file && json_object_get(conf, "context"))
        return err_set(err, EINVAL, "conf: context: it is of a kubeconfig, and "
                       "there is none");
    return 0;
}

/* ---- what is heard ---- */

static void tell(struct kubernetes *k)
{
    for (size_t i = 0; i < array_size(k->sides); i++)
        if (k->sides[i].trouble[0]) {
            ledger_seen(k->ledger, false, clock_wall_ms());
            k->events.state(false, k->sides[i].trouble, k->arg);
            return;
        }
    if (!k->sides[0].listed || !k->sides[1].listed)
        return;
    ledger_seen(k->ledger, true, clock_wall_ms());
    k->events.state(true, "", k->arg);
}

static void on_list(void *arg)
{
    struct side *s = arg;

    inventory_list(s->of->inventory, s->kind);
    ledger_list(s->of->ledger, s->kind, clock_wall_ms());
}

static void on_listed(void *arg)
{
    struct side *s = arg;

    s->listed = true;
    inventory_listed(s->of->inventory, s->kind);
    ledger_listed(s->of->ledger, s->kind, clock_wall_ms());
    tell(s->of);
}

static int on_put(const json_t *object, void *arg, struct err *err)
{
    struct side *s = arg;
    int rc = inventory_put(s->of->inventory, s->kind, object, err);

    return rc < 0 ? rc : ledger_put(s->of->ledger, s->kind, object,
                                    clock_wall_ms(), err);
}

static int on_gone(const json_t *object, void *arg, struct err *err)
{
    struct side *s = arg;

    ledger_drop(s->of->ledger, s->kind, object, clock_wall_ms());
    return inventory_drop(s->of->inventory, s->kind, object, err);
}

static void on_odd(const char *text, void *arg)
{
    struct side *s = arg;

    s->of->events.trouble(text, s->of->arg);
}

static void on_trouble(const char *text, void *arg)
{
    struct side *s = arg;

    (void) snprintf(s->trouble, sizeof s->trouble, "%s", text);
    tell(s->of);
}

static void on_well(void *arg)
{
    struct side *s = arg;

    s->trouble[0] = '\0';
    tell(s->of);
}

static const struct track_ops track_ops = {
    .list = on_list, .listed = on_listed, .put = on_put, .gone = on_gone,
    .odd = on_odd, .trouble = on_trouble, .well = on_well,
};

/* ---- open, close ---- */

static void kubernetes_close(struct engine *e)
{
    struct kubernetes *k = (struct kubernetes *) e;

    if (!k)
        return;
    for (size_t i = 0; i < array_size(k->sides); i++)
        track_close(k->sides[i].track);
    kube_close(k->kube);
    inventory_free(k->inventory);
    ledger_free(k->ledger);
    config_free(k->conf);
    free(k);
}

/* A file's context, or what a pod finds in itself. */
static int load(const json_t *conf, struct config **ret, struct err *err)
{
    const char *file = json_get_str(conf, "kubeconfig", NULL);

    if (file)
        return config_load(file, json_get_str(conf, "context", NULL), ret,
                           err);
    if (!getenv("KUBERNETES_SERVICE_HOST"))
        return err_set(err, ENOENT, "no kubeconfig, and this is no pod of a "
                       "cluster: name one with --kubeconfig");
    return config_in_pod(getenv("KUBERNETES_SERVICE_HOST"),
                         getenv("KUBERNETES_SERVICE_PORT"), CONFIG_POD_FOLDER,
                         ret, err);
}

static int kubernetes_open(struct loop *l, const struct engine_conf *conf,
                           const struct engine_events *events, void *arg,
                           struct engine **ret, struct err *err)
{
    struct kubernetes *k = mem_new(sizeof *k);
    int rc = load(conf->conf, &k->conf, err);

    k->base.ops = &engine_kubernetes;
    k->events = *events;
    k->arg = arg;
    if (rc == 0)
        rc = kube_open(l, k->conf, &k->kube, err);
    if (rc < 0) {
        kubernetes_close(&k->base);
        return rc;
    }
    k->inventory = inventory_new();
    k->ledger = ledger_new();
    k->sides[0] = (struct side) { .of = k, .kind = INVENTORY_NODE };
    k->sides[1] = (struct side) { .of = k, .kind = INVENTORY_POD };
    k->sides[0].track = track_open(k->kube, "nodes", "/api/v1/nodes", "",
                                   &track_ops, &k->sides[0]);
    k->sides[1].track = track_open(k->kube, "pods", "/api/v1/pods", "",
                                   &track_ops, &k->sides[1]);
    *ret = &k->base;
    return 0;
}

/* ---- what there is ---- */

/* More may be taken than there is: of a node that was made smaller. */
static void put_pair(json_t *o, const char *name, uint64_t total,
                     uint64_t taken)
{
    json_put(o, name, json_pack("{s:I,s:I}", "total", (json_int_t) total,
                                "free", (json_int_t)
                                (taken < total ? total - taken : 0)));
}

static json_t *node_json(const struct kube_node *n,
                         const struct resources *taken, size_t pods)
{
    json_t *o = json_object(), *others = json_object();

    json_put_str(o, "name", n->name);
    put_pair(o, "cpus_milli", n->has.cpu_milli, taken->cpu_milli);
    put_pair(o, "memory", n->has.memory, taken->memory);
    put_pair(o, "devices", resources_count(&n->has, GPU),
             resources_count(taken, GPU));
    for (size_t i = 0; i < n->has.n; i++) {
        const struct resource *r = &n->has.list[i];

        if (strcmp(r->name, GPU) != 0)
            put_pair(others, r->name, r->count,
                     resources_count(taken, r->name));
    }
    if (json_object_size(others))
        json_put(o, "others", others);
    else
        json_decref(others);
    json_put_str(o, "model", n->product);
    if (n->device_memory)
        json_put_u64(o, "device_memory", n->device_memory);
    json_put_str(o, "domain", n->domain);
    json_put_str(o, "closed", n->closed);
    json_put_u64(o, "pods", pods);
    return o;
}

static json_t *kubernetes_inventory(struct engine *e)
{
    const struct kubernetes *k = (const struct kubernetes *) e;
    json_t *o = json_object(), *nodes = json_array();
    const struct resources *taken;
    const struct kube_node *n;
    struct inventory_sum sum;
    size_t pos = 0, pods;

    while ((n = inventory_next(k->inventory, &pos, &taken, &pods)))
        (void) json_array_append_new(nodes, node_json(n, taken, pods));
    inventory_total(k->inventory, &sum);
    json_put(o, "nodes", nodes);
    json_put_u64(o, "pods", sum.pods);
    json_put_u64(o, "waiting", sum.waiting);
    resources_clear(&sum.has);
    resources_clear(&sum.taken);
    return o;
}

static json_t *kubernetes_history(struct engine *e, enum engine_history what)
{
    const struct kubernetes *k = (const struct kubernetes *) e;
    uint64_t now = clock_wall_ms();
    json_t *row, *rows;

    if (what == ENGINE_OVER || what == ENGINE_END)
        return ledger_take(k->ledger, what == ENGINE_END, now);
    row = ledger_row(k->ledger, what == ENGINE_GOING, now);
    if (!row)
        return NULL;
    rows = json_array();
    (void) json_array_append_new(rows, row);
    return rows;
}

/* ---- what cannot be asked for of a pool that is observed ---- */

static int refuse(struct err *err)
{
    return err_set(err, ENOTSUP, "nothing is started on Kubernetes yet");
}

static int kubernetes_get(struct engine *e, const char *block, struct err *err)
{
    (void) e;
    (void) block;
    return refuse(err);
}

static int kubernetes_give(struct engine *e, const char *block,
                           struct err *err)
{
    (void) e;
    (void) block;
    return refuse(err);
}

static json_t *kubernetes_find(struct engine *e)
{
    (void) e;
    return json_array();
}

static int kubernetes_log(struct engine *e, const char *block, const char *key,
                          uint32_t gen, uint64_t epoch, uint64_t offset,
                          void *buf, size_t size, struct engine_log *ret,
                          struct err *err)
{
    (void) e;
    (void) block;
    (void) gen;
    (void) epoch;
    (void) offset;
    (void) buf;
    (void) size;
    (void) ret;
    return err_set(err, ENOENT, "%s: no such log", key);
}

static json_t *kubernetes_log_list(struct engine *e)
{
    (void) e;
    return json_array();
}

static int kubernetes_log_drop(struct engine *e, uint64_t workload,
                               struct err *err)
{
    (void) e;
    (void) workload;
    (void) err;
    return 0;
}

const struct engine_ops engine_kubernetes = {
    .name = "kubernetes",
    .grain = ENGINE_GRAIN_NODE,
    .observed = true,
    .check = kubernetes_check,
    .open = kubernetes_open,
    .close = kubernetes_close,
    .inventory = kubernetes_inventory,
    .history = kubernetes_history,
    .get = kubernetes_get,
    .give = kubernetes_give,
    .start = engine_no_start,
    .stop = engine_no_stop,
    .output = engine_no_output,
    .find = kubernetes_find,
    .log = kubernetes_log,
    .log_list = kubernetes_log_list,
    .log_drop = kubernetes_log_drop,
};
