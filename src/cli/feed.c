#include "cli/feed.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/cli.h"
#include "cli/sse.h"
#include "net/client.h"

#include <errno.h>
#include <string.h>

/* A restart of the control plane takes seconds; a minute without an answer is
 * no restart.
 */
enum { PAUSE_MS = 250, PAUSE_MAX_MS = 2000, PATIENCE_MS = 60 * 1000,
       PROBLEM_MAX = 64 * 1024 };

struct feed {
    struct cli *cli;
    const struct feed_ops *ops;
    void *arg;
    char *workload, *cursor;           /* cursor NULL: none yet */
    struct transfer *transfer;
    struct watch *timer;
    struct sse sse;
    struct buf problem;                /* the body of a refusal */
    bool lost;
    uint64_t lost_ms, pause_ms;
};

static void feed_start(struct feed *f);

static void on_message(const char *id, const char *event, const char *data,
                       size_t len, void *arg)
{
    struct feed *f = arg;
    autojson json_t *j = NULL;

    (void) event;
    if (json_read(data, len, SSE_MAX, &j, NULL) < 0)
        return;                        /* of a newer server: not for us */
    if (id[0]) {
        free(f->cursor);
        f->cursor = mem_str(id);
    }
    f->ops->event(j, id, f->arg);
}

static void on_head(struct transfer *t, void *arg)
{
    struct feed *f = arg;

    if (transfer_status(t) != 200)
        return;
    if (f->lost)
        f->ops->connected(true, f->arg);
    f->lost = false;
    f->pause_ms = PAUSE_MS;
    if (!f->cursor)
        f->ops->ready(f->arg);
}

static int on_bytes(struct transfer *t, const char *p, size_t n, void *arg)
{
    struct feed *f = arg;

    if (transfer_status(t) != 200)
        return buf_add(&f->problem, p, n) ? 0 : -EMSGSIZE;
    return sse_feed(&f->sse, p, n);
}

static void on_timer(struct watch *w, void *arg)
{
    struct feed *f = arg;

    (void) w;
    f->timer = NULL;
    feed_start(f);
}

static void try_again(struct feed *f)
{
    f->timer = loop_timer(f->cli->loop, f->pause_ms, on_timer, f);
    if (f->pause_ms < PAUSE_MAX_MS)
        f->pause_ms *= 2;
}

static void feed_lost(struct feed *f, int rc, const struct err *err)
{
    uint64_t now = loop_now(f->cli->loop);

    if (!f->lost) {
        f->lost = true;
        f->lost_ms = now;
        f->ops->connected(false, f->arg);
    } else if (now - f->lost_ms > PATIENCE_MS) {
        f->ops->over(call_lost(f->cli, rc, err), f->arg);
        return;
    }
    try_again(f);
}

static void on_done(struct transfer *t, int rc, const struct err *err,
                    void *arg)
{
    static const struct err closed = { ECONNRESET, "the server closed" };
    struct feed *f = arg;
    int status = transfer_status(t);

    f->transfer = NULL;
    if (rc < 0 && rc != -EMSGSIZE) {
        feed_lost(f, rc, err);
    } else if (status == 410) {        /* another epoch, or trimmed */
        free(f->cursor);
        f->cursor = NULL;
        try_again(f);
    } else if (status == 200 || status == 503 || status == 429) {
        feed_lost(f, -ECONNRESET, &closed);
    } else {
        f->ops->over(call_refused(f->cli, status, buf_text(&f->problem),
                                  f->problem.len), f->arg);
    }
}

static const struct transfer_ops feed_transfer = {
    .head = on_head,
    .bytes = on_bytes,
    .done = on_done,
};

static char *feed_path(const struct feed *f)
{
    if (f->workload && f->cursor)
        return call_path("/v1/watch?workload=%s&since=%s", f->workload,
                         f->cursor);
    if (f->workload)
        return call_path("/v1/watch?workload=%s", f->workload);
    if (f->cursor)
        return call_path("/v1/watch?since=%s", f->cursor);
    return mem_str("/v1/watch");
}

static void feed_start(struct feed *f)
{
    autofree char *path = feed_path(f);
    struct client_request q = { .method = "GET", .path = path };
    struct err err;
    int rc;

    buf_clear(&f->problem);
    sse_free(&f->sse);
    rc = client_start(f->cli->client, &q, &feed_transfer, f, &f->transfer,
                      &err);
    if (rc < 0)
        f->ops->over(call_lost(f->cli, rc, &err), f->arg);
}

int feed_open(struct cli *c, const char *workload, const char *since,
              const struct feed_ops *ops, void *arg, struct feed **ret)
{
    struct feed *f;
    int rc = cli_connect(c);

    if (rc != 0)
        return rc;
    f = mem_new(sizeof *f);
    f->cli = c;
    f->ops = ops;
    f->arg = arg;
    f->workload = mem_str(workload);
    f->cursor = mem_str(since);
    f->pause_ms = PAUSE_MS;
    f->problem.max = PROBLEM_MAX;
    sse_init(&f->sse, on_message, f);
    /* From the loop, so that no callback comes from within this call. */
    f->timer = loop_timer(c->loop, 0, on_timer, f);
    *ret = f;
    return 0;
}

void feed_close(struct feed *f)
{
    if (!f)
        return;
    transfer_cancel(f->transfer);
    watch_remove(f->timer);
    sse_free(&f->sse);
    buf_free(&f->problem);
    free(f->workload);
    free(f->cursor);
    free(f);
}
