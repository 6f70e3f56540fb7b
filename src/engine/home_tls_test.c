#include "engine/home.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/frame.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/tap.h"
#include "engine/stream.h"
#include "net/authority.h"
#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Home on the network: real sockets and handshakes, and a clock of our own. */
enum { TURNS = 2000, MIB = 1024 * 1024 };

static struct {
    unsigned hellos, others, gone, drained, refused, more, leases;
    char why[256];
} owner;

static struct loop *loop;
static struct home *home;
static struct tls_end *dialler;
static uint16_t port;
static uint64_t now = 1000;

static uint64_t fake_now(void *arg)
{
    return *(uint64_t *) arg;
}

static bool admit(const char *block, const char *token, void *arg)
{
    (void) block;
    (void) arg;
    return strcmp(token, "right") == 0;
}

static void message(const char *block, const struct wire_msg *m, void *arg)
{
    struct wire_msg welcome = { .kind = WIRE_WELCOME, .v = 1, .epoch = 5 };

    (void) arg;
    if (m->kind == WIRE_HELLO) {
        owner.hellos++;
        owner.leases = m->nleases;
        (void) home_send(home, block, &welcome, NULL);
    } else {
        owner.others++;
    }
}

static void gone(const char *block, void *arg)
{
    (void) block;
    (void) arg;
    owner.gone++;
}

static void drained(const char *block, void *arg)
{
    (void) block;
    (void) arg;
    owner.drained++;
}

static void refused(const char *from, const char *why, unsigned more,
                    void *arg)
{
    (void) arg;
    if (strncmp(from, "127.0.0.1:", 10) != 0)
        ok(false, "where from: %s", from);
    owner.refused++;
    owner.more += more;
    (void) snprintf(owner.why, sizeof owner.why, "%s", why);
}

static const struct home_ops ops = {
    .admit = admit, .message = message, .gone = gone, .drained = drained,
    .refused = refused,
};

/* A network takes its time, also this one. */
static void turn(void)
{
    for (int i = 0; i < 4; i++)
        if (loop_turn(loop, i == 0, NULL) < 0)
            ok(false, "the loop turns");
}

static void wait_refused(unsigned count, const char *why)
{
    for (int i = 0; i < TURNS && owner.refused < count; i++)
        turn();
    ok(owner.refused == count && strstr(owner.why, why), "refused: %s",
       owner.why);
}

/* ---- a runner ---- */

struct peer {
    struct stream s;
    struct buf in, out;
};

static int dial(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *) &at, sizeof at) < 0)
        ok(false, "dial: %s", strerror(errno));
    (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static struct peer peer(void)
{
    struct peer p = { .s = { .fd = dial() }, .in = BUF_INIT(256 * MIB),
                      .out = BUF_INIT(256 * MIB) };
    int rc = tls_open(dialler, p.s.fd, "127.0.0.1", &p.s.tls, NULL);

    for (int i = 0; i < TURNS && rc == 0; i++) {
        rc = stream_shake(&p.s, NULL);
        turn();
    }
    if (rc != 1)
        ok(false, "a handshake");
    return p;
}

static void peer_close(struct peer *p)
{
    stream_close(&p->s);
    buf_free(&p->in);
    buf_free(&p->out);
    turn();
}

static void say(struct peer *p, const char *text)
{
    frame_add(&p->out, text, strlen(text));
    for (int i = 0; i < TURNS && p->out.len; i++) {
        if (stream_write(&p->s, &p->out, NULL) < 0)
            break;
        turn();
    }
    turn();
}

static void hello(struct peer *p, const char *block, const char *token)
{
    autofree char *text = mem_printf(
        "{\"t\":\"hello\",\"v\":1,\"block\":\"%s\",\"token\":\"%s\","
        "\"pid\":1,\"leases\":[]}", block, token);

    say(p, text);
}

/* The next message is of that kind; of an error, has that text. */
static void hears(struct peer *p, enum wire_kind kind, const char *text)
{
    struct wire_msg m = { 0 };
    int rc = 0;

    for (int i = 0; i < TURNS && rc == 0; i++) {
        rc = stream_next(&p->in, &m, NULL);
        if (rc == 0 && stream_read(&p->s, &p->in, NULL) < 0 &&
            p->in.len == 0)
            rc = -EPIPE;
        turn();
    }
    ok(rc == 1 && m.kind == kind && strstr(m.text, text), "hears %s",
       m.text[0] ? m.text : "it");
    if (rc == 1)
        wire_clear(&m);
}

static bool hung_up(struct peer *p)
{
    int rc = 0;

    for (int i = 0; i < TURNS && rc >= 0; i++) {
        rc = stream_read(&p->s, &p->in, NULL);
        turn();
    }
    return rc < 0;
}

static void forget(void)
{
    memset(&owner, 0, sizeof owner);
    now += 60 * 1000;                  /* lines about who is refused, again */
    turn();
}

/* ---- tests ---- */

static void test_talk(void)
{
    struct wire_msg ping = { .kind = WIRE_PING };
    struct peer p = peer();

    hello(&p, "far", "right");
    hears(&p, WIRE_WELCOME, "");
    ok(home_connected(home, "far") && owner.refused == 0, "let in");
    ok(home_send(home, "far", &ping, NULL) == 0, "send");
    hears(&p, WIRE_PING, "");
    say(&p, "{\"t\":\"pong\"}");
    ok(owner.others == 1, "answered");
    peer_close(&p);
    ok(!home_connected(home, "far") && owner.gone == 1, "gone");
}

static void test_refusals(void)
{
    struct peer p;

    forget();
    p = peer();
    hello(&p, "far", "wrong");
    hears(&p, WIRE_ERROR, "not its token");
    ok(hung_up(&p), "and that was it");
    wait_refused(1, "not its token");
    peer_close(&p);
    p = peer();
    say(&p, "{\"t\":\"pong\"}");
    hears(&p, WIRE_ERROR, "hello first");
    wait_refused(2, "hello first");
    peer_close(&p);
    p = peer();
    p.out.len = 0;
    (void) buf_add(&p.out, "\377\377\377\377", 4);
    (void) stream_write(&p.s, &p.out, NULL);
    wait_refused(3, "longer");
    peer_close(&p);
    p = peer();
    peer_close(&p);
    wait_refused(4, "hung up");
    ok(owner.hellos == 0 && owner.gone == 0, "the owner met none of them");
}

/* Who does not speak TLS, or stops in the midst of it. */
static void test_garbage(void)
{
    struct tls *t = NULL;
    struct peer good;
    int fd[5];

    forget();
    good = peer();
    hello(&good, "far", "right");
    hears(&good, WIRE_WELCOME, "");
    for (size_t i = 0; i < array_size(fd); i++)
        fd[i] = dial();
    (void) send(fd[0], "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL);
    wait_refused(1, "speaks HTTP");
    (void) send(fd[1], "hello hello hello", 17, MSG_NOSIGNAL);
    wait_refused(2, "does not speak TLS");
    (void) send(fd[2], "\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 9,
                MSG_NOSIGNAL);
    ok(tls_open(dialler, fd[3], "127.0.0.1", &t, NULL) == 0 &&
       tls_shake(t, NULL) == 0, "one begins a handshake");
    (void) close(fd[4]);
    turn();
    ok(owner.refused == 2, "of one who says nothing at all nothing is said");
    now += 9000;
    turn();
    ok(owner.refused == 2, "some time is given");
    now += 2000;
    wait_refused(4, "handshake in time");
    say(&good, "{\"t\":\"pong\"}");
    ok(owner.others == 1 && owner.gone == 0, "nobody else has felt any of it");
    tls_free(t);
    for (size_t i = 0; i < 4; i++)
        (void) close(fd[i]);
    peer_close(&good);
}

static void test_late(void)
{
    struct peer p;

    forget();
    p = peer();
    now += 11000;
    wait_refused(1, "no hello in time");
    ok(hung_up(&p), "cut off");
    peer_close(&p);
}

/* 300 connections that say nothing: the oldest make room. */
static void test_crowd(void)
{
    enum { CROWD = 300 };
    int fd[CROWD], open = 0;
    struct peer p, q;
    char c;

    forget();
    p = peer();
    hello(&p, "far", "right");
    hears(&p, WIRE_WELCOME, "");
    for (int i = 0; i < CROWD; i++) {
        fd[i] = dial();
        turn();
    }
    ok(owner.refused == 10, "not a line for each: %u", owner.refused);
    q = peer();
    hello(&q, "near", "right");
    hears(&q, WIRE_WELCOME, "");
    ok(home_connected(home, "far") && home_connected(home, "near"),
       "who means well gets in, and stays in");
    for (int i = 0; i < CROWD; i++) {
        open += recv(fd[i], &c, 1, MSG_DONTWAIT) < 0;
        (void) close(fd[i]);
    }
    ok(open == 255, "%d of them are there still", open);
    for (int i = 0; i < CROWD; i++)    /* all have left before time goes on */
        turn();
    forget();
    for (int i = 0; i < 3; i++) {
        int one = dial();

        (void) send(one, "nonsense nonsense", 17, MSG_NOSIGNAL);
        turn();
        (void) close(one);
    }
    ok(owner.refused == 3 && owner.more == CROWD + 1 - 256 - 10,
       "and %u more is told with the next line", owner.more);
    peer_close(&p);
    peer_close(&q);
}

/* The head of a frame, and then its bytes. */
static bool pour(struct peer *p, size_t bytes)
{
    struct buf out = BUF_INIT(2 * MIB);
    autofree char *piece = mem_new(MIB);
    size_t left = bytes;
    int rc = 1;

    memset(piece, ' ', MIB);
    (void) buf_add(&out, "\0\0\77\0", 4);            /* 4 MiB less 64 KiB */
    while (left > 0 && rc >= 0) {
        size_t n = left < MIB ? left : MIB;

        if (out.len < MIB) {
            (void) buf_add(&out, piece, n);
            left -= n;
        }
        rc = stream_write(&p->s, &out, NULL);
        turn();
    }
    for (int i = 0; i < TURNS && out.len && rc >= 0; i++) {
        rc = stream_write(&p->s, &out, NULL);
        turn();
    }
    buf_free(&out);
    return rc >= 0;
}

static void test_flood(void)
{
    enum { MANY = 24 };
    struct peer p[MANY];
    unsigned left = 0;

    forget();
    p[0] = peer();
    (void) buf_add(&p[0].out, "\0\1\100\0", 4);       /* 4 MiB and 256 */
    (void) stream_write(&p[0].s, &p[0].out, NULL);
    wait_refused(1, "longer than allowed");
    peer_close(&p[0]);
    for (int i = 0; i < MANY; i++) {
        p[i] = peer();
        (void) pour(&p[i], 3 * MIB);
        turn();
    }
    ok(owner.refused >= 3, "%u went", owner.refused - 1);
    ok(strstr(owner.why, "before hello"), "%s", owner.why);
    for (int i = 0; i < MANY; i++) {
        left += stream_read(&p[i].s, &p[i].in, NULL) == 0;
        peer_close(&p[i]);
    }
    ok(left > 15 && left < 23, "%u stay", left);
}

static size_t allocated;

static void *count_malloc(size_t size)
{
    allocated += size;
    return malloc(size);
}

/* Of many small things; no memory is taken for them before the token is known
 * to be right, nor where it is not.
 */
static void test_long(void)
{
    static const char *const what[] = { "{}", "[]", "0", "\"\"" };
    static const char *const heads[] = {
        ("{\"t\":\"hello\",\"v\":1,\"block\":\"far\",\"token\":\"wrong\","
         "\"pid\":1,\"leases\":["),
        "{\"x\":[", "[",
    };

    for (size_t i = 0; i < array_size(heads) * array_size(what); i++) {
        autofree char *text = mem_new(2 * MIB + 1024);
        const char *item = what[i % array_size(what)];
        size_t n = strlen(heads[i / array_size(what)]);
        struct peer p;

        memcpy(text, heads[i / array_size(what)], n);
        for (; n < 2 * MIB; n += strlen(item) + 1)
            (void) snprintf(text + n, 8, "%s,", item);
        (void) snprintf(text + n, 8, "0]}");
        forget();
        p = peer();
        allocated = 0;
        say(&p, text);
        wait_refused(1, i < array_size(what) ? "not its token" : "long hello");
        ok(allocated < MIB / 8, "for %zu bytes of %s: %zu", n, item, allocated);
        peer_close(&p);
    }
}

/* What a runner with much to tell says, as it says it. */
static void test_many(void)
{
    enum { MANY = 20000 };
    struct wire_msg m = { .kind = WIRE_HELLO, .v = 1, .block = "far",
                          .token = "right", .pid = 1, .nleases = MANY };
    autofree char *text = NULL;
    json_t *j;
    struct peer p;

    m.leases = mem_array(MANY, sizeof *m.leases);
    for (uint32_t i = 0; i < MANY; i++)
        m.leases[i] = (struct wire_lease) {
            .key = { 1000000 + i, 7, 11 }, .gen = 3, .epoch = 1700000000000,
            .state = "running", .gate = "suspended",
        };
    j = wire_write(&m);
    text = json_text(j);
    json_decref(j);
    forget();
    p = peer();
    say(&p, text);
    hears(&p, WIRE_WELCOME, "");
    ok(owner.leases == MANY, "%u leases in %zu bytes", owner.leases,
       strlen(text));
    wire_clear(&m);
    peer_close(&p);
}

/* Silence: pings, and then the end. */
static void test_silence(void)
{
    struct peer p;

    forget();
    p = peer();
    hello(&p, "far", "right");
    hears(&p, WIRE_WELCOME, "");
    for (int i = 0; i < 8; i++) {
        now += 15000;
        turn();
        hears(&p, WIRE_PING, "");
        say(&p, "{\"t\":\"pong\"}");
    }
    ok(home_connected(home, "far"), "who answers stays");
    for (int i = 0; i < 3; i++) {
        now += 15000;
        turn();
    }
    ok(home_connected(home, "far"), "45 s are forgiven");
    now += 15000;
    turn();
    ok(!home_connected(home, "far") && owner.gone == 1, "60 s are not");
    peer_close(&p);
}

/* Two with the same token: the first stays if it is there at all. */
static void test_doubt(void)
{
    struct peer p, q;

    forget();
    p = peer();
    hello(&p, "far", "right");
    hears(&p, WIRE_WELCOME, "");
    q = peer();
    hello(&q, "far", "right");
    hears(&q, WIRE_ERROR, "runner already");
    peer_close(&q);
    hears(&p, WIRE_PING, "");
    say(&p, "{\"t\":\"pong\"}");
    now += 6000;
    turn();
    ok(home_connected(home, "far") && owner.gone == 0, "it answered");
    q = peer();
    hello(&q, "far", "right");
    peer_close(&q);
    now += 2000;
    q = peer();
    hello(&q, "far", "right");
    peer_close(&q);
    now += 4000;
    turn();
    ok(!home_connected(home, "far") && owner.gone == 1, "it did not");
    q = peer();
    hello(&q, "far", "right");
    hears(&q, WIRE_WELCOME, "");
    peer_close(&p);
    ok(home_connected(home, "far"), "and the other one is let in");
    peer_close(&q);
}

/* One that has been silent for long has no longer to answer than any other. */
static void test_doubt_late(void)
{
    struct peer p, q;

    forget();
    p = peer();
    hello(&p, "far", "right");
    hears(&p, WIRE_WELCOME, "");
    for (int i = 0; i < 3; i++) {
        now += 15000;
        turn();
    }
    q = peer();
    hello(&q, "far", "right");
    hears(&q, WIRE_ERROR, "runner already");
    peer_close(&q);
    now += 6000;
    turn();
    ok(!home_connected(home, "far") && owner.gone == 1, "it did not answer");
    peer_close(&p);
}

/* As much as the queue takes, while the runner does not read. */
static void test_full(void)
{
    struct wire_msg m = { .kind = WIRE_ORDER, .task = json_object() };
    autofree char *big = mem_new(MIB + 1);
    unsigned sent = 0, came = 0;
    struct wire_msg got;
    struct peer p;
    int rc = 0;

    forget();
    memset(big, 'x', MIB);
    json_put_str(m.task, "run", big);
    p = peer();
    hello(&p, "far", "right");
    hears(&p, WIRE_WELCOME, "");
    while (sent < 500 && home_send(home, "far", &m, NULL) == 0)
        sent++;
    ok(sent >= 60 && sent < 100, "full after %u MiB", sent);
    for (int i = 0; i < 3; i++) {
        now += 10000;
        turn();
        ok(stream_read(&p.s, &p.in, NULL) == 1, "reads a little");
    }
    ok(home_connected(home, "far"), "a slow reader stays");
    while (came < sent && rc >= 0) {
        rc = stream_read(&p.s, &p.in, NULL);
        turn();
        while (stream_next(&p.in, &got, NULL) > 0) {
            came += got.kind == WIRE_ORDER;
            wire_clear(&got);
        }
    }
    ok(came == sent, "%u came", came);
    ok(owner.drained == 1 && owner.gone == 0, "and drained is said");
    wire_clear(&m);
    peer_close(&p);
}

static void set_up(const char *dir, struct authority **ret_a,
                   struct tls_end **ret_tls)
{
    autofree char *path = mem_printf("%s/home", dir);
    autofree char *ca = NULL, *cert = NULL, *key = NULL;
    const char *name = "127.0.0.1";
    struct err err = { 0 };

    ok(authority_open(dir, clock_wall_ms(), ret_a, NULL) == 0 &&
       authority_issue(*ret_a, clock_wall_ms(), &name, 1, &cert, &key,
                       NULL) == 0 &&
       tls_listener(cert, key, ret_tls, NULL) == 0 &&
       fs_read(authority_path(*ret_a), 65536, &ca, NULL, NULL) == 0 &&
       tls_dialler(ca, "ca", &dialler, NULL) == 0, "certificates");
    ok(home_open(loop, path, &ops, NULL, &home, NULL) == 0, "home");
    ok(home_listen(home, "nowhere", *ret_tls, &port, &err) == -EINVAL, "%s",
       err.text);
    ok(home_listen(home, "127.0.0.1:0", *ret_tls, &port, NULL) == 0 && port,
       "on the network");
}

int main(void)
{
    char dir[] = "/tmp/weir-home-XXXXXX";
    struct authority *a = NULL;
    struct tls_end *tls = NULL;

    ok(mkdtemp(dir) != NULL && loop_open(&loop, NULL) == 0, "set up");
    json_set_alloc_funcs(count_malloc, free);
    loop_set_clock(loop, fake_now, &now);
    set_up(dir, &a, &tls);
    test_talk();
    test_refusals();
    test_garbage();
    test_late();
    test_crowd();
    test_flood();
    test_long();
    test_many();
    test_silence();
    test_doubt();
    test_doubt_late();
    test_full();
    home_close(home);
    tls_end_free(tls);
    tls_end_free(dialler);
    authority_close(a);
    loop_close(loop);
    ok(fs_remove_tree(dir, NULL) == 0, "clean up");
    return tap_done();
}
