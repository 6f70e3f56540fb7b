#include "engine/stream.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int ends[2];
static struct stream a = STREAM_NONE, b = STREAM_NONE;

static void test_put(void)
{
    struct buf out = BUF_INIT(32 * 1024 * 1024);
    struct wire_msg ping = { .kind = WIRE_PING };
    struct wire_msg stop = { .kind = WIRE_STOP,
                             .command = mem_new(FRAME_MAX + 1) };
    struct err err = { 0 };
    size_t len;

    memset(stop.command, 'x', FRAME_MAX);
    ok(stream_put(&out, &ping, 100, NULL) == 0 && out.len > 4, "put");
    len = out.len;
    ok(stream_put(&out, &ping, 2 * len - 1, &err) == -ENOBUFS, "%s",
       err.text);
    ok(stream_put(&out, &stop, out.max, &err) == -EMSGSIZE, "%s", err.text);
    ok(out.len == len && !out.over, "neither left a trace");
    ok(stream_put(&out, &ping, 2 * len, NULL) == 0 && out.len == 2 * len,
       "up to the last byte");
    wire_clear(&stop);
    buf_free(&out);
}

/* More than the socket takes, read in pieces at the other end. */
static void test_pieces(void)
{
    struct buf out = BUF_INIT(32 * 1024 * 1024), in = STREAM_IN_INIT;
    struct wire_msg m = { .kind = WIRE_STOP, .key = { 1, 0, 0 }, .gen = 1,
                          .epoch = 1, .grace_ms = 7,
                          .command = mem_new(50001) };
    unsigned wrote = 0, blocked = 0, got = 0;
    size_t took = 0;

    memset(m.command, 'x', 50000);
    while (wrote < 50 && stream_put(&out, &m, out.max, NULL) == 0)
        wrote++;
    while (got < wrote) {
        struct wire_msg back;
        int rc = stream_write(&a, &out, &took);

        if (rc < 0)
            break;
        blocked += rc == 0;
        while (stream_read(&b, &in, NULL) > 0)
            while (stream_next(&in, &back, NULL) > 0) {
                got += back.grace_ms == 7 && strlen(back.command) == 50000;
                wire_clear(&back);
            }
        if (out.len == 0 && in.len == 0)
            break;
    }
    ok(blocked > 0, "the socket was full %u times", blocked);
    ok(got == 50, "and all of it came (%u)", got);
    ok(stream_read(&b, &in, NULL) == 0, "nothing more for now");
    wire_clear(&m);
    buf_free(&out);
    buf_free(&in);
}

static void test_words(void)
{
    struct buf in = STREAM_IN_INIT;
    struct err err = { 0 };
    struct wire_msg m;

    frame_add(&in, "{\"t\":\"sing\"}", 12);
    frame_add(&in, "{\"t\":\"ping\"}", 12);
    ok(stream_next(&in, &m, &err) == -ENOTSUP, "%s", err.text);
    ok(stream_next(&in, &m, &err) == 1 && m.kind == WIRE_PING,
       "an unknown kind is passed over");
    wire_clear(&m);
    ok(stream_next(&in, &m, &err) == 0 && in.len == 0, "and that was all");
    frame_add(&in, "{\"t\":\"ack\"}", 11);
    ok(stream_next(&in, &m, &err) == -EPROTO, "no sense: %s", err.text);
    buf_free(&in);
}

static void test_end(void)
{
    struct buf in = STREAM_IN_INIT, out = BUF_INIT(4096);
    struct wire_msg ping = { .kind = WIRE_PING };
    struct err err = { 0 };

    stream_close(&a);
    ok(stream_read(&b, &in, &err) == -EPIPE, "%s", err.text);
    ok(stream_put(&out, &ping, out.max, NULL) == 0 &&
       stream_write(&b, &out, NULL) == -EPIPE && out.len > 0,
       "nobody to write to");
    stream_close(&b);
    stream_close(&b);
    ok(b.fd == -1, "closed twice is closed");
    buf_free(&out);
}

int main(void)
{
    ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "pair");
    a.fd = ends[0];
    b.fd = ends[1];
    test_put();
    test_pieces();
    test_words();
    test_end();
    return tap_done();
}
