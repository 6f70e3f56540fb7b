#include "engine/kubernetes/guestspec.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"
#include "engine/kubernetes/podstate.h"

#include <errno.h>
#include <string.h>

/* What pods of others ask for, and how they end. */
static json_t *pod(const char *meta, const char *spec, const char *status)
{
    json_t *o = json_pack("{s:{s:s,s:s,s:s},s:{},s:{}}", "metadata", "uid",
                          "u-1", "namespace", "ns", "name", "p-1", "spec",
                          "status");
    const struct { const char *key, *text; } parts[] = {
        { "metadata", meta }, { "spec", spec }, { "status", status } };

    for (size_t i = 0; i < array_size(parts); i++) {
        autojson json_t *more = json_loads(parts[i].text, 0, NULL);

        if (!more || json_object_update(json_object_get(o, parts[i].key),
                                        more) < 0)
            ok(false, "no JSON: %s", parts[i].text);
    }
    return o;
}

static void test_needs(void)
{
    autojson json_t *p = pod(
        "{\"labels\":{\"weir.dev/tenant\":\"t\",\"weir.dev/gang\":\"g\"},"
        "\"annotations\":{\"weir.dev/gang-size\":\"4\","
        "\"weir.dev/priority\":\"-5\"},"
        "\"ownerReferences\":[{\"name\":\"train\"}]}",
        "{\"schedulerName\":\"weir\",\"nodeSelector\":{\"a/b\":\"c\"},"
        "\"terminationGracePeriodSeconds\":7,\"containers\":[{\"resources\":"
        "{\"requests\":{\"cpu\":\"250m\",\"memory\":\"1Gi\","
        "\"nvidia.com/gpu\":\"2\"}}},{}]}", "{}");
    autojson json_t *o = NULL;
    struct err err = { 0 };
    int rc = guestspec_read(p, NULL, "pool", &o, &err);

    ok(rc == 0, "a pod is read: %s", err.text);
    ok(json_get_u64(o, "cpus_milli", 0) == 250 &&
       json_get_u64(o, "memory", 0) == 1 << 30 &&
       json_get_u64(o, "gpus", 0) == 2, "what it needs");
    ok(strcmp(json_get_str(o, "tenant", ""), "t") == 0 &&
       strcmp(json_get_str(o, "of", ""), "train") == 0 &&
       strcmp(json_get_str(o, "uid", ""), "u-1") == 0, "whose it is");
    ok(strcmp(json_get_str(o, "gang", ""), "g") == 0 &&
       json_get_u64(o, "gang-size", 0) == 4 &&
       json_integer_value(json_object_get(o, "priority")) == -5 &&
       json_get_u64(o, "grace_ms", 0) == 7000, "its gang and its priority");
    ok(strcmp(json_get_str(json_object_get(o, "nodes"), "a/b", ""), "c") == 0,
       "where it may be");
    ok(guestspec_is_for(p, "weir") && !guestspec_is_for(p, "other"),
       "who is to bind it");
}

static void test_refused(void)
{
    static const struct { const char *meta, *spec, *say; } bad[] = {
        { "{}", "{\"affinity\":{\"nodeAffinity\":{\"x\":[1]}}}", "node affinity" },
        { "{}", "{\"affinity\":{\"podAntiAffinity\":{\"x\":1}}}", "anti" },
        { "{}", "{\"topologySpreadConstraints\":[{}]}", "topologySpread" },
        { "{}", "{\"resourceClaims\":[{}]}", "resourceClaims" },
        { "{}", "{\"volumes\":[{\"name\":\"v\",\"persistentVolumeClaim\":{}}]}",
          "persistentVolumeClaim" },
        { "{}", "{\"containers\":[{\"ports\":[{\"hostPort\":80}]}]}", "port" },
        { "{}", "{\"containers\":[{\"resources\":{\"requests\":"
          "{\"ephemeral-storage\":\"1Gi\"}}}]}", "ephemeral-storage" },
        { "{}", "{\"initContainers\":[{\"resources\":{\"requests\":"
          "{\"nvidia.com/mig-1g.10gb\":\"1\"}}}]}", "mig-1g" },
        { "{\"labels\":{\"weir.dev/gang\":\"g\"}}", "{}", "gang-size" },
        { "{\"labels\":{\"weir.dev/gang\":\"g\","
          "\"weir.dev/gang-size\":\"x\"}}", "{}", "'x' is not a number" },
        { "{\"labels\":{\"weir.dev/priority\":\"9999\"}}", "{}", "priority" },
    };

    for (size_t i = 0; i < array_size(bad); i++) {
        autojson json_t *p = pod(bad[i].meta, bad[i].spec, "{}");
        json_t *o = NULL;
        struct err err = { 0 };

        ok(guestspec_read(p, NULL, NULL, &o, &err) == -ENOTSUP && !o &&
           strstr(err.text, bad[i].say), "not planned: %s", err.text);
    }
}

static void test_taints(void)
{
    autojson json_t *none = pod("{}", "{}", "{}");
    autojson json_t *all = pod("{}", "{\"tolerations\":[{\"operator\":"
                               "\"Exists\"}]}", "{}");
    autojson json_t *one = pod("{}", "{\"tolerations\":[{\"key\":\"k\","
                               "\"operator\":\"Exists\"}]}", "{}");
    json_t *o = NULL;
    struct err err = { 0 };

    ok(guestspec_read(none, "k", NULL, &o, &err) == -ENOTSUP &&
       strstr(err.text, "taint k"), "a taint: %s", err.text);
    ok(guestspec_read(all, "k,j", NULL, &o, &err) == 0, "all are tolerated");
    json_decref(take(o));
    ok(guestspec_read(one, "k", NULL, &o, &err) == 0, "one is");
    json_decref(take(o));
    ok(guestspec_read(one, "k,j", NULL, &o, &err) == -ENOTSUP, "not both");
}

static void test_ends(void)
{
    static const struct {
        const char *meta, *status;
        enum podstate_kind kind;
        enum spec_cause cause;
        int number;
    } ends[] = {
        { "{}", "{\"phase\":\"Pending\"}", PODSTATE_COMING, 0, 0 },
        { "{}", "{\"phase\":\"Running\"}", PODSTATE_RUNNING, 0, 0 },
        { "{}", "{\"phase\":\"Succeeded\"}", PODSTATE_OVER, 0, 0 },
        { "{}", "{\"phase\":\"Failed\",\"containerStatuses\":[{\"state\":"
          "{\"terminated\":{\"exitCode\":0}}},{\"state\":{\"terminated\":"
          "{\"exitCode\":3,\"reason\":\"Error\"}}}]}", PODSTATE_OVER,
          SPEC_CAUSE_FAILED, 3 },
        { "{}", "{\"phase\":\"Failed\",\"containerStatuses\":[{\"state\":"
          "{\"terminated\":{\"exitCode\":143}}}]}", PODSTATE_OVER,
          SPEC_CAUSE_SIGNALLED, -15 },
        { "{}", "{\"phase\":\"Failed\",\"containerStatuses\":[{\"state\":"
          "{\"terminated\":{\"exitCode\":137,\"reason\":\"OOMKilled\"}}}]}",
          PODSTATE_OVER, SPEC_CAUSE_MEMORY, -9 },
        { "{}", "{\"phase\":\"Failed\",\"reason\":\"OutOfnvidia.com/gpu\"}",
          PODSTATE_OVER, SPEC_CAUSE_TAKEN, 0 },
        { "{}", "{\"phase\":\"Failed\",\"reason\":\"Evicted\"}",
          PODSTATE_OVER, SPEC_CAUSE_EVICTED, 0 },
        { "{}", "{\"phase\":\"Failed\",\"reason\":\"DeadlineExceeded\"}",
          PODSTATE_OVER, SPEC_CAUSE_TIMEOUT, 0 },
        { "{\"deletionTimestamp\":\"x\"}", "{\"phase\":\"Running\"}",
          PODSTATE_RUNNING, SPEC_CAUSE_DELETED, 0 },
        { "{\"deletionTimestamp\":\"x\"}", "{\"phase\":\"Failed\"}",
          PODSTATE_OVER, SPEC_CAUSE_DELETED, 0 },
        { "{}", "{\"phase\":\"Failed\"}", PODSTATE_OVER, SPEC_CAUSE_FAILED, 0 },
    };

    for (size_t i = 0; i < array_size(ends); i++) {
        autojson json_t *p = pod(ends[i].meta, "{}", ends[i].status);
        struct podstate s;

        podstate_read_guest(p, &s);
        ok(s.kind == ends[i].kind && s.cause == ends[i].cause &&
           s.status == ends[i].number, "%s: %d, %d", ends[i].status,
           (int) s.cause, s.status);
    }
}

static void test_binding(void)
{
    autojson json_t *o = guestspec_binding("ns", "p", "u", "n1", "lab/n1#x",
                                           "abc");
    const json_t *meta = json_object_get(o, "metadata");

    ok(strcmp(json_get_str(json_object_get(o, "target"), "name", ""),
              "n1") == 0 && strcmp(json_get_str(meta, "uid", ""), "u") == 0,
       "a binding is of that very pod");
    ok(strcmp(json_get_str(json_object_get(meta, "annotations"), GUEST_RUNNER,
                           ""), "lab/n1#x") == 0, "and says for which lease");
}

int main(void)
{
    test_needs();
    test_refused();
    test_taints();
    test_ends();
    test_binding();
    return tap_done();
}
