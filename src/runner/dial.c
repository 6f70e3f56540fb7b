#include "runner/dial.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/loop.h"
#include "base/mem.h"
#include "engine/stream.h"
#include "net/tls.h"
#include "runner/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* One address after the other: connect, then shake hands, each within its time.
 * What is told of a failure is what came furthest, so that the line stays the
 * same when a name server gives its addresses in another order each time.
 */
enum {
    NAME_MS = 15000,
    CONNECT_MS = 5000,
    SHAKE_MS = 10000,
    CA_MAX = 256 * 1024,
};

enum stage { STAGE_NAME, STAGE_CONNECT, STAGE_SHAKE };

struct dial {
    struct loop *loop;
    const struct dial_to *to;
    dial_f cb;
    void *arg;
    char host[TLS_HOST_SIZE];
    uint16_t port;
    struct tls_end *tls;
    struct resolve *resolve;
    struct sockaddr_storage list[RESOLVE_MAX];
    size_t count, next;
    struct stream stream;
    enum stage stage;
    struct watch *watch, *timer, *soon;
    struct err err;
    enum stage failed;                 /* of `err` */
};

static bool by_tls(const char *home)
{
    return strncmp(home, "tls:", 4) == 0;
}

int dial_check(const struct dial_to *to, struct err *err)
{
    char host[TLS_HOST_SIZE];
    uint16_t port;

    if (!by_tls(to->home))
        return !to->ca ? 0 : err_set(err, EINVAL, "home '%s': an authority "
                                     "is for tls://HOST:PORT", to->home);
    if (!to->ca)
        return err_set(err, EINVAL, "home '%s': its authority is needed, "
                       "--home-ca FILE", to->home);
    return tls_url(to->home, host, &port, err);
}

static void hang_up(struct dial *d)
{
    watch_remove(take(d->watch));
    watch_remove(take(d->timer));
    stream_close(&d->stream);
}

static void dial_free(struct dial *d)
{
    hang_up(d);
    watch_remove(d->soon);
    resolve_cancel(d->resolve);
    tls_end_free(d->tls);
    free(d);
}

void dial_cancel(struct dial *d)
{
    if (d)
        dial_free(d);
}

/* ---- the end ---- */

static void on_over(struct watch *w, void *arg)
{
    struct dial *d = arg;
    struct stream s = d->stream;

    (void) w;
    d->soon = NULL;
    d->stream = (struct stream) STREAM_NONE;
    d->cb(s.fd >= 0 ? &s : NULL, &d->err, d->arg);
    dial_free(d);
}

static void over(struct dial *d)
{
    watch_remove(take(d->watch));
    watch_remove(take(d->timer));
    if (!d->soon)
        d->soon = loop_soon(d->loop, on_over, d);
}

static void try_next(struct dial *d);

static void note(struct dial *d, const struct err *why)
{
    if (d->err.text[0] && d->failed > d->stage)
        return;
    d->failed = d->stage;
    (void) err_set(&d->err, why->code, "%s: %s", d->to->home, why->text);
}

/* This address is not it. */
static void address_failed(struct dial *d, const struct err *why)
{
    note(d, why);
    hang_up(d);
    try_next(d);
}

static void on_late(struct watch *w, void *arg)
{
    struct dial *d = arg;
    struct err err = { 0 };

    (void) w;
    d->timer = NULL;
    (void) err_set(&err, ETIMEDOUT, d->stage == STAGE_SHAKE
                   ? "it is there, and does not end the handshake"
                   : d->stage == STAGE_CONNECT ? "it does not answer"
                   : "nobody knows its name in time");
    resolve_cancel(take(d->resolve));
    address_failed(d, &err);
}

static void time_for(struct dial *d, enum stage stage, uint64_t ms)
{
    d->stage = stage;
    watch_remove(take(d->timer));
    d->timer = loop_timer(d->loop, ms, on_late, d);
}

/* ---- one address ---- */

static int connected(struct dial *d, struct err *err)
{
    int code = 0, one = 1;
    socklen_t len = sizeof code;

    if (getsockopt(d->stream.fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
        code = errno;
    if (code)
        return err_set(err, code, "%s", strerror(code));
    (void) setsockopt(d->stream.fd, IPPROTO_TCP, TCP_NODELAY, &one,
                      sizeof one);
    time_for(d, STAGE_SHAKE, SHAKE_MS);
    return tls_open(d->tls, d->stream.fd, d->host, &d->stream.tls, err);
}

static void on_ready(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct dial *d = arg;
    struct err err = { 0 };
    int rc = d->stream.tls ? 0 : connected(d, &err);

    (void) w;
    (void) fd;
    (void) ready;
    if (rc == 0)
        rc = stream_shake(&d->stream, &err);
    if (rc == 1)
        over(d);
    else if (rc == 0)
        watch_want(d->watch, stream_wants(&d->stream, false));
    else
        address_failed(d, &err);
}

static int connect_to(struct dial *d, struct sockaddr_storage *at,
                      struct err *err)
{
    struct sockaddr_in *four = (struct sockaddr_in *) at;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *) at;
    bool old = at->ss_family == AF_INET;
    int fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    0);

    if (fd < 0)
        return err_set(err, errno, "socket: %s", strerror(errno));
    d->stream.fd = fd;
    if (old)
        four->sin_port = htons(d->port);
    else
        six->sin6_port = htons(d->port);
    if (connect(fd, (struct sockaddr *) at,
                old ? sizeof *four : sizeof *six) < 0 && errno != EINPROGRESS)
        return err_set(err, errno, "%s", strerror(errno));
    time_for(d, STAGE_CONNECT, CONNECT_MS);
    return loop_fd(d->loop, fd, LOOP_WRITE, on_ready, d, &d->watch, err);
}

static void try_next(struct dial *d)
{
    struct err err = { 0 };

    while (d->next < d->count) {
        d->stage = STAGE_CONNECT;
        if (connect_to(d, &d->list[d->next++], &err) == 0)
            return;
        note(d, &err);
        hang_up(d);
    }
    over(d);
}

/* ---- the two ways ---- */

static void on_names(const struct sockaddr_storage *list, size_t count,
                     const struct err *err, void *arg)
{
    struct dial *d = arg;

    d->resolve = NULL;
    if (!list) {
        note(d, err);
        over(d);
        return;
    }
    memcpy(d->list, list, count * sizeof *list);
    d->count = count;
    try_next(d);
}

static int start_tls(struct dial *d, struct err *err)
{
    autofree char *ca = NULL;
    int rc = tls_url(d->to->home, d->host, &d->port, err);

    if (rc == 0 && !d->to->ca_text)
        rc = fs_read(d->to->ca, CA_MAX, &ca, NULL, err);
    if (rc == 0)
        rc = tls_dialler(ca ? ca : d->to->ca_text, d->to->ca, &d->tls, err);
    if (rc == 0)
        rc = resolve_start(d->loop, d->host, on_names, d, &d->resolve, err);
    if (rc == 0)
        time_for(d, STAGE_NAME, NAME_MS);
    return rc;
}

static int start_unix(struct dial *d, struct err *err)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC |
                              SOCK_NONBLOCK, 0);
    int n = snprintf(at.sun_path, sizeof at.sun_path, "%s", d->to->home);

    if (n < 0 || (size_t) n >= sizeof at.sun_path)
        return err_set(err, ENAMETOOLONG, "the path may have %zu bytes",
                       sizeof at.sun_path - 1);
    if (fd < 0 || connect(fd, (struct sockaddr *) &at, sizeof at) < 0)
        return err_set(err, errno, "%s", strerror(errno));
    d->stream.fd = take_fd(fd);
    over(d);
    return 0;
}

struct dial *dial_start(struct loop *l, const struct dial_to *to, dial_f cb,
                        void *arg)
{
    struct dial *d = mem_new(sizeof *d);
    struct err err = { 0 };

    *d = (struct dial) { .loop = l, .to = to, .cb = cb, .arg = arg,
                         .stream = STREAM_NONE };
    if ((by_tls(to->home) ? start_tls(d, &err) : start_unix(d, &err)) < 0) {
        note(d, &err);
        over(d);
    }
    return d;
}
