#include "runner/link.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/loop.h"
#include "base/mem.h"
#include "engine/stream.h"
#include "runner/dial.h"

#include <errno.h>
#include <string.h>

enum {
    RETRY_MIN_MS = 50,
    RETRY_MAX_MS = 2000,
    SILENT_MS = 60 * 1000,
    OUT_MAX = 64 * 1024 * 1024,
};

struct link {
    struct loop *loop;
    const struct link_ops *ops;
    void *arg;
    const struct dial_to *to;
    struct dial *dial;                 /* an attempt that is under way */
    struct stream stream;              /* none: home is away */
    uint64_t number;                   /* of connections so far */
    bool welcome;
    bool over;                         /* something could not be queued */
    bool blocked;                      /* the socket took no more */
    struct watch *watch, *retry, *soon, *silent;
    uint64_t retry_ms, away_since, heard_ms;
    struct buf in, out;
};

static void on_retry(struct watch *w, void *arg);

static bool is_up(const struct link *k)
{
    return k->stream.fd >= 0;
}

static void retry_later(struct link *k)
{
    uint64_t half = k->retry_ms / 2;

    k->retry = loop_timer(k->loop, half + fs_random() % (half + 1), on_retry,
                          k);
    k->retry_ms = k->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS
                                                 : k->retry_ms * 2;
}

static void hang_up(struct link *k)
{
    watch_remove(take(k->watch));
    watch_remove(take(k->soon));
    watch_remove(take(k->silent));
    stream_close(&k->stream);
    buf_free(&k->in);
    buf_free(&k->out);
    k->over = k->blocked = false;
}

static void lost(struct link *k, const char *why)
{
    hang_up(k);
    if (k->welcome)
        k->away_since = loop_now(k->loop);
    k->welcome = false;
    retry_later(k);
    k->ops->down(why, k->arg);
}

static void flush(struct link *k)
{
    int rc;

    if (!is_up(k))
        return;
    rc = stream_write(&k->stream, &k->out, NULL);
    k->blocked = rc == 0;
    if (rc < 0)
        lost(k, strerror(-rc));
    else
        watch_want(k->watch, stream_wants(&k->stream, k->blocked));
}

static void on_soon(struct watch *w, void *arg)
{
    struct link *k = arg;

    (void) w;
    k->soon = NULL;
    if (k->over)
        lost(k, "home does not read");
    else
        flush(k);
}

static void answer_unknown(struct link *k, const char *text)
{
    struct wire_msg m = wire_error(text);

    link_send(k, &m);
}

/* Until there is no more, or the link is no longer what it was. */
static void take_messages(struct link *k)
{
    struct err err = { 0 };
    uint64_t number = k->number;
    int rc = 1;

    while (is_up(k) && k->number == number && rc != 0) {
        struct wire_msg m;

        rc = stream_next(&k->in, &m, &err);
        if (rc > 0) {
            k->ops->message(&m, k->arg);
            wire_clear(&m);
        } else if (rc == -ENOTSUP) {
            answer_unknown(k, err.text);
        } else if (rc < 0) {
            lost(k, err.text);
        }
    }
}

static void on_ready(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct link *k = arg;
    struct err err = { 0 };
    int rc;

    (void) w;
    (void) fd;
    if (ready & LOOP_WRITE)
        flush(k);
    if (!is_up(k))
        return;
    rc = stream_read(&k->stream, &k->in, &err);
    if (rc > 0) {
        k->heard_ms = loop_now(k->loop);
        take_messages(k);
    } else if (rc < 0) {
        lost(k, err.text);
    }
    if (is_up(k))
        watch_want(k->watch, stream_wants(&k->stream, k->blocked));
}

static void on_silent(struct watch *w, void *arg)
{
    struct link *k = arg;
    uint64_t for_ms = loop_now(k->loop) - k->heard_ms;

    (void) w;
    k->silent = NULL;
    if (for_ms >= SILENT_MS)
        lost(k, "home says nothing any more");
    else
        k->silent = loop_timer(k->loop, SILENT_MS - for_ms, on_silent, k);
}

static void failed(struct link *k, const char *why)
{
    retry_later(k);
    k->ops->down(why, k->arg);
}

static void on_dialled(struct stream *s, const struct err *err, void *arg)
{
    struct link *k = arg;
    struct err bad = { 0 };

    k->dial = NULL;
    if (!s) {
        failed(k, err->text);
        return;
    }
    k->stream = *s;
    if (loop_fd(k->loop, s->fd, stream_wants(s, false), on_ready, k,
                &k->watch, &bad) < 0) {
        stream_close(&k->stream);
        failed(k, bad.text);
        return;
    }
    k->number++;
    k->heard_ms = loop_now(k->loop);
    if (s->tls)
        k->silent = loop_timer(k->loop, SILENT_MS, on_silent, k);
    k->ops->up(k->arg);
}

static void on_retry(struct watch *w, void *arg)
{
    struct link *k = arg;

    (void) w;
    k->retry = NULL;
    k->dial = dial_start(k->loop, k->to, on_dialled, k);
}

struct link *link_open(struct loop *l, const struct dial_to *to,
                       const struct link_ops *ops, void *arg)
{
    struct link *k = mem_new(sizeof *k);

    *k = (struct link) {
        .loop = l, .ops = ops, .arg = arg, .to = to, .stream = STREAM_NONE,
        .retry_ms = RETRY_MIN_MS, .away_since = loop_now(l),
        .in = STREAM_IN_INIT, .out = BUF_INIT(OUT_MAX),
    };
    k->retry = loop_timer(l, 0, on_retry, k);
    return k;
}

void link_close(struct link *k)
{
    if (!k)
        return;
    flush(k);
    hang_up(k);
    dial_cancel(k->dial);
    watch_remove(k->retry);
    free(k);
}

void link_send(struct link *k, const struct wire_msg *m)
{
    if (!is_up(k))
        return;
    if (stream_put(&k->out, m, OUT_MAX, NULL) < 0)
        k->over = true;
    if (!k->soon)
        k->soon = loop_soon(k->loop, on_soon, k);
}

void link_welcome(struct link *k)
{
    k->welcome = true;
    k->retry_ms = RETRY_MIN_MS;
}

uint64_t link_away_ms(const struct link *k)
{
    return k->welcome ? 0 : loop_now(k->loop) - k->away_since;
}
