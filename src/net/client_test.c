#include "net/client.h"

#include "base/err.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

/* A server in a child process that reads a request and answers by the last
 * word of its path.
 */
static char folder[] = "/tmp/weir-client-XXXXXX";
static char path[128];
static pid_t server;

static void put(int fd, const char *s)
{
    if (write(fd, s, strlen(s)) < 0)
        _exit(1);
}

static void answer(int fd, const char *request)
{
    if (strncmp(request, "GET /hello", 10) == 0) {
        put(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/plain; x=y\r\n"
            "X-Thing:  a value\r\nContent-Length: 5\r\n\r\nhello");
    } else if (strncmp(request, "GET /missing", 12) == 0) {
        put(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope");
    } else if (strncmp(request, "GET /stream", 11) == 0) {
        put(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        (void) usleep(50000);
        put(fd, "3\r\none\r\n");
        (void) usleep(50000);
        put(fd, "3\r\ntwo\r\n0\r\n\r\n");
    } else if (strncmp(request, "GET /half", 9) == 0) {
        put(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    } else if (strncmp(request, "GET /silent", 11) == 0) {
        char rest;

        while (read(fd, &rest, 1) > 0) /* until the client goes away */
            continue;
    } else if (strncmp(request, "POST /echo", 10) == 0) {
        const char *body = strstr(request, "\r\n\r\n");
        autofree char *reply = mem_printf(
            "HTTP/1.1 201 Created\r\nContent-Length: %zu\r\n\r\n%s",
            strlen(request), request);

        put(fd, body ? reply : "");
    }
}

static bool whole(const char *request)
{
    const char *end = strstr(request, "\r\n\r\n");
    const char *len = strcasestr(request, "Content-Length: ");

    if (!end)
        return false;
    return !len || strlen(end + 4) >= strtoul(len + 16, NULL, 10);
}

static void serve_one(int fd)
{
    char request[8192] = "";
    size_t n = 0;

    for (;;) {
        ssize_t got = read(fd, request + n, sizeof request - 1 - n);

        if (got <= 0)
            break;
        n += (size_t) got;
        request[n] = '\0';
        if (!whole(request))
            continue;
        answer(fd, request);
        if (strncmp(request, "GET /hello", 10) != 0)
            break;                     /* the others close */
        n = 0;
    }
    _exit(0);
}

static void serve(int fd)
{
    (void) signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int conn = accept(fd, NULL, NULL);

        if (conn < 0)
            _exit(1);
        if (fork() == 0)
            serve_one(conn);
        (void) close(conn);
    }
}

static int listen_at(const char *where, bool listening)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void) snprintf(addr.sun_path, sizeof addr.sun_path, "%s", where);
    if (fd < 0 || bind(fd, (struct sockaddr *) &addr, sizeof addr) < 0 ||
        (listening && listen(fd, 64) < 0))
        return -1;
    return fd;
}

static struct loop *loop;

static struct client *connect_to(const char *where)
{
    struct client_conf conf = { .socket = where };
    struct client *c = NULL;
    struct err err;

    if (client_open(loop, &conf, &c, &err) < 0)
        printf("# %s\n", err.text);
    return c;
}

static int get(struct client *c, const char *what, struct client_reply *r)
{
    struct client_request q = { .method = "GET", .path = what,
                                .timeout_ms = 10000 };
    struct err err;

    return client_call(c, &q, r, &err);
}

static void test_calls(struct client *c)
{
    const char *headers[] = { "Idempotency-Key: k1", NULL };
    struct client_request post = {
        .method = "POST", .path = "/echo", .type = "text/x", .body = "body",
        .len = 4, .headers = headers, .timeout_ms = 10000,
    };
    struct client_reply r = { 0 };
    struct err err;

    ok(get(c, "/hello", &r) == 0 && r.status == 200 &&
       strcmp(r.type, "text/plain") == 0 &&
       strcmp(buf_text(&r.body), "hello") == 0, "an answer");
    client_reply_free(&r);
    ok(get(c, "/hello", &r) == 0 && r.status == 200, "and another");
    client_reply_free(&r);
    ok(get(c, "/missing", &r) == 0 && r.status == 404 &&
       strcmp(buf_text(&r.body), "nope") == 0, "a no is an answer");
    client_reply_free(&r);
    ok(client_call(c, &post, &r, &err) == 0 && r.status == 201 &&
       strstr(buf_text(&r.body), "Content-Type: text/x\r\n") &&
       strstr(buf_text(&r.body), "Idempotency-Key: k1\r\n") &&
       strstr(buf_text(&r.body), "\r\n\r\nbody") &&
       !strcasestr(buf_text(&r.body), "expect:"),
       "a body with its type and headers, without a question before");
    client_reply_free(&r);
}

static void test_failures(struct client *c)
{
    struct client_request q = { .method = "GET", .path = "/silent",
                                .timeout_ms = 200 };
    const char *bad[] = { "X: a\r\nY: b", NULL };
    struct client_reply r = { 0 };
    struct err err = { 0 };

    ok(get(c, "/nothing", &r) == -ECONNRESET,
       "closed without an answer: it may have been received");
    ok(get(c, "/half", &r) == -ECONNRESET, "closed within the answer");
    ok(client_call(c, &q, &r, &err) == -ETIMEDOUT, "no answer in time");
    q.headers = bad;
    ok(client_call(c, &q, &r, &err) == -EINVAL,
       "a header with a line break is refused");
    ok(get(c, "/hello", &r) == 0, "and the client still works");
    client_reply_free(&r);
}

/* ---- streams ---- */

struct seen {
    struct buf log;
    int stop;
    bool done;
    int rc;
    char thing[32];
};

static void on_head(struct transfer *t, void *arg)
{
    struct seen *s = arg;
    const char *v = transfer_header(t, "x-thing");

    buf_printf(&s->log, "[%d]", transfer_status(t));
    (void) snprintf(s->thing, sizeof s->thing, "%s", v ? v : "none");
}

static int on_bytes(struct transfer *t, const char *p, size_t n, void *arg)
{
    struct seen *s = arg;

    (void) t;
    buf_add(&s->log, p, n);
    return s->stop;
}

static void on_done(struct transfer *t, int rc, const struct err *err,
                    void *arg)
{
    struct seen *s = arg;

    (void) t;
    (void) err;
    s->done = true;
    s->rc = rc;
}

static const struct transfer_ops ops = {
    .head = on_head, .bytes = on_bytes, .done = on_done,
};

static struct transfer *begin(struct client *c, const char *what,
                              struct seen *s)
{
    struct client_request q = { .method = "GET", .path = what };
    struct transfer *t = NULL;
    struct err err;

    s->log.max = 4096;
    if (client_start(c, &q, &ops, s, &t, &err) < 0)
        s->done = true;
    return t;
}

static void finish(struct seen *s)
{
    for (unsigned i = 0; !s->done && i < 2000; i++)
        (void) loop_turn(loop, 10, NULL);
}

static void test_streams(struct client *c)
{
    struct seen a = { 0 }, b = { 0 }, stop = { .stop = -EPIPE };
    struct seen gone = { 0 };
    struct transfer *t;

    (void) begin(c, "/stream", &a);
    (void) begin(c, "/hello", &b);
    ok(!a.done && a.log.len == 0, "nothing is heard from within the start");
    finish(&a);
    finish(&b);
    ok(a.done && a.rc == 0 && strcmp(buf_text(&a.log), "[200]onetwo") == 0,
       "a stream: its head first, then its bytes");
    ok(b.rc == 0 && strcmp(buf_text(&b.log), "[200]hello") == 0 &&
       strcmp(b.thing, "a value") == 0, "another one beside it, with headers");
    (void) begin(c, "/stream", &stop);
    finish(&stop);
    ok(stop.done && stop.rc == -EPIPE &&
       strcmp(buf_text(&stop.log), "[200]one") == 0,
       "the reader can end it with a number of its own");
    t = begin(c, "/silent", &gone);
    (void) loop_turn(loop, 20, NULL);
    transfer_cancel(t);
    transfer_cancel(NULL);
    (void) loop_turn(loop, 20, NULL);
    ok(!gone.done, "a cancelled one is not heard of again");
    buf_free(&a.log);
    buf_free(&b.log);
    buf_free(&stop.log);
    buf_free(&gone.log);
}

static void test_nobody(void)
{
    autofree char *none = mem_printf("%s/none", folder);
    autofree char *deaf = mem_printf("%s/deaf", folder);
    struct client_reply r;
    struct client *c = connect_to(none);
    int fd = listen_at(deaf, false);

    ok(c && get(c, "/", &r) == -ENOENT, "no socket there");
    client_close(c);
    c = connect_to(deaf);
    ok(fd >= 0 && c && get(c, "/", &r) == -ECONNREFUSED,
       "a socket without anybody behind it");
    client_close(c);
    (void) close(fd);
    (void) unlink(deaf);
}

static void test_conf(void)
{
    char longer[200];
    static const struct client_conf bad[] = {
        { .url = "http://127.0.0.1:1" }, { .url = "gpu01:8443" },
        { .url = "https://a", .cert = "c" },
        { .url = "https://a", .token = "a\nb" },
        { .url = "https://a", .token = "" },
    };
    struct client_conf over = { .socket = longer };
    struct client *c = NULL;
    struct err err;

    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    for (size_t i = 0; i < array_size(bad); i++)
        ok(client_open(loop, &bad[i], &c, &err) == -EINVAL && !c,
           "refused: %s", err.text);
    ok(client_open(loop, &over, &c, &err) == -ENAMETOOLONG && !c,
       "a path that no socket can have");
    client_close(NULL);
}

static void test_escape(void)
{
    struct buf b = BUF_INIT(256);

    client_escape(&b, "a-Z_0.~ /?&=%\xc3\xa4");
    ok(strcmp(buf_text(&b), "a-Z_0.~%20%2F%3F%26%3D%25%C3%A4") == 0,
       "what is not plain is escaped");
    buf_free(&b);
}

int main(void)
{
    struct client *c;
    int fd;

    if (!mkdtemp(folder))
        return 1;
    (void) snprintf(path, sizeof path, "%s/sock", folder);
    fd = listen_at(path, true);
    server = fork();
    if (server == 0)
        serve(fd);
    (void) close(fd);
    if (loop_open(&loop, NULL) < 0)
        return 1;
    c = connect_to(path);
    test_calls(c);
    test_failures(c);
    test_streams(c);
    client_close(c);
    test_nobody();
    test_conf();
    test_escape();
    loop_close(loop);
    (void) kill(server, SIGKILL);
    (void) waitpid(server, NULL, 0);
    (void) unlink(path);
    (void) rmdir(folder);
    return tap_done();
}
