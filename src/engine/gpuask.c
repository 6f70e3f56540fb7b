#include "engine/gpuask.h"

#include "base/err.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "engine/stream.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

struct gpuask {
    int fd;
    struct watch *watch;
    struct buf in, out;
    bool watches;
    gpuask_f cb;
    void *arg;
};

static void over(struct gpuask *a, const json_t *answer, const char *why)
{
    watch_remove(take(a->watch));
    a->cb(answer, why, a->arg);
}

/* True: there may be another. */
static bool take_answer(struct gpuask *a)
{
    autojson json_t *answer = NULL;
    const char *body = NULL;
    struct err err = { 0 };
    size_t len = 0;
    int rc = frame_next(&a->in, &body, &len, &err);

    if (rc == 0)
        return false;
    if (rc > 0)
        rc = json_read(body, len, FRAME_MAX, &answer, &err);
    if (rc >= 0 && a->watches) {
        buf_drop(&a->in, len + 4);
        a->cb(answer, NULL, a->arg);
        return true;
    }
    over(a, answer, rc < 0 ? err.text : NULL);
    return false;
}

static void on_ready(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct gpuask *a = arg;
    struct stream s = { .fd = fd };
    struct err err = { 0 };
    int rc = 1;

    (void) w;
    if (ready & LOOP_WRITE)
        rc = stream_write(&s, &a->out, NULL);
    if (rc < 0) {
        over(a, NULL, strerror(-rc));
        return;
    }
    watch_want(a->watch, rc ? LOOP_READ : LOOP_READ | LOOP_WRITE);
    if (!(ready & LOOP_READ))
        return;
    rc = stream_read(&s, &a->in, &err);
    if (rc < 0)
        over(a, NULL, err.text);
    else if (rc > 0)
        while (take_answer(a))
            ;
}

static int dial(const char *path, int *ret, struct err *err)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC |
                              SOCK_NONBLOCK, 0);
    int n = snprintf(at.sun_path, sizeof at.sun_path, "%s", path);

    if (n < 0 || (size_t) n >= sizeof at.sun_path)
        return err_set(err, ENAMETOOLONG, "'%s': too long for a socket", path);
    if (fd < 0 || connect(fd, (struct sockaddr *) &at, sizeof at) < 0)
        return err_set(err, errno, "weir-gpud does not answer at '%s': %s",
                       path, strerror(errno));
    *ret = take_fd(fd);
    return 0;
}

static void put_question(struct gpuask *a, const json_t *question)
{
    autofree char *text = json_text(question);

    frame_add(&a->out, text, strlen(text));
}

int gpuask_open(struct loop *l, const char *socket_path, json_t *question,
                gpuask_f cb, void *arg, struct gpuask **ret, struct err *err)
{
    autojson json_t *owned = question;
    autoclose int fd = -1;
    struct gpuask *a;
    int rc = dial(socket_path, &fd, err);

    if (rc < 0)
        return rc;
    a = mem_new(sizeof *a);
    *a = (struct gpuask) {
        .fd = -1, .cb = cb, .arg = arg, .in = STREAM_IN_INIT,
        .out = BUF_INIT(FRAME_MAX),
    };
    put_question(a, owned);
    rc = loop_fd(l, fd, LOOP_WRITE, on_ready, a, &a->watch, err);
    if (rc < 0) {
        gpuask_close(a);
        return rc;
    }
    a->fd = take_fd(fd);
    *ret = a;
    return 0;
}

int gpuask_watch(struct loop *l, const char *socket_path, json_t *question,
                 gpuask_f cb, void *arg, struct gpuask **ret, struct err *err)
{
    int rc = gpuask_open(l, socket_path, question, cb, arg, ret, err);

    if (rc == 0)
        (*ret)->watches = true;
    return rc;
}

void gpuask_more(struct gpuask *a, json_t *question)
{
    autojson json_t *owned = question;

    put_question(a, owned);
    if (a->watch)
        watch_want(a->watch, LOOP_READ | LOOP_WRITE);
}

void gpuask_close(struct gpuask *a)
{
    if (!a)
        return;
    watch_remove(a->watch);
    if (a->fd >= 0)
        (void) close(a->fd);
    buf_free(&a->in);
    buf_free(&a->out);
    free(a);
}
