#include "cli/verbs.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/print.h"
#include "cli/screen.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum { REFRESH_MS = 1000, REASONS = 6, PICTURE_MAX = 4 * 1024 * 1024 };

struct top_opts {
    bool once;
    uint64_t every_ms;
};

#define AT(member) offsetof(struct top_opts, member)
static const struct opt top_opts[] = {
    { "once", '1', NULL, "print it once and end", OPT_FLAG, AT(once) },
    { "every", 0, "TIME", "how often it is shown anew (1s)", OPT_DURATION,
      AT(every_ms) },
    { .kind = OPT_END },
};
#undef AT

struct top {
    struct cli *cli;
    json_t *pools, *waste, *before, *workloads;
    struct termios saved;
    struct watch *timer;
    bool raw, full, quit, due;         /* full: the screen is ours */
};

/* ---- asking ---- */

/* The reason of the first task of a workload that waits. */
static void add_reason(struct cli *c, json_t *w)
{
    const char *id = json_get_str(w, "id", "");
    autojson json_t *tasks = NULL;
    autojson json_t *task = NULL;
    const json_t *t;
    size_t i;

    if (call_get(c, &tasks, "/v1/workloads/%s/tasks?limit=1000"
                 "&fields=task,state", id) != 0)
        return;
    json_array_foreach(json_object_get(tasks, "items"), i, t) {
        const char *state = json_get_str(t, "state", "");

        if (strcmp(state, "waiting") != 0 && strcmp(state, "suspended") != 0)
            continue;
        if (call_get(c, &task, "/v1/workloads/%s/tasks/%s?fields=why", id,
                     json_get_str(t, "task", "")) == 0)
            json_put_str(w, "reason",
                         json_get_str(json_object_get(task, "why"), "text",
                                      NULL));
        return;
    }
}

/* A workload may end between two questions: that is no error. */
static void add_reasons(struct top *t)
{
    bool was = t->cli->muted;
    unsigned left = REASONS;
    json_t *w;
    size_t i;

    t->cli->muted = true;
    json_array_foreach(t->workloads, i, w) {
        if (left == 0)
            break;
        const json_t *n = json_object_get(w, "tasks");

        if (json_get_u64(n, "waiting", 0) == 0 &&
            json_get_u64(n, "suspended", 0) == 0)
            continue;
        add_reason(t->cli, w);
        left--;
    }
    t->cli->muted = was;
}

static void replace(json_t **old, json_t *fresh)
{
    json_decref(*old);
    *old = fresh;
}

static int ask(struct top *t)
{
    autojson json_t *pools = NULL;
    autojson json_t *waste = NULL;
    autojson json_t *list = NULL;
    int rc = call_get(t->cli, &pools, "/v1/pools");

    if (rc == 0)
        rc = call_get(t->cli, &waste, "/v1/waste");
    if (rc == 0)
        rc = call_get(t->cli, &list, "/v1/workloads?state=live&limit=100");
    if (rc != 0)
        return rc;
    replace(&t->before, t->waste);
    t->waste = take(waste);
    replace(&t->pools, take(pools));
    replace(&t->workloads, json_incref(json_object_get(list, "items")));
    add_reasons(t);
    return 0;
}

static int print_answers(const struct top *t)
{
    autojson json_t *j = json_object();

    json_put(j, "pools", json_incref(json_object_get(t->pools, "items")));
    json_put(j, "waste", json_incref(t->waste));
    json_put(j, "workloads", json_incref(t->workloads));
    return print_json(t->cli, j);
}

static int show(struct top *t)
{
    autobuf struct buf out = BUF_INIT(PICTURE_MAX);
    struct screen s = {
        .pools = t->pools, .waste = t->waste, .before = t->before,
        .workloads = t->workloads, .now_ms = clock_wall_ms(),
    };
    int rc;

    if (t->cli->out == OUT_JSON)
        return print_answers(t);
    term_size(&t->cli->term);
    if (t->full)
        buf_str(&out, "\033[H\033[2J");
    screen_paint(&s, &t->cli->term, t->full ? t->cli->term.rows - 1 : 0, &out);
    rc = print_buf(t->cli, &out);
    (void) fflush(stdout);
    return rc;
}

/* ---- the terminal ---- */

static void on_key(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct top *t = arg;
    char keys[64];
    ssize_t n = read(fd, keys, sizeof keys);

    (void) ready;
    if (n <= 0) {
        watch_remove(w);
        return;
    }
    t->quit = t->quit || memchr(keys, 'q', (size_t) n) ||
              memchr(keys, 3, (size_t) n);
    t->due = true;                     /* any other key: now */
}

static void on_signal(int sig, void *arg)
{
    struct top *t = arg;

    if (sig != SIGWINCH)
        t->quit = true;
    t->due = true;
}

static void on_timer(struct watch *w, void *arg)
{
    struct top *t = arg;

    (void) w;
    t->timer = NULL;
    t->due = true;
}

static int enter(struct top *t)
{
    static const int sigs[] = { SIGINT, SIGTERM, SIGHUP, SIGWINCH };
    struct termios raw;
    struct watch *w;
    struct err err;

    for (size_t i = 0; i < array_size(sigs); i++) {
        if (loop_signal(t->cli->loop, sigs[i], on_signal, t, &err) < 0)
            return cli_fail(t->cli, CLI_BROKEN, "%s", err.text);
    }
    if (tcgetattr(STDIN_FILENO, &t->saved) == 0) {
        raw = t->saved;
        raw.c_lflag &= ~(tcflag_t) (ICANON | ECHO);
        (void) tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
        if (loop_fd(t->cli->loop, STDIN_FILENO, LOOP_READ, on_key, t, &w,
                    &err) < 0)
            return cli_fail(t->cli, CLI_BROKEN, "%s", err.text);
        t->raw = true;
    }
    (void) fputs("\033[?1049h\033[?25l", stdout);
    t->full = true;
    return 0;
}

static void leave(struct top *t)
{
    if (t->full)
        (void) fputs("\033[?25h\033[?1049l", stdout);
    (void) fflush(stdout);
    t->full = false;
    if (t->raw)
        (void) tcsetattr(STDIN_FILENO, TCSADRAIN, &t->saved);
    t->raw = false;
}

static int refresh(struct top *t, uint64_t every_ms)
{
    int rc = enter(t);

    t->due = true;
    while (rc == 0 && !t->quit) {
        if (t->due) {
            t->due = false;
            if (!t->timer)
                t->timer = loop_timer(t->cli->loop, every_ms, on_timer, t);
            t->cli->muted = true;      /* nobody reads it on this screen */
            rc = ask(t);
            t->cli->muted = false;
            if (rc == 0)
                rc = show(t);
        } else {
            rc = cli_turn(t->cli);
        }
    }
    leave(t);
    return rc ? ask(t) : 0;            /* say it where it stays */
}

static int run_top(struct cli *c, const void *opts)
{
    const struct top_opts *o = opts;
    struct top t = { .cli = c };
    int rc = ask(&t);

    if (rc == 0 && (o->once || !c->term.tty || c->out == OUT_JSON))
        rc = show(&t);
    else if (rc == 0)
        rc = refresh(&t, o->every_ms ? o->every_ms : REFRESH_MS);
    json_decref(t.pools);
    json_decref(t.waste);
    json_decref(t.before);
    json_decref(t.workloads);
    return rc;
}

const struct verb verb_top = {
    .name = "top",
    .summary = "devices, wastage and the queue, refreshed; q quits",
    .usage = "[--once] [--every TIME]",
    .about = "WR is the share of device-time that was free while work "
             "waited: waste is what\nfitted, fragments what was free in the "
             "wrong pieces.",
    .examples = "weir top\n"
                "weir top --once -o json | jq .waste.wr",
    .opts = top_opts,
    .size = sizeof(struct top_opts),
    .run = run_top,
};
