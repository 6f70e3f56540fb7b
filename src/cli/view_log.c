#include "cli/views.h"

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/tail.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* One tail for each attempt of each rank, begun as soon as the attempt is
 * planned, MOST_TAILS at a time, an attempt after those before it.  Attempts
 * that came and went unseen count, too, the last MOST_PAST of them: numbers
 * jump when a workload is released.  A log that is not there yet is asked for
 * again while its task is about to start.
 */
enum { WAIT_MS = 1500, AGAIN_MS = 200, MOST_TAILS = 64, MOST_PAST = 100 };

struct view_tail {
    struct view_tail *next;
    struct view_log *view;
    struct follow *follow;
    struct tail *tail;
    uint32_t task, rank, gen;
    bool done, again;
    uint64_t again_ms;
};

static void on_done(struct tail *t, int code, const char *text, void *arg)
{
    struct view_tail *vt = arg;
    const struct model_task *task = &vt->follow->model.tasks[vt->task];

    (void) t;
    vt->done = true;
    vt->view->running--;
    if (code == CLI_MISSING) {
        /* Not there yet, or it never began: the end of the task tells. */
        vt->again = task->state >= MODEL_STARTING &&
                    task->state != MODEL_ENDED && task->gen == vt->gen;
        vt->again_ms = vt->follow->now_ms + AGAIN_MS;
    } else if (code != 0) {
        vt->view->failed = true;
        cli_note(vt->follow->cli, "%s: %s", task->name, text);
    }
}

static void start(struct follow *f, struct view_log *v, struct view_tail *vt)
{
    const struct model_task *t = &f->model.tasks[vt->task];
    autofree char *prefix = NULL;
    struct tail_conf conf = {
        .workload = f->id, .task = t->name, .rank = vt->rank,
        .attempt = vt->gen, .follow = true, .prefix = "",
    };

    if (t->ranks > 1)
        prefix = v->solo ? mem_printf("%" PRIu32 " | ", vt->rank)
                         : mem_printf("%s[%" PRIu32 "] | ", t->name, vt->rank);
    else if (f->model.ntasks > 1)
        prefix = mem_printf("%-*s | ", (int) v->width, t->name);
    if (prefix)
        conf.prefix = prefix;
    tail_close(vt->tail);
    vt->tail = NULL;
    vt->done = vt->again = false;
    if (tail_open(f->cli, &conf, on_done, vt, &vt->tail) == 0)
        v->running++;
    else
        v->failed = vt->done = true;
}

/* The newest attempt of a task that has a tail; 0: none. */
static uint32_t newest(const struct view_log *v, uint32_t task)
{
    uint32_t gen = 0;

    for (const struct view_tail *vt = v->tails; vt; vt = vt->next) {
        if (vt->task == task && vt->gen > gen)
            gen = vt->gen;
    }
    return gen;
}

/* Have the attempts of this rank before it been told to their end? */
static bool in_turn(const struct view_log *v, const struct view_tail *mine)
{
    for (const struct view_tail *vt = v->tails; vt; vt = vt->next) {
        if (vt->task == mine->task && vt->rank == mine->rank &&
            vt->gen < mine->gen && (!vt->done || vt->again))
            return false;
    }
    return true;
}

static void add(struct follow *f, struct view_log *v, uint32_t task,
                uint32_t gen)
{
    for (uint32_t r = 0; r < f->model.tasks[task].ranks; r++) {
        struct view_tail *vt = mem_new(sizeof *vt);

        vt->view = v;
        vt->follow = f;
        vt->task = task;
        vt->rank = r;
        vt->gen = gen;
        vt->next = v->tails;
        v->tails = vt;
        vt->done = vt->again = true;   /* a tick begins it, in its turn */
        if (v->running < MOST_TAILS && in_turn(v, vt))
            start(f, v, vt);
    }
}

static void consider(struct follow *f, struct view_log *v, uint32_t task)
{
    uint32_t last = f->model.tasks[task].gen;
    uint32_t gen = newest(v, task) + 1;

    if (last > MOST_PAST && gen < last - MOST_PAST)
        gen = last - MOST_PAST;
    for (; gen <= last; gen++)
        add(f, v, task, gen);
}

/* ---- the view ---- */

static void log_loaded(struct follow *f, void *arg)
{
    struct view_log *v = arg;

    for (uint32_t i = 0; i < f->model.ntasks; i++) {
        unsigned w = paint_width(f->model.tasks[i].name);

        if (w > v->width)
            v->width = w < 24 ? w : 24;
    }
    for (uint32_t i = 0; i < f->model.ntasks; i++)
        consider(f, v, i);
}

static void log_changed(struct follow *f, uint32_t task, void *arg)
{
    if (task != MODEL_NO_TASK)
        consider(f, arg, task);
}

/* A command that does not begin owes its owner a word. */
static void tell_waiting(struct follow *f, struct view_log *v)
{
    const struct model *m = &f->model;

    if (v->told || m->count[MODEL_WAITING] == 0 ||
        m->count[MODEL_WAITING] != m->ntasks)
        return;
    if (f->now_ms < m->tasks[0].since_ms + WAIT_MS)
        return;
    follow_ask_why(f, 0);
    v->told = true;
    if (m->tasks[0].why)
        cli_note(f->cli, "%s waits: %s", f->id, m->tasks[0].why);
}

static void log_tick(struct follow *f, void *arg)
{
    struct view_log *v = arg;

    for (struct view_tail *vt = v->tails; vt; vt = vt->next) {
        if (vt->done && !vt->again && vt->tail) {
            tail_close(vt->tail);
            vt->tail = NULL;
        }
        if (vt->done && vt->again && f->now_ms >= vt->again_ms &&
            v->running < MOST_TAILS && in_turn(v, vt))
            start(f, v, vt);
    }
    if (v->solo)
        tell_waiting(f, v);
}

static void log_note(struct follow *f, const char *text, void *arg)
{
    (void) arg;
    cli_note(f->cli, "%s", text);
}

static bool log_settled(struct follow *f, void *arg)
{
    struct view_log *v = arg;

    if (f->model.ntasks > 0) {
        const struct model_task *t = &f->model.tasks[0];

        v->status = t->status;
        (void) snprintf(v->cause, sizeof v->cause, "%s", t->cause);
    }
    for (const struct view_tail *vt = v->tails; vt; vt = vt->next) {
        if (vt->done && vt->again)
            return false;
    }
    return v->running == 0;
}

static void log_close(struct follow *f, void *arg)
{
    struct view_log *v = arg;

    (void) f;
    while (v->tails) {
        struct view_tail *vt = v->tails;

        v->tails = vt->next;
        tail_close(vt->tail);
        free(vt);
    }
}

const struct view_ops view_log = {
    .loaded = log_loaded,
    .changed = log_changed,
    .tick = log_tick,
    .note = log_note,
    .settled = log_settled,
    .close = log_close,
};
