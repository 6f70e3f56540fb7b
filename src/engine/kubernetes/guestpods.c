#include "engine/kubernetes/guestpods_int.h"

#include "base/err.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "engine/kubernetes/guestspec.h"
#include "engine/kubernetes/words.h"
#include "kube/kube.h"
#include "kube/object.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What is to be done for a guest follows from its lease and from what is seen
 * of it, and is looked at again (guest_step) when either has changed:
 *
 *   its lease   the pod                  then
 *   wanted      waits                    bind it, if its node has the room
 *               bound for this lease     tell that it runs, and how it ends
 *               bound otherwise          over: the place is another's
 *               gone                     over: deleted
 *   leaving     waits                    over: it still waits
 *               bound for this lease     delete it; then over
 *   none        bound for one of ours    is found, and stopped if it is nobody's
 *               waits, to be dropped     delete it
 *
 * A binding whose answer did not come may come to something later: until the
 * watch has had the time to show it, such a guest is neither bound again nor
 * taken to be waiting.
 */

/* ---- those that there are ---- */

static struct guest *guest_new(struct guestpods *all, const char *uid)
{
    struct guest *g = mem_new(sizeof *g);

    g->of = all;
    g->uid = mem_str(uid);
    (void) map_set(all->all, g->uid, g);
    return g;
}

static void lease_clear(struct guest *g)
{
    if (g->runner[0])
        (void) map_del(g->of->leases, g->runner);
    g->runner[0] = '\0';
    g->want = GUEST_FREE;
    g->since_ms = 0;
    g->said = g->unsure = g->dropped = false;
}

static void lease_set(struct guest *g, const char *runner,
                      enum guest_want want)
{
    if (strcmp(g->runner, runner) != 0) {
        lease_clear(g);
        (void) snprintf(g->runner, sizeof g->runner, "%s", runner);
        (void) map_set(g->of->leases, g->runner, g);
    }
    g->want = want;
}

static void soon_del(struct guest *g)
{
    struct guestpods *all = g->of;
    struct guest **at = &all->first_soon, *before = NULL;

    if (!g->soon)
        return;
    while (*at != g) {
        before = *at;
        at = &before->next_soon;
    }
    *at = g->next_soon;
    if (all->last_soon == g)
        all->last_soon = before;
}

static void guest_free(struct guest *g)
{
    lease_clear(g);
    soon_del(g);
    (void) map_del(g->of->all, g->uid);
    guest_binding(g, false);
    kube_cancel(g->call);
    watch_remove(g->timer);
    free(g->uid);
    free(g->space);
    free(g->name);
    free(g->node);
    free(g->by);
    json_decref(g->waits);
    free(g);
}

/* ---- what is to be done ---- */

static void on_look(struct watch *w, void *arg)
{
    struct guestpods *all = arg;
    struct guest *g;

    (void) w;
    all->look = NULL;
    while ((g = all->first_soon)) {
        all->first_soon = g->next_soon;
        if (!all->first_soon)
            all->last_soon = NULL;
        g->soon = false;
        guest_step(g);
    }
}

/* At the end of this turn; results never come from inside a call. */
static void step_soon(struct guest *g)
{
    struct guestpods *all = g->of;

    if (g->soon)
        return;
    g->soon = true;
    g->next_soon = NULL;
    if (all->last_soon)
        all->last_soon->next_soon = g;
    else
        all->first_soon = g;
    all->last_soon = g;
    if (!all->look)
        all->look = loop_soon(all->loop, on_look, all);
}

static void on_timer(struct watch *w, void *arg)
{
    struct guest *g = arg;

    (void) w;
    g->timer = NULL;
    guest_step(g);
}

void guest_later(struct guest *g, uint64_t ms)
{
    watch_remove(g->timer);
    g->timer = loop_timer(g->of->loop, ms, on_timer, g);
}

void guest_over(struct guest *g, enum spec_cause cause, int status,
                const char *why)
{
    if (g->want != GUEST_WANTED && g->want != GUEST_LEAVING)
        return;
    g->want = GUEST_TOLD;
    watch_remove(take(g->timer));
    g->of->conf.over(g->runner, cause, status, why, g->of->conf.arg);
}

static bool is_over(const struct guest *g)
{
    return !g->there || g->state.kind == PODSTATE_OVER;
}

/* Bound, and for this very lease. */
static bool is_bound(const struct guest *g)
{
    return g->node && g->by && strcmp(g->by, g->runner) == 0;
}

static void end(struct guest *g)
{
    if (g->there && g->node && !is_bound(g))
        guest_over(g, SPEC_CAUSE_TAKEN, 0, "another scheduler has bound the "
                   "pod");
    else if (g->state.kind == PODSTATE_OVER)
        guest_over(g, g->state.cause, g->state.status, g->state.why);
    else
        guest_over(g, SPEC_CAUSE_DELETED, 0, "the pod is not there any more");
}

static void begin(struct guest *g)
{
    if (g->said || g->state.kind == PODSTATE_COMING)
        return;
    g->said = true;
    g->of->conf.begun(g->runner, g->of->conf.arg);
}

/* The plan knows the place to be free; what the cluster shows may be behind it,
 * or somebody else was faster.
 */
static bool has_room(struct guest *g, const char *node)
{
    const struct guestpods_conf *conf = &g->of->conf;
    uint64_t now = loop_now(g->of->loop);

    if (conf->room(node, &g->lease, conf->arg))
        return true;
    if (!g->since_ms)
        g->since_ms = now;
    if (now - g->since_ms < GUESTPODS_SOON_MS)
        guest_later(g, GUESTPODS_SOON_MS / 10);
    else
        guest_over(g, SPEC_CAUSE_LOST, 0, "its place is taken by others; it "
                   "waits for another one");
    return false;
}

static void step_waiting(struct guest *g)
{
    const char *node = g->of->conf.node_of(g->block, g->of->conf.arg);

    if (g->unsure)
        return;                        /* its timer makes it sure */
    if (g->state.leaving || g->drop)
        guest_over(g, SPEC_CAUSE_DELETED, 0, "somebody deleted the pod");
    else if (!node)
        guest_over(g, SPEC_CAUSE_LOST, 0, "its node is not there any more; it "
                   "waits for another one");
    else if (has_room(g, node))
        guest_bind(g, node);
}

static void step_wanted(struct guest *g)
{
    if (g->there && is_bound(g)) {
        begin(g);
        if (g->state.kind == PODSTATE_OVER)
            end(g);
    } else if (is_over(g) || g->node) {
        end(g);
    } else {
        step_waiting(g);
    }
}

static void step_leaving(struct guest *g)
{
    if (is_over(g) || (g->node && !is_bound(g)))
        end(g);
    else if (is_bound(g) && (!g->dropped || !g->timer))
        guest_delete(g);
    else if (!g->node && !g->unsure)
        guest_over(g, SPEC_CAUSE_LOST, 0, "it was not bound, and still waits");
}

void guest_step(struct guest *g)
{
    if (g->call || !g->of->listed || !g->of->ready)
        return;
    if (g->unsure && !g->timer) {      /* it had the time to be shown */
        g->unsure = false;
        g->since_ms = 0;
    }
    if (g->want == GUEST_WANTED)
        step_wanted(g);
    else if (g->want == GUEST_LEAVING)
        step_leaving(g);
    else if (g->drop && !is_over(g) && !g->node &&
             (!g->dropped || !g->timer))
        guest_delete(g);
}

/* ---- what is told of those that wait ---- */

static bool is_waiting(const struct guest *g)
{
    return !is_over(g) && !g->state.leaving && !g->node && !g->gated;
}

static void say_unfit(struct guest *g, const char *why)
{
    const struct word w = { g->uid, g->space, g->name, why, false };

    if (!g->unfit)
        words_say(g->of->words, &w);
    g->unfit = true;
}

static void tell(struct guest *g, const json_t *pod)
{
    const struct guestpods_conf *conf = &g->of->conf;
    autojson json_t *o = NULL;
    struct err err = { 0 };

    if (g->told || !is_waiting(g))
        return;
    if (guestspec_read(pod, conf->tolerate, conf->tenant, &o, &err) < 0) {
        say_unfit(g, err.text);
        return;
    }
    json_decref(g->waits);
    g->waits = NULL;
    if (!g->of->may) {
        g->waits = take(o);
        guestpods_ask(g->of);
        return;
    }
    g->told = true;
    conf->came(o, conf->arg);
}

/* Those that have waited for this. */
void guestpods_allowed(struct guestpods *all)
{
    struct guest *g;
    size_t pos = 0;

    all->may = true;
    all->forbidden = false;
    while ((g = map_next(all->all, &pos, NULL))) {
        autojson json_t *o = take(g->waits);

        g->told = g->told || (o && is_waiting(g));
        if (o && g->told)
            all->conf.came(o, all->conf.arg);
    }
    if (all->listed)
        all->conf.all_told(all->conf.arg);
}

/* One that is bound for a lease of ours is there as long as it runs. */
static void untell(struct guest *g)
{
    if (!g->told || !(is_over(g) || (g->node && !g->by) ||
                      (!g->node && g->state.leaving)))
        return;
    g->told = false;
    words_forget(g->of->words, g->uid);
    g->of->conf.left(g->uid, g->of->conf.arg);
}

/* ---- what the watch says ---- */

bool guestpods_is(const struct guestpods *all, const json_t *pod)
{
    return guestspec_is_for(pod, all->conf.scheduler);
}

static const char *by_of(const struct guestpods *all, const json_t *pod)
{
    const char *runner = object_str(pod, "metadata", "annotations",
                                    GUEST_RUNNER, NULL);

    return *runner && *object_str(pod, "spec", "nodeName", NULL) &&
           strcmp(object_str(pod, "metadata", "annotations", GUEST_INSTANCE,
                             NULL), all->conf.instance) == 0 ? runner : NULL;
}

bool guestpods_own(const struct guestpods *all, const json_t *pod)
{
    return guestpods_is(all, pod) && by_of(all, pod);
}

static void set_text(char **at, const char *text)
{
    if (*at && text && strcmp(*at, text) == 0)
        return;
    free(*at);
    *at = text && *text ? mem_str(text) : NULL;
}

static void read_pod(struct guest *g, const json_t *pod)
{
    const json_t *gates = object_at(pod, "spec", "schedulingGates", NULL);

    g->there = true;
    g->seen = g->of->lists;
    g->gated = json_array_size(gates) > 0;
    set_text(&g->space, object_str(pod, "metadata", "namespace", NULL));
    set_text(&g->name, object_str(pod, "metadata", "name", NULL));
    set_text(&g->node, object_str(pod, "spec", "nodeName", NULL));
    set_text(&g->by, by_of(g->of, pod));
    podstate_read_guest(pod, &g->state);
    if (g->node)
        g->unsure = false;
    if (g->by && g->want == GUEST_FREE && !is_over(g) &&
        strlen(g->by) < sizeof g->runner)
        lease_set(g, g->by, GUEST_FOUND);
}

void guestpods_put(struct guestpods *all, const json_t *pod)
{
    const char *uid = object_str(pod, "metadata", "uid", NULL);
    struct guest *g = map_get(all->all, uid);

    if (!g && (!*uid || map_count(all->all) >= GUESTPODS_MAX))
        return;
    if (!g)
        g = guest_new(all, uid);
    read_pod(g, pod);
    guest_step(g);
    untell(g);
    tell(g, pod);
    all->conf.moved(all->conf.arg);
}

/* Once nobody speaks of it, it is forgotten. */
static void vanish(struct guest *g)
{
    struct guestpods *all = g->of;

    g->there = false;
    podstate_gone(&g->state);
    guest_step(g);
    untell(g);
    if (g->want == GUEST_FREE || g->want == GUEST_FOUND)
        guest_free(g);
    all->conf.moved(all->conf.arg);
}

void guestpods_gone(struct guestpods *all, const json_t *pod)
{
    struct guest *g = map_get(all->all, object_str(pod, "metadata", "uid",
                                                   NULL));

    if (!g)
        return;
    read_pod(g, pod);
    vanish(g);
}

void guest_absent(struct guest *g)
{
    vanish(g);
}

void guestpods_list(struct guestpods *all)
{
    all->lists++;
}

/* A step may free what it is made for. */
static void step_all(struct guestpods *all, bool unseen)
{
    size_t n = 0, pos = 0;
    struct guest **list = mem_array(map_count(all->all) + 1, sizeof *list), *g;

    while ((g = map_next(all->all, &pos, NULL)))
        if (!unseen || (g->there && g->seen < all->lists))
            list[n++] = g;
    for (size_t i = 0; i < n; i++) {
        if (unseen)
            vanish(list[i]);
        else
            guest_step(list[i]);
    }
    free(list);
}

void guestpods_listed(struct guestpods *all)
{
    all->listed = true;
    step_all(all, true);
    step_all(all, false);
    guestpods_ask(all);
    if (all->may)
        all->conf.all_told(all->conf.arg);
}

void guestpods_ready(struct guestpods *all)
{
    all->ready = true;
    step_all(all, false);
}

/* ---- what is asked for ---- */

int guestpods_start(struct guestpods *all, const struct engine_lease *l,
                    struct err *err)
{
    struct guest *g = map_get(all->all, l->guest);

    if (!g && map_count(all->all) >= GUESTPODS_MAX)
        return err_set(err, ENOSPC, "more than %d pods", GUESTPODS_MAX);
    if (!g)
        g = guest_new(all, l->guest);
    if (g->want == GUEST_LEAVING && strcmp(g->runner, l->runner) == 0)
        return 0;
    lease_set(g, l->runner, GUEST_WANTED);
    g->lease.cpus_milli = l->cpus_milli;
    g->lease.memory = l->memory;
    g->lease.gpus = l->gpus;
    (void) snprintf(g->block, sizeof g->block, "%s", l->block);
    step_soon(g);
    return 0;
}

bool guestpods_stop(struct guestpods *all, const char *runner)
{
    struct guest *g = map_get(all->leases, runner);

    if (!g)
        return false;
    if (g->want == GUEST_TOLD) {
        lease_clear(g);
        if (!g->there && all->listed)
            guest_free(g);
        else
            step_soon(g);
    } else {
        g->want = GUEST_LEAVING;
        step_soon(g);
    }
    return true;
}

void guestpods_tell(struct guestpods *all, const char *uid,
                    const struct engine_word *w)
{
    struct guest *g = map_get(all->all, uid);
    const struct word word = { uid, g ? g->space : NULL, g ? g->name : NULL,
                               w->text, false };

    if (!g || is_over(g))
        return;
    if (!w->drop) {
        words_say(all->words, &word);
        return;
    }
    words_forget(all->words, uid);
    g->drop = true;
    step_soon(g);
}

void guestpods_find(const struct guestpods *all, json_t *list)
{
    const char *runner;
    size_t pos = 0;

    while (map_next(all->leases, &pos, &runner))
        (void) json_array_append_new(list, json_string(runner));
}

bool guestpods_busy(const struct guestpods *all, const char *node)
{
    const struct guest *g;
    size_t pos = 0;

    while ((g = map_next(all->leases, &pos, NULL)))
        if (g->node && strcmp(g->node, node) == 0 && !is_over(g))
            return true;
    return false;
}

/* ---- open and close ---- */

struct guestpods *guestpods_open(struct kube *k,
                                 const struct guestpods_conf *conf)
{
    struct guestpods *all = mem_new(sizeof *all);

    all->kube = k;
    all->loop = kube_loop(k);
    all->conf = *conf;
    all->all = map_new();
    all->leases = map_new();
    all->words = words_open(k, conf->trouble, conf->arg);
    return all;
}

void guestpods_close(struct guestpods *all)
{
    struct guest *g;
    size_t pos = 0;

    if (!all)
        return;
    for (; (g = map_next(all->all, &pos, NULL)); pos = 0)
        guest_free(g);
    map_free(all->all);
    map_free(all->leases);
    words_close(all->words);
    watch_remove(all->look);
    kube_cancel(all->asked);
    watch_remove(all->ask);
    free(all);
}
