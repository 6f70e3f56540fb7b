#include "engine/kubernetes/words.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "kube/backoff.h"
#include "kube/kube.h"
#include "kube/object.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Each has its turn: its condition is written, then its Event.  What is refused
 * is not worth a second try; what the server could not take now is tried some
 * times more.
 */
enum { TEXT_MAX_BYTES = 1000, NAME_CUT = 200, GOOD_MAX = 20000 };

struct saying {
    struct words *of;
    char *uid, *space, *name;
    char *text;
    bool good, conditioned, busy;
    bool more;                         /* it is another one since it left */
    bool done;                         /* ... and none is wanted any more */
    unsigned tries;
    struct kube_call *call;
    struct watch *timer;
    struct backoff backoff;
    struct saying *next;               /* in line */
};

struct line {
    struct saying *first, *last;
    size_t count;
};

struct words {
    struct kube *kube;
    struct map *all;                   /* by uid: in line, or on the way */
    struct line lines[2];              /* why it waits; that it is bound */
    unsigned busy;
    bool held;
    bool troubled;
    void (*trouble)(const char *text, void *arg);
    void *arg;
};

static void saying_free(struct saying *s)
{
    if (map_get(s->of->all, s->uid) == s)
        (void) map_del(s->of->all, s->uid);
    kube_cancel(s->call);
    watch_remove(s->timer);
    free(s->uid);
    free(s->space);
    free(s->name);
    free(s->text);
    free(s);
}

static void say_next(struct words *w);

static void line_up(struct saying *s)
{
    struct line *l = &s->of->lines[s->good];

    s->busy = s->more = s->conditioned = false;
    s->tries = 0;
    s->next = NULL;
    if (l->last)
        l->last->next = s;
    else
        l->first = s;
    l->last = s;
    l->count++;
}

static void done(struct saying *s)
{
    struct words *w = s->of;

    w->busy--;
    if (s->more && !s->done)
        line_up(s);
    else
        saying_free(s);
    say_next(w);
}

static void say(struct saying *s);

static void on_timer(struct watch *w, void *arg)
{
    struct saying *s = arg;

    (void) w;
    s->timer = NULL;
    say(s);
}

/* Said once; a pod may be gone by now, which is none. */
static void unheard(struct words *w, const struct kube_answer *a)
{
    autofree char *text = mem_printf("pods cannot be told why they wait: %s",
                                     a->text);

    if (!w->troubled)
        w->trouble(text, w->arg);
    w->troubled = true;
}

static bool worth_another(const struct kube_answer *a)
{
    return a->http == 0 || a->http == 429 || a->http >= 500;
}

static void on_done(const struct kube_answer *a, void *arg)
{
    struct saying *s = arg;

    s->call = NULL;
    if (s->done || s->more) {
        done(s);
    } else if (a->rc < 0 && worth_another(a)) {
        if (++s->tries == WORDS_TRIES)
            done(s);
        else
            s->timer = loop_timer(kube_loop(s->of->kube), backoff_next(
                &s->backoff, a->wait_ms, fs_random()), on_timer, s);
    } else if (!s->conditioned && a->rc == 0) {
        s->conditioned = true;
        say(s);
    } else {
        if (a->rc < 0 && a->http != 404)
            unheard(s->of, a);
        done(s);
    }
}

static const struct kube_ops ops = {
    .done = on_done,
};

/* ---- what is sent ---- */

static json_t *condition(const struct saying *s)
{
    char now[32];

    clock_print(clock_wall_ms() / 1000 * 1000, now, sizeof now);
    return json_pack("{s:{s:[{s:s,s:s,s:s,s:s,s:s}]}}", "status",
                     "conditions", "type", "PodScheduled", "status", "False",
                     "reason", "Unschedulable", "message", s->text,
                     "lastTransitionTime", now);
}

static json_t *event(const struct saying *s)
{
    autofree char *name = mem_printf("%.*s.%016" PRIx64, NAME_CUT, s->name,
                                     fs_random());
    autofree char *micro = NULL;
    char now[32];

    clock_print(clock_wall_ms() / 1000 * 1000, now, sizeof now);
    micro = mem_printf("%.19s.000000Z", now);
    return json_pack(
        "{s:s,s:s,s:{s:s,s:s},s:{s:s,s:s,s:s,s:s,s:s},s:s,s:s,s:s,s:s,s:s,"
        "s:s,s:s}",
        "apiVersion", "events.k8s.io/v1", "kind", "Event", "metadata",
        "name", name, "namespace", s->space, "regarding",
        "apiVersion", "v1", "kind", "Pod", "namespace", s->space, "name",
        s->name, "uid", s->uid,
        "reason", s->good ? "Scheduled" : "FailedScheduling",
        "type", s->good ? "Normal" : "Warning", "note", s->text,
        "action", s->good ? "Binding" : "Scheduling", "reportingController",
        "weir", "reportingInstance", "weir", "eventTime", micro);
}

static void say(struct saying *s)
{
    bool first = !s->good && !s->conditioned;
    autojson json_t *o = first ? condition(s) : event(s);
    autofree char *text = json_text(o);
    autofree char *path = first
        ? mem_printf("/api/v1/namespaces/%s/pods/%s/status", s->space, s->name)
        : mem_printf("/apis/events.k8s.io/v1/namespaces/%s/events", s->space);
    struct kube_request q = {
        .method = first ? "PATCH" : "POST", .path = path, .body = text,
        .type = first ? "application/strategic-merge-patch+json"
                      : "application/json", .len = strlen(text),
        .repeats = true,               /* an Event has a name */
    };

    if (kube_start(s->of->kube, &q, &ops, s, &s->call, NULL) < 0)
        s->timer = loop_timer(kube_loop(s->of->kube), backoff_next(
            &s->backoff, 0, fs_random()), on_timer, s);
}

/* ---- the line ---- */

static struct saying *line_next(struct line *l)
{
    struct saying *s = l->first;

    if (!s)
        return NULL;
    l->first = s->next;
    l->count--;
    if (!l->first)
        l->last = NULL;
    return s;
}

static void say_next(struct words *w)
{
    while (w->busy < WORDS_AT_ONCE) {
        struct saying *s = line_next(&w->lines[0]);

        if (!s && !w->held)
            s = line_next(&w->lines[1]);
        if (!s)
            break;
        if (s->done) {
            saying_free(s);
            continue;
        }
        s->busy = true;
        w->busy++;
        say(s);
    }
}

void words_hold(struct words *w, bool hold)
{
    w->held = hold;
    if (!hold)
        say_next(w);
}

static void set(struct saying *s, const struct word *word)
{
    char line[TEXT_MAX_BYTES + 1];

    object_line(word->text, strlen(word->text), line, sizeof line);
    free(s->text);
    s->text = mem_str(line);
    s->good = word->good;
}

void words_say(struct words *w, const struct word *word)
{
    struct saying *s = map_get(w->all, word->uid);

    if (s && (s->busy || s->good == word->good)) {
        set(s, word);
        s->more = s->busy;
        s->done = false;
        return;
    }
    if (s) {                           /* in the other line */
        s->done = true;
        (void) map_del(w->all, s->uid);
    }
    if (word->good && w->lines[1].count >= GOOD_MAX)
        return;
    s = mem_new(sizeof *s);
    s->of = w;
    s->uid = mem_str(word->uid);
    s->space = mem_str(word->space);
    s->name = mem_str(word->name);
    set(s, word);
    (void) map_set(w->all, s->uid, s);
    line_up(s);
    say_next(w);
}

/* One in line has its turn, and says nothing. */
void words_forget(struct words *w, const char *uid)
{
    struct saying *s = map_get(w->all, uid);

    if (s)
        s->done = true;
}

struct words *words_open(struct kube *k,
                         void (*trouble)(const char *text, void *arg),
                         void *arg)
{
    struct words *w = mem_new(sizeof *w);

    w->kube = k;
    w->trouble = trouble;
    w->arg = arg;
    w->all = map_new();
    return w;
}

void words_close(struct words *w)
{
    struct saying *s;
    size_t pos = 0;

    if (!w)
        return;
    for (int i = 0; i < 2; i++)
        while ((s = line_next(&w->lines[i])))
            saying_free(s);
    for (; (s = map_next(w->all, &pos, NULL)); pos = 0)
        saying_free(s);                /* on the way */
    map_free(w->all);
    free(w);
}
