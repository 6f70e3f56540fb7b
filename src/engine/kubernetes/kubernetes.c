#include "engine/engine.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "engine/kept.h"
#include "engine/kubernetes/blocks.h"
#include "engine/kubernetes/guestpods.h"
#include "engine/kubernetes/guestspec.h"
#include "engine/kubernetes/name.h"
#include "engine/kubernetes/observed.h"
#include "engine/kubernetes/pods.h"
#include "engine/kubernetes/podspec.h"
#include "engine/kubernetes/rights.h"
#include "engine/logread.h"
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
 * Its nodes and everybody's pods are listed and watched; what the nodes have
 * less what pods take is what is free.  Nodes are blocks (blocks.h), leases are
 * pods (pods.h), and each has a runner of its own; what its task prints comes
 * by the wire and is kept (engine/kept.h).  Of a pool that is observed nothing
 * is asked that writes.
 *
 * The pool is reachable once both lists are there and all is allowed that is
 * needed (rights.h), and until one of the lists can be neither gone on with nor
 * made anew.  What was known then is still shown.
 */
static const char *const known[] = {
    "kubeconfig", "context", "namespace", "image", "task_image",
    "service_account", "runtime_class", "priority_class", "tolerate",
    "scheduler", "tenant", NULL,
};
static const char GPU[] = "nvidia.com/gpu";

enum { AUTHORITY_MAX = 1024 * 1024, SPACE_MAX = 63 };

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
    struct ledger *ledger;             /* what stood idle over time; NULL: it
                                        * is not observed */
    struct side sides[2];
    bool observe;
    char *dir;                         /* of the logs that are kept */
    json_t *words;                     /* the pool's conf, and ... */
    struct podspec spec;               /* ... what follows from it */
    char *texts[3];                    /* instance, authority, home: of it */
    char *pool;
    struct blocks *blocks;
    struct pods *pods;
    struct guestpods *guests;             /* NULL: it takes none */
    struct rights *rights;
    struct kept *kept;
    bool asked;                        /* the answer about rights is there, */
    char missing[400];                 /* and what it says; "": all well */
};

/* As Kubernetes has it: it becomes a part of paths. */
static int check_space(const char *s, struct err *err)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-");

    return n > 0 && n <= SPACE_MAX && !s[n] ? 0 :
           err_set(err, EINVAL, "conf: namespace: '%.80s' cannot be one: small "
                   "letters, digits and '-', %d at most", s, SPACE_MAX);
}

static int kubernetes_check(const json_t *conf, bool observe, struct err *err)
{
    const char *file = json_get_str(conf, "kubeconfig", NULL);
    const char *space = json_get_str(conf, "namespace", NULL);
    int rc = engine_conf_keys(conf, known, err);

    if (rc == 0 && space)
        rc = check_space(space, err);
    if (rc < 0)
        return rc;
    if (file && file[0] != '/')
        return err_set(err, EINVAL, "conf: kubeconfig: '%.200s' is not a whole "
                       "path, as /etc/weir/cluster.kubeconfig is one", file);
    if (!file && json_object_get(conf, "context"))
        return err_set(err, EINVAL, "conf: context: it is of a kubeconfig, and "
                       "there is none");
    if (!observe && !json_get_str(conf, "image", NULL))
        return err_set(err, EINVAL, "conf: image: work starts there with an "
                       "image that has " PODSPEC_PROGRAM "; name one with "
                       "--conf image=NAME, or only look with --observe");
    return 0;
}

/* ---- what is heard ---- */

static bool is_whole(const struct kubernetes *k)
{
    return k->sides[0].listed && k->sides[1].listed &&
           (k->observe || (k->asked && !k->missing[0]));
}

static void changed(struct kubernetes *k)
{
    if (!k->observe)
        blocks_changed(k->blocks, is_whole(k));
}

static void seen(struct kubernetes *k, bool yes)
{
    if (k->ledger)
        ledger_seen(k->ledger, yes, clock_wall_ms());
}

static void tell(struct kubernetes *k)
{
    if (k->missing[0]) {
        k->events.state(false, k->missing, k->arg);
        return;
    }
    for (size_t i = 0; i < array_size(k->sides); i++)
        if (k->sides[i].trouble[0]) {
            seen(k, false);
            k->events.state(false, k->sides[i].trouble, k->arg);
            return;
        }
    if (!is_whole(k))
        return;
    seen(k, true);
    k->events.state(true, "", k->arg);
}

/* Now it is known what there is to get. */
static void first(struct kubernetes *k, bool was_whole)
{
    changed(k);
    tell(k);
    if (was_whole || !is_whole(k) || k->observe)
        return;
    pods_ready(k->pods);
    if (k->guests)
        guestpods_ready(k->guests);
    k->events.changed(k->arg);
}

/* Of the pods those that are this pool's. */
static bool is_ours(const json_t *pod, void *arg)
{
    const struct kubernetes *k = arg;

    return !k->observe && (podspec_is_ours(&k->spec, pod) ||
                           (k->guests && guestpods_own(k->guests, pod)));
}

static bool is_lease(const struct side *s, const json_t *object)
{
    return s->kind == INVENTORY_POD && !s->of->observe &&
           podspec_is_ours(&s->of->spec, object);
}

static bool is_guest(const struct side *s, const json_t *object)
{
    return s->kind == INVENTORY_POD && s->of->guests &&
           guestpods_is(s->of->guests, object);
}

static void on_list(void *arg)
{
    struct side *s = arg;

    inventory_list(s->of->inventory, s->kind);
    if (s->of->ledger)
        ledger_list(s->of->ledger, s->kind, clock_wall_ms());
    else if (s->kind == INVENTORY_POD)
        pods_list(s->of->pods);
    if (s->kind == INVENTORY_POD && s->of->guests)
        guestpods_list(s->of->guests);
}

static void on_listed(void *arg)
{
    struct side *s = arg;
    bool was = is_whole(s->of);

    s->listed = true;
    inventory_listed(s->of->inventory, s->kind);
    if (s->of->ledger)
        ledger_listed(s->of->ledger, s->kind, clock_wall_ms());
    else if (s->kind == INVENTORY_POD)
        pods_listed(s->of->pods);
    if (s->of->guests && s->kind == INVENTORY_POD)
        guestpods_listed(s->of->guests);
    first(s->of, was);
}

static int on_put(const json_t *object, void *arg, struct err *err)
{
    struct side *s = arg;
    int rc = inventory_put(s->of->inventory, s->kind, object, err);

    if (rc == 0 && s->of->ledger)
        rc = ledger_put(s->of->ledger, s->kind, object, clock_wall_ms(), err);
    if (is_lease(s, object))
        pods_put(s->of->pods, object);
    if (is_guest(s, object))
        guestpods_put(s->of->guests, object);
    changed(s->of);
    return rc;
}

static int on_gone(const json_t *object, void *arg, struct err *err)
{
    struct side *s = arg;
    int rc = inventory_drop(s->of->inventory, s->kind, object, err);

    if (s->of->ledger)
        ledger_drop(s->of->ledger, s->kind, object, clock_wall_ms());
    if (is_lease(s, object))
        pods_gone(s->of->pods, object);
    if (is_guest(s, object))
        guestpods_gone(s->of->guests, object);
    changed(s->of);
    return rc;
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

/* ---- what pods and blocks ask, and say ---- */

static void on_over(const char *runner, enum spec_cause cause, int status,
                    const char *why, void *arg)
{
    struct kubernetes *k = arg;

    k->events.lease_over(runner, cause, status, why, k->arg);
}

static void on_came(const json_t *guest, void *arg)
{
    struct kubernetes *k = arg;

    k->events.guest(guest, k->arg);
}

static void on_left(const char *uid, void *arg)
{
    struct kubernetes *k = arg;

    k->events.guest_gone(uid, k->arg);
}

static void on_all_told(void *arg)
{
    struct kubernetes *k = arg;

    k->events.guests_told(k->arg);
}

static void on_begun(const char *runner, void *arg)
{
    struct kubernetes *k = arg;

    k->events.lease_begun(runner, k->arg);
}

static void on_refused(const char *text, void *arg)
{
    struct kubernetes *k = arg;

    k->events.trouble(text, k->arg);
}

static void on_moved(void *arg)
{
    changed(arg);
}

static void on_late(void *arg)
{
    const struct kubernetes *k = arg;

    k->events.changed(k->arg);
}

static const char *node_of(const char *block, void *arg)
{
    return blocks_node(((struct kubernetes *) arg)->blocks, block);
}

static bool fits(uint64_t has, uint64_t taken, uint64_t more)
{
    return taken <= has && has - taken >= more;
}

static bool has_room(const char *node, const struct engine_lease *l, void *arg)
{
    const struct kubernetes *k = arg;
    const struct resources *taken;
    const struct kube_node *n = inventory_node(k->inventory, node, &taken,
                                               NULL);

    return n && fits(n->has.cpu_milli, taken->cpu_milli, l->cpus_milli) &&
           fits(n->has.memory, taken->memory, l->memory) &&
           fits(resources_count(&n->has, GPU), resources_count(taken, GPU),
                l->gpus);
}

static bool is_alive(const char *node, void *arg)
{
    const struct kubernetes *k = arg;
    const struct kube_node *n = inventory_node(k->inventory, node, NULL, NULL);

    return n && n->ready;
}

static bool is_busy(const char *node, void *arg)
{
    const struct kubernetes *k = arg;

    return pods_busy(k->pods, node) ||
           (k->guests && guestpods_busy(k->guests, node));
}

static void on_up(const char *block, const char *token,
                  const json_t *inventory, void *arg)
{
    struct kubernetes *k = arg;

    k->events.block_up(block, token, inventory, k->arg);
}

static void on_lost(const char *block, const char *why, void *arg)
{
    struct kubernetes *k = arg;

    k->events.block_lost(block, why, k->arg);
}

static void on_rights(const char *missing, void *arg)
{
    struct kubernetes *k = arg;
    bool was = is_whole(k);

    k->asked = true;
    (void) snprintf(k->missing, sizeof k->missing, "%s", missing);
    first(k, was);
}

static const struct rights_ops rights_ops = { .told = on_rights };

/* ---- open, close ---- */

static void kubernetes_close(struct engine *e)
{
    struct kubernetes *k = (struct kubernetes *) e;

    if (!k)
        return;
    for (size_t i = 0; i < array_size(k->sides); i++)
        track_close(k->sides[i].track);
    rights_close(k->rights);
    pods_close(k->pods);
    guestpods_close(k->guests);
    blocks_free(k->blocks);
    kube_close(k->kube);
    inventory_free(k->inventory);
    ledger_free(k->ledger);
    kept_close(k->kept);
    config_free(k->conf);
    for (size_t i = 0; i < array_size(k->texts); i++)
        free(k->texts[i]);
    json_decref(k->words);
    free(k->pool);
    free(k->dir);
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

/* Where something is to start there has to be more than to look. */
static int check_start(const struct engine_conf *conf, struct err *err)
{
    if (!conf->runners_url || !conf->runners_ca)
        return err_set(err, EINVAL, "runners cannot come home from there: "
                       "start weir up with --runners");
    if (!conf->instance)
        return err_set(err, EINVAL, "this control plane has no name to tell "
                       "its pods by");
    if (strlen(conf->pool) > NAME_POOL_MAX)
        return err_set(err, EINVAL, "the pool's name is longer than %d bytes: "
                       "its nodes have no room behind it", NAME_POOL_MAX);
    return 0;
}

static int open_spec(struct kubernetes *k, const struct engine_conf *conf,
                     struct err *err)
{
    const json_t *o = k->words = json_deep_copy(conf->conf);
    const char *image = json_get_str(o, "image", NULL);
    int rc = fs_read(conf->runners_ca, AUTHORITY_MAX, &k->texts[1], NULL,
                     err);

    if (rc < 0)
        return err_prefix(err, rc, "the authority of runners");
    k->texts[0] = mem_str(conf->instance);
    k->texts[2] = mem_str(conf->runners_url);
    k->pool = mem_str(conf->pool);
    k->spec = (struct podspec) {
        .instance = k->texts[0], .pool = k->pool,
        .space = json_get_str(o, "namespace", k->conf->space),
        .image = image, .task_image = json_get_str(o, "task_image", image),
        .service_account = json_get_str(o, "service_account", NULL),
        .runtime_class = json_get_str(o, "runtime_class", NULL),
        .priority_class = json_get_str(o, "priority_class", NULL),
        .tolerate = json_get_str(o, "tolerate", NULL),
        .authority = k->texts[1], .home = k->texts[2],
        .log_bytes = conf->log_bytes,
    };
    return check_space(k->spec.space, err);  /* a kubeconfig's, perhaps */
}

/* Pods of others, unless it is to have none. */
static void open_guests(struct kubernetes *k)
{
    struct guestpods_conf conf = {
        .scheduler = json_get_str(k->words, "scheduler", GUEST_SCHEDULER),
        .instance = k->spec.instance, .tolerate = k->spec.tolerate,
        .tenant = json_get_str(k->words, "tenant", NULL),
        .came = on_came, .left = on_left, .all_told = on_all_told,
        .begun = on_begun, .over = on_over, .moved = on_moved, .trouble = on_refused, .node_of = node_of,
        .room = has_room, .arg = k,
    };

    if (strcmp(conf.scheduler, "none") != 0)
        k->guests = guestpods_open(k->kube, &conf);
}

/* What is there beside a look. */
static int open_start(struct kubernetes *k, const struct engine_conf *conf,
                      struct loop *l, struct err *err)
{
    struct pods_conf pods = {
        .spec = &k->spec, .over = on_over, .moved = on_moved,
        .late = on_late, .node_of = node_of, .room = has_room, .alive = is_alive, .arg = k,
    };
    struct blocks_conf blocks = { .up = on_up, .lost = on_lost,
                                  .busy = is_busy, .arg = k };
    int rc = check_start(conf, err);

    if (rc == 0)
        rc = open_spec(k, conf, err);
    if (rc == 0)
        rc = kept_open(conf->state_dir, conf->log_bytes, &k->kept, err);
    if (rc < 0)
        return rc;
    blocks.pool = k->pool;
    blocks.tolerate = k->spec.tolerate;
    k->blocks = blocks_new(l, k->inventory, &blocks);
    k->pods = pods_open(k->kube, &pods);
    open_guests(k);
    k->rights = rights_open(k->kube, k->spec.space, &rights_ops, k);
    return 0;
}

static void open_sides(struct kubernetes *k)
{
    k->sides[0] = (struct side) { .of = k, .kind = INVENTORY_NODE };
    k->sides[1] = (struct side) { .of = k, .kind = INVENTORY_POD };
    k->sides[0].track = track_open(k->kube, "nodes", "/api/v1/nodes", "",
                                   &track_ops, &k->sides[0]);
    k->sides[1].track = track_open(k->kube, "pods", "/api/v1/pods", "",
                                   &track_ops, &k->sides[1]);
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
    k->observe = conf->observe;
    k->dir = mem_str(conf->state_dir);
    k->inventory = inventory_new();
    inventory_own(k->inventory, is_ours, k);
    k->ledger = k->observe ? ledger_new() : NULL;
    if (rc == 0)
        rc = kube_open(l, k->conf, &k->kube, err);
    if (rc == 0 && !k->observe)
        rc = open_start(k, conf, l, err);
    if (rc < 0) {
        kubernetes_close(&k->base);
        return rc;
    }
    open_sides(k);
    *ret = &k->base;
    return 0;
}

static json_t *kubernetes_history(struct engine *e, enum engine_history what)
{
    const struct kubernetes *k = (const struct kubernetes *) e;
    uint64_t now = clock_wall_ms();
    json_t *row, *rows;

    if (!k->ledger)
        return NULL;
    if (what == ENGINE_OVER || what == ENGINE_END)
        return ledger_take(k->ledger, what == ENGINE_END, now);
    row = ledger_row(k->ledger, what == ENGINE_GOING, now);
    if (!row)
        return NULL;
    rows = json_array();
    (void) json_array_append_new(rows, row);
    return rows;
}

static json_t *kubernetes_inventory(struct engine *e)
{
    const struct kubernetes *k = (const struct kubernetes *) e;

    return k->observe ? observed_json(k->inventory)
                      : blocks_list(k->blocks);
}

/* ---- blocks and leases ---- */

static int refuse(const struct kubernetes *k, const char *what,
                  struct err *err)
{
    return !k->observe ? 0 : err_set(err, ENOTSUP, "%s: the pool is only "
                                     "looked at", what);
}

static int kubernetes_get(struct engine *e, const char *block, struct err *err)
{
    struct kubernetes *k = (struct kubernetes *) e;
    int rc = refuse(k, block, err);

    if (rc == 0)
        blocks_get(k->blocks, block);
    return rc;
}

static int kubernetes_give(struct engine *e, const char *block,
                           struct err *err)
{
    struct kubernetes *k = (struct kubernetes *) e;
    int rc = refuse(k, block, err);

    if (rc == 0)
        blocks_give(k->blocks, block);
    return rc;
}

static int kubernetes_start(struct engine *e, const struct engine_lease *l,
                            struct err *err)
{
    struct kubernetes *k = (struct kubernetes *) e;
    int rc = refuse(k, l->runner, err);

    if (rc == 0 && l->guest && !k->guests)
        rc = err_set(err, EINVAL, "the pool takes no pods of others any more");
    if (rc < 0)
        return rc;
    return l->guest ? guestpods_start(k->guests, l, err)
                    : pods_start(k->pods, l, err);
}

static int kubernetes_stop(struct engine *e, const char *runner,
                           struct err *err)
{
    struct kubernetes *k = (struct kubernetes *) e;
    int rc = refuse(k, runner, err);

    if (rc == 0 && k->guests && guestpods_stop(k->guests, runner))
        return 0;
    return rc < 0 ? rc : pods_stop(k->pods, runner, err);
}

static int kubernetes_tell(struct engine *e, const char *uid,
                           const struct engine_word *w, struct err *err)
{
    const struct kubernetes *k = (const struct kubernetes *) e;
    int rc = refuse(k, uid, err);

    if (rc == 0 && k->guests)
        guestpods_tell(k->guests, uid, w);
    return rc;
}

static json_t *kubernetes_find(struct engine *e)
{
    const struct kubernetes *k = (const struct kubernetes *) e;

    json_t *list = k->observe ? json_array() : pods_find(k->pods);

    if (k->guests)
        guestpods_find(k->guests, list);
    return list;
}

/* ---- logs ---- */

static int kubernetes_output(struct engine *e, const struct engine_output *o,
                             uint64_t *ret_end, struct err *err)
{
    struct kubernetes *k = (struct kubernetes *) e;
    int rc = refuse(k, "a log", err);

    return rc < 0 ? rc : kept_add(k->kept, o, ret_end, err);
}

static int kubernetes_log(struct engine *e, const char *block, const char *key,
                          uint32_t gen, uint64_t epoch, uint64_t offset,
                          void *buf, size_t size, struct engine_log *ret,
                          struct err *err)
{
    const struct kubernetes *k = (const struct kubernetes *) e;

    (void) block;                      /* the attempt alone names the log */
    return logread_log(k->dir, key, gen, epoch, offset, buf, size, ret, err);
}

static json_t *kubernetes_log_list(struct engine *e)
{
    return logread_list(((const struct kubernetes *) e)->dir);
}

static int kubernetes_log_drop(struct engine *e, uint64_t workload,
                               struct err *err)
{
    const struct kubernetes *k = (const struct kubernetes *) e;

    return k->kept ? kept_drop(k->kept, workload, err)
                   : logread_drop(k->dir, workload, err);
}

const struct engine_ops engine_kubernetes = {
    .name = "kubernetes",
    .grain = ENGINE_GRAIN_NODE,
    .observed = true,
    .apart = true,
    .check = kubernetes_check,
    .open = kubernetes_open,
    .close = kubernetes_close,
    .inventory = kubernetes_inventory,
    .history = kubernetes_history,
    .get = kubernetes_get,
    .give = kubernetes_give,
    .start = kubernetes_start,
    .stop = kubernetes_stop,
    .output = kubernetes_output,
    .tell = kubernetes_tell,
    .find = kubernetes_find,
    .log = kubernetes_log,
    .log_list = kubernetes_log_list,
    .log_drop = kubernetes_log_drop,
};
