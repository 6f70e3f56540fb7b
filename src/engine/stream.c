#include "engine/stream.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

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

int stream_write(int fd, struct buf *out, size_t *ret_took)
{
    size_t before = out->len;
    int rc = 1;

    while (out->len > 0 && rc > 0) {
        ssize_t n = send(fd, out->data, out->len,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0)
            buf_drop(out, (size_t) n);
        else if (errno != EINTR)
            rc = errno == EAGAIN ? 0 : -errno;
    }
    if (ret_took)
        *ret_took = before - out->len;
    return rc;
}

int stream_read(int fd, struct buf *in, struct err *err)
{
    char data[STREAM_READ_SIZE];
    ssize_t n = recv(fd, data, sizeof data, MSG_DONTWAIT);

    if (n == 0)
        return err_set(err, EPIPE, "hung up");
    if (n < 0)
        return errno == EAGAIN || errno == EINTR
             ? 0 : err_set(err, errno, "read: %s", strerror(errno));
    if (!buf_add(in, data, (size_t) n))
        return err_set(err, EMSGSIZE, "too much to read at once");
    return 1;
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
