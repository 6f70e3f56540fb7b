#include "engine/kubernetes/observed.h"

#include "base/json.h"
#include "kube/inventory.h"
#include "kube/node.h"

#include <stdint.h>
#include <string.h>

static const char GPU[] = "nvidia.com/gpu";

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

json_t *observed_json(const struct inventory *v)
{
    json_t *o = json_object(), *nodes = json_array();
    const struct resources *taken;
    const struct kube_node *n;
    struct inventory_sum sum;
    size_t pos = 0, pods;

    while ((n = inventory_next(v, &pos, &taken, &pods)))
        (void) json_array_append_new(nodes, node_json(n, taken, pods));
    inventory_total(v, &sum);
    json_put(o, "nodes", nodes);
    json_put_u64(o, "pods", sum.pods);
    json_put_u64(o, "waiting", sum.waiting);
    resources_clear(&sum.has);
    resources_clear(&sum.taken);
    return o;
}
