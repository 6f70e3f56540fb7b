#include "engine/home.h"

#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "engine/stream.h"
#include "net/listen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* A connection is on the list `conns` until it is cut, then on `dead` until
 * the end of the turn: a callback may cut the very connection whose message it
 * is given, and `gone` is never called from inside a call of the owner's.
 */
enum {
    EAGER = 1024 * 1024,               /* queued: write without delay */
    ORDERS_MAX = 64 * 1024 * 1024,     /* queued: take no more orders */
    OUT_MAX = 2 * ORDERS_MAX,          /* queued: cut off */
    HELLO_MS = 10 * 1000,              /* to say hello */
    STALL_MS = 30 * 1000,              /* to read any of what is queued */
    PAUSE_MS = 100,                    /* without descriptors to accept */
    CONNS_MAX = 4096,
};

struct conn {
    struct home *home;
    struct conn *next, *prev;
    int fd;
    struct watch *watch, *timer;       /* timer: hello's, then a stall's */
    struct buf in, out;
    bool greeted, dead, blocked;       /* blocked: the socket took no more */
    bool full;                         /* an order was not taken: say drained */
    char block[48];
};

struct home {
    struct loop *loop;
    const struct home_ops *ops;
    void *arg;
    int fd;
    char *path;
    struct watch *watch;
    struct watch *pause;               /* while accept is out of descriptors */
    struct watch *soon;                /* flush and bury at the turn's end */
    struct conn *conns, *dead;
    unsigned nconns;
    struct map *blocks;                /* block id -> greeted conn */
};

static void settle(struct watch *w, void *arg);

static void settle_soon(struct home *h)
{
    if (!h->soon)
        h->soon = loop_soon(h->loop, settle, h);
}

static void conn_stop(struct conn *c)
{
    watch_remove(take(c->watch));
    watch_remove(take(c->timer));
    if (c->fd >= 0)
        (void) close(take_fd(c->fd));
}

static void conn_free(struct conn *c)
{
    conn_stop(c);
    buf_free(&c->in);
    buf_free(&c->out);
    free(c);
}

static void conn_cut(struct conn *c)
{
    struct home *h = c->home;

    if (c->dead)
        return;
    c->dead = true;
    conn_stop(c);
    if (c->greeted)
        (void) map_del(h->blocks, c->block);
    list_unlink(h->conns, c);
    h->nconns--;
    list_push(h->dead, c);
    settle_soon(h);
}

static void on_late(struct watch *w, void *arg)
{
    struct conn *c = arg;

    (void) w;
    c->timer = NULL;
    conn_cut(c);
}

/* One line to a peer that is not let in, as far as it gets there. */
static void refuse(struct conn *c, const char *text)
{
    struct wire_msg m = wire_error(text);
    struct buf out = BUF_INIT(4096);

    if (stream_put(&out, &m, out.max, NULL) == 0)
        (void) stream_write(c->fd, &out, NULL);
    buf_free(&out);
    conn_cut(c);
}

static void on_stall(struct watch *w, void *arg);

/* The time to read something begins again whenever something was read. */
static void wait_writable(struct conn *c, bool took)
{
    if (c->blocked && !took)
        return;
    c->blocked = true;
    watch_want(c->watch, LOOP_READ | LOOP_WRITE);
    watch_remove(take(c->timer));
    c->timer = loop_timer(c->home->loop, STALL_MS, on_stall, c);
}

static void all_written(struct conn *c)
{
    if (c->blocked) {
        c->blocked = false;
        watch_remove(take(c->timer));
        watch_want(c->watch, LOOP_READ);
    }
    if (c->full)
        settle_soon(c->home);
}

/* Write what the socket takes; true when it took something. */
static bool flush(struct conn *c)
{
    size_t took = 0;
    int rc;

    if (c->dead || c->out.len == 0)
        return false;
    rc = stream_write(c->fd, &c->out, &took);
    if (rc < 0)
        conn_cut(c);
    else if (rc == 0)
        wait_writable(c, took > 0);
    else
        all_written(c);
    return took > 0;
}

/* A socket counts as writable only when much of it is free: a runner that
 * reads slowly is seen by trying.
 */
static void on_stall(struct watch *w, void *arg)
{
    struct conn *c = arg;

    (void) w;
    c->timer = NULL;
    if (!flush(c))
        conn_cut(c);
}

/* The callback may send, and so cut any connection: begin again after each. */
static void say_drained(struct home *h)
{
    struct conn *c = h->conns;

    while (c) {
        if (!c->full || c->out.len > 0) {
            c = c->next;
            continue;
        }
        c->full = false;
        if (h->ops->drained)
            h->ops->drained(c->block, h->arg);
        c = h->conns;
    }
}

/* The turn's end: write what was queued, then say who is gone. */
static void settle(struct watch *w, void *arg)
{
    struct home *h = arg;

    (void) w;
    h->soon = NULL;
    for (struct conn *c = h->conns, *next; c; c = next) {
        next = c->next;
        if (!c->blocked)
            (void) flush(c);
    }
    say_drained(h);
    while (h->dead) {
        struct conn *c = h->dead;

        h->dead = c->next;
        if (c->greeted)
            h->ops->gone(c->block, h->arg);
        conn_free(c);
    }
}

static void greet(struct conn *c, const struct wire_msg *m)
{
    struct home *h = c->home;

    if (m->kind != WIRE_HELLO) {
        refuse(c, "say hello first");
    } else if (m->v + 1 < WIRE_VERSION || m->v > WIRE_VERSION + 1) {
        char text[96];

        (void) snprintf(text, sizeof text,
                        "runner speaks version %u, home version %d", m->v,
                        WIRE_VERSION);
        refuse(c, text);
    } else if (!h->ops->admit(m->block, m->token, h->arg)) {
        refuse(c, "no such block, or not its token");
    } else if (map_get(h->blocks, m->block)) {
        refuse(c, "this block has a runner already");
    } else {
        c->greeted = true;
        (void) snprintf(c->block, sizeof c->block, "%s", m->block);
        (void) map_set(h->blocks, c->block, c);
        watch_remove(take(c->timer));
        h->ops->message(c->block, m, h->arg);
    }
}

/* A kind that a newer runner knows and we do not is answered, not fatal. */
static void answer_unknown(struct conn *c, const char *text)
{
    struct wire_msg m = wire_error(text);

    (void) home_send(c->home, c->block, &m, NULL);
}

static void handle(struct conn *c, const struct wire_msg *m)
{
    if (!c->greeted)
        greet(c, m);
    else if (m->kind == WIRE_HELLO)
        refuse(c, "hello was said already");
    else
        c->home->ops->message(c->block, m, c->home->arg);
}

static void take_messages(struct conn *c)
{
    struct err err = { 0 };
    int rc = 1;

    while (!c->dead && rc != 0) {
        struct wire_msg m;

        rc = stream_next(&c->in, &m, &err);
        if (rc > 0) {
            handle(c, &m);
            wire_clear(&m);
        } else if (rc == -ENOTSUP && c->greeted) {
            answer_unknown(c, err.text);
        } else if (rc < 0) {
            refuse(c, err.text);
        }
    }
}

static void on_conn(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct conn *c = arg;
    int rc;

    (void) w;
    if (ready & LOOP_WRITE)
        (void) flush(c);
    if (c->dead || !(ready & LOOP_READ))
        return;
    rc = stream_read(fd, &c->in, NULL);
    if (rc > 0)
        take_messages(c);
    else if (rc < 0)
        conn_cut(c);
}

/* The folder's mode keeps strangers out; so does this, where it is shared. */
static bool peer_allowed(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

static void conn_new(struct home *h, int fd)
{
    struct conn *c = mem_new(sizeof *c);

    *c = (struct conn) {
        .home = h, .fd = fd, .in = STREAM_IN_INIT, .out = BUF_INIT(OUT_MAX),
    };
    if (loop_fd(h->loop, fd, LOOP_READ, on_conn, c, &c->watch, NULL) < 0) {
        conn_free(c);
        return;
    }
    c->timer = loop_timer(h->loop, HELLO_MS, on_late, c);
    list_push(h->conns, c);
    h->nconns++;
}

static void on_pause_over(struct watch *w, void *arg)
{
    struct home *h = arg;

    (void) w;
    h->pause = NULL;
    watch_want(h->watch, LOOP_READ);
}

static void on_accept(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct home *h = arg;
    int peer;

    (void) w;
    (void) ready;
    while ((peer = accept4(fd, NULL, NULL,
                           SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        if (h->nconns >= CONNS_MAX || !peer_allowed(peer))
            (void) close(peer);
        else
            conn_new(h, peer);
    }
    /* Who waits stays waiting, and so the socket ready: look away. */
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        watch_want(h->watch, 0);
        h->pause = loop_timer(h->loop, PAUSE_MS, on_pause_over, h);
    }
}

int home_open(struct loop *l, const char *socket_path,
              const struct home_ops *ops, void *arg, struct home **ret,
              struct err *err)
{
    struct home *h;
    int fd = -1, rc = listen_unix(socket_path, 0600, &fd, err);

    if (rc < 0)
        return rc;
    h = mem_new(sizeof *h);
    *h = (struct home) {
        .loop = l, .ops = ops, .arg = arg, .fd = fd,
        .path = mem_str(socket_path), .blocks = map_new(),
    };
    rc = loop_fd(l, fd, LOOP_READ, on_accept, h, &h->watch, err);
    if (rc < 0)
        home_close(h);
    else
        *ret = h;
    return rc;
}

void home_close(struct home *h)
{
    if (!h)
        return;
    for (struct conn *c = h->conns, *next; c; c = next) {
        next = c->next;
        (void) flush(c);
        if (!c->dead)
            conn_free(c);
    }
    while (h->dead) {
        struct conn *c = h->dead;

        h->dead = c->next;
        conn_free(c);
    }
    watch_remove(h->soon);
    watch_remove(h->pause);
    watch_remove(h->watch);
    (void) close(h->fd);
    (void) unlink(h->path);
    map_free(h->blocks);
    free(h->path);
    free(h);
}

static int not_here(const char *block, struct err *err)
{
    return err_set(err, ENOTCONN, "the runner of block %s is not here",
                   block);
}

/* An order that finds no room stays with its owner; for all else there is
 * more, and who leaves no room even then reads nothing.
 */
static int turn_away(struct conn *c, enum wire_kind kind, struct err *err)
{
    if (kind == WIRE_ORDER) {
        c->full = true;
        return err_prefix(err, -ENOBUFS, "the runner of block %s", c->block);
    }
    conn_cut(c);
    return not_here(c->block, err);
}

int home_send(struct home *h, const char *block, const struct wire_msg *m,
              struct err *err)
{
    size_t max = m->kind == WIRE_ORDER ? ORDERS_MAX : OUT_MAX;
    struct conn *c = map_get(h->blocks, block);
    int rc;

    if (!c)
        return not_here(block, err);
    if (c->out.len >= EAGER && !c->blocked)
        (void) flush(c);
    if (c->dead)
        return not_here(block, err);
    rc = stream_put(&c->out, m, max, err);
    if (rc == -ENOBUFS && flush(c))
        rc = stream_put(&c->out, m, max, err);
    if (c->dead)
        return not_here(block, err);
    if (rc == -ENOBUFS)
        return turn_away(c, m->kind, err);
    if (rc == 0)
        settle_soon(h);
    return rc;
}

bool home_connected(const struct home *h, const char *block)
{
    return map_get(h->blocks, block) != NULL;
}
