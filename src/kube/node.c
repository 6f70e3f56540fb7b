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
static const char feature_labels[] = "feature.node.kubernetes.io/";
static const char gpus_label[] = "weir.dev/gpus";

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

static char *taint_text(const json_t *t)
{
    const char *value = json_get_str(t, "value", "");
    autofree char *text = mem_printf("taint %s%s%s:%s",
                                     json_get_str(t, "key", ""),
                                     *value ? "=" : "", value,
                                     json_get_str(t, "effect", ""));
    char line[256];

    object_line(text, strlen(text), line, sizeof line);
    return mem_str(line);
}

/* Those that keep new work away.  Nobody tolerates more than we can hold. */
static void read_taints(const json_t *object, struct kube_node *n)
{
    const json_t *all = object_at(object, "spec", "taints", NULL), *t;
    size_t i;

    json_array_foreach(all, i, t) {
        const char *effect = json_get_str(t, "effect", "");

        if (strcmp(effect, "NoSchedule") != 0 &&
            strcmp(effect, "NoExecute") != 0)
            continue;
        if (n->ntaints == KUBE_NODE_TAINTS) {
            n->taints[n->ntaints - 1].key[0] = '\0';
            break;
        }
        n->taints = mem_more(n->taints, n->ntaints, sizeof *n->taints);
        n->taints[n->ntaints++] = (struct kube_taint) {
            .key = mem_str(json_get_str(t, "key", "")), .text = taint_text(t),
        };
    }
}

static bool is_listed(const char *list, const char *key)
{
    size_t len = strlen(key);

    while (list && *list) {
        size_t n = strcspn(list, ",");

        if (n > 0 && n == len && strncmp(list, key, n) == 0)
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

const char *kube_node_closed(const struct kube_node *n, const char *tolerate)
{
    if (n->cordoned)
        return "cordoned";
    if (!n->ready)
        return "not ready";
    for (size_t i = 0; i < n->ntaints; i++)
        if (!is_listed(tolerate, n->taints[i].key))
            return n->taints[i].text;
    return NULL;
}

/* What a machine says of its processor and its kernel is left out: there are a
 * hundred such, and nobody chooses by them.
 */
static json_t *read_labels(const json_t *object)
{
    json_t *all = json_object_get(json_object_get(object, "metadata"),
                                  "labels");
    json_t *o = json_object(), *value;
    const char *key;

    json_object_foreach(all, key, value) {
        const char *s = json_string_value(value);

        if (s && strlen(key) <= LABEL_MAX_BYTES &&
            strlen(s) <= LABEL_MAX_BYTES &&
            strncmp(key, feature_labels, strlen(feature_labels)) != 0 &&
            json_object_size(o) < KUBE_NODE_LABELS)
            json_put_str(o, key, s);
    }
    return o;
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
    n->cordoned = json_get_bool(json_object_get(object, "spec"),
                                "unschedulable", false);
    n->ready = ready(object);
    read_taints(object, n);
    n->closed = mem_str(kube_node_closed(n, NULL));
    n->simulated = strcmp(object_str(object, "metadata", "labels", gpus_label,
                                     NULL), "simulated") == 0;
    n->labels = read_labels(object);
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
    for (size_t i = 0; i < n->ntaints; i++) {
        free(n->taints[i].key);
        free(n->taints[i].text);
    }
    free(n->taints);
    json_decref(n->labels);
    free(n);
}
