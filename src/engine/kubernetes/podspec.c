#include "engine/kubernetes/podspec.h"

#include "base/json.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/kubernetes/name.h"
#include "kube/object.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Where things are in the containers.  The token's volume is memory: it is on
 * no disk, also not for the moment until the runner has read it.
 */
#define PLACE "/weir/run"              /* the runner, and its folder */
#define HOME "/weir/home"              /* token and authority */
#define SECRET "/weir/secret"          /* the Secret, init container only */

static json_t *texts(const char *const *list, size_t n)
{
    json_t *a = json_array();

    for (size_t i = 0; i < n; i++)
        (void) json_array_append_new(a, json_string(list[i]));
    return a;
}

/* ---- names ---- */

static void put_label(json_t *o, const char *key, const char *value)
{
    char text[NAME_LABEL];

    name_label(value, text);
    json_put_str(o, key, text);
}

static json_t *labels(const struct podspec *s, const struct engine_lease *l)
{
    json_t *o = json_object();
    char workload[24];

    (void) snprintf(workload, sizeof workload, "w%" PRIu64, l->key.workload);
    json_put_str(o, "app.kubernetes.io/managed-by", "weir");
    put_label(o, PODSPEC_INSTANCE, s->instance);
    put_label(o, PODSPEC_POOL, s->pool);
    put_label(o, "weir.dev/tenant", l->tenant);
    put_label(o, "weir.dev/workload", workload);
    put_label(o, "weir.dev/task", l->task);
    return o;
}

static json_t *metadata(const struct podspec *s, const struct engine_lease *l,
                        const char *name)
{
    return json_pack("{s:s,s:s,s:o,s:{s:s}}", "name", name, "namespace",
                     s->space, "labels", labels(s, l), "annotations",
                     PODSPEC_RUNNER, l->runner);
}

/* ---- what it takes ---- */

/* CPUs are asked for and no limit: one that nobody else wants is used.  Memory
 * is both.  Devices are whole, and of them request and limit are one.
 */
static json_t *resources(const struct engine_lease *l, bool devices)
{
    json_t *requests = json_object(), *limits = json_object();
    char text[32];

    (void) snprintf(text, sizeof text, "%" PRIu64 "m", l->cpus_milli);
    json_put_str(requests, "cpu", text);
    if (l->memory) {
        (void) snprintf(text, sizeof text, "%" PRIu64, l->memory);
        json_put_str(requests, "memory", text);
        json_put_str(limits, "memory", text);
    }
    if (l->gpus && devices) {
        (void) snprintf(text, sizeof text, "%" PRIu32, l->gpus);
        json_put_str(requests, "nvidia.com/gpu", text);
        json_put_str(limits, "nvidia.com/gpu", text);
    }
    return json_pack("{s:o,s:o}", "requests", requests, "limits", limits);
}

static json_t *no_privileges(void)
{
    return json_pack("{s:b,s:{s:[s]}}", "allowPrivilegeEscalation", 0,
                     "capabilities", "drop", "ALL");
}

/* ---- containers ---- */

static json_t *init_container(const struct podspec *s,
                              const struct engine_lease *l)
{
    static const char *const command[] = {
        PODSPEC_PROGRAM, "--place", PLACE, SECRET, HOME,
    };

    return json_pack("{s:s,s:s,s:o,s:o,s:o,s:[{s:s,s:s},{s:s,s:s},"
                     "{s:s,s:s,s:b}]}",
                     "name", "runner", "image", s->image,
                     "command", texts(command, array_size(command)),
                     "resources", resources(l, false),
                     "securityContext", no_privileges(),
                     "volumeMounts", "name", "place", "mountPath", PLACE,
                     "name", "home", "mountPath", HOME,
                     "name", "secret", "mountPath", SECRET, "readOnly", 1);
}

static json_t *runner_words(const struct podspec *s,
                            const struct engine_lease *l)
{
    char bytes[24], idle[24];
    const char *words[] = {
        PLACE "/weir-runner", "--alone", "--block", l->runner, "--home",
        s->home, "--home-ca", HOME "/ca.crt", "--token-file", HOME "/token",
        "--dir", PLACE "/state", "--address", "$(WEIR_POD_ADDRESS)",
        "--log-bytes", bytes, "--idle", idle,
    };

    (void) snprintf(bytes, sizeof bytes, "%" PRIu64, s->log_bytes);
    (void) snprintf(idle, sizeof idle, "%ds", PODSPEC_IDLE_S);
    return texts(words, array_size(words));
}

static json_t *task_container(const struct podspec *s,
                              const struct engine_lease *l)
{
    return json_pack("{s:s,s:s,s:o,s:o,s:o,s:[{s:s,s:{s:{s:s}}}],"
                     "s:[{s:s,s:s},{s:s,s:s}]}",
                     "name", PODSPEC_CONTAINER,
                     "image", l->image ? l->image : s->task_image,
                     "command", runner_words(s, l),
                     "resources", resources(l, true),
                     "securityContext", no_privileges(),
                     "env", "name", "WEIR_POD_ADDRESS", "valueFrom",
                     "fieldRef", "fieldPath", "status.podIP",
                     "volumeMounts", "name", "place", "mountPath", PLACE,
                     "name", "home", "mountPath", HOME);
}

/* ---- the rest of the Pod ---- */

static json_t *volumes(const char *name)
{
    return json_pack("[{s:s,s:{}},{s:s,s:{s:s,s:s}},{s:s,s:{s:s,s:i}}]",
                     "name", "place", "emptyDir",
                     "name", "home", "emptyDir", "medium", "Memory",
                     "sizeLimit", "1Mi",
                     "name", "secret", "secret", "secretName", name,
                     "defaultMode", 0444);
}

static void tolerate(json_t *list, const char *keys)
{
    while (keys && *keys) {
        size_t n = strcspn(keys, ",");

        if (n)
            (void) json_array_append_new(list, json_pack(
                "{s:s%,s:s}", "key", keys, n, "operator", "Exists"));
        keys += n + (keys[n] == ',');
    }
}

static json_t *tolerations(const struct podspec *s)
{
    static const char *const away[] = {
        "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable",
    };
    json_t *list = json_array();

    tolerate(list, s->tolerate);
    for (size_t i = 0; i < array_size(away); i++)
        (void) json_array_append_new(list, json_pack(
            "{s:s,s:s,s:s,s:i}", "key", away[i], "operator", "Exists",
            "effect", "NoExecute", "tolerationSeconds", PODSPEC_AWAY_S));
    return list;
}

static json_t *user(const struct engine_lease *l)
{
    json_t *o = json_pack("{s:I,s:I,s:{s:s}}",
                          "runAsUser", (json_int_t) l->uid,
                          "runAsGroup", (json_int_t) l->gid,
                          "seccompProfile", "type", "RuntimeDefault");

    json_put_bool(o, "runAsNonRoot", l->uid != 0);
    return o;
}

json_t *podspec_pod(const struct podspec *s, const struct engine_lease *l,
                    const char *name, const char *node)
{
    json_t *spec = json_pack(
        "{s:s,s:s,s:i,s:b,s:b,s:o,s:[o],s:[o],s:o,s:o}",
        "nodeName", node, "restartPolicy", "Never",
        "terminationGracePeriodSeconds", PODSPEC_GRACE_S,
        "automountServiceAccountToken", 0, "enableServiceLinks", 0,
        "securityContext", user(l), "initContainers", init_container(s, l),
        "containers", task_container(s, l), "volumes", volumes(name),
        "tolerations", tolerations(s));

    json_put_str(spec, "serviceAccountName", s->service_account);
    json_put_str(spec, "runtimeClassName", s->runtime_class);
    json_put_str(spec, "priorityClassName", s->priority_class);
    return json_pack("{s:s,s:s,s:o,s:o}", "apiVersion", "v1", "kind", "Pod",
                     "metadata", metadata(s, l, name), "spec", spec);
}

json_t *podspec_secret(const struct podspec *s, const struct engine_lease *l,
                       const char *name, const char *uid)
{
    json_t *meta = metadata(s, l, name);

    json_put(meta, "ownerReferences", json_pack(
        "[{s:s,s:s,s:s,s:s}]", "apiVersion", "v1", "kind", "Pod", "name",
        name, "uid", uid));
    return json_pack("{s:s,s:s,s:o,s:b,s:{s:s,s:s}}", "apiVersion", "v1",
                     "kind", "Secret", "metadata", meta, "immutable", 1,
                     "stringData", "token", l->token, "ca.crt", s->authority);
}

static bool has_label(const json_t *pod, const char *key, const char *value)
{
    char text[NAME_LABEL];

    name_label(value, text);
    return strcmp(object_str(pod, "metadata", "labels", key, NULL), text) == 0;
}

bool podspec_is_ours(const struct podspec *s, const json_t *pod)
{
    return strcmp(object_str(pod, "metadata", "namespace", NULL),
                  s->space) == 0 &&
           has_label(pod, PODSPEC_INSTANCE, s->instance) &&
           has_label(pod, PODSPEC_POOL, s->pool);
}
