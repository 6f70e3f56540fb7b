#include "engine/kubernetes/podstate.h"

#include "base/json.h"
#include "base/mem.h"
#include "engine/kubernetes/podspec.h"
#include "kube/object.h"

#include <stdio.h>
#include <string.h>

/* Who knows better counts first: what the kubelet says of the pod as a whole
 * (it did not take it, it put it out), then how the container ended, then what
 * the cluster says it is about to do.
 */
enum { WORDS = 150, SIGNALLED = 128, SIGNAL_MAX = 64 };

struct words {
    const char *reason;
    enum spec_cause cause;
    const char *say;
};

static const struct words *find(const struct words *list, size_t n,
                                const char *reason)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].reason, reason) == 0)
            return &list[i];
    return NULL;
}

/* One sentence: ours, then theirs. */
static void say(struct podstate *s, enum spec_cause cause, const char *text,
                const char *reason, const char *message)
{
    char word[60], line[WORDS];

    object_line(reason, strlen(reason), word, sizeof word);
    object_line(message, strlen(message), line, sizeof line);
    s->cause = cause;
    (void) snprintf(s->why, sizeof s->why, "%.80s%s%s%s%s", text,
                    word[0] ? ": " : "", word, line[0] ? ": " : "", line);
}

/* ---- the pod as a whole ---- */

/* status.reason of one that has failed. */
static const struct words refusals[] = {
    { "UnexpectedAdmissionError", SPEC_CAUSE_TAKEN, "" },
    { "NodeAffinity", SPEC_CAUSE_TAKEN, "" },
    { "TopologyAffinityError", SPEC_CAUSE_TAKEN, "" },
    { "Evicted", SPEC_CAUSE_EVICTED, "the node put the pod out" },
    { "Preempting", SPEC_CAUSE_EVICTED, "the node put the pod out" },
    { "Terminated", SPEC_CAUSE_EVICTED, "the node put the pod out" },
    { "Shutdown", SPEC_CAUSE_EVICTED, "the node put the pod out" },
    { "NodeShutdown", SPEC_CAUSE_EVICTED, "the node put the pod out" },
    { "NodeLost", SPEC_CAUSE_NODE, "the node is lost" },
};

/* The reason of the condition DisruptionTarget. */
static const struct words disruptions[] = {
    { "PreemptionByScheduler", SPEC_CAUSE_EVICTED,
      "another pod was put in its place" },
    { "EvictionByEvictionAPI", SPEC_CAUSE_EVICTED, "the pod was evicted" },
    { "TerminationByKubelet", SPEC_CAUSE_EVICTED, "the node put the pod out" },
    { "DeletionByTaintManager", SPEC_CAUSE_NODE, "its node was given up" },
    { "DeletionByPodGC", SPEC_CAUSE_NODE, "its node is gone" },
};

/* Was it taken in, and left in?  A kubelet that takes no pod says "OutOf" and
 * what there was too little of, or one of a few other words.
 */
static bool read_refusal(const json_t *pod, struct podstate *s)
{
    const char *reason = object_str(pod, "status", "reason", NULL);
    const char *message = object_str(pod, "status", "message", NULL);
    const struct words *w = find(refusals, array_size(refusals), reason);

    if (strcmp(object_str(pod, "status", "phase", NULL), "Failed") != 0)
        return false;
    if (strncmp(reason, "OutOf", strlen("OutOf")) == 0 ||
        (w && w->cause == SPEC_CAUSE_TAKEN))
        say(s, SPEC_CAUSE_TAKEN, "the node did not take the pod", reason,
            message);
    else if (w)
        say(s, w->cause, w->say, reason, message);
    return s->cause != SPEC_CAUSE_NONE;
}

/* About to be put out, and by whom. */
static bool read_disruption(const json_t *pod, struct podstate *s)
{
    const json_t *all = object_at(pod, "status", "conditions", NULL), *c;
    size_t i;

    json_array_foreach(all, i, c) {
        const struct words *w;

        if (strcmp(json_get_str(c, "type", ""), "DisruptionTarget") != 0 ||
            strcmp(json_get_str(c, "status", ""), "True") != 0)
            continue;
        w = find(disruptions, array_size(disruptions),
                 json_get_str(c, "reason", ""));
        say(s, w ? w->cause : SPEC_CAUSE_EVICTED,
            w ? w->say : "the pod was put out", json_get_str(c, "reason", ""),
            json_get_str(c, "message", ""));
        return true;
    }
    return false;
}

static bool read_leaving(const json_t *pod, struct podstate *s)
{
    uint64_t grace = json_get_u64(json_object_get(pod, "metadata"),
                                  "deletionGracePeriodSeconds", 0);

    if (!object_str(pod, "metadata", "deletionTimestamp", NULL)[0])
        return false;
    s->leaving = true;
    s->grace_s = grace < PODSPEC_GRACE_S ? (uint32_t) grace : PODSPEC_GRACE_S;
    return true;
}

/* ---- containers ---- */

static const json_t *container(const json_t *pod, const char *list,
                               const char *name)
{
    const json_t *all = object_at(pod, "status", list, NULL), *c;
    size_t i;

    json_array_foreach(all, i, c)
        if (strcmp(json_get_str(c, "name", ""), name) == 0)
            return c;
    return NULL;
}

/* Why an image is not there.  The first ones are of no use to wait for. */
static const char *const no_image[] = {
    "InvalidImageName", "ErrImageNeverPull",
    "ErrImagePull", "ImagePullBackOff", "ImageInspectError",
    "RegistryUnavailable", "SignatureValidationFailed",
};
static const char *const no_container[] = {
    "CreateContainerConfigError", "CreateContainerError",
    "PreCreateHookError", "PreStartHookError", "PostStartHookError",
    "RunContainerError",
};

static bool among(const char *const *list, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], text) == 0)
            return true;
    return false;
}

static void read_waiting(const json_t *c, struct podstate *s)
{
    const json_t *w = object_at(c, "state", "waiting", NULL);
    const char *reason = json_get_str(w, "reason", "");
    const char *message = json_get_str(w, "message", "");

    if (among(no_image, array_size(no_image), reason)) {
        say(s, SPEC_CAUSE_IMAGE, "its image cannot be had", reason, message);
        s->stuck = among(no_image, 2, reason);
    } else if (among(no_container, array_size(no_container), reason)) {
        say(s, SPEC_CAUSE_REFUSED, "its container cannot be made", reason,
            message);
    }
}

/* A container's own number: past 128 it is a signal's. */
static int status_of(const json_t *end)
{
    uint64_t code = json_get_u64(end, "exitCode", 0);

    if (code > SIGNALLED && code <= SIGNALLED + SIGNAL_MAX)
        return -(int) (code - SIGNALLED);
    return code < 256 ? (int) code : 0;
}

static void read_end(const json_t *end, const char *what, struct podstate *s)
{
    const char *reason = json_get_str(end, "reason", "");
    const char *message = json_get_str(end, "message", "");
    char text[80];

    s->kind = PODSTATE_OVER;
    s->status = status_of(end);
    if (strcmp(reason, "OOMKilled") == 0) {
        say(s, SPEC_CAUSE_MEMORY, "it was past its memory", reason, message);
        return;
    }
    (void) snprintf(text, sizeof text, "%s ended with %d before its end was "
                    "told", what, s->status);
    say(s, SPEC_CAUSE_LOST, text, reason, message);
}

/* The container that places the runner: it ends well, or the pod has failed. */
static void read_first(const json_t *pod, struct podstate *s)
{
    const json_t *c = container(pod, "initContainerStatuses", "runner");
    const json_t *end = object_at(c, "state", "terminated", NULL);

    if (end && json_get_u64(end, "exitCode", 0) != 0)
        read_end(end, "the container of the runner", s);
    else if (!end)
        read_waiting(c, s);
}

static void read_task(const json_t *pod, struct podstate *s)
{
    const json_t *c = container(pod, "containerStatuses", PODSPEC_CONTAINER);
    const json_t *end = object_at(c, "state", "terminated", NULL);

    if (end) {
        read_end(end, "the container", s);
        s->by_itself = true;
    } else if (object_at(c, "state", "running", NULL)) {
        s->kind = PODSTATE_RUNNING;
    } else {
        read_waiting(c, s);
    }
}

/* Over without a word of its containers. */
static void read_phase(const json_t *pod, struct podstate *s)
{
    const char *phase = object_str(pod, "status", "phase", NULL);

    if (strcmp(phase, "Failed") != 0 && strcmp(phase, "Succeeded") != 0)
        return;
    s->kind = PODSTATE_OVER;
    if (s->cause == SPEC_CAUSE_NONE)
        say(s, SPEC_CAUSE_LOST, "the pod ended",
            object_str(pod, "status", "reason", NULL),
            object_str(pod, "status", "message", NULL));
}

void podstate_read(const json_t *pod, struct podstate *ret)
{
    struct podstate s = { .kind = PODSTATE_COMING };
    bool leaving = read_leaving(pod, &s), disrupted = false;

    if (read_refusal(pod, &s)) {
        s.kind = PODSTATE_OVER;
        *ret = s;
        return;
    }
    read_first(pod, &s);
    if (s.kind == PODSTATE_COMING && !s.cause)
        read_task(pod, &s);
    if (s.cause != SPEC_CAUSE_MEMORY)
        disrupted = read_disruption(pod, &s);
    if (leaving && !disrupted && s.cause != SPEC_CAUSE_MEMORY)
        say(&s, SPEC_CAUSE_DELETED, "somebody deleted the pod", "", "");
    if (leaving || disrupted)
        s.by_itself = s.by_itself && s.cause == SPEC_CAUSE_MEMORY;
    read_phase(pod, &s);
    *ret = s;
}

void podstate_gone(struct podstate *s)
{
    if (!s->leaving && s->kind != PODSTATE_OVER)
        say(s, SPEC_CAUSE_DELETED, "the pod is gone", "", "");
    s->kind = PODSTATE_OVER;
}

/* ---- a pod that others made ---- */

/* The first container that did not end well, by what it says. */
static bool read_failure(const json_t *pod, const char *list,
                         struct podstate *s)
{
    const json_t *all = object_at(pod, "status", list, NULL), *c;
    size_t i;

    json_array_foreach(all, i, c) {
        const json_t *end = object_at(c, "state", "terminated", NULL);
        const char *reason = json_get_str(end, "reason", "");

        if (!end || json_get_u64(end, "exitCode", 0) == 0)
            continue;
        s->status = status_of(end);
        say(s, strcmp(reason, "OOMKilled") == 0 ? SPEC_CAUSE_MEMORY
               : s->status < 0 ? SPEC_CAUSE_SIGNALLED : SPEC_CAUSE_FAILED,
            "its container ended", reason, json_get_str(end, "message", ""));
        return true;
    }
    return false;
}

static void read_failed(const json_t *pod, struct podstate *s)
{
    const char *reason = object_str(pod, "status", "reason", NULL);
    const char *message = object_str(pod, "status", "message", NULL);

    if (read_disruption(pod, s))
        return;
    if (strcmp(reason, "DeadlineExceeded") == 0)
        say(s, SPEC_CAUSE_TIMEOUT, "the pod is past its deadline", "",
            message);
    else if (s->leaving)
        say(s, SPEC_CAUSE_DELETED, "somebody deleted the pod", "", "");
    else if (!read_failure(pod, "initContainerStatuses", s) &&
             !read_failure(pod, "containerStatuses", s))
        say(s, SPEC_CAUSE_FAILED, "the pod failed", reason, message);
}

void podstate_read_guest(const json_t *pod, struct podstate *ret)
{
    struct podstate s = { .kind = PODSTATE_COMING };
    const char *phase = object_str(pod, "status", "phase", NULL);
    bool leaving = read_leaving(pod, &s);

    if (strcmp(phase, "Succeeded") == 0) {
        s.kind = PODSTATE_OVER;
    } else if (read_refusal(pod, &s)) {
        s.kind = PODSTATE_OVER;
    } else if (strcmp(phase, "Failed") == 0) {
        s.kind = PODSTATE_OVER;
        read_failed(pod, &s);
    } else {
        if (strcmp(phase, "Running") == 0)
            s.kind = PODSTATE_RUNNING;
        if (!read_disruption(pod, &s) && leaving)
            say(&s, SPEC_CAUSE_DELETED, "somebody deleted the pod", "", "");
    }
    *ret = s;
}
