#include "runner/link.h"

#include "base/err.h"
#include "base/loop.h"
#include "base/mem.h"
#include "engine/stream.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
    RETRY_MIN_MS = 50,
    RETRY_MAX_MS = 2000,
    OUT_MAX = 64 * 1024 * 1024,
};

struct link {
    struct loop *loop;
    const struct link_ops *ops;
    void *arg;
    char *path;
    int fd;                            /* -1: home is away */
    bool welcome;
    bool over;                         /* something could not be queued */
    struct watch *watch, *retry, *soon;
    uint64_t retry_ms, away_since;
    struct buf in, out;
};

static void on_retry(struct watch *w, void *arg);

static void retry_later(struct link *k)
{
    k->retry = loop_timer(k->loop, k->retry_ms, on_retry, k);
    k->retry_ms = k->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS
                                                 : k->retry_ms * 2;
}

static void hang_up(struct link *k)
{
    watch_remove(take(k->watch));
    watch_remove(take(k->soon));
    if (k->fd >= 0)
        (void) close(take_fd(k->fd));
    buf_free(&k->in);
    buf_free(&k->out);
    k->over = false;
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

    if (k->fd < 0)
        return;
    rc = stream_write(k->fd, &k->out, NULL);
    if (rc < 0)
        lost(k, strerror(-rc));
    else
        watch_want(k->watch, rc ? LOOP_READ : LOOP_READ | LOOP_WRITE);
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
    int fd = k->fd, rc = 1;

    while (k->fd == fd && rc != 0) {
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
    if (ready & LOOP_WRITE)
        flush(k);
    if (k->fd < 0 || !(ready & LOOP_READ))
        return;
    rc = stream_read(fd, &k->in, &err);
    if (rc > 0)
        take_messages(k);
    else if (rc < 0)
        lost(k, err.text);
}

static int dial(struct link *k)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC |
                              SOCK_NONBLOCK, 0);
    int n = snprintf(at.sun_path, sizeof at.sun_path, "%s", k->path);

    if (n < 0 || (size_t) n >= sizeof at.sun_path)
        return -ENAMETOOLONG;
    if (fd < 0 || connect(fd, (struct sockaddr *) &at, sizeof at) < 0 ||
        loop_fd(k->loop, fd, LOOP_READ, on_ready, k, &k->watch, NULL) < 0)
        return -errno;
    k->fd = take_fd(fd);
    return 0;
}

static void on_retry(struct watch *w, void *arg)
{
    struct link *k = arg;

    (void) w;
    k->retry = NULL;
    if (dial(k) < 0)
        retry_later(k);
    else
        k->ops->up(k->arg);
}

struct link *link_open(struct loop *l, const char *socket_path,
                       const struct link_ops *ops, void *arg)
{
    struct link *k = mem_new(sizeof *k);

    *k = (struct link) {
        .loop = l, .ops = ops, .arg = arg, .path = mem_str(socket_path),
        .fd = -1, .retry_ms = RETRY_MIN_MS, .away_since = loop_now(l),
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
    watch_remove(k->retry);
    free(k->path);
    free(k);
}

void link_send(struct link *k, const struct wire_msg *m)
{
    if (k->fd < 0)
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
