/* api_server - the API over a test_service, for tests in other languages.
 *
 *     api_server FOLDER [LISTEN CERT KEY [CA]]
 *
 * The socket is FOLDER/sock, the store FOLDER/store.db.  Each line on standard
 * input is a line of test_service's script, answered with "ok" or with what
 * was wrong; the end of the input ends the program.  "ready" is the first line
 * that it says; "openapi" prints that document on a line; "later MS" lets so
 * much time pass in the loop.  "drain" and "stop" are what their names say.
 */
#include "api/api.h"
#include "api/test_service.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/mem.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct server {
    struct loop *loop;
    struct test_service *service;
    struct api *api;
    struct buf in;
    uint64_t later_ms;
};

static uint64_t now_ms(void *arg)
{
    return clock_mono_ms() + ((struct server *) arg)->later_ms;
}

static void say(const char *text)
{
    (void) printf("%s\n", text);
    (void) fflush(stdout);
}

static void on_line(struct server *s, const char *line)
{
    struct err err = { 0 };

    if (strcmp(line, "stop") == 0) {
        loop_stop(s->loop);
    } else if (strcmp(line, "openapi") == 0) {
        say(api_openapi());
    } else if (strncmp(line, "later ", 6) == 0) {
        s->later_ms += strtoull(line + 6, NULL, 10);
        say("ok");
    } else if (strcmp(line, "drain") == 0) {
        api_drain(s->api);
        say("ok");
    } else if (test_service_do(s->service, line, &err) < 0) {
        say(err.text);
    } else {
        say("ok");
    }
}

static void on_input(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct server *s = arg;
    char piece[4096], *end;
    ssize_t n = read(fd, piece, sizeof piece);

    (void) ready;
    if (n <= 0) {
        watch_remove(w);
        loop_stop(s->loop);
        return;
    }
    (void) buf_add(&s->in, piece, (size_t) n);
    while (s->in.len && (end = memchr(s->in.data, '\n', s->in.len))) {
        size_t len = (size_t) (end - s->in.data);
        autofree char *line = mem_strn(s->in.data, len);

        buf_drop(&s->in, len + 1);
        on_line(s, line);
    }
}

static int serve(struct server *s, int argc, char **argv, struct err *err)
{
    autofree char *path = mem_printf("%s/sock", argv[1]);
    struct api_conf conf = {
        .socket = path, .socket_mode = 0666,
        .listen = argc > 2 ? argv[2] : NULL,
        .tls_cert = argc > 3 ? argv[3] : NULL,
        .tls_key = argc > 4 ? argv[4] : NULL,
        .tls_client_ca = argc > 5 ? argv[5] : NULL,
    };
    struct service service;
    struct watch *w;
    int rc = loop_open(&s->loop, err);

    if (!rc)
        loop_set_clock(s->loop, now_ms, s);
    if (!rc)
        rc = test_service_open(s->loop, argv[1], &s->service, err);
    if (rc)
        return rc;
    service = test_service_get(s->service);
    rc = api_open(s->loop, &conf, &service, &s->api, err);
    if (!rc)
        rc = loop_fd(s->loop, 0, LOOP_READ, on_input, s, &w, err);
    if (rc)
        return rc;
    test_service_attach(s->service, s->api);
    say("ready");
    return loop_run(s->loop, err);
}

int main(int argc, char **argv)
{
    struct server s = { .in = BUF_INIT(1024 * 1024) };
    struct err err = { 0 };
    int rc;

    if (argc < 2) {
        (void) fprintf(stderr, "usage: %s FOLDER [LISTEN CERT KEY [CA]]\n",
                       argv[0]);
        return 2;
    }
    (void) signal(SIGPIPE, SIG_IGN);
    rc = serve(&s, argc, argv, &err);
    if (rc)
        (void) fprintf(stderr, "%s\n", err.text);
    if (s.service)
        test_service_attach(s.service, NULL);
    api_close(s.api);
    test_service_close(s.service);
    loop_close(s.loop);
    buf_free(&s.in);
    return rc ? 1 : 0;
}
