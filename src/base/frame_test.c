#include "base/frame.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

static void test_round(void)
{
    autobuf struct buf b = BUF_INIT(1000);
    const char *body = NULL;
    size_t len = 0;

    ok(frame_next(&b, &body, &len, NULL) == 0, "nothing is no frame");
    frame_add(&b, "{}", 2);
    frame_add(&b, "{\"a\":1}", 7);
    ok(b.len == 4 + 2 + 4 + 7 &&
       memcmp(b.data, "\x02\0\0\0{}\x07\0\0\0{", 11) == 0,
       "the length is little-endian and in front");
    ok(frame_next(&b, &body, &len, NULL) == 1 && len == 2 &&
       memcmp(body, "{}", 2) == 0, "the first frame is found");
    buf_drop(&b, len + 4);
    ok(frame_next(&b, &body, &len, NULL) == 1 && len == 7 &&
       memcmp(body, "{\"a\":1}", 7) == 0, "then the second");
    buf_drop(&b, len + 4);
    ok(frame_next(&b, &body, &len, NULL) == 0, "then none");
}

static void test_piecewise(void)
{
    autobuf struct buf whole = BUF_INIT(1000), part = BUF_INIT(1000);
    const char *body = NULL;
    size_t len = 99;
    bool early = false;

    frame_add(&whole, "hello", 5);
    for (size_t i = 0; i < whole.len; i++) {
        early = early || frame_next(&part, &body, &len, NULL) != 0;
        (void) buf_char(&part, whole.data[i]);
    }
    ok(!early && body == NULL && len == 99,
       "part of a frame is no frame, and nothing is set");
    ok(frame_next(&part, &body, &len, NULL) == 1 && len == 5,
       "the last byte completes it");
}

static int next_of(size_t max, const char *head)
{
    autobuf struct buf b = BUF_INIT(max);
    struct err err = { 0 };
    const char *body = NULL;
    size_t len = 0;
    int rc;

    (void) buf_add(&b, head, 4);
    rc = frame_next(&b, &body, &len, &err);
    return rc < 0 && (!err.text[0] || body || len) ? -1000 : rc;
}

static void test_refused(void)
{
    const size_t room = (size_t) FRAME_MAX * 2;

    ok(next_of(room, "\0\0\0\0") == -EPROTO, "a frame of no bytes is refused");
    ok(next_of(room, "\x01\0\0\x01") == -EMSGSIZE,
       "one byte past the maximum is refused by its head alone");
    ok(next_of(room, "\xff\xff\xff\xff") == -EMSGSIZE, "4 GiB is refused");
    ok(next_of(room, "\0\0\0\x01") == 0, "the maximum is waited for");
    ok(next_of(100, "\x61\0\0\0") == -EMSGSIZE,
       "what the buffer could never hold is refused");
    ok(next_of(100, "\x60\0\0\0") == 0, "what it can is waited for");
}

static void test_whole_or_not(void)
{
    autobuf struct buf b = BUF_INIT(16), big = BUF_INIT((size_t) FRAME_MAX * 2);
    autofree char *much = mem_new((size_t) FRAME_MAX + 1);

    frame_add(&b, "0123456789ab", 12);
    ok(b.len == 16 && !b.over, "a frame that just fits is added");
    buf_clear(&b);
    frame_add(&b, "0123456789abc", 13);
    ok(b.len == 0 && b.over, "one that does not leaves no half");
    buf_clear(&b);
    frame_add(&b, "", 0);
    ok(b.len == 0 && b.over, "an empty one is not sent");
    frame_add(&big, much, (size_t) FRAME_MAX + 1);
    ok(big.len == 0 && big.over, "one past the maximum is not sent");
    buf_clear(&big);
    frame_add(&big, much, FRAME_MAX);
    ok(big.len == (size_t) FRAME_MAX + 4 && !big.over, "the maximum is");
}

int main(void)
{
    test_round();
    test_piecewise();
    test_refused();
    test_whole_or_not();
    return tap_done();
}
