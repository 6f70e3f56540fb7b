#include "kube/node.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "kube/object.h"

#include <errno.h>
#include <string.h>

/* What NVIDIA's feature discovery writes, and Kubernetes' own word for where a
 * node stands.
 */
static const char product_label[] = "nvidia.com/gpu.product";
static const char memory_label[] = "nvidia.com/gpu.memory";   /* MiB */
static const char zone_label[] = "topology.kubernetes.io/zone";

enum { NAME_MAX_BYTES = 253, LABEL_MAX_BYTES = 253 };

/* The value of a label; NULL when it is absent, empty or no label at all. */
static char *label(const json_t *object, const char *name)
{
    const char *s = object_str(object, "metadata", "labels", name, NULL);

    return s[0] && strlen(s) <= LABEL_MAX_BYTES ? mem_str(s) : NULL;
}

static bool ready(const json_t *object)
{
    const json_t *all = object_at(object, "status", "conditions", NULL), *c;
    size_t i;

    json_array_foreach(all, i, c)
        if (strcmp(json_get_str(c, "type", ""), "Ready") == 0)
            return strcmp(json_get_str(c, "status", ""), "True") == 0;
    return false;                      /* no kubelet has spoken yet */
}

/* The first taint that keeps new work away. */
static char *repels(const json_t *object)
{
    const json_t *all = object_at(object, "spec", "taints", NULL), *t;
    size_t i;

    json_array_foreach(all, i, t) {
        const char *effect = json_get_str(t, "effect", "");
        const char *key = json_get_str(t, "key", "");
        const char *value = json_get_str(t, "value", "");
        autofree char *text = NULL;
        char line[256];

        if (strcmp(effect, "NoSchedule") != 0 &&
            strcmp(effect, "NoExecute") != 0)
            continue;
        text = mem_printf("taint %s%s%s:%s", key, *value ? "=" : "", value,
                          effect);
        object_line(text, strlen(text), line, sizeof line);
        return mem_str(line);
    }
    return NULL;
}

static char *closed(const json_t *object)
{
    const json_t *spec = json_object_get(object, "spec");

    if (json_get_bool(spec, "unschedulable", false))
        return mem_str("cordoned");
    if (!ready(object))
        return mem_str("not ready");
    return repels(object);
}

int kube_node_read(const json_t *object, struct kube_node **ret,
                   struct err *err)
{
    const char *name = object_str(object, "metadata", "name", NULL);
    autofree char *memory = NULL;
    struct kube_node *n;
    uint64_t mib = 0;
    int rc;

    if (!name[0] || strlen(name) > NAME_MAX_BYTES)
        return err_set(err, EPROTO, "a node without a metadata.name");
    n = mem_new(sizeof *n);
    rc = resources_read(object_at(object, "status", "allocatable", NULL),
                        "status.allocatable", &n->has, err);
    if (rc < 0) {
        kube_node_free(n);
        return err_prefix(err, rc, "node %s", name);
    }
    n->name = mem_str(name);
    n->product = label(object, product_label);
    n->domain = label(object, zone_label);
    n->closed = closed(object);
    memory = label(object, memory_label);
    if (memory && quantity_count(memory, &mib, NULL) == 0 &&
        mib < RESOURCES_MAX >> 20)
        n->device_memory = mib << 20;
    *ret = n;
    return 0;
}

void kube_node_free(struct kube_node *n)
{
    if (!n)
        return;
    free(n->name);
    resources_clear(&n->has);
    free(n->product);
    free(n->domain);
    free(n->closed);
    free(n);
}
