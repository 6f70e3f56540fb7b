#include "engine/home.h"

#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "engine/stream.h"
#include "net/listen.h"
#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* A connection is on the list `conns` until it is cut, then on `dead` until
 * the end of the turn: a callback may cut the very connection whose message it
 * is given, and `gone` is never called from inside a call of the owner's.  It is
 * called before the block's next hello, also when that is of the same turn.
 */
enum {
    EAGER = 1024 * 1024,               /* queued: write without delay */
    ORDERS_MAX = 64 * 1024 * 1024,     /* queued: take no more orders */
    OUT_MAX = 2 * ORDERS_MAX,          /* queued: cut off */
    HELLO_MS = 10 * 1000,              /* to say hello */
    STALL_MS = 30 * 1000,              /* to read any of what is queued */
    PAUSE_MS = 100,                    /* without descriptors to accept */
    CONNS_MAX = 4096,
    /* From the network. */
    STRANGERS_MAX = 256,               /* have not said hello */
    HELLO_MAX = 4 * 1024 * 1024,       /* bytes of one that has not */
    STRANGE_MAX = 64 * 1024 * 1024,    /* ... of all of them */
    BEAT_MS = 15 * 1000,               /* between pings */
    DOUBT_MS = 5 * 1000,               /* to answer one, when another came */
    SILENT_MAX = 3,                    /* beats without a byte: cut off */
    REFUSED_MS = 10 * 1000,            /* in which so many are told of: */
    REFUSED_MAX = 10,
};

struct conn {
    struct home *home;
    struct conn *next, *prev;
    struct stream stream;
    struct watch *watch, *timer;       /* timer: hello's, then a stall's */
    struct watch *beat;                /* of the network, greeted */
    unsigned silent;                   /* beats since it was heard */
    bool doubted;                      /* another came since then */
    struct buf in, out;
    bool shaken, network;
    bool greeted, dead, blocked;       /* blocked: the socket took no more */
    bool left;                         /* `gone` was said */
    bool full;                         /* an order was not taken: say drained */
    char block[RUNNER_NAME_SIZE];      /* the runner's name */
    char from[64];
};

struct door {
    int fd;
    struct watch *watch;
    struct watch *pause;               /* while accept is out of descriptors */
    struct tls_end *tls;               /* NULL: the Unix socket's */
    struct home *home;
};

struct home {
    struct loop *loop;
    const struct home_ops *ops;
    void *arg;
    struct door here, network;
    char *path;
    struct watch *soon;                /* flush and bury at the turn's end */
    unsigned strangers;                /* of the network, not greeted */
    uint64_t told_ms;                  /* of who was refused: since then */
    unsigned told, untold;
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
    watch_remove(take(c->beat));
    stream_close(&c->stream);
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
    else if (c->network)
        h->strangers--;
    list_unlink(h->conns, c);
    h->nconns--;
    list_push(h->dead, c);
    settle_soon(h);
}

static void tell_refused(struct conn *c, const char *why)
{
    struct home *h = c->home;
    uint64_t now = loop_now(h->loop);

    if (!h->ops->refused || c->greeted || c->dead)
        return;
    if (now - h->told_ms >= REFUSED_MS || h->told == 0) {
        h->told_ms = now;
        h->told = 0;
    }
    if (h->told >= REFUSED_MAX) {
        h->untold++;
        return;
    }
    h->told++;
    h->ops->refused(c->from, why, h->untold, h->arg);
    h->untold = 0;
}

/* Cut off before it was let in, without a word to it. */
static void turn_out(struct conn *c, const char *why)
{
    tell_refused(c, why);
    conn_cut(c);
}

static void on_late(struct watch *w, void *arg)
{
    struct conn *c = arg;

    (void) w;
    c->timer = NULL;
    turn_out(c, c->shaken ? "it said no hello in time"
                          : "it did not end its handshake in time");
}

/* One line to a peer that is not let in, as far as it gets there. */
static void refuse(struct conn *c, const char *text)
{
    struct wire_msg m = wire_error(text);
    struct buf out = BUF_INIT(4096);

    if (stream_put(&out, &m, out.max, NULL) == 0)
        (void) stream_write(&c->stream, &out, NULL);
    buf_free(&out);
    turn_out(c, text);
}

static void on_stall(struct watch *w, void *arg);

/* The time to read something begins again whenever something was read. */
static void wait_writable(struct conn *c, bool took)
{
    if (c->blocked && !took)
        return;
    c->blocked = true;
    watch_want(c->watch, stream_wants(&c->stream, true));
    watch_remove(take(c->timer));
    c->timer = loop_timer(c->home->loop, STALL_MS, on_stall, c);
}

static void all_written(struct conn *c)
{
    if (c->blocked) {
        c->blocked = false;
        watch_remove(take(c->timer));
        watch_want(c->watch, stream_wants(&c->stream, false));
    }
    if (c->full)
        settle_soon(c->home);
}

static void heard(struct conn *c)
{
    c->silent = 0;
    c->doubted = false;
}

/* Write what the socket takes; true when it took something. */
static bool flush(struct conn *c)
{
    size_t took = 0;
    int rc;

    if (c->dead || c->out.len == 0)
        return false;
    rc = stream_write(&c->stream, &c->out, &took);
    if (c->blocked && took > 0)
        heard(c);
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

static void say_gone(struct conn *c)
{
    if (!c->greeted || c->left)
        return;
    c->left = true;
    c->home->ops->gone(c->block, c->home->arg);
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
        say_gone(c);
        conn_free(c);
    }
}

static void beat_after(struct conn *c, uint64_t ms);

/* A ping that is not answered is the only thing to tell a runner with nothing to
 * say from one that the network has lost; for the runner it is the same of us.
 */
static void on_beat(struct watch *w, void *arg)
{
    struct conn *c = arg;
    struct wire_msg ping = { .kind = WIRE_PING };

    (void) w;
    c->beat = NULL;
    if (c->silent >= SILENT_MAX) {
        conn_cut(c);
        return;
    }
    c->silent++;
    beat_after(c, BEAT_MS);
    (void) home_send(c->home, c->block, &ping, NULL);
}

static void beat_after(struct conn *c, uint64_t ms)
{
    watch_remove(take(c->beat));
    c->beat = loop_timer(c->home->loop, ms, on_beat, c);
}

/* Somebody else has this block's token: is this one still there? */
static void doubt(struct conn *c)
{
    struct wire_msg ping = { .kind = WIRE_PING };

    if (!c->network || c->doubted)
        return;
    c->doubted = true;
    c->silent = SILENT_MAX;
    beat_after(c, DOUBT_MS);
    (void) home_send(c->home, c->block, &ping, NULL);
}

/* The one before, if it was cut off in this turn; there is no other. */
static void say_gone_before(struct home *h, const char *block)
{
    for (struct conn *c = h->dead; c; c = c->next)
        if (c->greeted && !c->left && strcmp(c->block, block) == 0) {
            say_gone(c);
            return;
        }
}

static void let_in(struct conn *c, const struct wire_msg *m)
{
    struct home *h = c->home;

    say_gone_before(h, m->block);
    c->greeted = true;
    (void) snprintf(c->block, sizeof c->block, "%s", m->block);
    (void) map_set(h->blocks, c->block, c);
    watch_remove(take(c->timer));
    c->in.max = (size_t) FRAME_MAX + 4 + STREAM_READ_SIZE;
    if (c->network) {
        h->strangers--;
        beat_after(c, BEAT_MS);
    }
    h->ops->message(c->block, m, h->arg);
}

static const char NOT_ITS_TOKEN[] = "no such block, or not its token";

/* Read as a whole, a long message takes many times its length: for those with a
 * token alone.
 */
static bool may_be_long(struct conn *c)
{
    struct home *h = c->home;
    struct err err = { 0 };
    struct wire_msg m;
    int rc = stream_head(&c->in, &m, &err);
    bool good = rc == 0;

    if (rc < 0) {
        refuse(c, err.text);
    } else if (rc > 0) {
        good = m.kind == WIRE_HELLO && h->ops->admit(m.block, m.token, h->arg);
        wire_clear(&m);
        if (!good)
            refuse(c, NOT_ITS_TOKEN);
    }
    return good;
}

static void greet(struct conn *c, const struct wire_msg *m)
{
    struct home *h = c->home;
    struct conn *other;

    if (m->kind != WIRE_HELLO) {
        refuse(c, "say hello first");
    } else if (m->v + 1 < WIRE_VERSION || m->v > WIRE_VERSION + 1) {
        char text[96];

        (void) snprintf(text, sizeof text,
                        "runner speaks version %u, home version %d", m->v,
                        WIRE_VERSION);
        refuse(c, text);
    } else if (!h->ops->admit(m->block, m->token, h->arg)) {
        refuse(c, NOT_ITS_TOKEN);
    } else if ((other = map_get(h->blocks, m->block))) {
        doubt(other);
        refuse(c, "this block has a runner already");
    } else {
        let_in(c, m);
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

        if (!c->greeted && !may_be_long(c))
            return;
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

/* Strangers that send much at once take no more than their share of memory. */
static void bound_strangers(struct home *h)
{
    struct conn *most = NULL;
    size_t sum = 0;

    for (struct conn *c = h->conns; c; c = c->next) {
        if (c->greeted || !c->network)
            continue;
        sum += c->in.len;
        if (!most || c->in.len > most->in.len)
            most = c;
    }
    if (most && sum > STRANGE_MAX)
        turn_out(most, "too much was sent before hello");
}

/* False: not yet, or never. */
static bool shake(struct conn *c)
{
    struct err err = { 0 };
    int rc = c->shaken ? 1 : stream_shake(&c->stream, &err);

    if (rc == 1) {
        c->shaken = true;
        return true;
    }
    if (rc == 0)
        watch_want(c->watch, stream_wants(&c->stream, false));
    else if (rc == -EPIPE && tls_came(c->stream.tls) == 0)
        conn_cut(c);
    else
        turn_out(c, err.text);
    return false;
}

static void read_conn(struct conn *c)
{
    struct err err = { 0 };
    int rc = stream_read(&c->stream, &c->in, &err);

    if (rc > 0) {
        heard(c);
        take_messages(c);
    } else if (rc == -EPIPE && !c->network) {
        conn_cut(c);                   /* it only looked whether we are here */
    } else if (rc < 0) {
        turn_out(c, err.text);
    }
    if (!c->dead && !c->greeted && c->in.len > STREAM_READ_SIZE)
        bound_strangers(c->home);
}

static void on_conn(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct conn *c = arg;

    (void) w;
    (void) fd;
    if (!shake(c))
        return;
    if (ready & LOOP_WRITE)
        (void) flush(c);
    if (!c->dead)
        read_conn(c);
    if (!c->dead)
        watch_want(c->watch, stream_wants(&c->stream, c->blocked));
}

/* The folder's mode keeps strangers out; so does this, where it is shared. */
static bool peer_allowed(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

static void say_where(struct conn *c)
{
    struct sockaddr_in6 six = { 0 };
    struct sockaddr_in four;
    socklen_t len = sizeof six;
    char host[INET6_ADDRSTRLEN] = "?";
    bool old;

    (void) snprintf(c->from, sizeof c->from, "this machine");
    if (!c->network)
        return;
    (void) getpeername(c->stream.fd, (struct sockaddr *) &six, &len);
    memcpy(&four, &six, sizeof four);
    old = four.sin_family == AF_INET;
    (void) inet_ntop(old ? AF_INET : AF_INET6,
                     old ? (void *) &four.sin_addr : (void *) &six.sin6_addr,
                     host, sizeof host);
    (void) snprintf(c->from, sizeof c->from, old ? "%s:%u" : "[%s]:%u", host,
                    ntohs(old ? four.sin_port : six.sin6_port));
}

static int conn_open(struct conn *c, struct tls_end *tls)
{
    int one = 1, rc = 0;

    if (tls) {
        (void) setsockopt(c->stream.fd, IPPROTO_TCP, TCP_NODELAY, &one,
                          sizeof one);
        c->in.max = HELLO_MAX;
        rc = tls_open(tls, c->stream.fd, NULL, &c->stream.tls, NULL);
    }
    return rc < 0 ? rc : loop_fd(c->home->loop, c->stream.fd, LOOP_READ,
                                 on_conn, c, &c->watch, NULL);
}

static void conn_new(struct door *d, int fd)
{
    struct home *h = d->home;
    struct conn *c = mem_new(sizeof *c);

    *c = (struct conn) {
        .home = h, .stream = { .fd = fd }, .in = STREAM_IN_INIT,
        .out = BUF_INIT(OUT_MAX), .shaken = !d->tls, .network = d->tls,
    };
    if (conn_open(c, d->tls) < 0) {
        conn_free(c);
        return;
    }
    say_where(c);
    c->timer = loop_timer(h->loop, HELLO_MS, on_late, c);
    list_push(h->conns, c);
    h->nconns++;
    if (c->network)
        h->strangers++;
}

/* The newest are first.  Who means well has said hello long before. */
static void oldest_stranger_goes(struct home *h)
{
    struct conn *oldest = NULL;

    for (struct conn *c = h->conns; c; c = c->next)
        if (c->network && !c->greeted)
            oldest = c;
    if (oldest)
        turn_out(oldest, "too many have not said hello, it for longest");
}

static void on_pause_over(struct watch *w, void *arg)
{
    struct door *d = arg;

    (void) w;
    d->pause = NULL;
    watch_want(d->watch, LOOP_READ);
}

static void on_accept(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct door *d = arg;
    struct home *h = d->home;
    int peer;

    (void) w;
    (void) ready;
    while ((peer = accept4(fd, NULL, NULL,
                           SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        if (d->tls && h->strangers >= STRANGERS_MAX)
            oldest_stranger_goes(h);
        if (h->nconns >= CONNS_MAX || (!d->tls && !peer_allowed(peer)))
            (void) close(peer);
        else
            conn_new(d, peer);
    }
    /* Who waits stays waiting, and so the socket ready: look away. */
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        watch_want(d->watch, 0);
        d->pause = loop_timer(h->loop, PAUSE_MS, on_pause_over, d);
    }
}

static void door_close(struct door *d)
{
    watch_remove(take(d->pause));
    watch_remove(take(d->watch));
    if (d->fd >= 0)
        (void) close(take_fd(d->fd));
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
        .loop = l, .ops = ops, .arg = arg,
        .here = { .fd = fd, .home = h }, .network = { .fd = -1, .home = h },
        .path = mem_str(socket_path), .blocks = map_new(),
    };
    rc = loop_fd(l, fd, LOOP_READ, on_accept, &h->here, &h->here.watch, err);
    if (rc < 0)
        home_close(h);
    else
        *ret = h;
    return rc;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_in6 at = { 0 };
    socklen_t len = sizeof at;

    /* The port stands in the same place in both kinds of address. */
    (void) getsockname(fd, (struct sockaddr *) &at, &len);
    return ntohs(at.sin6_port);
}

int home_listen(struct home *h, const char *address, struct tls_end *tls,
                uint16_t *ret_port, struct err *err)
{
    struct door *d = &h->network;
    int rc = listen_tcp(address, &d->fd, err);

    if (rc < 0)
        return rc;
    d->tls = tls;
    rc = loop_fd(h->loop, d->fd, LOOP_READ, on_accept, d, &d->watch, err);
    if (rc < 0)
        door_close(d);
    else
        *ret_port = port_of(d->fd);
    return rc;
}

static void conns_free(struct conn *list)
{
    while (list) {
        struct conn *c = list;

        list = c->next;
        conn_free(c);
    }
}

void home_close(struct home *h)
{
    if (!h)
        return;
    for (struct conn *c = h->conns, *next; c; c = next) {
        next = c->next;
        (void) flush(c);               /* or it is dead, and not on it */
    }
    conns_free(h->conns);
    conns_free(h->dead);
    watch_remove(h->soon);
    door_close(&h->here);
    door_close(&h->network);
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
