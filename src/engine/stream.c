#include "engine/stream.h"

#include "base/err.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "net/tls.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

int stream_put(struct buf *out, const struct wire_msg *m, size_t max,
               struct err *err)
{
    autojson json_t *j = wire_write(m);
    autofree char *body = json_text(j);
    size_t len = strlen(body);

    if (len > FRAME_MAX)
        return err_set(err, EMSGSIZE,
                       "a message of %zu bytes, at most %d are allowed", len,
                       FRAME_MAX);
    if (out->len + len + 4 > max)
        return err_set(err, ENOBUFS, "%zu bytes are to be read first",
                       out->len);
    frame_add(out, body, len);
    return 0;
}

void stream_close(struct stream *s)
{
    tls_free(take(s->tls));
    if (s->fd >= 0)
        (void) close(take_fd(s->fd));
}

int stream_shake(struct stream *s, struct err *err)
{
    return s->tls ? tls_shake(s->tls, err) : 1;
}

unsigned stream_wants(const struct stream *s, bool more)
{
    if (s->tls && tls_must_write(s->tls))
        return LOOP_WRITE;
    return more ? LOOP_READ | LOOP_WRITE : LOOP_READ;
}

static int write_plain(int fd, struct buf *out)
{
    while (out->len > 0) {
        ssize_t n = send(fd, out->data, out->len,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0)
            buf_drop(out, (size_t) n);
        else if (errno != EINTR)
            return errno == EAGAIN ? 0 : -errno;
    }
    return 1;
}

static int write_tls(struct tls *t, struct buf *out)
{
    int rc = 1;

    while (out->len > 0 && rc > 0) {
        size_t n = 0;

        rc = tls_write(t, out->data, out->len, &n);
        buf_drop(out, n);
    }
    return rc;
}

int stream_write(struct stream *s, struct buf *out, size_t *ret_took)
{
    uint64_t before = s->tls ? tls_left(s->tls) : out->len;
    int rc = s->tls ? write_tls(s->tls, out) : write_plain(s->fd, out);

    if (ret_took)
        *ret_took = (size_t) (s->tls ? tls_left(s->tls) - before
                                     : before - out->len);
    return rc;
}

static int read_plain(int fd, void *data, size_t size, size_t *ret_len,
                      struct err *err)
{
    ssize_t n = recv(fd, data, size, MSG_DONTWAIT);

    if (n == 0)
        return err_set(err, EPIPE, "hung up");
    if (n < 0)
        return errno == EAGAIN || errno == EINTR
             ? 0 : err_set(err, errno, "read: %s", strerror(errno));
    *ret_len = (size_t) n;
    return 1;
}

int stream_read(struct stream *s, struct buf *in, struct err *err)
{
    char data[STREAM_READ_SIZE];
    size_t n = 0;
    int rc = s->tls ? tls_read(s->tls, data, sizeof data, &n, err)
                    : read_plain(s->fd, data, sizeof data, &n, err);

    if (rc == 1 && !buf_add(in, data, n))
        return err_set(err, EMSGSIZE, "too much to read at once");
    return rc;
}

int stream_next(struct buf *in, struct wire_msg *ret, struct err *err)
{
    const char *body = NULL;
    size_t len = 0;
    int rc = frame_next(in, &body, &len, err);

    if (rc <= 0)
        return rc;
    rc = wire_read(body, len, ret, err);
    buf_drop(in, len + 4);
    return rc < 0 ? rc : 1;
}

int stream_head(const struct buf *in, struct wire_msg *ret, struct err *err)
{
    const char *body = NULL;
    size_t len = 0;
    int rc;

    if (frame_next(in, &body, &len, NULL) <= 0 || len <= STREAM_SHORT)
        return 0;
    rc = wire_read_head(body, len, ret, err);
    return rc < 0 ? rc : 1;
}
