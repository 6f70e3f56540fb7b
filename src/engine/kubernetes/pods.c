#include "engine/kubernetes/pods_int.h"

#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "engine/kubernetes/podspec.h"
#include "kube/kube.h"
#include "kube/object.h"

#include <stdio.h>
#include <string.h>

/* What is to be done for a pod follows from what is wanted and what is seen,
 * and is looked at again (pod_step) when either has changed:
 *
 *     wanted, not there     make it, once it is known what is there; what was
 *                           begun is lost
 *     wanted, there         give it its Secret; judge what it says of itself
 *     unwanted, there       drop it until it is not
 *     unwanted, not there   forget it
 *
 * A request that was cut off may come to something later, so one that is
 * forgotten after such a request is kept in mind for UNSURE_MS.
 */
enum { UNSURE_MS = 120000, LOOK_MS = 5000 };

enum waited { NOTHING, TELL, LEAVE, STUCK, HELD, COMING, PLACE, SOON, CLEAR,
              MET };

static const uint64_t patience[] = {
    [TELL] = PODS_TELL_MS, [LEAVE] = PODS_SILENT_MS, [STUCK] = PODS_TELL_MS,
    [HELD] = PODS_HELD_MS, [COMING] = PODS_COMING_MS, [PLACE] = PODS_PLACE_MS,
    [SOON] = PODS_SOON_MS, [CLEAR] = PODS_CLEAR_MS, [MET] = PODS_HELD_MS,
};

/* ---- those that there are ---- */

static void lease_set(struct pod *p, const struct engine_lease *l)
{
    if (p->lease.token)
        return;
    p->lease = *l;
    p->lease.runner = p->runner;
    p->lease.token = mem_str(l->token);
    p->lease.block = mem_str(l->block);
    p->lease.task = mem_str(l->task);
    p->lease.tenant = mem_str(l->tenant);
    p->lease.image = mem_str(l->image);
}

static void lease_clear(struct engine_lease *l)
{
    const char *texts[] = { l->token, l->block, l->task, l->tenant,
                            l->image };

    for (size_t i = 0; i < array_size(texts); i++) {
        char *text = (char *) (uintptr_t) texts[i];

        if (text && i == 0)
            explicit_bzero(text, strlen(text));
        free(text);
    }
}

static int pod_new(struct pods *all, const char *runner, struct pod **ret,
                   struct err *err)
{
    struct runner_name name;
    char key[48];
    struct pod *p;
    int rc = runner_name_parse(runner, &name, err);

    if (rc < 0)
        return rc;
    p = mem_new(sizeof *p);
    p->of = all;
    (void) snprintf(p->runner, sizeof p->runner, "%s", runner);
    lease_key_print(&name.key, key, sizeof key);
    name_pod(all->conf.spec->instance, all->conf.spec->pool, runner, key,
             p->name);
    (void) map_set(all->all, p->runner, p);
    *ret = p;
    return 0;
}

static void pod_free(struct pod *p)
{
    (void) map_del(p->of->all, p->runner);
    kube_cancel(p->call);
    watch_remove(p->timer);
    lease_clear(&p->lease);
    free(p->node);
    free(p->uid);
    free(p);
}

static void on_soon(struct watch *w, void *arg);

static void look_soon(struct pods *all)
{
    if (!all->soon)
        all->soon = loop_soon(all->loop, on_soon, all);
}

/* ---- what is to be done ---- */

static void on_timer(struct watch *w, void *arg)
{
    struct pod *p = arg;

    (void) w;
    p->timer = NULL;
    pod_step(p);
}

void pod_later(struct pod *p, uint64_t ms)
{
    watch_remove(p->timer);
    p->timer = loop_timer(p->of->loop, ms, on_timer, p);
}

void pod_over(struct pod *p, enum spec_cause cause, int status,
              const char *why)
{
    if (p->want != POD_WANTED)
        return;
    p->want = POD_TOLD;
    watch_remove(take(p->timer));
    p->of->conf.over(p->runner, cause, status, why, p->of->conf.arg);
}

/* Has it been waited for long enough?  If not, look again when it has. */
static bool is_due(struct pod *p, enum waited what, uint64_t more_ms)
{
    uint64_t now = loop_now(p->of->loop), due;

    if (p->waited != (int) what) {
        p->waited = (int) what;
        p->since_ms = now;
    }
    due = p->since_ms + patience[what] + more_ms;
    if (now >= due)
        return true;
    pod_later(p, due - now < LOOK_MS ? due - now : LOOK_MS);
    return false;
}

void pod_met(struct pod *p)
{
    if (p->uid || p->want != POD_WANTED)
        pod_step(p);
    else if (is_due(p, MET, 0))
        pod_over(p, SPEC_CAUSE_REFUSED, 0, "a pod of its name is there, and "
                 "not ours");
}

static enum waited waited_of(const struct podstate *s)
{
    if (s->kind == PODSTATE_OVER)
        return s->by_itself ? TELL : NOTHING;
    if (s->leaving)
        return LEAVE;
    if (s->kind == PODSTATE_RUNNING)
        return NOTHING;
    if (s->cause == SPEC_CAUSE_NONE)
        return COMING;
    return s->stuck ? STUCK : HELD;
}

/* One that leaves has the time it was given, if its node is heard of. */
static uint64_t leaving_ms(const struct pod *p)
{
    if (!p->state.leaving || !p->node ||
        !p->of->conf.alive(p->node, p->of->conf.arg))
        return 0;
    return 1000 * (uint64_t) p->state.grace_s;
}

/* Of one that is wanted and was there: is it over? */
static void judge(struct pod *p)
{
    const struct podstate *s = &p->state;
    enum waited what = waited_of(s);

    if (s->kind == PODSTATE_RUNNING && !s->leaving)
        return;
    if (what != NOTHING &&
        !is_due(p, what, what == LEAVE ? leaving_ms(p) : 0))
        return;
    if (what == COMING)
        pod_over(p, SPEC_CAUSE_LOST, 0, "the pod does not start: its node "
                 "does not say why");
    else
        pod_over(p, s->cause, s->status, s->why);
}

/* Does it take something that the inventory does not count?  The watch has not
 * shown it yet; or it has ended, and its kubelet has not cleared up: that is
 * done when the object goes.
 */
static bool is_hidden(const struct pod *p)
{
    if (p->state.kind == PODSTATE_OVER)
        return p->uid && p->state.cause != SPEC_CAUSE_TAKEN;
    return p->asked && !p->shown;
}

/* Who else of ours is there: one that leaves, one that may leave, nobody?  What
 * those take that is not counted is added to `sum`.
 */
static enum waited neighbours(const struct pod *p, struct engine_lease *sum)
{
    enum waited found = NOTHING;
    const struct pod *o;
    size_t pos = 0;

    while ((o = map_next(p->of->all, &pos, NULL))) {
        if (o == p || !o->node || strcmp(o->node, p->node) != 0)
            continue;
        if (is_hidden(o)) {
            sum->cpus_milli += o->lease.cpus_milli;
            sum->memory += o->lease.memory;
            sum->gpus += o->lease.gpus;
        }
        if (o->uid && o->want != POD_WANTED)
            found = PLACE;
        else if (found == NOTHING && o->uid)
            found = SOON;
    }
    return found;
}

/* The world has given its place to it, and one that has ended in the world has
 * perhaps not left it yet: the kubelet would take no other there.  Where nobody
 * of ours is to leave, the place is taken by others, which the kubelet says.
 */
static bool must_wait(struct pod *p)
{
    struct engine_lease sum = p->lease;
    enum waited what = neighbours(p, &sum);

    p->waits = what != NOTHING &&
               !p->of->conf.room(p->node, &sum, p->of->conf.arg) &&
               !is_due(p, what, 0);
    return p->waits;
}

static void step_absent(struct pod *p)
{
    const char *node;

    if (!p->of->listed || !p->of->ready)
        return;
    if (p->lease.begun) {
        pod_over(p, SPEC_CAUSE_LOST, 0, "its pod is not there any more");
        return;
    }
    node = p->of->conf.node_of(p->lease.block, p->of->conf.arg);
    if (!node) {
        pod_over(p, SPEC_CAUSE_NODE, 0, "its node is not there any more");
        return;
    }
    if (!p->node)
        p->node = mem_str(node);
    if (must_wait(p))
        return;
    pod_make(p);
}

/* One that has ended would be gone at once, before its kubelet has cleared up;
 * one that is told to go first is gone after that.
 */
static void step_unwanted(struct pod *p)
{
    if (p->uid && p->state.kind == PODSTATE_OVER && !p->dropped &&
        !p->state.leaving && p->state.cause != SPEC_CAUSE_TAKEN &&
        !is_due(p, CLEAR, 0))
        return;
    if (!p->uid && (p->absent || (p->of->listed && !p->asked)))
        pod_free(p);
    else if (!p->dropped || !p->timer) /* told already, and it has its time */
        pod_drop(p, p->dropped);
}

void pod_step(struct pod *p)
{
    if (p->call)
        return;                        /* its answer makes a step */
    if (p->want == POD_UNWANTED)
        step_unwanted(p);
    else if (p->want != POD_WANTED)
        return;
    else if (p->state.kind == PODSTATE_OVER)
        judge(p);
    else if (!p->uid)
        step_absent(p);
    else if (!p->given)
        pod_give(p);
    else
        judge(p);
}

void pod_absent(struct pod *p)
{
    free(take(p->uid));
    p->dropped = false;
    p->absent = true;
    if (p->unsure)
        pod_later(p, UNSURE_MS);
    else
        pod_free(p);
}

/* Those that wait for a place, and those that were asked for meanwhile.  A step
 * may free what it is made for.
 */
static void on_soon(struct watch *w, void *arg)
{
    struct pods *all = arg;
    size_t n = 0, pos = 0;
    struct pod **list = mem_array(map_count(all->all) + 1, sizeof *list), *p;

    (void) w;
    all->soon = NULL;
    while ((p = map_next(all->all, &pos, NULL)))
        if (p->waits || (!p->timer && !p->call))
            list[n++] = p;
    for (size_t i = 0; i < n; i++)
        pod_step(list[i]);
    free(list);
}

/* ---- what the watch says ---- */

/* The pod's own, unless somebody has meddled with it; NULL: nobody's. */
static struct pod *pod_of(struct pods *all, const json_t *pod)
{
    const char *runner = object_str(pod, "metadata", "annotations",
                                    PODSPEC_RUNNER, NULL);
    const char *name = object_str(pod, "metadata", "name", NULL);
    struct pod *p = map_get(all->all, runner);

    if (!p && pod_new(all, runner, &p, NULL) < 0)
        return NULL;
    if (strcmp(p->name, name) == 0)
        return p;
    if (p->want == POD_FOUND && !p->uid)
        pod_free(p);
    return NULL;
}

/* A request of an earlier life has come to something, after it was said which
 * there are: nobody has asked for it, and nobody knows of it.
 */
static bool is_late(const struct pod *p)
{
    return p->want == POD_FOUND && !p->uid && p->of->listed && p->of->ready;
}

void pods_put(struct pods *all, const json_t *pod)
{
    const char *node = object_str(pod, "spec", "nodeName", NULL);
    struct pod *p = pod_of(all, pod);
    bool late = p && is_late(p);

    if (!p)
        return;
    free(p->uid);
    p->uid = mem_str(object_str(pod, "metadata", "uid", NULL));
    p->seen = all->lists;
    p->shown = true;
    p->absent = false;
    if (*node && (!p->node || strcmp(p->node, node) != 0)) {
        free(p->node);
        p->node = mem_str(node);
    }
    podstate_read(pod, &p->state);
    /* A container that begins has what the Secret gave. */
    if (p->lease.begun || p->state.kind != PODSTATE_COMING)
        p->given = true;
    p->waits = false;
    pod_step(p);
    all->conf.moved(all->conf.arg);
    look_soon(all);
    if (late)
        all->conf.late(all->conf.arg);
}

static void pod_vanish(struct pod *p)
{
    struct pods *all = p->of;

    podstate_gone(&p->state);
    free(take(p->uid));
    if (p->want == POD_FOUND || (p->want == POD_UNWANTED && !p->call))
        pod_absent(p);
    else
        pod_step(p);
    all->conf.moved(all->conf.arg);
    look_soon(all);
}

void pods_gone(struct pods *all, const json_t *pod)
{
    struct pod *p = pod_of(all, pod);

    if (!p)
        return;
    podstate_read(pod, &p->state);
    pod_vanish(p);
}

void pods_list(struct pods *all)
{
    all->lists++;
}

void pods_listed(struct pods *all)
{
    size_t n = 0, pos = 0;
    struct pod **gone = mem_array(map_count(all->all) + 1, sizeof *gone), *p;

    all->listed = true;
    while ((p = map_next(all->all, &pos, NULL)))
        if (p->uid && p->seen < all->lists)
            gone[n++] = p;
    for (size_t i = 0; i < n; i++)
        pod_vanish(gone[i]);
    free(gone);
    look_soon(all);
}

void pods_ready(struct pods *all)
{
    all->ready = true;
    look_soon(all);
}

/* ---- what is asked for ---- */

int pods_start(struct pods *all, const struct engine_lease *l, struct err *err)
{
    struct pod *p = map_get(all->all, l->runner);
    int rc = p ? 0 : pod_new(all, l->runner, &p, err);

    if (rc < 0)
        return rc;
    lease_set(p, l);
    p->lease.begun = p->lease.begun || l->begun;
    p->given = p->given || l->begun;
    if (p->want == POD_FOUND || p->want == POD_TOLD)
        p->want = POD_WANTED;
    all->conf.moved(all->conf.arg);
    look_soon(all);
    return 0;
}

int pods_stop(struct pods *all, const char *runner, struct err *err)
{
    struct pod *p = map_get(all->all, runner);
    int rc;

    if (!p && all->listed)
        return 0;
    rc = p ? 0 : pod_new(all, runner, &p, err);
    if (rc < 0)
        return rc;
    if (p->want == POD_UNWANTED)
        return 0;
    p->want = POD_UNWANTED;
    p->waits = false;
    watch_remove(take(p->timer));
    look_soon(all);
    return 0;
}

json_t *pods_find(const struct pods *all)
{
    json_t *list = json_array();
    const struct pod *p;
    size_t pos = 0;

    while ((p = map_next(all->all, &pos, NULL)))
        if (p->uid)
            (void) json_array_append_new(list, json_string(p->runner));
    return list;
}

bool pods_busy(const struct pods *all, const char *node)
{
    const struct pod *p;
    size_t pos = 0;

    while ((p = map_next(all->all, &pos, NULL)))
        if (p->node && strcmp(p->node, node) == 0 &&
            p->state.kind != PODSTATE_OVER &&
            (p->uid || p->want == POD_WANTED))
            return true;
    return false;
}

/* ---- open and close ---- */

struct pods *pods_open(struct kube *k, const struct pods_conf *conf)
{
    struct pods *all = mem_new(sizeof *all);

    all->kube = k;
    all->loop = kube_loop(k);
    all->conf = *conf;
    all->all = map_new();
    return all;
}

void pods_close(struct pods *all)
{
    struct pod *p;
    size_t pos = 0;

    if (!all)
        return;
    for (; (p = map_next(all->all, &pos, NULL)); pos = 0)
        pod_free(p);
    map_free(all->all);
    watch_remove(all->soon);
    free(all);
}
