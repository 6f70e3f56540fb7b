#include "cli/follow.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/cli.h"
#include "cli/feed.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Callbacks of the loop only note what happened; follow_run acts on it between
 * turns, where it may wait for answers.  Events that come while the state is
 * being fetched are kept and applied to it afterwards.
 */
enum { TICK_MS = 100, DETACH_MS = 1000 };

struct session {
    struct follow f;
    struct feed *feed;
    struct watch *tick, *detach;
    json_t *events;                    /* not applied yet */
    bool fetch, ticked, loaded, detached;
    unsigned interrupts, handled;
    int code;                          /* of a feed that is over, else 0 */
};

/* ---- from the loop ---- */

static void on_ready(void *arg)
{
    struct session *s = arg;

    s->fetch = true;
}

static void on_event(const json_t *event, const char *cursor, void *arg)
{
    struct session *s = arg;

    (void) cursor;
    (void) json_array_append(s->events, (json_t *) (uintptr_t) event);
}

static void on_connected(bool yes, void *arg)
{
    struct session *s = arg;

    s->f.view->note(&s->f, yes ? "connected again"
                               : "the connection broke; trying again",
                    s->f.arg);
}

static void on_over(int code, void *arg)
{
    struct session *s = arg;

    s->code = code;
}

static const struct feed_ops feed_ops = {
    .ready = on_ready,
    .event = on_event,
    .connected = on_connected,
    .over = on_over,
};

static void on_tick(struct watch *w, void *arg)
{
    struct session *s = arg;

    (void) w;
    s->ticked = true;
    s->tick = loop_timer(s->f.cli->loop, TICK_MS, on_tick, s);
}

static void on_detach(struct watch *w, void *arg)
{
    struct session *s = arg;

    (void) w;
    s->detach = NULL;
    s->detached = true;
}

static void on_signal(int sig, void *arg)
{
    struct session *s = arg;

    if (sig == SIGINT)
        s->interrupts++;
    else
        s->detached = true;            /* SIGTERM, SIGHUP: no time to ask */
}

/* ---- between turns ---- */

#define TASK_FIELDS \
    "task,index,state,outcome,cause,status,signal,attempt,ranks,needs,gpus," \
    "since,started,ended,running_since,run_seconds,not_before,leases"

/* Are there simulated devices?  Whoever sees a device must see that. */
static bool any_simulated(const json_t *j)
{
    const char *key;
    json_t *v;
    size_t i;

    if (json_is_array(j)) {
        json_array_foreach(j, i, v) {
            if (any_simulated(v))
                return true;
        }
    }
    json_object_foreach((json_t *) (uintptr_t) j, key, v) {
        if ((strcmp(key, "simulated") == 0 && json_is_true(v)) ||
            any_simulated(v))
            return true;
    }
    return false;
}

static int fetch_now(struct session *s)
{
    struct cli *c = s->f.cli;
    autojson json_t *workload = NULL;
    autojson json_t *tasks = NULL;
    autojson json_t *pools = NULL;
    int rc;

    rc = call_get(c, &workload, "/v1/workloads/%s", s->f.id);
    if (rc == 0)
        rc = call_tasks(c, s->f.id, TASK_FIELDS, &tasks);
    if (rc == 0 && !s->loaded)
        rc = call_get(c, &pools, "/v1/pools");
    if (rc != 0)
        return rc;
    model_load(&s->f.model, workload, json_object_get(tasks, "items"));
    if (pools)
        s->f.model.simulated = any_simulated(pools);
    s->loaded = true;
    s->f.view->loaded(&s->f, s->f.arg);
    return 0;
}

/* When the server went away in between, the feed decides how long to wait. */
static int fetch(struct session *s)
{
    int rc;

    s->f.cli->muted = true;
    rc = fetch_now(s);
    s->f.cli->muted = false;
    s->fetch = rc == CLI_UNREACHABLE;
    if (rc == 0 || rc == CLI_UNREACHABLE)
        return 0;
    return fetch_now(s);               /* say it */
}

static void apply_events(struct session *s)
{
    json_t *events = s->events, *e;
    uint32_t task;
    size_t i;

    if (!s->loaded || json_array_size(events) == 0)
        return;
    s->events = json_array();
    json_array_foreach(events, i, e) {
        if (model_event(&s->f.model, e, &task))
            s->f.view->changed(&s->f, task, s->f.arg);
    }
    json_decref(events);
}

static int abort_workload(struct session *s, bool force)
{
    autofree char *path = call_path("/v1/workloads/%s/abort", s->f.id);
    autojson json_t *body = json_object();

    json_put_bool(body, "force", force);
    s->f.aborting = true;
    return call_json(s->f.cli, "POST", path, body, NULL);
}

static int handle_interrupts(struct session *s)
{
    const struct follow *f = &s->f;
    char text[160];
    int rc = 0;

    while (s->handled < s->interrupts && rc == 0) {
        switch (++s->handled) {
        case 1:
            (void) snprintf(text, sizeof text, "detaching from %s; press "
                            "Ctrl-C again now to abort it", f->id);
            s->detach = loop_timer(f->cli->loop, DETACH_MS, on_detach, s);
            break;
        case 2:
            watch_remove(s->detach);
            s->detach = NULL;
            (void) snprintf(text, sizeof text, "aborting %s; Ctrl-C again "
                            "kills it at once", f->id);
            rc = abort_workload(s, false);
            break;
        case 3:
            (void) snprintf(text, sizeof text, "killing %s", f->id);
            rc = abort_workload(s, true);
            break;
        default:
            (void) snprintf(text, sizeof text, "leaving %s to its end",
                            f->id);
            s->detached = true;
            break;
        }
        f->view->note(&s->f, text, f->arg);
    }
    return rc;
}

void follow_ask_why(struct follow *f, uint32_t task)
{
    struct model_task *t = &f->model.tasks[task];
    autojson json_t *j = NULL;
    const char *text;

    t->why_ms = f->now_ms;
    /* It may have started meanwhile. */
    if (call_try(f->cli, &j, "/v1/workloads/%s/tasks/%s?fields=why", f->id,
                 t->name) != 0)
        return;
    text = json_get_str(json_object_get(j, "why"), "text", NULL);
    free(t->why);
    t->why = mem_str(text);
}

static int outcome_exit(const struct model *m)
{
    switch (m->outcome) {
    case MODEL_SUCCEEDED:
        return CLI_OK;
    case MODEL_ABORTED:
        return CLI_INTERRUPTED;
    case MODEL_NONE:
    case MODEL_FAILED:
    case MODEL_SKIPPED:
    case MODEL_OUTCOMES:
        break;
    }
    return CLI_FAILED;
}

static void say_detached(const char *id)
{
    fprintf(stderr, "%s goes on without you:\n"
            "  weir show %s\n"
            "  weir logs -f %s\n"
            "  weir abort %s\n", id, id, id, id);
}

/* One turn of the loop and what follows from it; *ret_over ends the session. */
static int turn(struct session *s, bool *ret_over)
{
    struct follow *f = &s->f;
    int rc = cli_turn(f->cli);

    if (rc != 0)
        return rc;
    f->now_ms = clock_wall_ms();
    if (s->code != 0)
        return s->code;
    if (s->fetch)
        rc = fetch(s);
    apply_events(s);
    if (rc == 0)
        rc = handle_interrupts(s);
    if (rc != 0)
        return rc;
    if (s->ticked && s->loaded)
        f->view->tick(f, f->arg);
    s->ticked = false;
    if (s->detached) {
        *ret_over = true;
        return CLI_INTERRUPTED;
    }
    if (s->loaded && f->model.ended && f->view->settled(f, f->arg)) {
        *ret_over = true;
        return outcome_exit(&f->model);
    }
    return 0;
}

static int take_signals(struct session *s)
{
    static const int sigs[] = { SIGINT, SIGTERM, SIGHUP };
    struct err err;

    for (size_t i = 0; i < array_size(sigs); i++) {
        if (loop_signal(s->f.cli->loop, sigs[i], on_signal, s, &err) < 0)
            return cli_fail(s->f.cli, CLI_BROKEN, "%s", err.text);
    }
    return 0;
}

int follow_run(struct cli *c, const char *id, bool own,
               const struct view_ops *view, void *arg)
{
    struct session s = {
        .f = { .cli = c, .id = id, .view = view, .arg = arg,
               .now_ms = clock_wall_ms() },
    };
    bool over = false;
    int rc = cli_connect(c);

    if (rc != 0)
        return rc;
    s.events = json_array();
    if (own)
        rc = take_signals(&s);
    if (rc == 0)
        rc = feed_open(c, id, NULL, &feed_ops, &s, &s.feed);
    s.tick = loop_timer(c->loop, TICK_MS, on_tick, &s);
    while (rc == 0 && !over)
        rc = turn(&s, &over);
    view->close(&s.f, arg);
    if (over && s.detached)
        say_detached(id);
    feed_close(s.feed);
    watch_remove(s.tick);
    watch_remove(s.detach);
    json_decref(s.events);
    model_free(&s.f.model);
    return rc;
}
