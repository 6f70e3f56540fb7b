#include "runner/link.h"

#include "base/err.h"
#include "base/frame.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
    RETRY_MIN_MS = 50,
    RETRY_MAX_MS = 2000,
    OUT_MAX = 64 * 1024 * 1024,
    READ_SIZE = 64 * 1024,
};

struct link {
    struct loop *loop;
    const struct link_ops *ops;
    void *arg;
    char *path;
    int fd;                            /* -1: home is away */
    bool welcome;
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
    while (k->fd >= 0 && k->out.len > 0) {
        ssize_t n = send(k->fd, k->out.data, k->out.len,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0) {
            buf_drop(&k->out, (size_t) n);
        } else if (errno == EAGAIN) {
            watch_want(k->watch, LOOP_READ | LOOP_WRITE);
            return;
        } else if (errno != EINTR) {
            lost(k, strerror(errno));
            return;
        }
    }
    if (k->watch)
        watch_want(k->watch, LOOP_READ);
}

static void on_soon(struct watch *w, void *arg)
{
    struct link *k = arg;

    (void) w;
    k->soon = NULL;
    if (k->out.over)
        lost(k, "home does not read");
    else
        flush(k);
}

/* False when the link is no longer what it was. */
static bool handle(struct link *k, const char *body, size_t len)
{
    struct err err = { 0 };
    struct wire_msg m;
    int fd = k->fd;
    int rc = wire_read(body, len, &m, &err);

    if (rc == -ENOTSUP) {
        m = (struct wire_msg) { .kind = WIRE_ERROR };
        (void) snprintf(m.text, sizeof m.text, "%.255s", err.text);
        link_send(k, &m);
        return true;
    }
    if (rc < 0) {
        lost(k, err.text);
        return false;
    }
    k->ops->message(&m, k->arg);
    wire_clear(&m);
    return k->fd == fd;
}

static void take_frames(struct link *k)
{
    struct err err = { 0 };
    const char *body = NULL;
    size_t len = 0;
    int rc;

    while ((rc = frame_next(&k->in, &body, &len, &err)) > 0) {
        if (!handle(k, body, len))
            return;
        buf_drop(&k->in, len + 4);
    }
    if (rc < 0)
        lost(k, err.text);
}

static void on_ready(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct link *k = arg;
    char data[READ_SIZE];
    ssize_t n;

    (void) w;
    if (ready & LOOP_WRITE)
        flush(k);
    if (k->fd < 0 || !(ready & LOOP_READ))
        return;
    n = recv(fd, data, sizeof data, MSG_DONTWAIT);
    if (n > 0) {
        (void) buf_add(&k->in, data, (size_t) n);
        take_frames(k);
    } else if (n == 0) {
        lost(k, "home hung up");
    } else if (errno != EAGAIN && errno != EINTR) {
        lost(k, strerror(errno));
    }
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
        .in = BUF_INIT(FRAME_MAX + 4 + READ_SIZE), .out = BUF_INIT(OUT_MAX),
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
    autojson json_t *j = NULL;
    autofree char *body = NULL;

    if (k->fd < 0)
        return;
    j = wire_write(m);
    body = json_text(j);
    frame_add(&k->out, body, strlen(body));
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
