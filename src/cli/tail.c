#include "cli/tail.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/call.h"
#include "cli/cli.h"
#include "net/client.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 64 * 1024, PROBLEM_MAX = 64 * 1024, PAUSE_MS = 500,
       TRIES = 120 };

struct tail {
    struct cli *cli;
    struct tail_conf conf;
    char *workload, *task, *prefix;
    tail_done_f done;
    void *arg;
    struct transfer *transfer;
    struct watch *timer;
    struct buf line, problem;
    uint64_t offset;                   /* of the next byte */
    unsigned tries;
    bool broken;                       /* standard output takes no more */
};

static int tail_start(struct tail *t, struct err *err);

/* ---- out ---- */

static void print_line(struct tail *t, const char *p, size_t n)
{
    if (t->cli->out == OUT_JSON) {
        autofree char *clean = utf8_clean(p, n);
        autojson json_t *j = json_object();
        autofree char *text = NULL;

        json_put_str(j, "workload", t->workload);
        json_put_str(j, "task", t->task);
        json_put_u64(j, "rank", t->conf.rank);
        json_put_str(j, "line", clean);
        text = json_text(j);
        t->broken |= puts(text) == EOF;
        return;
    }
    t->broken |= fputs(t->prefix, stdout) == EOF ||
                 fwrite(p, 1, n, stdout) != n || putchar('\n') == EOF;
}

/* A line longer than LINE_MAX_BYTES leaves in pieces. */
static void print_lines(struct tail *t, const char *p, size_t n)
{
    while (n > 0) {
        const char *nl = memchr(p, '\n', n);
        size_t part = nl ? (size_t) (nl - p) : n;
        size_t room = t->line.max - t->line.len;

        if (part > room) {
            part = room;
            nl = NULL;
        }
        buf_add(&t->line, p, part);
        if (nl || t->line.len == t->line.max) {
            print_line(t, buf_text(&t->line), t->line.len);
            buf_clear(&t->line);
        }
        p += part + (nl != NULL);
        n -= part + (nl != NULL);
    }
}

static void print_rest(struct tail *t)
{
    if (t->line.len > 0)
        print_line(t, buf_text(&t->line), t->line.len);
    buf_clear(&t->line);
}

/* ---- in ---- */

static void on_head(struct transfer *x, void *arg)
{
    struct tail *t = arg;
    const char *start = transfer_header(x, "Weir-Log-Start");
    uint64_t first = start ? strtoull(start, NULL, 10) : 0;

    if (transfer_status(x) != 200)
        return;
    t->tries = 0;
    if (first > t->offset)
        t->offset = first;             /* what was before is rotated away */
}

/* The reader of our output has gone: end as others do in a pipe.  libcurl has
 * SIGPIPE ignored while it calls us.
 */
static void end_quietly(void)
{
    (void) signal(SIGPIPE, SIG_DFL);
    (void) raise(SIGPIPE);
}

static int on_bytes(struct transfer *x, const char *p, size_t n, void *arg)
{
    struct tail *t = arg;

    if (transfer_status(x) != 200)
        return buf_add(&t->problem, p, n) ? 0 : -EMSGSIZE;
    t->offset += n;
    if (t->prefix[0] || t->cli->out == OUT_JSON)
        print_lines(t, p, n);
    else
        t->broken |= fwrite(p, 1, n, stdout) != n;
    t->broken |= fflush(stdout) != 0;
    if (t->broken && errno == EPIPE)
        end_quietly();
    return t->broken ? -EPIPE : 0;
}

static void on_timer(struct watch *w, void *arg)
{
    struct tail *t = arg;
    struct err err;

    (void) w;
    t->timer = NULL;
    if (tail_start(t, &err) < 0)
        t->done(t, CLI_BROKEN, err.text, t->arg);
}

static void refused(struct tail *t, int status)
{
    autojson json_t *j = NULL;

    (void) json_read(buf_text(&t->problem), t->problem.len, PROBLEM_MAX, &j,
                     NULL);
    t->done(t, call_exit(status), json_get_str(j, "detail", "refused"),
            t->arg);
}

static void on_done(struct transfer *x, int rc, const struct err *err,
                    void *arg)
{
    struct tail *t = arg;
    int status = transfer_status(x);

    t->transfer = NULL;
    if (t->broken) {
        t->done(t, CLI_BROKEN, "standard output takes no more", t->arg);
    } else if (rc == 0 && status == 200) {
        print_rest(t);
        t->broken |= fflush(stdout) != 0;
        t->done(t, 0, "", t->arg);
    } else if (rc == 0 && status != 503) {
        refused(t, status);
    } else if (t->conf.follow && t->tries++ < TRIES) {
        t->timer = loop_timer(t->cli->loop, PAUSE_MS, on_timer, t);
    } else {
        t->done(t, CLI_UNREACHABLE, rc < 0 ? err->text : "not now", t->arg);
    }
}

static const struct transfer_ops tail_transfer = {
    .head = on_head,
    .bytes = on_bytes,
    .done = on_done,
};

static int tail_start(struct tail *t, struct err *err)
{
    autofree char *base = call_path("/v1/workloads/%s/tasks/%s/log",
                                    t->workload, t->task);
    autofree char *attempt = NULL;
    autofree char *path = NULL;
    struct client_request q = { .method = "GET" };

    if (t->conf.attempt)
        attempt = mem_printf("&attempt=%" PRIu32, t->conf.attempt);
    path = mem_printf("%s?rank=%" PRIu32 "&offset=%" PRIu64 "%s%s", base,
                      t->conf.rank, t->offset, attempt ? attempt : "",
                      t->conf.follow ? "&follow=1" : "");
    q.path = path;
    buf_clear(&t->problem);
    return client_start(t->cli->client, &q, &tail_transfer, t, &t->transfer,
                        err);
}

int tail_open(struct cli *c, const struct tail_conf *conf, tail_done_f done,
              void *arg, struct tail **ret)
{
    struct tail *t;
    struct err err;
    int rc = cli_connect(c);

    if (rc != 0)
        return rc;
    t = mem_new(sizeof *t);
    t->cli = c;
    t->conf = *conf;
    t->workload = mem_str(conf->workload);
    t->task = mem_str(conf->task);
    t->prefix = mem_str(conf->prefix);
    t->done = done;
    t->arg = arg;
    t->line.max = LINE_MAX_BYTES;
    t->problem.max = PROBLEM_MAX;
    if (tail_start(t, &err) < 0) {
        tail_close(t);
        return cli_fail(c, CLI_BROKEN, "%s", err.text);
    }
    *ret = t;
    return 0;
}

void tail_close(struct tail *t)
{
    if (!t)
        return;
    transfer_cancel(t->transfer);
    watch_remove(t->timer);
    buf_free(&t->line);
    buf_free(&t->problem);
    free(t->workload);
    free(t->task);
    free(t->prefix);
    free(t);
}

/* ---- one, to its end ---- */

struct single {
    bool done;
    int code;
    char text[512];
};

static void single_done(struct tail *t, int code, const char *text, void *arg)
{
    struct single *s = arg;

    (void) t;
    s->done = true;
    s->code = code;
    (void) snprintf(s->text, sizeof s->text, "%.500s", text);
}

int tail_all(struct cli *c, const struct tail_conf *conf)
{
    struct single s = { 0 };
    struct tail *t = NULL;
    int rc = tail_open(c, conf, single_done, &s, &t);

    while (rc == 0 && !s.done)
        rc = cli_turn(c);
    tail_close(t);
    if (rc == 0 && s.code != 0)
        rc = cli_fail(c, s.code, "%s/%s: %s", conf->workload, conf->task,
                      s.text);
    return rc;
}
