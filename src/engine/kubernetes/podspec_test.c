#include "engine/kubernetes/podspec.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"
#include "engine/engine.h"
#include "kube/object.h"
#include "kube/pod.h"

#include <string.h>

static const struct podspec SPEC = {
    .instance = "0123456789abcdef", .pool = "lab", .space = "team",
    .image = "weir:1", .task_image = "plain:1", .home = "tls://h:1",
    .authority = "PEM", .log_bytes = 1048576,
};

static struct engine_lease lease(void)
{
    return (struct engine_lease) {
        .runner = "lab/n1#w12/3.0#2@1", .token = "secret-token",
        .block = "lab/n1", .key = { 12, 3, 0 }, .gen = 2, .epoch = 1,
        .task = "train it", .tenant = "physics", .image = "torch:2",
        .cpus_milli = 1500, .memory = UINT64_C(3) << 30, .gpus = 2,
        .uid = 1000, .gid = 100,
    };
}

static json_t *make(const struct podspec *s, const struct engine_lease *l)
{
    return podspec_pod(s, l, "weir-x", "n1.example.org");
}

static const json_t *first(const json_t *pod, const char *list)
{
    return json_array_get(object_at(pod, "spec", list, NULL), 0);
}

static bool says(const json_t *o, const char *text)
{
    autofree char *all = json_text(o);

    return strstr(all, text) != NULL;
}

static void test_names(const json_t *pod)
{
    ok(strcmp(object_str(pod, "metadata", "name", NULL), "weir-x") == 0 &&
       strcmp(object_str(pod, "metadata", "namespace", NULL), "team") == 0 &&
       strcmp(object_str(pod, "spec", "nodeName", NULL),
              "n1.example.org") == 0, "its name, its namespace, its node");
    ok(strcmp(object_str(pod, "metadata", "annotations", PODSPEC_RUNNER, NULL),
              "lab/n1#w12/3.0#2@1") == 0, "whose pod it is");
    ok(strcmp(object_str(pod, "metadata", "labels", PODSPEC_INSTANCE, NULL),
              "0123456789abcdef") == 0 &&
       strcmp(object_str(pod, "metadata", "labels", PODSPEC_POOL, NULL),
              "lab") == 0 &&
       strcmp(object_str(pod, "metadata", "labels", "weir.dev/workload",
                         NULL), "w12") == 0 &&
       strcmp(object_str(pod, "metadata", "labels", "weir.dev/task", NULL),
              "train_it") == 0 &&
       strcmp(object_str(pod, "metadata", "labels", "weir.dev/tenant", NULL),
              "physics") == 0, "labels");
}

/* The inventory reads it as what the lease has. */
static void test_takes(const json_t *pod)
{
    const json_t *c = first(pod, "containers");
    struct kube_pod *p = NULL;

    ok(kube_pod_read(pod, &p, NULL) == 0 && p->takes.cpu_milli == 1500 &&
       p->takes.memory == UINT64_C(3) << 30 && p->takes.n == 1 &&
       resources_count(&p->takes, "nvidia.com/gpu") == 2,
       "it takes what the lease has");
    kube_pod_free(p);
    ok(strcmp(object_str(c, "resources", "limits", "memory", NULL),
              "3221225472") == 0 &&
       !object_at(c, "resources", "limits", "cpu", NULL),
       "memory is a limit, CPUs are none");
    ok(!object_at(first(pod, "initContainers"), "resources", "limits",
                  "nvidia.com/gpu", NULL), "no device for the first container");
}

static void test_safe(const json_t *pod)
{
    static const char *const lists[] = { "initContainers", "containers" };
    const json_t *spec = json_object_get(pod, "spec");

    for (size_t i = 0; i < array_size(lists); i++) {
        const json_t *c = object_at(first(pod, lists[i]), "securityContext",
                                    NULL);

        ok(json_is_false(json_object_get(c, "allowPrivilegeEscalation")) &&
           says(c, "\"drop\":[\"ALL\"]"), "%s: no privileges", lists[i]);
    }
    ok(json_is_false(json_object_get(spec, "automountServiceAccountToken")) &&
       json_is_false(json_object_get(spec, "enableServiceLinks")) &&
       says(spec, "RuntimeDefault"), "no account, no links, seccomp");
    ok(json_integer_value(object_at(spec, "securityContext", "runAsUser",
                                    NULL)) == 1000 &&
       json_integer_value(object_at(spec, "securityContext", "runAsGroup",
                                    NULL)) == 100 &&
       json_is_true(object_at(spec, "securityContext", "runAsNonRoot", NULL)),
       "the lease's user");
    ok(!says(first(pod, "containers"), "/weir/secret") &&
       says(first(pod, "initContainers"), "/weir/secret") &&
       !says(pod, "secret-token"),
       "the first container alone sees the Secret, the Pod has no token");
}

static void test_secret(const struct engine_lease *l)
{
    autojson json_t *o = podspec_secret(&SPEC, l, "weir-x", "uid-7");

    ok(strcmp(object_str(o, "stringData", "token", NULL), "secret-token") == 0
       && strcmp(object_str(o, "stringData", "ca.crt", NULL), "PEM") == 0 &&
       says(o, "\"uid\":\"uid-7\"") && says(o, "\"kind\":\"Pod\""),
       "the Secret, and whose it is");
}

static void test_choices(void)
{
    struct podspec s = SPEC;
    struct engine_lease l = lease();
    autojson json_t *pod = NULL;

    s.service_account = "runner";
    s.runtime_class = "kata";
    s.priority_class = "low";
    s.tolerate = "gpu,,team/x";
    l.image = NULL;
    l.memory = l.gpus = l.uid = 0;
    pod = make(&s, &l);
    ok(says(pod, "\"serviceAccountName\":\"runner\"") &&
       says(pod, "\"runtimeClassName\":\"kata\"") &&
       says(pod, "\"priorityClassName\":\"low\""), "what the pool says");
    ok(says(pod, "{\"key\":\"gpu\",\"operator\":\"Exists\"}") &&
       says(pod, "{\"key\":\"team/x\",\"operator\":\"Exists\"}") &&
       json_array_size(object_at(pod, "spec", "tolerations", NULL)) == 4,
       "taints that it tolerates");
    ok(strcmp(json_get_str(first(pod, "containers"), "image", ""),
              "plain:1") == 0 &&
       strcmp(json_get_str(first(pod, "initContainers"), "image", ""),
              "weir:1") == 0, "images where the task names none");
    ok(!says(pod, "memory\":\"0") && !says(pod, "nvidia.com/gpu") &&
       json_is_false(object_at(pod, "spec", "securityContext", "runAsNonRoot",
                               NULL)), "no limit is none, root is root");
}

int main(void)
{
    struct engine_lease l = lease();
    autojson json_t *pod = make(&SPEC, &l);

    ok(json_is_object(pod), "a Pod");
    test_names(pod);
    test_takes(pod);
    test_safe(pod);
    test_secret(&l);
    test_choices();
    return tap_done();
}
