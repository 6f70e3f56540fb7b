#include "kube/inventory.h"

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "kube/node.h"
#include "kube/object.h"
#include "kube/pod.h"

#include <errno.h>
#include <string.h>

/* A place is a node, or the name of one that pods say they are on.  It is there
 * for as long as either holds.
 */
struct place {
    char *name;
    struct kube_node *node;            /* NULL: only pods know it */
    struct resources taken, own;       /* own: of `taken` */
    size_t pods;                       /* bound to it, not ended */
    uint32_t seen;
};

struct holder {
    struct kube_pod *pod;
    bool own;
    uint32_t seen;
};

struct inventory {
    struct map *places, *pods;
    size_t nodes, waiting, running;    /* running: bound and not ended */
    uint64_t stamps;
    uint32_t lists[2];                 /* how many began, by kind */
    bool (*is_own)(const json_t *pod, void *arg);
    void *own_arg;
};

struct inventory *inventory_new(void)
{
    struct inventory *v = mem_new(sizeof *v);

    v->places = map_new();
    v->pods = map_new();
    return v;
}

void inventory_own(struct inventory *v,
                   bool (*is_own)(const json_t *pod, void *arg), void *arg)
{
    v->is_own = is_own;
    v->own_arg = arg;
}

static void place_free(struct place *p)
{
    kube_node_free(p->node);
    resources_clear(&p->taken);
    resources_clear(&p->own);
    free(p->name);
    free(p);
}

static void holder_free(struct holder *h)
{
    kube_pod_free(h->pod);
    free(h);
}

void inventory_free(struct inventory *v)
{
    size_t pos = 0;
    void *one;

    if (!v)
        return;
    while ((one = map_next(v->pods, &pos, NULL)))
        holder_free(one);
    for (pos = 0; (one = map_next(v->places, &pos, NULL));)
        place_free(one);
    map_free(v->pods);
    map_free(v->places);
    free(v);
}

static struct place *place_get(struct inventory *v, const char *name)
{
    struct place *p = map_get(v->places, name);

    if (p)
        return p;
    p = mem_new(sizeof *p);
    p->name = mem_str(name);
    map_set(v->places, name, p);
    return p;
}

static void place_settle(struct inventory *v, struct place *p)
{
    if (p->node || p->pods)
        return;
    map_del(v->places, p->name);
    place_free(p);
}

/* ---- nodes ---- */

static int put_node(struct inventory *v, const json_t *object, struct err *err)
{
    struct kube_node *n = NULL;
    struct place *p;
    int rc = kube_node_read(object, &n, err);

    if (rc < 0)
        return rc;
    p = map_get(v->places, n->name);
    if ((!p || !p->node) && v->nodes >= INVENTORY_NODES) {
        kube_node_free(n);
        return err_set(err, E2BIG, "the cluster has more than %d nodes",
                       INVENTORY_NODES);
    }
    p = place_get(v, n->name);
    v->nodes += !p->node;
    kube_node_free(p->node);
    n->stamp = ++v->stamps;
    p->node = n;
    p->seen = v->lists[INVENTORY_NODE];
    return 0;
}

static void drop_node(struct inventory *v, struct place *p)
{
    if (!p || !p->node)
        return;
    kube_node_free(take(p->node));
    v->nodes--;
    place_settle(v, p);
}

/* ---- pods ---- */

static void count_in(struct inventory *v, const struct kube_pod *pod, bool own)
{
    struct place *p;

    if (pod->ended)
        return;
    if (!pod->node) {
        v->waiting++;
        return;
    }
    v->running++;
    p = place_get(v, pod->node);
    p->pods++;
    resources_add(&p->taken, &pod->takes);
    if (own)
        resources_add(&p->own, &pod->takes);
}

static void count_out(struct inventory *v, const struct kube_pod *pod,
                      bool own)
{
    struct place *p;

    if (pod->ended)
        return;
    if (!pod->node) {
        v->waiting--;
        return;
    }
    v->running--;
    p = map_get(v->places, pod->node);
    p->pods--;
    resources_sub(&p->taken, &pod->takes);
    if (own)
        resources_sub(&p->own, &pod->takes);
    place_settle(v, p);
}

static int put_pod(struct inventory *v, const json_t *object, struct err *err)
{
    bool own = v->is_own && v->is_own(object, v->own_arg);
    struct kube_pod *pod = NULL;
    struct holder *h;
    int rc = kube_pod_read(object, &pod, err);

    if (rc < 0)
        return rc;
    h = map_get(v->pods, pod->key);
    if (!h && map_count(v->pods) >= INVENTORY_PODS) {
        kube_pod_free(pod);
        return err_set(err, E2BIG, "the cluster has more than %d pods",
                       INVENTORY_PODS);
    }
    if (!h) {
        h = mem_new(sizeof *h);
        map_set(v->pods, pod->key, h);
    }
    count_in(v, pod, own);             /* first: the place stays */
    if (h->pod)
        count_out(v, h->pod, h->own);
    kube_pod_free(h->pod);
    h->pod = pod;
    h->own = own;
    h->seen = v->lists[INVENTORY_POD];
    return 0;
}

static void drop_pod(struct inventory *v, struct holder *h)
{
    if (!h)
        return;
    map_del(v->pods, h->pod->key);
    count_out(v, h->pod, h->own);
    holder_free(h);
}

/* ---- both ---- */

int inventory_put(struct inventory *v, enum inventory_kind kind,
                  const json_t *object, struct err *err)
{
    return kind == INVENTORY_NODE ? put_node(v, object, err)
                                  : put_pod(v, object, err);
}

int inventory_drop(struct inventory *v, enum inventory_kind kind,
                   const json_t *object, struct err *err)
{
    autofree char *key = NULL;

    if (kind == INVENTORY_NODE) {
        drop_node(v, map_get(v->places,
                             object_str(object, "metadata", "name", NULL)));
        return 0;
    }
    key = kube_pod_key(object);
    if (!key)
        return err_set(err, EPROTO, "a pod without metadata.namespace and "
                       "metadata.name");
    drop_pod(v, map_get(v->pods, key));
    return 0;
}

void inventory_list(struct inventory *v, enum inventory_kind kind)
{
    v->lists[kind]++;
}

/* A map may not change while it is walked, so those that go are noted. */
void inventory_listed(struct inventory *v, enum inventory_kind kind)
{
    const struct map *m = kind == INVENTORY_NODE ? v->places : v->pods;
    void **gone = mem_array(map_count(m) + 1, sizeof *gone), *one;
    size_t pos = 0, n = 0;

    while ((one = map_next(m, &pos, NULL))) {
        uint32_t seen = kind == INVENTORY_NODE ? ((struct place *) one)->seen
                                               : ((struct holder *) one)->seen;

        if (seen != v->lists[kind])
            gone[n++] = one;
    }
    for (size_t i = 0; i < n; i++) {
        if (kind == INVENTORY_NODE)
            drop_node(v, gone[i]);
        else
            drop_pod(v, gone[i]);
    }
    free(gone);
}

void inventory_total(const struct inventory *v, struct inventory_sum *ret)
{
    const struct resources *taken;
    const struct kube_node *n;
    size_t pos = 0;

    *ret = (struct inventory_sum) {
        .nodes = v->nodes, .pods = v->running + v->waiting,
        .waiting = v->waiting,
    };
    while ((n = inventory_next(v, &pos, &taken, NULL))) {
        ret->closed += n->closed != NULL;
        resources_add(&ret->has, &n->has);
        resources_add(&ret->taken, taken);
    }
}

const struct kube_node *inventory_next(const struct inventory *v, size_t *pos,
                                       const struct resources **ret_taken,
                                       size_t *ret_pods)
{
    const struct place *p;

    while ((p = map_next(v->places, pos, NULL))) {
        if (!p->node)
            continue;
        if (ret_taken)
            *ret_taken = &p->taken;
        if (ret_pods)
            *ret_pods = p->pods;
        return p->node;
    }
    return NULL;
}

const struct kube_node *inventory_node(const struct inventory *v,
                                       const char *name,
                                       const struct resources **ret_taken,
                                       const struct resources **ret_own)
{
    const struct place *p = map_get(v->places, name);

    if (!p || !p->node)
        return NULL;
    if (ret_taken)
        *ret_taken = &p->taken;
    if (ret_own)
        *ret_own = &p->own;
    return p->node;
}
