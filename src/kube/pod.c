#include "kube/pod.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "kube/object.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 253 };

static int read_requests(const json_t *c, const char *list, size_t index,
                         struct resources *ret, struct err *err)
{
    char where[64];

    (void) snprintf(where, sizeof where, "spec.%.20s[%zu].resources.requests",
                    list, index);
    return resources_read(object_at(c, "resources", "requests", NULL), where,
                          ret, err);
}

/* No node has as many. */
static int too_many(struct err *err)
{
    return err_set(err, EPROTO, "more than %d kinds of resources",
                   RESOURCES_KINDS);
}

static int add_containers(const json_t *spec, struct resources *sum,
                          struct err *err)
{
    const json_t *c;
    size_t i;

    json_array_foreach(json_object_get(spec, "containers"), i, c) {
        struct resources r;
        int rc = read_requests(c, "containers", i, &r, err);

        if (rc < 0)
            return rc;
        resources_add(sum, &r);
        resources_clear(&r);
        if (sum->n > RESOURCES_KINDS)
            return too_many(err);
    }
    return 0;
}

/* Those that keep running are added to `staying`; `peak` is the most that was
 * needed while one of the others ran.
 */
static int add_inits(const json_t *spec, struct resources *staying,
                     struct resources *peak, struct err *err)
{
    const json_t *c;
    size_t i;

    json_array_foreach(json_object_get(spec, "initContainers"), i, c) {
        bool stays = strcmp(json_get_str(c, "restartPolicy", ""),
                            "Always") == 0;
        struct resources r;
        int rc = read_requests(c, "initContainers", i, &r, err);

        if (rc < 0)
            return rc;
        if (stays) {
            resources_add(staying, &r);
        } else {
            resources_add(&r, staying);
            resources_max(peak, &r);
        }
        resources_clear(&r);
        if (staying->n > RESOURCES_KINDS || peak->n > RESOURCES_KINDS)
            return too_many(err);
    }
    return 0;
}

static int add_rest(const json_t *spec, struct resources *takes,
                    struct err *err)
{
    struct resources r;
    int rc = resources_read(object_at(spec, "resources", "requests", NULL),
                            "spec.resources.requests", &r, err);

    if (rc < 0)
        return rc;
    resources_override(takes, &r);
    resources_clear(&r);
    rc = resources_read(json_object_get(spec, "overhead"), "spec.overhead", &r,
                        err);
    if (rc < 0)
        return rc;
    resources_add(takes, &r);
    resources_clear(&r);
    return 0;
}

/* A pod of many containers can ask for more than one holder may. */
static void bound(struct resources *r)
{
    if (r->cpu_milli > RESOURCES_MAX)
        r->cpu_milli = RESOURCES_MAX;
    if (r->memory > RESOURCES_MAX)
        r->memory = RESOURCES_MAX;
    for (size_t i = 0; i < r->n; i++)
        if (r->list[i].count > RESOURCES_MAX)
            r->list[i].count = RESOURCES_MAX;
}

static int read_takes(const json_t *spec, struct resources *ret,
                      struct err *err)
{
    struct resources staying = { 0 }, peak = { 0 };
    int rc = add_inits(spec, &staying, &peak, err);

    if (rc == 0)
        rc = add_containers(spec, &staying, err);
    if (rc == 0) {
        resources_max(&staying, &peak);
        rc = add_rest(spec, &staying, err);
    }
    resources_clear(&peak);
    if (rc < 0) {
        resources_clear(&staying);
        return rc;
    }
    bound(&staying);
    *ret = staying;
    return 0;
}

char *kube_pod_key(const json_t *object)
{
    const char *space = object_str(object, "metadata", "namespace", NULL);
    const char *name = object_str(object, "metadata", "name", NULL);

    if (!space[0] || !name[0] || strlen(space) > NAME_MAX_BYTES ||
        strlen(name) > NAME_MAX_BYTES)
        return NULL;
    return mem_printf("%s/%s", space, name);
}

int kube_pod_read(const json_t *object, struct kube_pod **ret, struct err *err)
{
    const json_t *spec = json_object_get(object, "spec");
    const char *node = object_str(spec, "nodeName", NULL);
    const char *phase = object_str(object, "status", "phase", NULL);
    autofree char *key = kube_pod_key(object);
    struct kube_pod *p;
    int rc;

    if (!key)
        return err_set(err, EPROTO, "a pod without metadata.namespace and "
                       "metadata.name");
    p = mem_new(sizeof *p);
    rc = read_takes(spec, &p->takes, err);
    if (rc < 0) {
        free(p);
        return err_prefix(err, rc, "pod %s", key);
    }
    p->key = take(key);
    p->node = node[0] ? mem_str(node) : NULL;
    p->ended = strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
    *ret = p;
    return 0;
}

void kube_pod_free(struct kube_pod *p)
{
    if (!p)
        return;
    free(p->key);
    free(p->node);
    resources_clear(&p->takes);
    free(p);
}
