#include "cli/views.h"

#include "cli/cli.h"
#include "cli/human.h"

#include <stdio.h>
#include <time.h>

static void print_clock(uint64_t ms)
{
    time_t s = (time_t) (ms / 1000);
    char text[16] = "";
    struct tm tm;

    if (localtime_r(&s, &tm))
        (void) strftime(text, sizeof text, "%H:%M:%S", &tm);
    printf("%s ", text);
}

static void print_task(const struct model *m, const struct model_task *t)
{
    char text[64], span[HUMAN_SIZE];

    print_clock(t->since_ms);
    printf("%s/%s %s", m->id, t->name, model_word(t));
    if (t->state == MODEL_RUNNING) {
        printf(" on %s%s", t->place,
               m->simulated && t->wants_devices ? " (simulated)" : "");
        if (t->gen > 1 && t->gen < 1000)
            printf(", attempt %u", t->gen);
    } else {
        if (t->state == MODEL_ENDED && t->started_ms)
            printf(" after %s",
                   human_span(model_elapsed(t, t->ended_ms), span));
        model_cause(t, text, sizeof text);
        if (text[0])
            printf(": %s", text);
    }
    putchar('\n');
}

static void plain_loaded(struct follow *f, void *arg)
{
    struct view_plain *v = arg;
    const struct model *m = &f->model;
    char n[HUMAN_SIZE];

    if (!v->greeted) {
        print_clock(m->submitted_ms);
        printf("%s %s submitted: %s task%s\n", m->id, m->name,
               human_count(m->ntasks, n), m->ntasks == 1 ? "" : "s");
        /* What happened between the submit and now. */
        for (uint32_t i = 0; i < m->ntasks; i++) {
            if (m->tasks[i].state >= MODEL_RUNNING)
                print_task(m, &m->tasks[i]);
        }
    }
    v->greeted = true;
    (void) fflush(stdout);
}

static void plain_changed(struct follow *f, uint32_t task, void *arg)
{
    const struct model *m = &f->model;
    const struct model_task *t;

    (void) arg;
    if (task == MODEL_NO_TASK)
        return;
    t = &m->tasks[task];
    if (t->state >= MODEL_RUNNING || t->retried)
        print_task(m, t);
    (void) fflush(stdout);
}

static void plain_tick(struct follow *f, void *arg)
{
    (void) f;
    (void) arg;
}

static void plain_note(struct follow *f, const char *text, void *arg)
{
    (void) arg;
    cli_note(f->cli, "%s", text);
}

static bool plain_settled(struct follow *f, void *arg)
{
    (void) f;
    (void) arg;
    return true;
}

static void plain_close(struct follow *f, void *arg)
{
    (void) arg;
    if (f->model.ended)
        view_summary(f);
}

const struct view_ops view_plain = {
    .loaded = plain_loaded,
    .changed = plain_changed,
    .tick = plain_tick,
    .note = plain_note,
    .settled = plain_settled,
    .close = plain_close,
};

/* ---- nothing ---- */

static void quiet_loaded(struct follow *f, void *arg)
{
    (void) f;
    (void) arg;
}

static void quiet_changed(struct follow *f, uint32_t task, void *arg)
{
    (void) f;
    (void) task;
    (void) arg;
}

const struct view_ops view_quiet = {
    .loaded = quiet_loaded,
    .changed = quiet_changed,
    .tick = quiet_loaded,
    .note = plain_note,
    .settled = plain_settled,
    .close = quiet_loaded,
};
