#include "engine/kubernetes/podstate.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <string.h>

#define ENDED(more) "\"containerStatuses\":[{\"name\":\"istio\",\"state\":" \
    "{\"running\":{}}},{\"name\":\"task\",\"state\":{\"terminated\":{" more \
    "}}}]"
#define WAITS(reason) "\"containerStatuses\":[{\"name\":\"task\",\"state\":" \
    "{\"waiting\":{\"reason\":\"" reason "\",\"message\":\"m\\nn\"}}}]"
#define RUNS "\"containerStatuses\":[{\"name\":\"task\",\"state\":" \
    "{\"running\":{}}}]"
#define FIRST(state) "\"initContainerStatuses\":[{\"name\":\"runner\"," \
    "\"state\":{" state "}}]"
#define TARGET(reason) "\"conditions\":[{\"type\":\"Ready\",\"status\":" \
    "\"True\"},{\"type\":\"DisruptionTarget\",\"status\":\"True\"," \
    "\"reason\":\"" reason "\",\"message\":\"why\"}]"
#define LEAVES "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"," \
    "\"deletionGracePeriodSeconds\":30"

/* Of each what it is, and the beginning of why. */
static const struct {
    const char *meta, *status;
    enum podstate_kind kind;
    enum spec_cause cause;
    int exit;
    const char *why;
    const char *flags;                 /* i: by itself, s: stuck, l: leaving */
} cases[] = {
    { "", "", PODSTATE_COMING, SPEC_CAUSE_NONE, 0, "", "" },
    { "", "\"phase\":\"Pending\"", PODSTATE_COMING, SPEC_CAUSE_NONE, 0, "",
      "" },
    { "", WAITS("ContainerCreating"), PODSTATE_COMING, SPEC_CAUSE_NONE, 0, "",
      "" },
    { "", WAITS("PodInitializing") "," FIRST("\"running\":{}"),
      PODSTATE_COMING, SPEC_CAUSE_NONE, 0, "", "" },
    { "", "\"phase\":\"Running\"," RUNS, PODSTATE_RUNNING, SPEC_CAUSE_NONE, 0,
      "", "" },
    { "", "\"phase\":\"Running\"," RUNS ","
      FIRST("\"terminated\":{\"exitCode\":0}"), PODSTATE_RUNNING,
      SPEC_CAUSE_NONE, 0, "", "" },
    /* ends of the container */
    { "", "\"phase\":\"Succeeded\"," ENDED("\"exitCode\":0"), PODSTATE_OVER,
      SPEC_CAUSE_LOST, 0, "the container ended with 0", "i" },
    { "", ENDED("\"exitCode\":3,\"reason\":\"Error\""), PODSTATE_OVER,
      SPEC_CAUSE_LOST, 3, "the container ended with 3", "i" },
    { "", "\"phase\":\"Failed\"," ENDED("\"exitCode\":143"), PODSTATE_OVER,
      SPEC_CAUSE_LOST, -15, "the container ended with -15", "i" },
    { "", ENDED("\"exitCode\":255"), PODSTATE_OVER, SPEC_CAUSE_LOST, 255,
      "the container ended with 255", "i" },
    { "", ENDED("\"exitCode\":137,\"reason\":\"OOMKilled\""), PODSTATE_OVER,
      SPEC_CAUSE_MEMORY, -9, "it was past its memory: OOMKilled", "i" },
    { "", "\"phase\":\"Failed\"," ENDED("\"exitCode\":128,\"reason\":"
      "\"StartError\",\"message\":\"exec: no such file\""), PODSTATE_OVER,
      SPEC_CAUSE_LOST, 128, "the container ended with 128 before its end was "
      "told: StartError: exec: no such file", "i" },
    /* images and containers that cannot be had */
    { "", WAITS("ErrImagePull"), PODSTATE_COMING, SPEC_CAUSE_IMAGE, 0,
      "its image cannot be had: ErrImagePull: m n", "" },
    { "", WAITS("ImagePullBackOff"), PODSTATE_COMING, SPEC_CAUSE_IMAGE, 0,
      "its image cannot be had: ImagePullBackOff", "" },
    { "", WAITS("InvalidImageName"), PODSTATE_COMING, SPEC_CAUSE_IMAGE, 0,
      "its image cannot be had: InvalidImageName", "s" },
    { "", WAITS("ErrImageNeverPull"), PODSTATE_COMING, SPEC_CAUSE_IMAGE, 0,
      "its image cannot be had: ErrImageNeverPull", "s" },
    { "", WAITS("PodInitializing") ","
      FIRST("\"waiting\":{\"reason\":\"ErrImagePull\"}"), PODSTATE_COMING,
      SPEC_CAUSE_IMAGE, 0, "its image cannot be had: ErrImagePull", "" },
    { "", WAITS("CreateContainerConfigError"), PODSTATE_COMING,
      SPEC_CAUSE_REFUSED, 0, "its container cannot be made: CreateContainerCo",
      "" },
    { "", "\"phase\":\"Failed\"," WAITS("PodInitializing") ","
      FIRST("\"terminated\":{\"exitCode\":128,\"reason\":\"StartError\"}"),
      PODSTATE_OVER, SPEC_CAUSE_LOST, 128,
      "the container of the runner ended with 128", "" },
    /* the kubelet did not take it */
    { "", "\"phase\":\"Failed\",\"reason\":\"OutOfcpu\",\"message\":\"Pod was "
      "rejected\"", PODSTATE_OVER, SPEC_CAUSE_TAKEN, 0,
      "the node did not take the pod: OutOfcpu: Pod was rejected", "" },
    { "", "\"phase\":\"Failed\",\"reason\":\"OutOfnvidia.com/gpu\"",
      PODSTATE_OVER, SPEC_CAUSE_TAKEN, 0, "the node did not take the pod", "" },
    { "", "\"phase\":\"Failed\",\"reason\":\"UnexpectedAdmissionError\"",
      PODSTATE_OVER, SPEC_CAUSE_TAKEN, 0, "the node did not take the pod", "" },
    { "", "\"phase\":\"Failed\",\"reason\":\"NodeAffinity\"", PODSTATE_OVER,
      SPEC_CAUSE_TAKEN, 0, "the node did not take the pod", "" },
    /* it was put out */
    { "", "\"phase\":\"Failed\",\"reason\":\"Evicted\",\"message\":\"The node "
      "was low on resource: memory.\"," ENDED("\"exitCode\":137"),
      PODSTATE_OVER, SPEC_CAUSE_EVICTED, 0,
      "the node put the pod out: Evicted: The node was low", "" },
    { "", "\"phase\":\"Failed\",\"reason\":\"Preempting\"", PODSTATE_OVER,
      SPEC_CAUSE_EVICTED, 0, "the node put the pod out", "" },
    { "", "\"phase\":\"Failed\",\"reason\":\"Terminated\"", PODSTATE_OVER,
      SPEC_CAUSE_EVICTED, 0, "the node put the pod out", "" },
    { "", "\"phase\":\"Failed\",\"reason\":\"NodeLost\"", PODSTATE_OVER,
      SPEC_CAUSE_NODE, 0, "the node is lost", "" },
    { LEAVES, "\"phase\":\"Running\"," RUNS ","
      TARGET("PreemptionByScheduler"), PODSTATE_RUNNING, SPEC_CAUSE_EVICTED, 0,
      "another pod was put in its place: PreemptionByScheduler: why", "l" },
    { LEAVES, "\"phase\":\"Running\"," RUNS "," TARGET("EvictionByEvictionAPI"),
      PODSTATE_RUNNING, SPEC_CAUSE_EVICTED, 0, "the pod was evicted", "l" },
    { LEAVES, "\"phase\":\"Running\"," RUNS ","
      TARGET("DeletionByTaintManager"), PODSTATE_RUNNING, SPEC_CAUSE_NODE, 0,
      "its node was given up", "l" },
    { "", "\"phase\":\"Failed\"," TARGET("DeletionByPodGC"), PODSTATE_OVER,
      SPEC_CAUSE_NODE, 0, "its node is gone", "" },
    { "", "\"phase\":\"Failed\"," TARGET("TerminationByKubelet"),
      PODSTATE_OVER, SPEC_CAUSE_EVICTED, 0, "the node put the pod out", "" },
    { "", RUNS "," TARGET("NewWord"), PODSTATE_RUNNING, SPEC_CAUSE_EVICTED, 0,
      "the pod was put out: NewWord", "" },
    /* somebody took it away */
    { LEAVES, "\"phase\":\"Running\"," RUNS, PODSTATE_RUNNING,
      SPEC_CAUSE_DELETED, 0, "somebody deleted the pod", "l" },
    { LEAVES, "\"phase\":\"Succeeded\"," ENDED("\"exitCode\":0"),
      PODSTATE_OVER, SPEC_CAUSE_DELETED, 0, "somebody deleted the pod", "l" },
    { LEAVES, "\"phase\":\"Failed\"," ENDED("\"exitCode\":143") ","
      TARGET("EvictionByEvictionAPI"), PODSTATE_OVER, SPEC_CAUSE_EVICTED, -15,
      "the pod was evicted", "l" },
    { LEAVES, ENDED("\"exitCode\":137,\"reason\":\"OOMKilled\""),
      PODSTATE_OVER, SPEC_CAUSE_MEMORY, -9, "it was past its memory", "il" },
    /* what says nothing */
    { "", "\"phase\":\"Failed\"", PODSTATE_OVER, SPEC_CAUSE_LOST, 0,
      "the pod ended", "" },
    { "", "\"phase\":7,\"containerStatuses\":[3,{\"name\":\"task\",\"state\":"
      "[]}],\"conditions\":\"x\"", PODSTATE_COMING, SPEC_CAUSE_NONE, 0, "",
      "" },
};

static json_t *pod(const char *meta, const char *status)
{
    autofree char *text = mem_printf(
        "{\"metadata\":{%s},\"status\":{%s}}", meta, status);

    return mem_there(json_loads(text, 0, NULL));
}

static void test_cases(void)
{
    for (size_t i = 0; i < array_size(cases); i++) {
        autojson json_t *o = pod(cases[i].meta, cases[i].status);
        const char *flags = cases[i].flags, *why = cases[i].why;
        struct podstate s;

        podstate_read(o, &s);
        ok(s.kind == cases[i].kind && s.cause == cases[i].cause &&
           s.status == cases[i].exit &&
           s.by_itself == (strchr(flags, 'i') != NULL) &&
           s.stuck == (strchr(flags, 's') != NULL) &&
           s.leaving == (strchr(flags, 'l') != NULL) &&
           strncmp(s.why, why, strlen(why)) == 0 &&
           (s.cause == SPEC_CAUSE_NONE) == !s.why[0],
           "%d, cause %d, %d: %s", (int) s.kind, (int) s.cause, s.status,
           s.why);
    }
}

static void test_gone(void)
{
    autojson json_t *running = pod("", RUNS);
    autojson json_t *leaving = pod(LEAVES, RUNS ","
                                   TARGET("DeletionByTaintManager"));
    autojson json_t *ended = pod("", ENDED("\"exitCode\":3"));
    struct podstate s;

    podstate_read(running, &s);
    podstate_gone(&s);
    ok(s.kind == PODSTATE_OVER && s.cause == SPEC_CAUSE_DELETED,
       "gone without a word: %s", s.why);
    podstate_read(leaving, &s);
    podstate_gone(&s);
    ok(s.kind == PODSTATE_OVER && s.cause == SPEC_CAUSE_NODE,
       "gone with its node: %s", s.why);
    podstate_read(ended, &s);
    podstate_gone(&s);
    ok(s.kind == PODSTATE_OVER && s.cause == SPEC_CAUSE_LOST && s.status == 3,
       "gone after its end: %s", s.why);
}

static void test_grace(void)
{
    autojson json_t *o = pod(LEAVES, RUNS);
    autojson json_t *far = pod("\"deletionTimestamp\":\"x\","
                               "\"deletionGracePeriodSeconds\":99999999", "");
    struct podstate s;

    podstate_read(o, &s);
    ok(s.grace_s == 30, "as long as it may take to leave");
    podstate_read(far, &s);
    ok(s.leaving && s.grace_s == 600, "which has a bound");
}

int main(void)
{
    test_cases();
    test_gone();
    test_grace();
    return tap_done();
}
