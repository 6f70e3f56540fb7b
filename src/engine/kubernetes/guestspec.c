#include "engine/kubernetes/guestspec.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "core/spec.h"
#include "kube/object.h"
#include "kube/pod.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char GPU[] = "nvidia.com/gpu";

enum { GRACE_S = 30 };                 /* Kubernetes' own, where none is said */

bool guestspec_is_for(const json_t *pod, const char *scheduler)
{
    return strcmp(object_str(pod, "spec", "schedulerName", NULL),
                  scheduler) == 0;
}

/* ---- what is not looked after ---- */

/* Members of spec that say where it may be in words that are not ours. */
static const struct {
    const char *path[4];
    const char *say;
} unknown[] = {
    { { "affinity", "nodeAffinity", NULL }, "node affinity" },
    { { "affinity", "podAffinity", NULL }, "affinity to other pods" },
    { { "affinity", "podAntiAffinity", NULL }, "anti-affinity" },
    { { "topologySpreadConstraints", NULL }, "topologySpreadConstraints" },
    { { "resourceClaims", NULL }, "resourceClaims" },
    { { "schedulingGroup", NULL }, "a schedulingGroup" },
};

/* Kinds of volumes that every node has, or can reach like any other. */
static const char *const volumes[] = {
    "name", "configMap", "secret", "emptyDir", "projected", "downwardAPI",
    "hostPath", "nfs",
};

static bool is_there(const json_t *o)
{
    return (json_is_object(o) && json_object_size(o)) ||
           (json_is_array(o) && json_array_size(o));
}

static int check_places(const json_t *spec, struct err *err)
{
    for (size_t i = 0; i < array_size(unknown); i++) {
        const json_t *o = spec;

        for (size_t k = 0; unknown[i].path[k]; k++)
            o = json_object_get(o, unknown[i].path[k]);
        if (is_there(o))
            return err_set(err, ENOTSUP, "it has %s, which Weir does not "
                           "look after", unknown[i].say);
    }
    return 0;
}

static bool is_plain(const char *kind)
{
    for (size_t i = 0; i < array_size(volumes); i++)
        if (strcmp(volumes[i], kind) == 0)
            return true;
    return false;
}

static int check_volumes(const json_t *spec, struct err *err)
{
    json_t *all = json_object_get(spec, "volumes"), *v, *value;
    const char *kind;
    size_t i;

    json_array_foreach(all, i, v)
        json_object_foreach(v, kind, value)
            if (!is_plain(kind) && !json_is_null(value))
                return err_set(err, ENOTSUP, "it has a volume of the kind "
                               "%.60s, which may be bound to some nodes",
                               kind);
    return 0;
}

static int check_ports(const json_t *spec, const char *list, struct err *err)
{
    json_t *c, *p;
    size_t i, k;

    json_array_foreach(json_object_get(spec, list), i, c)
        json_array_foreach(json_object_get(c, "ports"), k, p)
            if (json_get_u64(p, "hostPort", 0) != 0)
                return err_set(err, ENOTSUP, "it has a host port, which Weir "
                               "does not look after");
    return 0;
}

/* ---- what it takes ---- */

static bool is_counted(const char *kind)
{
    return strcmp(kind, "cpu") == 0 || strcmp(kind, "memory") == 0 ||
           strcmp(kind, GPU) == 0;
}

static int check_kinds(const json_t *spec, const char *list, struct err *err)
{
    json_t *c, *value;
    const char *kind;
    size_t i;

    json_array_foreach(json_object_get(spec, list), i, c)
        json_object_foreach(json_object_get(json_object_get(c, "resources"),
                                            "requests"), kind, value)
            if (!is_counted(kind))
                return err_set(err, ENOTSUP, "it asks for %.100s, which Weir "
                               "does not look after", kind);
    return 0;
}

static int put_needs(json_t *o, const json_t *pod, struct err *err)
{
    struct kube_pod *p;
    uint64_t gpus;
    int rc = kube_pod_read(pod, &p, err);

    if (rc < 0)
        return rc;
    gpus = resources_count(&p->takes, GPU);
    json_put_u64(o, "cpus_milli", p->takes.cpu_milli);
    json_put_u64(o, "memory", p->takes.memory);
    json_put_u64(o, "gpus", gpus);
    kube_pod_free(p);
    return gpus <= SPEC_MAX_GPUS ? 0 : err_set(err, ENOTSUP, "it asks for more "
                                               "than %d devices",
                                               SPEC_MAX_GPUS);
}

/* ---- taints ---- */

static bool tolerates(const json_t *spec, const char *key, size_t len)
{
    const json_t *all = json_object_get(spec, "tolerations"), *t;
    size_t i;

    json_array_foreach(all, i, t) {
        const char *of = json_get_str(t, "key", "");

        if (strcmp(json_get_str(t, "operator", ""), "Exists") == 0 &&
            !json_get_str(t, "effect", "")[0] &&
            (!of[0] || (strlen(of) == len && strncmp(of, key, len) == 0)))
            return true;
    }
    return false;
}

static int check_taints(const json_t *spec, const char *tolerate,
                        struct err *err)
{
    while (tolerate && *tolerate) {
        size_t n = strcspn(tolerate, ",");

        if (n > 0 && !tolerates(spec, tolerate, n))
            return err_set(err, ENOTSUP, "nodes of this pool may have the "
                           "taint %.*s, and it does not tolerate any with "
                           "that key", (int) (n < 100 ? n : 100), tolerate);
        tolerate += n + (tolerate[n] == ',');
    }
    return 0;
}

/* ---- who it is ---- */

static const char *word(const json_t *pod, const char *key)
{
    const char *s = object_str(pod, "metadata", "labels", key, NULL);

    return s[0] ? s : object_str(pod, "metadata", "annotations", key, NULL);
}

/* The likes of it have the same maker; a pod of its own, its name. */
static const char *maker(const json_t *pod)
{
    const json_t *owners = object_at(pod, "metadata", "ownerReferences", NULL);
    const char *name = json_get_str(json_array_get(owners, 0), "name", "");

    return name[0] ? name : object_str(pod, "metadata", "name", NULL);
}

static int put_number(json_t *o, const char *key, const char *text, long least,
                      long most, struct err *err)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (!text[0])
        return 0;
    if (*end || n < least || n > most)
        return err_set(err, ENOTSUP, "weir.dev/%s '%.40s' is not a number "
                       "from %ld to %ld", key, text, least, most);
    json_put(o, key, json_integer(n));
    return 0;
}

static int put_gang(json_t *o, const json_t *pod, struct err *err)
{
    const char *gang = object_str(pod, "metadata", "labels", GUEST_GANG, NULL);

    if (!gang[0])
        return 0;
    json_put_str(o, "gang", gang);
    if (!word(pod, GUEST_GANG_SIZE)[0])
        return err_set(err, ENOTSUP, "it is of the gang '%.63s' and does not "
                       "say how many pods that has (" GUEST_GANG_SIZE ")",
                       gang);
    return put_number(o, "gang-size", word(pod, GUEST_GANG_SIZE), 1,
                      SPEC_MAX_RANKS, err);
}

static void put_who(json_t *o, const json_t *pod, const char *tenant)
{
    const char *own = object_str(pod, "metadata", "labels", GUEST_TENANT,
                                 NULL);
    const char *workload = word(pod, GUEST_WORKLOAD);
    const json_t *spec = json_object_get(pod, "spec");

    json_put_str(o, "uid", object_str(pod, "metadata", "uid", NULL));
    json_put_str(o, "namespace", object_str(pod, "metadata", "namespace",
                                            NULL));
    json_put_str(o, "name", object_str(pod, "metadata", "name", NULL));
    json_put_str(o, "of", maker(pod));
    json_put_str(o, "tenant", own[0] ? own : tenant);
    json_put_str(o, "workload", workload[0] ? workload : NULL);
    json_put_u64(o, "grace_ms", 1000 * json_get_u64(
        spec, "terminationGracePeriodSeconds", GRACE_S));
    if (is_there(json_object_get(spec, "nodeSelector")))
        json_put(o, "nodes", json_deep_copy(json_object_get(spec,
                                                            "nodeSelector")));
}

static int check(const json_t *spec, const char *tolerate, struct err *err)
{
    static const char *const lists[] = { "containers", "initContainers" };
    int rc = check_places(spec, err);

    if (rc == 0)
        rc = check_volumes(spec, err);
    for (size_t i = 0; i < array_size(lists) && rc == 0; i++) {
        rc = check_ports(spec, lists[i], err);
        if (rc == 0)
            rc = check_kinds(spec, lists[i], err);
    }
    return rc < 0 ? rc : check_taints(spec, tolerate, err);
}

int guestspec_read(const json_t *pod, const char *tolerate, const char *tenant,
                   json_t **ret, struct err *err)
{
    autojson json_t *o = json_object();
    int rc = check(json_object_get(pod, "spec"), tolerate, err);

    put_who(o, pod, tenant);
    if (rc == 0)
        rc = put_needs(o, pod, err);
    if (rc == 0)
        rc = put_gang(o, pod, err);
    if (rc == 0)
        rc = put_number(o, "priority", word(pod, GUEST_PRIORITY),
                        -SPEC_MAX_PRIORITY, SPEC_MAX_PRIORITY, err);
    if (rc < 0)
        return rc;
    *ret = take(o);
    return 0;
}

json_t *guestspec_binding(const char *space, const char *name, const char *uid,
                          const char *node, const char *runner,
                          const char *instance)
{
    return json_pack(
        "{s:s,s:s,s:{s:s,s:s,s:s,s:{s:s,s:s}},s:{s:s,s:s,s:s}}",
        "apiVersion", "v1", "kind", "Binding", "metadata", "namespace", space,
        "name", name, "uid", uid, "annotations", GUEST_RUNNER, runner,
        GUEST_INSTANCE, instance, "target", "apiVersion", "v1", "kind", "Node",
        "name", node);
}
