#include "engine/home.h"

#include "base/err.h"
#include "base/frame.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* The owner: writes down what it hears. */
static struct {
    unsigned hellos, others, gone, drained;
    unsigned gone_before;          /* the last hello */
    char last[48];
    struct home *home;             /* answer each hello when set */
} owner;

static bool admit(const char *block, const char *token, void *arg)
{
    (void) arg;
    return strcmp(block, "nobody") != 0 && strcmp(token, "right") == 0;
}

static void message(const char *block, const struct wire_msg *m, void *arg)
{
    struct wire_msg welcome = { .kind = WIRE_WELCOME, .v = 1, .epoch = 5 };

    (void) arg;
    (void) snprintf(owner.last, sizeof owner.last, "%s", block);
    if (m->kind != WIRE_HELLO) {
        owner.others++;
        return;
    }
    owner.hellos++;
    owner.gone_before = owner.gone;
    ok(home_send(owner.home, block, &welcome, NULL) == 0,
       "an answer from inside of the callback");
}

static void gone(const char *block, void *arg)
{
    (void) arg;
    (void) snprintf(owner.last, sizeof owner.last, "%s", block);
    owner.gone++;
}

static void drained(const char *block, void *arg)
{
    (void) arg;
    (void) snprintf(owner.last, sizeof owner.last, "%s", block);
    owner.drained++;
}

static const struct home_ops ops = {
    .admit = admit, .message = message, .gone = gone, .drained = drained,
};

static struct loop *loop;
static char path[64];

static void turn(void)
{
    for (int i = 0; i < 5; i++)
        if (loop_turn(loop, 0, NULL) < 0)
            ok(false, "the loop turns");
}

static int dial(void)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void) snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    ok(connect(fd, (struct sockaddr *) &at, sizeof at) == 0, "dial");
    return fd;
}

static void say(int fd, const char *text)
{
    struct buf out = BUF_INIT(4096);

    frame_add(&out, text, strlen(text));
    ok(send(fd, out.data, out.len, MSG_NOSIGNAL) == (ssize_t) out.len,
       "say %.60s", text);
    buf_free(&out);
    turn();
}

static void hello(int fd, const char *block, const char *token, int v)
{
    autofree char *text = mem_printf(
        "{\"t\":\"hello\",\"v\":%d,\"block\":\"%s\",\"token\":\"%s\","
        "\"pid\":1,\"leases\":[]}", v, block, token);

    say(fd, text);
}

/* The next frame; "" when there is none, "-" when home hung up. */
static char *hear(int fd)
{
    unsigned char head[4];
    ssize_t n = recv(fd, head, 4, MSG_DONTWAIT);
    char *body;
    size_t len;

    if (n <= 0)
        return mem_str(n == 0 ? "-" : "");
    len = head[0] | (size_t) head[1] << 8;
    body = mem_new(len + 1);
    ok(n == 4 && recv(fd, body, len, MSG_DONTWAIT) == (ssize_t) len,
       "a whole frame");
    return body;
}

static void hears(int fd, const char *want)
{
    autofree char *got = hear(fd);

    ok(*want ? strstr(got, want) != NULL : !*got, "hears '%s' (%s)", want,
       got);
}

static void test_refusals(void)
{
    int fd = dial();

    hello(fd, "local", "wrong", 1);
    hears(fd, "not its token");
    hears(fd, "-");
    (void) close(fd);
    fd = dial();
    hello(fd, "local", "right", 9);
    hears(fd, "version 9");
    hears(fd, "-");
    (void) close(fd);
    fd = dial();
    say(fd, "{\"t\":\"pong\"}");
    hears(fd, "hello first");
    (void) close(fd);
    fd = dial();
    (void) send(fd, "\377\377\377\377", 4, MSG_NOSIGNAL);
    turn();
    hears(fd, "longer");
    hears(fd, "-");
    (void) close(fd);
    turn();
    ok(owner.hellos == 0 && owner.gone == 0, "the owner heard of none");
}

static void test_talk(struct home *h)
{
    struct wire_msg m = { .kind = WIRE_PING };
    struct err err = { 0 };
    int a = dial(), b = dial();

    ok(home_send(h, "local", &m, &err) == -ENOTCONN, "nobody: %s", err.text);
    ok(!home_connected(h, "local"), "not connected");
    hello(a, "local", "right", 1);
    ok(owner.hellos == 1 && home_connected(h, "local"), "let in");
    hears(a, "welcome");
    hello(b, "local", "right", 1);
    hears(b, "runner already");
    hears(b, "-");
    ok(owner.hellos == 1 && owner.gone == 0, "the first one stays");
    ok(home_send(h, "local", &m, NULL) == 0 &&
       home_send(h, "local", &m, NULL) == 0, "send two");
    hears(a, "");
    turn();
    hears(a, "ping");
    hears(a, "ping");
    say(a, "{\"t\":\"pong\"}");
    ok(owner.others == 1, "a message came");
    say(a, "{\"t\":\"sing\"}");
    hears(a, "sing");
    ok(home_connected(h, "local"), "an unknown kind is not fatal");
    say(a, "{\"t\":\"claim\"}");
    hears(a, "key");
    hears(a, "-");
    ok(owner.gone == 1 && !home_connected(h, "local"), "a wrong one is");
    (void) close(a);
    (void) close(b);
}

static void test_reconnect(struct home *h)
{
    int fd = dial();

    owner.gone = 0;
    hello(fd, "other", "right", 1);
    ok(home_connected(h, "other"), "another block");
    (void) close(fd);
    turn();
    ok(owner.gone == 1 && strcmp(owner.last, "other") == 0, "gone");
    fd = dial();
    hello(fd, "other", "right", 2);
    ok(home_connected(h, "other"), "and back, a version ahead");
    (void) close(fd);
    turn();
}

/* The old connection ends and the new one says hello in one turn: the owner
 * hears it in that order, and no end after the hello.
 */
static void test_swap(struct home *h)
{
    static const char text[] =
        "{\"t\":\"hello\",\"v\":1,\"block\":\"swap\",\"token\":\"right\","
        "\"pid\":1,\"leases\":[]}";
    struct buf out = BUF_INIT(4096);
    int old = dial(), new = dial();

    owner.gone = 0;
    hello(old, "swap", "right", 1);
    hears(old, "welcome");
    frame_add(&out, text, strlen(text));
    (void) close(old);
    ok(send(new, out.data, out.len, MSG_NOSIGNAL) == (ssize_t) out.len,
       "one hangs up, the next says hello");
    turn();
    hears(new, "welcome");
    ok(home_connected(h, "swap") && owner.gone == 1 && owner.gone_before == 1,
       "the end of the first is said before the hello of the next");
    (void) close(new);
    turn();
    ok(owner.gone == 2, "and that of the next when it is over");
    buf_free(&out);
}

enum { BIG = 1024 * 1024 };

static struct wire_msg big_order(void)
{
    struct wire_msg m = { .kind = WIRE_ORDER, .task = json_object() };
    autofree char *big = mem_new(BIG + 1);

    memset(big, 'x', BIG);
    json_put_str(m.task, "run", big);
    return m;
}

/* Order without a turn until no more is taken; how many were. */
static unsigned order_until_full(struct home *h, const char *block)
{
    struct wire_msg m = big_order();
    struct err err = { 0 };
    unsigned sent = 0;
    int rc = 0;

    while (sent < 500 && (rc = home_send(h, block, &m, &err)) == 0)
        sent++;
    ok(rc == -ENOBUFS && sent >= 60 && sent < 100,
       "full after %u MiB: %s", sent, err.text);
    ok(home_send(h, block, &m, NULL) == -ENOBUFS, "and stays so");
    wire_clear(&m);
    return sent;
}

/* Read whatever comes, in frames; how many whole ones, *ret_last the last. */
static unsigned read_all(int fd, char **ret_last)
{
    struct buf in = BUF_INIT(64 * 1024 * 1024);
    char *data = mem_new(BIG);
    const char *body = NULL;
    unsigned frames = 0;
    size_t len = 0;
    ssize_t n;

    while ((n = recv(fd, data, BIG, MSG_DONTWAIT)) > 0) {
        (void) buf_add(&in, data, (size_t) n);
        while (frame_next(&in, &body, &len, NULL) > 0) {
            free(*ret_last);
            *ret_last = mem_new(64);
            (void) snprintf(*ret_last, 64, "%.60s", body);
            buf_drop(&in, len + 4);
            frames++;
        }
        turn();
    }
    ok(in.len == 0, "nothing but whole frames");
    buf_free(&in);
    free(data);
    return frames;
}

/* Much more than the queue holds in one turn: the runner stays, what was
 * taken arrives whole and in order, and the owner hears when to go on.
 */
static void test_full(struct home *h)
{
    struct wire_msg ping = { .kind = WIRE_PING };
    struct wire_msg order = big_order();
    autofree char *last = mem_str("");
    int fd = dial();
    unsigned sent;

    owner.gone = owner.drained = 0;
    hello(fd, "slow", "right", 1);
    hears(fd, "welcome");
    sent = order_until_full(h, "slow");
    ok(home_send(h, "slow", &ping, NULL) == 0, "what is no order is taken");
    turn();
    ok(owner.gone == 0 && owner.drained == 0 && home_connected(h, "slow"),
       "it stays");
    ok(read_all(fd, &last) == sent + 1, "all that was taken is there");
    ok(strstr(last, "ping") != NULL, "and in order: %s", last);
    turn();
    ok(owner.drained == 1 && strcmp(owner.last, "slow") == 0,
       "drained is said once");
    ok(home_send(h, "slow", &order, NULL) == 0, "and orders are taken again");
    ok(read_all(fd, &last) == 0, "at the turn's end");
    turn();
    ok(read_all(fd, &last) == 1 && owner.drained == 1 && owner.gone == 0,
       "not drained again, as none was turned away");
    wire_clear(&order);
    (void) close(fd);
    turn();
}

/* An order that no frame can hold does not cost the connection. */
static void test_too_long(struct home *h)
{
    struct wire_msg m = { .kind = WIRE_ORDER, .task = json_object() };
    autofree char *big = mem_new(FRAME_MAX + 1);
    struct err err = { 0 };
    int fd = dial();

    memset(big, 'x', FRAME_MAX);
    json_put_str(m.task, "run", big);
    hello(fd, "long", "right", 1);
    hears(fd, "welcome");
    ok(home_send(h, "long", &m, &err) == -EMSGSIZE, "%s", err.text);
    turn();
    hears(fd, "");
    ok(home_connected(h, "long"), "it stays");
    wire_clear(&m);
    (void) close(fd);
    turn();
}

/* A runner that reads nothing is cut off, by bytes. */
static void test_slow(struct home *h)
{
    struct wire_msg m = { .kind = WIRE_STOP, .command = mem_new(BIG + 1) };
    unsigned sent = 0;
    int fd = dial(), rc = 0;

    memset(m.command, 'x', BIG);
    owner.gone = owner.drained = 0;
    hello(fd, "slow", "right", 1);
    while (sent < 500 && (rc = home_send(h, "slow", &m, NULL)) == 0)
        sent++;
    ok(rc == -ENOTCONN && sent > 100, "cut off after %u MiB", sent);
    ok(owner.gone == 0, "not said from inside of the call");
    turn();
    ok(owner.gone == 1 && !home_connected(h, "slow"), "and said so");
    wire_clear(&m);
    (void) close(fd);
}

static uint64_t fake_now(void *arg)
{
    return *(uint64_t *) arg;
}

/* And by time: who connects and says nothing. */
static void test_silent(void)
{
    uint64_t now = 1000;
    int fd;

    loop_set_clock(loop, fake_now, &now);
    fd = dial();
    turn();
    now += 9000;
    turn();
    hears(fd, "");
    now += 2000;
    turn();
    hears(fd, "-");
    (void) close(fd);
}

/* By time: 30 s without a byte read; any byte begins them again. */
static void test_stall(struct home *h)
{
    struct wire_msg m = big_order();
    autofree char *data = mem_new(BIG);
    uint64_t now = 1000;
    ssize_t n;
    int fd;

    loop_set_clock(loop, fake_now, &now);
    fd = dial();
    owner.gone = 0;
    hello(fd, "stall", "right", 1);
    for (int i = 0; i < 8; i++)
        ok(home_send(h, "stall", &m, NULL) == 0, "order %d", i);
    turn();
    for (int i = 0; i < 3; i++) {
        now += 29000;
        n = recv(fd, data, 64 * 1024, MSG_DONTWAIT);
        ok(n > 0, "reads a little");
        turn();
    }
    ok(home_connected(h, "stall"), "a slow reader stays");
    now += 31000;
    turn();
    now += 31000;
    turn();
    ok(!home_connected(h, "stall") && owner.gone == 1, "one that stops not");
    wire_clear(&m);
    (void) close(fd);
}

/* Without a descriptor left home does not spin: it looks again 100 ms later.
 * Valgrind keeps descriptors of its own and ends a connection that it has none
 * for, so there it cannot be tried.
 */
static void test_no_descriptors(struct home *h)
{
    struct rlimit old, low;
    uint64_t now = 1000;
    int fd;

    if (getenv("WEIR_VALGRIND"))
        return;
    fd = dial();

    loop_set_clock(loop, fake_now, &now);
    ok(getrlimit(RLIMIT_NOFILE, &old) == 0, "the limit");
    low = old;
    low.rlim_cur = (rlim_t) fd + 1;
    ok(setrlimit(RLIMIT_NOFILE, &low) == 0, "no descriptor is left");
    turn();
    ok(setrlimit(RLIMIT_NOFILE, &old) == 0, "some are");
    hello(fd, "late", "right", 1);
    ok(!home_connected(h, "late"), "home looks away for a moment");
    now += 99;
    turn();
    ok(!home_connected(h, "late"), "of 100 ms");
    now += 1;
    turn();
    ok(home_connected(h, "late"), "and takes it then");
    (void) close(fd);
    turn();
}

/* What is queued is written at the end; of those that are gone by then, each in
 * its turn.
 */
static void test_close(struct home *h)
{
    static const char *const names[] = { "one", "two", "three" };
    struct wire_msg ping = { .kind = WIRE_PING };
    int fds[array_size(names)];

    for (size_t i = 0; i < array_size(names); i++) {
        fds[i] = dial();
        hello(fds[i], names[i], "right", 1);
        hears(fds[i], "welcome");
    }
    for (size_t i = 0; i < array_size(names); i++)
        ok(home_send(h, names[i], &ping, NULL) == 0, "a ping for %s",
           names[i]);
    (void) close(fds[0]);
    home_close(h);
    hears(fds[1], "ping");
    hears(fds[2], "ping");
    (void) close(fds[1]);
    (void) close(fds[2]);
}

int main(void)
{
    char dir[] = "/tmp/weir-home-XXXXXX";
    autofree char *too_long = mem_new(200);
    struct home *h = NULL;
    struct err err = { 0 };
    struct stat st;

    ok(mkdtemp(dir) != NULL && loop_open(&loop, NULL) == 0, "set up");
    (void) snprintf(path, sizeof path, "%s/home", dir);
    memset(too_long, 'x', 199);
    ok(home_open(loop, too_long, &ops, NULL, &h, &err) == -ENAMETOOLONG &&
       !h, "%.40s...", err.text);
    ok(home_open(loop, path, &ops, NULL, &owner.home, &err) == 0, "open");
    test_close(owner.home);
    memset(&owner, 0, sizeof owner);
    ok(home_open(loop, path, &ops, NULL, &h, &err) == 0, "open again");
    ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600, "mode 0600");
    owner.home = h;
    test_refusals();
    test_talk(h);
    test_reconnect(h);
    test_swap(h);
    test_full(h);
    test_too_long(h);
    test_slow(h);
    test_silent();
    test_stall(h);
    test_no_descriptors(h);
    home_close(h);
    ok(stat(path, &st) < 0, "the socket goes with it");
    loop_close(loop);
    (void) rmdir(dir);
    return tap_done();
}
